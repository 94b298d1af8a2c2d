"""Predictions in which rows depend on each other: totals with intervals, and joint samples of observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise.data.exposure import exposure_of, require
from knotwise.data.validation import generator_from
from knotwise.estimators.base import LatentGP
from knotwise.estimators.docstrings import documented
from knotwise.likelihoods.base import Likelihood

if TYPE_CHECKING:
    from knotwise.estimators.totals import Totals

__all__ = ["JointResponse"]


@documented
class JointResponse(LatentGP):
    """A latent Gaussian process with a response at each row, whose rows are added up or drawn together."""

    def predict_total(
        self,
        X: Any,
        exposure: Any = None,
        trials: Any = None,
        weights: Any = None,
        groups: Any = None,
        statistic: str = "sum",
        kind: str = "mean",
        level: float = 0.95,
        noise_variance: Any = None,
        n_samples: int = 2000,
        random_state: Any = None,
        offset: Any = None,
    ) -> Totals:
        """Totals or averages over the rows of X, by groups, with intervals: how many trees are in this region?

        Rows are joint: they share what is not known of f, so that the interval of a total is wider than one of
        independent rows would be. Time grows in proportion to the rows, and memory hardly, for models with knots; the
        exact GP can do groups of up to 10,000 distinct inputs. With neighbours, what these leave open is joint too; in
        groups of more than 1,000 distinct inputs, as far as 1,000 random ones of them tell. Neither the order of the
        rows nor `n_jobs` matters.

        Parameters
        ----------
        X : array or data frame [n, D]
            Inputs of the rows to add up, for example the cells of a map.
        exposure, trials : float or array [n], optional
            Of each row, for counts: the area of each cell. Needed if the fit had them, except for averages of the mean,
            which are of rates without them.
        weights : float or array [n], optional
            How often each row counts, 1 by default. The mean of a row of weight 2 is that of the row twice; a new
            observation of weight 2 is one observation, counted twice. Weights of sums may be negative, for differences.
        groups : array, Series or Categorical [n], optional
            A label for each row; None adds up all rows.
        statistic : "sum" or "mean", default "sum"
            Averages are sums divided by the sum of the weights: rows count equally unless `weights` say otherwise. The
            rate of a region is the average with the areas as `weights`, without `exposure`.
        kind : "mean" or "observation", default "mean"
            What is added up: the mean response given f, whose interval says how well the surface is known; or new
            observations, with their own noise. The nugget's effect on the mean (e^(nugget/2) for counts) is in both;
            its random part, drawn for each row, is that of observations only.
        {level}
        {noise_variance}
        n_samples : int, default 2000
            Samples for the interval, where there is no closed form (Gaussian data, and the mean of Student-t data, have
            one). With 2,000 an end of a 95 % interval has a standard error of 1.6 % of the interval's width.
        random_state : int, Generator, optional
            The same number gives the same result.
        {offset}

        Returns
        -------
        Totals
            `estimate`, `lower`, `upper`, `sd` and `left_out` for each `group`, in sorted order; `to_frame()` is a
            table. The estimate is the sum of what `predict` gives. `left_out` is the share of the variance that is
            missing because what the knots leave open is taken as independent from row to row; there is a warning where
            it is more than 10 %. It is 0 for the exact GP, and for Gaussian data with neighbours.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> X = np.linspace(0, 1, 60)[:, None]
        >>> counts = np.random.default_rng(0).poisson(5 + 4 * np.sin(6 * X[:, 0]))
        >>> gp = GPRegressor(likelihood="poisson", knots=8, random_state=0).fit(X, counts)
        >>> halves = np.where(X[:, 0] < 0.5, "left", "right")
        >>> totals = gp.predict_total(X, groups=halves, kind="observation", random_state=0)
        >>> totals.group.tolist(), totals.n_rows.tolist()
        (['left', 'right'], [30, 30])
        >>> bool(np.isclose(totals.estimate.sum(), gp.predict(X).sum()))
        True
        >>> bool(totals.lower[0] < counts[:30].sum() < totals.upper[0])
        True
        """
        from knotwise.estimators.totals import predict_total

        return predict_total(
            self,
            X,
            exposure=exposure_of(exposure, offset),
            trials=trials,
            weights=weights,
            groups=groups,
            statistic=statistic,
            kind=kind,
            level=level,
            noise_variance=noise_variance,
            n_samples=n_samples,
            random_state=random_state,
        )

    def sample_observations(
        self,
        X: Any,
        n_samples: int = 1,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        random_state: Any = None,
        offset: Any = None,
    ) -> np.ndarray:
        """Draw joint samples of new observations at the rows of X.

        Each sample draws one function f (see `sample_latent`, also for what more than 10,000 rows leave out), adds the
        nugget of each row, and draws the rows' observations given these.

        Parameters
        ----------
        {X}
        n_samples : int, default 1
            Data sets to draw.
        {sizes}
        {noise_variance}
        random_state : int, Generator, optional
            The same number gives the same samples.
        {offset}

        Returns
        -------
        array [n_samples, n]
            In the units of y.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> X = np.linspace(0, 1, 60)[:, None]
        >>> gp = GPRegressor(likelihood="poisson", knots=8, random_state=0).fit(X, np.arange(60) // 5)
        >>> gp.sample_observations(X, n_samples=5, random_state=0).shape
        (5, 60)
        """
        exposure = exposure_of(exposure, offset)
        known = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
        known = require(self, "gp.sample_observations(X", **known)
        likelihood, size = self._observation(X, len(self._engine_inputs(X)), **known)
        rng = generator_from(random_state)
        f = self.sample_latent(X, n_samples, rng)
        if self.nugget_:
            f += np.sqrt(self.nugget_) * rng.standard_normal(f.shape)
        return likelihood.sample(f, rng, size)

    def _observation(
        self, X: Any, n_rows: int, exposure: Any, trials: Any, noise_variance: Any
    ) -> tuple[Likelihood, np.ndarray | float]:
        """The likelihood of new observations at rows X, and their exposure or trials."""
        raise NotImplementedError
