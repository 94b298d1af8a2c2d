"""Counts: the law that the data choose, and what is said where Poisson counts vary more than they may."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import knotwise
from knotwise import GPRegressor, cross_validate
from knotwise.decisions import counts, overdispersion
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.evidence import InMemory
from knotwise.kernels import Matern12, Matern32, Matern52
from knotwise.likelihoods import NegativeBinomial, Poisson, ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from knotwise.selection.problem import Run
from knotwise.selection.trace import Action

QUIET = {"random_state": 0, "n_jobs": 1, "progress": False}
LAWS = (Poisson(), NegativeBinomial())


def draw(seed, dispersion, n=150, level=1.5, with_exposure=False):
    """Counts around exp(level + sin 6x); with an exposure between 0.2 and 5."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    exposure = rng.uniform(0.2, 5.0, n) if with_exposure else None
    mean = np.exp(level + np.sin(6 * X[:, 0])) * (1.0 if exposure is None else exposure)
    rate = rng.gamma(1 / dispersion, dispersion * mean) if dispersion else mean
    return X, rng.poisson(rate).astype(float), exposure


def fitted(X, y, exposure=None, **options):
    return GPRegressor(**QUIET | {"likelihood": "counts", "kernel": Matern32()} | options).fit(X, y, exposure=exposure)


def note_of(gp):
    return next(step for step in gp.trace_ if step.action is Action.LIKELIHOOD).note


# -- the decision --------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_exposure", [False, True])
@pytest.mark.parametrize(("dispersion", "law"), [(0.0, Poisson), (0.3, NegativeBinomial), (1.0, NegativeBinomial)])
def test_the_law_of_simulated_counts_is_found(dispersion, law, with_exposure):
    for seed in range(5):
        X, y, exposure = draw(seed, dispersion, with_exposure=with_exposure)
        assert isinstance(fitted(X, y, exposure).likelihood_, law), seed


@pytest.mark.parametrize(("dispersion", "law"), [(0.0, ZeroInflatedPoisson), (0.5, ZeroInflatedNegativeBinomial)])
def test_zeros_beside_the_counts_are_found(dispersion, law):
    for seed in range(3):
        X, y, _ = draw(seed, dispersion, n=250)
        y[np.random.default_rng(100 + seed).random(250) < 0.3] = 0.0
        gp = fitted(X, y)
        assert isinstance(gp.likelihood_, law) and 0.2 < gp.likelihood_.zero_inflation < 0.4, seed
        assert "zeros NegativeBinomial says" in note_of(gp)


@pytest.mark.parametrize(("dispersion", "law"), [(0.0, "poisson"), (0.5, "negative_binomial")])
@pytest.mark.parametrize("options", [{}, {"kernel": None}, {"knots": 8}, {"n_neighbors": 6}], ids=str)
def test_a_fit_is_that_of_the_law_told_to_the_bit(dispersion, law, options):
    X, y, exposure = draw(3, dispersion, with_exposure=True)
    by_data, told = (fitted(X, y, exposure, likelihood=which, **options) for which in ("counts", law))
    assert type(by_data.likelihood_) is type(told.likelihood_)
    assert by_data.log_evidence_ == told.log_evidence_
    assert_array_equal(by_data.predict(X, exposure=1), told.predict(X, exposure=1))


def test_a_nugget_that_is_asked_for_is_in_all_laws():
    """It explains the overdispersion of log-normal rates, so that the negative binomial has nothing to gain."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 1))
    y = rng.poisson(np.exp(1.5 + np.sin(6 * X[:, 0]) + 0.7 * rng.standard_normal(150))).astype(float)
    assert isinstance(fitted(X, y).likelihood_, NegativeBinomial)
    with_nugget = fitted(X, y, nugget="fit")
    assert isinstance(with_nugget.likelihood_, Poisson) and with_nugget.nugget_ > 0.2


def test_the_gain_is_the_difference_of_log_evidences_of_exact_fits():
    """Of both laws with the same kernel on all rows, by fits of their own."""
    X, y, exposure = draw(1, 0.3, with_exposure=True)
    exact = {"approximation": "full", "inference": "laplace", "n_restarts": 2}
    poisson, other = (heard_of(X, y, exposure, likelihood=law, **exact)[0].log_evidence_ for law in LAWS)
    gp = fitted(X, y, exposure)
    gain = float(note_of(gp).partition("gains ")[2].split()[0])
    assert gain > 5 and abs(gain - (other - poisson)) < 0.15  # searches to a tenth of a nat, told with one digit
    step = next(step for step in gp.trace_ if step.action is Action.LIKELIHOOD)
    assert_allclose(step.evidence, other, atol=0.05)


def test_copies_of_all_rows_say_nothing_more():
    X, y, exposure = draw(2, 0.5, n=80, with_exposure=True)
    once = fitted(X, y, exposure)
    thrice = fitted(*(np.repeat(a, 3, axis=0) for a in (X, y, exposure)))
    weighted = GPRegressor(Matern32(), "counts", **QUIET).fit(X, y, exposure=exposure, sample_weight=np.full(80, 2.0))
    assert note_of(once) == note_of(thrice) == note_of(weighted)


@pytest.mark.parametrize(("dispersion", "law"), [(0.0, Poisson), (0.6, NegativeBinomial)])
def test_counts_at_shared_inputs_are_observations_each(dispersion, law, monkeypatch):
    """Of equal counts at a place one row with a weight is made; drawn once each, Poisson counts would seem to vary."""
    monkeypatch.setattr(counts, "COUNTS", replace(counts.COUNTS, rows=40, validation_rows=60))
    rng = np.random.default_rng(5)
    X = rng.integers(0, 12, 900)[:, None] / 12
    mean = np.exp(0.5 + np.sin(6 * X[:, 0]))
    y = rng.poisson(mean * rng.gamma(1 / dispersion, dispersion, 900) if dispersion else mean).astype(float)
    assert isinstance(fitted(X, y).likelihood_, law)


def test_observations_are_drawn_as_often_as_they_are_there(rng):
    X, y = rng.integers(0, 5, 4000)[:, None] / 5, rng.poisson(3.0, 4000).astype(float)
    problem = fitted(X, y, likelihood="poisson", knots=3)._fit.problem
    drawn = counts.sample_observations(problem, 30, rng)
    assert drawn.count == 30 < problem.summary.n_rows < 100
    repeated = [counts.sample_observations(problem, 50, rng).total(problem.rows.y[:0].sum() + 1) for _ in range(3)]
    assert repeated == [50, 50, 50]
    means = [(some := counts.sample_observations(problem, 50, rng)).total(some.y) / 50 for _ in range(200)]
    assert abs(np.mean(means) - y.mean()) < 4 * y.std() / np.sqrt(50 * 200)


def test_rows_of_whom_neither_fit_knows_are_evidence_too(monkeypatch):
    """Of few rows to fit, validation rows decide; where they disagree with the evidence, Poisson stays."""
    monkeypatch.setattr(counts, "COUNTS", replace(counts.COUNTS, rows=25))
    X, y, _ = draw(0, 0.4, n=800)
    assert isinstance(fitted(X, y, knots=8).likelihood_, NegativeBinomial)
    monkeypatch.setattr(counts, "COUNTS", replace(counts.COUNTS, rows=25, margin=-100.0))
    X, y, _ = draw(0, 0.0, n=800)
    made = fitted(X, y, knots=8)
    assert isinstance(made.likelihood_, NegativeBinomial) or "-0." in note_of(made)


def test_more_laws_can_stand_for_choice():
    """The decision goes over a list: a third law, which gains nothing, changes nothing."""
    X, y, _ = draw(0, 0.5)
    laws = [counts.Law(heard_of(X, y, likelihood=law, knots=5)[0]._fit.problem) for law in LAWS]
    two = counts.decide(laws, np.random.default_rng(0))
    three = counts.decide([*laws, laws[-1]], np.random.default_rng(0))
    assert two.choice == three.choice == 1
    assert counts.decide(laws[:1], np.random.default_rng(0)).choice == 0


# -- as an option ------------------------------------------------------------------------------------


def test_the_choice_is_said_and_kept_and_the_option_stays(tmp_path):
    X, y, _ = draw(0, 0.5)
    gp = fitted(X, y)
    assert gp.likelihood == gp.get_params()["likelihood"] == clone(gp).likelihood == "counts"
    assert "likelihood NegativeBinomial(dispersion=" in gp.summary() and "is taken: " in gp.summary()
    assert gp.__sklearn_tags__().target_tags.positive_only
    gp.save(tmp_path / "model.knotwise")
    again = knotwise.load(tmp_path / "model.knotwise")
    assert again.likelihood == "counts" and repr(again.likelihood_) == repr(gp.likelihood_)
    assert note_of(again) == note_of(gp) and note_of(gp) in again.summary()
    assert_array_equal(again.predict(X), gp.predict(X))


def test_the_page_about_a_fit_says_the_choice(tmp_path):
    pytest.importorskip("matplotlib")
    X, y, _ = draw(0, 0.5)
    page = fitted(X, y, knots=5).report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "NegativeBinomial is taken: " in page and "counts that vary more than Poisson counts" in page


def test_each_refit_of_a_cross_validation_decides_anew(monkeypatch):
    X, y, _ = draw(0, 0.5)
    decided = []
    real = counts.decide
    monkeypatch.setattr(counts, "decide", lambda *args: decided.append(1) or real(*args))
    blocks = np.arange(len(y)) % 3
    gp = GPRegressor(Matern32(), "counts", knots=5, **QUIET)
    by_data = cross_validate(gp, X, y, blocks=blocks)
    assert len(decided) == 3
    told = cross_validate(clone(gp).set_params(likelihood="negative_binomial"), X, y, blocks=blocks)
    assert_array_equal(by_data.log_density, told.log_density)
    gp.fit(X, y)
    held = cross_validate(gp, X, y, blocks=blocks, refit=False)
    assert len(decided) == 4 and np.isfinite(held.log_density).all()


def test_on_dask_the_rows_at_hand_decide():
    da = pytest.importorskip("dask.array")
    X, y, _ = draw(0, 0.5)
    gp = GPRegressor(Matern32(), "counts", knots=5, **QUIET).fit(da.from_array(X, 50), da.from_array(y, 50))
    assert gp.likelihood_ == fitted(X, y, knots=5).likelihood_ or isinstance(gp.likelihood_, NegativeBinomial)


def test_what_cannot_be_decided_is_refused_with_what_to_write():
    X, y, _ = draw(0, 0.5, n=40)
    with pytest.raises(InvalidInputError, match=r"is decided by fits.*`likelihood='poisson'`"):
        fitted(X, y, optimizer=None)
    with pytest.raises(InvalidInputError, match="dispersion") as refused:
        fitted(X, y, fixed=["dispersion"])
    assert "unless that one is named" in refused.value.__notes__[0]
    with pytest.raises(InvalidInputError, match="counts"):
        fitted(X, y, likelihood="count")


@pytest.mark.parametrize("y", [[4.0], [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 3.0, 0.0]], ids=str)
def test_few_counts_are_poisson(y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        gp = GPRegressor(likelihood="counts", **QUIET).fit(np.arange(len(y))[:, None], y)
    assert isinstance(gp.likelihood_, Poisson)


def test_what_is_said_of_the_data_is_said_once():
    X, y, _ = draw(0, 0.5, n=60)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        fitted(X, y + 0.5, knots=5)
    assert sum("not whole numbers" in str(each.message) for each in heard) == 1
    assert {each.filename for each in heard} == {__file__}


# -- overdispersion of Poisson fits ----------------------------------------------------------------------


def heard_of(X, y, exposure=None, **options):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        gp = fitted(X, y, exposure, **{"likelihood": "poisson"} | options)
    return gp, [str(each.message) for each in heard]


@pytest.mark.parametrize("options", [{}, {"kernel": None}, {"knots": 8}], ids=str)
@pytest.mark.parametrize("dispersion", [0.5, 1.0])
def test_overdispersion_is_told_with_its_factor_and_what_to_write(dispersion, options):
    for seed in range(3):
        X, y, exposure = draw(seed, dispersion, n=200, with_exposure=True)
        _, (said,) = heard_of(X, y, exposure, **options)
        mean = np.exp(1.5 + np.sin(6 * X[:, 0])) * exposure
        truth = 1 + dispersion * (mean**2).sum() / mean.sum()
        factor = float(said.partition("The counts vary ")[2].partition(" times as much as Poisson counts would")[0])
        assert truth / 2 < factor < 2 * truth
        assert "`likelihood='counts'`" in said and "`likelihood='negative_binomial'`" in said


@pytest.mark.parametrize("level", [-2.5, 0.0, 3.0])
@pytest.mark.parametrize("with_exposure", [False, True])
def test_poisson_counts_are_not_told_to_vary_more(level, with_exposure):
    """A hundred sets in all, by a given kernel: none is expected, for the limit of one in a hundred is not reached."""
    for seed in range(17):
        X, y, exposure = draw(100 + seed, 0.0, n=80, level=level, with_exposure=with_exposure)
        _, heard = heard_of(X, y, exposure, knots=6)
        assert not any("as much as Poisson" in said for said in heard), seed


def test_the_mean_likelihood_ratio_of_poisson_counts_is_at_most_one():
    """Over draws from the model itself: what bounds false alarms (Markov's inequality)."""
    X, y, _ = draw(7, 0.0, n=40, level=0.5)
    gp = fitted(X, y, likelihood="poisson", knots=6)
    problem, theta = gp._fit.problem, gp._fit.selection.theta
    rng = np.random.default_rng(3)
    ratios, intercept = [], gp.coefficients_.estimate[0]
    for f in problem.model.with_theta(theta).kernel(problem.rows.X, problem.rows.X)[None].repeat(200, 0):
        latent = rng.multivariate_normal(np.full(40, intercept), f, method="eigh")
        rows = replace(problem.rows, y=rng.poisson(np.exp(latent)).astype(float))
        again = replace(problem, run=Run(InMemory(rows, problem.run.blocks.executor)))
        ratios.append(np.exp(overdispersion.decide(again, theta, rng).numbers["log_ratio"]))
    assert np.mean(ratios) < 1 + 3 * np.std(ratios) / np.sqrt(len(ratios))
    assert np.mean(np.array(ratios) > 100) <= 0.01


def test_the_likelihood_ratio_is_that_of_exact_fits_with_held_parameters():
    X, y, exposure = draw(2, 0.2, n=100, with_exposure=True)
    gp, _ = heard_of(X, y, exposure, kernel=Matern52(), knots=8)
    found = overdispersion.decide(gp._fit.problem, gp._fit.selection.theta, np.random.default_rng(0))

    def value(likelihood, scale=1.0):
        kernel = Matern52(variance=gp.kernel_.variance, lengthscale=gp.kernel_.lengthscale * scale)
        held = {"likelihood": likelihood, "approximation": "full", "inference": "laplace", "optimizer": None}
        return GPRegressor(kernel, **held, **QUIET).fit(X, y, exposure=exposure).log_evidence_

    f = GPRegressor(gp.kernel_, "poisson", approximation="full", inference="laplace", optimizer=None, **QUIET).fit(
        X, y, exposure=exposure
    )
    rate = f.predict(X, exposure=exposure)
    typical = (rate**2).sum() / rate.sum()
    dispersions = np.geomspace(0.5 / typical, max(9 / typical, 1.0), 4)  # variances of 1.5 to 10 times the mean or more
    ratio = (
        np.logaddexp.reduce([value(NegativeBinomial(d)) for d in dispersions])
        - np.log(4)
        - max(value(Poisson()), value(Poisson(), counts.COUNTS.shorter))
    )
    assert_allclose(found.numbers["log_ratio"], ratio, atol=1e-6)


def test_overdispersion_is_told_where_a_rough_function_follows_single_counts():
    """Also of encoded columns, of which several have one length-scale: what is smoother keeps them together."""
    rng = np.random.default_rng(1)
    n = 250
    X = np.column_stack([rng.uniform(size=n).astype(object), rng.choice(["a", "b", "c"], n).astype(object)])
    mean = np.exp(1.0 + np.sin(6 * X[:, 0].astype(float)) + 0.5 * (X[:, 1] == "b"))
    y = rng.poisson(mean * rng.gamma(2.0, 0.5, n)).astype(float)
    for ard in (False, True):
        _, heard = heard_of(X, y, kernel=Matern12(ard=ard))
        assert any("times as much as Poisson counts would" in said for said in heard)


@pytest.mark.parametrize(
    "options", [{"nugget": "fit"}, {"likelihood": "negative_binomial"}, {"likelihood": "counts"}], ids=str
)
def test_a_model_with_a_dispersion_is_told_nothing(options):
    X, y, exposure = draw(0, 1.0, with_exposure=True)
    assert heard_of(X, y, exposure, **options)[1] == []


def test_a_model_whose_parameters_are_given_is_told_nothing():
    X, y, _ = draw(0, 1.0)
    assert heard_of(X, y, kernel=Matern32(1.0, 0.3), optimizer=None, knots=6)[1] == []
