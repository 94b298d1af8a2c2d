"""Units of parameters: what users give and see, what the engine works with, and the table in the units of the data."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import knotwise
from knotwise import GPRegressor, means
from knotwise.errors import InvalidInputError
from knotwise.kernels import Constant, Linear, Matern32, Periodic, RationalQuadratic, SquaredExponential
from knotwise.likelihoods import Gaussian
from knotwise.priors import LogNormal
from knotwise.testing import check_kernel

RNG = np.random.default_rng(3)
MONTH = RNG.uniform(0.0, 60.0, size=120)
SITE = RNG.uniform(0.0, 0.04, size=120)
Y = 300 + 50 * np.sin(2 * np.pi * MONTH / 12) + 900 * SITE + 5 * RNG.normal(size=120)
FRAME = pd.DataFrame({"month": MONTH, "site": SITE})
SD = FRAME.to_numpy().std(0)
LEARNED = means.Constant(prior_sd=None)
HELD = {"approximation": "full", "optimizer": None}


def seasonal(**options):
    """A model of the month alone."""
    return GPRegressor(**{"approximation": "full", **options}).fit(FRAME[["month"]], Y)


# -- a period is in the units of its column ---------------------------------------------------------------------


def test_a_period_given_in_the_units_of_its_column_is_that_of_the_unscaled_inputs():
    kernel = Periodic(900.0, 1.2, period=12.0)
    fits = [
        seasonal(kernel=kernel, likelihood=Gaussian(25.0), mean=300.0, optimizer=None, standardize=s)
        for s in ("columns", "common", False)
    ]
    for gp in fits:
        assert_allclose(gp.parameters_["period"], 12.0, rtol=1e-14)
        assert_allclose(gp.kernel_.period, 12.0, rtol=1e-14)
        assert_allclose(gp.log_evidence_, fits[-1].log_evidence_, rtol=1e-10)
        assert_allclose(gp.predict(FRAME[["month"]]), fits[-1].predict(FRAME[["month"]]), rtol=1e-8)


def test_a_fit_with_a_period_is_the_fit_on_rescaled_inputs():
    by = 1 / 64  # a power of two, so that not even the rounding differs
    options = {"approximation": "full", "mean": LEARNED}  # of which the evidence has fewer maxima
    bounds = np.array([6.0, 30.0])
    one = GPRegressor(Periodic(period=11.0), bounds={"period": bounds}, **options)
    other = GPRegressor(Periodic(period=11.0 * by), bounds={"period": bounds * by}, **options)
    one.fit(FRAME[["month"]].to_numpy(), Y)
    other.fit(FRAME[["month"]].to_numpy() * by, Y)
    assert_allclose(one.parameters_["period"], 12.0, rtol=0.01)  # which is what the data have
    assert_allclose(other.parameters_["period"], by * one.parameters_["period"], rtol=1e-12)
    assert_allclose(other.parameters_.values[:2], one.parameters_.values[:2], rtol=1e-12)
    assert_allclose(other.log_evidence_, one.log_evidence_, rtol=1e-12)


def test_the_old_meaning_is_a_period_times_the_standard_deviation():
    in_deviations = 0.7
    gp = seasonal(kernel=Periodic(period=in_deviations * MONTH.std()), optimizer=None)
    assert_allclose(gp._fit.model.kernel.period, in_deviations, rtol=1e-14)


def test_bounds_of_a_period_are_in_the_units_of_its_column():
    gp = seasonal(kernel=Periodic(period=15.0), bounds={"period": (14.0, 20.0)})
    table = gp.parameters_
    assert_allclose(table["period"], 14.0, rtol=1e-12)
    i = table.names.index("period")
    assert_allclose([table.lower[i], table.upper[i]], [14.0, 20.0], rtol=1e-12)
    assert "period" in table.at_bound()
    assert_allclose(gp._fit.table.theta_bounds[i], np.log([14.0, 20.0] / MONTH.std()), rtol=1e-12)


def test_the_evidence_is_a_function_of_the_period_in_the_units_of_its_column():
    gp = seasonal(kernel=Periodic(period=12.0), mean=300.0, optimizer=None)
    i, theta = gp.parameters_.names.index("period"), gp.parameters_.theta
    assert_allclose(theta[i], np.log(12.0), rtol=1e-14)
    assert_allclose(gp.evidence(theta).value, gp.log_evidence_, rtol=1e-12)
    step = 1e-5 * (np.arange(len(theta)) == i)
    slope = (gp.evidence(theta + step).value - gp.evidence(theta - step).value) / 2e-5
    assert_allclose(gp.evidence(theta).gradient[i], slope, rtol=1e-5)
    longer = gp.kernel_.with_values(period=12.0 * np.exp(0.1))
    moved = seasonal(kernel=longer, likelihood=gp.likelihood_, mean=300.0, optimizer=None)
    assert_allclose(gp.evidence(theta + 1e4 * step).value, moved.log_evidence_, rtol=1e-10)


def test_an_open_period_starts_at_the_spread_of_its_column_and_is_shown_in_its_units():
    gp = seasonal(kernel=Periodic(), optimizer=None)
    assert_allclose(gp.kernel_.period, MONTH.std(), rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Periodic(period=12.0).on("month"), "kernel__period"),
        (Periodic(period=12.0).on("month") + Linear(), "k1__kernel__period"),
        (Matern32() * Periodic(period=12.0).on(["month"]), "k2__kernel__period"),
        (Constant() * (Matern32(ard=True) + Periodic(period=12.0).on("month")), "k2__k2__kernel__period"),
        ((Periodic(period=12.0).on([0]) + Matern32()).on(["month", "site"]), "kernel__k1__kernel__period"),
        ((Periodic(period=12.0) + Matern32()).on("month"), "kernel__k1__period"),
    ],
    ids=repr,
)
def test_a_period_finds_its_column_inside_of_other_kernels(kernel, name):
    gp = GPRegressor(kernel, **HELD).fit(FRAME[["month", "site"]], Y)
    assert_allclose(gp.parameters_[name], 12.0, rtol=1e-12)
    (entry,) = gp._fit.table.entries(name)
    assert_allclose(gp._fit.table.values[entry], 12.0 / SD[0], rtol=1e-12)
    (line,) = [v for v in gp.parameters_.data_values() if v.entry == entry]
    assert (line.column, line.units) == ("month", "month") and line.value == gp.parameters_[name]


@pytest.mark.parametrize(
    ("kernel", "example"),
    [
        (Periodic(period=12), r"`Periodic\(period=12\)\.on\('month'\)`"),
        (Matern32() + Periodic(period=12), r"`Periodic\(period=12\)\.on\('month'\)`"),
        (Periodic(period=1.5, ard=True) * Linear(), r"`Periodic\(period=1\.5\)\.on\('month'\)`"),
        (Periodic(period=7).on("site") + Periodic(period=12).on(["month", "site"]), r"`Periodic\(period=12\)\.on"),
        (Periodic(), r"`Periodic\(\)\.on\('month'\)`"),
    ],
    ids=repr,
)
def test_a_period_of_columns_with_different_scales_is_an_error_that_says_what_to_write(kernel, example):
    with pytest.raises(InvalidInputError, match=f"different scale. Give the column: {example}"):
        GPRegressor(kernel).fit(FRAME, Y)


def test_a_column_without_a_name_is_given_by_its_number():
    with pytest.raises(InvalidInputError, match=r"`Periodic\(period=12\)\.on\(0\)`"):
        GPRegressor(Periodic(period=12)).fit(FRAME.to_numpy(), Y)


@pytest.mark.parametrize("standardize", ["common", False])
def test_columns_of_one_scale_share_a_period(standardize):
    X = np.column_stack([MONTH, 64 * SITE])
    gp = GPRegressor(Periodic(900.0, 1.2, period=12.0), standardize=standardize, **HELD).fit(X, Y)
    assert_allclose(gp.kernel_.period, 12.0, rtol=1e-14)
    assert [line.column for line in gp.parameters_.data_values()] == ["", "", "all", ""]


def test_a_model_whose_columns_never_had_one_period_still_shows_it():
    """As files have it in which a period was in standard deviations."""
    columns = GPRegressor(Matern32(), knots=5, random_state=0).fit(FRAME, Y)
    fit = columns._fit
    model = replace(fit.model, kernel=Periodic(1.0, 0.8, period=3.0))
    assert fit.scaling.to_user(model).kernel.period == 3.0
    table = columns.parameters_
    own = replace(fit.table, names=("period",), parameters=(model.flat_parameters(2)[2],), parts=("kernel",))
    own = replace(own, values=np.array([3.0]), lower=np.ones(1), upper=np.ones(1), fixed=np.zeros(1, bool), given=None)
    lines = fit.scaling.table_to_user(own, table.columns.names).data_values()
    assert_allclose([line.value for line in lines], 3.0 * SD, rtol=1e-12)


def test_a_model_with_a_period_comes_back_from_a_file(tmp_path):
    gp = GPRegressor(Periodic(period=12.0).on("month") + Linear(), knots=8, random_state=0).fit(FRAME, Y)
    gp.save(tmp_path / "model.knotwise")
    loaded = knotwise.load(tmp_path / "model.knotwise")
    assert_array_equal(loaded.predict(FRAME), gp.predict(FRAME))
    assert str(loaded.summary(standard_errors=False)) == str(gp.summary(standard_errors=False))
    frames = [model.parameters_.to_frame(standard_errors=False) for model in (loaded, gp)]
    pd.testing.assert_frame_equal(*frames)


# -- the table as a frame ---------------------------------------------------------------------------------------------


def frame_of(kernel, X=FRAME, **options):
    gp = GPRegressor(kernel, **{**HELD, **options}).fit(X, Y)
    return gp, gp.parameters_.to_frame()


def test_the_frame_has_the_table_and_what_each_parameter_is():
    kernel = SquaredExponential(900.0, 0.5, column_scales="standard")
    gp, frame = frame_of(kernel, optimizer="lbfgs", fixed=["lengthscale"], mean=LEARNED)
    columns = ["parameter", "role", "value", "lower", "upper", "fixed", "column", "data_value", "data_units"]
    assert list(gp.parameters_.to_frame(standard_errors=False)) == list(frame)[:9] == columns
    errors = ["standard_error", "lower_95", "upper_95"]
    assert list(frame)[9:] == [*errors, *(f"data_{name}" for name in errors), "note"]
    assert frame.parameter.tolist() == ["variance", "lengthscale", "lengthscale", "noise_variance", "mean"]
    assert frame.role.tolist() == ["amplitude", "lengthscale", "lengthscale", "noise", "mean"]
    assert frame.data_units.tolist() == ["y^2", "month", "site", "y^2", "y"]
    assert frame.fixed.tolist() == [False, True, True, False, False]
    once = frame.drop_duplicates("parameter")
    for name in ("lower", "upper"):
        assert_array_equal(once[name], getattr(gp.parameters_, name))
    assert_array_equal(once.value, gp.parameters_.values)
    assert frame.fixed.dtype == bool and frame.value.dtype == float


def test_a_lengthscale_that_counts_in_standard_deviations_has_a_data_value_in_the_units_of_each_column():
    _, frame = frame_of(SquaredExponential(900.0, 0.5, column_scales="standard"))
    own = frame[frame.role == "lengthscale"].set_index("column").data_value
    assert_allclose([own["month"], own["site"]], 0.5 * SD, rtol=1e-12)
    _, frame = frame_of(SquaredExponential(900.0, [0.5, 2.0], column_scales="standard"))
    own = frame[frame.role == "lengthscale"]
    assert own.parameter.tolist() == ["lengthscale[0]", "lengthscale[1]"]
    assert_allclose(own.value, [0.5, 2.0], rtol=1e-12)
    assert_allclose(own.data_value, [0.5, 2.0] * SD, rtol=1e-12)


def test_lengthscales_per_column_are_in_the_units_of_the_columns():
    kernel = SquaredExponential(900.0, [8.0, 0.02])
    gp, frame = frame_of(kernel, likelihood=Gaussian(25.0), mean=300.0)
    own = frame[frame.role == "lengthscale"]
    assert_allclose(own.value, [8.0, 0.02], rtol=1e-12)
    assert_allclose(own.data_value, own.value, rtol=0)
    assert_allclose(gp.parameters_.theta[1:3], np.log([8.0, 0.02]), rtol=1e-12)
    assert_allclose(gp._fit.model.kernel.lengthscale, [8.0, 0.02] / SD, rtol=1e-12)
    plain = GPRegressor(kernel, Gaussian(25.0), mean=300.0, standardize=False, **HELD)
    assert_allclose(plain.fit(FRAME, Y).log_evidence_, gp.log_evidence_, rtol=1e-10)


def test_slopes_variances_are_in_the_units_of_the_data_about_the_centre():
    centred = FRAME - FRAME.mean()
    kernel = Linear([400.0, 100.0])
    gp, frame = frame_of(kernel, centred, likelihood=Gaussian(25.0), mean=300.0)
    slopes = frame[frame.role == "amplitude"]
    assert slopes.data_units.tolist() == ["y^2/month^2", "y^2/site^2"]
    assert_allclose(slopes.data_value, [400.0, 100.0], rtol=1e-12)
    plain = GPRegressor(kernel, Gaussian(25.0), mean=300.0, standardize=False, **HELD)
    assert_allclose(plain.fit(centred, Y).log_evidence_, gp.log_evidence_, rtol=1e-10)
    away = GPRegressor(Linear([400.0, 100.0], centre=FRAME.mean().to_numpy()), Gaussian(25.0), mean=300.0, **HELD)
    assert_allclose(away.fit(FRAME, Y).log_evidence_, gp.log_evidence_, rtol=1e-10)
    origin = GPRegressor(Linear([400.0, 100.0], centre=[0, 0]), Gaussian(25.0), mean=300.0, **HELD).fit(FRAME, Y)
    raw = GPRegressor(kernel, Gaussian(25.0), mean=300.0, standardize=False, **HELD).fit(FRAME, Y)
    assert_allclose(origin.log_evidence_, raw.log_evidence_, rtol=1e-10)


def test_kernels_on_columns_know_which():
    counts = Matern32(1.0, 3.0, column_scales="standard")
    _, frame = frame_of(SquaredExponential(1.0, 0.02).on("site") * counts + Linear(ard=True).on(["site"]))
    own = frame[frame.column != ""]
    names = ["k1__k1__kernel__lengthscale", "k1__k2__lengthscale", "k1__k2__lengthscale", "k2__kernel__variance"]
    assert own.parameter.tolist() == names
    assert own.column.tolist() == ["site", "month", "site", "site"]
    assert_allclose(own.data_value[:3], [0.02, *(3.0 * SD)], rtol=1e-12)


def test_one_scale_in_common_needs_one_line():
    gp, frame = frame_of(SquaredExponential(900.0, 0.5), standardize="common")
    own = frame[frame.role == "lengthscale"]
    assert len(own) == 1 and own.column.item() == "all" and own.data_units.item() == "x"
    assert_allclose(own.data_value, 0.5, rtol=1e-12)
    assert_allclose(gp._fit.model.kernel.lengthscale, 0.5 / gp._fit.scaling.x_scale[0], rtol=1e-12)
    _, frame = frame_of(SquaredExponential(900.0, 0.5), FRAME[["site"]])
    assert frame[frame.role == "lengthscale"].column.tolist() == ["site"]


def test_columns_without_names_are_numbered_and_a_link_has_no_units():
    X, counts = FRAME.to_numpy(), np.round(Y)
    options = {"knots": 4, "optimizer": None, "random_state": 0, "mean": LEARNED}
    kernel = SquaredExponential(0.5, 0.5, column_scales="standard")
    gp = GPRegressor(kernel, "poisson", **options).fit(X, counts)
    frame = gp.parameters_.to_frame()
    assert frame.column.tolist() == ["", "column 0", "column 1", ""]
    assert frame.data_units.tolist() == ["", "x", "x", ""]
    assert_allclose(frame.data_value[[0, 3]], gp.parameters_.values[[0, 2]], rtol=1e-14)


def test_the_summary_shows_what_has_the_units_of_columns():
    kernel = Periodic(900.0, 1.0, 12.0).on("month") + SquaredExponential(1.0, 0.5, column_scales="standard")
    gp = GPRegressor(kernel, **HELD).fit(FRAME, Y)
    shown = [line.split() for line in gp.summary().split("in the units of the data\n")[1].splitlines()]
    own = [line for line in shown if {"month", "site"} & set(line)]
    assert [line[:3] for line in own] == [
        ["k1__kernel__period", "value", "month"],
        ["k2__lengthscale", "length-scale", "month"],
        ["k2__lengthscale", "length-scale", "site"],
    ]
    assert_allclose([float(line[3]) for line in own], [12.0, *(0.5 * SD)], rtol=1e-3)


# -- one value for columns of different scale -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (SquaredExponential(lengthscale=2.0), "lengthscale"),
        (Matern32() + RationalQuadratic(lengthscale=2.0), "lengthscale"),
        (Periodic(period=12.0).on("month") * Matern32(1.0, 2.0).on(["site", "month"]), "lengthscale"),
        (Linear(2.0), "variance"),
    ],
    ids=repr,
)
def test_one_number_for_columns_of_different_scale_is_an_error_that_says_what_to_write(kernel, name):
    with pytest.raises(InvalidInputError, match=rf"`{name}=\[...\]` or `ard=True`, `column_scales='standard'`.*common"):
        GPRegressor(kernel, **HELD).fit(FRAME, Y)
    same_scale = pd.DataFrame({"month": MONTH, "site": MONTH[::-1]})
    GPRegressor(kernel, **HELD).fit(same_scale, Y)
    GPRegressor(kernel, standardize="common", **HELD).fit(FRAME, Y)


@pytest.mark.parametrize("kernel", [None, SquaredExponential()])
def test_bounds_of_one_lengthscale_for_columns_of_different_scale_say_what_to_write(kernel):
    with pytest.raises(InvalidInputError, match=r"`bounds` of 'lengthscale'.*2 columns of different scale. Write one"):
        GPRegressor(kernel, bounds={"lengthscale": (1.0, 2.0)}).fit(FRAME, Y)
    counts = SquaredExponential(column_scales="standard")
    gp = GPRegressor(counts, knots=5, bounds={"lengthscale": (2.5, 2.6)}, random_state=0).fit(FRAME, Y)
    assert 2.5 <= gp.kernel_.lengthscale <= 2.6 and 2.5 <= gp._fit.model.kernel.lengthscale <= 2.6


def test_bounds_of_lengthscales_per_column_are_in_the_units_of_the_columns():
    bounds = {"lengthscale[month]": (30.0, 31.0), "lengthscale[site]": (0.001, 0.002)}
    gp = GPRegressor(SquaredExponential(ard=True), knots=5, bounds=bounds, random_state=0).fit(FRAME, Y)
    assert 30.0 <= gp.kernel_.lengthscale[0] <= 31.0 and 0.001 <= gp.kernel_.lengthscale[1] <= 0.002
    assert_allclose(gp.parameters_.lower[1:3], [30.0, 0.001], rtol=1e-12)


def test_theta_of_the_evidence_is_in_the_units_of_the_data():
    gp = GPRegressor(Matern32(ard=True), Gaussian(25.0), mean=300.0, **HELD).fit(FRAME, Y)
    theta = np.log([700.0, 9.0, 0.02, 30.0, 1.0])
    theta[-1] = 310.0
    own = GPRegressor(Matern32(700.0, [9.0, 0.02]), Gaussian(30.0), mean=310.0, **HELD).fit(FRAME, Y)
    assert_allclose(gp.evidence(theta).value, own.log_evidence_, rtol=1e-10)


def test_the_parameters_of_a_trace_end_at_those_of_the_fit():
    gp = GPRegressor(Matern32(ard=True), random_state=0, mean=LEARNED).fit(FRAME, Y)
    assert_allclose(gp.trace_[-1].theta, gp.parameters_.theta, rtol=1e-12)


@pytest.mark.parametrize("scales", ["spread", [1.0, -1.0], 3.0, [[1.0, 2.0]], [1.0, np.inf]])
def test_column_scales_that_are_none_are_refused_with_the_reason(scales):
    with pytest.raises(InvalidInputError, match=r"`column_scales` of Matern32 is .* a positive number for each column"):
        Matern32(column_scales=scales)
    with pytest.raises(InvalidInputError, match="`column_scales` of Matern32 has 3 entries, but the kernel sees 2"):
        GPRegressor(Matern32(column_scales=[1.0, 1.0, 1.0])).fit(FRAME, Y)
    with pytest.raises(InvalidInputError, match="which only a fit knows"):
        Matern32(1.0, 1.0, column_scales="standard")([[0.0]], [[1.0]])


def test_a_kernel_with_column_scales_is_that_of_divided_inputs():
    X, scales = FRAME.to_numpy(), np.array([7.0, 0.01])
    check_kernel(Matern32(1.3, 0.8, column_scales=[2.0, 0.5, 3.0]), n_columns=3)
    check_kernel(Linear([0.3, 0.2, 0.1], column_scales=[2.0, 0.5, 3.0]), n_columns=3)
    for kind in (SquaredExponential, Matern32, RationalQuadratic):
        assert_allclose(kind(1.0, 0.9, column_scales=scales)(X), kind(1.0, 0.9)(X / scales), rtol=1e-9)
    centred, plain = Linear(2.0, column_scales=scales, centre=[5.0, 1.0]), Linear(2.0, column_scales=scales)
    assert_allclose(centred(X), Linear(2.0)((X - [5.0, 1.0]) / scales))
    K, pull = centred.value_and_pullback(X[:9], X[9:13])
    _, pull_plain = plain.value_and_pullback(X[:9] - [5.0, 1.0], X[9:13] - [5.0, 1.0])
    found, expected = pull(np.ones_like(K), with_X=True), pull_plain(np.ones_like(K), with_X=True)
    for name in ("theta", "Z", "X"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
    assert_allclose(centred.diag(X), np.diag(centred(X)), rtol=1e-12)


# -- given values: where a fit starts, or held ----------------------------------------------------------------------


def test_a_period_that_is_given_is_held_and_bounds_or_a_prior_free_it():
    held = seasonal(kernel=Periodic(period=11.5))
    assert_allclose(held.kernel_.period, 11.5, rtol=1e-12)
    assert held.parameters_.fixed[held.parameters_.names.index("period")]
    for options in ({"bounds": {"period": (9.0, 15.0)}}, {"priors": {"period": LogNormal(11.5, 0.2)}}):
        freed = seasonal(kernel=Periodic(period=11.5), **options)
        assert_allclose(freed.kernel_.period, 12.0, rtol=0.01)  # which is what the data have
        assert freed.log_evidence_ > held.log_evidence_ + 5
    both = seasonal(kernel=Periodic(period=11.5), bounds={"period": (9.0, 15.0)}, fixed=["period"])
    assert_allclose(both.kernel_.period, 11.5, rtol=1e-12)
    assert not seasonal(kernel=Periodic()).parameters_.fixed.any()


def test_a_period_inside_of_other_kernels_is_held_and_freed_by_its_own_name():
    kernel = Matern32(ard=True) * Periodic(1.0, period=12.5).on("month")
    options = {"knots": 12, "random_state": 0, "fixed": ["k2__kernel__variance"]}
    held = GPRegressor(kernel, **options).fit(FRAME, Y)
    assert_allclose(held.parameters_["k2__kernel__period"], 12.5, rtol=1e-12)
    freed = GPRegressor(kernel, bounds={"k2__kernel__period": (10.0, 14.0)}, **options).fit(FRAME, Y)
    assert abs(freed.parameters_["k2__kernel__period"] - 12.0) < 0.3


def test_the_summary_says_of_each_given_value_whether_it_is_a_start_or_held(tmp_path):
    gp = seasonal(kernel=Periodic(variance=400.0, period=12.0), likelihood=Gaussian(36.0), fixed=["noise_variance"])
    frame = gp.summary().to_frame().set_index("parameter")
    expected = {"variance": "started at 20", "lengthscale": "", "period": "held at 12", "noise_variance": "held at 6"}
    assert frame.given.to_dict() == expected
    shown = {line.split()[0]: line for line in gp.summary().splitlines() if line.split()[:1]}
    assert shown["variance"].endswith("  started at 20") and "fixed" not in shown["period"]
    assert shown["period"].endswith("held at 12") and shown["lengthscale"].rstrip()[-1].isdigit()
    gp.save(tmp_path / "model.knotwise")
    again = knotwise.load(tmp_path / "model.knotwise").summary().to_frame().set_index("parameter")
    assert again.given.to_dict() == expected
    kept = seasonal(kernel=Periodic(400.0, 1.0, 12.0), likelihood=Gaussian(36.0), optimizer=None).summary()
    assert set(kept.to_frame().given) == {"held at 20", "held at 1", "held at 12", "held at 6"}


def test_a_free_parameter_that_ends_where_it_started_is_not_called_held():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 100, (80, 1))
    y = np.sin(X[:, 0] / 15) + 0.2 * rng.normal(size=80)
    options = {"approximation": "full", "n_jobs": 1}
    gp = GPRegressor(SquaredExponential(), **options).fit(X, y, noise_variance=0.04)
    for _ in range(2):
        gp = GPRegressor(gp.kernel_, **options).fit(X, y, noise_variance=0.04)
    said = str(gp.summary())
    assert "started at" in said and "held at" not in said
    kept = GPRegressor(gp.kernel_, optimizer=None, **options).fit(X, y, noise_variance=0.04)
    assert "held at" in str(kept.summary())
