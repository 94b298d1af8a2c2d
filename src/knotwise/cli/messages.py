"""What is said beside the result: on stderr, so that stdout stays clean."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from knotwise.cli.command import in_options

__all__ = ["note", "print_json", "warnings_as_notes"]


def note(text: object) -> None:
    """Say something on stderr, in one line."""
    print("knotwise:", " ".join(str(text).split()), file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[list[str]]:
    """Turn warnings for the user into notes, and collect them; that about column names, which we match, is left out."""
    told: list[str] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Any, category: type[Warning], *others: Any, **options: Any) -> None:
            if not issubclass(category, UserWarning):
                show(message, category, *others, **options)
            elif str(message) not in told:
                told.append(str(message))
                note(f"warning: {in_options(str(message))}")

        warnings.showwarning = tell
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield told


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout; what is not finite becomes null."""
    print(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
