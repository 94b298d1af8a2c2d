"""`knotwise fit`: the options and the numbers of the Python API."""

import json

import numpy as np
import pytest
from cli_tables import FEW, QUICK, inputs, write_csv
from numpy.testing import assert_array_equal

import knotwise
from knotwise import GPRegressor
from knotwise.cli import reading as cli_reading
from knotwise.cli.output import write_table
from knotwise.kernels import SquaredExponential
from knotwise.knots import Auto


@pytest.mark.parametrize("words, kernel", [(QUICK, SquaredExponential()), (FEW, None)], ids=["given", "chosen"])
def test_a_fit_is_that_of_the_python_api_to_the_bit(words, kernel, folder, columns, here, run):
    common = ["fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", "-o", "m.knotwise"]
    assert run(*common, *words)[0] == 0
    gp = knotwise.load("m.knotwise")
    same = GPRegressor(kernel, knots=6, random_state=0).fit(inputs(columns), columns["y"])
    assert gp.parameters_.as_dict() == same.parameters_.as_dict()
    assert_array_equal(gp.knots_, same.knots_)
    assert gp.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--kernel", "matern32", "--ard"], {"kernel": "Matern32"}),
        (["--ard"], {"kernel": "SquaredExponential"}),
        (["--approximation", "fic"], {"approximation": "fic"}),
        (["--approximation", "0.5"], {"approximation": 0.5}),
        (["--mean", "linear"], {"mean": "linear"}),
        (["--mean", "-1.5"], {"mean": -1.5}),
        (["--standardize", "common"], {"standardize": "common"}),
        (["--standardize", "no"], {"standardize": False}),
        (["--priors", "weak"], {"priors": "weak"}),
        (["--transform", "yeojohnson"], {"transform": "yeojohnson"}),
        (["--transform", "none"], {"transform": None}),
        (["--seed", "7"], {"random_state": 7}),
        (["--likelihood", "student-t"], {"likelihood": "student_t"}),
        (["--no-progress"], {"progress": False}),
    ],
)
def test_options_become_the_settings_of_the_estimator(words, expected, folder, here, run):
    words = [*(FEW if "kernel" in expected else QUICK), *words]
    code, _, _ = run("fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", *words, "-o", "m.knotwise")
    settings = knotwise.load("m.knotwise").get_params(deep=False)
    kernel = settings.pop("kernel")
    assert code == 0 and {"kernel": type(kernel).__name__, **settings}.items() >= expected.items()
    assert kernel.ard == ("kernel" in expected)


def test_knots_are_counted_limited_or_left_out(folder, here, run):
    common = ["fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", "--kernel", "se", "-o", "m.knotwise"]
    assert run(*common, "--max-knots", "4")[0] == 0
    gp = knotwise.load("m.knotwise")
    assert gp.knots == Auto(max_knots=4) and gp.n_knots_ <= 4
    assert run(*common, "--approximation", "full")[0] == 0 and knotwise.load("m.knotwise").n_knots_ == 0


@pytest.mark.parametrize("name", ["where.csv", "where.parquet"])
def test_places_where_predictions_are_wanted_are_those_of_python(name, folder, columns, here, run):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    places = {"b": columns["b"][:40], "other": columns["w"][:40], "a": columns["a"][:40] + 0.01}  # y is not needed
    write_table(name, [{key: values.tolist() for key, values in places.items()}])
    common = ["fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", *FEW, "-o", "m.knotwise"]
    assert run(*common, "--predict-at", name)[0] == 0
    wanted = np.column_stack([places["a"], places["b"]])
    same = GPRegressor(knots=6, random_state=0).fit(inputs(columns), columns["y"], predict_at=wanted)
    gp = knotwise.load("m.knotwise")
    assert repr(gp._fit.tested) == repr(same._fit.tested) and np.isfinite(gp._fit.tested.asked)
    assert gp.parameters_.as_dict() == same.parameters_.as_dict()


def test_a_prediction_farther_than_the_model_was_tested_is_one_note(folder, columns, here, run, monkeypatch):
    monkeypatch.setattr(cli_reading, "CHUNK_ROWS", 5)  # each piece is predicted by itself
    write_csv("far.csv", {"a": np.linspace(50, 60, 20), "b": np.zeros(20)})
    assert run("fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", *FEW, "-o", "m.knotwise")[0] == 0
    code, _, err = run("predict", "m.knotwise", "far.csv")
    tested = knotwise.load("m.knotwise")._fit.tested
    assert code == 0 and tested.limit < 1 and err.count("farther from the data than the model was tested") == 1


def test_neighbours_are_counted_decided_or_left_out(folder, here, run):
    common = ["fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", "--kernel", "matern32", "--knots", "5"]
    code, out, _ = run(*common, "--neighbors", "4", "--diagnose", "-o", "m.knotwise")
    assert code == 0 and "5 knots and 4 neighbours of each row" in out and "predicted without themselves" in out
    assert knotwise.load("m.knotwise").n_neighbors_ == 4
    code, out, _ = run("summary", "m.knotwise", "--json")
    assert code == 0 and json.loads(out)["models"][0]["n_neighbors"] == 4
    code, out, _ = run("diagnose", "m.knotwise")
    assert code == 0 and "predicted without themselves" in out
    assert run("predict", "m.knotwise", folder / "all.csv", "-o", "p.csv")[0] == 0
    for word in ("auto", "0"):
        assert run(*common, "--neighbors", word, "-o", "m.knotwise")[0] == 0
        assert knotwise.load("m.knotwise").n_neighbors_ == 0
    code, _, err = run(*common, "--neighbors", "atuo", "-o", "m.knotwise")
    assert code == 2 and "did you mean 'auto'" in err
    code, _, err = run(*common, "--neighbors", "4", "--approximation", "fic", "-o", "m.knotwise")
    assert code == 2 and "leave one of them out" in err


def test_a_nugget_can_be_held_or_fitted(folder, here, run):
    words = ["fit", folder / "all.csv", "--target", "count", "--inputs", "a,b", "--likelihood", "poisson", *QUICK]
    assert run(*words, "--nugget", "0.25", "-o", "held.knotwise")[0] == 0
    assert run(*words, "--nugget", "fit", "-o", "fitted.knotwise")[0] == 0
    assert knotwise.load("held.knotwise").nugget_ == pytest.approx(0.25)
    assert "nugget" in knotwise.load("fitted.knotwise").parameters_.names


def test_weights_are_sample_weights(folder, columns, here, run):
    words = ["--target", "y", "--inputs", "a,b", "--weight", "w", *QUICK, "-o", "m.knotwise"]
    assert run("fit", folder / "all.csv", *words)[0] == 0
    gp = GPRegressor(SquaredExponential(), knots=6, random_state=0)
    same = gp.fit(inputs(columns), columns["y"], sample_weight=columns["w"])
    assert knotwise.load("m.knotwise").log_evidence_ == same.log_evidence_


def test_inputs_are_by_default_the_columns_without_another_role(columns, here, run):
    write_csv("t.csv", {"": columns["a"], **{name: columns[name] for name in ("a", "count", "b", "area")}})
    words = ["--target", "count", "--likelihood", "poisson", "--exposure", "area", *QUICK, "-o", "m.knotwise"]
    code, _, err = run("fit", "t.csv", *words)
    assert code == 0 and knotwise.load("m.knotwise").feature_names_in_.tolist() == ["a", "b"]
    assert "no name" in err


def test_counts_choose_their_law_and_their_exposure_goes_with_it(columns, here, run):
    write_csv("t.csv", {name: columns[name] for name in ("a", "count", "b", "area")})
    words = ["--target", "count", "--likelihood", "counts", "--exposure", "area", *QUICK, "-o", "m.knotwise"]
    assert run("fit", "t.csv", *words)[0] == 0
    gp = knotwise.load("m.knotwise")
    same = GPRegressor(**gp.get_params(deep=False))
    same.fit(inputs(columns), columns["count"], exposure=columns["area"])
    assert gp.likelihood == "counts" and repr(gp.likelihood_) == repr(same.likelihood_)
    code, _, err = run("fit", "t.csv", *words, "--trials", "area")
    assert code == 2 and "binomial" in err
    help_text = " ".join(run("fit", "--help")[1].split())
    assert "counts (the data choose: poisson or negative_binomial or zero_inflated_poisson" in help_text


@pytest.mark.parametrize(
    "target, words, classes",
    [
        ("colour", [], ["blue", "red"]),
        ("three", [], ["a", "b", "c"]),
        ("code", ["--classes"], [2, 10]),
        ("truth", [], ["False", "True"]),
        ("half", ["--classes"], ["0.5", "1.5"]),
    ],
)
def test_text_or_the_flag_makes_a_classifier_with_these_labels(target, words, classes, columns, here, run):
    high = columns["y"] > 0.3
    write_csv("t.csv", columns | {"truth": high, "half": high + 0.5})
    assert run("fit", "t.csv", "--target", target, "--inputs", "a,b", *QUICK, *words, "-o", "m.knotwise")[0] == 0
    assert knotwise.load("m.knotwise").classes_.tolist() == classes


def test_two_numbers_are_fitted_as_numbers_with_a_hint(folder, here, run):
    words = ["--target", "code", "--inputs", "a,b", *QUICK, "-o", "m.knotwise"]
    code, out, err = run("fit", folder / "all.csv", *words)
    assert code == 0 and "--classes" in err and out.startswith("GPRegressor")


def test_the_short_summary_is_on_stdout_and_the_json_has_the_same(folder, columns, here, run):
    words = ["fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", *QUICK, "-o", "m.knotwise"]
    code, out, err = run(*words)
    gp = knotwise.load("m.knotwise")
    for part in ("a, b", "70 rows", "6 knots", f"{gp.log_evidence_:.3f}", gp.stop_reason_, "m.knotwise"):
        assert part in out
    code, out, err = run(*words, "--json", "--diagnose")
    found = json.loads(out)
    assert code == 0 and not err
    assert found["rows"] == 70 and found["inputs"] == ["a", "b"] and found["target"] == "y" and not found["dropped"]
    assert found["models"][0]["parameters"] == pytest.approx(dict(gp.parameters_.as_dict()))
    python = GPRegressor(SquaredExponential(), knots=6, random_state=0).fit(inputs(columns), columns["y"]).diagnose()
    assert found["diagnoses"][0]["unexplained_share"] == pytest.approx(python.unexplained_share)  # a file has it not


def test_a_warning_of_the_fit_is_a_note_and_in_the_json(columns, here, run):
    write_csv("t.csv", {"a": columns["a"], "count": columns["count"] + 0.5})
    words = ["--target", "count", "--likelihood", "poisson", "--json", *QUICK, "-o", "m.knotwise"]
    code, out, err = run("fit", "t.csv", *words)
    (warning,) = json.loads(out)["warnings"]
    assert code == 0 and err == f"knotwise: warning: {warning}\n"


def test_a_checkpoint_is_kept_in_the_folder_and_changes_no_bit(folder, here, run):
    words = ["--target", "y", "--inputs", "a,b", "--checkpoint", "state", *QUICK, "-o", "m.knotwise"]
    assert run("fit", folder / "all.csv", *words)[0] == 0
    assert (here / "state").is_dir()
    same, gp = knotwise.load(folder / "y.knotwise"), knotwise.load("m.knotwise")
    assert gp.parameters_.as_dict() == same.parameters_.as_dict()


def test_a_transform_is_said_of_the_target_by_its_name(here, run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=100)
    price = np.exp(2 * np.sin(6 * x) + 0.2 * rng.normal(size=100))
    (tmp_path / "prices.csv").write_text("x,price\n" + "\n".join(f"{a:.4f},{b:.4f}" for a, b in np.c_[x, price]))
    code, out, _ = run("fit", tmp_path / "prices.csv", "--target", "price", "-o", "m.knotwise")
    assert code == 0 and "the logarithm of price was modelled" in out
    assert "the logarithm of price was modelled: +" in str(knotwise.load("m.knotwise").summary())
    words = ["--target", "price", "--likelihood", "gamma", "--transform", "log", "-o", "m.knotwise"]
    code, _, err = run("fit", tmp_path / "prices.csv", *words)
    assert code != 0 and "--transform is for Gaussian data" in err
