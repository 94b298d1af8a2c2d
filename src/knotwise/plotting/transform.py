"""The probability integral transform of rows as the plots have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from knotwise.plotting.view import View

__all__ = ["probability_transform"]


def probability_transform(view: View, rows: np.ndarray, y: np.ndarray, **options: Any) -> np.ndarray:
    """P(Y <= y) of each row, [n]; see `knotwise.estimators.transform`."""
    from knotwise.estimators.transform import probability_transform

    return view.quietly(probability_transform, view.model, view.rows(rows), y, **options)
