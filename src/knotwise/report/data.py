"""The rows that a page is drawn on, and whether the model has seen them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from knotwise.data.exposure import require
from knotwise.data.validation import series_name
from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import checked_rows
from knotwise.numerics.blocks import is_dask
from knotwise.plotting.view import View, checked_targets, noise_of, size_of

MOST_ROWS = 20_000  # of more, a page shows so many at random


@dataclass(frozen=True)
class Origin:
    """Where rows come from: a word, a sentence for the page, and whether the model was fitted to them.

    The last is None where it is not known, or holds for some of them.

    The word is "fit" (rows that the model holds), "given" (by the user) or "knots" (there are no rows).
    """

    word: str
    text: str
    fitted: bool | None


@dataclass(frozen=True)
class Data:
    """Rows [n, D] with their targets [n], or None; `sizes` are exposure, trials or known noise, by their names.

    `prediction` is a `Prediction` of the rows, or a `LabelPrediction`; None where there are no targets.
    """

    X: np.ndarray
    y: np.ndarray | None
    target: str
    origin: Origin
    sizes: dict[str, Any] = field(default_factory=dict)

    prediction: Any = None

    def __len__(self) -> int:
        return len(self.X)

    def predicted_by(self, view: View) -> Data:
        """The same with the prediction of rows that have targets, which serves the whole page."""
        return self if self.y is None else replace(self, prediction=view.prediction(self.X, **self.sizes))


def data_of(
    view: View, X: Any = None, y: Any = None, *, target: str | None = None, name: str = "", **sizes: Any
) -> Data:
    """The rows that are given, or those that the model holds, or where both are missing its knots, without targets.

    `sizes` are `exposure`, `trials` and `noise_variance` of the rows, or None.
    """
    if X is None:
        if y is not None or any(value is not None for value in sizes.values()):
            raise InvalidInputError(
                "`y`, `exposure`, `offset`, `trials` and `noise_variance` belong to rows: give X as well."
            )
        return _held(view, target or _fitted_name(view))
    if is_dask(X):
        raise InvalidInputError(
            "A page is drawn on rows in memory: give some of them, such as `X.partitions[0].compute()`."
        )
    rows = checked_rows(view.gp, X)
    targets = None if y is None else checked_targets(y, len(rows), numeric=view.classes is None)
    if targets is not None:
        sizes = require(view.model, "gp.report(path, X, y", **sizes)
    size_of(view, len(rows), sizes["exposure"], sizes["trials"])  # refuses what does not fit
    noise_of(view, len(rows), sizes["noise_variance"])
    target = target or series_name(y) or _fitted_name(view)
    known = {key: np.broadcast_to(value, len(rows)) for key, value in sizes.items() if value is not None}
    return _some(Data(rows, targets, target, _origin(view, rows, name), known))


def _fitted_name(view: View) -> str:
    return view.gp._target_name or "y"


def _some(data: Data) -> Data:
    """At most so many rows, drawn at random with a fixed seed."""
    if len(data) <= MOST_ROWS:
        return data
    chosen = np.sort(np.random.default_rng(0).choice(len(data), MOST_ROWS, replace=False))
    text = f"{data.origin.text} Shown are {MOST_ROWS:,} of {len(data):,} rows, drawn at random."
    origin = Origin(data.origin.word, text, data.origin.fitted)
    sizes = {name: values[chosen] for name, values in data.sizes.items()}
    return Data(data.X[chosen], None if data.y is None else data.y[chosen], data.target, origin, sizes)


def _held(view: View, target: str) -> Data:
    fit = view.model._fit
    rows = fit.rows_at_hand
    if rows is None:
        if fit.inputs_at_hand is not None:
            text = "The model file holds the inputs of the fit without their targets: predictions are not compared."
            return _some(Data(view.natural(view.model, fit.inputs_at_hand), None, target, Origin("fit", text, True)))
        text = "No rows are at hand: pictures cover the range of the knots, and predictions are not compared."
        centre = np.zeros((1, fit.selection.Z.shape[1]))
        knots = view.knots if len(view.knots) else view.natural(view.model, centre)
        return Data(knots, None, target, Origin("knots", text, None))
    copies = np.ones(len(rows), int) if rows.weights is None else np.maximum(rows.weights.round().astype(int), 1)
    which = np.repeat(np.arange(len(rows)), copies)
    X = view.natural(view.model, rows.X)[which]
    y: Any = fit.scaling.targets_back(rows.y)[which]
    if view.classes is not None:
        y = view.gp.classes_[y.astype(int)] if view.n_classes == 2 else None
    sizes: dict[str, Any] = {}
    if rows.size is not None:
        sizes[view.model.likelihood_.size_name] = rows.size[which]
    if rows.noise_variance is not None:
        sizes["noise_variance"] = (rows.as_given.noise_variance * fit.scaling.y_scale**2)[which]
    text = "The rows are those of the fit: on rows that a model has seen it looks better than it is."
    return _some(Data(X, y, target, Origin("fit", text, True), sizes))


def _origin(view: View, rows: np.ndarray, name: str) -> Origin:
    """Say whether rows that are given were part of the fit, as far as the model can tell."""
    the_rows = f"The rows of {name}" if name else "The rows"
    fit = view.model._fit
    seen = fit.inputs_at_hand
    if seen is None:
        text = (
            "The model does not hold the rows of its fit, so that this page cannot tell whether these are the same: "
            "on rows that a model has seen it looks better than it is."
        )
        return Origin("given", text, None)
    known = set(map(bytes, np.ascontiguousarray(seen + 0.0)))  # + 0.0: no -0
    share = np.mean(
        [row in known for row in map(bytes, np.ascontiguousarray(fit.scaling.inputs(view.rows(rows)) + 0.0))]
    )
    if share == 1:
        return Origin("given", f"{the_rows} are those of the fit, on which a model looks better than it is.", True)
    if share == 0:
        return Origin("given", f"{the_rows} were not part of the fit: the comparison is a fair one.", False)
    return Origin(
        "given", f"{100 * share:.0f} % of the rows were part of the fit, and look better than new ones would.", None
    )
