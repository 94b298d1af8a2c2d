"""A kernel in a few words."""

from __future__ import annotations

import numpy as np

from knotwise.kernels.base import Kernel

__all__ = ["describe_kernel"]


def describe_kernel(kernel: Kernel) -> str:
    """A kernel's name, whether it has a length-scale per column, and how many columns it sees, if not all."""
    if kernel.restricted_to is not None:
        n_columns = len(kernel.restricted_to)
        return f"{describe_kernel(kernel.unrestricted)} on {n_columns} column{'s' if n_columns > 1 else ''}"
    per_column = any(p.role == "lengthscale" and np.ndim(kernel.value(p.name)) for p in kernel.parameters)
    return f"{type(kernel).__name__}({'ard=True' if per_column else ''})"
