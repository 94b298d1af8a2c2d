"""The registry: each experiment is data, the methods of both settings, and how many seeds; one is beyond the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from knotwise.errors import unknown_option
from knotwise_reproduction.data import (
    KNOTWISE,
    PUBLISHED,
    Task,
    load_banana,
    load_boston,
    load_hickory,
    simulate_gaussian,
    simulate_poisson,
)
from knotwise_reproduction.short import CASES, PICTURED, simulate_short

__all__ = ["EXPERIMENTS", "FULL", "Experiment", "Job", "Method", "experiments_named", "job_of", "plan"]

#: of the published settings and of ours, in a whole reproduction
SEEDS = {PUBLISHED: 3, KNOTWISE: 10}


@dataclass(frozen=True)
class Method:
    """A way to choose knots: its name in tables, what it is, where its knots start, and its limits.

    `kind` is "full", "oat", "oat-bo", "oat-rs", "simultaneous", "fixed" or "auto"; `initial` a name of
    `placements.PLACEMENTS`. With neighbours there is no approximation to choose.
    """

    name: str
    kind: str
    initial: str = ""
    n_initial: int = 0
    max_knots: int = 50
    t_max: int | None = None
    approximation: str | None = "fic"
    n_neighbors: int = 0


FULL = Method("Full", "full", approximation="full")
AUTO = Method("auto", "auto", approximation="vfe")


def oat(name: str, kind: str, t_max: int, initial: str, n_initial: int = 5, max_knots: int = 50) -> Method:
    return Method(name, kind, initial, n_initial, max_knots, t_max)


def simultaneous(name: str, initial: str, n_knots: int) -> Method:
    return Method(name, "simultaneous", initial, n_knots, n_knots)


def under_vfe(method: Method) -> Method:
    return replace(method, name=f"{method.name} VFE", approximation="vfe")


@dataclass(frozen=True)
class Experiment:
    """Data by seed, methods by setting (the exact GP first), and where the paper has it.

    Some experiments have several data sets, its cases, and `data` then takes the name of one as well. One that is
    `beyond` the paper says in `where` what it takes up.
    """

    name: str
    title: str
    where: str
    data: Callable[..., Task]
    methods: Mapping[str, tuple[Method, ...]]
    same_data: bool = False  # no split and nothing simulated: one exact GP serves every seed
    seeds: Mapping[str, int] = field(default_factory=lambda: SEEDS)
    cases: tuple[str, ...] = ("",)
    quick_cases: tuple[str, ...] = ("",)
    beyond: bool = False

    @property
    def place(self) -> str:
        """Where it stands in the paper, or that it does not."""
        return f"{'beyond the' if self.beyond else 'in the'} paper: {self.where}"

    def task(self, seed: int, case: str = "") -> Task:
        """The data of a seed and, where there are several, of a case."""
        return self.data(seed, case) if case else self.data(seed)

    def method(self, setting: str, name: str) -> Method:
        """The method of a setting by its name."""
        return next(method for method in self.methods[setting] if method.name == name)

    def n_seeds(self, setting: str, asked: int | None = None) -> int:
        """How many seeds to run; what is there for one picture has one whatever is asked."""
        own = self.seeds[setting]
        return own if asked is None or own == 1 else asked

    def exact_seed(self, seed: int) -> int:
        """The seed of the exact GP with which the fits of a seed are compared."""
        return 0 if self.same_data else seed


def both(methods: Iterable[Method], vfe: str) -> dict[str, tuple[Method, ...]]:
    """The same methods in both settings; in ours one of them under VFE too, and automatic knots."""
    common = (FULL, *methods)
    extra = under_vfe(next(method for method in common if method.name == vfe))
    return {PUBLISHED: common, KNOTWISE: (*common, extra, AUTO)}


def benchmark_methods(initial: str, n_initial: int, even: str, n_knots: Iterable[int]) -> tuple[Method, ...]:
    """The methods of the paper's section 6: one at a time with three proposals, and all knots together."""
    return (
        oat("OAT-BO 25", "oat-bo", 25, initial, n_initial),
        oat("OAT-RS 25", "oat-rs", 25, initial, n_initial),
        oat("OAT-RS 50", "oat-rs", 50, initial, n_initial),
        *(simultaneous(f"Simult. {K}", even, K) for K in n_knots),
    )


GAUSSIAN_METHODS = (
    *(oat(f"OAT {start}", "oat-bo", 30, start, 5, 30) for start in ("uniform", "adversarial", "random")),
    simultaneous("Simult. uniform", "uniform", 13),
    simultaneous("Simult. adversarial", "adversarial", 22),
    simultaneous("Simult. random", "random", 13),
)
POISSON_METHODS = (
    *(oat(f"OAT {start}", "oat-bo", 20, start, 3, 20) for start in ("uniform", "random")),
    simultaneous("Simult. 11", "uniform", 11),
    simultaneous("Simult. 20", "uniform", 20),
    Method("Fixed 20", "fixed", "uniform", 20, 20),
)
SHORT_METHODS = (
    FULL,
    Method("OAT 50", "oat", approximation="vfe"),
    AUTO,
    Method("15 neighbours", "auto", approximation=None, n_neighbors=15),
)

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "motivation",
            "Simulated Gaussian data through five knots, and a sixth",
            "section 4, figures 1 and 2",
            simulate_gaussian,
            {PUBLISHED: (simultaneous("FIC 5", "uniform", 5),)},
            seeds={PUBLISHED: 1},
        ),
        Experiment(
            "gaussian",
            "Simulated Gaussian data: 200 rows, one input",
            "section 5.2, appendix, table of the Gaussian example, figure 3",
            simulate_gaussian,
            both(GAUSSIAN_METHODS, "Simult. uniform"),
        ),
        Experiment(
            "boston",
            "Boston house values: 392 training and 98 test rows, three inputs",
            "section 6.1, table of the Boston results",
            load_boston,
            both(benchmark_methods("kmeans", 5, "kmeans", (50, 13)), "Simult. 50"),
        ),
        Experiment(
            "banana",
            "Banana classes: 531 training and 4769 test rows, two inputs",
            "section 6.2, table of the banana results, figures 4 and 5",
            load_banana,
            both(benchmark_methods("kmeans", 5, "kmeans", (50,)), "Simult. 50"),
        ),
        Experiment(
            "hickory",
            "Hickories of Lansing Woods: counts in 900 cells",
            "section 6.3, table of the hickory results, figures 6 and 7",
            load_hickory,
            both(benchmark_methods("random", 10, "lattice", (50, 28)), "Simult. 50"),
            same_data=True,
        ),
        Experiment(
            "poisson",
            "Simulated Poisson counts: 399 cells, one input",
            "appendix, table of the Poisson example, figure 8",
            simulate_poisson,
            both(POISSON_METHODS, "Simult. 20"),
        ),
        Experiment(
            "short",
            "Short length-scales: simulated Gaussian data on a line (600 rows) and in the plane (900 rows)",
            "the first weakness of section 7",
            simulate_short,
            {KNOTWISE: SHORT_METHODS},
            seeds={KNOTWISE: 3},
            cases=tuple(CASES),
            quick_cases=(PICTURED,),
            beyond=True,
        ),
    )
}


@dataclass(frozen=True)
class Job:
    """One fit: the experiment's name, the setting, the method's name, the seed, and the case where there are some."""

    experiment: str
    setting: str
    method: str
    seed: int
    case: str = ""

    @property
    def exact(self) -> Job | None:
        """The fit of the exact GP that must be there before; None for that fit itself, or where there is none."""
        experiment = EXPERIMENTS[self.experiment]
        if self.method == FULL.name or FULL not in experiment.methods[self.setting]:
            return None
        return Job(self.experiment, self.setting, FULL.name, experiment.exact_seed(self.seed), self.case)

    def __str__(self) -> str:
        case = f"{self.case}, " if self.case else ""
        return f"{self.experiment} ({self.setting}), {case}{self.method}, seed {self.seed}"


def job_of(row: Mapping[str, Any]) -> Job:
    """The job that a row is the result of."""
    return Job(row["experiment"], row["setting"], row["method"], row["seed"], row.get("case", ""))


def experiments_named(names: Iterable[str]) -> list[Experiment]:
    """The experiments of some names, in the registry's order; "all" is all, and "gaussian" shows the motivation too."""
    wanted = set()
    for name in names:
        if name != "all" and name not in EXPERIMENTS:
            raise unknown_option("The experiment", name, [*EXPERIMENTS, "all"])
        wanted |= set(EXPERIMENTS) if name == "all" else {name} | ({"motivation"} if name == "gaussian" else set())
    return [experiment for name, experiment in EXPERIMENTS.items() if name in wanted]


def plan(experiments: Iterable[Experiment], seeds: int | None = None, *, quick: bool = False) -> list[Job]:
    """Every job, seed by seed; the exact GPs come first because the others wait for them. `quick` has fewer cases."""
    jobs = [
        Job(experiment.name, setting, method.name, seed, case)
        for experiment in experiments
        for setting, methods in experiment.methods.items()
        for seed in range(experiment.n_seeds(setting, seeds))
        for case in (experiment.quick_cases if quick else experiment.cases)
        for method in methods
        if method is not FULL or experiment.exact_seed(seed) == seed
    ]
    return sorted(jobs, key=lambda job: (job.method != FULL.name, job.seed))
