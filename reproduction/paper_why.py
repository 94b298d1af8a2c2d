"""Why some numbers are not the paper's: the published settings with one thing done as the authors' program does it.

python reproduction/paper_why.py          # prints the table and stores it in docs/paper/why.md, some minutes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np

from knotwise.likelihoods import Bernoulli
from knotwise.likelihoods.base import Derivatives
from knotwise.optimize.adadelta import Adadelta
from knotwise.report.html import Table
from knotwise_reproduction import runs
from knotwise_reproduction.data import PUBLISHED, Task
from knotwise_reproduction.experiments import EXPERIMENTS, FULL
from knotwise_reproduction.results import metric, spread
from knotwise_reproduction.scores import Prediction, score

OUT = Path(__file__).parents[1] / "docs" / "paper" / "why.md"
SEEDS = range(3)


class WrongCurvature(Bernoulli):
    """The program's Bernoulli likelihood, whose curvature where y = 1 is p (1 + p) instead of p (1 - p).

    The search for the mode takes the right one: with the wrong one it reaches the same mode, by small steps.
    """

    log_concave = False

    def fisher(self, y, f, size=1.0):
        return -super().derivatives(y, f, size).second

    def derivatives(self, y, f, size=1.0):
        right = super().derivatives(y, f, size)
        p = self.conditional_mean(f)
        second = np.where(y == 1, -p * (1 + p), right.second)
        return Derivatives(right.first, second, np.where(y == 1, -p * (1 - p) * (1 + 2 * p), right.third))


def as_it_is(task: Task) -> Task:
    return task


def with_wrong_curvature(task: Task) -> Task:
    return replace(task, options={PUBLISHED: {**task.options[PUBLISHED], "likelihood": WrongCurvature()}})


@dataclass(frozen=True)
class Variant:
    """A method with something changed: the data's model, or the optimiser."""

    words: str
    experiment: str
    method: str
    change: Callable[[Task], Task] = as_it_is
    optimizer: Adadelta | None = None


PAPER = {"epsilon": 1e-4, "max_iterations": 1000}
VARIANTS = (
    Variant("as published", "boston", "Simult. 50"),
    Variant("all 1000 iterations", "boston", "Simult. 50", optimizer=Adadelta(value_tolerance=0.0, **PAPER)),
    Variant("as published", "boston", "Simult. 13"),
    Variant("all 1000 iterations", "boston", "Simult. 13", optimizer=Adadelta(value_tolerance=0.0, **PAPER)),
    Variant("as published", "boston", "OAT-RS 25"),
    Variant(
        "the last iterate instead of the best", "boston", "OAT-RS 25", optimizer=Adadelta(return_best=False, **PAPER)
    ),
    Variant("as published", "banana", "OAT-RS 25"),
    Variant("the program's curvature", "banana", "OAT-RS 25", with_wrong_curvature),
    Variant("as published", "banana", "Simult. 50"),
    Variant("the program's curvature", "banana", "Simult. 50", with_wrong_curvature),
    Variant("as published", "hickory", "Simult. 50"),
    Variant("all 1000 iterations", "hickory", "Simult. 50", optimizer=Adadelta(value_tolerance=0.0, **PAPER)),
)


@contextmanager
def optimizer_of(variant: Variant) -> Iterator[None]:
    chosen = variant.optimizer
    with mock.patch.object(runs, "paper_optimizer", (lambda: chosen) if chosen else runs.paper_optimizer):
        yield


def results_of(variant: Variant, seed: int) -> dict[str, float]:
    """Fit the exact GP and the method, both with the change of the model, and score."""
    experiment = EXPERIMENTS[variant.experiment]
    task = variant.change(experiment.data(seed))
    exact, *_ = runs.fit(task, FULL, PUBLISHED, seed)
    with optimizer_of(variant):
        gp, _, gradients = runs.fit(task, experiment.method(PUBLISHED, variant.method), PUBLISHED, seed)
    row = score(gp, task, Prediction.of(gp, task), Prediction.of(exact, task))
    return {**row, "n_knots": gp.n_knots_, "gradients": gradients or 0, "log_evidence": float(gp.log_evidence_)}


def main() -> None:
    lines = []
    for variant in VARIANTS:
        rows = [{"metrics": results_of(variant, seed)} for seed in SEEDS]
        cells = [
            spread([value for row in rows if (value := metric(name)(row)) is not None], style)
            for name, style in (
                ("n_knots", "g"),
                ("gradients", "g"),
                ("log_evidence", ".1f"),
                ("mnlp", ".3f"),
                ("aukl_published", ".3f"),
            )
        ]
        lines.append((f"{variant.experiment}, {variant.method}", variant.words, *cells))
        print(*lines[-1], sep="  ", flush=True)
    columns = ("method", "by", "K", "gradients", "log-likelihood", "MNLP", "AUKL")
    table = Table("The published settings, and one change", columns, tuple(lines), f"Seeds: {len(SEEDS)}.")
    OUT.write_text(table.to_markdown() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
