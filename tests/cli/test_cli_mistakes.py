"""A user's mistake at the command line: one line that names it, an exit code, and nothing changed."""

import json
import sys

import pytest

from knotwise.cli import reading as cli_reading

FIT = ["fit", "t.csv", "--target", "y", "-o", "m.knotwise"]
PREDICT = ["predict", "good.knotwise", "t.csv"]
PREDICT_LABELS = ["predict", "labels.knotwise", "t.csv"]
PREDICT_COUNTS = ["predict", "counts.knotwise", "t.csv"]
DIAGNOSE = ["diagnose", "good.knotwise", "t.csv", "--target", "y"]
DIAGNOSE_LABELS = ["diagnose", "labels.knotwise", "t.csv", "--target", "y"]
PLOT = ["plot", "good.knotwise", "t.csv", "-o", "p.png", "--kind"]
PLOT_LABELS = ["plot", "labels.knotwise", "t.csv", "-o", "p.png", "--kind"]
GOOD = "a,b,y\n1,2,3\n2,1,4\n3,3,5\n"

#: what is wrong, the content of t.csv, the words, the exit code and what the message must name
MISTAKES = {
    "empty file": ("", FIT, 1, ["t.csv", "empty"]),
    "blank lines only": ("\n \n", FIT, 1, ["t.csv", "empty"]),
    "header only": ("a,b,y\n", FIT, 1, ["t.csv", "no rows"]),
    "header only, to predict": ("a,b\n", PREDICT, 1, ["t.csv", "no rows"]),
    "no header": ("1,2,3\n2,1,4\n", FIT, 1, ["column names", "1, 2, 3"]),
    "two columns of one name": ("a,y,a\n1,2,3\n", FIT, 1, ["'a'", "columns 1, 3"]),
    "one value too many": ("a,b,y\n1,2,3\n1,2,3,4\n", FIT, 1, ["Line 3", "4 values", "3 column names"]),
    "one value too few": ("a,b,y\n1,2\n", FIT, 1, ["Line 2", "2 values"]),
    "a quote that is not closed": ('a,b,y\n1,2,3\n1,"2,3\n4,5,6\n', FIT, 1, ["Line 3", "quotes"]),
    "amounts in an input": (
        "a,b,y\n" + "".join(f'{i},"{i},000.50",{i}\n' for i in range(1, 9)), FIT, 1,
        ["'b'", "'1,000.50'", "line 2", "plain numbers", "--categorical"]
    ),
    "dates in another order": (
        "a,y\n" + "".join(f"{i}.12.2024,{i}\n" for i in range(10, 30)), FIT, 1, ["'a'", "2024-01-31", "--categorical"]
    ),
    "places without an input": (GOOD, [*FIT, "--predict-at", "places.csv"], 2, ["places.csv", "'b'"]),
    "no file of places": (GOOD, [*FIT, "--predict-at", "nowhere.csv"], 1, ["nowhere.csv"]),
    "a sheet of a text file": (GOOD, [*FIT, "--sheet", "2"], 2, ["--sheet", "t.csv"]),
    "no target, where only inputs are filled": ("a,y\n1,\n,2\n", [*FIT, "--missing", "mean"], 1, ["'y' in line 2"]),
    "a file after several values": (
        GOOD, ["predict", "good.knotwise", "--exceed", "4", "t.csv"], 2, ["'t.csv'", "files are named before"]
    ),
    "text among numbers": ("a,b,y\n1,4,2\n1,5,3\n1,x,3\n", FIT, 1, ["'b'", "'x'", "line 4", "--categorical"]),
    "text further below": ("a,b,y\n1,2,3\n\n1,oops,3\n", FIT, 1, ["'b'", "'oops'", "line 4"]),
    "an input with marks in it": ("a,b,y\n1,2,3\n2,1_000,3\n", FIT, 1, ["'b'", "'1_000'", "line 3", "digits 0 to 9"]),
    "digits of another script": (
        "a,b,y\n1,2,3\n\n2,\u0661\u0662,3\n", FIT, 1, ["'b'", "'\u0661\u0662'", "line 4", "digits 0 to 9"]
    ),
    "wide digits to predict": ("a,b\n1,2\n2,\uff11\n", PREDICT, 1, ["'b'", "'\uff11'", "line 3"]),
    "marks in decimal commas": ("a;y\n1;2\n1_0,5;3\n", [*FIT, "--decimal", ","], 1, ["'a'", "'1_0,5'", "line 3"]),
    "marks in a target": ("a,y\n1,1_0\n2,2_0\n3,3_0\n", FIT, 1, ["'y'", "'1_0'", "line 2", "--classes"]),
    "wide digits in a target": ("a,y\n1,1\n2,2\n3,\uff13\n", FIT, 1, ["'y'", "'\uff13'", "line 4"]),
    "marks in a target to compare": ("a,b,y\n1,2,3_0\n", DIAGNOSE, 1, ["'y'", "'3_0'", "line 2"]),
    "marks in an exposure": (
        "a,n,y\n1,1_0,2\n", [*FIT, "--likelihood", "poisson", "--exposure", "n"], 1, ["'n'", "'1_0'", "line 2"]
    ),
    "marks in a power": (GOOD, [*FIT, "--approximation", "0_0.5"], 2, ["'0_0.5'"]),
    "wide digits in a mean": (GOOD, [*FIT, "--mean", "\uff11"], 2, ["'\uff11'"]),
    "marks in a nugget": (GOOD, [*FIT, "--likelihood", "poisson", "--nugget", "1_0"], 2, ["'1_0'"]),
    "wide digits of knots": (GOOD, [*FIT, "--knots", "\uff13"], 2, ["'\uff13'"]),
    "other digits of a limit": (GOOD, [*FIT, "--max-knots", "\u0663"], 2, ["'\u0663'"]),
    "other digits of a seed": (GOOD, [*FIT, "--seed", "\u0663"], 2, ["'\u0663'"]),
    "marks in a level": (GOOD, [*PREDICT, "--interval", "0.9_5"], 2, ["'0.9_5'"]),
    "marks in a place": (GOOD, [*PLOT, "fit", "--at", "a=1_0"], 2, ["'a=1_0'"]),
    "marks in a threshold": (GOOD, [*PLOT, "map", "--what", "exceedance", "--threshold", "1_0"], 2, ["'1_0'"]),
    "an infinite input": ("a,b,y\n1,inf,3\n", FIT, 1, ["'b'", "'inf'", "line 2"]),
    "a decimal comma": ("a;b;y\n1;2,5;3\n", FIT, 1, ["'2,5'", "--decimal"]),
    "points where commas are decimal": ("a;b;y\n1;2.5;3\n", [*FIT, "--decimal", ","], 1, ["'2.5'"]),
    "a typing error in the target": ("a,y\n1,1\n2,2\n3,3.x\n", FIT, 1, ["'y'", "'3.x'", "line 4", "--classes"]),
    "text as numbers": ("a,y\n1,u\n2,v\n", [*FIT, "--likelihood", "gamma"], 1, ["'u'", "line 2", "--classes"]),
    "one class": ("a,y\n1,u\n2,u\n", FIT, 1, ["'u'", "2 classes"]),
    "a class for each row": (
        "a,y\n" + "".join(f"{i},name{i}\n" for i in range(101)), FIT, 1, ["101 different labels", "'name0'"]
    ),
    "no input left": ("y\n1\n2\n", FIT, 1, ["no column to predict 'y' from"]),
    "all rows with gaps": ("a,y\n1,\n,2\n", [*FIT, "--drop-missing"], 1, ["2 rows", "none is left"]),
    "not text": (b"\xff\xfea\x00,\x00y\x00", FIT, 1, ["t.csv", "UTF-8"]),
    "a negative count": ("a,y\n1,2\n\n2,-1\n", [*FIT, "--likelihood", "poisson"], 1, ["-1", "line 4", "t.csv"]),
    "no exposure": (
        "a,n,y\n1,1,2\n2,0,1\n", [*FIT, "--likelihood", "poisson", "--exposure", "n"], 1, ["exposure", "0", "line 3"]
    ),
    "part of a trial": (
        "a,n,y\n1,2,2\n2,1.5,1\n", [*FIT, "--likelihood", "binomial", "--trials", "n"], 1, ["trials", "1.5", "line 3"]
    ),
    "a negative weight": ("a,w,y\n1,-2,2\n2,1,1\n3,1,3\n", [*FIT, "--weight", "w"], 1, ["-2", "line 2"]),
    "an unknown target": ("a,Price\n1,2\n", [*FIT, "--target", "price"], 2, ["Did you mean 'Price'"]),
    "an unknown input": (GOOD, [*FIT, "--inputs", "a,bb"], 2, ["'bb'", "Did you mean 'b'"]),
    "the target as an input": (GOOD, [*FIT, "--inputs", "a,y"], 2, ["'y'", "--target", "--inputs"]),
    "an input twice": (GOOD, [*FIT, "--inputs", "a,a"], 2, ["'a' twice"]),
    "a column with two roles": (GOOD, [*FIT, "--likelihood", "poisson", "--exposure", "y"], 2, ["'y'", "--exposure"]),
    "an unknown exposure": (GOOD, [*FIT, "--likelihood", "poisson", "--exposure", "c"], 2, ["--exposure", "'c'"]),
    "exposure of what has none": (GOOD, [*FIT, "--exposure", "b"], 2, ["--exposure", "poisson or negative_binomial"]),
    "trials of what has none": (GOOD, [*FIT, "--likelihood", "poisson", "--trials", "b"], 2, ["--trials", "binomial"]),
    "an unknown likelihood": (GOOD, [*FIT, "--likelihood", "poison"], 2, ["Did you mean 'poisson'"]),
    "an unknown kernel": (GOOD, [*FIT, "--kernel", "mattern32"], 2, ["Did you mean 'matern32'"]),
    "an unknown approximation": (GOOD, [*FIT, "--approximation", "fci"], 2, ["did you mean 'fic'"]),
    "a power beyond 1": (GOOD, [*FIT, "--approximation", "1.5"], 1, ["1.5", "between 0 and 1"]),
    "no knots": (GOOD, [*FIT, "--knots", "0"], 2, ["--knots", "'0'"]),
    "misspelt knots": (GOOD, [*FIT, "--knots", "atuo"], 2, ["did you mean 'auto'"]),
    "knots and their limit": (GOOD, [*FIT, "--knots", "3", "--max-knots", "4"], 2, ["--max-knots", "--knots 3"]),
    "knots of the exact model": (GOOD, [*FIT, "--knots", "3", "--approximation", "full"], 2, ["full", "--knots"]),
    "a nugget for numbers": (GOOD, [*FIT, "--nugget", "fit"], 1, ["nugget", "Gaussian"]),
    "classes with a likelihood": (GOOD, [*FIT, "--classes", "--likelihood", "poisson"], 2, ["--likelihood"]),
    "a misspelt option": (GOOD, ["fit", "t.csv", "--traget", "y", "-o", "m"], 2, ["Did you mean '--target'"]),
    "no target": (GOOD, ["fit", "t.csv", "-o", "m.knotwise"], 2, ["--target"]),
    "no output": (GOOD, ["fit", "t.csv", "--target", "y"], 2, ["--output"]),
    "no data": (GOOD, ["fit", "--target", "y", "-o", "m.knotwise"], 2, ["DATA"]),
    "a negative seed": (GOOD, [*FIT, "--seed", "-1"], 2, ["'-1'"]),
    "a folder that is not there": (GOOD, [*FIT[:-1], "no/m.knotwise"], 1, ["'no'", "Make it first"]),
    "a folder as output": (GOOD, [*FIT[:-1], "."], 1, ["folder"]),
    "the data as output": (GOOD, [*FIT[:-1], "t.csv"], 1, ["t.csv", "lost"]),
    "a file that is not there": (GOOD, ["fit", "tt.csv", *FIT[2:]], 1, ["tt.csv", "Did you mean 't.csv'"]),
    "a folder as data": (GOOD, ["fit", "folder.csv", *FIT[2:]], 1, ["folder.csv", "folder"]),
    "a spreadsheet": (GOOD, ["fit", "t.xlsx", *FIT[2:]], 1, ["t.xlsx", "CSV"]),
    "an unknown ending": (GOOD, ["fit", "t.docx", *FIT[2:]], 1, ["t.docx", ".csv", ".parquet"]),
    "no parquet inside": (GOOD, ["fit", "bad.parquet", *FIT[2:]], 1, ["bad.parquet"]),
    "a separator of two letters": (GOOD, [*FIT, "--separator", "ab"], 2, ["--separator", "'ab'"]),
    "a missing column": ("a,bb\n1,2\n", PREDICT, 1, ["'b'", "'bb'", "--inputs"]),
    "too few inputs": (GOOD, [*PREDICT, "--inputs", "a"], 2, ["1 columns", "a, b"]),
    "a level in percent": (GOOD, [*PREDICT, "--interval", "95"], 2, ["'95'", "0.95"]),
    "a misspelt kind": (GOOD, [*PREDICT, "--kind", "maen"], 2, ["Did you mean 'mean'"]),
    "an unknown column to keep": (GOOD, [*PREDICT, "--keep", "ident"], 2, ["--keep", "'ident'"]),
    "a column that predictions have": ("a,b,lower\n1,2,3\n", [*PREDICT, "--keep", "lower"], 2, ["'lower'"]),
    "a gap in a row to predict": ("a,b\n1,2\n1,\n", PREDICT, 1, ["'b' in line 3", "this row"]),
    "an exposure of a Gaussian model": (GOOD, [*PREDICT, "--exposure", "y"], 2, ["--exposure"]),
    "predictions over the model": (GOOD, [*PREDICT, "-o", "good.knotwise"], 1, ["good.knotwise"]),
    "predictions over the data": (GOOD, [*PREDICT, "-o", "t.csv"], 1, ["t.csv", "lost"]),
    "predictions of an unknown ending": (GOOD, [*PREDICT, "-o", "p.docx"], 1, ["p.docx"]),
    "a model that is not there": (GOOD, ["predict", "goood.knotwise", "t.csv"], 1, ["Did you mean 'good.knotwise'"]),
    "a model that is none": (GOOD, ["predict", "t.csv", "t.csv"], 1, ["t.csv", "model"]),
    "a damaged model": (GOOD, ["predict", "bad.knotwise", "t.csv"], 1, ["bad.knotwise", "damaged"]),
    "a folder as model": (GOOD, ["summary", "."], 1, ["folder"]),
    "model and data swapped": (GOOD, ["predict", "t.csv", "good.knotwise"], 2, ["predict good.knotwise t.csv"]),
    "std of a classifier": (GOOD, [*PREDICT_LABELS, "--std"], 2, ["--std", "classifier"]),
    "an interval of three classes": (GOOD, [*PREDICT_LABELS, "--interval", "0.5"], 2, ["--interval"]),
    "std of the mean of counts": (GOOD, [*PREDICT_COUNTS, "--kind", "mean", "--std"], 2, ["--std"]),
    "a table without a target": (GOOD, ["diagnose", "good.knotwise", "t.csv"], 2, ["--target"]),
    "an unknown label": ("a,b,y\n1,2,a\n1,2,z\n", DIAGNOSE_LABELS, 1, ["'z'", "line 3"]),
    "text to compare with numbers": ("a,b,y\n1,2,u\n", DIAGNOSE, 1, ["'u'"]),
    "no kind of picture": (GOOD, [*PLOT[:-1]], 2, ["--kind"]),
    "a picture of an unknown kind": (GOOD, ["plot", "good.knotwise", "-o", "p.png", "--kind", "tarce"], 2, ["'trace'"]),
    "a picture with an unknown ending": (GOOD, [*PLOT, "fit", "-o", "p.pgn"], 2, ["Did you mean '.png'"]),
    "a picture without its table": (GOOD, ["plot", "good.knotwise", "-o", "p.png", "--kind", "fit"], 2, ["DATA"]),
    "a picture without its target": (GOOD, [*PLOT, "pit"], 2, ["--target"]),
    "a table for a trace": (GOOD, [*PLOT, "trace"], 2, ["DATA"]),
    "no trace": (GOOD, ["plot", "good.knotwise", "--kind", "trace", "-o", "p.png"], 1, ["trace"]),
    "a misspelt feature": (GOOD, [*PLOT, "fit", "--feature", "aa"], 2, ["Did you mean 'a'"]),
    "one feature for a map": (GOOD, [*PLOT, "map", "--feature", "a"], 2, ["--feature", "two"]),
    "an option of another picture": (GOOD, [*PLOT, "fit", "--what", "sd"], 2, ["--what", "map"]),
    "a map of which class": (GOOD, [*PLOT_LABELS, "map"], 2, ["--label"]),
    "the transform of labels": (GOOD, [*PLOT_LABELS, "pit", "--target", "y"], 2, ["calibration"]),
    "a place that is no number": (GOOD, [*PLOT, "fit", "--at", "a=x"], 2, ["'a=x'"]),
    "a place of no input": (GOOD, [*PLOT, "fit", "--at", "aa=1"], 2, ["Did you mean 'a'"]),
    "an unknown label of a map": (GOOD, [*PLOT_LABELS, "map", "--label", "d"], 2, ["'d'", "'a', 'b', 'c'"]),
    "a file as checkpoint": (GOOD, [*FIT, "--checkpoint", "t.csv"], 1, ["t.csv"]),
    "a word too much": (GOOD, [*FIT, "further"], 2, ["'further'"]),
    "no names between commas": (GOOD, [*FIT, "--inputs", "a,,b"], 2, ["'a,,b'"]),
    "an unknown command": (GOOD, ["fti", *FIT[1:]], 2, ["Did you mean 'fit'"]),
    "an unknown data set": (GOOD, ["data", "bostn"], 2, ["Did you mean 'boston'"]),
    "a share of no test file": (GOOD, ["data", "boston", "--test-share", "0.5"], 2, ["--test"]),
}  # fmt: skip


@pytest.fixture
def mistaken(folder, here):
    """A folder with sound models, a damaged one, and files that are not what they seem."""
    for name, model in (("good", "y"), ("labels", "three"), ("counts", "count")):
        (here / f"{name}.knotwise").write_bytes((folder / f"{model}.knotwise").read_bytes())
    content = bytearray((folder / "y.knotwise").read_bytes())
    content[len(content) // 2] ^= 1
    (here / "bad.knotwise").write_bytes(content)
    (here / "bad.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    (here / "t.xlsx").write_bytes(b"PK")
    (here / "t.docx").write_bytes(b"PK")
    (here / "places.csv").write_text("a,c\n1,2\n")
    (here / "folder.csv").mkdir()
    return here


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_names_it_and_changes_nothing(mistake, mistaken, run):
    content, words, code, named = MISTAKES[mistake]
    (mistaken / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = {path: path.read_bytes() for path in mistaken.iterdir() if path.is_file()}
    found, out, err = run(*words)
    assert (found, out) == (code, ""), err
    assert err.startswith("knotwise: ") and err.count("\n") == 1 and "Traceback" not in err
    assert [part for part in named if part not in err] == [], err
    assert {path: path.read_bytes() for path in mistaken.iterdir() if path.is_file()} == before
    if words[0] != "data":
        again = run(*words, "--json")
        answer = json.loads(again[1])
        assert again[0] == answer["exit_code"] == code and again[2] == err and err == f"knotwise: {answer['error']}\n"


def test_a_mistake_far_down_leaves_the_old_predictions(folder, here, run, monkeypatch):
    monkeypatch.setattr(cli_reading, "CHUNK_ROWS", 5)
    (here / "t.csv").write_text("a,b\n" + "1,2\n" * 17 + "1,?\n")
    (here / "p.csv").write_text("old")
    code, _, err = run("predict", folder / "y.knotwise", "t.csv", "-o", "p.csv")
    assert code == 1 and "'?'" in err and "line 19" in err
    assert (here / "p.csv").read_text() == "old" and sorted(p.name for p in here.iterdir()) == ["p.csv", "t.csv"]


def test_without_matplotlib_a_picture_has_a_remedy(folder, here, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("plot", folder / "y.knotwise", "--kind", "trace", "-o", "p.png")
    assert code == 1 and "pip install 'knotwise[plot]'" in err


def test_a_file_that_cannot_be_read_is_an_error_of_the_user(folder, here, run, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "new.csv")

    monkeypatch.setattr(cli_reading, "open", refuse, raising=False)
    code, out, err = run("predict", folder / "y.knotwise", folder / "new.csv")
    assert code == 1 and not out and "Permission denied" in err and "new.csv" in err
