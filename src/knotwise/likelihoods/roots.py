"""Roots of one increasing function for each row: of a smooth one, and of one that is asked at whole numbers only.

Each row keeps a bracket, so a bad step costs time and never the result; rows that are done leave the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

#: (x, rows) -> value, slope and bend (its derivative) of the function at x of these rows, [n] each
Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]

MOST_STEPS = 200
NEARLY = 1e-4  # a third-order step of this share of the scale leaves an error of its cube


@dataclass(frozen=True)
class Probability:
    """A probability as a function of one number, and its first two derivatives, [n] each."""

    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


def normal_score(
    P: np.ndarray, slope: np.ndarray, curvature: np.ndarray, target: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ndtri(P) - ndtri(target) and its derivatives: nearly straight in y, where P itself flattens out."""
    score = ndtri(np.clip(P, 1e-30, 1 - 1e-16))
    density = np.exp(-0.5 * score**2) / np.sqrt(2 * np.pi)
    first = slope / density
    return score - ndtri(target), first, curvature / density + score * first**2


def find_root(evaluate: Evaluate, x: np.ndarray, low: np.ndarray, high: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the root of each row from the start x, inside [low, high], to about 1e-11 of `scale`.

    Halley's steps; where one leaves the bracket, the middle of it is next. At an end of a bracket that holds no root,
    that end is returned.
    """
    root, lowest, highest = x.copy(), low, high
    rows = np.arange(len(x))
    before = np.full(len(x), np.inf)
    for _ in range(MOST_STEPS):
        value, slope, curvature = evaluate(x, rows)
        low, high = np.where(value < 0, x, low), np.where(value < 0, high, x)
        with np.errstate(all="ignore"):
            newton = -value / slope
            step = newton / np.clip(1 + 0.5 * newton * curvature / slope, 0.5, 2.0)
        new = x + step
        inside = (new >= low) & (new <= high) & (np.abs(step) < 0.7 * before)  # NaN is not inside
        # an end that was not asked yet is next: there may be no root before it
        first, last = new < lowest[rows], new > highest[rows]
        middle = 0.5 * (low + high)
        middle = np.where(first & (low == lowest[rows]), low, np.where(last & (high == highest[rows]), high, middle))
        new = np.where(inside, new, middle)
        before = np.where(inside, np.abs(step), np.inf)
        root[rows] = new
        narrow = high - low <= 4 * np.finfo(float).eps * np.abs(x)
        open_ = ~((inside & (np.abs(step) <= NEARLY * scale[rows])) | narrow | (value == 0))
        root[rows[value == 0]] = x[value == 0]
        if not open_.any():
            break
        rows, x, low, high, before = (v[open_] for v in (rows, new, low, high, before))
    return root


def find_whole_root(
    evaluate: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, Any, Any]],
    x: np.ndarray,
    highest: np.ndarray | float,
) -> np.ndarray:
    """Return the smallest whole number from 0 to `highest` at which the function is not negative, one per row.

    `evaluate` gives the function and its slope in log(1 + k), on which scale it is nearly straight: a rough one for the
    first step, or None; later steps are secants. It may also give the function at k + 1, with NaN where that is not
    known; else None. It ends when two neighbours are known to lie on either side.
    """
    result = np.array(np.broadcast_to(highest, x.shape), float)
    rows = np.arange(len(x))
    low, high = np.full(len(x), -1.0), result.copy()  # at high, or beyond any number, it is not negative
    k = np.clip(np.round(x), 0.0, np.maximum(high - 1, 0.0))
    k_before, value_before = np.full(len(x), np.nan), np.full(len(x), np.nan)
    for step in range(MOST_STEPS):
        value, slope, following = evaluate(k, rows)
        low, high = np.where(value < 0, k, low), np.where(value < 0, high, k)
        with np.errstate(all="ignore"):
            if step or slope is None:
                slope = (value - value_before) / (np.log1p(k) - np.log1p(k_before))
            if following is not None:
                low = np.where(following < 0, np.maximum(low, k + 1), low)
                high = np.where(following >= 0, np.minimum(high, k + 1), high)
                local = (following - value) / (np.log1p(k + 1) - np.log1p(k))
                slope = np.where(np.isnan(following), slope, local)
            guess = np.ceil(np.expm1(np.log1p(k) - value / slope))
            if following is not None:  # the pair below and at the root ends the search
                guess = np.where(np.isnan(following), guess, guess - 1)
            reach = np.where(np.isinf(high), 8 * (k + 1), high)
            middle = np.where(np.isinf(high), 4 * (k + 1), np.floor(np.sqrt((low + 1) * (high + 1)) - 0.5))
        slow = (step > 5) & (step % 2 == 0)
        guess = np.where(np.isfinite(guess) & (slope > 0) & ~slow, np.minimum(guess, reach), middle)
        new = np.clip(guess, low + 1, np.maximum(high - 1, low + 1))
        result[rows] = high
        # beyond 2^53 neighbours are equal
        open_ = (high - low > 1) & (new != k) & (low < high)
        if not open_.any():
            break
        k_before, value_before = k[open_], value[open_]
        rows, k, low, high = (v[open_] for v in (rows, new, low, high))
    return result


def find_between(
    value: Callable[[np.ndarray, np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, *, whole: bool = False
) -> np.ndarray:
    """Return the root of each row between low, where the function is negative, and high, where it is not.

    Chandrupatla's method, without derivatives: inverse quadratic interpolation where three points allow it, else
    halving. To 1e-13, or for `whole` ends the smallest whole number at which the function is not negative.
    """
    result = high.copy()
    rows = np.arange(len(low))
    # x1 and x2 are around the root, x1 is the newest; x3 is the last that left
    x1, x2, x3 = high, low, low
    f1, f2, f3 = (np.full(len(low), v) for v in (np.inf, -np.inf, -np.inf))
    t = np.full(len(low), 0.5)
    for _ in range(MOST_STEPS):
        gap = np.abs(x2 - x1)
        enough = 1.0 if whole else 1e-13 * (1 + np.minimum(np.abs(x1), np.abs(x2)))
        result[rows] = np.maximum(x1, x2)
        open_ = gap > enough
        if not open_.any():
            break
        rows, x1, x2, f1, f2, t = (v[open_] for v in (rows, x1, x2, f1, f2, t))
        x = x1 + t * (x2 - x1)
        if whole:
            x = np.clip(np.floor(x), np.minimum(x1, x2) + 1, np.maximum(x1, x2) - 1)
        f = value(x, rows)
        same = (f >= 0) == (f1 >= 0)
        x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
        x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
        x1, f1 = x, f
        with np.errstate(all="ignore"):
            xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
            t = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        t = np.where((phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi) & np.isfinite(t), t, 0.5)
        least = 1e-14 / np.maximum(np.abs(x2 - x1), 1e-14)
        t = np.clip(t, np.minimum(least, 0.5), np.maximum(1 - least, 0.5))
    return result
