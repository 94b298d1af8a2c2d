"""Tables in packed text and workbooks, and targets that are meant as numbers or are no labels."""

import datetime
import gzip
import json
import sys

import numpy as np
import openpyxl
import pytest
from cli_tables import QUICK, make_columns, write_csv

from knotwise.data.cell_text import looks_like_amount


def rounded(columns):
    """Numbers that a workbook keeps as they are: openpyxl writes 16 digits."""
    return {name: np.round(v, 6) if np.asarray(v).dtype.kind == "f" else v for name, v in columns.items()}


def write_excel(path, columns, sheets=1):
    book = openpyxl.Workbook()
    book.active.append(list(columns))
    for row in zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True):
        book.active.append(row)
    for _ in range(1, sheets):
        book.create_sheet().append(["other"])
    book.save(path)


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv.gz", ".txt.GZ"])
def test_packed_text_gives_the_predictions_of_plain_text(folder, here, run, ending):
    content = (folder / "new.csv").read_bytes()
    packed = content.replace(b",", b"\t") if ending == ".tsv.gz" else content
    (here / f"new{ending}").write_bytes(gzip.compress(packed))
    plain = run("predict", folder / "y.knotwise", folder / "new.csv")
    assert plain[0] == 0 and run("predict", folder / "y.knotwise", f"new{ending}") == plain


def test_a_workbook_gives_the_predictions_of_plain_text(folder, here, run):
    write_excel("new.xlsx", rounded(make_columns(20, seed=2)))
    write_csv(here / "new.csv", rounded(make_columns(20, seed=2)))
    plain = run("predict", folder / "y.knotwise", "new.csv", "--keep", "colour")
    assert plain[0] == 0 and run("predict", folder / "y.knotwise", "new.xlsx", "--keep", "colour") == plain
    assert run("predict", folder / "y.knotwise", "new.xlsx", "--keep", "colour", "--decimal", ",") == plain


def test_a_fit_to_a_workbook_is_the_fit_to_text(here, run):
    columns = rounded(make_columns(30))
    write_excel("t.xlsx", columns)
    write_csv(here / "t.csv", columns)
    words = ["--target", "colour", "--inputs", "a,b", *QUICK, "--json", "-o", "m.knotwise"]
    from_text, from_book = (json.loads(run("fit", table, *words)[1]) for table in ("t.csv", "t.xlsx"))
    assert from_text == from_book and from_book["classes"] == ["blue", "red"]


def test_gaps_and_text_in_a_workbook_are_named_by_their_row(folder, here, run):
    columns = make_columns(5, seed=2)
    cells = columns["a"].tolist()
    write_excel("gap.xlsx", {"a": [*cells[:3], None, cells[4]], "b": columns["b"]})
    code, _, err = run("predict", folder / "y.knotwise", "gap.xlsx")
    assert code == 1 and "'a' in row 5" in err
    write_excel("text.xlsx", {"a": [*cells[:3], "many", cells[4]], "b": columns["b"]})
    code, _, err = run("predict", folder / "y.knotwise", "text.xlsx")
    assert code == 1 and "is 'many' in row 5" in err


def test_the_first_of_several_sheets_is_read_and_said(folder, here, run):
    columns = rounded(make_columns(20, seed=2))
    write_excel("new.xlsx", columns, sheets=3)
    write_csv(here / "new.csv", columns)
    code, out, err = run("predict", folder / "y.knotwise", "new.xlsx")
    assert code == 0 and "'Sheet', the first of 3 sheets" in err
    assert out == run("predict", folder / "y.knotwise", "new.csv")[1]


@pytest.mark.parametrize("sheet", ["Rows of 2024", "2"])
def test_a_sheet_is_found_by_its_name_or_number_and_dates_are_days(folder, here, run, sheet):
    columns = rounded(make_columns(5, seed=2))
    book = openpyxl.Workbook()
    book.active.append(["made by Anna"])
    other = book.create_sheet("Rows of 2024")
    other.append(["day", *columns])
    for row in zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True):
        other.append([datetime.date(2024, 1, 31), *row])
    book.save("new.xlsx")
    write_csv(here / "new.csv", {"day": ["2024-01-31"] * 5} | columns)
    words = ["predict", folder / "y.knotwise", "new.xlsx", "--keep", "day", "--sheet"]
    assert run(*words, sheet) == run(*words[:2], "new.csv", "--keep", "day")
    code, _, err = run(*words, "Rows of 2023")
    assert code == 2 and "Did you mean 'Rows of 2024'" in err


def test_without_openpyxl_a_workbook_has_a_remedy(folder, here, run, monkeypatch):
    write_excel("new.xlsx", make_columns(5))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    code, _, err = run("predict", folder / "y.knotwise", "new.xlsx")
    assert code == 1 and "pip install 'knotwise[excel]'" in err


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("t.csv.gz", b"a,b\n1,2\n", "not a whole file packed by gzip"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 5000)[:-30], "not a whole file packed by gzip"),
        ("t.xlsx", b"PK and no more", "not a workbook that can be read"),
        ("t.gz", gzip.compress(b"a,b\n1,2\n"), ".csv.gz, .tsv.gz and .txt.gz"),
    ],
    ids=["no-gzip", "cut", "no-workbook", "no-ending"],  # packed bytes hold the time
)
def test_a_damaged_file_is_one_line_that_says_so(folder, here, run, name, content, named):
    (here / name).write_bytes(content)
    code, out, err = run("predict", folder / "y.knotwise", name, "-o", "p.csv")
    assert code == 1 and not out and named in err and err.count("\n") == 1 and not (here / "p.csv").exists()


@pytest.mark.parametrize("name", ["p.xlsx", "p.csv.gz"])
def test_packed_text_and_workbooks_are_not_written(folder, here, run, name):
    code, _, err = run("predict", folder / "y.knotwise", folder / "new.csv", "-o", name)
    assert code == 1 and name in err and not (here / name).exists()


# -- targets ------------------------------------------------------------------------------------------------------

AMOUNTS = ["$1,200", "€ 1.200,50", "1 200,50 EUR", "-£3", "(1,234.5)", "12%", "1,234,567", "1'000.00", "CHF 12"]
LABELS = ["10-20", "A1", "1,2,3", "route 66", "3 a", "$", "red", "12,34", "1200", "1.5", "7-Feb", ""]


def test_amounts_are_told_from_labels_and_numbers():
    assert [text for text in AMOUNTS if not looks_like_amount(text)] == []
    assert [text for text in LABELS if looks_like_amount(text)] == []


@pytest.mark.parametrize("form", ["${:,}", "{:,} EUR", "{:,}"])
def test_a_target_with_a_currency_is_not_a_classifier_but_an_error_that_says_what_to_do(here, run, form):
    columns = make_columns(60)
    prices = [form.format(1000 + 7 * i) for i in range(60)]
    write_csv(here / "t.csv", {"a": columns["a"], "price": prices})
    code, _, err = run("fit", "t.csv", "--target", "price", "-o", "m.knotwise")
    assert code == 1 and "'price'" in err and repr(prices[0]) in err and "line 2" in err
    assert "Write plain numbers" in err and not (here / "m.knotwise").exists()


def test_text_of_many_kinds_is_a_classifier_only_if_asked_for(here, run):
    columns = make_columns(60)
    write_csv(here / "t.csv", {"a": columns["a"], "who": [f"person {i % 25}" for i in range(60)]})
    code, _, err = run("fit", "t.csv", "--target", "who", "-o", "m.knotwise")
    assert code == 1 and "25 different values in 60 rows" in err and "--classes" in err
