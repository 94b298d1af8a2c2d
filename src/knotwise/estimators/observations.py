"""The data of a fit, and how often each row counts: equal rows become one row with a weight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Observations"]


@dataclass(frozen=True)
class Observations:
    """Checked data in the user's units, [N] each but X [N, D]; None where the data say nothing.

    `weights` say how often each row counts; `numbers` which row of the user's data it is, or the first of equal ones,
    and are None where all rows are there, in order.
    """

    X: np.ndarray
    y: np.ndarray
    noise: np.ndarray | None = None
    size: np.ndarray | None = None
    weights: np.ndarray | None = None
    numbers: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)

    def take(self, numbers: np.ndarray, weights: np.ndarray | None) -> Observations:
        """Some of the rows, with other weights."""

        def part(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[numbers]

        old = numbers if self.numbers is None else self.numbers[numbers]
        return Observations(self.X[numbers], self.y[numbers], part(self.noise), part(self.size), weights, old)

    def merged(self) -> Observations:
        """The same data with each row once: equal rows add their weights, and rows of weight 0 are gone.

        A fit sees nothing else, so a row of weight 2 and the row twice are the same fit to the bit, whatever is drawn
        at random. For that, rows are sorted by their values; where each counts once they stay in the user's order.
        Costs O(N log N).
        """
        data = self._without_zeros()
        weights = np.ones(len(data)) if data.weights is None else data.weights
        keys = [data.y, *data.X.T, *(key for key in (data.noise, data.size) if key is not None)]
        if data.weights is None and any(len(np.unique(key)) == len(key) for key in keys):
            return data  # a column without equal values has none in the rows
        order = np.lexsort(keys)
        new = np.zeros(len(order), bool)
        new[0] = True
        for key in keys:
            new[1:] |= key[order[1:]] != key[order[:-1]]
        weights = np.add.reduceat(weights[order], np.flatnonzero(new))
        order = order[new]
        if (weights != 1.0).any():
            return data.take(order, weights)
        return data.take(np.sort(order), None) if len(order) < len(data) else replace(data, weights=None)

    def _without_zeros(self) -> Observations:
        if self.weights is None or (self.weights == 1.0).all():
            return replace(self, weights=None)
        kept = np.flatnonzero(self.weights)
        if len(kept) == len(self):
            return self
        return self.take(kept, self.weights[kept])._without_zeros()
