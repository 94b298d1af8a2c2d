"""A fitted model in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.estimators.prior_options import describe_priors
from knotwise.evidence.inference import inference_of

__all__ = ["Summary", "summarize"]


class Summary(str):
    """Text that shows itself as it is, also at a prompt."""

    def __repr__(self) -> str:
        return str(self)


def _chosen(model: Any) -> str:
    tried = sum(str(step.action) == "kernel" for step in model.trace_) - 1
    return f", the best of {tried} that were tried" if model.kernel is None and tried > 0 else ""


def summarize(model: Any) -> Summary:
    """Describe a fitted estimator: size, evidence, parameters, length-scales in the units of the inputs."""
    knots = f"{model.n_knots_} knots" if model.n_knots_ else "exact GP"
    lines = [
        f"{type(model).__name__}: {knots}, {inference_of(model._fit.model).value_name} {model.log_evidence_:.3f}",
        f"{model.status_}: {model._outcome.reason}",
        f"kernel {model.kernel_!r}{_chosen(model)}",
    ]
    if model.status_ == "limit reached":
        lines.append("more knots would raise the log evidence: it is not for comparing kernels")
    if model.jitter_:
        lines.append(f"jitter {model.jitter_:.0e} of the prior variance")
    lines += ["", str(model.parameters_)]
    priors = describe_priors(model.parameters_)
    if priors:
        lines += ["", f"priors in the units of the data, log density {model.log_prior_:.3f}"]
        lines += [f"  {line}" for line in priors]
    coefficients = model.coefficients_
    if np.isfinite(coefficients.standard_error).all():
        lines += ["", repr(coefficients)]
    if len(model.trace_):
        lines += ["", str(model.trace_)]
    table = model.parameters_
    own_units = [line for line in table.data_values() if table.parameters[line.entry].x_power]
    if own_units:
        width = max(len(table.names[line.entry]) for line in own_units)
        column_width = max(len(line.column) for line in own_units)
        lines += ["", "in the units of the inputs"]
        lines += [
            f"  {table.names[line.entry]:<{width}}  {line.column:<{column_width}}  {line.value:.4g}"
            for line in own_units
        ]
    return Summary("\n".join(lines))
