"""Which of many columns matter: forward selection on ranks."""

from __future__ import annotations

import numpy as np

from knotwise.decisions.thresholds import SCREENING


def screen_columns(X: np.ndarray, y: np.ndarray) -> list[int]:
    """The columns that explain most of y one after the other, by ranks; an empty list where chance explains as much.

    Of each column a line and a parabola are tried, on what the columns before it leave of y. Ranks make it the same for
    every monotone scale of a column, and keep outliers from deciding. Costs O(n D) for each column that is taken.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    n_rows, n_columns = X.shape
    lines = rankdata(X, axis=0) / n_rows  # [n, D]
    features = np.stack([lines, (lines - 0.5) ** 2])  # [2, n, D]
    features -= features.mean(1, keepdims=True)
    norms = np.maximum((features**2).sum(1), np.finfo(float).tiny)  # [2, D]; a constant column has none
    left = rankdata(y) - (n_rows + 1) / 2
    # squared correlation that the best of all columns has by chance
    least = ndtri(1 - SCREENING.chance / (4 * n_columns)) ** 2 / n_rows
    taken: list[int] = []
    basis: list[np.ndarray] = []
    while len(taken) < SCREENING.most_columns and left @ left > 0:
        explained = (left @ features) ** 2 / norms / (left @ left)  # [2, D]
        best = int(np.argmax(explained.max(0)))
        if explained[:, best].max() < least or best in taken:
            break
        taken.append(best)
        for direction in features[:, :, best]:
            for other in basis:  # Gram-Schmidt: the columns are correlated
                direction = direction - (direction @ other) * other
            length = float(np.sqrt(direction @ direction))
            if length > SCREENING.independent * np.sqrt(n_rows):
                basis.append(direction / length)
                left = left - (left @ basis[-1]) * basis[-1]
    return sorted(taken)
