"""Units and types of the numbers do not change what is predicted."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from failure_fits import N, fit, predictions, regressor, smooth_rows
from knotwise.errors import FitWarning, InvalidInputError, KnotwiseError
from knotwise.kernels import Linear, SquaredExponential


@pytest.fixture(scope="module")
def data():
    return smooth_rows()


# -- units ------------------------------------------------------------------------------------------

UNIT_MODELS = {
    "default": {},
    "fic": {"kernel": SquaredExponential(), "approximation": "fic"},
    "full": {"kernel": SquaredExponential(), "approximation": "full"},
    "ard": {"kernel": SquaredExponential(ard=True)},
    "linear mean": {"kernel": SquaredExponential(), "mean": "linear"},
    "sum": {"kernel": SquaredExponential() + Linear()},
    "power": {"kernel": SquaredExponential(), "approximation": 0.5},
}


@pytest.fixture(scope="module", params=UNIT_MODELS)
def unit_model(request, data):
    """Each model in turn, and what it predicts in the units of the data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return UNIT_MODELS[request.param], predictions(*data, **UNIT_MODELS[request.param])


@pytest.mark.failure(15)
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_columns_times_powers_of_two_give_the_same_bits(unit_model, data):
    """Case 15: unscaled inputs."""
    (X, y, X_new), (options, expected) = data, unit_model
    units = 2.0 ** np.array([20, -30])
    assert_array_equal(predictions(X * units, y, X_new * units, **options), expected)


@pytest.mark.failure(15)
@pytest.mark.parametrize("units", [(1e6, 1e-3), (3.0, 7.0), (1e-200, 1e200)])
def test_columns_of_any_units_give_the_predictions_of_scaled_data(units, data):
    """Case 15: columns at 1e6 and 1e-3."""
    X, y, X_new = data
    s, s_new = (X - X.mean(0)) / X.std(0), (X_new - X.mean(0)) / X.std(0)
    expected = predictions(s, y, s_new)
    assert_allclose(predictions(X * units, y, X_new * units), expected, rtol=0, atol=1e-4 * y.std())


@pytest.mark.failure(16)
@pytest.mark.parametrize("standardize", ["columns", "common", False])
@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_inputs_far_from_the_origin_equal_the_centred_fit(mean, standardize, data):
    """Case 16: X in [1e8, 1e8 + 1]."""
    X, y, X_new = (np.round(A * 2**20) / 2**20 for A in data)  # so that adding 1e8 is exact
    options = {"kernel": SquaredExponential(), "mean": mean, "standardize": standardize}
    expected = predictions(X, y, X_new, **options)
    assert_allclose(predictions(X + 1e8, y, X_new + 1e8, **options), expected, rtol=0, atol=1e-4 * y.std())


@pytest.mark.failure(17)
@pytest.mark.parametrize("unit", [2.0**-40, 2.0**300])
@pytest.mark.filterwarnings("ignore::knotwise.errors.FitWarning")
def test_targets_times_powers_of_two_scale_predictions_to_the_bit(unit, unit_model, data):
    """Case 17: units of y."""
    (X, y, X_new), (options, expected) = data, unit_model
    assert_array_equal(predictions(X, y * unit, X_new, **options), unit * expected)


@pytest.mark.failure(17)
@pytest.mark.parametrize("unit", [1e-6, 1e6, 3.0])
def test_targets_of_any_units_scale_predictions(unit, data):
    """Case 17: y * 1e-6."""
    X, y, X_new = data
    assert_allclose(predictions(X, y * unit, X_new) / unit, predictions(X, y, X_new), rtol=0, atol=1e-4 * y.std())


@pytest.mark.failure(17)
def test_targets_of_the_largest_units_are_predicted_or_refused_with_the_reason(data):
    """Case 17: y at 1e300, whose variance is beyond the largest float."""
    X, y, X_new = data
    try:
        scaled = predictions(X, y * 1e300, X_new) / 1e300
    except KnotwiseError as error:
        assert "y" in str(error)
    else:
        assert_allclose(scaled, predictions(X, y, X_new), rtol=0, atol=1e-4 * y.std())


# -- types of numbers -------------------------------------------------------------------------------


@pytest.mark.failure(20)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, object])
def test_numbers_of_every_type_equal_the_same_values_as_float64(dtype):
    """Case 20: float32, int input."""
    rng = np.random.default_rng(20)
    X = rng.integers(0, 12, size=(120, 2))
    y = 20 + np.round(5 * np.sin(X[:, 0] / 3)) + X[:, 1] + rng.integers(0, 3, size=120)
    typed = predictions(X.astype(dtype), y.astype(dtype), X[:9].astype(dtype))
    assert typed.dtype == np.float64
    assert_array_equal(typed, predictions(X.astype(float), y.astype(float), X[:9].astype(float)))


@pytest.mark.failure(20)
def test_booleans_equal_zeros_and_ones():
    """Case 20: bool input."""
    X = np.random.default_rng(20).integers(0, 2, size=(60, 3)).astype(bool)
    X, y = X[:, :2], X[:, 0] & X[:, 2]
    found = predictions(X, y, X[:9], knots=4)
    assert_array_equal(found, predictions(X.astype(float), y.astype(float), X[:9].astype(float), knots=4))


@pytest.mark.failure(22)
@pytest.mark.parametrize("more", [-1, 1])
def test_series_and_frames_of_other_lengths_are_refused_whatever_their_index(more, data):
    """Case 22: length mismatch is an error."""
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame(X, columns=["a", "b"])
    other = pd.Series(np.resize(y, N + more), index=np.arange(N + more) + 5)
    with pytest.raises(ValueError, match=rf"inconsistent.*\[{N}, {N + more}\]"):
        fit(frame, other)
    with pytest.raises(InvalidInputError, match=f"each of the {N} rows"):
        regressor().fit(frame, pd.Series(y), noise_variance=other)


@pytest.mark.failure(22)
def test_a_frame_of_knots_is_an_array_of_knots(data):
    """Case 22: data frames have a method `select`, but they are no selectors."""
    pd = pytest.importorskip("pandas")
    X, y, X_new = data
    knots = pd.DataFrame(X[:9], index=np.arange(9) + 5)
    expected = predictions(X, y, X_new, knots=X[:9])  # up to rounding: a frame has its columns one after another
    assert_allclose(predictions(X, y, X_new, knots=knots), expected, rtol=1e-9, atol=1e-9)
