"""Which places of a grid are shown: those in a region, and those near the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, NoTrainingDataError
from knotwise.spatial.covariates import coordinate_columns
from knotwise.spatial.windows import Window

__all__ = ["inside", "training_places", "within"]


def inside(window: Window, places: np.ndarray) -> np.ndarray:
    """Which places lie in a window or on its border, [n]."""
    import shapely

    shapely.prepare(window.shape)
    return shapely.intersects_xy(window.shape, *places.T)


def within(distance: float, data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Which places have a datum at most this far away, [n]."""
    from scipy.spatial import KDTree

    if not 0 < distance < np.inf:
        raise InvalidInputError(f"`max_distance` is {distance!r}; it must be a positive distance on the map.")
    if not len(data):
        raise InvalidInputError("`data` has no rows, so that nothing is near them.")
    nearest = KDTree(data).query(places, distance_upper_bound=np.nextafter(distance, np.inf))[0]
    return nearest <= distance


def training_places(gp: Any) -> np.ndarray:
    """Where the rows of the fit are, [n, 2], in the units of the map."""
    fit = (gp.models_[0] if hasattr(gp, "models_") else gp)._fit
    if fit.training is None or not fit.training.run.blocks.at_hand:
        raise NoTrainingDataError(
            "Nobody knows here where the training rows are: the model comes from a file, or was fitted to a Dask "
            "collection. Give `region`, and `data` with `max_distance`."
        )
    X = fit.scaling.inputs_back(fit.training.rows.X)
    names = getattr(gp, "feature_names_in_", None)
    across, up = (0, 1) if names is None else (list(names).index(name) for name in coordinate_columns(names))
    return X[:, [across, up]]
