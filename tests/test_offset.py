"""`offset` is the logarithm of the exposure, wherever an exposure can be given, and never beside it."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import cross_val_score

from knotwise import GPRegressor, kernels, response_scorer
from knotwise.errors import InvalidInputError

RNG = np.random.default_rng(4)
X = RNG.uniform(size=(60, 2))
OFFSET = RNG.uniform(-6, 6, 60)
EXPOSURE = np.exp(OFFSET)
Y = RNG.poisson(EXPOSURE * (1 + X[:, 0])).astype(float)


def model(likelihood="poisson"):
    return GPRegressor(kernels.SquaredExponential(), likelihood=likelihood, knots=5, random_state=0)


CALLS = {
    "predict": lambda gp, **size: gp.predict(X, **size),
    "predict with std": lambda gp, **size: gp.predict(X, return_std=True, **size)[1],
    "predict_median": lambda gp, **size: gp.predict_median(X, **size),
    "predict_interval": lambda gp, **size: gp.predict_interval(X, **size),
    "predict_exceedance": lambda gp, **size: gp.predict_exceedance(X, 3.0, **size),
    "log_predictive_density": lambda gp, **size: gp.log_predictive_density(X, Y, **size),
    "score": lambda gp, **size: gp.score(X, Y, **size),
    "predict_total": lambda gp, **size: gp.predict_total(X, random_state=0, **size).upper,
    "sample_observations": lambda gp, **size: gp.sample_observations(X, 3, random_state=0, **size),
    "response_scorer": lambda gp, **size: response_scorer(mean_poisson_deviance)(gp, X, Y, **size),
}


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, Y, exposure=EXPOSURE)


def test_a_fit_with_the_offset_is_the_fit_with_the_exposure_to_the_bit(fitted):
    gp = model().fit(X, Y, offset=OFFSET)
    assert gp.log_evidence_ == fitted.log_evidence_
    assert_array_equal(gp.predict(X), fitted.predict(X))
    with pytest.raises(InvalidInputError, match="This model was fitted with `exposure`"):
        gp.predict(X, return_std=True)


@pytest.mark.parametrize("call", CALLS.values(), ids=[name.replace(" ", "-") for name in CALLS])
def test_a_prediction_at_the_offset_is_that_at_the_exposure_to_the_bit(fitted, call):
    assert_array_equal(call(fitted, offset=OFFSET), call(fitted, exposure=EXPOSURE))
    with pytest.raises(InvalidInputError, match=r"`exposure` and `offset` were both given.*Give one"):
        call(fitted, offset=OFFSET, exposure=EXPOSURE)


def test_one_number_is_the_offset_of_all_rows(fitted):
    assert_array_equal(fitted.predict(X, offset=0.0), fitted.predict(X))
    assert_allclose(fitted.predict(X, offset=np.log(7)), 7 * fitted.predict(X), rtol=1e-14)


def test_a_dask_offset_is_the_exposure_of_its_partitions(fitted):
    parts = {"X": da.from_array(X, (20, 2)), "offset": da.from_array(OFFSET, 20)}
    gp = model().fit(parts["X"], da.from_array(Y, 20), offset=parts["offset"])
    assert_allclose(gp.log_evidence_, fitted.log_evidence_, rtol=1e-10)
    lazy = gp.predict(parts["X"], offset=parts["offset"])
    assert_allclose(lazy.compute(), gp.predict(X, exposure=EXPOSURE), rtol=1e-12)


def test_what_is_no_offset_is_said_in_words():
    with pytest.raises(InvalidInputError, match=r"`exposure` and `offset` were both given"):
        model().fit(X, Y, exposure=EXPOSURE, offset=OFFSET)
    with pytest.raises(InvalidInputError, match=r"`offset` is 1000 in row 2, but it is the logarithm of the exposure"):
        model().fit(X, Y, offset=np.where(np.arange(60) == 2, 1000.0, OFFSET))
    with pytest.raises(InvalidInputError, match=r"`offset` contains NaN in row 5"):
        model().fit(X, Y, offset=np.where(np.arange(60) == 5, np.nan, OFFSET))
    with pytest.raises(InvalidInputError, match=r"no meaning for the likelihood Gaussian, nor has `offset`"):
        model("gaussian").fit(X, Y, offset=OFFSET)
    with pytest.raises(InvalidInputError, match=r"one value for each of the 60 rows"):
        model().fit(X, Y, offset=OFFSET[:7])


def test_offsets_are_routed_through_cross_validation():
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        gp = model().set_fit_request(offset=True)
        scores = cross_val_score(
            gp, X, Y, scoring=response_scorer(mean_poisson_deviance), cv=2, params={"offset": OFFSET}
        )
    assert np.isfinite(scores).all() and (scores > -20).all()
