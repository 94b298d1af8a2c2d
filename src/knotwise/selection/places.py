"""Where knots may be, on the levels of categories and on spheres; where rows are; and rows in the order of pivots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.blocks import Block, BlockCache, Blocks
from knotwise.kernels.base import Kernel
from knotwise.numerics.columns import InputColumns
from knotwise.numerics.linalg import cholesky, invert_lower

#: conditional variance, relative to the prior's, below which a row brings nothing new
SMALLEST_SHARE = 1e-9


@dataclass(frozen=True)
class KnotPlaces:
    """What encoded columns allow of knots: nothing of plain numbers.

    `levels` are groups of columns of which one has the value `level_values` and the others 0; a group of one column
    has its value or 0. `spheres` are groups of columns with the distances `radii` from the origin.
    """

    levels: tuple[tuple[int, ...], ...] = ()
    level_values: tuple[float, ...] = ()
    spheres: tuple[tuple[int, ...], ...] = ()
    radii: tuple[float, ...] = ()

    @staticmethod
    def of(columns: InputColumns, x_scale: np.ndarray) -> KnotPlaces:
        """The places for encoded columns that are divided by these scales."""
        levels, spheres = columns.members("level"), columns.members("sphere")
        return KnotPlaces(
            tuple(map(tuple, levels)),
            tuple(float(1.0 / x_scale[group[0]]) for group in levels),
            tuple(map(tuple, spheres)),
            tuple(float((columns.columns[group[0]].radius or 1.0) / x_scale[group[0]]) for group in spheres),
        )

    @property
    def is_free(self) -> bool:
        """Whether knots may be everywhere."""
        return not self.levels and not self.spheres

    def moving(self, n_columns: int) -> np.ndarray:
        """Mask of the columns in which knots can move: all but those of levels, [D]."""
        mask = np.ones(n_columns, bool)
        for group in self.levels:
            mask[list(group)] = False
        return mask

    def onto(self, Z: np.ndarray) -> np.ndarray:
        """The nearest places to points [K, D] at which knots may be."""
        if self.is_free:
            return Z
        Z = self.onto_spheres(Z).copy()
        for group, value in zip(self.levels, self.level_values, strict=True):
            columns = list(group)
            part = Z[:, columns]
            on = part > value / 2 if len(columns) == 1 else np.arange(len(columns)) == np.argmax(part, 1)[:, None]
            Z[:, columns] = np.where(on, value, 0.0)
        return Z

    def onto_spheres(self, Z: np.ndarray) -> np.ndarray:
        """Points [K, D] drawn to the spheres along their rays."""
        if not self.spheres:
            return Z
        Z = Z.copy()
        for group, radius in zip(self.spheres, self.radii, strict=True):
            columns = list(group)
            Z[:, columns] *= radius / _norms(Z[:, columns])
        return Z

    def pull(self, Z: np.ndarray, Z_bar: np.ndarray) -> np.ndarray:
        """The gradient in points [K, D] of a function of `onto_spheres` of them, from that in the latter.

        With u = z / |z|, the derivative of r u in z is r (I - u u') / |z|.
        """
        if not self.spheres:
            return Z_bar
        Z_bar = Z_bar.copy()
        for group, radius in zip(self.spheres, self.radii, strict=True):
            columns = list(group)
            norm = _norms(Z[:, columns])
            u, bar = Z[:, columns] / norm, Z_bar[:, columns]
            Z_bar[:, columns] = radius / norm * (bar - u * (u * bar).sum(1, keepdims=True))
        return Z_bar

    def widen(self, box: np.ndarray) -> np.ndarray:
        """The box of the knots [D, 2], wide enough for steps along a sphere: as wide in each of its directions."""
        box = box.copy()
        for group in self.spheres:
            columns = list(group)
            middle, reach = box[columns].mean(1), np.ptp(box[columns], axis=1).max() / 2
            box[columns] = np.column_stack([middle - reach, middle + reach])
        return box


def _norms(points: np.ndarray) -> np.ndarray:
    """Distances from the origin, [K, 1]; the origin itself is drawn nowhere."""
    return np.maximum(np.linalg.norm(points, axis=1, keepdims=True), np.finfo(float).tiny)


@dataclass
class Places:
    """Different places, [n, D] in the order of their values, of which `most` are enough: they unite."""

    X: np.ndarray
    most: int

    def __iadd__(self, other: Places) -> Places:
        self.X = np.unique(np.vstack([self.X, other.X]), axis=0)[: self.most]
        return self


@dataclass(frozen=True)
class PlacesPass:
    """The different places of a block."""

    most: int
    width: int = 1
    halo: None = None

    def __call__(self, block: Block, cache: BlockCache) -> Places:
        return Places(np.unique(block.own.X, axis=0)[: self.most], self.most)


def distinct_places(blocks: Blocks, most: int) -> np.ndarray:
    """Different places of the rows, in the order of their values; no more than `most` are looked for."""
    first = np.unique(blocks.take(slice(0, 4 * most)).X, axis=0)  # which are enough, but where many rows are alike
    if len(first) >= most or blocks.summary.n_rows <= 4 * most:
        return first[:most]
    return blocks.sum(PlacesPass(most)).X


@dataclass(frozen=True)
class NearnessPass:
    """Minus the squared distance of each row to a place."""

    place: np.ndarray
    width: int = 1
    halo: None = None

    def __call__(self, block: Block, cache: BlockCache) -> np.ndarray:
        return -((block.own.X - self.place) ** 2).sum(1)


class Pivots:
    """Rows of X in the order of largest weighted conditional variance, extended on demand.

    Holds V and c of the rows given the knots so far: one more knot costs O(N K) time.
    """

    def __init__(self, kernel: Kernel, X: np.ndarray, weights: np.ndarray | float = 1.0, Z: np.ndarray | None = None):
        self.kernel, self.X, self.weights = kernel, X, weights
        self.prior = kernel.diag(X)
        self.c = self.prior.copy()
        self.V = np.empty((len(X), 64), order="F")
        self.width = 0
        self.rows: list[int] = []
        if Z is not None and len(Z):
            Kuu = kernel(Z, Z)
            Kuu.flat[:: len(Z) + 1] += 1e-10 * Kuu.diagonal().mean()
            self._append(kernel(X, Z) @ invert_lower(cholesky(Kuu)).T)

    def extend(self, n: int) -> np.ndarray:
        """Choose rows until there are n of them, or none is left that brings anything; return all chosen."""
        while len(self.rows) < n:
            row = int(np.argmax(self.weights * self.c))
            left = self.c[row]
            worth = left * (self.weights if np.ndim(self.weights) == 0 else self.weights[row])  # type: ignore[index]
            if not (left > SMALLEST_SHARE * self.prior[row] and worth > 0):
                break
            column = self.kernel(self.X, self.X[row : row + 1])[:, 0]
            column -= self.V[:, : self.width] @ self.V[row, : self.width]
            column /= np.sqrt(left)
            self._append(column[:, None])
            self.c[row] = 0.0
            self.rows.append(row)
        return np.array(self.rows, int)

    def _append(self, columns: np.ndarray) -> None:
        need = self.width + columns.shape[1]
        if need > self.V.shape[1]:
            grown = np.empty((len(self.X), max(need, 2 * self.V.shape[1])), order="F")
            grown[:, : self.width] = self.V[:, : self.width]
            self.V = grown
        self.V[:, self.width : need] = columns
        self.width = need
        self.c = np.maximum(self.c - np.einsum("nk,nk->n", columns, columns), 0.0)
