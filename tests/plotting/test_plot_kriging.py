"""Semivariograms and maps of errors: what is drawn is what was computed, and what cannot be drawn is said."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from plotted import COUNTS, X1, X2, X3, Y1, Y2, dots, held
from scipy.spatial.distance import pdist

from knotwise import GPClassifier, GPRegressor, cross_validate
from knotwise.errors import InvalidInputError
from knotwise.kernels import Linear, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.plotting import plot_errors, plot_variogram


def test_the_curve_begins_at_the_nugget_and_dots_are_semivariances(line):
    ax = plot_variogram(line, X1, Y1, n_bins=4, max_distance=2.0, n_simulations=0)
    (curve,) = [each for each in ax.get_lines() if len(each.get_xdata()) > 200]
    assert_allclose(curve.get_ydata()[0], line.likelihood_.noise_variance, rtol=1e-2)
    first, second = np.triu_indices(len(X1), 1)
    near = np.abs(X1[first, 0] - X1[second, 0]) < 0.5
    expected = np.mean((Y1[first] - Y1[second])[near] ** 2) / 2
    assert_allclose(dots(ax, "data")[0, 1], expected, rtol=1e-9)
    far = np.abs(X1[first, 0] - X1[second, 0]) < 2
    shares = np.array([bar.get_height() for bar in ax.patches])
    assert_allclose(shares[0] / shares.sum(), near.sum() / far.sum(), rtol=1e-12)


def test_distances_of_degrees_are_chords_in_kilometres_and_levels_are_apart():
    degrees = pd.DataFrame(X2 * [3.0, 2.0] + [170.0, 40.0], columns=["lon", "lat"])
    gp = held(coords="lonlat").fit(degrees, Y2)
    ax = plot_variogram(gp, degrees, Y2, n_bins=5, n_simulations=0)
    lon, lat = np.radians(degrees.to_numpy()).T
    places = 6371.0088 * np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    chords = pdist(places)
    nearest = chords < chords.max() / 10  # the first of 5 bins, up to half of the largest distance
    assert_allclose(dots(ax, "data")[0, 0], chords[nearest].mean(), rtol=1e-9)
    assert ax.get_xlabel() == "distance in lon,lat (km)"
    soil = X3[["height"]].assign(soil=np.where(np.arange(80) % 3, "clay", "sand"))
    mixed = held().fit(soil, Y2)
    assert plot_variogram(mixed, soil, Y2, n_simulations=0).get_xlabel().startswith("distance in height, soil")
    found = cross_validate(mixed, soil, Y2, blocks=np.arange(80) % 4, refit=False)
    with pytest.raises(InvalidInputError, match="two columns of numbers, but 'height' and 'soil'"):
        plot_errors(found, features=["height", "soil"])


def test_the_band_is_the_same_for_the_same_seed(line):
    bands = []
    for _ in range(2):
        ax = plot_variogram(line, X1, Y1, n_simulations=19, max_rows=40)
        bands.append(ax.collections[0].get_paths()[0].vertices)
    assert_allclose(*bands, rtol=0)


def test_counts_and_kernels_without_a_sill_are_refused_in_words():
    counts = held("poisson").fit(X1, COUNTS)
    with pytest.raises(InvalidInputError, match="Poisson are not f with noise"):
        plot_variogram(counts, X1, COUNTS)
    rising = GPRegressor(
        SquaredExponential(1.0, 1.0, column_scales="standard") + Linear(1.0, column_scales="standard"),
        Gaussian(0.1),
        knots=5,
        optimizer=None,
    )
    with pytest.raises(InvalidInputError, match="a part, Linear, that is not stationary"):
        plot_variogram(rising.fit(X1, Y1), X1, Y1)
    with pytest.raises(InvalidInputError, match="the nearest two rows are"):
        plot_variogram(held().fit(X1, Y1), X1, Y1, max_distance=1e-9)


def test_a_map_of_errors_has_each_row_at_its_place_and_rings_around_those_outside():
    gp = held(Gaussian(1e-3)).fit(X2, Y2)
    found = cross_validate(gp, X2, Y2, blocks=np.arange(80) % 4, refit=False)
    ax = plot_errors(found)
    outside = ~found.inside
    assert 0 < outside.sum() < 80
    assert_allclose(dots(ax, f"outside: {outside.sum()}"), X2[outside])
    (rings,) = [c for c in ax.collections if c.get_label().startswith("outside")]
    assert_allclose(rings.get_array(), found.error[outside])
    low, high = rings.get_clim()
    assert low == -high == -np.abs(found.error).max()


def test_a_map_of_two_classes_has_rings_around_those_predicted_wrong():
    labels = np.where(np.median(Y2) < Y2, "wet", "dry")
    found = cross_validate(GPClassifier(knots=9, random_state=0), X2, labels, blocks=4)
    ax = plot_errors(found)
    wrong = (found.mean > 0.5) != (labels == "wet")
    assert 0 < wrong.sum() < 80
    assert_allclose(dots(ax, f"wrong: {wrong.sum()}"), X2[wrong])
    assert f"log loss {found.scores['log_loss']:.3g}" in ax.get_title(loc="left")


def test_a_model_is_no_cross_validation():
    with pytest.raises(InvalidInputError, match=r"cross_validate\(.* but got a GPRegressor"):
        plot_errors(held().fit(X2, Y2))


def test_columns_of_a_map_of_errors_are_chosen_by_name():
    gp = held().fit(X3, Y2)
    found = cross_validate(gp, X3, pd.Series(Y2), blocks=4, refit=False)
    with pytest.raises(InvalidInputError, match=r"features=\('height', 'width'\)"):
        plot_errors(found)
    with pytest.raises(InvalidInputError, match="two different columns"):
        plot_errors(found, features=["depth", "depth"])
    ax = plot_errors(found, features=["depth", "width"], standardized=True)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("depth", "width")
    one = cross_validate(held().fit(X1, Y1), X1, Y1, refit=False)
    with pytest.raises(InvalidInputError, match="needs two columns"):
        plot_errors(one)
