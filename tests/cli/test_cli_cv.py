"""`knotwise cv`: the scores and predictions of `cross_validate`, by the columns of a table."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_tables import inputs, make_columns, numbers, read_csv, write_csv
from numpy.testing import assert_allclose

from knotwise import GPClassifier, GPRegressor, cross_validate
from knotwise.errors import FitWarning
from knotwise.kernels import SquaredExponential

SETTINGS = {"knots": 4, "n_jobs": 1, "random_state": 0, "progress": False}
TOLD = "times as much as Poisson counts would"
WORDS = ["--inputs", "a,b", "--knots", "4", "--threads", "1", "--kernel", "se"]


@pytest.fixture
def table(here):
    columns = make_columns(30) | {"where": [f"w{i // 10}" for i in range(30)]}
    write_csv(here / "t.csv", columns)
    return columns


def model(**settings):
    return GPRegressor(SquaredExponential(), **SETTINGS | settings)


@pytest.mark.parametrize("blocks", ["where", "3"])
def test_blocks_of_a_column_or_of_a_number_are_those_of_the_python_api(table, here, run, blocks):
    code, out, err = run("cv", "t.csv", "--target", "y", "--blocks", blocks, *WORDS, "--json", "-o", "p.csv")
    labels = np.array(table["where"]) if blocks == "where" else 3
    expected = cross_validate(model(), inputs(table), table["y"], blocks=labels)
    found = json.loads(out)
    assert code == 0 and not err and found["blocks"] == 3 and found["rows"] == 30
    assert found["setting"] == "parameters and knots anew for each block"
    assert_allclose(list(found["scores"].values()), list(expected.scores.values()), rtol=1e-12)
    shown = read_csv(here / "p.csv")
    assert list(shown)[:2] == ["block", "y"] and list(shown["block"]) == [str(b) for b in expected.block]
    assert_allclose(numbers(shown, "mean", "lower"), np.column_stack([expected.mean, expected.lower]), rtol=1e-12)


def test_places_of_blocks_are_columns_of_the_table_whether_inputs_or_not(here, run):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(40, 2)) * [1000, 100], columns=["x", "y"])
    table["u"], table["v"] = rng.normal(size=40), rng.normal(size=40)
    table["z"] = np.sin(table["x"] / 100) + table["u"] + 0.1 * rng.normal(size=40)
    table.to_csv("t.csv", index=False)
    gp = GPRegressor(SquaredExponential(), approximation="full", n_jobs=1)
    words = ["--target", "z", "--kernel", "se", "--approximation", "full", "--threads", "1", "--blocks", "4", "--json"]
    for inputs_given, more, places in (
        (["x", "y", "u"], [], ["x", "y"]),
        (["u"], [], ["x", "y"]),
        (["u"], ["--coords", "v,y"], ["v", "y"]),
    ):
        code, out, err = run("cv", "t.csv", "--inputs", ",".join(inputs_given), *words, *more, "-o", "p.csv")
        expected = cross_validate(gp, table[inputs_given], table["z"], blocks=4, coords=table[places])
        assert code == 0 and not err and json.loads(out)["blocks_of"] == ", ".join(places)
        assert list(read_csv(here / "p.csv")["block"]) == [str(label) for label in expected.blocks]
        assert_allclose(json.loads(out)["scores"]["rmse"], expected.scores["rmse"], rtol=1e-9)


def test_a_target_that_is_called_as_a_coordinate_is_no_place(here, run):
    columns = {"x": np.arange(20.0), "u": np.tile([0.0, 1.0], 10), "y": np.sin(np.arange(20.0))}
    write_csv(here / "t.csv", columns)
    code, out, _ = run("cv", "t.csv", "--target", "y", "--blocks", "2", *WORDS[2:], "--json")
    assert code == 0 and json.loads(out)["blocks_of"] == "all columns"


def test_without_blocks_rows_are_left_out_one_by_one_with_parameters_held(table, run):
    code, out, err = run(
        "cv", "t.csv", "--target", "count", *WORDS, "--likelihood", "poisson", "--exposure", "area", "--interval", "0.8"
    )
    with pytest.warns(FitWarning, match=TOLD):  # these counts are of no area, so that rates vary from row to row
        gp = model(likelihood="poisson").fit(inputs(table), table["count"], exposure=table["area"])
    known = {"exposure": table["area"], "level": 0.8, "refit": False}
    expected = cross_validate(gp, inputs(table), table["count"], **known)
    assert code == 0 and out == f"{expected!r}\n" and "parameters and knots held" in out
    assert err.count(TOLD) == 1 and "Write --likelihood counts" in err


def test_the_column_of_the_blocks_is_no_input(table, here, run):
    write_csv(here / "u.csv", {"a": table["a"], "site": np.arange(30) // 10, "y": table["y"]})
    words = ["cv", "u.csv", "--target", "y", "--blocks", "site", "--hold", "--knots", "3", "--kernel", "se", "--json"]
    code, out, _ = run(*words)
    gp = model(knots=3).fit(table["a"][:, None], table["y"])
    expected = cross_validate(gp, table["a"][:, None], table["y"], blocks=np.arange(30) // 10, refit=False)
    assert code == 0
    assert_allclose(json.loads(out)["scores"]["rmse"], expected.scores["rmse"], rtol=1e-12)


def test_two_classes_are_scored_by_their_probabilities(table, here, run):
    labels = ["seen" if y > np.median(table["y"]) else "absent" for y in table["y"]]
    write_csv(here / "t.csv", table | {"status": labels})
    code, out, err = run("cv", "t.csv", "--target", "status", "--blocks", "where", *WORDS, "--json", "-o", "p.csv")
    gp = GPClassifier(SquaredExponential(), **SETTINGS)
    expected = cross_validate(gp, inputs(table), labels, blocks=np.array(table["where"]))
    found = json.loads(out)
    assert code == 0 and found["classes"] == ["absent", "seen"], err
    assert found["scores"] == pytest.approx(expected.scores, rel=1e-12) and set(found["scores"]) >= {"log_loss", "auc"}
    assert_allclose(numbers(read_csv(here / "p.csv"), "mean")[:, 0], expected.mean, rtol=1e-12)


def test_levels_places_and_periods_are_named_as_in_a_data_frame(here, run):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"zone": rng.choice([1, 2], 24), "lon": rng.uniform(0, 9, 24), "lat": rng.uniform(0, 9, 24)})
    table["day"] = (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 24), unit="D")).strftime("%F")
    table["y"] = np.sin(table["lon"]) + table["zone"] + 0.1 * rng.normal(size=24)
    table.to_csv("t.csv", index=False)
    exact = ["--kernel", "se", "--approximation", "full", "--blocks", "2", "--keep", "zone,day", "-o", "p.csv"]
    words = ["--categorical", "zone", "--lonlat", "lon,lat", "--period", "day=year"]
    code, out, err = run("cv", "t.csv", "--target", "y", *exact, *words, "--json")
    coded = {"categorical": ["zone"], "coords": ("lonlat", ["lon", "lat"]), "periods": {"day": "year"}}
    gp = GPRegressor(SquaredExponential(), approximation="full", random_state=0, **coded)
    X = table.drop(columns="y")
    expected = cross_validate(gp, X, table["y"], blocks=2)
    assert code == 0 and not err
    assert_allclose(list(json.loads(out)["scores"].values()), list(expected.scores.values()), rtol=1e-9)
    shown = read_csv(here / "p.csv")
    assert list(shown)[:3] == ["zone", "day", "block"] and list(shown["day"]) == list(table["day"])


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["--target", "y", "--blocks", "wher"], 2, "Did you mean 'where'"),
        (["--target", "y", "--blocks", "1"], 2, "at least 2"),
        (["--target", "y", "--blocks", "3", "--coords", "a,c"], 2, "A column of --coords is 'c'"),
        (["--target", "y", "--blocks", "3", "--coords", "a,where"], 1, "'where' of t.csv is 'w0' in line 2"),
        (["--target", "y", "--blocks", "where", "--coords", "a,b"], 2, "--blocks 10"),
        (["--target", "where"], 2, "two classes, and the target 'where' has 3"),
        (["--target", "y", "-o", "t.csv"], 1, "lost"),
        (["--target", "y", "-o", "-", "--json"], 2, "--json"),
        (["--target", "y", "--keep", "where"], 2, "-o FILE"),
        (["--target", "y", "--keep", "y", "-o", "p.csv"], 2, "column of the predictions too"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(table, run, words, code, named):
    found, _, err = run("cv", "t.csv", *WORDS, *words)
    assert found == code and named in err and err.count("\n") == 1
