"""Row blocks, and executors that map a function over them and add the results in block order.

The sums are the only way in which data reach the evidence, so in-memory, threaded and streamed fits are
the same code. Blocks depend on the data and the number of knots, never on the number of threads, and the
results are added in block order, never by arrival: any number of threads gives the same bits.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
from threadpoolctl import OpenBLASController, ThreadpoolController

BLOCK_BYTES = 1_640_000  # a block's [n, K] array stays within a core's second-level cache
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 512, 8192
#: glibc's M_MMAP_THRESHOLD, above which memory is the system's own piece (32 MB at most), and M_TRIM_THRESHOLD, what is
#: kept when it is free; what glibc would learn by itself from an array of 30 MB
MALLOC_OPTIONS = ((-3, 30 * 2**20), (-1, 60 * 2**20))

#: threads of the executor that is open, for work outside of blocks; 1 in these threads themselves
_OPEN_THREADS: ContextVar[int] = ContextVar("open_threads", default=1)

Result = TypeVar("Result")


class Executor(Protocol):
    """What the engine asks of a way to run block work: an ordered map, one of whole searches, and an end."""

    def map(self, function: Callable[..., Result], *items: Iterable[Any]) -> Iterator[Result]: ...

    def apart(self, function: Callable[..., Result], *items: Iterable[Any]) -> Iterator[Result]:
        """The same for few large pieces of work, in which `map` is called again."""

    def close(self) -> None: ...


class Serial:
    """Run the blocks one after the other."""

    def map(self, function: Callable[..., Result], *items: Iterable[Any]) -> Iterator[Result]:
        return map(function, *items)

    apart = map

    def close(self) -> None:
        """Nothing to release."""


#: items of a map that nobody has begun: where the result goes, and the call that gives it
Waiting = deque[tuple["Future[Any]", Callable[[], Any]]]


class Threads:
    """Run the blocks on a pool of threads; results come back in the order of the items.

    Who asks for a map works on it, too, and threads that are free help with whatever map was opened last. So a map
    ends also where no thread is free, as within searches that run side by side, and a thread whose search has ended
    helps with the blocks of the others.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self.pool = ThreadPoolExecutor(n_threads)
        self._open: dict[int, Waiting] = {}  # maps by their identity, in the order in which they were opened

    def map(self, function: Callable[..., Result], *items: Iterable[Any]) -> Iterator[Result]:
        calls = _bound(function, items)
        if len(calls) == 1:  # a hand-over to another thread costs as much as a small evaluation
            return iter([calls[0]()])
        futures = deque[Future[Result]](Future() for _ in calls)
        waiting: Waiting = deque(zip(futures, calls, strict=True))
        self._open[id(waiting)] = waiting
        for _ in range(min(self.n_threads, len(calls)) - 1):
            self.pool.submit(self._help)
        return self._results(futures, waiting)

    def apart(self, function: Callable[..., Result], *items: Iterable[Any]) -> Iterator[Result]:
        calls = _bound(function, items)
        if len(calls) == 1 or open_threads() == 1:  # within a thread; were all of them to wait, nobody would work
            return (call() for call in calls)
        return self.pool.map(_call, calls)

    def close(self) -> None:
        self.pool.shutdown(wait=True)

    def _results(self, futures: deque[Future[Result]], waiting: Waiting) -> Iterator[Result]:
        """Each result as soon as it is there, so that few are kept; until then the caller works on what waits."""
        try:
            while futures:
                while waiting and not futures[0].done():
                    self._take(waiting)
                yield futures.popleft().result()
        finally:
            waiting.clear()
            self._open.pop(id(waiting), None)

    def _help(self) -> None:
        """Work on what waits of any map, of the last one first, until nothing does."""
        while True:
            for waiting in reversed(list(self._open.values())):
                if self._take(waiting):
                    break
            else:
                return

    @staticmethod
    def _take(waiting: Waiting) -> bool:
        """Do what waits first; whether there was something."""
        try:
            future, call = waiting.popleft()
        except IndexError:  # another thread was quicker
            return False
        before = _OPEN_THREADS.set(1)
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):  # the user stops the fit
                raise
        finally:
            _OPEN_THREADS.reset(before)
        return True


def _bound(function: Callable[..., Result], items: Iterable[Iterable[Any]]) -> list[Callable[[], Result]]:
    """Calls of a function with the items, for any thread: it starts with NumPy's defaults, not with its caller's."""
    settings = np.geterr()

    def bind(arguments: tuple[Any, ...]) -> Callable[[], Result]:
        def call() -> Result:
            with np.errstate(**settings):
                return function(*arguments)

        return call

    return [bind(arguments) for arguments in zip(*items, strict=True)]


def _call(call: Callable[[], Result]) -> Result:
    return call()


def available_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_dask(given: Any) -> bool:
    """Whether something is an array, a data frame or a series of Dask."""
    kind = type(given)
    return kind.__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(given, "to_delayed")


@contextmanager
def executor_for(n_jobs: int | None) -> Iterator[Executor]:
    """Open the executor for a number of jobs (None or negative: the cores that there are), then close it."""
    n_threads = available_cores() if n_jobs is None or n_jobs < 1 else n_jobs
    _keep_freed_memory()
    executor: Executor = Serial() if n_threads == 1 else Threads(n_threads)
    before = _OPEN_THREADS.set(n_threads)
    try:
        with single_threaded_blas():
            yield executor
    finally:
        _OPEN_THREADS.reset(before)
        executor.close()


def open_threads() -> int:
    """How many threads may work for the caller: those of its executor, or one within a block."""
    return _OPEN_THREADS.get()


@cache
def _keep_freed_memory() -> None:
    """Let glibc keep what block-sized arrays give back, instead of returning it to the system.

    Else each array of a block is fetched page by page: a tenth of the time of an evaluation, and a third where the
    environment forbids glibc to learn which sizes come again and again, as Dask's does for its workers. Elsewhere it
    does nothing.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    for option, size in MALLOC_OPTIONS:
        mallopt(option, size)


@cache
def _controller() -> ThreadpoolController:
    # scanning the loaded libraries takes a millisecond; entering a limit on a known controller does not. Only loaded
    # ones are found: SciPy's BLAS, left alone, would keep a thread spinning after every Cholesky factor
    import_module("scipy.linalg")
    return ThreadpoolController()


class _BlasLimit:
    """BLAS on one thread for as long as anybody asks for it, in whichever thread and order they come and go.

    The limit belongs to the process. Were each caller to put back what it found, the one that leaves last could put
    back the limit of another, for good; so callers are counted, and the last one puts back what the first one found.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.limiter: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.count == 0:
                _let_any_thread_set_limits()
                self.limiter = _controller().limit(limits=1, user_api="blas")
            self.count += 1

    def __exit__(self, *exception: object) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                _let_any_thread_set_limits()
                self.limiter.restore_original_limits()
                self.limiter = None
                _let_any_thread_set_limits()


def _let_any_thread_set_limits() -> None:
    """Tell threadpoolctl, which from 3.7 on ignores all threads but the first that set a limit, to forget that one."""
    forget = getattr(OpenBLASController, "clear_controlling_thread", None)
    if forget is not None:
        forget(force=True)


_blas_limit = _BlasLimit()


def _begin_anew_after_fork() -> None:
    """A child has no fit under way, whatever its parent was doing."""
    if _blas_limit.limiter is not None:
        _blas_limit.limiter.restore_original_limits()
    _blas_limit.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_after_fork)


def single_threaded_blas() -> AbstractContextManager[None]:
    """Limit BLAS to one thread while the returned context lives: parallel work is over row blocks."""
    return _blas_limit


def rows_per_block(n_knots: int, n_rows: int) -> int:
    """Choose how many rows a block has: its arrays stay in cache, and blocks are of nearly equal size.

    Multiples of 64: two threads on blocks of 1025 rows are a seventh slower than on blocks of 1024. An even number of
    blocks, for two threads to share.
    """
    most = max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, BLOCK_BYTES // (8 * max(n_knots, 1)) // 64 * 64))
    n_blocks = max(-(-n_rows // most), 2 if n_rows >= 2 * MIN_BLOCK_ROWS else 1)
    if n_blocks == 1:
        return most
    n_blocks += n_blocks % 2
    return -(-n_rows // (64 * n_blocks)) * 64


def block_slices(n_rows: int, block_size: int) -> list[slice]:
    """Cut the rows 0 .. n_rows into slices of block_size rows (the last may be shorter)."""
    return [slice(start, min(start + block_size, n_rows)) for start in range(0, n_rows, block_size)]
