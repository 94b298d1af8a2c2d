"""Posterior of the exact GP, which holds the training rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from knotwise.errors import warn
from knotwise.evidence.full_sites import FullState, prior_covariance
from knotwise.evidence.model import Rows
from knotwise.evidence.scores import RowScores
from knotwise.evidence.sparse import full_evidence
from knotwise.numerics.blocks import Executor
from knotwise.numerics.linalg import cholesky, invert_lower, solve_factored
from knotwise.posterior.base import Latent, Posterior, noise_of_means, one_per_row
from knotwise.posterior.in_sample import InSample
from knotwise.posterior.residuals import DenseResiduals


class ExactPosterior(Posterior):
    """Posterior of the exact GP. Holds the data; costs O(N^2) per new row."""

    state: FullState
    rows: Rows
    size_in_words = "exact GP"

    def __init__(self, state: FullState) -> None:
        self.state, self.rows, self.start = state, state.rows, state.last
        self.width = len(state.a)

    def rows_in_words(self, inputs: np.ndarray | None) -> str:
        return f"holds the {len(self.rows):,} training rows, inputs and targets, from which the exact GP predicts."

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        basis = self.rows.basis
        return basis.T @ self.state.a, np.eye(basis.shape[1]) - self.state.precision.explained_jointly(basis.T)

    def residuals(self, chosen: np.ndarray, scores: RowScores | None = None) -> DenseResiduals:
        """Residuals of training rows; one that counts more than once has the sum already. Costs O(n N^2)."""
        picks = np.zeros((len(chosen), self.width))
        picks[np.arange(len(chosen)), chosen] = 1.0
        return DenseResiduals(self.state.a[chosen], self.state.precision.explained_jointly(picks))

    def in_sample(self, rows: Rows) -> InSample:
        """The training rows with and without what they say themselves. Costs N^3 / 3 flops."""
        state = self.state
        noise = one_per_row(state.model, rows)
        R, own = state.precision.matrix().diagonal(), np.asarray(rows.per_copy(noise))
        variance = np.maximum(1.0 / R - own, np.finfo(float).eps * state.model.kernel.diag(rows.X))
        return InSample.of_left_out(rows, noise, state.a / R, variance)

    def refit(self, rows: Rows, executor: Executor, rng: np.random.Generator) -> ExactPosterior:
        """The exact GP of other rows, with the same hyperparameters."""
        evidence = full_evidence(self.state.model, rows, gradient=False)
        if not evidence.converged:
            warn(f"The posterior of {len(rows):,} rows did not converge: {evidence.why}.")
        return ExactPosterior(evidence.state)

    def leave_out(self, rows, groups, executor, rng, names=None) -> list[Latent]:
        """Marginals of f at each group of rows, given all others: for Gaussian data in N^3 flops  (O1)."""
        if not self.state.model.likelihood.conjugate:
            return super().leave_out(rows, groups, executor, rng, names)
        state = self.refit(rows, executor, rng).state
        R, noise = state.precision.matrix(), noise_of_means(state.model, rows)
        least = np.finfo(float).eps * state.model.kernel.diag(rows.X)  # of differences, which may round below 0
        alone = 1.0 / R.diagonal()  # of each row by itself
        found = []
        for group in groups:
            if len(group) == 1:
                variance = np.maximum(alone[group] - noise[group], least[group])
                found.append(Latent(rows.y[group] - alone[group] * state.a[group], variance))
                continue
            L = cholesky(R[np.ix_(group, group)])
            error = solve_factored(L, state.a[group])
            half = invert_lower(L)
            variance = np.einsum("ij,ij->j", half, half) - noise[group]
            found.append(Latent(rows.y[group] - error, np.maximum(variance, least[group])))
        return found

    def leave_out_at_held_sites(self, groups: Sequence[np.ndarray]) -> list[Latent]:
        """The same for groups of its own rows, where the sites of the other rows stay: one factor for all groups.

        With S the posterior covariance of a group and W its sites, the others say S (I - W S)^-1 of it  (O4).
        """
        model, rows, state = self.state.model, self.rows, self.state
        P, _ = prior_covariance(model, rows)
        f = model.mean.offset + P @ state.a
        if state.sites is None:
            W = rows.weigh(-model.likelihood.derivatives(rows.y, f, rows.sizes).second)
        else:
            W = state.sites[:, 1]
        S = P - state.precision.explained_jointly(P)
        nugget = np.broadcast_to(rows.per_copy(model.nugget.variance), len(rows))
        least = np.finfo(float).eps * P.diagonal()
        found = []
        for group in groups:
            own = S[np.ix_(group, group)]
            cavity = np.linalg.solve(np.eye(len(group)) - own * W[group], own)
            variance = np.maximum(cavity.diagonal() - nugget[group], least[group])
            found.append(Latent(f[group] - cavity @ state.a[group], variance))
        return found

    def _cross(self, X: np.ndarray) -> np.ndarray:
        rows, model = self.state.rows, self.state.model
        cross = model.kernel(X, rows.X)
        if rows.basis.shape[1]:
            cross += model.mean.basis(X) @ rows.basis.T
        return cross

    def _marginals(self, X):
        model = self.state.model
        cross = self._cross(X)
        prior = model.kernel.diag(X) + (model.mean.basis(X) ** 2).sum(1)
        # a difference: clipped well below the noise, where rounding could leave less than nothing
        variance = np.maximum(prior - self.state.precision.explained(cross), np.finfo(float).eps * prior)
        return model.mean.offset + cross @ self.state.a, variance

    def _joint(self, X):
        model = self.state.model
        basis = model.mean.basis(X)
        return model.kernel(X, X) + basis @ basis.T - self.state.precision.explained_jointly(self._cross(X))
