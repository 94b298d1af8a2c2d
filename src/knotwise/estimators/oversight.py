"""What one call of `fit` shows, tells and keeps: the live line, the callback, and the checkpoints."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from knotwise.checkpoint.digest import digest
from knotwise.checkpoint.journal import Journal
from knotwise.errors import InvalidInputError
from knotwise.progress import Progress, Watcher
from knotwise.selection.problem import Problem
from knotwise.version import __version__

__all__ = ["Oversight"]

#: a fit gives the same result whatever these settings are
WITHOUT_EFFECT_ON_RESULT = {"n_jobs", "progress", "callback", "checkpoint"}


@dataclass
class Oversight:
    """Accompanies a fit; a context that is left when the fit is.

    The state of a fit that was interrupted stays on disk; that of a finished one is removed by `finish`. A classifier
    oversees the fits of its models, `part` by part, and keeps all their states until the last is finished.
    """

    progress: Progress
    folder: Path | None
    journal: Journal | None = None
    label: str = ""
    is_part: bool = False
    seeded: bool = False

    @staticmethod
    def of(estimator: Any) -> Oversight:
        """Oversee a fit as the settings of an estimator ask for it."""
        seeded = isinstance(estimator.random_state, int | np.integer)
        progress = Progress(estimator.progress, estimator.callback)
        return Oversight(progress, _folder(estimator.checkpoint), seeded=seeded)

    def __enter__(self) -> Oversight:
        if not self.is_part:
            self.progress.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.is_part:
            self.progress.__exit__(*exception)

    def open_journal(self, estimator: Any, *data: Any) -> None:
        """Find the state of this very fit: the same data, settings and versions; another fit has another folder."""
        if self.folder is None or self.is_part:
            return
        settings = {
            name: value for name, value in estimator.get_params(False).items() if name not in WITHOUT_EFFECT_ON_RESULT
        }
        versions = (__version__, np.__version__, scipy.__version__)
        self.journal = Journal(self.folder / digest(type(estimator).__name__, settings, versions, *data)[:32])

    def part(self, number: int, label: str) -> Oversight:
        """The same for one of several models."""
        journal = None if self.journal is None else self.journal.part(f"model{number}")
        return replace(self, journal=journal, label=label, is_part=True)

    def attach(self, problem: Problem, shift: float, rng: np.random.Generator) -> tuple[Problem, Watcher]:
        """Let the problem report and keep its steps; a fit that goes on takes the random numbers that it began with."""
        watcher = Watcher(self.progress, problem.summary.count, shift, self.label)
        if self.journal is not None:
            self.journal.begin(rng, seeded=self.seeded)
        run = replace(problem.run, journal=self.journal, watch=watcher)
        return replace(problem, run=run), watcher

    def finish(self) -> None:
        """The fit is complete: its state is not needed any more."""
        if self.journal is not None and not self.is_part:
            self.journal.remove()


def _folder(checkpoint: Any) -> Path | None:
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | os.PathLike) or not str(checkpoint):
        raise InvalidInputError(f"`checkpoint` is {checkpoint!r}; it must be the name of a folder, or None.")
    return Path(checkpoint)
