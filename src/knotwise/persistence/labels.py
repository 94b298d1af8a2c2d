"""Labels of classes in a manifest: numbers or text, in the dtype that the user's had."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.persistence.schema import Reading, Writing, refuse

__all__ = ["Labels"]

#: bool, integers, floating point numbers, text of some width, or any of these as Python objects
DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U[1-9][0-9]{0,5}|\|O")
LARGEST = 2**22  # bytes: a few labels of a huge width would take much memory


class Labels:
    """Sorted labels of at least two classes."""

    def write(self, value: np.ndarray, at: str, out: Writing) -> dict[str, Any]:
        values = value.tolist()
        known = all(type(v) in (bool, int, float, str) for v in values) and DTYPE.fullmatch(value.dtype.str)
        if not known or value.nbytes > LARGEST:
            raise InvalidInputError(
                f"The labels of the classes, {values[:3]} and so on of dtype {value.dtype}, are not numbers or text of "
                "moderate length, as a model file can hold them. Keep this model with pickle, or use other labels."
            )
        return {"dtype": value.dtype.str, "values": values}

    def read(self, data: Any, at: str, given: Reading) -> np.ndarray:
        if not isinstance(data, dict) or list(data) != ["dtype", "values"] or not isinstance(data["values"], list):
            raise refuse(at, "an object with dtype and values")
        dtype, values = data["dtype"], data["values"]
        if not isinstance(dtype, str) or not DTYPE.fullmatch(dtype):
            raise refuse(f"{at}.dtype", "a type that labels can have")
        if len(values) < 2 or len(values) * np.dtype(dtype).itemsize > LARGEST:
            raise refuse(f"{at}.values", "labels of moderate number and length")
        if not all(type(v) in (bool, int, float, str) for v in values):
            raise refuse(f"{at}.values", "a list of numbers or text")
        try:
            labels = np.array(values, dtype)
            faithful = labels.tolist() == values and bool(np.array_equal(np.unique(labels), labels))
        except (TypeError, ValueError, OverflowError):
            faithful = False
        if not faithful:
            raise refuse(f"{at}.values", f"a sorted list of different labels of dtype {dtype}")
        return labels
