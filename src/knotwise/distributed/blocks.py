"""Blocks of rows that are partitions of a Dask collection: passes go to the rows, and sums come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise
from typing import Any

import numpy as np

from knotwise.distributed.held import Held, Job, TreeSum, joined, part_as_given
from knotwise.distributed.places import Place, place_for
from knotwise.errors import KnotwiseError, TooLargeError
from knotwise.evidence.blocks import KEEP_BYTES, Block, BlockCache, InMemory, Pass, RowSummary
from knotwise.evidence.model import Rows
from knotwise.numerics.blocks import Executor

MOST_TAKEN = 1_000_000  # rows that the driver takes at one time
MOST_KEPT = 128 * 2**20  # bytes of passes that the driver keeps for workers that are lost

_keys = count()


@dataclass(frozen=True)
class LazyRows:
    """The rows of a fit as Dask knows how to make them: a lazy `Part` for each partition that has rows.

    `starts` are the numbers of the first rows of the parts, and N behind them. `digests`, lazy too, are what the parts
    are known by, `numbers` those of the user's partitions of which they are made.
    """

    parts: Sequence[Any]
    digests: Sequence[Any]
    numbers: Sequence[int]
    starts: np.ndarray
    summary: RowSummary
    block_size: int | None = None

    def groups(self, n_groups: int | None) -> np.ndarray:
        """Numbers of the first parts of each group, and of all parts behind them: groups of about as many rows."""
        n_parts = len(self.parts)
        if n_groups is None or n_groups >= n_parts:
            return np.arange(n_parts + 1)
        ends = self.starts[-1] * np.arange(1, n_groups) / n_groups
        firsts = np.searchsorted((self.starts[:-1] + self.starts[1:]) / 2, ends)
        return np.unique(np.concatenate([[0], firsts, [n_parts]]))


class DaskBlocks:
    """The partitions of a Dask collection as `Blocks`.

    Tasks make them, so that those of a lost worker come back by themselves; they stay at the workers of the active
    client, or without one in the memory of this process. A pass is one task for each thread of the workers. Sums are
    added in the order of a tree over the partitions: the same partitions give the same bits for any number of workers.

    The per-block caches of a lost worker come back too: the driver keeps the passes that left
    something, and whoever has the rows now makes these again. Where they are more than 128 MiB they are forgotten, and
    a search for sites begins anew, to end at the same fixed point.
    """

    def __init__(self, lazy: LazyRows, executor: Executor, place: Place | None = None) -> None:
        self.lazy, self.executor = lazy, executor
        self.place = place_for(executor) if place is None else place
        self.key, self.ended = next(_keys), 0
        self._forget()

    @property
    def summary(self) -> RowSummary:
        return self.lazy.summary

    @cached_property
    def keep_bytes(self) -> int:
        return KEEP_BYTES * (self.place.n_groups or 1)

    @property
    def at_hand(self) -> bool:
        return False

    def sum(self, work: Pass) -> Any:
        total = TreeSum(len(self.lazy.parts))
        for nodes in self._ask("sum", work):
            for (level, number), value in nodes.items():
                total.add(value, number, level)
        return total.total

    def gather(self, work: Pass) -> np.ndarray:
        return np.concatenate(self._ask("gather", work))

    def top(self, work: Pass, k: int) -> np.ndarray:
        found = self._ask("top", work, k)
        scores, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return numbers[np.lexsort((numbers, -scores))][:k]

    def take(self, numbers: np.ndarray | slice) -> Rows:
        if isinstance(numbers, slice):
            numbers = np.arange(*numbers.indices(self.summary.n_rows))
        if len(numbers) > MOST_TAKEN:
            raise TooLargeError(
                f"{len(numbers):,} rows of a Dask collection are needed in one place, and at most {MOST_TAKEN:,} are "
                "taken. Do it with a sample of the rows in memory (`X.compute()`).",
                n_rows=len(numbers),
                limit=MOST_TAKEN,
            )
        wanted, places = np.unique(numbers, return_inverse=True)
        ends = np.searchsorted(wanted, self.lazy.starts[self._firsts])
        some = [i for i, (a, b) in enumerate(pairwise(ends)) if a < b] or [0]
        held = [self._held[i] for i in some]
        return joined(self.place.ask(held, "take", [(wanted[ends[i] : ends[i + 1]],) for i in some]))[places]

    def sample(self, n_rows: int, rng: np.random.Generator, *, by_weight: bool = False) -> np.ndarray:
        n = self.summary.n_rows
        if by_weight and self.summary.is_weighted:
            return np.sort(self.top(RacePass(int(rng.integers(2**63))), min(n_rows, n)))
        return np.sort(rng.choice(n, min(n_rows, n), replace=False))

    def at_driver(self, rows: Rows) -> InMemory:
        return InMemory(rows, self.executor, self.lazy.block_size)

    def anew(self) -> DaskBlocks:
        new = DaskBlocks(self.lazy, self.executor, self.place)
        new.__dict__.update(_held=self._held, _firsts=self._firsts, keep_bytes=self.keep_bytes)
        return new

    def as_given(self) -> DaskBlocks:
        from dask import delayed

        make = delayed(part_as_given, pure=False)
        return DaskBlocks(replace(self.lazy, parts=[make(part) for part in self.lazy.parts]), self.executor, self.place)

    def computed_by(self, executor: Executor) -> DaskBlocks:
        return DaskBlocks(self.lazy, executor)

    def identity(self) -> tuple[str, ...]:
        return self._digests

    @cached_property
    def _digests(self) -> tuple[str, ...]:
        return tuple(self.place.compute(self.lazy.digests, self.lazy.numbers))

    def end_evaluation(self) -> None:
        self.ended += 1  # the next pass tells it

    def last(self) -> None:
        """Nothing: what a search has left stays with the rows, and a fit that goes on later looks for it again."""

    def restore(self, last: np.ndarray | None) -> None:
        """Empty the per-block caches; an array would only save time, and is not sent there."""
        self._forget()

    @cached_property
    def _firsts(self) -> np.ndarray:
        return self.lazy.groups(self.place.n_groups)

    @cached_property
    def _held(self) -> list[Any]:
        from dask import delayed

        hold, groups = delayed(Held, pure=False), list(pairwise(self._firsts))
        return self.place.hold(
            [hold(list(self.lazy.parts[a:b])) for a, b in groups], [self.lazy.numbers[a:b] for a, b in groups]
        )

    def _ask(self, name: str, work: Pass, *arguments: Any) -> list[Any]:
        """What each group returns for a pass; one that has lost what earlier passes left makes these again first."""
        assert work.halo is None  # neighbours are refused before a fit begins
        job = Job(work, self.key, self._number, self.ended, len(self.lazy.parts), self.lazy.block_size)
        self._number += 1
        try:
            answers = self._ask_groups(range(len(self._held)), name, (job, None, *arguments))
            lost = [i for i, answer in enumerate(answers) if answer is None]
            again = self._ask_groups(lost, name, (job, tuple(self._past), *arguments)) if lost else []
        except KnotwiseError:  # some groups have made the pass
            self._keep(job)
            raise
        for i, answer in zip(lost, again, strict=True):
            answers[i] = answer
        if any(answer.left for answer in answers):
            self._keep(job)
        return [answer.value for answer in answers]

    def _ask_groups(self, groups: Sequence[int], name: str, arguments: tuple[Any, ...]) -> list[Any]:
        return self.place.ask([self._held[i] for i in groups], name, [arguments] * len(groups))

    def _keep(self, job: Job) -> None:
        self._kept += 24 * job.work.width**2  # about the bytes of the factors in it
        if self._kept <= MOST_KEPT:
            self._past.append(job)
        else:
            self._past.clear()

    def _forget(self) -> None:
        """Begin with empty caches."""
        self._number, self._kept = 0, 0
        self._past: list[Job] = []


@dataclass(frozen=True)
class RacePass:
    """Scores of which the k largest are k rows drawn without replacement, each row as likely as often it counts.

    Each row runs for a time that is exponential with its weight for a rate, and the first k are taken.
    """

    seed: int
    width: int = 1
    halo: None = None

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        weights = block.own.weights
        assert weights is not None
        return -np.random.default_rng([self.seed, block.start]).exponential(size=block.n) / weights
