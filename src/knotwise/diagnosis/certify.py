"""How far a fit can be from the exact GP: certified bounds of its log evidence and of the posterior, in words."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from textwrap import TextWrapper
from typing import Any

import numpy as np
from scipy.optimize import brentq

from knotwise.docstrings import EXAMPLES, filled
from knotwise.errors import InvalidInputError, KnotwiseError, NotPositiveDefiniteError
from knotwise.evidence import Jitter, Model, full_evidence
from knotwise.evidence.certificate import MAX_PRODUCT_ROWS, evidence_bounds, posterior_bound, variational_model
from knotwise.evidence.inference import inference_of
from knotwise.noise import NOISE_FLOOR
from knotwise.selection.places import Pivots
from knotwise.selection.problem import Problem

MAX_PIVOT_ROWS = 20_000  # among which further knots for the bounds are looked for
USEFUL_KL = 2.0  # nats beyond which a bound of the divergence says next to nothing about means and variances


@filled(EXAMPLES)
@dataclass(frozen=True)
class Certificate:
    """What is certain of a fit's distance from the exact GP with the same parameters; shown when printed.

    Values are natural logarithms, in the units of y as `log_evidence_`. What cannot be certified is None, and `words`
    say why.

    Attributes
    ----------
    model : str
        What was fitted.
    fitted : float
        The fit's own `log_evidence_`. Only under VFE it is a bound.
    lower : float or None
        The exact GP's log evidence is at least this.
    upper : float or None
        The exact GP's log evidence is at most this.
    variational_upper : float or None
        Variational inference without knots, with the best Gaussian posterior of the exact GP, reaches at most this.
    posterior_lower : float or None
        The bound of the log evidence that the fit's own posterior has.
    n_knots : int
        Largest number of knots through which the bounds were computed: those of the fit, and more for the bounds alone.
    words : tuple of str
        What is certified, and what is not.

    Examples
    --------
    {curve}
    >>> certificate = gp.certify()
    >>> certificate.lower <= certificate.upper, certificate.gap < 0.1
    (True, True)
    """

    model: str
    fitted: float
    lower: float | None
    upper: float | None
    variational_upper: float | None
    posterior_lower: float | None
    n_knots: int
    words: tuple[str, ...] = field(default=(), repr=False)

    @property
    def gap(self) -> float | None:
        """Distance of the two bounds in nats.

        The upper one is of the evidence or, without one, of full variational inference.
        """
        top = self._top
        return None if top is None or self.lower is None else max(top - self.lower, 0.0)

    @property
    def kl_bound(self) -> float | None:
        """Largest divergence of the fit's posterior from that of the exact GP, in nats (C3).

        Where only `variational_upper` is known, from the posterior of full variational inference (C5).
        """
        top = self._top
        return None if top is None or self.posterior_lower is None else max(top - self.posterior_lower, 0.0)

    @property
    def mean_bound(self) -> float | None:
        """At every x the latent mean is off by at most so many posterior standard deviations of the exact GP."""
        return None if self.kl_bound is None else float(np.sqrt(2.0 * self.kl_bound))

    @property
    def mean_bound_fitted(self) -> float | None:
        """The same in standard deviations of the fit, those of `predict_latent`."""
        if self.kl_bound is None:
            return None
        with np.errstate(over="ignore"):
            return float(np.sqrt(np.expm1(2.0 * self.kl_bound)))

    @property
    def variance_bounds(self) -> tuple[float, float] | None:
        """At every x the fit's latent variance over that of the exact GP is between these."""
        return None if self.kl_bound is None else variance_ratios(self.kl_bound)

    @property
    def _top(self) -> float | None:
        return self.variational_upper if self.upper is None else self.upper

    def __str__(self) -> str:
        wrapper = TextWrapper(110, initial_indent="  ", subsequent_indent="  ")
        lines = [self.model, *(f"  {name:<44}{_number(value)}" for name, value in self._table())]
        return "\n".join(lines + [line for words in self.words for line in wrapper.wrap(words)])

    def __repr__(self) -> str:
        return str(self)

    def _table(self) -> list[tuple[str, float | None]]:
        top = ("upper bound", self.upper)
        if self.upper is None and self.variational_upper is not None:
            top = ("upper bound of full variational inference", self.variational_upper)
        return [
            ("log evidence of the fit", self.fitted),
            ("lower bound of the exact GP's log evidence", self.lower),
            top,
        ]


def certify(estimator: Any, problem: Problem, more_knots: int | None = None) -> Certificate:
    """Bound what the knots of a fitted `GPRegressor` can cost; `problem` is that of the fit, ready to be computed.

    The exact GP has known noise as it was given, also where the fit through knots had to raise it: the bounds are those
    of the model that the user gave.
    """
    fit = estimator._fit
    if fit.noise is not None:
        raise InvalidInputError(
            "The noise of this fit varies with the inputs, and `log_evidence_` is a bound of function and noise: there "
            "is no exact value for a certificate to bound. Fit with `noise='constant'` to certify the knots."
        )
    shift = -fit.n_rows * float(np.log(fit.scaling.y_scale))
    if fit.n_neighbors:  # which have no part in the bounds
        problem = replace(problem, model=fit.model)
    if fit.noise_remark and not problem.full:
        problem = replace(problem, run=replace(problem.run, blocks=problem.run.blocks.as_given()))
    found = _exact(fit, problem) if problem.full else _through_knots(fit, problem, more_knots)
    inference = inference_of(fit.model).name
    lower, upper, variational, posterior = (None if v is None else float(v + shift) for v in found.values)
    model = f"{type(estimator).__name__}: {fit.posterior.size_in_words}, {round(fit.n_rows, 2):,} rows"
    words = (*_words(found, fit, inference), *_of_one(fit))
    fitted = float(estimator.log_evidence_)
    return Certificate(model, fitted, lower, upper, variational, posterior, found.n_knots, words)


def _of_one(fit: Any) -> list[str]:
    """That the bounds are of one of several models."""
    if not fit.members:
        return []
    return [
        f"All this is of the kernel that was chosen. Predictions are the average of {len(fit.members) + 1} models, of "
        "which the others are the exact GP, or have so many knots that they hardly differ from it."
    ]


@dataclass(frozen=True)
class Found:
    """Bounds in the engine's units; `rise` is how much the lower bound gained by more knots, if it `has_more`."""

    lower: float | None = None
    top: float | None = None
    posterior_lower: float | None = None
    n_knots: int = 0
    rise: float = 0.0
    quadratic: bool = False
    exact: bool = False
    why: str = ""
    converged: bool = True
    has_more: bool = False

    @property
    def values(self) -> tuple[float | None, ...]:
        """lower, upper, variational_upper, posterior_lower."""
        upper = self.top if self.quadratic else None
        return self.lower, upper, None if self.quadratic else self.top, self.posterior_lower


def _exact(fit: Any, problem: Problem) -> Found:
    """The exact GP: nothing is left open by knots."""
    likelihood = fit.model.likelihood
    if likelihood.conjugate:
        value = fit.final.value
        return Found(value, value, value, quadratic=True, exact=True)
    try:
        evidence = full_evidence(variational_model(fit.model), problem.rows, gradient=False)
    except KnotwiseError as error:
        return Found(exact=True, why=str(error))
    known = likelihood.jointly_concave and evidence.converged
    own = known and inference_of(fit.model).is_bound
    top, posterior = evidence.value if known else None, evidence.value if own else None
    return Found(evidence.value, top, posterior, 0, 0.0, likelihood.quadratic, True, evidence.why, evidence.converged)


def _through_knots(fit: Any, problem: Problem, more_knots: int | None) -> Found:
    """The best bounds through the fit's knots, and through these and rows that they explain least."""
    state, blocks, model = fit.posterior.state, problem.run.blocks, fit.model
    likelihood = model.likelihood
    more = _more_knots(fit, problem, len(state.Z) if more_knots is None else more_knots)
    try:
        # pairs of rows take most of the time, and the upper bound through more knots is the one that counts
        pairs = MAX_PRODUCT_ROWS if more is None else 0
        own = evidence_bounds(model, blocks, state.Z, jitter=state.jitter, start=state.gamma, max_product_rows=pairs)
    except KnotwiseError as error:
        return Found(why=str(error))
    found = [own]
    if more is not None:
        with suppress(KnotwiseError):  # the bounds through the fit's knots hold by themselves
            found.append(evidence_bounds(model, blocks, more[0], jitter=more[1], max_product_rows=MAX_PRODUCT_ROWS))
    lower, tops = max(each.lower for each in found), [each.upper for each in found if each.upper is not None]
    if not np.isfinite(lower):
        return Found(why=own.why)
    posterior = -np.inf if fit.n_neighbors else posterior_bound(state, blocks)  # of a posterior through knots alone
    if _is_bound(model) and not fit.noise_remark:  # whose value is that of the raised noise
        posterior = max(posterior, fit.final.value)  # with the posterior of a nugget, which the state does not hold
    return Found(
        lower,
        min(tops) if tops else None,
        posterior if np.isfinite(posterior) else None,
        len(state.Z) if more is None or len(found) == 1 else len(more[0]),
        lower - own.lower,
        likelihood.quadratic,
        why=next((each.why for each in found if each.why), ""),
        converged=all(each.converged for each in found),
        has_more=len(found) > 1,
    )


def _more_knots(fit: Any, problem: Problem, wanted: int) -> tuple[np.ndarray, Jitter] | None:
    """The knots of the fit and, besides, rows that they explain least, weighted by what their data say; with the jitter
    that they need, though the bounds are of the exact GP without any. None where no row would bring anything new, or
    knots nearly coincide.
    """
    state, kernel = fit.posterior.state, fit.model.kernel
    if not wanted:
        return None
    rows = problem.take(problem.sample(MAX_PIVOT_ROWS, np.random.default_rng(0)))
    scores = problem.row_scores(fit.selection.point, rows)
    precision = np.maximum(scores.W / (1.0 + scores.W * scores.nugget), 0.0)
    Z = state.Z[~problem.redundant(fit.selection.theta, state.Z)]
    try:
        chosen = Pivots(kernel, rows.X, rows.weigh(precision), Z).extend(wanted)
        Z = np.vstack([Z, rows.X[chosen]])
        return (Z, Jitter.choose(kernel, Z, state.jitter.points, None)) if len(chosen) else None
    except NotPositiveDefiniteError:
        return None


def _is_bound(model: Model, *, exact: bool = False) -> bool:
    """Whether the value of a fit is itself a bound of the exact GP's log evidence."""
    return inference_of(model).is_bound and (exact or (model.power == 0 and model.residual is None))


def _words(found: Found, fit: Any, inference: str) -> list[str]:
    model = fit.model
    if found.lower is None:
        return [
            f"Nothing can be certified: the variational bound at the fitted parameters cannot be found. {found.why}"
        ]
    words = [_of_evidence(found), *([_of_noise(fit)] if fit.noise_remark else [])]
    if fit.n_neighbors:
        words.append(
            "With neighbours the fit's own log evidence is no bound, and nothing is certain of its posterior. The "
            "bounds are those of the knots alone (VFE), which are few where neighbours are needed: `more_knots` "
            "brings the bounds together. Validation rows say what the posterior is worth."
        )
    elif not _is_bound(model, exact=found.exact):
        of = "VFE" if model.likelihood.conjugate else f"variational inference{'' if found.exact else ' under VFE'}"
        power = "" if found.exact or model.power == 0 else f" with power {model.power:g}"
        words.append(
            f"{inference}{power} gives a log evidence that is no bound: those above are of {of} at the fitted "
            "parameters."
        )
    known = found.posterior_lower is not None and found.top is not None and not found.exact
    words += [_of_posterior(found)] if known else []
    words.append(_open(found))
    if found.why and found.converged:
        words.append(f"A remark on the bounds: {found.why}.")
    elif found.why:
        words.append(f"The bounds hold, but could be tighter: {found.why}.")
    return words


def _of_noise(fit: Any) -> str:
    """What is certified where known noise was too small to be used as it is."""
    if fit.posterior.is_exact:
        return f"The exact GP is the one that was fitted. {fit.noise_remark}"
    return (
        f"The bounds are those of the known noise as it was given (0 counts as {NOISE_FLOOR:.0e} times the variance of "
        "y). The fit through knots had to raise it, so that its own log evidence is that of other noise and no bound."
    )


def _of_evidence(found: Found) -> str:
    if found.exact:
        if found.quadratic and found.top is not None:
            return "Certified: this is the exact GP, so both bounds are its log evidence."
        return (
            "Certified: the lower bound. This is the exact GP, so no knots cost anything; its log evidence is above "
            "the bound of the best Gaussian posterior by an amount that is not known."
        )
    assert found.lower is not None
    if found.top is None:
        more = (
            f"Through {found.n_knots} knots, those of the fit among them, it is {found.rise:.3g} nats above that of "
            "the fit's knots alone; a small rise suggests that still more knots would bring little."
            if found.has_more
            else "It is that of the fit's own knots: no further ones were found that would bring anything."
        )
        return (
            f"Certified: the lower bound. {more} No useful upper bound is known for these data, so what knots "
            "cost at most is not certified."
        )
    gap = f"{max(found.top - found.lower, 0.0):.3g} nats"
    if found.quadratic:
        return (
            f"Certified: the log evidence of the exact GP at the fitted parameters is between the bounds, which are "
            f"{gap} apart (computed through up to {found.n_knots} knots)."
        )
    return (
        f"Certified: the lower bound; and that variational inference without knots could reach at most {gap} more than "
        f"it (computed through up to {found.n_knots} knots)."
    )


def _of_posterior(found: Found) -> str:
    assert found.top is not None and found.posterior_lower is not None
    kl = max(found.top - found.posterior_lower, 0.0)
    other = "the exact posterior" if found.quadratic else "the best Gaussian posterior of the exact GP"
    if kl > USEFUL_KL:
        return (
            f"The fit's posterior is within {kl:.3g} nats (Kullback-Leibler) of {other}: too wide a bound to say "
            "much of means and variances. Fit with more knots to be sure of them."
        )
    low, high = variance_ratios(kl)
    return (
        f"The fit's posterior is within {kl:.3g} nats (Kullback-Leibler) of {other}: at every x the latent mean is off "
        f"by at most {np.sqrt(2 * kl):.2g} standard deviations of that posterior, and the variance is {low:.2g} to "
        f"{high:.2g} times its variance."
    )


def _open(found: Found) -> str:
    gaussian = "" if found.quadratic else " how far the true posterior is from a Gaussian one;"
    return f"Not certified:{gaussian} whether kernel, likelihood and the fitted parameters are right."


def variance_ratios(kl: float) -> tuple[float, float]:
    """The smallest and the largest x with x - 1 - log x <= 2 kl (C3)."""
    if not kl > 0:
        return 1.0, 1.0

    def excess(t: float) -> float:
        return float(np.expm1(t)) - t - 2.0 * kl

    highest = float(np.log1p(4.0 * kl + 2.0 * np.sqrt(2.0 * kl)))
    return float(np.exp(brentq(excess, -1.0 - 2.0 * kl, 0.0))), float(np.exp(brentq(excess, 0.0, highest)))


def _number(value: float | None) -> str:
    return f"{'unknown':>14}" if value is None else f"{value:14.4f}"
