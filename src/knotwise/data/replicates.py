"""Sample weights are relative where a dispersion is learned; equal rows are replicates or copies of one observation."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from knotwise.errors import warn
from knotwise.likelihoods.base import Likelihood
from knotwise.nugget import Nugget

__all__ = ["EqualRows", "dispersion_names"]

#: replicates differ at their place at least so often, relative to targets of different places: copies of rows that
#: hardly share their places are not taken for replicates where some do
LEAST_MIXED = 0.5
#: rounding makes targets of one place equal at most so many times as often as neighbouring values, or as elsewhere. It
#: is 0.3 to 1.6 for steps up to 2 sd of the noise, and at least 2.9 for bootstrap samples of 40 places with 5 targets.
MOST_EQUAL = 2.0
#: as many different rows do not all occur a multiple of m times by chance: the whole data were copied m times
LEAST_COPIED = 10
#: means of the given weights between these are not worth a word
UNREMARKABLE = (1 / 3, 3.0)


def dispersion_names(likelihood: Likelihood, nugget: Nugget) -> list[str]:
    """Names of the noise, scale, shape, dispersion or nugget of a model: what copies of observations would hide."""
    parameters = [*likelihood.flat_parameters(), *nugget.flat_parameters()]
    return [p.name for p in parameters if p.role in ("noise", "shape", "nugget")]


@dataclass
class EqualRows:
    """How rows of equal inputs agree, in numbers of rows and of pairs of rows; those of several partitions add up.

    A place is what rows have beside their target: inputs and exposure. `weight` is that of all rows, of which
    `n_distinct` differ in place or target. All other numbers are of the `n_single` rows that are left where the whole
    data occur several times: `repeats` are the rows of each place but one, `mixed` those of them whose place has
    different targets. Of the pairs of rows `here`, at one place, `equal_here` have the same target and `next_here`
    neighbouring ones among all that occur; of those `elsewhere`, at different places, `equal_elsewhere`.
    """

    n_rows: int
    n_distinct: int
    weight: float
    n_single: int
    repeats: float = 0.0
    mixed: float = 0.0
    here: float = 0.0
    equal_here: float = 0.0
    next_here: float = 0.0
    elsewhere: float = 0.0
    equal_elsewhere: float = 0.0

    @staticmethod
    def of(weight: float, counts: np.ndarray, place: np.ndarray, y: np.ndarray) -> EqualRows:
        """Count in distinct rows, [n] each: how often each occurs, the number of its place, its target."""
        n_rows = int(counts.sum())
        counts = counts // (np.gcd.reduce(counts) if len(counts) >= LEAST_COPIED else 1)
        values = np.unique(y, return_inverse=True)[1]
        order = np.lexsort([values, place])
        place, values, n = place[order], values[order], counts[order].astype(float)
        at_place, of_value, n_targets = np.bincount(place, n), np.bincount(values, n), np.bincount(place)
        following = (place[1:] == place[:-1]) & (values[1:] == values[:-1] + 1)
        squares = float(n @ n)
        return EqualRows(
            n_rows,
            len(y),
            weight,
            int(n.sum()),
            repeats=float((at_place - 1).sum()),
            mixed=float((at_place - 1)[n_targets > 1].sum()),
            here=float((at_place * (at_place - 1)).sum()) / 2,
            equal_here=(squares - float(n.sum())) / 2,
            next_here=float((n[1:] * n[:-1])[following].sum()),
            elsewhere=(float(n.sum()) ** 2 - float(at_place @ at_place)) / 2,
            equal_elsewhere=(float(of_value @ of_value) - squares) / 2,
        )

    @staticmethod
    def all_different(n_rows: int, weight: float) -> EqualRows:
        """Rows of which no two are equal, or nobody asks whether they are."""
        return EqualRows(n_rows, n_rows, weight, n_rows)

    def __iadd__(self, other: EqualRows) -> EqualRows:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self

    @property
    def are_replicates(self) -> bool:
        """Whether equal rows are observations that agree by rounding, and not copies of one observation.

        Rounding makes targets of one place equal now and then, as it does at different places, and neighbouring ones
        are about as frequent. Copies are equal at places that have no other target, or more often than rounding does.
        """
        by_chance = self.equal_elsewhere / self.elsewhere if self.elsewhere else 0.0
        if self.mixed == 0 or self.mixed < LEAST_MIXED * (1 - by_chance) * self.repeats:
            return False
        return self.equal_here <= MOST_EQUAL * (self.next_here + by_chance * self.here)

    @property
    def mean_weight(self) -> float:
        """The mean of the weights that were given, 1 without."""
        return self.weight / self.n_rows

    @property
    def unit(self) -> float:
        """The weight of one observation: the mean of all rows, of which copies are one.

        Rows of weight w and rows that occur w times have the same merged weights and, as copies, the same unit: they
        are the same fit. Replicates count each.
        """
        return self.weight / (self.n_single if self.are_replicates else self.n_distinct)

    def tell(self, names: list[str]) -> None:
        """Warn of weights whose mean is far from 1, with what to write instead."""
        low, high = UNREMARKABLE
        if low <= self.mean_weight <= high:
            return
        means = "; for means of n measurements of variance s2, give `noise_variance=s2 / n`"
        warn(
            f"`sample_weight` has a mean of {self.mean_weight:.3g}. In a model with {' and '.join(names)} weights are "
            "relative, so these were divided by their mean; `sample_weight=w / w.mean()` says the same without this "
            "warning. If they are numbers of observations that rounding made equal, repeat the rows, "
            f"`np.repeat(X, w, axis=0)`{means if names == ['noise_variance'] else ''}."
        )
