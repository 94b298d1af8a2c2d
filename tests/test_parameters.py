"""Named parameters and the flat vector: two descriptions of one thing."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from knotwise.errors import InvalidInputError, UnknownOptionError
from knotwise.kernels import Constant, Matern32, RationalQuadratic, SquaredExponential
from knotwise.kernels.base import LENGTHSCALE, VARIANCE
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant as ConstantMean
from knotwise.means import Linear, Zero, mean_from
from knotwise.numerics.parameters import ParameterTable, flat_names
from knotwise.numerics.part import short_repr


def nested():
    return SquaredExponential(2.0, [0.5, 4.0]) + Constant(3.0) * RationalQuadratic(5.0, 6.0, shape=7.0).on([1])


def table():
    return ParameterTable(
        names=("variance", "lengthscale[0]", "lengthscale[1]", "mean"),
        parameters=(
            VARIANCE,
            *(replace(LENGTHSCALE, columns=(i,)) for i in range(2)),
            *ConstantMean(0.0).parameters,
        ),
        values=np.array([2.0, 0.5, 4.0, -1.5]),
        lower=np.array([1e-3, 0.5, 1e-2, -10.0]),
        upper=np.array([1e3, 1e2, 1e2, 10.0]),
        fixed=np.array([False, False, True, False]),
    )


# -- parts ----------------------------------------------------------------------------------------------------


def test_theta_has_the_logarithms_of_positive_parameters_in_the_order_of_the_names():
    kernel = nested()
    assert kernel.size == len(kernel.names) == 7
    assert_allclose(kernel.theta, np.log([2.0, 0.5, 4.0, 3.0, 5.0, 6.0, 7.0]), rtol=1e-15)
    assert_allclose(Gaussian(0.25).theta, [np.log(0.25)], rtol=1e-15)
    assert_array_equal(ConstantMean(-1.5).theta, [-1.5])
    assert Zero().theta.shape == (0,)


@given(st.lists(st.floats(-20, 20), min_size=7, max_size=7))
def test_with_theta_is_the_inverse_of_theta_and_changes_a_copy(theta):
    kernel = nested()
    moved = kernel.with_theta(np.array(theta))
    assert_allclose(moved.theta, theta, rtol=1e-14, atol=1e-15)
    assert_array_equal(kernel.theta, nested().theta)
    assert moved.names == kernel.names


def test_with_theta_does_not_keep_a_view_of_the_vector():
    theta = np.zeros(7)
    moved = nested().with_theta(theta)
    theta += 1.0
    assert_array_equal(moved.theta, 0.0)


def test_a_parameter_left_open_counts_as_1_or_as_0():
    assert_array_equal(SquaredExponential().theta, [0.0, 0.0])
    assert_array_equal(ConstantMean(prior_sd=None).theta, [0.0])
    assert SquaredExponential().get_params()["variance"] is None


def test_an_overflowing_step_is_infinite_and_no_error():
    moved = SquaredExponential(1.0, 1.0).with_theta(np.array([1000.0, -1000.0]))
    assert (moved.variance, moved.lengthscale) == (np.inf, 0.0)


def test_get_params_reaches_into_parts_and_set_params_changes_them():
    kernel = nested()
    params = kernel.get_params()
    assert params["k2__k2__kernel__shape"] == 7.0 and params["k1__lengthscale"] == [0.5, 4.0]
    assert params["k2__k2__columns"] == [1] and params["k1"] is kernel.k1
    returned = kernel.set_params(k2__k2__kernel__shape=8.0, k1__variance=9.0)
    assert returned is kernel
    assert_allclose(np.exp(kernel.theta), [9.0, 0.5, 4.0, 3.0, 5.0, 6.0, 8.0], rtol=1e-14)


def test_a_part_can_be_replaced_by_another():
    kernel = nested().set_params(k2=Matern32(1.5, 2.5))
    assert kernel.names == ["k1__variance", "k1__lengthscale", "k1__lengthscale", "k2__variance", "k2__lengthscale"]


@pytest.mark.parametrize(
    "part",
    [nested(), Gaussian(0.3), Gaussian(), Gaussian(0.0), ConstantMean(2.0), Linear(5.0), Zero(), SquaredExponential()],
    ids=repr,
)
def test_scikit_learn_can_copy_a_part(part):
    for copied in (clone(part), copy.deepcopy(part), pickle.loads(pickle.dumps(part))):
        assert type(copied) is type(part) and copied is not part
        assert repr(copied) == repr(part) and copied.names == part.names
    again = copy.deepcopy(part).set_params(**part.get_params(deep=False))
    assert repr(again) == repr(part)


@pytest.mark.parametrize(
    ("part", "name", "near"),
    [
        (SquaredExponential(), "varience", "variance"),
        (Gaussian(), "noise", "noise_variance"),
        (Linear(), "prior_std", "prior_sd"),
        (nested(), "k22", "k2"),
    ],
)
def test_an_unknown_parameter_is_an_error_that_names_the_nearest(part, name, near):
    with pytest.raises(UnknownOptionError, match=f"Did you mean '{near}'") as caught:
        part.set_params(**{name: 1.0})
    assert caught.value.given == name


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf, "loud", [0.1, 0.2], np.array([0.1, 0.2])])
def test_a_noise_variance_that_is_not_one_positive_number_is_refused(bad):
    with pytest.raises(InvalidInputError, match="`noise_variance` of Gaussian"):
        Gaussian(bad)


@pytest.mark.parametrize("bad", [np.nan, np.inf, "high"])
def test_a_mean_that_is_not_a_finite_number_is_refused(bad):
    with pytest.raises(InvalidInputError, match="`mean`"):
        mean_from(bad)
    with pytest.raises(InvalidInputError, match="`mean` of Constant"):
        ConstantMean(bad)


def test_a_misspelt_mean_names_the_nearest():
    with pytest.raises(UnknownOptionError, match="Did you mean 'linear'"):
        mean_from("lineer")
    assert isinstance(mean_from("linear"), Linear) and mean_from(3).offset == 3.0


def test_a_part_shows_what_it_was_given_and_not_what_is_open():
    assert repr(Gaussian(0.123456)) == "Gaussian(noise_variance=0.1235)"
    assert repr(Gaussian()) == "Gaussian()"
    assert "lengthscale" not in repr(SquaredExponential(1.0))
    assert short_repr(np.array([1.0, 2.34567])) == "[1, 2.346]"


# -- means ----------------------------------------------------------------------------------------------------


def test_the_basis_of_a_linear_mean_is_centred_and_scaled_by_the_data(rng):
    X = rng.normal(loc=50.0, scale=[3.0, 0.1], size=(60, 2))
    basis = Linear(prior_sd=2.0).bind(X, level=0.0, second_moment=9.0).basis(X)
    assert basis.shape == (60, 3)
    assert_allclose(basis[:, 0], 6.0, rtol=1e-14)
    assert_allclose(basis[:, 1:].mean(0), 0.0, atol=1e-10)
    assert_allclose(basis[:, 1:].std(0), 6.0, rtol=1e-12)


def test_a_linear_mean_is_about_the_level_of_the_data_and_an_open_constant_starts_there(rng):
    X = rng.normal(size=(20, 2))
    assert Linear().bind(X, level=3.5, second_moment=1.0).offset == 3.5
    assert ConstantMean().bind(X, level=3.5, second_moment=1.0).offset == 3.5
    assert ConstantMean(prior_sd=None).bind(X, level=3.5, second_moment=1.0).mean == 3.5
    assert ConstantMean(2.0).bind(X, level=3.5, second_moment=1.0).offset == 2.0
    assert Zero().bind(X, level=3.5, second_moment=1.0).offset == 0.0


def test_a_constant_column_has_no_slope(rng):
    X = np.column_stack([rng.normal(size=20), np.full(20, 7.0)])
    assert_array_equal(Linear().bind(X, level=0.0, second_moment=1.0).basis(X)[:, 2], 0.0)


# -- the table ------------------------------------------------------------------------------------------------


def test_the_table_has_theta_and_bounds_on_the_unconstrained_scale():
    assert_allclose(table().theta, [np.log(2), np.log(0.5), np.log(4), -1.5], rtol=1e-15)
    assert_allclose(table().theta_bounds[:, 0], [np.log(1e-3), np.log(0.5), np.log(1e-2), -10.0], rtol=1e-15)
    assert_allclose(table().theta_bounds[:, 1], [np.log(1e3), np.log(1e2), np.log(1e2), 10.0], rtol=1e-15)


@given(st.lists(st.floats(-20, 20), min_size=4, max_size=4))
def test_the_table_moves_to_any_theta_and_back(theta):
    moved = table().with_theta(np.array(theta))
    assert_allclose(moved.theta, theta, rtol=1e-14, atol=1e-14)
    assert_array_equal(moved.lower, table().lower)
    assert moved.names == table().names


def test_the_table_gives_values_by_name_and_lists_by_their_common_name():
    assert table()["variance"] == 2.0 and table()["mean"] == -1.5 and table()["lengthscale[1]"] == 4.0
    assert_array_equal(table()["lengthscale"], [0.5, 4.0])
    assert table().as_dict() == dict(zip(table(), [2.0, 0.5, 4.0, -1.5], strict=True))
    assert len(table()) == 4
    with pytest.raises(UnknownOptionError, match="Did you mean 'variance'"):
        table()["varianc"]


def test_the_table_cannot_be_changed_through_its_arrays():
    with pytest.raises(ValueError, match="read-only"):
        table().values[0] = 3.0
    given = table()
    given["lengthscale"][0] = 9.0
    assert given["lengthscale[0]"] == 0.5


def test_at_bound_names_the_free_parameters_that_touch_a_bound():
    assert table().at_bound() == ["lengthscale[0]"]
    moved = table().with_theta(np.array([np.log(1e3), 0.0, np.log(1e-2), 10.0]))
    assert moved.at_bound() == ["variance", "mean"]  # lengthscale[1] touches its bound too, but is held


def test_a_lower_bound_of_0_is_minus_infinity_for_a_positive_parameter():
    open_below = ParameterTable(
        ("variance",), (VARIANCE,), *(np.array([v]) for v in (1.0, 0.0, np.inf)), np.array([False])
    )
    assert_array_equal(open_below.theta_bounds, [[-np.inf, np.inf]])


def test_the_table_prints_one_line_per_parameter_with_its_hold():
    lines = str(table()).splitlines()
    assert len(lines) == 5 and lines[0].split() == ["name", "value", "lower", "upper"]
    assert lines[3].split() == ["lengthscale[1]", "4", "0.01", "100", "fixed"]
    assert lines[4].split() == ["mean", "-1.5", "-10", "10"]


def test_only_repeated_names_are_numbered():
    assert flat_names(["variance", "ell", "ell", "k2__ell"]) == ["variance", "ell[0]", "ell[1]", "k2__ell"]
