"""Run one job: fit, score against the data and the exact GP, and return a row."""

from __future__ import annotations

import platform
import time
import warnings
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from knotwise.errors import FitWarning, KnotwiseError
from knotwise.estimators import GPRegressor
from knotwise.knots import Auto, BayesOpt, Fixed, OneAtATime, RandomSubset, Simultaneous
from knotwise.numerics.blocks import single_threaded_blas
from knotwise.optimize.adadelta import Adadelta
from knotwise.optimize.base import Objective, Optimizer, OptimizeResult
from knotwise.optimize.lbfgs import LBFGS
from knotwise.version import __version__
from knotwise_reproduction.data import MODEL, PUBLISHED, Task
from knotwise_reproduction.experiments import EXPERIMENTS, FULL, Job, Method
from knotwise_reproduction.motivation import sixth_knot
from knotwise_reproduction.pictures import picture_of, rounded
from knotwise_reproduction.placements import place_knots
from knotwise_reproduction.scores import Prediction, score
from knotwise_reproduction.short import PICTURED

__all__ = ["Counted", "Finished", "fit", "run", "versions"]

Row = dict[str, Any]


class Counted:
    """An optimiser that counts the gradients it takes, over all stages of a fit."""

    def __init__(self, inner: Optimizer) -> None:
        self.inner, self.gradients = inner, 0

    def maximize(self, objective: Objective, start: np.ndarray, bounds: np.ndarray) -> OptimizeResult:
        result = self.inner.maximize(objective, start, bounds)
        self.gradients += result.evaluations
        return result


@dataclass(frozen=True)
class Finished:
    """What a job leaves: its row and, of the exact GP, the predictions with which others are compared."""

    row: Row
    prediction: Prediction | None


def run(job: Job, exact: Prediction | None) -> Finished:
    """Fit and score; a fit that cannot be made is a row with its error."""
    experiment = EXPERIMENTS[job.experiment]
    method = experiment.method(job.setting, job.method)
    task = experiment.task(job.seed, job.case)
    row: Row = {
        "experiment": job.experiment,
        "setting": job.setting,
        "method": job.method,
        "seed": job.seed,
        "versions": versions(),
        "threads": 1,
        "n_tmax": method.t_max,
    }
    if job.case:
        row["case"] = job.case
    with single_threaded_blas():
        try:
            gp, seconds, gradients = fit(task, method, job.setting, job.seed)
        except KnotwiseError as error:
            return Finished(row | {"error": str(error)}, None)
        prediction = Prediction.of(gp, task)
        metrics = score(gp, task, prediction, prediction if method is FULL else exact)
        picture = picture_of(job.experiment, gp, task) if job.seed == 0 and job.case in ("", PICTURED) else {}
        if job.experiment == "motivation":
            sixth = sixth_knot(gp, task)
            metrics, picture = metrics | sixth.scores(), picture | sixth.picture()
        row |= {
            "seconds": round(seconds, 4),
            "n_knots": int(gp.n_knots_),
            "n_neighbors": int(gp.n_neighbors_),
            "gradient_steps": gradients,
            "log_evidence": float(gp.log_evidence_),
            "metrics": metrics,
            "parameters": dict(gp.parameters_.as_dict()),
            "initial_knots": initial_of(task, method, job.seed).tolist(),
            "knots": gp.knots_.tolist(),
            "converged": bool(gp.converged_),
            "reason": gp.stop_reason_,
            "picture": rounded(picture) or None,
        }
    return Finished(row, prediction)


def fit(task: Task, method: Method, setting: str, seed: int) -> tuple[GPRegressor, float, int | None]:
    """Fit a method; returns the model, its seconds, and its gradients (None where the method hides them)."""
    counted = Counted(paper_optimizer() if setting == PUBLISHED else LBFGS())
    options = {"optimizer": counted, **MODEL, **task.options[setting]}
    if method is FULL:
        options |= task.exact_options.get(setting, {})
    gp = GPRegressor(
        **options,
        approximation=method.approximation,
        knots=1 if method is FULL else selector(task, method, setting, seed, counted),
        n_neighbors=method.n_neighbors,
        random_state=seed,
        n_jobs=1,
        progress=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the row says whether the fit converged
        start = time.perf_counter()
        gp.fit(task.X, task.y, **task.with_exposure)
        seconds = time.perf_counter() - start
    return gp, seconds, None if method.kind == "auto" else counted.gradients


def paper_optimizer() -> Adadelta:
    """Adadelta with the settings of the authors' scripts: it stops at one change of the objective below 1e-3."""
    return Adadelta(epsilon=1e-4, value_tolerance=1e-3, max_iterations=1000)


def selector(task: Task, method: Method, setting: str, seed: int, optimizer: Optimizer) -> Any:
    """The knot selection of a method, in a setting."""
    if method.kind == "auto":
        return Auto()
    if method.kind == "oat":  # as it comes
        return OneAtATime(max_knots=method.max_knots)
    initial = initial_of(task, method, seed)
    if method.kind == "fixed":
        return Fixed(initial)
    if method.kind == "simultaneous":
        return Simultaneous(method.n_initial, initial)
    assert method.t_max is not None
    limits: dict[str, Any] = {"max_knots": method.max_knots, "n_initial": method.n_initial, "initial": initial}
    if setting == PUBLISHED:
        chosen = OneAtATime.paper(method.kind.removeprefix("oat-"), method.t_max, **limits)
        chosen.optimizer = optimizer
        return chosen
    proposal = BayesOpt(10, method.t_max) if method.kind == "oat-bo" else RandomSubset(method.t_max)
    # as it was when the stored rows were made
    return OneAtATime(proposal=proposal, hold_until="auto", start_rows=150, unexplained=None, **limits)


def initial_of(task: Task, method: Method, seed: int) -> np.ndarray:
    """The knots with which a method starts, [K, D]; none for the exact GP and automatic knots."""
    if not method.initial:
        return np.empty((0, task.X.shape[1]))
    return place_knots(task, method.initial, method.n_initial, seed)


def versions() -> dict[str, str]:
    """What the numbers of a row may depend on."""
    return {
        "knotwise": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": metadata.version("scipy"),
    }
