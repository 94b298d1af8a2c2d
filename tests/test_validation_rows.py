"""How rows that were not fitted are predicted, and how much noise their predictions lack."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise.decisions.trials import missing_noise, validation_density
from knotwise.evidence import Jitter, Model, Rows, sparse_evidence
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant
from knotwise.posterior.knots import KnotPosterior


def fitted_with_noise(sd):
    """A posterior of a sine with a noise that is told, and other rows whose noise is 0.5."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(400, 1))
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=400)
    model = Model(SquaredExponential(1.0, 1.5), Gaussian(sd**2), Constant(0.0))
    fitted, others = (Rows(X[some], y[some], None, X[some, :0]) for some in (slice(200), slice(200, None)))
    state = sparse_evidence(model, fitted, X[:12].copy(), jitter=Jitter(1e-8, X[:12]), gradient=False).state
    return KnotPosterior(state), others


@pytest.mark.parametrize("sd", [0.02, 0.1, 0.3])
def test_noise_that_is_missing_makes_rows_likeliest(sd):
    posterior, rows = fitted_with_noise(sd)
    extra = missing_noise(posterior, rows)
    latent = posterior.latent(rows.X)
    variance, squares = latent.variance + sd**2, (rows.y - latent.mean) ** 2

    def density(more):
        return float(-0.5 * (np.log(2 * np.pi * (variance + more)) + squares / (variance + more)).mean())

    assert_allclose(validation_density(posterior, rows).mean(), density(0.0), rtol=1e-8)
    assert density(extra) > density(0.0)
    assert density(extra) > max(density(extra / 1.3), density(extra * 1.3)) - 1e-12  # a step of the search


def test_no_noise_is_missing_where_there_is_too_much():
    posterior, rows = fitted_with_noise(0.8)
    assert missing_noise(posterior, rows) == 0.0
