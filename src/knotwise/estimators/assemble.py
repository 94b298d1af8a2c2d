"""Put a problem together from data and an estimator's options."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from knotwise.errors import FitWarning, InvalidInputError
from knotwise.estimators.options import kernel_from, likelihood_from, parameter_table, power_from
from knotwise.estimators.scaling import Scaling
from knotwise.estimators.validation import check_count
from knotwise.evidence import Model, Rows
from knotwise.evidence.full import check_full_size
from knotwise.kernels.base import DataScale
from knotwise.knots.problem import Problem
from knotwise.likelihoods.gaussian import NOISE_FLOOR, Gaussian
from knotwise.means import Constant, mean_from
from knotwise.numerics.blocks import Serial
from knotwise.numerics.parameters import Part
from knotwise.optimize.base import optimizer_from

__all__ = ["assemble"]


def assemble(
    options: Any, X: np.ndarray, y: np.ndarray, noise: np.ndarray | None, feature_names: list[str] | None
) -> tuple[Problem, Scaling]:
    """Make the problem of a fit, in the engine's units, and the scaling that leads back.

    `options` is an estimator; every parameter that it leaves open starts at the scale of the data.
    """
    power, full = power_from(options.approximation)
    if full:
        check_full_size(len(X))
    scaling = Scaling.of(X, y, options.standardize)
    X, y = scaling.inputs(X), scaling.targets(y)
    second_moment = float((y**2).mean()) or 1.0
    scale = DataScale(_spread(X), float(y.var()) or second_moment)

    asked = scaling.to_engine(
        Model(
            kernel_from(options.kernel, feature_names, X.shape[1]),
            likelihood_from(options.likelihood),
            mean_from(options.mean),
            power,
        )
    )
    noise = None if noise is None else noise / scaling.y_scale**2
    likelihood = asked.likelihood if noise is None else Gaussian(float(noise.mean()))
    mean = asked.mean.bind(X, second_moment)
    if isinstance(mean, Constant) and mean.mean is None:
        mean = Constant(float(y.mean()))
    model = Model(
        asked.kernel.start(scale), _above_floor(likelihood.start(scale.variance), scale.variance), mean, power
    )

    held = ["noise_variance"] if noise is not None else []
    if isinstance(asked.mean, Constant) and asked.mean.mean is not None:
        held.append("mean")
    low, high = float(y.min()), float(y.max())
    reach = 3 * (high - low) or 1.0
    bounds = np.vstack(
        [model.kernel.bounds(scale), model.likelihood.bounds(scale.variance)]
        + [np.array([low - reach, high + reach])] * model.mean.size
    )
    table = parameter_table(model, bounds, scaling, fixed=options.fixed, bounds=options.bounds, held=held)
    problem = Problem(
        model,
        Rows(X, y, noise, mean.basis(X)),
        table,
        optimizer_from(options.optimizer),
        Serial(),
        given=np.concatenate([_given(part) for part in (asked.kernel, asked.likelihood, asked.mean)]),
        jitter=_checked_jitter(options.jitter),
        block_size=None if options.block_size is None else check_count(options.block_size, "block_size", least=1),
        n_restarts=check_count(options.n_restarts, "n_restarts", least=0),
        full=full,
        scale_inputs=scaling.inputs,
    )
    return problem, scaling


def _spread(X: np.ndarray) -> np.ndarray:
    """Standard deviation of each column; a constant one tells nothing and takes the mean of the others."""
    spread = X.std(0)
    varying = spread[spread > 0]
    return np.where(spread > 0, spread, varying.mean() if len(varying) else 1.0)


def _above_floor(likelihood: Gaussian, variance: float) -> Gaussian:
    noise = likelihood.value("noise_variance")
    if noise > 1e-15 * variance:
        return likelihood
    warnings.warn(
        f"A noise variance of {noise:.1g} cannot be used: it was raised to the floor of {NOISE_FLOOR:.0e} times "
        "the variance of y.",
        FitWarning,
        stacklevel=5,
    )
    return Gaussian(NOISE_FLOOR * variance)


def _given(part: Part) -> np.ndarray:
    """Which entries of a part's theta the user has given a value."""
    own = [np.isfinite(np.atleast_1d(np.array(getattr(part, name), float))) for name in part.transforms]
    return np.concatenate([*own, *(_given(child) for child in part.children().values()), np.empty(0, bool)])


def _checked_jitter(jitter: Any) -> float | None:
    if jitter is None:
        return None
    if isinstance(jitter, bool) or not isinstance(jitter, int | float | np.number) or not 0 <= jitter < 1:
        raise InvalidInputError(f"`jitter` is {jitter!r}; it must be a number from 0 up to 1, or None.")
    return float(jitter)
