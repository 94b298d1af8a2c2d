"""Data to plot, models that are the same everywhere, and a look at what was drawn."""

import numpy as np
import pandas as pd

from knotwise import GPRegressor
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian

RNG = np.random.default_rng(7)
X1 = np.sort(RNG.uniform(0, 6, 60))[:, None]
Y1 = np.sin(2 * X1[:, 0]) + 0.2 * RNG.normal(size=60)
X2 = RNG.uniform(-1, 1, size=(80, 2)) * [2.0, 1.5]
Y2 = X2[:, 0] ** 2 - X2[:, 1] + 0.1 * RNG.normal(size=80)
X3 = pd.DataFrame(np.column_stack([X2, RNG.normal(size=80)]), columns=["height", "width", "depth"])
COUNTS = RNG.poisson(3 * np.exp(np.sin(X1[:, 0]))).astype(float)
EXPOSURE = np.where(np.arange(60) < 31, 3.0, 1.5)
LABELS = np.where(np.median(Y2) < Y2, "high", "low")


def held(likelihood=None, knots=8, **options):
    """A model without optimisation: quick, and the same everywhere."""
    return GPRegressor(
        SquaredExponential(1.0, 0.5, column_scales="standard"),
        likelihood or Gaussian(0.05),
        knots=knots,
        optimizer=None,
        random_state=0,
        **options,
    )


def rug(ax):
    """Places of the ticks at the foot, one array for each row of them."""
    return [line.get_xdata() for line in ax.get_lines() if line.get_marker() == "|"]


def curve(ax, i=0):
    """The i-th curve that is drawn through many points."""
    return [line for line in ax.get_lines() if len(line.get_xdata()) > 200][i].get_xydata().T


def band(ax):
    """Lower and upper end of the band at the points of the curve."""
    (area,) = [c for c in ax.collections if type(c).__name__ in ("PolyCollection", "FillBetweenPolyCollection")]
    ends = area.get_paths()[0].vertices
    x = curve(ax)[0]
    return np.array([[ends[ends[:, 0] == at, 1].min(), ends[ends[:, 0] == at, 1].max()] for at in x])


def dots(ax, label):
    """Places of marks with this label."""
    (found,) = [c for c in ax.collections if c.get_label() == label]
    return np.asarray(found.get_offsets())
