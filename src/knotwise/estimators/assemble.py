"""Put a problem together from data and an estimator's options."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwise.data.exposure import NoiseRemarks
from knotwise.data.observations import dispersion_names
from knotwise.data.scaled import LinkScale, ScaledData, TrainingData
from knotwise.data.scaling import Scaling, refuse_mixed_scales
from knotwise.data.validation import check_count
from knotwise.decisions.thresholds import HYPERPARAMETERS, INFORMATION, KERNEL, VALIDATION, VARYING_NOISE
from knotwise.errors import InvalidInputError, warn
from knotwise.estimators.options import (
    inference_from,
    kernel_from,
    likelihood_from,
    neighbors_from,
    nugget_from,
    optimizer_from,
    parameter_table,
    power_from,
)
from knotwise.estimators.prior_options import with_priors
from knotwise.evidence import Model
from knotwise.evidence.inference import NAMED
from knotwise.kernels.base import DataScale, Kernel
from knotwise.kernels.stationary import SquaredExponential
from knotwise.likelihoods import Gamma, Gaussian, Likelihood
from knotwise.means import Constant, Linear, Mean, mean_from
from knotwise.noise import NoNugget, Nugget
from knotwise.numerics.blocks import Executor
from knotwise.numerics.parameters import ParameterTable, flat_names
from knotwise.selection.places import KnotPlaces
from knotwise.selection.problem import Problem, Run


@dataclass(frozen=True)
class KernelMaker:
    """Makes the problem of a fit for another kernel, from plain parts: it can be pickled.

    `wanted` is the model in the user's units, `asked` the same in the engine's, with the values that a user gave, and
    `model` that with the data's values for the others. `other_bounds` are those of all parts but the kernel, `table`
    what the user said of parameters, and `rest` the other fields of the problem. `trend` is a linear mean, where the
    constant one may be replaced by it.
    """

    wanted: Model
    asked: Model
    model: Model
    scaling: Scaling
    scale: DataScale
    other_bounds: list[np.ndarray]
    table: dict[str, Any]
    latent_variance: float
    columns: Sequence[str] | None
    n_columns: int
    run: Run
    rest: dict[str, Any]
    trend: Mean | None = None

    def with_trend(self) -> KernelMaker | None:
        """The same with a linear trend instead of a constant mean; None where there may be none."""
        if self.trend is None:
            return None
        rows = self.run.blocks.take(slice(None))
        blocks = self.run.blocks.at_driver(replace(rows, basis=self.trend.basis(rows.X)))
        model, run = replace(self.model, mean=self.trend), replace(self.run, blocks=blocks)
        return replace(self, model=model, run=run, trend=None)

    def __call__(self, kernel: Kernel) -> Problem:
        bound = replace(self.wanted, kernel=kernel.bind(self.columns, self.n_columns))
        asked = self.scaling.to_engine(bound).kernel
        model = replace(self.model, kernel=asked.start(self.scale))
        given = np.concatenate([asked.given, *(part.given for part in self.asked.parts[1:])])
        bounds = np.vstack([model.kernel.bounds(self.scale), *self.other_bounds])
        table = parameter_table(model, bounds, self.scaling, given=given, columns=self.columns or (), **self.table)
        if self.table["priors"] is not None:
            table = with_priors(table, self.table["priors"], self.scaling, self.latent_variance)
        return Problem(model, table, self.run, given=np.isfinite(given), **self.rest)

    def of_log_noise(self, kernel: Kernel) -> Problem:
        """The problem of the log noise variance under a kernel: squared errors, whose law is gamma of shape 1/2 (H1).

        It has no targets yet. Its level is a point estimate, as that of a constant noise is, so that the two compare.
        """
        bound = replace(self.wanted, kernel=kernel.bind(self.columns, self.n_columns))
        scale = DataScale(self.scale.spread, 1.0, VARYING_NOISE.largest)
        started = self.scaling.to_engine(bound).kernel.start(scale)
        inference = NAMED["variational"]
        model = Model(started, Gamma(0.5), Constant(prior_sd=None), power=0.0, inference=inference)
        n_columns = len(self.scaling.x_scale)
        names, parameters = tuple(flat_names(model.names)), model.flat_parameters(n_columns)
        level = np.array([[-VARYING_NOISE.log_reach, VARYING_NOISE.log_reach]])
        bounds = np.vstack([started.bounds(scale), Gamma(0.5).bounds(1.0), level])
        values = np.where([p.positive for p in parameters], np.exp(model.theta), model.theta)
        low, high = bounds.T
        owners = tuple(model.owners)
        table = ParameterTable(names, parameters, values, low, high, np.array(owners) == "likelihood", owners)
        rest = {"places": self.rest["places"], "scale_inputs": self.rest["scale_inputs"]}
        optimizer = VARYING_NOISE.search
        return Problem(model, table, self.run, optimizer, given=np.zeros(len(names), bool), **rest)


@dataclass(frozen=True)
class Assembly:
    """The problem of a fit in the engine's units, the scaling that leads back, and the numbers of its rows.

    `with_kernel` makes the same problem for another kernel. `noise_remarks` are what is to be said of known noise, and
    `little_information` says that counts or labels hardly differ, or other targets not at all.
    """

    problem: Problem
    scaling: Scaling
    row_numbers: np.ndarray | None
    with_kernel: KernelMaker
    noise_remarks: NoiseRemarks
    little_information: bool = False


def assemble(
    options: Any,
    data: TrainingData,
    feature_names: Sequence[str] | None,
    executor: Executor,
    places: np.ndarray | None = None,
    likelihood: Likelihood | None = None,
) -> Assembly:
    """Make the problem of a fit.

    `options` is an estimator; every parameter that it leaves open starts at the scale of the data. The rows are those
    of the data, sorted and each once (see `Observations.merged`). `places` [M, D] are where predictions are wanted.
    `likelihood` is one of those among which the option leaves the choice.
    """
    power, full = power_from(options.approximation, "fic" if options.inference == "ep" else "vfe")
    likelihood = likelihood_from(options.likelihood) if likelihood is None else likelihood
    if likelihood.conjugate:
        power, full = power_from(options.approximation)
    encoding = options._encoding
    if encoding is not None:
        feature_names = encoding.columns
    nugget = nugget_from(options.nugget, likelihood)
    seen = data.scaled(options.standardize, likelihood, full=full, dispersion=dispersion_names(likelihood, nugget))
    scaling, n_columns = seen.scaling, data.n_columns
    variance = seen.variance
    link = LinkScale(variance) if likelihood.scales_targets else seen.on_link(likelihood.start(variance))
    latent_variance = link.variance
    largest = 1e5 if likelihood.scales_targets else 1e3  # on a link's scale a sd of 30 is certainty already
    scale = DataScale(seen.spread, latent_variance, largest)

    kernel = kernel_from(options.kernel, feature_names, n_columns)
    refuse_mixed_scales(kernel, scaling.columns(feature_names or ()))
    mean = mean_from(options.mean).on_columns(feature_names, n_columns)
    if not nugget.size and options.optimizer is not None:
        nugget = _least_nugget(link)
    quick = options.inference == "auto" and getattr(options, "noise", None) == "heavy"
    inference = "mixture" if quick else options.inference
    wanted, surrogate = inference_from(inference, Model(kernel, likelihood, mean, power, nugget))
    asked = scaling.to_engine(wanted)
    level = seen.level(asked.likelihood)
    typical_noise = seen.typical_noise
    model = replace(
        asked,
        kernel=asked.kernel.start(scale),
        likelihood=asked.likelihood.start(variance) if typical_noise is None else Gaussian(typical_noise),
        mean=seen.bind(asked.mean, latent_variance, level, on_link=not likelihood.scales_targets),
        nugget=asked.nugget.start(latent_variance),
    )

    held = ["likelihood"] if typical_noise is not None else []  # which has no other parameter than the noise
    given_mean = bool(np.isfinite(asked.mean.given).any())
    information = _information_in(likelihood, seen, learned_mean=not given_mean and model.mean.size > 0)
    if information == "nothing" or given_mean:
        held.append("mean")
    if np.isfinite(asked.nugget.given).any():
        held.append("nugget")
    other_bounds = [
        model.likelihood.bounds(variance),
        model.nugget.bounds(latent_variance),
        *[_mean_bounds(likelihood, seen.target_range, level)] * model.mean.size,
    ]
    block_size = None if options.block_size is None else check_count(options.block_size, "block_size", least=1)
    blocks = seen.blocks(model.mean, executor, block_size)
    low, high = seen.target_range
    if low == high and not likelihood.discrete and options.optimizer is not None:
        information = "little"
        if typical_noise is None:
            _warn_of_equal(scaling.y_centre + scaling.y_scale * low, blocks.summary.count, likelihood)
    n_neighbors = neighbors_from(options.n_neighbors, options, likelihood)
    rest: dict[str, Any] = {
        "optimizer": optimizer_from(options.optimizer),
        "jitter": _checked_jitter(options.jitter),
        "n_restarts": check_count(options.n_restarts, "n_restarts", least=0),
        "full": full,
        "surrogate": surrogate,
        "may_be_exact": options.approximation is None and options.inference != "ep",
        "n_neighbors": n_neighbors if blocks.at_hand else 0,  # a number was refused for rows elsewhere
        "scale_inputs": scaling.inputs,
        "asked": None if places is None else scaling.inputs(_some(places)),
        "places": KnotPlaces() if encoding is None else KnotPlaces.of(encoding.columns, scaling.x_scale),
    }

    trend = None
    few = n_columns <= KERNEL.most_slopes and blocks.summary.n_rows <= HYPERPARAMETERS.many_rows
    if options.kernel is None and options.mean == "constant" and blocks.at_hand and few:
        with suppress(InvalidInputError):  # no column is one of numbers
            linear = Linear().on_columns(feature_names, n_columns)
            trend = seen.bind(linear, latent_variance, level, on_link=not likelihood.scales_targets)
    said = {"fixed": options.fixed, "bounds": options.bounds, "priors": options.priors}
    said |= {"held": held, "keep": options.optimizer is None}
    run = Run(blocks)
    make = KernelMaker(
        wanted,
        asked,
        model,
        scaling,
        scale,
        other_bounds,
        said,
        latent_variance,
        feature_names,
        n_columns,
        run,
        rest,
        trend,
    )
    problem = make(SquaredExponential() if options.kernel is None else options.kernel)
    return Assembly(problem, scaling, seen.numbers, make, seen.noise_remarks, information != "enough")


def _some(places: np.ndarray) -> np.ndarray:
    """Places where predictions are wanted; of very many a random sample, the same in every fit."""
    if len(places) <= VALIDATION.most_asked:
        return places
    return places[np.random.default_rng(0).choice(len(places), VALIDATION.most_asked, replace=False)]


def _least_nugget(link: LinkScale) -> Nugget:
    """None, or where an observation says more of the latent function than sums keep of it, a small one; warns of it.

    As the floor of a Gaussian noise variance: with W times the variance of the function near 1 / eps the covariance
    matrix of the observations is singular to rounding, and so is its residual.
    """
    if link.precision * link.variance < INFORMATION.most_certain:
        return NoNugget()
    floor = INFORMATION.nugget_floor * link.variance
    warn(
        f"The largest target determines the latent function to {link.precision**-0.5:.0e}, more closely than it can be "
        f"computed over a range of {np.sqrt(link.variance):.1g}: a nugget of variance {floor:.0e} was added. "
        "Give `nugget` for another one."
    )
    return Nugget(floor)


def _mean_bounds(likelihood: Likelihood, target_range: tuple[float, float], level: float) -> np.ndarray:
    """Bounds of a constant mean: well beyond the data where f is on their scale, e^20 to each side on a log scale."""
    if not likelihood.scales_targets:
        return np.array([level - 20.0, level + 20.0])
    low, high = target_range
    reach = 3 * (high - low) or 1.0
    return np.array([low - reach, high + reach])


def _information_in(likelihood: Likelihood, seen: ScaledData, *, learned_mean: bool) -> str:
    """How much the targets tell: "enough", "little", or "nothing" by which a mean could be learned. Warns of the last
    two, where counts or labels hardly differ.
    """
    if not likelihood.discrete:
        return "enough"
    median, n_rows, n_different = seen.differing()
    almost_none = n_different < INFORMATION.no_events and n_rows > INFORMATION.no_events
    few = 0 < n_different <= INFORMATION.few_events and n_rows >= INFORMATION.rows_per_event * n_different
    if almost_none or few:
        warn(
            f"All but {n_different} of the {n_rows} targets are {median:g}: the data carry little information, "
            "so predictions rest on the prior."
            + (" The mean is held at the overall level." if almost_none and learned_mean else "")
        )
    return "nothing" if almost_none else "little" if few else "enough"


def _warn_of_equal(target: float, n_rows: int | float, likelihood: Likelihood) -> None:
    """Say that parameters cannot be learned from targets without a difference."""
    who = "One row tells" if n_rows == 1 else f"All {n_rows} targets are {target:g}: they tell"
    advice = " If the noise is known, give it: `fit(X, y, noise_variance=...)`." if likelihood.conjugate else ""
    warn(
        f"{who} nothing of the noise, nor of how much the function varies, so that intervals rest on the prior, whose "
        f"scale is the size of the target.{advice}"
    )


def _checked_jitter(jitter: Any) -> float | None:
    if jitter is None:
        return None
    if isinstance(jitter, bool) or not isinstance(jitter, int | float | np.number) or not 0 <= jitter < 1:
        raise InvalidInputError(f"`jitter` is {jitter!r}; it must be a number from 0 up to 1, or None.")
    return float(jitter)
