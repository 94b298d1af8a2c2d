"""Names of parameters: every one means exactly one parameter, also where two parts have a parameter of one name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knotwise import GPRegressor
from knotwise import kernels as k
from knotwise.data.observations import Observations
from knotwise.errors import InvalidInputError
from knotwise.estimators.assemble import assemble
from knotwise.likelihoods import LIKELIHOODS, Exponential
from knotwise.means import Constant
from knotwise.numerics.blocks import Serial

pytestmark = pytest.mark.failure(48)

RNG = np.random.default_rng(0)
X = RNG.uniform(0.2, 1.2, size=(30, 2))
Y = {"bernoulli": X[:, 0] > 0.7, "binomial": X[:, 0] > 0.7, "beta": X[:, 0] / 2}

leaves = st.sampled_from(
    [
        k.SquaredExponential(),
        k.SquaredExponential(ard=True),
        k.RationalQuadratic(),
        k.Matern32(),
        k.Periodic().on([0]),
        k.Linear(),
        k.Constant(),
        k.Matern52(ard=True).on([1]),
    ]
)
kernels = st.recursive(
    leaves, lambda inner: st.one_of(st.builds(k.Sum, inner, inner), st.builds(k.Product, inner, inner)), max_leaves=4
)
models = st.tuples(kernels, st.sampled_from(sorted(LIKELIHOODS)), st.booleans())


def problem(kernel, likelihood, nugget=False, **options):
    nugget = "fit" if nugget and likelihood != "gaussian" else 0.0
    y = np.round(10 * X[:, 0]) if "poisson" in likelihood or "negative" in likelihood else Y.get(likelihood, X[:, 0])
    options |= {"mean": Constant(prior_sd=None), "standardize": "common"}
    gp = GPRegressor(kernel, likelihood, nugget=nugget, **options)
    return assemble(gp, Observations(X, np.asarray(y, float)), None, Serial()).problem


def names_of(table):
    """Every name that a parameter has, in short and in full, and the entries of theta that it should mean."""
    found = {}
    for i, (name, part) in enumerate(zip(table.names, table.parts, strict=True)):
        plain = name.removeprefix(f"{part}__") if name.split("[")[0].count("__") == 1 and part in name else name
        for known in {name, name.split("[")[0], f"{part}__{plain}", f"{part}__{plain.split('[')[0]}"}:
            found.setdefault(known, set()).add(i)
    return found


@pytest.mark.slow
@settings(max_examples=60)
@given(models)
def test_every_name_holds_and_bounds_exactly_one_parameter(model):
    """Case 48: two parts with a parameter of one name."""
    free = problem(*model).table
    assert len(set(free.names)) == len(free.names)
    assert not free.fixed.any()
    for name, entries in names_of(free).items():
        part = {free.parts[i] for i in entries}
        assert len(part) == 1, name
        held = problem(*model, fixed=[name]).table
        assert set(np.flatnonzero(held.fixed)) == entries
        low, high = (-0.5, 0.5) if part == {"mean"} else (0.5, 1.5)
        bounded = problem(*model, bounds={name: (low, high)}).table
        changed = (bounded.lower != free.lower) | (bounded.upper != free.upper)
        assert set(np.flatnonzero(changed)) <= entries and changed.any()


@pytest.mark.parametrize(
    ("kernel", "likelihood", "name"),
    [
        (k.SquaredExponential(), "lognormal", "variance"),
        (k.Linear(), "lognormal", "variance"),
        (k.RationalQuadratic(), "gamma", "shape"),
        (k.RationalQuadratic(), "weibull", "shape"),
    ],
)
def test_a_name_of_two_parts_is_an_error_that_names_both(kernel, likelihood, name):
    """Case 48: two parts with a parameter of one name."""
    table = problem(kernel, likelihood).table
    both = rf"{name!r}, which two parts of the model have: write kernel__{name} and likelihood__{name}"
    for options in ({"fixed": [name]}, {"bounds": {name: (0.1, 1.0)}}):
        with pytest.raises(InvalidInputError, match=both):
            problem(kernel, likelihood, **options)
    with pytest.raises(InvalidInputError, match=both):
        table[name]
    assert table[f"kernel__{name}"] == table.values[table.entries(f"kernel__{name}")[0]]


def test_the_noise_of_a_likelihood_is_found_under_a_shared_name():
    """Case 48: two parts with a parameter of one name."""
    found = problem(k.SquaredExponential(), "lognormal")
    assert found.table.names == ("kernel__variance", "lengthscale", "likelihood__variance", "mean")
    assert found.model.noise_directions.tolist() == [0, 0, 1, 0]
    assert problem(k.RationalQuadratic(), "gamma").model.noise_directions.tolist() == [0, 0, 0, -1, 0]


def test_waiting_times_have_no_noise_parameter():
    assert Exponential.parameters == () and Exponential().names == []
    assert not problem(k.RationalQuadratic(), "exponential").model.noise_directions.any()


def test_a_model_with_a_shared_name_is_fitted_saved_and_loaded(tmp_path):
    """Case 48: two parts with a parameter of one name."""
    import knotwise

    gp = GPRegressor(k.SquaredExponential(), "lognormal", knots=4, fixed=["likelihood__variance"], random_state=0)
    gp.fit(X, X[:, 0])
    assert gp.likelihood_.variance == 0.25 and gp.kernel_.variance != 0.25
    gp.save(tmp_path / "m.knotwise")
    loaded = knotwise.load(tmp_path / "m.knotwise")
    assert loaded.parameters_.names == gp.parameters_.names
    assert loaded.parameters_["likelihood__variance"] == 0.25


def test_one_parameter_has_one_pair_of_bounds():
    twice = {"likelihood__noise_variance": (0.5, 0.6), "noise_variance": (0.1, 0.2)}
    with pytest.raises(InvalidInputError, match="which are the same parameter"):
        problem(k.SquaredExponential(), "gaussian", bounds=twice)


def test_a_misspelt_full_name_is_corrected_in_full():
    with pytest.raises(InvalidInputError, match="kernel__variance"):
        problem(k.SquaredExponential(), "gaussian", fixed=["kernel__varience"])
