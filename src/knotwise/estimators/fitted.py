"""What a fit leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from knotwise.data.scaling import Scaling
from knotwise.data.validation import check_jobs
from knotwise.decisions.thresholds import STANDARD_ERRORS
from knotwise.errors import KnotwiseError, NoTrainingDataError
from knotwise.estimators.noise import NoiseRecord
from knotwise.estimators.options import optimizer_from
from knotwise.estimators.tested import Tested
from knotwise.estimators.variogram import Variogram, variogram_of
from knotwise.evidence import Evidence, Model
from knotwise.evidence.full_sites import FullState
from knotwise.evidence.model import Rows
from knotwise.evidence.sparse import SparseState
from knotwise.numerics.blocks import executor_for, single_threaded_blas
from knotwise.numerics.parameters import ParameterTable
from knotwise.numerics.standard_errors import ParameterErrors, no_errors
from knotwise.optimize.base import OptimizeResult
from knotwise.posterior.base import Posterior, Shares
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState
from knotwise.selection.base import Selection
from knotwise.selection.curvature import n_products, parameter_errors
from knotwise.selection.optimizing import describe_other_inference
from knotwise.selection.problem import Problem
from knotwise.selection.trace import Action, Status


@dataclass(frozen=True)
class Member:
    """A model beside that of a fit, over which predictions are averaged: its posterior, parameters and log evidence, in
    the engine's units, and its probability.
    """

    posterior: Posterior
    table: ParameterTable
    theta: np.ndarray
    value: float
    weight: float


@dataclass(frozen=True)
class Fit:
    """The solution in the engine's units, and the way back to the user's.

    `table` has the parameters with which the fit began, and their bounds; `n_rows` the sum of sample weights.
    `training` is the problem with the data, which a model from a file does not have, nor a pickled one whose rows are
    elsewhere, and `row_numbers` the rows of the user's data that its rows are, None for all. `size_given` says whether
    the data came with an exposure or trials, `noise_given` whether each row came with its own known noise.
    `noise_remark` is what was said of known noise that was too small; empty where it was used as given. `errors` are
    the standard errors of the parameters in the user's units that a file holds. `tested` is what validation rows said
    of the kernel that was chosen, and how far from the data; `noise` what is kept of noise that varies. `members` are
    further models of the same rows: predictions are the average of all.
    """

    selection: Selection
    scaling: Scaling
    posterior: Posterior
    table: ParameterTable
    n_rows: int | float
    training: Problem | None = None
    row_numbers: np.ndarray | None = None
    size_given: bool = False
    noise_given: bool = False
    noise_remark: str = ""
    errors: ParameterErrors | None = None
    tested: Tested | None = None
    members: tuple[Member, ...] = ()
    noise: NoiseRecord | None = None

    def __getstate__(self) -> dict[str, Any]:
        here = self.training is None or self.training.run.blocks.at_hand
        return self.__dict__ | ({} if here else {"training": None})

    @property
    def final(self) -> Evidence:
        """The evidence at the end, without gradients."""
        return self.selection.evidence

    @property
    def noise_penalty(self) -> float:
        """What not knowing how the noise varies takes off the log evidence of f (H2); 0 for constant noise."""
        return 0.0 if self.noise is None else self.noise.penalty

    @property
    def model(self) -> Model:
        return self.posterior.state.model

    @property
    def n_neighbors(self) -> int:
        """How many Vecchia neighbours each row has."""
        return self.posterior.n_neighbors

    @cached_property
    def shares(self) -> Shares | None:
        """What knots, neighbours and noise explain of the variance of y; None without neighbours."""
        with single_threaded_blas(), np.errstate(all="ignore"), suppress(KnotwiseError):  # a file may have any numbers
            return self.posterior.shares()
        return None

    @property
    def rows_at_hand(self) -> Rows | None:
        """The training rows in the engine's units, where they are in this process: after a fit, or of the exact GP."""
        if self.training is not None and self.training.run.blocks.at_hand:
            return self.training.rows
        return self.posterior.rows if self.posterior.is_exact else None

    @property
    def inputs_at_hand(self) -> np.ndarray | None:
        """The inputs of the training rows alone, [N, D], which a model with neighbours holds too."""
        rows = self.posterior.rows if self.rows_at_hand is None else self.rows_at_hand
        return None if rows is None else rows.X

    @property
    def problem(self) -> Problem:
        if self.training is None:
            raise NoTrainingDataError(
                "This model comes from a file, which holds what predictions need and not the data of the fit, so the "
                "evidence cannot be evaluated. Fit again, or keep the whole estimator with pickle (of data in memory: "
                "what was fitted to a Dask collection is pickled without it)."
            )
        return self.training


@dataclass(frozen=True)
class Outcome:
    """The status in a word, why in words, and what to do about it; `advice` is empty where there is nothing to do."""

    status: Status
    reason: str
    advice: str = ""

    @property
    def warning(self) -> str:
        """What a user must know; empty where the fit is what it should be."""
        return "" if self.status.is_good else f"{self.reason[0].upper()}{self.reason[1:]}. {self.advice}".rstrip()


def outcome_of(fit: Fit, table: ParameterTable, optimizer: Any) -> Outcome:
    """How a fit ended; `table` has its parameters in the user's units."""
    selection, result, final = fit.selection, fit.selection.result, fit.final
    if not final.converged:
        why = f"predictions are not to be trusted: {final.why or 'inference did not converge'}"
        return Outcome(Status.NOT_CONVERGED, why, describe_other_inference(fit.model))
    if not result.converged:
        bound = table.at_bound()
        why = (
            f"the optimiser stopped before it converged ({result.reason}; gradient norm {result.gradient_norm:.1e}"
            f"{'; at a bound: ' + ', '.join(bound) if bound else ''})"
        )
        advice = f"The model can be used. {advice_for_early_stop(result, optimizer)}"
        return Outcome(Status.NOT_CONVERGED, why, advice)
    if selection.status is not None:
        return Outcome(selection.status, selection.reason, selection.advice)
    return Outcome(Status.AS_GIVEN if optimizer is None else Status.CONVERGED, selection.reason)


def describe_choice(model: Any) -> str:
    """Of how many kernels it is the best, and which of many columns it sees; empty for a kernel that was given."""
    tried = sum(str(step.action) == "kernel" for step in model.trace_) - 1
    if model.kernel is not None or tried <= 0:
        return ""
    said = f", the best of {tried} that were tried"
    if model.kernel_.restricted_to is None:
        return said
    names, numbers = model._column_names, model.kernel_.indices()
    columns = ", ".join(str(names[i]) if len(names) else str(i) for i in numbers)
    return f"{said}; it sees {len(numbers)} of {model.n_features_in_} columns ({columns}), the others say nothing more"


def describe_average(model: Any) -> str:
    """Over which kernels predictions are averaged, and why; empty where the fit predicts by itself."""
    if not model._fit.members:
        return ""
    return next((step.note for step in model.trace_ if step.action is Action.AVERAGE), "")


def describe_law(model: Any) -> str:
    """Which likelihood the data chose, and why; empty for one that was given."""
    return next((step.note for step in model.trace_ if step.action is Action.LIKELIHOOD), "")


def advice_for_early_stop(result: OptimizeResult, optimizer: Any) -> str:
    """What to do about an optimisation that did not converge: raise the limit that it reached, or start elsewhere."""
    if not result.reason.startswith("reached"):
        return "Try `n_restarts=2`, or start from other parameters."
    return (
        f"To go further, raise `{type(optimizer_from(optimizer)).__name__}(max_iterations=...)`, or try `n_restarts=2`."
    )


class FitErrors:
    """What `parameters_` of a fitted estimator asks for standard errors."""

    def __init__(self, fit: Fit, n_jobs: Any) -> None:
        self.fit, self.n_jobs = fit, n_jobs
        self.known = fit.errors

    def errors(self, compute: bool | None) -> ParameterErrors:
        if self.known is None and compute is not False:
            problem, n = self.fit.training, len(self.fit.table)
            if problem is None:
                why = "Standard errors need the data of the fit, which this file does not have."
                return no_errors(n, why)
            if compute is None and n_products(problem, self.fit.selection) > STANDARD_ERRORS.budget:
                why = (
                    "Standard errors take long for so many rows, knots and parameters, and are left out:\n"
                    "`parameters_.standard_errors(compute=True)` computes them, and then they are shown here."
                )
                return no_errors(n, why)
            self.known = self._computed()
        return no_errors(len(self.fit.table), "") if self.known is None else self.known

    def variogram(self, table: ParameterTable, compute: bool | None) -> Variogram:
        return variogram_of(self.fit.scaling.to_user(self.fit.model), table, self.errors(compute))

    def _computed(self) -> ParameterErrors:
        with executor_for(check_jobs(self.n_jobs)) as executor:
            found = parameter_errors(self.fit.problem.computed_by(executor), self.fit.selection)
        return self.fit.scaling.errors_to_user(self.fit.table, found)


POSTERIORS: dict[type, Callable[[Any], Posterior]] = {
    FullState: ExactPosterior,
    SparseState: KnotPosterior,
    VecchiaState: VecchiaPosterior,
}


def posterior_of(state: SparseState | FullState, rows: Rows | None = None) -> Posterior:
    """The posterior of a state; that of an evidence with Vecchia neighbours keeps its rows. A single row has none."""
    residual = state.model.residual
    if residual is not None and type(state) is SparseState:
        if residual.n_neighbors and rows is not None:
            state = VecchiaState.of(state, rows)
        else:
            state = replace(state, model=replace(state.model, residual=None))
    return POSTERIORS[type(state)](state)
