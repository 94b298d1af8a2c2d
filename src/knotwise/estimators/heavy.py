"""Noise with heavy tails, from an estimator's option to its fit: Student-t noise instead of the Gaussian one."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from knotwise.data.scaled import TrainingData
from knotwise.decisions import heavy_tails
from knotwise.errors import KnotwiseError
from knotwise.estimators.fitted import Fit
from knotwise.likelihoods import StudentT
from knotwise.selection.trace import Action


def or_with_heavy_tails(estimator: Any, data: TrainingData, **given: Any) -> Fit:
    """The fit of constant noise that an estimator has, or where that is to be taken, one with Student-t noise.

    That is the fit with `noise="heavy"` to the same data, whose remarks are made where it is taken. `given` are the
    other arguments of the fit.
    """
    other, fit = copy(estimator), estimator._fit
    other.noise = "heavy"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other._fit_latent(data, **given)
    except KnotwiseError:
        return fit
    decision = heavy_tails.decide(_fitted(fit), _fitted(other._fit))
    if not decision.why:
        return fit
    taken = other._fit if decision.choice else fit
    said = f"{in_words(other.likelihood_)}: {decision.why}" if decision.choice else decision.why
    final = taken.selection
    final.trace.add(Action.NOISE, len(final.Z), final.evidence.value, n_rows=taken.n_rows, note=said)
    final.trace.steps[-2:] = final.trace.steps[-2:][::-1]  # the last step is the result
    return taken


def in_words(likelihood: StudentT) -> str:
    """What heavy tails are like."""
    return f"the noise has heavy tails: Student-t with {likelihood.value('df'):.2g} degrees of freedom"


def describe_tails(model: Any) -> str:
    """The same of a fitted estimator for Gaussian data, with what it gains where the data have decided."""
    if getattr(model, "noise", "constant") not in ("auto", "heavy") or not model.likelihood_.scale_mixture:
        return ""
    if model.noise == "auto" and model.likelihood != "gaussian":
        return ""
    said = in_words(model.likelihood_)
    return next((step.note for step in model.trace_ if step.note.startswith(said)), said)


def _fitted(fit: Fit) -> heavy_tails.Fitted:
    problem = replace(fit.problem, run=replace(fit.problem.run, blocks=fit.problem.run.blocks.anew()))
    return heavy_tails.Fitted(problem, fit.selection, float(np.log(fit.scaling.y_scale)))
