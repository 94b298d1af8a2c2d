"""Mean log loss of `GPClassifier` with its defaults on four sets with few training rows and unscaled inputs.

Run `python benchmarks/bars/classes.py`. Splits are stratified, seeds 0 to 4. The claims are the mean log losses of the
held-out rows, averaged over the splits: at most 0.10 for wine (90 training rows), 0.12 for iris (75), 0.10 for breast
cancer (250) and 0.45 for digits (200). Rows are appended to `benchmarks/results/classes.jsonl`, and a test checks what
is stored.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER / "bars"))
from storing import append_row, print_claims  # noqa: E402

SEEDS = range(5)
RESULTS = FOLDER / "results" / "classes.jsonl"

#: training rows and the largest mean log loss
SETS = {"wine": (90, 0.10), "iris": (75, 0.12), "breast_cancer": (250, 0.10), "digits": (200, 0.45)}


def measure(name: str, seed: int) -> dict[str, Any]:
    """Log loss and share of errors on the held-out rows of one split."""
    from sklearn import datasets
    from sklearn.metrics import log_loss
    from sklearn.model_selection import train_test_split

    from knotwise import GPClassifier

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=SETS[name][0], stratify=y, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = GPClassifier(random_state=seed, n_jobs=1, progress=False).fit(X, y)
    probabilities = gp.predict_proba(X_test)
    return {
        "rows": len(X),
        "log_loss": round(float(log_loss(y_test, probabilities)), 6),
        "errors": round(float(np.mean(gp.classes_[probabilities.argmax(1)] != y_test)), 6),
        "warnings": sorted({str(each.message)[:120] for each in caught}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which the rows are appended")
    parser.add_argument("--only", choices=list(SETS), help="one set")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="splits")
    options = parser.parse_args()
    claims = {}
    print(f"{'set':16}{'rows':>6}{'split':>7}{'log loss':>10}{'errors':>9}  warnings")
    for name, (_, limit) in SETS.items():
        if options.only not in (None, name):
            continue
        losses = []
        for seed in options.seeds:
            row = {"seed": seed, "case": name} | measure(name, seed) | {"limit": limit}
            append_row(options.out, row)
            losses.append(row["log_loss"])
            said = "; ".join(row["warnings"])
            print(f"{name:16}{row['rows']:6}{seed:7}{row['log_loss']:10.4f}{row['errors']:9.2%}  {said}", flush=True)
        print(f"{name:16}{'':6}{'mean':>7}{np.mean(losses):10.4f}   at most {limit}")
        claims[f"{name}: mean log loss at most {limit}"] = bool(np.mean(losses) <= limit)
    print_claims(claims)


if __name__ == "__main__":
    main()
