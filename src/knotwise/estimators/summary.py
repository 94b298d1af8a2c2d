"""A fitted model in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.estimators.prior_options import describe_priors
from knotwise.evidence.inference import inference_of
from knotwise.posterior_neighbours import Shares

__all__ = ["Summary", "summarize"]


class Summary(str):
    """Text that shows itself as it is, also at a prompt."""

    def __repr__(self) -> str:
        return str(self)


def _chosen(model: Any) -> str:
    tried = sum(str(step.action) == "kernel" for step in model.trace_) - 1
    return f", the best of {tried} that were tried" if model.kernel is None and tried > 0 else ""


def _explained(shares: Shares | None) -> list[str]:
    if shares is None:
        return []
    return [
        f"of the variance of y the knots explain {shares.knots:.0%} and the neighbours {shares.neighbours:.0%}, in "
        f"rows predicted without themselves; {shares.noise:.1%} is noise"
    ]


def summarize(model: Any, standard_errors: bool | None = None, variogram: bool = False) -> Summary:
    """Describe a fitted estimator: size, evidence, and parameters with their errors in the units of the data."""
    fit = model._fit
    lines = [
        f"{type(model).__name__}: {fit.size_in_words}, {inference_of(fit.model).value_name} {model.log_evidence_:.3f}",
        f"{model.status_}: {model._outcome.reason}",
        f"kernel {model.kernel_!r}{_chosen(model)}",
    ]
    if fit.n_neighbors:
        lines += [*_explained(fit.shares), "the log evidence is of these neighbours: it is not for comparing kernels"]
    elif model.status_ == "limit reached":
        lines.append("more knots would raise the log evidence: it is not for comparing kernels")
    if model.jitter_:
        lines.append(f"jitter {model.jitter_:.0e} of the prior variance")
    lines += ["", "parameters, in the units of the data", repr(model.parameters_.estimates(standard_errors))]
    if variogram:
        lines += ["", "semivariogram, in the units of the data", repr(model.parameters_.variogram(standard_errors))]
    priors = describe_priors(model.parameters_)
    if priors:
        lines += ["", f"priors in the units of the data, log density {model.log_prior_:.3f}"]
        lines += [f"  {line}" for line in priors]
    coefficients = model.coefficients_
    if np.isfinite(coefficients.standard_error).all():
        lines += ["", repr(coefficients)]
    if len(model.trace_):
        lines += ["", str(model.trace_)]
    return Summary("\n".join(lines))
