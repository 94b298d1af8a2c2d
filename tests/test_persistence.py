"""Model files: the same bits after loading, nothing of the training data, and no file that does harm."""

import copy
import hashlib
import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import knotwise
import model_files
from knotwise import GPClassifier, GPRegressor, kernels, knots, likelihoods, means, noise, optimize, priors
from knotwise.errors import (
    InvalidInputError,
    KnotwiseError,
    ModelFileError,
    NotPositiveDefiniteError,
    NoTrainingDataError,
)
from knotwise.likelihoods import LIKELIHOODS
from knotwise.numerics.parameters import ParameterTable
from knotwise.persistence import archive
from knotwise.persistence.archive import FORMAT_VERSION, MAX_MANIFEST
from knotwise.persistence.parts import FAMILIES, Part, Setting
from knotwise.persistence.schema import Reading, Writing

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
fuzz = importlib.import_module("fuzz_models")
sys.path.pop(0)

N = 60
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 2))
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
Y = 3 * F + 0.4 * RNG.normal(size=N) + 10
COUNTS = RNG.poisson(2 * np.exp(F)).astype(float)
EXPOSURE = RNG.uniform(0.5, 2, N)
NEW = RNG.normal(size=(9, 2))
LABELS = np.array(["low", "middle", "very high"])[np.digitize(F, [-0.5, 0.5])]
SMOOTH = kernels.SquaredExponential()  # where the kernel is not the matter, so that none is chosen
TREND = kernels.Matern52(ard=True) * kernels.Constant(0.5) + kernels.Linear().on([0])


def framed(values):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(values, columns=["wide", "long"])


FITS = {
    "automatic": lambda: GPRegressor(random_state=0).fit(X, Y),
    "composed": lambda: GPRegressor(TREND, knots=6, mean="linear", random_state=np.random.default_rng(3)).fit(X, Y),
    "one at a time": lambda: GPRegressor(
        SMOOTH, knots=knots.OneAtATime(max_knots=7, proposal=knots.RandomSubset(4)), approximation="fic", random_state=0
    ).fit(X, Y),
    "given knots": lambda: GPRegressor(
        SMOOTH, knots=np.asfortranarray(NEW), mean=means.Constant(prior_sd=None), bounds={"mean": (0, np.inf)}
    ).fit(X, Y),
    "a trend": lambda: GPRegressor(
        SMOOTH, knots=5, mean=means.Linear(2.0, ["long"]), noise="constant", random_state=0
    ).fit(framed(X), Y),
    "known noise": lambda: GPRegressor(SMOOTH, knots=5, random_state=0).fit(
        X, Y, noise_variance=np.linspace(0.1, 1, N)
    ),
    "parameters as given": lambda: GPRegressor(
        kernels.Periodic(1.0, 0.8, 3.0), likelihoods.Gaussian(0.3), knots=NEW, optimizer=None, standardize=False
    ).fit(X, Y),
    "counts": lambda: GPRegressor(SMOOTH, likelihood="poisson", nugget="fit", knots=6, random_state=0).fit(
        X, COUNTS, exposure=EXPOSURE
    ),
    "exact": lambda: GPRegressor(SMOOTH, approximation="full", mean="linear").fit(
        X, Y, sample_weight=np.linspace(0.5, 2, N)
    ),
    "exact counts": lambda: GPRegressor(SMOOTH, likelihood="poisson", approximation="full").fit(
        X, COUNTS, exposure=EXPOSURE
    ),
    "exact with outliers": lambda: GPRegressor(SMOOTH, likelihood="student_t", approximation="full").fit(X, Y),
    "neighbors": lambda: GPRegressor(kernels.Matern32(), knots=6, n_neighbors=5, mean="linear", random_state=0).fit(
        X, Y, sample_weight=np.linspace(0.5, 2, N)
    ),
    "a frame": lambda: GPRegressor(kernels.SquaredExponential().on("long"), knots=5, random_state=0).fit(framed(X), Y),
    "two classes": lambda: GPClassifier(SMOOTH, knots=4, random_state=0).fit(X, (F > 0).astype(np.int16)),
    "three classes": lambda: GPClassifier(SMOOTH, knots=4, link="probit", random_state=0).fit(X, LABELS),
    "classes as objects": lambda: GPClassifier(SMOOTH, approximation="full").fit(framed(X), LABELS.astype(object)),
}
#: averaged over models some of whose knots lie on the inputs of all rows
MAY_HOLD_INPUTS = ["automatic"]
HOLD_ROWS = ["neighbors", "exact", "exact counts", "exact with outliers", "classes as objects"]


@pytest.fixture(scope="module", params=FITS, ids=[name.replace(" ", "-") for name in FITS])
def fitted(request):
    """The name of a model and the model, for each kind that there is."""
    return request.param, FITS[request.param]()


@pytest.fixture(scope="module")
def small():
    """A model with a short file."""
    return GPRegressor(SMOOTH, knots=NEW[:3], random_state=0).fit(X, Y)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.knotwise"


@pytest.fixture
def loads():
    """Load these bytes as a file."""
    with tempfile.TemporaryDirectory(dir=fuzz.FAST) as folder:
        path = Path(folder) / "model.knotwise"

        def load(data):
            path.write_bytes(data)
            return knotwise.load(path)

        yield load


@pytest.fixture(scope="module")
def data(small, tmp_path_factory):
    """The bytes of the short file."""
    return fuzz.saved_bytes(small, tmp_path_factory.mktemp("small"))


def refuses(loads, data):
    """Whether these bytes are refused; quicker than `pytest.raises`, for thousands of files."""
    try:
        loads(data)
    except ModelFileError:
        return True
    return False


def roundtrip(model, path):
    model.save(path)
    return knotwise.load(path)


def predictions(model):
    """Everything that a model predicts, by the name of the method."""
    new = framed(NEW) if hasattr(model, "feature_names_in_") else NEW
    if isinstance(model, GPClassifier):
        calls = {
            "predict": model.predict(new),
            "proba": model.predict_proba(new),
            "decision": model.decision_function(new),
            "latent": model.predict_latent(new),
            "density": model.log_predictive_density(new, np.resize(model.classes_, len(NEW))),
            "samples": [m.sample_latent(new, 3, random_state=1) for m in model.models_],
        }
        return calls | ({"interval": model.predict_interval(new)} if len(model.models_) == 1 else {})
    gaussian = model.likelihood_.conjugate
    size = {"exposure": np.linspace(0.5, 3, len(NEW))} if model._fit.size_given else {}
    size |= {"noise_variance": np.linspace(0.0, 1, len(NEW))} if model._fit.noise_given else {}
    return {
        "predict": model.predict(new, return_std=True, **size),
        "covariance": model.predict(new, return_cov=True, **size) if gaussian else None,
        "median": model.predict_median(new),
        "latent": model.predict_latent(new),
        "interval": [model.predict_interval(new, kind=kind, **size) for kind in ("observation", "mean", "latent")],
        "exceedance": model.predict_exceedance(new, 2.0),
        "density": model.log_predictive_density(new, np.arange(1.0, 10.0), **size),
        "samples": model.sample_latent(new, 3, random_state=1),
    }


def assert_same(a, b, at=""):
    """Equal in every bit, whatever they are made of."""
    assert type(a) is type(b) or (isinstance(a, float) and isinstance(b, float)), at  # NumPy's float64 is a float
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape, at
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), at
    elif isinstance(a, np.random.Generator):
        assert a.bit_generator.state == b.bit_generator.state, at
    elif isinstance(a, float):
        assert np.float64(a).tobytes() == np.float64(b).tobytes(), at
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), at
        for i, pair in enumerate(zip(a, b, strict=True)):
            assert_same(*pair, f"{at}[{i}]")
    elif isinstance(a, dict):
        assert list(a) == list(b), at
        for name in a:
            assert_same(a[name], b[name], f"{at}[{name!r}]")
    elif isinstance(a, knots.KnotStep):  # the rows that were tried are training data, and stay out of files
        assert b.tried is None
        assert_same(*({f.name: getattr(s, f.name) for f in fields(s) if f.name != "tried"} for s in (a, b)), at)
    elif isinstance(a, knots.KnotTrace):
        assert_same(a.steps, b.steps, at)
        assert a.stop_reason == b.stop_reason
    elif isinstance(a, ParameterTable):  # standard errors need the data
        assert_same(*({f.name: getattr(t, f.name) for f in fields(t) if f.name != "errors"} for t in (a, b)), at)
    elif is_dataclass(a) or hasattr(a, "get_params"):
        assert_same(vars(a), vars(b), f"{at}.{type(a).__name__}")
    else:
        assert a == b, at


def public(model):
    """Attributes that scikit-learn's users see; those of a classifier are its models'."""
    return {name: value for name, value in vars(model).items() if name.endswith("_") and name != "models_"}


# -- the same model ---------------------------------------------------------------------------------


def test_every_prediction_has_the_same_bits_after_loading(fitted, path):
    _, model = fitted
    assert_same(predictions(model), predictions(roundtrip(model, path)))


def test_every_attribute_and_setting_is_the_same_after_loading(fitted, path):
    _, model = fitted
    loaded = roundtrip(model, path)
    assert set(vars(loaded)) == set(vars(model))
    assert_same(public(model), {name: public(loaded)[name] for name in public(model)})
    assert_same(model.get_params(deep=False), loaded.get_params(deep=False))
    assert str(loaded.summary(standard_errors=False)) == str(model.summary(standard_errors=False))


def test_a_loaded_model_saves_the_same_bytes(fitted, path):
    _, model = fitted
    loaded = roundtrip(model, path)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first


def test_a_loaded_model_can_be_copied_and_fitted_again(fitted, path):
    name, model = fitted
    loaded = roundtrip(model, path)
    expected = predictions(model)
    for twin in (pickle.loads(pickle.dumps(loaded)), copy.deepcopy(loaded)):
        assert_same(predictions(twin), expected)
    assert not hasattr(clone(loaded), "n_features_in_")
    if name == "automatic":
        assert_same(predictions(clone(loaded).fit(X, Y)), expected)


def test_what_needs_the_data_says_that_a_file_has_none(fitted, path):
    _, model = fitted
    loaded = roundtrip(model, path)
    for one in loaded.models_ if isinstance(loaded, GPClassifier) else [loaded]:
        with pytest.raises(NoTrainingDataError, match="comes from a file"):
            one.evidence()
        with pytest.raises(NoTrainingDataError, match="pickle"):
            one.evidence(one.parameters_.theta)


def test_only_an_exact_gp_and_one_with_neighbours_have_training_rows_in_their_file(fitted, path):
    name, model = fitted
    model.save(path)
    content = path.read_bytes()
    one = model.models_[0] if isinstance(model, GPClassifier) else model
    rows = one._fit.problem.rows
    numbers = [y for y in [*rows.y.tolist(), *Y.tolist()] if y != round(y)]
    inputs = [row for row in [*rows.X, *X] if row.tobytes() in content]
    held = [y for y in numbers if repr(y).encode() in content or np.float64(y).tobytes() in content]
    assert bool(held or (inputs and name not in MAY_HOLD_INPUTS)) == (name in HOLD_ROWS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"approximation": "full"},
            "holds the 60 training rows, inputs and targets, from which the exact GP predicts.",
        ),
        ({"knots": 5, "n_neighbors": 4}, "holds the 60 training rows, inputs and targets, since near rows predict"),
        ({"knots": X[:7] + 1e-3}, "holds no training rows."),
        ({"knots": np.r_[X[:3], NEW]}, "but 3 of its 12 knots lie on the inputs of training rows."),
    ],
)
def test_the_log_says_which_training_rows_a_file_holds(options, words, path, caplog):
    gp = GPRegressor(
        kernels.SquaredExponential(1.0, 1.0, column_scales="standard"), optimizer=None, random_state=0, **options
    ).fit(X, Y)
    with caplog.at_level("INFO", logger="knotwise"):
        gp.save(path)
    (record,) = caplog.records
    assert record.levelname == "INFO" and record.getMessage().startswith(f"{path} holds") and words in record.message


def test_the_log_says_once_which_training_rows_the_models_of_classes_hold(path, caplog):
    gp = GPClassifier(
        kernels.SquaredExponential(1.0, 1.0, column_scales="standard"), approximation="full", optimizer=None
    ).fit(X, LABELS)
    with caplog.at_level("INFO", logger="knotwise"):
        gp.save(path)
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} holds the 60 training rows, inputs and targets, from which the exact GP predicts."
    ]


def test_another_process_with_other_threads_predicts_the_same_bits_from_a_file_below_a_megabyte(path):
    rng = np.random.default_rng(1)
    wide, new = rng.normal(size=(700, 3)), rng.normal(size=(5000, 3))
    model = GPRegressor(kernels.Matern32(ard=True), knots=wide[:100], optimizer=None).fit(wide, np.sin(wide.sum(1)))
    model.save(path)
    assert model.n_knots_ == 100 and path.stat().st_size < 1e6
    expected = [*model.predict(new, return_std=True), model.sample_latent(new[:50], random_state=2)]
    program = (
        "import sys, hashlib, numpy as np, knotwise\n"
        "gp, new = knotwise.load(sys.argv[1]), np.load(sys.argv[2])\n"
        "parts = [*gp.predict(new, return_std=True), gp.sample_latent(new[:50], random_state=2)]\n"
        "print(hashlib.sha256(b''.join(p.tobytes() for p in parts)).hexdigest())\n"
    )
    np.save(path.with_name("new.npy"), new)
    threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}  # in the tests there is one
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(path), str(path.with_name("new.npy"))],
        env=os.environ | threads | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == hashlib.sha256(b"".join(p.tobytes() for p in expected)).hexdigest()


# -- settings and parts -----------------------------------------------------------------------------


def through_json(spec, value, at="settings.x"):
    out = Writing()
    written = json.loads(json.dumps(spec.write(value, at, out), allow_nan=False))
    return spec.read(written, at, Reading(dict(out.arrays)))


def public_classes(module, *, has):
    found = [getattr(module, name) for name in module.__all__ if isinstance(getattr(module, name), type)]
    return {cls for cls in found if hasattr(cls, has) and not getattr(cls, "_is_protocol", False)}


def test_every_public_part_can_be_saved():
    abstract = {kernels.Kernel, kernels.Stationary, likelihoods.Likelihood, means.Mean}
    assert public_classes(kernels, has="diag") - abstract == set(FAMILIES["kernel"].values())
    assert set(LIKELIHOODS.values()) | {likelihoods.VaryingGaussian} == set(FAMILIES["likelihood"].values())
    assert public_classes(likelihoods, has="log_density") - abstract == set(FAMILIES["likelihood"].values())
    assert public_classes(means, has="basis") - abstract == set(FAMILIES["mean"].values())
    assert public_classes(noise, has="pullback") - {noise.Noise} == set(FAMILIES["noise"].values())
    assert public_classes(knots, has="select") == set(FAMILIES["knots"].values())
    assert public_classes(knots, has="propose") == set(FAMILIES["proposal"].values())
    assert public_classes(priors, has="log_density") == set(FAMILIES["prior"].values())
    assert public_classes(optimize, has="maximize") == set(FAMILIES["optimizer"].values())


def test_the_page_about_files_has_the_version_of_the_format():
    page = (Path(__file__).parents[1] / "docs" / "files.md").read_text(encoding="utf-8")
    assert f"a version, now {FORMAT_VERSION}," in page and f'`"knotwise model"`, {FORMAT_VERSION} |' in page


def test_a_file_may_name_classes_of_knotwise_only_and_none_that_is_a_base():
    found = [cls for family in FAMILIES.values() for cls in family.values()]
    assert all(cls.__module__.startswith("knotwise.") for cls in found)
    for family in ("kernel", "likelihood", "mean", "optimizer"):
        assert all(cls.__name__ == name for name, cls in FAMILIES[family].items())
    assert not {"Kernel", "Stationary", "Likelihood", "Mean", "Selector", "Proposal", "Optimizer"} & {
        cls.__name__ for cls in found
    }


def test_every_kernel_comes_back_and_gives_the_same_bits(kernel, rng):
    back = through_json(Part("kernel"), kernel)
    assert_same(kernel, back)
    A, B = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    assert kernel(A, B).tobytes() == back(A, B).tobytes()


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood_comes_back_with_its_parameters(name):
    plain = LIKELIHOODS[name]()
    low, high = plain.bounds(9.0).T
    for value in (plain, plain.with_theta(np.log(np.clip(np.linspace(1.7, 2.9, plain.size), low, 0.9 * high)))):
        assert_same(value, through_json(Part("likelihood"), value))


SETTINGS = [
    None, True, 3, -0.0, np.pi, 5e-324, np.inf, "fic", [1, "a", [2.5]], (), (1, (2, [3])), {"mean": (0.0, -np.inf)},
    np.arange(6.0).reshape(3, 2), np.array([True, False]), np.arange(200), np.array([np.nan, 1.0]),
    knots.Auto(max_knots=9), knots.OneAtATime.paper(), knots.Fixed(np.ones((2, 2))), knots.GreedyVariance(3, rounds=2),
    knots.OneAtATime(proposal=knots.BayesOpt(kernel=kernels.Matern12(1.0)), tolerance=-np.inf), means.Linear(3.0),
    means.Linear(columns=["a", 2]), means.Constant(), means.Constant(2.5), means.Constant(prior_sd=None),
    optimize.LBFGS(max_iterations=7), optimize.Adadelta(), kernels.Linear([0.5, 2.0]) + kernels.Constant(),
]  # fmt: skip


@pytest.mark.parametrize("value", SETTINGS, ids=lambda v: type(v).__name__)
def test_a_setting_comes_back_as_it_was(value):
    assert_same(value, through_json(Setting(), value))


def test_a_generator_comes_back_in_its_state():
    rng = np.random.default_rng(8)
    rng.integers(5, dtype=np.int32)
    back = through_json(Setting(), rng, at="settings.random_state")
    assert_array_equal(back.integers(2**32, size=9, dtype=np.uint32), rng.integers(2**32, size=9, dtype=np.uint32))


def test_numbers_of_numpy_become_those_of_python():
    assert_same(
        through_json(Setting(), [np.int32(4), np.float64(0.5), np.bool_(True), np.str_("a")]), [4, 0.5, True, "a"]
    )


class OwnKernel(kernels.SquaredExponential):
    """A user's kernel."""


class OwnLikelihood(likelihoods.Gaussian):
    """A user's likelihood."""


class OwnEstimator(GPRegressor):
    """A user's estimator."""


class OwnSelector(knots.KMeans):
    """A user's selector."""


@pytest.mark.parametrize(
    ("model", "culprit"),
    [
        (GPRegressor(OwnKernel(), knots=3), "OwnKernel"),
        (GPRegressor(kernels.Linear() + OwnKernel(), knots=3), "OwnKernel"),
        (GPRegressor(SMOOTH, OwnLikelihood(), knots=3), "OwnLikelihood"),
        (OwnEstimator(SMOOTH, knots=3), "OwnEstimator"),
        (GPRegressor(SMOOTH, knots=OwnSelector(3)), "OwnSelector"),
        (GPRegressor(SMOOTH, knots=knots.Fixed(lambda X, y, n, rng: X[:n], 3)), "function"),
        (GPRegressor(SMOOTH, knots=3, random_state=np.random.RandomState(0)), "RandomState"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_is_not_knotwises_own_is_named_and_kept_by_pickle(model, culprit, path):
    model.fit(X, Y)
    with pytest.raises(InvalidInputError, match=rf"{culprit}.*pickle"):
        model.save(path)
    assert not list(path.parent.iterdir())
    if culprit != "function":  # a lambda
        assert_same(predictions(pickle.loads(pickle.dumps(model))), predictions(model))


def test_a_setting_of_the_fit_only_can_be_replaced_and_then_saved(path):
    model = GPRegressor(SMOOTH, knots=OwnSelector(3), random_state=0).fit(X, Y)
    loaded = roundtrip(model.set_params(knots="auto"), path)
    assert_same(predictions(model), predictions(loaded))


def test_what_belongs_to_one_run_is_left_out(tmp_path, path):
    model = GPRegressor(SMOOTH, knots=3, callback=lambda event: None, checkpoint=tmp_path / "my folder").fit(X, Y)
    loaded = roundtrip(model, path)
    assert loaded.callback is None and loaded.checkpoint is None
    assert b"my folder" not in path.read_bytes()


def test_a_model_without_a_fit_cannot_be_saved(path):
    with pytest.raises(NotFittedError):
        GPRegressor().save(path)


# -- the format -------------------------------------------------------------------------------------


def test_other_programs_can_read_the_file(small, data):
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        assert opened.testzip() is None
        assert {info.compress_type for info in opened.infolist()} == {zipfile.ZIP_STORED}
        manifest = json.loads(opened.read("manifest.json"))
        assert (manifest["format"], manifest["version"]) == ("knotwise model", FORMAT_VERSION)
        assert opened.namelist() == ["manifest.json", *(f"{name}.npy" for name in manifest["arrays"])]
        for name, entry in manifest["arrays"].items():
            array = np.load(io.BytesIO(opened.read(f"{name}.npy")), allow_pickle=False)
            assert (list(array.shape), array.dtype.str) == (entry["shape"], entry["dtype"])
            assert hashlib.sha256(array.tobytes("A")).hexdigest() == entry["sha256"]
        assert opened.comment[-64:].decode() == hashlib.sha256(data[:-64]).hexdigest()
        knots_in_file = np.load(io.BytesIO(opened.read("fit.state.sparse.Z.npy")))
        assert_array_equal(knots_in_file, small._fit.selection.Z)


def test_the_same_model_gives_the_same_bytes_at_any_time(small, data, path):
    small.save(path)
    assert path.read_bytes() == data


@pytest.mark.failure(30)
@pytest.mark.parametrize("name", model_files.MODELS)
def test_stored_files_of_this_version_load_and_predict_what_they_did(name):
    """Case 30: other files than those of today."""
    expected = json.loads(model_files.PREDICTIONS.read_text())[name]
    model = knotwise.load(model_files.path_of(name))
    for call, values in model_files.predictions(model).items():
        assert_allclose(values, expected[call], rtol=1e-12)


def test_a_fitted_kernel_that_does_not_know_its_scales_is_refused(path):
    GPRegressor(kernels.Matern32(), knots=5, optimizer=None, random_state=0).fit(X, Y).save(path)
    saved = archive.read_archive(path)
    for scales in ("standard", "spread", [1.0, 2.0, 3.0], [1.0, -1.0]):
        arguments = saved.manifest["model"]["fit"]["state"]["sparse"]["model"]["kernel"]["arguments"]
        arguments["column_scales"] = scales
        archive.write_archive(path, saved)
        with pytest.raises(ModelFileError, match=r"kernel|Matern32|model of 2 columns"):
            knotwise.load(path)


@pytest.mark.failure(30)
@pytest.mark.parametrize(("step", "advice"), [(1, "Upgrade knotwise"), (-1, "Fit the model again and save it")])
def test_another_version_is_refused_clearly(step, advice, data, loads):
    """Case 30: other files than those of today."""
    other = data.replace(b"format %04d" % FORMAT_VERSION, b"format %04d" % (FORMAT_VERSION + step))
    with pytest.raises(ModelFileError, match=rf"version {FORMAT_VERSION + step}.*reads {FORMAT_VERSION}\. {advice}"):
        loads(fuzz.resealed(other))
    with pytest.raises(ModelFileError, match="digest"):  # changed by accident, it is damaged and of no other version
        loads(other)


# -- damage -----------------------------------------------------------------------------------------


def test_every_changed_byte_and_every_cut_is_refused(data, loads):
    changed = [data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :] for i in range(len(data))]
    assert all(refuses(loads, file) for file in changed)
    assert all(refuses(loads, data[:i]) for i in range(0, len(data), 3))


@pytest.mark.slow
def test_every_changed_byte_is_refused_also_when_the_seal_is_forged(data, loads):
    changed = [data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :] for i in range(0, len(data) - 64, 3)]
    assert all(refuses(loads, fuzz.resealed(file)) for file in changed)


@pytest.mark.slow
def test_a_thousand_damaged_and_forged_files_do_no_harm():
    tallies = fuzz.run(1000, seed=11)
    outcomes = sum((tally.outcomes for tally in tallies.values()), start=fuzz.collections.Counter())
    assert outcomes.total() == 1000
    assert outcomes["refused"] > 700 and outcomes["another model"] > 20  # else the forgeries test nothing
    assert "1000 files" in fuzz.report(tallies)


@pytest.mark.slow
def test_many_more_damaged_and_forged_files_do_no_harm():
    tallies = fuzz.run(20_000, seed=12)  # raises for a file that does harm
    assert sum(tally.outcomes.total() for tally in tallies.values()) == 20_000


def test_what_is_no_model_file_is_refused_with_its_name(tmp_path, loads):
    for content in (b"", b"x", b"PK\5\6" + b"\0" * 18, pickle.dumps({}), b"\0" * 100_000):
        with pytest.raises(ModelFileError, match=r"model\.knotwise.*`save`"):
            loads(content)
    with pytest.raises(ModelFileError, match="not a file"):
        knotwise.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        knotwise.load(tmp_path / "missing.knotwise")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a file"):
        knotwise.load(tmp_path / "pipe")


# -- forgery: every record and digest fits, but the content is wrong --------------------------------------


def forged(data, change):
    """The file after `change(members, manifest)`; the manifest is written anew."""
    members = fuzz.members_of(data)
    manifest = json.loads(members["manifest.json"])
    change(members, manifest)
    members["manifest.json"] = json.dumps(manifest, separators=(",", ":")).encode()
    return fuzz.forge(members)


def set_array(name, array, **entry):
    """A change that puts another array into the file, with the header of NumPy and the digest that fits."""

    def change(members, manifest):
        stream = io.BytesIO()
        np.save(stream, array)
        content = stream.getvalue()
        members[f"{name}.npy"] = content
        digest = hashlib.sha256(content[-array.nbytes :]).hexdigest()
        manifest["arrays"][name] |= {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest} | entry

    return change


def at(*keys, value):
    """A change of one value in the manifest."""

    def change(members, manifest):
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = value

    return change


Z_NAME = "fit.state.sparse.Z"
STATE = ("model", "fit", "state", "sparse")
FORGERIES = {
    "NaN in the knots": (set_array(Z_NAME, np.full((3, 2), np.nan)), "NaN"),
    "knots beyond all numbers": (set_array(Z_NAME, np.full((3, 2), 1e300)), "square is a number"),
    "a factor beyond all numbers": (
        set_array("fit.state.sparse.L_inverse", np.full((3, 3), -1e300)), "square is a number",
    ),
    "weights of knots beyond all numbers": (at(*STATE, "gamma", value=[1e300] * 4), "square is a number"),
    "a column of no width": (at("model", "fit", "scaling", "x_scale", value=[1.0, 1e-300]), "square is a number"),
    "a column far away": (at("model", "fit", "scaling", "x_centre", value=[1e300, 0.0]), "square is a number"),
    "targets far away": (at("model", "fit", "scaling", "y_centre", value=1e300), "square is a number"),
    "too few knots": (set_array(Z_NAME, np.zeros((2, 2))), "shape"),
    "numbers of another type": (set_array(Z_NAME, np.zeros((3, 2), np.float32)), "type or shape"),
    "big-endian numbers": (set_array(Z_NAME, np.zeros((3, 2), ">f8")), "type or shape"),
    "pickled objects": (set_array(Z_NAME, np.array([[1, 2]], object), dtype="|O"), "type or shape"),
    "three axes": (set_array(Z_NAME, np.zeros((3, 2, 1))), "type or shape"),
    "a bomb": (at("arrays", Z_NAME, "shape", value=[2**31, 2**31]), "describes a file of"),
    "a negative size": (at("arrays", Z_NAME, "shape", value=[-3, 2]), "type or shape"),
    "a size that is true": (at("arrays", Z_NAME, "shape", value=[True, 6]), "type or shape"),
    "a path": (at("arrays", "../../evil", value={}), "no name"),
    "a name of another array": (at(*STATE, "Z", "array", value="fit.state.sparse.T"), "no other place|shape"),
    "no name of an array": (at(*STATE, "Z", "array", value=["x"]), "name of an array"),
    "a short vector too long": (at(*STATE, "gamma", value=[0.5] * 65), "stands"),
    "a class of Python's": (at("model", "class", value="os.system"), "one of GPRegressor"),
    "a kernel that is a mean": (at(*STATE, "model", "kernel", "class", value="Zero"), "kernel that this"),
    "a kernel of the user's": (at(*STATE, "model", "kernel", "class", value="OwnKernel"), "kernel that this"),
    "a kernel that is a base": (at(*STATE, "model", "kernel", "class", value="Stationary"), "kernel that this"),
    "a kernel without values": (at(*STATE, "model", "kernel", "arguments", value={"variance": "x"}), "valid for"),
    "a list for two columns": (
        at(*STATE, "model", "kernel", "arguments", "lengthscale", value=[1.0, 1.0, 1.0]), "a model of 2 columns",
    ),
    "a column beyond all numbers": (
        at(*STATE, "model", "kernel", value={"class": "OnColumns", "arguments": {
            "kernel": {"kernel": {"class": "Constant", "arguments": {"variance": 1.0}}}, "columns": {"float": "inf"},
        }}), "a model of 2 columns",
    ),
    "another parameter": (at("model", "fit", "selection", "theta", value=[0.0] * 3), "parameters in `table`"),
    "a status that no fit has": (at("model", "fit", "selection", "status", value="fine"), "one of converged, as given"),
    "a status that is true": (at("model", "fit", "selection", "status", value=True), "selection.status"),
    "advice that is no text": (at("model", "fit", "selection", "advice", value=3), "selection.advice"),
    "a wrong number of columns": (at("model", "inputs", "n_features", value=3), "shape"),
    "a scale of 0": (at("model", "fit", "scaling", "y_scale", value=0.0), "positive"),
    "a scale beyond all numbers": (at("model", "fit", "scaling", "y_scale", value=1e200), "whose square is a number"),
    "text for a number": (at("model", "fit", "n_rows", value="60"), "whole number"),
    "an unknown setting": (at("model", "settings", "evil", value=1), "arguments of GPRegressor"),
    "a setting of a run": (at("model", "settings", "callback", value="print"), "arguments of GPRegressor"),
    "an unknown field": (at("model", "fit", "evil", value=1), "an object with"),
    "a generator in a kernel": (
        at(*STATE, "model", "kernel", "arguments", "ard", value={"generator": [1, 3, 0, 0]}), "not a setting",
    ),
    "another format": (at("format", value="pickle"), "format"),
    "a version that is true": (at("version", value=True), "version"),
    "a version that its end does not have": (at("version", value=1), f"of version {FORMAT_VERSION}, as its end says"),
    "no word of an exposure": (lambda members, manifest: manifest["model"]["fit"].pop("size_given"), "size_given"),
    "an exposure of Gaussian data": (at("model", "fit", "size_given", value=True), "size_given"),
    "nothing known of Gaussian data": (at("model", "fit", "size_given", value=None), "size_given"),
    "an exposure that is a number": (at("model", "fit", "size_given", value=1), "true or false"),
    "too many arrays": (at("model", "settings", "knots", value="auto"), "belong to nothing"),
    "an array of nothing": (at("arrays", value=[]), "arrays"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_content_is_refused(name, data, loads):
    change, message = FORGERIES[name]
    with pytest.raises(ModelFileError, match=message):
        loads(forged(data, change))


def test_a_covariance_that_is_no_number_draws_nothing(data, loads):
    gp = loads(data)
    gp._fit.posterior.state.L_inverse[:] = np.nan  # as products of large numbers would
    with pytest.raises(NotPositiveDefiniteError, match="NaN or infinities"):
        gp.sample_latent(NEW, random_state=0)


NEAR = ("model", "fit", "state", "neighbors")
NEAR_FORGERIES = {
    "no neighbours": (at(*NEAR, "n_neighbors", value=0), "a number from 1 to the 12 rows"),
    "more neighbours than rows": (at(*NEAR, "n_neighbors", value=13), "a number from 1 to the 12 rows"),
    "neighbours that are true": (at(*NEAR, "n_neighbors", value=True), "n_neighbors"),
    "a part of a neighbour": (at(*NEAR, "n_neighbors", value=2.5), "n_neighbors"),
    "a negative number of neighbours": (at(*NEAR, "n_neighbors", value=-1), "n_neighbors"),
    "too few residuals": (at(*NEAR, "r", value=[0.5] * 11), "shape|long"),
    "a residual that is none": (at(*NEAR, "r", value=[{"float": "nan"}] * 12), "NaN|finite"),
    "no noise": (at(*NEAR, "noise", value=[0.0] * 12), "positive"),
    "noise without end": (at(*NEAR, "noise", value=[{"float": "inf"}] * 12), "NaN|finite"),
    "rows of NaN": (set_array("fit.state.neighbors.X", np.full((12, 2), np.nan)), "NaN|finite"),
    "rows beyond all numbers": (set_array("fit.state.neighbors.X", np.full((12, 2), 1e300)), "square is a number"),
    "noise too small for a square": (at(*NEAR, "noise", value=[1e-200] * 12), "square is a number"),
    "rows of another table": (set_array("fit.state.neighbors.X", np.zeros((12, 3))), "shape"),
    "a residual of the model": (at(*NEAR, "model", "residual", value=None), "an object with"),
    "another state": (lambda members, manifest: manifest["model"]["fit"]["state"].update(sparse={}), "one of sparse"),
}


@pytest.fixture(scope="module")
def near_data(tmp_path_factory):
    """The bytes of a file with neighbours of 12 rows."""
    gp = GPRegressor(
        kernels.Matern32(9.0, 1.0, column_scales="standard"), knots=NEW[:3], n_neighbors=4, optimizer=None
    ).fit(X[:12], Y[:12])
    return fuzz.saved_bytes(gp, tmp_path_factory.mktemp("near"))


@pytest.mark.parametrize("name", NEAR_FORGERIES)
def test_a_forged_state_with_neighbours_is_refused(name, near_data, loads):
    assert loads(near_data).n_neighbors_ == 4
    change, message = NEAR_FORGERIES[name]
    with pytest.raises(ModelFileError, match=message):
        loads(forged(near_data, change))


def test_a_forgery_that_changes_nothing_is_the_model(small, data, loads):
    assert_same(predictions(loads(forged(data, lambda members, manifest: None))), predictions(small))


def manifest_as(data, text):
    return fuzz.forge(fuzz.members_of(data) | {"manifest.json": text})


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"format":"knotwise model","format":"knotwise model"}',
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"a":' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b'{"arrays":{}}',
        b'{"format":"knotwise model","version":1,"knotwise":"1","numpy":"1","model":{},"arrays":{}}',
    ],
    ids=lambda text: text[:12].decode("latin1"),
)
def test_a_manifest_that_is_not_ours_is_refused(text, data, loads):
    with pytest.raises(ModelFileError):
        loads(manifest_as(data, text))


@pytest.mark.parametrize("piece", [b"{},", b"[[]],"], ids=str)
def test_a_huge_manifest_takes_little_memory_and_a_larger_one_is_not_read(piece, data, path):
    fits = b"[" + piece * ((MAX_MANIFEST - 10) // len(piece)) + b"0]"
    for text, message, most in ((fits, "JSON", 40e6), (fits + fits, "limit", 1e6)):
        path.write_bytes(manifest_as(data, text))
        tracemalloc.start()
        with pytest.raises(ModelFileError, match=message):
            knotwise.load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most


def test_a_zip_file_of_another_program_is_refused(data, loads):
    members = fuzz.members_of(data)

    def packed(method=zipfile.ZIP_STORED, names=()):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as opened:
            for name in [*members, *names]:
                opened.writestr(name, members.get(name, b"x"))
            opened.comment = zipfile.ZipFile(io.BytesIO(data)).comment
        return fuzz.resealed(stream.getvalue())

    with pytest.warns(UserWarning, match="Duplicate"):
        duplicate = packed(names=["manifest.json"])
    for forged_file in (packed(), packed(zipfile.ZIP_DEFLATED), packed(names=["extra.npy"]), duplicate):
        with pytest.raises(ModelFileError):
            loads(forged_file)


@pytest.mark.parametrize(
    ("offset", "value", "where"),
    [
        (6, b"\1\0", "local header: encrypted"),
        (8, b"\x08\0", "local header: deflated"),
        (10, b"\1\0", "local header: another time"),
        (18, b"\0\0\0\0", "local header: another compressed size"),
        (26, b"\x0c\0", "local header: a shorter name"),
        (28, b"\1\0", "local header: an extra field"),
        (30, b"/", "local header: a path"),
        (-105 - 22 + 4, b"\1\0", "end record: another disk"),
        (-105 - 22 + 8, b"\0\0", "end record: no members"),
        (-105 - 22 + 16, b"\0\0\0\0", "end record: the directory elsewhere"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_lying_record_is_refused(offset, value, where, data, loads):
    offset %= len(data)
    lying = data[:offset] + value + data[offset + len(value) :]
    assert lying != data, where
    with pytest.raises(ModelFileError):
        loads(fuzz.resealed(lying))


def test_a_directory_that_does_not_agree_with_the_members_is_refused(data, loads):
    start = data.index(b"PK\1\2")
    for offset in range(4, 46):
        lying = data[: start + offset] + bytes([data[start + offset] ^ 1]) + data[start + offset + 1 :]
        with pytest.raises(ModelFileError, match="record of the zip"):
            loads(fuzz.resealed(lying))


def test_truth_values_other_than_0_and_1_are_refused(path, loads):
    wide = np.random.default_rng(2).normal(size=(30, 65))
    kernel = kernels.SquaredExponential(lengthscale=[3.0] * 65, column_scales="standard")
    GPRegressor(kernel, knots=wide[:2], optimizer=None).fit(wide, wide[:, 0]).save(path)
    # with more than 64 parameters the mask of those that are fixed is a member
    name = "fit.table.fixed"
    members = fuzz.members_of(path.read_bytes())
    content = members[f"{name}.npy"][:-1] + b"\2"
    manifest = json.loads(members["manifest.json"])
    manifest["arrays"][name]["sha256"] = hashlib.sha256(content[128:]).hexdigest()
    members[f"{name}.npy"] = content
    members["manifest.json"] = json.dumps(manifest, separators=(",", ":")).encode()
    with pytest.raises(ModelFileError, match="true and false"):
        loads(fuzz.forge(members))


LABEL_FORGERIES = [
    {"dtype": "<U900000", "values": ["a", "b"] * 1000},
    {"dtype": "<U1", "values": ["a", "bb"]},
    {"dtype": "<U1", "values": ["b", "a"]},
    {"dtype": "<U1", "values": ["a", "a"]},
    {"dtype": "|u1", "values": [1, 300]},
    {"dtype": "|O", "values": [[1], [2]]},
    {"dtype": "|O", "values": ["a", 1]},
    {"dtype": "<i8", "values": [1]},
    {"dtype": "V8", "values": [1, 2]},
]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """The bytes of a classifier's file."""
    model = GPClassifier(SMOOTH, knots=2, random_state=0).fit(X, F > 0)
    return fuzz.saved_bytes(model, tmp_path_factory.mktemp("labelled"))


@pytest.mark.parametrize("labels", LABEL_FORGERIES, ids=lambda v: str(v)[:40])
def test_labels_that_no_fit_has_are_refused(labels, labelled, loads):
    with pytest.raises(ModelFileError, match="classes"):
        loads(forged(labelled, at("model", "classes", value=labels)))


# -- writing ----------------------------------------------------------------------------------------


def test_a_failure_leaves_the_old_file_and_nothing_else(small, data, path, monkeypatch):
    path.write_bytes(b"old")

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="space"):
        small.save(path)
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]
    monkeypatch.undo()
    small.save(path)
    assert path.read_bytes() == data and list(path.parent.iterdir()) == [path]


def test_the_file_is_on_the_disk_before_it_gets_its_name(small, path, monkeypatch):
    events = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda d: (events.append("sync"), sync(d))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), rename(a, b))[1])
    small.save(path)
    assert events == ["sync", "rename", "sync"]  # the file, its name, the folder


@pytest.mark.parametrize("field", ["T", "gamma"])
def test_what_could_not_be_loaded_is_not_saved(field, small, path):
    broken = copy.deepcopy(small)
    getattr(broken._fit.posterior.state, field).flat[0] = np.nan
    with pytest.raises(InvalidInputError, match=rf"sparse\.{field}` of the model.*NaN"):
        broken.save(path)
    assert not path.exists()


@pytest.mark.parametrize(("limit", "message"), [("MAX_MANIFEST", "trace_"), ("LARGEST_SIZE", "knots instead of")])
def test_a_model_too_large_for_a_file_is_refused_with_advice(limit, message, small, path, monkeypatch):
    monkeypatch.setattr(archive, limit, 1000)
    with pytest.raises(InvalidInputError, match=message):
        small.save(path)
    assert not path.exists()


def test_a_link_keeps_pointing_to_the_file(small, data, path):
    path.write_bytes(b"old")
    link = path.with_name("link.knotwise")
    link.symlink_to(path.name)
    small.save(link)
    assert link.is_symlink() and path.read_bytes() == data


def test_a_folder_that_is_not_there_is_an_error_of_the_system(small, tmp_path):
    with pytest.raises(FileNotFoundError):
        small.save(tmp_path / "missing" / "model.knotwise")


def test_errors_of_files_are_errors_of_knotwise():
    assert issubclass(ModelFileError, KnotwiseError) and issubclass(NoTrainingDataError, KnotwiseError)
