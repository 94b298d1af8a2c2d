"""`diagnose` finds what is wrong with a fit, says where and what to do, and is silent where nothing is wrong."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise.diagnosis import findings
from knotwise.errors import FitWarning, UnknownOptionError
from knotwise.evidence import Rows
from knotwise.evidence.scores import RowScores
from knotwise.kernels import Linear, Matern32, SquaredExponential
from knotwise.knots import Auto, Fixed
from knotwise.likelihoods import Gaussian
from knotwise.optimize import LBFGS


def fit(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # what they say is what `diagnose` says
        return GPRegressor(**{"kernel": SquaredExponential(), "random_state": 0, **options}).fit(X, y)


@pytest.fixture(scope="module")
def wiggles():
    """Six waves on a line, with noise of a third of their size."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    return X, np.sin(40 * X[:, 0]) + 0.3 * rng.normal(size=300)


# -- too few knots --------------------------------------------------------------------------------


@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5])
def test_too_few_knots_are_found_in_neighbouring_residuals(wiggles, approximation):
    found = fit(*wiggles, knots=5, approximation=approximation).diagnose()
    assert found.neighbours.p < 1e-3 and found.neighbours.correlation > 0.1
    assert found.finding("neighbours").level == "problem" and "too few knots" in found.finding("neighbours").text
    assert "auto" in found.finding("neighbours").advice
    assert not found.ok


def test_automatic_knots_are_enough(wiggles):
    found = fit(*wiggles, kernel=None).diagnose()
    assert found.neighbours.p > 0.05 and found.ok
    assert {finding.level for finding in found.findings} == {"ok"}
    assert found.unexplained_share < 0.2 and found.n_inflated == 0


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_too_few_knots_are_found_in_counts_and_labels(likelihood):
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(400, 1))
    f = 2 * np.sin(30 * X[:, 0])
    y = rng.poisson(np.exp(1 + f)) if likelihood == "poisson" else rng.random(400) < 1 / (1 + np.exp(-2 * f))
    few, enough = (fit(X, y.astype(float), likelihood=likelihood, knots=knots).diagnose() for knots in (3, 25))
    assert few.finding("neighbours").level == "problem" and few.neighbours.p < 1e-6
    assert enough.finding("neighbours").level == "ok"


# -- the cause of residual autocorrelation ----------------------------------------------------------


def test_what_the_exact_gp_shows_as_well_is_not_blamed_on_the_knots(wiggles):
    """The kernel cannot see the waves: residuals agree as much through 30 knots as of the exact GP."""
    X, y = wiggles
    X = np.column_stack([X, np.random.default_rng(1).uniform(size=300)])
    blind = SquaredExponential().on([1])
    order = np.argsort(X[:, 0])  # so that neighbours are those along the waves
    X[:, 1] *= 1e-3
    for knots in (30, "auto"):
        found = fit(X[order], y[order], kernel=blind, knots=knots, approximation="vfe", standardize=False).diagnose()
        finding = found.finding("neighbours")
        assert finding.level == "problem" and "too few knots" not in finding.text
        assert "does not see a column that matters" in finding.text and "max_knots" not in finding.advice
        assert "let `knots='auto'`" not in finding.advice


def test_hyperparameters_that_are_held_too_smooth_are_not_blamed_on_the_knots(wiggles):
    held = {"kernel": SquaredExponential(1.0, 3.0), "likelihood": Gaussian(0.1), "optimizer": None}
    finding = fit(*wiggles, knots=12, **held).diagnose().finding("neighbours")
    assert finding.level == "problem" and "too few knots" not in finding.text
    assert "optimizer=None" in finding.advice


def test_knots_are_blamed_where_the_exact_gp_at_the_same_hyperparameters_has_no_such_residuals(wiggles):
    held = {"kernel": SquaredExponential(0.5, 0.03), "likelihood": Gaussian(0.1), "optimizer": None}
    finding = fit(*wiggles, knots=5, **held).diagnose().finding("neighbours")
    exact = fit(*wiggles, approximation="full", **held).diagnose().finding("neighbours")
    assert finding.level == "problem" and "too few knots" in finding.text and exact.level == "ok"


def test_levels_that_share_what_no_term_explains_are_not_blamed_on_the_knots():
    """Counts of nests at times of a night, with bursts that no kernel of the sum sees: as of the exact GP."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"nest": rng.choice(list("abcdefgh"), 240), "time": rng.uniform(0, 6, size=240)})
    burst = np.sin(3 * frame["time"] + frame["nest"].map(ord))
    y = rng.poisson(np.exp(1.5 + burst)).astype(float)
    kernel = SquaredExponential().on("nest") + SquaredExponential().on("time")
    for options in ({}, {"approximation": "full"}):
        finding = fit(frame, y, kernel=kernel, likelihood="poisson", **options).diagnose().finding("neighbours")
        assert finding.level == "problem" and "too few knots" not in finding.text


# -- places ---------------------------------------------------------------------------------------


def test_inflated_places_are_where_knots_are_missing():
    rng = np.random.default_rng(4)
    X = np.vstack([rng.uniform(0, 5, size=(150, 1)), rng.uniform(8, 9, size=(20, 1))])
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=170)
    held = {"kernel": SquaredExponential(1.0, 0.5), "likelihood": Gaussian(0.01), "optimizer": None}
    covered = np.linspace(0, 5, 30)[:, None]
    found = fit(X, y, knots=covered, standardize=False, **held).diagnose()
    assert found.n_inflated == 20
    assert all(8 <= place.inputs["column 0"] <= 9 and place.row >= 150 for place in found.inflated)
    assert all(place.share > 0.45 for place in found.inflated)
    assert found.finding("places").level == "problem"
    whole = fit(X, y, knots=np.vstack([covered, np.linspace(8, 9, 8)[:, None]]), standardize=False, **held).diagnose()
    assert whole.n_inflated == 0 and whole.inflated == ()


def test_inflated_rows_count_as_often_as_they_are_there():
    rng = np.random.default_rng(4)
    X = np.linspace(0, 5, 60)[:, None]
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    held = {"kernel": SquaredExponential(1.0, 0.5), "likelihood": Gaussian(0.01), "optimizer": None}
    held |= {"standardize": False, "knots": X[:30]}
    counts = np.where(X[:, 0] > 4, 3, 1)
    weighted = GPRegressor(**held).fit(X, y, sample_weight=counts).diagnose()
    once, repeated = fit(X, y, **held).diagnose(), fit(np.repeat(X, counts, 0), np.repeat(y, counts), **held).diagnose()
    assert weighted.n_inflated == repeated.n_inflated > once.n_inflated
    assert f"{round(weighted.n_inflated, 2)} of 60 rows" in weighted.finding("places").text  # weights are relative


def test_places_are_in_the_users_units_by_the_names_of_columns():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"east": 1e6 + 1e3 * rng.uniform(size=100), "north": 1e-3 * rng.uniform(size=100)})
    y = np.sin(frame["east"] / 100) + 0.1 * rng.normal(size=100)
    gp = fit(
        frame,
        y,
        kernel=SquaredExponential(1.0, 0.2, column_scales="standard"),
        likelihood=Gaussian(0.01),
        knots=frame[:5],
        optimizer=None,
    )
    found = gp.diagnose()
    assert 1 < len(found.inflated) <= 5
    for place in found.inflated:
        assert place.inputs == pytest.approx(frame.iloc[place.row].to_dict(), rel=1e-12)
    assert "east = 1" in found.finding("places").text


# -- the other findings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "said"),
    [({"lengthscale": (1.5, 2.6)}, "lower bound, 1.5"), ({"lengthscale": (3e-4, 3e-3)}, "upper bound, 0.003")],
)
def test_a_parameter_at_a_bound_is_named_with_the_bound(wiggles, bounds, said):
    found = fit(*wiggles, approximation="full", bounds=bounds).diagnose()
    assert "lengthscale" in found.at_bound
    assert f"lengthscale is at its {said}" in found.finding("bounds").text
    assert "bounds=" in found.finding("bounds").advice


def test_an_irrelevant_column_has_an_endless_lengthscale_and_advice():
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(200, 2))
    gp = fit(X, np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=200), kernel=SquaredExponential(ard=True), knots=15)
    found = gp.diagnose()
    assert found.at_bound == ("lengthscale[1]",)
    assert "do not vary along the column" in found.finding("bounds").advice


def test_an_optimiser_that_stopped_early_is_a_problem_with_its_gradient(wiggles):
    gp = fit(*wiggles, knots=15, optimizer=LBFGS(max_iterations=1))
    found = gp.diagnose()
    assert not found.converged and found.finding("convergence").level == "problem"
    assert found.gradient_norm == gp.optimize_result_.gradient_norm > 0
    assert f"{found.gradient_norm:.1e}" in found.finding("convergence").text


def test_the_condition_of_kuu_is_that_of_the_matrix_with_its_jitter(wiggles):
    X, y = wiggles
    Z = np.linspace(0, 1, 12)[:, None]
    gp = fit(X, y, kernel=SquaredExponential(1.0, 0.2), knots=Z, optimizer=None, standardize=False, jitter=1e-6)
    Kuu = gp.kernel_(Z, Z) + 1e-6 * gp.kernel_.variance * np.eye(12)
    found = gp.diagnose()
    assert_allclose(found.condition, np.linalg.cond(Kuu), rtol=1e-6)
    assert found.jitter == 1e-6
    assert found.finding("numerics").level == "note" and "coincide" in found.finding("numerics").advice


def test_unexplained_share_and_residual_information_are_those_of_the_definition(wiggles):
    X, y = wiggles
    gp = fit(
        X,
        y,
        knots=Fixed("grid", 12),
        kernel=Matern32(1.0, 0.2, column_scales="standard"),
        likelihood=Gaussian(0.1),
        optimizer=None,
    )
    Z = gp.knots_
    c = 1.0 - np.einsum("nk,nk->n", gp.kernel_(X, Z), np.linalg.solve(gp.kernel_(Z, Z), gp.kernel_(Z, X)).T)
    found = gp.diagnose()
    assert_allclose(found.unexplained_share, (c / gp.predict_latent(X).variance).mean(), rtol=1e-6)
    assert_allclose(found.residual_information, 0.5 * (c / 0.1).mean(), rtol=1e-6)


def test_noise_alone_is_no_alarm():
    rng = np.random.default_rng(8)
    found = fit(rng.uniform(size=(200, 2)), rng.normal(size=200), kernel=None).diagnose()
    assert found.ok and found.n_inflated == 0


def test_the_exact_gp_has_nothing_to_say_about_knots(wiggles):
    found = fit(*wiggles, approximation="full").diagnose()
    assert found.ok and found.condition is None and found.unexplained_share is None and found.n_inflated is None
    assert {found.finding(name).text for name in ("knots", "places")} == {"the exact GP has no knots"}


@pytest.mark.parametrize("approximation", ["vfe", "full"])
@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_a_few_rows_are_diagnosed_too(n_rows, approximation):
    rng = np.random.default_rng(9)
    found = fit(rng.uniform(size=(n_rows, 2)), rng.normal(size=n_rows), approximation=approximation).diagnose()
    assert found.neighbours is None and found.finding("neighbours").level == "unknown"


@pytest.mark.parametrize("kernel", [Linear(), SquaredExponential() * Linear()], ids=["linear", "product"])
def test_kernels_that_vanish_somewhere_are_diagnosed(kernel):
    rng = np.random.default_rng(10)
    X = rng.normal(size=(60, 1))
    assert np.isfinite(fit(X, X[:, 0] + rng.normal(size=60), kernel=kernel, knots=3).diagnose().unexplained_share)


# -- faces ----------------------------------------------------------------------------------------


def test_it_prints_every_finding_with_its_advice_in_lines_of_readable_width(wiggles):
    gp = fit(*wiggles, knots=5)
    found = gp.diagnose()
    text = str(found)
    assert repr(found) == text and text.startswith(f"GPRegressor: {gp.n_knots_} knots, 300 rows")
    flat = " ".join(text.split())
    for finding in found.findings:
        assert " ".join(finding.text.split()) in flat and " ".join(finding.advice.split()) in flat
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize("options", [{"knots": 5}, {}, {"approximation": "full"}, {"optimizer": None, "knots": 9}])
def test_the_dict_is_plain_json(wiggles, options):
    found = fit(*wiggles, **options).diagnose()
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain == found.to_dict()
    assert plain["ok"] == found.ok and plain["converged"] == found.converged
    assert [finding["name"] for finding in plain["findings"]] == [finding.name for finding in found.findings]


def test_a_model_from_a_file_tells_what_it_can(wiggles, tmp_path):
    gp = fit(*wiggles, knots=5, bounds={"lengthscale": (1.5, 2.6)})
    gp.save(tmp_path / "few.knotwise")
    here, there = gp.diagnose(), knotwise.load(tmp_path / "few.knotwise").diagnose()
    for name in ("converged", "gradient_norm", "at_bound", "jitter", "condition"):
        assert getattr(there, name) == getattr(here, name)
    assert there.unexplained_share is None and there.neighbours is None and there.n_inflated is None
    assert [there.finding(name).level for name in ("knots", "places", "neighbours")] == ["unknown"] * 3
    text = " ".join(str(there).split())
    assert text.count("?") == 1 and text.count("from a file without its data") == 1
    for what in ("the unexplained share of the variance", "uncertainty is inflated", "residuals of neighbours agree"):
        assert what in text.split("?")[1]
    assert text.endswith("-> Call `diagnose()` before `save`, or fit again.")


@pytest.mark.parametrize("knots", ["auto", 7])
def test_the_page_of_the_exact_gp_has_no_word_of_knots(wiggles, knots, tmp_path):
    gp = fit(*wiggles, approximation="full", knots=knots, optimizer=LBFGS(max_iterations=5))
    gp.save(tmp_path / "exact.knotwise")
    for found in (gp.diagnose(), knotwise.load(tmp_path / "exact.knotwise").diagnose()):
        assert "knot" not in str(found) and "Kuu" not in str(found)
        assert [finding.name for finding in found.findings] == [
            "convergence", "bounds", "numerics", "knots", "places", "neighbours", "spread"
        ]  # fmt: skip


@pytest.mark.parametrize("n_columns", [3, 26])
def test_places_in_many_columns_are_told_by_their_rows_alone(n_columns):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(80, n_columns))
    held = {
        "kernel": SquaredExponential(1.0, 0.5, column_scales="standard"),
        "likelihood": Gaussian(0.01),
        "optimizer": None,
    }
    found = fit(X, X[:, 0], knots=X[:5], **held).diagnose()
    text = found.finding("places").text
    assert len(found.inflated) == 5 and "over 35% too wide" in text
    for place in found.inflated:
        assert_allclose(list(place.inputs.values()), X[place.row], rtol=1e-12)
        assert f"row {place.row} (" in text
    assert text.count("column") == (5 * n_columns if n_columns == 3 else 0)


def test_continued_lines_stand_below_the_text_that_they_continue(wiggles):
    lines = str(fit(*wiggles, knots=5).diagnose()).splitlines()[1:]
    first = lines[0].index("the ")
    for line in lines:
        start = len(line) - len(line.lstrip())
        assert start in (2, first, first + 3)  # a finding, its text or its advice, the advice continued


def test_a_classifier_has_one_diagnosis_or_one_for_each_class():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(90, 2))
    options = {
        "kernel": SquaredExponential(4.0, 0.8, column_scales="standard"),
        "knots": 9,
        "optimizer": None,
        "random_state": 0,
    }
    two = GPClassifier(**options).fit(X, np.where(X[:, 0] > 0, "wet", "dry")).diagnose()
    assert two.model == "class 'wet': 9 knots, 90 rows"
    three = GPClassifier(**options).fit(X, np.digitize(X[:, 0], [-0.5, 0.5])).diagnose()
    assert [found.model.split(":")[0] for found in three] == ["class 0", "class 1", "class 2"]


def test_a_model_that_was_not_fitted_and_a_finding_that_does_not_exist_are_errors(wiggles):
    for gp in (GPRegressor(), GPClassifier()):
        with pytest.raises(NotFittedError):
            gp.diagnose()
    with pytest.raises(UnknownOptionError, match="Did you mean 'bounds'"):
        fit(*wiggles, knots=5).diagnose().finding("bound")


@pytest.mark.parametrize(
    ("n_rows", "knots", "words"),
    [
        (900, "auto", "share=0.05"),
        (200_000, "auto", "target='latent'"),
        (200_000, Auto(target="latent"), "share=0.05"),
        (900, Auto(target="observation"), "target='latent'"),
    ],
)
def test_the_advice_to_ask_for_more_knots_never_asks_for_fewer(n_rows, knots, words):
    """Of observations the default share is 0.01 already."""
    model = SimpleNamespace(knots=knots, _fit=SimpleNamespace(n_rows=n_rows, n_neighbors=0))
    assert f"Auto(max_knots=..., {words})" in findings.places(model, 3, ()).advice


def test_what_knots_leave_of_an_observation_is_said_beside_what_they_leave_of_f(rng):
    c, v, W = np.full(9, 0.9), np.full(9, 1.0), rng.uniform(0.001, 0.002, size=9)
    scores = RowScores(c, v, W, np.zeros(9), 0.0, 0.5, Rows(np.zeros((9, 1)), np.zeros(9), None, np.ones((9, 1))))
    assert_allclose(scores.observation_share, np.mean(c / (v + 0.5 + 1 / W)), rtol=1e-12)
    model = SimpleNamespace(knots="auto", status_=None, _fit=SimpleNamespace(n_rows=200_000, n_neighbors=0))
    found = findings.knots(model, scores)
    assert found.level == "ok"
    assert "90.0% of the posterior variance of f" in found.text
    assert "of f are too wide" in found.text
