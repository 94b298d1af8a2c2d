"""Known noise of each row: new observations ask for it again, as counts do for their exposure."""

import json
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import knotwise
from knotwise import GPClassifier, GPRegressor, cross_validate, plotting
from knotwise.cli import main as cli
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.persistence import archive
from knotwise.plotting.view import view_of
from knotwise.report.data import data_of

RNG = np.random.default_rng(5)
N = 40
X = np.sort(RNG.uniform(size=(N, 1)), axis=0)
SD = 0.02 + 0.3 * X[:, 0]
Y = np.sin(6 * X[:, 0]) + SD * RNG.normal(size=N)
NEW = np.array([[0.0], [0.4], [1.0]])
#: known noise of the rows, of one number or an array
NOISES = {"array": SD**2, "number": 0.04}


def unfitted(kind="knots", **options):
    """A model that keeps its parameters, so that it is quick."""
    how = {
        "knots": {"knots": X[::3]},
        "exact": {"approximation": "full"},
        "neighbours": {"knots": X[::8], "n_neighbors": 5},
    }
    settings = {"mean": 0.0, "optimizer": None, "random_state": 0, "n_jobs": 1} | how[kind] | options
    return GPRegressor(SquaredExponential(1.0, 1.0), **settings)


@cache
def fitted(kind="knots", noise="array"):
    return unfitted(kind).fit(X, Y, noise_variance=NOISES[noise])


def through_a_file(gp, folder):
    gp.save(folder / "m.knotwise")
    return knotwise.load(folder / "m.knotwise")


ORIGINS = {
    "array": lambda folder: fitted(),
    "number": lambda folder: fitted(noise="number"),
    "exact": lambda folder: fitted("exact"),
    "neighbours": lambda folder: fitted("neighbours"),
    "file": lambda folder: through_a_file(fitted(), folder),
    "file of the exact GP": lambda folder: through_a_file(fitted("exact"), folder),
    "file with neighbours": lambda folder: through_a_file(fitted("neighbours"), folder),
    "file of a file": lambda folder: through_a_file(through_a_file(fitted(), folder), folder),
    "pickle": lambda folder: pickle.loads(pickle.dumps(fitted())),
}


def total_of(gp, **options):
    """Ends of the interval of a total, whatever the few knots leave out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        totals = gp.predict_total(X, **options)
    return np.concatenate([totals.lower, totals.upper])


def rows_of_report(gp, **noise):
    """The rows that `gp.report` would show, in which their noise is checked; the page itself takes longer."""
    given = {"exposure": None, "trials": None, "noise_variance": None} | noise
    data = data_of(view_of(gp), X, Y, **given)
    return np.column_stack([data.X, data.y])


#: calls about observations, given their noise
NEEDS_NOISE = {
    "predict with std": lambda gp, **noise: gp.predict(X, return_std=True, **noise),
    "predict with cov": lambda gp, **noise: gp.predict(X, return_cov=True, **noise),
    "predict_interval": lambda gp, **noise: gp.predict_interval(X, **noise),
    "predict_interval of observations": lambda gp, **noise: gp.predict_interval(X, kind="observation", **noise),
    "log_predictive_density": lambda gp, **noise: gp.log_predictive_density(X, Y, **noise),
    "sample_observations": lambda gp, **noise: gp.sample_observations(X, random_state=0, **noise),
    "predict_total of observations": lambda gp, **noise: total_of(gp, kind="observation", **noise),
    "predictive": lambda gp, **noise: gp.predictive(X, **noise).pit(Y, 0),
    "plot_fit": lambda gp, **noise: plotting.plot_fit(gp, X, **noise),
    "plot_calibration": lambda gp, **noise: plotting.plot_calibration(gp, X, Y, **noise),
    "plot_pit": lambda gp, **noise: plotting.plot_pit(gp, X, Y, **noise),
    "plot_observed": lambda gp, **noise: plotting.plot_observed(gp, X, Y, **noise),
    "plot_variogram": lambda gp, **noise: plotting.plot_variogram(gp, X, Y, n_simulations=9, **noise),
    "report": rows_of_report,
    "cross_validate": lambda gp, **noise: cross_validate(gp, X, Y, blocks=5, refit=False, **noise).log_density,
}
#: calls about the function, or the mean alone
NEEDS_NOTHING = {
    "predict": lambda gp: gp.predict(X),
    "predict_latent": lambda gp: gp.predict_latent(X).variance,
    "predict_interval of the mean": lambda gp: gp.predict_interval(X, kind="mean"),
    "predict_interval of f": lambda gp: gp.predict_interval(X, kind="latent"),
    "predict_median": lambda gp: gp.predict_median(X),
    "predict_exceedance": lambda gp: gp.predict_exceedance(X, 0.5),
    "score": lambda gp: gp.score(X, Y),
    "sample_latent": lambda gp: gp.sample_latent(X, random_state=0),
    "predict_total": total_of,
    "plot_fit of the mean": lambda gp: plotting.plot_fit(gp, X, Y, kind="mean"),
    "plot_effects": lambda gp: plotting.plot_effects(gp, X)[0],
}


@pytest.fixture(autouse=True)
def _closed():
    """Close the figures of a test."""
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("call", NEEDS_NOISE)
def test_a_call_about_observations_is_refused_without_their_noise_and_says_what_to_write(call, origin, tmp_path):
    gp = ORIGINS[origin](tmp_path)
    with pytest.raises(InvalidInputError, match=r"`noise_variance`.*Write `.*, noise_variance=\.\.\.\)`") as caught:
        NEEDS_NOISE[call](gp)
    assert "predict_latent" in str(caught.value) and "kind='mean'" in str(caught.value)
    assert caught.value.missing == "noise_variance"


@pytest.mark.parametrize("kind", ["exact", "knots", "neighbours"])
@pytest.mark.parametrize("call", NEEDS_NOISE)
def test_a_call_about_observations_answers_with_their_noise(call, kind):
    zero = () if call == "cross_validate" else (0.0,)  # which is that of training rows, too
    for noise in (*zero, 0.04, SD**2):
        found = NEEDS_NOISE[call](fitted(kind), noise_variance=noise)
        assert not isinstance(found, np.ndarray) or np.isfinite(found).all()


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("call", NEEDS_NOTHING)
def test_a_call_about_the_function_needs_no_noise(call, origin, tmp_path):
    found = NEEDS_NOTHING[call](ORIGINS[origin](tmp_path))
    assert not isinstance(found, np.ndarray) or np.isfinite(found).all()


@pytest.mark.parametrize("call", NEEDS_NOISE)
def test_a_model_with_learned_or_held_noise_is_asked_as_before(call):
    for options in ({}, {"likelihood": Gaussian(0.04), "fixed": ["noise_variance"]}):
        NEEDS_NOISE[call](unfitted(**options).fit(X, Y))


@pytest.mark.parametrize("kind", ["exact", "knots", "neighbours"])
def test_an_observation_has_the_variance_of_the_function_and_its_own_noise(kind):
    gp, noise = fitted(kind), np.array([0.02, 0.1, 0.32]) ** 2
    latent = gp.predict_latent(NEW)
    mean, std = gp.predict(NEW, return_std=True, noise_variance=noise)
    assert_allclose(std**2, latent.variance + noise, rtol=1e-12)
    assert_allclose(np.diag(gp.predict(NEW, return_cov=True, noise_variance=noise)[1]), std**2, rtol=1e-8)
    lower, upper = gp.predict_interval(NEW, 0.9, noise_variance=noise).T
    assert_allclose(upper - lower, 2 * norm.ppf(0.95) * std, rtol=1e-10)
    density = gp.log_predictive_density(NEW, [0.1, 0.2, 0.3], noise_variance=noise)
    assert_allclose(density, norm(mean, std).logpdf([0.1, 0.2, 0.3]), rtol=1e-10)


@pytest.mark.failure(54)
@pytest.mark.parametrize("kind", ["exact", "knots", "neighbours"])
def test_an_observation_without_noise_is_the_function(kind):
    gp = fitted(kind)
    assert_allclose(gp.predict(NEW, return_std=True, noise_variance=0)[1], gp.predict_latent(NEW).std, rtol=1e-12)
    bands = gp.predict_interval(NEW, noise_variance=0), gp.predict_interval(NEW, kind="mean")
    assert_allclose(*bands, rtol=1e-12)
    draws = (gp.sample_observations(NEW, 3, noise_variance=0.0, random_state=1), gp.sample_latent(NEW, 3, 1))
    assert_allclose(*draws, rtol=1e-12)


@pytest.mark.parametrize("noise", [-1e-9, np.nan, np.inf, [0.1, 0.1], [[0.1, 0.1, 0.1]]], ids=str)
def test_noise_that_cannot_be_is_refused_at_prediction(noise):
    with pytest.raises(InvalidInputError, match="`noise_variance` must"):
        fitted().predict(NEW, return_std=True, noise_variance=noise)


def test_noise_of_data_that_are_not_gaussian_is_refused():
    counts = unfitted(likelihood="poisson").fit(X, np.arange(N) % 4)
    with pytest.raises(InvalidInputError, match="`noise_variance` is for Gaussian"):
        plotting.plot_fit(counts, X, noise_variance=0.1)


def test_a_band_of_a_curve_is_of_the_median_noise():
    ax = plotting.plot_fit(fitted(), X, Y, noise_variance=SD**2)
    words = f"95 % of new observations with noise sd {np.sqrt(np.median(SD**2)):.3g}"
    assert words in ax.get_legend_handles_labels()[1]


def test_a_map_of_observations_asks_for_one_noise():
    pytest.importorskip("xarray")
    pytest.importorskip("shapely")
    from knotwise.spatial import predict_grid

    places = np.random.default_rng(1).uniform(size=(30, 2))
    kernel = SquaredExponential(1.0, 1.0, column_scales="standard")
    gp = GPRegressor(kernel, knots=places[::3], optimizer=None, n_jobs=1)
    gp.fit(places, np.sin(5 * places[:, 0]), noise_variance=np.linspace(0.01, 0.1, 30))
    options = {"spacing": 0.5, "region": (0, 0, 1, 1)}
    with pytest.raises(InvalidInputError, match=r"predict_grid\(gp, kind='observation', noise_variance=\.\.\.\)"):
        predict_grid(gp, kind="observation", **options)
    of_mean, of_new = predict_grid(gp, **options), predict_grid(gp, kind="observation", noise_variance=0.04, **options)
    assert_allclose(of_new["sd"] ** 2, of_mean["sd"] ** 2 + 0.04, rtol=1e-6)


def test_a_page_about_a_fit_with_known_noise_has_that_of_its_rows_and_says_how_to_predict(tmp_path):
    fitted().report(tmp_path / "here.html")
    through_a_file(fitted(), tmp_path).report(tmp_path / "file.html")
    for name in ("here", "file"):
        page = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert "with known noise" in page and "--noise-variance COLUMN" in page
        assert "noise_variance=noise_variance" in page


def test_labels_have_no_known_noise_in_pictures_and_pages(tmp_path):
    gp = GPClassifier(knots=5, random_state=0, n_jobs=1).fit(X, Y > 0)
    calls = (
        lambda: plotting.plot_calibration(gp, X, Y > 0, noise_variance=0.1),
        lambda: gp.report(tmp_path / "page.html", X, Y > 0, noise_variance=0.1),
    )
    for call in calls:
        with pytest.raises(InvalidInputError, match="`noise_variance` is for Gaussian data"):
            call()


def test_an_offset_is_no_known_noise():
    for call in (lambda gp: gp.predict_interval(X, offset=0.0), lambda gp: gp.sample_observations(X, 2, offset=0.0)):
        with pytest.raises(InvalidInputError, match="exposure"):
            call(fitted())


def test_weights_count_rows_of_known_noise_where_parameters_are_held():
    """Weights are relative only where a dispersion is learned: with known noise two copies tell more than one row."""
    rows = np.repeat(np.arange(N), 2)
    labels = np.arange(N) % 4
    options = {"refit": False, "noise_variance": SD**2}
    weighted = cross_validate(fitted(), X, Y, blocks=labels, sample_weight=np.full(N, 2.0), **options)
    repeated = cross_validate(
        fitted(), X[rows], Y[rows], blocks=labels[rows], refit=False, noise_variance=SD[rows] ** 2
    )
    assert_allclose(weighted.mean, repeated.mean[::2], rtol=1e-8)
    assert_allclose(weighted.sd, repeated.sd[::2], rtol=1e-8)


# -- Dask ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_partitions_ask_for_the_noise_too_and_have_the_same_answers(noise):
    da = pytest.importorskip("dask.array")
    lazy = [da.from_array(values, chunks=15) for values in (X, Y)]
    given = NOISES[noise] if noise == "number" else da.from_array(NOISES[noise], chunks=15)
    gp = unfitted().fit(*lazy, noise_variance=given)
    here = fitted(noise=noise)
    with pytest.raises(InvalidInputError, match="noise_variance"):
        gp.predict(lazy[0], return_std=True)
    with pytest.raises(InvalidInputError, match="noise_variance"):
        gp.log_predictive_density(*lazy)
    found = [part.compute() for part in gp.predict(lazy[0], return_std=True, noise_variance=given)]
    assert_allclose(found, here.predict(X, return_std=True, noise_variance=NOISES[noise]), rtol=1e-8)
    assert_allclose(gp.predict(lazy[0]).compute(), here.predict(X), rtol=1e-8)


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "knots", "neighbours"])
def test_a_file_says_whether_the_noise_of_rows_was_known(kind, tmp_path):
    held = unfitted(kind, likelihood=Gaussian(0.04), fixed=["noise_variance"]).fit(X, Y)
    assert through_a_file(fitted(kind), tmp_path)._fit.noise_given is True
    assert through_a_file(held, tmp_path)._fit.noise_given is False
    assert through_a_file(unfitted(kind).fit(X, Y), tmp_path)._fit.noise_given is False


def edited(path, change):
    saved = archive.read_archive(path)
    change(saved.manifest["model"]["fit"])
    archive.write_archive(path, archive.Archive(saved.manifest, saved.arrays))
    return path


def test_a_file_that_claims_known_noise_where_it_was_learned_is_refused(tmp_path):
    unfitted(optimizer="lbfgs").fit(X, Y).save(tmp_path / "m.knotwise")
    path = edited(tmp_path / "m.knotwise", lambda fit: fit.update(noise_given=True))
    with pytest.raises(knotwise.errors.ModelFileError, match="noise_given"):
        knotwise.load(path)


# -- at the shell --------------------------------------------------------------------------------------


def table_in(folder, name="data.csv"):
    rows = ["x,y,v", *(f"{x},{y},{v}" for x, y, v in zip(X[:, 0], Y, SD**2, strict=True))]
    (folder / name).write_text("\n".join(rows) + "\n")
    return str(folder / name)


def shell(*words):
    return cli.main([str(word) for word in words])


@pytest.fixture
def model_file(tmp_path):
    data, model = table_in(tmp_path), tmp_path / "m.knotwise"
    options = ("--knots", "8", "--seed", "0", "--no-progress", "--threads", "1")
    assert shell("fit", data, "--target", "y", "--noise-variance", "v", "-o", model, *options) == 0
    return model


def test_the_column_of_the_noise_is_no_input(model_file):
    gp = knotwise.load(model_file)
    assert list(gp.feature_names_in_) == ["x"] and gp._fit.noise_given is True
    again = GPRegressor(knots=8, random_state=0, n_jobs=1).fit(X, Y, noise_variance=SD**2)
    assert_allclose(gp.log_evidence_, again.log_evidence_, rtol=1e-6)


COMMANDS = {
    "predict": lambda model, data, out: ("predict", model, data, "-o", out / "p.csv"),
    "diagnose": lambda model, data, out: ("diagnose", model, data, "--target", "y"),
    "report": lambda model, data, out: ("report", model, data, "--target", "y", "-o", out / "r.html"),
    "plot": lambda model, data, out: ("plot", model, data, "--kind", "pit", "--target", "y", "-o", out / "p.png"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_about_observations_asks_for_a_column_or_a_number(command, model_file, tmp_path, capsys):
    words = COMMANDS[command](model_file, tmp_path / "data.csv", tmp_path)
    assert shell(*words) != 0
    assert "--noise-variance" in capsys.readouterr().err
    for given in ("v", "0.04", "0"):
        assert shell(*words, "--noise-variance", given) in (0, 1)  # 1: a diagnosis has found something
        assert "fitted with" not in capsys.readouterr().err


def test_an_offset_at_the_shell_is_no_known_noise(model_file, tmp_path, capsys):
    words = ("predict", model_file, tmp_path / "data.csv", "-o", tmp_path / "p.csv", "--offset", "v")
    assert shell(*words) == 2
    assert "--offset has no meaning for this model; it takes --noise-variance" in capsys.readouterr().err


def test_predictions_at_the_shell_have_the_noise_of_their_rows(model_file, tmp_path, capsys):
    data, gp = tmp_path / "data.csv", knotwise.load(model_file)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        by_column, by_number = (gp.predict_interval(X, noise_variance=noise) for noise in (SD**2, 0.04))
        of_mean = gp.predict_interval(X, kind="mean")
    for words, expected in (
        (("--noise-variance", "v"), by_column),
        (("--noise-variance", "0.04"), by_number),
        (("--kind", "mean"), of_mean),
    ):
        assert shell("predict", model_file, data, "-o", tmp_path / "p.csv", *words) == 0
        found = np.genfromtxt(tmp_path / "p.csv", delimiter=",", names=True)
        assert_allclose(np.column_stack([found["lower"], found["upper"]]), expected, rtol=1e-6)
    capsys.readouterr()


def test_noise_at_the_shell_is_for_gaussian_data(tmp_path, capsys):
    data = table_in(tmp_path)
    words = ("fit", data, "--target", "y", "--noise-variance", "v", "-o", tmp_path / "m.knotwise")
    assert shell(*words, "--likelihood", "student-t") != 0
    assert "--noise-variance" in capsys.readouterr().err
    assert shell(*("w" if word == "v" else word for word in words)) != 0  # neither a column nor a number
    assert "--noise-variance" in capsys.readouterr().err


def test_cross_validation_at_the_shell_takes_the_noise(tmp_path, capsys):
    words = ("cv", table_in(tmp_path), "--target", "y", "--noise-variance", "v", "--blocks", "4", "--knots", "8")
    assert shell(*words, "--json", "--seed", "0") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == N
    assert_array_equal(found["blocks"], 4)
