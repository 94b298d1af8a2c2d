"""GPClassifier: Gaussian process classification through knots, with scikit-learn's interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y

from knotwise.distributed.collections import is_dask
from knotwise.errors import InvalidInputError
from knotwise.estimators.base import unchanged_on_failure
from knotwise.estimators.coefficients import Coefficients
from knotwise.estimators.collections import read_collections
from knotwise.estimators.encoding.encoding import Encoding
from knotwise.estimators.geometry import as_columns, crs_of
from knotwise.estimators.lazy import lazy_accuracy, predict_lazily
from knotwise.estimators.numbers import refuse_masked_and_dates
from knotwise.estimators.oversight import Oversight
from knotwise.estimators.regressor import GPRegressor
from knotwise.estimators.reporting import ReportMixin
from knotwise.estimators.summary import Summary
from knotwise.estimators.validation import check_inputs, check_weights, fit_inputs, generator_from
from knotwise.evidence.inference import Inference
from knotwise.kernels.base import Kernel
from knotwise.knots.selection import Selector
from knotwise.knots.simultaneous import Simultaneous
from knotwise.likelihoods import Bernoulli
from knotwise.means import Mean
from knotwise.numerics.parameters import Prior
from knotwise.optimize.base import Optimizer
from knotwise.posterior import Latent
from knotwise.progress import FitEvent

if TYPE_CHECKING:
    from knotwise.diagnosis.certify import Certificate
    from knotwise.diagnosis.diagnose import Diagnosis
    from knotwise.estimators.totals import Totals

__all__ = ["GPClassifier"]


class GPClassifier(ClassifierMixin, ReportMixin, BaseEstimator):
    """Gaussian process classification through knots: two classes, or several by one model against the rest each.

    Parameters
    ----------
    link : "logit" or "probit"
        From the latent function to the probability of a class.
    knots : "auto", int, array [K, D] or selector
        Chosen automatically; a number of knots starts with k-means within each class.
    n_neighbors : "auto" or int
        Near rows that predict what the knots leave; they are for Gaussian data, see `GPRegressor`. Classes have none:
        "auto" and 0 mean the same here, and another number is an error.
    priors : "weak" or dict, optional
        What is known of parameters before the data: priors from `knotwise.priors` by the name or the role of a
        parameter, the same for the model of each class; "weak" is a mild penalty on the variance of the latent
        function. None, the default, is no prior. See `docs/priors.md`.

    The other parameters are those of `GPRegressor`.

    Attributes
    ----------
    classes_ : the labels, in sorted order
    models_ : the latent models: one for two classes (of the second class), else one for each class
    knots_, n_knots_, n_neighbors_, parameters_, kernel_, status_, stop_reason_, trace_, converged_, approximation_,
    jitter_ : of the model, or a list of them
    log_evidence_, log_prior_ : of the model, or the sum over models
    crs_ : coordinate reference system of the points that were fitted, such as "EPSG:27700"; None if they had none
    coefficients_ : level or trend of the mean of f, with standard errors; of the model, or a list of them

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPClassifier
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> gp = GPClassifier(knots=6, random_state=0).fit(X, np.where(X[:, 0] > 0, "right", "left"))
    >>> gp.predict([[-1.5], [1.5]]).tolist()
    ['left', 'right']
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
        self.kernel = kernel
        self.link = link
        self.approximation = approximation
        self.knots = knots
        self.n_neighbors = n_neighbors
        self.mean = mean
        self.nugget = nugget
        self.inference = inference
        self.fixed = fixed
        self.bounds = bounds
        self.priors = priors
        self.jitter = jitter
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.standardize = standardize
        self.categorical = categorical
        self.missing = missing
        self.coords = coords
        self.periods = periods
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.block_size = block_size
        self.progress = progress
        self.callback = callback
        self.checkpoint = checkpoint

    encoding_: Encoding | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GPClassifier:
        """Fit one latent model (two classes), or one for each class against the rest.

        `sample_weight` says how often each row counts: a weight of 2 gives the same fit as the row twice, 0 the same as
        without it. A GeoDataFrame or GeoSeries of points has the columns x and y, then its numeric columns. Dask arrays
        and data frames stay where they are; see `docs/scale.md`.
        """
        with unchanged_on_failure(self) as new:
            new.crs_ = crs_of(X)
            if any(map(is_dask, (X, y, sample_weight))):
                new._fit_partitions(X, y, sample_weight)
            else:
                new._fit_classes(X, y, sample_weight)
        return self

    def _fit_classes(self, X: Any, y: Any, sample_weight: Any) -> None:
        X = as_columns(X)
        refuse_masked_and_dates(y, "y")
        X_given = X
        X, y = check_X_y(fit_inputs(self, X, sample_weight), y, ensure_all_finite=False, estimator=self)
        check_classification_targets(y)
        weights = check_weights(sample_weight, len(X))
        counts = np.ones(len(X), bool) if weights is None else weights > 0
        codes = np.full(len(X), -1)  # of rows that do not count, for which no class is needed
        self.classes_, codes[counts] = np.unique(y[counts], return_inverse=True)
        self._refuse_one_class("" if counts.all() else ", in rows of positive weight")
        named = X_given if hasattr(X_given, "columns") or self.encoding_ is not None else X

        def fit(model: GPRegressor, code: int) -> None:
            model.fit(named, (codes == code).astype(float), sample_weight=weights)

        self._fit_models(fit, X, codes, weights)

    def _fit_partitions(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit the models to Dask collections; the labels are looked for in all partitions."""
        data = read_collections(self, Bernoulli(self.link), X, y, sample_weight=sample_weight)
        self.classes_ = data.labels()
        self._refuse_one_class("" if sample_weight is None else ", in rows of positive weight")

        def fit(model: GPRegressor, code: int) -> None:
            own = read_collections(
                model, Bernoulli(self.link), X, y, sample_weight=sample_weight, label=self.classes_[code]
            )
            model._fit_latent(own, has_size=False)

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
        rng = generator_from(self.random_state)
        wanted = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "link"}
        if isinstance(self.knots, int | np.integer) and not isinstance(self.knots, bool) and self.knots >= 2:
            options["knots"] = Simultaneous(int(self.knots), initial="kmeans-per-class")
        models = [GPRegressor(likelihood=Bernoulli(self.link), **options | {"random_state": rng}) for _ in wanted]
        with Oversight.of(self) as oversight:
            oversight.open_journal(self, *data, getattr(self, "feature_names_in_", None))
            for model, code in zip(models, wanted, strict=True):
                label = f"class {self.classes_.tolist()[code]!r}" if len(wanted) > 1 else ""
                model._oversight = oversight.part(code, label)
                fit(model, code)
                del model._oversight
            oversight.finish()
        self.models_ = models
        self._publish()

    def _publish(self) -> None:
        """Set the public attributes from those of the models."""
        for name in (
            "knots_",
            "n_knots_",
            "n_neighbors_",
            "parameters_",
            "kernel_",
            "stop_reason_",
            "trace_",
            "status_",
            "converged_",
            "approximation_",
            "jitter_",
            "inference_",
        ):
            values = [getattr(model, name) for model in self.models_]
            setattr(self, name, values[0] if len(values) == 1 else values)
        self.log_evidence_ = float(sum(model.log_evidence_ for model in self.models_))
        self.log_prior_ = float(sum(model.log_prior_ for model in self.models_))

    @property
    def coefficients_(self) -> Coefficients | list[Coefficients]:
        """Coefficients of the mean of f, on the link's scale, with their uncertainty; one table for each model."""
        check_is_fitted(self)
        tables = [model.coefficients_ for model in self.models_]
        return tables[0] if len(tables) == 1 else tables

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of the second of two classes, [n]; else of each class against the rest, [n, classes].

        They rise with the probabilities, which the latent mean alone does not: its variance belongs to them, too.
        """
        if is_dask(X):
            return predict_lazily(self, "decision_function", X, columns=self._classes_of_models())
        latents = self._latents_of_labels(X)
        density = self.models_[0].likelihood_.log_predictive_density
        odds = []
        for f in latents:
            ones, zeros = (density(np.full(len(f.mean), label), f.mean, f.variance) for label in (1.0, 0.0))
            odds.append(ones - zeros)
        return odds[0] if len(odds) == 1 else np.column_stack(odds)

    def predict_latent(self, X: Any) -> Latent | list[Latent]:
        """Posterior mean and variance of the latent function, or of one for each class."""
        if is_dask(X):
            check_is_fitted(self)
            latents = [model.predict_latent(X) for model in self.models_]
        else:
            latents = [model.predict_latent(rows) for model, rows in self._rows_for_models(X)]
        return latents[0] if len(latents) == 1 else latents

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, [n, classes]; those of several models are scaled to sum to one."""
        if is_dask(X):
            check_is_fitted(self)
            return predict_lazily(self, "predict_proba", X, columns=self.classes_.tolist())
        latents = self._latents_of_labels(X)
        if len(latents) == 1:  # by symmetry, each class by itself: 1 - p has no digits where p is almost 1
            latents = [Latent(-latents[0].mean, latents[0].variance), *latents]
        likelihood = self.models_[0].likelihood_
        p = np.column_stack([likelihood.response_moments(f.mean, f.variance)[0] for f in latents])
        return p if len(self.models_) == 1 else p / p.sum(1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        if is_dask(X):
            check_is_fitted(self)
            return predict_lazily(self, "predict", X, dtype=self.classes_.dtype)
        most = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[most]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the labels y that are predicted rightly."""
        if is_dask(X):
            return lazy_accuracy(self, X, y=y, sample_weight=sample_weight)
        refuse_masked_and_dates(y, "y")
        refuse_masked_and_dates(sample_weight, "sample_weight")
        return float(super().score(X, y, sample_weight))

    def predict_interval(self, X: Any, level: float = 0.95, kind: str = "mean") -> np.ndarray:
        """Central interval, [n, 2], of the probability ("mean") or the "latent" f of the second of two classes."""
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
        weights : float or array [n], optional
            How often each row counts, 1 by default.
        groups : array, Series or Categorical [n], optional
            A label for each row; None counts all rows.
        statistic : "sum" or "mean"
            Numbers, or shares of the rows.
        kind : "mean" or "observation"
            The expected number given the probabilities, whose interval says how well these are known; or the number
            among new labels.
        level : float
            Probability of the central interval.
        n_samples : int
            Samples for the interval.
        random_state : int, Generator, optional
            The same number gives the same result.

        Returns
        -------
        Totals
            `estimate`, `lower`, `upper`, `sd` and `left_out` for each `group`; see `GPRegressor.predict_total`.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPClassifier
        >>> X = np.linspace(-2, 2, 60)[:, None]
        >>> gp = GPClassifier(knots=6, random_state=0).fit(X, np.where(X[:, 0] > 0, "right", "left"))
        >>> totals = gp.predict_total(X, random_state=0)
        >>> bool(abs(totals.estimate[0] - 30) < 1)
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
        return model.predict_total(
            rows,
            weights=weights,
            groups=groups,
            statistic=statistic,
            kind=kind,
            level=level,
            n_samples=n_samples,
            random_state=random_state,
        )

    def log_predictive_density(self, X: Any, y: Any) -> np.ndarray:
        """Log probability of each label y, [n]."""
        if is_dask(X):
            return predict_lazily(self, "log_predictive_density", X, per_row={"y": y})
        log_proba = self._log_proba(X)
        refuse_masked_and_dates(y, "y")
        y = np.asarray(y)
        if y.shape != (len(log_proba),):
            raise InvalidInputError(f"y must be {len(log_proba)} labels, one for each row, but has shape {y.shape}.")
        code_of = {label: code for code, label in enumerate(self.classes_.tolist())}
        codes = np.array([code_of.get(label, -1) for label in y.tolist()], int)
        wrong = np.flatnonzero(codes < 0)
        if len(wrong):
            raise InvalidInputError(
                f"y must be {len(log_proba)} labels from {self.classes_.tolist()}, "
                f"but is {y.tolist()[wrong[0]]!r} in row {wrong[0]}.",
                rows=wrong,
            )
        return log_proba[np.arange(len(y)), codes]

    def summary(self, standard_errors: bool | None = None, variogram: bool = False) -> Summary:
        """What was fitted and decided, for each model; the arguments are as for `GPRegressor.summary`."""
        models = self._labelled_models()
        return Summary(
            "\n\n".join(f"class {label!r}: {model.summary(standard_errors, variogram)}" for label, model in models)
        )

    def diagnose(self) -> Diagnosis | list[Diagnosis]:
        """Whether the fit can be trusted, and where not; a list, one for each class, if there are several models."""
        found = [(label, model.diagnose()) for label, model in self._labelled_models()]
        named = [
            replace(diagnosis, model=f"class {label!r}: {diagnosis.model.removeprefix('GPRegressor: ')}")
            for label, diagnosis in found
        ]
        return named[0] if len(named) == 1 else named

    def certify(self, more_knots: int | None = None) -> Certificate | list[Certificate]:
        """Certified bounds of how far the fit can be from the exact GP; a list, one for each class, if there are
        several models. For labels it is a lower bound of the exact GP's log evidence, and how it rises with more knots;
        see `GPRegressor.certify`.

        Parameters
        ----------
        more_knots : int, optional
            Rows that serve as knots besides those of the fit, for the bounds alone; as many as the fit has knots by
            default.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPClassifier
        >>> X = np.linspace(-2, 2, 60)[:, None]
        >>> gp = GPClassifier(knots=6, random_state=0).fit(X, np.where(X[:, 0] > 0, "right", "left"))
        >>> certificate = gp.certify()
        >>> bool(certificate.lower >= gp.log_evidence_ - 1e-6), certificate.upper
        (True, None)
        """
        found = [(label, model.certify(more_knots)) for label, model in self._labelled_models()]
        named = [
            replace(each, model=f"class {label!r}: {each.model.removeprefix('GPRegressor: ')}") for label, each in found
        ]
        return named[0] if len(named) == 1 else named

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted model in a file from which `knotwise.load` makes it again; see `GPRegressor.save`."""
        from knotwise.estimators.saving import save

        save(self, path)

    def _log_proba(self, X: Any) -> np.ndarray:
        """Log probability of each class, [n, classes], also where the probability itself is 0 or 1 to all digits."""
        latents = self._latents_of_labels(X)
        labels = [(latents[0], 0.0), (latents[0], 1.0)] if len(latents) == 1 else [(f, 1.0) for f in latents]
        density = self.models_[0].likelihood_.log_predictive_density
        log_p = np.column_stack([density(np.full(len(f.mean), y), f.mean, f.variance) for f, y in labels])
        if len(latents) > 1:
            return log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)
        # of a label that is nearly certain an integral has the digits of 1, and so none of log p
        return np.where(log_p > np.log(0.5), np.log1p(-np.exp(np.minimum(log_p[:, ::-1], np.log(0.5)))), log_p)

    def _latents_of_labels(self, X: Any) -> list[Latent]:
        """The latent value of a new label, nugget included, for each model."""
        latents = [(model, model.predict_latent(rows)) for model, rows in self._rows_for_models(X)]
        return [Latent(f.mean, f.variance + model.nugget_) for model, f in latents]

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
        checked = check_inputs(self, X)  # rows that are encoded are passed on so
        as_given = hasattr(X, "columns") and self.encoding_ is None
        return [(model, X if as_given else checked) for model in self.models_]
