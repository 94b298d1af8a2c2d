"""Categories, dates, gaps and degrees in tables: the command line gives what Python gives."""

import ast
import runpy
import shlex
from pathlib import Path
from shutil import copyfile

import numpy as np
import pandas as pd
import pytest
from cli_tables import read_csv
from numpy.testing import assert_allclose

import knotwise
from knotwise import GPRegressor, cross_validate
from knotwise.kernels import SquaredExponential

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
EXACT = ["--kernel", "se", "--ard", "--approximation", "full", "--no-progress"]


def make_table(n=40):
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        {
            "depth": rng.uniform(0, 5, n).round(3),
            "city": rng.choice(["Oslo", "Rome", "Bonn"], n),
            "zone": rng.choice([1, 2, 10], n),
            "day": (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")).strftime("%F"),
        }
    )
    effect = table["city"].map({"Oslo": 0.0, "Rome": 1.0, "Bonn": 2.0})
    return table.assign(y=(np.sin(table["depth"]) + effect + 0.1 * rng.normal(size=n)).round(3))


def in_python(table, **options):
    settings = {"kernel": SquaredExponential(ard=True), "approximation": "full", "random_state": 0}
    return GPRegressor(**settings, **options).fit(table.drop(columns="y"), table["y"])


def predicted(run, model, data, *words):
    code, out, error = run("predict", model, data, *words)
    assert code == 0, error
    return np.array(read_csv(out)["prediction"], float)


def test_text_dates_and_named_codes_are_as_in_python(here, run):
    table = make_table()
    table.to_csv("t.csv", index=False)
    words = ["--categorical", "zone", "--period", "day=year"]
    assert run("fit", "t.csv", "--target", "y", *EXACT, *words, "-o", "m.knotwise")[0] == 0
    gp = in_python(table, categorical=["zone"], periods={"day": ["year"]})
    loaded = knotwise.load("m.knotwise")
    assert loaded.encoding_ == gp.encoding_
    assert_allclose(predicted(run, "m.knotwise", "t.csv"), gp.predict(table.drop(columns="y")), rtol=1e-12)


def test_a_category_of_a_parquet_file_stays_one(here, run):
    pytest.importorskip("pyarrow")
    table = make_table()[["zone", "depth", "y"]]
    table["zone"] = table["zone"].astype(str).astype("category")
    table.to_parquet("t.parquet")
    assert run("fit", "t.parquet", "--target", "y", *EXACT, "-o", "m.knotwise")[0] == 0
    assert knotwise.load("m.knotwise").encoding_.levels == {"zone": ("1", "10", "2")}
    expected = in_python(table).predict(table.drop(columns="y"))
    assert_allclose(predicted(run, "m.knotwise", "t.parquet"), expected, rtol=1e-12)


def test_gaps_are_refused_with_lines_dropped_or_filled(here, run):
    table = make_table().drop(columns="day")
    table.loc[[3, 7], "depth"] = np.nan
    table.loc[9, "city"] = None
    table.to_csv("t.csv", index=False)
    fit = ["fit", "t.csv", "--target", "y", *EXACT, "-o", "m.knotwise"]
    code, _, error = run(*fit)
    assert code != 0
    assert "'depth' in lines 5, 9; 'city' in line 11" in error
    assert "--missing mean" in error

    assert run(*fit, "--missing", "mean")[0] == 0
    gp = in_python(table, missing="mean")
    assert_allclose(predicted(run, "m.knotwise", "t.csv"), gp.predict(table.drop(columns="y")), rtol=1e-12)

    code, _, error = run(*fit, "--drop-missing")
    assert (code, "left out 3 of 40 rows" in error) == (0, True)
    whole = table.dropna()
    expected = in_python(whole).predict(whole.drop(columns="y"))
    assert_allclose(predicted(run, "m.knotwise", "t.csv", "--drop-missing"), expected, rtol=1e-12)
    slips = {20: "Olso", 22: "Remo"}
    table.assign(city=[slips.get(i, city) for i, city in enumerate(table["city"])]).to_csv("new.csv", index=False)
    error = run("predict", "m.knotwise", "new.csv", "--drop-missing")[2]
    assert "2 levels ('Olso', 'Remo')" in error and "Did you mean 'Oslo'?" in error
    assert "Row 17 is line 22 of new.csv" in error  # three rows were left out before it


def test_a_picture_stays_at_a_level_and_a_date_that_are_named(here, run):
    pytest.importorskip("matplotlib")
    make_table().to_csv("t.csv", index=False)
    assert run("fit", "t.csv", "--target", "y", *EXACT, "--categorical", "zone", "-o", "m.knotwise")[0] == 0
    plot = ["plot", "m.knotwise", "t.csv", "--kind", "fit", "--feature", "depth", "-o", "p.svg", "--at"]
    assert run(*plot, "city=Oslo,zone=10,day=2024-03-01")[0] == 0
    assert "at city = Oslo, zone = 10, day = 2024-03-01" in (here / "p.svg").read_text(encoding="utf-8")
    code, _, error = run(*plot, "city=Olso")
    assert code != 0 and "Did you mean 'Oslo'?" in error


def test_rows_that_were_left_out_leave_the_lines_of_the_others(here, run):
    table = make_table().drop(columns="day")
    table.loc[[3, 7], "depth"] = np.nan
    table.loc[9, "y"] = np.nan
    table.to_csv("t.csv", index=False)
    fit = ["fit", "t.csv", "--target", "y", *EXACT, "-o", "m.knotwise", "--drop-missing"]
    assert run(*fit)[0] == 0
    out = read_csv(run("predict", "m.knotwise", "t.csv", "--drop-missing", "--keep", "city")[1])
    assert list(out) == ["line", "city", "prediction", "lower", "upper"]
    kept = [i for i in range(40) if i not in (3, 7)]
    assert [int(line) - 2 for line in out["line"]] == kept and list(out["city"]) == list(table["city"][kept])

    table.to_parquet("t.parquet")
    assert run("cv", "t.parquet", "--target", "y", *EXACT[:-1], "--drop-missing", "-o", "left_out.csv")[0] == 0
    left_out = read_csv(here / "left_out.csv")
    assert [int(row) for row in left_out["row"]] == [i for i in kept if i != 9]

    # with --missing, inputs are filled, and only rows without a target are left out
    code, _, error = run(*fit, "--missing", "mean")
    assert (code, "left out 1 of 40 rows" in error) == (0, True)
    expected = in_python(table.drop(index=9), missing="mean").predict(table.drop(columns="y"))
    assert_allclose(predicted(run, "m.knotwise", "t.csv", "--drop-missing"), expected, rtol=1e-12)


def test_cross_validation_takes_the_options_of_columns(here, run):
    table = make_table()
    table.to_csv("t.csv", index=False)
    words = ["--target", "y", *EXACT[:-1], "--categorical", "zone", "--period", "day=year", "--blocks", "city"]
    code, _, error = run("cv", "t.csv", *words, "-o", "left_out.csv")
    assert code == 0, error
    inputs = table.drop(columns=["y", "city"])
    gp = GPRegressor(SquaredExponential(ard=True), approximation="full", random_state=0, n_jobs=1)
    gp.set_params(categorical=["zone"], periods={"day": ["year"]})
    expected = cross_validate(gp, inputs, table["y"], blocks=table["city"])
    assert_allclose(np.array(read_csv(here / "left_out.csv")["mean"], float), expected.mean, rtol=1e-9)
    code, _, error = run("cv", "t.csv", *words, "--hold")
    assert code == 0, error


@pytest.mark.slow
def test_the_table_of_the_gallery_has_one_answer_in_a_pipeline_and_here(here, run, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    script = GALLERY / "plot_penguin_mass.py"
    found = runpy.run_path(str(script))
    copyfile(GALLERY / "data" / "penguins.csv", "penguins.csv")
    lines = (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").replace("\\\n", " ").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.strip().startswith("knotwise ")]
    assert [words[0] for words in commands] == ["fit", "predict"]
    for words in commands:
        code, _, error = run(*words)
        assert code == 0, error
    here_too, table = read_csv(here / "predicted.csv"), found["table"]
    assert knotwise.load("mass.knotwise").encoding_ == found["gp"].encoding_
    assert list(here_too["penguin"]) == list(table["penguin"])
    assert_allclose(np.array(here_too["prediction"], float), table["mean"], rtol=1e-9)
    assert_allclose(np.array(here_too["lower"], float).round(), table["lower"])
    assert table["mass_g"].between(table["lower"], table["upper"])[table["mass_g"].notna()].mean() > 0.9


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_codes_that_are_named_as_levels_are_the_same_levels_in_a_prediction(here, run, ending):
    table = make_table()[["zone", "depth", "y"]]
    table["zone"] = table["zone"].map("{:05d}".format) if ending == "csv" else table["zone"].astype(float)
    table.to_csv("t.csv", index=False) if ending == "csv" else table.to_parquet("t.parquet")
    words = ["--target", "y", *EXACT, "--categorical", "zone", "-o", "m.knotwise"]
    assert run("fit", f"t.{ending}", *words)[0] == 0
    levels = {"csv": ("00001", "00002", "00010"), "parquet": ("1", "10", "2")}[ending]
    assert knotwise.load("m.knotwise").encoding_.levels == {"zone": levels}
    code, _, err = run("predict", "m.knotwise", f"t.{ending}")
    assert (code, err) == (0, "")  # no level is new


def test_where_inputs_are_filled_only_rows_without_a_target_are_dropped(here, run):
    table = make_table()[["depth", "y"]]
    table.loc[3, "depth"] = np.nan
    table.loc[[5, 6], "y"] = np.nan
    table.to_csv("t.csv", index=False)
    words = ["--target", "y", *EXACT, "--missing", "mean", "--drop-missing", "-o", "m.knotwise"]
    code, _, err = run("fit", "t.csv", *words)
    assert code == 0 and "left out 2 of 40 rows" in err
    gp = in_python(table.dropna(subset="y"), missing="mean")
    assert_allclose(predicted(run, "m.knotwise", "t.csv"), gp.predict(table[["depth"]]), rtol=1e-12)


def test_degrees_are_as_in_python(here, run):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"east": rng.uniform(-180, 180, 40), "north": rng.uniform(-80, 80, 40)})
    table["y"] = np.cos(np.radians(table["north"])) * np.cos(np.radians(table["east"])) + 0.1 * rng.normal(size=40)
    table.to_csv("t.csv", index=False)
    assert run("fit", "t.csv", "--target", "y", *EXACT, "--lonlat", "east,north", "-o", "m.knotwise")[0] == 0
    gp = in_python(table, coords=("lonlat", ["east", "north"]))
    assert_allclose(predicted(run, "m.knotwise", "t.csv"), gp.predict(table.drop(columns="y")), rtol=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--categorical", "town"], "'town'"),
        (["--lonlat", "depth"], "two columns"),
        (["--period", "depth"], "when=year"),
        (["--missing", "median"], "mean"),
    ],
)
def test_options_of_columns_that_mean_nothing_are_refused(words, message, here, run):
    make_table().to_csv("t.csv", index=False)
    try:
        code, _, error = run("fit", "t.csv", "--target", "y", *EXACT, *words, "-o", "m.knotwise")
    except SystemExit as stop:
        code, error = stop.code, message
    assert code != 0
    assert message in error


def write_days(name, text="%Y-%m-%d", first=None):
    """A table with days in one form; `first` takes the place of the first day."""
    when = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(40) * 9, unit="D")
    shown = when.strftime(text).tolist()
    table = pd.DataFrame({"day": shown if first is None else [first, *shown[1:]], "y": np.sin(np.arange(40.0) / 5)})
    table.to_csv(name, index=False)
    return table


@pytest.mark.parametrize("number", ["5", "2023", "202304", "1680307200", "1610121512345"])
def test_a_number_in_a_column_of_dates_is_refused_with_its_line(here, run, number):
    write_days("t.csv")
    assert run("fit", "t.csv", "--target", "y", *EXACT, "-o", "m.knotwise")[0] == 0
    write_days("new.csv", first=number)
    for command in (
        ["predict", "m.knotwise", "new.csv"],
        ["fit", "new.csv", "--target", "y", *EXACT, "-o", "n.knotwise"],
    ):
        code, _, error = run(*command)
        assert code != 0
        assert f"'day' holds {number!r} in row 0, which is not a date. Write dates as 2024-01-31" in error
        assert "Row 0 is line 2 of new.csv" in error


def test_eight_digits_are_dates_in_a_fit_and_in_a_prediction(here, run):
    write_days("t.csv")
    write_days("digits.csv", "%Y%m%d")
    for name in ("t", "digits"):
        code, _, error = run("fit", f"{name}.csv", "--target", "y", *EXACT, "-o", f"{name}.knotwise")
        assert code == 0
    assert "'day' holds eight digits that are dates, such as 20230101, and is taken for dates" in error
    assert knotwise.load("digits.knotwise").encoding_ == knotwise.load("t.knotwise").encoding_
    expected = predicted(run, "t.knotwise", "t.csv")
    for model, data in (("t.knotwise", "digits.csv"), ("digits.knotwise", "t.csv")):
        assert_allclose(predicted(run, model, data), expected, rtol=1e-12)


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_numbers_that_a_file_stores_as_text_are_codes(here, run, ending):
    """A file of text has no types, so that its codes are named."""
    table = make_table()[["zone", "depth", "y"]]
    table["zone"] = table["zone"].astype(str)
    write = {"csv": table.to_csv, "xlsx": table.to_excel, "parquet": table.to_parquet}[ending]
    write(f"t.{ending}", index=False)
    code, _, error = run("fit", f"t.{ending}", "--target", "y", *EXACT, "-o", "m.knotwise")
    assert (code, error) == (0, "")
    taken = str(knotwise.load("m.knotwise").encoding_).splitlines()[0]
    assert taken == ("zone   numbers" if ending == "csv" else "zone   category of 3 levels: 1, 10, 2")
    same = table.astype({"zone": int}) if ending == "csv" else table
    expected = in_python(same).predict(same.drop(columns="y"))
    assert_allclose(predicted(run, "m.knotwise", f"t.{ending}"), expected, rtol=1e-12)


def test_leading_zeros_are_told_of_and_stay_where_they_are_labels(here, run):
    table = make_table()[["zone", "depth", "y"]]
    table["zone"] = table["zone"].map("{:03d}".format)
    table.to_csv("t.csv", index=False)
    words = ["--target", "y", *EXACT, "-o", "m.knotwise"]
    code, _, error = run("fit", "t.csv", *words)
    assert code == 0 and "'zone' has leading zeros, as in '0" in error and "--categorical" in error
    code, _, error = run("fit", "t.csv", *words, "--categorical", "zone")
    assert (code, error) == (0, "")
    words = ["--target", "zone", "--classes", "--inputs", "depth", "--kernel", "se", "--knots", "3", "--no-progress"]
    assert run("fit", "t.csv", *words, "-o", "c.knotwise")[0] == 0
    assert knotwise.load("c.knotwise").classes_.tolist() == ["001", "002", "010"]
    out = read_csv(run("predict", "c.knotwise", "t.csv")[1])
    assert set(out["prediction"]) <= {"001", "002", "010"}
    table.assign(zone=table["zone"].astype(int)).to_csv("new.csv", index=False)
    code, _, error = run("diagnose", "c.knotwise", "new.csv", "--target", "zone")
    assert code != 0 and "none of the model's classes ['001', '002', '010']" in error


def test_two_columns_of_one_name_are_refused(here, run):
    table = make_table()[["depth", "zone", "y"]]
    table.to_csv("t.csv", index=False)
    assert run("fit", "t.csv", "--target", "y", *EXACT, "-o", "m.knotwise")[0] == 0
    table.set_axis(["depth", "depth", "y"], axis=1).to_csv("twice.csv", index=False)
    for command in (["predict", "m.knotwise"], ["fit", "--target", "y", *EXACT, "-o", "n.knotwise"]):
        code, _, error = run(*command, "twice.csv")
        assert code != 0 and "'depth' stands 2 times in twice.csv, at columns 1, 2" in error
