"""The exact GP: baseline, oracle, and the model of small subsets."""

from __future__ import annotations

import numpy as np

from knotwise.errors import TooLargeError
from knotwise.evidence.inference import inference_of
from knotwise.evidence.model import Evidence, Model, Rows

__all__ = ["MAX_FULL_ROWS", "check_full_size", "full_evidence"]

#: the exact GP keeps a handful of N x N matrices: 4 GB at this size
MAX_FULL_ROWS = 10_000


def full_evidence(model: Model, rows: Rows, *, gradient: bool = True, start: np.ndarray | None = None) -> Evidence:
    """Compute the log evidence of the exact GP and, if asked, its gradient in theta.

    For Gaussian data it is exact, log N(y; m, K + noise); for other data it is that of the model's inference. Costs
    some N^3 flops; memory: a few N x N matrices. `start` is the a of a state of the same rows.
    """
    check_full_size(len(rows))
    return inference_of(model).exact(model, rows, gradient=gradient, start=start)


def check_full_size(n_rows: int) -> None:
    """Refuse sizes whose N x N matrices would not fit an ordinary machine."""
    if n_rows > MAX_FULL_ROWS:
        raise TooLargeError(
            f"The exact GP needs several {n_rows:,} x {n_rows:,} matrices ({8e-9 * n_rows**2:.0f} GB each) and "
            f"stops at {MAX_FULL_ROWS:,} rows. Use `approximation='vfe'` or `'fic'` with knots, or fewer rows.",
            n_rows=n_rows,
            limit=MAX_FULL_ROWS,
        )
