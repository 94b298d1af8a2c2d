"""Predictions that are averaged over several models: whether, the models as estimators, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwise.data.scaling import Scaling
from knotwise.decisions.thresholds import AVERAGE
from knotwise.errors import InvalidInputError
from knotwise.estimators.fitted import Member
from knotwise.evidence import Model
from knotwise.kernels.base import Kernel
from knotwise.likelihoods.base import Likelihood
from knotwise.means import Mean
from knotwise.numerics.tabular import html_table, make_frame
from knotwise.selection.base import Selection
from knotwise.selection.problem import Problem


@dataclass(frozen=True)
class AveragedModel:
    """A model over which predictions are averaged, with its parts at their values, in the units of the data.

    Attributes
    ----------
    kernel, likelihood, mean : Kernel, Likelihood, Mean
        The parts, as `kernel_`, `likelihood_` and `mean_` of a fit.
    weight : float
        Its probability.
    log_evidence : float
        Log evidence of the data in their units.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> model = GPRegressor(average=False, random_state=0).fit(X, np.sin(9 * X[:, 0])).models_[0]
    >>> type(model.kernel).__name__, model.weight
    ('SquaredExponential', 1.0)
    """

    kernel: Kernel
    likelihood: Likelihood
    mean: Mean
    weight: float
    log_evidence: float


@dataclass(frozen=True, repr=False)
class AveragedModels(Sequence[AveragedModel]):
    """The models over which predictions are averaged, the first one that of `kernel_`; printed, it is a table.

    `GPRegressor.models_` has it; of a fit that predicts by itself it has one line.

    Parameters
    ----------
    models : tuple of AveragedModel
        One for each line.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> y = np.sin(9 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> models = GPRegressor(random_state=0).fit(X, y).models_
    >>> len(models) > 1, round(sum(model.weight for model in models), 12)
    (True, 1.0)
    >>> models.to_frame().columns.tolist()
    ['kernel', 'mean', 'likelihood', 'weight', 'log_evidence']
    """

    models: tuple[AveragedModel, ...]

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, index: Any) -> Any:
        return self.models[index]

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "kernel": repr(model.kernel),
                "mean": repr(model.mean),
                "likelihood": repr(model.likelihood),
                "weight": model.weight,
                "log_evidence": model.log_evidence,
            }
            for model in self.models
        ]

    def to_frame(self) -> Any:
        """The models as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row for each: `kernel`, `mean` and `likelihood` as they are written, `weight` and `log_evidence`.
        """
        return make_frame(self._rows())

    def __repr__(self) -> str:
        lines = [f"{'weight':>6} {'log evidence':>13}  kernel"]
        lines += [
            f"{model.weight:6.3f} {model.log_evidence:13.3f}  {model.kernel!r}"
            f"{'' if type(model.mean) is type(self.models[0].mean) else f', mean {type(model.mean).__name__}'}"
            for model in self.models
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(row["weight"], row["log_evidence"], row["kernel"], row["mean"]) for row in self._rows()]
        return html_table(("weight", "log evidence", "kernel", "mean"), rows)


@dataclass(frozen=True)
class EngineInputs:
    """Inputs that were checked and scaled already, for several models of the same rows."""

    X: np.ndarray


def check_average(estimator: Any, problem: Problem) -> bool:
    """Whether predictions may be averaged, as far as settings and data say; refuses an average that cannot be made."""
    given = estimator.average
    if given is False:
        return False
    if given is not True and not (isinstance(given, str) and given == "auto"):
        raise InvalidInputError(f"`average` is {given!r}; it must be 'auto', True or False.")
    why_not = _why_not(estimator, problem)
    if given is True and why_not:
        raise InvalidInputError(f"`average=True` cannot be: {why_not}. Leave `average` at 'auto', which knows.")
    return not why_not and problem.summary.n_rows <= (AVERAGE.most_rows if given is True else AVERAGE.rows)


def _why_not(estimator: Any, problem: Problem) -> str:
    """Why predictions cannot be averaged over kernels; empty where they can."""
    if estimator.kernel is not None:
        return "a kernel was given, and an average is over those among which the data choose"
    if problem.optimizer is None:
        return "with `optimizer=None` no other kernel is fitted"
    if not isinstance(estimator.knots, str):
        return "knots were given, and each kernel has its own"
    if problem.n_neighbors:
        return "it is not made with neighbours"
    if not problem.model.likelihood.conjugate:
        return "it is for Gaussian data"
    if not problem.run.blocks.at_hand:
        return "the rows are in a Dask collection"
    n_rows = problem.summary.n_rows
    if n_rows > AVERAGE.most_rows:
        return f"it is for few rows, up to {AVERAGE.most_rows:,}, and here are {n_rows:,}"
    if n_rows < AVERAGE.least_rows:
        return f"{n_rows} rows are too few to fit kernels to (from {AVERAGE.least_rows} on)"
    return ""


def has_ended_well(selection: Selection) -> bool:
    """Whether a fit found something to learn, and ended well, so that other kernels say what else it may be."""
    return selection.status is None and selection.evidence.converged


def components_of(estimator: Any) -> list[Any]:
    """The models over which predictions of a fitted estimator are averaged, each as an estimator by itself."""
    fit = estimator._fit
    if not fit.members:
        return [estimator]
    own = copy(estimator)
    own._fit = replace(fit, members=())
    each = zip(fit.members, estimator._parts, strict=True)
    return [own, *(_as_estimator(own, member, parts) for member, parts in each)]


def parts_of(scaling: Scaling, model: Model) -> dict[str, Any]:
    """The parts of a model of the engine's in the user's units, as a fitted estimator calls them."""
    model = scaling.to_user(model)
    parts = {"kernel_": model.kernel, "likelihood_": scaling.observed(model.likelihood), "mean_": model.mean}
    return parts | {"nugget_": model.nugget.variance}


def latent_models(estimator: Any) -> list[Any]:
    """The models of latent functions: those of a classifier, or the regressor itself."""
    return list(estimator.models_) if hasattr(estimator, "classes_") else [estimator]


def weights_of(members: Sequence[Member]) -> np.ndarray:
    """The probabilities of the model of a fit and of its further members, which sum to one."""
    others = np.array([member.weight for member in members])
    return np.append(max(1.0 - others.sum(), 0.0), others)


def _as_estimator(own: Any, member: Member, parts: dict[str, Any]) -> Any:
    """A copy of an estimator that predicts by a member alone, with its parts in the user's units; what else it says is
    of the fit.
    """
    model = copy(own)
    model._fit = replace(own._fit, posterior=member.posterior, table=member.table, tested=None)
    vars(model).update(parts)
    model.log_evidence_ = member.value + own._fit.n_rows * own._fit.scaling.log_jacobian
    return model


def table_of(estimator: Any) -> AveragedModels:
    """The models of a fitted estimator with their weights."""
    each = zip(components_of(estimator), weights_of(estimator._fit.members), strict=True)
    return AveragedModels(
        tuple(AveragedModel(m.kernel_, m.likelihood_, m.mean_, float(w), m.log_evidence_) for m, w in each)
    )
