"""The size ladder: seconds, share of this machine's dgemm rate and peak memory of one evidence with its gradient.

Run `python benchmarks/ladder.py [--quick] [--json FILE]`. What is counted is explained in README.md. Each case runs
in a process of its own, which this script starts as `ladder.py --child CASE`; the parent only prints.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from memory import MB, make_data, peak_during, resident, run_child

ROUNDS = 5
DGEMM_SIZE = 1500
SHORTEST = 0.02  # seconds; a shorter evaluation is repeated within one timing
JITTER = 1e-6
VARIANCE, LENGTHSCALE, NOISE, MEAN = 1.3, 1.5, 0.1, 0.05

#: flops per N K^2 by which all programs are measured alike, whatever they save
NOMINAL = {"kept": 9, "streamed": 13}


@dataclass(frozen=True)
class Case:
    """One evaluation: sizes, whether V is kept in memory or computed again, threads, and the power."""

    N: int
    K: int
    d: int
    V: str = "streamed"  # or "kept"
    threads: int = 1
    power: float = 1.0

    @property
    def nominal_flops(self) -> float:
        return NOMINAL[self.V] * self.N * self.K**2

    @property
    def least_flops(self) -> float:
        """The derivation's count: triangles once, and no product with e at power 0."""
        return (5 + (self.V == "streamed") + (self.power > 0)) * self.N * self.K**2


@dataclass(frozen=True)
class Result:
    """Best seconds of a case, best seconds of the dgemm between its rounds, and bytes of peak over the data."""

    case: Case
    seconds: float
    dgemm_seconds: float
    dgemm_size: int
    extra_bytes: int

    @property
    def core_rate(self) -> float:
        """Flops per second of one core in dgemm."""
        return 2 * self.dgemm_size**3 / self.dgemm_seconds

    def share(self, flops: float) -> float:
        return flops / self.seconds / (self.core_rate * self.case.threads)


# -- which cases --------------------------------------------------------------------------------------


def cases_of(quick: bool) -> Iterator[Case]:
    """All cases: the product of sizes up to 100,000 rows, both powers at the key row, a choice at 1,000,000."""
    for N in (400, 10_000, 100_000):
        for d in (2, 4) if quick else (2, 4, 8):
            for K in (13, 50, 100, 200):
                for V in ("kept", "streamed"):
                    for threads in (1, 2):
                        case = Case(N, K, d, V, threads)
                        yield case
                        if (N, K, d) == (100_000, 200, 4):
                            yield replace(case, power=0.0)
    if not quick:
        for K, V in ((13, "streamed"), (50, "streamed"), (100, "streamed"), (200, "streamed"), (100, "kept")):
            for threads in (1, 2):
                yield Case(1_000_000, K, 4, V, threads)


# -- in the child -------------------------------------------------------------------------------------


def problem(case: Case) -> tuple[Any, ...]:
    """Data, knots, model and jitter of a case."""
    import numpy as np

    from knotwise import means
    from knotwise.evidence import Jitter, Model, Rows
    from knotwise.kernels import SquaredExponential
    from knotwise.likelihoods import Gaussian

    X, y = make_data(case.N, case.d)
    Z = X[np.random.default_rng(1).choice(case.N, min(case.K, case.N), replace=False)]
    model = Model(SquaredExponential(VARIANCE, LENGTHSCALE), Gaussian(NOISE), means.Constant(MEAN), case.power)
    return model, Rows(X, y, None, model.mean.basis(X)), Z, Jitter(JITTER, X[:1].copy())


def evaluation(case: Case, executor: Any = None) -> Callable[[], Any]:
    """The work that is timed: one evidence with its gradient, from a vector of parameters as an optimiser has it."""
    from knotwise.evidence import sparse_evidence

    model, rows, Z, jitter = problem(case)
    theta, keep_bytes = model.theta, 2**62 if case.V == "kept" else 0

    def evaluate() -> Any:
        return sparse_evidence(
            model.with_theta(theta), rows, Z, jitter=jitter, executor=executor, keep_bytes=keep_bytes
        )

    return evaluate


def interleaved(works: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Best seconds of each piece of work, taken in turn, so that a disturbance meets all of them."""
    repeats = []
    for work in works:
        start = time.perf_counter()
        work()
        repeats.append(max(1, int(SHORTEST / (time.perf_counter() - start))))
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            start = time.perf_counter()
            for _ in range(repeats[i]):
                work()
            best[i] = min(best[i], (time.perf_counter() - start) / repeats[i])
    return best


def measure(case: Case, rounds: int = ROUNDS, dgemm_size: int = DGEMM_SIZE) -> Result:
    """Measure a case in this process: first the memory of one evaluation, then the times."""
    import numpy as np

    from knotwise.numerics.blocks import executor_for

    with executor_for(case.threads) as executor:
        evaluation(replace(case, N=64, K=2))()  # loads what is loaded at first use
        evaluate = evaluation(case, executor)
        before = resident()
        _, peak = peak_during(evaluate)
        A, B = np.random.default_rng(2).standard_normal((2, dgemm_size, dgemm_size))
        product = np.empty_like(A)
        dgemm_seconds, seconds = interleaved([lambda: np.matmul(A, B, out=product), evaluate], rounds)
    return Result(case, seconds, dgemm_seconds, dgemm_size, peak - before)


def measure_small(rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of the smallest case by knotwise and by the bare transcription, once both have the same numbers."""
    import numpy as np

    from bare import bare_evidence
    from knotwise.numerics.blocks import single_threaded_blas

    case = Case(400, 13, 2, "kept")
    evaluate = evaluation(case)
    _, rows, Z, _ = problem(case)
    parameters = {"variance": VARIANCE, "lengthscale": LENGTHSCALE, "noise": NOISE, "mean": MEAN}

    def bare() -> Any:
        return bare_evidence(rows.X, rows.y, Z, **parameters, jitter=JITTER, power=case.power)

    ours = evaluate()
    value, gradient, knot_gradient = bare()
    np.testing.assert_allclose(ours.value, value, rtol=1e-9)
    np.testing.assert_allclose(ours.gradient, gradient, rtol=1e-9, atol=1e-9 * np.abs(gradient).max())
    np.testing.assert_allclose(ours.knot_gradient, knot_gradient, rtol=1e-9, atol=1e-9 * np.abs(knot_gradient).max())
    with single_threaded_blas():
        seconds, bare_seconds = interleaved([evaluate, bare], rounds)
    return {"seconds": seconds, "bare_seconds": bare_seconds}


def describe_machine() -> dict[str, Any]:
    """What the numbers depend on besides knotwise."""
    import numpy as np
    import scipy.linalg  # noqa: F401  (its BLAS is counted as well)
    from threadpoolctl import threadpool_info

    from knotwise.numerics.blocks import available_cores

    blas = sorted({f"{b['internal_api']} {b['version']}" for b in threadpool_info() if b["user_api"] == "blas"})
    return {
        "cores": available_cores(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": ", ".join(blas),
    }


# -- in the parent ------------------------------------------------------------------------------------


def measure_in_child(case: Case, rounds: int = ROUNDS, dgemm_size: int = DGEMM_SIZE) -> Result:
    """Measure a case in a process of its own."""
    settings = {"case": asdict(case), "rounds": rounds, "dgemm_size": dgemm_size}
    found = run_child(__file__, settings)
    return Result(case=Case(**found.pop("case")), **found)


def run(cases: list[Case], rounds: int = ROUNDS, dgemm_size: int = DGEMM_SIZE) -> list[Result]:
    """Measure the cases one after the other, and print each as it comes."""
    print(
        f"\n{'N':>9}{'K':>5}{'d':>3}  {'V':<9}{'power':>5}{'threads':>9}{'seconds':>11}{'dgemm GF/s':>12}"
        f"{'share':>8}{'least':>8}{'extra MB':>10}"
    )
    results = []
    for case in cases:
        if case.V == "kept" and psutil.virtual_memory().available / 2 < 24 * case.N * case.K:
            print(
                f"{case.N:>9,}{case.K:>5}{case.d:>3}  {case.V:<9} left out: more than half of the memory that is free"
            )
            continue
        result = measure_in_child(case, rounds, dgemm_size)
        results.append(result)
        print(
            f"{case.N:>9,}{case.K:>5}{case.d:>3}  {case.V:<9}{case.power:>5g}{case.threads:>9}{result.seconds:>11.3g}"
            f"{result.core_rate / 1e9:>12.1f}{result.share(case.nominal_flops):>8.2f}"
            f"{result.share(case.least_flops):>8.2f}{result.extra_bytes / MB:>10.1f}",
            flush=True,
        )
    return results


def ratios(results: list[Result], change: Callable[[Case], Case]) -> Iterator[tuple[Result, float]]:
    """Each result with the ratio of its time to that of the same case before a change, where both were measured."""
    seconds = {result.case: result.seconds for result in results}
    for result in results:
        other = change(result.case)
        if other != result.case and other in seconds:
            yield result, result.seconds / seconds[other]


def print_ratios(results: list[Result]) -> None:
    """Print what two threads save, and what ten times the rows cost."""
    print("\ntime with 2 threads over time with 1 (0.5 is ideal)")
    for result, ratio in ratios(results, lambda case: replace(case, threads=1)):
        case = result.case
        print(f"{case.N:>9,}{case.K:>5}{case.d:>3}  {case.V:<9}{case.power:>5g}{ratio:>9.2f}")
    rows = list(ratios(results, lambda case: replace(case, N=100_000) if case.N == 1_000_000 else case))
    if rows:
        print("\ntime at N = 1,000,000 over time at N = 100,000 (10 is ideal)")
    for result, ratio in rows:
        case = result.case
        print(f"{case.K:>14}{case.d:>3}  {case.V:<9}{case.threads:>5} thread{'s' * (case.threads > 1):<2}{ratio:>7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time, dgemm share and memory of one evidence with its gradient.")
    parser.add_argument("--quick", action="store_true", help="without N = 1,000,000 and d = 8")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        answer_parent(json.loads(given.child))
        return
    start, machine = time.perf_counter(), run_child(__file__, {"describe": True})
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print("load average before:", *(f"{load:.2f}" for load in os.getloadavg()))
    small = run_child(__file__, {"small": True})
    print(
        f"N = 400, K = 13, d = 2: knotwise {1e6 * small['seconds']:.0f} us, bare NumPy "
        f"{1e6 * small['bare_seconds']:.0f} us, ratio {small['seconds'] / small['bare_seconds']:.2f} (same numbers)"
    )
    results = run(list(cases_of(given.quick)))
    print_ratios(results)
    print(f"\nall in {time.perf_counter() - start:.0f} s; load average after:", *(f"{x:.2f}" for x in os.getloadavg()))
    if given.json:
        record = {"machine": machine, "small": small, "results": [asdict(result) for result in results]}
        given.json.write_text(json.dumps(record, indent=1) + "\n")


def answer_parent(settings: dict[str, Any]) -> None:
    """Do in this process what the parent asks for, and print it as JSON."""
    if settings.get("describe"):
        answer = describe_machine()
    elif settings.get("small"):
        answer = measure_small()
    else:
        answer = asdict(measure(Case(**settings.pop("case")), **settings))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
