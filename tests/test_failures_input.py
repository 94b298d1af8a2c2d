"""Data and requests that cannot be used are refused with the place and the reason."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from failure_fits import N, fit, predictions, put, regressor, smooth_rows
from knotwise import GPRegressor
from knotwise.errors import InvalidInputError, UnknownOptionError


@pytest.fixture(scope="module")
def data():
    return smooth_rows()


# -- data that cannot be used -----------------------------------------------------------------------


@pytest.mark.failure(33)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["X", "y"])
def test_a_value_that_is_not_finite_is_refused_with_its_row(place, value, data):
    """Case 33: NaN or infinity in X or y."""
    X, y, _ = data
    X, y = (put(X, 41, value, column=1), y) if place == "X" else (X, put(y, 41, value))
    kind = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=f"{place} contains {kind}.*row 41"):
        fit(X, y)


@pytest.mark.failure(33)
def test_infinities_of_both_signs_are_refused_with_their_rows(data):
    """Case 33: their sum is NaN, and that is no excuse."""
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="infinity in row 3, column 0, and 1 more row") as caught:
        fit(put(put(X, 9, -np.inf, column=0), 3, np.inf, column=0), y)
    assert_array_equal(caught.value.rows, [3, 9])


@pytest.mark.failure(33)
def test_a_value_that_is_not_finite_is_refused_at_prediction(data):
    """Case 33: at predict."""
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="NaN in row 7"):
        fit(X, y).predict(put(X, 7, np.nan, column=0))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones(5), np.ones(5), "2D array"),
        (np.ones((2, 5, 1)), np.ones(5), "dim 3"),
        (np.ones((5, 1)), np.ones((5, 2)), "1d array"),
        (np.ones((5, 1)), np.ones(4), r"inconsistent.*\[5, 4\]"),
        (np.ones((0, 2)), np.ones(0), "0 sample"),
        (np.ones((5, 0)), np.ones(5), "0 feature"),
        (np.ones((5, 1)), None, "y"),
        (np.ones((5, 1), complex), np.ones(5), "[Cc]omplex"),
    ],
)
def test_data_of_the_wrong_shape_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        fit(X, y)


@pytest.mark.failure(21)
def test_text_among_the_numbers_of_a_data_frame_is_named(data):
    """Case 21: strings that are no levels; test_tables.py has categories and dates."""
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame({"lstat": X[:, 0], "colour": [1, 2, "x"] + [4] * (N - 3), "rm": X[:, 1]})
    with pytest.raises(InvalidInputError, match=r"'colour' holds 'x' in row 2.*not a number"):
        fit(frame, y)
    with pytest.raises(InvalidInputError, match=r"'colour' holds 'red' in row 0.*not a number"):
        fit(frame.assign(colour=1.0), y).predict(frame.assign(colour="red"))


@pytest.mark.failure(21)
def test_durations_in_a_data_frame_are_named(data):
    """Case 21: their units are hidden."""
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame({"lstat": X[:, 0], "time": pd.to_timedelta(np.arange(N), unit="h")})
    with pytest.raises(InvalidInputError, match="'time'"):
        fit(frame, y)


@pytest.mark.failure(21)
def test_numbers_stored_as_objects_are_converted_and_text_is_not(data):
    """Case 21: numbers as objects."""
    pd = pytest.importorskip("pandas")
    X, y, X_new = data
    frame = pd.DataFrame({"a": X[:, 0].astype(object), "b": X[:, 1]})
    new = pd.DataFrame(X_new, columns=["a", "b"])
    assert_array_equal(predictions(frame, y, new), predictions(X, y, X_new))
    text = frame.assign(b=[repr(float(v)) for v in X[:, 1]])
    with pytest.raises(InvalidInputError, match=r"'b' is text that looks like numbers.*pandas\.to_numeric"):
        fit(text, y)
    converted = text.assign(b=pd.to_numeric(text["b"]))
    assert_array_equal(predictions(converted, y, new), predictions(X, y, X_new))


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (put(np.ones(N), 12, -1.0), "not negative.*row 12"),
        (put(np.ones(N), 12, np.nan), "finite.*row 12"),
        (put(np.ones(N), [12, 15], np.inf), "finite.*row 12 and 1 more"),
        (np.ones(N - 1), f"one value for each of the {N} rows"),
        (np.ones((N, 1)), f"one value for each of the {N} rows"),
        (-0.1, "not negative.*row 0"),
    ],
)
def test_noise_per_row_must_not_be_negative_and_of_the_right_length(noise, message, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=message):
        regressor().fit(X, y, noise_variance=noise)
    with pytest.raises(InvalidInputError, match=message):
        fit(X, y).predict(X, return_std=True, noise_variance=noise)


# -- requests that cannot be met ----------------------------------------------------------------------

REQUESTS = {
    "predict": lambda gp, X: gp.predict(X),
    "predict_latent": lambda gp, X: gp.predict_latent(X),
    "predict_interval": lambda gp, X: gp.predict_interval(X),
    "sample_latent": lambda gp, X: gp.sample_latent(X),
    "sample_observations": lambda gp, X: gp.sample_observations(X),
    "predict_total": lambda gp, X: gp.predict_total(X),
    "log_predictive_density": lambda gp, X: gp.log_predictive_density(X, np.ones(len(X))),
    "evidence": lambda gp, X: gp.evidence(),
    "summary": lambda gp, X: gp.summary(),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_model_that_was_not_fitted_says_so(request_):
    with pytest.raises(NotFittedError, match="fit"):
        request_(GPRegressor(), np.ones((3, 2)))


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("name", ["predict", "predict_latent", "predict_interval", "sample_latent", "predict_total"])
def test_the_wrong_number_of_columns_is_refused_at_prediction(name, n_columns, data):
    X, y, _ = data
    with pytest.raises(ValueError, match=f"{n_columns} features.*expecting 2"):
        REQUESTS[name](fit(X, y), np.ones((3, n_columns)))


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, np.nan])
def test_a_level_outside_0_and_1_is_refused(level, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        fit(X, y).predict_interval(X, level=level)


@pytest.mark.parametrize("theta", [[1.0, 2.0], 3.0, np.zeros((3, 1)), np.zeros(5)])
def test_a_theta_of_the_wrong_length_is_refused_with_the_names(theta, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=r"3 .*entries.*'lengthscale', 'noise_variance'"):
        fit(X, y).evidence(theta)


def test_std_and_covariance_at_once_are_refused(data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="not for both"):
        fit(X, y).predict(X, return_std=True, return_cov=True)


def test_targets_of_another_length_have_no_predictive_density(data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match=f"{N} rows"):
        fit(X, y).log_predictive_density(X, y[:-1])


@pytest.mark.parametrize("n_samples", [0, -1, 2.5])
def test_a_number_of_samples_is_a_whole_number_from_1(n_samples, data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="n_samples"):
        fit(X, y).sample_latent(X, n_samples)


def test_an_unknown_parameter_of_the_table_names_the_nearest(data):
    X, y, _ = data
    with pytest.raises(UnknownOptionError, match="Did you mean 'lengthscale'"):
        fit(X, y).parameters_["lengthscales"]
