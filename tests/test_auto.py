"""Automatic knots: what the exact GP says, with few knots, and a reason for their number.

The oracle is the exact GP. AUKL is the average divergence of the latent posteriors, in nats per row: 0.005 is a mean
that is off by a tenth of a standard deviation, or a standard deviation that is off by 7 %.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPClassifier, GPRegressor, datasets, means, metrics
from knotwise.decisions import pruning
from knotwise.decisions.enough import Rule
from knotwise.decisions.thresholds import AUTO, HYPERPARAMETERS
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import Linear, Matern32, Matern52, Periodic, SquaredExponential
from knotwise.knots import Auto
from knotwise.likelihoods import Gaussian

# -- the paper's data -----------------------------------------------------------------------------------


class Fitted:
    """Automatic knots and the exact GP on the same data, and how far they are apart."""

    def __init__(self, X, y, X_test, y_test, exposure=None, **options):
        sizes = {} if exposure is None else {"exposure": exposure}
        options |= {"kernel": SquaredExponential(), "approximation": "vfe", "noise": "constant"}
        self.sparse = GPRegressor(**options).fit(X, y, **sizes)
        self.full = GPRegressor(**(options | {"approximation": "full"})).fit(X, y, **sizes)
        sparse, full = self.sparse.predict_latent(X_test), self.full.predict_latent(X_test)
        self.aukl = metrics.aukl_latent(full.mean, full.variance, sparse.mean, sparse.variance)
        self.nlpd_excess = np.subtract(
            *(metrics.mean_nlpd(gp.log_predictive_density(X_test, y_test, **sizes)) for gp in (self.sparse, self.full))
        )
        self.sd_ratio = np.sqrt(self.sparse.predict_latent(X).variance / self.full.predict_latent(X).variance)


def boston(seed):
    parts = datasets.split(datasets.load_boston(), seed=seed)
    return Fitted(parts.X_train, parts.y_train, parts.X_test, parts.y_test, random_state=seed)


def banana(seed):
    parts = datasets.split(datasets.load_banana(), seed=seed, n_train=531)
    return Fitted(parts.X_train, parts.y_train, parts.X_test, parts.y_test, likelihood="bernoulli", random_state=seed)


def hickory(seed):
    data = datasets.load_hickory()
    options = {"likelihood": "poisson", "nugget": "fit", "standardize": "common", "random_state": seed}
    return Fitted(data.X, data.y, data.X, data.y, exposure=data.exposure, **options)


# limits: median and largest AUKL, median number of knots
LIMITS = {boston: (0.005, 0.02, 40), banana: (0.005, 0.02, 40), hickory: (0.02, 0.08, 100)}


def check_against_the_exact_gp(data, seeds):
    median, largest, n_knots = LIMITS[data]
    fits = [data(seed) for seed in seeds]
    aukl = np.array([fit.aukl for fit in fits])
    assert np.median(aukl) <= median, aukl
    assert aukl.max() <= largest, aukl
    assert np.median([fit.sparse.n_knots_ for fit in fits]) <= n_knots
    for fit in fits:
        assert fit.nlpd_excess < 0.01  # on a grid, rounding chooses which rows settle the parameters
        assert np.mean((fit.sd_ratio > 0.8) & (fit.sd_ratio < 1.2)) >= 0.99
        assert fit.sd_ratio.max() < 1.5
        assert fit.sparse.converged_ and "unexplained" in fit.sparse.stop_reason_
    return fits


@pytest.mark.parametrize("data", [boston, banana])
def test_automatic_knots_are_the_exact_gp(data):
    check_against_the_exact_gp(data, [0])


@pytest.mark.slow
@pytest.mark.parametrize("data", LIMITS)
def test_automatic_knots_are_the_exact_gp_for_ten_seeds(data):
    check_against_the_exact_gp(data, range(10))


# -- simulated data ---------------------------------------------------------------------------------------


def draw(rng, n, d, lengthscale, amplitude=1.0):
    """A function on the unit cube with squared exponential covariance, by random Fourier features."""
    X = rng.uniform(size=(n, d))
    frequencies = rng.normal(size=(d, 2000)) / lengthscale
    phases, weights = rng.uniform(0, 2 * np.pi, 2000), rng.normal(size=2000)
    return X, amplitude * np.sqrt(2 / 2000) * np.cos(X @ frequencies + phases) @ weights


def aukl_to_exact(gp, X, y, X_new, **options):
    full = GPRegressor(**(options | {"approximation": "full"})).fit(X, y).predict_latent(X_new)
    sparse = gp.predict_latent(X_new)
    return metrics.aukl_latent(full.mean, full.variance, sparse.mean, sparse.variance)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_short_lengthscales_in_one_dimension(seed):
    rng = np.random.default_rng(seed)
    X, f = draw(rng, 500, 1, 0.05)
    y = f + 0.3 * rng.normal(size=500)
    gp = GPRegressor(random_state=seed).fit(X, y)
    assert aukl_to_exact(gp, X, y, rng.uniform(size=(500, 1)), random_state=seed) <= 0.05
    assert 15 < gp.n_knots_ < 100
    assert "limit" not in gp.stop_reason_


@pytest.mark.slow
def test_short_lengthscales_in_two_dimensions():
    rng = np.random.default_rng(0)
    X, f = draw(rng, 2000, 2, 0.05)
    y = f + 0.3 * rng.normal(size=2000)
    gp = GPRegressor(knots=Auto(max_knots=800), random_state=0).fit(X, y)
    assert aukl_to_exact(gp, X, y, rng.uniform(size=(1000, 2)), random_state=0) <= 0.05


def test_a_limit_that_is_too_low_is_said_everywhere():
    rng = np.random.default_rng(0)
    X, f = draw(rng, 2000, 2, 0.05)
    gp = GPRegressor(SquaredExponential(), knots=Auto(max_knots=100), random_state=0)
    with pytest.warns(FitWarning, match=r"limit of 100 knots.*max_knots=200.*approximation='full'"):
        gp.fit(X, f + 0.3 * rng.normal(size=2000))
    assert gp.n_knots_ <= 100
    assert gp.status_ == "limit reached" and not gp.converged_
    assert "the limit of 100 knots was reached and more are needed" in gp.stop_reason_
    assert gp.trace_.stop_reason == gp.stop_reason_
    assert f"limit reached: {gp.stop_reason_}" in gp.summary() and "not for comparing kernels" in gp.summary()
    finding = gp.diagnose().finding("convergence")
    assert finding.level == "problem" and gp.stop_reason_ in finding.text and "max_knots=200" in finding.advice


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_noise_alone_needs_few_knots(d, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(400, d)), 3 + 2 * rng.normal(size=400)
    gp = GPRegressor(random_state=seed).fit(X, y)
    assert gp.n_knots_ <= 10
    mean, std = gp.predict(rng.uniform(size=(200, d)), return_std=True)
    assert_allclose(mean, y.mean(), atol=1.0)
    assert_allclose(std, 2, rtol=0.2)


@pytest.mark.filterwarnings("ignore:The optimiser stopped")  # noise at its bound
def test_a_line_and_a_plane_need_few_knots(rng):
    for d, most in [(1, 5), (3, 10)]:
        X, X_new = rng.uniform(size=(300, d)), rng.uniform(size=(300, d))
        slope = np.arange(1, d + 1)
        gp = GPRegressor(random_state=0).fit(X, 7 + X @ slope)
        assert_allclose(gp.predict(X_new), 7 + X_new @ slope, atol=1e-2)
        assert gp.n_knots_ <= most


def test_very_many_rows_end_with_the_parameters_of_all_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 1))
    y = np.sin(9 * X[:, 0]) + 0.2 * rng.normal(size=2000)
    monkeypatch.setitem(vars(AUTO), "selection_rows", 300)

    def fit():
        return GPRegressor(SquaredExponential(), approximation="vfe", random_state=0).fit(X, y)

    at_once = fit()
    monkeypatch.setitem(vars(HYPERPARAMETERS), "many_rows", 1000)
    monkeypatch.setitem(vars(HYPERPARAMETERS), "some_rows", 600)
    in_steps = fit()
    (one,), (other,) = ([step for step in gp.trace_ if step.action == "refine"] for gp in (at_once, in_steps))
    assert_allclose(other.evidence, one.evidence, atol=0.1)  # nats
    n_one, n_other = (int(step.note.split()[-2]) for step in (one, other))
    assert n_other < n_one  # the curvature is known
    assert "are enough for all" in [step for step in in_steps.trace_ if step.action == "move"][-1].note


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_weak_signal_is_found_in_many_rows(seed):
    rng = np.random.default_rng(seed)
    X, f = draw(rng, 20_000, 2, 0.5, amplitude=0.1)
    gp = GPRegressor(random_state=seed).fit(X, f + rng.normal(size=len(X)))
    found = gp.predict_latent(X).mean
    assert np.mean((found - f) ** 2) < 0.3 * np.var(f)
    assert "no signal" not in gp.stop_reason_


@pytest.mark.parametrize("likelihood", ["gaussian", pytest.param("poisson", marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_knots_for_any_number_of_threads(likelihood):
    rng = np.random.default_rng(0)
    X, f = draw(rng, 6000, 2, 0.4)  # more rows than knots are chosen on
    y = f + 0.3 * rng.normal(size=6000) if likelihood == "gaussian" else rng.poisson(np.exp(f))
    options = {"likelihood": likelihood, "random_state": 3, "block_size": 1000}
    one, two = (GPRegressor(n_jobs=n, **options).fit(X, y) for n in (1, 2))
    assert_array_equal(one.knots_, two.knots_)
    assert_array_equal(one.parameters_.values, two.parameters_.values)
    assert one.log_evidence_ == two.log_evidence_
    assert "refine" in [step.action for step in one.trace_]
    assert np.mean((one.predict_latent(X).mean - f) ** 2) < 0.05


# -- small and odd data -------------------------------------------------------------------------------------


def test_counts_that_are_all_zero(rng):
    X = rng.uniform(size=(200, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = GPRegressor(likelihood="poisson", random_state=0).fit(X, np.zeros(200))
    assert [warning.category for warning in caught] == [FitWarning]
    assert gp.n_knots_ <= 10
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite([mean, std]).all() and np.isfinite(gp.log_evidence_)
    assert mean.max() < 0.05


@pytest.mark.filterwarnings("ignore:One row tells")
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_few_rows_are_the_exact_gp(n, rng):
    X = rng.uniform(size=(n, 2))
    y = 5 + np.sin(5 * X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=n)
    X_new = rng.uniform(-0.5, 1.5, size=(50, 2))
    # of five rows the evidence with an integrated mean has two maxima of almost the same height
    options = {"random_state": 0, "mean": means.Constant(prior_sd=None) if n == 5 else "constant"}
    gp, full = (GPRegressor(approximation=how, **options).fit(X, y) for how in (None, "full"))
    spread = y.std() if n > 1 else abs(y[0])
    assert gp.n_knots_ <= n
    assert_allclose(gp.predict(X_new), full.predict(X_new), atol=1e-3 * spread)
    assert_allclose(gp.predict(X_new, return_std=True)[1], full.predict(X_new, return_std=True)[1], atol=1e-3 * spread)


@pytest.mark.filterwarnings("ignore:The optimiser stopped")  # noise at its bound
@pytest.mark.parametrize("seed", range(4))
def test_few_rows_without_noise_are_the_exact_gp_up_to_the_jitter(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(20, 2))
    y = 5 + np.sin(5 * X[:, 0]) + X[:, 1]
    X_new = rng.uniform(size=(50, 2))
    gp, full = (GPRegressor(approximation=how, random_state=0).fit(X, y) for how in (None, "full"))
    # a jitter of 1e-10 of the prior variance is seen where the noise is at its floor of 1e-8
    assert_allclose(gp.predict(X_new), full.predict(X_new), atol=1e-2 * y.std())


@pytest.mark.parametrize("n", [21, 25, 40, 60])
def test_a_few_rows_more_are_the_exact_gp_too(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 1))
    y = np.sin(40 * X[:, 0]) + 0.05 * rng.normal(size=n)
    gp = GPRegressor(random_state=0).fit(X, y)
    assert aukl_to_exact(gp, X, y, X, random_state=0) < 0.05


def test_repeated_rows_need_no_more_knots_than_there_are_distinct_ones(rng):
    distinct = rng.uniform(size=(10, 2))
    which = rng.integers(10, size=1000)
    levels = rng.normal(size=10)
    gp = GPRegressor(random_state=0).fit(distinct[which], levels[which] + 0.1 * rng.normal(size=1000))
    assert gp.n_knots_ <= 10
    assert_allclose(gp.predict(distinct), levels, atol=0.05)


def test_a_constant_target_is_predicted(rng):
    X = rng.uniform(size=(100, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = GPRegressor(random_state=0).fit(X, np.full(100, 3.7))
    assert gp.n_knots_ <= 10
    mean, std = gp.predict(rng.uniform(size=(20, 2)), return_std=True)
    assert_allclose(mean, 3.7, rtol=1e-6)
    assert np.isfinite(std).all()


# -- what the user holds ----------------------------------------------------------------------------------


@pytest.fixture
def waves(rng):
    X = rng.uniform(size=(200, 2))
    return X, np.sin(8 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=200)


def test_without_an_optimiser_parameters_stay_and_knots_are_chosen(waves):
    X, y = waves
    options = {"kernel": SquaredExponential(1.2, 0.25), "likelihood": Gaussian(0.04), "mean": 0.3}
    options |= {"optimizer": None, "standardize": False, "random_state": 0}
    gp = GPRegressor(**options).fit(X, y)
    assert_allclose(gp.parameters_.values, [1.2, 0.25, 0.04, 0.3], rtol=1e-12)
    assert 5 < gp.n_knots_ < 100
    assert aukl_to_exact(gp, X, y, X, **options) < 0.02


def test_fixed_parameters_and_bounds_are_respected(waves):
    X, y = waves
    options = {"random_state": 0, "standardize": False}
    gp = GPRegressor(SquaredExponential(2.5, None), fixed=["variance"], **options).fit(X, y)
    values = dict(zip(gp.parameters_.names, gp.parameters_.values, strict=True))
    assert_allclose(values["variance"], 2.5, rtol=1e-12)
    low, high = 0.02, 0.1
    gp = GPRegressor(bounds={"lengthscale": (low, high)}, **options).fit(X, y)
    values = dict(zip(gp.parameters_.names, gp.parameters_.values, strict=True))
    assert low * (1 - 1e-9) <= values["lengthscale"] <= high * (1 + 1e-9)
    assert values["lengthscale"] > 0.09  # the data want more


def test_the_share_and_the_tolerance_trade_knots_for_accuracy(waves):
    X, y = waves
    options = {"kernel": SquaredExponential(), "random_state": 0}
    loose, tight = (GPRegressor(knots=Auto(share=share), **options).fit(X, y) for share in (0.4, 0.02))
    assert tight.n_knots_ > loose.n_knots_
    assert tight._fit.problem.scores(at_end(tight)).share < 0.02
    assert aukl_to_exact(tight, X, y, X, **options) < aukl_to_exact(loose, X, y, X, **options)


@pytest.mark.parametrize("slack", [1.02, 1.3])
def test_knots_are_dropped_only_as_long_as_the_rule_that_added_them_holds(slack, waves):
    X, y = waves
    gp = GPRegressor(SquaredExponential(), knots=Auto(share=0.02), approximation="vfe", random_state=0).fit(X, y)
    problem, at = gp._fit.problem, at_end(gp)
    left = problem.scores(at).share
    rule, anything_goes = Rule.of("latent", slack * left, 300), Rule.of("observation", 1.0, 300)
    few, many = (
        pruning.decide(problem, at.theta, at.Z, 3.0, problem.new_trace(), r).choice for r in (anything_goes, rule)
    )
    assert len(few) < len(many) <= len(at.Z)
    assert problem.scores(problem.point(at.theta, many)).share < slack * left
    assert problem.scores(problem.point(at.theta, few)).share > slack * left


def test_settings_that_make_no_sense_are_refused(waves):
    X, y = waves
    for settings in (
        *({"max_knots": n} for n in (0, -3, 2.5)),
        *({"share": share} for share in (-1.0, np.nan)),
        {"tolerance": np.nan},
        {"target": "observations"},
    ):
        with pytest.raises(InvalidInputError, match=next(iter(settings))):
            GPRegressor(knots=Auto(**settings), random_state=0).fit(X, y)
    for n in (1, 3):
        gp = GPRegressor(SquaredExponential(), knots=Auto(max_knots=n), random_state=0)
        with pytest.warns(FitWarning, match=f"limit of {n} knots"):
            gp.fit(X, y)
        assert gp.n_knots_ <= n and gp.status_ == "limit reached"


def at_end(gp):
    return gp._fit.selection.point


# -- the trace --------------------------------------------------------------------------------------------


def test_the_trace_says_what_was_done_in_order(waves):
    X, y = waves
    gp = GPRegressor(random_state=0, average=False).fit(X, 50 * y)
    actions = [
        step.action for step in gp.trace_ if step.action != "reactivate"
    ]  # after which parameters are fitted again
    order = ["kernel", "signal", "parameters", "start", "move", "prune", "final"]
    assert sorted(actions, key=order.index) == actions
    assert {"kernel", "signal", "parameters", "start", "move", "final"} <= set(actions)
    last = gp.trace_[-1]
    assert last.n_knots == gp.n_knots_
    assert_allclose(last.evidence, gp.log_evidence_, rtol=1e-12)
    assert (np.diff([step.seconds for step in gp.trace_]) >= 0).all()
    assert str(gp.n_knots_) in gp.stop_reason_ and gp.trace_.stop_reason == gp.stop_reason_
    # the share that is said is the share that is left
    left = gp._fit.problem.scores(at_end(gp)).share
    assert f"share of {left:.3f}" in gp.stop_reason_
    frame = gp.trace_.to_frame()
    assert list(frame.columns) == [
        *("action", "n_knots", "evidence", "gain", "share", "residual_information", "n_tried", "seconds"),
        *("inference", "note"),
    ]
    assert list(frame["action"]) == [step.action for step in gp.trace_] and len(frame) == len(gp.trace_)
    text = str(gp.summary())
    assert gp.stop_reason_ in text and all(action in text for action in actions)


def test_evidences_in_the_trace_are_of_the_rows_that_a_step_saw():
    rng = np.random.default_rng(0)
    X, f = draw(rng, 6000, 1, 0.4)
    y = f + 0.3 * rng.normal(size=6000)
    # a power of 2, so that the standardised targets have the same bits
    one, eight = (GPRegressor(random_state=0).fit(X, factor * y).trace_ for factor in (1, 8))
    seen = {"parameters": 5000, "refine": 6000, "start": 5000, "prune": 6000, "final": 6000}
    assert {"parameters", "refine", "final"} <= {step.action for step in one}
    for a, b in zip(one, eight, strict=True):
        if a.action in seen:
            assert_allclose(a.evidence - b.evidence, seen[a.action] * np.log(8), rtol=1e-6)


def test_the_default_is_auto(waves):
    X, y = waves
    named, default = GPRegressor(knots=Auto(), random_state=0).fit(X, y), GPRegressor(random_state=0).fit(X, y)
    assert_array_equal(named.knots_, default.knots_)


# -- every part ---------------------------------------------------------------------------------------------


def responses(rng, f):
    """Targets for a latent function by likelihood."""
    p = 1 / (1 + np.exp(-f))
    return {
        "gaussian": f + 0.3 * rng.normal(size=len(f)),
        "student_t": f + 0.2 * rng.standard_t(4, size=len(f)),
        "poisson": rng.poisson(np.exp(1 + f)),
        "negative_binomial": rng.negative_binomial(5, 5 / (5 + np.exp(1 + f))),
        "bernoulli": (rng.uniform(size=len(f)) < p).astype(float),
        "binomial": rng.binomial(8, p),
        "gamma": rng.gamma(4, np.exp(f) / 4),
        "exponential": rng.exponential(np.exp(f)),
        "weibull": np.exp(f) * rng.weibull(2, size=len(f)),
        "lognormal": np.exp(f + 0.3 * rng.normal(size=len(f))),
        "beta": np.clip(rng.beta(10 * p, 10 * (1 - p)), 1e-4, 1 - 1e-4),
    }


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", responses(np.random.default_rng(0), np.zeros(1)))
def test_every_likelihood(likelihood):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(150, 2))
    f = 2 * np.sin(5 * X[:, 0]) * np.cos(2 * X[:, 1])
    y = responses(rng, f)[likelihood]
    sizes = {"trials": np.full(150, 8)} if likelihood == "binomial" else {}
    gp, full = (
        GPRegressor(likelihood=likelihood, approximation=how, random_state=0).fit(X, y, **sizes)
        for how in (None, "full")
    )
    sparse, exact = gp.predict_latent(X), full.predict_latent(X)
    assert 5 <= gp.n_knots_ <= 50
    assert metrics.aukl_latent(exact.mean, exact.variance, sparse.mean, sparse.variance) < 0.02
    assert np.corrcoef(sparse.mean, f)[0, 1] > 0.85


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": SquaredExponential() + Linear()},
        {"kernel": Matern52().on(0) * SquaredExponential().on(1)},
        {"kernel": SquaredExponential() + Periodic(period=0.3).on(0)},
        {"kernel": SquaredExponential(ard=True)},
        {"kernel": Matern32()},
        {"mean": "linear"},
        {"mean": "zero"},
        {"approximation": "fic"},
        {"approximation": 0.5},
        {"standardize": False},
    ],
    ids=str,
)
def test_every_part(options, waves):
    X, y = waves
    options |= {"average": False}
    gp = GPRegressor(random_state=0, **options).fit(X, y)
    assert gp.n_knots_ <= 100
    # a part that does not help has several maxima of the evidence: which is found is not said, but that it is as good
    # as the exact GP's, and that the knots are enough for it
    full = GPRegressor(random_state=0, **options | {"approximation": "full"}).fit(X, y)
    held = {"kernel": gp.kernel_, "likelihood": gp.likelihood_, "optimizer": None, "approximation": "full"}
    exact = GPRegressor(**options | held).fit(X, y)
    assert exact.log_evidence_ > full.log_evidence_ - 0.5
    p, q = exact.predict_latent(X), gp.predict_latent(X)
    assert metrics.aukl_latent(p.mean, p.variance, q.mean, q.variance) < 0.05


def test_known_noise_of_each_row(rng):
    X = rng.uniform(size=(200, 1))
    noise = np.where(X[:, 0] < 0.5, 0.01, 1.0)
    y = np.sin(12 * X[:, 0]) + np.sqrt(noise) * rng.normal(size=200)
    gp, full = (
        GPRegressor(approximation=how, random_state=0).fit(X, y, noise_variance=noise) for how in (None, "full")
    )
    sparse, exact = gp.predict_latent(X), full.predict_latent(X)
    assert metrics.aukl_latent(exact.mean, exact.variance, sparse.mean, sparse.variance) < 0.02


@pytest.mark.slow
def test_three_classes(rng):
    X = rng.uniform(-1, 1, size=(200, 2))
    y = np.array(["red", "green", "blue"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.4, 0.4])]
    gp = GPClassifier(random_state=0).fit(X, y)
    assert gp.score(X, y) > 0.93
    assert_allclose(gp.predict_proba(X).sum(1), 1, rtol=1e-12)


def test_units_do_not_matter(waves):
    X, y = waves
    plain = GPRegressor(random_state=0).fit(X, y)
    other = GPRegressor(random_state=0).fit(X * [1e3, 1e-4] + [1e5, 3.0], 1e6 * y - 3e7)
    assert abs(plain.n_knots_ - other.n_knots_) <= 2
    assert_allclose(1e6 * plain.predict(X) - 3e7, other.predict(X * [1e3, 1e-4] + [1e5, 3.0]), atol=1e-2 * 1e6)


def test_a_problem_is_left_as_it_was(waves):
    X, y = waves
    problem = GPRegressor(knots=Auto(), random_state=0).fit(X, y)._fit.problem
    before = problem.table.theta.copy()
    first, second = (Auto().select(problem.anew(), np.random.default_rng(0)) for _ in range(2))
    assert_array_equal(problem.table.theta, before)
    assert_array_equal(first.Z, second.Z)
