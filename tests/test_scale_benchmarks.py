"""The benchmarks of many rows: simulated truths, files, the model of cost, and each script at a tiny size."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise.posterior.base import Latent

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))  # for child processes, installed or not


def script(name):
    return importlib.import_module(name)


# -- simulated rows -------------------------------------------------------------------------------


class Knowing:
    """A model that knows the truth."""

    def __init__(self, simulation):
        self.simulation = simulation
        self.predict, self.log_predictive_density = simulation.response, simulation.log_density

    def predict_proba(self, X):
        one = self.simulation.response(X)
        return np.column_stack([1 - one, one])

    def predict_latent(self, X):
        return Latent(self.simulation.linked(X), np.zeros(len(X)))


def test_fits_are_compared_in_standard_deviations_of_the_smaller_one():
    simulation = script("simulated").Simulation("gaussian")
    smaller, larger = Knowing(simulation), Knowing(simulation)
    off = lambda X: simulation.linked(X) + np.where(X[:, 0] < 0.5, 1.5, 3.0)  # noqa: E731
    smaller.predict_latent = lambda X: Latent(off(X), np.ones(len(X)))
    found = simulation.compare_fits(smaller, larger, 10_000, seed=3)
    assert_allclose(found["beside_sd"], np.sqrt((1.5**2 + 3.0**2) / 2), rtol=0.02)
    assert_allclose(found["beside_within"], 0.5, atol=0.02)


@pytest.mark.parametrize("kind", ["gaussian", "counts", "classes"])
def test_who_knows_the_truth_loses_nothing_and_rows_are_drawn_about_it(kind):
    simulation = script("simulated").Simulation(kind)
    found = simulation.compare(Knowing(simulation), 500, seed=3)
    assert_allclose([found["error"], found["density_lost"]], 0.0, atol=1e-12)
    assert found["covers"] == 1.0
    X, y = simulation.draw(40_000, np.random.default_rng(1))
    response = simulation.response(X)
    residual = y - response
    variance = {"gaussian": 0.04, "counts": response, "classes": response * (1 - response)}[kind]
    assert abs(residual.mean()) < 4 * np.sqrt(np.mean(variance) / len(y))
    assert_allclose(np.mean(residual**2 / variance), 1.0, rtol=0.05)


def test_files_hold_all_rows_and_those_that_are_there_stay(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    large = script("large")
    large.write_files(tmp_path, "counts", 1000, 3)
    files = sorted(tmp_path.iterdir())
    whole = pq.read_table(tmp_path).to_pandas()
    assert [pq.read_metadata(file).num_rows for file in files] == [333, 333, 334]
    assert_allclose(whole[large.COLUMNS].mean(), 0.5, atol=0.05)
    assert whole[large.COLUMNS].drop_duplicates().shape == (1000, 4)  # no file repeats another
    files[1].unlink()
    before = files[0].stat().st_mtime_ns
    large.write_files(tmp_path, "counts", 1000, 3)
    assert files[0].stat().st_mtime_ns == before
    assert pq.read_table(tmp_path).to_pandas().equals(whole)


# -- the model of cost ----------------------------------------------------------------------------


@pytest.fixture
def model():
    return script("scale_model")


def test_without_spread_the_simulation_is_the_formula(model):
    machine = model.Machine(1e10, bandwidth=np.inf, latency=0.02, per_task=0.0, spread=0.0)
    work = model.Work(10**6, 100, 8, 8)
    rng = np.random.default_rng(0)
    assert_allclose(model.simulate(work, machine, rng), model.predict(work, machine), rtol=1e-12)
    assert_allclose(model.simulate(work, machine, rng, tree=True), model.predict(work, machine), rtol=1e-12)
    flops = 10**6 * (8 * 100**2 + 2 * model.KERNEL_FLOPS * 100)
    by_hand = flops / 8e10 + 0.04 + model.DRIVER_FLOPS * 100**3 / 1e10
    assert_allclose(model.predict(work, machine), by_hand, rtol=1e-12)


def test_stragglers_slow_links_and_tasks_only_cost(model):
    machine = model.Machine(1e10, latency=0.0, per_task=0.0, spread=0.0, bandwidth=np.inf)
    work = model.Work(10**7, 100, 64, 64)
    ideal = sum(work.pass_flops) / 64e10
    for worse in ({"spread": 0.3}, {"bandwidth": 1e8}, {"per_task": 1e-3}, {"latency": 0.1}):
        assert model.mean_seconds(work, replace(machine, **worse), 5, tree=False) > ideal * 1.01


def test_answers_wait_for_the_link_of_the_driver(model):
    machine = model.Machine(1e10, bandwidth=1.0)
    assert model._received(np.array([0.0, 5.0, 1.0]), 2.0, machine) == 7.0  # at 2, at 4, and at 5 + 2
    at_once = np.zeros(64)
    assert model._received(at_once, 2.0, machine) == 128.0
    assert (
        model._added_in_pairs(at_once, 2.0, replace(machine, per_task=0.0)) == 6 * 2.0 + 2.0
    )  # six levels, and the way


def test_more_rows_are_worth_more_cores(model):
    machine = model.Machine(1e10)
    pay = [model.cores_that_pay(machine, rows, 100) for rows in (1e6, 1e7, 1e8)]
    assert pay == sorted(set(pay))


def test_the_calibrated_machine_takes_as_long_as_was_measured(model, tmp_path, monkeypatch):
    row = {"rows": 10**5, "columns": 4, "knots": 100, "partitions": 8, "groups": 2, "workers": 0.9}
    row |= {"empty_pass": 0.03, "per_task": 0.001, "task_spread": 0.1}
    large = {"kind": "gaussian", "rows": 10**6, "columns": 4, "knots": 50, "partitions": 8, "workers": 2}
    (tmp_path / "dask_evaluation.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "large.jsonl").write_text(json.dumps(large | {"evaluation_seconds": 2.0}) + "\n")
    monkeypatch.setattr(model, "RESULTS", tmp_path)
    machine = model.calibrated(model.Machine(1.0))
    small, other = model.measured()
    assert_allclose(model.predict(small[1], machine), 0.9, rtol=1e-12)
    expected = model.predict(other[1], machine)
    assert model.table_of_measurements(machine)[-1].endswith(f"| 2 | {expected:.3g} | {expected / 2:.2f} |")


def test_the_page_has_the_tables_of_what_is_stored(model):
    page = model.PAGE.read_text()
    assert model.with_tables(page) == page, "run: python benchmarks/scale_model.py --write"


# -- whole scripts --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_an_evaluation_is_timed_on_workers_and_threads_that_find_the_same_numbers():
    pytest.importorskip("distributed")
    found = script("dask_evaluation").measure(3000, 4, 12, rounds=2)
    assert_allclose(found["ratio"], found["workers"] / found["threads"], rtol=0.05)
    assert found["empty_pass"] > 0 and found["per_task"] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_large_example_finds_the_noise_and_predicts_every_row(tmp_path):
    pytest.importorskip("distributed")
    pq = pytest.importorskip("pyarrow.parquet")
    words = ["--rows", "6000", "--partitions", "3", "--workers", "1", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "large.py"), *words], capture_output=True, text=True, check=True
    )
    noise = next(line for line in done.stdout.splitlines() if line.strip().startswith("noise_variance"))
    assert_allclose(float(noise.split()[2]), 0.2, rtol=0.05)
    predicted = pq.read_table(tmp_path / "gaussian-6000-3-predicted").to_pandas()
    assert len(predicted) == 6000


def test_a_fit_to_some_rows_is_compared_with_the_truth(monkeypatch):
    subset = script("subset")
    monkeypatch.setattr(subset, "FRESH", 500)
    rows = [{"case": "smooth", "rows": n, "knots": 9, "seconds": 1.0, "error": e, "density_lost": d} for n, e, d in
            ((100, 0.2, 0.02), (1000, 0.1, 0.005))]  # fmt: skip
    assert "0.2 (2.0 times) | 0.02 (4.0 times)" in subset.table(rows)[2]
    found = subset.measure("smooth", 300, 0)
    assert found["error"] < 0.3 * found["spread"]
