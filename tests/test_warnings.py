"""A warning points at the line of the user's program that caused it, by whatever way the library was reached."""

import inspect
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from knotwise import GPClassifier, GPRegressor
from knotwise.errors import FitWarning
from knotwise.likelihoods import Gaussian
from knotwise.optimize import LBFGS

X = np.linspace(0, 1, 40)[:, None]
WAVE = np.sin(9 * X[:, 0])
EARLY = {"knots": 5, "optimizer": LBFGS(max_iterations=1), "random_state": 0}  # stops before it converges

WAYS = {
    "regressor": lambda: GPRegressor(**EARLY).fit(X, WAVE),
    "exact": lambda: GPRegressor(**EARLY | {"approximation": "full"}).fit(X, WAVE),
    "noise of 0": lambda: GPRegressor(likelihood=Gaussian(0.0), knots=5, fixed="noise_variance").fit(X, WAVE),
    "start beyond bounds": lambda: GPRegressor(likelihood=Gaussian(1e9), knots=5).fit(X, WAVE),
    "fractional counts": lambda: GPRegressor(likelihood="poisson", knots=5).fit(X, 3.5 + np.round(WAVE)),
    "one event": lambda: GPRegressor(likelihood="bernoulli", knots=5).fit(X, X[:, 0] == 1),
    "classifier": lambda: GPClassifier(**EARLY).fit(X, WAVE > 0),
    "three classes": lambda: GPClassifier(**EARLY).fit(X, np.digitize(WAVE, [-0.5, 0.5])),
    "pipeline": lambda: make_pipeline(StandardScaler(), GPRegressor(**EARLY)).fit(X, WAVE),
    "cross-validation": lambda: cross_val_score(GPRegressor(**EARLY), X, WAVE, cv=2),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_warning_points_at_the_line_outside_of_the_library(way):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        way()
    assert caught and {warning.category for warning in caught} == {FitWarning}
    line = inspect.getsourcelines(way)[1]
    assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, line)}


def test_a_warning_of_a_thread_of_the_user_points_at_what_the_thread_runs():
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(1) as pool:
        warnings.simplefilter("always")
        pool.submit(WAYS["regressor"]).result()
    assert [warning.filename for warning in caught] == [__file__]
