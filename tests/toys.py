"""Toys of thirty lines each, which the engine does not know: an inference, a residual, a selector, a noise,
a posterior.

They prove that the protocols carry what they promise, and they show how one of each is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knotwise import means
from knotwise.evidence.blocks import Sums
from knotwise.evidence.inference import Inference, SiteFit
from knotwise.evidence.model import Model, Rows
from knotwise.evidence.projection import ProjectedPass
from knotwise.evidence.residual import Pulled, Sites, Summed, residual_of
from knotwise.noise import Noise
from knotwise.numerics.linalg import cholesky, invert_lower, log_det, times_lower_transposed, weighted_gram
from knotwise.numerics.parameters import Parameter
from knotwise.posterior.base import Posterior
from knotwise.posterior.residuals import DenseResiduals

# -- an inference: the best Gaussian posterior under VFE ------------------------------------------------------

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

#: every kind of mean, before it is bound to data
MEANS = {"zero": means.Zero(), "constant": means.Constant(0.4), "linear": means.Linear(prior_sd=1.0)}


class Variational(Inference):
    """The Gaussian q(f) with the largest lower bound of the log evidence, at power 0 and without a nugget."""

    name = "Variational inference"
    word = "toy"
    value_name = "bound"
    several_passes = True
    is_bound = True

    def refuses(self, model):
        if model.power != 0 or model.nugget.size or not residual_of(model).diagonal:
            return "it is for power 0 without a nugget, and for independent rows; use 'laplace'."
        return "" if model.likelihood.log_concave else "it is for log-concave likelihoods; use 'laplace'."

    def for_power(self, power):
        return self

    def fit(self, at, start=None):
        """Damped natural-gradient steps from the prior; the state is V'WV and V'b, K x K and K numbers (V4, V5)."""
        width, blocks = at.projector.width, at.blocks
        gram, natural, passes = np.zeros((width, width)), np.zeros(width), 0
        while True:
            LB = cholesky(gram + np.eye(width))
            T = invert_lower(LB)
            gamma = T.T @ (T @ natural)
            rule = ExpectedSites(at.model, gamma, T)
            total, passes = blocks.sum(VariationalPass(at.projector, rule)), passes + 1
            converged = np.abs(total.gram - gram).max() <= 1e-11 * np.abs(gram).max()
            if converged or passes == 100:
                break
            gram, natural = gram + 0.5 * (total.gram - gram), natural + 0.5 * (total.natural - natural)
        divergence = 0.5 * float(gamma @ gamma + log_det(LB) + (T**2).sum() - width)  # of q(eta) from N(0, I)
        why = "" if converged else "the sites were still moving after 100 passes"
        return SiteFit(total.expected - divergence, gram, T, gamma, rule, bool(converged), why)

    def exact(self, model, rows, *, gradient, start=None):
        raise NotImplementedError("The toy is for knots.")


@dataclass
class VariationalSums(Sums):
    gram: np.ndarray
    natural: np.ndarray
    expected: float


@dataclass(frozen=True)
class VariationalPass(ProjectedPass):
    """Sums of the sites at the current posterior, and the expected log density."""

    rule: ExpectedSites

    def __call__(self, block, cache):
        seen, rows = self.projector.project(block, cache), block.rows
        sites = self.rule.sites(block, seen, cache)
        b = sites.W * (seen.V @ self.rule.gamma) + sites.a
        density = WEIGHTS @ self.rule.model.likelihood.log_density(rows.y, sites.f, rows.sizes)
        return VariationalSums(weighted_gram(seen.V, rows.weigh(sites.W)), rows.weigh(b) @ seen.V, rows.total(density))


@dataclass(frozen=True)
class ExpectedSites:
    """W = -E d2 log p / df2 and a = E d log p / df at f ~ N(mu, tau), the row's posterior (V4); f is at the nodes."""

    model: Model
    gamma: np.ndarray
    T: np.ndarray
    moves = False  # the bound is stationary in the sites

    def sites(self, block, seen, cache):
        rows, G = block.rows, times_lower_transposed(seen.V, self.T)
        mu, tau = seen.V @ self.gamma + self.model.mean.offset, seen.c + (G**2).sum(1)
        f = mu + np.sqrt(tau) * NODES[:, None]
        d = self.model.likelihood.derivatives(rows.y, f, rows.sizes)
        W = -WEIGHTS @ d.second
        return Sites(seen.V, W, W, WEIGHTS @ d.first, rows.weights, f=f)

    def likelihood_bar(self, block, sites, noise_bar, W_bar, slope):
        rows = block.rows
        derivatives = self.model.likelihood.parameter_derivatives(rows.y, sites.f, rows.sizes)
        return np.array([rows.total(WEIGHTS @ d.log_density) for d in derivatives])  # (V7)


# -- a residual: each row is conditioned on the one before it -------------------------------------------------


@dataclass(frozen=True)
class RowBefore:
    """The halo of a chain: the row before the first."""

    def __call__(self, numbers):
        return numbers[:1] - 1 if len(numbers) and numbers[0] else numbers[:0]


class Chain:
    """What the knots leave of a row, given what they leave of the row before it (N1 to N5 with one neighbour)."""

    diagonal = False
    n_neighbors = 0
    n_rows = None
    halo = RowBefore()

    def block_width(self, n_columns):
        return n_columns

    def kept_numbers(self, n_columns):
        return 0

    def see(self, model, block, seen, W, r):
        link = Link.of(model, block, seen, W)
        i, p = link.i, link.p
        V, r_own = seen.V[: block.n].copy(order="F"), r[: block.n].copy()
        V[i] -= link.A[:, None] * seen.V[p]
        r_own[i] -= link.A * r[p]
        return Summed(V, r_own, 1.0 / link.D)  # (N1)

    def log_weight(self, model, block, seen, W, summed):
        return float(np.log(summed.w).sum())

    def pull(self, model, block, seen, sites, bars):
        link, n, N, K = Link.of(model, block, seen, sites.W), block.n, len(block.rows), link_width(block, seen)
        i, p, A, Vk, V_bar_i = link.i, link.p, link.A, seen.V[:, :K], bars.V_bar[link.i]
        A_bar = -(seen.V[p] * V_bar_i).sum(1) - bars.r_bar[i] * sites.r[p]
        q, D_bar = A_bar / link.S, bars.D_bar[i]
        k_bar, S_bar = q - 2.0 * D_bar * A, D_bar * A * A - q * A  # (N4)
        c_bar, r_bar, V_bar = np.zeros(N), np.zeros(N), np.zeros((N, K))
        c_bar[:n], r_bar[:n], V_bar[:n] = bars.D_bar, bars.r_bar, bars.V_bar[:, :K]
        c_bar[p] += S_bar
        r_bar[p] -= A * bars.r_bar[i]
        V_bar[p] -= A[:, None] * V_bar_i[:, :K]
        gram = -2.0 * weighted_gram(Vk, c_bar) - (cross := Vk[i].T @ (k_bar[:, None] * Vk[p])) - cross.T
        V_bar -= 2.0 * c_bar[:, None] * Vk
        V_bar[i] -= k_bar[:, None] * Vk[p]
        V_bar[p] -= k_bar[:, None] * Vk[i]  # (N5)
        return Pulled(V_bar, c_bar, r_bar, c_bar, gram, link.pull(k_bar))

    def c_bar(self, model, sites, D_bar):
        return D_bar

    def knots_bar(self, gram, total):
        return total


def link_width(block, seen):
    """How many columns of V are the knots'."""
    return seen.V.shape[1] - block.rows.basis.shape[1]


@dataclass(frozen=True)
class Link:
    """Rows i of a block and the rows p before them: A, S and D of (N1), and the pullback of k(x_i, x_p)."""

    i: np.ndarray
    p: np.ndarray
    A: np.ndarray
    S: np.ndarray
    D: np.ndarray
    pull: Callable[[np.ndarray], np.ndarray]

    @staticmethod
    def of(model, block, seen, W):
        i = np.arange(0 if block.start else 1, block.n)  # the first row of all has none before it
        p = np.where(i, i - 1, block.n)  # the row before the block lies behind it
        X, noise, Vk = block.rows.X, 1.0 / np.broadcast_to(W, len(block.rows)), seen.V[:, : link_width(block, seen)]
        k, pull = model.kernel.pairs(X[i], X[p])
        c, S, D = k - (Vk[i] * Vk[p]).sum(1), seen.c[p] + noise[p], (seen.c + noise)[: block.n]
        D[i] -= c * c / S
        return Link(i, p, c / S, S, D, pull)


# -- a selector: every so many rows ---------------------------------------------------------------------------


@dataclass
class EveryFew:
    """Hold knots on every k-th of some rows, in their order, and optimise the parameters."""

    step: int = 7
    n_rows: int = 1000

    def select(self, problem, rng):
        rows = problem.take(problem.sample(self.n_rows, rng)[:: self.step])
        stage = problem.optimize(problem.table.theta, np.unique(rows.X, axis=0), rng)
        return problem.selection(stage, f"{len(stage.Z)} knots on every {self.step}th row; {stage.result.reason}")


# -- a noise: its logarithm is linear in the first input ------------------------------------------------------


class LogLinearNoise(Noise):
    """A noise variance of e^(slope x_1) times that where the first input is 0."""

    parameters = (
        Parameter("variance_at_zero", role="noise", units="y^2"),
        Parameter("slope", role="other", transform="identity", bounds=(-5.0, 5.0)),
    )

    def __init__(self, variance_at_zero=None, slope=None):
        self.variance_at_zero, self.slope = variance_at_zero, slope
        self.validate()

    def variance(self, rows):
        return self.value("variance_at_zero") * np.exp(self.value("slope") * rows.X[:, 0])

    def pullback(self, rows, variance_bar):
        each = variance_bar * self.variance(rows)  # the adjoint of the logarithms
        return np.array([each.sum(), each @ rows.X[:, 0]])

    def start(self, variance):
        given = self.variance_at_zero, self.slope
        return LogLinearNoise(variance / 10 if given[0] is None else given[0], given[1] or 0.0)

    def bounds(self, variance):
        return np.array([[1e-8 * variance, 10.0 * variance], [-5.0, 5.0]])


# -- a posterior: a linear function, by the normal distribution of its slopes ------------------------------------


@dataclass(frozen=True)
class Slopes:
    """What the posterior below is made of."""

    model: Model
    rows: Rows


class SlopePosterior(Posterior):
    """f(x) = offset + x's with slopes s ~ N(0, variance I), from Gaussian data: matrices of D x D, and none of rows."""

    size_in_words = "a linear function"

    def __init__(self, state):
        self.state, self.rows, self.width = state, state.rows, state.rows.X.shape[1]
        X, y = self.rows.X, self.rows.y - state.model.mean.offset
        self.noise = state.model.likelihood.value("noise_variance") * np.eye(len(X))
        self.prior = state.model.kernel.value("variance") * np.eye(self.width)
        self.cov = np.linalg.inv(np.linalg.inv(self.prior) + X.T @ np.linalg.solve(self.noise, X))
        self.start = self.slopes = self.cov @ X.T @ np.linalg.solve(self.noise, y)

    def _marginals(self, X):
        return self.state.model.mean.offset + X @ self.slopes, np.einsum("nd,de,ne->n", X, self.cov, X)

    def _joint(self, X):
        return X @ self.cov @ X.T

    def refit(self, rows, executor, rng):
        return SlopePosterior(Slopes(self.state.model, rows))

    def residuals(self, chosen, scores=None):
        X = self.rows.X
        R = np.linalg.inv(X @ self.prior @ X.T + self.noise)
        a = R @ (self.rows.y - self.state.model.mean.offset)
        return DenseResiduals(a[chosen], R[np.ix_(chosen, chosen)])

    def coefficients(self):
        return np.empty(0), np.empty((0, 0))

    def rows_in_words(self, inputs):
        return f"holds the {len(self.rows):,} training rows."
