"""Row blocks and executors: sums that are the same bits whoever computes them."""

import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from knotwise import GPRegressor
from knotwise.evidence import InMemory, Rows
from knotwise.numerics import blocks
from knotwise.numerics.blocks import (
    Serial,
    Threads,
    available_cores,
    block_slices,
    executor_for,
    rows_per_block,
    single_threaded_blas,
)


@pytest.fixture
def threads():
    executor = Threads(2)
    yield executor
    executor.close()


@given(st.integers(0, 2000), st.integers(1, 300))
def test_slices_cover_every_row_once_and_in_order(n_rows, block_size):
    slices = block_slices(n_rows, block_size)
    rows = [i for s in slices for i in range(n_rows)[s]]
    assert rows == list(range(n_rows))
    assert all(s.stop - s.start == block_size for s in slices[:-1])
    assert all(0 < s.stop - s.start <= block_size for s in slices)


@given(st.integers(0, 100_000), st.integers(1, 10**7))
def test_a_block_stays_in_the_cache_unless_it_would_have_too_few_rows(n_knots, n_rows):
    rows = rows_per_block(n_knots, n_rows)
    assert rows % 64 == 0
    assert rows <= blocks.MAX_BLOCK_ROWS
    assert rows <= blocks.MIN_BLOCK_ROWS or 8 * rows * n_knots <= blocks.BLOCK_BYTES
    assert rows >= rows_per_block(n_knots + 1, n_rows)


@given(st.integers(1, 1000), st.integers(1024, 20_000))
def test_two_threads_get_shares_of_nearly_equal_size(n_knots, n_rows):
    sizes = [s.stop - s.start for s in block_slices(n_rows, rows_per_block(n_knots, n_rows))]
    assert len(sizes) > 1
    assert abs(sum(sizes[::2]) - sum(sizes[1::2])) <= 64 * len(sizes)


@pytest.mark.parametrize("n_items", [1, 2, 25])
def test_threads_return_results_in_the_order_of_the_items_not_of_arrival(n_items, threads):
    def slow_for_early_items(i):
        time.sleep(0.002 * (i % 2 == 0))
        return i

    assert list(threads.map(slow_for_early_items, range(n_items))) == list(range(n_items))


def test_threads_do_work_at_the_same_time(threads):
    both_there = threading.Barrier(2, timeout=10)  # passes only if two items are at work
    assert sorted(threads.map(lambda i: both_there.wait() >= 0, range(2))) == [True, True]


def test_one_item_is_not_handed_to_another_thread(threads):
    assert list(threads.map(lambda _: threading.get_ident(), [0])) == [threading.get_ident()]


@dataclass(frozen=True)
class RowPass:
    """The inputs of a block of one row."""

    width: int = 1
    halo: None = None

    def __call__(self, block, cache):
        return block.rows.X[0].copy()


def test_sums_are_the_same_bits_for_any_executor(threads, rng):
    parts = np.array([rng.normal(size=50) * 10.0 ** rng.integers(-8, 8) for _ in range(40)])

    def total(parts, executor):
        rows = Rows(parts, np.zeros(40), None, np.empty((40, 0)))
        return InMemory(rows, executor, block_size=1).sum(RowPass())

    expected = parts[0].copy()
    for part in parts[1:]:
        expected += part
    for executor in (Serial(), threads):
        assert_array_equal(total(parts, executor), expected)
    assert (total(parts[::-1], Serial()) != expected).any()  # so the order does matter to the bits


def test_an_error_in_a_block_reaches_the_caller(threads):
    def fail(i):
        raise KeyError(i)

    for executor in (Serial(), threads):
        with pytest.raises(KeyError):
            list(executor.map(fail, range(3)))


def test_searches_side_by_side_map_their_blocks_and_come_back_in_order():
    def search(n):
        return sum(executor.map(lambda i: i * n, range(20)))

    for executor in (Serial(), Threads(2), Threads(4)):
        expected = [190 * n for n in range(7)]
        assert list(executor.apart(search, range(7))) == expected
        inside = executor.map(lambda n: sum(executor.apart(search, [n, n])), range(7))  # noqa: B023
        assert list(inside) == [2 * each for each in expected]
        executor.close()


def test_a_thread_whose_search_has_ended_helps_the_others(threads):
    ended = threading.Event()

    def search(long):
        if not long:
            ended.set()
            return True
        ended.wait(10)
        both_there = threading.Barrier(2, timeout=10)  # passes only if another thread takes one of the two
        return all(index >= 0 for index in threads.map(lambda _: both_there.wait(), range(2)))

    assert list(threads.apart(search, [True, False])) == [True, True]


def test_who_asks_for_a_map_works_on_it_and_a_map_that_is_left_is_forgotten(threads):
    workers = set(threads.map(lambda _: time.sleep(0.002) or threading.get_ident(), range(20)))
    assert threading.get_ident() in workers and len(workers) <= 2
    left = threads.map(lambda i: i, range(20))
    assert next(left) == 0
    left.close()
    assert not threads._open


@pytest.mark.parametrize(("n_rows", "n_columns"), [(600, 3), pytest.param(8000, 2, marks=pytest.mark.slow)])
def test_a_default_fit_has_the_same_bits_on_any_number_of_threads(n_rows, n_columns):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, n_columns))
    y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + np.abs(X[:, 0] - X[:, 1]) + 0.1 * rng.normal(size=n_rows)
    one, *others = (GPRegressor(random_state=0, n_jobs=n).fit(X, y) for n in (1, 2, 4))
    for other in others:
        assert repr(other.kernel_) == repr(one.kernel_)
        assert other.log_evidence_ == one.log_evidence_
        assert_array_equal(other.predict(X[:50], return_std=True), one.predict(X[:50], return_std=True))
        assert [step.note for step in other.trace_] == [step.note for step in one.trace_]


@pytest.mark.parametrize(("n_jobs", "kind"), [(1, Serial), (2, Threads), (3, Threads)])
def test_the_number_of_jobs_chooses_the_executor(n_jobs, kind):
    with executor_for(n_jobs) as executor:
        assert type(executor) is kind
        assert getattr(executor, "n_threads", 1) == n_jobs


@pytest.mark.parametrize("n_jobs", [None, -1])
def test_no_number_of_jobs_means_the_cores_that_there_are(n_jobs):
    with executor_for(n_jobs) as executor:
        assert getattr(executor, "n_threads", 1) == available_cores()


def test_an_executor_is_closed_at_the_end_also_after_an_error():
    with executor_for(2) as executor:
        pass
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.map(abs, [1, 2])
    with pytest.raises(KeyError), executor_for(2) as executor:
        raise KeyError
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.map(abs, [1, 2])


def test_closing_leaves_no_thread_behind():
    before = threading.active_count()
    with executor_for(3) as executor:
        list(executor.map(abs, range(20)))
    assert threading.active_count() == before


def test_available_cores_are_those_that_the_process_may_use():
    assert 1 <= available_cores() <= os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        assert available_cores() == len(os.sched_getaffinity(0))


def test_without_affinity_the_cores_of_the_machine_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert available_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_inside_and_what_it_had_outside():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with single_threaded_blas():
            assert blas_threads() == {1}
        with executor_for(2):
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_blas_has_what_it_had_when_overlapping_users_have_left_in_any_order():
    for leaves_first in (0, 1):
        with threadpool_limits(2, user_api="blas"):
            before = blas_threads()
            users = [single_threaded_blas(), single_threaded_blas()]
            for user in users:
                user.__enter__()
            users.pop(leaves_first).__exit__(None, None, None)
            assert blas_threads() == {1}
            users.pop().__exit__(None, None, None)
            assert blas_threads() == before


@pytest.mark.slow
@pytest.mark.failure(46)
def test_fits_and_predictions_in_threads_give_the_same_bits_and_leave_blas_as_it_was():
    """Case 46: fits and predictions in threads."""
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(700, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=700)

    def fit_and_predict(likelihood):
        gp = GPRegressor(knots=10, likelihood=likelihood, random_state=0, progress=False).fit(X, y - y.min() + 1)
        return np.array([*gp.predict(X, return_std=True), *gp.predict_interval(X).T])

    likelihoods = ["gaussian", "lognormal", "gaussian", "lognormal"]
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        expected = [fit_and_predict(name) for name in likelihoods[:2]]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(fit_and_predict, likelihoods))
        assert blas_threads() == before
    for one, other in zip(found, expected + expected, strict=True):
        assert_array_equal(one, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_forked_while_a_fit_runs_has_blas_as_it_was_before():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with single_threaded_blas():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of forks in processes with threads
                child = os.fork()
            if child == 0:
                os._exit(0 if blas_threads() == before else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert blas_threads() == {1}
