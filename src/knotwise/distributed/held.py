"""What one process holds: some partitions of the rows, and what passes have left beside their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from knotwise.distributed.tree import TreeSum
from knotwise.evidence.blocks import InMemory, Pass
from knotwise.evidence.model import Rows
from knotwise.numerics.blocks import Serial

__all__ = ["Held", "Job", "Part", "joined"]

MOST_KEYS = 6  # fits under way at one time, of which something lies beside the blocks


@dataclass(frozen=True)
class Part:
    """The rows of one partition; `number` is the partition's among those with rows, `start` that of its first row."""

    number: int
    start: int
    rows: Rows


@dataclass(frozen=True)
class Job:
    """A pass, and whose it is: the `key` of the driver's blocks, and how many evaluations these have `ended`."""

    work: Pass
    key: int
    ended: int
    n_parts: int
    block_size: int | None


class Held:
    """Neighbouring partitions in the memory of one process.

    What lies beside their blocks lives as long as this object, and goes neither to another process nor to disk.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._beside: dict[int, tuple[int, list[InMemory]]] = {}

    def __getstate__(self) -> tuple[Part, ...]:
        return self.parts

    def __setstate__(self, parts: tuple[Part, ...]) -> None:
        self.__init__(parts)  # type: ignore[misc]

    def __sizeof__(self) -> int:
        """Bytes of the rows, by which a scheduler decides who works on them."""
        arrays = (getattr(part.rows, entry.name) for part in self.parts for entry in fields(Rows))
        return sum(array.nbytes for array in arrays if array is not None)

    def sum(self, job: Job) -> dict[tuple[int, int], Any]:
        """Sums of the pass at the nodes of the tree that these partitions complete."""
        total = TreeSum(job.n_parts)
        for part, blocks in zip(self.parts, self._blocks(job), strict=True):
            total.add(blocks.sum(job.work), part.number)
        return total.nodes

    def gather(self, job: Job) -> np.ndarray:
        """What the pass returns for each row."""
        return np.concatenate([blocks.gather(job.work) for blocks in self._blocks(job)])

    def top(self, job: Job, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and numbers of the k best rows, the best first, of equal ones the first."""
        scores = self.gather(job)
        best = np.argsort(-scores, kind="stable")[:k]
        return scores[best], best + self.parts[0].start

    def take(self, numbers: np.ndarray) -> Rows:
        """Rows by their numbers, which rise."""
        starts = [part.start for part in self.parts]
        bounds = np.append(np.searchsorted(numbers, starts), len(numbers))
        parts = zip(self.parts, bounds[:-1], bounds[1:], strict=True)
        return joined([part.rows[numbers[a:b] - part.start] for part, a, b in parts])

    def _blocks(self, job: Job) -> list[InMemory]:
        """The partitions cut into blocks. What other evaluations need no more is dropped."""
        ended, mine = self._beside.pop(job.key, (job.ended, None))
        for _, others in self._beside.values():  # evaluations of one driver follow each other
            _end(others)
        if mine is None:
            mine = [InMemory(part.rows, Serial(), job.block_size, first=part.start) for part in self.parts]
        elif ended < job.ended:
            _end(mine)
        while len(self._beside) >= MOST_KEYS:
            del self._beside[next(iter(self._beside))]  # the one that was used longest ago
        self._beside[job.key] = (job.ended, mine)
        return mine


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows one after the other."""
    columns = {entry.name: [getattr(part, entry.name) for part in parts] for entry in fields(Rows)}
    whole: dict[str, Any] = {
        name: None if values[0] is None else np.concatenate(values) for name, values in columns.items()
    }
    return Rows(**whole)


def _end(blocks: list[InMemory]) -> None:
    for each in blocks:
        each.end_evaluation()
