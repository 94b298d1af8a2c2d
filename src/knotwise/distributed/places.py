"""Where Dask computes: on the workers of a client, or on threads of this process."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from knotwise.errors import KnotwiseError, WorkersLostError, warn
from knotwise.numerics.blocks import Executor, executor_for

LARGE = "distributed.admin.large-graph-warning-threshold"
MOST_NAMED = 10  # partitions that an error lists
WHAT_TO_DO = (
    "Make the partitions smaller (`X.rechunk(...)`, `frame.repartition(...)`), give each worker more memory or fewer "
    "threads, or ask for fewer knots."
)
PATIENCE = 60.0  # seconds without an end of the tasks, after which it is asked whether any worker is at work


class Place(Protocol):
    """Computes lazy values, holds some of them, and asks those that it holds."""

    @property
    def n_groups(self) -> int | None:
        """Among how many tasks the work of a pass is shared out; None for one per partition."""

    def compute(self, lazy: Sequence[Any], partitions: Sequence[int] | None = None) -> list[Any]:
        """Lazy values as they are; each is made of the partition with this number, or None: with its own."""

    def hold(self, lazy: Sequence[Any], partitions: Sequence[Sequence[int]]) -> list[Any]:
        """Lazy values as something that can be asked; they stay where they are computed, of these partitions each."""

    def ask(self, held: Sequence[Any], name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call the method `name` of each value that is held, with its own arguments."""


def place_for(executor: Executor) -> Place:
    """The workers of the active `distributed.Client`, or the threads of this process."""
    distributed = sys.modules.get("distributed")  # without which there is no client
    if distributed is None:
        return Here(executor)
    try:
        return Cluster(distributed.default_client())
    except ValueError:
        return Here(executor)


@dataclass(frozen=True)
class Here:
    """This process: Dask's threads read the rows, and those of the executor make the passes."""

    executor: Executor
    n_groups: None = None

    def compute(self, lazy: Sequence[Any], partitions: Sequence[int] | None = None) -> list[Any]:
        import dask

        try:
            return list(dask.compute(*lazy, scheduler="threads"))
        except ValueError as error:
            if not str(error).startswith("Missing dependency"):
                raise
            raise WorkersLostError(  # Dask's name of a task would tell nobody anything
                "The rows were persisted at the workers of a client that is no longer there, and Dask cannot make them "
                "again without it. Make the collection anew, or open the client again and persist it there."
            ) from error

    def hold(self, lazy: Sequence[Any], partitions: Sequence[Sequence[int]]) -> list[Any]:
        return self.compute(lazy)

    def ask(self, held: Sequence[Any], name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        def call(item: tuple[Any, tuple[Any, ...]]) -> Any:
            return getattr(item[0], name)(*item[1])

        return list(self.executor.map(call, list(zip(held, arguments, strict=True))))


@dataclass(frozen=True)
class Cluster:
    """The workers of a client. Whatever a lost worker held is computed again by the tasks that made it."""

    client: Any

    @property
    def n_groups(self) -> int:
        """The threads of all workers: few tasks that are large cost the scheduler least."""
        return sum(self._threads().values())

    def compute(self, lazy: Sequence[Any], partitions: Sequence[int] | None = None) -> list[Any]:
        numbers = range(len(lazy)) if partitions is None else partitions
        return self._gather(self.client.compute(list(lazy)), [(number,) for number in numbers])

    def hold(self, lazy: Sequence[Any], partitions: Sequence[Sequence[int]]) -> list[Any]:
        """Each value with the worker that has it, and its partitions. Another worker takes over where that is lost.

        No worker gets more values than it has threads, so that none waits, and none of its tasks is stolen: the
        per-block caches do not move with the rows.
        """
        slots = self._slots()
        homes = [slots[i % len(slots)] for i in range(len(lazy))]
        return [
            (self.client.compute(each, workers=[home], allow_other_workers=True), home, numbers)
            for each, home, numbers in zip(lazy, homes, partitions, strict=True)
        ]

    def ask(self, held: Sequence[Any], name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        import dask
        from distributed.protocol.pickle import dumps

        requests: dict[int, bytes] = {}
        for own in arguments:  # most passes are the same for all
            if id(own) not in requests:
                requests[id(own)] = dumps((name, own, np.geterr()))
        there = {"pure": False, "allow_other_workers": True}
        with dask.config.set({LARGE: "1GB"}):  # Dask would advise to load data otherwise, and these are no data
            answers = [
                self.client.submit(_answer, future, requests[id(own)], workers=[home], **there)
                for (future, home, _), own in zip(held, arguments, strict=True)
            ]
        answers = self._gather(answers, [numbers for _, _, numbers in held])
        _forget_messages(self.client)
        for answer in answers:
            if isinstance(answer, KnotwiseError):
                raise answer
        return answers

    def _slots(self) -> list[str]:
        """The address of a worker for each of its threads; all workers once, then those with more threads again."""
        threads = self._threads()
        return [worker for k in range(max(threads.values())) for worker in sorted(threads) if threads[worker] > k]

    def _threads(self) -> dict[str, int]:
        if not self.client.nthreads():
            self.client.wait_for_workers(1)
        return self.client.nthreads()

    def _gather(self, futures: list[Any], partitions: Sequence[Sequence[int]]) -> list[Any]:
        """The results of tasks on these partitions each."""
        from distributed import KilledWorker

        try:
            self._wait(futures)
            return self.client.gather(futures)
        except (KilledWorker, MemoryError) as error:
            failed = [i for i, future in enumerate(futures) if future.status == "error"]
            numbers = sorted({number for i in failed for number in partitions[i]})
            what = "died several times" if isinstance(error, KilledWorker) else "ran out of memory"
            raise WorkersLostError(
                f"Dask's workers {what} at the same task, on {_named(numbers)}. Most likely a partition and the few "
                f"copies of it that a task needs do not fit in the memory of a worker. {WHAT_TO_DO} Dask says: {error}",
                numbers,
            ) from error

    def _wait(self, futures: list[Any]) -> None:
        """Wait for the end of tasks, as long as there are workers that can work on them, or may come."""
        from distributed import wait

        paused = False
        while True:
            try:
                wait(futures, timeout=PATIENCE)
                return
            except TimeoutError:
                statuses = self._statuses()
            if not statuses:
                warn("Dask has no worker at present. The fit waits for one; start one, or interrupt it.")
            elif paused and statuses == {"paused"}:
                raise WorkersLostError(
                    "All of Dask's workers have paused, because their memory is nearly full, and none can go on. "
                    f"{WHAT_TO_DO}"
                )
            paused = statuses == {"paused"}

    def _statuses(self) -> set[str]:
        """What the workers are doing."""
        try:
            known = self.client.scheduler_info(n_workers=-1)
        except TypeError:  # older versions of Dask always name all of them
            known = self.client.scheduler_info()
        return {worker["status"] for worker in known["workers"].values()}


def _forget_messages(client: Any) -> None:
    """Clear what Dask keeps in this process of the messages that it sent.

    It keeps the last thousand of every connection for its developers. With a request of each pass in them, they would
    need more memory than all else at the driver.
    """
    scheduler = getattr(getattr(client, "cluster", None), "scheduler", None)  # of a local cluster: in this process
    connections = [getattr(client, "scheduler_comm", None)]
    for name in ("stream_comms", "client_comms"):
        connections += list(getattr(scheduler, name, {}).values())
    for connection in connections:
        log = getattr(connection, "recent_message_log", None)
        if log is not None:
            log.clear()


def _named(numbers: Sequence[int]) -> str:
    """Numbers of partitions in words."""
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    shown = ", ".join(map(str, numbers[:MOST_NAMED])) + (", ..." if len(numbers) > MOST_NAMED else "")
    return f"the partitions {shown}"


def _answer(held: Any, request: bytes) -> Any:
    """In a worker: what the driver asks of something held, with the driver's settings of NumPy.

    An error of ours is an answer: it is part of a search, and nothing for the worker's log.
    """
    name, arguments, settings = pickle.loads(request)
    with executor_for(1), np.errstate(**settings):
        try:
            return getattr(held, name)(*arguments)
        except KnotwiseError as error:
            return error
