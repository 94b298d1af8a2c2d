"""How well the data determine the parameters: the curvature of the objective where they were fitted.

Equations (H..) are those of docs/derivations/standard-errors.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from knotwise.errors import KnotwiseError
from knotwise.evidence import Point
from knotwise.evidence.inference import inference_of
from knotwise.numerics.parameters import ParameterTable
from knotwise.numerics.standard_errors import ParameterErrors, no_errors
from knotwise.selection.base import FittedAt, Selection
from knotwise.selection.optimizing import Objective
from knotwise.selection.problem import Problem

STEP = 3e-4  # of differences of gradients, whose own error is then about 1e-7, relative
SITE_TOLERANCE = 1e-16  # of searches for sites, whose gradients are right to its root
NEAR_BOUND = 1e-6  # as in `ParameterTable.at_bound`
LEAST_INFORMATION = 0.04  # of a direction that the data determine: a standard error of 5 on the log scale
ROUNDING = 1e-6  # of the largest information
LEAST_SHARE = 0.1  # of a parameter in a direction that the data do not determine
FAR = 1.0  # standard errors to the maximum from which on it is said
SEVERAL_PASSES = 4  # times as much takes an evaluation that searches for sites, from those of the last
BOUNDS_OF_IDENTITY = 20.0  # the width between the bounds of a parameter that may be negative, in units of it


def parameter_errors(problem: Problem, selection: Selection) -> ParameterErrors:
    """Standard errors of theta, in the engine's units, from the curvature of log evidence and log prior  (H1, H2).

    It is the objective that fitted the parameters, with the knots held that it had. Parameters at a bound are held,
    too, and those that the data do not determine. It takes two evaluations with gradient for each free parameter.
    """
    at = _fitted_at(problem, selection)
    problem = at.problem or problem
    table = problem.table.with_theta(at.point.theta)
    notes = _notes_of_held(problem, table)
    free = np.array([not note for note in notes], bool)
    if not free.any():
        return no_errors(len(table), "", notes)
    fitted = _sharpened(replace(problem, model=problem.model.with_power(at.power), full=at.full))
    unit = _units(table)[free]
    try:
        gradient, information = _derivatives(
            Objective(replace(fitted, table=replace(table, fixed=~free)), at.point, np.zeros(len(at.point.Z), bool)),
            unit,
        )
    except KnotwiseError as error:
        why = f"No standard errors: the evidence cannot be computed beside the fitted parameters. {error}"
        return no_errors(len(table), why, notes)
    names = np.array(table.names)[free]
    flat, upwards = _weak_parameters(information)
    if upwards.any():
        why = (
            f"No standard errors: the fit is at no maximum in {_listed(names[upwards])}. Fit again from another start, "
            "with `n_restarts`, or with another `optimizer`."
        )
        return no_errors(len(table), why, notes)
    for i in np.flatnonzero(free)[flat]:
        notes[i] = "not determined by the data"
    kept = ~flat
    covariance = np.full((len(table), len(table)), np.nan)
    inverse = np.linalg.inv(information[np.ix_(kept, kept)])  # (F1)
    entries = np.flatnonzero(free)[kept]
    covariance[np.ix_(entries, entries)] = inverse * np.outer(unit[kept], unit[kept])
    return ParameterErrors(covariance, tuple(notes), _remark(names[kept], gradient[kept], inverse))


def information_of_more_rows(some: Problem, point: Point, n_rows: float) -> np.ndarray:
    """The negative Hessian of the objective of so many rows in the free parameters, as far as some rows tell it.

    What the data say grows with the rows, and the log prior does not. Directions of which the data say nothing get a
    little, so that the matrix is positive definite.
    """
    free = some.free
    objective = Objective(_sharpened(some), point, np.zeros(len(point.Z), bool))
    _, information = _derivatives(objective, np.ones(int(free.sum())))
    up, down = (some.table.log_prior(point.theta + sign * STEP)[1] for sign in (1.0, -1.0))
    prior = np.diag((down - up)[free] / (2 * STEP))  # parameters are independent under it
    values, U = eigh(n_rows / some.summary.count * (information - prior) + prior)
    return (U * np.maximum(values, max(LEAST_INFORMATION, ROUNDING * float(np.abs(values).max())))) @ U.T


def n_products(problem: Problem, selection: Selection) -> float:
    """About how many products of numbers `parameter_errors` takes, in units of one pass over the rows: N K^2."""
    at = _fitted_at(problem, selection)
    problem = at.problem or problem
    width = problem.summary.n_rows if at.full else len(at.point.Z)
    passes = SEVERAL_PASSES if inference_of(problem.model.with_power(at.power)).several_passes else 1
    return 2.0 * int(problem.free.sum()) * passes * problem.summary.n_rows * width**2


def _fitted_at(problem: Problem, selection: Selection) -> FittedAt:
    """Where the parameters were fitted: where the selector says, or at its own end."""
    if selection.fitted is not None:
        return selection.fitted
    return FittedAt(selection.point, problem.model.power, problem.full)


def _notes_of_held(problem: Problem, table: ParameterTable) -> list[str]:
    """For each parameter why it was not fitted, or is held here; empty where it is free."""
    theta, (low, high) = table.theta, table.theta_bounds.T
    notes = []
    for i in range(len(table)):
        if table.fixed[i]:
            notes.append("fixed")
        elif problem.optimizer is None:
            notes.append("kept as given")
        elif theta[i] <= low[i] + NEAR_BOUND:
            notes.append("at its lower bound")
        else:
            notes.append("at its upper bound" if theta[i] >= high[i] - NEAR_BOUND else "")
    return notes


def _sharpened(problem: Problem) -> Problem:
    """The same problem, with sites found so exactly that differences of gradients have their digits."""
    inference = problem.inference.with_tolerance(SITE_TOLERANCE)
    return replace(problem, model=replace(problem.model, inference=inference))


def _units(table: ParameterTable) -> np.ndarray:
    """What is a change of 1 of each entry of theta, [P]: 1 for a logarithm, else a share of the way between bounds."""
    width = np.diff(table.theta_bounds, axis=1)[:, 0]
    of_identity = np.where(np.isfinite(width) & (width > 0), width / BOUNDS_OF_IDENTITY, 1.0)
    return np.where([p.positive for p in table.parameters], 1.0, of_identity)


def _derivatives(objective: Objective, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient [n] and negative Hessian [n, n] of the objective at its start, in units of the parameters  (F2)."""
    start, n = objective.vector, len(unit)
    gradient, hessian = np.zeros(n), np.empty((n, n))
    for i in range(n):
        step = np.zeros(n)
        step[i] = STEP * unit[i]
        up, down = (unit * objective(start + sign * step)[1] for sign in (1.0, -1.0))
        gradient += (up + down) / (2 * n)
        hessian[i] = (up - down) / (2 * STEP)
    if not np.isfinite(hessian).all():
        raise KnotwiseError("The gradient is not finite there.")
    return gradient, -(hessian + hessian.T) / 2


def _weak_parameters(information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks [n] of parameters that the data do not determine, and of those along which its curvature is positive.

    Both are those with a share in a direction of little or of negative information. What is left without the first has
    enough of it in every direction.
    """
    n = len(information)
    flat, upwards = np.zeros(n, bool), np.zeros(n, bool)
    while not flat.all():
        left = np.flatnonzero(~flat)
        values, U = eigh(information[np.ix_(left, left)])
        least = max(LEAST_INFORMATION, ROUNDING * float(np.abs(values).max()))
        if values[0] >= least:
            break
        shares = U[:, 0] ** 2
        weak = left[(shares > LEAST_SHARE) | (shares == shares.max())]
        if values[0] < -least:
            upwards[weak] = True
            break
        flat[weak] = True
    return flat, upwards


def _remark(names: np.ndarray, gradient: np.ndarray, covariance: np.ndarray) -> str:
    """Where the maximum is more than a standard error away, as Newton's step tells, the optimiser stopped early."""
    away = np.abs(covariance @ gradient) / np.sqrt(np.diagonal(covariance))
    if not len(away) or away.max() <= FAR:
        return ""
    most = int(away.argmax())
    return (
        f"The fit stopped before the maximum, which in {names[most]} is about {away[most]:.1f} standard errors away: "
        "intervals are too narrow."
    )


def _listed(names: np.ndarray) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
