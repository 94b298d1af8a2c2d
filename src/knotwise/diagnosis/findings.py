"""What a diagnosis says: each finding in words, with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.decisions.auto import Auto
from knotwise.decisions.thresholds import AUTO
from knotwise.diagnosis.autocorrelation import AutocorrelationTest, ExactTrial
from knotwise.evidence import Evidence
from knotwise.evidence.scores import WIDE, RowScores, largest_widening
from knotwise.numerics.linalg import LARGEST_JITTER
from knotwise.numerics.parameters import ParameterTable
from knotwise.optimize.base import OptimizeResult
from knotwise.posterior.residuals import LeaveOneOut
from knotwise.selection.trace import Status

LARGE_SHARE, LARGE_RESIDUAL = 0.25, 0.005  # of all rows: unexplained share, and nats per row
LARGE_JITTER, LARGE_CONDITION = 1e-6, 1e13
FEW_COLUMNS = 4  # whose values are shown with a row
ALARM, VISIBLE = 0.01, 0.05  # p-value and excess correlation of neighbouring residuals
WRONG_SIZE, SURPRISING = 1.15, 4.0  # of errors over their standard deviations, and in standard errors of that
USELESS = 0.005  # share of the variance of y that neighbours explain
NO_DATA = "not checked, because the model comes from a file without its data"
NO_PLACES = "with neighbours no place is short of knots: near rows explain residuals"


@dataclass(frozen=True)
class Finding:
    """One question about a fit and its answer.

    Attributes
    ----------
    name : str
        What it is about: "convergence", "bounds", "numerics", "knots", "places", "neighbours" or "spread".
    level : "ok", "note", "problem" or "unknown"
        Whether something should be done.
    text : str
        What was found, with numbers.
    advice : str
        What to do, or "".

    Examples
    --------
    >>> from knotwise.diagnosis.findings import Finding
    >>> Finding("bounds", "ok", "no parameter is at its bound").advice
    ''
    """

    name: str
    level: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Place:
    """A row around which much is unexplained: one of those in `inflated` of a `Diagnosis`.

    Attributes
    ----------
    row : int or None
        Its number in the data of the fit, from 0; None for a row of a sample.
    inputs : dict
        Its inputs by the name of their column, in the units of the data.
    share : float
        Unexplained share of its posterior variance, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 20, 100)[:, None]
    >>> gp = GPRegressor(knots=np.array([[2.0], [4.0]]), optimizer=None).fit(X, np.sin(X[:, 0]))
    >>> place = gp.diagnose().inflated[0]
    >>> list(place.inputs), place.inputs["column 0"] > 4, place.share > 0.45
    (['column 0'], True, True)
    """

    row: int | None
    inputs: dict[str, Any]
    share: float


def convergence(estimator: Any, result: OptimizeResult, final: Evidence) -> Finding:
    """Whether the optimiser and the inference at its end converged."""
    norm = "" if np.isnan(result.gradient_norm) else f"; gradient norm {result.gradient_norm:.1e}"
    if norm and estimator._fit.n_neighbors:
        norm += " (validation rows said when the hyperparameters had converged)"
    elif norm and estimator.n_knots_ and is_auto(estimator):
        # parameters of the few knots would be worse than those of the many
        norm += " with the knots kept (the hyperparameters converged with more knots)"
    skipped = f"; {estimator.n_failed_restarts_} restarts failed" if estimator.n_failed_restarts_ else ""
    outcome = estimator._outcome
    if outcome.warning:
        return Finding("convergence", "problem", f"{outcome.status}: {outcome.reason}{skipped}", outcome.advice)
    if final.why:
        return Finding("convergence", "note", f"{result.reason}{norm}{skipped}; {final.why}")
    return Finding("convergence", "ok", f"{result.reason}{norm}{skipped}")


def bounds(table: ParameterTable, at_bound: Sequence[str]) -> Finding:
    """Which parameters ended at a bound, and what that means."""
    if not at_bound:
        return Finding("bounds", "ok", "no parameter is at a bound")
    texts, advice = [], []
    for name in at_bound:
        i = table.names.index(name)
        end = "lower" if table.theta[i] <= table.theta_bounds[i, 0] + 1e-6 else "upper"
        texts.append(f"{name} is at its {end} bound, {(table.lower if end == 'lower' else table.upper)[i]:.3g}")
        p = table.parameters[i]
        little = end == ("lower" if p.direction == 1 else "upper")
        advice.append(_BOUND_ADVICE.get((p.role, "lower" if little else "upper"), ""))
    said = list(dict.fromkeys(filter(None, advice)))
    said.append("If the bound is wrong, give another: `bounds={name: (low, high)}`; if the value is known, hold it.")
    return Finding("bounds", "note", "; ".join(texts), " ".join(said))


#: by the role of a parameter, and whether there is very little or very much of it
_BOUND_ADVICE = {
    ("lengthscale", "upper"): "An endless length-scale means that the data do not vary along the column, or only "
    "linearly: drop it, or add `Linear()`.",
    ("lengthscale", "lower"): "A vanishing length-scale means that neighbours have nothing in common: there is no "
    "signal, or the rows are too far apart for one.",
    ("amplitude", "lower"): "A vanishing variance means that the inputs say nothing about the target.",
    ("amplitude", "upper"): "An endless variance means that the function leaves the scale of the data: look for a "
    "trend (`mean='linear'`), separable classes or outliers.",
    ("noise", "lower"): "Vanishing noise means that the data are a smooth function up to rounding, or counts that vary "
    "no more than Poisson counts do; if they are measurements, look for duplicated rows.",
    ("nugget", "lower"): "A vanishing nugget is not needed: `nugget=0.0`.",
    ("mean", "lower"): "The mean is far below the data: hold it (`mean=...`), or look for outliers.",
    ("mean", "upper"): "The mean is far above the data: hold it (`mean=...`), or look for outliers.",
}


def numerics(jitter: float, condition: float | None) -> Finding:
    """Whether Kuu could be factorised without changing the model."""
    if condition is None:
        return Finding("numerics", "ok", "the covariance of the rows was factorised without jitter")
    text = f"jitter {jitter:.0e} of the prior variance, condition of Kuu {condition:.1e}"
    if jitter >= LARGE_JITTER or condition > LARGE_CONDITION:
        return Finding(
            "numerics",
            "problem" if jitter >= LARGEST_JITTER else "note",
            text,
            "Some knots nearly coincide on the scale of the kernel: use fewer, let `knots='auto'` choose, or take a "
            "rougher kernel such as `Matern52()`. Jitter of this size changes the evidence.",
        )
    return Finding("numerics", "ok", text)


def known_noise(estimator: Any) -> tuple[Finding, ...]:
    """That known noise was raised to a floor, where it was."""
    remark = estimator._fit.noise_remark
    return (Finding("known noise", "note", remark),) if remark else ()


def knots(estimator: Any, scores: RowScores | None) -> Finding:
    """The unexplained share of the variance; with neighbours, what both explain."""
    if estimator._fit.n_neighbors:
        return _explained(estimator)
    if scores is None:
        return _not_known(estimator, "knots")
    text = (
        f"unexplained by the knots is {scores.share:.1%} of the posterior variance of f, and "
        f"{scores.observation_share:.2g} of the variance of an observation; the data could say "
        f"{scores.residual_information:.2g} nats per row about it"
    )
    if scores.share > LARGE_SHARE and scores.residual_information > LARGE_RESIDUAL:
        return Finding("knots", "problem", text, _more_knots(estimator))
    if estimator.status_ is Status.LIMIT_REACHED:
        return Finding("knots", "problem", f"{text}; yet more knots are needed than were allowed")
    if scores.share > WIDE:  # many rows know f so well that what is left is nothing beside the noise
        text += "; standard deviations of f are too wide then, and those of observations are right"
    return Finding("knots", "ok", text)


def places(estimator: Any, n_inflated: int | float | None, worst: Sequence[Place]) -> Finding:
    """Where most is unexplained."""
    if estimator._fit.n_neighbors:
        return Finding("places", "ok", NO_PLACES)
    if n_inflated is None:
        return _not_known(estimator, "places")
    if not n_inflated:
        return Finding("places", "ok", "uncertainty is inflated nowhere")
    where = "; ".join(map(_describe, worst))
    n_rows = estimator._fit.n_rows
    return Finding(
        "places",
        "problem" if n_inflated > 0.1 * n_rows else "note",
        f"at {round(n_inflated, 2)} of {round(n_rows, 2)} rows the data could say more than the knots let them: over "
        f"{WIDE:.0%} of the latent variance is there only for want of knots, so that standard deviations may be over "
        f"{largest_widening(WIDE):.0%} too wide, around {where}",
        f"Knots are missing there. {_more_knots(estimator)}",
    )


def _describe(place: Place) -> str:
    """A place in words; the inputs of many columns would bury the rest, and the row number is enough to find them."""
    shown = {n: f"{value:.4g}" if isinstance(value, float) else value for n, value in place.inputs.items()}
    inputs = "".join(f"{name} = {value}, " for name, value in shown.items())
    which = "a row" if place.row is None else f"row {place.row}"
    return f"{which} ({inputs if len(place.inputs) <= FEW_COLUMNS else ''}{place.share:.0%})"


def _explained(estimator: Any) -> Finding:
    shares = estimator._fit.shares
    if shares is None:
        return Finding("knots", "ok", "residuals are predicted from Vecchia neighbours")
    text = (
        f"of the variance of y the knots explain {shares.knots:.1%} and the neighbours {shares.neighbours:.1%}, in "
        f"rows predicted without themselves; {shares.noise:.1%} is noise"
    )
    if shares.neighbours < USELESS:
        advice = "The neighbours add little: `n_neighbors=0` may do as well."
        return Finding("knots", "note", text, advice)
    return Finding("knots", "ok", text)


def neighbours(
    estimator: Any,
    test: AutocorrelationTest | None,
    left_out: LeaveOneOut | None = None,
    trial: ExactTrial | None = None,
) -> Finding:
    """Whether residuals of neighbours agree more than the model says, and whether errors have the size that they
    should, where training rows can be predicted by the others. `trial` says whether the exact GP does better.
    """
    exact = estimator._fit.posterior.is_exact
    if test is None:
        if exact or estimator._fit.n_neighbors or estimator._fit.training is not None:
            return Finding("neighbours", "unknown", "too few different rows to compare neighbouring residuals")
        return _not_known(estimator, "neighbours")
    text = (
        f"residuals of neighbours have an excess correlation of {test.correlation:.3f} "
        f"(z = {test.z:.1f}, p = {test.p:.2g}, {test.n_pairs} pairs)"
    )
    if estimator._fit.n_neighbors:
        return _with_neighbours(estimator, test, left_out, text)
    if not agree(test):
        return Finding("neighbours", "note" if test.p < ALARM else "ok", text)
    if trial is not None:
        text += (
            f"; on {trial.n_rows} rows it is {trial.through_knots:.3f} with these knots and {trial.exact:.3f} with the "
            "exact GP"
        )
    if trial is not None and trial.knots_are_the_cause:
        return Finding(
            "neighbours",
            "problem",
            f"too few knots: {text}",
            f"{_more_knots(estimator)} If that does not help, try a rougher kernel (`Matern32()`); if nothing does, "
            "the noise itself is dependent.",
        )
    return Finding(
        "neighbours",
        "problem",
        f"the kernel as fitted is too smooth, or does not see a column that matters: {text}",
        f"{_learn_more(estimator)}Try a rougher kernel (`Matern32()`), a length-scale for each column "
        "(`ard=True`), a kernel of all columns, or another start (values in the kernel, or `n_restarts=2`); if "
        "nothing helps, the noise itself is dependent.",
    )


def agree(test: AutocorrelationTest) -> bool:
    """Whether residuals of neighbours agree so much that something is missing in the model."""
    return test.p < ALARM and test.correlation > VISIBLE


def _with_neighbours(
    estimator: Any, test: AutocorrelationTest, left_out: LeaveOneOut | None, agreement: str
) -> Finding:
    text = agreement
    if left_out is not None:
        text = (
            f"{left_out.n_rows:,} rows predicted without themselves have errors of {left_out.size:.2f} standard "
            f"deviations, and {left_out.coverage:.1%} lie in their 95% intervals; {agreement}"
        )
    n = estimator._fit.n_neighbors
    if agree(test):
        return Finding(
            "neighbours",
            "problem",
            f"too smooth a kernel, or too few neighbours: {text}",
            f"{_learn_more(estimator)}Try more neighbours (`n_neighbors={2 * n}`) or a rougher kernel (`Matern32()`); "
            "if nothing helps, the noise itself is dependent.",
        )
    fine = Finding("neighbours", "note" if test.p < ALARM else "ok", text)
    if left_out is None:
        return fine
    surprise = SURPRISING / np.sqrt(2.0 * left_out.n_rows)  # standard error of a root mean square
    if left_out.size > max(WRONG_SIZE, 1.0 + surprise):
        return Finding(
            "neighbours",
            "problem",
            f"intervals are too narrow: {text}",
            f"{_learn_more(estimator)}Look for outliers, or for rows that were copied; else try another kernel.",
        )
    # sites of other data give way to a value that surprises, so that their errors may be smaller than 1
    quadratic = estimator._fit.model.likelihood.quadratic
    if quadratic and left_out.size < min(1.0 / WRONG_SIZE, 1.0 - surprise):
        return Finding(
            "neighbours", "note", f"intervals are too wide: {text}", f"{_learn_more(estimator)}Look for outliers."
        )
    return fine


def without_data(names: Sequence[str]) -> Finding:
    """What a model without its data could not check, and how to get it."""
    open_ = [_NEEDS_DATA[name] for name in names]
    what = " and ".join(filter(None, [", ".join(open_[:-1]), open_[-1]]))
    return Finding(
        names[0] if len(names) == 1 else "data",
        "unknown",
        f"{NO_DATA}: {what}",
        "Call `diagnose()` before `save`, or fit again.",
    )


_NEEDS_DATA = {
    "knots": "the unexplained share of the variance",
    "places": "where uncertainty is inflated",
    "neighbours": "whether residuals of neighbours agree",
    "spread": "whether errors are larger in some places",
}


def _not_known(estimator: Any, name: str) -> Finding:
    if estimator._fit.posterior.is_exact:
        return Finding(name, "ok", "the exact GP has no knots")
    return without_data([name])


def _more_knots(estimator: Any) -> str:
    exact = ", or the exact GP (`approximation='full'`)" if estimator._fit.n_rows <= AUTO.advised_exact_rows else ""
    if is_auto(estimator):
        target = getattr(estimator.knots, "target", None)
        for_f = estimator._fit.n_rows <= AUTO.selection_rows if target is None else target == "latent"
        option = "share=0.05" if for_f else "target='latent'"  # of observations 0.05 would be less than the default
        return f"Ask for more knots (`knots=Auto(max_knots=..., {option})`){exact}."
    return f"Use more knots, or let `knots='auto'` choose them{exact}."


def _learn_more(estimator: Any) -> str:
    """Advice where the kernel was held, and so could not be what the data ask for."""
    if estimator.optimizer is None:
        return "Let the parameters be learned: they were held by `optimizer=None`. "
    table = estimator.parameters_
    held = [table.names[i] for i in np.flatnonzero(table.fixed & table.with_role("lengthscale"))]
    return f"Let {', '.join(held)} be learned: `fixed` holds it. " if held else ""


def is_auto(estimator: Any) -> bool:
    return isinstance(estimator.knots, Auto) or (isinstance(estimator.knots, str) and estimator.knots == "auto")
