"""A likelihood or a transform that the data decide: the problem, the decision, and its step in the trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from knotwise.data.scaling import Scaling
from knotwise.decisions import counts, transform
from knotwise.errors import InvalidInputError
from knotwise.estimators.assemble import Assembly
from knotwise.estimators.options import transform_from
from knotwise.likelihoods import Likelihood, Transformed
from knotwise.names import WITH_ZEROS
from knotwise.selection.base import Decision
from knotwise.selection.problem import Problem
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
    return _with_step(made[chosen], Action.LIKELIHOOD, step, numbers)


def assemble_transformed(
    options: Any, make: Callable[[Likelihood], Assembly], likelihood: Likelihood, *, at_hand: bool
) -> Assembly:
    """The problem of a fit to the target, or to the transform of it that was given or that suits the data.

    Rows that are not `at_hand` are refused with a transform that was given, and left alone otherwise.
    The fit that follows is the one with the chosen transform given, to the bit.
    """
    wanted = transform_from(options, likelihood)
    modelled = likelihood.modelled
    if wanted is None:
        return make(modelled)
    given = None if isinstance(wanted, str) else wanted
    if given is not None and not (given.is_open and at_hand):
        return make(Transformed(modelled, given))
    if given is not None and options.optimizer is None:
        raise InvalidInputError(
            f"The power of `transform={given.word!r}` is chosen by fits, and `optimizer=None` forbids them. Give it: "
            f"`transform=knotwise.transforms.{type(given).__name__}(power=0.5)`."
        )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        plain = make(modelled)
    decision: Decision[Any] = Decision(None, "")
    if given is not None:
        decision = transform.choose_power(_target(options, plain), given, np.random.default_rng(SEED))
    elif at_hand and not plain.little_information and may_be_transformed(options, plain.problem):
        decision = transform.decide(_target(options, plain), np.random.default_rng(SEED))
    if decision.choice is not None:
        made = make(Transformed(modelled, decision.choice))
    else:
        made = plain
        for each in said:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if not decision.why:
        return made
    numbers = dict(decision.numbers)  # which are of y, and those of a trace of the engine's targets
    value = numbers.get("log_evidence", np.nan) - numbers.get("n_rows", 0.0) * made.scaling.log_jacobian
    return _with_step(made, Action.TRANSFORM, decision.why, numbers | {"log_evidence": value})


def _target(options: Any, plain: Assembly) -> transform.Target:
    make = plain.with_kernel if options.kernel is None else None
    return transform.Target(plain.problem, make, plain.scaling.targets_back, plain.scaling.log_jacobian)


def may_be_transformed(options: Any, problem: Problem) -> bool:
    """Whether a transform may be decided: what a user has told in the units of the target is not taken away."""
    fixed = options.likelihood != "gaussian" or options.optimizer is None or options.mean != "constant"
    fixed = fixed or bool(options.fixed) or bool(options.bounds) or options.priors is not None
    if fixed or isinstance(options.standardize, Scaling):
        return False
    if problem.rows.noise_variance is not None:
        return False
    of_y = np.array([p.y_power != 0 or p.role == "mean" for p in problem.table.parameters])
    return not (problem.given & of_y).any()


def _with_step(made: Assembly, action: Action, why: str, numbers: dict[str, float]) -> Assembly:
    """The same with the decision as the first step of the trace."""
    trace = made.problem.new_trace()
    trace.add(action, 0, numbers.get("log_evidence", np.nan), n_rows=numbers.get("n_rows"), note=why)
    earlier = tuple(trace)
    make = made.with_kernel
    make = replace(make, rest=make.rest | {"earlier": earlier})
    return replace(made, problem=replace(made.problem, earlier=earlier), with_kernel=make)
