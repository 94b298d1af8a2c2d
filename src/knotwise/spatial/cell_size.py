"""How fine should cells be? Fits at finer and finer ones, until halving them no longer changes the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from knotwise.errors import InvalidInputError, warn
from knotwise.estimators.tested import without_extrapolation_warning
from knotwise.spatial.counting import Cells, count_points
from knotwise.spatial.grids import spread_of_mean
from knotwise.spatial.windows import Window, require_spatial, steps_of, window_of

#: cells with which the search begins, and how many a window may have at most
FIRST_CELLS, MOST_CELLS = 100, 8000


@dataclass(frozen=True)
class Step:
    """One size of cells that `choose_cell` tried, and what halving the cells changed; NaN for the finest.

    Attributes
    ----------
    cell : (float, float)
        Width and height of the cells, in the units of the window.
    n_cells : int
        How many cells there are.
    total : float
        The expected number of points in the window.
    change_of_intensity : float
        Mean distance of the intensities with these and with half the cells, relative to the mean intensity.
    change_of_totals : float
        The largest change among the totals of the four quarters of the bounding box, relative to the total of an
        average quarter.
    sd_of_intensity : float
        Mean posterior standard deviation of the intensity, relative to its mean, beside which a change can be seen.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.spatial import choose_cell
    >>> points = np.random.default_rng(0).uniform(size=(200, 2)) ** [2, 1]
    >>> gp = GPRegressor(likelihood="poisson", knots=5, random_state=0)
    >>> step = choose_cell(points, (0, 0, 1, 1), gp, start=0.25).steps[0]
    >>> step.cell, step.n_cells, step.change < 0.1
    ((0.25, 0.25), 16, True)
    """

    cell: tuple[float, float]
    n_cells: int
    total: float
    change_of_intensity: float
    change_of_totals: float
    sd_of_intensity: float

    @property
    def change(self) -> float:
        """The larger of the two changes, which `tolerance` is compared with."""
        return max(self.change_of_intensity, self.change_of_totals)


@dataclass(frozen=True, eq=False)
class CellChoice:
    """How fine cells should be, and the fits that show it; what `choose_cell` returns, shown when printed.

    Attributes
    ----------
    cell : tuple of float
        Width and height of the chosen cells: the coarsest that half of them confirm.
    converged : bool
        Whether half the cell changed intensity and totals by at most `tolerance`.
    tolerance : float
        The share.
    steps : list of Step
        Each size that was tried: cell, n_cells, total, change_of_intensity, change_of_totals, sd_of_intensity.
    cells : Cells
        The window in the chosen cells.
    gp : estimator
        Fitted to them.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.spatial import choose_cell
    >>> points = np.random.default_rng(0).uniform(size=(200, 2)) ** [2, 1]
    >>> gp = GPRegressor(likelihood="poisson", knots=5, random_state=0)
    >>> choice = choose_cell(points, (0, 0, 1, 1), gp, start=0.25)
    >>> choice.cell, int(choice.cells.count.sum())
    ((0.25, 0.25), 200)
    """

    cell: tuple[float, float]
    converged: bool
    tolerance: float
    steps: list[Step]
    cells: Cells = field(repr=False)
    gp: Any = field(repr=False)

    def __str__(self) -> str:
        lines = [
            f"{'':39} halving the cells changes",
            f"{'cell':>21} {'cells':>7} {'total':>9} {'the intensity by':>17} {'its sd is':>10} {'and totals by':>14}",
        ]
        for step in self.steps:
            side = f"{step.cell[0]:.4g} x {step.cell[1]:.4g}"
            changes = f"{step.change_of_intensity:17.1%} {step.sd_of_intensity:10.1%} {step.change_of_totals:14.1%}"
            finest = f"{'(the finest)':>17}"
            lines.append(
                f"{side:>21} {step.n_cells:7,} {step.total:9.5g} {finest if np.isnan(step.change) else changes}"
            )
        how = "converged" if self.converged else "NOT converged"
        lines.append(f"chosen: {self.cell[0]:.4g} x {self.cell[1]:.4g}, {how} within {self.tolerance:.0%}")
        return "\n".join(lines)


def choose_cell(
    points: Any,
    window: Any,
    gp: Any = None,
    *,
    covariates: Any = None,
    start: Any = None,
    tolerance: float = 0.1,
    max_cells: int = MOST_CELLS,
) -> CellChoice:
    """How fine should the cells of a point pattern be? Halve them until intensity and totals stay as they are.

    The model is fitted to cells, then to cells of half the side, and so on. A size is fine enough when halving it
    changes the intensity, on average over the window, and the expected number of points in each quarter of it by at
    most `tolerance` of their mean. The table shows the posterior standard deviation of the intensity beside it: a
    change far below that matters little. Points that keep company at short distances, as seedlings do, can make finer
    cells tell of ever finer structure, so that nothing converges; `nugget="fit"` takes what is shorter than a cell.

    Parameters
    ----------
    points : array [n, 2], GeoDataFrame or GeoSeries of points
        x and y, in the units of the map.
    window : (west, south, east, north), polygon, GeoDataFrame or GeoSeries of polygons
        Where points were looked for.
    gp : GPRegressor, optional
        With its settings, of counts; it is cloned. By default `GPRegressor(likelihood="poisson", random_state=0)`, with
        `standardize="common"` where there are no covariates, so that distances on the map keep their meaning.
    covariates : dict or xarray.Dataset, optional
        By name, functions of x and y, grids (x, y, values) or `xarray.DataArray`s, read at a point of each cell.
    start : float or (width, height), optional
        The first side; by default that of about 100 cells.
    tolerance : float, default 0.1
        Share by which the answer may still change.
    max_cells : int, default 8000
        No more cells than this are tried; a warning says that the answer had not converged.

    Returns
    -------
    CellChoice
        `cell`, `converged` and `steps`, a table when printed; `cells` and the fitted `gp` go with it.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.spatial import choose_cell
    >>> points = np.random.default_rng(0).uniform(size=(200, 2)) ** [2, 1]
    >>> gp = GPRegressor(likelihood="poisson", knots=5, random_state=0)
    >>> choice = choose_cell(points, (0, 0, 1, 1), gp, start=0.25)
    >>> choice.converged, choice.steps[0].n_cells
    (True, 16)
    """
    require_spatial()
    frame = window_of(window)
    gp = _default_model(covariates) if gp is None else gp
    if not (isinstance(tolerance, int | float) and 0 < tolerance < 1):
        raise InvalidInputError(f"`tolerance` is {tolerance!r}; it must be a share between 0 and 1, such as 0.1.")
    side = np.sqrt(frame.shape.area / FIRST_CELLS)
    cell = steps_of((side, side) if start is None else start, "start")
    if not hasattr(gp, "likelihood"):
        raise InvalidInputError(f"`gp` must be a GPRegressor of counts, but is a {type(gp).__name__}.")
    if frame.shape.area > max_cells * cell[0] * cell[1]:
        raise InvalidInputError(
            f"`start` is {cell[0]:g} x {cell[1]:g}, of which the window has more than {max_cells:,} (`max_cells`). "
            "Begin with larger cells, or allow more."
        )
    tried = [_fit(gp, points, window, cell, covariates)]
    steps: list[Step] = []
    converged = False
    while not converged:
        width, height = (side / 2 for side in tried[-1][0].cell)
        if frame.shape.area > max_cells * width * height:
            break
        tried.append(_fit(gp, points, window, (width, height), covariates))
        steps.append(_step(frame, *tried[-2:]))
        converged = steps[-1].change <= tolerance
    if not converged:
        moved = f": the last halving changed it by {steps[-1].change:.0%}" if steps else ""
        differ = len(steps) > 1 and steps[-1].change >= steps[-2].change
        advice = " The changes do not shrink with the cells, so the fits themselves differ: try `knots='auto'`."
        warn(
            f"The intensity had not converged within {tolerance:.0%} at {len(tried[-1][0]):,} cells{moved}. Allow more "
            f"(`max_cells`, now {max_cells:,}), or say what share matters (`tolerance`)." + (advice if differ else "")
        )
    steps.append(_finest(*tried[-1]))
    cells, fitted = tried[-2] if converged else tried[-1]
    return CellChoice(cells.cell, converged, tolerance, steps, cells, fitted)


def _default_model(covariates: Any) -> Any:
    from knotwise.estimators.regressor import GPRegressor

    scale = "columns" if covariates is not None else "common"
    return GPRegressor(likelihood="poisson", standardize=scale, random_state=0)


def _fit(gp: Any, points: Any, window: Any, cell: tuple[float, float], covariates: Any) -> tuple[Cells, Any]:
    cells = count_points(points, window, cell=cell, covariates=covariates)
    return cells, clone(gp).fit(cells.X, cells.count, exposure=cells.area)


def _finest(cells: Cells, gp: Any) -> Step:
    with without_extrapolation_warning():
        total = float(gp.predict(cells.X, exposure=cells.area).sum())
    return Step(cells.cell, len(cells), total, np.nan, np.nan, np.nan)


def _step(frame: Window, coarse: tuple[Cells, Any], fine: tuple[Cells, Any]) -> Step:
    """What changes from one fit to the next, at the cells of the finer one."""
    cells, area = fine[0], fine[0].area
    with without_extrapolation_warning():
        rates, before = (gp._prediction(cells.X) for _, gp in (fine, coarse))
    before, after = before.mean, rates.mean
    total = float(after @ area)
    west, south, east, north = frame.bounds
    quarter = 2 * (cells.X["x"] > (west + east) / 2).to_numpy() + (cells.X["y"] > (south + north) / 2).to_numpy()
    moved = np.bincount(quarter, (before - after) * area)
    return Step(
        coarse[0].cell,
        len(coarse[0]),
        float(coarse[1].predict(coarse[0].X, exposure=coarse[0].area).sum()),
        float(np.abs(before - after) @ area / total),
        float(np.abs(moved).max() / (total / 4)),
        float(spread_of_mean(rates) @ area / total),
    )
