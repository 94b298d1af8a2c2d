"""What is seen while experiments run: a live bar in a terminal, a few lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from knotwise_reproduction.experiments import Job
from knotwise_reproduction.runs import Finished

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Display", "Estimate", "duration"]

LINES = 5  # where the output is piped


class Estimate:
    """Guesses how long the rest will take, from the same method at other seeds, or from all that is done."""

    def __init__(self, jobs: Sequence[Job], n_workers: int) -> None:
        self.left, self.n_workers = list(jobs), n_workers
        self.seen: dict[Job, list[float]] = {}  # by the job of seed 0

    def finished(self, job: Job, seconds: float) -> None:
        self.left.remove(job)
        self.seen.setdefault(replace(job, seed=0), []).append(seconds)

    def seconds_left(self) -> float | None:
        """None before anything is known."""
        if not self.seen:
            return None
        other = fmean(seconds for values in self.seen.values() for seconds in values)
        guesses = (self.seen.get(replace(job, seed=0)) for job in self.left)
        return sum(median(guess) if guess else other for guess in guesses) / self.n_workers


class Display:
    """Shows how many jobs are done, which are running, the time, and what is left."""

    def __init__(self, console: Console, jobs: Sequence[Job], n_workers: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.console, self.total = console, len(jobs)
        self.estimate = Estimate(jobs, n_workers)
        self.running: dict[Job, float] = {}
        self.started_at, self.done = time.perf_counter(), 0
        self.bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task("", total=self.total, left="")

    def __enter__(self) -> Display:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def started(self, job: Job) -> None:
        self.running[job] = time.perf_counter()
        self._show()

    def finished(self, job: Job, done: Finished) -> None:
        self.estimate.finished(job, time.perf_counter() - self.running.pop(job))
        self.done += 1
        self._show()
        if not self.console.is_terminal and self.done * LINES // self.total > (self.done - 1) * LINES // self.total:
            elapsed = duration(time.perf_counter() - self.started_at)
            self.console.print(f"{self.done} of {self.total} fits done, {elapsed}", markup=False)

    def _show(self) -> None:
        left = self.estimate.seconds_left()
        self.bar.update(
            self.task,
            completed=self.done,
            left="" if left is None else f"about {duration(left)} left",
            description="; ".join(str(job) for job in self.running),
            refresh=True,
        )


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
