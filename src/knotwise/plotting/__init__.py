"""Pictures of fitted models, for the extra `plot`: each function returns the axes on which it drew.

matplotlib is imported when the first picture is drawn, never before.
"""

from knotwise.plotting.calibration import plot_calibration, plot_pit
from knotwise.plotting.effects import plot_effects
from knotwise.plotting.errors import plot_errors
from knotwise.plotting.fit import plot_fit
from knotwise.plotting.maps import plot_map
from knotwise.plotting.noise import plot_noise
from knotwise.plotting.observed import plot_observed
from knotwise.plotting.trace import plot_trace
from knotwise.plotting.variogram import plot_variogram
from knotwise.plotting.warps import plot_warps

__all__ = [
    "plot_calibration",
    "plot_effects",
    "plot_errors",
    "plot_fit",
    "plot_map",
    "plot_noise",
    "plot_observed",
    "plot_pit",
    "plot_trace",
    "plot_variogram",
    "plot_warps",
]
