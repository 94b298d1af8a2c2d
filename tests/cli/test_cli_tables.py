"""Tables: Parquet like CSV, whatever the dress of a CSV file, and gaps."""

import json
import sys

import numpy as np
import pytest
from cli_tables import QUICK, inputs, make_columns, read_csv, write_csv

import knotwise
from knotwise import GPRegressor
from knotwise.cli import reading as cli_reading
from knotwise.kernels import SquaredExponential


def test_parquet_gives_the_same_model_and_the_same_predictions_as_csv(folder, columns, here, run):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    stored = {name: values.tolist() for name, values in columns.items()}
    stored["a"] = arrow.array([str(value) for value in stored["a"]])  # numbers as text
    stored["colour"] = arrow.array(stored["colour"]).dictionary_encode()
    parquet.write_table(arrow.table(stored), "all.parquet")
    for name in ("y", "colour"):
        assert run("fit", "all.parquet", "--target", name, "--inputs", "a,b", *QUICK, "-o", "m.knotwise")[0] == 0
        assert (here / "m.knotwise").read_bytes() == (folder / f"{name}.knotwise").read_bytes()
        words = ["predict", "m.knotwise", "all.parquet", "--keep", "code,colour"]
        assert run(*words)[1] == run("predict", "m.knotwise", folder / "all.csv", *words[3:])[1]
        assert run(*words, "-o", "p.parquet")[0] == 0
        table = read_csv(run(*words)[1])
        found = parquet.read_table("p.parquet").to_pydict()
        assert {column: [str(value) for value in values] for column, values in found.items()} == {
            column: list(values) for column, values in table.items()
        }


def test_gaps_and_dates_in_parquet_are_told_with_their_rows(folder, here, run):
    import datetime

    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    day = datetime.date(2020, 1, 2)
    parquet.write_table(arrow.table({"a": [1, None, 3], "b": [1.0, 2.0, None], "day": [day] * 3}), "t.parquet")
    code, _, err = run("predict", folder / "y.knotwise", "t.parquet")
    assert code == 1 and "'a' in row 1; 'b' in row 2" in err
    code, out, err = run("predict", folder / "y.knotwise", "t.parquet", "--drop-missing", "--keep", "day")
    assert code == 0 and list(read_csv(out)["day"]) == ["2020-01-02"] and "left out 2 rows" in err
    code, _, err = run("predict", folder / "y.knotwise", "t.parquet", "--inputs", "a,day")
    assert code == 1 and "'day'" in err and "date" in err


def test_without_pyarrow_parquet_has_a_remedy_and_csv_works(folder, here, run, monkeypatch):
    for package in ("pyarrow", "pyarrow.parquet", "pandas"):
        monkeypatch.setitem(sys.modules, package, None)
    (here / "t.parquet").write_bytes(b"PAR1")
    for words in (["t.parquet"], [folder / "new.csv", "-o", "p.parquet"]):
        code, _, err = run("predict", folder / "y.knotwise", *words)
        assert code == 1 and "pip install 'knotwise[parquet]'" in err
    assert run("predict", folder / "y.knotwise", folder / "new.csv")[0] == 0


@pytest.mark.parametrize(
    "name, words, write",
    [
        ("t.csv", [], lambda text: text.replace(",", ";")),
        ("t.tsv", [], lambda text: text.replace(",", "\t")),
        ("t.txt", [], lambda text: text.replace(",", " | ")),
        ("t.csv", ["--separator", ":"], lambda text: text.replace(",", ":")),
        ("t.txt", ["--separator", "tab"], lambda text: text.replace(",", "\t")),
        ("t.csv", ["--decimal", ","], lambda text: text.replace(",", ";").replace(".", ",")),
        ("t.CSV", [], lambda text: "\ufeff" + text.replace("\n", "\r\n")),
        ("t.csv", [], lambda text: "\n\n" + text.replace("\n", "\n\n")),
        ("t.csv", [], lambda text: "\n".join(", ".join(f'"{v}"' for v in line.split(",")) for line in text.split())),
    ],
)
def test_the_same_table_is_read_whatever_its_dress(name, words, write, folder, here, run):
    new = make_columns(20, seed=2)
    write_csv("plain.csv", {"a": new["a"], "b": new["b"]})
    (here / name).write_text(write((here / "plain.csv").read_text(encoding="utf-8")), encoding="utf-8")
    expected = run("predict", folder / "y.knotwise", "plain.csv")
    assert run("predict", folder / "y.knotwise", name, *words) == expected and expected[0] == 0


def test_rows_with_missing_values_are_named_or_left_out_and_counted(folder, columns, here, run, monkeypatch):
    monkeypatch.setattr(cli_reading, "CHUNK_ROWS", 9)
    texts = {name: [repr(float(v)) for v in columns[name]] for name in ("a", "b", "y")}
    for row, name, mark in ((0, "a", ""), (4, "a", "NA"), (30, "b", "NaN"), (30, "y", "null"), (69, "y", " ")):
        texts[name][row] = mark
    write_csv("t.csv", texts)
    words = ["fit", "t.csv", "--target", "y", *QUICK, "-o", "m.knotwise"]
    code, out, err = run(*words)
    assert code == 1 and not out and not (here / "m.knotwise").exists()
    assert (
        "'a' in lines 2, 6; 'b' in line 32; 'y' in lines 32, 71" in err and "4 rows" in err and "--drop-missing" in err
    )
    code, out, err = run(*words, "--drop-missing")
    assert code == 0 and "left out 4 of 70 rows" in err
    rest = np.delete(np.arange(70), [0, 4, 30, 69])
    same = GPRegressor(SquaredExponential(), knots=6, random_state=0).fit(inputs(columns)[rest], columns["y"][rest])
    assert knotwise.load("m.knotwise").log_evidence_ == same.log_evidence_
    code, out, err = run("predict", folder / "y.knotwise", "t.csv", "--drop-missing", "--json")
    assert code == 0 and json.loads(out)["dropped"] == 3 and json.loads(out)["rows"] == 67


def test_names_and_labels_may_look_like_numbers_of_other_scripts(here, run):
    (here / "t.csv").write_text("1_0,y\n" + "0.1,1_0\n0.9,\uff11\n0.2,1_0\n0.8,\uff11\n" * 3, encoding="utf-8")
    assert run("fit", "t.csv", "--target", "y", "--classes", *QUICK, "-o", "m.knotwise")[0] == 0
    assert knotwise.load("m.knotwise").classes_.tolist() == ["1_0", "\uff11"]


def test_blanks_and_words_beside_numbers_are_read_as_ever(folder, here, run):
    (here / "plain.csv").write_text("a,b\n1,2\n0,1\n")
    (here / "t.csv").write_text("a,b\n \u00a01\u00a0,+2.0\nFALSE,1e0\n", encoding="utf-8")
    assert run("predict", folder / "y.knotwise", "t.csv") == run("predict", folder / "y.knotwise", "plain.csv")
