"""Kernels that are candidates: how they are fitted to the rows of a trial, and which of some is the best.

On the same rows the evidence says how smooth a function is; where it is nearly the same, the rougher kernel is taken,
and where it leaves the answer open, validation rows may decide. A kernel with more parameters must have enough evidence
to pay for them, and must not predict validation rows worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from knotwise.decisions.signal import n_identifiable
from knotwise.decisions.thresholds import KERNEL
from knotwise.decisions.trials import Candidate, Trial, describe_kernel, known_curvature
from knotwise.kernels.base import Kernel
from knotwise.kernels.stationary import Matern12, Matern32, Matern52, SquaredExponential, Stationary
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.problem import KernelMaker, Problem

SMOOTHER_FIRST: tuple[type[Stationary], ...] = (SquaredExponential, Matern52, Matern32, Matern12)

#: kernels of one structure (the same length-scales on the same columns), smoother ones first
Structure = Sequence[Candidate]


def each_smoothness(
    trial: Trial, make: Callable[[type[Stationary]], Problem], starts: Sequence[np.ndarray]
) -> Structure:
    """Kernels from the smoothest to the roughest, each started where the one before it ended.

    Smoother ones that are far behind the best are tried once more, from where a rougher one ended: a sharp feature has
    an optimum of its own that smooth kernels do not find from everywhere.
    """
    found: list[Candidate] = []
    for kind in SMOOTHER_FIRST:
        problem = make(kind)
        like = found[-1] if found else None
        tried = fit_candidate(
            trial, problem, [as_start(problem, each, kind) if found else each for each in starts], like=like
        )
        if tried is not None:
            found.append(tried)
            starts = [tried.theta]
    best = int(np.argmax([tried.value for tried in found])) if found else 0
    for i in reversed(range(best)):
        if found[i].value > found[best].value - KERNEL.close[-1]:
            continue
        problem, kind = found[i].problem, SMOOTHER_FIRST[i + 1]
        start = as_start(problem, found[i + 1].theta, kind, smoother=True)
        again = fit_candidate(trial, problem, [start], like=found[i + 1])
        if again is not None and again.value > found[i].value:
            found[i] = again
    return found


def as_start(problem: Problem, theta: np.ndarray, kind: type[Stationary], *, smoother: bool = False) -> np.ndarray:
    """Hyperparameters of a kernel as a start of the next rougher one, of this kind, or back from that."""
    longer = np.log(KERNEL.longest if kind is Matern12 else KERNEL.longer) * (-1.0 if smoother else 1.0)
    lengthscales = problem.table.with_role("lengthscale") & problem.free
    return np.clip(theta + longer * lengthscales, *problem.table.theta_bounds.T)


def fit_candidate(
    trial: Trial,
    problem: Problem,
    starts: Iterable[np.ndarray],
    search: LBFGS = KERNEL.first_search,
    like: Candidate | None = None,
) -> Candidate | None:
    """The best fit of a kernel to the rows, from several starts; None where nothing can be fitted.

    A candidate with the same hyperparameters, `like`, has the curvature with which a few evaluations are enough. Where
    there is a surrogate, a quicker inference, the evidences that are compared are its.
    """
    exact, count = trial.exact(problem, search).by_surrogate, trial.fitted.count
    newton, best = known_curvature(exact, like), None
    for start in starts:
        stage = next(trial.ends(exact if newton is None else replace(exact, optimizer=newton), [start]), None)
        if newton is not None and stage is not None and not stage.result.converged:
            stage = next(trial.ends(exact, [stage.theta]), stage)
        if stage is not None and (best is None or stage.value > best.value):
            best = stage
    if best is None:
        return None
    learned = best.result.information
    information = None if learned is None else learned / count
    tried = Candidate(problem, best, exact.log_evidence(best), information=information)
    trial.trace.add("kernel", 0, tried.value, n_rows=count, note=f"{name_of(tried)}, {len(trial.fitted)} rows")
    return tried


# -- the choice -------------------------------------------------------------------------------------------


def best_of(trial: Trial, structures: Sequence[Structure]) -> Candidate:
    """How smooth, within each structure; then the structure, the one with fewest parameters first."""
    each = sorted((how_smooth(trial, s) for s in structures if s), key=lambda one: n_identifiable(one.problem))
    best = each[0]
    for larger in each[1:]:
        # rows that have told the hyperparameters only confirm the evidence
        if larger.value - best.value > price(larger, best) or len(trial.validation):
            larger, best = trial.judged(larger), trial.judged(best)
            if _pays(trial, larger, best):
                best = larger
    return best


def how_smooth(trial: Trial, structure: Structure) -> Candidate:
    """The likeliest of kernels with as many parameters; Matern 3/2 where it is nearly as likely as others, or of data
    that are not Gaussian the smoothest of those.

    Validation rows decide between kernels that the evidence leaves open, where they are sure.
    """
    most = max(tried.value for tried in structure)
    best = next(tried for tried in structure if tried.value == most)
    if not best.problem.model.likelihood.conjugate:  # which tell little of smoothness: fewer knots do for a smooth one
        best = next(tried for tried in structure if tried.value >= most - KERNEL.rough_tie)
    else:
        rough = isinstance(_plain_kernel(best), Matern12)
        near = [t for t in structure if t.value >= most - (KERNEL.rough_tie if rough else KERNEL.tie)]
        smoother = [t for t in near if not isinstance(_plain_kernel(t), Matern12)]
        best = smoother[-1] if smoother else best
    rivals = [tried for tried in structure if tried is not best and tried.value >= most - KERNEL.open]
    if not rivals:
        return best
    best = trial.judged(best)
    for rival in map(trial.judged, rivals):
        mean, error = trial.gain(rival, best)
        if mean > KERNEL.sure * error:
            best = rival
    return best


def _pays(trial: Trial, larger: Candidate, smaller: Candidate) -> bool:
    """Whether a kernel with more parameters is worth them; both have been judged."""
    least_gain = price(larger, smaller)
    gain = larger.value - smaller.value
    mean, error = trial.gain(larger, smaller, ("near",))
    if np.isnan(mean):  # nothing confirms the evidence
        return gain > KERNEL.unconfirmed * least_gain
    least = error if least_gain > KERNEL.few_rows * len(trial.fitted) else -error
    sure = len(trial.validation) > 0 and mean > KERNEL.clear * error  # of rows that have not told the hyperparameters
    if not ((gain > least_gain and mean > least) or sure):
        return False
    few = least_gain < KERNEL.many_parameters * len(trial.fitted)
    return few or trial.error_beyond(larger) <= trial.error_beyond(smaller)


def price(larger: Candidate, smaller: Candidate) -> float:
    """Nats of evidence that a kernel with more parameters must bring."""
    return n_identifiable(larger.problem) - n_identifiable(smaller.problem) + KERNEL.margin


def or_with_trend(
    make: KernelMaker,
    trial: Trial,
    own: Structure,
    best: Candidate,
    fit: Callable[..., Candidate | None],
    *,
    few: tuple[Trial, Candidate],
) -> tuple[Candidate, list[Candidate | None]]:
    """The best kernel, or one with a linear trend beside it where that is likelier, and predicts as well; and all that
    were fitted.

    Without the trend a kernel may seem smooth and its length-scale long, so each smoothness of the structure is tried
    with it, unless `few` rows, with the best kernel of these, have shown that there is none.
    """
    trend = make.with_trend()
    if trend is None:
        return best, []
    rows, stood = few
    first = fit_candidate(rows, trend(fresh(stood.problem.model.kernel)), [stood.theta], like=stood)
    if first is None or _lead_of_trend(rows, first, stood) < -KERNEL.unconfirmed * KERNEL.margin:
        return best, [first]
    if stood is not best:
        first = fit(trial, trend(fresh(best.problem.model.kernel)), [best.theta], like=best)
    if first is None or _lead_of_trend(trial, first, best) < -KERNEL.margin:
        return best, [first]
    rest = [tried for tried in own if tried.problem is not best.problem]

    def search(trial: Trial, tried: Candidate) -> Candidate | None:
        return fit(trial, trend(fresh(tried.problem.model.kernel)), [tried.theta], like=tried)

    others = trial.each(search, rest)
    beside = how_smooth(trial, sorted((t for t in (first, *others) if t is not None), key=_roughness))
    beside, best = trial.judged(beside), trial.judged(best)
    mean, error = trial.gain(beside, best)
    pays = _lead_of_trend(trial, beside, best) > KERNEL.tie and not mean < -error
    return (beside if pays else best), [first, *others]


def _lead_of_trend(trial: Trial, beside: Candidate, plain: Candidate) -> float:
    """Nats by which a kernel with a linear trend is likelier than one without, at slopes of one deviation or so.

    The slopes are integrated out, so that the evidence has paid for them; but under a prior so vague that it asks for
    more than any slope of standardised columns can bring.
    """
    n_slopes = beside.problem.model.mean.basis(trial.fitted.X[:1]).shape[1] - 1
    return beside.value - plain.value + n_slopes * KERNEL.vague_slope


def fresh(kernel: Kernel) -> Kernel:
    """A kernel of the same kind, without values."""
    inner = kernel.unrestricted
    new = type(inner)(ard=getattr(inner, "ard", False))  # type: ignore[call-arg]
    return new if kernel.restricted_to is None else new.on(kernel.restricted_to)


def _roughness(candidate: Candidate) -> int:
    return [isinstance(_plain_kernel(candidate), kind) for kind in SMOOTHER_FIRST].index(True)


def _plain_kernel(candidate: Candidate) -> Kernel:
    return candidate.problem.model.kernel.unrestricted


def name_of(candidate: Candidate) -> str:
    return describe_kernel(candidate.problem.model.kernel)
