"""How a fit ended: the one story that attributes, summary, diagnosis and warning tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from knotwise.estimators.fitted import Fit
from knotwise.numerics.parameters import ParameterTable
from knotwise.optimize.options import advice_for_early_stop
from knotwise.selection.optimizing import describe_other_inference
from knotwise.selection.trace import Status

__all__ = ["Outcome", "describe_choice", "outcome_of"]


@dataclass(frozen=True)
class Outcome:
    """The status in a word, why in words, and what to do about it; `advice` is empty where there is nothing to do."""

    status: Status
    reason: str
    advice: str = ""

    @property
    def warning(self) -> str:
        """What a user must be told; empty where the fit is what it should be."""
        return "" if self.status.is_good else f"{self.reason[0].upper()}{self.reason[1:]}. {self.advice}".rstrip()


def outcome_of(fit: Fit, table: ParameterTable, optimizer: Any) -> Outcome:
    """How a fit ended; `table` has its parameters in the user's units."""
    selection, result, final = fit.selection, fit.selection.result, fit.final
    if not final.converged:
        why = f"predictions are not to be trusted: {final.why or 'inference did not arrive at the posterior'}"
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
