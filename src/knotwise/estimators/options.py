"""From the options of an estimator to the parts of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from knotwise.data.encoding.encoding import Encoding
from knotwise.data.scaling import Scaling, what_to_write, without_common_scale
from knotwise.data.validation import check_count, refuse_masked_and_dates
from knotwise.decisions.auto import Auto
from knotwise.errors import InvalidInputError, unknown_option, warn
from knotwise.evidence import Model
from knotwise.evidence.inference import NAMED, Inference, inference_of
from knotwise.kernels.base import Kernel
from knotwise.kernels.stationary import SquaredExponential
from knotwise.likelihoods import Likelihood, candidates_named
from knotwise.noise import NoNugget, Nugget
from knotwise.numerics.parameters import ParameterTable, flat_names
from knotwise.optimize.adadelta import Adadelta
from knotwise.optimize.base import Optimizer
from knotwise.optimize.lbfgs import LBFGS
from knotwise.posterior.knots import POWERS
from knotwise.selection.base import Selector
from knotwise.selection.fixed import Fixed, Simultaneous
from knotwise.selection.initial import checked_knots

#: words of the option `noise`
NOISES = ("auto", "constant", "varying", "heavy")


def check_noise(given: Any) -> None:
    """Refuse what is no word for the noise of Gaussian data."""
    if not isinstance(given, str) or given not in NOISES:
        raise unknown_option("`noise`", given, NOISES)


def power_from(approximation: Any, default: str = "vfe") -> tuple[float, bool]:
    """The power of an approximation, and whether it is the exact GP instead."""
    if approximation is None:
        approximation = default
    if approximation == "full":
        return 1.0, True
    if isinstance(approximation, str):
        if approximation not in POWERS:
            raise unknown_option("`approximation`", approximation, [*POWERS, "full"])
        return POWERS[approximation], False
    number = isinstance(approximation, int | float | np.number) and not isinstance(approximation, bool)
    if number and 0 <= approximation <= 1:
        return float(approximation), False
    raise InvalidInputError(
        f"`approximation` is {approximation!r}; it must be 'fic', 'vfe', 'full' or a power between 0 and 1."
    )


def neighbors_from(given: Any, options: Any, likelihood: Likelihood) -> int | None:
    """How many Vecchia neighbours predict the residual of the knots; None where that may be decided."""
    if isinstance(given, str):
        if given != "auto":
            raise unknown_option("`n_neighbors`", given, ["auto"])
        return None if options.approximation is None and _is_variational(options.inference) else 0
    n_neighbors = check_count(given, "n_neighbors", least=0)
    if not n_neighbors:
        return 0
    if options.approximation is not None:
        raise InvalidInputError(
            f"`n_neighbors={n_neighbors}` and `approximation={options.approximation!r}` contradict each other: with "
            "neighbours nothing is left to approximate by a power, and the exact GP needs none. Leave one of them out."
        )
    if not likelihood.conjugate and not _is_variational(options.inference):
        raise InvalidInputError(
            f"`n_neighbors={n_neighbors}` and `inference={options.inference!r}` do not go together: with neighbours, "
            "the sites of data that are not Gaussian are those of variational inference. Leave `inference` at 'auto', "
            "or `n_neighbors` out."
        )
    return n_neighbors


def _is_variational(inference: Any) -> bool:
    return getattr(inference, "word", inference) in ("auto", "variational", "mixture")


def likelihoods_from(given: Any) -> tuple[Likelihood, ...]:
    """The likelihood by name or as an object; several where the data are to decide."""
    return (given,) if isinstance(given, Likelihood) else candidates_named(given)


def likelihood_from(given: Any) -> Likelihood:
    """The likelihood by name or as an object; where the data are to decide the one that has the others as limits."""
    return likelihoods_from(given)[-1]


def inference_from(given: Any, model: Model) -> tuple[Model, Inference | None]:
    """The model with the inference that is asked for, and the one that looks for its parameters first, if any.

    For Gaussian data every inference is exact. "auto" takes the variational posterior under VFE, FIC and for the exact
    GP, and lets the Laplace approximation, which is quicker, find parameters wherever the two agree. Between VFE and
    FIC it is EP or, where that refuses, Laplace.
    """
    if isinstance(given, type):
        raise InvalidInputError(f"`inference` is the class {given.__name__}; give an object, `{given.__name__}()`.")
    if isinstance(given, str) and given not in ("auto", *NAMED):
        raise unknown_option("`inference`", given, ["auto", *NAMED])
    if not isinstance(given, str) and not hasattr(given, "refuses"):
        raise InvalidInputError(f"`inference` is {given!r}; it must be 'auto' or one of {', '.join(NAMED)}.")
    if model.likelihood.conjugate:
        return model, None
    if given != "auto":
        model = replace(model, inference=NAMED[given] if isinstance(given, str) else given)
        inference_of(model)  # which refuses in words
        return model, None
    for word, surrogate in (("variational", NAMED["laplace"]), ("ep", None), ("laplace", None)):
        if not NAMED[word].refuses(model) and (word != "ep" or model.likelihood.log_concave):
            return replace(model, inference=NAMED[word]), surrogate
    return model, None


def lowest_target(likelihood: Any) -> float:
    """The lowest possible y; what is no likelihood has no limit here, because `fit` refuses it."""
    try:
        return likelihood_from(likelihood).support()[0]
    except InvalidInputError:
        return -np.inf


#: the same of a name; scikit-learn asks for it at every prediction
lowest_target_named = cache(lowest_target)


def nugget_from(given: Any, likelihood: Likelihood) -> Nugget:
    """The nugget: a held variance, "fit" for a learned one, none for 0."""
    if isinstance(given, str) and given != "fit":
        raise unknown_option("`nugget`", given, ["fit"])
    learned = isinstance(given, str)
    if not learned and (isinstance(given, bool) or not isinstance(given, int | float | np.number) or not given >= 0):
        raise InvalidInputError(f"`nugget` is {given!r}; it must be a variance of at least 0, or 'fit'.")
    if not learned and given == 0:
        return NoNugget()
    if likelihood.conjugate:
        raise InvalidInputError(
            "`nugget` cannot be told from Gaussian noise. Leave it at 0: the noise variance is learned already."
        )
    return Nugget(None if learned else float(given))


def optimizer_from(given: Any) -> Optimizer | None:
    """Turn the `optimizer` option of an estimator into an optimiser; None keeps every parameter."""
    if isinstance(given, type):
        raise InvalidInputError(f"`optimizer` is the class {given.__name__}; give an object, `{given.__name__}()`.")
    if given is None or hasattr(given, "maximize"):
        return given
    names = {"lbfgs": LBFGS, "adadelta": Adadelta}
    if not isinstance(given, str) or given not in names:
        raise unknown_option("`optimizer`", given, names)
    return names[given]()


def kernel_from(given: Any, feature_names: Sequence[str] | None, n_features: int) -> Kernel:
    """The kernel for data with these columns; the squared exponential by default."""
    if given is None:
        given = SquaredExponential()
    if not isinstance(given, Kernel):
        raise InvalidInputError(
            f"`kernel` is {given!r}; it must be a kernel such as knotwise.kernels.SquaredExponential()."
        )
    return given.bind(feature_names, n_features)


def selector_from(knots: Any, n_features: int, encoding: Encoding | None = None) -> Selector:
    """The way to choose knots: an array is held, a number is optimised, a selector does as it likes.

    With an encoding, knots that are given are rows as those of the table.
    """
    if isinstance(knots, type):
        raise InvalidInputError(f"`knots` is the class {knots.__name__}; give an object, `{knots.__name__}(...)`.")
    if hasattr(knots, "select") and not hasattr(knots, "__array__"):  # data frames have a `select` of their own
        if hasattr(knots, "n_knots"):
            check_count(knots.n_knots, "n_knots", least=1)
        return knots
    if isinstance(knots, str) and knots == "auto":
        return Auto()
    if isinstance(knots, str):
        raise InvalidInputError(
            f"`knots` is {knots!r}; it must be 'auto', a number of knots, an array of shape [K, {n_features}], or a "
            "selector such as knotwise.knots.Simultaneous(30)."
        )
    if np.ndim(knots) == 0:
        return Simultaneous(check_count(knots, "knots", least=1))
    if encoding is not None:
        shape = np.shape(knots)
        if len(shape) != 2 or shape[1] != n_features or not shape[0]:
            raise InvalidInputError(f"`knots` must be rows of {n_features} columns, as X has, but has shape {shape}.")
        Z = np.asarray(encoding(knots))
        return Fixed(Z, n_knots=len(Z))
    refuse_masked_and_dates(knots, "knots")
    Z = checked_knots(knots, n_features, "`knots`")
    return Fixed(Z, n_knots=len(Z))


def parameter_table(
    model: Model,
    default_bounds: np.ndarray,
    scaling: Scaling,
    *,
    fixed: Sequence[str] | str,
    bounds: Mapping[str, tuple[float, float]] | None,
    given: np.ndarray,
    priors: Any = None,
    held: Sequence[str] = (),
    keep: bool = False,
    columns: Sequence[str] = (),
) -> ParameterTable:
    """The table of a model's parameters in the engine's units; `bounds` come in the user's.

    `columns` are the names of the inputs, by which entries can be called: lengthscale[city]. `given` [P] are the values
    that the user gave, NaN elsewhere: a period among them is held, unless `bounds` or `priors` name it. `held` are the
    parts whose parameters the data or the model hold, beside those that the user fixed; `keep` keeps every value where
    it is, because nothing is optimised.
    """
    names, parameters = tuple(flat_names(model.names)), model.flat_parameters(len(scaling.x_scale))
    positive = np.array([p.positive for p in parameters], bool)
    values = model.theta
    np.exp(values, out=values, where=positive)
    lower, upper = default_bounds.T.copy()
    units = scaling.parameter_units(parameters)
    if isinstance(fixed, Mapping) or not isinstance(fixed, Iterable):
        raise InvalidInputError(f"`fixed` is {fixed!r}; it must be a list of parameter names.")
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidInputError(f"`bounds` is {bounds!r}; it must be a dict of (low, high) by parameter name.")
    hold = np.zeros(len(names), bool)
    starts = values.copy(), lower.copy(), upper.copy(), hold.copy()
    table = ParameterTable(names, parameters, *starts, tuple(model.owners), scaling.columns(columns), given)
    _refuse_mean_that_is_no_parameter(model, [*([fixed] if isinstance(fixed, str) else fixed), *(bounds or {})])
    for part in held:
        hold |= table.of_part(part)
    hold |= np.array([p.held_if_given for p in parameters], bool) & np.isfinite(given)
    for name in [*(bounds or {}), *(priors if isinstance(priors, Mapping) else {})]:
        hold[_freed_by(table, name)] = False
    for name in [fixed] if isinstance(fixed, str) else fixed:
        hold[table.entries(name, "A parameter in `fixed`")] = True
    bounded: dict[int, str] = {}
    for name, pair in (bounds or {}).items():
        for i in table.entries(name, "A parameter in `bounds`"):
            if bounded.setdefault(i, name) != name:
                raise InvalidInputError(f"`bounds` has {bounded[i]!r} and {name!r}, which are the same parameter.")
            if without_common_scale(parameters[i], table.columns):
                raise InvalidInputError(
                    f"`bounds` of {name!r} are in the units of its column, but it is one value for "
                    f"{len(parameters[i].columns)} columns of different scale. {what_to_write(parameters[i].name)}"
                )
            low, high = _checked_pair(name, pair, positive=positive[i])
            lower[i] = units.to_engine(low)[i]
            upper[i] = units.to_engine(high)[i]
            values[i] = min(max(values[i], lower[i]), upper[i])
    outside = ~hold & ((values < lower) | (values > upper)) & (not keep)
    if outside.any():
        which = ", ".join(name for name, out in zip(names, outside, strict=True) if out)
        warn(
            f"The start of {which} lies beyond the bounds taken from the data and was moved to them. "
            "Give `bounds` if it is meant, or name it in `fixed`."
        )
        values = np.where(outside, np.clip(values, lower, upper), values)
    return replace(table, values=values, lower=np.minimum(lower, values), upper=np.maximum(upper, values), fixed=hold)


def _freed_by(table: ParameterTable, name: Any) -> list[int]:
    """Entries of this name that would be held because they were given; unknown names are refused elsewhere."""
    try:
        entries = table.entries(name)
    except InvalidInputError:
        return []
    return [i for i in entries if table.parameters[i].held_if_given]


def _refuse_mean_that_is_no_parameter(model: Model, names: Iterable[Any]) -> None:
    if "mean" in names and not model.mean.size and "mean" not in model.names:
        raise InvalidInputError(
            "`fixed` or `bounds` has 'mean', but the mean is integrated out and is no parameter. Hold it with "
            "`mean=` and a number, or learn a point estimate with `mean=knotwise.means.Constant(prior_sd=None)`."
        )


def _checked_pair(name: str, pair: Any, *, positive: bool) -> tuple[float, float]:
    try:
        low, high = (float(b) for b in pair)
    except (TypeError, ValueError):
        low = high = np.nan
    if not low <= high or (positive and low <= 0):
        raise InvalidInputError(
            f"`bounds` of {name!r} are {pair!r}; they must be a pair (low, high) of "
            f"{'positive ' if positive else ''}numbers with low <= high."
        )
    return low, high
