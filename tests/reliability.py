"""The failure cases, the tests that cite them, and the table of docs/reliability.md."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("tests", "reproduction/tests")
PAGE = ROOT / "docs" / "reliability.md"
START, END = "<!-- reliability:start -->", "<!-- reliability:end -->"

#: number -> what goes wrong elsewhere, and what happens here instead
CASES = {
    1: ("not positive definite on 5 points with restarts", "the fit succeeds; failed restarts are skipped and counted"),
    2: (
        "not positive definite with many knots and a long length-scale",
        "knots are dropped, the jitter has a cap and is recorded",
    ),
    3: ("duplicate rows", "no more knots than places; the evidence of replicated data; no storm of warnings"),
    4: ("zero noise, or nearly zero in one row", "a floor relative to the variance of y, one warning that names it"),
    5: ("constant input column", "predictions as without it; bounded length-scale"),
    6: ("constant target, one row", "the constant is predicted, with a finite std in its units and a warning"),
    7: ("one class only", "an error that names the class"),
    8: ("more knots than distinct rows", "their number is reduced, and the fit says so; an array is used as given"),
    9: ("knots wander outside the data", "they stay in the data's box and a margin"),
    10: ("large counts overflow", "finite fits for counts up to ten million"),
    11: ("Newton's method oscillates, or stops far from the mode", "no step goes down; not arriving is said"),
    12: ("rare events", "a small finite rate, and a warning that the data carry little information"),
    13: ("separable classes", "probabilities strictly between 0 and 1, finite latent"),
    14: ("length-scale underflows", "bounds on the log scale; a trial without a value is a shorter step"),
    15: ("unscaled inputs", "powers of two: the same bits; other units: the same predictions"),
    16: ("large offset of the inputs", "equals the centred fit"),
    17: ("units of the target", "mean and std scale with it; to the bit for powers of two"),
    18: ("negative predictive variance", "never negative"),
    19: ("std and covariance disagree", "they agree to 1e-8"),
    20: ("float32, integer and boolean input", "equals the float64 fit of the same values"),
    21: (
        "object, text, date and categorical columns",
        "numbers are converted, text is a category, dates are days; what is none of them is an error with its place",
    ),
    22: ("pandas with a shuffled index", "positions count; other lengths are errors"),
    23: ("same seed, different result", "the same bits, also on two threads"),
    24: ("other block size or row order", "the same evidence to 1e-10"),
    25: ("predict allocates rows x knots", "the memory of a few vectors and a block"),
    26: ("fit allocates rows x knots", "rows are streamed in blocks"),
    27: ("predict works on all rows of the fit again", "time and state do not depend on them"),
    28: ("batched predictions differ from those in one go", "equal to 1e-12"),
    29: ("pickle, deepcopy or clone fail", "they work at each stage of life; no pool or lock is kept"),
    30: ("a file of another version", "refused clearly, with what to do"),
    31: (
        "the optimiser ends abnormally",
        "one warning with the gradient norm, the bounds and advice; `converged_` is false",
    ),
    32: (
        "a sparse model is overconfident",
        "a knot on every row is the exact GP; intervals through few knots hold what they say",
    ),
    33: ("NaN, infinity or masked values in the data", "an error with the rows and the column"),
    34: (
        "impossible counts, labels, exposures",
        "an error with the row and the value; one warning for fractional counts",
    ),
    35: ("misspelt option", "an error that names the nearest valid one"),
    44: ("exposure forgotten", "predictions, score, density, plots, cross-validation: refused in words"),
    45: ("a refused refit", "the old model is untouched"),
    46: ("fits and predictions in threads", "the same bits, and BLAS as it was afterwards"),
    47: ("response intervals of many rows", "blocks of rows, and some dozen microseconds for each"),
    48: ("two parts with a parameter of one name", "qualified names; the short one is an error that names both"),
    49: (
        "somebody else's folder",
        "`--out`, checkpoints, links, forged steps: refused or started anew, and nothing foreign is touched",
    ),
    50: ("more knots than rows, or absurdly many", "their number is bounded, with a warning"),
    51: ("a fit ends as noise", "never below an earlier stage, or within chance of no inputs, while called converged"),
    52: ("weights of survey data", "scale, shape and dispersion as without; a warning with the line to write"),
    53: ("numbers in a column of dates, codes that are text", "refused with the row; a category, and said"),
    54: ("known noise", "certificates of the noise as given; asked for again at prediction"),
    55: ("a fitted kernel in another fit", "means the same function"),
    56: ("folds of two models", "the same blocks for every model of the same rows"),
}

CITED = re.compile(r"mark\.failure\((\d+)\)")


@cache
def citations() -> frozenset[tuple[int, str, str]]:
    """Which tests cite which cases, from the source: (case, file, name of the test)."""
    found = set()
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for_all = " ".join(
            ast.unparse(node)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        )
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marks = for_all + " ".join(map(ast.unparse, node.decorator_list))
                found |= {(int(case), path.name, node.name) for case in CITED.findall(marks)}
    return frozenset(found)


def folder_of(file: str) -> str:
    """Where a test file is."""
    return next((folder for folder in FOLDERS if (ROOT / folder / file).exists()), FOLDERS[0])


def table(outcomes: dict[tuple[int, str, str], Counter]) -> str:
    """The table of the page, from the outcomes of the tests of each case."""
    lines = ["| # | case | what happens here | tests | result |", "|---|---|---|---|---|"]
    for case, (wrong, here) in CASES.items():
        tests = sorted(key for key in outcomes if key[0] == case)
        total = sum((outcomes[key] for key in tests), Counter())
        links = "; ".join(
            f"[{name.removeprefix('test_').replace('_', ' ')}](../{folder_of(file)}/{file})" for _, file, name in tests
        )
        result = ", ".join(f"{count} {outcome}" for outcome, count in sorted(total.items()))
        lines.append(f"| {case} | {wrong} | {here} | {links} | {result} |")
    return "\n".join(lines)


def write_page(outcomes: dict[tuple[int, str, str], Counter]) -> None:
    """Put the table of a complete run between the marks of the page."""
    missing = citations() - set(outcomes)
    if missing:
        raise SystemExit(f"{PAGE.name} is not written: some tests did not run, as {sorted(missing)[0]}.")
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{START}\n{table(outcomes)}\n{END}{after}", encoding="utf-8")


def listed() -> dict[int, tuple[set[tuple[int, str, str]], str]]:
    """What the page says: for each case its tests, and their result."""
    rows = {}
    for line in PAGE.read_text(encoding="utf-8").split(START)[1].split(END)[0].strip().splitlines()[2:]:
        case, _, _, tests, result = (cell.strip() for cell in line.strip("|").split("|"))
        names = re.findall(r"\[([^]]+)\]\(\.\./(?:reproduction/)?tests/([^)]+)\)", tests)
        rows[int(case)] = {(int(case), file, "test_" + name.replace(" ", "_")) for name, file in names}, result
    return rows
