"""What a fit shows while it runs: a live line for people, events for a callback and for the log."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from knotwise.checkpoint.digest import digest
from knotwise.checkpoint.journal import Journal
from knotwise.errors import InvalidInputError
from knotwise.screen import Screen, screen_for
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotStep
from knotwise.version import __version__

__all__ = ["FitEvent", "FitObserver", "LiveLine", "Progress", "RunContext"]

DELAY, PERIOD = 2.0, 0.25  # seconds until the line appears, and between two drawings

LOG = logging.getLogger("knotwise")

#: one line at a time: of fits in several threads, the first shows its own
_shown = threading.Lock()


@dataclass(frozen=True)
class FitEvent:
    """One step of a fit, in the user's units, as a `callback` gets it.

    Parameters
    ----------
    action : str
        What was done, as in `trace_`: "parameters", "move", "add", ...; "fitted" is the last event of a model.
    n_knots, n_rows : int
        Knots after the step, and rows of the data that it saw, with their sample weights (perhaps a fraction).
    log_evidence : float
        Log evidence of these rows; NaN for "signal", where models with and without inputs are compared.
    share, residual_information : float, default nan
        Unexplained share of the variance (relative residual variance), NaN where the step does not tell.
    seconds : float, default 0.0
        Since the call of `fit`.
    note : str, default ""
        The reason, in words.
    label : str, default ""
        The class that the model is for, where a classifier fits several.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> seen = []
    >>> gp = GPRegressor(knots=4, random_state=0, callback=seen.append).fit(X, np.sin(6 * X[:, 0]))
    >>> seen[-1].action, seen[-1].n_knots
    ('fitted', 4)
    """

    action: str
    n_knots: int
    n_rows: int | float
    log_evidence: float
    share: float = np.nan
    residual_information: float = np.nan
    seconds: float = 0.0
    note: str = ""
    label: str = ""

    def __str__(self) -> str:
        pieces = [  # the most important first: a narrow terminal shows the beginning
            _duration(self.seconds),
            self.label,
            self.action,
            f"{self.n_knots} knots" if self.n_knots else f"exact GP on {self.n_rows:,} rows",
            "" if np.isnan(self.log_evidence) else f"log evidence {self.log_evidence:,.1f}",
            "" if np.isnan(self.share) else f"share {self.share:.2g}",
            "" if np.isnan(self.residual_information) else f"residual {self.residual_information:.2g}",
        ]
        return " | ".join(filter(None, pieces))


class Progress:
    """The line, the log and the callback of one call of `fit`; the line lives while the context is open.

    Each step goes to the logger "knotwise" as INFO, with the `FitEvent` as `record.event`, and each evaluation as
    DEBUG, whatever is shown.

    `show` is "auto" (a line in terminals and notebooks, when two seconds have passed), True (from the beginning, and
    where the output is piped one line of text per step) or False.
    """

    def __init__(
        self,
        show: Any = "auto",
        callback: Callable[[FitEvent], Any] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not (isinstance(show, bool | np.bool_) or (isinstance(show, str) and show == "auto")):
            raise InvalidInputError(f"`progress` is {show!r}; it must be 'auto', True or False.")
        if callback is not None and not callable(callback):
            raise InvalidInputError(f"`callback` is {callback!r}; it must be a function of one argument, or None.")
        self.callback, self.clock, self.started = callback, clock, clock()
        screen = screen_for(show if isinstance(show, str) else bool(show))
        self.piped = screen if screen is not None and not screen.live else None
        delay = DELAY if isinstance(show, str) else 0.0
        self.line = LiveLine(screen, self.text, delay) if screen is not None and screen.live else None
        self.latest: FitEvent | None = None

    def __enter__(self) -> Progress:
        if self.line is not None and _shown.acquire(blocking=False):
            self.line.start()
        else:
            self.line = None
        return self

    def __exit__(self, *exception: object) -> None:
        if self.line is not None:
            self.line.stop()
            _shown.release()

    @property
    def seconds(self) -> float:
        return self.clock() - self.started

    def text(self) -> str:
        """The line as it should read now."""
        if self.latest is None:
            return f"knotwise {_duration(self.seconds)}"
        return f"knotwise {replace(self.latest, seconds=self.seconds)}"

    def tell(self, event: FitEvent) -> None:
        """Show and log an event and hand it to the callback; what the callback raises ends the fit."""
        self.latest = event
        if self.piped is not None:
            with contextlib.suppress(OSError, ValueError):  # a pipe that was closed
                self.piped.draw(f"knotwise {event}")
        self._log(logging.INFO, event)
        if self.callback is not None:
            with self.line.hidden() if self.line is not None else contextlib.nullcontext():
                self.callback(event)

    def evaluated(self, event: FitEvent) -> None:
        """Let the line show an evaluation at its next drawing, and log it."""
        self.latest = event
        self._log(logging.DEBUG, event)

    def wants_evaluations(self) -> bool:
        """Whether somebody looks at single evaluations."""
        return self.line is not None or LOG.isEnabledFor(logging.DEBUG)

    def _log(self, level: int, event: FitEvent) -> None:
        if LOG.isEnabledFor(level):
            with self.line.hidden() if self.line is not None else contextlib.nullcontext():
                why = f" | {event.note}" if event.note else ""
                LOG.log(level, "%s%s", event, why, extra={"event": event})


class FitObserver:
    """Follows the fit of one model and reports to its progress, in the user's units.

    `shift` is what each row adds to the log evidence by the change of units.
    """

    def __init__(self, progress: Progress, n_rows: int | float, shift: float, label: str = "") -> None:
        self.progress, self.n_rows, self.shift, self.label = progress, n_rows, shift, label
        self.last = self.now = FitEvent("start", 0, n_rows, np.nan, label=label)

    def tick(self, n_knots: int, value: float, n_rows: int | float) -> None:
        if self.progress.wants_evaluations():
            now = replace(self.now, n_knots=n_knots, n_rows=n_rows, log_evidence=value + self.shift * n_rows)
            self.progress.evaluated(replace(now, seconds=self.progress.seconds, note=""))

    def step(self, step: KnotStep) -> None:
        self._tell(
            action=str(step.action),
            n_knots=step.n_knots,
            n_rows=step.n_rows or self.n_rows,
            log_evidence=np.nan if step.facts.compares_with_null else step.evidence_in_units(self.n_rows, self.shift),
            share=step.share,
            residual_information=step.residual_information,
            note=step.note,
        )

    def fitted(self, n_knots: int, log_evidence: float, note: str) -> None:
        """The end of the fit, with its log evidence in the user's units."""
        self._tell(action="fitted", n_knots=n_knots, n_rows=self.n_rows, log_evidence=log_evidence, note=note)

    def _tell(self, **changes: Any) -> None:
        self.last = replace(self.last, **changes, seconds=self.progress.seconds)
        self.now = replace(self.last, action=f"after {self.last.action}")
        self.progress.tell(self.last)


class LiveLine:
    """One line that a thread of its own draws a few times a second, after a delay, and that is erased at the end.

    A thread, because one evaluation of the evidence can take long, and the time should go on.
    """

    def __init__(self, screen: Screen, text: Callable[[], str], delay: float) -> None:
        self.screen, self.text, self.delay = screen, text, delay
        self._ended, self._drawing = threading.Event(), threading.Lock()
        self._thread = threading.Thread(
            target=self.run, args=(self._ended.wait,), daemon=True, name="knotwise-progress"
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def run(self, wait: Callable[[float], bool]) -> None:
        """Draw until `wait`, which sleeps for so many seconds, says that the fit has ended; then erase."""
        try:
            ended = wait(self.delay)
            while not ended:
                with self._drawing:
                    self.screen.draw(self.text())
                ended = wait(PERIOD)
            self.screen.erase()
        except Exception:  # a screen that went away is no reason to disturb a fit
            return

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Keep the line away, so that others can print."""
        with self._drawing:
            with contextlib.suppress(Exception):
                self.screen.erase()
            yield


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


#: a fit gives the same result whatever these settings are
WITHOUT_EFFECT_ON_RESULT = {"n_jobs", "progress", "callback", "checkpoint"}


@dataclass
class RunContext:
    """Run context of a fit: progress, callback and checkpoints; it is left when the fit is.

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
    def of(estimator: Any) -> RunContext:
        """Oversee a fit as the settings of an estimator ask for it."""
        seeded = isinstance(estimator.random_state, int | np.integer)
        progress = Progress(estimator.progress, estimator.callback)
        return RunContext(progress, _folder(estimator.checkpoint), seeded=seeded)

    def __enter__(self) -> RunContext:
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

    def part(self, number: int, label: str) -> RunContext:
        """The same for one of several models."""
        journal = None if self.journal is None else self.journal.part(f"model{number}")
        return replace(self, journal=journal, label=label, is_part=True)

    def attach(self, problem: Problem, shift: float, rng: np.random.Generator) -> tuple[Problem, FitObserver]:
        """Let the problem report and keep its steps; a fit that goes on takes the random numbers that it began with."""
        observer = FitObserver(self.progress, problem.summary.count, shift, self.label)
        if self.journal is not None:
            self.journal.begin(rng, seeded=self.seeded)
        run = replace(problem.run, journal=self.journal, observer=observer)
        return replace(problem, run=run), observer

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
