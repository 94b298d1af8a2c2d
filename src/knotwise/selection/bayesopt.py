r"""Knot proposal by Bayesian optimisation (Algorithm 2 of the paper), with our own exact GP as the meta GP.

The meta GP models the log evidence W(z) as a function of one more knot z. A knot on top of a current one changes
nothing, so W is known without an evaluation at the current knots; that value is the prior mean as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knotwise.errors import KnotwiseError, unknown_option
from knotwise.evidence import Model, Rows, full_evidence
from knotwise.kernels.base import DataScale, Kernel
from knotwise.kernels.stationary import Matern12
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant
from knotwise.optimize.lbfgs import LBFGS
from knotwise.posterior.exact import ExactPosterior
from knotwise.selection.proposals import GrowthState, Proposal, Proposed, best_of, check_at_least

#: noise variance of the meta GP, relative to the mean square of its data: it keeps the matrix invertible
META_NOISE = 1e-8
#: a hundredth of a nat would do; a single start misses the better of two modes in one fit of fifty
META_OPTIMIZER = LBFGS(max_iterations=30, value_tolerance=1e-6, gradient_tolerance=1e-2)
LENGTHSCALE_FACTORS = (1.0, 0.2)
UCB_WIDTH = 2.0
#: Gauss-Legendre nodes of the budgeted improvement, on an interval where its integrand falls by e^-40
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass
class BayesOpt(Proposal):
    """Propose a knot by Bayesian optimisation of the log evidence over the rows (the paper's BO, Algorithm 2).

    Some random rows are evaluated; then, one by one, the row not yet tried that maximises the acquisition under a
    meta GP, whose parameters are fitted again before each. The row with the largest evidence is proposed.

    Parameters
    ----------
    n_random : int, default 10
        Number of random rows (T_min).
    n_evaluations : int, default 25
        Evaluations of the evidence in total, those of the random rows included (T_max).
    acquisition : "ei", "pi", "ucb" or "budget", default "ei"
        Expected improvement over the best value so far, probability of improvement, upper confidence bound, or the
        improvement expected with the evaluations that remain (see `budgeted_improvement`).
    kernel : Kernel, optional
        Kernel of the meta GP on the inputs that the model's kernel sees; the isotropic Matern-1/2 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.knots import BayesOpt, OneAtATime
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
    >>> one_more = OneAtATime(n_initial=4, max_knots=5, proposal=BayesOpt(n_random=3, n_evaluations=4))
    >>> gp = GPRegressor(knots=one_more, random_state=0).fit(X, y)
    >>> gp.n_knots_ in (4, 5)
    True
    """

    n_random: int = 10
    n_evaluations: int = 25
    acquisition: str = "ei"
    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        check_at_least(self.n_random, "n_random", 1)
        check_at_least(self.n_evaluations, "n_evaluations", self.n_random)
        if self.acquisition not in ACQUISITIONS:
            raise unknown_option("`acquisition`", self.acquisition, ACQUISITIONS)

    def propose(self, state: GrowthState, rng: np.random.Generator) -> Proposed:
        candidates = state.candidates
        n_total = min(self.n_evaluations, len(candidates))
        tried = list(rng.choice(len(candidates), min(self.n_random, n_total), replace=False))
        values = [state.evaluate(candidates[i]) for i in tried]
        spread = column_spread(candidates)
        kernel = (Matern12() if self.kernel is None else self.kernel).bind(None, candidates.shape[1])
        fitted: Kernel | None = None
        while len(tried) < n_total:
            w = np.concatenate([np.full(len(state.Z), state.value), _as_data(values, state.value)])
            X = np.vstack([state.Z, candidates[tried]])
            meta = fit_meta(kernel, X, w, state.value, spread, last=fitted)
            fitted = meta.state.model.kernel
            believed = meta.latent(candidates)
            remaining = n_total - len(tried)
            score = ACQUISITIONS[self.acquisition](believed.mean, believed.std, float(w.max()), remaining)
            score[tried] = -np.inf
            tried.append(int(np.argmax(score)))
            values.append(state.evaluate(candidates[tried[-1]]))
        n_random = min(self.n_random, n_total)
        note = f"best of {n_random} random rows and {n_total - n_random} by Bayesian optimisation"
        return best_of(candidates[tried], np.array(values), note)


def _as_data(values: list[float], level: float) -> np.ndarray:
    """The values as the meta GP sees them: a failed evaluation counts as the lowest one known."""
    w = np.array(values)
    known = np.isfinite(w)
    return np.where(known, w, min(level, w[known].min(initial=np.inf)))


# -- the meta GP ------------------------------------------------------------------------------------


def fit_meta(
    kernel: Kernel, X: np.ndarray, w: np.ndarray, level: float, spread: np.ndarray, *, last: Kernel | None = None
) -> ExactPosterior:
    """Fit the kernel of the meta GP to values w at X, with its mean held at `level`, and return its posterior.

    The kernel's parameters maximise the exact evidence; `last` is the fit before, from which the search starts as well
    as from the scale of the data. O(n^3) for n values.
    """
    square = float(((w - level) ** 2).mean())
    scale = DataScale(spread, square if square > 0 else 1.0)
    start = kernel.start(scale)
    model = Model(start, Gaussian(META_NOISE * scale.variance), Constant(level))
    rows = Rows(X, w, None, np.empty((len(X), 0)))
    n_free, held = start.size, model.theta[start.size :]
    bounds = np.log(start.bounds(scale))

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        evidence = full_evidence(model.with_theta(np.concatenate([theta, held])), rows)
        assert evidence.gradient is not None
        return evidence.value, evidence.gradient[:n_free]

    lengthscales = np.array([p.role == "lengthscale" for p in start.flat_parameters(range(X.shape[1]))])
    starts = [start.theta + np.log(factor) * lengthscales for factor in LENGTHSCALE_FACTORS]
    if last is not None:
        starts = [last.theta, starts[0]]
    best, theta = -np.inf, start.theta
    for theta_start in starts:
        try:
            result = META_OPTIMIZER.maximize(objective, theta_start, bounds)
        except KnotwiseError:
            continue
        if result.value > best:
            best, theta = result.value, result.parameters
    return ExactPosterior(full_evidence(model.with_theta(np.concatenate([theta, held])), rows, gradient=False).state)


def column_spread(X: np.ndarray) -> np.ndarray:
    """Standard deviation of each column; a constant one takes the mean of the others."""
    spread = X.std(0)
    varying = spread[spread > 0]
    return np.where(spread > 0, spread, varying.mean() if len(varying) else 1.0)


# -- acquisition functions of mean, standard deviation, best value so far, and evaluations that remain ----------------


def expected_improvement(mean: np.ndarray, std: np.ndarray, best: float, remaining: int = 1) -> np.ndarray:
    r"""Expected improvement over the best value w+ so far.

    .. math:: E[(W - w^+)_+] = \sigma\,(u\,\Phi(u) + \phi(u)), \qquad u = (\mu - w^+)/\sigma
    """
    from scipy.special import ndtr

    u = (mean - best) / std
    return std * (u * ndtr(u) + np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi))


def probability_of_improvement(mean: np.ndarray, std: np.ndarray, best: float, remaining: int = 1) -> np.ndarray:
    r"""Probability of a value above the best so far, :math:`\Phi((\mu - w^+)/\sigma)`."""
    from scipy.special import ndtr

    return ndtr((mean - best) / std)


def upper_confidence_bound(mean: np.ndarray, std: np.ndarray, best: float, remaining: int = 1) -> np.ndarray:
    r"""A value that would be a good surprise, :math:`\mu + 2 \sigma`."""
    return mean + UCB_WIDTH * std


def budgeted_improvement(mean: np.ndarray, std: np.ndarray, best: float, remaining: int = 1) -> np.ndarray:
    r"""Improvement expected of the best of the m evaluations that remain, were each a fresh draw like this one.

    .. math:: E[(\max_{i \le m} W_i - w^+)_+] = \sigma \int_{-u}^{\infty} (1 - \Phi(t)^m)\, dt, \qquad
              W_i \sim N(\mu, \sigma^2), \quad u = (\mu - w^+)/\sigma

    A place is judged by what a search that goes on there could find. The best of m draws lies about
    sigma (2 log m)^(1/2) above the mean, so that uncertain places win while many evaluations remain; with one left
    it is the expected improvement.
    """
    from scipy.special import log_ndtr

    if remaining == 1:
        return expected_improvement(mean, std, best)
    u = (mean - best) / std
    low = np.maximum(-u, -6.0)  # below -6 the integrand is 1, but for rounding
    width = np.sqrt(low**2 + 80.0) - low  # to where t^2 / 2 has grown by 40
    t = low[:, None] + width[:, None] * (NODES + 1) / 2
    integral = -np.expm1(remaining * log_ndtr(t)) @ NODE_WEIGHTS * width / 2
    return std * (integral + np.maximum(u - 6.0, 0.0))


Acquisition = Callable[[np.ndarray, np.ndarray, float, int], np.ndarray]

ACQUISITIONS: dict[str, Acquisition] = {
    "ei": expected_improvement,
    "pi": probability_of_improvement,
    "ucb": upper_confidence_bound,
    "budget": budgeted_improvement,
}
