"""What holds for variational inference and for EP alike: limits, weights, blocks, what is lost, starts, passes."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import likelihoods as lik
from knotwise.datasets import load_banana, load_hickory, split
from knotwise.errors import InvalidInputError
from knotwise.evidence import InMemory, Jitter, Model, Rows, full_evidence, sparse_evidence
from knotwise.evidence.inference import PowerEP, Variational, inference_of
from knotwise.evidence.inference.search import search_sites
from knotwise.evidence.inference.sites import HISTORY, RowSites, SitePassSums
from knotwise.evidence.inference.sites_sparse import SparseSites
from knotwise.evidence.projection import Evaluation
from knotwise.kernels import SquaredExponential
from knotwise.means import Constant
from knotwise.noise import NoNugget, Nugget
from knotwise.numerics.blocks import Threads, single_threaded_blas
from knotwise.selection.initial import initial_knots
from site_oracles import with_inference
from test_laplace import ALL, LIKELIHOODS, GaussianByNewton, assert_same_evidence, case
from toys import Chain

VARIATIONAL, EP = Variational(tolerance=1e-16), PowerEP(tolerance=1e-16)


@dataclass(frozen=True)
class Approach:
    """An inference with a power and a nugget."""

    inference: Variational | PowerEP
    power: float
    nugget: Nugget

    def case(self, name, **options):
        return with_inference(case(ALL[name], self.power, self.nugget, **options), self.inference)


APPROACHES = {
    "variational-vfe": Approach(VARIATIONAL, 0.0, NoNugget()),
    "variational-vfe-nugget": Approach(VARIATIONAL, 0.0, Nugget(0.3)),
    "variational-fic-nugget": Approach(VARIATIONAL, 1.0, Nugget(0.3)),
    "ep-half": Approach(EP, 0.5, NoNugget()),
    "ep-fic-nugget": Approach(EP, 1.0, Nugget(0.3)),
}
each_approach = pytest.mark.parametrize("approach", APPROACHES.values(), ids=APPROACHES)


def slow(*values):
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


# -- Gaussian data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize(
    ("inference", "power"), [(VARIATIONAL, 0.0), (VARIATIONAL, 1.0), (EP, 1.0), (EP, 0.5), (EP, 0.05)]
)
def test_gaussian_data_have_the_conjugate_evidence(inference, power, mean):
    conjugate = case(lik.Gaussian(0.2), power, mean=mean)
    found = with_inference(conjugate, inference)
    assert_same_evidence(found.sparse(block_size=11), conjugate.sparse(block_size=11), rtol=1e-10)
    one, other = (full_evidence(problem.model, problem.rows) for problem in (found, conjugate))
    assert_allclose(one.value, other.value, rtol=1e-10)
    assert_allclose(one.gradient, other.gradient, rtol=1e-10, atol=1e-10 * np.abs(other.gradient).max())


@each_approach
def test_a_nugget_on_gaussian_data_is_noise(approach):
    apart = with_inference(case(GaussianByNewton(0.2), approach.power, approach.nugget), approach.inference)
    noise = lik.Gaussian(0.2 + approach.nugget.variance)
    together = replace(apart, model=replace(apart.model, likelihood=noise, nugget=NoNugget(), inference=None))
    assert_allclose(apart.sparse(gradient=False).value, together.sparse(gradient=False).value, rtol=1e-10)
    one, other = (full_evidence(problem.model, problem.rows, gradient=False) for problem in (apart, together))
    assert_allclose(one.value, other.value, rtol=1e-10)


# -- weights, order, blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
@each_approach
def test_a_row_of_weight_3_is_the_row_three_times(approach, name):
    problem = approach.case(name, n=20)
    weights = np.resize([3, 1, 2], 20)
    once = replace(problem, rows=replace(problem.rows, weights=weights.astype(float)))
    often = replace(problem, rows=problem.rows[np.repeat(np.arange(20), weights)])
    assert_same_evidence(once.sparse(), often.sparse(), rtol=1e-9)
    one, other = (full_evidence(each.model, each.rows) for each in (once, often))
    assert_allclose(one.value, other.value, rtol=1e-10)
    assert_allclose(one.gradient, other.gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("mean", ["linear", *slow("constant")])
@each_approach
def test_order_and_blocks_of_the_rows_do_not_matter(approach, mean):
    problem = approach.case("poisson", mean=mean)
    whole = problem.sparse()
    n = len(problem.rows)
    for n_blocks in (3, 7):
        assert_same_evidence(problem.sparse(block_size=-(-n // n_blocks)), whole, rtol=1e-10)
    streamed = problem.sparse(block_size=5, keep_bytes=0)
    assert_same_evidence(streamed, whole, rtol=1e-10)
    order = np.random.default_rng(1).permutation(n)
    assert_same_evidence(replace(problem, rows=problem.rows[order]).sparse(), whole, rtol=1e-10)


@pytest.mark.parametrize("name", ["bernoulli", *slow("student-t")])
@each_approach
def test_threads_give_the_same_bits_as_one_thread(approach, name):
    """Other processes do so in `test_processes.py`."""
    problem = approach.case(name)
    threads = Threads(2)
    try:
        with single_threaded_blas():
            serial = problem.sparse(block_size=5)
            threaded = problem.sparse(block_size=5, executor=threads)
    finally:
        threads.close()
    assert threaded.value == serial.value
    assert_array_equal(threaded.gradient, serial.gradient)
    assert_array_equal(threaded.knot_gradient, serial.knot_gradient)


# -- what lies beside the blocks ------------------------------------------------------------------------------


class Losing(InMemory):
    """Rows in memory that lose what lies beside some block, before some of their passes."""

    def start_losing(self, seed, n_losses=4, first_passes=16):
        self.rng, self.pass_number = np.random.default_rng(seed), 0
        self.losing = set(self.rng.choice(np.arange(1, first_passes), n_losses, replace=False))
        self.n_lost = 0
        return self

    def sum(self, work):
        if self.pass_number in self.losing and self._blocks:
            self._blocks[self.rng.integers(len(self._blocks))][1].clear()
            self.n_lost += 1
        self.pass_number += 1
        return super().sum(work)


@pytest.mark.parametrize("seed", [0, *slow(*range(1, 8))])
@pytest.mark.parametrize("name", ["poisson", *slow("bernoulli")])
@each_approach
def test_what_lies_beside_the_blocks_may_be_lost(approach, name, seed):
    problem = approach.case(name)
    kept = problem.sparse(block_size=7)
    blocks = Losing(problem.rows, block_size=7).start_losing(seed)
    found = replace(problem, rows=blocks).sparse()
    assert blocks.n_lost and found.converged
    assert_allclose(found.value, kept.value, rtol=1e-8)
    assert_allclose(found.gradient, kept.gradient, rtol=1e-6, atol=1e-6)
    assert_allclose(found.knot_gradient, kept.knot_gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["bernoulli", *slow("poisson", "negative-binomial")])
@each_approach
def test_rows_find_their_sites_again_from_the_posterior_alone(approach, name):
    problem = approach.case(name)
    inference = replace(approach.inference, tolerance=1e-20)
    blocks = InMemory(problem.rows, block_size=7)
    with Evaluation.of(problem.model, blocks, problem.Z, problem.jitter, keep=True) as at:
        rule = inference.fit(at).rule
        for block, cache in blocks._blocks:
            seen = at.projector.project(block, cache)
            kept, again = (rule.sites(block, seen, place) for place in (cache, {}))
            for entry in ("W", "w", "a", "f", "variance"):
                assert_allclose(getattr(again, entry), getattr(kept, entry), rtol=1e-8, atol=1e-8)


# -- starts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["poisson", *slow("bernoulli", "gamma")])
@each_approach
def test_a_warm_start_equals_a_cold_start(approach, name):
    problem = approach.case(name)
    cold = problem.sparse()
    nearby = problem.model.with_theta(problem.model.theta + 0.2)
    blocks = InMemory(problem.rows, block_size=7)
    left = sparse_evidence(nearby, blocks, problem.Z, jitter=problem.jitter)
    warm = replace(problem, rows=blocks).sparse()
    assert_same_evidence(warm, cold, rtol=1e-7)
    assert_same_evidence(problem.sparse(start=left.state.gamma), cold, rtol=1e-7)
    full_cold = full_evidence(problem.model, problem.rows)
    for start in (full_evidence(nearby, problem.rows).state.last, full_cold.state.last[:, 0]):
        full_warm = full_evidence(problem.model, problem.rows, start=start)
        assert_allclose(full_warm.value, full_cold.value, rtol=1e-10)
        assert_allclose(full_warm.gradient, full_cold.gradient, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e6, np.nan, *slow(1.0, 50.0)])
@pytest.mark.parametrize("name", ["poisson", *slow("bernoulli")])
@each_approach
def test_a_nonsense_start_gives_the_same_answer(approach, name, size):
    problem = approach.case(name)
    nonsense = size * np.random.default_rng(0).normal(size=(len(problem.rows), 3))  # sites of negative precision too
    blocks = InMemory(problem.rows, block_size=7)
    blocks.restore(nonsense)
    found, expected = replace(problem, rows=blocks).sparse(gradient=False), problem.sparse(gradient=False)
    assert found.converged
    assert_allclose(found.value, expected.value, rtol=1e-9)
    found = full_evidence(problem.model, problem.rows, gradient=False, start=nonsense)
    expected = full_evidence(problem.model, problem.rows, gradient=False)
    assert found.converged
    assert_allclose(found.value, expected.value, rtol=1e-9)


# -- passes ---------------------------------------------------------------------------------------------------


def banana(variance):
    part = split(load_banana(), n_train=531)
    X = (part.X_train - part.X_train.mean(0)) / part.X_train.std(0)
    model = Model(SquaredExponential(variance, 1.0), lik.Bernoulli(), Constant(0.0))
    return model, Rows(X, part.y_train, None, np.empty((len(X), 0))), 50


def hickory(variance):
    data = load_hickory()
    X = (data.X - data.X.mean(0)) / data.X.std(0)
    model = Model(SquaredExponential(variance, 0.4), lik.Poisson(), Constant(np.log(data.y.sum())))
    return model, Rows(X, data.y, None, np.empty((len(X), 0)), data.exposure), 60


@pytest.mark.slow
@pytest.mark.parametrize("inference", [Variational(), PowerEP()], ids=["variational", "ep"])
@pytest.mark.parametrize(("data", "variance"), [(banana, 4), (banana, 65), (banana, 500), (hickory, 1), (hickory, 10)])
def test_twenty_looks_after_the_mode_are_enough(data, variance, inference):
    model, rows, n_knots = data(float(variance))
    model = replace(model, power=0.0 if isinstance(inference, Variational) else 1.0, inference=inference)
    Z = initial_knots("kmeans", rows.X, rows.y, n_knots, np.random.default_rng(0))
    with Evaluation.of(model, InMemory(rows), Z, Jitter(1e-6, rows.X[:4]), keep=True) as at:
        end = search_sites(SparseSites.from_mode(at, inference.target, None), inference.tolerance)
    assert end.converged
    assert end.n_passes <= 20


# -- refusals, and searches that do not arrive ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("inference", "change", "words"),
    [
        (Variational(), {"power": 0.5}, "power of 0.5 between them; use 'ep'"),
        (Variational(), {"residual": Chain()}, "leave `residual` at None"),
        (PowerEP(), {"power": 0.0}, "use 'variational'"),
        (PowerEP(), {"power": 0.5, "nugget": Nugget(0.1)}, "with a nugget it is for power 1, not 0.5"),
        (PowerEP(), {"residual": Chain()}, "leave `residual` at None"),
    ],
)
def test_what_an_inference_cannot_do_it_refuses_in_words(inference, change, words):
    problem = with_inference(case(lik.Poisson()), inference)
    model = replace(problem.model, **change)
    with pytest.raises(InvalidInputError) as refusal:
        sparse_evidence(model, problem.rows, problem.Z, jitter=problem.jitter)
    assert f"{inference.name} cannot be used here" in str(refusal.value) and words in str(refusal.value)


def test_ep_at_power_0_is_variational():
    at_zero = PowerEP(tolerance=1e-12, max_passes=7).for_power(0.0)
    assert at_zero == Variational(1e-12, 7)
    assert PowerEP().for_power(0.5) == PowerEP()
    assert inference_of(replace(case(lik.Poisson(), 0.0).model, inference=at_zero)) == at_zero


@each_approach
def test_a_search_that_reaches_its_cap_says_so(approach):
    problem = with_inference(approach.case("poisson"), replace(approach.inference, max_passes=2))
    for found in (problem.sparse(gradient=False), full_evidence(problem.model, problem.rows, gradient=False)):
        assert not found.converged and np.isfinite(found.value)
        assert found.why == "the sites of the observations were still moving after 2 looks at the data"


class NarrowByRefinement(lik.StudentT):
    """A likelihood of one's own that does not tell how narrow it is."""

    width = None

    def singular_point(self, y, size=1.0):
        return None


def test_a_quadrature_that_reaches_its_cap_is_told():
    problem = with_inference(case(NarrowByRefinement(1e-3, 4.0), 0.0, n=12), Variational())
    found = problem.sparse(gradient=False)
    assert "exact to" in found.why and "largest number of nodes" in found.why
    well = with_inference(case(NarrowByRefinement(0.3, 4.0), 0.0, n=12), Variational()).sparse(gradient=False)
    assert well.converged and not well.why
    assert_allclose(
        well.value,
        with_inference(case(LIKELIHOODS["student-t"], 0.0, n=12), Variational()).sparse(gradient=False).value,
        rtol=1e-7,
    )


# -- ends of a search -----------------------------------------------------------------------------------------


@dataclass
class Still:
    """Sites that do not move, under a likelihood whose expectations are wrong by `error`."""

    error: float
    target = Variational.target
    kl_penalty = 0.0

    def look(self):
        return SitePassSums(-10.0, 0.0, np.zeros((HISTORY, HISTORY)), np.zeros(HISTORY), self.error)


def test_sites_that_stay_where_expectations_are_wrong_are_not_found():
    assert search_sites(Still(0.0), 1e-8).converged
    inexact, wrong = search_sites(Still(1e-5), 1e-8), search_sites(Still(0.3), 1e-8)
    assert inexact.converged and "exact to 1e-05 only" in inexact.why
    assert not wrong.converged and "exact to 3e-01 only" in wrong.why


def test_a_precision_that_may_not_fall_so_far_takes_the_mean_along():
    """The site's centre b / W stays between where it was and where it should be."""
    sites = RowSites(np.array([[1.0], [-10.0]]))
    model = Model(SquaredExponential(1.0, 1.0), lik.Poisson(), Constant(0.0), 1.0, NoNugget())
    rows = Rows(np.zeros((1, 1)), np.zeros(1), None, np.empty((1, 0)))
    sites.look(Variational.target, model, rows, np.array([-10.0]), np.array([1.0]), 0.0)
    sites.step(np.zeros(HISTORY), 1.0, positive=True)
    W, b = sites.x[:, 0]
    assert_allclose(W, 0.25)
    assert -11.0 < b / W <= -9.9
