"""Means: what is not known of a constant or a trend is integrated out, and what is given is held."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPClassifier, GPRegressor
from knotwise import kernels as k
from knotwise.errors import FitWarning, InvalidInputError, UnknownOptionError
from knotwise.likelihoods import LIKELIHOODS, Gaussian
from knotwise.means import Constant, Linear, Mean, Zero, mean_from

N = 50
RNG = np.random.default_rng(5)
X = RNG.uniform(size=(N, 2)) * [30.0, 0.2] + [1e3, 0.0]
F = np.sin(X[:, 0] / 4) + 5 * X[:, 1]
Y = 20 + 3 * F + RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(F)).astype(float)
NEW = RNG.uniform(size=(7, 2)) * [30.0, 0.2] + [1e3, 0.0]
SE = k.SquaredExponential(4.0, 0.8, column_scales="standard")


# -- a constant -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior_sd", ["auto", 0.5])
def test_an_integrated_constant_is_a_constant_in_the_kernel(prior_sd):
    sd = {"auto": 10.0}.get(prior_sd, prior_sd) * Y.std()
    options = {"likelihood": Gaussian(1.5), "approximation": "full", "optimizer": None}
    gp = GPRegressor(SE, mean=Constant(prior_sd=prior_sd), **options).fit(X, Y)
    twin = GPRegressor(SE + k.Constant(sd**2), mean=float(Y.mean()), **options).fit(X, Y)
    assert_allclose(gp.log_evidence_, twin.log_evidence_, rtol=1e-10)
    assert_allclose(gp.predict(NEW, return_std=True), twin.predict(NEW, return_std=True), rtol=1e-8)


@pytest.mark.parametrize("prior_sd", ["auto", 0.5])
def test_on_a_links_scale_the_prior_sd_is_that_of_f_and_3_by_default(prior_sd):
    sd = {"auto": 3.0}.get(prior_sd, prior_sd)
    options = {"likelihood": "poisson", "approximation": "full", "optimizer": None}
    gp = GPRegressor(SE, mean=Constant(prior_sd=prior_sd), **options).fit(X, COUNTS)
    twin = GPRegressor(SE + k.Constant(sd**2), mean=float(np.log(COUNTS.mean())), **options).fit(X, COUNTS)
    assert_allclose(gp.log_evidence_, twin.log_evidence_, rtol=1e-8)
    one, other = gp.predict_latent(NEW), twin.predict_latent(NEW)
    assert_allclose(one.mean, other.mean, rtol=1e-6, atol=1e-8)
    assert_allclose(one.variance, other.variance, rtol=1e-6)


def test_a_narrow_prior_is_the_level_held():
    options = {"likelihood": Gaussian(1.5), "knots": X[::5], "optimizer": None}
    narrow = GPRegressor(SE, mean=Constant(prior_sd=1e-7), **options).fit(X, Y)
    held = GPRegressor(SE, mean=float(Y.mean()), **options).fit(X, Y)
    assert_allclose(narrow.log_evidence_, held.log_evidence_, rtol=1e-9)
    assert_allclose(narrow.predict(NEW, return_std=True), held.predict(NEW, return_std=True), rtol=1e-9)


@pytest.mark.parametrize("given", ["constant", Constant(), Constant(prior_sd=4.0)])
def test_an_integrated_constant_is_no_parameter(given):
    gp = GPRegressor(k.SquaredExponential(), mean=given, knots=8, random_state=0).fit(X, Y)
    assert gp.parameters_.names == ("variance", "lengthscale", "noise_variance")
    assert len(gp.evidence().gradient) == 3
    for option in ({"fixed": ["mean"]}, {"fixed": "mean"}, {"bounds": {"mean": (0.0, 1.0)}}):
        with pytest.raises(InvalidInputError, match=r"integrated out.*Constant\(prior_sd=None\)"):
            GPRegressor(k.SquaredExponential(), mean=given, knots=8, **option).fit(X, Y)


def test_a_point_estimate_is_a_parameter_at_which_the_evidence_is_flat():
    gp = GPRegressor(k.SquaredExponential(), mean=Constant(prior_sd=None), knots=8, random_state=0).fit(X, Y)
    assert gp.parameters_.names[-1] == "mean" and not gp.parameters_.fixed[-1]
    assert gp.mean_.mean == pytest.approx(gp.parameters_["mean"])
    assert abs(gp.evidence().gradient[-1]) * Y.std() < 0.05


@pytest.mark.parametrize("given", [21.5, Constant(21.5), Constant(21.5, prior_sd=None)])
def test_a_number_is_held_exactly(given):
    gp = GPRegressor(k.SquaredExponential(), mean=given, knots=8, random_state=0).fit(X, Y)
    assert_allclose(gp.parameters_["mean"], 21.5, rtol=1e-14)
    assert gp.parameters_.fixed[-1]
    assert_allclose(gp.predict([[1e7, 0.0]]), 21.5, rtol=1e-12)


@pytest.mark.parametrize("standardize", ["columns", "common", False])
@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_the_prior_of_the_mean_does_not_depend_on_where_0_is(approximation, standardize):
    options = {"likelihood": Gaussian(1.5), "knots": X[::5], "optimizer": None, "standardize": standardize}
    options |= {"kernel": k.Matern32(4.0, 5.0, column_scales="standard"), "approximation": approximation}
    near, far = (GPRegressor(**options).fit(X, Y + by) for by in (0.0, 1e6))
    assert_allclose(far.log_evidence_, near.log_evidence_, rtol=1e-7)
    assert_allclose(far.predict(NEW) - 1e6, near.predict(NEW), atol=1e-6)


def test_the_fitted_mean_is_in_the_units_of_y_and_can_be_given_again():
    gp = GPRegressor(SE, Gaussian(1.5), knots=X[::5], optimizer=None).fit(X, Y)
    assert_allclose([gp.mean_.offset, gp.mean_.level_sd], [Y.mean(), 10 * Y.std()], rtol=1e-12)
    again = GPRegressor(SE, Gaussian(1.5), knots=X[::5], optimizer=None, mean=gp.mean_).fit(X, Y)
    assert again.log_evidence_ == gp.log_evidence_
    trend = GPRegressor(SE, Gaussian(1.5), knots=X[::5], optimizer=None, mean="linear").fit(X, Y).mean_
    expected = 10 * Y.std() * np.column_stack([np.ones(7), (NEW - X.mean(0)) / X.std(0)])
    assert_allclose(trend.basis(NEW), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ("Constant()", Constant()),
        ("Constant(prior_sd=None)", Constant(prior_sd=None)),
        ("Constant(mean=1.5)", Constant(1.5)),
        ("Constant(prior_sd=2)", Constant(prior_sd=2.0)),
        ("Linear()", Linear()),
        ("Linear(prior_sd=3, columns=['a'])", Linear(3.0, ["a"])),
    ],
)
def test_a_mean_shows_what_tells_it_from_the_default(shown, given):
    assert repr(given) == shown


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "wide", True, [1.0]])
def test_a_prior_sd_that_is_no_positive_number_is_refused(bad):
    for kind in (Constant, Linear):
        with pytest.raises(InvalidInputError, match=f"`prior_sd` of {kind.__name__} is"):
            kind(prior_sd=bad)
    with pytest.raises(InvalidInputError, match="`prior_sd` of Linear is None"):
        Linear(prior_sd=None)


def test_a_mean_that_is_held_has_no_prior():
    with pytest.raises(InvalidInputError, match="Give one of them"):
        Constant(1.5, prior_sd=2.0)
    with pytest.raises(InvalidInputError, match="Give one of them"):
        Constant(1.5).set_params(prior_sd=2.0)


def test_before_it_sees_data_a_constant_has_no_basis():
    assert Constant().basis(X).shape == Constant(prior_sd=None).basis(X).shape == Zero().basis(X).shape == (N, 0)
    assert_array_equal(Constant(prior_sd=2.0).bind(X, 9.0, 1.0).basis(X), np.full((N, 1), 6.0))


# -- a trend --------------------------------------------------------------------------------------------------


def test_on_a_links_scale_the_intercept_has_3_and_slopes_have_10():
    basis = Linear().bind(X, 1.0, on_link=True).basis(X)
    assert_allclose(basis[:, 0], 3.0)
    assert_allclose(basis[:, 1:].std(0), 10.0, rtol=1e-10)
    assert_allclose(Linear(2.0).bind(X, 1.0, on_link=True).basis(X)[:, 0], 2.0)


@pytest.mark.parametrize("columns", [["site"], "site", [1], 1, [-1]])
def test_a_trend_on_a_column_is_a_kernel_on_it(columns):
    frame = pd.DataFrame(X, columns=["month", "site"])
    options = {"likelihood": Gaussian(1.5), "approximation": "full", "optimizer": None}
    gp = GPRegressor(SE, mean=Linear(columns=columns), **options).fit(frame, Y)
    wide = (10 * Y.std()) ** 2
    twin = GPRegressor(
        SE + k.Constant(wide) + k.Linear(wide, column_scales="standard").on(1), mean=float(Y.mean()), **options
    ).fit(X, Y)
    assert_allclose(gp.log_evidence_, twin.log_evidence_, rtol=1e-9)
    assert_allclose(
        gp.predict(pd.DataFrame(NEW, columns=frame.columns), return_std=True),
        twin.predict(NEW, return_std=True),
        rtol=1e-7,
    )


def test_all_columns_by_name_are_all_columns():
    frame = pd.DataFrame(X, columns=["month", "site"])
    options = {"knots": X[::5], "likelihood": Gaussian(1.5), "optimizer": None}
    one = GPRegressor(SE, mean=Linear(columns=["month", "site"]), **options).fit(frame, Y)
    other = GPRegressor(SE, mean="linear", **options).fit(frame, Y)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-12)


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        (["sit"], UnknownOptionError, "linear mean.*Did you mean 'site'"),
        ([2], InvalidInputError, "Column 2 of the linear mean does not exist: the data have 2"),
        ([], InvalidInputError, "empty"),
        (["site", 1], InvalidInputError, "more than once"),
    ],
)
def test_a_column_that_cannot_have_a_slope_is_refused(columns, error, match):
    frame = pd.DataFrame(X, columns=["month", "site"])
    with pytest.raises(error, match=match):
        GPRegressor(k.SquaredExponential(), mean=Linear(columns=columns), knots=5).fit(frame, Y)


def test_a_name_needs_data_with_names():
    with pytest.raises(InvalidInputError, match="no column names"):
        GPRegressor(k.SquaredExponential(), mean=Linear(columns=["site"]), knots=5).fit(X, Y)


def test_every_word_for_a_mean_is_known_and_an_object_is_taken_as_it_is():
    own = Mean()
    assert mean_from(own) is own
    assert mean_from("constant").integrated and not mean_from("zero").integrated and mean_from("zero").offset == 0.0


# -- little information ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "n_events", "warned"), [(400, 4, True), (50, 5, True), (49, 5, False), (400, 6, False)]
)
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_few_events_in_many_rows_are_said(likelihood, n_rows, n_events, warned):
    rng = np.random.default_rng(0)
    y = np.zeros(n_rows)
    y[:n_events] = 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GPRegressor(SE, likelihood, knots=4, optimizer=None, random_state=0).fit(rng.uniform(size=(n_rows, 2)), y)
    said = [
        str(w.message) for w in caught if issubclass(w.category, FitWarning) and "little information" in str(w.message)
    ]
    assert len(said) == warned
    assert not any("held" in text for text in said)  # of an integrated mean nothing needs to be


def test_a_learned_mean_is_held_where_nothing_tells_it():
    with pytest.warns(FitWarning, match="little information.*The mean is held"):
        gp = GPRegressor(
            k.SquaredExponential(), likelihood="poisson", knots=4, mean=Constant(prior_sd=None), random_state=0
        ).fit(X, np.zeros(N))
    assert gp.parameters_.fixed[-1]


def test_no_event_at_all_leaves_a_finite_rate_with_a_wide_interval():
    with pytest.warns(FitWarning, match="little information"):
        gp = GPRegressor(likelihood="poisson", random_state=0).fit(RNG.uniform(size=(60, 2)), np.zeros(60))
    low, high = gp.coefficients_.interval()[0]
    assert -12 < low < high and np.exp(high) > 1 / 60


@pytest.mark.parametrize("likelihood", sorted(LIKELIHOODS))
def test_every_likelihood_has_a_level_with_its_uncertainty(likelihood):
    rng = np.random.default_rng(8)
    y = LIKELIHOODS[likelihood]().start(1.0).sample(np.full(40, 0.3), rng, 1.0)
    gp = GPRegressor(k.SquaredExponential(), likelihood=likelihood, knots=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp.fit(rng.uniform(size=(40, 2)), y)
    (error,) = gp.coefficients_.standard_error
    assert 0.05 < error < 2.5 and abs(gp.coefficients_.estimate[0] - 0.3) < 4 * error


def test_a_classifier_has_the_coefficients_of_its_models():
    labels = np.array(["a", "b", "c"])[np.digitize(F, np.quantile(F, [0.4, 0.7]))]
    two = GPClassifier(k.SquaredExponential(), knots=4, random_state=0).fit(X, labels == "a")
    assert two.coefficients_.names == ("intercept",)
    three = GPClassifier(k.SquaredExponential(), knots=4, random_state=0).fit(X, labels)
    assert [len(table) for table in three.coefficients_] == [1, 1, 1]


# -- intervals without signal ---------------------------------------------------------------------------------

STORED = Path(__file__).parents[1] / "benchmarks" / "results" / "no_signal.jsonl"


def test_stored_intervals_without_signal_cover_and_are_as_narrow_as_those_of_a_linear_model():
    last = {}
    for line in STORED.read_text().splitlines():
        row = json.loads(line)
        last[row["likelihood"], row["rows"]] = row
    assert len(last) == 6
    for row in last.values():
        low, high, width = row["limits"]
        assert row["fits"] >= 100
        assert low <= row["coverage"] <= high, row
        assert row["relative_width"] <= width, row


# -- starts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["poisson", "gaussian"])
def test_few_knots_do_not_fall_for_a_flat_function_where_there_is_one(likelihood):
    """At the parameters of the exact GP, three knots are less likely than none: a step from there ends at none."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 4, 70)
    f = np.sin(2 * x) + 0.3 * rng.normal(size=70)
    y = rng.poisson(3 * np.exp(f)) if likelihood == "poisson" else f
    options = {"kernel": k.SquaredExponential(), "likelihood": likelihood, "knots": 3, "random_state": 0}
    gp = GPRegressor(**options).fit(x[:, None], y)
    point = GPRegressor(**options, mean=Constant(prior_sd=None)).fit(x[:, None], y)
    assert gp.kernel_.variance > 1e-3
    assert gp.log_evidence_ > point.log_evidence_ - 6  # the prior of the level costs a few nats
