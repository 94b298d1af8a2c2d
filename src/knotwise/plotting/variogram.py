"""Semivariograms: what the trend leaves of the data, against the fitted covariance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.data.exposure import check_noise_variance
from knotwise.data.validation import check_count, generator_from
from knotwise.diagnosis.semivariance import EmpiricalVariogram, Separation, empirical_variogram, fitted_semivariance
from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import checked_rows
from knotwise.plotting.style import BLACK, BLUE, GREY, LIGHT_GREY, SKY, axes_or_new, counted, documented, shorten
from knotwise.plotting.view import View, checked_targets, require, target_name, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_POINTS = 240
BAR_HEIGHT = 0.12  # of the axes, for the bin with most pairs


@documented
def plot_variogram(
    gp: Any,
    X: Any,
    y: Any,
    *,
    noise_variance: Any = None,
    n_bins: int = 15,
    max_distance: float | None = None,
    robust: bool = False,
    n_simulations: int = 99,
    max_rows: int = 500,
    random_state: Any = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the semivariogram of what the trend leaves of y, the fitted one, and where simulated data would lie.

    Dots are semivariances of pairs of rows in bins of distance, and bars at the foot say how many pairs. The curve is
    the fitted model's, from the nugget up to the sill. The band holds 95 % of the values, bin by bin, of data simulated
    from the fitted model at the same rows: dots outside of it in several bins say that the kernel does not fit. The
    fit is by maximum likelihood, not to the dots.

    Distances are Euclidean, in the columns that the kernel sees: in their units, or in practical ranges of each column
    where these differ by more than three times (columns of different units, or strong anisotropy). Those of longitude
    and latitude (`coords="lonlat"`) are chords in kilometres, and those of warped columns are along the warped axis.

    Parameters
    ----------
    gp : fitted GPRegressor
        For Gaussian data; of others f has no observations that could be compared with the kernel. Its kernel must be
        stationary.
    X : array or data frame [n, D]
        Rows, as in the fit.
    y : array [n]
        Their targets.
    noise_variance : float or array [n], optional
        Known noise variance of the rows. Needed if the fit had it.
    n_bins : int, default 15
        Number of bins of equal width.
    max_distance : float, optional
        The largest distance that is shown; half of the largest one between rows by default.
    robust : bool, default False
        Whether semivariances are those of Cressie and Hawkins, which single outliers hardly move; by default they are
        Matheron's means of squares. The band is made in the same way.
    n_simulations : int, default 99
        Data sets that are simulated; 0 draws no band.
    max_rows : int, default 500
        Rows beyond which a random sample is looked at.
    random_state : int or Generator, default 0
        For the sample and the simulations.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.kernels import Matern32
    >>> from knotwise.plotting import plot_variogram
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=60)
    >>> gp = GPRegressor(Matern32(), standardize="common", approximation="full").fit(X, y)
    >>> plot_variogram(gp, X, y, n_simulations=19).get_ylabel()
    'semivariance of y'
    """
    view = view_of(gp, X)
    scaling = view.model._fit.scaling
    if not view.model._fit.model.likelihood.conjugate:
        raise InvalidInputError(
            f"A semivariogram compares observations with the kernel, but those of the likelihood "
            f"{type(view.model.likelihood_).__name__} are not f with noise added. `gp.diagnose()` tests the residuals "
            "of near rows for any likelihood, and `parameters_.variogram()` has range and sill of f."
        )
    noise_variance = require(view, "plot_variogram", noise_variance=noise_variance)["noise_variance"]
    rows = np.asarray(view.rows(checked_rows(view.gp, X)))
    if len(rows) < 2:
        raise InvalidInputError(f"A semivariogram needs pairs of rows, but X has {counted(len(rows), 'row')}.")
    found = empirical_variogram(
        view.model,
        rows,
        scaling.transformed(checked_targets(y, len(rows))),
        noise_variance=check_noise_variance(noise_variance, len(rows)),
        n_bins=check_count(n_bins, "n_bins", least=1),
        max_distance=max_distance,
        robust=bool(robust),
        n_simulations=check_count(n_simulations, "n_simulations", least=0),
        max_rows=check_count(max_rows, "max_rows", least=2),
        rng=generator_from(random_state),
    )
    ax = axes_or_new(ax, size=(6.4, 4.2))
    _draw(ax, view.model, found, n_simulations)
    names, units = _columns(view, found.separation)
    name = target_name(y) if scaling.transform is None else scaling.transform.of(target_name(y))
    over = f" in {', '.join(shorten(name, 16) for name in names)}" if len(names) < 4 else ""
    ax.set(xlabel=f"distance{over}{units}", ylabel=f"semivariance of {name}", xlim=(0, None))
    ax.set_ylim(0, None)
    _draw_pairs(ax, found)
    above: Any = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    ax.legend(ncols=2, fontsize=8, frameon=False, **above)  # inside it would cover data somewhere
    return ax


def _columns(view: View, separation: Separation) -> tuple[list[str], str]:
    """The user's columns over which distances are taken, each once, and their units."""
    if view.encoding is None:
        names, units = [view.names[column] for column in separation.columns], set()
    else:
        seen = [view.encoding.columns.columns[column] for column in separation.columns]
        names, units = list(dict.fromkeys(column.label for column in seen)), {column.units for column in seen}
    if separation.in_ranges:
        return names, ", in practical ranges"
    return names, f" ({unit})" if len(units) == 1 and (unit := units.pop()) else ""


def _draw(ax: Axes, gp: Any, found: EmpiricalVariogram, n_simulations: int) -> None:
    if n_simulations:
        label = f"95 % of {counted(n_simulations, 'simulation')}"
        ax.fill_between(
            found.distance, found.lower, found.upper, color=LIGHT_GREY, alpha=0.45, linewidth=0, zorder=0, label=label
        )
    reach = 1.03 * float(found.distance.max())
    distances = np.linspace(reach / CURVE_POINTS / 10, reach, CURVE_POINTS)
    nugget = gp.likelihood_.value("noise_variance")
    (sill,) = (line.estimate for line in gp.parameters_.variogram(False) if line.quantity == "sill")
    ax.axhline(sill, color=GREY, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1, label=f"sill {sill:.3g}")
    text = f"fitted, nugget {nugget:.3g}"
    ax.plot(distances, fitted_semivariance(gp, found, distances), color=BLUE, linewidth=2, zorder=2, label=text)
    ax.plot([0], [nugget], "o", markersize=6, color=BLUE, markerfacecolor="white", zorder=3, clip_on=False)
    outside = (found.semivariance < found.lower) | (found.semivariance > found.upper)
    for chosen, marker, label in ((~outside, "o", "data"), (outside, "D", "data outside the band")):
        if chosen.any():
            places = found.distance[chosen], found.semivariance[chosen]
            ax.scatter(*places, s=30, marker=marker, color=BLACK, zorder=4, label=label)


def _draw_pairs(ax: Axes, found: EmpiricalVariogram) -> None:
    """Light bars at the foot: how many pairs of rows each bin has."""
    most = int(found.n_pairs.max())
    width = 0.8 * float(found.distance.max()) / len(found.distance)
    heights: Any = {"height": BAR_HEIGHT * found.n_pairs / most, "transform": ax.get_xaxis_transform()}
    label = f"pairs of rows, at most {most:,}"
    ax.bar(found.distance, width=width, color=SKY, alpha=0.3, linewidth=0, zorder=-1, label=label, **heights)
