"""Roles of parameters: what a kernel's parameters do counts, whatever they are called."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knotwise import GPRegressor, likelihoods
from knotwise import kernels as k
from knotwise.data.observations import Observations
from knotwise.decisions.signal import _shorter, _weaker
from knotwise.diagnosis import findings
from knotwise.errors import InvalidInputError, UnknownOptionError
from knotwise.estimators.assemble import assemble
from knotwise.evidence import Model
from knotwise.kernels import Kernel, Parameter
from knotwise.means import Constant, Linear, Zero
from knotwise.noise import NoNugget, Nugget
from knotwise.numerics.blocks import Serial
from knotwise.selection.bayesopt import BayesOpt, fit_meta
from knotwise.selection.oneatatime import OneAtATime
from knotwise.selection.starts import starting_theta, without_inputs
from knotwise.testing import check_kernel

RNG = np.random.default_rng(5)
X = RNG.uniform(0.0, 5.0, size=(60, 2))
Y = 40 + 7 * np.sin(X[:, 0]) + RNG.normal(size=60)


class Variogram(Kernel):
    """The squared exponential with the names of another field: sill for variance, reach for length-scale."""

    parameters = (
        Parameter("sill", role="amplitude", units="y^2"),
        Parameter("reach", role="lengthscale", units="x", per_column=True),
    )

    def __init__(self, sill=None, reach=None):
        self.sill = sill
        self.reach = reach
        self.validate()

    @property
    def same(self):
        return k.SquaredExponential(self.sill, self.reach)

    def value_and_pullback(self, X, Z):
        return self.same.value_and_pullback(X, Z)

    def diag(self, X):
        return self.same.diag(X)

    def diag_pullback(self, X, k_bar):
        return self.same.diag_pullback(X, k_bar)

    def start(self, scale):
        started = self.same.start(scale)
        return self.with_values(sill=started.variance, reach=started.lengthscale)

    def bounds(self, scale):
        return self.same.bounds(scale)


def problem(kernel, **options):
    options = {"mean": Constant(prior_sd=None)} | options
    return assemble(GPRegressor(kernel, **options), Observations(X, Y), None, Serial()).problem


# -- what the shipped parts say ---------------------------------------------------------------------------------

AMPLITUDE, LENGTHSCALE = ("amplitude", "y^2"), ("lengthscale", "x")
SHIPPED = [
    *((kind(), [AMPLITUDE, LENGTHSCALE]) for kind in (k.SquaredExponential, k.Matern12, k.Matern32, k.Matern52)),
    (k.RationalQuadratic(), [AMPLITUDE, LENGTHSCALE, ("shape", "none")]),
    (k.Constant(), [AMPLITUDE]),
    (k.Linear(), [("amplitude", "y^2/x^2")]),
    (k.Periodic(), [AMPLITUDE, ("lengthscale", "none"), ("other", "x")]),
    (k.Matern32() + k.Constant(), [AMPLITUDE, LENGTHSCALE, AMPLITUDE]),
    (k.Matern32() * k.Linear(), [AMPLITUDE, LENGTHSCALE, ("amplitude", "1/x^2")]),
    (likelihoods.Gaussian(), [("noise", "y^2")]),
    (likelihoods.StudentT(), [("noise", "y"), ("shape", "none")]),
    *(
        (likelihoods.LIKELIHOODS[name](), [("noise", "none")])
        for name in ("negative_binomial", "beta", "weibull", "gamma", "lognormal")
    ),
    *((likelihoods.LIKELIHOODS[name](), []) for name in ("bernoulli", "binomial", "poisson", "exponential")),
    (Constant(), []),
    (Constant(1.5), [("mean", "y")]),
    (Constant(prior_sd=None), [("mean", "y")]),
    (Zero(), []),
    (Linear(), []),
    (Nugget(), [("nugget", "y^2")]),
    (NoNugget(), []),
]


@pytest.mark.parametrize(("part", "expected"), SHIPPED, ids=lambda v: type(v).__name__ if hasattr(v, "theta") else "")
def test_every_shipped_part_says_what_its_parameters_are(part, expected):
    assert [(p.role, p.units) for p in part.flat_parameters(range(2))] == expected


def test_an_entry_knows_the_columns_that_it_is_about():
    kernel = k.Matern32(ard=True).on([2, 0]) + k.Matern52().on(1) * k.SquaredExponential() + k.Periodic(ard=True)
    found = [p.columns for p in kernel.bind(None, 3).flat_parameters(range(3))]
    everything = (0, 1, 2)
    assert found == [(), (2,), (0,), (), (1,), (), everything, (), (0,), (1,), (2,), everything]


def test_on_a_links_scale_nothing_has_the_units_of_y():
    parts = k.Matern32() + k.Linear(), likelihoods.Poisson(), Constant(prior_sd=None)
    flat = Model(*parts, nugget=Nugget()).flat_parameters(1)
    assert [p.units for p in flat] == ["none", "x", "1/x^2", "none", "none"]


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ({"role": "amplitud"}, "amplitude"),
        ({"role": "length-scale"}, "lengthscale"),
        ({"units": "y2"}, "y^2"),
        ({"transform": "logarithm"}, "log"),
    ],
)
def test_an_unknown_role_or_unit_is_an_error_that_names_the_nearest(given, near):
    with pytest.raises(UnknownOptionError, match=f"parameter `sill`.*Did you mean '{near.replace('^', '.')}'"):
        Parameter("sill", **given)


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (0.0, 1.0), (np.nan, 1.0)])
def test_declared_bounds_of_a_positive_parameter_are_positive_and_rise(bounds):
    with pytest.raises(InvalidInputError, match="`bounds` of the parameter `sill`"):
        Parameter("sill", bounds=bounds)
    with pytest.raises(InvalidInputError, match="`direction` of the parameter `sill` is 0"):
        Parameter("sill", direction=0)


def test_the_table_finds_entries_by_role_and_refuses_a_role_that_is_none():
    table = problem(Variogram() + k.Linear()).table
    assert_array_equal(table.with_role("amplitude"), [True, False, True, False, False])
    assert_array_equal(table.with_role("noise"), [False, False, False, True, False])
    with pytest.raises(UnknownOptionError, match="Did you mean 'lengthscale'"):
        table.with_role("lengthscales")


# -- a kernel with names of its own ---------------------------------------------------------------------------------


def test_a_kernel_with_names_of_its_own_conforms():
    check_kernel(Variogram())
    check_kernel(Variogram(1.3, [0.7, 1.1, 0.4]) * k.Linear() + Variogram().on([1]))


@pytest.mark.parametrize("knots", [6, "auto", OneAtATime(proposal=BayesOpt(3, 5), max_knots=3)])
def test_a_kernel_with_names_of_its_own_is_fitted_as_its_twin(knots):
    fits = [
        GPRegressor(kernel, knots=knots, random_state=0).fit(X, Y) for kernel in (Variogram(), k.SquaredExponential())
    ]
    assert [step.action for step in fits[0].trace_] == [step.action for step in fits[1].trace_]
    assert_allclose(fits[0].parameters_.values, fits[1].parameters_.values, rtol=1e-12)
    assert_allclose(fits[0].predict(X), fits[1].predict(X), rtol=1e-12)


def test_the_null_model_and_the_weak_start_of_an_amplitude_of_any_name_are_those_of_a_variance():
    rng = np.random.default_rng(0)
    own, twin = (problem(kernel, approximation="full") for kernel in (Variogram(), k.SquaredExponential()))
    assert_allclose(_weaker(own), _weaker(twin), rtol=1e-14)
    assert_allclose(_weaker(own)[0], own.table.theta[0] - np.log(100.0), rtol=1e-14)
    nulls = [without_inputs(p, p.table.theta, np.empty((0, 2)), rng) for p in (own, twin)]
    assert nulls[0].theta[0] == own.table.theta_bounds[0, 0]
    assert_allclose(nulls[0].result.value, nulls[1].result.value, rtol=1e-12)
    flat = -0.5 * len(Y) * (1 + np.log(2 * np.pi))  # of standardised targets, without a kernel
    assert_allclose(nulls[0].result.value, flat, rtol=1e-4)


def test_starts_of_a_lengthscale_of_any_name_are_those_of_a_lengthscale():
    own, twin = (problem(kernel) for kernel in (Variogram(), k.SquaredExponential()))
    theta = own.table.theta
    assert_allclose(_shorter(own, theta), theta + np.log(0.1) * np.array([0, 1, 0, 0]), rtol=1e-14)
    starts = [starting_theta(p, np.random.default_rng(0)) for p in (own, twin)]
    assert_allclose(*starts, rtol=1e-12)
    spread, w = np.ones(2), np.sin(20 * X[:15, 0])
    metas = [fit_meta(p.bind(None, 2), X[:15], w, 0.0, spread) for p in (Variogram(), k.SquaredExponential())]
    assert_allclose(*(meta.state.model.theta for meta in metas), rtol=1e-10)


def advice_at(table, name, end):
    """What is said of a parameter that ended at its lower (0) or upper (1) bound."""
    i = table.names.index(name)
    at_bound = table.with_theta(np.where(np.arange(len(table)) == i, table.theta_bounds[:, end], table.theta))
    return findings.bounds(at_bound, at_bound.at_bound()).advice


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize(
    ("own", "usual", "word"), [("sill", "variance", "variance"), ("reach", "lengthscale", "length-scale")]
)
def test_advice_about_a_bound_goes_by_the_role(own, usual, word, end):
    said = advice_at(problem(Variogram()).table, own, end)
    assert said == advice_at(problem(k.SquaredExponential()).table, usual, end)
    assert f"{['vanishing', 'endless'][end]} {word}" in said


@pytest.mark.parametrize(
    ("likelihood", "name", "quiet"),
    [
        ("beta", "precision", 1),
        ("gamma", "shape", 1),
        ("lognormal", "likelihood__variance", 0),
        ("student_t", "scale", 0),
    ],
)
def test_advice_about_noise_knows_in_which_direction_there_is_less_of_it(likelihood, name, quiet):
    gp = GPRegressor(likelihood=likelihood)
    table = assemble(gp, Observations(X, 1 / (1 + np.exp(-np.sin(X[:, 0])))), None, Serial()).problem.table
    assert "Vanishing noise" in advice_at(table, name, quiet)
    assert "noise" not in advice_at(table, name, 1 - quiet)


def test_a_held_lengthscale_of_any_name_is_blamed_for_residuals_that_agree():
    held = Variogram(reach=9.0 * X.std(0))
    gp = GPRegressor(held, approximation="full", fixed=["reach"]).fit(X, 5 * np.sin(3 * X[:, 0]))
    assert "Let reach[0], reach[1] be learned" in " ".join(str(gp.diagnose()).split())
