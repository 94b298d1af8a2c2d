"""One-at-a-time selection: the evidence climbs, older knots stay, and the stop is said in words."""

import itertools
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from knotwise import GPClassifier, GPRegressor
from knotwise.datasets import load_banana, split
from knotwise.errors import FitWarning, InvalidInputError, UnknownOptionError
from knotwise.evidence import Point
from knotwise.kernels import Linear, Matern32, SquaredExponential
from knotwise.knots import Fixed
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant
from knotwise.optimize import LBFGS, Adadelta
from knotwise.selection.bayesopt import BayesOpt
from knotwise.selection.greedy import GreedyVariance, KMeans
from knotwise.selection.oneatatime import OneAtATime
from knotwise.selection.proposals import EvidenceGain, Proposed, RandomSubset, ResidualVariance

QUICK = RandomSubset(6)
#: parameters that are released with half of the variance unexplained, and a search that ends by the gain alone
BY_GAIN = {"hold_until": "auto", "start_rows": 150, "unexplained": None}


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def waves(rng):
    X = rng.uniform(size=(100, 2))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=100)


def trace_of(gp):
    return gp._fit.selection.trace


def kept(gp):
    """The steps that changed the model."""
    return [step for step in trace_of(gp) if step.action != "reject"]


def added(gp):
    """The steps that added a knot."""
    return [step for step in trace_of(gp) if step.action == "add"]


MODELS = {
    "fic": {"approximation": "fic"},
    "vfe": {"approximation": "vfe"},
    "poisson": {"likelihood": "poisson", "approximation": "fic"},
    "bernoulli": {"likelihood": "bernoulli", "approximation": 0.5},
    "composite": {"kernel": SquaredExponential() + Linear()},
    "linear-mean": {"mean": "linear", "kernel": Matern32(ard=True), "approximation": "fic"},
    "nugget": {"likelihood": "poisson", "nugget": "fit"},
    "adadelta": {"optimizer": Adadelta(max_iterations=60, return_best=False), "approximation": "fic"},
}


def targets(options, X, rng):
    f = 2 * np.sin(6 * X[:, 0]) + X[:, 1]
    return {
        "poisson": lambda: rng.poisson(np.exp(f)),
        "bernoulli": lambda: (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-2 * f))).astype(float),
    }.get(options.get("likelihood"), lambda: f + 0.3 * rng.normal(size=len(X)))()


# -- Algorithm 1 ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The optimiser stopped")
@pytest.mark.parametrize("name", MODELS)
def test_the_evidence_never_falls_and_every_kept_knot_gains_more_than_the_tolerance(name, rng):
    options = {"kernel": SquaredExponential()} | MODELS[name]
    X = rng.uniform(size=(90, 2))
    gp = GPRegressor(
        knots=OneAtATime(max_knots=9, n_initial=3, proposal=BayesOpt(3, 6), **BY_GAIN), random_state=0, **options
    )
    gp.fit(X, targets(options, X, rng))
    steps = kept(gp)
    assert steps[0].action == "initial" and steps[0].n_knots == 3
    assert len(added(gp)) > 1
    # parameters are held first, and released once, except under FIC
    held = options.get("approximation") != "fic"
    steps = [step for step in steps if step.action != "terms"]  # of a sum, whether one was lost, is asked at last
    assert [step.action for step in steps[1:] if step.action != "add"] == ["parameters"] * held
    for before, after in itertools.pairwise(steps):
        if after.action == "parameters":
            assert after.n_knots == before.n_knots and after.gain >= 0
        else:
            assert after.n_knots == before.n_knots + 1
            assert after.gain > 1e-3
        assert_allclose(after.evidence - before.evidence, after.gain, atol=1e-8 * abs(after.evidence))
    # the last model is the one that predicts
    assert gp.n_knots_ == steps[-1].n_knots == len(gp.knots_)
    assert_allclose(gp._fit.selection.result.value, steps[-1].evidence)
    constant = gp.log_evidence_ - steps[-1].evidence  # units of y
    assert_allclose(constant, -90 * np.log(gp._fit.scaling.y_scale), atol=1e-6)


def test_older_knots_stay_bit_for_bit(waves):
    X, y = waves
    Z = np.array([[0.1, 0.2], [0.8, 0.7]])
    gp = GPRegressor(
        SquaredExponential(), knots=OneAtATime(Z, max_knots=7, proposal=QUICK), standardize=False, random_state=0
    ).fit(X, y)
    assert_array_equal(gp.knots_[:2], Z)
    assert_array_equal(gp.knots_[2:], [step.chosen for step in added(gp)])
    rows = {tuple(x) for x in X}
    assert not any(tuple(z) in rows for z in gp.knots_[2:])  # they have moved from where they were proposed


def test_new_knots_stay_on_rows_where_they_are_not_to_move(waves):
    X, y = waves
    chooser = OneAtATime(max_knots=7, proposal=QUICK, move_new=False)
    gp = GPRegressor(SquaredExponential(), knots=chooser, standardize=False, random_state=0).fit(X, y)
    rows = {tuple(x) for x in X}
    assert gp.n_knots_ == 7 and all(tuple(z) in rows for z in gp.knots_[5:])
    assert len(np.unique(gp.knots_, axis=0)) == 7


@pytest.mark.filterwarnings("ignore:The optimiser stopped")  # the tolerance asks for more than rounding allows
def test_the_new_knot_and_the_parameters_end_where_the_evidence_is_flat(waves):
    X, y = waves
    options = {"random_state": 0, "standardize": False, "optimizer": LBFGS(value_tolerance=1e-12)}
    gp = GPRegressor(
        SquaredExponential(), knots=OneAtATime(max_knots=6, proposal=QUICK, **BY_GAIN | {"hold_until": None}), **options
    ).fit(X, y)
    evidence = gp.evidence()
    assert np.abs(evidence.knot_gradient[-1]).max() < 1e-2
    assert np.abs(evidence.gradient).max() < 1e-2
    # parameters that were held until the end are optimised there; knots placed after their release are flat as well
    for max_knots in (6, 20):
        gp = GPRegressor(
            SquaredExponential(), knots=OneAtATime(max_knots=max_knots, proposal=QUICK, **BY_GAIN), **options
        ).fit(X, y)
        assert np.abs(gp.evidence().gradient).max() < 1e-2
        if kept(gp)[-1].action == "add":
            assert np.abs(gp.evidence().knot_gradient[-1]).max() < 1e-2
    assert kept(gp)[-1].action == "add"


@pytest.mark.slow
def test_without_an_optimiser_only_the_proposals_decide(waves):
    X, y = waves
    parts = {"kernel": SquaredExponential(1.0, 0.4), "likelihood": Gaussian(0.04), "mean": 0.5, "standardize": False}
    for optimizer in (None, LBFGS()):  # the selector's does not undo the estimator's
        chooser = OneAtATime(X[:3], max_knots=8, proposal=EvidenceGain(1), optimizer=optimizer)
        gp = GPRegressor(knots=chooser, optimizer=None, random_state=0, **parts).fit(X, y)
        assert gp.n_knots_ == 8
        assert_allclose(gp.parameters_.values, [1.0, 0.4, 0.04, 0.5])
        # greedy by hand, with the public face only
        Z = X[:3]
        for z in gp.knots_[3:]:
            values = [
                GPRegressor(knots=np.vstack([Z, x]), optimizer=None, jitter=gp.jitter_, **parts).fit(X, y).log_evidence_
                for x in X[3:]
            ]
            assert_allclose(z, X[3:][np.argmax(values)])
            Z = np.vstack([Z, z])


def test_the_first_parameters_are_those_of_fixed_knots(waves):
    X, y = waves
    fixed = GPRegressor(SquaredExponential(), knots=Fixed("kmeans", 5), random_state=0).fit(X, y)
    gp = GPRegressor(SquaredExponential(), knots=OneAtATime(max_knots=5, **BY_GAIN), random_state=0).fit(X, y)
    assert gp.log_evidence_ == fixed.log_evidence_
    assert_array_equal(gp.knots_, fixed.knots_)
    moved = GPRegressor(
        SquaredExponential(), knots=OneAtATime(max_knots=5, optimize_initial=True, **BY_GAIN), random_state=0
    ).fit(X, y)
    assert moved.log_evidence_ > gp.log_evidence_ + 0.1


@pytest.mark.parametrize(("hold_until", "restarts"), [(None, [2, 0, 0]), ("auto", [0, 0, 0, 2])])
def test_restarts_apply_to_the_first_optimisation_of_the_parameters_only(hold_until, restarts, waves, monkeypatch):
    from knotwise.decisions.thresholds import GUARD
    from knotwise.selection.problem import Problem

    X, y = waves
    seen, optimize = [], Problem.optimize

    def spy(self, *args, **options):
        if self.optimizer is not GUARD.search:  # of the model without inputs
            seen.append((self.full, self.n_restarts))
        return optimize(self, *args, **options)

    monkeypatch.setattr(Problem, "optimize", spy)
    chooser = OneAtATime(max_knots=7, proposal=QUICK, **BY_GAIN | {"hold_until": hold_until})
    GPRegressor(SquaredExponential(), knots=chooser, n_restarts=2, random_state=0).fit(X, y)
    assert [n for full, n in seen if not full] == restarts


# -- stopping -------------------------------------------------------------------------------------------------


@dataclass
class Repeats:
    """Proposes a knot that is one already: nothing to gain."""

    def propose(self, state, rng):
        z = state.Z[0]
        value = state.evaluate(z)
        return Proposed(z, value, z[None], np.array([value]), "a copy")


@pytest.mark.parametrize("hold_until", [None, "auto"])
@pytest.mark.parametrize(("patience", "n_rejected", "words"), [(0, 1, "one more knot"), (3, 4, "best of 4 proposals")])
def test_a_knot_that_brings_nothing_stops_the_search_after_the_patience(patience, n_rejected, words, hold_until, waves):
    X, y = waves
    options = BY_GAIN | {"hold_until": hold_until}
    chooser = OneAtATime(proposal=Repeats(), patience=patience, tolerance=0.1, move_new=False, **options)
    gp = GPRegressor(SquaredExponential(), knots=chooser, random_state=0).fit(X, y)
    rejected = ["reject"] * n_rejected
    # at parameters that are held, a rejection is not the last word
    expected = ["initial", *rejected] if hold_until is None else ["initial", *rejected, "parameters", *rejected]
    assert [step.action for step in trace_of(gp)] == expected
    assert gp.n_knots_ == 5
    assert words in gp.stop_reason_
    assert re.search(r"(gains|loses) \S+ nats, below the tolerance 0.1", gp.stop_reason_)
    assert trace_of(gp).stop_reason == gp.stop_reason_


def test_patience_tries_another_row_even_where_the_proposal_is_certain(waves):
    X, y = waves
    for hold_until, rounds in [(None, 1), ("auto", 2)]:  # a second round at the parameters that were released
        chooser = OneAtATime(proposal=ResidualVariance(), tolerance=1e6, patience=5, move_new=False, **BY_GAIN)
        chooser.hold_until = hold_until
        gp = GPRegressor(SquaredExponential(), knots=chooser, random_state=0).fit(X, y)
        tried = np.array([step.chosen for step in trace_of(gp) if step.action == "reject"])
        assert len(tried) == 6 * rounds
        for i in range(rounds):
            assert len(np.unique(tried[6 * i : 6 * i + 6], axis=0)) == 6


def test_the_stop_says_that_the_limit_was_reached(waves):
    X, y = waves
    gp = GPRegressor(
        SquaredExponential(), knots=OneAtATime(max_knots=6, proposal=QUICK, **BY_GAIN), random_state=0
    ).fit(X, y)
    assert gp.n_knots_ == 6 and gp.stop_reason_ == "reached max_knots=6"
    gp = GPRegressor(SquaredExponential(), knots=OneAtATime(max_knots=2), random_state=0).fit(X, y)
    assert gp.n_knots_ == 2


def test_the_stop_says_that_no_rows_are_left(rng):
    X = np.repeat(rng.uniform(size=(9, 2)), 5, axis=0)
    y = X[:, 0] + 0.1 * rng.normal(size=45)
    chooser = OneAtATime("random", 4, proposal=QUICK, tolerance=-np.inf, move_new=False)
    gp = GPRegressor(Matern32(), knots=chooser, random_state=0).fit(X, y)
    assert gp.n_knots_ == 9
    assert gp.stop_reason_ == "no rows left: 9 knots for 9 distinct rows"


def test_the_share_and_the_information_left_stop_the_search(waves):
    X, y = waves
    options = {"max_knots": 40, "proposal": EvidenceGain(2), "tolerance": -np.inf}
    gp = GPRegressor(
        SquaredExponential(), knots=OneAtATime(share=0.2, **options), mean=Constant(prior_sd=None), random_state=0
    ).fit(X, y)
    shares = [step.share for step in kept(gp)]
    assert shares[-1] < 0.2 <= min(shares[:-1])
    assert "unexplained share" in gp.stop_reason_ and "below share=0.2" in gp.stop_reason_
    gp = GPRegressor(SquaredExponential(), knots=OneAtATime(residual_information=0.01, **options), random_state=0).fit(
        X, y
    )
    left = [step.residual_information for step in kept(gp)]
    assert left[-1] < 0.01 <= min(left[:-1])
    assert "nats per row, below residual_information=0.01" in gp.stop_reason_


@dataclass
class NeedsJitter:
    """Cannot evaluate anything below a jitter of 1e-8."""

    def propose(self, state, rng):
        z = state.candidates[0]
        value = state.evaluate(z) if state.jitter.relative > 0.9e-8 else -np.inf
        return Proposed(z, value, z[None], np.array([value if np.isfinite(value) else np.nan]), "needs jitter")


def test_jitter_grows_only_where_nothing_can_be_evaluated_and_the_gain_is_at_one_jitter(waves):
    X, y = waves
    chooser = OneAtATime(max_knots=6, proposal=NeedsJitter(), tolerance=-np.inf, **BY_GAIN | {"hold_until": None})
    gp = GPRegressor(SquaredExponential(), knots=chooser, random_state=0).fit(X, y)
    assert_allclose(gp.jitter_, 1e-8)
    first, last = kept(gp)
    problem, selection = gp._fit.problem, gp._fit.selection
    before = problem.evaluate(Point(first.theta, selection.Z[:5], selection.jitter), gradient=False).value
    assert_allclose(last.evidence - before, last.gain, rtol=1e-9)
    # a jitter that the user gave is used as it is
    gp = GPRegressor(SquaredExponential(), knots=chooser, random_state=0, jitter=1e-9).fit(X, y)
    assert gp.jitter_ == 1e-9 and gp.n_knots_ == 5
    assert "could not be computed" in gp.stop_reason_


def test_the_trace_records_what_was_tried_chosen_and_left(waves):
    X, y = waves
    gp = GPRegressor(
        SquaredExponential(), knots=OneAtATime(max_knots=7, proposal=BayesOpt(3, 8), **BY_GAIN), random_state=0
    ).fit(X, y)
    problem = gp._fit.problem
    assert len(added(gp)) == 2 and len(kept(gp)) == 4
    for step in added(gp):
        assert step.n_tried == 8 and step.tried.shape == (8, 2)
        assert "3 random rows and 5 by Bayesian optimisation" in step.note
    last = kept(gp)[-1]
    scores = problem.scores(Point(last.theta, gp._fit.selection.Z, gp._fit.selection.jitter))
    assert_allclose([last.share, last.residual_information], [scores.share, scores.residual_information], rtol=1e-9)
    assert_array_equal(last.theta, gp._fit.selection.theta)
    assert "reached max_knots=7" in str(trace_of(gp))


def test_the_public_trace_is_in_the_units_of_the_data(waves):
    X, y = waves
    X, y = X * [30.0, 2e-3] + [500.0, -1.0], 1e3 * y - 7e4
    gp = GPRegressor(SquaredExponential(), knots=OneAtATime(max_knots=20, proposal=QUICK), random_state=0).fit(X, y)
    steps = list(gp.trace_)
    assert steps[-1].action == "add"
    assert_allclose(steps[-1].evidence, gp.log_evidence_, rtol=1e-12)
    assert_allclose([step.chosen for step in steps if step.action == "add"], gp.knots_[5:], rtol=1e-12)
    rows = np.array(sorted(map(tuple, X)))
    for step, inner in zip(steps, trace_of(gp), strict=True):
        assert_allclose(step.evidence - inner.evidence, -100 * np.log(y.std()), rtol=1e-9)
        assert_array_equal([step.gain, step.share], [inner.gain, inner.share])  # these have no unit
        for z in [] if step.tried is None else step.tried:  # what was tried are rows of the data
            assert np.abs((rows - z) / X.std(0)).sum(1).min() < 1e-12
    assert gp.trace_.stop_reason == gp.stop_reason_


# -- the unexplained share, beside the gain -------------------------------------------------------------------


@pytest.mark.parametrize("approximation", ["vfe", "fic"])
def test_a_search_goes_on_while_much_is_unexplained_whatever_a_knot_gains(approximation, waves):
    """The proposal brings nothing, so each knot is the row with the largest c / v, by a dense formula."""
    X, y = waves
    chooser = OneAtATime(X[:4], proposal=Repeats(), tolerance=0.1)
    options = {"kernel": SquaredExponential(1.0, 0.4), "likelihood": Gaussian(0.04), "mean": 0.5, "optimizer": None}
    gp = GPRegressor(knots=chooser, approximation=approximation, standardize=False, **options).fit(X, y)
    forced = added(gp)
    assert len(forced) >= 3 and all("kept, since the knots leave more than 0.18" in step.note for step in forced)
    Z = gp.knots_[:4]
    for before, step in itertools.pairwise(kept(gp)[: 1 + len(forced)]):
        assert before.share > 0.18
        shares = dense_shares(SquaredExponential(1.0, 0.4), 0.04, X, Z, fic=approximation == "fic")
        assert_allclose(before.share, shares.mean(), rtol=1e-6)
        open_ = np.array([x not in {tuple(z) for z in Z} for x in map(tuple, X)])
        assert_array_equal(step.chosen, X[open_][np.argmax(shares[open_])])
        Z = np.vstack([Z, step.chosen])
    last = kept(gp)[len(forced)]
    assert last.share <= 0.18
    assert re.search(r"below the tolerance 0.1; the knots leave an unexplained share of 0\.\d+$", gp.stop_reason_)


def dense_shares(kernel, noise, X, Z, *, fic):
    """c / v of each row: FIC's residual variance counts as noise of its row."""
    Q = kernel(X, Z) @ np.linalg.solve(kernel(Z, Z) + 1e-10 * np.eye(len(Z)), kernel(Z, X))
    c = 1.0 - Q.diagonal()
    seen = Q - Q @ np.linalg.solve(Q + np.diag(noise + c * fic), Q)
    return c / (c + seen.diagonal())


def test_a_limit_that_leaves_much_unexplained_is_said_and_parameters_stay_those_of_the_exact_gp(waves):
    X, y = waves
    gp = GPRegressor(SquaredExponential(), knots=OneAtATime(max_knots=7, proposal=QUICK), random_state=0)
    with pytest.warns(FitWarning, match=r"Reached max_knots=7.*Write `OneAtATime\(max_knots=14\)`"):
        gp.fit(X, y)
    assert gp.status_ == "limit reached" and not gp.converged_
    share = kept(gp)[-1].share
    assert share > 0.18 and [step.action for step in kept(gp)] == ["initial", "add", "add"]
    assert gp.stop_reason_.startswith(
        f"reached max_knots=7; the knots leave an unexplained share of {share:.3g}, above"
    )
    assert "more are needed" in gp.stop_reason_ and "an exact GP on 100 rows" in gp.stop_reason_
    exact = GPRegressor(SquaredExponential(), approximation="full", random_state=0).fit(X, y)
    assert_allclose(gp.parameters_.values, exact.parameters_.values, rtol=0.02)
    few = GPRegressor(
        SquaredExponential(), knots=OneAtATime(max_knots=7, proposal=QUICK, start_rows=20), random_state=0
    ).fit(X, y)
    assert np.abs(np.log(few.parameters_.values / exact.parameters_.values)).max() > 0.1


def test_parameters_are_released_when_little_is_left_and_the_stop_needs_both_rules(waves):
    X, y = waves
    gp = GPRegressor(
        SquaredExponential(), knots=OneAtATime(proposal=EvidenceGain(2), tolerance=0.05), random_state=0
    ).fit(X, y)
    steps = kept(gp)
    at = [step.action for step in steps].index("parameters")
    assert steps[at - 1].share < 0.18 <= min(step.share for step in steps[: at - 1])
    assert steps[-1].share <= 0.18 and trace_of(gp)[-1].action == "reject"
    assert re.search(r"below the tolerance 0.05; the knots leave an unexplained share of", gp.stop_reason_)


def test_knots_from_which_free_parameters_flee_into_noise_grow_now():
    """Under FIC, the initial knots of this split of banana make no function more likely than any."""
    part = split(load_banana(), seed=0, n_train=531)
    options = {"kernel": SquaredExponential(), "inference": "laplace", "approximation": "fic", "random_state": 1}
    chooser = OneAtATime(max_knots=9, proposal=EvidenceGain(2), **BY_GAIN)
    gp = GPClassifier(knots=chooser, **options).fit(part.X_train, part.y_train)
    assert gp.n_knots_ == 9 and "no signal" not in gp.stop_reason_  # started again, since five knots saw nothing
    gp = GPClassifier(knots=replace(chooser, hold_until=0.18, start_rows=300, unexplained=0.18), **options)
    gp.fit(part.X_train, part.y_train)
    assert gp.n_knots_ == 9 and gp.parameters_.values[0] > 5


def test_a_release_into_noise_alone_is_refused():
    X, y = simulated(0)
    options = {"kernel": SquaredExponential(4.0, 1.0), "likelihood": Gaussian(1.0), "mean": "zero"}
    options |= {"approximation": "vfe", "standardize": False, "random_state": 0}
    chooser = OneAtATime(3 + 0.1 * np.arange(-2, 3)[:, None], proposal=QUICK, hold_until=0.999, max_knots=8)
    gp = GPRegressor(knots=chooser, **options).fit(X, y)
    refused = [step for step in kept(gp) if step.action == "parameters"]
    assert len(refused) == 1 and "all would be noise" in refused[0].note
    assert gp.n_knots_ == 8
    for step in kept(gp):
        assert_array_equal(step.theta, kept(gp)[0].theta)


def test_noise_alone_ends_by_the_gain():
    rng = np.random.default_rng(3)
    X, y = rng.uniform(size=(200, 2)), rng.normal(size=200)
    gp = GPRegressor(SquaredExponential(), knots=OneAtATime(proposal=QUICK, max_knots=30), random_state=0).fit(X, y)
    assert gp.n_knots_ < 10 and "explain everything as noise" in gp.stop_reason_


def test_held_parameters_that_are_less_likely_than_no_inputs_are_fitted_to_the_knots():
    """An exact GP that takes this noise for a rough function without noise, which no ten knots can follow."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(size=(200, 2)), rng.normal(size=200)
    gp = GPRegressor(SquaredExponential(), knots=OneAtATime(proposal=QUICK, max_knots=10), random_state=0).fit(X, y)
    held, fitted = kept(gp)[-2:]
    assert fitted.action == "parameters" and "less likely than no inputs do" in gp.stop_reason_
    flat = GPRegressor(SquaredExponential(1e-6), knots=X[:1], fixed=["variance", "lengthscale"]).fit(X, y)
    standardised = flat.log_evidence_ + 200 * np.log(y.std())
    assert held.evidence < standardised < fitted.evidence + 1e-3


# -- the paper ------------------------------------------------------------------------------------------------


def test_the_papers_settings_are_those_of_the_paper():
    bo, rs = OneAtATime.paper(), OneAtATime.paper("rs", t_max=50)
    assert (bo.max_knots, bo.n_initial, bo.initial, bo.tolerance, bo.patience) == (50, 5, "kmeans", 1e-3, 0)
    assert bo.proposal == BayesOpt(n_random=10, n_evaluations=25, acquisition="ei", kernel=None)
    assert rs.proposal == RandomSubset(50)
    assert bo.share is bo.residual_information is bo.hold_until is bo.unexplained is None
    assert bo.start_rows == rs.start_rows == 150
    ours = OneAtATime()
    assert (ours.hold_until, ours.start_rows, ours.unexplained) == (0.18, 1000, 0.18)
    assert bo.move_new and not bo.optimize_initial
    settings = bo.optimizer.get_params()
    expected = {"epsilon": 1e-4, "value_tolerance": 1e-3, "max_iterations": 1000, "decay": 0.95, "eta": 1e3}
    assert {name: settings[name] for name in expected} == expected
    with pytest.raises(UnknownOptionError, match="Did you mean 'rs'"):
        OneAtATime.paper("rss")


def simulated(seed):
    """The paper's example: 200 observations of a GP on [0, 10], length-scale 1, sd 2, noise 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (200, 1))
    f = np.linalg.cholesky(SquaredExponential(4.0, 1.0)(X, X) + 1e-8 * np.eye(200)) @ rng.normal(size=200)
    return X, f + rng.normal(size=200)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2))])
@pytest.mark.parametrize(("approximation", "hold_until"), [("fic", None), ("vfe", 0.5)])
def test_growth_recovers_from_knots_that_start_on_a_heap(approximation, hold_until, seed):
    X, y = simulated(seed)
    options = {"kernel": SquaredExponential(4.0, 1.0), "likelihood": Gaussian(1.0), "mean": "zero"}
    options |= {"approximation": approximation, "standardize": False, "random_state": 0}
    heap = 3 + 0.1 * np.arange(-2, 3)[:, None]  # within a tenth of the domain
    good, adversarial = (
        GPRegressor(
            knots=OneAtATime(initial, max_knots=30, proposal=BayesOpt(10, 20), hold_until=hold_until), **options
        ).fit(X, y)
        for initial in ("grid", heap)
    )
    started = kept(adversarial)[0].evidence
    assert good.log_evidence_ - started > 5
    assert good.log_evidence_ - adversarial.log_evidence_ <= 0.1 * (good.log_evidence_ - started)


def test_parameters_are_held_until_the_knots_explain_enough():
    X, y = simulated(0)
    options = {"kernel": SquaredExponential(4.0, 1.0), "likelihood": Gaussian(1.0), "mean": "zero"}
    options |= {"standardize": False, "random_state": 0, "n_restarts": 1}
    chooser = OneAtATime(
        3 + 0.1 * np.arange(-2, 3)[:, None], max_knots=20, proposal=QUICK, hold_until=0.5, unexplained=None
    )
    gp = GPRegressor(knots=chooser, **options).fit(X, y)
    steps = kept(gp)
    at = [step.action for step in steps].index("parameters")
    assert all(step.share >= 0.5 for step in steps[: at - 1]) and steps[at - 1].share < 0.5
    for step in steps[:at]:
        assert_array_equal(step.theta, steps[0].theta)
    assert not np.array_equal(steps[at].theta, steps[0].theta)
    assert (np.diff([step.evidence for step in steps]) > 0).all()
    # a search that ends before it explains enough still optimises the parameters, at its end
    chooser.max_knots = 7
    gp = GPRegressor(knots=chooser, **options).fit(X, y)
    assert [step.action for step in kept(gp)] == ["initial", "add", "add", "parameters"]
    assert gp.stop_reason_ == "reached max_knots=7"


def test_a_fit_that_is_noise_alone_says_so():
    X, y = simulated(0)
    options = {"kernel": SquaredExponential(4.0, 1.0), "likelihood": Gaussian(1.0), "mean": "zero"}
    options |= {"approximation": "vfe", "standardize": False, "random_state": 0}
    chooser = OneAtATime(3 + 0.1 * np.arange(-2, 3)[:, None], proposal=QUICK, hold_until=None)
    gp = GPRegressor(knots=chooser, **options).fit(X, y)
    assert gp.n_knots_ == 5 and gp.stop_reason_.endswith("wider initial knots")
    values = []
    for hold_until in (0.5, "auto"):
        chooser.hold_until = hold_until
        gp = GPRegressor(knots=chooser, **options).fit(X, y)
        assert gp.n_knots_ > 10 and "noise" not in gp.stop_reason_
        values.append(gp.log_evidence_)
    assert values[0] == values[1]


# -- through the public face ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "proposal"), [("gaussian", BayesOpt(3, 6)), ("poisson", EvidenceGain(2))])
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(likelihood, proposal, rng):
    X = rng.uniform(size=(150, 2))
    y = targets({"likelihood": likelihood}, X, rng)
    chooser = OneAtATime(max_knots=8, proposal=proposal)
    one, two = (
        GPRegressor(
            SquaredExponential(), likelihood=likelihood, knots=chooser, random_state=3, n_jobs=n, block_size=40
        ).fit(X, y)
        for n in (1, 2)
    )
    assert_array_equal(one.knots_, two.knots_)
    assert_array_equal(one.parameters_.values, two.parameters_.values)
    again = clone(two).fit(X, y)
    assert_array_equal(again.knots_, two.knots_)


@pytest.mark.slow
def test_the_classifier_grows_knots(rng):
    X = rng.uniform(-1, 1, size=(120, 2))
    y = np.where((X**2).sum(1) < 0.5, "inside", "outside")
    gp = GPClassifier(
        SquaredExponential(), knots=OneAtATime("kmeans-per-class", 4, max_knots=12, proposal=QUICK), random_state=0
    ).fit(X, y)
    assert gp.score(X, y) > 0.9


@pytest.mark.parametrize(
    "make",
    [
        lambda: OneAtATime(n_initial=0),
        lambda: OneAtATime(max_knots=0),
        lambda: OneAtATime(patience=-1),
        lambda: OneAtATime(tolerance=np.nan),
        lambda: OneAtATime(start_rows=0),
        lambda: OneAtATime(unexplained=1.5),
        lambda: OneAtATime(unexplained=np.nan),
        lambda: GreedyVariance(0),
        lambda: KMeans(0),
    ],
)
def test_settings_that_make_no_sense_are_refused(make):
    with pytest.raises(InvalidInputError, match="must be"):
        make()


# -- baselines ----------------------------------------------------------------------------------------------------


def test_greedy_variance_takes_the_row_that_is_most_uncertain_given_those_before(waves):
    X, y = waves
    kernel = Matern32(1.0, 0.5)
    gp = GPRegressor(kernel, Gaussian(0.1), knots=GreedyVariance(10), optimizer=None, standardize=False).fit(X, y)
    for k in range(1, 10):
        Z = gp.knots_[:k]
        left = 1.0 - np.einsum("nk,kn->n", kernel(X, Z), np.linalg.solve(kernel(Z, Z), kernel(Z, X)))
        at_next = (gp.knots_[k] == X).all(1).argmax()
        assert left[at_next] > left.max() - 1e-9


def test_weighted_greedy_variance_leaves_rows_that_say_nothing(rng):
    X = rng.uniform(size=(100, 1))
    y = np.sin(9 * X[:, 0])
    noise = np.where(X[:, 0] < 0.5, 1e-3, 1e3)
    options = {"kernel": SquaredExponential(1.0, 0.1), "optimizer": None, "standardize": False}
    gp = GPRegressor(knots=GreedyVariance(6, weighted=True), **options).fit(X, y, noise_variance=noise)
    assert (gp.knots_ < 0.5).all()
    gp = GPRegressor(knots=GreedyVariance(6), **options).fit(X, y, noise_variance=noise)
    assert (gp.knots_ > 0.5).any()


def test_further_rounds_choose_at_the_parameters_of_the_round_before(waves):
    X, y = waves
    gp = GPRegressor(SquaredExponential(), knots=GreedyVariance(8, rounds=3), random_state=0, standardize=False).fit(
        X, y
    )
    steps = list(trace_of(gp))
    assert len(steps) == 3
    kernel = gp._fit.problem.model.with_theta(steps[1].theta).kernel
    again = GPRegressor(kernel, knots=GreedyVariance(8), optimizer=None, standardize=False).fit(X, y)
    assert_array_equal(again.knots_, gp.knots_)


def test_kmeans_holds_the_centres(waves):
    X, y = waves
    gp = GPRegressor(SquaredExponential(), knots=KMeans(7), random_state=0).fit(X, y)
    fixed = GPRegressor(SquaredExponential(), knots=Fixed("kmeans", 7), random_state=0).fit(X, y)
    assert_array_equal(gp.knots_, fixed.knots_)
    assert gp.log_evidence_ == fixed.log_evidence_
