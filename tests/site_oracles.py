"""Definitions of the variational bound and of power EP's energy, in dense algebra with quadrature of their own.

They take sites (W, b) as they are given, and say what the objective is there and where the sites should be. So they
test values and fixed points without a search. Nothing here is fast: matrices have a row for each row of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from knotwise.evidence import InMemory, full_evidence, sparse_evidence
from test_expectations import fine_expectations
from test_laplace import Case, dense_parts


def slow_but_for(likelihoods, *quick):
    """Each likelihood in turn; all but some of them only where slow tests are run."""
    slow = {name: () if name in quick else pytest.mark.slow for name in likelihoods}
    cases = [pytest.param(likelihood, id=name, marks=slow[name]) for name, likelihood in likelihoods.items()]
    return pytest.mark.parametrize("likelihood", cases)


def with_inference(problem: Case, inference) -> Case:
    return replace(problem, model=replace(problem.model, inference=inference))


def found_through_knots(problem: Case, **options):
    """The evidence, and the sites W and b at which its search ended."""
    blocks = InMemory(problem.rows, block_size=options.pop("block_size", 13))
    evidence = sparse_evidence(problem.model, blocks, problem.Z, jitter=problem.jitter, **options)
    _, W, b = blocks.last().T
    return evidence, W, b


def found_in_full(problem: Case, **options):
    evidence = full_evidence(problem.model, problem.rows, **options)
    _, W, b = evidence.state.last.T
    return evidence, W, b


@dataclass(frozen=True)
class Prior:
    """f = m + v'eta + r + xi with eta ~ N(0, I); V'V [N, N] is what the knots explain, c what they leave."""

    problem: Case
    V: np.ndarray
    c: np.ndarray
    power: float

    @staticmethod
    def through_knots(problem: Case) -> Prior:
        explained, c = dense_parts(problem)
        return Prior(problem, symmetric_root(explained), c, problem.model.power)

    @staticmethod
    def in_full(problem: Case) -> Prior:
        rows = problem.rows
        K = problem.model.kernel(rows.X, rows.X) + rows.basis @ rows.basis.T
        return Prior(problem, symmetric_root(K), np.zeros(len(rows)), 1.0)

    @property
    def m(self):
        return self.problem.model.mean.offset

    @property
    def nugget(self):
        return self.problem.model.nugget.variance

    @property
    def sizes(self):
        return np.broadcast_to(self.problem.rows.sizes, len(self.c))

    def posterior(self, W, b):
        """Mean and precision of eta where the rows have these sites, and a row's own part is integrated out."""
        h = 1 / (1 + W * (self.power * self.c + self.nugget))
        B = np.eye(len(self.V)) + self.V @ np.diag(W * h) @ self.V.T
        return np.linalg.solve(B, self.V @ (h * b)), B


def symmetric_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T


# -- variational inference ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """One member of the family (V1): eta ~ N(mean, S), r at its prior, and xi ~ N(slope t + shift, spread) given
    t = v'eta + r.
    """

    mean: np.ndarray
    S: np.ndarray
    slope: np.ndarray
    shift: np.ndarray
    spread: np.ndarray

    @staticmethod
    def of_sites(prior: Prior, W, b) -> Member:
        """Each row's xi as its site makes it: N(xi; 0, lam) exp(b s - W s^2 / 2), s = t + xi."""
        lam = prior.power * prior.c + prior.nugget
        spread = lam / (1 + W * lam)
        mean, B = prior.posterior(W, b)
        return Member(mean, np.linalg.inv(B), -W * spread, b * spread, spread)

    def marginals(self, prior: Prior):
        """Mean and variance of each row's f."""
        t, t_variance = self._t(prior)
        return prior.m + (1 + self.slope) * t + self.shift, (1 + self.slope) ** 2 * t_variance + self.spread

    def _t(self, prior: Prior):
        explained = np.einsum("kn,kl,ln->n", prior.V, self.S, prior.V)
        return prior.V.T @ self.mean, explained + (1 - prior.power) * prior.c

    def bound(self, prior: Prior) -> float:
        """E log p(y | f) - KL(q || p), the definition."""
        rows, likelihood = prior.problem.rows, prior.problem.model.likelihood
        mu, tau = self.marginals(prior)
        expected = [fine_expectations(likelihood, *row)[0] for row in zip(rows.y, mu, tau, prior.sizes, strict=True)]
        t, t_variance = self._t(prior)
        lam = prior.power * prior.c + prior.nugget
        own = lam > 0  # the other rows have no part of their own
        ratio = self.spread[own] / lam[own]
        square = ((self.slope * t + self.shift) ** 2 + self.slope**2 * t_variance)[own] / lam[own]
        divergence = 0.5 * (ratio - 1 - np.log(ratio) + square).sum()
        divergence += 0.5 * (np.trace(self.S) + self.mean @ self.mean - len(self.mean) - np.linalg.slogdet(self.S)[1])
        return float(np.sum(expected) - divergence)


def variational_targets(prior: Prior, W, b):
    """Where (V4) wants the sites, W and b."""
    rows, likelihood = prior.problem.rows, prior.problem.model.likelihood
    mu, tau = Member.of_sites(prior, W, b).marginals(prior)
    found = [fine_expectations(likelihood, *row)[1:3] for row in zip(rows.y, mu, tau, prior.sizes, strict=True)]
    first, second = np.array(found).T
    return -second, -second * (mu - prior.m) + first


# -- power EP -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tilted:
    """For each row log Z, and the moments of z = v'eta in the posterior and under the tilted law."""

    log_Z: np.ndarray
    posterior: np.ndarray
    tilted: np.ndarray
    energy: float


def power_ep(prior: Prior, W, b) -> Tilted:
    """The energy of Bui, Yan & Turner (2017) by log-partition functions of Gaussians in eta, site by site."""
    problem, alpha = prior.problem, prior.power
    rows, likelihood = problem.rows, problem.model.likelihood
    h = 1 / (1 + W * (alpha * prior.c + prior.nugget))
    gamma, B = prior.posterior(W, b)
    linear = B @ gamma
    whole = log_partition(B, linear)
    energy, log_Zs, posterior, tilted = whole, [], [], []
    for i, v in enumerate(prior.V.T):
        cavity, cavity_linear = B - alpha * W[i] * h[i] * np.outer(v, v), linear - alpha * h[i] * b[i] * v
        S = np.linalg.inv(cavity)
        z, z_variance = v @ S @ cavity_linear, v @ S @ v
        variance = z_variance + prior.c[i] + prior.nugget
        log_Z, f, f_variance = tilted_moments(likelihood, rows.y[i], prior.m + z, variance, prior.sizes[i], alpha)
        energy += (log_Z + log_partition(cavity, cavity_linear) - whole) / alpha
        share = z_variance / variance  # of what is learned of f, what is learned of z
        log_Zs.append(log_Z)
        tilted.append((z + share * (f - prior.m - z), z_variance + share**2 * (f_variance - variance)))
        posterior.append((v @ gamma, v @ np.linalg.solve(B, v)))
    return Tilted(np.array(log_Zs), np.array(posterior), np.array(tilted), float(energy))


def log_partition(precision, linear):
    """log of the integral of exp(linear'x - x' precision x / 2), but for (2 pi)^(d / 2)."""
    return 0.5 * linear @ np.linalg.solve(precision, linear) - 0.5 * np.linalg.slogdet(precision)[1]


def tilted_moments(likelihood, y, mean, variance, size, power):
    """log Z, mean and variance of p(y | f)^power N(f; mean, variance), on a fine grid."""
    f = mean + np.sqrt(variance) * np.linspace(-12, 12, 6001)
    with np.errstate(over="ignore"):
        log = power * likelihood.log_density(y, f, size) - 0.5 * (f - mean) ** 2 / variance
    top = log.max()
    weights = np.exp(log - top)
    total = weights.sum()
    at = weights @ f / total
    log_Z = top + np.log(total * (f[1] - f[0]) / np.sqrt(2 * np.pi * variance))
    return log_Z, at, weights @ (f - at) ** 2 / total
