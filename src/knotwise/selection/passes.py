"""Passes over the rows that selectors need: different places, and the nearest rows to a place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knotwise.evidence.blocks import Beside, Block, Blocks

__all__ = ["NearnessPass", "distinct_places"]


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

    def __call__(self, block: Block, beside: Beside) -> Places:
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

    def __call__(self, block: Block, beside: Beside) -> np.ndarray:
        return -((block.own.X - self.place) ** 2).sum(1)
