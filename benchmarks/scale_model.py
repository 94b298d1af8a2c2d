"""What an evaluation on many machines takes: a model of its cost, against measurements, and simulated.

Run `python benchmarks/scale_model.py`. Latency of a pass, time of a task and spread of the times are those that
`dask_evaluation.py` has stored last; the rate of a core is that at which its row with the fewest rows of data takes as
long as it did. Printed are, in Markdown:

* the model against all stored rows of `large.py` and `dask_evaluation.py`, which are predicted with that one rate;
* seconds of an evaluation with gradient, and the share of the cores' time that is arithmetic, for 10^6 to 10^9 rows and
  2 to 1,000 cores: sums that all come to the driver, as they do, and a tree between the workers, for comparison.

`--write` puts the tables, and that of the stored rows of `subset.py`, into docs/scale.md.

The simulation is one of events: the driver sends one task after the other, tasks take times that vary (lognormal), and
answers wait for the driver's link. Nothing here has been measured on more than two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from math import ceil, log2
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

RESULTS, PAGE = FOLDER / "results", FOLDER.parent / "docs" / "scale.md"
VALUE_FLOPS, GRADIENT_FLOPS = 2, 6  # per row and knot^2
KERNEL_FLOPS = 40  # what a kernel value costs, as much as so many flops; it is computed once in each pass
NOTHING = ["(Nothing is stored yet.)"]
DRIVER_FLOPS = 10  # per knot^3, at the driver, in each evaluation


@dataclass(frozen=True)
class Machine:
    """What the time depends on: flops per second of a core, bytes per second of the driver's link, and seconds.

    `latency` is that of a pass with nothing to do, `per_task` what the scheduler spends on each task, `spread` the
    standard deviation of the logarithm of the time of a task.
    """

    flops: float = 1e10
    bandwidth: float = 1.2e9
    latency: float = 0.02
    per_task: float = 5e-4
    spread: float = 0.1


@dataclass(frozen=True)
class Work:
    """One evaluation with its gradient, of Gaussian data: rows, columns, knots, groups and partitions."""

    rows: float
    knots: int
    groups: int
    partitions: int
    columns: int = 4

    @property
    def pass_flops(self) -> tuple[float, float]:
        """Arithmetic of the pass for the value and of that for the gradient, over all groups."""
        kernel = KERNEL_FLOPS * self.rows * self.knots
        square = self.rows * self.knots**2
        return VALUE_FLOPS * square + kernel, GRADIENT_FLOPS * square + kernel

    @property
    def bytes_there(self) -> tuple[float, float]:
        """Bytes of the request to one group in the two passes."""
        return 8 * self.knots**2, 32 * self.knots**2

    @property
    def bytes_back(self) -> tuple[float, float]:
        """Bytes of the answer of one group: nodes of the tree over its partitions, and gradients."""
        own = ceil(self.partitions / self.groups)
        nodes = 1 if own & (own - 1) == 0 else 2 * log2(own) + 1
        return 8 * self.knots**2 * nodes, 8 * self.knots * (self.columns + 1)

    def driver_seconds(self, machine: Machine) -> float:
        return DRIVER_FLOPS * self.knots**3 / machine.flops


def predict(work: Work, machine: Machine) -> float:
    """Seconds of an evaluation by the formula: arithmetic, latency, and bytes through the driver's link."""
    total = work.driver_seconds(machine)
    for flops, there, back in zip(work.pass_flops, work.bytes_there, work.bytes_back, strict=True):
        sent = work.groups * (machine.per_task + (there + back) / machine.bandwidth)
        total += flops / (work.groups * machine.flops) + machine.latency + sent
    return total


def simulate(work: Work, machine: Machine, rng: np.random.Generator, *, tree: bool = False) -> float:
    """Seconds of an evaluation in a simulation of events; with a `tree`, workers add in pairs what goes back."""
    total = work.driver_seconds(machine)
    for flops, there, back in zip(work.pass_flops, work.bytes_there, work.bytes_back, strict=True):
        sent = np.arange(1, work.groups + 1) * (machine.per_task + there / machine.bandwidth)
        mean = flops / (work.groups * machine.flops)
        varied = np.exp(machine.spread * rng.standard_normal(work.groups) - machine.spread**2 / 2)
        done = sent + mean * varied
        total += machine.latency + (_added_in_pairs(done, back, machine) if tree else _received(done, back, machine))
    return total


def _received(done: np.ndarray, back: float, machine: Machine) -> float:
    """When the driver has the last answer: they come one after the other through its link."""
    free = 0.0
    for moment in np.sort(done):
        free = max(free, moment) + back / machine.bandwidth
    return free


def _added_in_pairs(done: np.ndarray, back: float, machine: Machine) -> float:
    """When the driver has the sum of a tree between workers: each level is one message and one task."""
    step = machine.per_task + back / machine.bandwidth
    while len(done) > 1:
        if len(done) % 2:
            done = np.append(done, 0.0)
        done = done.reshape(-1, 2).max(1) + step
    return float(done[0]) + back / machine.bandwidth


# -- against what was measured ------------------------------------------------------------------------


def stored(name: str) -> list[dict[str, Any]]:
    """Stored rows of a script."""
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measured() -> list[tuple[str, Work, float]]:
    """Evaluations of Gaussian data that were timed on workers: the script, the work, and seconds."""
    found = []
    for row in stored("dask_evaluation"):
        work = Work(row["rows"], row["knots"], row["groups"], row["partitions"], row["columns"])
        found.append(("dask_evaluation", work, row["workers"]))
    for row in stored("large"):
        if row["kind"] == "gaussian":
            work = Work(row["rows"], row["knots"], row["workers"], row["partitions"], row["columns"])
            found.append(("large", work, row["evaluation_seconds"]))
    return sorted(found, key=lambda each: each[1].rows)


def calibrated(machine: Machine) -> Machine:
    """The machine with the rate of a core at which the smallest stored evaluation takes as long as it did."""
    rows = sorted(stored("dask_evaluation"), key=lambda row: row["rows"])
    if not rows:
        return machine
    row, last = rows[0], stored("dask_evaluation")[-1]
    latency = max(last["empty_pass"] - last["groups"] * last["per_task"], 0.0)
    machine = replace(machine, latency=latency, per_task=last["per_task"], spread=last["task_spread"])
    work = Work(row["rows"], row["knots"], row["groups"], row["partitions"], row["columns"])
    seconds = row["workers"] - predict(work, replace(machine, flops=np.inf))
    flops = sum(work.pass_flops) / work.groups + DRIVER_FLOPS * work.knots**3
    return replace(machine, flops=flops / seconds)


def table_of_measurements(machine: Machine) -> list[str]:
    lines = [
        "| script | rows | knots | workers | measured, s | predicted, s | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, work, seconds in measured():
        expected = predict(work, machine)
        size = f"{name} | {work.rows:,} | {work.knots} | {work.groups}"
        lines.append(f"| {size} | {seconds:.3g} | {expected:.3g} | {expected / seconds:.2f} |")
    return lines


# -- what was not measured ----------------------------------------------------------------------------


def mean_seconds(work: Work, machine: Machine, repeats: int, *, tree: bool) -> float:
    """The mean over simulations, which have the same random numbers with and without a tree."""
    return float(np.mean([simulate(work, machine, np.random.default_rng(i), tree=tree) for i in range(repeats)]))


def table_of_simulations(machine: Machine, knots: int, repeats: int) -> list[str]:
    cores = (2, 10, 100, 1000)
    heads = " | ".join(f"{n:,} cores" for n in cores)
    lines = [f"| rows | {heads} |", "|---" * (1 + len(cores)) + "|"]
    for rows in (10**6, 10**7, 10**8, 10**9):
        cells = []
        for n in cores:
            work = Work(rows, knots, n, n)
            plain, tree = (mean_seconds(work, machine, repeats, tree=tree) for tree in (False, True))
            ideal = sum(work.pass_flops) / machine.flops / n
            shown = f"{plain:,.0f}" if plain >= 100 else f"{plain:.3g}"
            cells.append(f"{shown} s, {ideal / plain:.0%} ({ideal / tree:.0%})")
        lines.append(f"| 10^{round(np.log10(rows))} | {' | '.join(cells)} |")
    return lines


def cores_that_pay(machine: Machine, rows: float, knots: int) -> int:
    """The most cores of which each doubling still takes a third off the time, by the formula."""
    n = 1
    while n < 2**16:
        one, two = (predict(Work(rows, knots, m, m), machine) for m in (n, 2 * n))
        if two > one * 2 / 3:
            return n
        n *= 2
    return n


def lines_of_use(machine: Machine, knots: int) -> list[str]:
    """Up to how many cores pay, for numbers of rows."""
    cores = [f"{cores_that_pay(machine, 10**power, knots):,} for 10^{power}" for power in (6, 7, 8, 9)]
    return [f"A doubling of the cores takes at least a third off the time up to {', '.join(cores)} rows."]


def describe(machine: Machine, knots: int) -> list[str]:
    """What the simulation takes for granted, in a sentence."""
    origin = "measured on two cores" if stored("dask_evaluation") else "assumed, since nothing is stored"
    parts = (
        f"{machine.flops / 1e9:.1f} Gflop/s for each core",
        f"{1e3 * machine.latency:.0f} ms for a pass",
        f"{1e3 * machine.per_task:.2f} ms for a task and times of tasks that vary by {machine.spread:.0%} ({origin})",
        f"{machine.bandwidth / 1e9:.1f} GB/s to and from the driver (assumed)",
    )
    return [f"With {knots} knots, {', '.join(parts)}:", ""]


def with_block(page: str, name: str, lines: list[str]) -> str:
    """The page with other lines between the marks of a name."""
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return "\n".join([f"{before}{start}", "", *lines, "", f"{end}{after}"])


def tables(machine: Machine, knots: int = 100, repeats: int = 20) -> dict[str, list[str]]:
    """The lines of the page by the names of their marks, from what is stored."""
    from subset import latest
    from subset import table as table_of_subsets

    simulated = table_of_simulations(machine, knots, repeats)
    return {
        "measurements": table_of_measurements(machine) if measured() else NOTHING,
        "simulation": [*describe(machine, knots), *simulated, "", *lines_of_use(machine, knots)],
        "subset": table_of_subsets(latest(stored("subset"))) if stored("subset") else NOTHING,
    }


def with_tables(page: str) -> str:
    """The page with the tables of what is stored."""
    for name, lines in tables(calibrated(Machine())).items():
        page = with_block(page, name, lines)
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of an evaluation: model, measurements, simulation.")
    parser.add_argument("--knots", type=int, default=100)
    parser.add_argument("--gigaflops", type=float, default=10.0, help="of a core, where nothing is stored")
    parser.add_argument("--bandwidth", type=float, default=1.2e9, help="bytes per second of the driver's link")
    parser.add_argument("--write", action="store_true", help="put the tables, with the defaults, into docs/scale.md")
    given = parser.parse_args()
    for lines in tables(calibrated(Machine(1e9 * given.gigaflops, given.bandwidth)), given.knots).values():
        print("\n".join(lines) + "\n")
    if given.write:
        PAGE.write_text(with_tables(PAGE.read_text()))


if __name__ == "__main__":
    main()
