"""Properties of fits to data of many shapes, scales and types, drawn by hypothesis."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPClassifier, GPRegressor
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import Matern12, Matern32, SquaredExponential
from knotwise.optimize import LBFGS

# fits are dear: 25 and 12 draws each day
bounded = settings(max_examples=settings.default.max_examples // 4)
fewer = settings(max_examples=settings.default.max_examples // 8)

KERNELS = {"smooth": SquaredExponential, "once": Matern32, "rough": Matern12}


@st.composite
def inputs(draw, least=1, most=40):
    """Rows of 1 to 3 columns: in any units, far from the origin or not, with duplicates, constant columns, grids."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n, d = draw(st.integers(least, most)), draw(st.integers(1, 3))
    X = rng.uniform(-1, 1, size=(n, d))
    if draw(st.booleans()):
        X = np.round(X * draw(st.sampled_from([1, 3, 10])))  # ties
    if draw(st.booleans()):
        X = X[rng.integers(n, size=n)]  # duplicates
    if draw(st.booleans()):
        X[:, rng.integers(d)] = rng.normal()  # a constant column
    scale = 10.0 ** np.array([draw(st.integers(-9, 9)) for _ in range(d)])
    offset = draw(st.sampled_from([0.0, 0.0, 1.0, 1e4]))
    return scale * (X + offset), rng


@st.composite
def regressions(draw, **sizes):
    """Inputs, targets of any scale: smooth, noise, steps, constants, or with an outlier."""
    X, rng = draw(inputs(**sizes))
    spread = X.std(0)
    s = (X - X.mean(0)) / np.where(spread > 0, spread, 1.0)
    y = {
        "smooth": np.sin(2 * s[:, 0]) + s.sum(1),
        "noisy": np.sin(2 * s[:, 0]) + 0.3 * rng.normal(size=len(X)),
        "noise": rng.normal(size=len(X)),
        "steps": np.sign(s[:, 0]),
        "constant": np.full(len(X), 2.5),
        "outlier": np.r_[100.0, rng.normal(size=len(X) - 1)],
    }[draw(st.sampled_from(["smooth", "noisy", "noise", "steps", "constant", "outlier"]))]
    return X, 10.0 ** draw(st.integers(-12, 12)) * (y + draw(st.sampled_from([0.0, 0.0, 1e3])))


settings_of_fits = st.fixed_dictionaries(
    {
        "kernel": st.sampled_from(sorted(KERNELS)).map(lambda name: KERNELS[name]()),
        "approximation": st.sampled_from(["vfe", "fic", 0.5, "full"]),
        "knots": st.sampled_from(["auto", 1, 4]),
        "mean": st.sampled_from(["constant", "linear", "zero"]),
        "standardize": st.sampled_from(["columns", "common"]),
    }
)


def quick(**options):
    return {"kernel": SquaredExponential(), "optimizer": LBFGS(max_iterations=15), "random_state": 0, **options}


def fit(X, y, likelihood="gaussian", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # few iterations, little information: other warnings are errors
        return GPRegressor(likelihood=likelihood, **quick(**options)).fit(X, y)


def around(X):
    """The rows themselves, rows between and rows outside."""
    return np.vstack([X, (X + X[::-1]) / 2, 3 * X - 2 * X.mean(0)])


# -- never NaN, never negative ----------------------------------------------------------------------


@bounded
@given(data=regressions(), options=settings_of_fits)
def test_every_prediction_is_finite_and_every_variance_positive(data, options):
    X, y = data
    gp = fit(X, y, **options)
    mean, std = gp.predict(around(X), return_std=True)
    latent = gp.predict_latent(around(X))
    assert np.isfinite(gp.log_evidence_) and np.isfinite(mean).all() and np.isfinite(std).all()
    assert (std > 0).all() and (latent.variance >= 0).all() and np.isfinite(latent.mean).all()
    assert np.isfinite(gp.knots_).all() and 0 <= gp.n_knots_ <= max(len(np.unique(X, axis=0)), 1)
    assert np.isfinite(gp.log_predictive_density(X, y)).all()


@pytest.mark.slow
@bounded
@given(
    data=inputs(least=2),
    likelihood=st.sampled_from(["poisson", "negative_binomial", "bernoulli", "gamma", "student_t", "beta"]),
    options=settings_of_fits,
    level=st.floats(-8, 8),
)
def test_every_prediction_of_other_data_is_finite(data, likelihood, options, level):
    X, rng = data
    f = level + rng.normal(size=len(X))
    y = {
        "poisson": lambda: rng.poisson(np.exp(f)).astype(float),
        "negative_binomial": lambda: rng.poisson(np.exp(f)).astype(float),
        "bernoulli": lambda: (rng.random(len(X)) < 1 / (1 + np.exp(-f))).astype(float),
        "gamma": lambda: np.exp(f) * rng.gamma(2.0, 0.5, len(X)) + 1e-9,
        "student_t": lambda: f + rng.standard_t(2, len(X)),
        "beta": lambda: np.clip(1 / (1 + np.exp(-f)), 1e-6, 1 - 1e-6),
    }[likelihood]()
    gp = fit(X, y, likelihood, **options)
    mean, std = gp.predict(around(X), return_std=True)
    assert np.isfinite(gp.log_evidence_) and np.isfinite(mean).all()
    heavy = likelihood == "student_t" and gp.likelihood_.df <= 2  # which has no variance
    assert np.isfinite(std).all() != heavy and (std >= 0).all()
    assert (gp.predict_latent(around(X)).variance >= 0).all()


@pytest.mark.slow
@fewer
@given(data=inputs(least=4), n_classes=st.integers(2, 4), options=settings_of_fits)
def test_probabilities_lie_between_0_and_1_and_sum_to_1(data, n_classes, options):
    X, rng = data
    y = np.arange(len(X)) % n_classes
    rng.shuffle(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = GPClassifier(**quick(**options)).fit(X, y)
    proba = gp.predict_proba(around(X))
    assert (proba > 0).all() and (proba < 1).all()
    assert_allclose(proba.sum(1), 1.0, rtol=1e-12)


# -- invariances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [SquaredExponential(), pytest.param(None, marks=pytest.mark.slow)], ids=str)
@bounded
@given(data=regressions(least=2), powers=st.lists(st.integers(-60, 60), min_size=4, max_size=4))
def test_powers_of_two_change_no_bit(kernel, data, powers):
    X, y = data
    # a constant has no scale
    units = np.where(np.ptp(X, axis=0) > 0, 2.0 ** np.array(powers[: X.shape[1]]), 1.0)
    unit = 2.0 ** powers[3] if np.ptp(y) > 0 else 1.0
    a, b = fit(X, y, kernel=kernel), fit(X * units, y * unit, kernel=kernel)
    assert_array_equal(
        np.array(b.predict(around(X) * units, return_std=True)), unit * np.array(a.predict(around(X), return_std=True))
    )
    assert_array_equal(b.knots_, a.knots_ * units)


def held(X, y, knots, approximation, **options):
    """A model at given knots and parameters, so that only the engine's arithmetic can differ."""
    kernel = Matern32(float(y.var()) or 1.0, 0.7, column_scales="standard")
    return GPRegressor(kernel, approximation=approximation, knots=knots, optimizer=None, jitter=1e-8, **options).fit(
        X, y
    )


approximations = st.sampled_from(["vfe", "fic", 0.5, "full"])


@bounded
@given(data=regressions(least=3), approximation=approximations, block_size=st.integers(1, 50), seed=st.integers(0, 99))
def test_the_order_of_rows_and_the_size_of_blocks_do_not_matter(data, approximation, block_size, seed):
    X, y = data
    order = np.random.default_rng(seed).permutation(len(X))
    knots = X[: 1 + len(X) // 3]
    a = held(X, y, knots, approximation)
    b = held(X[order], y[order], knots, approximation, block_size=block_size)
    assert_allclose(b.log_evidence_, a.log_evidence_, rtol=1e-8, atol=1e-8)
    scale = y.std() or abs(y[0]) or 1.0
    assert_allclose(b.predict(around(X)), a.predict(around(X)), rtol=1e-7, atol=1e-7 * scale)


@bounded
@given(data=regressions(least=3, most=20), approximation=st.sampled_from(["vfe", "full"]))
def test_a_row_twice_is_a_row_with_half_the_noise(data, approximation):
    """Two observations of one value say what their mean says with half the noise.

    Not for FIC, which gives each of two rows at one place a residual of its own.
    """
    X, y = data
    options = {"standardize": False, "mean": 0.0, "kernel": Matern32(1.0, 1.0), "optimizer": None, "jitter": 1e-8}
    s = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0)
    s = s + np.arange(len(s))[:, None]  # distinct places: equal ones would be four rows
    t = (y - y.mean()) / (y.std() or 1.0)
    gp = GPRegressor(approximation=approximation, knots=s[::2], **options)
    twice = gp.fit(np.vstack([s, s]), np.r_[t, t], noise_variance=np.full(2 * len(s), 0.3)).predict_latent(s)
    half = gp.fit(s, t, noise_variance=np.full(len(s), 0.15)).predict_latent(s)
    assert_allclose(twice.mean, half.mean, rtol=1e-6, atol=1e-6)
    assert_allclose(twice.variance, half.variance, rtol=1e-6, atol=1e-9)


@fewer
@given(data=regressions(least=3), constant=st.floats(-1e6, 1e6), place=st.integers(0, 1))
def test_a_constant_column_changes_no_prediction_of_a_held_model(data, constant, place):
    X, y = data
    wide, wide_around = (np.insert(A, place, constant, axis=1) for A in (X, around(X)))
    knots = np.arange(0, len(X), 3)
    a, b = held(X, y, X[knots], "vfe"), held(wide, y, wide[knots], "vfe")
    scale = y.std() or abs(y[0]) or 1.0
    assert_allclose(b.predict(wide_around), a.predict(around(X)), rtol=1e-6, atol=1e-6 * scale)


# -- types and shapes -------------------------------------------------------------------------------

TYPES = ["float32", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool", "object"]


@pytest.mark.slow
@bounded
@given(seed=st.integers(0, 2**16), x_type=st.sampled_from(TYPES), y_type=st.sampled_from(TYPES), fortran=st.booleans())
def test_every_type_of_number_is_its_value_as_float64(seed, x_type, y_type, fortran):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 9, size=(25, 2)).astype(x_type), rng.integers(0, 20, size=25).astype(y_type)
    X = np.asfortranarray(X) if fortran else X
    typed = np.array(fit(X, y, knots=4).predict(X, return_std=True))
    assert typed.dtype == np.float64
    plain = fit(X.astype(float), y.astype(float), knots=4).predict(X.astype(float), return_std=True)
    assert_array_equal(typed, np.array(plain))


@fewer
@given(n=st.integers(1, 30), d=st.integers(1, 6), m=st.integers(1, 9), knots=st.sampled_from(["auto", 3]))
def test_shapes_of_predictions_follow_the_rows_asked_for(n, d, m, knots):
    rng = np.random.default_rng(n + 31 * d)
    gp = fit(rng.normal(size=(n, d)), rng.normal(size=n), knots=knots)
    X_new = rng.normal(size=(m, d))
    mean, std = gp.predict(X_new, return_std=True)
    assert mean.shape == std.shape == (m,)
    assert gp.predict(X_new, return_cov=True)[1].shape == (m, m)
    assert gp.predict_interval(X_new).shape == (m, 2)
    assert gp.sample_latent(X_new, 3, random_state=0).shape == (3, m)
    assert gp.knots_.shape == (gp.n_knots_, d)


@fewer
@given(data=regressions(least=2), where=st.integers(0, 39), bad=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_a_value_that_is_not_finite_is_refused_wherever_it_is(data, where, bad):
    X, y = data
    row = where % len(X)
    for place in ("X", "y"):
        X_bad, y_bad = X.copy(), y.copy()
        if place == "X":
            X_bad[row, -1] = bad
        else:
            y_bad[row] = bad
        try:
            fit(X_bad, y_bad)
        except InvalidInputError as error:
            assert_array_equal(error.rows, [row])
        else:
            raise AssertionError(f"{bad} in row {row} of {place} was not refused")
