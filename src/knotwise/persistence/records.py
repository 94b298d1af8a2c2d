"""Fitted objects in a manifest: which fields they have there, and what must hold between them.

Sizes: D columns of the inputs, K knots, P parameters, M knots and mean coefficients, N rows (of the exact GP, and with
neighbours).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError, KnotwiseError
from knotwise.evidence.full_sites import FullState, RootPrecision, SignedPrecision
from knotwise.evidence.inference import NAMED
from knotwise.evidence.model import Jitter, Model, Rows
from knotwise.evidence.sparse import SparseState
from knotwise.noise import Inputs
from knotwise.numerics.parameters import ParameterTable, flat_names
from knotwise.optimize.base import OptimizeResult
from knotwise.persistence.parts import Part
from knotwise.persistence.schema import (
    Array,
    Count,
    Fields,
    Flag,
    ListOf,
    Number,
    OneOf,
    OneWord,
    Optional,
    Reading,
    Record,
    Spec,
    Text,
    Whole,
    Writing,
    refuse,
)
from knotwise.posterior.vecchia import VecchiaState
from knotwise.selection.trace import Action, KnotStep, KnotTrace, known_action

#: of labels: bool, integers, floating point numbers, text of some width, or any of these as Python objects
LABEL_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U[1-9][0-9]{0,5}|\|O")
LARGEST_LABELS = 2**22  # bytes: a few labels of a huge width would take much memory


class Labels:
    """Sorted labels of at least two classes."""

    def write(self, value: np.ndarray, at: str, out: Writing) -> dict[str, Any]:
        values = value.tolist()
        known = all(type(v) in (bool, int, float, str) for v in values) and LABEL_DTYPE.fullmatch(value.dtype.str)
        if not known or value.nbytes > LARGEST_LABELS:
            raise InvalidInputError(
                f"The labels of the classes, {values[:3]} and so on of dtype {value.dtype}, are not numbers or text of "
                "moderate length, as a model file can hold them. Keep this model with pickle, or use other labels."
            )
        return {"dtype": value.dtype.str, "values": values}

    def read(self, data: Any, at: str, given: Reading) -> np.ndarray:
        if not isinstance(data, dict) or list(data) != ["dtype", "values"] or not isinstance(data["values"], list):
            raise refuse(at, "an object with dtype and values")
        dtype, values = data["dtype"], data["values"]
        if not isinstance(dtype, str) or not LABEL_DTYPE.fullmatch(dtype):
            raise refuse(f"{at}.dtype", "a type that labels can have")
        if len(values) < 2 or len(values) * np.dtype(dtype).itemsize > LARGEST_LABELS:
            raise refuse(f"{at}.values", "labels of moderate number and length")
        if not all(type(v) in (bool, int, float, str) for v in values):
            raise refuse(f"{at}.values", "a list of numbers or text")
        try:
            labels = np.array(values, dtype)
            faithful = labels.tolist() == values and bool(np.array_equal(np.unique(labels), labels))
        except (TypeError, ValueError, OverflowError):
            faithful = False
        if not faithful:
            raise refuse(f"{at}.values", f"a sorted list of different labels of dtype {dtype}")
        return labels


LABELS = Labels()


class Word:
    """The action of a step; a selector's own word says that it is one, so that a misspelt word is found."""

    def write(self, value: Action | str, at: str, out: Writing) -> Any:
        return str(value) if isinstance(value, Action) else {"own": value}

    def read(self, data: Any, at: str, given: Reading) -> Action | str:
        own = isinstance(data, dict) and list(data) == ["own"]
        word = known_action(Text.read(data["own"] if own else data, at, given))
        if own == isinstance(word, Action):
            raise refuse(at, f"an action of a step: {', '.join(Action)}, or a word marked as a selector's own")
        return word


class Trace(Fields):
    """The steps of a selection; without the rows that were tried for knots, which are training data."""

    def read(self, data: Any, at: str, given: Reading) -> KnotTrace:  # type: ignore[override]
        content = super().read(data, at, given)
        trace = KnotTrace()
        trace.stop_reason, trace.steps = content["stop_reason"], content["steps"]
        return trace


TRACE = Trace(
    stop_reason=Text,
    steps=ListOf(
        Record(
            KnotStep,
            action=Word(),
            n_knots=Whole,
            evidence=Number(finite=False),
            seconds=Number(),
            n_rows=Optional(Count()),
            n_tried=Whole,
            chosen=Optional(Array(("D",))),
            gain=Number(finite=False),
            share=Number(finite=False),
            residual_information=Number(finite=False),
            theta=Optional(Array(("P",))),
            note=Text,
            inference=Text,
        )
    ),
)

RESULT = Record(
    OptimizeResult,
    value=Number(finite=False),
    parameters=Array(("moved",), finite=False),
    evaluations=Whole,
    gradient_norm=Number(finite=False),
    converged=Flag,
    reason=Text,
    history=Array(("evaluations",), finite=False),
)

TABLE = Fields(
    names=ListOf(Text, tuple, "P"),
    transforms=ListOf(Text, tuple, "P"),
    values=Array(("P",)),
    lower=Array(("P",), finite=False),
    upper=Array(("P",), finite=False),
    fixed=Array(("P",), "bool"),
    given=Optional(Array(("P",), finite=False)),
    priors=ListOf(Optional(Part("prior")), tuple, "P"),
)


class ModelRecord(Record):
    """A model whose residual is the one that it gets by itself; others have no place in a file yet."""

    def write(self, value: Model, at: str, out: Writing) -> dict[str, Any]:
        if value.residual is not None:
            raise InvalidInputError(
                f"The model has its own residual, {value.residual!r}, which a model file cannot hold. "
                "Keep this model with pickle."
            )
        return super().write(value, at, out)


MODEL = ModelRecord(
    Model,
    kernel=Part("kernel"),
    likelihood=Part("likelihood"),
    mean=Part("mean"),
    power=Number(),
    nugget=Part("nugget"),
    inference=Optional(OneWord(NAMED)),
)


class NeighbourRecord(Record):
    """A state with neighbours, of which there are no more than rows."""

    def read(self, data: Any, at: str, given: Reading) -> VecchiaState:
        state = super().read(data, at, given)
        for name in ("n_neighbors", "n_predicting"):
            if not 1 <= getattr(state, name) <= len(state.X):
                raise refuse(f"{at}.{name}", f"a number from 1 to the {len(state.X)} rows")
        inference = state.model.inference
        if inference is not None:
            state = replace(state, model=replace(state.model, inference=inference.with_neighbours()))
        return state


THROUGH_KNOTS: dict[str, Spec] = {
    "model": MODEL,
    "Z": Array(("K", "D"), squared=True),
    "jitter": Record(Jitter, relative=Number(), points=Array(("points", "D"), squared=True)),
    "L_inverse": Array(("K", "K"), squared=True),
    "T": Array(("M", "M"), squared=True),
    "gamma": Array(("M",), squared=True),
}

STATE = OneOf(
    sparse=Record(SparseState, **THROUGH_KNOTS),
    neighbors=NeighbourRecord(
        VecchiaState,
        **THROUGH_KNOTS,
        X=Array(("N", "D"), squared=True),
        r=Array(("N",), squared=True),
        noise=Array(("N",), positive=True, squared=True),
        n_neighbors=Whole,
        n_predicting=Whole,
    ),
    full=Record(
        FullState,
        model=MODEL,
        rows=Record(
            Rows,
            X=Array(("N", "D"), squared=True),
            y=Array(("N",)),
            noise_variance=Optional(Array(("N",), positive=True, squared=True)),
            basis=Array(("N", "basis"), squared=True),
            size=Optional(Array(("N",), positive=True)),
            weights=Optional(Array(("N",), positive=True)),
        ),
        a=Array(("N",), squared=True),
        precision=OneOf(
            root=Record(RootPrecision, L=Array(("N", "N"), squared=True), scale=Optional(Array(("N",), squared=True))),
            signed=Record(SignedPrecision, R=Array(("N", "N"), squared=True), log_det=Number()),
        ),
    ),
)


def check_model(
    model: Model, table: dict[str, Any], theta: np.ndarray, sizes: dict[str, int], at: str
) -> ParameterTable:
    """Refuse a model that does not fit the number of columns, its table of parameters or its factors.

    Returns the table, with what the parts of the model say of their parameters.
    """
    try:
        model.kernel.bind(None, sizes["D"])  # which checks the columns that it names, and its lists
        names = tuple(flat_names(model.names))
        parameters = model.flat_parameters(sizes["D"])
        n_basis = model.mean.basis(np.zeros((1, sizes["D"]))).shape[1]
        with np.errstate(all="ignore"):
            own = model.theta
            model.kernel(np.zeros((1, sizes["D"])))  # which knows the scales of its columns
            model.likelihood.at(Inputs(np.zeros((1, sizes["D"]))))  # and noise that varies
    except (KnotwiseError, ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        raise refuse(at, f"a model of {sizes['D']} columns ({error})") from None
    known = table["names"] == names and table["transforms"] == tuple(p.transform for p in parameters)
    if not known or not np.allclose(own, theta, rtol=1e-6, atol=1e-6):
        raise refuse(at, "a model with the parameters in `table` and `theta`")
    given = table["given"]
    if given is not None and any(value <= 0 for value, p in zip(given, parameters, strict=True) if p.positive):
        raise refuse(at, "a model of which positive values were given")
    if n_basis != (sizes["basis"] if "basis" in sizes else sizes["M"] - sizes["K"]):
        raise refuse(at, "a model whose mean fits its factors")
    if min(sizes[name] for name in ("D", "K", "N", "points") if name in sizes) < 1:
        raise refuse(at, "a model with columns and knots")
    parameters = tuple(replace(p, prior=prior or p.prior) for p, prior in zip(parameters, table["priors"], strict=True))
    bounds = {name: table[name] for name in ("values", "lower", "upper", "fixed", "given")}
    return ParameterTable(names, parameters, **bounds, parts=tuple(model.owners))
