"""The frozen objects between data and evidence: rows, model, jitter, and the evidence itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.kernels.base import Kernel
from knotwise.likelihoods.base import Likelihood
from knotwise.likelihoods.gaussian import gaussian_of_rows
from knotwise.means import Mean
from knotwise.noise import KnownNoise, Noise, NoisyRows, NoNugget, Nugget
from knotwise.numerics.linalg import smallest_jitter
from knotwise.numerics.parameters import Parameter, unique_names
from knotwise.numerics.weighted import whole_if_near

if TYPE_CHECKING:
    from knotwise.evidence.inference.base import Inference
    from knotwise.evidence.residual.base import Residual

#: what the parts of a model are called, in the order of theta
PARTS = ("kernel", "likelihood", "nugget", "mean")
KNOWN_NOISE = KnownNoise()


@dataclass(frozen=True)
class Rows:
    """Data: inputs X [N, D], targets y [N], known noise variance per row [N] or None, mean basis [N, p].

    `size` [N] is the exposure or the number of trials of each row, or None. `weights` [N], positive, are sample
    weights, or None for one each: a row of weight 2 is the row twice (S18). The known noise is not below
    the floor that knots need; `given_noise` [N] is the known noise as it was given, None where it is the same.
    """

    X: np.ndarray
    y: np.ndarray
    noise_variance: np.ndarray | None
    basis: np.ndarray
    size: np.ndarray | None = None
    weights: np.ndarray | None = None
    given_noise: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice | np.ndarray) -> Rows:
        noise, size, weights, given = self.noise_variance, self.size, self.weights, self.given_noise
        return Rows(
            self.X[rows],
            self.y[rows],
            None if noise is None else noise[rows],
            self.basis[rows],
            None if size is None else size[rows],
            None if weights is None else weights[rows],
            None if given is None else given[rows],
        )

    @property
    def as_given(self) -> Rows:
        """The same rows with the known noise as it was given, for what needs no floor: the exact GP, certificates."""
        return self if self.given_noise is None else replace(self, noise_variance=self.given_noise, given_noise=None)

    @property
    def sizes(self) -> np.ndarray | float:
        """The size of each row, 1 where the data say nothing."""
        return 1.0 if self.size is None else self.size

    @property
    def count(self) -> int | float:
        """Number of rows, by their sample weights; a fraction only where the weights add to one."""
        return len(self.X) if self.weights is None else whole_if_near(float(self.weights.sum()))

    @property
    def once(self) -> Rows:
        """The same rows without weights."""
        return replace(self, weights=None)

    def weigh(self, terms: np.ndarray) -> np.ndarray:
        """Terms of the rows, [n], times their sample weights."""
        return terms if self.weights is None else self.weights * terms

    def per_copy(self, terms: np.ndarray | float) -> np.ndarray | float:
        """Terms of the rows, [n], divided by their sample weights: of a variance, that of the mean of replicates."""
        return terms if self.weights is None else terms / self.weights

    def total(self, terms: np.ndarray) -> float:
        """Sum of terms of the rows, [n], times their sample weights."""
        return float(self.weigh(terms).sum())


@dataclass(frozen=True)
class Model:
    """Kernel, likelihood, mean and nugget with values for their parameters, and how the posterior is approximated.

    theta is the kernel's, the likelihood's, the nugget's and the mean's, in this order. `power` is that of the
    approximation through knots; `inference` says how the sites of the observations are found (None: the one that the
    likelihood asks for), and `residual` what is done with the residual K - Q (None: independent rows).
    """

    kernel: Kernel
    likelihood: Likelihood
    mean: Mean
    power: float = 1.0
    nugget: Nugget = field(default_factory=NoNugget)
    inference: Inference | None = None
    residual: Residual | None = None

    @property
    def parts(self) -> tuple[Kernel, Likelihood, Nugget, Mean]:
        return self.kernel, self.likelihood, self.nugget, self.mean

    @property
    def owners(self) -> list[str]:
        """Which part each entry of theta belongs to: "kernel", "likelihood", "nugget" or "mean"."""
        return [name for name, part in zip(PARTS, self.parts, strict=True) for _ in part.names]

    @property
    def names(self) -> list[str]:
        """Names of the entries of theta; `kernel__variance` and `likelihood__variance` where two parts share one."""
        return unique_names([name for part in self.parts for name in part.names], self.owners)

    def flat_parameters(self, n_columns: int) -> tuple[Parameter, ...]:
        """What each entry of theta is, for so many columns; on a link's scale nothing has the units of y."""
        flat = (p for part in self.parts for p in part.flat_parameters(range(n_columns)))
        return tuple(flat) if self.likelihood.scales_targets else tuple(p.without_y() for p in flat)

    @property
    def noise_directions(self) -> np.ndarray:
        """For each entry of theta 1 where more of it is more noise, -1 where it is less, 0 where it is none."""
        signs = [p.direction if p.role == "noise" else 0 for p in self.likelihood.flat_parameters()]
        kernel, _, nugget, mean = self.sizes
        return np.concatenate([np.zeros(kernel), signs, np.zeros(nugget + mean)])

    @property
    def theta(self) -> np.ndarray:
        return np.concatenate([part.theta for part in self.parts])

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Lengths of the kernel's, the likelihood's, the nugget's and the mean's share of theta."""
        return self.kernel.size, self.likelihood.size, self.nugget.size, self.mean.size

    def with_theta(self, theta: np.ndarray) -> Model:
        """The same model at other parameters."""
        p, q, r, s = self.sizes
        new = object.__new__(Model)  # with `sizes`: structure does not change with the values
        new.__dict__.update(
            self.__dict__,
            kernel=self.kernel.with_theta(theta[:p]),
            likelihood=self.likelihood.with_theta(theta[p : p + q]),
            mean=self.mean.with_theta(theta[p + q + r :]) if s else self.mean,
            nugget=self.nugget.with_theta(theta[p + q : p + q + r]) if r else self.nugget,
        )
        return new

    def in_order(
        self, kernel_bar: np.ndarray, likelihood_bar: np.ndarray, nugget_bar: float, mean_bar: float
    ) -> np.ndarray:
        """Gradients of the parts in the order of theta; that of the nugget's variance goes to the log scale."""
        _, _, n_nugget, n_mean = self.sizes
        nugget = [nugget_bar * self.nugget.variance] * n_nugget
        return np.concatenate([kernel_bar, likelihood_bar, nugget, [mean_bar] * n_mean])

    def noise_of(self, rows: NoisyRows) -> Noise:
        """The noise of Gaussian rows: known of each of them, or the likelihood's. Decided only here."""
        return KNOWN_NOISE if rows.noise_variance is not None else self.likelihood.noise

    def noise_bar(self, rows: NoisyRows, variance_bar: np.ndarray) -> np.ndarray:
        """Gradient in the likelihood's theta, given the adjoint of the noise variance of each row, [n]."""
        if rows.noise_variance is not None:
            return np.zeros(self.sizes[1])
        return self.likelihood.noise.pullback(rows, variance_bar)

    def likelihood_of(self, rows: NoisyRows) -> Likelihood:
        """The likelihood with the noise of these rows, for densities and predictions."""
        return self.likelihood.at(rows) if rows.noise_variance is None else gaussian_of_rows(rows.noise_variance)

    def with_power(self, power: float) -> Model:
        """The same model under another approximation."""
        inference = None if self.inference is None else self.inference.for_power(power)
        return replace(self, power=power, inference=inference)


@dataclass(frozen=True)
class Jitter:
    """A diagonal added to Kuu: `relative` times the mean of the kernel's diagonal at `points`.

    The points stay the same through a fit, so that the jitter is a smooth function of the kernel's
    parameters (for a stationary kernel it is relative to the variance) and none of the knots.
    """

    relative: float
    points: np.ndarray

    def scale(self, kernel: Kernel) -> float:
        return float(kernel.diag(self.points).sum()) / len(self.points)

    def scale_pullback(self, kernel: Kernel, scale_bar: float) -> np.ndarray:
        return kernel.diag_pullback(self.points, np.full(len(self.points), scale_bar / len(self.points)))

    @staticmethod
    def choose(kernel: Kernel, Z: np.ndarray, points: np.ndarray, given: float | None) -> Jitter:
        """Take the given relative jitter as it is, or the smallest with which Kuu factorises."""
        if given is not None:
            return Jitter(float(given), points)
        jitter = Jitter(0.0, points)
        return Jitter(smallest_jitter(kernel(Z, Z), jitter.scale(kernel)), points)


@dataclass(frozen=True)
class Point:
    """Where a model is evaluated: parameters, knots and jitter.

    Parameters
    ----------
    theta : array [P]
        The unconstrained parameters, those that are free.
    Z : array [K, D]
        The knots, in standardised columns.
    jitter : Jitter or None
        What is added to the diagonal of Kuu; None for the exact GP. `Problem.point` chooses the smallest that works.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.evidence.model import Point
    >>> Point(np.zeros(3), np.array([[0.0], [1.0]]), None).Z.shape
    (2, 1)
    """

    theta: np.ndarray
    Z: np.ndarray
    jitter: Jitter | None


@dataclass(frozen=True)
class Evidence:
    """Log evidence (log marginal likelihood) of the data at some parameters and knots, with its gradients.

    Attributes
    ----------
    value : float
        The log evidence, or its variational bound (ELBO).
    gradient : array [P] or None
        Its gradient in theta; None if it was not asked for.
    knot_gradient : array [K, D] or None
        Its gradient in the knots; None if it was not asked for.
    state : object
        What a posterior is made of; None where an estimator gives it.
    converged : bool
        Whether the inference reached its end.
    why : str
        Why it did not, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> gp = GPRegressor(knots=4, random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> evidence = gp.evidence()
    >>> evidence.converged, evidence.gradient.shape
    (True, (3,))
    """

    value: float
    gradient: np.ndarray | None
    knot_gradient: np.ndarray | None
    state: Any
    converged: bool = True
    why: str = ""
