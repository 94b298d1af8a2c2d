"""The Laplace approximation of the exact GP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.errors import NotPositiveDefiniteError
from knotwise.evidence.blocks import a_of
from knotwise.evidence.full_sites import (
    FullState,
    Precision,
    RootPrecision,
    SignedPrecision,
    prior_covariance,
    rising_direction,
)
from knotwise.evidence.inference.newton import search_mode
from knotwise.evidence.model import Evidence, Model, Rows


class FullSearch:
    """The search for the mode of the exact GP: N^3/3 flops per Newton iteration."""

    def __init__(self, model: Model, rows: Rows, P: np.ndarray, start: np.ndarray) -> None:
        self.model, self.rows, self.P = model, rows, P
        self.log_concave = model.likelihood.log_concave
        self.a = self.latent = np.zeros(len(rows))
        if start.any():
            latent = P @ start
            # a log-concave posterior has one mode, and the prior mean may be nearer to it
            if not self.log_concave or self._psi(start, latent) > self._psi(self.a, self.latent):
                self.a, self.latent = start, latent
        self.step_a = self.step_latent = np.zeros(len(rows))
        self.gradient_residual = np.zeros(len(rows))
        self.accepted = self.converged = False

    def evaluate(self, step: float, *, true_curvature: bool) -> tuple[float, float]:
        self.tried_a = self.a + step * self.step_a
        self.tried_latent = self.latent + step * self.step_latent
        y, f, size = self.rows.y, self.model.mean.offset + self.tried_latent, self.rows.sizes
        likelihood = self.model.likelihood
        self.tried_derivatives = likelihood.derivatives(y, f, size)
        W = -self.tried_derivatives.second if true_curvature else likelihood.step_curvature(y, f, size)
        self.tried_W = self.rows.weigh(W)
        self.tried_psi = self._psi(self.tried_a, self.tried_latent)
        return self.tried_psi, float(self.gradient_residual @ self.step_latent)

    def _psi(self, a: np.ndarray, latent: np.ndarray) -> float:
        rows, f = self.rows, self.model.mean.offset + latent
        return rows.total(self.model.likelihood.log_density(rows.y, f, rows.sizes)) - 0.5 * float(a @ latent)

    def accept(self) -> None:
        self.a, self.latent, self.psi = self.tried_a, self.tried_latent, self.tried_psi
        self.derivatives, self.W = self.tried_derivatives, self.tried_W
        self.gradient_residual = self.rows.weigh(self.derivatives.first) - self.a
        self.step_a = self.step_latent = np.zeros(len(self.a))
        self._precision: Precision | None = None
        self.accepted = True

    def aim(self) -> None:
        self.step_a = self.precision().left_over(self.P, self.gradient_residual)  # b - R P b - a  (L17)
        self.step_latent = self.P @ self.step_a

    def aim_off_saddle(self) -> bool:
        try:
            self.precision()
        except NotPositiveDefiniteError:
            self.step_a, self.step_latent = rising_direction(self.P, self.W)
            return True
        return False

    def precision(self) -> Precision:
        """R at the current point."""
        if self._precision is None:
            positive = self.log_concave or bool((self.W >= 0).all())
            self._precision = (RootPrecision if positive else SignedPrecision).of(self.P, self.W)
        return self._precision


def exact_laplace(model: Model, rows: Rows, *, gradient: bool, start: np.ndarray | None = None) -> Evidence:
    """Compute the Laplace approximation of the exact GP's log evidence and, if asked, its gradient in theta."""
    P, pullback = prior_covariance(model, rows)
    zero, first = np.zeros(len(rows)), a_of(start)
    starts = [lambda: zero, lambda: _start_from_data(model, rows, P)]
    search, converged = search_mode(
        lambda a: FullSearch(model, rows, P, a), starts if first is None else [lambda: first, *starts]
    )
    precision = search.precision()
    a, f = search.a, model.mean.offset + search.latent
    copies = _copies(model, rows, search.W)
    value = search.psi - 0.5 * precision.log_det + copies.value
    state = FullState(model, rows, a, precision)
    why = "" if converged else "the search for the mode of the latent function did not converge"
    if not gradient:
        return Evidence(value, None, None, state, converged, why)

    W_bar = -0.5 * (P.diagonal() - precision.explained(P))  # half the posterior variance of f
    W_bar += copies.W_bar
    moved = -rows.weigh(search.derivatives.third) * W_bar
    t = precision.left_over(P, moved)
    P_bar = np.multiply.outer(a + t, 0.5 * a)
    P_bar += np.multiply.outer(a, 0.5 * t)
    R = precision.matrix()
    R *= 0.5
    P_bar -= R
    theta_bar = model.in_order(
        pullback(P_bar.T).theta,  # symmetric, and in the order of memory that the kernel has
        mode_likelihood_bar(model, rows, f, W_bar, P @ t),
        float(np.sum(rows.per_copy(P_bar.diagonal()))) + copies.nugget_bar,
        float((a + t).sum()),
    )
    return Evidence(value, theta_bar, None, state, converged, why)


def _start_from_data(model: Model, rows: Rows, P: np.ndarray) -> np.ndarray:
    """The vector a of a Gaussian posterior whose sites are those of the likelihood where it is largest, [N]."""
    f = latent_of_data(model, rows)
    W = rows.weigh(np.maximum(model.likelihood.fisher(rows.y, f, rows.sizes), 0.0))
    b = W * (f - model.mean.offset) + rows.weigh(model.likelihood.derivatives(rows.y, f, rows.sizes).first)
    return RootPrecision.of(P, W).left_over(P, b)


@dataclass(frozen=True)
class Copies:
    """What the nuggets of copies add to the log evidence of their means, and its gradient, in W for each copy (L23)."""

    value: float = 0.0
    W_bar: np.ndarray | float = 0.0
    nugget_bar: float = 0.0


def _copies(model: Model, rows: Rows, W: np.ndarray) -> Copies:
    nugget = model.nugget.variance
    if rows.weights is None or not nugget:
        return Copies()
    spare, W = rows.weights - 1.0, W / rows.weights
    h = 1.0 / (1.0 + W * nugget)
    return Copies(
        0.5 * float((spare * np.log(h)).sum()),
        -0.5 * nugget * (spare / rows.weights) * h,
        -0.5 * float((spare * W * h).sum()),
    )


# -- what the search through knots shares ----------------------------------------------------------------


def mode_likelihood_bar(
    model: Model, rows: Rows, f: np.ndarray, W_bar: np.ndarray | float, slope: np.ndarray | float
) -> np.ndarray:
    """Gradient in the likelihood's parameters at a mode: directly, through the precision, and as the mode moves."""
    if rows.noise_variance is not None:
        return np.zeros(model.likelihood.size)
    derivatives = model.likelihood.parameter_derivatives(rows.y, f, rows.sizes)
    return np.array([rows.total(d.log_density - W_bar * d.second + slope * d.first) for d in derivatives])


def latent_of_data(model: Model, rows: Rows) -> np.ndarray:
    """The latent value at which each observation is its own mean, or the prior mean where that is infinite."""
    try:
        f = np.asarray(model.likelihood.latent_of_mean(rows.y, rows.sizes), float)
    except NotImplementedError:  # one's own likelihood need not know it
        f = np.array(np.nan)
    return np.where(np.isfinite(f), f, np.full(len(rows), model.mean.offset))
