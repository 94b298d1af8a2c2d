"""How far from the data a model was tested, in words, and the one warning of predictions that lie farther away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import numpy as np

from knotwise.decisions.thresholds import EXTRAPOLATION
from knotwise.decisions.validation import KINDS, describe
from knotwise.errors import warn
from knotwise.posterior.base import Posterior

_quiet: ContextVar[bool] = ContextVar("predictions that nobody has asked for", default=False)


@contextmanager
def without_extrapolation_warning() -> Iterator[None]:
    """For predictions that the library makes for pictures, averages and scores: nobody is told where they lie."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


@dataclass
class Warned:
    """Whether something was said; several models may share it, so that it is said once."""

    yet: bool = False


@dataclass(frozen=True)
class Tested:
    """What the validation rows of the chosen kernel said, as the numbers of that decision; NaN where there were none.

    Mean log densities `near` the others, in a `gap`, `beyond` the others, or as far as was `asked` for, of y in the
    engine's units; `reach`, how far from the data rows were judged, in length-scales; and `share`, the largest share of
    the prior variance of f that was left at one of them, or is at a row of the fit.
    """

    near: float = np.nan
    gap: float = np.nan
    beyond: float = np.nan
    asked: float = np.nan
    reach: float = np.nan
    share: float = np.nan

    @staticmethod
    def of(numbers: Mapping[str, float]) -> Tested | None:
        """From the numbers of a decision; None where no rows were judged."""
        known = {name: float(numbers[name]) for name in Tested.__dataclass_fields__ if name in numbers}
        return Tested(**known) if np.isfinite([known.get(kind, np.nan) for kind in (*KINDS, "asked")]).any() else None

    def in_words(self, y_scale: float, target: str = "y") -> str:
        """The numbers as the trace has them."""
        means = {kind: getattr(self, kind) for kind in (*KINDS, "asked") if np.isfinite(getattr(self, kind))}
        unit = "" if y_scale == 1.0 else f" ({target} in standard deviations)"
        return f"{describe(means, self.reach)}{unit}"

    def and_at(self, posterior: Posterior, X: np.ndarray) -> Tested:
        """The same for a posterior that leaves more of the prior variance at rows X of its own fit, as few knots do."""
        left = posterior.share_left(X, posterior.latent(X).variance)
        return replace(self, share=float(max(self.share, left.max(initial=0.0))))

    @property
    def limit(self) -> float:
        """The share of the prior variance above which a place is clearly farther than all that was tested; infinite
        where nothing is.
        """
        if not self.share < EXTRAPOLATION.nearly_all:
            return np.inf
        return max(EXTRAPOLATION.least_share, 1.0 - EXTRAPOLATION.known * (1.0 - self.share))

    def warn_of(self, shares: np.ndarray, warned: Warned) -> None:
        """Warn once of places [n] at which more of the prior variance is left than anywhere a row was judged."""
        n_far = 0 if warned.yet or _quiet.get() else int((shares > self.limit).sum())
        if n_far <= EXTRAPOLATION.few_places * len(shares):
            return
        warned.yet = True
        reached = "" if np.isnan(self.reach) else f" (up to {self.reach:.2g} length-scales from the data)"
        places, lie, there = ("place", "lies", "it") if len(shares) == 1 else ("places", "lie", "them")
        advice = (
            "To have the kernel judged by rows as far away, write `fit(..., predict_at=places)` with the places where "
            "predictions are wanted."
            if np.isnan(self.asked)
            else "No rows of these data are as far from enough others, so that `predict_at` could not have them judged."
        )
        warn(
            f"{n_far:,} of {len(shares):,} {places} {lie} farther from the data than the model was tested: up to "
            f"{shares.max():.0%} of the prior variance of f is left at {there}, and at most {self.share:.0%} where "
            f"rows were judged{reached}. Predictions there rest on the prior and the kernel. {advice}"
        )
