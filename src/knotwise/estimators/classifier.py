"""GPClassifier: Gaussian process classification through knots, with scikit-learn's interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y

from knotwise.data import validation
from knotwise.data.encoding.encoding import EncodingMixin
from knotwise.data.geometry import as_columns, crs_of
from knotwise.data.partitions import read_collections
from knotwise.errors import InvalidInputError
from knotwise.estimators.base import keep_settings, unchanged_on_failure
from knotwise.estimators.classes import ByClass, LabelPrediction
from knotwise.estimators.coefficients import Coefficients
from knotwise.estimators.docstrings import documented
from knotwise.estimators.effects import EffectsMixin
from knotwise.estimators.lazy import lazy_accuracy, predict_lazily
from knotwise.estimators.regressor import GPRegressor
from knotwise.estimators.summary import ReportMixin, Summary, join_summaries
from knotwise.estimators.tested import Warned
from knotwise.evidence.inference import Inference
from knotwise.kernels.base import Kernel
from knotwise.likelihoods import Bernoulli
from knotwise.means import Mean
from knotwise.numerics.blocks import is_dask
from knotwise.numerics.parameters import Prior
from knotwise.optimize.base import Optimizer
from knotwise.posterior.base import Latent
from knotwise.progress import FitEvent, RunContext
from knotwise.selection.base import Selector
from knotwise.selection.fixed import Simultaneous

if TYPE_CHECKING:
    from knotwise.diagnosis.certify import Certificate
    from knotwise.diagnosis.diagnose import Diagnosis
    from knotwise.estimators.totals import Totals


@documented
class GPClassifier(ClassifierMixin, EffectsMixin, ReportMixin, EncodingMixin, BaseEstimator):
    """Gaussian process classification through knots: two classes, or several by one model against the rest each.

    Parameters
    ----------
    {kernel}
    link : "logit" or "probit", default "logit"
        From the latent function to the probability of a class.
    {settings}
    {more_settings}

    Attributes
    ----------
    classes_ : array
        The labels, in sorted order.
    models_ : list of GPRegressor
        The latent models: one for two classes (of the second class), else one for each class against the rest.
    log_evidence_, log_prior_ : float
        Log evidence of the labels and log density of the parameters' priors: of the model, or summed over models.
    {columns_}
    coefficients_ : Coefficients
        Level or trend of the mean of f on the link's scale, with standard errors. This and what follows is of the
        model, or a list with one entry for each of several models; such a list of tables shows itself with its
        classes, and has `to_frame()`.
    parameters_ : ParameterTable
        Names, values and bounds of the parameters; `to_frame()` has standard errors, too.
    kernel_ : Kernel
        The kernel at its fitted values, in the units of the data.
    {warp_}
    knots_, n_knots_ : array [K, D] and int
        The knots in the units of X, and their number (0 for the exact GP).
    n_neighbors_ : int
        How many of the nearest rows predict the residual (Vecchia neighbours).
    trace_ : KnotTrace
        The steps of the selection of knots.
    status_, converged_, stop_reason_ : str, bool, str
        How the fit ended in a word, whether that is good, and why there are so many knots.
    approximation_, inference_ : str
        What was used: "vfe", "fic", a power, "full" or "neighbors"; "variational", "laplace" or "ep".
    jitter_ : float
        The jitter that was needed.

    Examples
    --------
    {two_classes}
    >>> gp.predict([[0.1], [0.9]]).tolist()
    ['left', 'right']
    >>> gp.predict_proba([[0.1], [0.9]]).round(2).tolist()
    [[0.95, 0.05], [0.05, 0.95]]
    """

    crs_: str | None = None  # of the points that were fitted

    def __init__(
        self,
        kernel: Kernel | None = None,
        link: str = "logit",
        approximation: str | float | None = None,
        knots: str | int | np.ndarray | Selector = "auto",
        n_neighbors: str | int = "auto",
        mean: str | float | Mean = "constant",
        nugget: str | float = 0.0,
        inference: str | Inference = "auto",
        warp: str | Mapping[int | str, Any] | None = "auto",
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan, tags.input_tags.categorical = self.missing != "error", True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, predict_at: Any = None) -> Self:
        """Fit one latent model (two classes), or one for each class against the rest.

        Dask arrays and data frames stay where they are; see `docs/scale.md`. A fit that is refused or fails leaves the
        model as it was.

        Parameters
        ----------
        X : array or data frame [n, D]
            Inputs, one row for each label: numbers in any units, categories, dates. A GeoDataFrame or GeoSeries of
            points has the columns x and y, then its numeric columns.
        y : array [n]
            Labels: strings, whole numbers or truth values, of at least two classes.
        sample_weight : array [n], optional
            Sample weights: a weight of 2 gives the same fit as the row twice, 0 the same as without it. So
            their size matters: weights of 10 tell as much as ten times the rows, and survey weights are divided by
            their mean first, `w / w.mean()`. With a nugget they are relative: they are divided by their mean.
        {predict_at}

        Returns
        -------
        GPClassifier
            The model itself, fitted.

        Examples
        --------
        {two_classes}
        >>> gp.classes_.tolist(), gp.n_knots_
        (['left', 'right'], 3)
        """
        with unchanged_on_failure(self) as new:
            new.crs_, new._target_name = crs_of(X, self.coords), validation.series_name(y)
            if any(map(is_dask, (X, y, sample_weight))):
                new._fit_partitions(X, y, sample_weight, predict_at)
            else:
                new._fit_classes(X, y, sample_weight, predict_at)
        return self

    def _fit_classes(self, X: Any, y: Any, sample_weight: Any, predict_at: Any) -> None:
        X = as_columns(X)
        validation.refuse_masked_and_dates(y, "y")
        validation.refuse_missing_labels(y)
        X_given = X
        X, y = check_X_y(validation.fit_inputs(self, X, sample_weight), y, ensure_all_finite=False, estimator=self)
        check_classification_targets(y)
        places = validation.check_places(self, predict_at)
        weights = validation.check_weights(sample_weight, len(X))
        counts = np.ones(len(X), bool) if weights is None else weights > 0
        codes = np.full(len(X), -1)  # of rows that do not count, for which no class is needed
        self.classes_, codes[counts] = np.unique(y[counts], return_inverse=True)
        self._refuse_one_class("" if counts.all() else ", in rows of positive weight")
        has_names = hasattr(X_given, "columns") or self._row_names is not None
        named = X_given if has_names or self._encoding is not None else X

        if hasattr(predict_at, "columns") and hasattr(named, "columns"):
            places = predict_at  # a model of a frame has names of columns

        def fit(model: GPRegressor, code: int) -> None:
            model.fit(named, (codes == code).astype(float), sample_weight=weights, predict_at=places)

        self._fit_models(fit, X, codes, weights)

    def _fit_partitions(self, X: Any, y: Any, sample_weight: Any, predict_at: Any) -> None:
        """Fit the models to Dask collections; the labels are looked for in all partitions."""
        data = read_collections(self, Bernoulli(self.link), X, y, sample_weight=sample_weight)
        self.classes_ = data.labels()
        places = validation.check_places(self, predict_at)
        self._refuse_one_class("" if sample_weight is None else ", in rows of positive weight")

        def fit(model: GPRegressor, code: int) -> None:
            own = read_collections(
                model, Bernoulli(self.link), X, y, sample_weight=sample_weight, label=self.classes_[code]
            )
            model._fit_latent(own, has_size=False, asked=places)

        known = () if self.checkpoint is None else (data.digests(),)
        self._fit_models(fit, *known)

    def _refuse_one_class(self, where: str) -> None:
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"y has one class only, {self.classes_.tolist()[0]!r}{where}: a classifier needs at least 2 classes. "
                "Add rows of another class."
            )

    def _fit_models(self, fit: Callable[[GPRegressor, int], None], *data: Any) -> None:
        """Fit a model for each class, or one for two; `data` are what a checkpoint knows them by."""
        rng = validation.generator_from(self.random_state)
        wanted = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        models = [self._model(rng) for _ in wanted]
        with RunContext.of(self) as context:
            context.open_journal(self, *data, getattr(self, "feature_names_in_", None))
            for model, code in zip(models, wanted, strict=True):
                label = f"class {self.classes_.tolist()[code]!r}" if len(wanted) > 1 else ""
                model._run_context = context.part(code, label)
                fit(model, code)
                del model._run_context
            context.finish()
        self.models_ = models
        self._publish()

    def _model(self, random_state: Any) -> GPRegressor:
        """A model of one class against the others, with these settings, to be fitted to 0 and 1."""
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "link"}
        if isinstance(self.knots, int | np.integer) and not isinstance(self.knots, bool) and self.knots >= 2:
            options["knots"] = Simultaneous(int(self.knots), initial="kmeans-per-class")
        return GPRegressor(likelihood=Bernoulli(self.link), **options | {"random_state": random_state})

    def _publish(self) -> None:
        warned = Warned()
        for model in self.models_:
            model._warned = warned
        tables = ("parameters_", "trace_")
        outcome = ("status_", "converged_", "stop_reason_", "approximation_", "inference_", "jitter_")
        for name in ("kernel_", "warp_", "knots_", "n_knots_", "n_neighbors_", *outcome, *tables):
            values = [getattr(model, name) for model in self.models_]
            setattr(self, name, self._one_or_each(values, tables=name in tables))
        self.log_evidence_ = float(sum(model.log_evidence_ for model in self.models_))
        self.log_prior_ = float(sum(model.log_prior_ for model in self.models_))

    @property
    def coefficients_(self) -> Coefficients | ByClass:
        """Coefficients of the mean of f, on the link's scale, with their uncertainty; one table for each model.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPClassifier
        >>> X = np.linspace(0, 1, 20)[:, None]
        >>> y = np.repeat(["left", "right"] * 3, [7, 1, 2, 2, 1, 7])
        >>> gp = GPClassifier(mean="linear", knots=3, random_state=0).fit(X, y)
        >>> gp.coefficients_.names
        ('intercept', 'column 0')
        """
        check_is_fitted(self)
        return self._one_or_each([model.coefficients_ for model in self.models_], tables=True)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of the second of two classes, or of each class against the rest.

        They rise with the probabilities, which the latent mean alone does not: its variance belongs to them, too.

        Parameters
        ----------
        {X}

        Returns
        -------
        array [n] or [n, classes]
            Log odds of the second of two classes; of several classes a column for each, in the order of `classes_`.

        Examples
        --------
        {two_classes}
        >>> (gp.decision_function([[0.1], [0.9]]) > 0).tolist()
        [False, True]
        """
        if is_dask(X):
            return predict_lazily(self, "decision_function", X, columns=self._classes_of_models())
        return self._prediction(X).log_odds

    def predict_latent(self, X: Any) -> Latent | list[Latent]:
        """Posterior mean and variance of the latent function, or of one for each class.

        Parameters
        ----------
        {X}

        Returns
        -------
        Latent or list of Latent
            `mean` and `variance`, [n] each, and `std`, on the link's scale and without nugget: of the second of two
            classes; of several classes a list, in the order of `classes_`.

        Examples
        --------
        {two_classes}
        >>> (gp.predict_latent([[0.1], [0.9]]).mean > 0).tolist()
        [False, True]
        """
        if is_dask(X):
            check_is_fitted(self)
            latents = [model.predict_latent(X) for model in self.models_]
        else:
            latents = [model.predict_latent(rows) for model, rows in self._rows_for_models(X)]
        return latents[0] if len(latents) == 1 else latents

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw joint posterior samples of the latent function, or of one for each class.

        The rows of a sample are joint; of more than 10,000 rows only in what the knots say, with a warning where that
        leaves out more than 1 % of the variance. The models of several classes are fitted each by itself, so their
        functions are independent.

        Parameters
        ----------
        {X}
        {samples}

        Returns
        -------
        array [n_samples, n] or [n_samples, n, classes]
            On the link's scale and without nugget: of the second of two classes; of several classes with one function
            for each, in the order of `classes_`.

        Examples
        --------
        {two_classes}
        >>> f = gp.sample_latent(X, n_samples=200, random_state=0)
        >>> border = X[np.argmax(f > 0, axis=1), 0]  # where each sample turns to "right"
        >>> f.shape, bool(0.3 < np.median(border) < 0.7)
        ((200, 20), True)
        """
        rng = validation.generator_from(random_state)
        samples = [model.sample_latent(rows, n_samples, rng) for model, rows in self._rows_for_models(X)]
        return samples[0] if len(samples) == 1 else np.stack(samples, axis=-1)

    def predict_exceedance(
        self, X: Any, threshold: float, label: Any = None, n_samples: int = 2000, random_state: Any = None
    ) -> np.ndarray:
        """Posterior probability that the probability of a class exceeds a threshold: where is it surely above 0.9?

        For two classes it has a closed form: the probability rises with f, whose posterior is Gaussian. For several,
        whose probabilities are those of their models scaled to sum to one, the functions of the other classes are
        sampled, and the rest is closed; then it has a standard error of at most 0.011 with 2,000 samples.

        Parameters
        ----------
        {X}
        threshold : float
            The probability to exceed, between 0 and 1.
        label : object, optional
            A class: the second of two by default; all of several.
        n_samples : int, default 2000
            Samples for several classes.
        random_state : int, Generator, optional
            For these samples; the same number gives the same result.

        Returns
        -------
        array [n] or [n, classes]
            A probability for each row, of the one class; or a column for each of several, in the order of `classes_`.

        Examples
        --------
        {two_classes}
        >>> sure = gp.predict_exceedance([[0.1], [0.5], [0.9]], threshold=0.7)
        >>> bool(sure[0] < 0.1 < sure[1] < 0.6 < sure[2])
        True
        """
        check_is_fitted(self)
        number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
        if not number or not 0 < threshold < 1:
            raise InvalidInputError(
                f"`threshold` is {threshold!r}; it is of a probability and must lie between 0 and 1, for example 0.9."
            )
        labels = self.classes_.tolist()
        if label is not None and label not in labels:
            raise InvalidInputError(f"`label` is {label!r}, but must be one of the classes {labels}.")
        if is_dask(X):
            seed = int(validation.generator_from(random_state).integers(2**32))  # the same for all partitions
            options = {"threshold": threshold, "label": label, "n_samples": n_samples, "random_state": seed}
            columns = labels if label is None and len(self.models_) > 1 else None
            return predict_lazily(self, "predict_exceedance", X, columns=columns, **options)
        n_samples = validation.check_count(n_samples, "n_samples", least=1)
        return self._prediction(X).exceedance(threshold, label, n_samples, validation.generator_from(random_state))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class; those of several models are scaled to sum to one.

        Parameters
        ----------
        {X}

        Returns
        -------
        array [n, classes]
            A column for each class, in the order of `classes_`; what is not known of f is averaged over.

        Examples
        --------
        {two_classes}
        >>> p = gp.predict_proba([[0.1], [0.9]])
        >>> (p > 0.5).tolist(), p.sum(1).round(12).tolist()
        ([[True, False], [False, True]], [1.0, 1.0])
        """
        if is_dask(X):
            check_is_fitted(self)
            return predict_lazily(self, "predict_proba", X, columns=self.classes_.tolist())
        return self._prediction(X).proba

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        {X}

        Returns
        -------
        array [n]
            Labels from `classes_`.

        Examples
        --------
        {two_classes}
        >>> gp.predict([[0.1], [0.9]]).tolist()
        ['left', 'right']
        """
        if is_dask(X):
            check_is_fitted(self)
            return predict_lazily(self, "predict", X, dtype=self.classes_.dtype)
        most = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[most]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the labels that are predicted rightly.

        Parameters
        ----------
        {X}
        y : array [n]
            Their labels.
        {score_weight}

        Returns
        -------
        float
            The accuracy, between 0 and 1.

        Examples
        --------
        {two_classes}
        >>> gp.score(X, y) > 0.7
        True
        """
        if is_dask(X):
            return lazy_accuracy(self, X, y=y, sample_weight=sample_weight)
        validation.refuse_masked_and_dates(y, "y")
        validation.refuse_masked_and_dates(sample_weight, "sample_weight")
        return float(super().score(X, y, sample_weight))

    def predict_interval(self, X: Any, level: float = 0.95, kind: str = "mean") -> np.ndarray:
        """Central interval of the probability, or of the latent function, of the second of two classes.

        Parameters
        ----------
        {X}
        {level}
        kind : "mean" or "latent", default "mean"
            Of the probability given f, which says how well it is known; or of f itself, on the link's scale. A label
            has no interval.

        Returns
        -------
        array [n, 2]
            Lower and upper end at each row. For several classes ask `models_[k].predict_interval(X, kind="mean")`.

        Examples
        --------
        {two_classes}
        >>> lower, upper = gp.predict_interval([[0.5]], level=0.8)[0]
        >>> bool(0 < lower < gp.predict_proba([[0.5]])[0, 1] < upper < 1)
        True
        """
        check_is_fitted(self)
        if len(self.models_) > 1 or kind == "observation":
            raise InvalidInputError(
                "Intervals are of the probability or the latent function of one model: for several classes ask "
                "`models_[k].predict_interval(...)`; a label has no interval."
            )
        ((model, rows),) = [(self.models_[0], X)] if is_dask(X) else self._rows_for_models(X)
        return model.predict_interval(rows, level, kind)

    def predict_total(
        self,
        X: Any,
        weights: Any = None,
        groups: Any = None,
        statistic: str = "sum",
        kind: str = "mean",
        level: float = 0.95,
        n_samples: int = 2000,
        random_state: Any = None,
    ) -> Totals:
        """How many rows are of the second of two classes, by groups, with intervals.

        Parameters
        ----------
        X : array or data frame [n, D]
            Inputs of the rows to count.
        {total}
        {total_samples}

        Returns
        -------
        Totals
            `estimate`, `lower`, `upper`, `sd` and `left_out` for each `group`, in sorted order; `to_frame()` is a
            table. The estimate is the sum of the probabilities of the second class.

        Examples
        --------
        {two_classes}
        >>> totals = gp.predict_total(X, random_state=0)
        >>> bool(abs(totals.estimate[0] - 10) < 1)
        True
        """
        check_is_fitted(self)
        if len(self.models_) > 1:
            raise InvalidInputError(
                f"Totals are of the second of two classes, but there are {len(self.classes_)}, whose probabilities "
                "come from one model each and are scaled to sum to one: their totals are not known jointly. The "
                "expected numbers are `predict_proba(X).sum(0)`."
            )
        ((model, rows),) = self._rows_for_models(X)
        what = {"weights": weights, "groups": groups, "statistic": statistic, "kind": kind, "level": level}
        return model.predict_total(rows, **what, n_samples=n_samples, random_state=random_state)

    def log_predictive_density(self, X: Any, y: Any) -> np.ndarray:
        """Log probability of each label under its own prediction.

        Its mean over new rows, with the other sign, is the log loss. It has its digits also where a probability is 0 or
        1 to all digits.

        Parameters
        ----------
        {X}
        y : array [n]
            Labels from `classes_`.

        Returns
        -------
        array [n]
            In nats, at most 0; larger is better.

        Examples
        --------
        {two_classes}
        >>> right, wrong = gp.log_predictive_density([[0.1], [0.1]], ["left", "right"])
        >>> bool(right > wrong)
        True
        """
        if is_dask(X):
            return predict_lazily(self, "log_predictive_density", X, per_row={"y": y})
        validation.refuse_masked_and_dates(y, "y")
        return self._prediction(X).log_density(np.asarray(y))

    def summary(self, standard_errors: bool | None = None, variogram: bool = False) -> Summary:
        """What was fitted and decided, in words, for each model; shown when printed.

        Parameters
        ----------
        {summary}

        Returns
        -------
        Summary
            A string that shows itself as tables in a notebook; `to_frame()` makes a data frame of the parameters of all
            models.

        Examples
        --------
        {two_classes}
        >>> print(gp.summary())
        class 'right': GPRegressor: ...
        """
        models = self._labelled_models()
        return join_summaries([(label, model.summary(standard_errors, variogram)) for label, model in models])

    def diagnose(self) -> Diagnosis | ByClass:
        """Whether the fit can be trusted, and where not: findings with numbers and advice; shown when printed.

        Convergence, parameters at bounds, jitter and condition of Kuu, the unexplained share of the variance and where
        it is large, and a test of what knots or kernel miss, from the residuals of neighbouring rows.

        Returns
        -------
        Diagnosis or list of Diagnosis
            `findings`, each with `name`, `level`, `text` and `advice`; `ok` says whether nothing should be repaired. A
            list, one for each class, if there are several models, which has `to_frame()` too.

        Examples
        --------
        {two_classes}
        >>> gp.diagnose().converged
        True
        """
        return self._one_or_each(self._of_each("diagnose"), tables=True)

    def certify(self, more_knots: int | None = None) -> Certificate | list[Certificate]:
        """Bounds of how far the fit can be from the exact GP; a list, one for each class, if there are several models.

        For labels it is a lower bound of the exact GP's log evidence, and how it rises with more knots. It needs the
        training data: a model from a file raises `NoTrainingDataError`.

        Parameters
        ----------
        {more_knots}

        Returns
        -------
        Certificate or list of Certificate
            `lower`, `upper`, `gap` and `words`, among others; None where nothing can be certified.

        Examples
        --------
        {two_classes}
        >>> certificate = gp.certify()
        >>> bool(certificate.lower >= gp.log_evidence_ - 1e-6), certificate.upper
        (True, None)
        """
        return self._one_or_each(self._of_each("certify", more_knots), tables=False)

    def _prediction(self, X: Any) -> LabelPrediction:
        """What is known of new labels, from one pass through each model: the one door of all that is said of them."""
        each = tuple(model._prediction(rows) for model, rows in self._rows_for_models(X))
        return LabelPrediction(each, self.classes_.tolist())

    def _one_or_each(self, values: list[Any], *, tables: bool) -> Any:
        """What the only model has, or a list with that of each; of tables one that shows itself."""
        if len(values) == 1:
            return values[0]
        return ByClass(values, self.classes_.tolist()) if tables else values

    def _of_each(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of each model returns, with its class in the words about the model."""
        found = [(label, getattr(model, method)(*arguments)) for label, model in self._labelled_models()]
        words = [f"class {label!r}: {each.model.removeprefix('GPRegressor: ')}" for label, each in found]
        return [replace(each, model=model) for (_, each), model in zip(found, words, strict=True)]

    def _classes_of_models(self) -> list[Any] | None:
        """The labels of the models; None for one model."""
        check_is_fitted(self)
        return None if len(self.models_) == 1 else self.classes_.tolist()

    def _labelled_models(self) -> list[tuple[Any, GPRegressor]]:
        check_is_fitted(self)
        labels = (self.classes_[1:] if len(self.models_) == 1 else self.classes_).tolist()
        return list(zip(labels, self.models_, strict=True))

    def _rows_for_models(self, X: Any) -> list[tuple[GPRegressor, Any]]:
        check_is_fitted(self)
        X = as_columns(X, self.crs_)
        checked = validation.check_inputs(self, X)  # rows that are encoded are passed on so
        as_given = hasattr(X, "columns") and self._encoding is None
        return [(model, X if as_given else checked) for model in self.models_]
