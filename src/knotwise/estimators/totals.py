"""Totals and averages over many rows, with intervals: how many trees are in this region?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knotwise.data.exposure import require
from knotwise.data.groups import GroupedRows, check_groups, check_total_weights
from knotwise.data.validation import check_count, check_jobs, check_level, generator_from
from knotwise.errors import unknown_option, warn
from knotwise.estimators.averaging import EngineInputs, weights_of
from knotwise.estimators.docstrings import documented
from knotwise.estimators.total_law import Response, Summed, mixed_spread
from knotwise.numerics.blocks import executor_for
from knotwise.numerics.tabular import make_frame
from knotwise.posterior.base import Latent
from knotwise.prediction import Prediction

#: share of a total's variance beyond which leaving it out is worth a warning
NOTICEABLE = 0.1
SHOWN = 20  # groups that a printed result shows
COLUMNS = ("group", "n_rows", "estimate", "lower", "upper", "sd", "left_out")


@documented
@dataclass(frozen=True, eq=False)
class Totals:
    """Totals or averages by group, with intervals; what `predict_total` returns. Arrays have an entry for each group.

    Attributes
    ----------
    group : array [G]
        The labels, sorted; "all" without groups.
    n_rows : array [G] of int
        Rows of each group.
    estimate : array [G]
        The expected total: the sum of the rows' `predict`, times their weights. Averages are divided by the weights'
        sum, as are the other numbers.
    lower, upper : array [G]
        Ends of the central interval.
    sd : array [G]
        Standard deviation of the total.
    left_out : array [G]
        Estimated share of the true variance that is not in `sd` and the interval: the residual of f is
        taken as independent from input to input, but is correlated between near ones. 0 for the exact GP, and for
        Gaussian data with neighbours.
    level : float
        Probability of the interval.
    kind : "mean" or "observation"
        What was added up: the mean response given f, or new observations.
    statistic : "sum" or "mean"
        Whether these are totals or averages.
    n_samples : int
        Samples that the interval is from; 0 where it has a closed form.

    Examples
    --------
    {counts}
    >>> totals = gp.predict_total(X, groups=np.repeat(["a", "b"], 12), random_state=0)
    >>> totals.group.tolist(), bool((totals.lower < totals.estimate).all())
    (['a', 'b'], True)
    >>> totals.to_frame().columns.tolist()
    ['group', 'n_rows', 'estimate', 'lower', 'upper', 'sd', 'left_out']
    """

    group: np.ndarray
    n_rows: np.ndarray
    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sd: np.ndarray
    left_out: np.ndarray
    level: float
    kind: str
    statistic: str
    n_samples: int

    def __len__(self) -> int:
        return len(self.group)

    def to_frame(self) -> Any:
        """The groups as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row for each group: `group`, `n_rows`, `estimate`, `lower`, `upper`, `sd` and `left_out`.
        """
        return make_frame({name: getattr(self, name) for name in COLUMNS})

    def __str__(self) -> str:
        labels = [str(label) for label in self.group[:SHOWN].tolist()]
        width = max(5, *map(len, labels))
        what = {"sum": "Totals", "mean": "Averages"}[self.statistic]
        of = {"mean": "the mean response", "observation": "new observations"}[self.kind]
        by = f"{self.n_samples:,} samples" if self.n_samples else "closed form"
        lines = [
            f"{what} of {of}, with {100 * self.level:g} % intervals ({by})",
            f"{'group':<{width}} {'rows':>9} {'estimate':>11} {'lower':>11} {'upper':>11} {'sd':>11} {'left out':>9}",
        ]
        for label, *numbers, left_out in zip(
            labels, self.n_rows, self.estimate, self.lower, self.upper, self.sd, self.left_out, strict=False
        ):
            count, *values = numbers
            row = " ".join(f"{value:11.5g}" for value in values)
            lines.append(f"{label:<{width}} {count:9,} {row} {left_out:9.1%}")
        if len(self) > SHOWN:
            lines.append(f"and {len(self) - SHOWN:,} more groups: `to_frame()` has them all")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def predict_total(
    model: Any,
    X: Any,
    *,
    exposure: Any,
    trials: Any,
    weights: Any,
    groups: Any,
    statistic: str,
    kind: str,
    level: float,
    noise_variance: Any,
    n_samples: int,
    random_state: Any,
) -> Totals:
    """What `GPRegressor.predict_total` does: see there."""
    if statistic not in ("sum", "mean"):
        raise unknown_option("`statistic`", statistic, ["sum", "mean"])
    if kind not in ("mean", "observation"):
        raise unknown_option("`kind`", kind, ["mean", "observation"])
    check_level(level)
    n_samples = check_count(n_samples, "n_samples", least=100)
    rng = generator_from(random_state)
    known = {"exposure": exposure, "trials": trials}
    if statistic == "sum":  # a sum of rates is no number of anything
        known = require(model, "gp.predict_total(X", **known)
    known |= {"noise_variance": noise_variance}
    if kind == "observation":
        known = require(model, "gp.predict_total(X, kind='observation'", **known)
    inputs = EngineInputs(model._engine_inputs(X))
    models = model._each
    predictions = [own._prediction(inputs, **known) for own in models]
    prediction = model._mixed(predictions)
    group = check_groups(groups, len(prediction))
    weights = check_total_weights(weights, group, statistic)
    rows = GroupedRows.of(inputs.X, group, weights, prediction.size)
    estimates = np.array([rows.sum_by_group((weights * each.mean)[rows.order]) for each in predictions])
    probabilities = weights_of(model._fit.members)
    estimate = estimates[0] if len(models) == 1 else probabilities @ estimates
    summed = [_summed(own, rows, each, kind) for own, each in zip(models, predictions, strict=True)]
    with executor_for(check_jobs(model.n_jobs)) as executor:
        spread = mixed_spread(summed, estimates, probabilities, level, n_samples, rng, executor)
        left_out = np.zeros(len(estimate))
        for one, probability in zip(summed, probabilities, strict=True):
            left_out += probability * one.left_out(spread.sd**2, rng)
    divisor = rows.sum_by_group(rows.weights) if statistic == "mean" else 1.0
    estimate, lower, upper, sd = (each / divisor for each in (estimate, spread.lower, spread.upper, spread.sd))
    about = float(level), kind, statistic, spread.n_samples
    result = Totals(group.labels, np.diff(rows.group_rows), estimate, lower, upper, sd, left_out, *about)
    _warn_of_left_out(result)
    return result


def _summed(model: Any, rows: GroupedRows, prediction: Prediction, kind: str) -> Summed:
    """What one model adds up."""
    latent = prediction.latent
    return Summed(
        model._fit.posterior,
        model._fit.scaling,
        rows,
        Response(prediction.components[0].likelihood, float(model.nugget_), kind),
        Latent(latent.mean[rows.order], latent.variance[rows.order]),
        np.maximum(prediction.variance - latent.variance, 0.0)[rows.order],
    )


def _warn_of_left_out(totals: Totals) -> None:
    worst = int(np.argmax(totals.left_out))
    share = float(totals.left_out[worst])
    if share <= NOTICEABLE:
        return
    n_bad = int((totals.left_out > NOTICEABLE).sum())
    where = "" if len(totals) == 1 else f" of {n_bad} of {len(totals)} groups (most: {totals.group.tolist()[worst]!r})"
    wider = 1 / np.sqrt(1 - share)
    warn(
        f"The intervals{where} are too narrow: the residual of the knots is taken as independent from row to row, "
        f"which leaves out about {share:.0%} of the variance, so that the interval should be {wider:.2f} times as "
        "wide. Fit with more knots, or with `approximation='full'` for up to some thousand rows."
    )
