"""A refused refit leaves the estimator as it was."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from knotwise import GPClassifier, GPRegressor
from knotwise.errors import InvalidInputError, KnotwiseError

pytestmark = pytest.mark.failure(45)


@pytest.fixture
def X(rng):
    return rng.uniform(size=(60, 2))


class StopError(Exception):
    pass


def stop(event):
    raise StopError


BAD = {
    "other columns and a missing target": lambda X, y: (X[:, :1], np.where(X[:, 0] > 0.5, np.nan, y)),
    "targets that cannot be": lambda X, y: (X[:, :1], -1.0 - y),
    "one row less": lambda X, y: (X[:, :1], y[1:]),
    "names and infinity": lambda X, y: (pd.DataFrame({"a": X[:, 0], "b": np.inf}), y),
}


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD)
def test_a_refused_refit_of_a_regressor_leaves_the_old_model(spoil, X, rng):
    """Case 45: a refused refit."""
    y = rng.poisson(np.exp(X[:, 0]))
    gp = GPRegressor(likelihood="poisson", knots=4, random_state=0).fit(X, y)
    before, predicted = dict(vars(gp)), gp.predict(X)
    with pytest.raises((KnotwiseError, ValueError)):
        gp.fit(*spoil(X, y))
    assert vars(gp) == before and gp.n_features_in_ == 2
    assert_array_equal(gp.predict(X), predicted)
    with pytest.raises(ValueError, match="2 features"):
        gp.predict(X[:, :1])


def test_a_refit_that_is_stopped_leaves_the_old_model(X, rng):
    """Case 45: a refused refit."""
    gp = GPRegressor(knots=4, random_state=0).fit(X, X[:, 0])
    before = dict(vars(gp))
    gp.set_params(callback=stop)
    with pytest.raises(StopError):
        gp.fit(X[:, :1], X[:, 1])
    assert vars(gp) == before | {"callback": stop}


def test_a_refused_refit_of_a_classifier_leaves_the_old_model(X):
    """Case 45: a refused refit."""
    gp = GPClassifier(knots=4, random_state=0).fit(X, np.where(X[:, 0] > 0.5, "a", "b"))
    before, predicted = dict(vars(gp)), gp.predict(X)
    for y in (np.full(60, "c"), np.where(X[:, 0] > 0.5, "c", "d")[:59]):
        with pytest.raises((InvalidInputError, ValueError)):
            gp.fit(X[:, :1], y)
        assert vars(gp) == before
    assert_array_equal(gp.predict(X), predicted)


def test_a_refit_without_names_forgets_the_names(X):
    gp = GPRegressor(knots=4, random_state=0).fit(pd.DataFrame(X, columns=["a", "b"]), X[:, 0])
    assert gp.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(gp.fit(X, X[:, 0]), "feature_names_in_")
