"""Counts with more zeros than their law says: with a probability nothing can be counted, whatever the inputs are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Derivatives, Expectations, Likelihood, ParameterDerivatives
from knotwise.likelihoods.counts import Counts
from knotwise.likelihoods.expectations import expectations, expected_parameter_derivatives
from knotwise.likelihoods.negative_binomial import NegativeBinomial
from knotwise.likelihoods.poisson import Poisson
from knotwise.likelihoods.special import exp_capped
from knotwise.likelihoods.tilted import tilted, tilted_parameter_derivatives
from knotwise.numerics.parameters import Parameter

INFLATION = Parameter("zero_inflation", role="other", bounds=(1e-6, 0.9999))
#: shares of zeros beyond counts nearer to 1 are this: nothing is known of the counts then
LARGEST = 1 - 1e-9
#: log probability of a zero below which the slope of it is 0 beside the zeros that are no counts
NEVER = -700.0
START = 0.2


class ZeroInflated(Counts):
    r"""Zeros beside counts of a law q, with probability :math:`\pi`.

    .. math:: p(y \mid f) = \pi\, [y = 0] + (1 - \pi)\, q(y \mid f)

    A zero is one of the counts with probability w, by which its derivatives are those of log q and more (Z2).
    """

    log_concave = False
    tilts_to_any_power = False  # p^alpha of a zero has a flat branch beside the counts', which no rule follows
    zero_inflation: float | None

    @property
    def law(self) -> Likelihood:
        """The law of the counts beside the zeros."""
        raise NotImplementedError

    @property
    def _share(self) -> float:
        """The probability of a zero that is none of the counts."""
        return START if self.zero_inflation is None else min(float(self.zero_inflation), LARGEST)

    def validate(self) -> None:
        super().validate()
        if self.zero_inflation is not None and not np.max(self.zero_inflation) < 1:
            raise InvalidInputError(
                f"`zero_inflation` of {type(self).__name__} is {self.zero_inflation}; it is the probability of a zero "
                "that is none of the counts, between 0 and 1."
            )

    @property
    def width(self):
        # where both ways to a zero cancel; there are more such f, with imaginary parts towards pi / 2
        log_odds = complex(np.log1p(-self._share) - np.log(self._share), np.pi)
        return min(float(np.angle(self._zero_of_density(log_odds))), np.pi / 2)

    def _zero_of_density(self, log_odds):
        """A complex mu, up to a positive factor, at which log q(0) is log(share / (1 - share)) + i pi."""
        return log_odds

    def _zeros(self, f, size):
        """log q(0 | f), its derivatives (0 where no zero is a count), and the probability w that a zero is one."""
        none = np.zeros(())
        log_q = self.law.log_density(none, f, size)
        possible = log_q > NEVER
        d = self.law.derivatives(none, np.where(possible, f, 0.0), size)
        slopes = [np.where(possible, one, 0.0) for one in (d.first, d.second, d.third)]
        return log_q, slopes, expit(np.log1p(-self._share) - np.log(self._share) + log_q), possible

    def log_density(self, y, f, size=1.0):
        return self._mixed(y, self.law.log_density(y, f, size))[0]

    def derivatives(self, y, f, size=1.0):
        zero = np.asarray(y) == 0
        d, (_, (g, g2, g3), w, _) = self.law.derivatives(y, f, size), self._zeros(f, size)
        v = w * (1 - w)
        return Derivatives(
            np.where(zero, w * g, d.first),
            np.where(zero, w * g2 + v * g**2, d.second),
            np.where(zero, w * g3 + v * g * (3 * g2 + (1 - 2 * w) * g**2), d.third),
        )

    def fisher(self, y, f, size=1.0):
        # of log q, by the probability that the zero is a count: of the curve below log p that touches it at f
        _, (_, g2, _), w, _ = self._zeros(f, size)
        return np.where(np.asarray(y) == 0, -w * g2, -self.law.derivatives(y, f, size).second)

    def parameter_derivatives(self, y, f, size=1.0):
        zero, share = np.asarray(y) == 0, self._share
        log_q, (g, g2, _), w, possible = self._zeros(f, size)
        v, none = w * (1 - w), np.zeros(())
        result = []
        of_zeros = self.law.parameter_derivatives(none, np.where(possible, f, 0.0), size)
        for counted, one in zip(self.law.parameter_derivatives(y, f, size), of_zeros, strict=True):
            a, b, e = (np.where(possible, each, 0.0) for each in (one.log_density, one.first, one.second))
            result.append(
                ParameterDerivatives(
                    np.where(zero, w * a, counted.log_density),
                    np.where(zero, w * b + v * a * g, counted.first),
                    np.where(zero, w * e + v * (a * (g2 + (1 - 2 * w) * g**2) + 2 * b * g), counted.second),
                )
            )
        # w falls with the share: d w / d log share = -v / (1 - share)
        less = -v / (1 - share)
        in_share = ParameterDerivatives(
            np.where(zero, -(1 - w) * np.expm1(log_q), -share / (1 - share)),
            np.where(zero, less * g, 0.0),
            np.where(zero, less * (g2 + (1 - 2 * w) * g**2), 0.0),
        )
        return [*result, in_share]

    # -- the response: a mixture of zeros and what the law of the counts says -------------------------

    def conditional_mean(self, f, size=1.0):
        return (1 - self._share) * self.law.conditional_mean(f, size)

    def conditional_variance(self, f, size=1.0):
        share = self._share
        square = size**2 * exp_capped(2 * f)
        return (1 - share) * (self.law.conditional_variance(f, size) + share * square)

    def latent_of_mean(self, mean, size=1.0):
        return self.law.latent_of_mean(mean, size) - np.log1p(-self._share)

    def response_moments(self, mean, variance, size=1.0):
        share = self._share
        counted, spread = self.law.response_moments(mean, variance, size)
        square = size**2 * exp_capped(2 * mean + variance)
        return (1 - share) * counted, (1 - share) * (spread + share * square)

    def cdf(self, y, f, size=1.0):
        return np.where(np.asarray(y) < 0, 0.0, self._share + (1 - self._share) * self.law.cdf(y, f, size))

    def predictive_cdf(self, y, mean, variance, size=1.0):
        below = self.law.predictive_cdf(y, mean, variance, size)
        return np.where(np.asarray(y) < 0, 0.0, self._share + (1 - self._share) * below)

    def predictive_quantile(self, p, mean, variance, size=1.0):
        counted = (p - self._share) / (1 - self._share)
        if counted <= 0:
            return np.zeros(np.broadcast_shapes(np.shape(mean), np.shape(variance), np.shape(size)))
        return self.law.predictive_quantile(counted, mean, variance, size)

    def sample(self, f, rng, size=1.0):
        counted = self.law.sample(f, rng, size)
        return np.where(rng.random(counted.shape) < self._share, 0.0, counted)

    # -- expectations: of counts those of their law, of zeros by quadrature ----------------------------

    def log_predictive_density(self, y, mean, variance, size=1.0):
        return self._mixed(y, self.law.log_predictive_density(y, mean, variance, size))[0]

    def expectations(self, y, mean, variance, size=1.0):
        y, mean, variance, size = np.broadcast_arrays(*(np.asarray(v, float) for v in (y, mean, variance, size)))
        counted = self.law.expectations(y, mean, variance, size)
        parts = [counted.log_density + np.log1p(-self._share), counted.first, counted.second]
        zero, error = y == 0, counted.error
        if zero.any():
            of_zeros = expectations(self, y[zero], mean[zero], variance[zero], size[zero])
            for part, own in zip(parts, (of_zeros.log_density, of_zeros.first, of_zeros.second), strict=True):
                part[zero] = own
            error = max(error, of_zeros.error)
        log_density, first, second = parts
        return Expectations(log_density, first, second, error)

    def expected_parameter_derivatives(self, y, mean, variance, size=1.0):
        y, mean, variance, size = np.broadcast_arrays(*(np.asarray(v, float) for v in (y, mean, variance, size)))
        counted = self.law.expected_parameter_derivatives(y, mean, variance, size)
        result = np.concatenate([counted, np.full((1, *y.shape), -self._share / (1 - self._share))])
        zero = y == 0
        if zero.any():
            result[:, zero] = expected_parameter_derivatives(self, y[zero], mean[zero], variance[zero], size[zero])
        return result

    def tilted(self, y, mean, variance, size=1.0, power=1.0):
        if power != 1.0:
            return tilted(self, y, mean, variance, size, power)
        counted = self.law.tilted(y, mean, variance, size)
        log_integral, w = self._mixed(y, counted.log_integral)
        spread = (np.sqrt(w * (1 - w)) * counted.first) ** 2
        found = replace(
            counted,
            log_integral=log_integral,
            first=w * counted.first,
            second=w * counted.second + spread,
        )
        ratio = counted.variance_ratio
        if ratio is not None:
            found = replace(found, variance_ratio=w * ratio + (1 - w) + np.asarray(variance) * spread)
        return found

    def tilted_parameter_derivatives(self, y, mean, variance, size=1.0, power=1.0):
        if power != 1.0:
            return tilted_parameter_derivatives(self, y, mean, variance, size, power)
        log_count = self.law.log_predictive_density(y, mean, variance, size)
        _, w = self._mixed(y, log_count)
        counted = w * self.law.tilted_parameter_derivatives(y, mean, variance, size)
        in_share = np.where(np.asarray(y) == 0, -(1 - w) * np.expm1(log_count), -self._share / (1 - self._share))
        return np.concatenate([counted, in_share[None]])

    def _mixed(self, y, log_count):
        """The log of a density with its zeros, given that of the counts; and how likely it is that y is a count."""
        log_count = np.log1p(-self._share) + log_count
        mixed = np.where(np.asarray(y) == 0, np.logaddexp(np.log(self._share), log_count), log_count)
        return mixed, np.exp(log_count - mixed)

    # -- life in a model --------------------------------------------------------------------------------

    def constant_start(self, y, size=1.0, weights=None):
        return super().constant_start(y, size, weights) - float(np.log1p(-self._share))


class ZeroInflatedPoisson(ZeroInflated):
    r"""Poisson counts, and zeros beside them.

    .. math:: p(y \mid f) = \pi\, [y = 0] + (1 - \pi)\, \mu^y e^{-\mu} / y!, \qquad \mu = \mathrm{exposure}\; e^f

    :math:`\pi` is the same everywhere; the mean is :math:`(1 - \pi)\,\mu`. Not log-concave in f.

    Parameters
    ----------
    zero_inflation : float, optional
        The probability :math:`\pi` of a zero that is none of the counts, between 0 and 1. A number is where a fit
        starts, and `fixed` holds it; None takes it from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import ZeroInflatedPoisson
    >>> trap = ZeroInflatedPoisson(zero_inflation=0.25)  # a quarter of the traps were shut
    >>> trap.conditional_mean(np.log([8.0])).round(6).tolist()
    [6.0]
    >>> trap.cdf(np.array([0.0]), np.log([8.0])).round(4).tolist()  # nearly all zeros are shut traps
    [0.2503]
    """

    parameters = (INFLATION,)

    def __init__(self, zero_inflation: float | None = None) -> None:
        self.zero_inflation = zero_inflation
        self.validate()

    @property
    def law(self) -> Likelihood:
        """The law of the counts beside the zeros."""
        return POISSON

    def start(self, variance):
        return self if self.zero_inflation is not None else type(self)(START)


class ZeroInflatedNegativeBinomial(ZeroInflated):
    r"""Counts that vary more than Poisson counts do, and zeros beside them.

    .. math:: p(y \mid f) = \pi\, [y = 0] + (1 - \pi)\, \mathrm{NB}(y \mid \mu, \mathrm{dispersion}), \qquad
        \mu = \mathrm{exposure}\; e^f

    The law of the counts is that of `NegativeBinomial`, of variance mu + dispersion mu^2. Not log-concave in f.

    Parameters
    ----------
    dispersion : float, optional
        How much more counts vary than Poisson counts, as above. A number is where a fit starts, and `fixed` holds it;
        None takes it from the data.
    zero_inflation : float, optional
        The probability :math:`\pi` of a zero that is none of the counts, between 0 and 1. A number is where a fit
        starts, and `fixed` holds it; None takes it from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.likelihoods import ZeroInflatedNegativeBinomial
    >>> law = ZeroInflatedNegativeBinomial(dispersion=0.5, zero_inflation=0.25)
    >>> law.conditional_variance(np.log([8.0])).round(6).tolist()  # 0.75 (8 + 0.5 * 64) + 0.25 * 0.75 * 64
    [42.0]
    """

    parameters = (*NegativeBinomial.parameters, INFLATION)

    def __init__(self, dispersion: float | None = None, zero_inflation: float | None = None) -> None:
        self.dispersion = dispersion
        self.zero_inflation = zero_inflation
        self.validate()

    @property
    def law(self) -> Likelihood:
        """The law of the counts beside the zeros."""
        return NegativeBinomial(self.value("dispersion"))

    def _zero_of_density(self, log_odds):
        r = 1 / self.value("dispersion")
        return np.expm1(log_odds / r) if r > 1 else -1.0  # mu / r, if that is on the sheet of the real axis

    def start(self, variance):
        dispersion = 0.3 if self.dispersion is None else self.dispersion
        return type(self)(dispersion, START if self.zero_inflation is None else self.zero_inflation)


POISSON = Poisson()
