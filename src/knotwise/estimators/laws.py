"""A likelihood that the data decide: the problem under each law, the decision, and its step in the trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from knotwise.decisions import counts
from knotwise.errors import InvalidInputError
from knotwise.estimators.assemble import Assembly
from knotwise.names import WITH_ZEROS
from knotwise.selection.trace import Action

#: of the one generator of this decision: the same data have the same law, and the fit its own random numbers
SEED = 0


def assemble_chosen(options: Any, assemblies: Mapping[str, Callable[[], Assembly]]) -> Assembly:
    """The problem of a fit under the law that suits the data, of several; warns of what is to be said of that one.

    `assemblies` make the problem under each, by its name. The fit that follows is the one with the chosen law told, to
    the bit. Laws with zeros beside the counts are assembled only where they are tried.
    """
    word = options.likelihood
    if options.optimizer is None:
        raise InvalidInputError(
            f"`likelihood={word!r}` is decided by fits, and `optimizer=None` forbids them. Name the law, such as "
            "`likelihood='poisson'`, or give one with its parameters, `NegativeBinomial(dispersion=0.5)`."
        )
    made: list[Assembly] = []
    heard: list[list[warnings.WarningMessage]] = []

    def assembled(assemble: Callable[[], Assembly]) -> counts.Law:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                made.append(assemble())
            except InvalidInputError as error:
                error.add_note(
                    f"This was with a candidate of `likelihood={word!r}`: what only one of them has, such as "
                    "`dispersion`, cannot be fixed, bounded or given a prior, unless that one is named."
                )
                raise
        heard.append(said)
        return counts.Law(made[-1].problem, made[-1].with_kernel if options.kernel is None else None)

    laws = [assembled(assemble) for name, assemble in assemblies.items() if name not in WITH_ZEROS]
    with_zeros = [partial(assembled, assemble) for name, assemble in assemblies.items() if name in WITH_ZEROS]
    chosen, step = 0, "the counts tell too little to choose"
    numbers: dict[str, float] = {}
    if not any(each.little_information for each in made):
        decision = counts.decide(laws, np.random.default_rng(SEED), with_zeros)
        chosen, step, numbers = decision.choice, decision.why, dict(decision.numbers)
    for each in heard[chosen]:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return _with_step(made[chosen], step, numbers)


def _with_step(made: Assembly, why: str, numbers: dict[str, float]) -> Assembly:
    """The same with the decision as the first step of the trace."""
    trace = made.problem.new_trace()
    trace.add(Action.LIKELIHOOD, 0, numbers.get("log_evidence", np.nan), n_rows=numbers.get("n_rows"), note=why)
    earlier = tuple(trace)
    make = made.with_kernel
    make = replace(make, rest=make.rest | {"earlier": earlier})
    return replace(made, problem=replace(made.problem, earlier=earlier), with_kernel=make)
