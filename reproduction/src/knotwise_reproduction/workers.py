"""Worker processes: each fits on one thread, hands its result back, and leaves when its parent does."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing import connection, get_context, parent_process
from typing import Protocol

from knotwise.errors import KnotwiseError
from knotwise_reproduction.experiments import Job
from knotwise_reproduction.runs import Finished, run
from knotwise_reproduction.store import RowStore

__all__ = ["Watcher", "run_jobs"]


class Watcher(Protocol):
    """Who wants to know what is running."""

    def started(self, job: Job) -> None: ...

    def finished(self, job: Job, done: Finished) -> None: ...


def run_jobs(jobs: Sequence[Job], store: RowStore, n_workers: int, watcher: Watcher) -> None:
    """Run every job, several at a time, and keep each row as soon as it is there.

    A job waits for the exact GP with which it is compared, if that is among the jobs.
    """
    waiting, running = deque(jobs), set[Job]()
    with Workers(min(n_workers, len(jobs))) as workers:
        while waiting or running:
            while workers.free and (job := _next(waiting, running)) is not None:
                waiting.remove(job)
                running.add(job)
                watcher.started(job)
                workers.give(job, store)
            for job, done in workers.results():
                running.remove(job)
                store.add(done.row, done.prediction)
                watcher.finished(job, done)


def _next(waiting: deque[Job], running: set[Job]) -> Job | None:
    """The first job whose exact GP is neither under way nor still to come."""
    to_come = running | set(waiting)
    return next((job for job in waiting if job.exact not in to_come), None)


class Workers:
    """Some processes, each with a pipe; with one worker the work is done here, without a process."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self.here: list[tuple[Job, Finished]] = []
        self.busy: dict[connection.Connection, Job] = {}
        self.idle: list[connection.Connection] = []
        self.processes = []
        context = get_context("spawn")  # a fork would copy locks that other threads hold
        for _ in range(n_workers if n_workers > 1 else 0):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()  # the worker has its own copy, and with ours open its end would go unnoticed
            self.processes.append(process)
            self.idle.append(ours)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join()

    @property
    def free(self) -> bool:
        return bool(self.idle) if self.processes else not self.here

    def give(self, job: Job, store: RowStore) -> None:
        """Start a job on a free worker."""
        exact = store.prediction(job.exact)
        if not self.processes:
            self.here.append((job, run(job, exact)))
            return
        pipe = self.idle.pop()
        pipe.send((job, exact))
        self.busy[pipe] = job

    def results(self) -> Iterator[tuple[Job, Finished]]:
        """Wait for at least one job to finish; yield those that have."""
        if not self.processes:
            yield self.here.pop()
            return
        for pipe in connection.wait(list(self.busy)):
            assert isinstance(pipe, connection.Connection)
            job = self.busy.pop(pipe)
            try:
                done = pipe.recv()
            except EOFError:
                raise KnotwiseError(
                    f"The process that ran {job} was ended, perhaps for want of memory. What was finished is kept: "
                    "start again to go on, with `--jobs 1` to use less memory."
                ) from None
            if isinstance(done, BaseException):
                raise done
            self.idle.append(pipe)
            yield job, done


def _work(pipe: connection.Connection) -> None:
    """Run what comes through the pipe, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends us
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        try:
            job, exact = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(run(job, exact))
        except Exception as error:
            pipe.send(error)


def _leave_with_parent() -> None:
    """End this process, whatever it is doing, when the parent is no more."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
