"""What an inference pays for a signal where there is none."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from knotwise.evidence import Model, Rows, full_evidence
from knotwise.evidence.inference import Laplace, PowerEP, Variational
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Bernoulli
from knotwise.means import Constant


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inference", "gains"),
    [
        (Laplace(), [1.72, 4.95, 8.19, 10.55]),
        (Variational(1e-12), [-0.11, -0.77, -2.13, -5.64]),
        (PowerEP(), [0.0, 0.0, 0.0, 0.0]),
    ],
    ids=["laplace", "variational", "ep"],
)
def test_the_gain_of_independent_rows_over_no_signal_is_as_the_guide_says(inference, gains):
    """200 independent rows with 3 events: with the best mean, the true gain is 0 at every latent sd."""
    X, y = np.arange(200.0)[:, None], np.zeros(200)
    y[[20, 90, 150]] = 1.0
    rows = Rows(X, y, None, np.empty((200, 0)))

    def best(sd):
        def lost(mean):
            model = Model(SquaredExponential(sd**2, 0.01), Bernoulli(), Constant(mean), 1.0, inference=inference)
            return -full_evidence(model, rows, gradient=False).value

        return -minimize_scalar(lost, bounds=(-120.0, 0.0), method="bounded").fun

    found = np.array([best(sd) for sd in (2.0, 4.0, 8.0, 30.0)]) - best(1e-4)
    np.testing.assert_allclose(found, gains, atol=0.01)
