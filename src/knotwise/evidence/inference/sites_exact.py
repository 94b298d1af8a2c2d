"""Sites of the exact GP: every row is its own knot."""

from __future__ import annotations

import numpy as np

from knotwise.errors import KnotwiseError
from knotwise.evidence.full_sites import FullState, Precision, RootPrecision, SignedPrecision, posterior_root
from knotwise.evidence.inference.laplace_exact import exact_laplace
from knotwise.evidence.inference.sites import RowSites, SitePassSums, SiteTarget, first_sites
from knotwise.evidence.model import Evidence, Model, Rows
from knotwise.evidence.residual.base import damping


class ExactSites:
    """All rows with their sites, and the posterior of what the kernel says of them, z ~ N(0, K) (V8, E6b).

    The nugget is each row's own part of f, for each of its copies anew, as it is through knots. Some N^3 flops a look.
    """

    def __init__(self, model: Model, rows: Rows, target: SiteTarget, x: np.ndarray | None, start: np.ndarray | None):
        self.model, self.rows, self.target = model, rows, target
        K, self.pullback = model.kernel.value_and_pullback(rows.X, rows.X)
        self.K = K + rows.basis @ rows.basis.T if rows.basis.shape[1] else K
        self.power_one = model.with_power(1.0)  # nothing is left at its prior
        self.sites = RowSites(self._mode(start) if x is None else x)
        self.root: np.ndarray | None = None  # of the posterior covariance, where a precision is negative
        self._factor()

    @staticmethod
    def begin(model: Model, rows: Rows, target: SiteTarget, last: np.ndarray | None) -> ExactSites | None:
        """Begin with the sites of the last search, [N, 3], or at the mode of the posterior, which may start at [N]."""
        if last is None or last.ndim == 1:
            return ExactSites(model, rows, target, None, last)
        return ExactSites(model, rows, target, np.ascontiguousarray(last[:, 1:].T), None)

    def _mode(self, start: np.ndarray | None) -> np.ndarray:
        model, rows = self.model, self.rows
        first = self.target.first(model, rows)
        if first is not None:
            return first
        try:
            found = exact_laplace(model, rows, gradient=False, start=start)
        except KnotwiseError:
            return first_sites(model, rows, np.zeros(len(rows)))
        latent = self.K @ found.state.a + rows.per_copy(model.nugget.variance * found.state.a)
        return first_sites(model, rows, latent, positive=model.likelihood.log_concave)

    @property
    def kl_penalty(self) -> float:
        return 0.5 * float(self.a @ self.z + self.precision.log_det)

    def look(self) -> SitePassSums:
        return self.sites.look(self.target, self.power_one, self.rows, self.z, self._variance(), 0.0)

    def step(self, shares: np.ndarray | None, size: float) -> int:
        self.sites.step(shares, size, positive=self.target.has_positive_precisions(self.model))
        self._factor()
        return 0

    def _factor(self) -> None:
        W, b = self.sites.x
        h = damping(W, np.full(len(W), self.model.nugget.variance))
        w = self.rows.weigh(W * h)
        hb = self.rows.weigh(h * b)
        self.precision: Precision
        if (w >= 0).all():
            self.precision, self.root = RootPrecision.of(self.K, w), None
            self.a = self.precision.left_over(self.K, hb)  # of all copies of each row
            self.z = self.K @ self.a
        else:
            self.precision, self.root = SignedPrecision.of(self.K, w), posterior_root(self.K, w)
            self.z = self.root @ (self.root.T @ hb)
            self.a = hb - w * self.z

    def _variance(self) -> np.ndarray:
        """The posterior variance q of what the kernel says of each row."""
        if self.root is not None:
            return np.einsum("nk,nk->n", self.root, self.root)
        assert isinstance(self.precision, RootPrecision)
        return self.precision.posterior_variance(self.K)

    def ended(self, value: float, converged: bool, why: str, *, gradient: bool) -> Evidence:
        """The evidence when the search has ended; its gradient is that of (V7), with the sites held."""
        state = FullState(self.model, self.rows, self.a, self.precision, self.sites.last)
        if not gradient:
            return Evidence(value, None, None, state, converged, why)
        at, look, rows = self.sites.marginals, self.sites.seen, self.rows
        assert at is not None and look is not None
        K_bar = np.multiply.outer(self.a, 0.5 * self.a)
        R = self.precision.matrix()
        R *= 0.5
        K_bar -= R
        theta_bar = self.model.in_order(
            self.pullback(K_bar.T).theta,
            self.target.likelihood_bar(self.power_one, rows, look.mean, look.variance),
            0.5 * rows.total(at.a * at.a - at.w + at.w * at.w * at.q),
            float(self.a.sum()),
        )
        return Evidence(value, theta_bar, None, state, converged, why)
