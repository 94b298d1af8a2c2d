"""`knotwise fit` of several Parquet files: the numbers of one table, and mistakes in words."""

import json

import numpy as np
import pytest
from cli_tables import FEW, QUICK, make_columns

import knotwise

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's own, of a new pandas


@pytest.fixture
def parts(here, columns):
    """The table in three files of a folder, and in one."""
    (here / "rows").mkdir()
    n = len(columns["y"])
    for i, own in enumerate(np.array_split(np.arange(n), 3)):
        pq.write_table(pa.table({k: np.asarray(v)[own] for k, v in columns.items()}), here / "rows" / f"{i}.parquet")
    pq.write_table(pa.table({k: np.asarray(v) for k, v in columns.items()}), here / "all.parquet")
    return here


@pytest.mark.parametrize("data", ["rows/*.parquet", "rows"])
def test_several_files_are_the_fit_of_one(data, parts, run):
    words = ["--target", "y", "--inputs", "a,b", *QUICK]
    assert run("fit", "all.parquet", *words, "-o", "one.knotwise")[0] == 0
    code, out, _ = run("fit", data, *words, "-o", "many.knotwise", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == len(make_columns()["y"])
    one, many = knotwise.load("one.knotwise"), knotwise.load("many.knotwise")
    assert one.parameters_.as_dict() == many.parameters_.as_dict()  # few rows come to the driver
    assert many.feature_names_in_.tolist() == ["a", "b"]


def test_text_makes_a_classifier_and_counts_have_an_exposure(parts, run):
    words = ["fit", "rows/*.parquet", "--inputs", "a,b", *QUICK]
    assert run(*words, "--target", "colour", "-o", "c.knotwise")[0] == 0
    assert knotwise.load("c.knotwise").classes_.tolist() == sorted(set(make_columns()["colour"]))
    exposed = ["--target", "count", "--likelihood", "poisson", "--exposure", "area", "-o", "n.knotwise"]
    assert run(*words, *exposed)[0] == 0


def test_places_where_predictions_are_wanted_go_with_several_files(parts, run):
    words = ["--target", "y", "--inputs", "a,b", *FEW, "--predict-at", "rows/1.parquet"]
    assert run("fit", "rows/*.parquet", *words, "-o", "m.knotwise")[0] == 0
    assert knotwise.load("m.knotwise")._fit.tested.asked < 0


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["fit", "none/*.parquet"], "names no file", 1),
        (["fit", "rows/*.parquet", "--memory", "2GB"], "--memory is that of each worker", 2),
        (["fit", "rows/*.parquet", "--workers", "1", "--scheduler", "tcp://a:1"], "give one of them", 2),
        (["fit", "rows/*.parquet", "--neighbors", "4"], "nearest rows of a row", 1),
        (["fit", "rows/*"], "is no .parquet file", 1),
        (["fit", "empty"], "The folder empty has no .parquet file", 1),
        (["fit", "rows/*.parquet", "--missing", "mean"], "--missing is for one file", 2),
        (["fit", "rows/*.parquet", "--inputs", "a,colour"], "The input 'colour' holds no numbers", 1),
    ],
)
def test_mistakes_are_said_in_words(words, said, code, parts, run):
    (parts / "rows" / "note.txt").write_text("no table")
    (parts / "empty").mkdir()
    inputs = [] if "--inputs" in words else ["--inputs", "a,b"]
    found = run(*words, "--target", "y", *inputs, "-o", "m.knotwise", *QUICK)
    assert found[0] == code
    assert said in found[2]


def test_a_bad_value_is_named_by_its_file(parts, run):
    table = pq.read_table(parts / "rows" / "1.parquet")
    gap = [None if i == 7 else value for i, value in enumerate(table["a"].to_pylist())]
    pq.write_table(table.set_column(table.column_names.index("a"), "a", pa.array(gap)), parts / "rows" / "1.parquet")
    code, _, said = run("fit", "rows/*.parquet", "--target", "y", "--inputs", "a,b", "-o", "m.knotwise", *QUICK)
    assert code == 1
    assert "1.parquet: Input X contains NaN in row 7, column 'a'. Drop these rows (--drop-missing)" in said


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_workers_read_the_files(parts, run):
    words = ["fit", "rows/*.parquet", "--target", "y", "--inputs", "a,b", *QUICK, "-o", "m.knotwise"]
    assert run(*words, "--workers", "1", "--memory", "1GB")[0] == 0
    assert knotwise.load("m.knotwise").n_knots_ > 0
