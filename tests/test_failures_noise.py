"""Known noise that is too small for knots, and weights that are too large or too small to count."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise import GPClassifier, GPRegressor
from knotwise.errors import FitWarning, InvalidInputError

N = 60


@pytest.fixture(scope="module")
def wave():
    """A wave on a line with noise of variance 0.02, in units in which y has variance 1."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(size=(N, 1)), axis=0)
    y = np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=N)
    return X, (y - y.mean()) / y.std()


def noise_with(*tiny, rows=(7,)):
    noise = np.full(N, 0.02)
    noise[list(rows)] = tiny
    return noise


# -- known noise -----------------------------------------------------------------------------------


@pytest.mark.failure(4)
@pytest.mark.parametrize("tiny", [1e-14, 1e-18, 1e-300])
@pytest.mark.parametrize("options", [{}, {"approximation": "fic"}, {"approximation": 0.5}], ids=str)
def test_a_row_that_is_known_almost_exactly_has_the_evidence_of_the_exact_gp(options, tiny, wave):
    """Case 4: for one row. The exact GP needs no jitter, so it is right for any noise; knots cost .1 or .2 nats."""
    exact = GPRegressor(approximation="full").fit(*wave, noise_variance=noise_with(1e-14)).log_evidence_
    with pytest.warns(
        FitWarning, match=r"in row 7, .* raised to the floor of 1e-08, 1e-08 times the variance"
    ) as caught:
        gp = GPRegressor(random_state=0, **options).fit(*wave, noise_variance=noise_with(tiny))
    assert len(caught) == 1
    assert_allclose(gp.log_evidence_, exact, atol=0.2)


@pytest.mark.failure(4)
def test_the_floor_of_known_noise_is_named_in_the_units_of_the_user_with_the_first_row(wave):
    """Case 4: equal rows become one row and are sorted; the row that is named is the user's."""
    X, y = np.vstack([wave[0], wave[0][:5]]), 100 * np.concatenate([wave[1], wave[1][:5]])
    noise = 1e4 * np.concatenate([noise_with(1e-13, 1e-12, rows=(50, 9)), np.full(5, 0.02)])
    floor = 1e-8 * y.var()
    with pytest.warns(FitWarning, match=rf"is 1e-08 in row 9 and in 1 more row, .* floor of {floor:.1g},"):
        GPRegressor(knots=8, optimizer=None, random_state=0).fit(X, y, noise_variance=noise)


def test_noise_above_the_floor_and_the_exact_gp_are_left_alone(wave):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        GPRegressor(random_state=0).fit(*wave, noise_variance=noise_with(2e-8))
        gp = GPRegressor(approximation="full").fit(*wave, noise_variance=noise_with(1e-14))
    assert_allclose(gp.predict(wave[0][7:8]), wave[1][7], atol=1e-6)


# -- weights ---------------------------------------------------------------------------------------


def weights_with(value, rows=(7,)):
    weights = np.ones(N)
    weights[list(rows)] = value
    return weights


@pytest.mark.parametrize("weight", [1.1e8, 1e16, 1e300])
@pytest.mark.parametrize("options", [{}, {"approximation": "full"}, {"likelihood": "poisson"}], ids=str)
def test_a_weight_that_no_digits_can_follow_is_refused_with_its_row(options, weight, wave):
    X, y = wave
    y = np.round(np.exp(y)) if "likelihood" in options else y
    with pytest.raises(InvalidInputError, match=r"is .* in row 7 and 1 more row, .* 1e\+08 times.*mean") as caught:
        GPRegressor(**options).fit(X, y, sample_weight=weights_with(weight, rows=(7, 11)))
    assert caught.value.rows.tolist() == [7, 11]
    with pytest.raises(InvalidInputError, match="in row 7, "):
        GPClassifier().fit(X, y > 1, sample_weight=weights_with(weight))


def test_at_the_largest_weight_the_bound_is_still_below_the_evidence(wave):
    """Of known noise, where weights are counts."""
    known = {"sample_weight": weights_with(1e8), "noise_variance": np.full(N, 0.01)}
    sparse = GPRegressor(random_state=0, approximation="vfe").fit(*wave, **known)
    exact = GPRegressor(approximation="full").fit(*wave, **known)
    assert 0 < sparse.log_evidence_ < exact.log_evidence_


@pytest.mark.parametrize("tiny", [1e-101, 1e-300, 5e-324])
@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_a_row_of_a_tiny_weight_is_not_there(approximation, tiny, wave):
    gp = GPRegressor(approximation=approximation, random_state=0)
    without = gp.fit(*wave, sample_weight=weights_with(0.0)).predict(wave[0], return_std=True)
    assert_allclose(gp.fit(*wave, sample_weight=weights_with(tiny)).predict(wave[0], return_std=True), without, rtol=0)


@pytest.mark.parametrize("tiny", [0.0, 1e-300])
def test_weights_that_are_all_tiny_leave_nothing_to_fit(tiny, wave):
    with pytest.raises(InvalidInputError, match="nothing to fit"):
        GPRegressor().fit(*wave, sample_weight=np.full(N, tiny))
