"""A kernel in a few words."""

from __future__ import annotations

import numpy as np

from knotwise.kernels.base import Kernel
from knotwise.kernels.compose import OnColumns
from knotwise.kernels.stationary import Stationary

__all__ = ["describe_kernel"]


def describe_kernel(kernel: Kernel) -> str:
    """A kernel's name, whether it has a length-scale per column, and how many columns it sees, if not all."""
    if isinstance(kernel, OnColumns):
        n_columns = len(kernel.indices())
        return f"{describe_kernel(kernel.kernel)} on {n_columns} column{'s' if n_columns > 1 else ''}"
    per_column = isinstance(kernel, Stationary) and np.ndim(kernel.value("lengthscale")) > 0
    return f"{type(kernel).__name__}({'ard=True' if per_column else ''})"
