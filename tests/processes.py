"""Blocks whose rows live in other processes: the proof that only passes, sums and a few chosen rows need to travel.

Each worker holds a range of the rows, cut at the same places as `InMemory` cuts them, with what lies beside each block.
The driver holds no row. It adds what the blocks return in the order of the blocks, so the bits are those of threads.
"""

from __future__ import annotations

import os
import warnings
import weakref
from dataclasses import dataclass, fields
from itertools import chain, count, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from knotwise.errors import NotPositiveDefiniteError
from knotwise.evidence.blocks import KEEP_BYTES, WARM_START, Block, BlockCache, InMemory, Pass, RowSummary
from knotwise.evidence.model import Rows
from knotwise.numerics.blocks import Executor, block_slices, single_threaded_blas

PATIENCE = 120  # seconds after which a worker that says nothing has failed

_numbers = count()  # of data and of blocks: those of one driver never meet


# -- in a worker ----------------------------------------------------------------------------------------------


class Worker:
    """One process: ranges of rows by the number of their data, and blocks by the number of the driver's object."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[Rows, int, int]] = {}
        self.blocks: dict[int, list[tuple[Block, BlockCache]]] = {}

    def hold(self, data: int, rows: Rows, start: int, block_size: int) -> None:
        self.held[data] = (rows, start, block_size)

    def cut(self, data: int, key: int) -> None:
        rows, start, size = self.held[data]
        slices = block_slices(len(rows), size)
        self.blocks[key] = [(Block(rows[s], start + s.start, s.stop - s.start), {}) for s in slices]

    def run(self, key: int, work: Pass, halos: list[Rows] | None, settings: dict[str, Any]) -> list[Any]:
        """What a pass returns for each block."""
        blocks = [block for block, _ in self.blocks[key]]
        if halos is not None:
            blocks = [Block(joined([b.rows, more]), b.start, b.n) for b, more in zip(blocks, halos, strict=True)]
        besides = [cache for _, cache in self.blocks[key]]
        with np.errstate(**settings):
            return [work(block, cache) for block, cache in zip(blocks, besides, strict=True)]

    def top(self, key: int, k: int, *job: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores and numbers of the k best rows of this worker."""
        scores = np.concatenate([np.empty(0), *self.run(key, *job)])
        best = np.argsort(-scores, kind="stable")[:k]
        return scores[best], best + (self.blocks[key][0][0].start if len(best) else 0)

    def take(self, data: int, numbers: np.ndarray) -> Rows:
        rows, start, _ = self.held[data]
        return rows[numbers - start]

    def forget(self, key: int, *, all_of_it: bool) -> None:
        for _, cache in self.blocks[key]:
            last = cache.get(WARM_START)
            cache.clear()
            if last is not None and not all_of_it:
                cache[WARM_START] = last

    def last(self, key: int) -> list[np.ndarray | None]:
        return [cache.get(WARM_START) for _, cache in self.blocks[key]]

    def lay(self, key: int, a: np.ndarray) -> None:
        for (block, cache), part in zip(self.blocks[key], np.split(a, self._ends(key)), strict=True):
            assert len(part) == block.n
            cache.clear()
            cache[WARM_START] = part

    def names_beside(self, key: int) -> list[set[str]]:
        return [set(cache) for _, cache in self.blocks[key]]

    def keys(self) -> set[int]:
        return set(self.blocks)

    def drop(self, keys: list[int]) -> None:
        for key in keys:
            self.blocks.pop(key, None)

    def _ends(self, key: int) -> np.ndarray:
        return np.cumsum([block.n for block, _ in self.blocks[key]])[:-1]


def serve(connection: Connection) -> None:
    """Answer the driver until it hangs up."""
    warnings.simplefilter("error")
    worker = Worker()
    with single_threaded_blas():
        while True:
            try:
                name, arguments, options = connection.recv()
            except EOFError:
                return
            try:
                answer = ("done", getattr(worker, name)(*arguments, **options))
            except Exception as error:
                answer = ("failed", error)
            connection.send(answer)


# -- at the driver --------------------------------------------------------------------------------------------


class Workers:
    """Processes that are started anew, not forked; one that dies or falls silent is an error at the next question."""

    def __init__(self, n_workers: int) -> None:
        context = get_context("spawn")
        self.pairs = []
        self.dropped: list[int] = []  # numbers of blocks that nobody uses any more
        for _ in range(n_workers):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(there,), daemon=True)
            process.start()
            there.close()
            self.pairs.append((here, process))

    def __len__(self) -> int:
        return len(self.pairs)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        for connection, process in self.pairs:
            connection.close()
            process.join(5)
            if process.is_alive():
                process.terminate()
                process.join()
            process.close()

    def ask(self, name: str, *arguments: Any, **options: Any) -> list[Any]:
        """Ask all of them the same."""
        return self.ask_each(name, [arguments] * len(self), **options)

    def ask_each(self, name: str, arguments: list[tuple[Any, ...]], **options: Any) -> list[Any]:
        """Ask each of them its own question, and return the answers in the order of the workers."""
        gone, self.dropped = self.dropped, []
        if gone:
            self.ask("drop", gone)
        for (connection, process), own in zip(self.pairs, arguments, strict=True):
            try:
                connection.send((name, own, options))
            except OSError:
                raise RuntimeError(f"Worker {process.pid} has died.") from None
        answers = [self._answer(connection, process) for connection, process in self.pairs]
        for how, answer in answers:
            if how == "failed":
                raise answer
        return [answer for _, answer in answers]

    def _answer(self, connection: Connection, process: Any) -> tuple[str, Any]:
        if not wait([connection, process.sentinel], PATIENCE):
            raise RuntimeError(f"Worker {process.pid} has not answered within {PATIENCE} s.")
        try:
            return connection.recv()  # of a process that has ended, what it said before or the end
        except (EOFError, OSError):
            raise RuntimeError(f"Worker {process.pid} has died.") from None


@dataclass(frozen=True)
class Held:
    """Data that workers hold: `bounds` are the numbers of the first rows of their ranges, and N behind them."""

    workers: Workers
    number: int
    bounds: np.ndarray
    block_size: int
    summary: RowSummary
    executor: Executor  # of the driver, for the few rows that it holds itself
    keep_bytes: int


class InProcesses:
    """Rows in worker processes: `Blocks` for a block size that is given."""

    def __init__(self, held: Held) -> None:
        self.held, self.workers, self.key = held, held.workers, next(_numbers)
        self.workers.ask("cut", held.number, self.key)
        weakref.finalize(self, self.workers.dropped.append, self.key)

    @classmethod
    def of(
        cls, rows: Rows, workers: Workers, executor: Executor, block_size: int, keep_bytes: int = KEEP_BYTES
    ) -> InProcesses:
        """Hand out the rows, as many blocks to each worker as to the others."""
        n_blocks = -(-len(rows) // block_size)
        firsts = [n_blocks * i // len(workers) for i in range(len(workers) + 1)]
        bounds = np.minimum(np.array(firsts) * block_size, len(rows))
        number = next(_numbers)
        parts = [(number, rows[a:b], a, block_size) for a, b in pairwise(bounds)]
        workers.ask_each("hold", parts)
        return cls(Held(workers, number, bounds, block_size, RowSummary.of(rows), executor, keep_bytes))

    @property
    def summary(self) -> RowSummary:
        return self.held.summary

    @property
    def keep_bytes(self) -> int:
        return self.held.keep_bytes

    def sum(self, work: Pass) -> Any:
        total, *others = self._run(work)
        for part in others:
            total += part
        return total

    def gather(self, work: Pass) -> np.ndarray:
        return np.concatenate(self._run(work))

    def top(self, work: Pass, k: int) -> np.ndarray:
        found = self.workers.ask_each("top", [(self.key, k, work, halos, np.geterr()) for halos in self._halos(work)])
        scores, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return numbers[np.lexsort((numbers, -scores))][:k]

    def take(self, numbers: np.ndarray | slice) -> Rows:
        wanted = np.arange(self.summary.n_rows)[numbers]
        owners = np.searchsorted(self.held.bounds, wanted, side="right") - 1
        parts = [(self.held.number, wanted[owners == i]) for i in range(len(self.workers))]
        places = np.argsort(np.argsort(owners, kind="stable"), kind="stable")
        return joined(self.workers.ask_each("take", parts))[places]

    def sample(self, n_rows: int, rng: np.random.Generator, *, by_weight: bool = False) -> np.ndarray:
        if by_weight and self.summary.is_weighted:
            weights = self.take(slice(None)).weights
            shares = weights / weights.sum()
            return np.sort(rng.choice(len(weights), min(n_rows, np.count_nonzero(shares)), replace=False, p=shares))
        return np.sort(rng.choice(self.summary.n_rows, min(n_rows, self.summary.n_rows), replace=False))

    def at_driver(self, rows: Rows) -> InMemory:
        return InMemory(rows, self.held.executor, self.held.block_size, self.keep_bytes)

    @property
    def at_hand(self) -> bool:
        return False

    def computed_by(self, executor: Executor) -> InMemory:
        return InMemory(self.take(slice(None)), executor)

    def identity(self) -> Rows:
        return self.take(slice(None))

    def anew(self) -> InProcesses:
        return type(self)(self.held)

    def end_evaluation(self) -> None:
        self.workers.ask("forget", self.key, all_of_it=False)

    def last(self) -> np.ndarray | None:
        kept = list(chain.from_iterable(self.workers.ask("last", self.key)))
        return None if any(a is None for a in kept) else np.concatenate(kept)

    def restore(self, a: np.ndarray | None) -> None:
        if a is None:
            self.workers.ask("forget", self.key, all_of_it=True)
        else:
            parts = np.split(a, self.held.bounds[1:-1])
            self.workers.ask_each("lay", [(self.key, part) for part in parts])

    def names_beside(self) -> list[set[str]]:
        """The names of what lies beside each block."""
        return list(chain.from_iterable(self.workers.ask("names_beside", self.key)))

    def _run(self, work: Pass) -> list[Any]:
        """What a pass returns for each block, in the order of the blocks."""
        jobs = [(self.key, work, halos, np.geterr()) for halos in self._halos(work)]
        return list(chain.from_iterable(self.workers.ask_each("run", jobs)))

    def _halos(self, work: Pass) -> list[list[Rows] | None]:
        """For each worker the further rows of its blocks; they travel with every pass that needs them."""
        if work.halo is None:
            return [None] * len(self.workers)
        bounds, size = self.held.bounds, self.held.block_size
        ranges = pairwise(bounds)
        blocks = [[np.arange(s, min(s + size, b)) for s in range(a, b, size)] for a, b in ranges]
        return [[self.take(work.halo(numbers)) for numbers in own] for own in blocks]


@dataclass(frozen=True)
class Fails:
    """A pass that raises in the block that begins with this row, or ends its process there."""

    row: int
    fatal: bool = False
    width: int = 1
    halo: None = None

    def __call__(self, block: Block, cache: BlockCache) -> float:
        if block.start == self.row and self.fatal:
            os._exit(3)
        if block.start == self.row:
            raise NotPositiveDefiniteError("no factor", pivot=7)
        return 1.0


class Forgetful(InProcesses):
    """Blocks beside which nothing lasts: after each pass all of it is lost."""

    def _run(self, work: Pass) -> list[Any]:
        found = super()._run(work)
        self.restore(None)
        return found


def joined(parts: list[Rows]) -> Rows:
    """Rows one after the other."""
    columns = ([getattr(part, entry.name) for part in parts] for entry in fields(Rows))
    return Rows(*(None if values[0] is None else np.concatenate(values) for values in columns))
