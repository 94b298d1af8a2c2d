"""GPRegressor: a Gaussian process through knots, with scikit-learn's interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from sklearn.base import RegressorMixin

from knotwise.data import validation
from knotwise.data.exposure import check_known_noise, check_size, exposure_of, missing_name, require
from knotwise.data.geometry import crs_of
from knotwise.data.observations import Observations
from knotwise.data.partitions import read_collections
from knotwise.errors import InvalidInputError, unknown_option
from knotwise.estimators.averaging import EngineInputs
from knotwise.estimators.base import LatentGP, keep_settings, unchanged_on_failure
from knotwise.estimators.docstrings import documented
from knotwise.estimators.lazy import lazy_r2, predict_lazily
from knotwise.estimators.noise import NoiseEstimate, predict_noise
from knotwise.estimators.noise import refuse as refuse_varying
from knotwise.estimators.options import check_noise, likelihood_from, lowest_target, lowest_target_named
from knotwise.evidence.inference import Inference
from knotwise.kernels.base import Kernel
from knotwise.likelihoods.base import Likelihood
from knotwise.likelihoods.gaussian import gaussian_of_rows
from knotwise.likelihoods.varying import gaussian_of_log_noise
from knotwise.means import Mean
from knotwise.noise import Inputs
from knotwise.numerics.blocks import is_dask
from knotwise.numerics.parameters import Prior
from knotwise.optimize.base import Optimizer
from knotwise.posterior.base import Latent
from knotwise.prediction import Prediction
from knotwise.progress import FitEvent
from knotwise.selection.base import Selector

if TYPE_CHECKING:
    from knotwise.estimators.totals import Totals


@documented
class GPRegressor(RegressorMixin, LatentGP):
    """Gaussian process regression through knots.

    Parameters
    ----------
    {kernel}
    likelihood : name or Likelihood, default "gaussian"
        "gaussian", "poisson", "negative_binomial", "zero_inflated_poisson", "zero_inflated_negative_binomial",
        "binomial", "bernoulli", "gamma", "exponential", "weibull", "lognormal", "beta", "student_t", or an object from
        `knotwise.likelihoods`; `Gaussian(noise_variance=...)` starts the noise at a value. "counts" lets the data
        choose between "poisson", "negative_binomial" and, where there are more zeros than these say, both with zeros
        beside the counts, in each fit anew; `likelihood_` is the choice, and `summary()` says why. A fit with "poisson"
        warns where the counts vary more.
    {settings}
    {noise}
    {more_settings}

    Attributes
    ----------
    kernel_, likelihood_, mean_ : Kernel, Likelihood, Mean
        The parts at their fitted values, in the units of the data. They mean the same in a fit to other rows:
        `GPRegressor(gp.kernel_, gp.likelihood_, mean=gp.mean_, warp=gp.warp_, optimizer=None)`.
    nugget_ : float
        Variance of independent noise on the latent function.
    coefficients_ : Coefficients
        Level or trend of the mean, with standard errors, in the units of the data.
    parameters_ : ParameterTable
        Names, values and bounds, in the units of the data; `to_frame()` adds standard errors, and `estimates()` has
        standard deviations for variances.
    knots_, n_knots_ : array [K, D] and int
        The knots in the units of X, and their number (0 for the exact GP); with categories or dates an array of
        objects, as X has them.
    {warp_}
    {columns_}
    n_neighbors_ : int
        How many of the nearest rows predict the residual (Vecchia neighbours); 0 where the knots are enough.
    log_evidence_ : float
        Log evidence of the data in their units; its variational bound where that is the inference, or with neighbours
        a value near that of the exact GP, which is no bound. Where the noise varies, the bound of function and noise.
    inference_ : str
        "conjugate" (Gaussian data), "variational", "laplace", "ep" or "mixture": of which `log_evidence_`, `evidence()`
        and the posterior are.
    log_prior_ : float
        Log density of the priors of the parameters, which the optimiser adds to the log evidence; else 0.
    trace_ : KnotTrace
        The steps of the selection of knots.
    approximation_ : str or float
        "vfe", "fic", a power, "full" for the exact GP, or "neighbors".
    status_ : str
        How the fit ended, in a word: "converged", "as given" (nothing was optimised), "no signal", "several
        explanations" (other hyperparameters of a sum are as likely, and predict otherwise), "little information" (few
        events), or, with a warning, "limit reached" (more knots are needed than were allowed),
        "hyperparameters not converged" (they still moved with every choice of knots or neighbours) or "not converged".
    converged_ : bool
        Whether `status_` is none of the last three.
    stop_reason_ : str
        Why so many knots, in words.
    models_ : AveragedModels
        The models over which predictions are averaged: kernel, weight and log evidence of each; of most fits one.
    jitter_, optimize_result_, n_failed_restarts_ : float, OptimizeResult, int
        How the fit went.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 80)[:, None]
    >>> gp = GPRegressor(knots=8, random_state=0).fit(X, np.sin(9 * X[:, 0]))
    >>> bool(abs(gp.predict([[0.5]])[0] - np.sin(4.5)) < 1e-3)
    True
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        likelihood: str | Likelihood = "gaussian",
        approximation: str | float | None = None,
        knots: str | int | np.ndarray | Selector = "auto",
        n_neighbors: str | int = "auto",
        mean: str | float | Mean = "constant",
        nugget: str | float = 0.0,
        inference: str | Inference = "auto",
        warp: str | Mapping[int | str, Any] | None = "auto",
        noise: str = "auto",
        average: str | bool = "auto",
        fixed: Sequence[str] | str = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        priors: str | Mapping[str, Prior] | None = None,
        jitter: float | None = None,
        optimizer: str | Optimizer | None = "lbfgs",
        n_restarts: int = 0,
        standardize: str | bool = "columns",
        categorical: str | Sequence[int | str] = "auto",
        missing: str = "error",
        coords: str | tuple[str, Sequence[int | str]] | None = None,
        periods: Mapping[int | str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        block_size: int | None = None,
        progress: str | bool = "auto",
        callback: Callable[[FitEvent], Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        keep_settings(self, locals())

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        offset: Any = None,
        predict_at: Any = None,
    ) -> Self:
        """Fit parameters and knots to the data.

        Dask arrays and data frames stay where they are: passes go to their partitions, on the workers of the active
        client or in this process, and predictions for them are lazy. See `docs/scale.md`. A fit that is refused or
        fails leaves the model as it was.

        Parameters
        ----------
        X : array or data frame [n, D]
            Inputs, one row for each observation: numbers in any units, categories, dates. A GeoDataFrame or GeoSeries
            of points has the columns x and y, then its numeric columns; `crs_` keeps its coordinate reference system,
            and predictions refuse a frame with another one.
        y : array [n]
            Targets: numbers, counts or shares, as the likelihood wants them.
        sample_weight : array [n], optional
            Weights of at least 0; a row of weight 0 is not there. In a model that learns a dispersion (noise, scale or
            shape of Gaussian, Student-t, log-normal, gamma, Weibull, beta and negative binomial data, or a nugget)
            weights are relative: only their ratios matter, for they are divided by their mean, and a mean far from 1
            is said. The noise is that of a row of average weight; of Gaussian data, a row of weight w has the noise
            variance divided by w, as means of w measurements have. Copies of whole rows are one observation: a weight
            of 2 gives the same fit as the row twice, and each row twice the same as once. Rows that are equal because
            targets were rounded at shared inputs are different observations and count each, so that there a weight of 2
            is not the row twice. Bernoulli, binomial, Poisson and exponential data without a nugget, and
            `noise_variance`, have weights that are counts: 2 is the row twice, in any case.
        exposure : float or array [n], optional
            What each count is out of (area, time, population), for counts; 1 by default.
        trials : int or array [n], optional
            Number of trials of each row, for binomial data; 1 by default.
        noise_variance : float or array [n], optional
            Known variance of the noise of each row of Gaussian data, in the units of y squared; a number is for all
            rows. Predictions of new observations then ask for it again. Where it is too small for a fit through knots,
            or 0, it is raised to a floor, with a warning. By default the noise is one number and is learned.
        offset : float or array [n], optional
            Logarithm of the exposure, for users of log-linear models, here and in predictions; give one of the two.
        {predict_at}

        Returns
        -------
        GPRegressor
            The model itself, fitted.

        Examples
        --------
        {smooth_curve}
        >>> gp.n_knots_, gp.converged_
        (5, True)

        Counts that were made in times of different length:

        >>> hours = np.tile([1.0, 8.0], 12)
        >>> gp = GPRegressor(likelihood="poisson", knots=4, random_state=0)
        >>> gp = gp.fit(X, 3 * hours, exposure=hours)
        >>> gp.predict([[0.5]], exposure=1).round(1).tolist()  # counts per hour
        [3.0]

        Predictions are wanted beyond the data, so the kernel is judged by rows as far from the others:

        >>> X = np.linspace(0, 1, 60)[:, None]
        >>> gp = GPRegressor(knots=5, random_state=0).fit(X, np.sin(6 * X[:, 0]), predict_at=[[1.02], [1.05]])
        >>> "as far as was asked" in gp.summary()
        True
        """
        with unchanged_on_failure(self) as new:
            new.crs_, new._target_name = crs_of(X, self.coords), validation.series_name(y)
            likelihood = likelihood_from(self.likelihood)
            exposure = exposure_of(exposure, offset)
            lazy = any(map(is_dask, (X, y, sample_weight, exposure, trials, noise_variance)))
            check_noise(self.noise)
            refuse_varying(self, likelihood, has_noise=noise_variance is not None, lazy=lazy)
            if lazy:
                known = {"sample_weight": sample_weight, "noise_variance": noise_variance}
                partitions = read_collections(new, likelihood, X, y, exposure=exposure, trials=trials, **known)
                has_size, has_noise = exposure is not None or trials is not None, noise_variance is not None
                asked = validation.check_places(new, predict_at)
                new._fit_latent(partitions, has_size=has_size, has_noise=has_noise, asked=asked)
                return self
            X, y = validation.check_data(new, X, y, sample_weight)
            asked = validation.check_places(new, predict_at)
            size = check_size(likelihood, len(X), exposure=exposure, trials=trials)
            noise = check_known_noise(likelihood, noise_variance, len(X))
            columns = None if new._encoding is None else new._encoding.columns
            data = Observations(X, y, noise, size, validation.check_weights(sample_weight, len(X)), columns=columns)
            new._fit_latent(data, has_size=size is not None, has_noise=noise is not None, asked=asked)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan, tags.input_tags.categorical = self.missing != "error", True
        lowest = lowest_target_named if isinstance(self.likelihood, str) else lowest_target
        tags.target_tags.positive_only = lowest(self.likelihood) >= 0
        return tags

    # -- the response -------------------------------------------------------------------------

    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        offset: Any = None,
    ) -> np.ndarray: ...

    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        offset: Any = None,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        *,
        return_cov: Literal[True],
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        offset: Any = None,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        offset: Any = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        offset: Any = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean of new observations and, if asked, their standard deviation or covariance.

        If the fit had an exposure or trials, so must this call, also where scikit-learn makes it (for its scorers see
        `knotwise.response_scorer`): `exposure=1` (or `offset=0`) gives rates, `trials=1` probabilities. If the fit had
        known noise, `return_std` and `return_cov` need `noise_variance`; the mean needs nothing, and `predict_latent`
        has the standard deviation of the function itself.

        Parameters
        ----------
        {X}
        return_std : bool, default False
            Also return the standard deviation of a new observation: what is not known of f, and its noise.
        return_cov : bool, default False
            Also return the covariance of new observations, [n, n]; for Gaussian data.
        {sizes}
        {noise_variance}
        {offset}

        Returns
        -------
        mean : array [n]
            Posterior mean of a new observation at each row, in the units of y.
        std or cov : array [n] or [n, n], if asked
            Standard deviation of each new observation, or the covariance of all of them.

        Examples
        --------
        {smooth_curve}
        >>> mean, std = gp.predict([[0.25], [0.75]], return_std=True)
        >>> mean.round(2).tolist()
        [1.0, -0.98]
        >>> bool((std < 0.1).all())
        True
        """
        exposure = exposure_of(exposure, offset)
        if return_std and return_cov:
            raise InvalidInputError("Ask for `return_std` or for `return_cov`, not for both.")
        known = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
        if return_std or (return_cov and missing_name(self) == "noise_variance"):
            known = require(self, f"gp.predict(X, return_{'std' if return_std else 'cov'}=True", **known)
        elif not return_cov:
            known |= require(self, "gp.predict(X", exposure=exposure, trials=trials)
        if is_dask(X):
            if return_cov:
                raise InvalidInputError(
                    "`return_cov` is a matrix of all rows, which a Dask collection has too many of. Ask for some rows "
                    "(`X.compute()`), or for `return_std`."
                )
            n_results = 2 if return_std else 1
            return predict_lazily(self, "predict", X, n_results=n_results, per_row=known, return_std=return_std)
        prediction = self._prediction(X, **known)
        if return_cov:
            likelihood = prediction.components[0].likelihood
            if not likelihood.conjugate:
                raise InvalidInputError(
                    "`return_cov` is for Gaussian data: other observations depend on f through more than a covariance. "
                    "Use `return_std=True`, or `sample_latent` for joint samples of f."
                )
            return prediction.mean, self._covariance(X, prediction)
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None, trials: Any = None, offset: Any = None
    ) -> float:
        """R^2 of the predicted means: 1 is perfect, 0 no better than the mean of y.

        Parameters
        ----------
        {X}
        y : array [n]
            Their targets.
        {score_weight}
        {sizes}
        {offset}

        Returns
        -------
        float
            1 - (sum of squared errors) / (sum of squares of y around its mean).

        Examples
        --------
        {smooth_curve}
        >>> bool(gp.score(X, y) > 0.99)
        True
        """
        from sklearn.metrics import r2_score

        exposure = exposure_of(exposure, offset)
        sizes = require(self, "gp.score(X, y", exposure=exposure, trials=trials)
        if is_dask(X):
            return lazy_r2(self, X, y=y, sample_weight=sample_weight, **sizes)
        y = validation.as_finite_numbers(y, "y")
        validation.refuse_masked_and_dates(sample_weight, "sample_weight")
        return float(r2_score(y, self.predict(X, **sizes), sample_weight=sample_weight))

    def predict_median(self, X: Any, exposure: Any = None, trials: Any = None, offset: Any = None) -> np.ndarray:
        """Posterior median of the mean response: its value at the posterior mean of f.

        For skew responses, such as counts and log-normal data, it lies below the mean that `predict` gives.

        Parameters
        ----------
        {X}
        {sizes}
        {offset}

        Returns
        -------
        array [n]
            The median at each row, in the units of y.

        Examples
        --------
        {counts}
        >>> bool(gp.predict_median([[0.5]])[0] < gp.predict([[0.5]])[0])
        True
        """
        exposure = exposure_of(exposure, offset)
        if is_dask(X):
            return predict_lazily(self, "predict_median", X, per_row={"exposure": exposure, "trials": trials})
        return self._prediction(X, exposure, trials).median()

    def predict_interval(
        self,
        X: Any,
        level: float = 0.95,
        kind: str = "observation",
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        offset: Any = None,
    ) -> np.ndarray:
        """Central interval of a new observation, of its mean, or of the latent function.

        Parameters
        ----------
        {X}
        {level}
        kind : "observation", "mean" or "latent", default "observation"
            Of what: a new observation, with its noise; its mean given f, which says how well the surface is known; or f
            itself, on the scale of the link.
        {sizes}
        {noise_variance}
        {offset}

        Returns
        -------
        array [n, 2]
            Lower and upper end at each row, in the units of y, or of f if `kind` is "latent".

        Examples
        --------
        {curve}
        >>> lower, upper = gp.predict_interval(X, level=0.95).T
        >>> bool(((lower < y) & (y < upper)).mean() > 0.8)
        True
        >>> narrow = gp.predict_interval(X, kind="mean")
        >>> bool((narrow[:, 0] > lower).all())
        True
        """
        exposure = exposure_of(exposure, offset)
        validation.check_level(level)
        if kind not in ("observation", "mean", "latent"):
            raise unknown_option("`kind`", kind, ["observation", "mean", "latent"])
        known = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
        if kind == "observation":
            known = require(self, "gp.predict_interval(X", **known)
        if is_dask(X):
            columns = ("lower", "upper")
            return predict_lazily(self, "predict_interval", X, columns=columns, per_row=known, level=level, kind=kind)
        return self._prediction(X, **known).interval(level, kind)

    def predict_noise(self, X: Any, level: float = 0.95) -> NoiseEstimate:
        """Standard deviation of the noise of Gaussian data at the rows of X, with an interval.

        Where the noise varies (`noise`), the interval is of what is not known of it: its logarithm is normal. A noise
        that is the same everywhere is taken for known, and its interval has no width.

        Parameters
        ----------
        {X}
        {level}

        Returns
        -------
        NoiseEstimate
            `sd`, the median of the standard deviation, `lower` and `upper`, [n] each, in the units of y.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(200, 1))
        >>> y = np.sin(6 * X[:, 0]) + np.exp(3 * X[:, 0] - 3) * rng.normal(size=200)
        >>> noise = GPRegressor(random_state=0).fit(X, y).predict_noise([[0.1], [0.9]])
        >>> bool(noise.sd[0] < 0.12 < 0.5 < noise.sd[1] < 1), bool((noise.lower < noise.sd).all())
        (True, True)
        """
        validation.check_level(level)
        return predict_noise(self, X, level)

    def predict_exceedance(
        self, X: Any, threshold: float, exposure: Any = None, trials: Any = None, offset: Any = None
    ) -> np.ndarray:
        """Posterior probability that the mean response (a rate, for counts) exceeds a threshold.

        It is of the mean given f, not of one new observation: how sure it is that the surface lies above the threshold.

        Parameters
        ----------
        {X}
        threshold : float
            The value to exceed, in the units of y; of a rate or probability for counts without `exposure` or `trials`.
        {sizes}
        {offset}

        Returns
        -------
        array [n]
            A probability for each row; 0 or 1 where no mean, or every mean, exceeds the threshold.

        Examples
        --------
        {smooth_curve}
        >>> gp.predict_exceedance([[0.25], [0.75]], threshold=0.5).round(3).tolist()
        [1.0, 0.0]
        """
        exposure = exposure_of(exposure, offset)
        if is_dask(X):
            known = {"exposure": exposure, "trials": trials}
            return predict_lazily(self, "predict_exceedance", X, per_row=known, threshold=threshold)
        return self._prediction(X, exposure, trials).exceedance(threshold)

    def log_predictive_density(
        self, X: Any, y: Any, exposure: Any = None, trials: Any = None, noise_variance: Any = None, offset: Any = None
    ) -> np.ndarray:
        """Log density of each observation under its own prediction; of counts the log probability.

        Its mean over new rows judges a whole prediction, not only its middle: larger is better.

        Parameters
        ----------
        {X}
        y : array [n]
            The observations.
        {sizes}
        {noise_variance}
        {offset}

        Returns
        -------
        array [n]
            In nats; a density is in the units of 1 / y.

        Examples
        --------
        {smooth_curve}
        >>> near, far = gp.log_predictive_density(X[:2], [y[0], y[1] + 1.0])
        >>> bool(near > far)
        True
        """
        exposure = exposure_of(exposure, offset)
        known = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
        known = require(self, "gp.log_predictive_density(X, y", **known)
        if is_dask(X):
            return predict_lazily(self, "log_predictive_density", X, per_row={"y": y, **known})
        prediction = self._prediction(X, **known)
        return prediction.log_density(validation.as_finite_numbers(y, "y"))

    def predictive(
        self, X: Any, exposure: Any = None, trials: Any = None, noise_variance: Any = None, offset: Any = None
    ) -> Prediction:
        """The distribution of a new observation at each row, from which every other question is answered.

        One pass through the model makes it: mean, interval, density and what else is asked of it need no other.

        Parameters
        ----------
        {X}
        {sizes}
        {noise_variance}
        {offset}

        Returns
        -------
        Prediction
            With `mean`, `std` and `latent`, and the methods `interval(level)`, `quantile(p)`, `median()`,
            `exceedance(threshold)`, `cdf(y)`, `log_density(y)`, `pit(y)` and `sample(n)`.

        Examples
        --------
        {curve}
        >>> p = gp.predictive(X)
        >>> lower, upper = p.interval(0.9).T
        >>> bool((lower < p.mean).all()), p.log_density(y).shape, p.exceedance(0.5).shape
        (True, (24,), (24,))
        """
        known = {"exposure": exposure_of(exposure, offset), "trials": trials, "noise_variance": noise_variance}
        return self._prediction(X, **require(self, "gp.predictive(X", **known))

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
        {total}
        {noise_variance}
        {total_samples}
        {offset}

        Returns
        -------
        Totals
            `estimate`, `lower`, `upper`, `sd` and `left_out` for each `group`, in sorted order; `to_frame()` is a
            table. The estimate is the sum of what `predict` gives. `left_out` is the share of the variance that is
            missing because the residual is taken as independent from row to row; there is a warning where
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

        known = {"exposure": exposure_of(exposure, offset), "trials": trials, "noise_variance": noise_variance}
        what = {"weights": weights, "groups": groups, "statistic": statistic, "kind": kind, "level": level}
        return predict_total(self, X, **known, **what, n_samples=n_samples, random_state=random_state)

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
        {counts}
        >>> gp.sample_observations(X, n_samples=5, random_state=0).shape
        (5, 24)
        """
        exposure = exposure_of(exposure, offset)
        known = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
        known = require(self, "gp.sample_observations(X", **known)
        rng = validation.generator_from(random_state)
        if self._fit.members:
            rows = EngineInputs(self._engine_inputs(X))
            return self._drawn(
                n_samples, rng, lambda own, n: own.sample_observations(rows, n, random_state=rng, **known)
            )
        likelihood, size = self._observation(X, len(self._engine_inputs(X)), **known)
        f = self.sample_latent(X, n_samples, rng)
        if self.nugget_:
            f += np.sqrt(self.nugget_) * rng.standard_normal(f.shape)
        return likelihood.sample(f, rng, size)

    def _prediction(self, X: Any, exposure: Any = None, trials: Any = None, noise_variance: Any = None) -> Prediction:
        """The prediction of rows, given what is known of each: the one door of all that is said of observations."""
        rows = EngineInputs(self._engine_inputs(X))
        each = [(own, own.predict_latent(rows)) for own in self._each]
        return self._mixed([own._observed(rows, latent, exposure, trials, noise_variance) for own, latent in each])

    def _covariance(self, X: Any, prediction: Prediction) -> np.ndarray:
        """Joint covariance of new observations, [n, n]: the mean of those of the models, and that of their means."""
        rows, total = EngineInputs(self._engine_inputs(X)), np.zeros((len(prediction), len(prediction)))
        for own, part, weight in zip(self._each, prediction.components, prediction.weights, strict=True):
            cov, apart = own._latent_covariance(rows), part.latent.mean - prediction.mean
            cov.flat[:: len(cov) + 1] += part.likelihood.conditional_variance(part.latent.mean)
            total += weight * (cov + np.outer(apart, apart))
        return total

    def _observed(
        self, X: Any, latent: Latent, exposure: Any = None, trials: Any = None, noise_variance: Any = None
    ) -> Prediction:
        """The prediction of rows X whose latent marginals are known, in the user's units."""
        likelihood, size = self._observation(X, len(latent.mean), exposure, trials, noise_variance)
        n_jobs = validation.check_jobs(self.n_jobs)
        return Prediction.of(likelihood, latent, size=size, nugget=self.nugget_, n_jobs=n_jobs)

    def _observation(
        self, X: Any, n_rows: int, exposure: Any, trials: Any, noise_variance: Any
    ) -> tuple[Likelihood, np.ndarray | float]:
        """The likelihood of new observations at rows X, and their exposure or trials, as given and checked."""
        likelihood = self.likelihood_
        noise = check_known_noise(likelihood, noise_variance, n_rows)
        if noise is None and likelihood.uses_inputs:
            rows, model, y_scale = Inputs(self._engine_inputs(X)), self._fit.model, self._fit.scaling.y_scale
            log_mean, log_variance = model.likelihood.log_noise(rows)
            return gaussian_of_log_noise(log_mean + 2.0 * np.log(y_scale), log_variance), 1.0
        if noise is not None:
            likelihood = gaussian_of_rows(noise)
        size = check_size(likelihood, n_rows, exposure=exposure, trials=trials)
        return likelihood, 1.0 if size is None else size
