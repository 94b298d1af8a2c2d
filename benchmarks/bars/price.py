"""What does a better choice cost elsewhere? Plain defaults beside those of an earlier commit, on quiet sets.

Run `python benchmarks/bars/price.py COMMIT [--folder DIR] [--only NAME ...] [--seeds N]`. Each set is fitted with all
options left alone by this code and by that of the commit, one after the other on one thread. The sets are those of the
study, of `automatic.py` (quiet data, draws of an isotropic GP, a bump), and CSV files of a folder (as for
`study.py --folder`). The claims: the log density of test rows is worse by at most 0.01 nats on average over the sets,
and by at most 0.03 on any (mean of its seeds); processor time of the study's sets in sum at most 1.5 times that of the
commit. Rows are appended to `benchmarks/results/price.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER / "bars"), str(FOLDER)]
from storing import append_row, print_claims  # noqa: E402
from versions import answer, both_versions  # noqa: E402

RESULTS = FOLDER / "results" / "price.jsonl"
ON_AVERAGE, ON_ANY, TIME = 0.01, 0.03, 1.5
SEEDS = 3


def sets(folder: str | None) -> dict[str, Any]:
    """Tasks by name, each a function of the seed."""
    import automatic

    import study

    drawn = {
        f"{case} {n}": partial(draw, n)
        for case, n, draw in (
            ("quiet", 280, automatic.quiet_rows),
            ("isotropic 2", 500, partial(automatic.isotropic_rows, 2)),
            ("isotropic 8", 500, partial(automatic.isotropic_rows, 8)),
            ("bump", 2000, partial(automatic.feature_rows, "bump", width=0.01)),
        )
    }
    of_study = {name: task for name, (_, task) in study.SETS.items()}
    given = {} if folder is None else {name: task for name, (_, task) in study.sets_of_folder(Path(folder)).items()}

    def as_task(draw: Any, seed: int) -> Any:
        X, y, X_new, y_new = draw(seed)
        return study.Task(X, y, X_new, y_new)

    return of_study | {name: partial(as_task, draw) for name, draw in drawn.items()} | given


def measure(question: dict[str, Any]) -> dict[str, Any]:
    """Log density per test row of a default fit, and its processor time."""
    from knotwise import GPRegressor

    task = sets(question["folder"])[question["set"]](question["seed"])
    gp = GPRegressor(random_state=question["seed"], n_jobs=1, progress=False, **task.options)
    begun = time.process_time()
    gp.fit(task.X, task.y, **task.with_exposure)
    seconds = time.process_time() - begun
    density = gp.log_predictive_density(task.X_test, task.y_test, **task.with_exposure)
    return {
        "log_density": round(float(np.mean(density)), 5),
        "seconds": round(seconds, 3),
        "kernel": repr(gp.kernel_)[:80],
        "knots": int(gp.n_knots_),
    }


def judge(rows: list[dict[str, Any]], timed: set[str]) -> dict[str, bool]:
    """The claims about rows of many sets; the sums of time are over those that are `timed`."""
    gains = defaultdict(list)
    for row in rows:
        gains[row["set"]].append(row["now"]["log_density"] - row["before"]["log_density"])
    means = {name: float(np.mean(values)) for name, values in gains.items()}
    worst = min(means, key=lambda name: means[name])
    of_study = [row for row in rows if row["set"] in timed]
    ratio = sum(row["now"]["seconds"] for row in of_study) / sum(row["before"]["seconds"] for row in of_study)
    mean = float(np.mean(list(means.values())))
    return {
        f"log density {mean:+.4f} on average over {len(means)} sets, at least -{ON_AVERAGE}": mean >= -ON_AVERAGE,
        f"{means[worst]:+.4f} on {worst}, at least -{ON_ANY} on any": means[worst] >= -ON_ANY,
        f"processor time of the study's sets {ratio:.2f} times as before, at most {TIME}": ratio <= TIME,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("commit", help="with whose defaults these are compared")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--folder", type=Path, help="CSV files of further sets")
    parser.add_argument("--only", nargs="*", default=[], help="sets whose names begin so")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds of each set")
    options = parser.parse_args()
    import study

    folder = None if options.folder is None else str(options.folder.resolve())
    rows = []
    with both_versions(options.commit, __file__) as ask:
        for name in sets(folder):
            if options.only and not name.startswith(tuple(options.only)):
                continue
            for seed in range(options.seeds):
                before, now = ask({"set": name, "seed": seed, "folder": folder})
                rows.append({"set": name, "seed": seed, "against": options.commit, "before": before, "now": now})
                append_row(options.out, rows[-1])
                gain = now["log_density"] - before["log_density"]
                print(f"{name:14}{seed:3}{gain:+9.4f}{before['seconds']:8.2f} s{now['seconds']:8.2f} s", end="  ")
                print(f"{before['kernel']} -> {now['kernel']}", flush=True)
    print_claims(judge(rows, set(study.SETS)))


if __name__ == "__main__" and not answer(measure):
    main()
