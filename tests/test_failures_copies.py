"""Case 29: pickle, deepcopy and clone, at each stage of the life of an estimator."""

import copy
import gc
import pickle
import threading
import types
import warnings
from concurrent.futures import Executor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from knotwise import GPClassifier, GPRegressor
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import Linear, Matern32, SquaredExponential
from knotwise.knots import Auto, OneAtATime, Simultaneous
from knotwise.optimize import LBFGS

pytestmark = [pytest.mark.failure(29), pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")]

QUICK = LBFGS(max_iterations=5)
ESTIMATORS = {
    "automatic": GPRegressor(),
    "limited": GPRegressor(Matern32() + Linear(), knots=Auto(max_knots=9), optimizer=QUICK),
    "moved": GPRegressor(knots=Simultaneous(5, "grid"), approximation="fic", optimizer=QUICK),
    "one at a time": GPRegressor(knots=OneAtATime(max_knots=6), optimizer=QUICK, n_jobs=2, block_size=20),
    "counts": GPRegressor(likelihood="poisson", nugget="fit", knots=5, optimizer=QUICK),
    "exact": GPRegressor(approximation="full", mean="linear", optimizer=QUICK),
    "linked columns": GPRegressor(SquaredExponential().on([0]) * Linear().on([1]), knots=5, optimizer=QUICK),
    "two classes": GPClassifier(knots=5, link="probit", optimizer=QUICK, inference="laplace", n_jobs=2),
    "three classes": GPClassifier(knots=5, optimizer=QUICK, inference="laplace"),
}
WAYS = {"clone": clone, "deepcopy": copy.deepcopy, "pickle": lambda gp: pickle.loads(pickle.dumps(gp))}


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(20).uniform(-1, 1, size=(60, 2))
    return X, np.round(4 + 2 * np.sin(3 * X[:, 0]) + X[:, 1])


def targets(name, y):
    return {"two classes": y > 4, "three classes": np.digitize(y, [3.5, 4.5])}.get(name, y)


def everything(gp, X):
    """All that a model says about some rows."""
    if isinstance(gp, GPClassifier):
        return np.column_stack([gp.predict_proba(X), gp.predict(X)])
    return np.column_stack([*gp.predict(X, return_std=True), gp.predict_latent(X).variance])


@pytest.fixture(scope="module", params=ESTIMATORS)
def original(request, data):
    """Each estimator in turn, fitted, with its rows and targets and all that it says about them."""
    X, y = data[0], targets(request.param, data[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = clone(ESTIMATORS[request.param]).set_params(random_state=0).fit(X, y)
    return gp, X, y, everything(gp, X)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_copy_at_any_stage_goes_on_as_the_original_would(way, original):
    original, X, y, expected = original
    new = way(clone(original))  # before the fit
    assert_array_equal(everything(new.fit(X, y), X), expected)
    fitted = way(original)
    if way is clone:
        assert not [attribute for attribute in vars(fitted) if attribute.endswith("_")]
    else:
        assert_array_equal(everything(fitted, X), expected)
        assert str(fitted.summary()) == str(original.summary())
        again = way(fitted)  # a copy of a copy, after predictions
        assert_array_equal(everything(again, X), expected)
        assert_array_equal(everything(original, X), expected)
    assert_array_equal(everything(fitted.fit(X, y), X), expected)  # and a copy is fitted again


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_an_estimator_whose_fit_failed_is_copied_and_fits_good_data(way, data):
    X, y = data
    gp = GPRegressor(knots=5, random_state=0)
    with pytest.raises(InvalidInputError):
        gp.fit(X, np.full(len(y), np.nan))
    assert_array_equal(way(gp).fit(X, y).predict(X), GPRegressor(knots=5, random_state=0).fit(X, y).predict(X))


# a generator of NumPy has a lock, with which it can be copied
NOT_ITS_OWN = type | types.ModuleType | types.FunctionType | np.random.Generator


def reachable(thing):
    """Every object that an estimator holds, without classes, modules, functions and NumPy's generators."""
    seen, open_ = {}, [thing]
    while open_:
        item = open_.pop()
        if id(item) in seen or isinstance(item, NOT_ITS_OWN):
            continue
        seen[id(item)] = item
        open_ += gc.get_referents(item)
    return seen.values()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_pool_thread_or_lock_is_kept(name, data):
    before = set(threading.enumerate())
    gp = clone(ESTIMATORS[name]).set_params(n_jobs=2, random_state=0).fit(data[0], targets(name, data[1]))
    locks = type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Thread, Executor
    assert not [item for item in reachable(vars(gp)) if isinstance(item, locks)]
    assert set(threading.enumerate()) <= before
