"""Options that cannot be used are refused by their name, with the nearest that can."""

import numpy as np
import pytest

import knotwise.evidence.sparse
from failure_fits import N, fit, put, smooth_rows
from knotwise.errors import InvalidInputError, TooLargeError, UnknownOptionError
from knotwise.kernels import SquaredExponential
from knotwise.knots import Simultaneous
from knotwise.likelihoods import Gaussian
from knotwise.optimize import LBFGS


@pytest.fixture(scope="module")
def data():
    return smooth_rows()


@pytest.mark.failure(35)
@pytest.mark.parametrize(
    ("option", "given", "nearest"),
    [
        ("approximation", "fitc", "fic"),
        ("approximation", "FIC", "fic"),
        ("likelihood", "gausian", "gaussian"),
        ("mean", "constnat", "constant"),
        ("optimizer", "lbgfs", "lbfgs"),
        ("standardize", "column", "columns"),
        ("knots", Simultaneous(5, "kmean"), "kmeans"),
        ("fixed", ["lengthscales"], "lengthscale"),
        ("fixed", "noise", "noise_variance"),
        ("bounds", {"lengthscal": (1, 2)}, "lengthscale"),
    ],
)
def test_an_unknown_option_is_an_error_that_names_the_nearest(option, given, nearest, data):
    """Case 35: misspelt option."""
    X, y, _ = data
    with pytest.raises(UnknownOptionError, match=f"Did you mean '{nearest}'"):
        fit(X, y, **{option: given})


@pytest.mark.parametrize("kind", ["observations", "obs"])
def test_an_unknown_kind_of_interval_names_the_nearest(kind, data):
    X, y, _ = data
    with pytest.raises(UnknownOptionError, match="Did you mean 'observation'"):
        fit(X, y).predict_interval(X, kind=kind)


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("knots", 0),
        ("knots", -3),
        ("knots", 5.0),
        ("knots", True),
        ("knots", None),
        ("knots", "many"),
        ("knots", Simultaneous(0)),
        ("knots", Simultaneous(2.5)),
        ("knots", Simultaneous),
        ("knots", [0.1, 0.2]),
        ("knots", np.ones((3, 1))),
        ("knots", np.empty((0, 2))),
        ("knots", Simultaneous(5, np.ones((4, 3)))),
        ("knots", Simultaneous(5, lambda X, y, n, rng: X[:, 0])),
        ("knots", Simultaneous(5, "kmeans-per-class")),
        ("approximation", 1.5),
        ("approximation", -0.1),
        ("approximation", np.nan),
        ("approximation", True),
        ("kernel", "rbf"),
        ("kernel", SquaredExponential),
        ("kernel", SquaredExponential(lengthscale=[1.0, 2.0, 3.0])),
        ("kernel", SquaredExponential().on([2])),
        ("kernel", SquaredExponential().on(["a"])),
        ("kernel", SquaredExponential().on([])),
        ("likelihood", Gaussian),
        ("mean", np.nan),
        ("mean", [1.0]),
        ("optimizer", LBFGS),
        ("optimizer", ["lbfgs"]),
        ("standardize", True),
        ("jitter", -1e-6),
        ("jitter", "auto"),
        ("random_state", "a"),
        ("random_state", -1),
        ("n_jobs", 0),
        ("n_jobs", 1.5),
        ("block_size", 0),
        ("block_size", 1e3),
        ("n_restarts", -1),
        ("n_restarts", 2.0),
        ("fixed", [3]),
        ("fixed", None),
        ("bounds", [(1, 2)]),
        ("bounds", {"lengthscale": (2, 1)}),
        ("bounds", {"lengthscale": (0, 1)}),
        ("bounds", {"variance": (-1, 1)}),
        ("bounds", {"variance": (np.nan, 1)}),
        ("bounds", {"variance": (1, 2, 3)}),
        ("bounds", {"variance": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:40].replace("\n", " "),
)
def test_an_option_that_cannot_be_used_is_refused_by_its_name(option, given, data):
    X, y, _ = data
    named = {"knots": "(?i)knots|initial", "kernel": "kernel|lengthscale|[Cc]olumn"}.get(option, option)
    with pytest.raises(InvalidInputError, match=named):
        fit(X, y, **{option: given})


def test_knots_that_are_not_finite_are_refused_with_that_reason(data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=r"NaN|nan|not finite"):
        fit(X, y, knots=put(np.ones((3, 2)), 1, np.nan, column=0))


@pytest.mark.parametrize(
    "part",
    [
        lambda: SquaredExponential(variance=-1.0),
        lambda: SquaredExponential(lengthscale=0.0),
        lambda: SquaredExponential(lengthscale=[1.0, -2.0]),
        lambda: SquaredExponential(lengthscale=np.inf),
        lambda: SquaredExponential(lengthscale="long"),
        lambda: SquaredExponential(variance=[1.0, 2.0]),
        lambda: SquaredExponential().set_params(lengthscale=-1.0),
        lambda: Gaussian(-1.0),
        lambda: Gaussian(np.nan),
        lambda: Gaussian([1.0, 2.0]),
    ],
)
def test_parameters_that_are_not_positive_numbers_are_refused_at_once(part):
    with pytest.raises(InvalidInputError, match="positive"):
        part()


def test_zero_noise_is_allowed_however_it_is_set():
    assert Gaussian(1.0).set_params(noise_variance=0.0).noise_variance == Gaussian(0.0).noise_variance == 0.0


def test_the_exact_gp_is_refused_above_its_limit(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(knotwise.evidence.sparse, "MAX_FULL_ROWS", 50)
    with pytest.raises(TooLargeError, match=f"{N} x {N}.*50 rows.*'vfe'") as caught:
        fit(X, y, approximation="full")
    assert caught.value.n_rows == N and caught.value.limit == 50
    assert fit(X[:50], y[:50], approximation="full").n_knots_ == 0
