"""Where a line of text can be shown and changed: a terminal, a notebook, or, one below the other, a file."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

__all__ = ["Log", "Notebook", "Screen", "Terminal", "screen_for"]


class Screen(Protocol):
    """Somewhere to draw one line; `live` says whether it can be drawn again and erased."""

    live: bool

    def draw(self, text: str) -> None: ...

    def erase(self) -> None: ...


class Terminal:
    """A line that is written over, with a carriage return alone, which every terminal understands."""

    live = True

    def __init__(self, stream: Any) -> None:
        self.stream, self._length = stream, 0

    def draw(self, text: str) -> None:
        space = self._width() - 1  # a line that wraps cannot be written over, and half a number is wrong
        if len(text) > space:
            text = text[:space].rpartition(" | ")[0] or text[:space]
        self.stream.write(f"\r{text.ljust(self._length)}")
        self.stream.flush()
        self._length = len(text)

    def erase(self) -> None:
        if self._length:
            self.stream.write(f"\r{' ' * self._length}\r")
            self.stream.flush()
            self._length = 0

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 80
        except (OSError, AttributeError, ValueError):
            return 80


class Notebook:
    """A display of its own below the cell, which is changed in place."""

    live = True

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, text: str) -> None:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        if self._handle is None:
            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)

    def erase(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


class Log:
    """A file, or a pipe: lines below each other."""

    live = False

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def draw(self, text: str) -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def erase(self) -> None:
        """What is written stays."""


def screen_for(show: bool | str) -> Screen | None:
    """Where to show progress: nowhere for False and, with "auto", for what is no terminal and no notebook."""
    if not show or sys.stderr is None or (show == "auto" and _is_worker()):
        return None
    if _is_notebook():
        return Notebook()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return Terminal(sys.stderr)
    return None if show == "auto" else Log(sys.stderr)


def _is_notebook() -> bool:
    """Whether a Jupyter kernel runs this process; nothing is imported to find out."""
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None


def _is_worker() -> bool:
    """Whether this process works for another, as in a parallel grid search: its lines would mix with others."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and multiprocessing.current_process().name != "MainProcess"
