"""Rows of bars: one line of JSON each, with the commit that was measured."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["append_row", "commit", "print_claims"]


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Append a row to a file, with the commit in front."""
    with path.open("a") as out:
        out.write(json.dumps({"commit": commit()} | row) + "\n")


def print_claims(claims: dict[str, bool]) -> None:
    """Say which claims hold."""
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD':13}  {claim}", flush=True)


def commit() -> str:
    """The short name of the commit that is measured."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout.strip()
