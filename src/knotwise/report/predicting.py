"""How to predict with a model: code that fits it, with its own columns."""

from __future__ import annotations

from typing import Any

from knotwise.plotting.view import View

__all__ = ["command_lines", "python_lines"]

MOST_NAMES = 8


def python_lines(view: View, model_name: str) -> str:
    """Predictions of new rows in Python."""
    gp = view.gp
    named = hasattr(gp, "feature_names_in_")
    if named:
        names = [str(name) for name in gp.feature_names_in_]
        more = ", ..." if len(names) > MOST_NAMES else ""
        rows = f"new = pd.read_csv('new.csv')[[{', '.join(map(repr, names[:MOST_NAMES]))}{more}]]"
    else:
        rows = f"new = ...  # an array [n, {len(view.names)}], its columns as in the fit"
    load = f"gp = knotwise.load({model_name or 'model.knotwise'!r})"
    lines = ["import knotwise", *(["import pandas as pd"] if named else []), "", load, rows, *_calls(view)]
    return "\n".join(lines)


def _calls(view: View) -> list[str]:
    if view.classes is not None:
        return ["labels = gp.predict(new)", "probabilities = gp.predict_proba(new)  # one column for each class"]
    if view.model._fit.noise_given:
        return [
            "mean = gp.predict(new)",
            "low, high = gp.predict_interval(new, 0.95, kind='mean').T  # of the function",
            "low, high = gp.predict_interval(new, 0.95, noise_variance=noise_variance).T  # of new observations",
        ]
    size: Any = view.model.likelihood_.size_name if view.model._fit.size_given else None
    if size:
        unit = "per unit of exposure" if size == "exposure" else "per trial"
        return [
            f"rate = gp.predict(new, {size}=1)  # {unit}",
            f"low, high = gp.predict_interval(new, 0.95, {size}={size}).T  # of new counts",
        ]
    return ["mean, sd = gp.predict(new, return_std=True)", "low, high = gp.predict_interval(new, 0.95).T"]


def command_lines(view: View, model_name: str) -> str:
    """The same at the shell."""
    size: Any = None if view.classes is not None else view.model.likelihood_.size_name
    more = f" --{size} COLUMN" if size and view.model._fit.size_given else ""
    more = " --noise-variance COLUMN" if view.model._fit.noise_given else more
    inputs = "" if hasattr(view.gp, "feature_names_in_") else " --inputs A,B,..."
    return f"knotwise predict {_quoted(model_name or 'model.knotwise')} new.csv{more}{inputs} -o predictions.csv"


def _quoted(name: str) -> str:
    from shlex import quote

    return quote(name)
