"""Rows on Dask: the same estimator, the same code and the same answers."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from threading import Timer

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPClassifier, GPRegressor, load
from knotwise.data import partitions
from knotwise.distributed.blocks import DaskBlocks, LazyRows, RacePass
from knotwise.distributed.held import Held, Part, TreeSum
from knotwise.distributed.places import Cluster, Here
from knotwise.errors import FitWarning, InvalidInputError, NoTrainingDataError, TooLargeError, WorkersLostError
from knotwise.evidence import InMemory, Jitter, Model, Rows, sparse_evidence
from knotwise.evidence.blocks import RowSummary
from knotwise.evidence.inference import Laplace, PowerEP, Variational
from knotwise.kernels import SquaredExponential
from knotwise.knots import OneAtATime
from knotwise.likelihoods import Gaussian, Poisson
from knotwise.means import Constant
from knotwise.numerics.blocks import Serial, is_dask
from knotwise.numerics.weighted import Moments, mean_and_variance
from knotwise.selection.places import NearnessPass

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
delayed = pytest.importorskip("dask").delayed

N = 600
CHUNK = 200
KERNEL = SquaredExponential(1.0, 0.5, column_scales="standard")


@pytest.fixture(autouse=True)
def few_rows_stay_on_dask(monkeypatch):
    """Small data go through the partitions too, as large ones do."""
    monkeypatch.setattr(partitions, "ROWS_AT_DRIVER", 0)


@pytest.fixture(scope="module")
def data():
    """Inputs [N, 2] in the order in which a fit in memory has them, and targets of three kinds."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N, 2))
    X = X[np.argsort(X[:, 0])]
    f = np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1])
    return {
        "X": X,
        "gaussian": f + 0.2 * rng.normal(size=N),
        "poisson": rng.poisson(np.exp(f)).astype(float),
        "bernoulli": (f > 0.5 * rng.normal(size=N)).astype(float),
    }


def lazy(values, chunk=CHUNK):
    return da.from_array(values, chunks=(chunk, *values.shape[1:]))


def regressor(likelihood="gaussian", **options):
    return GPRegressor(likelihood=likelihood, random_state=0, n_jobs=1, **options)


def assert_same_fit(one, other, X, tolerance=1e-8, **size):
    assert one.n_knots_ == other.n_knots_
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=tolerance)
    assert_allclose(one.parameters_.values, other.parameters_.values, rtol=tolerance)
    expected = one.predict(X, **size)
    assert_allclose(other.predict(X, **size), expected, atol=tolerance * np.abs(expected).max())


def assert_on_dask(gp):
    assert isinstance(gp._fit.training.run.blocks, DaskBlocks)


# -- the same answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "bernoulli"])
@pytest.mark.parametrize("knots", [8, "auto"])
def test_equal_blocks_give_the_answer_of_rows_in_memory(likelihood, knots, data):
    X, y = data["X"], data[likelihood]
    options = {"knots": knots, "block_size": CHUNK, "kernel": SquaredExponential(), "approximation": "vfe"}
    here = regressor(likelihood, **options).fit(X, y)
    there = regressor(likelihood, **options).fit(lazy(X), lazy(y))
    assert_on_dask(there)
    assert_same_fit(here, there, X[:50])


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("inference", ["laplace", "variational", "ep"])
def test_every_inference_is_that_of_rows_in_memory(inference, likelihood, data):
    X, y = data["X"][::4], data[likelihood][::4]
    options = {"knots": X[::25], "block_size": 50, "inference": inference, "kernel": SquaredExponential()}
    options["approximation"] = "fic" if inference == "ep" else "vfe"
    here = regressor(likelihood, **options).fit(X, y)
    there = regressor(likelihood, **options).fit(lazy(X, 50), lazy(y, 50))
    assert_on_dask(there)
    assert_same_fit(here, there, X[:50])


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_the_number_of_threads_changes_no_bit(likelihood, data):
    X, y = lazy(data["X"], 130), lazy(data[likelihood], 130)
    options = {"likelihood": likelihood, "knots": 8, "kernel": SquaredExponential(), "random_state": 0}
    fits = [GPRegressor(**options, n_jobs=n).fit(X, y) for n in (1, 2)]
    for fit in fits[1:]:
        assert fit.log_evidence_ == fits[0].log_evidence_
        assert_array_equal(fit.parameters_.values, fits[0].parameters_.values)
        assert_array_equal(fit.knots_, fits[0].knots_)


def test_the_order_of_rows_within_partitions_changes_no_bit(data, rng):
    X, y = data["X"], data["gaussian"]
    order = np.concatenate([start + rng.permutation(CHUNK) for start in range(0, N, CHUNK)])
    one, other = (
        regressor(knots=8, kernel=SquaredExponential()).fit(lazy(X[o]), lazy(y[o])) for o in (np.arange(N), order)
    )
    assert one.log_evidence_ == other.log_evidence_
    assert_array_equal(one.parameters_.values, other.parameters_.values)


def test_unknown_sizes_of_partitions_and_empty_ones_are_the_same_fit(data):
    X, y = data["X"], data["gaussian"]
    known = regressor(knots=8, kernel=KERNEL, block_size=CHUNK).fit(lazy(X), lazy(y))
    keep = lazy(np.ones(N, bool))
    unknown_X, unknown_y = lazy(X)[keep], lazy(y)[keep]
    assert np.isnan(unknown_X.shape[0])
    unknown = regressor(knots=8, kernel=KERNEL, block_size=CHUNK).fit(unknown_X, unknown_y)
    assert unknown.log_evidence_ == known.log_evidence_
    some = lazy(X[:, 0] > X[CHUNK, 0])  # nothing is left of the first partition
    fewer = regressor(knots=8, kernel=SquaredExponential()).fit(lazy(X)[some], lazy(y)[some])
    expected = regressor(knots=8, kernel=SquaredExponential()).fit(X[CHUNK + 1 :], y[CHUNK + 1 :])
    assert_same_fit(expected, fewer, X[:20], 1e-6)


def test_frames_have_names_and_columns_of_any_chunks(data):
    X, y = data["X"], data["gaussian"]
    frame = pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "y": y})
    parts = dd.from_pandas(frame, npartitions=3)
    gp = regressor(knots=8, kernel=SquaredExponential()).fit(parts[["east", "north"]], parts["y"])
    assert gp.feature_names_in_.tolist() == ["east", "north"]
    assert_on_dask(gp)
    arrays = regressor(knots=8, kernel=SquaredExponential()).fit(da.from_array(X, chunks=(CHUNK, 1)), y)
    assert arrays.log_evidence_ == gp.log_evidence_
    with pytest.raises(ValueError, match="feature names"):
        gp.predict(parts[["north", "east"]])


def test_lazy_predictions_of_frames_have_the_names_that_they_say(data):
    X, y = data["X"], data["gaussian"]
    parts = dd.from_pandas(pd.DataFrame({"east": X[:, 0], "north": X[:, 1]}), npartitions=3)
    gp = regressor(knots=X[::90], kernel=KERNEL, optimizer=None).fit(parts, lazy(y).to_dask_dataframe())
    for found in (gp.predict(parts).to_frame(), gp.predict_interval(parts)):  # by which Parquet is written
        assert found.columns.tolist() == found.compute().columns.tolist()


def test_weights_are_repeated_rows(data, rng):
    X, y = data["X"], data["gaussian"]
    weights = rng.integers(0, 3, N).astype(float)
    options = {"knots": X[::60], "kernel": SquaredExponential(), "block_size": CHUNK}
    given = regressor(**options).fit(lazy(X), lazy(y), sample_weight=lazy(weights))
    twice = np.repeat(np.arange(N), weights.astype(int))
    cuts = tuple(int(part.sum()) for part in np.split(weights, 3))
    repeated = regressor(**options).fit(
        da.from_array(X[twice], chunks=(cuts, 2)), da.from_array(y[twice], chunks=(cuts,))
    )
    assert given.log_evidence_ == repeated.log_evidence_
    assert_array_equal(given.parameters_.values, repeated.parameters_.values)
    here = regressor(**options).fit(X, y, sample_weight=weights)
    assert_allclose(given.log_evidence_, here.log_evidence_, rtol=1e-5)  # the start is from other random rows


def test_exposure_and_trials_and_known_noise(data, rng):
    X = data["X"]
    exposure = rng.uniform(0.5, 2.0, N)
    counts = rng.poisson(exposure * np.exp(np.sin(6 * X[:, 0]))).astype(float)
    options = {"knots": X[::60], "kernel": KERNEL, "optimizer": None}
    here = regressor("poisson", **options).fit(X, counts, exposure=exposure)
    there = regressor("poisson", **options).fit(lazy(X), lazy(counts), exposure=lazy(exposure))
    assert_same_fit(here, there, X[:20], exposure=1)
    with pytest.raises(InvalidInputError, match="fitted with `exposure`"):
        there.score(lazy(X), lazy(counts))
    with pytest.raises(InvalidInputError, match="fitted with `exposure`"):
        there.predict(lazy(X))
    assert_allclose(there.predict(lazy(X), exposure=1).compute(), here.predict(X, exposure=1), rtol=1e-7)
    trials = rng.integers(1, 9, N).astype(float)
    successes = rng.binomial(trials.astype(int), 0.4).astype(float)
    here = regressor("binomial", **options).fit(X, successes, trials=trials)
    there = regressor("binomial", **options).fit(lazy(X), lazy(successes), trials=trials)  # in memory, it is cut
    assert_same_fit(here, there, X[:20], trials=1)
    noise = rng.uniform(0.01, 0.1, N)
    here = regressor(**options).fit(X, data["gaussian"], noise_variance=noise)
    there = regressor(**options).fit(lazy(X), lazy(data["gaussian"]), noise_variance=lazy(noise))
    assert_same_fit(here, there, X[:20])


@pytest.mark.parametrize(
    ("likelihood", "mean"),
    [("student_t", "constant"), ("lognormal", "linear"), ("gamma", "constant"), ("negative_binomial", "linear")],
)
def test_starts_of_other_likelihoods_and_means(likelihood, mean, data):
    X, y = data["X"], data["gaussian"]
    y = {"student_t": y, "negative_binomial": data["poisson"]}.get(likelihood, np.exp(y))
    options = {"knots": X[::90], "kernel": KERNEL, "mean": mean, "optimizer": None, "inference": "laplace"}
    here = regressor(likelihood, **options).fit(X, y)
    there = regressor(likelihood, **options).fit(lazy(X), lazy(y))
    assert_same_fit(here, there, X[:20])


def test_few_rows_are_fitted_at_the_driver_with_the_same_bits(data, monkeypatch):
    monkeypatch.setattr(partitions, "ROWS_AT_DRIVER", N)
    here = regressor(knots=8, kernel=SquaredExponential()).fit(data["X"], data["gaussian"])
    there = regressor(knots=8, kernel=SquaredExponential()).fit(lazy(data["X"]), lazy(data["gaussian"]))
    assert there._fit.training.run.blocks.at_hand
    assert here.log_evidence_ == there.log_evidence_
    assert_array_equal(here._fit.row_numbers, there._fit.row_numbers)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_classifier_with_any_inference_is_that_of_rows_in_memory(inference, data):
    X, y = data["X"][::4], np.where(data["bernoulli"][::4] > 0, "yes", "no")
    options = {"knots": X[::25], "block_size": 50, "inference": inference, "kernel": SquaredExponential()}
    options |= {"approximation": "fic", "n_jobs": 1, "random_state": 0}
    here = GPClassifier(**options).fit(X, y)
    there = GPClassifier(**options).fit(lazy(X, 50), lazy(y, 50))
    assert_on_dask(there.models_[0])
    assert_allclose(there.log_evidence_, here.log_evidence_, rtol=1e-8)
    assert_allclose(there.predict_proba(X[::9]), here.predict_proba(X[::9]), rtol=1e-8)


def test_classes_are_those_of_all_partitions(data):
    X = data["X"]
    y = np.where(X[:, 0] < 0.2, "a", np.where(X[:, 1] < 0.5, "b", "c"))  # "a" is in the first partition only
    options = {"knots": X[::60], "kernel": KERNEL, "optimizer": None, "n_jobs": 1, "random_state": 0}
    here = GPClassifier(**options).fit(X, y)
    there = GPClassifier(**options).fit(lazy(X), lazy(y))
    assert there.classes_.tolist() == ["a", "b", "c"]
    assert_allclose(there.predict_proba(X[::9]), here.predict_proba(X[::9]), rtol=1e-7)
    labels = there.predict(lazy(X))
    assert labels.chunks == lazy(X).chunks[:1]
    assert_array_equal(labels.compute(), there.predict(X))
    assert there.predict_proba(lazy(X)).shape == (N, 3)
    assert_allclose(there.log_predictive_density(lazy(X), lazy(y)).compute(), there.log_predictive_density(X, y))
    assert there.score(lazy(X), lazy(y)) == there.score(X, y)
    with pytest.raises(InvalidInputError, match="one class only"):
        GPClassifier(**options).fit(lazy(X), lazy(np.full(N, "a")))


# -- predictions --------------------------------------------------------------------------------------


def test_lazy_predictions_are_those_of_rows_in_memory(data):
    X, y = data["X"], data["poisson"]
    gp = regressor("poisson", knots=8, kernel=KERNEL).fit(lazy(X), lazy(y))
    lazily = lazy(X, 250)
    mean, sd = gp.predict(lazily, return_std=True)
    for found, expected in zip((mean, sd), gp.predict(X, return_std=True), strict=True):
        assert is_dask(found) and found.chunks == lazily.chunks[:1]
        assert_allclose(found.compute(), expected, rtol=1e-12)
    interval = gp.predict_interval(lazily, level=0.8)
    assert interval.shape == (N, 2)
    assert_allclose(interval.compute(), gp.predict_interval(X, level=0.8), rtol=1e-10)
    latent, expected = gp.predict_latent(lazily), gp.predict_latent(X)
    assert_allclose(latent.mean.compute(), expected.mean, rtol=1e-10, atol=1e-12)
    assert_allclose(latent.variance.compute(), expected.variance, rtol=1e-10)
    density = gp.log_predictive_density(lazily, lazy(y), exposure=2.0)  # cut at other places
    assert_allclose(density.compute(), gp.log_predictive_density(X, y, exposure=2.0), rtol=1e-10)
    assert_allclose(gp.predict_exceedance(lazily, 1.5).compute(), gp.predict_exceedance(X, 1.5), rtol=1e-10)
    assert_allclose(gp.score(lazily, lazy(y)), gp.score(X, y), rtol=1e-12)
    weights = np.linspace(0, 2, N)
    weighted = gp.score(lazily, lazy(y), sample_weight=lazy(weights))
    assert_allclose(weighted, gp.score(X, y, sample_weight=weights), rtol=1e-12)


def test_lazy_predictions_for_frames_have_their_index(data):
    X, y = data["X"], data["gaussian"]
    frame = pd.DataFrame(X, columns=["east", "north"], index=np.arange(N) + 1000)
    gp = regressor(knots=8, kernel=KERNEL).fit(frame, y)
    parts = dd.from_pandas(frame, npartitions=4)
    pd.testing.assert_series_equal(
        gp.predict(parts).compute(), pd.Series(gp.predict(frame), frame.index), check_names=False
    )
    interval = gp.predict_interval(parts).compute()
    assert interval.columns.tolist() == ["lower", "upper"]
    assert_array_equal(interval.index, frame.index)
    none_left = parts[parts["east"] > parts["east"].max().compute() - 1e-3]
    assert len(gp.predict(none_left).compute()) == (X[:, 0] > X[:, 0].max() - 1e-3).sum()


def test_lazy_predictions_become_columns_of_their_frame(data, tmp_path):
    """By position: the index of each file begins with 0, and Dask reads files together where few columns are needed."""
    pytest.importorskip("pyarrow")
    X, y = data["X"], data["gaussian"]
    frame = pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "y": y} | {f"other{i}": y for i in range(20)})
    for i in range(6):
        frame[100 * i : 100 * i + 100].reset_index(drop=True).to_parquet(tmp_path / f"{i}.parquet")
    gp = regressor(knots=X[::90], kernel=KERNEL, optimizer=None).fit(X, y)
    rows = dd.read_parquet(tmp_path)
    inputs = rows[["east", "north"]].rename(columns={"east": 0, "north": 1})
    mean, sd = gp.predict(inputs, return_std=True)
    density = gp.log_predictive_density(inputs, rows["y"])
    found = rows.assign(mean=mean, sd=sd, density=density, lower=gp.predict_interval(inputs)["lower"]).compute()
    assert_array_equal(found["y"], y)
    assert_array_equal(found["mean"], gp.predict(X))
    assert_array_equal(found["sd"], gp.predict(X, return_std=True)[1])
    assert_array_equal(found["lower"], gp.predict_interval(X)[:, 0])
    assert_array_equal(found["density"], gp.log_predictive_density(X, y))
    elsewhere = gp.log_predictive_density(inputs, lazy(y, 100))  # of another origin
    assert_array_equal(elsewhere.compute(), gp.log_predictive_density(X, y))


def test_an_array_for_a_model_with_names_is_remarked_once(data):
    X, y = data["X"], data["gaussian"]
    gp = regressor(knots=X[::90], kernel=KERNEL, optimizer=None).fit(pd.DataFrame(X, columns=["east", "north"]), y)
    with pytest.warns(UserWarning, match="valid feature names"):
        predicted = gp.predict(lazy(X))
    assert len(predicted.compute()) == N  # without warnings, which are errors here


def test_what_needs_all_rows_is_refused_in_words(data):
    X, y = lazy(data["X"]), lazy(data["gaussian"])
    gp = regressor(knots=8, kernel=KERNEL).fit(X, y)
    with pytest.raises(InvalidInputError, match="nearest rows of a row can be in any"):
        regressor(n_neighbors=5).fit(X, y)
    with pytest.raises(InvalidInputError, match="return_cov"):
        gp.predict(X, return_cov=True)
    with pytest.raises(InvalidInputError, match="all its rows in one place"):
        gp.sample_latent(X)
    with pytest.raises(InvalidInputError, match="X is a ndarray"):
        regressor().fit(data["X"], y)
    with pytest.raises(InvalidInputError, match="X has 3 partitions, but `y` has 2"):
        regressor().fit(X[X[:, 0] > -1], lazy(data["gaussian"], 500))


def test_columns_that_are_no_numbers_are_refused_with_what_to_do(data):
    X, y = data["X"], data["gaussian"]
    frame = pd.DataFrame({"east": X[:, 0], "soil": np.where(X[:, 1] > 0.5, "clay", "sand")})
    frame["kind"], frame["gap"] = frame["soil"].astype("category"), frame["east"].where(frame.index != CHUNK + 17)
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N), unit="D")
    parts, y_parts = dd.from_pandas(frame, npartitions=3), lazy(y)
    for column, words in {
        "soil": r"Partition \d: Column 'soil' holds '(clay|sand)' in row 0.*get_dummies.*predicts Dask collections",
        "kind": "Column 'kind' holds levels of a category.*get_dummies.*predicts Dask collections",
        "day": "Column 'day' holds dates.*days since.*predicts Dask collections",
        "gap": r"Partition 1: Input X contains NaN in row 17, column 'gap'\. Drop these rows .*, or impute them\.$",
    }.items():
        with pytest.raises(InvalidInputError, match=words):
            regressor(knots=5).fit(parts[["east", column]], y_parts)
    for option, words in {
        "missing": ("mean", "Fill the gaps"),
        "categorical": (["soil"], "get_dummies"),
        "coords": ("lonlat", "Project"),
    }.items():
        with pytest.raises(InvalidInputError, match=f"{option}=.* in one place.*{words[1]}.*predicts Dask"):
            regressor(knots=5, **{option: words[0]}).fit(parts[["east", "gap"]], y_parts)
    gp = regressor(knots=5, missing="mean").fit(frame.drop(columns="day"), y)
    assert_array_equal(gp.predict(parts.drop(columns="day")).compute(), gp.predict(frame.drop(columns="day")))


def test_what_is_no_table_or_no_column_is_refused_in_words(data):
    X, y = data["X"], data["gaussian"]
    parts = dd.from_pandas(pd.DataFrame({"east": X[:, 0], "north": X[:, 1]}), npartitions=3)
    for given, words in [
        (parts["east"], "is a Series of Dask.*to_frame"),
        (delayed(X), "is a Delayed.* of Dask.*from_delayed"),
        (lazy(X[:, 0]), r"has shape \(600,\)\. Write `X\[:, None\]`"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            regressor().fit(given, lazy(y))
    with pytest.raises(InvalidInputError, match=r"`y` must be one value for each row.*Write `y\[:, 0\]`"):
        regressor().fit(lazy(X), lazy(y[:, None]))
    turned = parts.map_partitions(lambda part: part[["north", "east"]], meta=parts._meta, enforce_metadata=False)
    with pytest.raises(InvalidInputError, match=r"columns are \['north', 'east'\], but Dask says"):
        regressor().fit(turned, lazy(y))
    gp = regressor(knots=X[::90], kernel=KERNEL, optimizer=None).fit(X, y)
    with pytest.raises(InvalidInputError, match="y is a Dask collection, but X is not"):
        gp.score(X, lazy(y))
    with pytest.raises(InvalidInputError, match="y is None"):
        gp.score(lazy(X), None)


def test_labels_that_are_missing_or_of_two_kinds_are_named_by_partition(data):
    X = data["X"]
    labels = np.where(X[:, 1] > 0.5, "b", "a").astype(object)
    labels[CHUNK + 17] = None
    with pytest.raises(InvalidInputError, match="Partition 1: Input y contains no label in row 17"):
        GPClassifier(knots=5).fit(lazy(X), lazy(labels))
    with pytest.raises(InvalidInputError, match=f"Input y contains no label in row {CHUNK + 17}"):
        GPClassifier(knots=5).fit(X, labels)
    ones = da.concatenate([lazy(np.ones(CHUNK, int)), lazy(np.full(N - CHUNK, "1"))])
    with pytest.raises(InvalidInputError, match=r"1 in partition 0, '1' in partition 1"):
        GPClassifier(knots=5).fit(lazy(X), ones.map_blocks(_as_number_in_first, dtype=object))


def _as_number_in_first(labels, block_info=None):
    return labels.astype(int) if block_info[0]["chunk-location"] == (0,) else labels


# -- what is wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("X", np.nan, "Partition 1: Input X contains NaN in row 7, column 1"),
        ("y", np.inf, "Partition 1: Input y contains infinity in row 7"),
        ("sample_weight", -1.0, "Partition 1: `sample_weight` must be finite and not negative, but is -1 in row 7"),
        ("exposure", 0.0, "Partition 1: `exposure` must be positive and finite, but is 0 in row 7"),
    ],
)
def test_a_bad_value_is_named_by_partition_and_row(where, value, words, data):
    arrays = {"X": data["X"].copy(), "y": data["poisson"].copy(), "sample_weight": np.ones(N), "exposure": np.ones(N)}
    arrays[where][(CHUNK + 7, 1) if where == "X" else CHUNK + 7] = value
    gp = regressor("poisson", knots=8)
    with pytest.raises(InvalidInputError, match=words) as caught:
        gp.fit(**{name: lazy(values) for name, values in arrays.items()})
    assert caught.value.partition == 1
    assert caught.value.rows.tolist() == [7]
    assert not hasattr(gp, "kernel_")


def test_a_bad_target_and_a_bad_new_row_are_named_too(data):
    X, y = data["X"], data["poisson"].copy()
    y[2 * CHUNK + 3] = -1.0
    with pytest.raises(InvalidInputError, match=r"Partition 2: .*row 3"):
        regressor("poisson", knots=8).fit(lazy(X), lazy(y))
    y[2 * CHUNK + 3], y[3] = 0.5, 1.5
    with pytest.warns(FitWarning, match=r"Partition 0: .*the first is 1.5 in row 3.* in 1 more partition"):
        regressor("poisson", knots=X[::90], optimizer=None, kernel=KERNEL).fit(lazy(X), lazy(y))
    gp = regressor(knots=8, kernel=KERNEL).fit(lazy(X), lazy(data["gaussian"]))
    bad = X.copy()
    bad[CHUNK, 0] = np.nan
    with pytest.raises(InvalidInputError, match="Partition 1: Input X contains NaN in row 0"):
        gp.predict(lazy(bad)).compute()


# -- after a fit --------------------------------------------------------------------------------------


def test_a_fitted_model_is_pickled_and_saved_without_its_data(data, tmp_path):
    X, y = data["X"], data["gaussian"]
    gp = regressor(knots=8, kernel=KERNEL).fit(lazy(X), lazy(y))
    again = pickle.loads(pickle.dumps(gp))
    assert_array_equal(again.predict(X), gp.predict(X))
    gp.save(tmp_path / "m.knotwise")
    assert_array_equal(load(tmp_path / "m.knotwise").predict(X), gp.predict(X))
    assert len(pickle.dumps(gp)) < 100_000
    with pytest.raises(NoTrainingDataError, match="Dask"):
        again.evidence()
    assert_allclose(gp.evidence().value, gp.log_evidence_, rtol=1e-12)


def test_diagnosis_standard_errors_and_certificate_need_no_other_calls(data):
    X, y = data["X"], data["gaussian"]
    here = regressor(knots=8, kernel=KERNEL).fit(X, y)
    there = regressor(knots=8, kernel=KERNEL).fit(lazy(X), lazy(y))
    assert_allclose(there.diagnose().unexplained_share, here.diagnose().unexplained_share, rtol=1e-4)
    one, other = (gp.parameters_.standard_errors(compute=True) for gp in (here, there))
    assert_allclose(other.standard_error, one.standard_error, rtol=1e-4)
    assert_allclose(there.certify().lower, here.certify().lower, rtol=1e-6)


def test_a_fit_goes_on_from_its_checkpoint(data, tmp_path):
    X, y = lazy(data["X"]), lazy(data["gaussian"])
    expected = regressor(knots="auto", kernel=KERNEL).fit(X, y)
    seen = []

    def stop(event):
        seen.append(event)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regressor(knots="auto", kernel=KERNEL, checkpoint=tmp_path, callback=stop).fit(X, y)
    assert any(tmp_path.rglob("*"))
    again = regressor(knots="auto", kernel=KERNEL, checkpoint=tmp_path).fit(X, y)
    assert again.log_evidence_ == expected.log_evidence_


@pytest.mark.parametrize("kind", ["poisson", "classes"])
def test_an_interrupted_fit_of_counts_or_classes_ends_with_the_same_bits(kind, data, tmp_path):
    X, y = (lazy(data[name][::4], 50) for name in ("X", "poisson" if kind == "poisson" else "bernoulli"))
    options = {"knots": OneAtATime(max_knots=7), "kernel": KERNEL, "inference": "variational"}

    def fit(**more):
        if kind == "poisson":
            return regressor("poisson", **options, **more).fit(X, y)
        return GPClassifier(**options, **more, n_jobs=1, random_state=0).fit(X, y)

    expected, seen = fit(checkpoint=tmp_path / "whole"), []

    def stop(event):
        seen.append(event)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=tmp_path / "broken", callback=stop)
    assert any(tmp_path.rglob("*.step"))
    again = fit(checkpoint=tmp_path / "broken")
    assert again.log_evidence_ == expected.log_evidence_
    assert_array_equal(again.parameters_.values, expected.parameters_.values)
    assert_array_equal(again.knots_, expected.knots_)


# -- blocks -------------------------------------------------------------------------------------------


def held_rows(rng, sizes, weights=False):
    n = sum(sizes)
    rows = Rows(
        rng.normal(size=(n, 2)),
        rng.normal(size=n),
        None,
        np.ones((n, 1)),
        None,
        rng.uniform(0.1, 3, n) if weights else None,
    )
    return rows, np.concatenate([[0], np.cumsum(sizes)])


def dask_blocks(rows, starts, executor=None, place=None):
    from dask import delayed

    parts = [delayed(Part)(i, int(a), rows[a:b]) for i, (a, b) in enumerate(pairwise(starts))]
    return DaskBlocks(LazyRows(parts, [], range(len(parts)), starts, RowSummary.of(rows)), executor or Serial(), place)


def test_rows_are_taken_sampled_and_ranked_as_in_memory(rng):
    rows, starts = held_rows(rng, (40, 1, 25, 60))
    here, there = InMemory(rows), dask_blocks(rows, starts)
    numbers = np.array([100, 3, 3, 41, 40, 125])
    assert_array_equal(there.take(numbers).X, rows.X[numbers])
    assert_array_equal(there.take(slice(0, 50)).y, rows.y[:50])
    work = NearnessPass(np.zeros(2))
    assert_array_equal(there.top(work, 9), here.top(work, 9))
    assert_array_equal(there.gather(work), here.gather(work))
    draws = [blocks.sample(20, np.random.default_rng(1)) for blocks in (here, there)]
    assert_array_equal(*draws)


def test_too_many_rows_are_not_taken(rng, monkeypatch):
    monkeypatch.setattr("knotwise.distributed.blocks.MOST_TAKEN", 10)
    rows, starts = held_rows(rng, (8, 8))
    with pytest.raises(TooLargeError, match="16 rows of a Dask collection"):
        dask_blocks(rows, starts).take(slice(None))


def test_rows_are_drawn_by_weight(rng):
    rows, starts = held_rows(rng, (30, 20), weights=True)
    blocks = dask_blocks(rows, starts)
    drawn = np.concatenate([blocks.sample(1, rng, by_weight=True) for _ in range(3000)])
    shares = rows.weights / rows.weights.sum()
    counts = np.bincount(drawn, minlength=50)
    chi2 = ((counts - 3000 * shares) ** 2 / (3000 * shares)).sum()
    assert chi2 < 85  # 49 degrees of freedom: chance gives more once in a thousand
    assert len(np.unique(blocks.sample(30, rng, by_weight=True))) == 30
    assert pickle.loads(pickle.dumps(RacePass(3))) == RacePass(3)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 13])
def test_a_tree_adds_in_one_order_however_the_leaves_are_grouped(n, rng):
    leaves = rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n)
    whole = TreeSum(n)
    for i, leaf in enumerate(leaves):
        whole.add(leaf, i)
    for n_groups in range(1, n + 1):
        total = TreeSum(n)
        for numbers in np.array_split(np.arange(n), n_groups):
            part = TreeSum(n)
            for i in numbers:
                part.add(leaves[i], i)
            for (level, number), value in part.nodes.items():
                total.add(value, number, level)
        assert total.total == whole.total
    assert_allclose(whole.total, leaves.sum(), rtol=1e-10)


def test_moments_join_as_if_all_rows_were_one(rng):
    X, weights = 1e6 + rng.normal(size=(50, 3)), rng.uniform(0.1, 2.0, 50)
    total = Moments.of(X[:20], weights[:20])
    total += Moments.of(X[20:], weights[20:])
    mean, variance = mean_and_variance(X, weights)
    assert_allclose(total.mean, mean, rtol=1e-14)
    assert_allclose(total.variance, variance, rtol=1e-8)


def test_what_lies_beside_the_rows_goes_nowhere_and_is_dropped_with_them(rng):
    rows, _ = held_rows(rng, (30,))
    held = Held([Part(0, 0, rows)])
    held._caches[0] = (0, [InMemory(rows)])
    again = pickle.loads(pickle.dumps(held))
    assert not again._caches
    assert_array_equal(again.parts[0].rows.X, rows.X)
    assert sys.getsizeof(held) >= rows.X.nbytes


SEARCHES = {
    "laplace-vfe": (Laplace(), 0.0),
    "laplace-fic": (Laplace(), 1.0),
    "variational-vfe": (Variational(), 0.0),
    "variational-fic": (Variational(), 1.0),
    "ep-fic": (PowerEP(), 1.0),
}


class Losing(Here):
    """A place at which one group loses what lies beside its rows, before the pass with a given number."""

    at = -1
    asked = 0

    def ask(self, held, name, arguments):
        if Losing.asked == Losing.at:
            held[-1]._caches.clear()
        Losing.asked += 1
        return super().ask(held, name, arguments)


def some_evaluations(inference, power):
    """Evidence of counts at three points, one after the other, and how many passes it took."""
    rows, starts = held_rows(np.random.default_rng(3), (40, 25, 30))
    rows = replace(rows, y=np.random.default_rng(4).poisson(2.0, len(rows)).astype(float))
    Losing.asked = 0
    blocks = dask_blocks(rows, starts, place=Losing(Serial()))
    mean = Constant(0.3).bind(rows.X, 1.0, 0.3)
    found = []
    for lengthscale in (0.7, 0.8, 0.9):
        model = Model(SquaredExponential(1.0, lengthscale), Poisson(), mean, power, inference=inference)
        evidence = sparse_evidence(model, blocks, rows.X[::15], jitter=Jitter(1e-8, rows.X[:2]))
        found.append(np.concatenate([[evidence.value], evidence.gradient, evidence.knot_gradient.ravel()]))
    return np.array(found), Losing.asked


@pytest.mark.parametrize("search", SEARCHES)
def test_what_a_group_loses_before_any_pass_changes_no_bit(search, monkeypatch):
    monkeypatch.setattr(Losing, "at", -1)
    expected, n_passes = some_evaluations(*SEARCHES[search])
    assert n_passes > 10
    for at in range(0, n_passes, 1 + n_passes // 8):
        monkeypatch.setattr(Losing, "at", at)
        found, n_asked = some_evaluations(*SEARCHES[search])
        assert_array_equal(found, expected)
        assert n_asked == n_passes + (at > 0)


def test_more_passes_than_are_kept_end_at_the_same_fixed_point(monkeypatch):
    monkeypatch.setattr(Losing, "at", -1)
    expected, n_passes = some_evaluations(*SEARCHES["variational-fic"])
    monkeypatch.setattr("knotwise.distributed.blocks.MOST_KEPT", 0)
    for at in (n_passes // 2, n_passes - 1):
        monkeypatch.setattr(Losing, "at", at)
        assert_allclose(some_evaluations(*SEARCHES["variational-fic"])[0], expected, rtol=1e-3, atol=1e-3)


def test_gaussian_data_leave_nothing_to_be_kept(rng):
    rows, starts = held_rows(rng, (40, 25))
    blocks = dask_blocks(rows, starts)
    model = Model(SquaredExponential(1.0, 0.7), Gaussian(0.2), Constant(0.3).bind(rows.X, 1.0, 0.3), 0.0)
    sparse_evidence(model, blocks, rows.X[::15], jitter=Jitter(1e-8, rows.X[:2]))
    assert not blocks._past


def test_dask_is_not_imported_without_need():
    code = "import sys, knotwise; knotwise.GPRegressor(knots=3).fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 1.0]); "
    code += "assert not {'dask', 'distributed'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- workers ------------------------------------------------------------------------------------------


@pytest.fixture
def cluster():
    """A function that starts worker processes and their client; all of them end with the test."""
    from contextlib import ExitStack

    distributed = pytest.importorskip("distributed")

    with ExitStack() as stack:

        def start(n_workers, **more):
            options = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
            made = stack.enter_context(distributed.LocalCluster(n_workers=n_workers, **options, **more))
            return stack.enter_context(distributed.Client(made))

        yield start


def large(rng, n=12_000):
    X = rng.uniform(size=(n, 2))
    return X, np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1]) + 0.2 * rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_the_number_of_worker_processes_changes_no_bit(likelihood, cluster, rng):
    X, y = large(rng)
    y = y if likelihood == "gaussian" else rng.poisson(np.exp(y)).astype(float)
    X, y = lazy(X, 1700), lazy(y, 1700)
    fits = [regressor(likelihood).fit(X, y)]
    for n_workers in (1, 2):
        client = cluster(n_workers)
        fits.append(regressor(likelihood).fit(X, y))
        client.close()
    for fit in fits[1:]:
        assert_on_dask(fit)
        assert fit.log_evidence_ == fits[0].log_evidence_
        assert_array_equal(fit.parameters_.values, fits[0].parameters_.values)
        assert_array_equal(fit.knots_, fits[0].knots_)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_a_worker_that_is_killed_in_the_middle_of_a_fit_changes_nothing(likelihood, cluster, rng):
    X, y = large(rng, 6_000)
    y = y if likelihood == "gaussian" else rng.poisson(np.exp(y)).astype(float)
    X, y = lazy(X, 900), lazy(y, 900)
    expected = regressor(likelihood).fit(X, y)
    client = cluster(2)
    killed = []

    def kill_once(event):
        if len(killed) < 1 and event.n_knots > 9:
            pids = [info["pid"] for info in client.run(lambda: {"pid": os.getpid()}).values()]
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    found = regressor(likelihood, callback=kill_once).fit(X, y)
    assert killed
    if likelihood == "gaussian":
        assert found.log_evidence_ == expected.log_evidence_
        assert_array_equal(found.parameters_.values, expected.parameters_.values)
    else:
        assert_same_fit(expected, found, np.asarray(X[:50]))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_driver_keeps_no_requests_of_earlier_passes(cluster, rng):
    """Dask would keep the last thousand of each connection: with K x K numbers in them, more than all else there."""
    X, y = large(rng, 3_000)
    client = cluster(2)
    regressor("gaussian").fit(lazy(X, 900), lazy(y, 900))
    scheduler = client.cluster.scheduler
    connections = [client.scheduler_comm, *scheduler.stream_comms.values(), *scheduler.client_comms.values()]
    assert len(connections) == 4
    kept = [len(connection.recent_message_log) for connection in connections]
    assert max(kept) < 10, kept  # what was sent since the last pass


def assert_same_bits(one, other):
    assert one.log_evidence_ == other.log_evidence_
    assert_array_equal(one.parameters_.values, other.parameters_.values)
    assert_array_equal(one.knots_, other.knots_)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("what", ["joins late", "stands still"])
def test_a_worker_that_joins_late_or_stands_still_changes_no_bit(what, cluster, rng):
    X, y = large(rng, 6_000)
    X, y = lazy(X, 900), lazy(rng.poisson(np.exp(y)).astype(float), 900)
    options = {"likelihood": "poisson", "kernel": SquaredExponential()}
    expected = regressor(**options).fit(X, y)
    client, done = cluster(1 if what == "joins late" else 2), []

    def disturb(event):
        if not done and event.n_knots > 9:
            done.append(what)
            if what == "joins late":
                client.cluster.scale(2)
                client.wait_for_workers(2)
            else:
                pid = next(iter(client.run(os.getpid).values()))
                os.kill(pid, signal.SIGSTOP)
                Timer(3.0, os.kill, (pid, signal.SIGCONT)).start()

    found = regressor(**options, callback=disturb).fit(X, y)
    assert done
    assert_same_bits(found, expected)


def too_large(values):
    """A partition that takes all the memory there is, in steps that a nanny can follow."""
    taken = []
    for _ in range(300):
        taken.append(np.ones(2**20))  # 8 MiB
        time.sleep(0.02)
    return values


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_workers_without_memory_are_an_error_that_names_the_partition(cluster, rng):
    dask = pytest.importorskip("dask")
    X, y = large(rng, 3_000)
    fits = da.from_array(X, chunks=(1000, 2))
    X = da.concatenate([fits[:1000], fits[1000:2000].map_blocks(too_large, dtype=float), fits[2000:]])
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
        cluster(1, memory_limit="500MB")
        with pytest.raises(WorkersLostError, match=r"died several times .* partitions? .*rechunk") as caught:
            regressor(knots=8, kernel=KERNEL).fit(X, lazy(y, 1000))
    assert 1 in caught.value.partitions  # and perhaps one that the same worker had begun


def test_a_task_without_memory_and_workers_that_pause_are_errors_in_words(monkeypatch):
    """The client is a stand-in; the real ones are slow to run out of memory."""

    class Client:
        def scheduler_info(self, n_workers):
            return {"workers": {"a": {"status": "paused"}, "b": {"status": "paused"}}}

        def gather(self, futures):
            raise MemoryError("Unable to allocate 7.3 TiB")

    class Future:
        def __init__(self, status):
            self.status = status

    waits = []

    def wait(futures, timeout):
        waits.append(timeout)
        raise TimeoutError

    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "wait", wait)
    with pytest.raises(WorkersLostError, match=r"All of Dask's workers have paused.*Make the partitions smaller"):
        Cluster(Client())._gather([Future("pending")], [(0,)])
    assert len(waits) == 2  # the first time they may go on again
    monkeypatch.setattr(distributed, "wait", lambda futures, timeout: None)
    futures = [Future("finished"), Future("error")]
    with pytest.raises(WorkersLostError, match=r"ran out of memory .*the partitions 4, 5.*7.3 TiB") as caught:
        Cluster(Client())._gather(futures, [(0, 1), (4, 5)])
    assert caught.value.partitions == (4, 5)


def test_rows_whose_client_is_gone_are_an_error_in_words(data, monkeypatch):
    def compute(*lazy, **options):
        raise ValueError("Missing dependency ('array-2297', 3, 0) for dependents {'ReadAndCall'}")

    monkeypatch.setattr("dask.compute", compute)
    with pytest.raises(WorkersLostError, match="persisted at the workers of a client"):
        regressor(knots=3).fit(lazy(data["X"]), lazy(data["gaussian"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_nothing_stays_at_the_workers_after_a_fit(cluster, rng):
    X, y = large(rng, 3_000)
    client = cluster(1)
    gp = regressor(knots=8, kernel=KERNEL).fit(lazy(X, 1000), lazy(y, 1000))
    assert_on_dask(gp)
    gc.collect()
    for _ in range(50):
        left = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        if not left:
            break
        time.sleep(0.1)
    assert not left


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_predictions_run_on_workers_and_name_a_bad_row(cluster, rng):
    X, y = large(rng, 3_000)
    gp = regressor(knots=8, kernel=KERNEL).fit(X, y)
    cluster(1)
    assert_allclose(gp.predict(lazy(X, 1000)).compute(), gp.predict(X), rtol=1e-12)
    X[1500, 0] = np.nan
    with pytest.raises(InvalidInputError, match="Partition 1: Input X contains NaN in row 500, column 0") as caught:
        regressor(knots=8).fit(lazy(X, 1000), lazy(y, 1000))
    assert caught.value.partition == 1
