"""Conformance of knot selectors: one line tests a user's own."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_selector(selector: Any, n_columns: int = 2, seed: int = 0) -> None:
    """Assert that a selector chooses sound knots, says why it stopped, and repeats itself to the bit.

    It is run on small Gaussian and Poisson data with repeated rows, on one and two threads, with a squared exponential
    kernel.

    Parameters
    ----------
    selector : Selector
        The selector to test.
    n_columns : int, default 2
        Columns of these data.
    seed : int, default 0
        For these data and for the fits.

    Examples
    --------
    >>> from knotwise.knots import KMeans
    >>> from knotwise.testing import check_selector
    >>> check_selector(KMeans(n_knots=5))
    """
    from knotwise.estimators.regressor import GPRegressor
    from knotwise.kernels import SquaredExponential

    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(60, n_columns))
    X[50:] = X[:10]  # repeated rows
    f = np.sin(6 * X[:, 0])
    options: dict[str, Any] = {"random_state": seed, "block_size": 25}
    for likelihood, y in {"gaussian": f + 0.1 * rng.standard_normal(60), "poisson": rng.poisson(np.exp(1 + f))}.items():
        gp, again = (
            GPRegressor(SquaredExponential(), likelihood, knots=selector, n_jobs=n_jobs, **options).fit(X, y)
            for n_jobs in (1, 2)
        )
        Z = gp.knots_
        what = f"{selector!r} on {likelihood} data"
        assert Z.ndim == 2 and Z.shape == (gp.n_knots_, n_columns) and len(Z), f"{what}: knots have shape {Z.shape}"
        assert np.isfinite(Z).all(), f"{what}: a knot is not finite"
        assert len(np.unique(Z, axis=0)) == len(Z), f"{what}: two knots are equal"
        assert len(Z) <= 50, f"{what}: {len(Z)} knots for 50 distinct rows"
        margin = 0.1 * np.ptp(X, axis=0) + 1e-9
        assert ((X.min(0) - margin <= Z) & (X.max(0) + margin >= Z)).all(), f"{what}: a knot left the data's box"
        assert gp.stop_reason_, f"{what}: no reason for stopping"
        assert np.isfinite(gp.log_evidence_), f"{what}: the evidence is not finite"
        assert np.array_equal(Z, again.knots_), f"{what}: the same seed gave other knots"
        assert gp.log_evidence_ == again.log_evidence_, f"{what}: the same seed gave another evidence"
