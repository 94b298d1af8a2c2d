"""A fitted model as maps see it: which columns are its coordinates, where its rows are, and rows at places."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.data.encoding.kinds import LonLat
from knotwise.errors import InvalidInputError, NoTrainingDataError, nearest
from knotwise.estimators.averaging import latent_models
from knotwise.spatial.covariates import DIMENSIONS


def check_model(gp: Any) -> None:
    """Refuse what is no fitted estimator of ours with two columns."""
    if not hasattr(gp, "predict_latent"):
        raise InvalidInputError(
            f"Maps and totals are of a fitted GPRegressor or GPClassifier, not of a {type(gp).__name__}. Of a pipeline "
            "it is the last step, `pipeline[-1]`, if the steps before leave coordinates as they are."
        )
    check_is_fitted(gp)
    if gp.n_features_in_ < 2:
        raise InvalidInputError("A map needs two columns, x and y, and the model has one.")


def sphere_of(gp: Any) -> LonLat | None:
    """How longitude and latitude become a place on the globe; None where coordinates are those of a plane."""
    kinds = () if gp._encoding is None else gp._encoding.kinds
    return next((kind for kind in kinds if isinstance(kind, LonLat)), None)


def levels_of(gp: Any) -> set[str]:
    return set() if gp._encoding is None else set(gp._encoding.levels)


def coordinate_columns(gp: Any) -> tuple[int, int]:
    """Which columns are the coordinates: those of `coords`, x and y (or the like) by name, or else the first two."""
    sphere = sphere_of(gp)
    if sphere is not None:
        return sphere.sources
    names = list(getattr(gp, "feature_names_in_", ()))
    pairs = [pair for pair in DIMENSIONS if set(pair) <= set(names)]
    return (names.index(pairs[0][0]), names.index(pairs[0][1])) if pairs else (0, 1)


def training_places(gp: Any) -> np.ndarray:
    """Where the rows of the fit are, [n, 2], in the units of the map."""
    fit = latent_models(gp)[0]._fit
    if fit.training is None or not fit.training.run.blocks.at_hand:
        raise NoTrainingDataError(
            "Nobody knows here where the training rows are: the model comes from a file, or was fitted to a Dask "
            "collection. Give `region`, and `data` with `max_distance`."
        )
    X = fit.scaling.inputs_back(fit.training.rows.X)
    X = X if gp._encoding is None else gp._encoding.contract(X)
    return X[:, list(coordinate_columns(gp))]


def inputs_at(gp: Any, x: np.ndarray, y: np.ndarray, known: dict[str, np.ndarray]) -> Any:
    """Rows at places for a fitted model: its coordinates, and covariates for its other columns."""
    import pandas as pd

    across, up = coordinate_columns(gp)
    names = getattr(gp, "feature_names_in_", None)
    if names is None:
        if 2 + len(known) != gp.n_features_in_:
            raise InvalidInputError(
                f"The model has {gp.n_features_in_} columns: x, y and {gp.n_features_in_ - 2} more, in this order, but "
                f"`covariates` has {len(known)}. Fit to a data frame, so that columns have names, or give as many."
            )
        columns = list(known.values())
        for place, values in sorted([(across, x), (up, y)], key=lambda pair: pair[0]):
            columns.insert(place, values)
        return np.column_stack(columns)
    named = known | {names[across]: x, names[up]: y}
    missing, needless = [n for n in names if n not in named], [n for n in known if n not in names]
    twice = [n for n in (names[across], names[up]) if n in known]
    if missing or needless or twice:
        wrong = (missing or needless or twice)[0]
        near = nearest(wrong, needless if missing else names) if not twice else None
        raise InvalidInputError(
            f"The model has the columns {', '.join(map(repr, names))}, of which {names[across]!r} and {names[up]!r} "
            "are the coordinates; "
            + (f"`covariates` has no {wrong!r}." if missing else f"it has no covariate {wrong!r}.")
            + (f" Did you mean {near!r}?" if near else "")
        )
    return pd.DataFrame({name: named[name] for name in names})
