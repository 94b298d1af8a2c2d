"""Put a problem together from data and an estimator's options."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from knotwise.errors import FitWarning, InvalidInputError
from knotwise.estimators.options import kernel_from, likelihood_from, nugget_from, parameter_table, power_from
from knotwise.estimators.scaling import Scaling
from knotwise.estimators.validation import check_count
from knotwise.evidence import Model, Rows
from knotwise.evidence.full import check_full_size
from knotwise.kernels.base import DataScale
from knotwise.knots.problem import Problem
from knotwise.likelihoods import Gaussian, Likelihood
from knotwise.means import mean_from
from knotwise.numerics.blocks import Serial
from knotwise.numerics.parameters import Part
from knotwise.optimize.base import optimizer_from

__all__ = ["assemble"]

FEW_EVENTS = 3


def assemble(
    options: Any,
    X: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray | None,
    size: np.ndarray | None,
    feature_names: list[str] | None,
) -> tuple[Problem, Scaling]:
    """Make the problem of a fit, in the engine's units, and the scaling that leads back.

    `options` is an estimator; every parameter that it leaves open starts at the scale of the data.
    """
    power, full = power_from(options.approximation)
    if full:
        check_full_size(len(X))
    likelihood = likelihood_from(options.likelihood)
    y = likelihood.check_targets(y, 1.0 if size is None else size)
    informative = _warn_if_empty(likelihood, y)
    scaling = Scaling.of(X, y, options.standardize, targets=likelihood.scales_targets)
    X, y = scaling.inputs(X), scaling.targets(y)
    latent_variance = (float(y.var()) or float((y**2).mean()) or 1.0) if likelihood.scales_targets else 1.0
    largest = 1e5 if likelihood.scales_targets else 1e3  # on a link's scale a sd of 30 is certainty already
    scale = DataScale(_spread(X), latent_variance, largest)

    asked = scaling.to_engine(
        Model(
            kernel_from(options.kernel, feature_names, X.shape[1]),
            likelihood,
            mean_from(options.mean),
            power,
            nugget_from(options.nugget, likelihood),
        )
    )
    noise = None if noise is None else noise / scaling.y_scale**2
    level = asked.likelihood.constant_start(y, 1.0 if size is None else size)
    second_moment = float((y**2).mean()) or 1.0
    model = Model(
        asked.kernel.start(scale),
        asked.likelihood.start(float(y.var()) or second_moment) if noise is None else Gaussian(float(noise.mean())),
        asked.mean.bind(X, second_moment if likelihood.scales_targets else 1.0, level),
        power,
        asked.nugget.start(latent_variance),
    )

    held = ["noise_variance"] if noise is not None else []
    if asked.mean.size and (not informative or getattr(asked.mean, "mean", None) is not None):
        held.append("mean")
    if asked.nugget.size and asked.nugget.nugget is not None:
        held.append("nugget")
    bounds = np.vstack(
        [
            model.kernel.bounds(scale),
            model.likelihood.bounds(float(y.var()) or second_moment),
            model.nugget.bounds(latent_variance),
        ]
        + [_mean_bounds(likelihood, y, level)] * model.mean.size
    )
    table = parameter_table(
        model, bounds, scaling, fixed=options.fixed, bounds=options.bounds, held=held, keep=options.optimizer is None
    )
    problem = Problem(
        model,
        Rows(X, y, noise, model.mean.basis(X), size),
        table,
        optimizer_from(options.optimizer),
        Serial(),
        given=np.concatenate([_given(part) for part in asked.parts]),
        jitter=_checked_jitter(options.jitter),
        block_size=None if options.block_size is None else check_count(options.block_size, "block_size", least=1),
        n_restarts=check_count(options.n_restarts, "n_restarts", least=0),
        full=full,
        scale_inputs=scaling.inputs,
    )
    return problem, scaling


def _mean_bounds(likelihood: Likelihood, y: np.ndarray, level: float) -> np.ndarray:
    """Bounds of a constant mean: well beyond the data where f is on their scale, e^20 to each side on a log scale."""
    if not likelihood.scales_targets:
        return np.array([level - 20.0, level + 20.0])
    low, high = float(y.min()), float(y.max())
    reach = 3 * (high - low) or 1.0
    return np.array([low - reach, high + reach])


def _warn_if_empty(likelihood: Likelihood, y: np.ndarray) -> bool:
    """Warn where counts or labels hardly differ: nothing can be learned from them, and the mean is then held."""
    if not likelihood.discrete:
        return True
    n_different = int((y != np.median(y)).sum())
    if n_different < FEW_EVENTS and len(y) > FEW_EVENTS:
        warnings.warn(
            f"All but {n_different} of the {len(y)} targets are {np.median(y):g}: the data carry little information, "
            "so predictions rest on the prior. The mean is held at the overall level.",
            FitWarning,
            stacklevel=6,
        )
        return False
    return True


def _spread(X: np.ndarray) -> np.ndarray:
    """Standard deviation of each column; a constant one tells nothing and takes the mean of the others."""
    spread = X.std(0)
    varying = spread[spread > 0]
    return np.where(spread > 0, spread, varying.mean() if len(varying) else 1.0)


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
