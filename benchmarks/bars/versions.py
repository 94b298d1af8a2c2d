"""This code beside that of an earlier commit: two processes that run the same script, each with its own knotwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["answer", "both_versions"]

ROOT = Path(__file__).resolve().parents[2]
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
SERVE = "serve"


@contextmanager
def both_versions(commit: str, script: str) -> Iterator[Callable[[Any], tuple[Any, Any]]]:
    """A function that asks the commit, which is checked out beside, and then this code; both answer on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "-f", folder, commit], check=True)
        try:
            servers = [
                subprocess.Popen(
                    [sys.executable, script, SERVE],
                    env=os.environ | ONE_THREAD | {"PYTHONPATH": str(Path(tree) / "src")},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for tree in (folder, ROOT)
            ]

            def ask(question: Any) -> tuple[Any, Any]:
                before, now = (_asked(server, question) for server in servers)
                return before, now

            yield ask
            for server in servers:
                server.communicate()
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", folder], check=True)


def _asked(server: subprocess.Popen[str], question: Any) -> Any:
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(question) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def answer(reply: Callable[[Any], Any]) -> bool:
    """Whether this process was started to answer; then it has answered what was asked, on one thread."""
    if sys.argv[1:] != [SERVE]:
        return False
    import warnings

    from knotwise.numerics.blocks import single_threaded_blas

    warnings.simplefilter("ignore")
    with single_threaded_blas():
        for line in sys.stdin:
            print(json.dumps(reply(json.loads(line))), flush=True)
    return True
