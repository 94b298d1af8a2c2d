"""Residuals of neighbouring rows tell what knots and kernel miss, for the exact GP too, and are silent otherwise."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import knotwise
from knotwise import GPRegressor
from knotwise.diagnosis import autocorrelation
from knotwise.diagnosis.autocorrelation import NeighbourGraph, residuals_and_graph
from knotwise.errors import FitWarning
from knotwise.kernels import Matern12, Matern32, SquaredExponential
from knotwise.likelihoods import Gaussian

SMOOTH = SquaredExponential(1.0, 0.3)
HELD = {"likelihood": Gaussian(0.09), "mean": 0.0, "optimizer": None, "standardize": False}


def fit(X, y, weights=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return GPRegressor(**{"random_state": 0, **options}).fit(X, y, sample_weight=weights)


def drawn(kernel, seed, n=150, dimension=2):
    """Rows at random places, and noisy values of a function from the prior."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, dimension))
    L = np.linalg.cholesky(kernel(X, X) + 1e-9 * np.eye(n))
    return X, L @ rng.normal(size=n) + 0.3 * rng.normal(size=n)


# -- the exact GP ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_too_long_a_lengthscale_of_the_exact_gp_is_found(seed):
    gp = fit(*drawn(Matern12(1.0, 0.2), seed), kernel=SquaredExponential(1.0, 1.0), approximation="full", **HELD)
    found = gp.diagnose()
    assert found.neighbours.p < 1e-4 and not found.ok
    finding = found.finding("neighbours")
    assert finding.level == "problem" and "kernel as fitted is too smooth" in finding.text
    assert "knots" not in finding.text + finding.advice
    assert "optimizer=None" in finding.advice and "Matern32()" in finding.advice


def test_a_length_scale_held_by_name_is_named_in_the_advice():
    X, y = drawn(Matern12(1.0, 0.2), 0)
    gp = fit(
        X, y, kernel=SquaredExponential(1.0, 4.0, column_scales="standard"), fixed=["lengthscale"], approximation="full"
    )
    assert "Let lengthscale be learned" in gp.diagnose().finding("neighbours").advice


def test_a_column_that_the_kernel_does_not_see_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.sin(6 * X[:, 0]) + np.sin(9 * X[:, 1]) + 0.3 * rng.normal(size=200)
    one, both = (fit(X, y, kernel=kernel, approximation="full") for kernel in (SquaredExponential().on([0]), None))
    assert one.diagnose().finding("neighbours").level == "problem"
    assert "column" in one.diagnose().finding("neighbours").text
    assert both.diagnose().finding("neighbours").level == "ok"


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_right_exact_gp_is_found_wrong_as_rarely_as_the_p_value_says(dimension):
    """Thirty sets of data from the model itself: p is below 0.05 in one or two, and no finding is a problem."""
    found = [
        fit(*drawn(SMOOTH, seed, dimension=dimension), kernel=SMOOTH, approximation="full", **HELD).diagnose()
        for seed in range(30)
    ]
    assert sum(each.neighbours.p < 0.05 for each in found) <= 2
    assert all(each.ok for each in found)
    assert 0.2 < np.median([each.neighbours.p for each in found]) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_an_exact_gp_that_learns_its_parameters_is_seldom_found_wrong(likelihood):
    alarms = 0
    for seed in range(30):
        X, y = drawn(SMOOTH, seed)
        if likelihood == "poisson":
            y = np.random.default_rng(seed).poisson(np.exp(1 + y)).astype(float)
        alarms += fit(X, y, likelihood=likelihood, approximation="full").diagnose().neighbours.p < 0.05
    assert alarms <= 3


def test_an_exact_gp_from_a_file_is_tested_as_before(tmp_path):
    gp = fit(*drawn(Matern12(1.0, 0.2), 0), kernel=SMOOTH, approximation="full", **HELD)
    gp.save(tmp_path / "exact.knotwise")
    assert knotwise.load(tmp_path / "exact.knotwise").diagnose().neighbours == gp.diagnose().neighbours


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli", "student_t", "gamma"])
def test_knots_at_all_rows_give_the_test_of_the_exact_gp(likelihood):
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(60, 2))
    f = np.sin(6 * X[:, 0])
    y = {
        "poisson": rng.poisson(np.exp(1 + f)).astype(float),
        "bernoulli": (rng.random(60) < 1 / (1 + np.exp(-2 * f))).astype(float),
        "student_t": f + rng.standard_t(4, 60),
        "gamma": np.exp(f) * rng.gamma(2, 0.5, 60),
    }[likelihood]
    options = {
        "kernel": Matern32(1.0, 0.7, column_scales="standard"),
        "likelihood": likelihood,
        "mean": 0.3,
        "optimizer": None,
        "jitter": 1e-12,
    }
    weights = rng.integers(1, 4, 60)
    exact = fit(X, y, weights, approximation="full", **options).diagnose().neighbours
    knots = fit(X, y, weights, knots=X, **options).diagnose().neighbours
    assert knots.n_pairs == exact.n_pairs
    assert_allclose([knots.z, knots.correlation], [exact.z, exact.correlation], rtol=1e-6)


# -- moments against dense matrices of repeated rows ----------------------------------------------


def linked(X, copy_of, *, together):
    """The graph by brute force: a row's neighbours are at the 4 places nearest to its own, or there and no copy."""
    n = len(X)
    places = np.unique(X, axis=0)
    place = np.array([np.flatnonzero((places == x).all(1))[0] for x in X])
    near = np.zeros((len(places), len(places)), bool)
    for i, x in enumerate(places):
        near[i, np.argsort(((places - x) ** 2).sum(1))[1:5]] = True
    near |= near.T
    A = near[np.ix_(place, place)]
    if together:
        A |= (place[:, None] == place) & (copy_of[:, None] != copy_of)
    assert not A[np.arange(n), np.arange(n)].any()
    return A.astype(float)


@pytest.mark.parametrize("approximation", [0.0, 0.5, 1.0, "full"])
@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("counts", ["once", "whole"])
def test_the_test_is_that_of_dense_matrices_of_the_repeated_rows(approximation, mean, counts):
    """z is that of a' A a / 2 with covariance R of a; here from the inverse of the covariance of all repeated rows."""
    rng = np.random.default_rng(3)
    X, Z = np.round(rng.normal(size=(50, 2)), 1), rng.normal(size=(6, 2))
    X[40:] = X[:10]  # other targets at the same places
    y = np.sin(2 * X[:, 0]) + rng.normal(size=50)
    n = np.ones(50, int) if counts == "once" else rng.integers(1, 4, 50)
    options = {"knots": Z, "mean": mean, "optimizer": None, "standardize": False, "jitter": 1e-8}
    gp = GPRegressor(Matern32(1.3, 0.9), Gaussian(0.4), approximation, **options)
    gp.fit(X, y, sample_weight=n, noise_variance=np.full(50, 0.4))  # known, so that weights are counts
    model = gp._fit.model
    copy_of = np.repeat(np.arange(50), n)
    X, y = X[copy_of], y[copy_of]
    if approximation == "full":
        covariance = model.kernel(X, X) + 0.4 * np.eye(len(X))
    else:
        Q = model.kernel(X, Z) @ np.linalg.solve(model.kernel(Z, Z) + 1e-8 * 1.3 * np.eye(6), model.kernel(Z, X))
        covariance = Q + np.diag(approximation * (model.kernel.diag(X) - Q.diagonal()) + 0.4)
    basis = model.mean.basis(X)
    R = np.linalg.inv(covariance + basis @ basis.T)
    a = R @ (y - model.mean.offset)
    A = linked(X, copy_of, together=True)
    excess = 0.5 * (a @ A @ a - np.trace(A @ R))
    test = gp.diagnose().neighbours
    assert test.n_pairs == A.sum() / 2
    assert_allclose(test.z, excess / np.sqrt(0.5 * np.trace(A @ R @ A @ R)), rtol=1e-5)
    add = (copy_of == np.arange(50)[:, None]).astype(float)  # sums over copies, which a correlation is of
    pairs = add @ A @ add.T > 0
    sizes = [0.5 * x @ pairs @ x for x in (np.sqrt((add @ R @ add.T).diagonal()), np.abs(add @ a))]
    assert_allclose(test.correlation, excess / max(sizes), rtol=1e-5)


@pytest.mark.parametrize("approximation", ["vfe", "full"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "bernoulli"])
def test_weights_give_the_finding_of_the_repeated_rows(likelihood, approximation):
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(80, 1))
    f = np.sin(40 * X[:, 0])
    y = {"gaussian": f, "poisson": rng.poisson(np.exp(1 + f)), "bernoulli": f > 0}[likelihood].astype(float)
    counts = rng.integers(1, 5, 80)
    options = {
        "kernel": SquaredExponential(1.0, 2.0, column_scales="standard"),
        "likelihood": likelihood,
        "optimizer": None,
        "knots": 5,
    }
    weighted = fit(X, y, counts, approximation=approximation, **options).diagnose()
    repeated = fit(np.repeat(X, counts, 0), np.repeat(y, counts), approximation=approximation, **options).diagnose()
    assert weighted.neighbours == repeated.neighbours
    assert weighted.finding("neighbours") == repeated.finding("neighbours")
    assert weighted.finding("neighbours").level == "problem"
    once = fit(X, y, approximation=approximation, **options).diagnose()
    # where a dispersion is learned, weights are relative
    assert (weighted.neighbours.n_pairs > 3 * once.neighbours.n_pairs) == (likelihood != "gaussian")


def test_copies_of_rows_are_not_taken_for_neighbours_that_agree():
    """Of data from the model, each row three times: as seldom found as each row once."""
    found = [
        fit(*drawn(SMOOTH, seed), np.full(150, 3), kernel=SMOOTH, approximation="full", **HELD).diagnose()
        for seed in range(30)
    ]
    assert sum(each.neighbours.p < 0.05 for each in found) <= 2


@pytest.mark.parametrize(("likelihood", "sd"), [("poisson", 1.0), ("bernoulli", 2.0)])
def test_labels_and_counts_repeated_at_a_place_are_judged_by_their_sum(likelihood, sd):
    """At each place some rows are equal by chance: the right model is seldom found wrong, a flat one nearly always."""
    right, flat = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        places, kernel = rng.uniform(size=(40, 1)), SquaredExponential(sd**2, 0.3)
        L = np.linalg.cholesky(kernel(places, places) + 1e-9 * np.eye(40))
        f, X = np.repeat(L @ rng.normal(size=40), 8), np.repeat(places, 8, 0)
        y = rng.poisson(np.exp(f)) if likelihood == "poisson" else rng.random(320) < 1 / (1 + np.exp(-f))
        options = HELD | {"likelihood": likelihood, "approximation": "full"}
        right.append(fit(X, y.astype(float), kernel=kernel, **options).diagnose())
        flat.append(fit(X, y.astype(float), kernel=SquaredExponential(0.01, 9.0), **options).diagnose())
    assert sum(each.neighbours.p < 0.05 for each in right) <= 2
    assert sum(each.finding("neighbours").level == "problem" for each in flat) >= 18


# -- who is a neighbour ---------------------------------------------------------------------------


def graph(found):
    return found.sums(np.eye(len(found.rows)))


def test_each_row_is_paired_with_its_nearest_ones_once():
    A = graph(NeighbourGraph.find(np.arange(40.0)[:, None], 100, together=True))
    assert_array_equal(A, A.T)
    assert set(np.unique(A)) == {0.0, 1.0} and not A.diagonal().any()
    assert all(A[i, i + 1] for i in range(39)) and all(A[i, i + 2] for i in range(38))
    assert not np.triu(A, 5).any()


@pytest.mark.parametrize("together", [True, False])
def test_rows_at_one_place_have_the_same_neighbours(together):
    X = np.tile(np.arange(8.0), 8)[:, None]
    assert_array_equal(
        graph(NeighbourGraph.find(X, 100, together=together)), linked(X, np.arange(64), together=together)
    )


@pytest.mark.parametrize("n_places", [1, 2, 4])
def test_few_places_have_few_neighbours(n_places):
    A = graph(NeighbourGraph.find(np.tile(np.arange(float(n_places)), 30)[:, None], 100, together=False))
    assert_array_equal(A.sum(1), 30 * (n_places - 1))


def test_of_many_places_some_are_looked_at_with_their_neighbours():
    X = np.random.default_rng(0).uniform(size=(4000, 2))
    found = NeighbourGraph.find(X, 300, together=True)
    assert 600 < len(found.rows) <= 1500
    distance = np.sqrt(((X[found.rows][:, None] - X[found.rows]) ** 2).sum(-1))
    assert distance[graph(found) > 0].max() < 0.1


def test_of_many_rows_at_a_place_some_are_looked_at():
    X = np.tile(np.arange(20.0), 200)[:, None]
    found = NeighbourGraph.find(X, 50, together=True)
    assert len(np.unique(found.rows)) == len(found.rows) == 250 and len(np.unique(X[found.rows])) == 20


@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_a_look_at_some_rows_finds_what_a_look_at_all_finds(approximation, monkeypatch):
    X, y = drawn(Matern12(1.0, 0.2), 1, n=600)
    gp = fit(X, y, kernel=SquaredExponential(1.0, 1.0), knots=20, approximation=approximation, **HELD)
    whole = gp.diagnose().neighbours
    monkeypatch.setattr(autocorrelation, "MAX_PLACES", 100)
    monkeypatch.setattr(autocorrelation, "MAX_PLACES_EXACT", 100)
    part = gp.diagnose().neighbours
    assert part.n_pairs < 0.5 * whole.n_pairs
    assert part.p < 1e-4 and whole.p < 1e-4
    assert abs(part.correlation - whole.correlation) < 0.1 and 0.5 < whole.correlation < 1.05


@pytest.mark.parametrize("n_rows", [29, 30])
def test_fewer_than_thirty_rows_are_too_few(n_rows):
    X, y = drawn(SMOOTH, 0, n=n_rows)
    gp = fit(X, y, kernel=SMOOTH, approximation="full", **HELD)
    found = residuals_and_graph(gp._fit.posterior, gp._fit.training.rows)
    assert (found is None) == (n_rows < 30)
    assert ("too few different rows" in gp.diagnose().finding("neighbours").text) == (n_rows < 30)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "options"),
    [("gaussian", {}), ("gaussian", {"approximation": "fic"}), ("gaussian", {"knots": 20}), ("poisson", {})],
    ids=str,
)
def test_false_alarms_are_as_rare_as_they_say(likelihood, options):
    """Forty sets of data that a GP describes: the p-value is below 0.05 in about two, and at most four."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(200, 2))
        f = np.sin(6 * X[:, 0]) + X[:, 1] ** 2
        y = f + 0.3 * rng.normal(size=200) if likelihood == "gaussian" else rng.poisson(np.exp(1 + f)).astype(float)
        alarms += fit(X, y, likelihood=likelihood, **options).diagnose().neighbours.p < 0.05
    assert alarms <= 4
