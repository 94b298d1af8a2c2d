"""A fitted model in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.evidence.inference import inference_of

__all__ = ["Summary", "summarize"]


class Summary(str):
    """Text that shows itself as it is, also at a prompt."""

    def __repr__(self) -> str:
        return str(self)


def summarize(model: Any, standard_errors: bool | None = None) -> Summary:
    """Describe a fitted estimator: size, evidence, and parameters with their errors in the units of the data."""
    knots = f"{model.n_knots_} knots" if model.n_knots_ else "exact GP"
    lines = [
        f"{type(model).__name__}: {knots}, {inference_of(model._fit.model).value_name} {model.log_evidence_:.3f}",
        f"{'converged' if model.converged_ else 'NOT converged'}: {model.stop_reason_}",
        f"kernel {model.kernel_!r}",
    ]
    if model.jitter_:
        lines.append(f"jitter {model.jitter_:.0e} of the prior variance")
    lines += ["", "parameters, in the units of the data", repr(model.parameters_.estimates(standard_errors))]
    coefficients = model.coefficients_
    if np.isfinite(coefficients.standard_error).all():
        lines += ["", repr(coefficients)]
    if len(model.trace_):
        lines += ["", str(model.trace_)]
    return Summary("\n".join(lines))
