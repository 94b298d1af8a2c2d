"""What one process holds: some partitions of the rows, and the per-block caches that passes have filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence.blocks import CACHED, InMemory, Pass
from knotwise.evidence.model import Rows
from knotwise.numerics.blocks import Serial


class TreeSum:
    """A sum over the leaves 0 .. n - 1 of a tree; node i of a level is the sum of nodes 2 i and 2 i + 1 below it.

    `nodes` are the sums that still wait for their neighbour, by level and number: O(log n) of them where the leaves
    came in order.
    """

    def __init__(self, n_leaves: int) -> None:
        self.n_leaves = n_leaves
        self.nodes: dict[tuple[int, int], Any] = {}

    def add(self, value: Any, number: int, level: int = 0) -> None:
        """Add a leaf, or a node of a higher level: it goes up for as long as its neighbour is there."""
        while (1 << level) < self.n_leaves:
            neighbour = number ^ 1
            if neighbour << level < self.n_leaves:  # else there is none
                if (level, neighbour) not in self.nodes:
                    break
                other = self.nodes.pop((level, neighbour))
                left, right = (value, other) if number < neighbour else (other, value)
                left += right
                value = left
            level, number = level + 1, number >> 1
        self.nodes[level, number] = value

    @property
    def total(self) -> Any:
        """The sum of all leaves."""
        (total,) = self.nodes.values()
        return total


MOST_KEYS = 6  # fits under way at one time, which have per-block caches


@dataclass(frozen=True)
class Part:
    """The rows of one partition; `number` is the partition's among those with rows, `start` that of its first row."""

    number: int
    start: int
    rows: Rows


def part_as_given(part: Part) -> Part:
    """The same partition with known noise as it was given; see `Rows.as_given`."""
    return replace(part, rows=part.rows.as_given)


@dataclass(frozen=True)
class Job:
    """A pass, and whose it is: the `key` of the driver's blocks, and how many evaluations these have `ended`.

    `number` counts the passes of the key from 0, the one before which the caches are empty.
    """

    work: Pass
    key: int
    number: int
    ended: int
    n_parts: int
    block_size: int | None


@dataclass(frozen=True)
class Answer:
    """What a pass has returned, and whether it has left anything that later passes depend on."""

    value: Any
    left: bool


@dataclass
class PartitionCache:
    """The partitions cut into blocks, with what the passes of one key have left there, up to the last `number`."""

    blocks: list[InMemory]
    number: int
    ended: int

    def end(self) -> None:
        """Drop what an evaluation has left but for what the next one starts from."""
        for each in self.blocks:
            each.end_evaluation()


class Held:
    """Neighbouring partitions in the memory of one process.

    The per-block caches live as long as this object, and go neither to another process nor to disk. Where
    it is lost, `sum`, `gather` and `top` return None; asked again with the `past`, the passes that left something,
    they make these again first, so that the answer has the same bits.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._caches: dict[int, PartitionCache] = {}

    def __getstate__(self) -> tuple[Part, ...]:
        return self.parts

    def __setstate__(self, parts: tuple[Part, ...]) -> None:
        self.__init__(parts)  # type: ignore[misc]

    def __sizeof__(self) -> int:
        """Bytes of the rows, by which a scheduler decides who works on them."""
        arrays = (getattr(part.rows, entry.name) for part in self.parts for entry in fields(Rows))
        return sum(array.nbytes for array in arrays if array is not None)

    def sum(self, job: Job, past: Sequence[Job] | None = None) -> Answer | None:
        """Sums of the pass at the nodes of the tree that these partitions complete."""

        def add(blocks: list[InMemory]) -> dict[tuple[int, int], Any]:
            total = TreeSum(job.n_parts)
            for part, each in zip(self.parts, blocks, strict=True):
                total.add(each.sum(job.work), part.number)
            return total.nodes

        return self._answer(job, past, add)

    def gather(self, job: Job, past: Sequence[Job] | None = None) -> Answer | None:
        """What the pass returns for each row."""
        return self._answer(job, past, lambda blocks: np.concatenate([each.gather(job.work) for each in blocks]))

    def top(self, job: Job, past: Sequence[Job] | None, k: int) -> Answer | None:
        """Scores and numbers of the k best rows, the best first, of equal ones the first."""

        def best(blocks: list[InMemory]) -> tuple[np.ndarray, np.ndarray]:
            scores = np.concatenate([each.gather(job.work) for each in blocks])
            first = np.argsort(-scores, kind="stable")[:k]
            return scores[first], first + self.parts[0].start

        return self._answer(job, past, best)

    def take(self, numbers: np.ndarray) -> Rows:
        """Rows by their numbers, which rise."""
        starts = [part.start for part in self.parts]
        bounds = np.append(np.searchsorted(numbers, starts), len(numbers))
        parts = zip(self.parts, bounds[:-1], bounds[1:], strict=True)
        return joined([part.rows[numbers[a:b] - part.start] for part, a, b in parts])

    def _answer(self, job: Job, past: Sequence[Job] | None, run: Callable[[list[InMemory]], Any]) -> Answer | None:
        """Run a pass where all earlier ones of its key have been run, each once."""
        cache = self._caches.get(job.key)
        if job.number and (cache is None or cache.number != job.number - 1):
            if past is None:
                return None
            self._caches.pop(job.key, None)
            for earlier in past:
                with suppress(KnotwiseError):  # as the driver saw it then
                    for each in self._begin(earlier):
                        each.run(earlier.work)
        blocks = self._begin(job)
        before = _left(blocks)
        value = run(blocks)
        return Answer(value, not _is_same(before, _left(blocks)))

    def _begin(self, job: Job) -> list[InMemory]:
        """The blocks of a key, as the earlier passes have left them; what ended evaluations have left is dropped."""
        cache = self._caches.pop(job.key, None)
        for others in self._caches.values():  # evaluations of one driver follow each other
            others.end()
        if cache is None or not job.number:
            blocks = [InMemory(part.rows, Serial(), job.block_size, first=part.start) for part in self.parts]
            cache = PartitionCache(blocks, job.number, job.ended)
        elif cache.ended < job.ended:
            cache.end()
        cache.number, cache.ended = job.number, job.ended
        while len(self._caches) >= MOST_KEYS:
            del self._caches[next(iter(self._caches))]  # the one that was used longest ago
        self._caches[job.key] = cache
        return cache.blocks


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows one after the other."""
    columns = {entry.name: [getattr(part, entry.name) for part in parts] for entry in fields(Rows)}
    whole: dict[str, Any] = {
        name: None if values[0] is None else np.concatenate(values) for name, values in columns.items()
    }
    return Rows(**whole)


def _left(blocks: list[InMemory]) -> list[dict[str, Any]]:
    """The per-block caches, but for what any pass can compute again."""
    lies = (cache for each in blocks for cache in each.caches)
    return [{name: value for name, value in cache.items() if name not in CACHED} for cache in lies]


def _is_same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether caches of the same blocks hold the same objects; blocks without any may be cut anew."""
    if len(one) != len(other):
        return not any(one) and not any(other)
    return all(a.keys() == b.keys() and all(a[name] is b[name] for name in a) for a, b in zip(one, other, strict=True))
