"""The conformance check of likelihoods: everything that the engine takes for granted of one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from knotwise.likelihoods.base import Likelihood
from knotwise.likelihoods.response import predictive_cdf, predictive_quantile, response_moments
from knotwise.likelihoods.tilted import log_tilted_integral
from knotwise.testing.clauses import check_parameters, fail, same
from knotwise.testing.dense import mean_at, response_nodes, standard_deviation_at

N_ROWS, N_DRAWS, STEP = 41, 4000, 1e-4
FINE_REACH, FINE_NODES = 12.0, 4001  # of the rule that expectations are compared with
CURVATURE_REACH = 6.0  # the sign of the curvature is looked at for f from -6 to 6


def check_likelihood(
    likelihood: Likelihood, y: np.ndarray | None = None, size: np.ndarray | float | None = None, seed: int = 0
) -> None:
    """Assert that a likelihood keeps the contract of `Likelihood`; the error says which clause it breaks.

    Works for any likelihood, shipped or a user's own; what is not defined (raises NotImplementedError) is skipped. That
    the density sums to one, and has the mean and variance it says, is checked if the class says where y lies (`support`
    or `scales_targets`). A mixture of a density and of values that have a probability of their own, such as rain that
    is 0 on many days, declares these as its `atoms`.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood to test.
    y : array [n], optional
        Some possible targets; needed if there is no `sample` and y cannot take every value.
    size : float or array [n], optional
        Exposure or trials of them.
    seed : int, default 0
        For values of the latent function, and targets where none are given.

    Examples
    --------
    >>> from knotwise.likelihoods import Poisson
    >>> from knotwise.testing import check_likelihood
    >>> check_likelihood(Poisson())
    """
    rng = np.random.default_rng(seed)
    low, high = likelihood.support()
    given, likelihood = likelihood, likelihood.start(float(np.minimum(high - low, 7.0) ** 2 / 49))
    n = N_ROWS if y is None else len(y)
    f = rng.uniform(-1.5, 1.5, n)
    if size is None:  # whole numbers serve as exposures and as trials
        size = rng.integers(1, 8, n).astype(float) if likelihood.size_name else np.ones(n)
    size = np.broadcast_to(np.asarray(size, float), n)
    y = _some_targets(likelihood, f, size, rng) if y is None else np.asarray(y, float)

    _check_atoms(likelihood, f, size)
    _check_parameters(given, likelihood, y, size)
    _check_roles_and_units(likelihood, y, f, size)
    _check_derivatives(likelihood, y, f, size)
    _check_curvature(likelihood, y, size)
    _check_far_f(likelihood, y, size)
    _check_latent_of_mean(likelihood, f, size)
    _check_draws(likelihood, f[:5], size[:5], rng)
    if type(likelihood).support is not Likelihood.support or likelihood.scales_targets:
        _check_density(likelihood, f[:7], size[:7])
    _check_cdf(likelihood, y, f, size)
    _check_closed_forms(likelihood, y, f, size)
    _check_expectations(likelihood, y, f, size)
    _check_shapes(likelihood, y, f, size, rng)


def _some_targets(likelihood: Likelihood, f: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    try:
        return np.asarray(likelihood.sample(f, rng, size), float)
    except NotImplementedError:
        low, high = likelihood.support(size)
    y = f + rng.standard_normal(f.shape)
    if np.isfinite(low):
        y = low + (np.exp(y) if np.isinf(high).all() else (high - low) * rng.random(f.shape))
    return np.round(y) if likelihood.discrete else y


def _check_atoms(likelihood: Likelihood, f: np.ndarray, size: np.ndarray) -> None:
    """Atoms are different values of a continuous y inside its support, with probabilities that targets may have."""
    atoms = likelihood.atoms
    if not atoms:
        return
    low, high = likelihood.support(size)
    inside = all((low <= atom).all() and (atom <= high).all() for atom in map(np.float64, atoms))
    if likelihood.discrete or len({*atoms}) < len(atoms) or not inside:
        fail(likelihood, f"`atoms` {atoms} must be different values inside `support`, of a y that is not `discrete`")
    for atom in atoms:
        at = np.full(f.shape, atom)
        if (likelihood.log_density(at, f, size) > 0).any():
            fail(likelihood, f"`log_density` at the atom {atom:g} must be the logarithm of a probability")
        same(likelihood, "`check_targets` takes an atom", likelihood.check_targets(at, size), at, rtol=0)


def _check_parameters(given: Likelihood, started: Likelihood, y: np.ndarray, size: np.ndarray) -> None:
    """Theta, constructor arguments, starts and bounds."""
    check_parameters(started, ("noise", "shape", "other"))
    opened = copy.deepcopy(given).set_params(**dict.fromkeys(p.name for p in given.parameters))  # every parameter None
    for variance in (1e-6, 1.0, 1e6):
        one = opened.start(variance)
        bounds, natural = one.bounds(variance), _natural(one)
        if bounds.shape != (one.size, 2):
            fail(one, f"`bounds` has shape {bounds.shape}, but theta has {one.size} entries")
        if not ((bounds[:, 0] <= natural) & (natural <= bounds[:, 1])).all():
            fail(one, f"for var(y) = {variance:g} the start {natural} lies outside `bounds` {bounds.tolist()}")
        if not all(getattr(given, p.name) is None for p in given.parameters):
            same(one, "`start` keeps the values that are known", one.start(2 * variance).theta, one.theta, rtol=0)
    low, high = started.support(size)
    extremes = [np.broadcast_to(v, y.shape) for v in (low, high) if started.discrete and np.isfinite(v).all()]
    for targets in (y, y[:1], *extremes):
        constant = started.constant_start(targets, size[: len(targets)])
        if not np.isfinite(constant):
            fail(started, f"`constant_start` is {constant} for targets from {targets.min():g} to {targets.max():g}")


def _natural(likelihood: Likelihood) -> np.ndarray:
    values = [np.atleast_1d(np.asarray(likelihood.value(p.name), float)) for p in likelihood.parameters]
    return np.concatenate([np.empty(0), *values])


def _check_roles_and_units(likelihood: Likelihood, y: np.ndarray, f: np.ndarray, size: np.ndarray) -> None:
    """The parameters have the roles and the units that they say."""
    declared = likelihood.flat_parameters()
    if any(p.x_power for p in declared):
        fail(likelihood, "a parameter has the units of the inputs, which a likelihood does not see")
    if likelihood.scales_targets:
        doubled = likelihood.with_theta(likelihood.theta + np.log([2.0**p.y_power for p in declared]))
        claim = "`units` of y: in other units of y and f the density is the same, but for their size"
        expected = likelihood.log_density(y, f, size) - np.log(2.0)
        same(likelihood, claim, doubled.log_density(2 * y, 2 * f, size), expected, rtol=1e-10, atol=1e-10)
    elif any(p.y_power for p in declared):
        fail(likelihood, "a parameter has the units of y, which are f's only with `scales_targets = True`")
    for j, (name, p) in enumerate(zip(likelihood.names, declared, strict=True)):
        louder = likelihood.with_theta(likelihood.theta + 0.3 * p.direction * (np.arange(likelihood.size) == j))
        try:
            less, more = (one.conditional_variance(f, size) for one in (likelihood, louder))
        except NotImplementedError:
            return
        if p.role == "noise" and not (more >= less).all():
            fail(likelihood, f"`{name}` has the role 'noise' and direction {p.direction}, but y varies less that way")


def _check_derivatives(likelihood: Likelihood, y: np.ndarray, f: np.ndarray, size: np.ndarray) -> None:
    """Each derivative against differences of the one before, in f and in every parameter."""
    log_density, d = likelihood.log_density(y, f, size), likelihood.derivatives(y, f, size)
    for name, value in (("log_density", log_density), *vars(d).items()):
        if np.shape(value) != y.shape or not np.isfinite(value).all():
            fail(likelihood, f"`{name}` has shape {np.shape(value)} for {len(y)} rows, or an entry that is not finite")
    same(likelihood, "`log_density` of one row alone", likelihood.log_density(y[:1], f[:1], size[:1]), log_density[:1])
    chain = [
        ("first", d.first, lambda x: likelihood.log_density(y, x, size)),
        ("second", d.second, lambda x: likelihood.derivatives(y, x, size).first),
        ("third", d.third, lambda x: likelihood.derivatives(y, x, size).second),
    ]
    for name, value, before in chain:
        _same_slope(likelihood, f"the {name} derivative in f", value, before, f)
    listed = likelihood.parameter_derivatives(y, f, size)
    if len(listed) != likelihood.size:
        fail(likelihood, f"`parameter_derivatives` has {len(listed)} entries for the parameters {likelihood.names}")
    for j, (name, in_theta) in enumerate(zip(likelihood.names, listed, strict=True)):

        def moved(t: np.ndarray, j: int = j) -> Likelihood:
            return likelihood.with_theta(likelihood.theta + t * (np.arange(likelihood.size) == j))

        of: list[tuple[str, np.ndarray, Callable]] = [
            ("log p", in_theta.log_density, lambda t, at=moved: at(t).log_density(y, f, size)),
            ("the first derivative", in_theta.first, lambda t, at=moved: at(t).derivatives(y, f, size).first),
            ("the second derivative", in_theta.second, lambda t, at=moved: at(t).derivatives(y, f, size).second),
        ]
        for what, value, function in of:
            _same_slope(likelihood, f"the derivative of {what} in unconstrained `{name}`", value, function, 0.0)


def _same_slope(likelihood: Likelihood, what: str, value: np.ndarray, function: Callable, at: Any) -> None:
    """Compare with the difference quotient at `at` whose error is of fourth order in the step."""
    near = (function(at + STEP) - function(at - STEP)) / (2 * STEP)
    far = (function(at + 2 * STEP) - function(at - 2 * STEP)) / (4 * STEP)
    slope = (4 * near - far) / 3
    rounding = 100 * np.finfo(float).eps * np.abs(function(at)).max() / STEP
    atol = rounding + 1e-8 * np.abs(value).max()
    same(likelihood, f"{what} is what differences give", value, slope, rtol=1e-6, atol=atol)


def _check_curvature(likelihood: Likelihood, y: np.ndarray, size: np.ndarray) -> None:
    """The claim to be log-concave, or else a positive curvature for Newton's steps."""
    for f in np.linspace(-CURVATURE_REACH, CURVATURE_REACH, 25):
        at = np.full(y.shape, f)
        W = likelihood.fisher(y, at, size)
        if np.shape(W) != y.shape or not (np.isfinite(W) & (W >= 0)).all():
            fail(likelihood, f"`fisher` must be finite and not negative, but reaches {np.min(W):.3g} at f = {f:g}")
        second = likelihood.derivatives(y, at, size).second
        if likelihood.log_concave and (second > 0).any():
            row = int(np.argmax(second))
            fail(
                likelihood,
                f"log p has the second derivative {second[row]:.3g} at y = {y[row]:g}, f = {f:g}: "
                "set `log_concave = False` and define `fisher`",
            )


def _check_far_f(likelihood: Likelihood, y: np.ndarray, size: np.ndarray) -> None:
    """A trial step too far gives numbers, however large."""
    for f in (-40.0, 40.0):
        at = np.full(y.shape, f)
        d = likelihood.derivatives(y, at, size)
        if any(np.isnan(v).any() for v in (likelihood.log_density(y, at, size), d.first, d.second, d.third)):
            fail(likelihood, f"`log_density` or `derivatives` is NaN at f = {f:g}")


def _check_latent_of_mean(likelihood: Likelihood, f: np.ndarray, size: np.ndarray) -> None:
    mean = likelihood.conditional_mean(f, size)
    if np.shape(mean) != f.shape or not (likelihood.conditional_mean(f + 0.1, size) > mean).all():
        fail(likelihood, f"`conditional_mean` must increase in f and have its shape {f.shape}")
    try:
        back = likelihood.latent_of_mean(mean, size)
    except NotImplementedError:
        return
    same(likelihood, "`latent_of_mean` inverts `conditional_mean`", back, f, rtol=1e-8, atol=1e-8)


def _check_draws(likelihood: Likelihood, f: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> None:
    """Draws lie where they can, with the mean and the distribution function that the likelihood says."""
    f, size = np.repeat(f, N_DRAWS), np.repeat(size, N_DRAWS)
    try:
        y = likelihood.sample(f, rng, size)
    except NotImplementedError:
        return
    low, high = likelihood.support(size)
    if np.shape(y) != f.shape or not ((y >= low) & (y <= high)).all():
        fail(likelihood, f"`sample` must give one y inside `support` per f, but gives {y.min()} to {y.max()}")
    same(likelihood, "`check_targets` takes what `sample` gives", likelihood.check_targets(y, size), y, rtol=0)
    mean = likelihood.conditional_mean(f, size)
    claims = [("mean of draws", y - mean, lambda: likelihood.conditional_variance(f, size))]
    try:
        P = likelihood.cdf(mean, f, size)
        claims.append(("share of draws below their mean", (y <= mean) - P, lambda: P * (1 - P)))
    except NotImplementedError:
        pass
    for what, difference, variance in claims:
        try:
            error = np.sqrt(variance().reshape(-1, N_DRAWS)[:, 0] / N_DRAWS)
        except NotImplementedError:
            error = difference.reshape(-1, N_DRAWS).std(1) / np.sqrt(N_DRAWS)
        off = np.abs(difference.reshape(-1, N_DRAWS).mean(1))
        if (off > 5 * error + 1e-12).any():
            fail(likelihood, f"the {what} is off by {off.max():.3g}, more than five standard errors")


def _check_density(likelihood: Likelihood, f: np.ndarray, size: np.ndarray) -> None:
    """The density sums or integrates to one, with the conditional mean and variance; its atoms add to it."""
    for one, n in zip(f, size, strict=True):
        at, weight = response_nodes(likelihood, one, n)
        with np.errstate(all="ignore"):  # far nodes
            p = weight * np.exp(likelihood.log_density(at, np.full(at.shape, one), np.full(at.shape, n)))
        low, high = (float(np.max(bound)) for bound in likelihood.support(np.array([n])))
        # a density may be infinite at 1, and floats next to 1 too coarse to hold all of it
        ends = [p[i] / weight[i] * abs(at[i] - end) for i, end in ((0, low), (-1, high)) if np.isfinite(end)]
        lost = 0.0 if likelihood.discrete else 20 * sum(ends)
        atoms = np.array(likelihood.atoms)
        at = np.concatenate([at, atoms])
        p = np.concatenate(
            [p, np.exp(likelihood.log_density(atoms, np.full(atoms.shape, one), np.full(atoms.shape, n)))]
        )
        mean, sd = mean_at(likelihood, one, n), standard_deviation_at(likelihood, one, n)
        where = f"at f = {one:.3g}, summed over y"
        same(likelihood, f"the density {where}", p.sum(), 1.0, atol=1e-6 + lost)
        same(likelihood, f"`conditional_mean` {where}", mean, p @ at, rtol=1e-6, atol=1e-6 * (sd or 1.0) + lost)
        if sd is not None and np.isfinite(sd):
            same(likelihood, f"`conditional_variance` {where}", sd**2, p @ (at - mean) ** 2, rtol=1e-5, atol=lost)


def _check_cdf(likelihood: Likelihood, y: np.ndarray, f: np.ndarray, size: np.ndarray) -> None:
    """The distribution function rises by the density, from 0 below the support to 1 above, and jumps at atoms."""
    low, high = likelihood.support(size)
    try:
        below = likelihood.cdf(np.full(y.shape, max(low - 1, -1e300)), f, size)
        above = likelihood.cdf(np.minimum(np.broadcast_to(high, y.shape) + 1, 1e300), f, size)
    except NotImplementedError:
        return
    same(likelihood, "`cdf` is 0 below the support", below, np.zeros(len(y)), atol=1e-8)
    same(likelihood, "`cdf` is 1 above the support", above, np.ones(len(y)), atol=1e-8)
    density = np.exp(likelihood.log_density(y, f, size))
    if likelihood.discrete:
        rise = likelihood.cdf(y, f, size) - likelihood.cdf(y - 1, f, size)
        same(likelihood, "`cdf` rises by the density at each count", rise, density, atol=1e-10)
        return
    atoms = np.array(likelihood.atoms)
    on_atom = np.isin(y, atoms)
    if on_atom.any():
        there = y[on_atom], f[on_atom], size[on_atom]
        jump = likelihood.cdf(*there) - likelihood.cdf(np.nextafter(there[0], -np.inf), *there[1:])
        same(likelihood, "`cdf` jumps by the probability of an atom", jump, density[on_atom], atol=1e-10)
    if on_atom.all():
        return
    y, f, size, density = (values[~on_atom] for values in (y, f, size, density))
    low, high = likelihood.support(size)
    near = np.abs(y[:, None] - atoms).min(1, initial=np.inf)
    step = 1e-4 * np.minimum(np.minimum(np.minimum(y - low, high - y), near), np.median(1.0 / density))
    right, left = y + step, y - step
    distinct = step > 1e-13 * np.abs(y)  # next to 1 floats are too coarse
    density, step = density[distinct], (right - left)[distinct]
    P = likelihood.cdf(right, f, size)[distinct]
    rise = (P - likelihood.cdf(left, f, size)[distinct]) / step
    same(likelihood, "`cdf` has the density as its slope", rise, density, rtol=1e-5, atol=1e-13 * P / step)


def _check_closed_forms(likelihood: Likelihood, y: np.ndarray, f: np.ndarray, size: np.ndarray) -> None:
    """Closed forms for f ~ N(mean, variance), where there are any, equal the quadrature."""
    variance = np.linspace(0.05, 0.6, len(f))
    if type(likelihood).response_moments is not Likelihood.response_moments:
        by_formula, by_quadrature = (
            likelihood.response_moments(f, variance, size),
            response_moments(likelihood, f, variance, size),
        )
        for name, a, b in zip(("mean", "variance"), by_formula, by_quadrature, strict=True):
            same(likelihood, f"the {name} in `response_moments`", a, b, rtol=1e-8, atol=1e-12)
    if type(likelihood).log_predictive_density is not Likelihood.log_predictive_density:
        expected = log_tilted_integral(likelihood, y, f, variance, size)
        actual = likelihood.log_predictive_density(y, f, variance, size)
        same(likelihood, "`log_predictive_density`", actual, expected, rtol=1e-8, atol=1e-8)
    if type(likelihood).predictive_cdf is not Likelihood.predictive_cdf:
        expected = predictive_cdf(likelihood, y, f, variance, size)
        same(likelihood, "`predictive_cdf`", likelihood.predictive_cdf(y, f, variance, size), expected, rtol=1e-8)
    if type(likelihood).predictive_quantile is not Likelihood.predictive_quantile:
        for p in (0.1, 0.9):
            quantile = likelihood.predictive_quantile(p, f, variance, size)
            searched = predictive_quantile(likelihood, p, f, variance, size)
            same(likelihood, f"`predictive_quantile` of {p:g}", quantile, searched, rtol=1e-7, atol=1e-7)


def _check_expectations(likelihood: Likelihood, y: np.ndarray, f: np.ndarray, size: np.ndarray) -> None:
    """Expectations over f ~ N(mean, variance), closed or by rules that trust `width`, equal those of a fine rule."""
    declared = "" if likelihood.width is None else f", with the `width` {likelihood.width:.4g} that it declares,"
    z = np.linspace(-FINE_REACH, FINE_REACH, FINE_NODES)[:, None]
    weights = np.exp(-0.5 * z[:, 0] ** 2)
    weights /= weights.sum()
    for variance in (0.04, 4.0):
        spread = np.full(y.shape, variance)
        actual = likelihood.expectations(y, f, spread, size)
        in_theta = likelihood.expected_parameter_derivatives(y, f, spread, size)
        nodes = f + np.sqrt(variance) * z
        like = [np.broadcast_to(v, nodes.shape) for v in (y, size)]
        d = likelihood.derivatives(like[0], nodes, like[1])
        parts = [
            ("log_density", actual.log_density, likelihood.log_density(like[0], nodes, like[1])),
            ("first", actual.first, d.first),
            ("second", actual.second, d.second),
        ]
        listed = likelihood.parameter_derivatives(like[0], nodes, like[1])
        for name, mine, one in zip(likelihood.names, in_theta, listed, strict=True):
            parts.append((name, mine, one.log_density))
        for name, mine, at_nodes in parts:
            terms = weights[:, None] * np.broadcast_to(at_nodes, nodes.shape)
            expected, atol = terms.sum(0), 10 * actual.error + 1e-8 * (1 + np.abs(terms).sum(0))
            # the fine rule is trusted where half of its nodes say the same, and nothing is left at its ends
            sure = np.abs(2 * terms[::2].sum(0) - expected) + np.abs(terms[[0, -1]]).sum(0) <= 0.01 * atol
            what = f"`expectations`{declared} of variance {variance:g}, `{name}`"
            same(likelihood, what, mine[sure], expected[sure], rtol=1e-8 + 10 * actual.error, atol=atol[sure])


def _check_shapes(
    likelihood: Likelihood, y: np.ndarray, f: np.ndarray, size: np.ndarray, rng: np.random.Generator
) -> None:
    """What is declared of the shape of log p, on which certificates rest."""
    if likelihood.quadratic:
        d = likelihood.derivatives(y, f, size)
        same(likelihood, "`third`, as it declares `quadratic`, and 0", d.third, np.zeros_like(d.third), atol=1e-12)
    if likelihood.jointly_concave:
        places = [(f + rng.normal(size=len(f)), rng.uniform(0.01, 4.0, len(f))) for _ in range(2)]
        places.append(((places[0][0] + places[1][0]) / 2, (places[0][1] + places[1][1]) / 2))
        low, high, at = (likelihood.expectations(y, m, v, size).log_density for m, v in places)
        if (at < (low + high) / 2 - 1e-9 * (1 + np.abs(low) + np.abs(high))).any():
            fail(likelihood, "E log p is not concave in mean and variance of f: set `jointly_concave = False`")
