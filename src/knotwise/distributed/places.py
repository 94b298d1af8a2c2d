"""Where Dask computes: on the workers of a client, or on threads of this process."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.numerics.blocks import Executor, executor_for

__all__ = ["Place", "place_for"]


class Place(Protocol):
    """Computes lazy values, holds some of them, and asks those that it holds."""

    @property
    def n_groups(self) -> int | None:
        """Among how many tasks the work of a pass is shared out; None for one per partition."""
        ...

    def compute(self, lazy: Sequence[Any]) -> list[Any]:
        """Lazy values as they are."""
        ...

    def hold(self, lazy: Sequence[Any]) -> list[Any]:
        """Lazy values as something that can be asked; they stay where they are computed."""
        ...

    def ask(self, held: Sequence[Any], name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call the method `name` of each value that is held, with its own arguments."""
        ...


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

    def compute(self, lazy: Sequence[Any]) -> list[Any]:
        import dask

        return list(dask.compute(*lazy, scheduler="threads"))

    def hold(self, lazy: Sequence[Any]) -> list[Any]:
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

    def compute(self, lazy: Sequence[Any]) -> list[Any]:
        return self._gather(self.client.compute(list(lazy)))

    def hold(self, lazy: Sequence[Any]) -> list[Any]:
        """Each value with the worker that has it. Another one takes over where that is lost.

        No worker gets more values than it has threads, so that none waits, and none of its tasks is stolen: what lies
        beside the rows does not move with them.
        """
        slots = self._slots()
        homes = [slots[i % len(slots)] for i in range(len(lazy))]
        pairs = zip(lazy, homes, strict=True)
        return [(self.client.compute(each, workers=[home], allow_other_workers=True), home) for each, home in pairs]

    def ask(self, held: Sequence[Any], name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        from distributed.protocol.pickle import dumps

        requests: dict[int, bytes] = {}
        for own in arguments:  # most passes are the same for all
            if id(own) not in requests:
                requests[id(own)] = dumps((name, own, np.geterr()))
        there = {"pure": False, "allow_other_workers": True}
        jobs = zip(held, arguments, strict=True)
        answers = self._gather(
            [
                self.client.submit(_answer, future, requests[id(own)], workers=[home], **there)
                for (future, home), own in jobs
            ]
        )
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

    def _gather(self, futures: list[Any]) -> list[Any]:
        from distributed import KilledWorker

        try:
            return self.client.gather(futures)
        except KilledWorker as error:
            raise RuntimeError(
                "Dask's workers died several times at the same task, most likely for want of memory. Give each worker "
                "more memory or fewer threads, make the partitions smaller (`repartition`, `rechunk`), or lower the "
                f"number of knots. Dask says: {error}"
            ) from error


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
