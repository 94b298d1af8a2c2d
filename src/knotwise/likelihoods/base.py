"""What a likelihood is: the density of y given the latent f, its derivatives, and the response scale."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knotwise.docstrings import documented
from knotwise.errors import InvalidInputError
from knotwise.likelihoods.expectations import expectations, expected_parameter_derivatives
from knotwise.likelihoods.response import predictive_cdf, predictive_quantile, response_moments
from knotwise.likelihoods.tilted import log_tilted_integral, tilted, tilted_parameter_derivatives
from knotwise.likelihoods.values import Derivatives, Expectations, ParameterDerivatives, Tilted
from knotwise.noise import Noise, NoisyRows
from knotwise.numerics.part import Part

#: exposure or trials: of each row, or one number for all
Sizes = np.ndarray | float
#: what methods of a likelihood say of their arguments
ARGUMENTS = {
    "size": (
        "float or array [n], default 1.0",
        "Exposure of each count or number of its trials; 1 where the data say nothing.",
    ),
    "y": ("array [n]", "Observations, as `check_targets` allows them."),
    "f": ("array [n]", "Values of the latent function."),
    "mean": ("array [n]", "Means of the latent function."),
    "variance": ("array [n]", "Its variances; 0 is f known exactly."),
    "power": ("float, default 1.0", "Power of the density, between 0 and 1."),
}


@documented(ARGUMENTS)
class Likelihood(Part):
    """The distribution of an observation given the latent function at its input.

    A likelihood of one's own gives `log_density`, `derivatives`, `conditional_mean`, `conditional_variance` and, if it
    has `parameters`, `parameter_derivatives`, `start` and `bounds`; intervals of observations also need `cdf` and
    `latent_of_mean`. `knotwise.testing.check_likelihood` tests it. `size` is what the data say of the weight of each
    row (the exposure of a count, the number of trials), 1 where they say nothing.

    Examples
    --------
    Counts of mean e^f, each of them of twice the exposure:

    >>> import numpy as np
    >>> from knotwise.likelihoods import NegativeBinomial
    >>> counts = NegativeBinomial(dispersion=0.5)
    >>> y, f, v = np.array([3.0]), np.array([1.0]), np.array([0.1])
    >>> counts.log_density(y, f, 2.0).round(3).tolist(), counts.cdf(y, f, 2.0).round(3).tolist()
    ([-2.18], [0.407])
    >>> d = counts.derivatives(y, f, 2.0)
    >>> bool(counts.fisher(y, f, 2.0) == -d.second), bool(counts.step_curvature(y, f, 2.0) == -d.second)
    (True, True)
    >>> bool(counts.known(y, f, 2.0).first == d.first), len(counts.parameter_derivatives(y, f, 2.0))
    (True, 1)
    >>> counts.conditional_mean(f, 2.0).round(3).tolist(), counts.conditional_variance(f, 2.0).round(3).tolist()
    ([5.437], [20.215])
    >>> round(float(counts.latent_of_mean(2 * np.e, 2.0)), 3), counts.sample(f, np.random.default_rng(0), 2.0).shape
    (1.0, (1,))
    >>> round(float(counts.singular_point(y, 2.0)), 3), counts.support()
    (0.0, (0.0, inf))

    For f ~ N(mean, variance):

    >>> counts.expectations(y, f, v).log_density.round(3).tolist()
    [-2.045]
    >>> counts.tilted(y, f, v).log_integral.round(3).tolist()
    [-2.041]
    >>> counts.expected_parameter_derivatives(y, f, v).shape, counts.tilted_parameter_derivatives(y, f, v).shape
    ((1, 1), (1, 1))
    >>> mean, variance = counts.response_moments(f, v)
    >>> mean.round(3).tolist(), counts.predictive_quantile(0.9, f, v).tolist()
    ([2.858], [7.0])
    >>> counts.log_predictive_density(y, f, v).round(3).tolist(), counts.predictive_cdf(y, f, v).round(3).tolist()
    ([-2.041], [0.693])

    In a fit:

    >>> y = counts.check_targets(np.array([2.0, 4.0]))
    >>> round(counts.constant_start(y), 3), NegativeBinomial().start(variance=4.0), counts.bounds(4.0).shape
    (1.099, NegativeBinomial(dispersion=0.3), (1, 2))
    """

    #: the name of the option of `fit` and `predict` that carries `size`, or None
    size_name: ClassVar[str | None] = None
    #: whether -d2 log p / df2 is never negative; where it may be, Newton's steps take `step_curvature` instead
    log_concave: ClassVar[bool] = True
    #: whether y is a noisy copy of f on the same scale, so that targets are centred and scaled inside
    scales_targets: ClassVar[bool] = False
    #: whether single targets may lie anywhere, so that quartiles tell their scale where they contradict the variance
    heavy_tailed: ClassVar[bool] = False
    #: whether the posterior of f is Gaussian, so that its mode has a closed form
    conjugate: ClassVar[bool] = False
    #: whether E log p(y | f) for f ~ N(mean, variance) is concave in mean and variance together (C4)
    jointly_concave: ClassVar[bool] = False
    #: whether log p(y | f) is a quadratic function of f, so that the exact posterior is Gaussian
    quadratic: ClassVar[bool] = False
    #: whether p(y | f) is a mixture of normal densities of y - f with one scale each, whose expected logarithm has a
    #: bound in closed form, `mixture_bound` (M2)
    scale_mixture: ClassVar[bool] = False
    #: whether y takes whole numbers only
    discrete: ClassVar[bool] = False
    #: whether E(y | f) is e^f times what does not depend on f
    log_link: ClassVar[bool] = False
    #: whether y is one of two labels, which have no size
    binary: ClassVar[bool] = False
    #: values of a continuous y that have a probability of their own beside its density, such as 0 of rain: there
    #: `log_density` is the logarithm of that probability, and elsewhere that of the density
    atoms: ClassVar[tuple[float, ...]] = ()
    #: whether `constant_start` asks for nothing but weighted means of y and size, so that the means of groups of rows,
    #: with the weights of the groups, are enough
    starts_from_means: ClassVar[bool] = False

    @property
    def uses_inputs(self) -> bool:
        """Whether the distribution of y given f depends on the inputs, too; then `at` gives that of some rows."""
        return False

    @property
    def noise(self) -> Noise:
        """The noise of Gaussian data, as a part."""
        raise InvalidInputError(f"{type(self).__name__} has no Gaussian noise.")

    def log_noise(self, rows: NoisyRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the log noise variance of Gaussian data at some rows.

        Parameters
        ----------
        rows : object
            With inputs `X` [n, D] in the units of the model.

        Returns
        -------
        mean : array [n]
            Of the logarithm, for noise in the units of y squared.
        variance : array [n]
            Of the logarithm: 0 where the noise is known.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise.likelihoods import Gaussian
        >>> from knotwise.noise import Inputs
        >>> mean, variance = Gaussian(0.25).log_noise(Inputs(np.zeros((2, 1))))
        >>> np.exp(mean).round(3).tolist(), variance.tolist()
        ([0.25, 0.25], [0.0, 0.0])
        """
        known = np.broadcast_to(self.noise.variance(rows), len(rows.X))
        return np.log(known), np.zeros(len(known))

    def at(self, rows: NoisyRows) -> Likelihood:
        """The likelihood of some rows, where their inputs matter to it: Gaussian noise may be a function of these.

        Parameters
        ----------
        rows : object
            With inputs `X` [n, D] in the units of the model, such as `knotwise.noise.Inputs`.

        Returns
        -------
        Likelihood
            Itself, or one whose parameters have a value for each of the rows.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise.likelihoods import Gaussian
        >>> from knotwise.noise import Inputs
        >>> Gaussian(0.1).at(Inputs(np.zeros((3, 1))))
        Gaussian(noise_variance=0.1)
        """
        return self

    def in_units(self, centre: np.ndarray, scale: np.ndarray) -> Likelihood:
        """The same for inputs in other units: x of them is centre + scale times x of these.

        Parameters
        ----------
        centre : array [D]
            What is 0 in these units.
        scale : array [D]
            What is 1 in these units, more than `centre`.

        Returns
        -------
        Likelihood
            Itself, where the inputs do not matter to it.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise.likelihoods import Gaussian
        >>> Gaussian(0.1).in_units(np.zeros(2), np.ones(2))
        Gaussian(noise_variance=0.1)
        """
        return self

    def with_dispersion(self, dispersion: float) -> Likelihood | None:
        """A likelihood that has this one as its limit, in which observations vary more.

        Parameters
        ----------
        dispersion : float
            How much more, as that likelihood has it; 0 would be this one.

        Returns
        -------
        Likelihood or None
            None where none is known.

        Examples
        --------
        >>> from knotwise.likelihoods import Gaussian, Poisson
        >>> Poisson().with_dispersion(0.5), Gaussian().with_dispersion(0.5)
        (NegativeBinomial(dispersion=0.5), None)
        """
        return None

    @property
    def width(self) -> float | None:
        """How far from the real axis log p(y | f) is analytic in f, at the current parameters; None: not known.

        Expectations over f then know their error beforehand. It is pi for a logit: log(1 + e^f) is singular at i pi.
        """
        return None

    def singular_point(self, y: np.ndarray, size: Sizes = 1.0) -> np.ndarray | None:
        """The real f above which log p(y | f) is singular, one per row.

        Returns
        -------
        array [n] or None
            None where it is not known, or where there are several.
        """
        return None

    # -- the density given f ------------------------------------------------------------------

    def log_density(self, y: np.ndarray, f: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """log p(y | f) with all constants, broadcasting its arguments.

        Returns
        -------
        array [n]
            In nats; -inf where y cannot be.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `log_density`.")

    def derivatives(self, y: np.ndarray, f: np.ndarray, size: Sizes = 1.0) -> Derivatives:
        """The first three derivatives of log p(y | f) in f.

        Returns
        -------
        Derivatives
            `first`, `second` and `third`, [n] each.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `derivatives`.")

    def fisher(self, y: np.ndarray, f: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """The curvature -d2 log p / df2, and where it may be negative the expected one.

        Returns
        -------
        array [n]
            Never negative.
        """
        return -self.derivatives(y, f, size).second

    def step_curvature(self, y: np.ndarray, f: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """A positive curvature for Newton's steps far from the mode, where the true one may be negative.

        Returns
        -------
        array [n]
            Never negative.
        """
        return self.fisher(y, f, size)

    def parameter_derivatives(self, y: np.ndarray, f: np.ndarray, size: Sizes = 1.0) -> list[ParameterDerivatives]:
        """For each entry of theta, the derivatives of log p and of its first two derivatives in f.

        Returns
        -------
        list of ParameterDerivatives
            In the order of theta; empty without parameters.
        """
        return []

    def known(self, y: np.ndarray, f: np.ndarray, size: Sizes = 1.0) -> Expectations:
        """log p and its first two derivatives in f at once; give it where they share their work.

        Returns
        -------
        Expectations
            `log_density`, `first` and `second`, [n] each, for f known exactly.
        """
        d = self.derivatives(y, f, size)
        return Expectations(self.log_density(y, f, size), d.first, d.second)

    # -- the response -------------------------------------------------------------------------

    def conditional_mean(self, f: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """E(y | f), increasing in f.

        Returns
        -------
        array [n]
            In the units of y.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `conditional_mean`.")

    def conditional_variance(self, f: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """Var(y | f).

        Returns
        -------
        array [n]
            In the units of y squared; infinite where there is none.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `conditional_variance`.")

    def latent_of_mean(self, mean: np.ndarray | float, size: Sizes = 1.0) -> np.ndarray:
        """The f at which E(y | f) is a given mean; -inf or inf beyond what the mean can reach.

        Parameters
        ----------
        mean : float or array [n]
            Means of y.

        Returns
        -------
        array [n]
            Values of the latent function.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `latent_of_mean`.")

    def cdf(self, y: np.ndarray, f: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """P(Y <= y | f).

        Returns
        -------
        array [n]
            Between 0 and 1.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `cdf`.")

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: Sizes = 1.0) -> np.ndarray:
        """Draw y given f.

        Parameters
        ----------
        f : array
            Values of the latent function, of any shape.
        rng : Generator
            Where randomness comes from.

        Returns
        -------
        array
            One observation for each f, of its shape.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `sample`.")

    # -- what variational inference and EP need, for f ~ N(mean, variance) --------------------------

    def expectations(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes = 1.0) -> Expectations:
        """E log p, E g and E g' for f ~ N(mean, variance), where g is the derivative of log p in f.

        Returns
        -------
        Expectations
            `log_density`, `first` and `second`, [n] each; by quadrature where there is no closed form.
        """
        return expectations(self, y, mean, variance, size)

    def expected_parameter_derivatives(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes = 1.0
    ) -> np.ndarray:
        """E d log p / d theta for f ~ N(mean, variance).

        Returns
        -------
        array [Q, n]
            A row for each entry of theta.
        """
        return expected_parameter_derivatives(self, y, mean, variance, size)

    def mixture_bound(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Expectations:
        """A lower bound of E log p(y | f) for f ~ N(mean, variance), of a mixture of normal densities (M2).

        Returns
        -------
        Expectations
            The bound, its derivative in the mean, and twice that in the variance.
        """
        raise InvalidInputError(f"{type(self).__name__} is no mixture of normal densities.")

    def mixture_bound_derivatives(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Derivatives of `mixture_bound` in the unconstrained parameters (M5).

        Returns
        -------
        array [Q, n]
            One row per parameter.
        """
        raise InvalidInputError(f"{type(self).__name__} is no mixture of normal densities.")

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes = 1.0, power: float = 1.0
    ) -> Tilted:
        """log of the integral of p(y | f)^power N(f; mean, variance), and its first two derivatives in the mean.

        Returns
        -------
        Tilted
            `log_integral`, `first` and `second`, [n] each; by quadrature where there is no closed form.
        """
        return tilted(self, y, mean, variance, size, power)

    def tilted_parameter_derivatives(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes = 1.0, power: float = 1.0
    ) -> np.ndarray:
        """E d log p / d theta under the density proportional to p(y | f)^power N(f; mean, variance).

        Returns
        -------
        array [Q, n]
            A row for each entry of theta.
        """
        return tilted_parameter_derivatives(self, y, mean, variance, size, power)

    # -- a new observation, for f ~ N(mean, variance) -------------------------------------------

    def response_moments(
        self, mean: np.ndarray, variance: np.ndarray, size: Sizes = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of a new y for f ~ N(mean, variance).

        Returns
        -------
        mean : array [n]
            Means of y.
        variance : array [n]
            Variances of y. Both by quadrature where there is no closed form.
        """
        return response_moments(self, mean, variance, size)

    def log_predictive_density(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes = 1.0
    ) -> np.ndarray:
        """log of the integral of p(y | f) N(f; mean, variance).

        Returns
        -------
        array [n]
            In nats; by quadrature where there is no closed form.
        """
        return log_tilted_integral(self, y, mean, variance, size)

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """P(Y <= y) for f ~ N(mean, variance).

        Parameters
        ----------
        y : array [n]
            Values between the ends of the support.

        Returns
        -------
        array [n]
            Between 0 and 1; by quadrature where there is no closed form.
        """
        return predictive_cdf(self, y, mean, variance, size)

    def predictive_quantile(self, p: float, mean: np.ndarray, variance: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """The smallest y with P(Y <= y) >= p for f ~ N(mean, variance).

        Parameters
        ----------
        p : float
            Probability, between 0 and 1.

        Returns
        -------
        array [n]
            In the units of y; by quadrature and search where nothing quicker is known.
        """
        return predictive_quantile(self, p, mean, variance, size)

    def support(self, size: Sizes = 1.0) -> tuple[float, Any]:
        """Lowest and highest possible y.

        Returns
        -------
        lowest : float
            -inf where there is none.
        highest : float or array [n]
            inf where there is none; one per row where it depends on the size.
        """
        return -np.inf, np.inf

    # -- life in a model ----------------------------------------------------------------------

    def check_targets(self, y: np.ndarray, size: Sizes = 1.0) -> np.ndarray:
        """Refuse targets that the likelihood cannot have, with the row and the value.

        Parameters
        ----------
        y : array [n]
            What a user gave.

        Returns
        -------
        array [n]
            The targets as floats.
        """
        return y

    def constant_start(self, y: np.ndarray, size: Sizes = 1.0, weights: np.ndarray | None = None) -> float:
        """A good constant f for these data: the intercept of a model without inputs.

        Parameters
        ----------
        weights : array [n], optional
            Sample weights; one's own likelihood may do without them.

        Returns
        -------
        float
            A value of the latent function.
        """
        return float(np.average(y, weights=weights))

    def start(self, variance: float) -> Likelihood:
        """Return the likelihood with every parameter that is None set.

        Parameters
        ----------
        variance : float
            Variance of y.

        Returns
        -------
        Likelihood
            One without unknown values.
        """
        return self

    def bounds(self, variance: float) -> np.ndarray:
        """Lower and upper bounds of the natural values in the order of theta: those that are declared.

        Parameters
        ----------
        variance : float
            Variance of y.

        Returns
        -------
        array [P, 2]
            Natural values, not logarithms.
        """
        if any(p.bounds is None for p in self.parameters):
            raise NotImplementedError(f"{type(self).__name__} must define `bounds`, or declare them.")
        return np.array([p.bounds for p in self.parameters], float).reshape(-1, 2)


#: zeros, or shares of 0 or 1, up to so many may be mistakes; more are a part of the data
A_HANDFUL = 5


def refuse_ends(bad: np.ndarray, y: np.ndarray, wanted: str, *, mistakes: str, two_fits: str) -> None:
    """Raise the error for values at an end of the support, such as 0, which data may have and a density has not.

    `mistakes` is what to do where a few values are wrong, `two_fits` what to fit where they were observed so.
    """
    n_bad, names = int(bad.sum()), " and ".join(f"{value:g}" for value in np.unique(y[bad]))
    what_to_do = f"If this is a mistake, {mistakes}. If it was observed so, fit {two_fits}"
    if n_bad > A_HANDFUL:
        what_to_do = (
            f"Values of {names} in {n_bad:,} of {len(y):,} rows are no mistakes but a part of what a model should say, "
            f"and this likelihood has no place for them. Fit {two_fits}"
        )
    refuse_rows(bad, y, wanted, what_to_do)


def refuse_rows(bad: np.ndarray, y: np.ndarray, wanted: str, what_to_do: str) -> None:
    """Raise the error for targets that cannot be, naming the first row and its value."""
    rows = np.flatnonzero(bad)
    if len(rows):
        more = f" and {len(rows) - 1} more row{'s' if len(rows) > 2 else ''}" if len(rows) > 1 else ""
        raise InvalidInputError(
            f"y must be {wanted}, but is {y[rows[0]]:g} in row {rows[0]}{more}. {what_to_do}", rows=rows
        )
