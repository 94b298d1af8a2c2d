"""`knotwise predict`: the numbers of the Python API, by column names, in pieces, through pipes."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_tables import inputs, load, make_columns, numbers, read_csv, write_csv
from numpy.testing import assert_allclose, assert_array_equal

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise.cli import reading as cli_reading
from knotwise.cli.output import write_table
from knotwise.kernels import SquaredExponential


def test_predictions_are_those_of_the_python_api_to_the_bit(folder, run):
    gp, new = load(folder / "y.knotwise"), inputs(make_columns(20, seed=2))
    words = ["predict", folder / "y.knotwise", folder / "new.csv", "--std", "--interval", "0.8"]
    for kind, mean, std in (
        ("observation", *gp.predict(new, return_std=True)),
        ("mean", gp.predict(new), np.sqrt(gp.predict_latent(new).variance)),
        ("latent", gp.predict_latent(new).mean, np.sqrt(gp.predict_latent(new).variance)),
    ):
        code, out, err = run(*words, "--kind", kind)
        assert code == 0 and not err
        found = numbers(read_csv(out), "prediction", "std", "lower", "upper")
        assert_array_equal(found, np.column_stack([mean, std, gp.predict_interval(new, 0.8, kind)]))
    assert run(*words)[1] == run(*words, "--kind", "observation")[1] != run(*words, "--kind", "mean")[1]


def test_counts_are_predicted_at_their_exposure_or_for_a_unit_of_it(folder, run):
    columns = make_columns(20, seed=2)
    new = inputs(columns)
    for name, option, column in (("count", "exposure", "area"), ("hits", "trials", "tries")):
        gp = load(folder / f"{name}.knotwise")
        words = ["predict", folder / f"{name}.knotwise", folder / "new.csv"]
        code, out, err = run(*words, f"--{option}", column)
        size = {option: columns[column]}
        expected = np.column_stack([gp.predict(new, **size), gp.predict_interval(new, **size)])
        assert code == 0 and not err
        assert_array_equal(numbers(read_csv(out), "prediction", "lower", "upper"), expected)
        code, out, err = run(*words, "--kind", "mean")
        expected = np.column_stack([gp.predict_median(new), gp.predict_interval(new, kind="mean")])
        assert code == 0 and f"--{option}" in err
        assert_array_equal(numbers(read_csv(out), "prediction", "lower", "upper"), expected)


def test_an_offset_is_the_logarithm_of_the_exposure(folder, here, run):
    columns = make_columns(40, seed=2)
    write_csv(here / "t.csv", columns | {"log_area": [repr(float(value)) for value in np.log(columns["area"])]})
    model, table = folder / "count.knotwise", here / "t.csv"
    calls = [
        ["predict", model, table],
        ["predict", model, table, "--kind", "mean", "--samples", "2"],
        ["diagnose", model, table, "--target", "count"],
        [
            "cv",
            table,
            "--target",
            "count",
            "--inputs",
            "a,b",
            "--likelihood",
            "poisson",
            "--knots",
            "3",
            "--kernel",
            "se",
        ],
    ]
    for words in calls:
        expected = run(*words, "--exposure", "area")
        assert expected[0] == 0
        code, out, err = run(*words, "--offset", "log_area")
        assert code == 0 and not err
        found, right = (re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text) for text in (out, expected[1]))
        assert_allclose(np.array(found, float), np.array(right, float), rtol=1e-6)
        code, _, err = run(*words, "--offset", "log_area", "--exposure", "area")
        assert code == 2 and "not both" in err
    fit = ["fit", table, "--target", "count", "--inputs", "a,b", "--likelihood", "poisson", "--knots", "3"]
    assert run(*fit, "--offset", "log_area", "-o", "m.knotwise")[0] == 0
    assert "--exposure" in run("predict", "m.knotwise", table)[2]
    assert run(*fit[:-4], "--knots", "3", "--offset", "log_area", "-o", "m.knotwise")[0] == 2
    for words in (["plot", "m.knotwise", table, "--kind", "pit", "-o", "p.svg"], ["report", "m.knotwise", table]):
        assert run(*words, "--target", "count", "--offset", "log_area")[0] == 0
    code, _, err = run("predict", folder / "y.knotwise", table, "--offset", "log_area")
    assert code == 2 and "--offset has no meaning for this model" in err


def test_labels_are_predicted_with_the_probability_of_each(folder, run):
    new = inputs(make_columns(20, seed=2))
    for name in ("colour", "three"):
        gp = load(folder / f"{name}.knotwise")
        code, out, err = run("predict", folder / f"{name}.knotwise", folder / "new.csv")
        found = read_csv(out)
        assert code == 0 and not err and list(found["prediction"]) == gp.predict(new).tolist()
        names = [f"probability_{label}" for label in gp.classes_]
        assert list(found) == ["prediction", *names]
        assert_array_equal(numbers(found, *names), gp.predict_proba(new))
    gp = load(folder / "colour.knotwise")
    found = read_csv(run("predict", folder / "colour.knotwise", folder / "new.csv", "--interval", "0.9")[1])
    assert_array_equal(numbers(found, "lower_red", "upper_red"), gp.predict_interval(new, 0.9))


def test_columns_are_found_by_name_and_copied_on_request(folder, here, run):
    columns = make_columns(20, seed=2)
    texts = [f'"{i}", said he' for i in range(20)]
    write_csv("t.csv", {"b": columns["b"], "id": texts, "a": columns["a"]})
    plain = read_csv(run("predict", folder / "y.knotwise", folder / "new.csv")[1])
    code, _, err = run("predict", folder / "y.knotwise", "t.csv", "--keep", "id,b", "-o", "p.csv")
    kept = read_csv(here / "p.csv")
    assert code == 0 and not err
    assert list(kept) == ["id", "b", "prediction", "lower", "upper"] and list(kept["id"]) == texts
    assert [kept[name] for name in plain] == list(plain.values())


def test_columns_of_other_names_are_named_in_the_order_of_the_model(folder, here, run):
    columns = make_columns(20, seed=2)
    write_csv("t.csv", {"B": columns["b"], "A": columns["a"]})
    assert run("predict", folder / "y.knotwise", "t.csv", "--inputs", "A,B") == run(
        "predict", folder / "y.knotwise", folder / "new.csv"
    )


def test_a_model_of_an_array_asks_for_the_names_of_its_inputs(folder, columns, here, run):
    GPRegressor(SquaredExponential(), knots=6, random_state=0).fit(inputs(columns), columns["y"]).save("array.knotwise")
    code, _, err = run("predict", "array.knotwise", folder / "new.csv")
    assert code == 2 and "--inputs" in err
    assert run("predict", "array.knotwise", folder / "new.csv", "--inputs", "a,b") == run(
        "predict", folder / "y.knotwise", folder / "new.csv"
    )


def test_a_model_of_the_command_line_takes_data_frames_in_python(folder):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(folder / "new.csv")
    for name in ("y", "colour", "three"):
        gp = knotwise.load(folder / f"{name}.knotwise")
        gp.predict(frame[["a", "b"]])  # a warning about the names would be an error here
        with pytest.raises(ValueError, match="feature names"):
            gp.predict(frame[["b", "a"]])


def test_a_table_comes_from_stdin_and_predictions_go_to_stdout(folder, run, monkeypatch):
    expected = run("predict", folder / "y.knotwise", folder / "new.csv")
    for mark in (b"", b"\xef\xbb\xbf"):
        stdin = io.TextIOWrapper(io.BytesIO(mark + (folder / "new.csv").read_bytes()))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert run("predict", folder / "y.knotwise", "-", "-o", "-") == expected
        assert not stdin.buffer.closed


def test_pieces_of_a_long_table_are_predicted_like_the_whole(folder, run, monkeypatch):
    whole = read_csv(run("predict", folder / "count.knotwise", folder / "new.csv", "--exposure", "area")[1])
    monkeypatch.setattr(cli_reading, "CHUNK_ROWS", 7)
    pieces = read_csv(run("predict", folder / "count.knotwise", folder / "new.csv", "--exposure", "area")[1])
    assert list(whole) == list(pieces)
    assert_allclose(numbers(pieces, *pieces), numbers(whole, *whole), rtol=1e-12)


def test_json_of_predictions_has_the_rows_or_where_they_are(folder, here, run):
    table = read_csv(run("predict", folder / "colour.knotwise", folder / "new.csv", "--keep", "count")[1])
    words = ["predict", folder / "colour.knotwise", folder / "new.csv", "--keep", "count", "--json"]
    found = json.loads(run(*words)[1])
    assert found["rows"] == 20 and len(found["predictions"]) == 20
    assert [str(row["probability_red"]) for row in found["predictions"]] == list(table["probability_red"])
    found = json.loads(run(*words, "-o", "p.tsv")[1])
    assert found["rows"] == 20 and found["output"] == "p.tsv" and "predictions" not in found
    assert (here / "p.tsv").read_text().splitlines()[0].split("\t") == list(table)


def test_a_closed_pipe_is_no_error(folder, here):
    write_csv("long.csv", {name: np.tile(values, 600) for name, values in make_columns(20, seed=2).items()})
    program = "import sys; from knotwise.cli.main import main; sys.exit(main())"
    source = str(Path(knotwise.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", program, "predict", str(folder / "y.knotwise"), "long.csv"],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"prediction,lower,upper\n"
    process.stdout.close()
    assert process.wait(600) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


FORMULAS = ["=cmd()", "+1+1", "-x", "@x", "\t=1", "\r=1", "\uff1d1", "=1,2", '="a"', " =x", "-1-1", "+"]
HARMLESS = ["-1", "+1", "-1.5e-3", "-.5", "-0,5", "-inf", "1", "plain", "a=b", "'=x", ""]


def test_text_that_a_spreadsheet_would_run_has_a_quote_in_front_and_numbers_stay(folder, here, run):
    read = [text.strip() for text in FORMULAS + HARMLESS]
    safe = [f"'{text}" for text in read[: len(FORMULAS)]] + HARMLESS
    b = np.linspace(-1, 1, len(read))
    write_csv("t.csv", {"a": 2 + b, "b": b, "=id": FORMULAS + HARMLESS, "-1": b})
    words = ["predict", folder / "y.knotwise", "t.csv", "--keep", "=id,b,-1"]
    code, out, err = run(*words)
    found, raw = read_csv(out), read_csv(run(*words, "--raw-text")[1])
    assert code == 0 and not err and list(found)[:3] == ["'=id", "b", "-1"] and list(found["'=id"]) == safe
    assert_array_equal(numbers(found, "b")[:, 0], b)  # negative numbers among them
    assert list(raw["=id"]) == read and [raw[name] for name in raw if name != "=id"] == list(found.values())[1:]
    for name, separator in (("p.tsv", "\t"), ("p.csv", ",")):
        assert run(*words, "-o", name)[0] == 0
        assert (here / name).read_text(encoding="utf-8").split(separator)[0] == "'=id"
    records = json.loads(run(*words, "--json")[1])["predictions"]
    assert [record["=id"] for record in records] == read


def test_labels_that_begin_like_formulas_are_text_in_csv_and_as_they_are_in_parquet(folder, columns, here, run):
    labels = np.where(columns["three"] == "a", "\t=a", np.where(columns["three"] == "b", "-x", "@x"))
    GPClassifier(SquaredExponential(), knots=3, random_state=0).fit(inputs(columns), labels).save("m.knotwise")
    gp = knotwise.load("m.knotwise")
    expected = gp.predict(inputs(make_columns(20, seed=2))).tolist()
    words = ["predict", "m.knotwise", folder / "new.csv", "--inputs", "a,b"]
    found = read_csv(run(*words)[1])
    assert list(found["prediction"]) == [f"'{label}" for label in expected] and len(set(expected)) > 1
    assert list(found)[1:] == [f"probability_{label}".replace("\t=", "\t'=") for label in gp.classes_]
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run(*words, "-o", "p.parquet")[0] == 0
    assert parquet.read_table("p.parquet").to_pydict()["prediction"] == expected


def cells_by(text, separator):
    """What a spreadsheet that separates by this sign sees: a quote is one at the beginning of a cell only."""
    return [cell for row in csv.reader(io.StringIO(text), delimiter=separator) for cell in row]


NASTY = ["a;=1+1", "a;-1;b", "x\t@cmd;+1+1", "one|=2", 'a;"=1+1;b', "a;b", "two\n=3;c", "plain", 'say "no"', "a;;=;"]
STARTS = ("=", "+", "@", "-1-")


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "-"])
@pytest.mark.parametrize("first", [True, False])
def test_no_spreadsheet_finds_a_formula_behind_its_own_separator(name, first, here, capsys):
    """A file with commas that is opened where semicolons separate, and the other ways round."""
    columns = {"label": NASTY, "p;=1": np.linspace(-1, 1, len(NASTY)).tolist()}
    write_table(name, [columns if first else dict(reversed(columns.items()))])
    text = capsys.readouterr().out if name == "-" else (here / name).read_text(encoding="utf-8")
    own = "\t" if name == "p.tsv" else ","
    for separator in ",;|\t":
        assert not [cell for cell in cells_by(text, separator) if cell.startswith(STARTS)], separator
    rows = list(csv.reader(io.StringIO(text), delimiter=own))
    found = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    assert_array_equal(np.array(found["p;'=1" if first else "p;=1"], float), columns["p;=1"])
    if first:  # quotes at the beginning of a line keep a cell whole for everybody
        assert list(found["label"]) == NASTY and '"a;=1+1"' in text
    else:
        assert found["label"][:2] == ("a;'=1+1", "a;-1;b")


def test_predicted_labels_with_semicolons_come_back_as_they_are(folder, columns, run):
    labels = np.where(columns["colour"] == "red", "a;=1+1", "b")
    GPClassifier(SquaredExponential(), knots=3, random_state=0).fit(inputs(columns), labels).save("m.knotwise")
    words = ["predict", "m.knotwise", folder / "new.csv", "--inputs", "a,b"]
    code, out, _ = run(*words)
    assert code == 0 and set(read_csv(out)["prediction"]) == {"a;=1+1", "b"}
    assert not [cell for cell in cells_by(out, ";") if cell.startswith("=")]
    assert "probability_a;=1+1" in run(*words, "--raw-text")[1]


# -- several levels, exceedance and samples ---------------------------------------------------------------------------


def test_several_levels_are_pairs_of_columns_with_their_percent(folder, run):
    gp, new = load(folder / "y.knotwise"), inputs(make_columns(20, seed=2))
    code, out, err = run("predict", folder / "y.knotwise", folder / "new.csv", "--level", ".8", ".95", "0.995")
    found = read_csv(out)
    assert code == 0 and not err
    pairs = [f"{end}_{percent}" for percent in ("80", "95", "99.5") for end in ("lower", "upper")]
    assert list(found) == ["prediction", *pairs]
    for level, names in zip((0.8, 0.95, 0.995), (pairs[:2], pairs[2:4], pairs[4:]), strict=True):
        assert_array_equal(numbers(found, *names), gp.predict_interval(new, level))
    found = read_csv(run("predict", folder / "colour.knotwise", folder / "new.csv", "--level", ".5", ".9")[1])
    expected = load(folder / "colour.knotwise").predict_interval(new, 0.9)
    assert_array_equal(numbers(found, "lower_red_90", "upper_red_90"), expected)


def test_exceedance_is_that_of_the_python_api(folder, run):
    columns = make_columns(20, seed=2)
    new = inputs(columns)
    found = read_csv(run("predict", folder / "y.knotwise", folder / "new.csv", "--exceed", "0", "-0.5", "1000")[1])
    gp = load(folder / "y.knotwise")
    expected = np.column_stack([gp.predict_exceedance(new, v) for v in (0.0, -0.5, 1000.0)])
    assert_array_equal(numbers(found, "exceeds_0", "exceeds_-0.5", "exceeds_1000"), expected)
    words = ["predict", folder / "count.knotwise", folder / "new.csv", "--exceed", "3"]
    found = read_csv(run(*words, "--exposure", "area")[1])
    gp = load(folder / "count.knotwise")
    assert_array_equal(numbers(found, "exceeds_3")[:, 0], gp.predict_exceedance(new, 3.0, exposure=columns["area"]))
    found = read_csv(run(*words, "--kind", "mean")[1])
    assert_array_equal(numbers(found, "exceeds_3")[:, 0], gp.predict_exceedance(new, 3.0))
    for name, own in (("colour", ["red"]), ("three", ["a", "b", "c"])):
        found = read_csv(run("predict", folder / f"{name}.knotwise", folder / "new.csv", "--exceed", "0.6")[1])
        expected = load(folder / f"{name}.knotwise").predict_exceedance(new, 0.6, random_state=0)
        shown = numbers(found, *(f"exceeds_{label}_0.6" for label in own))
        assert_array_equal(shown, expected.reshape(20, len(own)))


def test_samples_are_joint_draws_of_all_rows(folder, run, monkeypatch):
    monkeypatch.setattr(cli_reading, "CHUNK_ROWS", 7)  # which must not cut the draws
    columns = make_columns(20, seed=2)
    new, names = inputs(columns), ["sample_1", "sample_2", "sample_3"]
    gp = load(folder / "count.knotwise")
    words = ["predict", folder / "count.knotwise", folder / "new.csv", "--samples", "3", "--seed", "4"]
    found = numbers(read_csv(run(*words, "--exposure", "area")[1]), *names)
    drawn = gp.sample_observations(new, 3, exposure=columns["area"], random_state=4)
    assert_array_equal(found.T, drawn)
    f = gp.sample_latent(new, 3, random_state=4)
    assert_array_equal(numbers(read_csv(run(*words, "--kind", "latent")[1]), *names).T, f)
    assert_allclose(numbers(read_csv(run(*words, "--kind", "mean")[1]), *names).T, np.exp(f), rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "words", "named"),
    [
        ("y", ["--level", ".8", "--interval", ".9"], "--interval"),
        ("y", ["--level", ".8", ".8"], "0.8 twice"),
        ("y", ["--level", "95"], "'95'"),
        ("y", ["--exceed", "3", "3"], "3 twice"),
        ("y", ["--samples", "0"], "'0'"),
        ("colour", ["--samples", "5"], "--samples"),
        ("colour", ["--exceed", "50"], "between 0 and 1"),
        ("three", ["--level", ".8"], "two classes"),
    ],
)
def test_what_a_model_cannot_tell_is_refused(folder, run, model, words, named):
    code, out, err = run("predict", folder / f"{model}.knotwise", folder / "new.csv", *words)
    assert code == 2 and not out and named in err and err.count("\n") == 1
