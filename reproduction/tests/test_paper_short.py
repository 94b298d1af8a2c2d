"""Short length-scales, beyond the paper: the data, the cases of a job, the table, and what the stored rows say."""

import importlib
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from knotwise.kernels import Matern32
from knotwise.knots import OneAtATime
from knotwise_reproduction import runs
from knotwise_reproduction.claims import judge_claims
from knotwise_reproduction.data import KNOTWISE
from knotwise_reproduction.experiments import EXPERIMENTS, FULL, Job, experiments_named, job_of, plan
from knotwise_reproduction.folder import is_row
from knotwise_reproduction.results import Results
from knotwise_reproduction.runs import run, versions
from knotwise_reproduction.short import CASES, PICTURED, WINDOW
from knotwise_reproduction.store import RowStore, read_rows
from knotwise_reproduction.tables_short import describe_losses, loss_table, losses, short_table
from paper_rows import make_rows

ROOT = Path(__file__).parents[2]
SHORT = EXPERIMENTS["short"]
OAT, AUTO, NEAR = "OAT 50", "auto", "15 neighbours"


def made(method, case, nlpd, seed=0, **values):
    """A row made by hand."""
    scores = {"nlpd": nlpd, "rmse": 0.25, "coverage": 0.94}
    row = {"experiment": "short", "setting": KNOTWISE, "method": method, "seed": seed, "case": case}
    row |= {"versions": versions(), "n_knots": 50, "n_neighbors": 0, "seconds": 2.0, "metrics": scores}
    return row | values


# -- data and jobs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["line-0.01", "plane-0.1"])
def test_whitened_by_the_stated_covariance_the_data_are_independent_normals(case):
    task = SHORT.task(1, case)

    def spread(lengthscale, noise_sd):
        K = Matern32(1.0, lengthscale)(task.X, task.X) + noise_sd**2 * np.eye(len(task.X))
        return np.mean(np.linalg.solve(np.linalg.cholesky(K), task.y) ** 2)

    stated = CASES[case].lengthscale
    band = 4 * np.sqrt(2 / len(task.X))  # four standard errors of a mean of squares
    assert spread(stated, 0.1) == pytest.approx(1.0, abs=band)
    assert abs(spread(2 * stated, 0.1) - 1) > band and abs(spread(stated, 0.05) - 1) > band


def test_length_scales_of_a_kind_differ_in_nothing_else_and_seeds_do():
    one, other, seeded = SHORT.task(0, "line-0.05"), SHORT.task(0, "line-0.01"), SHORT.task(1, "line-0.05")
    assert np.array_equal(one.X, other.X) and np.array_equal(one.X_test, other.X_test)
    assert not np.array_equal(one.y, other.y) and not np.array_equal(one.X, seeded.X)
    assert one.X.shape == (600, 1) and SHORT.task(0, "plane-0.05").X.shape == (900, 2)


def test_every_case_has_its_exact_gp_and_the_quick_form_has_one_case():
    jobs = plan([SHORT])
    assert len(set(jobs)) == len(jobs) == 3 * 6 * 4 and {job.case for job in jobs} == {*CASES}
    assert all(job.exact is None or job.exact in jobs for job in jobs)
    assert all(job.exact.case == job.case for job in jobs if job.method != FULL.name)
    quick = plan(experiments_named(["all"]), 1, quick=True)
    assert {job.case for job in quick if job.experiment == "short"} == {PICTURED}
    others = [job for job in quick if job.experiment != "short"]
    assert others == [job for job in plan(experiments_named(["all"]), 1) if job.experiment != "short"]
    assert "line-0.02, auto, seed 0" in str(Job("short", KNOTWISE, AUTO, 0, PICTURED))


def test_one_at_a_time_is_as_it_comes_and_the_papers_methods_have_no_neighbours():
    task = SHORT.task(0, PICTURED)
    assert runs.selector(task, SHORT.method(KNOTWISE, OAT), KNOTWISE, 0, None) == OneAtATime(max_knots=50)
    for experiment in EXPERIMENTS.values():
        for method in (each for methods in experiment.methods.values() for each in methods):
            assert (method.n_neighbors > 0) == (method.approximation is None) == (method.name == NEAR)


@pytest.fixture(scope="module")
def fitted():
    """The exact GP, and knots with neighbours, of the case with a picture."""
    exact = run(Job("short", KNOTWISE, FULL.name, 0, PICTURED), None)
    return exact, run(Job("short", KNOTWISE, NEAR, 0, PICTURED), exact.prediction)


def test_with_neighbours_held_out_rows_are_predicted_as_by_the_exact_gp(fitted):
    exact, near = (done.row for done in fitted)
    assert near["n_neighbors"] == 15 and exact["n_neighbors"] == exact["n_knots"] == 0
    assert near["metrics"]["nlpd"] == pytest.approx(exact["metrics"]["nlpd"], abs=0.01)
    task, p = SHORT.task(0, PICTURED), fitted[0].prediction
    variance = p.variance + p.added
    density = -0.5 * (np.log(2 * np.pi * variance) + (task.y_test - p.mean) ** 2 / variance)
    assert exact["metrics"]["nlpd"] == pytest.approx(-density.mean(), rel=1e-9)
    assert exact["metrics"]["rmse"] == pytest.approx(np.sqrt(np.mean((task.y_test - p.mean) ** 2)), rel=1e-9)


def test_the_picture_is_of_the_window_and_has_the_knots_there(fitted):
    row, task = fitted[1].row, SHORT.task(0, PICTURED)
    low, high = WINDOW
    picture, Z = row["picture"], np.ravel(row["knots"])
    assert sorted(picture["knots"]) == pytest.approx(np.sort(Z[(low <= Z) & (high >= Z)]), rel=1e-4)
    x = task.X[:, 0]
    assert len(picture["x"]) == ((x >= low) & (x <= high)).sum() and row["n_knots"] == len(Z) > len(picture["knots"])
    assert fitted[0].row["picture"]["knots"] == []


def test_rows_and_predictions_of_a_case_are_kept_and_forgotten_apart_from_others(fitted, tmp_path):
    exact, near = fitted
    store = RowStore(tmp_path)
    store.add(exact.row, exact.prediction)
    (tmp_path / "exact" / "short-knotwise-mine-0.npz").write_bytes(b"a file of somebody")
    jobs = [Job("short", KNOTWISE, name, 0, case) for case in (PICTURED, "line-0.01") for name in (FULL.name, NEAR)]
    again = RowStore(tmp_path)
    assert job_of(exact.row) == jobs[0] and is_row(near.row) and not is_row(near.row | {"case": 1})
    assert again.missing(jobs, versions()) == jobs[1:]
    np.testing.assert_array_equal(again.prediction(jobs[1].exact).mean, exact.prediction.mean)
    assert again.prediction(jobs[3].exact) is None
    RowStore(tmp_path, fresh=True)
    assert [path.name for path in (tmp_path / "exact").iterdir()] == ["short-knotwise-mine-0.npz"]


# -- the table ----------------------------------------------------------------------------------------


def test_losses_are_between_fits_of_the_same_case_and_seed():
    rows = [made(FULL.name, "line-0.05", nlpd, seed) for seed, nlpd in enumerate([1.0, 2.0, 3.0])]
    rows += [made(OAT, "line-0.05", nlpd, seed) for seed, nlpd in enumerate([1.5, 2.1])]
    rows += [made(FULL.name, "plane-0.1", 0.0), made(OAT, "plane-0.1", 0.75)]
    results = Results(rows)
    assert losses(results, OAT, "line-0.05") == pytest.approx([0.5, 0.1])
    assert losses(results, OAT, "plane-0.1") == [0.75] and losses(results, AUTO, "plane-0.1") == []
    assert describe_losses(results) == "Against the exact GP a test row loses 0.300 to 0.750 nats with OAT 50."


def test_the_table_has_every_method_of_what_was_run_and_says_what_was_not_and_what_failed():
    rows = [made(FULL.name, PICTURED, -1.0, n_knots=0), made(OAT, PICTURED, -0.7, n_knots=50)]
    rows += [made(FULL.name, PICTURED, 1.0, 1, n_knots=0), made(OAT, PICTURED, 1.6, 1)]
    rows += [made(AUTO, PICTURED, 0.0, error="no")]
    table = short_table(rows)
    assert [cells[0] for cells in table.rows] == ["line, 0.02", "", "", ""]
    lines = {cells[1]: cells[2:] for cells in table.rows}
    assert lines[FULL.name] == ("-", "-", "0.250", "-", "0.94", "2.0")
    assert lines[OAT] == ("50", "0", "0.250", "0.450", "0.94", "2.0")
    assert lines[AUTO][0] == "1 failed" and lines[NEAR][0] == "not run"
    assert "0.450 nats with OAT 50." in table.note and "Seeds: 2. Not run: line, 0.05; line, 0.01" in table.note
    assert len(short_table([]).rows) == 6 * 4 and short_table([]).note.startswith("Loss is the mean")
    ranges = loss_table(rows)
    assert ranges.rows == (("line, 0.02", "0.450 (0.300 to 0.600)", "-", "-"),) and len(loss_table([]).rows) == 6


def test_no_claim_of_the_paper_is_judged_by_it():
    rows = make_rows()
    assert judge_claims(rows) == judge_claims(row for row in rows if row["experiment"] != "short")


# -- the page -----------------------------------------------------------------------------------------


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "reproduction")
    return importlib.import_module("paper_page")


def lengthscale_ratios(results, method, case):
    """The length-scale of a method over that of the exact GP, seed by seed."""
    pairs = results.pairs("short", KNOTWISE, method, FULL.name, case)
    return [own["parameters"]["lengthscale"] / exact["parameters"]["lengthscale"] for own, exact in pairs]


def test_what_the_page_says_in_words_is_so_in_its_rows(page):
    results = Results(read_rows(page.ROWS))

    def middle(method, case):
        found = losses(results, method, case)
        assert len(found) == 3
        return median(found)

    for case in CASES:
        oat, auto = middle(OAT, case), middle(AUTO, case)
        assert 0.15 < oat < 1.1 and oat > 2 * auto and max(losses(results, NEAR, case)) < 0.0125
        stops = results.of("short", KNOTWISE, OAT, case)
        assert all(row["n_knots"] == 50 and "more are needed" in row["reason"] for row in stops)
        limited = [row["n_knots"] in (200, 300) for row in results.of("short", KNOTWISE, AUTO, case)]
        assert limited == [case != "line-0.05"] * 3
        ratio = {method: lengthscale_ratios(results, method, case) for method in (OAT, AUTO, NEAR)}
        assert np.max(np.abs(np.log(ratio[NEAR]))) < 0.06
        assert case == "line-0.05" or (min(ratio[OAT]) > 1.5 and max(ratio[OAT]) < 2.55)
        assert (min(ratio[AUTO]) > 1.7) == (case == "plane-0.05")
    assert max(losses(results, AUTO, "line-0.01")) < 0.1 and middle(AUTO, "plane-0.05") > 0.3
    for place in ("line", "plane"):  # automatic knots lose more and more as the length-scale gets shorter
        lost = [middle(AUTO, name) for name, case in CASES.items() if case.place == place]
        assert lost == sorted(lost)


def test_storing_a_run_of_one_experiment_leaves_the_rows_of_others(page, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    store = RowStore(folder)
    store.add(made(AUTO, "line-0.05", 7.0, seed=2))
    stored = tmp_path / "rows.jsonl"
    stored.write_bytes(page.ROWS.read_bytes())
    text = tmp_path / "paper.md"
    text.write_bytes(page.PAGE.read_bytes())
    before = stored.read_text(encoding="utf-8").splitlines()
    monkeypatch.setattr(page, "ROWS", stored)
    monkeypatch.setattr(page, "PAGE", text)
    page.main([str(folder)])
    after = stored.read_text(encoding="utf-8").splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 1 and '"nlpd":7.0' in changed[0][1] and '"case":"line-0.05"' in changed[0][0]
