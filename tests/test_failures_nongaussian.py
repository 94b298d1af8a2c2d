"""What goes wrong with counts and labels elsewhere, and what happens here instead."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise import GPClassifier, GPRegressor
from knotwise.datasets import load_hickory
from knotwise.decisions import signal
from knotwise.errors import FitWarning, InvalidInputError, KnotwiseError
from knotwise.evidence.inference import laplace, newton
from knotwise.kernels import Matern32, Matern52, SquaredExponential
from knotwise.likelihoods import Beta, Binomial, NegativeBinomial, StudentT
from knotwise.optimize import LBFGS
from knotwise.selection.base import Decision
from knotwise.selection.problem import Problem


@pytest.fixture
def X(rng):
    return rng.uniform(-2, 2, size=(100, 2))


@pytest.fixture
def counts(X, rng):
    return rng.poisson(np.exp(1 + np.sin(2 * X[:, 0]))).astype(float)


# -- case 7: one class only -----------------------------------------------------------------------------------


@pytest.mark.failure(7)
@pytest.mark.parametrize("label", ["a", 3, True])
def test_one_class_only_is_an_error_that_names_it(X, label):
    with pytest.raises(ValueError, match=f"one class only, {label!r}"):
        GPClassifier(knots=5).fit(X, np.full(len(X), label))


# -- case 10: large counts ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.failure(10)
@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
@pytest.mark.parametrize(("approximation", "largest"), [("vfe", 1e4), ("vfe", 1e7), ("fic", 1e7), ("full", 1e7)])
def test_counts_up_to_ten_million_give_finite_fits(X, rng, likelihood, approximation, largest):
    rate = largest * np.exp(np.sin(2 * X[:, 0]) - 1 - 0.3 * X[:, 1])
    y = rng.poisson(rate).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the optimiser may stop early; nothing else may be said
        gp = GPRegressor(
            SquaredExponential(),
            likelihood=likelihood,
            approximation=approximation,
            knots=15,
            optimizer=LBFGS(max_iterations=30),
            random_state=0,
        ).fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(gp.log_evidence_) and np.isfinite(mean).all() and np.isfinite(std).all()
    assert_allclose(np.log(mean), np.log(rate), atol=0.5)
    assert np.isfinite(gp.predict_interval(X[:5])).all()
    assert np.isfinite(gp.log_predictive_density(X, y)).all()


@pytest.mark.failure(10)
def test_one_huge_count_among_zeros_is_finite(X):
    y = np.zeros(100)
    y[::10] = [1e7, 1, 2, 0, 3, 1e5, 0, 0, 1, 10]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = GPRegressor(
            SquaredExponential(),
            likelihood="poisson",
            knots=15,
            nugget="fit",
            optimizer=LBFGS(max_iterations=30),
            random_state=0,
        ).fit(X, y)
    assert np.isfinite(gp.log_evidence_)
    assert np.isfinite(gp.predict(X)).all() and np.isfinite(gp.predict_interval(X[::10])).all()


@pytest.mark.failure(10)
@pytest.mark.parametrize("mean", ["constant", "zero", 0.0, "linear"])
def test_every_mean_reaches_the_mode_of_large_counts(X, rng, mean):
    """A mean of 0 is 14 units of f away from counts of a million."""
    y = rng.poisson(1e6 * np.exp(np.sin(X[:, 0]))).astype(float)
    gp = GPRegressor(
        Matern32(1.0, 1.0, column_scales="standard"),
        "poisson",
        "fic",
        knots=X[:15],
        mean=mean,
        nugget=0.1,
        optimizer=None,
    )
    gp.fit(X, y)
    assert gp.converged_
    assert np.isfinite(gp.log_evidence_) and np.isfinite(gp.predict(X)).all()
    if mean in ("constant", "linear"):  # the prior of the others does not reach so far between the knots
        assert_allclose(np.log(gp.predict(X)), 13.8 + np.sin(X[:, 0]), atol=1.0)


# -- case 11: Newton's method that does not arrive ------------------------------------------------------------


@pytest.mark.failure(11)
@pytest.mark.parametrize("approximation", ["fic", "full"])
def test_a_mode_that_was_not_reached_is_said(X, counts, approximation, monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 0)  # with 1, the next evaluation would arrive
    gp = GPRegressor(
        Matern32(4.0, 1.0, column_scales="standard"),
        "poisson",
        approximation,
        knots=X[:9],
        mean=-6.0,
        optimizer=None,
        inference="laplace",
    )
    with pytest.warns(FitWarning, match="the search for the mode of the latent function did not converge") as caught:
        gp.fit(X, counts * 1000)
    assert len(caught) == 1
    assert not gp.converged_
    assert not gp.evidence().converged


@pytest.mark.failure(11)
@pytest.mark.parametrize("mean", [-20.0, 0.0, 20.0])
@pytest.mark.parametrize("variance", [0.1, 1.0, 100.0])
def test_a_cold_start_far_from_the_mode_arrives(X, counts, mean, variance):
    gp = GPRegressor(
        Matern32(variance, 1.0, column_scales="standard"), "poisson", "fic", knots=X[:9], mean=mean, optimizer=None
    ).fit(X, counts)
    again = gp.evidence()
    assert gp.converged_ and again.converged
    assert_allclose(again.value, gp.log_evidence_, rtol=1e-8)  # at variance 100 the sites creep to their end


@pytest.mark.failure(11)
@pytest.mark.parametrize("likelihood", ["poisson", "student_t"])
@pytest.mark.parametrize("start", [-15.0, 0.0, 15.0])
def test_no_step_of_newtons_method_goes_down(X, counts, likelihood, start, monkeypatch):
    """The line search: where whole steps overshoot, e^15 times too much, shorter ones do not."""
    accepted, trials = [], []

    class Recording(laplace.SparseSearch):
        def evaluate(self, step, *, true_curvature):
            psi, decrement = super().evaluate(step, true_curvature=true_curvature)
            trials.append(psi)
            return psi, decrement

        def accept(self):
            super().accept()
            accepted.append(trials[-1])

    monkeypatch.setattr(laplace, "SparseSearch", Recording)
    GPRegressor(
        Matern32(9.0, 1.0, column_scales="standard"), likelihood, "fic", knots=X[:9], mean=start, optimizer=None
    ).fit(X, counts)
    assert len(accepted) > 3
    steps = np.diff(accepted)
    assert (steps >= -1e-9 * np.abs(accepted[1:])).all()


# -- case 12: rare events -------------------------------------------------------------------------------------


@pytest.mark.failure(12)
@pytest.mark.parametrize("approximation", ["vfe", "fic", "full"])
@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial", "bernoulli", "binomial"])
def test_all_zeros_give_a_small_finite_rate_and_one_warning(X, likelihood, approximation):
    with pytest.warns(FitWarning, match="little information") as caught:
        gp = GPRegressor(
            SquaredExponential(), likelihood=likelihood, approximation=approximation, knots=10, random_state=0
        ).fit(X, np.zeros(100))
    assert len(caught) == 1
    rate, latent = gp.predict(X), gp.predict_latent(X)
    assert np.isfinite(gp.log_evidence_)
    assert ((rate > 0) & (rate < 0.2)).all()  # with the uncertainty of the level
    assert np.abs(latent.mean).max() < 50 and latent.variance.max() < 2e3


@pytest.mark.failure(12)
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_all_ones_are_no_less_finite(X, likelihood):
    with pytest.warns(FitWarning, match="little information"):
        gp = GPRegressor(SquaredExponential(), likelihood=likelihood, knots=10, random_state=0).fit(X, np.ones(100))
    assert np.isfinite(gp.predict(X)).all() and np.abs(gp.predict_latent(X).mean).max() < 50


@pytest.mark.failure(12)
@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_one_event_in_a_hundred_thousand_rows(rng, likelihood):
    X = rng.uniform(size=(100_000, 2))
    y = np.zeros(100_000)
    y[5] = 1
    with pytest.warns(FitWarning, match="little information") as caught:
        gp = GPRegressor(SquaredExponential(), likelihood=likelihood, knots=10, random_state=0).fit(X, y)
    assert len(caught) == 1
    rate = gp.predict(X[:1000])
    assert np.isfinite(rate).all() and (rate > 0).all()
    assert 1e-6 < rate.mean() < 1e-4
    assert np.abs(gp.predict_latent(X[:1000]).mean).max() < 50


# -- case 13: separable classes -------------------------------------------------------------------------------


@pytest.mark.failure(13)
@pytest.mark.parametrize("approximation", ["vfe", "fic", "full"])
def test_widely_separated_classes_stay_inside_0_and_1(rng, approximation):
    X = np.vstack([rng.normal(size=(40, 2)) - 50, rng.normal(size=(40, 2)) + 50])
    y = np.repeat([0, 1], 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = GPClassifier(SquaredExponential(), knots=8, approximation=approximation, random_state=0).fit(X, y)
    proba = gp.predict_proba(X)
    assert ((proba > 0) & (proba < 1)).all()
    assert np.isfinite(gp.predict_latent(X).mean).all()
    assert gp.score(X, y) == 1.0


# -- case 34: targets that cannot be --------------------------------------------------------------------------

BAD_TARGETS = [
    ("poisson", -3.0, "-3 in row 7"),
    ("negative_binomial", -1.0, "-1 in row 7"),
    ("bernoulli", 2.0, "2 in row 7"),
    ("bernoulli", 0.5, "0.5 in row 7"),
    ("binomial", -1.0, "-1 in row 7"),
    ("binomial", 5.0, "5 in row 7"),
    ("gamma", 0.0, "0 in row 7"),
    ("gamma", -1.0, "-1 in row 7"),
    ("exponential", -1.0, "-1 in row 7"),
    ("weibull", -1.0, "-1 in row 7"),
    ("lognormal", 0.0, "0 in row 7"),
    ("beta", 0.0, "0 in row 7"),
    ("beta", 1.0, "1 in row 7"),
]


@pytest.mark.failure(34)
@pytest.mark.parametrize(("likelihood", "value", "message"), BAD_TARGETS)
def test_a_target_that_cannot_be_is_an_error_with_row_and_value(X, likelihood, value, message):
    y = np.full(100, 0.5 if likelihood in ("beta", "gamma", "exponential", "weibull", "lognormal") else 1.0)
    y[::2] = y[0] / 2 if y[0] < 1 else 0.0
    y[7] = value
    with pytest.raises(InvalidInputError, match=message) as error:
        GPRegressor(likelihood=likelihood, knots=5).fit(X, y)
    assert list(error.value.rows) == [7]


@pytest.mark.failure(34)
@pytest.mark.parametrize(("label", "shown"), [("damp", "'damp'"), (None, "None")])
def test_a_label_outside_the_classes_is_an_error_with_row_and_value(X, label, shown):
    y = np.where(X[:, 0] > 0, "wet", "dry").astype(object)
    gp = GPClassifier(Matern32(1.0, 1.0, column_scales="standard"), knots=X[:5], optimizer=None).fit(X, y)
    y[7] = label
    with pytest.raises(InvalidInputError, match=rf"labels from \['dry', 'wet'\], but is {shown} in row 7"):
        gp.log_predictive_density(X, y)


@pytest.mark.failure(34)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_a_target_that_is_not_finite_is_an_error_with_the_row(X, counts, likelihood, value):
    y = np.minimum(counts, 1.0)
    y[7] = value
    with pytest.raises(InvalidInputError, match="row 7"):
        GPRegressor(likelihood=likelihood, knots=5).fit(X, y)


@pytest.mark.failure(34)
@pytest.mark.parametrize("bad", [0.0, -2.0, np.nan, np.inf])
def test_an_exposure_that_is_not_positive_is_an_error_with_row_and_value(X, counts, bad):
    exposure = np.ones(100)
    exposure[[9, 20]] = bad
    with pytest.raises(InvalidInputError, match=rf"`exposure`.*{bad:g} in row 9 and 1 more"):
        GPRegressor(likelihood="poisson", knots=5).fit(X, counts, exposure=exposure)
    gp = GPRegressor(Matern32(1.0, 1.0, column_scales="standard"), "poisson", knots=X[:5], optimizer=None).fit(
        X, counts
    )
    with pytest.raises(InvalidInputError, match="in row 9"):
        gp.predict(X, exposure=exposure)


@pytest.mark.failure(34)
def test_an_exposure_of_another_length_is_an_error(X, counts):
    with pytest.raises(InvalidInputError, match="100 rows"):
        GPRegressor(likelihood="poisson", knots=5).fit(X, counts, exposure=np.ones(99))


@pytest.mark.failure(34)
@pytest.mark.parametrize("bad", [0, 2.5, -1])
def test_trials_are_positive_whole_numbers(X, bad):
    trials = np.full(100, 4.0)
    trials[9] = bad
    with pytest.raises(InvalidInputError, match=rf"`trials`.*{bad:g} in row 9"):
        GPRegressor(likelihood="binomial", knots=5).fit(X, np.ones(100), trials=trials)


@pytest.mark.failure(34)
def test_more_successes_than_trials_are_an_error_with_both_numbers(X):
    y = np.ones(100)
    y[9] = 6
    with pytest.raises(InvalidInputError, match=r"which is 4 there, but is 6 in row 9"):
        GPRegressor(likelihood="binomial", knots=5).fit(X, y, trials=4)


@pytest.mark.failure(34)
@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_fractional_counts_are_used_with_one_warning(X, counts, likelihood):
    y = counts.copy()
    y[[3, 8]] += 0.5
    with pytest.warns(FitWarning, match=r"2 of 100 .*row 3") as caught:
        gp = GPRegressor(Matern32(1.0, 1.0, column_scales="standard"), likelihood, knots=X[:9], optimizer=None).fit(
            X, y
        )
    assert len(caught) == 1
    assert np.isfinite(gp.log_evidence_)


# -- options that do not go together --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({"likelihood": "bernoulli"}, {"exposure": 2.0}, "`exposure` has no meaning"),
        ({"likelihood": "bernoulli"}, {"trials": 2}, "`trials` has no meaning"),
        ({"likelihood": "poisson"}, {"trials": 2}, "takes `exposure`"),
        ({"likelihood": "binomial"}, {"exposure": 2.0}, "takes `trials`"),
        ({"likelihood": "gaussian"}, {"exposure": 2.0}, "`exposure` has no meaning"),
        ({"likelihood": "poisson"}, {"noise_variance": np.ones(100)}, "`noise_variance` is for Gaussian"),
        ({"likelihood": StudentT()}, {"noise_variance": np.ones(100)}, "`noise_variance` is for Gaussian"),
        ({"likelihood": "gaussian", "nugget": "fit"}, {}, "`nugget`"),
        ({"likelihood": "gaussian", "nugget": 0.1}, {}, "`nugget`"),
        ({"likelihood": "poisson", "nugget": "fitt"}, {}, "fit"),
        ({"likelihood": "poisson", "nugget": -1.0}, {}, "`nugget` is -1.0"),
        ({"likelihood": "poisson", "nugget": np.nan}, {}, "`nugget` is nan"),
        ({"likelihood": "poisson", "nugget": np.inf}, {}, "nugget"),
        ({"likelihood": "poison"}, {}, "poisson"),
        ({"likelihood": 3}, {}, "likelihood"),
        ({"likelihood": Beta(precision=2.0), "fixed": ["presicion"]}, {}, "precision"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_errors_that_say_so(X, options, data, message):
    y = np.tile([0.0, 1.0], 50) if not isinstance(options["likelihood"], Beta) else np.tile([0.4, 0.6], 50)
    with pytest.raises(InvalidInputError, match=message):
        GPRegressor(knots=5, **options).fit(X, y, **data)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli", "student_t"])
def test_a_joint_covariance_of_observations_is_refused_where_it_is_not_the_law(X, likelihood):
    gp = GPRegressor(Matern32(1.0, 1.0, column_scales="standard"), likelihood, knots=X[:5], optimizer=None).fit(
        X, np.tile([0.0, 1.0], 50)
    )
    with pytest.raises(InvalidInputError, match="return_cov"):
        gp.predict(X[:3], return_cov=True)


def test_data_options_of_predict_are_checked_as_those_of_fit(X, counts):
    gp = GPRegressor(Matern32(1.0, 1.0, column_scales="standard"), "poisson", knots=X[:5], optimizer=None).fit(
        X, counts
    )
    with pytest.raises(InvalidInputError, match="takes `exposure`"):
        gp.predict(X[:3], trials=3)
    with pytest.raises(InvalidInputError, match="noise_variance"):
        gp.predict(X[:3], noise_variance=np.ones(3))
    with pytest.raises(InvalidInputError, match="`kind`"):
        gp.predict_interval(X[:3], kind="respons")
    with pytest.raises(InvalidInputError, match="`level`"):
        gp.predict_interval(X[:3], level=95)
    with pytest.raises(InvalidInputError, match="-1 in row 2"):
        gp.log_predictive_density(X[:3], [0, 1, -1])


# -- invariances of fits --------------------------------------------------------------------------------------


def test_exposure_in_other_units_moves_the_mean_only(X, counts):
    """Hectares or square metres: rates and the mean change by the factor, everything else stays."""
    hectares = np.random.default_rng(1).uniform(0.5, 2, 100)
    a = GPRegressor(SquaredExponential(), likelihood="poisson", knots=9, random_state=0).fit(
        X, counts, exposure=hectares
    )
    b = GPRegressor(SquaredExponential(), likelihood="poisson", knots=9, random_state=0).fit(
        X, counts, exposure=hectares * 1e4
    )
    assert_allclose(b.log_evidence_, a.log_evidence_, rtol=1e-6)
    assert_allclose(b.predict(X, exposure=1) * 1e4, a.predict(X, exposure=1), rtol=1e-3)
    assert_allclose(b.coefficients_.estimate + np.log(1e4), a.coefficients_.estimate, atol=1e-3)
    assert_allclose(b.coefficients_.standard_error, a.coefficients_.standard_error, rtol=1e-3)


def test_a_learned_nugget_finds_extra_variation_and_leaves_it_where_there_is_none(rng):
    X = rng.uniform(-2, 2, size=(300, 1))
    f = 2 + np.sin(2 * X[:, 0])
    plain = rng.poisson(np.exp(f)).astype(float)
    noisy = rng.poisson(np.exp(f + 0.7 * rng.normal(size=300))).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # a nugget of nothing ends on its bound
        without, with_ = (
            GPRegressor(SquaredExponential(), likelihood="poisson", knots=15, nugget="fit", random_state=0).fit(X, y)
            for y in (plain, noisy)
        )
    assert without.nugget_ < 0.05
    assert 0.25 < with_.nugget_ < 0.8  # 0.49 is the truth


def test_fractions_of_trials_as_binomial_equal_repeated_bernoulli_rows(rng):
    """Three successes of five trials are five rows at one place, up to the binomial coefficient."""
    from scipy.special import gammaln

    places = rng.uniform(-2, 2, size=(20, 1))
    trials = rng.integers(1, 6, 20)
    y = rng.binomial(trials, 0.4)
    rows = np.repeat(np.arange(20), trials)
    labels = np.concatenate([np.r_[np.ones(k), np.zeros(n - k)] for k, n in zip(y, trials, strict=True)])
    options = {"approximation": "fic", "knots": places, "jitter": 1e-10, "mean": 0.2, "optimizer": None}
    binomial = GPRegressor(Matern32(2.0, 1.0), Binomial(), standardize=False, **options)
    bernoulli = GPRegressor(Matern32(2.0, 1.0), "bernoulli", standardize=False, **options)
    binomial.fit(places, y, trials=trials)
    bernoulli.fit(places[rows], labels)
    coefficients = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
    assert_allclose(binomial.log_evidence_, bernoulli.log_evidence_ + coefficients.sum(), rtol=1e-6)
    assert_allclose(binomial.predict(places, trials=1), bernoulli.predict(places), rtol=1e-6)


def test_little_dispersion_is_poisson(X, counts):
    options = {"knots": X[:9], "optimizer": None, "mean": 1.0}
    negative = GPRegressor(Matern32(1.0, 1.0, column_scales="standard"), NegativeBinomial(1e-7), **options).fit(
        X, counts
    )
    poisson = GPRegressor(Matern32(1.0, 1.0, column_scales="standard"), "poisson", **options).fit(X, counts)
    assert_allclose(negative.log_evidence_, poisson.log_evidence_, rtol=1e-5)
    assert_allclose(negative.predict(X), poisson.predict(X), rtol=1e-5)


# -- hickory --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_full_gp_of_the_hickories_is_the_known_one():
    hickory = load_hickory()
    gp = GPRegressor(
        SquaredExponential(),
        "poisson",
        "full",
        nugget="fit",
        mean=np.log(703),
        inference="laplace",
        standardize=False,
        random_state=0,
    ).fit(hickory.X, hickory.y, exposure=hickory.exposure)
    assert gp.converged_
    assert_allclose(gp.log_evidence_, -1029.0, atol=0.01)
    assert_allclose(np.sqrt(gp.parameters_["variance"]), 0.647, rtol=0.02)
    assert_allclose(gp.parameters_["lengthscale"], 0.094, rtol=0.02)
    assert_allclose(np.sqrt(gp.nugget_), 0.30, rtol=0.02)


# -- log means over a wide range -------------------------------------------------------------------------------

WIDE_DRAWS = {
    "gamma": lambda rng, f: rng.gamma(5, np.exp(f) / 5),
    "lognormal": lambda rng, f: np.exp(f + 0.3 * rng.normal(size=len(f))),
    "exponential": lambda rng, f: rng.exponential(np.exp(f)),
    "weibull": lambda rng, f: np.exp(f) * rng.weibull(3, len(f)),
    "negative_binomial": lambda rng, f: rng.poisson(rng.gamma(2, np.exp(f) / 2)).astype(float),
    "poisson": lambda rng, f: rng.poisson(np.exp(f)).astype(float),
}


def wide_data(likelihood, amplitude, seed, n_columns=1):
    """Inputs, targets and the log mean; of counts, what e^-3 and less tell is not asked for."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(200, n_columns))
    f = amplitude * (np.sin(6 * X[:, 0]) if n_columns == 1 else np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]))
    told = f > -3 if likelihood in ("poisson", "negative_binomial") else np.ones(len(f), bool)
    return X, WIDE_DRAWS[likelihood](rng, f), f, told


def assert_finds_the_log_mean(likelihood, amplitude, seed, n_columns=1, **options):
    X, y, f, told = wide_data(likelihood, amplitude, seed, n_columns)
    gp = GPRegressor(likelihood=likelihood, random_state=0, n_jobs=1, **options).fit(X, y)
    assert gp.status_ == "converged"
    assert np.corrcoef(gp.predict_latent(X).mean[told], f[told])[0, 1] > 0.999
    return gp


@pytest.mark.parametrize(("likelihood", "n_columns"), [("gamma", 1), ("gamma", 2), ("negative_binomial", 1)])
@pytest.mark.parametrize("amplitude", [25.0, 39.0])
def test_a_log_mean_over_a_wide_range_is_found(likelihood, amplitude, n_columns):
    assert_finds_the_log_mean(likelihood, amplitude, 0, n_columns)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n_columns", [1, 2])
@pytest.mark.parametrize("amplitude", [8.0, 25.0, 40.0])
@pytest.mark.parametrize("likelihood", ["gamma", "lognormal", "exponential", "weibull"])
def test_every_positive_response_over_a_wide_range_is_found(likelihood, amplitude, n_columns, seed):
    X, y, f, _ = wide_data(likelihood, amplitude, seed, n_columns)
    gp = GPRegressor(likelihood=likelihood, random_state=0, n_jobs=1).fit(X, y)
    assert gp.status_ == "converged"
    assert np.corrcoef(gp.predict_latent(X).mean, f)[0, 1] > 0.99


@pytest.mark.parametrize(
    "options",
    [{}, {"approximation": "full"}, {"inference": "laplace"}, {"knots": 12, "kernel": Matern52()}],
)
@pytest.mark.parametrize("amplitude", [25.0, 39.0])
def test_counts_beyond_what_sums_keep_get_a_nugget_and_a_warning(amplitude, options):
    """At e^25 a count tells the log rate to 4e-6, over a range of 30: to rounding, such a covariance is singular."""
    with pytest.warns(FitWarning, match=r"determines the latent function to .* a nugget of variance .* was added"):
        gp = assert_finds_the_log_mean("poisson", amplitude, 1, **options)
    assert 0 < gp.parameters_["nugget"] < 1e-4


def test_a_nugget_of_ones_own_stays_and_nothing_is_said():
    gp = assert_finds_the_log_mean("poisson", 25.0, 0, nugget=1e-6)
    assert gp.parameters_["nugget"] == pytest.approx(1e-6)


def test_given_parameters_are_those_of_the_evidence_whatever_the_counts():
    X, y, _, _ = wide_data("poisson", 25.0, 0)
    gp = GPRegressor(SquaredExponential(1.0, 0.1), "poisson", approximation="full", optimizer=None, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # such parameters may be far off
        names = gp.fit(X[:5], y[:5]).parameters_.names
    assert "nugget" not in names


def test_heavy_tails_are_not_taken_for_a_wide_function(rng):
    """Of gamma noise with shape 0.05 the logarithm has a standard deviation of 20, and there is nothing to learn."""
    X, y = rng.uniform(size=(200, 1)), np.maximum(rng.gamma(0.05, 20.0, 200), 1e-300)
    gp = GPRegressor(likelihood="gamma", random_state=0, n_jobs=1).fit(X, y)
    assert gp.status_ == "no signal"
    assert gp.parameters_["shape"] == pytest.approx(0.05, rel=0.3)


def test_no_signal_is_not_said_of_a_fit_that_explains_the_data(monkeypatch):
    """Whatever the search for signal on some rows has missed."""
    X, y, f, _ = wide_data("gamma", 3.0, 0)
    numbers = {"log_bayes_factor": 0.0, "threshold": 1.0, "n_knots": 0}
    missed = lambda problem, rng, trace: Decision(problem.table.theta, "nothing was seen", numbers)  # noqa: E731
    monkeypatch.setattr(signal, "decide", missed)
    gp = GPRegressor(likelihood="gamma", random_state=0, n_jobs=1).fit(X, y)
    assert gp.status_ == "converged"
    assert np.corrcoef(gp.predict_latent(X).mean, f)[0, 1] > 0.99


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_huge_outliers_leave_student_t_its_function(rng, size):
    """Starts and bounds are those of the other rows: relative to a variance of 1e11 there is no room for these."""
    X = rng.uniform(size=(200, 1))
    f = np.sin(6 * X[:, 0])
    y = f + 0.1 * rng.normal(size=200)
    y[::20] += size * rng.normal(size=10)
    gp = GPRegressor(SquaredExponential(), StudentT(), knots=10, random_state=0, n_jobs=1).fit(X, y)
    assert gp.status_ == "converged"
    assert_allclose(gp.predict(X), f, atol=0.15)


# -- where there is no evidence at the start -------------------------------------------------------------------


@pytest.fixture
def no_evidence(monkeypatch):
    def fail(self, point, **options):
        raise KnotwiseError("nothing can be computed here.")

    monkeypatch.setattr(Problem, "evaluate", fail)


def test_advice_on_a_start_names_what_was_given(X, counts, no_evidence):
    gp = GPRegressor(SquaredExponential(variance=2.0), "poisson", knots=5)
    with pytest.raises(InvalidInputError, match=r"nothing can be computed here\. Give other values for variance, or"):
        gp.fit(X, counts)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({}, r"Try `inference='laplace'`, or `nugget='fit'`\."),
        ({"nugget": "fit"}, r"Try `inference='laplace'`\."),
        ({"inference": "laplace"}, r"Try `inference='variational'`, or `nugget='fit'`\."),
    ],
    ids=["defaults", "nugget", "laplace"],
)
@pytest.mark.parametrize("knots", ["auto", 5])
def test_advice_on_a_start_is_never_what_was_done_already(X, counts, no_evidence, knots, options, advice):
    with pytest.raises(InvalidInputError, match=advice) as error:
        GPRegressor(likelihood="poisson", knots=knots, **options).fit(X, counts)
    assert "None" not in str(error.value)
