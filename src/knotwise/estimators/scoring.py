"""A scorer that predicts counts at their exposure, which those of scikit-learn cannot."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from sklearn.utils.metadata_routing import MetadataRequest


class ResponseScorer:
    """What `response_scorer` makes: a scorer for `scoring=` whose metric sees predictions at `exposure` or `trials`.

    Parameters
    ----------
    metric : function
        Of y and the predicted means.
    sign : 1 or -1
        1 where a larger metric is better.
    options : dict
        Further arguments of the metric.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import mean_poisson_deviance
    >>> from knotwise import GPRegressor, response_scorer
    >>> X, exposure = np.linspace(0, 1, 24)[:, None], np.tile([1.0, 10.0], 12)
    >>> gp = GPRegressor(likelihood="poisson", knots=4, random_state=0).fit(X, 3 * exposure, exposure=exposure)
    >>> score = response_scorer(mean_poisson_deviance)
    >>> bool(score(gp, X, 3 * exposure, exposure=exposure) > -0.01)
    True
    >>> weighted = score.set_score_request(sample_weight=True)
    >>> weighted.get_metadata_routing().score.requests["sample_weight"]
    True
    """

    def __init__(self, metric: Callable[..., float], sign: int, options: dict[str, Any]) -> None:
        self._metric = metric
        self._sign = sign
        self._options = options
        sizes = {"exposure": True, "trials": True, "offset": True}
        self._requests: dict[str, bool | str | None] = sizes | {"sample_weight": None}

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        exposure: Any = None,
        trials: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> float:
        """The metric of y and the predicted means, with the sign that makes more better.

        Parameters
        ----------
        estimator : GPRegressor
            A fitted model; any estimator whose `predict` takes what is given.
        X : array or data frame [n, D]
            Inputs of the rows to judge.
        y : array [n]
            Their targets.
        exposure : float or array [n], optional
            What each count is out of, handed to `predict`.
        trials : int or array [n], optional
            Number of trials of each row, handed to `predict`.
        sample_weight : array [n], optional
            How much each row counts, handed to the metric.
        offset : float or array [n], optional
            Logarithm of the exposure, instead of it.

        Returns
        -------
        float
            Larger is better.
        """
        sizes = {"exposure": exposure, "trials": trials, "offset": offset}
        # the argument is left out rather than None, so that it works for any estimator
        predicted = estimator.predict(X, **{name: size for name, size in sizes.items() if size is not None})
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self._sign * float(self._metric(y, predicted, **self._options, **weights))

    def set_score_request(self, **requests: bool | str | None) -> ResponseScorer:
        """A scorer that is routed other metadata.

        Parameters
        ----------
        **requests : bool, str or None
            For `exposure`, `trials` and `sample_weight` whether they are asked for, or under which name.

        Returns
        -------
        ResponseScorer
            A new one; this one stays as it is.
        """
        unknown = set(requests) - set(self._requests)
        if unknown:
            raise TypeError(f"A scorer takes {', '.join(self._requests)}, not {', '.join(sorted(unknown))}.")
        other = copy(self)
        other._requests = self._requests | requests
        return other

    def get_metadata_routing(self) -> MetadataRequest:
        """What scikit-learn's routing hands over when it is on: exposure and trials, and weights if requested.

        Returns
        -------
        MetadataRequest
            Of scikit-learn, with one request for each argument.
        """
        routing = MetadataRequest(owner=repr(self))
        for name, request in self._requests.items():
            routing.score.add_request(param=name, alias=request)
        return routing

    def __repr__(self) -> str:
        name = getattr(self._metric, "__name__", repr(self._metric))
        better = ", greater_is_better=True" if self._sign > 0 else ""
        return f"response_scorer({name}{better}{''.join(f', {key}={value!r}' for key, value in self._options.items())})"


def response_scorer(metric: Callable[..., float], *, greater_is_better: bool = False, **options: Any) -> ResponseScorer:
    """Make a scorer of a metric for counts with `exposure` or successes out of `trials`.

    scikit-learn's own scorers call `predict(X)`, with no way to hand the exposure on; a model that was fitted with one
    refuses that. This scorer takes `exposure` or `offset`, and `trials`, and hands them to
    `predict`.

    Parameters
    ----------
    metric : function
        Of y and the predicted means, for example `sklearn.metrics.mean_poisson_deviance`; weights are handed on as
        `sample_weight`.
    greater_is_better : bool, default False
        False, the default, is for errors: the score is minus the metric, as everywhere in scikit-learn.
    **options : dict
        Further arguments of the metric.

    Returns
    -------
    ResponseScorer
        A function of (estimator, X, y, exposure=None, trials=None, sample_weight=None, offset=None) for the `scoring`
        of `cross_val_score`, `GridSearchCV` and others. With metadata routing it asks for `exposure`, `trials` and
        `offset`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import mean_poisson_deviance
    >>> from knotwise import GPRegressor, response_scorer
    >>> X, exposure = np.linspace(0, 1, 24)[:, None], np.tile([1.0, 10.0], 12)
    >>> gp = GPRegressor(likelihood="poisson", knots=4, random_state=0)
    >>> gp = gp.fit(X, 3 * exposure, exposure=exposure)
    >>> score = response_scorer(mean_poisson_deviance)
    >>> bool(score(gp, X, 3 * exposure, exposure=exposure) > -0.01)
    True
    """
    return ResponseScorer(metric, 1 if greater_is_better else -1, options)
