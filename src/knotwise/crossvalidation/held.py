"""The data of a cross-validation, and predictions of left-out rows by a fitted model whose parameters stay."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from knotwise.crossvalidation.folds import Fold
from knotwise.data.exposure import UsableNoise, check_noise_variance, check_size
from knotwise.data.observations import EqualRows, Observations, dispersion_names
from knotwise.data.validation import as_finite_numbers, check_jobs, check_weights, generator_from
from knotwise.errors import InvalidInputError, KnotwiseError, warn
from knotwise.evidence import Rows, full_evidence
from knotwise.likelihoods.base import Likelihood
from knotwise.numerics.blocks import executor_for, is_dask
from knotwise.posterior.base import Latent


@dataclass(frozen=True)
class Given:
    """Inputs as the user gave them, and targets [N]; per row [N] or None: weights, exposure or trials, known noise."""

    X: Any
    targets: np.ndarray
    likelihood: Likelihood
    weights: np.ndarray | None
    size: np.ndarray | None
    known_noise: np.ndarray | None

    @staticmethod
    def checked(
        X: Any, y: Any, likelihood: Likelihood, sample_weight: Any, exposure: Any, trials: Any, noise_variance: Any
    ) -> Given:
        """The data, as far as all rows are looked at together; what is wrong in a row is told by its number here."""
        if any(map(is_dask, (X, y, sample_weight, exposure, trials, noise_variance))):
            raise InvalidInputError(
                "Cross-validation takes rows that are here, but got a Dask collection. Give rows that fit in memory "
                "(`X.compute()`), for example some of them."
            )
        targets = as_finite_numbers(y, "y")
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if targets.shape != (n_rows,):
            raise InvalidInputError(f"X has {n_rows} rows, but y has shape {targets.shape}: give one value per row.")
        weights = check_weights(sample_weight, n_rows)
        if weights is not None and not weights.all():
            raise InvalidInputError(
                f"`sample_weight` is 0 in row {int(np.argmin(weights))}, so that its prediction does not count. Leave "
                "such rows out."
            )
        size = check_size(likelihood, n_rows, exposure=exposure, trials=trials)
        targets = likelihood.check_targets(targets, 1.0 if size is None else size)
        return Given(X, targets, likelihood, weights, size, check_noise_variance(noise_variance, n_rows))

    def __len__(self) -> int:
        return len(self.targets)

    def with_relative_weights(self, dispersion: list[str]) -> Given:
        """The same with weights divided by their mean in a model with a dispersion, as in its fits; told once."""
        if self.weights is None or not dispersion or self.known_noise is not None:
            return self
        equal = EqualRows.all_different(len(self), float(self.weights.sum()))
        equal.tell(dispersion)
        return replace(self, weights=self.weights / equal.mean_weight)

    def take(self, rows: np.ndarray) -> Given:
        """Some rows."""

        def part(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[rows]

        X, y = _safe_indexing(self.X, rows), self.targets[rows]
        return Given(X, y, self.likelihood, part(self.weights), part(self.size), part(self.known_noise))

    @property
    def sizes(self) -> dict[str, Any]:
        """Exposure or trials by name, if there are any."""
        return {} if self.size is None else {str(self.likelihood.size_name): self.size}

    @property
    def for_prediction(self) -> dict[str, Any]:
        """What `predict` takes beside X."""
        return self.sizes | {"noise_variance": self.known_noise}

    @property
    def for_fit(self) -> dict[str, Any]:
        """What `fit` takes beside X and y."""
        return self.for_prediction | {"sample_weight": self.weights}


def with_knots_held(gp: Any, given: Given, folds: Sequence[Fold]) -> Latent:
    """Marginals of f at each row given the rows of other folds, at held parameters and knots.

    Only the rows change: units, priors of the trend and jitter are those of the fit. Gaussian data need one evaluation
    of all rows, and other data a search for sites for each fold.
    """
    fit, rows = gp._fit, engine_rows(gp, given)
    groups, labels = [fold.left_out for fold in folds], [fold.label for fold in folds]
    with executor_for(check_jobs(gp.n_jobs)) as executor:
        latents = fit.posterior.leave_out(rows, groups, executor, generator_from(gp.random_state), labels)
    return gp._in_units(_joined(folds, latents, len(rows)))


def with_knots_anew(gp: Any, given: Given, folds: Sequence[Fold]) -> Latent:
    """The same with knots, neighbours and exactness decided anew for each fold, at held parameters.

    The fold's model has the units and the encoding of the fitted one, so that its length-scales mean the same and its
    knots stay on levels and spheres.
    """
    from sklearn.base import clone

    fit, rows = gp._fit, engine_rows(gp, given)
    natural = fit.scaling.inputs_back(rows.X)
    held: dict[str, Any] = {
        "kernel": gp.kernel_,
        "likelihood": gp.likelihood_,
        "mean": gp.mean_ if fit.model.mean.size else gp.mean,  # a point estimate has a parameter, which is held too
        "nugget": gp.nugget_,
        "optimizer": None,
        "standardize": fit.scaling,  # with its warps
        "warp": None,
        "fixed": (),
        "bounds": None,
        "priors": None,
        "checkpoint": None,
        "average": False,
        "noise": "constant",  # or as it varies in the likelihood
    }
    columns = None if gp._encoding is None else gp._encoding.columns
    latents = []
    with executor_for(check_jobs(gp.n_jobs)) as executor:
        for fold in folds:
            train = fold.train(len(rows))
            rest = given.take(train)
            own = clone(gp).set_params(**held)
            for name in ("_encoding", "n_features_in_", "feature_names_in_", "crs_"):
                if hasattr(gp, name):
                    setattr(own, name, getattr(gp, name))
            data = Observations(
                natural[train], rest.targets, rest.known_noise, rest.size, rest.weights, columns=columns
            )
            own._fit_latent(data, has_size=rest.size is not None)
            latents.append(own._fit.posterior.latent(rows.X[fold.left_out], executor))
    return gp._in_units(_joined(folds, latents, len(rows)))


def engine_rows(gp: Any, given: Given) -> Rows:
    scaling, model = gp._fit.scaling, gp._fit.model
    X = gp._engine_inputs(given.X)
    data = Observations(X, given.targets, given.known_noise, given.size, given.weights).checked_for(gp.likelihood_)
    y = scaling.targets(data.y)
    unit = data.merged().unit(dispersion_names(model.likelihood, model.nugget))
    rows = Rows(X, y, None, model.mean.basis(X), given.size, data.weighted_in(unit).weights)
    if data.noise is None:
        return rows
    noise = UsableNoise.of(data.noise, None, scaling.y_scale, float(y.var()) or 1.0)
    rows = replace(rows, noise_variance=noise.raised, given_noise=noise.given)
    remark = noise.remarks.through_knots
    if remark and gp._fit.posterior.is_exact:
        with suppress(KnotwiseError):  # as in the fit, where the matrix of the rows may have no factor with it
            full_evidence(model, rows.as_given, gradient=False)
            rows, remark = rows.as_given, noise.remarks.exact
    if remark:
        warn(remark)
    return rows


def _joined(folds: Sequence[Fold], latents: Sequence[Latent], n_rows: int) -> Latent:
    """What is known of each row that was tested."""
    mean, variance = np.empty(n_rows), np.empty(n_rows)
    for fold, latent in zip(folds, latents, strict=True):
        tested = np.searchsorted(fold.left_out, fold.test)
        mean[fold.test], variance[fold.test] = latent.mean[tested], latent.variance[tested]
    return Latent(mean, variance)
