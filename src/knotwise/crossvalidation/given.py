"""The data of a cross-validation, and what is known of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from knotwise.data.exposure import check_noise_variance, check_size
from knotwise.data.observations import EqualRows
from knotwise.data.validation import as_finite_numbers, check_weights
from knotwise.errors import InvalidInputError
from knotwise.likelihoods.base import Likelihood
from knotwise.numerics.blocks import is_dask


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
