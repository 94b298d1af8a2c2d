"""Small tables for the tests of the command line, and how to write and read them."""

import csv
import io
from pathlib import Path

import numpy as np

import knotwise

FEW = ["--knots", "6", "--threads", "1"]
QUICK = [*FEW, "--kernel", "se"]


def make_columns(n=70, seed=1):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0, 4, n), rng.normal(size=n)
    f = np.sin(2 * a) + 0.3 * b
    return {
        "a": a,
        "b": b,
        "y": f + 0.2 * rng.normal(size=n),
        "count": rng.poisson(3 * np.exp(f)).astype(float),
        "area": rng.uniform(0.5, 2, n),
        "hits": rng.binomial(9, 1 / (1 + np.exp(-f))).astype(float),
        "tries": np.full(n, 9.0),
        "w": rng.integers(0, 4, n).astype(float),
        "colour": np.where(f > 0.3, "red", "blue"),
        "code": np.where(f > 0.3, 2, 10),
        "three": np.where(f > 0.6, "c", np.where(f > 0, "b", "a")),
    }


def write_csv(path, columns, separator=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))


def read_csv(path_or_text):
    text = path_or_text.read_text(encoding="utf-8") if isinstance(path_or_text, Path) else path_or_text
    rows = list(csv.reader(io.StringIO(text)))
    return dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))


def numbers(table, *names):
    return np.column_stack([np.array(table[name], float) for name in names])


def inputs(columns):
    return np.column_stack([columns["a"], columns["b"]])


def load(path):
    """A model as one of an array, which takes arrays without a warning."""
    gp = knotwise.load(path)
    for model in (gp, *(gp.models_ if hasattr(gp, "classes_") else ())):
        del model.feature_names_in_
    return gp
