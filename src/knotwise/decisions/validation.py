"""Validation rows near the others, in gaps of them and beyond them: where models are judged.

Rows that are held back at random are near others, and say nothing of what a model does in gaps and at the edges of the
data. So whole balls of rows are taken away, and all rows past a half-space. Where it is known where predictions are
wanted, balls are as large as those places are far from the data: nearest-neighbour distance matching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knotwise.decisions.thresholds import VALIDATION
from knotwise.numerics.nearest import Nearest

#: where validation rows lie, in the order in which their numbers are told
KINDS = ("near", "gap", "beyond")
#: what is told of them
IN_WORDS = {"near": "near the others", "gap": "in gaps", "beyond": "beyond the others", "asked": "as far as was asked"}


@dataclass(frozen=True)
class Fold:
    """Rows that are taken away together, `removed`, and those of them that are predicted, `judged`: numbers of rows."""

    removed: np.ndarray
    judged: np.ndarray
    kind: str


def draw_folds(points: np.ndarray, rng: np.random.Generator, asked: np.ndarray | None = None) -> list[Fold]:
    """Balls and half-spaces of rows at points [N, q], in which distances mean something; the same for all candidates.

    Balls are around random rows and hold from a few rows to a share of all, by a log-uniform number. With places
    `asked` [M, q] they are around the rows nearest to some of these, and reach as far as those are away.
    """
    if asked is not None:
        return _as_far_as(points, asked, rng)
    n, folds = len(points), []
    low, high = np.log([VALIDATION.least_rows, max(VALIDATION.ball_share * n, VALIDATION.least_rows + 1)])
    for centre in rng.choice(n, min(VALIDATION.balls, n), replace=False):
        size = int(np.exp(rng.uniform(low, high)))
        distances = ((points - points[centre]) ** 2).sum(1)
        folds.append(_fold(np.argpartition(distances, min(size, n - 1))[:size], "gap", rng))
    varies = int((points.var(0) > 0).sum())
    for i in range(min(VALIDATION.half_spaces, 2 * varies)):
        # in one column there are two directions only
        direction = rng.standard_normal(points.shape[1]) if varies > 1 else np.full(points.shape[1], (-1.0) ** i)
        along = points @ direction
        past = np.flatnonzero(along > np.quantile(along, 1 - VALIDATION.beyond_share))
        if len(past):
            folds.append(_fold(past, "beyond", rng))
    return folds


def _fold(removed: np.ndarray, kind: str, rng: np.random.Generator) -> Fold:
    removed = np.sort(removed)
    if len(removed) <= VALIDATION.judged:
        return Fold(removed, removed, kind)
    return Fold(removed, np.sort(rng.choice(removed, VALIDATION.judged, replace=False)), kind)


def _as_far_as(points: np.ndarray, asked: np.ndarray, rng: np.random.Generator) -> list[Fold]:
    """Balls around the rows nearest to places that were asked for, as large as these are far from all rows, as long as
    they hold no more rows than can be spared.
    """
    places = asked[rng.choice(len(asked), min(VALIDATION.asked, len(asked)), replace=False)]
    centres = Nearest(points)(places, 1)[:, 0]
    reach = np.sqrt(((places - points[centres]) ** 2).sum(1))
    folds, most = [], max(VALIDATION.asked_share * len(points), 1)
    for centre, radius in zip(centres, reach, strict=True):
        distances = np.sqrt(((points - points[centre]) ** 2).sum(1))
        removed = np.flatnonzero(distances <= radius)
        if len(removed) > most:
            removed = np.argpartition(distances, int(most))[: int(most)]
            radius = distances[removed].max()
        judged = removed[distances[removed] <= VALIDATION.middle * radius]
        folds.append(Fold(np.sort(removed), _fold(judged, "asked", rng).judged, "asked"))
    return folds


def spare_others(folds: Sequence[Fold], n_rows: int, rng: np.random.Generator) -> tuple[list[Fold], np.ndarray]:
    """Some of the folds, which are taken away all at once, and which rows stay: enough to predict them."""
    stays = np.ones(n_rows, bool)
    kept: list[Fold] = []
    for i in rng.permutation(len(folds)):
        fewer = stays.copy()
        fewer[folds[i].removed] = False
        if (~fewer).sum() <= VALIDATION.most_removed * n_rows:
            stays = fewer
            kept.append(folds[i])
    return kept, stays


@dataclass(frozen=True)
class Labels:
    """Which kind each validation row is of, [n], with which others it was taken away, and its sample weight."""

    kind: np.ndarray
    cluster: np.ndarray
    weights: np.ndarray

    @staticmethod
    def of(n_near: int, folds: Sequence[Fold], near_weights: np.ndarray | None = None) -> Labels:
        """For rows near others, each by itself, and then those of the folds."""
        kind = ["near"] * n_near + [fold.kind for fold in folds for _ in fold.judged]
        cluster = list(range(n_near)) + [n_near + i for i, fold in enumerate(folds) for _ in fold.judged]
        weights = np.ones(len(kind))
        if near_weights is not None:
            weights[:n_near] = near_weights
        return Labels(np.array(kind, dtype="U6"), np.array(cluster, int), weights)

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def kinds(self) -> list[str]:
        """Those of which there are rows."""
        return [kind for kind in (*KINDS, "asked") if (self.kind == kind).any()]

    def means(self, density: np.ndarray) -> dict[str, float]:
        """Mean log density of the rows of each kind."""
        return {
            kind: float(np.average(density[of], weights=self.weights[of]))
            for kind, of in ((kind, self.kind == kind) for kind in self.kinds)
        }

    def gain(self, one: np.ndarray, other: np.ndarray, kinds: Sequence[str] | None = None) -> tuple[float, float]:
        """Mean over the kinds of the mean gain in log density, and its standard error; NaN without rows.

        Rows that were taken away together are one observation of the gain.
        """
        means, squares = [], []
        for kind in self.kinds if kinds is None else kinds:
            of = self.kind == kind
            gains, weights = (one - other)[of], self.weights[of]
            if not len(gains):
                continue
            mean = float(np.average(gains, weights=weights))
            _, cluster = np.unique(self.cluster[of], return_inverse=True)
            errors = np.bincount(cluster, weights * (gains - mean)) / weights.sum()
            means.append(mean)
            squares.append(float((errors**2).sum()) * len(errors) / max(len(errors) - 1, 1))
        if not means:
            return np.nan, np.nan
        return float(np.mean(means)), float(np.sqrt(np.sum(squares)) / len(means))


def describe(means: dict[str, float], reach: float = np.nan) -> str:
    """The densities of the kinds, and how far from the data they were tested, in words."""
    by_kind = ", ".join(f"{value:.3f} {IN_WORDS[kind]}" for kind, value in means.items())
    reached = "" if np.isnan(reach) else f"; tested up to {reach:.2g} length-scales from the data"
    return f"log density of validation rows {by_kind}{reached}"


def farthest(points: np.ndarray, folds: Sequence[Fold]) -> float:
    """The largest distance of a judged row from the rows that stay, each fold by itself; NaN without folds."""
    found = [np.nan]
    for fold in folds:
        stays = np.ones(len(points), bool)
        stays[fold.removed] = False
        if stays.any() and len(fold.judged):
            others, judged = points[stays], points[fold.judged]
            nearest = others[Nearest(others)(judged, 1)[:, 0]]
            found.append(float(np.sqrt(((judged - nearest) ** 2).sum(1)).max()))
    return float(np.nanmax(found)) if len(found) > 1 else np.nan
