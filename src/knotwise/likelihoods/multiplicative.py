"""What positive responses have in common: y is exp(f) times a positive error."""

from __future__ import annotations

import numpy as np

from knotwise.likelihoods.base import Likelihood, refuse_ends, refuse_rows
from knotwise.likelihoods.special import exp_capped, log_or_minus_inf

#: a drawn error is never 0, which no likelihood of positive y could have
SMALLEST = 1e-300

MISTAKES = "correct it or remove the row; below a limit of detection give a value, such as half the limit"
TWO_FITS = (
    "two models: of the occurrence, `GPClassifier().fit(X, y > 0)` or `likelihood='bernoulli'`, and of the amount "
    "where it occurs, this fit with `X[y > 0], y[y > 0]`. The mean is the product of their predictions."
)


class Multiplicative(Likelihood):
    r"""A positive response with a log link.

    .. math:: y = e^f \varepsilon, \qquad \varepsilon > 0 \text{ independent of } f
    """

    log_link = True
    starts_from_means = True

    def _log_error_moments(self) -> tuple[float, float]:
        """Logarithms of E of the error and of E of its square."""
        raise NotImplementedError(f"{type(self).__name__} must define `_log_error_moments`.")

    def conditional_mean(self, f, size=1.0):
        return exp_capped(f + self._log_error_moments()[0])

    def conditional_variance(self, f, size=1.0):
        return self.response_moments(f, 0.0)[1]

    def latent_of_mean(self, mean, size=1.0):
        return log_or_minus_inf(mean) - self._log_error_moments()[0]

    def response_moments(self, mean, variance, size=1.0):
        one, two = self._log_error_moments()
        # second moment times 1 - (first moment)^2 / second moment: no difference of huge numbers
        return (
            exp_capped(mean + variance / 2 + one),
            exp_capped(2 * (mean + variance) + two) * -np.expm1(2 * one - two - variance),
        )

    def support(self, size=1.0):
        return 0.0, np.inf

    def check_targets(self, y, size=1.0):
        y = np.asarray(y, float)
        refuse_rows(~((y >= 0) & np.isfinite(y)), y, "positive", "Remove the row or correct it.")
        refuse_ends(y == 0, y, "positive", mistakes=MISTAKES, two_fits=TWO_FITS)
        return y

    def constant_start(self, y, size=1.0, weights=None):
        return float(self.latent_of_mean(np.average(y, weights=weights)))

    def _log_ratio(self, y, f):
        """log y - f, [n]."""
        return log_or_minus_inf(y) - f
