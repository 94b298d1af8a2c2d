"""What a user with a type checker writes: `make lint` checks that it passes, and nobody runs it."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import knotwise
from knotwise import GPClassifier, GPRegressor, cross_validate
from knotwise.kernels import Matern52


class OwnRegressor(GPRegressor):
    """`fit` returns the user's own class."""


class OwnClassifier(GPClassifier):
    """The same of classes."""


def use_a_regressor(X: np.ndarray, y: np.ndarray, *, wants_std: bool) -> float:
    gp = GPRegressor(Matern52(), knots=8, random_state=0).fit(X, y, noise_variance=0.01)
    assert_type(gp, GPRegressor)
    assert_type(OwnRegressor().fit(X, y), OwnRegressor)
    assert_type(gp.predict(X), np.ndarray)
    shifted = gp.predict(X) + 1.0
    mean, std = gp.predict(X, return_std=True, noise_variance=0.01)
    same, covariance = gp.predict(X, return_cov=True, noise_variance=np.full(len(X), 0.01))
    gp.predict(X, return_std=True) + 1.0  # type: ignore[operator]  # a pair is no array
    again = gp.predict(X, return_std=False)
    either = gp.predict(X, return_std=wants_std)
    center = either[0] if isinstance(either, tuple) else either
    lower, upper = gp.predict_interval(X, kind="mean").T
    total = gp.predict_total(X, kind="mean").estimate
    latent = gp.predict_latent(X)
    arrays = [shifted, mean + std, same, covariance.diagonal(), again, center, upper - lower, total, latent.std]
    return float(sum(each.mean() for each in arrays)) + gp.score(X, y)


def use_a_classifier(X: np.ndarray, labels: np.ndarray) -> float:
    gp = GPClassifier(random_state=0).fit(X, labels)
    assert_type(gp, GPClassifier)
    assert_type(OwnClassifier().fit(X, labels), OwnClassifier)
    hits = gp.predict(X) == labels
    return float(np.mean(hits)) + float(gp.predict_proba(X)[:, 1].mean()) + gp.score(X, labels)


def use_the_rest(X: np.ndarray, y: np.ndarray) -> str:
    gp = GPRegressor().fit(X, y)
    found = cross_validate(gp, X, y, blocks=5)
    gp.save("model.knotwise")
    loaded = knotwise.load("model.knotwise")
    predicted = loaded.predict(X)
    return f"{gp.summary()} {gp.diagnose().ok} {gp.certify().gap} {found.scores} {len(predicted)}"
