"""`offset` is the logarithm of the exposure, wherever an exposure can be given, and never beside it."""

import inspect

import dask.array as da
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import cross_val_score

import knotwise
from knotwise import GPClassifier, GPRegressor, kernels, plotting, response_scorer
from knotwise.errors import InvalidInputError

RNG = np.random.default_rng(4)
X = RNG.uniform(size=(60, 2))
OFFSET = RNG.uniform(-6, 6, 60)
EXPOSURE = np.exp(OFFSET)
Y = RNG.poisson(EXPOSURE * (1 + X[:, 0])).astype(float)


def model(likelihood="poisson"):
    return GPRegressor(kernels.SquaredExponential(), likelihood=likelihood, knots=5, random_state=0)


CALLS = {
    "predict": lambda gp, **size: gp.predict(X, **size),
    "predict with std": lambda gp, **size: gp.predict(X, return_std=True, **size)[1],
    "predict_median": lambda gp, **size: gp.predict_median(X, **size),
    "predict_interval": lambda gp, **size: gp.predict_interval(X, **size),
    "predict_exceedance": lambda gp, **size: gp.predict_exceedance(X, 3.0, **size),
    "log_predictive_density": lambda gp, **size: gp.log_predictive_density(X, Y, **size),
    "score": lambda gp, **size: gp.score(X, Y, **size),
    "predict_total": lambda gp, **size: gp.predict_total(X, random_state=0, **size).upper,
    "sample_observations": lambda gp, **size: gp.sample_observations(X, 3, random_state=0, **size),
    "response_scorer": lambda gp, **size: response_scorer(mean_poisson_deviance)(gp, X, Y, **size),
}


def curves(ax):
    """The numbers of what a picture shows: lines, bars and bands."""
    lines = [line.get_xydata() for line in ax.lines]
    bars = [[bar.get_x(), bar.get_height()] for bar in ax.patches if hasattr(bar, "get_height")]
    bands = [path.vertices for drawn in ax.collections for path in drawn.get_paths()]
    return np.concatenate([np.ravel(each) for each in (*lines, *bars, *bands)])


PICTURES = {
    "plot_fit": lambda plot, gp, ax, **size: plot(gp, X, Y, ax=ax, **size),
    "plot_fit of rates": lambda plot, gp, ax, **size: plot(gp, X, kind="mean", ax=ax, **size),
    "plot_calibration": lambda plot, gp, ax, **size: plot(gp, X, Y, ax=ax, **size),
    "plot_pit": lambda plot, gp, ax, **size: plot(gp, X, Y, ax=ax, **size),
    "plot_observed": lambda plot, gp, ax, **size: plot(gp, X, Y, ax=ax, **size),
}


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, Y, exposure=EXPOSURE)


def test_a_fit_with_the_offset_is_the_fit_with_the_exposure_to_the_bit(fitted):
    gp = model().fit(X, Y, offset=OFFSET)
    assert gp.log_evidence_ == fitted.log_evidence_
    assert_array_equal(gp.predict(X, offset=0), fitted.predict(X, exposure=1))
    with pytest.raises(InvalidInputError, match="This model was fitted with `exposure`"):
        gp.predict(X, return_std=True)


@pytest.mark.parametrize("call", CALLS.values(), ids=[name.replace(" ", "-") for name in CALLS])
def test_a_prediction_at_the_offset_is_that_at_the_exposure_to_the_bit(fitted, call):
    assert_array_equal(call(fitted, offset=OFFSET), call(fitted, exposure=EXPOSURE))
    with pytest.raises(InvalidInputError, match=r"`exposure` and `offset` were both given.*Give one"):
        call(fitted, offset=OFFSET, exposure=EXPOSURE)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_at_the_offset_is_that_at_the_exposure_to_the_bit(fitted, name):
    plot = getattr(plotting, name.partition(" ")[0])
    call, new = PICTURES[name], lambda: Figure().subplots()
    expected = curves(call(plot, fitted, new(), exposure=EXPOSURE))
    assert_array_equal(curves(call(plot, fitted, new(), offset=OFFSET)), expected)
    assert not np.array_equal(curves(call(plot, fitted, new(), offset=OFFSET + 1)), expected) or name.endswith("rates")
    with pytest.raises(InvalidInputError, match=r"`exposure` and `offset` were both given"):
        call(plot, fitted, new(), offset=OFFSET, exposure=EXPOSURE)


def test_a_page_at_the_offset_is_that_at_the_exposure(fitted, tmp_path):
    by_offset = fitted.report(tmp_path / "fit.html", X, Y, offset=OFFSET).read_text(encoding="utf-8")
    by_exposure = fitted.report(tmp_path / "fit.html", X, Y, exposure=EXPOSURE).read_text(encoding="utf-8")
    assert by_offset == by_exposure
    with pytest.raises(InvalidInputError, match=r"`exposure` and `offset` were both given"):
        fitted.report(tmp_path / "fit.html", X, Y, exposure=EXPOSURE, offset=OFFSET)
    with pytest.raises(InvalidInputError, match="belong to rows"):
        fitted.report(tmp_path / "fit.html", offset=OFFSET)


def test_everything_public_that_takes_an_exposure_takes_an_offset():
    places = [knotwise, *(getattr(knotwise, name) for name in ("plotting", "spatial"))]
    public = [getattr(place, name) for place in places for name in place.__all__]
    functions = [each for each in public if inspect.isfunction(each)]
    for each in filter(inspect.isclass, public):
        functions += [method for name, method in inspect.getmembers(each, inspect.isfunction) if name[0] != "_"]
    taking = [each for each in functions if "exposure" in inspect.signature(each).parameters]
    assert len(taking) > 12
    assert [each.__name__ for each in taking if "offset" not in inspect.signature(each).parameters] == []


def test_labels_have_neither_exposure_nor_offset():
    gp = GPClassifier(kernels.SquaredExponential(), knots=5, optimizer=None).fit(X, Y > 1)
    with pytest.raises(InvalidInputError, match=r"no meaning for the likelihood Bernoulli, nor has `offset`"):
        plotting.plot_calibration(gp, X, Y > 1, offset=OFFSET, ax=Figure().subplots())


def test_one_number_is_the_offset_of_all_rows(fitted):
    assert_array_equal(fitted.predict(X, offset=0.0), fitted.predict(X, exposure=1))
    assert_allclose(fitted.predict(X, offset=np.log(7)), 7 * fitted.predict(X, exposure=1), rtol=1e-14)


def test_a_dask_offset_is_the_exposure_of_its_partitions(fitted):
    parts = {"X": da.from_array(X, (20, 2)), "offset": da.from_array(OFFSET, 20)}
    gp = model().fit(parts["X"], da.from_array(Y, 20), offset=parts["offset"])
    assert_allclose(gp.log_evidence_, fitted.log_evidence_, rtol=1e-10)
    lazy = gp.predict(parts["X"], offset=parts["offset"])
    assert_allclose(lazy.compute(), gp.predict(X, exposure=EXPOSURE), rtol=1e-12)


def test_what_is_no_offset_is_said_in_words():
    with pytest.raises(InvalidInputError, match=r"`exposure` and `offset` were both given"):
        model().fit(X, Y, exposure=EXPOSURE, offset=OFFSET)
    with pytest.raises(InvalidInputError, match=r"`offset` is 1000 in row 2, but it is the logarithm of the exposure"):
        model().fit(X, Y, offset=np.where(np.arange(60) == 2, 1000.0, OFFSET))
    with pytest.raises(InvalidInputError, match=r"`offset` contains NaN in row 5"):
        model().fit(X, Y, offset=np.where(np.arange(60) == 5, np.nan, OFFSET))
    with pytest.raises(InvalidInputError, match=r"no meaning for the likelihood Gaussian, nor has `offset`"):
        model("gaussian").fit(X, Y, offset=OFFSET)
    with pytest.raises(InvalidInputError, match=r"one value for each of the 60 rows"):
        model().fit(X, Y, offset=OFFSET[:7])


def test_offsets_are_routed_through_cross_validation():
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        gp = model().set_fit_request(offset=True)
        scores = cross_val_score(
            gp, X, Y, scoring=response_scorer(mean_poisson_deviance), cv=2, params={"offset": OFFSET}
        )
    assert np.isfinite(scores).all() and (scores > -20).all()
