"""A fitted estimator as the plots see it: columns with names, one latent model, predictions at plain arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.encoding.encoding import CodedRows
from knotwise.data.exposure import check_known_noise, check_size, exposure_of
from knotwise.data.exposure import require as require_known
from knotwise.data.validation import as_finite_numbers, refuse_masked_and_dates, series_name
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.estimators.tested import without_extrapolation_warning
from knotwise.numerics.columns import column_names
from knotwise.plotting.style import shorten
from knotwise.prediction import Prediction


@dataclass(frozen=True)
class View:
    """What a plot asks of a fitted estimator.

    `model` is the regressor with the latent function: the estimator itself, or one of a classifier's; `label` is the
    class whose probability it has.
    """

    gp: Any
    model: Any
    names: list[str]
    label: Any = None

    @property
    def knots(self) -> np.ndarray:
        """Knots in the units of X, [K, D], in the order in which they were added."""
        return self.knots_of(self.model)

    def knots_of(self, model: Any) -> np.ndarray:
        """Knots of one of the models as numbers; of levels their numbers, of dates days."""
        if self.encoding is None:
            return np.asarray(model.knots_).reshape(-1, len(self.names))
        return self.natural(model, model._fit.selection.Z)

    def natural(self, model: Any, Z: np.ndarray) -> np.ndarray:
        """Rows of a model's engine in natural units, one number for each column, which predictions and plots take."""
        back = model._fit.scaling.inputs_back(Z)
        return back if self.encoding is None else self.encoding.contract(back).view(CodedRows)

    @property
    def encoding(self) -> Any:
        """How columns became numbers; None where all are."""
        return self.gp._encoding

    def rows(self, points: np.ndarray) -> np.ndarray:
        """Rows for a prediction, of points with one number for each column."""
        return points if self.encoding is None else self.encoding.expand(points)

    @property
    def ordered(self) -> bool:
        """Whether the knots were added one after the other."""
        return any(step.facts.orders_knots for step in self.model.trace_)

    @property
    def classes(self) -> list[Any] | None:
        return self.gp.classes_.tolist() if hasattr(self.gp, "classes_") else None

    @property
    def n_classes(self) -> int:
        """The number of labels; 0 for a regressor."""
        return len(self.classes or [])

    @property
    def label_name(self) -> str:
        """The class that is looked at, short enough for an axis."""
        return class_name(self.label)

    def is_label(self, y: np.ndarray) -> np.ndarray:
        """Which rows have the class that is looked at."""
        return np.array([label == self.label for label in y.tolist()], bool)

    @property
    def of_labels(self) -> bool:
        """Whether an observation is a label, or 0 or 1: the response is then a probability."""
        likelihood = self.model.likelihood_
        return likelihood.size_name is None and likelihood.discrete and likelihood.support() == (0.0, 1.0)

    def ask(self, method: str, X: np.ndarray, *arguments: Any, **options: Any) -> Any:
        """Call a method of the model at rows that carry no column names, without the warning of scikit-learn."""
        return self.quietly(getattr(self.model, method), self.rows(X), *arguments, **options)

    def prediction(self, points: np.ndarray, **known: Any) -> Any:
        """What is known of new observations at points, a `Prediction`; of a classifier of labels, `LabelPrediction`.

        `known` are exposure, trials or noise; without an exposure or trials it is of one unit.
        """
        known = {name: value for name, value in known.items() if value is not None}
        return self.quietly(self.gp._prediction, self.rows(points), **known)

    def of_model(self, prediction: Any) -> Prediction:
        """The part of it that is of the model that is looked at."""
        return prediction if self.classes is None else prediction.each[self.gp.models_.index(self.model)]

    def probability(self, prediction: Any) -> np.ndarray:
        """The probability of the class that is looked at, [n]; those of several classes sum to one."""
        return prediction.mean if self.classes is None else prediction.proba[:, self.classes.index(self.label)]

    @staticmethod
    def quietly(method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a method without warnings that rows, which we made, have no column names or are far from the data."""
        with warnings.catch_warnings(), without_extrapolation_warning():
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            return method(*arguments, **options)


@dataclass(frozen=True)
class Named:
    """A target with the name of its column, for the axes."""

    values: np.ndarray
    name: str

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)


def view_of(gp: Any, X: Any = None, *, label: Any = None) -> View:
    """See an estimator; for several classes, `label` says which."""
    from sklearn.utils.validation import check_is_fitted

    if hasattr(gp, "steps"):
        raise InvalidInputError(
            "Plots show the knots, which are in the units of the last step of a pipeline: "
            "pass `pipeline[-1]` and `pipeline[:-1].transform(X)`."
        )
    if not all(hasattr(gp, name) for name in ("predict_interval", "predict_latent")):
        raise InvalidInputError(f"Plots are of a fitted GPRegressor or GPClassifier, not of a {type(gp).__name__}.")
    check_is_fitted(gp)
    if not hasattr(gp, "classes_"):
        if label is not None:
            raise InvalidInputError("`label` is the class of a classifier, and this is a regressor. Leave it out.")
        return View(gp, gp, column_names(gp, X))
    classes = gp.classes_.tolist()
    if label is None:
        label = classes[-1]
    elif label not in classes:
        raise unknown_option("`label`", label, map(str, classes))
    model = gp.models_[0 if len(classes) == 2 else classes.index(label)]
    return View(gp, model, column_names(gp, X), label)


def checked_targets(y: Any, n_rows: int, *, numeric: bool = True) -> np.ndarray:
    """The targets as an array [n]; for a regressor as finite numbers."""
    refuse_masked_and_dates(y, "y")
    values = as_finite_numbers(y, "y") if numeric else np.asarray(y)
    if values.shape != (n_rows,):
        raise InvalidInputError(f"X has {n_rows} rows, but y has shape {values.shape}: give one value for each row.")
    return values


def class_name(label: Any) -> str:
    """A class in a legend: short, and 1 for 1.0."""
    whole = isinstance(label, float) and label.is_integer()
    return shorten(int(label) if whole else label, 20)


def target_name(y: Any) -> str:
    """The name that a data frame gave its column."""
    name = series_name(y)
    return "y" if name is None else shorten(name, 32)


def require(view: View, plot: str, offset: Any = None, **given: Any) -> dict[str, Any]:
    """Exposure, trials or known noise of a picture of observations; refused where the fit had them and nobody gives
    them. `offset` is the logarithm of the exposure, instead of it.
    """
    if "exposure" in given:
        given["exposure"] = exposure_of(given["exposure"], offset)
    return require_known(view.model, f"{plot}(gp, X, y", **given)


def size_of(view: View, n_rows: int, exposure: Any, trials: Any) -> np.ndarray | None:
    """The exposure or the trials of each row, or None where nothing was given."""
    return check_size(view.model.likelihood_, n_rows, exposure=exposure, trials=trials)


def noise_of(view: View, n_rows: int, noise_variance: Any) -> float | None:
    """The median of the known noise variances of rows, or None where nothing was given."""
    noise = check_known_noise(view.model.likelihood_, noise_variance, n_rows)
    return None if noise is None else float(np.median(noise))
