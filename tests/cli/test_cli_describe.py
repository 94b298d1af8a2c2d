"""`knotwise summary`, `diagnose`, `plot`, `data` and help, against the Python API."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from cli_tables import QUICK, inputs, load, make_columns, numbers, read_csv, write_csv
from numpy.testing import assert_array_equal

import knotwise
from knotwise import datasets, kernels, likelihoods, names
from knotwise.cli import main as cli
from knotwise.estimators.averaging import latent_models


def test_summary_is_that_of_the_python_api(folder, run):
    for name in ("y", "count", "three"):
        gp = knotwise.load(folder / f"{name}.knotwise")
        assert run("summary", folder / f"{name}.knotwise") == (0, f"{gp.summary()}\n", "")
        found = json.loads(run("summary", folder / f"{name}.knotwise", "--json")[1])
        models = latent_models(gp)
        assert [model["parameters"] for model in found["models"]] == [m.parameters_.as_dict() for m in models]
        assert found.get("classes") == (gp.classes_.tolist() if hasattr(gp, "classes_") else None)


def test_diagnose_says_what_the_python_api_says(folder, run):
    gp = knotwise.load(folder / "y.knotwise")
    assert run("diagnose", folder / "y.knotwise") == (0, f"{gp.diagnose()}\n", "")
    found = json.loads(run("diagnose", folder / "three.knotwise", "--json")[1])
    assert [diagnosis["label"] for diagnosis in found["diagnoses"]] == ["a", "b", "c"]


def test_diagnose_checks_predictions_of_numbers(folder, run):
    new = make_columns(20, seed=2)
    gp = load(folder / "y.knotwise")
    words = ["diagnose", folder / "y.knotwise", folder / "new.csv", "--target", "y"]
    code, out, err = run(*words, "--json")
    check = json.loads(out)["check"]
    error = new["y"] - gp.predict(inputs(new))
    assert code == 0 and not err and check["n_rows"] == 20
    assert check["scores"]["root_mean_squared_error"] == pytest.approx(np.sqrt((error**2).mean()))
    density = gp.log_predictive_density(inputs(new), new["y"])
    assert check["scores"]["mean_log_density"] == pytest.approx(density.mean())
    for share, level in zip(check["shares"], (0.5, 0.8, 0.95), strict=True):
        low, high = gp.predict_interval(inputs(new), level).T
        assert share["observed"] == pytest.approx(np.mean((low <= new["y"]) & (new["y"] <= high)))
    assert "inside 95 % intervals" in run(*words)[1]


def test_diagnose_finds_intervals_that_are_too_narrow(folder, here, run):
    new = make_columns(200, seed=2)
    write_csv("wild.csv", new | {"y": new["y"] + np.random.default_rng(0).normal(scale=3, size=200)})
    code, out, _ = run("diagnose", folder / "y.knotwise", "wild.csv", "--target", "y", "--json")
    found = json.loads(out)
    assert code == 0 and not found["ok"] and "too narrow" in found["check"]["shares"][-1]["problem"]
    assert "PROBLEM: intervals are too narrow" in run("diagnose", folder / "y.knotwise", "wild.csv", "--target", "y")[1]


def test_diagnose_checks_probabilities_of_labels_and_counts_at_their_exposure(folder, run):
    new = make_columns(20, seed=2)
    gp = load(folder / "three.knotwise")
    out = run("diagnose", folder / "three.knotwise", folder / "new.csv", "--target", "three", "--json")[1]
    scores = json.loads(out)["check"]["scores"]
    assert scores["accuracy"] == np.mean(gp.predict(inputs(new)) == new["three"])
    assert scores["mean_log_probability"] == pytest.approx(gp.log_predictive_density(inputs(new), new["three"]).mean())
    words = ["--target", "count", "--exposure", "area", "--json"]
    scores = json.loads(run("diagnose", folder / "count.knotwise", folder / "new.csv", *words)[1])["check"]["scores"]
    gp = load(folder / "count.knotwise")
    density = gp.log_predictive_density(inputs(new), new["count"], exposure=new["area"])
    assert scores["mean_log_density"] == pytest.approx(density.mean())


@pytest.mark.parametrize(
    "name, words, ending",
    [
        ("y", ["--kind", "fit", "--feature", "b", "--at", "a=2", "--target", "y"], "png"),
        ("count", ["--kind", "fit", "--feature", "a", "--exposure", "area", "--target", "count"], "png"),
        ("count", ["--kind", "map", "--what", "exceedance", "--threshold", "4"], "png"),
        ("three", ["--kind", "map", "--label", "b", "--feature", "b,a", "--target", "three"], "png"),
        ("colour", ["--kind", "calibration", "--target", "colour"], "svg"),
        ("count", ["--kind", "effects"], "svg"),
        ("hits", ["--kind", "pit", "--target", "hits", "--trials", "tries"], "pdf"),
        ("y", ["--kind", "observed", "--target", "y", "--interval", "0.5"], "png"),
    ],
)
def test_every_kind_of_picture_is_drawn(name, words, ending, folder, here, run):
    pytest.importorskip("matplotlib")
    out = here / f"picture.{ending}"
    code, shown, err = run("plot", folder / f"{name}.knotwise", folder / "new.csv", *words, "-o", out)
    assert code == 0 and not shown and err == f"knotwise: drew {out}\n"
    assert out.read_bytes()[:4] in (b"\x89PNG", b"%PDF", b"<?xm")


def test_a_picture_has_the_names_of_the_columns(folder, here, run):
    pytest.importorskip("matplotlib")
    words = ["--kind", "observed", "--target", "y", "-o", "p.svg", "--json"]
    code, out, err = run("plot", folder / "y.knotwise", folder / "new.csv", *words)
    assert (code, err) == (0, "") and json.loads(out) == {"kind": "observed", "output": "p.svg"}
    assert "<!-- observed y -->" in (here / "p.svg").read_text()


def test_a_trace_needs_no_table(folder, here, run):
    pytest.importorskip("matplotlib")
    words = ["fit", folder / "all.csv", "--target", "y", "--inputs", "a,b", "-o", "auto.knotwise"]
    assert run(*words)[0] == 0
    assert run("plot", "auto.knotwise", "--kind", "trace", "-o", "t.png")[0] == 0 and (here / "t.png").exists()


def test_a_report_names_its_files_and_compares_with_the_column_of_the_target(folder, here, run):
    pytest.importorskip("matplotlib")
    words = ["--target", "count", "--exposure", "area", "-o", "fit.html", "--title", "<b>"]
    assert run("report", folder / "count.knotwise", folder / "new.csv", *words) == (0, "", "knotwise: wrote fit.html\n")
    page = (here / "fit.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page and "count.knotwise" in page and "new.csv" in page
    gp = load(folder / "count.knotwise")
    table = read_csv(folder / "new.csv")
    y, area = numbers(table, "count", "area").T
    error = y - gp.predict(numbers(table, "a", "b"), exposure=area)
    assert f">{np.sqrt(np.mean(error**2)):.4g}<" in page


def test_a_report_takes_the_only_other_column_for_the_target_and_needs_no_table(folder, here, run):
    pytest.importorskip("matplotlib")
    table = read_csv(folder / "new.csv")
    write_csv(here / "small.csv", {name: table[name] for name in ("a", "b", "y")})
    code, _, err = run("report", folder / "y.knotwise", "small.csv", "-o", "fit.html")
    assert code == 0 and "taken from 'y', the only column that is no input" in err
    assert 'id="calibration"' in (here / "fit.html").read_text(encoding="utf-8")
    assert run("report", folder / "y.knotwise") == (0, "", "knotwise: wrote y.html\n")
    (noise,) = [e for e in knotwise.load(folder / "y.knotwise").parameters_.estimates() if "noise" in e.parameter]
    assert f"<td>{noise.lower_95:.4g}</td><td>{noise.upper_95:.4g}</td>" in Path("y.html").read_text(encoding="utf-8")
    assert 'id="calibration"' not in (here / "y.html").read_text(encoding="utf-8")
    assert run("report", folder / "y.knotwise", "--target", "y")[0] == 2
    assert run("report", folder / "y.knotwise", "-o", "fit.pdf")[0] == 2


def test_data_sets_are_written_with_all_digits(here, run):
    for name in ("boston", "banana", "hickory"):
        data = getattr(datasets, f"load_{name}")()
        assert run("data", name, "-o", f"{name}.csv") == (0, "", "")
        table = read_csv(here / f"{name}.csv")
        assert_array_equal(numbers(table, *data.feature_names), data.X)
        assert_array_equal(numbers(table, data.target_name)[:, 0], data.y)
        if data.exposure is not None:
            assert_array_equal(numbers(table, "area")[:, 0], data.exposure)
        assert f"{name} " in run("data")[1] and data.description in run("data")[1]


def test_data_sets_are_parted_as_in_python(here, run):
    words = ["--test", "test.tsv", "--test-share", "0.3", "--seed", "5"]
    assert run("data", "boston", "-o", "train.csv", *words)[0] == 0
    part = datasets.split(datasets.load_boston(), 0.3, 5)
    assert_array_equal(numbers(read_csv(here / "train.csv"), "lstat", "rm", "ptratio"), part.X_train)
    test = read_csv((here / "test.tsv").read_text().replace("\t", ","))
    assert_array_equal(numbers(test, "medv")[:, 0], part.y_test)


COMMANDS = ["fit", "predict", "summary", "diagnose", "plot", "report", "data"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_option_and_examples_that_can_be_understood(command, run):
    code, out, err = run(command, "--help")
    examples = out.partition("examples:\n")[2].strip().splitlines()
    assert code == 0 and not err and examples
    for example in examples:
        words = next(shlex.split(part)[1:] for part in example.split("|") if "knotwise" in part)
        assert words[0] == command and cli._parse(words).command == command


def test_the_names_that_help_and_options_know_are_those_of_the_library(run):
    help_text = " ".join(run("fit", "--help")[1].split())
    assert all(name in help_text for name in likelihoods.LIKELIHOODS)
    for name, cls in names.KERNELS.items():
        assert name in help_text and isinstance(getattr(kernels, cls)(ard=True), kernels.Kernel)


def test_the_guide_names_every_key_of_the_json(folder, here, run):
    pytest.importorskip("matplotlib")
    page = (Path(__file__).parents[2] / "docs/command-line.md").read_text(encoding="utf-8")
    rows = {
        row.split("|")[1].strip(" `"): set(re.findall(r"`(\w+)`", row)) for row in page.splitlines() if row[:1] == "|"
    }
    model, new = folder / "colour.knotwise", folder / "new.csv"
    words = {
        "fit": [folder / "all.csv", "--target", "colour", "--inputs", "a,b", *QUICK, "--diagnose", "-o", "m.knotwise"],
        "predict": [model, new],
        "summary": [model],
        "diagnose": [model, new, "--target", "colour"],
        "plot": [model, new, "--kind", "calibration", "--target", "colour", "-o", "p.svg"],
        "report": [model, "-o", "p.html"],
    }
    for command, given in words.items():
        found = json.loads(run(command, *given, "--json")[1])
        assert set(found) <= rows[command], command
