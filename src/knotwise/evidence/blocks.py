"""Where the rows live, and passes over them: the only way in which data reach the engine.

A *pass* is a frozen object that can be pickled. It is called with each block of rows and with its
per-block cache, and returns sums, or something per row. Nothing per row lives at the driver between passes. What a
pass leaves in the cache (the block seen through the knots, the warm start of a search) saves time and may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.numerics.blocks import Executor, Serial, block_slices, rows_per_block
from knotwise.numerics.weighted import mean_and_variance

#: of a pass, the per-block caches may take so many bytes for V and what its pullback needs
KEEP_BYTES = 256 * 2**20

#: the cache of one block, by name: it saves time and may be lost
BlockCache = dict[str, Any]

#: the name in a per-block cache of the warm start of the next search for the posterior: a = (prior precision) (f - m)
#: and the sites W and b, [n, 3], or the a of an exact GP alone, [n]
WARM_START = "last"

#: names in a per-block cache of what any pass can compute again, to the same bits; whatever else a pass changes it lays
#: there anew, so that the change can be told
CACHED = ("projection", "residual")


S = TypeVar("S", bound="Sums")


def a_of(last: np.ndarray | None) -> np.ndarray | None:
    """The a, [n], in what a search has left."""
    return last if last is None or last.ndim == 1 else last[:, 0]


class Sums:
    """A dataclass of sums over rows: they add, entry by entry."""

    def __iadd__(self: S, other: S) -> S:
        for entry in fields(self):  # type: ignore[arg-type]
            total = getattr(self, entry.name)
            total += getattr(other, entry.name)
            setattr(self, entry.name, total)
        return self


class Halo(Protocol):
    """Which rows of other blocks a block needs."""

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers of the further rows that the rows with these numbers need."""


class Pass(Protocol):
    """Work on one block: frozen, and made of what can be pickled."""

    @property
    def width(self) -> int:
        """How many numbers per row the largest array has, which decides how many rows a block has."""

    @property
    def halo(self) -> Halo | None:
        """Which rows of other blocks are needed, behind the block's own; None for none."""

    def __call__(self, block: Block, cache: BlockCache) -> Any: ...


@dataclass(frozen=True)
class Block:
    """Some rows of the data, and behind them the rows of other blocks that they need.

    `start` is the number of its first row, `n` how many rows are its own; `rows` are these and then the halo's.
    """

    rows: Rows
    start: int
    n: int

    @cached_property
    def own(self) -> Rows:
        """The rows of the block without its halo."""
        return self.rows if self.n == len(self.rows) else self.rows[: self.n]


@dataclass(frozen=True)
class RowSummary:
    """What is known of all rows together.

    `n_rows` is how many there are, `count` the sum of their sample weights; `low`, `high`, `mean` and
    `variance` are those of the columns of X; `is_weighted` says whether rows have weights at all.
    """

    n_rows: int
    count: int | float
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    is_weighted: bool

    @property
    def n_columns(self) -> int:
        return len(self.low)

    @property
    def varies(self) -> np.ndarray:
        """Which columns have more than one value, [D]."""
        return self.high > self.low

    @staticmethod
    def of(rows: Rows) -> RowSummary:
        X, weights = rows.X, rows.weights
        columns = X.min(0), X.max(0), *mean_and_variance(X, weights)
        return RowSummary(len(rows), rows.count, *columns, weights is not None)


class Blocks(Protocol):
    """The rows of a fit, wherever they are: in memory, in other processes, on other machines."""

    @property
    def summary(self) -> RowSummary: ...

    @property
    def keep_bytes(self) -> int:
        """How much the per-block caches may hold of what they look like through the knots."""

    def sum(self, work: Pass) -> Any:
        """Add what the pass returns for each block, in the order of the blocks."""

    def gather(self, work: Pass) -> np.ndarray:
        """Join what the pass returns for each row, [N, ...]."""

    def top(self, work: Pass, k: int) -> np.ndarray:
        """Numbers of the k rows with the largest scores, the largest first, of equal ones the first."""

    def take(self, numbers: np.ndarray | slice) -> Rows:
        """Some rows, by their numbers."""

    def sample(self, n_rows: int, rng: np.random.Generator, *, by_weight: bool = False) -> np.ndarray:
        """Numbers of some rows in order, drawn at random; by weight, the more often a row counts, the likelier."""

    @property
    def at_hand(self) -> bool:
        """Whether all rows are in the memory of this process, so that asking for all of them costs nothing."""

    def at_driver(self, rows: Rows) -> Blocks:
        """Other rows, few enough to be held at the driver, computed with what it has."""

    def computed_by(self, executor: Executor) -> Blocks:
        """The same rows with empty caches, for work of another time, in which this executor is there."""

    def identity(self) -> Any:
        """What a digest knows the rows by: equal for equal rows."""

    def anew(self) -> Blocks:
        """The same rows, with empty caches."""

    def as_given(self) -> Blocks:
        """The rows with known noise as it was given, with empty caches; see `Rows.as_given`."""

    def end_evaluation(self) -> None:
        """Empty the per-block caches after an evaluation, but for the warm start of the next one."""

    def last(self) -> np.ndarray | None:
        """What the last search has left, [N] or [N, 3], where every block has it; it is what a checkpoint keeps."""

    def restore(self, last: np.ndarray | None) -> None:
        """Put such an array into the caches as a warm start; None empties them."""


@dataclass
class InMemory:
    """Rows in the memory of this process; blocks run on the executor's threads.

    Blocks depend on the data and on the width of the pass, never on the number of threads. Of `n_own` rows, if given,
    blocks are made, the first ones; the others are there for halos only. `first` is the number of the first row, where
    the rows are a part of others.
    """

    rows: Rows
    executor: Executor = field(default_factory=Serial)
    block_size: int | None = None
    keep_bytes: int = KEEP_BYTES
    n_own: int | None = None
    first: int = 0
    _size: int = field(default=0, init=False, repr=False)
    _blocks: list[tuple[Block, BlockCache]] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def summary(self) -> RowSummary:
        return RowSummary.of(self.own)

    @property
    def own(self) -> Rows:
        """The rows of which blocks are made."""
        return self.rows if self.n_own is None else self.rows[: self.n_own]

    def sum(self, work: Pass) -> Any:
        parts = self._map(work)
        total = next(parts)
        for part in parts:
            total += part
        return total

    def run(self, work: Pass) -> None:
        """Run a pass for what it leaves in the per-block caches."""
        for _ in self._map(work):
            pass

    @property
    def caches(self) -> list[BlockCache]:
        """The cache of each block."""
        return [cache for _, cache in self._blocks]

    def gather(self, work: Pass) -> np.ndarray:
        return np.concatenate(list(self._map(work)))

    def top(self, work: Pass, k: int) -> np.ndarray:
        scores = self.gather(work)
        return np.argsort(-scores, kind="stable")[:k]

    def take(self, numbers: np.ndarray | slice) -> Rows:
        return self.rows[numbers]

    @property
    def at_hand(self) -> bool:
        return True

    def computed_by(self, executor: Executor) -> InMemory:
        return InMemory(self.rows, executor, self.block_size, n_own=self.n_own)

    def identity(self) -> Rows:
        return self.rows

    def at_driver(self, rows: Rows) -> InMemory:
        return InMemory(rows, self.executor, self.block_size, self.keep_bytes)

    def anew(self) -> InMemory:
        new = InMemory(self.rows, self.executor, self.block_size, self.keep_bytes, self.n_own, self.first)
        new.__dict__["summary"] = self.summary  # of the same rows
        return new

    def as_given(self) -> InMemory:
        return InMemory(self.rows.as_given, self.executor, self.block_size, self.keep_bytes, self.n_own, self.first)

    def end_evaluation(self) -> None:
        for _, cache in self._blocks:
            last = cache.get(WARM_START)
            cache.clear()
            if last is not None:
                cache[WARM_START] = last

    def sample(self, n_rows: int, rng: np.random.Generator, *, by_weight: bool = False) -> np.ndarray:
        weights = self.own.weights if by_weight else None
        shares = None if weights is None else weights / weights.sum()
        n = self.summary.n_rows
        possible = n if shares is None else np.count_nonzero(shares)  # a tiny share can underflow
        return np.sort(rng.choice(n, min(n_rows, possible), replace=False, p=shares))

    def last(self) -> np.ndarray | None:
        kept = [cache[WARM_START] for _, cache in self._blocks if cache.get(WARM_START) is not None]
        return np.concatenate(kept) if kept and len(kept) == len(self._blocks) else None

    def restore(self, last: np.ndarray | None) -> None:
        if not self._blocks:
            self._cut(self.block_size or self.summary.n_rows)
        for block, cache in self._blocks:
            cache.clear()
            if last is not None:
                begin = block.start - self.first
                cache[WARM_START] = last[begin : begin + block.n]

    def _map(self, work: Pass) -> Iterator[Any]:
        size = self.block_size or rows_per_block(work.width, self.summary.n_rows)
        if size != self._size:
            last = self.last()
            self._cut(size)
            if last is not None:
                self.restore(last)
        blocks, caches = zip(*self._blocks, strict=True)
        halo = work.halo
        if halo is None:
            return self.executor.map(work, blocks, caches)
        return self.executor.map(lambda block, cache: work(self._with_halo(block, halo), cache), blocks, caches)

    def _cut(self, size: int) -> None:
        slices = block_slices(self.summary.n_rows, size)
        whole = len(slices) == 1 and self.n_own is None
        self._size = size
        self._blocks = [
            (Block(self.rows if whole else self.rows[s], self.first + s.start, s.stop - s.start), {}) for s in slices
        ]

    def _with_halo(self, block: Block, halo: Halo) -> Block:
        numbers = np.arange(block.start, block.start + block.n)
        return Block(self.rows[np.concatenate([numbers, halo(numbers)])], block.start, block.n)


def as_blocks(
    rows: Rows | Blocks, executor: Executor | None = None, block_size: int | None = None, keep_bytes: int = KEEP_BYTES
) -> Blocks:
    """Rows in memory as blocks; blocks as they are."""
    if isinstance(rows, Rows):
        return InMemory(rows, executor or Serial(), block_size, keep_bytes)
    return rows
