"""The result of `certify`: bounds, and what follows from them for means and variances."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Certificate", "variance_ratios"]


@dataclass(frozen=True)
class Certificate:
    """What is certain of a fit's distance from the exact GP with the same parameters; shown when printed.

    Values are natural logarithms, in the units of y as `log_evidence_`. What cannot be certified is None, and `words`
    say why.

    Attributes
    ----------
    model : str
        What was fitted.
    fitted : float
        The fit's own `log_evidence_`. Only under VFE it is a bound.
    lower : float or None
        The exact GP's log evidence is at least this.
    upper : float or None
        The exact GP's log evidence is at most this.
    variational_upper : float or None
        Variational inference without knots, with the best Gaussian posterior of the exact GP, reaches at most this.
    posterior_lower : float or None
        The bound of the log evidence that the fit's own posterior has.
    n_knots : int
        Largest number of knots through which the bounds were computed: those of the fit, and more for the bounds alone.
    words : tuple of str
        What is certified, and what is not.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
    >>> certificate = GPRegressor(knots=6, random_state=0).fit(X, y).certify()
    >>> certificate.lower <= certificate.upper, certificate.gap < 0.1
    (True, True)
    """

    model: str
    fitted: float
    lower: float | None
    upper: float | None
    variational_upper: float | None
    posterior_lower: float | None
    n_knots: int
    words: tuple[str, ...] = field(default=(), repr=False)

    @property
    def gap(self) -> float | None:
        """Distance of the two bounds in nats.

        The upper one is of the evidence or, without one, of full variational inference.
        """
        top = self._top
        return None if top is None or self.lower is None else max(top - self.lower, 0.0)

    @property
    def kl_bound(self) -> float | None:
        """Largest divergence of the fit's posterior from that of the exact GP, in nats (C3).

        Where only `variational_upper` is known, from the posterior of full variational inference (C5).
        """
        top = self._top
        return None if top is None or self.posterior_lower is None else max(top - self.posterior_lower, 0.0)

    @property
    def mean_bound(self) -> float | None:
        """At every x the latent mean is off by at most so many posterior standard deviations of the exact GP."""
        return None if self.kl_bound is None else float(np.sqrt(2.0 * self.kl_bound))

    @property
    def mean_bound_fitted(self) -> float | None:
        """The same in standard deviations of the fit, those of `predict_latent`."""
        if self.kl_bound is None:
            return None
        with np.errstate(over="ignore"):
            return float(np.sqrt(np.expm1(2.0 * self.kl_bound)))

    @property
    def variance_bounds(self) -> tuple[float, float] | None:
        """At every x the fit's latent variance over that of the exact GP is between these."""
        return None if self.kl_bound is None else variance_ratios(self.kl_bound)

    @property
    def _top(self) -> float | None:
        return self.variational_upper if self.upper is None else self.upper

    def __str__(self) -> str:
        from textwrap import TextWrapper

        wrapper = TextWrapper(110, initial_indent="  ", subsequent_indent="  ")
        lines = [self.model, *(f"  {name:<44}{_number(value)}" for name, value in self._table())]
        return "\n".join(lines + [line for words in self.words for line in wrapper.wrap(words)])

    def __repr__(self) -> str:
        return str(self)

    def _table(self) -> list[tuple[str, float | None]]:
        top = ("upper bound", self.upper)
        if self.upper is None and self.variational_upper is not None:
            top = ("upper bound of full variational inference", self.variational_upper)
        return [
            ("log evidence of the fit", self.fitted),
            ("lower bound of the exact GP's log evidence", self.lower),
            top,
        ]


def variance_ratios(kl: float) -> tuple[float, float]:
    """The smallest and the largest x with x - 1 - log x <= 2 kl (C3)."""
    if not kl > 0:
        return 1.0, 1.0
    from scipy.optimize import brentq

    def excess(t: float) -> float:
        return float(np.expm1(t)) - t - 2.0 * kl

    highest = float(np.log1p(4.0 * kl + 2.0 * np.sqrt(2.0 * kl)))
    return float(np.exp(brentq(excess, -1.0 - 2.0 * kl, 0.0))), float(np.exp(brentq(excess, 0.0, highest)))


def _number(value: float | None) -> str:
    return f"{'unknown':>14}" if value is None else f"{value:14.4f}"
