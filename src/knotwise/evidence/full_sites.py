"""Linear algebra of the exact GP with sites: R = (P + W^-1)^-1, for the prior covariance P of the latent values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import eigh, solve_triangular

from knotwise.evidence.model import Model, Rows
from knotwise.kernels.base import Pullback
from knotwise.numerics.linalg import (
    FIRST_JITTER,
    cholesky,
    invert_lower,
    log_det,
    solve_factored,
    times_lower_transposed,
)

LEAST_PRECISION = 1e-200  # one can divide by its root


def prior_covariance(model: Model, rows: Rows) -> tuple[np.ndarray, Pullback]:
    """P, the prior covariance of the latent values (with nugget and mean basis), and the kernel's pullback.

    A row that counts more than once is the mean of its copies, over which the nugget averages out (L23).
    """
    value, pullback = model.kernel.value_and_pullback(rows.X, rows.X)
    P = value.copy(order="K")
    if model.nugget.variance:
        P.flat[:: len(P) + 1] += rows.per_copy(model.nugget.variance)
    if rows.basis.shape[1]:
        basis = rows.basis
        outer = basis * basis.T if basis.shape[1] == 1 else basis @ basis.T
        # symmetric, so that either of its orders in memory will do; that of P takes a third of the time
        P += outer.T if P.flags.f_contiguous else outer
    return P, pullback


class Precision(Protocol):
    """R = (P + W^-1)^-1 in a form that is safe for the signs of W."""

    @property
    def log_det(self) -> float:
        """log |I + P W|."""

    def apply(self, x: np.ndarray) -> np.ndarray:
        """R x."""

    def left_over(self, P: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(I + W P)^-1 x = x - R P x."""

    def matrix(self) -> np.ndarray:
        """R."""

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """diag(cross R cross') for cross covariances [n, N]: the variance that the data explain."""

    def explained_jointly(self, cross: np.ndarray) -> np.ndarray:
        """cross R cross', [n, n]."""


@dataclass(frozen=True)
class RootPrecision:
    """R = S (L L')^-1 S with S = diag(scale) (the identity for None): precisions W that are not negative."""

    L: np.ndarray
    scale: np.ndarray | None

    @staticmethod
    def of(P: np.ndarray, W: np.ndarray) -> RootPrecision:
        root = np.sqrt(np.maximum(W, LEAST_PRECISION))
        B = P * root[:, None]
        B *= root
        B.flat[:: len(B) + 1] += 1.0
        return RootPrecision(cholesky(B), root)

    @cached_property
    def log_det(self) -> float:
        return log_det(self.L)

    @cached_property
    def root(self) -> np.ndarray:
        """L^-1 S: R is its square."""
        inverse = invert_lower(self.L)
        return inverse if self.scale is None else inverse * self.scale

    def apply(self, x: np.ndarray) -> np.ndarray:
        if self.scale is None:
            return solve_factored(self.L, x)
        return self.scale * solve_factored(self.L, self.scale * x)

    def left_over(self, P: np.ndarray, x: np.ndarray) -> np.ndarray:
        if self.scale is None:
            return x - self.apply(P @ x)
        # S (L L')^-1 S^-1: x - R P x would lose all digits of a row whose precision is huge          (L17)
        return self.scale * solve_factored(self.L, x / self.scale)

    def matrix(self) -> np.ndarray:
        return self.root.T @ self.root

    def explained(self, cross: np.ndarray) -> np.ndarray:
        v = times_lower_transposed(cross, self.root)
        return np.einsum("nk,nk->n", v, v)

    def explained_jointly(self, cross: np.ndarray) -> np.ndarray:
        v = times_lower_transposed(cross, self.root)
        return v @ v.T

    def posterior_variance(self, P: np.ndarray) -> np.ndarray:
        """diag(P - P R P), as (1 - diag (L L')^-1) / W where the data say more than the prior: it cancels there."""
        assert self.scale is not None
        W, prior = self.scale**2, P.diagonal()
        variance = (1.0 - np.einsum("kn,kn->n", self.root, self.root) / W) / W
        weak = W * prior < 1.0
        if weak.any():
            variance[weak] = np.maximum(prior[weak] - self.explained(P[weak]), 0.0)
        return variance


@dataclass(frozen=True)
class SignedPrecision:
    """R = W - W A (I + A' W A)^-1 A' W with P = A A', for precisions of any sign at a maximum of the posterior."""

    R: np.ndarray
    log_det: float

    @staticmethod
    def of(P: np.ndarray, W: np.ndarray) -> SignedPrecision:
        A = _root(P)
        WA = W[:, None] * A
        LB = cholesky(_identity_plus(A.T @ WA))
        half = times_lower_transposed(WA, invert_lower(LB))  # W A LB^-T
        R = -(half @ half.T)
        R.flat[:: len(R) + 1] += W
        return SignedPrecision(R, log_det(LB))

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self.R @ x

    def left_over(self, P: np.ndarray, x: np.ndarray) -> np.ndarray:
        return x - self.R @ (P @ x)

    def matrix(self) -> np.ndarray:
        return self.R.copy()

    def explained(self, cross: np.ndarray) -> np.ndarray:
        return np.einsum("nk,nk->n", cross @ self.R, cross)

    def explained_jointly(self, cross: np.ndarray) -> np.ndarray:
        return cross @ self.R @ cross.T


def posterior_root(P: np.ndarray, W: np.ndarray) -> np.ndarray:
    """H with H H' = (P^-1 + W)^-1, the posterior covariance, for precisions of any sign.

    P - P R P is the same, but R of `SignedPrecision` is a difference of terms as large as W: where W P is 1e4,
    variances by way of it are wrong by 1e-6 and means by 1e-4 standard deviations.
    """
    A = _root(P)
    return times_lower_transposed(A, invert_lower(cholesky(_identity_plus(A.T @ (W[:, None] * A)))))


def rising_direction(P: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A direction in which the log posterior bends upwards most, as a = P^-1 f and as f; f' P^-1 f is 1."""
    A = _root(P)
    u = eigh(_identity_plus(A.T @ (W[:, None] * A)), subset_by_index=[0, 0])[1][:, 0]
    return solve_triangular(A, u, lower=True, trans=1), A @ u


def _root(P: np.ndarray) -> np.ndarray:
    return cholesky(P + FIRST_JITTER * float(P.diagonal().mean()) * np.eye(len(P)))


def _identity_plus(B: np.ndarray) -> np.ndarray:
    B.flat[:: len(B) + 1] += 1.0
    return B


@dataclass(frozen=True)
class FullState:
    """What prediction needs: the rows, a = P^-1 (f - m) of the posterior's centre, and R.

    `sites` [N, 3] are a, W and b where the inference searched for sites.
    """

    model: Model
    rows: Rows
    a: np.ndarray
    precision: Precision
    sites: np.ndarray | None = None

    @property
    def last(self) -> np.ndarray:
        """What another inference of the same rows can start from."""
        return self.a if self.sites is None else self.sites
