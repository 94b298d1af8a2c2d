"""The paper's reproduction: scores against formulas, tables and claims on rows made by hand, kills and restarts."""

import contextlib
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from knotwise.errors import InvalidInputError, KnotwiseError, UnknownOptionError
from knotwise_reproduction import reproduce as whole
from knotwise_reproduction import runs, workers
from knotwise_reproduction.claims import judge_claims
from knotwise_reproduction.data import KNOTWISE, PUBLISHED
from knotwise_reproduction.display import Estimate, duration
from knotwise_reproduction.experiments import EXPERIMENTS, FULL, Job, experiments_named, job_of, plan
from knotwise_reproduction.judging import Finding, lower, similar, times
from knotwise_reproduction.motivation import SixthKnot
from knotwise_reproduction.placements import place_knots
from knotwise_reproduction.published import TABLES
from knotwise_reproduction.results import Results, metric, number, spread
from knotwise_reproduction.runs import Finished, run, versions
from knotwise_reproduction.statements import STATEMENTS
from knotwise_reproduction.store import RowStore, read_rows, row_line
from knotwise_reproduction.tables import all_tables, tables_of
from paper_rows import make_rows

ROOT = Path(__file__).parents[2]


def made(method, seed=0, experiment="boston", setting=PUBLISHED, **values):
    """A row made by hand."""
    scores = values.pop("metrics", {})
    row = {
        "experiment": experiment,
        "setting": setting,
        "method": method,
        "seed": seed,
        "versions": versions(),
        "threads": 1,
        "n_tmax": None,
        "seconds": 1.0,
        "n_knots": 0 if method == "Full" else 50,
        "gradient_steps": 100,
        "log_evidence": -100.0,
        "metrics": {"aukl_published": 0.5, "aukl_latent": 1.5, "near_knots": 0.0, "spread": 1.0} | scores,
        "parameters": {"variance": 1.0, "lengthscale": 1.0, "noise_variance": 1.0},
        "initial_knots": [],
        "knots": [],
        "converged": True,
        "reason": "made by hand",
        "picture": None,
    }
    return row | values


def timeless(row):
    return {name: value for name, value in row.items() if name != "seconds"}


# -- the paper's numbers ------------------------------------------------------------------------------

#: the tables as the paper's source has them, with our names of the methods
TRANSCRIPT = {
    "gaussian": """
        Full & -- & 0.192 & -- & -- & -311.720
        OAT uniform & 13 & 0.180 & 50 & 464 & -308.120
        OAT adversarial & 22 & 0.228 & 96 & 669 & -308.587
        OAT random & 13 & 0.228 & 50 & 470 & -308.225
        Simult. uniform & 13 & 0.220 & 140 & 212 & -306.852
        Simult. adversarial & 22 & 0.196 & 700 & 529 & -308.398
        Simult. random & 13 & 0.247 & 88 & 140 & -308.071""",
    "boston": """
        Full & 394 & -- & -- & 0.359 & 2.500 & 0.000
        OAT-BO 25 & 545 & 13 & 25 & 0.366 & 2.466 & 0.045
        OAT-RS 25 & 356 & 12 & 25 & 0.366 & 2.464 & 0.039
        OAT-RS 50 & 339 & 15 & 50 & 0.364 & 2.469 & 0.047
        Simult. 50 & 25831 & 50 & -- & 0.378 & 2.291 & 0.356
        Simult. 13 & 3945 & 13 & -- & 0.356 & 2.313 & 0.242""",
    "banana": """
        Full & 26795 & -- & -- & 0.038 & 0.000
        OAT-BO 25 & 3150 & 25 & 50 & 0.037 & 0.061
        OAT-RS 25 & 2954 & 25 & 50 & 0.038 & 0.051
        OAT-RS 50 & 3471 & 50 & 50 & 0.038 & 0.039
        Simult. 50 & 6219 & -- & 50 & 0.069 & 3.265""",
    "hickory": """
        Full & 5892 & -- & -- & 1.040 & 0.000
        OAT-BO 25 & 846 & 28 & 25 & 1.058 & 0.321
        OAT-RS 25 & 1083 & 33 & 25 & 1.066 & 0.276
        OAT-RS 50 & 989 & 30 & 50 & 1.055 & 0.279
        Simult. 50 & 18456 & 50 & -- & 1.068 & 0.597
        Simult. 28 & 15046 & 28 & -- & 1.060 & 0.426""",
    "poisson": """
        Full & -- & 0.198 & 195 & 158 & -511.006
        OAT uniform & 11 & 0.249 & 135 & 950 & -510.715
        OAT random & 19 & 0.188 & 177 & 958 & -508.356
        Simult. 11 & 11 & 0.187 & 226 & 194 & -505.931
        Simult. 20 & 20 & 0.202 & 197 & 79 & -507.725
        Fixed 20 & 20 & 0.197 & 17 & 166 & -510.909""",
}


@pytest.mark.parametrize("name", TRANSCRIPT)
def test_every_published_number_stands_in_the_tables_though_nothing_was_run(name):
    table, *details = tables_of([], name)
    lines = [line.replace("--", "-").split(" & ") for line in TRANSCRIPT[name].split("\n        ")[1:]]
    shown = [[cells[0], *cells[2:]] for cells in table.rows if cells[1] == "paper"]
    assert shown == lines
    for detail in details:
        measure = TABLES[name].measures
        index = [i for i, key in enumerate(measure) if key != "t_max"]
        published = {cell for line in lines for i in index for cell in [line[1 + i]]}
        assert {cells[1] for cells in detail.rows} <= published | {"-"}
        assert any(cells[1] != "-" for cells in detail.rows)


def test_what_was_not_run_is_said():
    table = tables_of([], "boston")[0]
    assert {cell for cells in table.rows if cells[1] != "paper" for cell in cells[2:4]} == {"not run"}


# -- tables and claims are functions of the rows ------------------------------------------------------


def test_a_detail_table_has_the_median_the_range_and_the_difference():
    values = [0.33, 0.35, 0.45]
    rows = [made("OAT-BO 25", seed, metrics={"srmse": v}) for seed, v in enumerate(values)]
    rows += [made("OAT-BO 25", 0, setting=KNOTWISE, metrics={"srmse": 0.4}), {**made("OAT-BO 25", 9), "error": "no"}]
    table = next(table for table in tables_of(rows, "boston") if table.title == "boston: SRMSE")
    line = next(cells for cells in table.rows if cells[0] == "OAT-BO 25")
    assert line == ("OAT-BO 25", "0.366", "0.350 (0.330 to 0.450), 1 failed", "-0.016", "0.400", "+0.034")
    assert "Seeds: 3 as published, 1 knotwise" in table.note and "split is not published" in table.note


def test_a_runtime_table_has_the_ratio_of_the_papers_seconds_to_ours():
    rows = [made("Full", 0, seconds=2.0), made("Full", 0, setting=KNOTWISE, seconds=0.5)]
    table = next(table for table in tables_of(rows, "boston") if "Runtime" in table.title)
    assert table.rows[0] == ("Full", "394", "2.00", "197", "0.50", "788")
    assert "machine is not known" in table.note


def test_simulated_data_show_no_difference_and_the_same_data_say_so():
    assert all("minus paper" not in table.columns for table in tables_of([], "gaussian"))
    assert all("data are not published" in table.note for table in tables_of([], "poisson"))
    assert all("the paper's own" in table.note for table in tables_of([], "hickory"))


def test_both_definitions_of_mnlp_and_aukl_are_there():
    titles = [table.title for table in all_tables([])["boston"]]
    assert sum("MNLP" in title for title in titles) == 2 and sum("AUKL" in title for title in titles) == 2
    rows = [made("Full", 0, metrics={"mnlp": 2.2, "mnlp_published": 2.5})]
    tables = {table.title: table.rows[0][2] for table in tables_of(rows, "boston")[1:]}
    assert tables["boston: MNLP as the authors' program computes it"] == "2.500"
    assert tables["boston: MNLP by the paper's formula"] == "2.200"


@pytest.mark.parametrize(
    ("values", "style", "text"),
    [
        ([3, 1, 9], "g", "3 (1 to 9)"),
        ([4, 4], "g", "4"),
        ([], "g", "-"),
        ([2e-6, 0.25], ".3f", "0.125 (2e-06 to 0.250)"),
    ],
)
def test_a_cell_is_the_median_and_the_range(values, style, text):
    assert spread(values, style) == text


def test_a_number_too_small_for_its_format_is_not_shown_as_nothing():
    assert [number(v, ".3f") for v in (0.0, 0.0004, 0.0006, -1e-9)] == ["0.000", "4e-04", "0.001", "-1e-09"]


def test_a_table_is_markdown():
    text = tables_of([], "banana")[1].to_markdown().splitlines()
    assert (
        text[0].startswith("**banana:")
        and text[2].count("|") == text[3].count("|") == 7
        and text[3].startswith("| :--")
    )


@pytest.mark.parametrize(
    ("true", "n", "enough", "verdict"),
    [
        (8, 10, 0.8, "holds"),
        (7, 10, 0.8, "holds in part"),
        (2, 10, 0.8, "does not hold here"),
        (5, 10, 0.5, "holds"),
        (0, 0, 0.8, "not run"),
    ],
)
def test_a_verdict_follows_from_the_share_of_true_comparisons(true, n, enough, verdict):
    assert Finding(true, n, "", enough).verdict == verdict


def test_comparisons_are_between_fits_of_the_same_seed():
    rows = [made("OAT-BO 25", s, seconds=v) for s, v in enumerate([1.0, 3.0, 5.0])]
    rows += [made("Simult. 50", s, seconds=v) for s, v in enumerate([2.0, 2.0])]
    found = lower("boston", ["OAT-BO 25"], ["Simult. 50"], metric("seconds"))(Results(rows), PUBLISHED)
    assert (found.true, found.n) == (1, 2) and "1 of 2 pairs" in found.words
    many = times("boston", ["Simult. 50"], ["OAT-BO 25"], 4.0)(Results(rows), PUBLISHED)
    assert (many.true, many.n) == (1, 2)  # 2 is as near to 4 as to 1 on a log scale, 2/3 is not
    same = similar("boston", ["OAT-BO 25"], "Simult. 50", metric("seconds"), 1.6)(Results(rows), PUBLISHED)
    assert (same.true, same.n) == (1, 2)


def test_on_the_same_data_one_exact_gp_serves_every_seed():
    rows = [made("Full", 0, "hickory"), *(made("OAT-BO 25", seed, "hickory") for seed in range(3))]
    assert len(Results(rows).pairs("hickory", PUBLISHED, "OAT-BO 25", "Full")) == 3


def boston_rows(oat, simultaneous):
    """Boston rows with the AUKL of one-at-a-time and of simultaneous knots."""
    scores = {"srmse": 0.36, "mnlp": 2.2, "mnlp_published": 2.4}
    methods = {
        "OAT-BO 25": oat,
        "OAT-RS 25": oat,
        "OAT-RS 50": oat,
        "Simult. 50": simultaneous,
        "Simult. 13": simultaneous,
    }
    return [
        made(method, seed, metrics=scores | {"aukl_published": aukl, "aukl_latent": aukl})
        for seed in range(3)
        for method, aukl in [("Full", 0.0), *methods.items()]
    ]


@pytest.mark.parametrize(("oat", "verdict"), [(0.1, "holds"), (0.9, "does not hold here")])
def test_the_papers_main_claim_turns_with_the_rows(oat, verdict):
    claims = judge_claims(boston_rows(oat, 0.5))
    (claim,) = [c for c in claims if c.text.startswith("Boston: OAT is nearer") and c.setting == PUBLISHED]
    assert claim.verdict == verdict and "of 18 pairs" in claim.evidence and f"{oat:.3f}" in claim.evidence


def test_every_claim_is_judged_in_each_setting_it_speaks_of():
    claims = judge_claims([])
    assert len(claims) == sum(len(statement.settings) for statement in STATEMENTS)
    assert {claim.verdict for claim in claims} == {"not run"}
    texts = [statement.text for statement in STATEMENTS]
    assert len(set(texts)) == len(texts) >= 40


def test_claims_on_the_noise_and_on_places_of_knots_read_the_rows():
    knots = {"Simult. 50": [[0.5, 0.5]] * 3 + [[0.0, 0.0]], "OAT-BO 25": [[0.1, 0.1], [0.9, 0.5], [0.5, 0.5]]}
    rows = [made(method, 0, "hickory", knots=places) for method, places in knots.items()]
    quiet = {"variance": 1.0, "noise_variance": 0.001}
    rows += [made("Full"), made("OAT-BO 25", parameters=quiet), made("Simult. 50", parameters=quiet)]
    verdicts = {claim.text: claim.verdict for claim in judge_claims(rows) if claim.setting == PUBLISHED}
    assert verdicts["Hickory: OAT's knots are not pushed to the centre"] == "holds"
    assert next(v for t, v in verdicts.items() if t.startswith("Hickory: most of the 50")) == "holds"
    assert next(v for t, v in verdicts.items() if "underestimate the noise" in t) == "does not hold here"


def lacking(rows, *names):
    """The rows as an older file may have them, without some scores."""
    return [row | {"metrics": {k: v for k, v in row["metrics"].items() if k not in names}} for row in rows]


def test_a_claim_whose_rows_lack_its_number_is_not_computed_and_says_so():
    rows = make_rows()
    whole, old = judge_claims(rows), judge_claims(lacking(rows, "near_knots"))
    changed = [(before, after) for before, after in zip(whole, old, strict=True) if before != after]
    assert {after.text.split(":")[0].split(" at least")[0] for _, after in changed} == {"Banana", "In every case"}
    assert len(changed) == 4  # two claims in two settings
    assert {after.verdict for _, after in changed} == {"not computed"}
    assert all("comparisons lack a number" in after.evidence for _, after in changed)


def test_no_claim_needs_a_score_to_be_there():
    rows = make_rows()
    without = judge_claims(lacking(rows, *rows[0]["metrics"]))
    for full, claim in zip(judge_claims(rows), without, strict=True):
        assert (claim.verdict == "not run") == (full.verdict == "not run")
    assert sum(claim.verdict == "not computed" for claim in without) > 20


def test_a_claim_is_judged_by_the_rows_that_have_its_number():
    rows = [made(m, s, metrics={"rmse": v}) for m, v in (("OAT-BO 25", 1.0), ("Simult. 50", 2.0)) for s in range(3)]
    del rows[0]["metrics"]["rmse"]
    found = lower("boston", ["OAT-BO 25"], ["Simult. 50"], metric("rmse"))(Results(rows), PUBLISHED)
    assert (found.true, found.n, found.lacking, found.verdict) == (2, 2, 1, "holds")


# -- what is run --------------------------------------------------------------------------------------


def test_the_plan_has_the_exact_gps_first_and_one_for_data_that_stay_the_same():
    jobs = plan(experiments_named(["all"]))
    is_exact = [job.method == FULL.name for job in jobs]
    assert is_exact == sorted(is_exact, reverse=True) and len(set(jobs)) == len(jobs)
    exact = [job for job in jobs if job.method == FULL.name]
    assert sum(job.experiment == "hickory" for job in exact) == 2  # one for each setting
    assert sum(job.experiment == "boston" for job in exact) == 3 + 10
    assert {job.exact for job in jobs} - {None} <= set(exact)


def test_a_name_brings_its_experiment_and_a_wrong_one_the_nearest():
    assert [e.name for e in experiments_named(["boston", "gaussian"])] == ["motivation", "gaussian", "boston"]
    with pytest.raises(UnknownOptionError, match="Did you mean 'hickory'"):
        experiments_named(["hikory"])


@pytest.mark.parametrize("name", ["banana", "hickory", "gaussian"])
def test_initial_knots_are_as_many_as_the_method_says_and_depend_on_the_seed_only_where_they_should(name):
    experiment = EXPERIMENTS[name]
    task = experiment.data(1)
    for method in experiment.methods[KNOTWISE]:
        if method.initial:
            Z = place_knots(task, method.initial, method.n_initial, 1)
            assert Z.shape == (method.n_initial, task.X.shape[1]) and len(np.unique(Z, axis=0)) == len(Z)
            again = place_knots(task, method.initial, method.n_initial, 2)
            assert np.array_equal(Z, again) == (method.initial in ("uniform", "adversarial", "lattice"))


def test_simulated_data_are_draws_with_the_stated_noise_and_level():
    errors = [task.y - task.truth for task in map(EXPERIMENTS["gaussian"].data, range(5))]
    assert np.std(np.concatenate(errors)) == pytest.approx(1.0, abs=0.1)
    task = EXPERIMENTS["poisson"].data(0)
    assert len(task.y) == 399 and task.exposure == pytest.approx(0.025)
    z = (task.y - task.exposure * np.exp(task.truth)) / np.sqrt(task.exposure * np.exp(task.truth))
    assert abs(z.mean()) < 0.2 and z.std() == pytest.approx(1.0, abs=0.2)
    assert np.interp(5.0, task.X[:, 0], task.truth) == pytest.approx(
        np.interp(5.0, task.grid, task.truth_on_grid), abs=0.02
    )


@pytest.fixture(scope="module")
def boston():
    """The exact GP and a sparse one on Boston, with their rows."""
    jobs = Job("boston", PUBLISHED, "Full", 0), Job("boston", PUBLISHED, "Simult. 13", 0)
    exact = run(jobs[0], None)
    return exact, run(jobs[1], exact.prediction)


def test_scores_are_those_of_the_formulas(boston):
    exact, sparse = boston
    task = EXPERIMENTS["boston"].data(0)
    gp, *_ = runs.fit(task, EXPERIMENTS["boston"].method(PUBLISHED, "Simult. 13"), PUBLISHED, 0)
    mean, std = gp.predict(task.X_test, return_std=True)
    noise = gp.parameters_["noise_variance"]
    p, q = exact.prediction, gp.predict_latent(task.X_test)

    def kl(v, w):  # of two normal distributions
        return np.mean(v / w - 1 - np.log(v / w) + (p.mean - mean) ** 2 / w) / 2

    y = task.y_test
    expected = {
        "srmse": np.sqrt(np.mean((y - mean) ** 2)) / np.std(y, ddof=1),
        "mnlp": np.median(-stats.norm.logpdf(y, mean, std)),
        "nlpd": np.mean(-stats.norm.logpdf(y, mean, std)),
        "mnlp_published": np.median(-stats.norm.logpdf(y, mean, np.sqrt(std**2 + noise))),
        "aukl_latent": kl(p.variance, q.variance),
        "aukl_published": kl(p.variance + exact.row["parameters"]["noise_variance"], q.variance + noise),
        "coverage": np.mean(np.abs(y - mean) <= stats.norm.ppf(0.975) * std),
    }
    assert {name: sparse.row["metrics"][name] for name in expected} == pytest.approx(expected, rel=1e-9)
    assert exact.row["metrics"]["aukl_latent"] == exact.row["metrics"]["aukl_published"] == 0
    assert sparse.row["knots"] == gp.knots_.tolist() and np.shape(sparse.row["initial_knots"]) == (13, 3)


def test_a_published_fit_counts_its_gradients_and_starts_where_the_script_does(boston):
    exact, sparse = boston
    assert exact.row["gradient_steps"] > 5 and sparse.row["gradient_steps"] > 5
    assert exact.row["parameters"]["mean"] == pytest.approx(EXPERIMENTS["boston"].data(0).y.mean())  # held


def test_the_same_job_gives_the_same_row(boston):
    exact, sparse = boston
    again = run(job_of(sparse.row), exact.prediction)
    assert timeless(again.row) == timeless(sparse.row)


def test_a_fit_that_fails_is_a_row_with_its_error(monkeypatch):
    def refuse(*_):
        raise KnotwiseError("no luck")

    monkeypatch.setattr(runs, "fit", refuse)
    done = run(Job("boston", PUBLISHED, "Full", 0), None)
    assert done.row["error"] == "no luck" and done.prediction is None and job_of(done.row).method == "Full"


def test_the_picture_of_counts_is_in_counts_per_cell_and_only_of_the_first_seed():
    done = run(Job("poisson", PUBLISHED, "Fixed 20", 0), None)
    picture, task = done.row["picture"], EXPERIMENTS["poisson"].data(0)
    assert picture["y"] == task.y.tolist()
    assert picture["truth"] == pytest.approx(0.025 * np.exp(task.truth_on_grid), rel=1e-4)
    assert all(
        low < mid < high for low, mid, high in zip(picture["low"], picture["mean"], picture["high"], strict=True)
    )
    assert np.mean(picture["mean"]) == pytest.approx(np.mean(task.y), rel=0.2)
    assert run(Job("poisson", PUBLISHED, "Fixed 20", 1), None).row["picture"] is None


def test_the_sixth_knot_finds_optima_and_places_that_climb_to_a_knot():
    places = np.linspace(0, 10, 101)
    values = np.cos(np.pi * places / 2)  # highest at 0, 4 and 8, lowest at 2, 6 and 10
    scores = SixthKnot(np.array([4.0, 6.0]), places, values, 0.0).scores()
    assert scores["sixth_optima"] == 2 and scores["sixth_gap"] == pytest.approx(1.0)
    assert scores["sixth_stuck"] == pytest.approx(0.4, abs=0.02)  # between 2 and 6 all climb to the knot at 4


# -- rows on disk -------------------------------------------------------------------------------------


def test_a_torn_last_line_is_cut_and_its_job_is_missing_again(tmp_path):
    kept = RowStore(tmp_path)
    rows = [made("Simult. 50", seed) for seed in range(3)]
    for row in rows:
        kept.add(row)
    content = kept.path.read_bytes()
    for torn in (1, 40, len(row_line(rows[2])) - 1):
        kept.path.write_bytes(content[: -len(row_line(rows[2]))] + row_line(rows[2]).encode()[:torn])
        again = RowStore(tmp_path)
        jobs = [job_of(row) for row in rows]
        assert again.rows == rows[:2] and again.missing(jobs, versions()) == jobs[2:]
        again.add(rows[2])
        assert again.path.read_bytes() == content


def test_a_damaged_line_elsewhere_is_an_error_that_names_it(tmp_path):
    RowStore(tmp_path)
    for damaged in ('{"experiment": 1', '{"experiment": "boston"}', "[]", "\ufffd"):
        (tmp_path / "rows.jsonl").write_text(f"{damaged}\n{row_line(made('Full'))}", encoding="utf-8")
        with pytest.raises(InvalidInputError, match=r"Line 1 .* `--fresh`"):
            RowStore(tmp_path)
    assert RowStore(tmp_path, fresh=True).rows == []


def test_rows_of_other_versions_are_run_again_and_fresh_forgets_all(tmp_path):
    kept = RowStore(tmp_path)
    kept.add(made("Simult. 50", versions={**versions(), "numpy": "0.1"}))
    job = job_of(made("Simult. 50"))
    assert kept.missing([job], versions()) == [job]
    kept.add(made("Simult. 50"))
    assert RowStore(tmp_path).missing([job], versions()) == [] and len(RowStore(tmp_path).rows) == 1
    assert RowStore(tmp_path, fresh=True).rows == []


def test_the_exact_gps_predictions_come_back_and_are_made_again_only_where_they_are_needed(tmp_path, boston):
    exact, sparse = boston
    kept = RowStore(tmp_path)
    kept.add(exact.row, exact.prediction)
    job, other = job_of(exact.row), job_of(sparse.row)
    back = RowStore(tmp_path).prediction(job)
    assert np.array_equal(back.mean, exact.prediction.mean) and np.array_equal(back.variance, exact.prediction.variance)
    assert kept.missing([job, other], versions()) == [other]
    next(kept.exact_folder.iterdir()).unlink()
    assert kept.missing([job, other], versions()) == [job, other]
    kept.add(sparse.row)
    assert kept.missing([job, other], versions()) == []


def child(folder):
    command = [sys.executable, str(Path(__file__).with_name("paper_child.py")), str(folder), "2"]
    sources = [str(ROOT / "src"), str(ROOT / "reproduction" / "src")]
    paths = os.pathsep.join(filter(None, [*sources, os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths})


def n_lines(folder):
    path = folder / "rows.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(true, seconds=300):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_where_it_was_and_ends_with_the_same_rows(tmp_path, monkeypatch):
    psutil = pytest.importorskip("psutil")
    killed, whole_run = tmp_path / "killed", tmp_path / "whole"
    first = child(killed)
    wait_for(lambda: n_lines(killed) >= 4)
    helpers = psutil.Process(first.pid).children(recursive=True)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = (killed / "rows.jsonl").read_bytes()
    assert len(helpers) >= 2

    def alive(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return False

    wait_for(lambda: not any(map(alive, helpers)))
    tiny = importlib.import_module("paper_child")
    EXPERIMENTS.pop("tiny", None)  # there by the import
    monkeypatch.setitem(EXPERIMENTS, "tiny", tiny.TINY)
    for folder in (killed, whole_run):
        tiny.main(folder, 1)
    after = (killed / "rows.jsonl").read_bytes()
    assert after.startswith(before[: before.rfind(b"\n") + 1])  # nothing is written again
    rows = {folder: read_rows(folder / "rows.jsonl") for folder in (killed, whole_run)}
    by_job = {folder: {job_key(row): timeless(row) for row in found} for folder, found in rows.items()}
    assert len(by_job[killed]) == len(rows[killed]) == 24  # nothing is computed twice
    assert by_job[killed] == by_job[whole_run]


def job_key(row):
    return row["setting"], row["method"], row["seed"]


def test_a_job_waits_for_its_exact_gp_and_an_error_of_ours_is_not_hidden(tmp_path, monkeypatch):
    seen = []

    class Watch:
        def started(self, job):
            seen.append(job)

        def finished(self, job, done):
            seen.append(done.row["method"])

    def fail(job, exact):
        raise ZeroDivisionError

    jobs = [Job("boston", PUBLISHED, name, 0) for name in ("Simult. 50", "Full")]
    monkeypatch.setattr(workers, "run", lambda job, exact: Finished(made(job.method), None))
    workers.run_jobs(jobs, RowStore(tmp_path), 1, Watch())
    assert seen == [jobs[1], "Full", jobs[0], "Simult. 50"]
    monkeypatch.setattr(workers, "run", fail)
    with pytest.raises(ZeroDivisionError):
        workers.run_jobs(jobs, RowStore(tmp_path), 1, Watch())


# -- the whole ----------------------------------------------------------------------------------------


@pytest.fixture
def no_work(monkeypatch):
    """Jobs are done at once by rows made by hand, and the report is a word."""
    asked = []

    def run_jobs(jobs, kept, n_workers, watcher):
        asked.append((list(jobs), n_workers))
        for job in jobs:
            watcher.started(job)
            kept.add(made(job.method, job.seed, job.experiment, job.setting, knots=[[0.5]], metrics={"rmse": 0.25}))
            watcher.finished(job, Finished({}, None))

    monkeypatch.setattr(whole, "run_jobs", run_jobs)
    report = type(sys)("knotwise_reproduction.report")
    report.write_report = lambda rows, out: out / "report.html"
    monkeypatch.setitem(sys.modules, "knotwise_reproduction.report", report)
    return asked


def printed(**console):
    file = io.StringIO()
    return file, Console(file=file, width=100, **console)


def test_reproduce_runs_what_is_missing_and_ends_with_the_tables_and_where_the_report_is(no_work, tmp_path):
    file, console = printed()
    path = whole.reproduce(["poisson"], quick=True, out=tmp_path, jobs=3, console=console)
    text = file.getvalue()
    assert path == tmp_path / "report.html" and f"Report: {path}" in text and len(text.splitlines()) < 60
    assert "-511.006" in text and "0.250" in text and "14 fits to run, 3 at a time" in text
    assert [job.seed for job in no_work[0][0]] == [0] * 14
    file, console = printed()
    whole.reproduce(["poisson"], seeds=2, out=tmp_path, jobs=1, console=console)
    assert "14 fits to run, 1 at a time; 14 are there already" in file.getvalue()
    assert {job.seed for job in no_work[1][0]} == {1}
    whole.reproduce(["poisson"], quick=True, out=tmp_path, fresh=True, console=printed()[1])
    assert len(no_work[2][0]) == 14


@pytest.mark.slow
def test_a_terminal_sees_what_runs_and_a_pipe_a_few_lines(no_work, tmp_path):
    file, console = printed(force_terminal=True, force_interactive=True)
    whole.reproduce(["motivation"], out=tmp_path / "a", console=console)
    assert "motivation (published), FIC 5, seed 0" in file.getvalue()
    file, console = printed()
    whole.reproduce(["all"], out=tmp_path / "b", console=console)
    assert file.getvalue().count("fits done") == 5


def test_what_cannot_be_asked_for_is_refused_before_anything_is_run(no_work, tmp_path):
    for wrong in ({"seeds": 0}, {"jobs": 0}):
        with pytest.raises(InvalidInputError, match="at least 1"):
            whole.reproduce(["boston"], out=tmp_path, **wrong)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidInputError, match="Choose another `--out`"):
        whole.reproduce(["boston"], out=tmp_path / "file", console=printed()[1])
    assert not no_work


def test_the_time_left_is_guessed_from_the_same_method_at_other_seeds():
    jobs = [Job("boston", PUBLISHED, name, seed) for name in ("Full", "Simult. 50") for seed in range(3)]
    estimate = Estimate(jobs, 2)
    assert estimate.seconds_left() is None
    estimate.finished(jobs[0], 1.0)
    assert estimate.seconds_left() == pytest.approx(5 * 1.0 / 2)
    estimate.finished(jobs[3], 9.0)
    assert estimate.seconds_left() == pytest.approx((2 * 1.0 + 2 * 9.0) / 2)
    assert [duration(s) for s in (5, 61, 3000)] == ["5 s", "1 min 1 s", "50 min"]


# -- the page -----------------------------------------------------------------------------------------


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "reproduction")
    return importlib.import_module("paper_page")


def test_the_page_is_up_to_date_with_the_stored_rows(page):
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.with_blocks(text, read_rows(page.ROWS)) == text, "run: python reproduction/paper_page.py"
    assert {match["name"] for match in page.BLOCK.finditer(text)} == {*TABLES, "claims", "why", "short"}


def test_the_page_has_every_published_number(page):
    text = page.PAGE.read_text(encoding="utf-8")
    for lines in TRANSCRIPT.values():
        for line in lines.split("\n        ")[1:]:
            name, *cells = line.replace("--", "-").split(" & ")
            assert f"| {name} | paper | {' | '.join(cells)} |" in text


def test_stored_rows_are_slim_in_one_order_and_the_latest_of_each_job(page):
    rows = [
        made("Simult. 50", 1, knots=[[1.23456789]], picture={"x": [1]}),
        made("Full", 0),
        made("Full", 0, seconds=7.0),
    ]
    slim = page.slim(rows)
    assert [(row["method"], row["seconds"]) for row in slim] == [("Full", 7.0), ("Simult. 50", 1.0)]
    assert slim[1]["knots"] == [[1.2346]] and slim[1]["picture"] is None
    assert page.slim(rows[::-1])[1] == slim[1] and json.loads(row_line(slim[0])) == slim[0]
    assert page.slim([made("a method of the past")]) == []
