"""The conformance check of posteriors: everything that the faces take for granted of one."""

from __future__ import annotations

import pickle

import numpy as np

from knotwise.evidence.model import Rows
from knotwise.evidence.scores import RowScores
from knotwise.numerics.blocks import Serial, executor_for
from knotwise.posterior.base import Latent, Posterior
from knotwise.testing.clauses import fail, same

N_NEW, N_SAMPLES = 12, 4000
FAR = 1e4  # times the spread of the inputs, where a stationary kernel has nothing in common with the data


def check_posterior(
    posterior: Posterior, rows: Rows, scores: RowScores | None = None, *, rtol: float = 1e-6, seed: int = 0
) -> None:
    """Assert that a posterior keeps the contract of `Posterior`; the error says which clause it breaks.

    Marginals are the diagonal of the covariance and do not depend on blocks, samples have the mean and the covariance,
    what knots and residuals say adds up, leaving rows out is a refit of the others, far from the data only the mean and
    the prior are left, and what it says of itself is said in words.

    Parameters
    ----------
    posterior : Posterior
        The posterior to test.
    rows : Rows
        The rows that it was fitted to, at least 8 of them.
    scores : RowScores, optional
        Their scores, which the residuals of a posterior without rows need; else these are not tested.
    rtol : float, default 1e-06
        Relative error allowed between leaving rows out and a refit, in posterior standard deviations.
    seed : int, default 0
        For new rows, samples and the order of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise.evidence import Model, Rows, full_evidence
    >>> from knotwise.kernels import Matern32
    >>> from knotwise.likelihoods import Gaussian
    >>> from knotwise.means import Zero
    >>> from knotwise.posterior.exact import ExactPosterior
    >>> from knotwise.testing import check_posterior
    >>> X = np.linspace(0, 1, 12)[:, None]
    >>> rows = Rows(X, np.sin(6 * X[:, 0]), None, np.empty((12, 0)))
    >>> model = Model(Matern32(1.0, 0.5), Gaussian(0.1), Zero())
    >>> check_posterior(ExactPosterior(full_evidence(model, rows).state), rows)
    """
    rng = np.random.default_rng(seed)
    pairs = rng.integers(len(rows), size=(N_NEW, 2))
    between = rng.uniform(-0.2, 1.2, (N_NEW, 1))
    X = rows.X[pairs[:, 0]] * between + rows.X[pairs[:, 1]] * (1 - between)  # among the rows, and a little beyond
    _check_marginals(posterior, X)
    _check_covariance(posterior, X)
    _check_samples(posterior, X, seed)
    _check_residual(posterior, X)
    _check_mean(posterior, rows)
    if posterior.rows is not None or scores is not None:
        _check_residuals(posterior, len(rows), scores, rng)
    _check_leaving_out(posterior, rows, rtol, seed)
    _check_words(posterior, rows)


def _check_marginals(posterior: Posterior, X: np.ndarray) -> None:
    latent = posterior.latent(X)
    for name, values in vars(latent).items():
        if np.shape(values) != (len(X),) or not np.isfinite(values).all():
            fail(posterior, f"`latent` of {len(X)} rows has a {name} of shape {np.shape(values)}, or one not finite")
    if not (latent.variance >= 0).all():
        fail(posterior, f"`latent` has the variance {latent.variance.min():.3g}, below 0")
    parts = [posterior.latent(part) for part in np.array_split(X, 4)]
    for name in vars(latent):
        together = np.concatenate([getattr(part, name) for part in parts])
        _near(posterior, f"the {name} of `latent` in blocks of rows", latent, together, getattr(latent, name))
    with executor_for(2) as executor:
        threaded = posterior.latent(X, executor)
    again = pickle.loads(pickle.dumps(posterior)).latent(X)
    for how, other in (("on two threads", threaded), ("after pickling", again)):
        same(posterior, f"the mean of `latent` {how}", other.mean, latent.mean, rtol=0)
        same(posterior, f"the variance of `latent` {how}", other.variance, latent.variance, rtol=0)
    if len(posterior.latent(X[:0]).mean):
        fail(posterior, "`latent` of no rows must be of no rows")


def _check_covariance(posterior: Posterior, X: np.ndarray) -> None:
    twice = np.vstack([X, X[:2]])
    cov, variance = posterior.covariance(twice), posterior.latent(twice).variance
    size = float(variance.max())
    same(posterior, "`covariance` is symmetric", cov, cov.T, atol=1e-10 * size)
    same(posterior, "the diagonal of `covariance` is the variance of `latent`", cov.diagonal(), variance, rtol=1e-9)
    same(posterior, "`covariance` of equal rows", cov[:2], cov[-2:], rtol=1e-7, atol=1e-7 * size)
    least = float(np.linalg.eigvalsh(cov)[0])
    if least < -1e-8 * len(cov) * size:
        fail(posterior, f"`covariance` must be positive semi-definite, but has the eigenvalue {least:.3g}")


def _check_samples(posterior: Posterior, X: np.ndarray, seed: int) -> None:
    f, again = (posterior.sample(X, N_SAMPLES, np.random.default_rng(seed)) for _ in range(2))
    same(posterior, "`sample` with the same generator", f, again, rtol=0)
    if f.shape != (N_SAMPLES, len(X)):
        fail(posterior, f"{N_SAMPLES} samples of {len(X)} rows have the shape {f.shape}")
    cov, latent = posterior.covariance(X), posterior.latent(X)
    off = np.abs(f.mean(0) - latent.mean) / (latent.std + 1e-12)
    if not (off < 6 / np.sqrt(N_SAMPLES)).all():
        fail(posterior, f"the mean of samples is off by {off.max():.3g} standard deviations of f")
    error = np.sqrt((np.outer(latent.variance, latent.variance) + cov**2) / N_SAMPLES)
    off = np.abs(np.cov(f.T) - cov) / (error + 1e-12 * latent.variance.max())
    if not (off < 6).all():
        fail(posterior, f"the covariance of samples is off by {off.max():.3g} standard errors")


def _check_residual(posterior: Posterior, X: np.ndarray) -> None:
    """Residuals, and what the knots say."""
    latent, left = posterior.latent(X), posterior.residual_variance(X)
    joint, size = posterior.residual_covariance(X), float(latent.variance.max())
    same(posterior, "the diagonal of `residual_covariance`", joint.diagonal(), left, rtol=1e-7, atol=1e-8 * size)
    if not ((left >= 0) & (left <= latent.variance * (1 + 1e-9) + 1e-9 * size)).all():
        fail(posterior, "`residual_variance` must be between 0 and the variance of f")
    if posterior.is_exact:
        same(posterior, "`residual_variance` of a posterior that is exact", left, np.zeros(len(X)))
        return
    view = posterior.through_knots(X)
    same(posterior, "`width` and the columns of `spread`", view.spread.shape, (len(X), posterior.width))
    _near(posterior, "the mean of `through_knots`", latent, view.mean, latent.mean)
    same(posterior, "the residual of `through_knots`", view.residual, left, rtol=1e-9, atol=1e-9 * size)
    total = view.spread @ view.spread.T + joint
    same(posterior, "spread and residual make up the covariance", total, posterior.covariance(X), atol=1e-8 * size)


def _check_mean(posterior: Posterior, rows: Rows) -> None:
    """Coefficients, and f where a stationary kernel has nothing in common with the data: (S16) and the prior."""
    model = posterior.state.model
    mean, cov = posterior.coefficients()
    p = model.mean.basis(rows.X[:1]).shape[1]
    if np.shape(mean) != (p,) or np.shape(cov) != (p, p):
        fail(posterior, f"`coefficients` of {p} columns have the shapes {np.shape(mean)} and {np.shape(cov)}")
    if p and model.likelihood.log_concave and not np.linalg.eigvalsh(np.eye(p) - cov)[0] > -1e-8:
        fail(posterior, "the data must not make coefficients less certain than their prior N(0, I)")
    far = rows.X.mean(0) + FAR * (np.ptp(rows.X, axis=0) + 1.0) * np.array([[1.0], [-1.0]])
    known = rows.X if posterior.is_exact else np.vstack([rows.X, posterior.state.Z])
    if not model.kernel.stationary or np.abs(model.kernel(far, known)).max() > 0:
        return
    basis, latent = model.mean.basis(far), posterior.latent(far)
    expected = Latent(
        model.mean.offset + basis @ mean, model.kernel.diag(far) + np.einsum("np,pq,nq->n", basis, cov, basis)
    )
    same(posterior, "the mean far from the data", latent.mean, expected.mean, rtol=1e-6, atol=1e-8)
    same(posterior, "the variance far from the data", latent.variance, expected.variance, rtol=1e-5)


def _check_residuals(posterior: Posterior, n: int, scores: RowScores | None, rng: np.random.Generator) -> None:
    chosen = np.sort(rng.choice(n, max(n // 2, 4), replace=False))
    found = posterior.residuals(chosen, scores)
    if found.a.shape != chosen.shape or not (np.isfinite(found.a).all() and (found.variance > 0).all()):
        fail(posterior, f"`residuals` of {len(chosen)} rows must be as many numbers, with variances above 0")
    draws = found.draw(rng, N_SAMPLES)
    off = np.abs((draws**2).mean(1) / found.variance - 1.0)
    if not (off < 6 * np.sqrt(2 / N_SAMPLES)).all():
        fail(posterior, f"draws of `residuals` have variances that are off by {off.max():.1%}")
    A = np.eye(len(chosen), k=1) + np.eye(len(chosen), k=-1)  # each with the next
    mean, variance = found.moments(lambda x: A @ x)
    sums = 0.5 * np.einsum("in,ij,jn->n", draws, A, draws)
    if not abs(sums.mean() - mean) < 6 * np.sqrt(variance / N_SAMPLES):
        fail(
            posterior,
            f"sums over pairs of `residuals` have the mean {sums.mean():.4g} in draws and {mean:.4g} in words",
        )


def _check_leaving_out(posterior: Posterior, rows: Rows, rtol: float, seed: int) -> None:
    """One row, some rows, and half of them: as a refit of the others, from one row to the next in any order."""
    numbers = np.random.default_rng(seed).permutation(len(rows))
    for group in (numbers[:1], np.sort(numbers[1:4]), np.sort(numbers[: len(rows) // 2])):
        rest = rows[np.setdiff1d(np.arange(len(rows)), group)]
        (found,) = posterior.leave_out(rows, [group], Serial(), np.random.default_rng(seed))
        expected = posterior.refit(rest, Serial(), np.random.default_rng(seed)).latent(rows.X[group])
        for name in ("mean", "variance"):
            claim = f"the {name} of `leave_out` of {len(group)} rows, and of a refit without them"
            _near(posterior, claim, expected, getattr(found, name), getattr(expected, name), rtol)
    one, other = (
        posterior.leave_out(rows, groups, Serial(), np.random.default_rng(seed))
        for groups in ([numbers[:2], numbers[2:5]], [numbers[:2]])
    )
    _near(posterior, "a group alone and among others", other[0], one[0].mean, other[0].mean, rtol)


def _check_words(posterior: Posterior, rows: Rows) -> None:
    for name in ("n_knots", "n_neighbors", "width"):
        value = getattr(posterior, name)
        if not isinstance(value, int) or value < 0:
            fail(posterior, f"`{name}` is {value!r}, and must be a number from 0 on")
    kind = posterior.approximation
    if not (kind if isinstance(kind, str) else 0 <= kind <= 1):
        fail(posterior, f"`approximation` is {kind!r}, and must be a word or a power from 0 to 1")
    said = posterior.rows_in_words(rows.X)
    if not posterior.size_in_words or not (said.startswith("holds ") and said.endswith(".")):
        fail(posterior, f"`size_in_words` {posterior.size_in_words!r} and `rows_in_words` {said!r} must say something")
    held = posterior.rows
    if held is not None:
        if f"{len(held):,}" not in said:
            fail(posterior, f"`rows_in_words` must say that it holds {len(held):,} rows, but says {said!r}")
        same(posterior, "the inputs of `rows`, sorted", np.sort(held.X, axis=0), np.sort(rows.X, axis=0), rtol=0)
    if not np.isfinite(posterior.start).all():
        fail(posterior, "`start` must be numbers")
    if posterior.condition is not None and not posterior.condition >= 1:
        fail(posterior, f"`condition` is {posterior.condition}, and must be None or at least 1")
    alone, shares = posterior.leave_one_out(), posterior.shares()
    if alone is not None and not (0 < alone.n_rows <= len(rows) and alone.size > 0 and 0 <= alone.coverage <= 1):
        fail(posterior, f"`leave_one_out` is {alone}")
    if shares is not None and not np.isfinite(list(vars(shares).values())).all():
        fail(posterior, f"`shares` are {shares}")


def _near(
    posterior: Posterior, claim: str, latent: Latent, actual: np.ndarray, expected: np.ndarray, rtol: float = 1e-9
) -> None:
    """Assert equality relative to the standard deviation or the variance of f."""
    same(posterior, claim, actual, expected, rtol=rtol, atol=rtol * float(np.sqrt(latent.variance.max())))
