"""Time of imports, each in a fresh interpreter, against what every user of the field has loaded anyway.

Run `python benchmarks/imports.py`. What is counted is explained in README.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from statistics import median

PAIRS = [
    ("import knotwise", "import numpy, scipy.linalg"),
    ("from knotwise import GPRegressor", "import sklearn.base"),
]

CHILD = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def seconds_of(statement: str) -> float:
    """Time one import statement in a fresh interpreter, without the start of the interpreter itself."""
    command = [sys.executable, "-c", CHILD.format(statement)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(rounds: int = 11) -> dict[str, float]:
    """Median seconds of every statement; one round after the other, so that a disturbance meets all of them."""
    statements = [statement for pair in PAIRS for statement in pair]
    for statement in statements:
        seconds_of(statement)  # the first import writes bytecode and fills the file cache
    times = [[seconds_of(statement) for statement in statements] for _ in range(rounds)]
    return dict(zip(statements, map(median, zip(*times, strict=True)), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description="Import times, medians over fresh interpreters.")
    parser.add_argument("--rounds", type=int, default=11)
    found = measure(parser.parse_args().rounds)
    for ours, theirs in PAIRS:
        print(f"{ours:<36}{1e3 * found[ours]:8.1f} ms")
        print(f"{theirs:<36}{1e3 * found[theirs]:8.1f} ms")
        print(f"{'ratio':<36}{found[ours] / found[theirs]:8.2f}")


if __name__ == "__main__":
    main()
