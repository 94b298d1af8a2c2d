"""The benchmarks: the bare transcription against the engine, and each script at a tiny size."""

import importlib
import json
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise.evidence import Jitter, Model, Rows, sparse_evidence
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import LIKELIHOODS, Gaussian
from knotwise.means import Constant

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))  # for child processes, installed or not


def script(name):
    return importlib.import_module(name)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_the_bare_transcription_equals_the_engine(power):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((90, 3))
    y, Z = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(90), X[:11] + 0.1
    model = Model(SquaredExponential(1.7, 1.2), Gaussian(0.15), Constant(0.3), power)
    ours = sparse_evidence(model, Rows(X, y, None, model.mean.basis(X)), Z, jitter=Jitter(1e-6, X[:1]), block_size=40)
    value, gradient, knot_gradient = script("bare").bare_evidence(
        X, y, Z, variance=1.7, lengthscale=1.2, noise=0.15, mean=0.3, jitter=1e-6, power=power
    )
    assert_allclose(ours.value, value, rtol=1e-9)
    assert_allclose(ours.gradient, gradient, rtol=1e-9, atol=1e-9 * np.abs(gradient).max())
    assert_allclose(ours.knot_gradient, knot_gradient, rtol=1e-9, atol=1e-9 * np.abs(knot_gradient).max())


@pytest.mark.slow
def test_the_ladder_measures_tiny_cases_in_children_and_prints_them(capsys):
    ladder = script("ladder")
    cases = [ladder.Case(60, 5, 2, "kept", threads) for threads in (1, 2)]
    results = ladder.run(cases, rounds=1, dgemm_size=40)
    ladder.print_ratios(results)
    assert [result.case for result in results] == cases
    table, _, two_over_one = capsys.readouterr().out.strip().partition("\n\n")
    for line, result in zip(table.splitlines()[1:], results, strict=True):
        case = result.case
        numbers = [f"{result.seconds:.3g}", f"{result.core_rate / 1e9:.1f}", f"{result.share(case.nominal_flops):.2f}"]
        assert line.split()[:9] == [*(str(n) for n in (60, 5, 2, "kept", 1, case.threads)), *numbers]
    assert float(two_over_one.split()[-1]) == pytest.approx(results[1].seconds / results[0].seconds, abs=0.006)


def test_shares_are_flops_per_second_over_those_of_dgemm_on_as_many_cores():
    ladder = script("ladder")
    streamed = ladder.Case(1000, 10, 2, "streamed", threads=2)
    result = ladder.Result(streamed, seconds=0.5, dgemm_seconds=0.25, dgemm_size=100, extra_bytes=0)
    assert result.core_rate == 2 * 100**3 / 0.25
    assert result.share(streamed.nominal_flops) == pytest.approx(13 * 1000 * 10**2 / 0.5 / (2 * 8e6), rel=1e-15)
    kinds = [("streamed", 1.0, 13, 7), ("kept", 1.0, 9, 6), ("streamed", 0.0, 13, 6), ("kept", 0.0, 9, 5)]
    for V, power, nominal, least in kinds:
        case = ladder.Case(7, 3, 2, V, 1, power)
        assert (case.nominal_flops, case.least_flops) == (nominal * 63, least * 63)


def test_quick_leaves_out_the_million_rows_and_eight_columns_and_nothing_else():
    ladder = script("ladder")
    every, quick = list(ladder.cases_of(False)), list(ladder.cases_of(True))
    assert len(set(every)) == len(every) == 3 * 4 * 3 * 2 * 2 + 4 + 10
    assert quick == [case for case in every if case.N < 1_000_000 and case.d < 8]
    assert {case.power for case in quick} == {0.0, 1.0}


def test_the_small_case_is_timed_against_the_same_numbers():
    found = script("ladder").measure_small(rounds=1)
    assert found["seconds"] > 0 and found["bare_seconds"] > 0


def test_the_peak_sees_an_array_that_is_gone_again():
    memory = script("memory")
    before, size = memory.resident(), 80_000_000
    total, peak = memory.peak_during(lambda: np.ones(size // 8).sum())
    assert total == size // 8
    assert peak - before > 0.9 * size
    _, later = memory.peak_during(lambda: None)
    assert later < peak - 0.5 * size or not Path("/proc/self/clear_refs").exists()


@pytest.mark.parametrize("case", ["fit", "evidence", pytest.param("auto", marks=pytest.mark.slow)])
def test_work_in_a_child_reports_its_memory(case):
    memory = script("memory")
    settings = {"case": case, "n_rows": 300, "n_knots": 5, "n_columns": 2, "max_iterations": 2}
    found = memory.run_child(memory.__file__, settings)
    assert found["data"] == 300 * 3 * 8
    assert found["peak"] >= found["libraries"] > 0 and found["evaluations"] >= 1


def test_imports_are_timed_without_the_start_of_the_interpreter():
    start = time.perf_counter()
    nothing = script("imports").seconds_of("pass")
    assert nothing < 0.5 * (time.perf_counter() - start)
    assert script("imports").seconds_of("time.sleep(0.05)") >= 0.05


def test_data_of_several_blocks_are_a_sine_of_standard_normal_inputs_with_noise():
    X, y = script("memory").make_data(25_000, 2)
    assert_allclose([X.mean(), X.std()], [0, 1], atol=0.03)
    assert_allclose((y - np.sin(X.sum(1))).std(), 0.3, rtol=0.05)


def test_intervals_of_every_likelihood_are_timed_and_stored(tmp_path, monkeypatch, capsys):
    bar, out = script("bars.response"), tmp_path / "rows.jsonl"
    monkeypatch.setattr("sys.argv", ["response.py", "--rows", "30", "--million", "40", "--out", str(out)])
    bar.main()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["likelihood"].split("-")[0] for row in rows} == set(LIKELIHOODS)
    assert [row["rows"] for row in rows] == [30] * (len(rows) - 1) + [40]
    printed = capsys.readouterr().out.splitlines()[1:]
    assert [float(line.split()[2]) for line in printed] == [
        pytest.approx(row["microseconds_per_row"], abs=0.06) for row in rows
    ]
