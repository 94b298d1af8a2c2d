"""Categories, dates, gaps and degrees in tables: the command line gives what Python gives."""

import numpy as np
import pandas as pd
import pytest
from cli_tables import read_csv
from numpy.testing import assert_allclose

import knotwise
from knotwise import GPRegressor
from knotwise.kernels import SquaredExponential

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
    table.assign(city=np.where(table.index == 20, "Olso", table["city"])).to_csv("new.csv", index=False)
    assert "'Olso'" in run("predict", "m.knotwise", "new.csv", "--drop-missing")[2]


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
    assert len(predicted(run, "m.knotwise", "t.csv", "--drop-missing")) == 39


def test_a_picture_is_drawn_at_a_level_and_at_a_date(here, run):
    make_table()[["depth", "city", "day", "y"]].to_csv("t.csv", index=False)
    assert run("fit", "t.csv", "--target", "y", *EXACT, "-o", "m.knotwise")[0] == 0
    plot = ["plot", "m.knotwise", "t.csv", "--kind", "fit", "--feature", "depth"]
    code, _, err = run(*plot, "--at", "city=Oslo,day=2024-03-01", "-o", "p.png")
    assert code == 0 and (here / "p.png").exists() and "warning" not in err
    code, _, err = run(*plot, "--at", "depth=low", "-o", "q.png")
    assert code == 2 and "'depth=low'" in err


def test_degrees_are_as_in_python(here, run):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"east": rng.uniform(-180, 180, 40), "north": rng.uniform(-80, 80, 40)})
    table["y"] = np.cos(np.radians(table["north"])) * np.cos(np.radians(table["east"]))
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
