"""Rows and fits that the tests of the failure cases share."""

import numpy as np

from knotwise import GPRegressor

N = 97
APPROXIMATIONS = ["vfe", "fic", "full"]


def smooth_rows():
    """Rows with a smooth signal of two columns and noise of a tenth of its size, and new rows."""
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(N, 2))
    y = np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=N)
    return X, y, rng.uniform(size=(50, 2))


def regressor(**options):
    return GPRegressor(**{"knots": 15, "random_state": 0, **options})


def fit(X, y, **options):
    return regressor(**options).fit(X, y)


def predictions(X, y, X_new, **options):
    """Mean and standard deviation of new observations, one array [2, n]."""
    return np.array(fit(X, y, **options).predict(X_new, return_std=True))


def noise_only_evidence(y):
    """Log evidence of a model that takes everything for noise about a constant, which is integrated out."""
    return -0.5 * len(y) * (np.log(2 * np.pi * y.var()) + 1) - 0.5 * np.log1p(100 * len(y))


def put(values, row, value, column=None):
    """A copy in which one value is another."""
    values = np.array(values)
    values[row if column is None else (row, column)] = value
    return values
