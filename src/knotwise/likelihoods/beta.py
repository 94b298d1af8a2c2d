"""Beta responses: shares strictly between 0 and 1."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import betainc, digamma, expit, log_expit, logit, zeta

from knotwise.likelihoods.base import (
    Derivatives,
    Expectations,
    Likelihood,
    ParameterDerivatives,
    refuse_ends,
    refuse_rows,
)
from knotwise.likelihoods.logit_beta import logit_beta_quantile
from knotwise.likelihoods.response import by_blocks
from knotwise.likelihoods.special import digamma_defect, factorial_excess
from knotwise.numerics.parameters import Parameter

#: a beta variable's parameters must be positive, a share lies inside (0, 1)
SMALLEST = 1e-300

MISTAKES = "correct it, move it inside, or use Binomial with the number of trials"
TWO_FITS = (
    "two models: of the occurrence, `GPClassifier().fit(X, np.ceil(y) + np.floor(y))`, which is 0 for 0, 1 between and "
    "2 for 1, and of the share where it is between, this fit with `X[(y > 0) & (y < 1)], y[(y > 0) & (y < 1)]`; or "
    "Binomial, where the number of trials is known."
)


class Beta(Likelihood):
    r"""Shares with a logit link.

    .. math:: p(y \mid f) = \frac{\Gamma(\phi)}{\Gamma(a) \Gamma(b)}\, y^{a - 1} (1 - y)^{b - 1}, \qquad
        a = \mu \phi, \quad b = (1 - \mu) \phi, \quad \mu = 1 / (1 + e^{-f}), \quad \phi = \mathrm{precision}

    The variance is mu (1 - mu) / (1 + phi). Not log-concave in f.

    Parameters
    ----------
    precision : float, optional
        phi above: the larger, the less shares vary about their mean. A number is where a fit starts, and `fixed` holds
        it; None takes it from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import Beta
    >>> Beta(precision=9.0).conditional_variance(np.array([0.0])).tolist()
    [0.025]
    """

    parameters = (Parameter("precision", role="noise", bounds=(1e-2, 1e6), direction=-1),)
    log_concave = False
    starts_from_means = True
    width = np.pi  # of log(1 + e^f), and of digamma(1 + a), whose poles have e^f < 0

    def __init__(self, precision: float | None = None) -> None:
        self.precision = precision
        self.validate()

    # Everything is written with digamma(1 + a) = digamma(a) + 1/a and so on: a and b vanish for large |f|, where
    # digamma(a) has a pole that v = mu (1 - mu) takes away.

    def log_density(self, y, f, size=1.0):
        phi = self.value("precision")
        mu, nu = _shares(f)
        log_mu, log_nu = log_expit(f), log_expit(-np.asarray(f))
        log_y, log_z = np.log(y), np.log1p(-np.asarray(y))
        constant = factorial_excess(phi) - factorial_excess(phi * mu) - factorial_excess(phi * nu)
        fit = phi * (mu * (log_y - log_mu) + nu * (log_z - log_nu))
        return constant + np.log(phi) + log_mu + log_nu - log_y - log_z + fit

    def derivatives(self, y, f, size=1.0):
        phi = self.value("precision")
        v, u, E, E1, E2 = self._terms(y, f)[:5]
        slope = u * E + v * E1
        return Derivatives(
            phi * v * E + u,
            phi * v * slope - 2 * v,
            phi * v * (u * slope - 2 * v * E + 2 * u * v * E1 + v**2 * E2) - 2 * u * v,
        )

    def known(self, y, f, size=1.0):
        # without the terms of the third derivative
        phi = self.value("precision")
        v, u, E, E1 = self._first_terms(y, f)[:4]
        return Expectations(self.log_density(y, f), phi * v * E + u, phi * v * (u * E + v * E1) - 2 * v)

    def fisher(self, y, f, size=1.0):
        phi = self.value("precision")
        mu, nu = _shares(f)
        return (phi * mu * nu) ** 2 * (zeta(2, 1 + phi * mu) + zeta(2, 1 + phi * nu)) + mu**2 + nu**2

    def parameter_derivatives(self, y, f, size=1.0):
        phi = self.value("precision")
        mu, nu = _shares(f)
        v, u, E, E1, _, H, H1 = self._terms(y, f)
        fit = phi * (mu * (np.log(y) - log_expit(f)) + nu * (np.log1p(-np.asarray(y)) - log_expit(-np.asarray(f))))
        defects = digamma_defect(phi * mu) + digamma_defect(phi * nu) - digamma_defect(phi)
        first, second = phi * v * (E + H), phi * v * (u * (E + H) + v * (E1 + H1))
        return [ParameterDerivatives(fit + defects, first, second)]

    def _terms(self, y, f):
        """v, u, then E = logit y - digamma(1+a) + digamma(1+b) and H = dE/dlog phi with their derivatives in mu."""
        phi = self.value("precision")
        v, u, E, E1, a, b, a1, b1 = self._first_terms(y, f)
        a2, b2 = -2 * zeta(3, 1 + a), -2 * zeta(3, 1 + b)
        H1 = -phi * (a1 + b1 + a * a2 + b * b2)
        return v, u, E, E1, -(phi**2) * (a2 - b2), b * b1 - a * a1, H1

    def _first_terms(self, y, f):
        """v, u, E and its derivative in mu; a, b and their trigamma(1 + .)."""
        phi = self.value("precision")
        mu, nu = _shares(f)
        a, b = phi * mu, phi * nu
        a1, b1 = zeta(2, 1 + a), zeta(2, 1 + b)  # trigamma
        E = logit(y) - digamma(1 + a) + digamma(1 + b)
        return mu * nu, nu - mu, E, -phi * (a1 + b1), a, b, a1, b1

    def conditional_mean(self, f, size=1.0):
        return _shares(f)[0]

    def conditional_variance(self, f, size=1.0):
        mu, nu = _shares(f)
        return mu * nu / (1 + self.value("precision"))

    def latent_of_mean(self, mean, size=1.0):
        return logit(np.clip(mean, 0.0, 1.0))

    def cdf(self, y, f, size=1.0):
        a, b = self._parameters(f)
        return betainc(a, b, np.clip(y, 0.0, 1.0))

    def predictive_quantile(self, p, mean, variance, size=1.0):
        return expit(by_blocks(partial(logit_beta_quantile, p, self.value("precision")), mean, variance))

    def sample(self, f, rng, size=1.0):
        return np.clip(rng.beta(*self._parameters(f)), SMALLEST, np.nextafter(1.0, 0.0))

    def _parameters(self, f):
        mu, nu = _shares(f)
        return np.maximum(self.value("precision") * mu, SMALLEST), np.maximum(self.value("precision") * nu, SMALLEST)

    def support(self, size=1.0):
        return 0.0, 1.0

    def check_targets(self, y, size=1.0):
        y = np.asarray(y, float)
        wanted = "strictly between 0 and 1"
        refuse_rows(~((y >= 0) & (y <= 1)), y, wanted, "Remove the row or correct it.")
        refuse_ends((y == 0) | (y == 1), y, wanted, mistakes=MISTAKES, two_fits=TWO_FITS)
        return y

    def constant_start(self, y, size=1.0, weights=None):
        mean = np.average(y, weights=weights)
        return float(self.latent_of_mean(np.clip(mean, SMALLEST, np.nextafter(1.0, 0.0))))

    def start(self, variance):
        # var(y) is at most 1 / (4 (1 + phi))
        return self if self.precision is not None else type(self)(float(np.clip(0.25 / max(variance, 1e-6), 1.0, 1e3)))


def _shares(f):
    f = np.asarray(f, float)
    return expit(f), expit(-f)
