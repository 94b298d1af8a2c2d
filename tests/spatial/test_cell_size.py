"""How fine cells should be: what is chosen is confirmed by cells of half the side, by fits of one's own."""

import numpy as np
import pytest

from knotwise import GPClassifier, GPRegressor, kernels
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.spatial import choose_cell, count_points

WINDOW = (0.0, 0.0, 2.0, 1.0)


def intensity(x, y):
    """About 300 points in the window, most of them in a ridge of width 0.2 or so."""
    return 60 + 500 * np.exp(-0.5 * ((x - 0.6 - 0.3 * y) / 0.2) ** 2)


def pattern(rng, rate=600.0):
    places = rng.uniform((0, 0), (2, 1), size=(rng.poisson(2 * rate), 2))
    return places[rng.uniform(size=len(places)) < intensity(*places.T) / rate]


def model():
    return GPRegressor(kernels.SquaredExponential(), likelihood="poisson", knots=8, random_state=0)


def fit(points, cell):
    cells = count_points(points, WINDOW, cell=cell)
    return cells, model().fit(cells.X, cells.count, exposure=cells.area)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_half_the_chosen_cells_give_the_same_intensity_and_totals_within_the_share(seed):
    points = pattern(np.random.default_rng(seed))
    choice = choose_cell(points, WINDOW, model(), start=0.5)
    assert choice.converged and choice.tolerance == 0.1
    coarse, fine = fit(points, choice.cell), fit(points, np.array(choice.cell) / 2)
    cells = fine[0]
    before, after = (each[1].predict(cells.X, exposure=1) for each in (coarse, fine))
    assert np.abs(before - after) @ cells.area <= 0.1 * after @ cells.area
    for side in (cells.X["x"] < 1, cells.X["x"] > 1, cells.X["y"] < 0.5, cells.X["y"] > 0.5):
        assert abs((before - after)[side] @ cells.area[side]) <= 0.1 * after @ cells.area / 2
    # nearer to the truth than a flat intensity, and no farther than the coarsest cells that were tried
    true = intensity(cells.X["x"], cells.X["y"])
    first = fit(points, 0.5)[1].predict(cells.X, exposure=1)
    assert np.abs(before - true) @ cells.area <= np.abs(first - true) @ cells.area * 1.01
    assert np.abs(before - true) @ cells.area < 0.6 * np.abs(true - true.mean()) @ cells.area


def test_coarse_cells_are_not_taken_and_the_steps_say_why():
    """A ridge of width 0.2 cannot be seen in cells of 0.5 x 0.5."""
    points = pattern(np.random.default_rng(1))
    choice = choose_cell(points, WINDOW, model(), start=0.5)
    first, *_, last = choice.steps
    assert first.n_cells == 8 and first.change > 0.1 and max(choice.cell) < 0.5
    assert np.isnan(last.change) and choice.steps[-2].change <= 0.1
    assert choice.cell == choice.steps[-2].cell == choice.cells.cell
    assert abs(choice.steps[-2].total - len(points)) < 0.05 * len(points)
    assert "converged within 10%" in str(choice) and str(choice).count("\n") == len(choice.steps) + 2


def test_a_search_that_ends_before_it_settles_says_so():
    points = pattern(np.random.default_rng(1))
    with pytest.warns(FitWarning, match=r"not converged within 10% at 32 cells: the last halving changed it by \d+%"):
        choice = choose_cell(points, WINDOW, model(), start=0.5, max_cells=40)
    assert not choice.converged and "NOT converged" in str(choice) and len(choice.cells) == 32
    with pytest.raises(InvalidInputError, match="`tolerance` is 5"):
        choose_cell(points, WINDOW, model(), tolerance=5)
    with pytest.raises(InvalidInputError, match=r"`start` is 0.01 x 0.01, of which the window has more than 8,000"):
        choose_cell(points, WINDOW, model(), start=0.01)
    with pytest.raises(InvalidInputError, match="a GPRegressor of counts, but is a GPClassifier"):
        choose_cell(points, WINDOW, GPClassifier())
