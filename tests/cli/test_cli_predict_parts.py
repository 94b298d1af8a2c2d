"""`knotwise predict` of several Parquet files: the numbers of one table, a folder that is whole or not there."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from cli_tables import make_columns
from numpy.testing import assert_allclose

from knotwise.cli import parquet
from knotwise.cli.predict import part_names

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")


def write(path, columns):
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def rows(here):
    """New rows in three files of a folder, and in one."""
    columns = {name: np.asarray(values) for name, values in make_columns(60, seed=2).items()}
    (here / "rows").mkdir()
    for i, own in enumerate(np.array_split(np.arange(60), [25, 33])):
        write(here / "rows" / f"part.{i}.parquet", {name: values[own] for name, values in columns.items()})
    write(here / "all.parquet", columns)
    return here


def joined(folder):
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.iterdir())])


def assert_same_rows(one, other):
    """Text to the letter, numbers to the rounding of rows that are predicted in other company."""
    assert one.schema.equals(other.schema)
    for name in one.column_names:
        own, its = one[name].to_pylist(), other[name].to_pylist()
        if isinstance(its[0], float):
            assert_allclose(own, its, rtol=1e-11, atol=1e-12)
        else:
            assert own == its


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("y", ["--std", "--interval", "0.8", "--keep", "area,colour"]),
        ("y", ["--kind", "latent", "--inputs", "b,a"]),
        ("count", ["--exposure", "area"]),
        ("hits", ["--kind", "mean"]),
        ("colour", ["--interval", "0.5"]),
        ("three", []),
    ],
)
def test_the_parts_are_the_predictions_of_one_table(model, words, rows, folder, run):
    name = folder / f"{model}.knotwise"
    assert run("predict", name, "all.parquet", *words, "-o", "one.parquet")[0] == 0
    code, out, _ = run("predict", name, "rows/*.parquet", *words, "-o", "many/", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 60
    assert [path.name for path in sorted((rows / "many").iterdir())] == [f"part.{i}.parquet" for i in range(3)]
    assert_same_rows(joined(rows / "many"), pq.read_table("one.parquet"))


def test_parts_without_rows_keep_their_place_and_rows_with_gaps_are_counted(rows, folder, run):
    columns = make_columns(9, seed=3)
    write(rows / "rows" / "part.3.parquet", {name: np.asarray(values)[:0] for name, values in columns.items()})
    write(rows / "rows" / "part.4.parquet", {name: np.full(4, np.nan) for name in "ab"})
    (rows / "empty").mkdir()  # which the predictions may fill
    code, out, said = run("predict", folder / "y.knotwise", "rows", "-o", "empty", "--drop-missing", "--json")
    assert code == 0, said
    assert json.loads(out) | {"output": ""} == {"rows": 60, "dropped": 4, "warnings": [], "output": "", "parts": 5}
    assert [len(pq.read_table(path)) for path in sorted((rows / "empty").iterdir())] == [25, 8, 27, 0, 0]
    assert joined(rows / "empty").column_names == ["row", "prediction", "lower", "upper"]


def mistake_cases():
    def no_column(rows):
        write(rows / "rows" / "part.9.parquet", {"a": [1.0], "c": [2.0]})

    def gap(rows):
        write(rows / "rows" / "part.9.parquet", {"a": [1.0, np.nan], "b": [2.0, 2.0]})

    def full(rows):
        (rows / "out").mkdir()
        (rows / "out" / "mine.txt").write_text("mine")

    def file(rows):
        (rows / "out").write_text("mine")

    def nothing(rows):
        pass

    return [
        (no_column, ["rows/*"], "rows/part.9.parquet has no column 'b', which rows/part.0.parquet has", 1),
        (gap, ["rows/*"], "part.9.parquet: 'a' in row 1", 1),
        (full, ["rows/*"], "'out' is not empty: it has 1 file", 1),
        (file, ["rows/*"], "'out' is a file", 1),
        (nothing, ["rows/*.pq"], "names no file", 1),
        (nothing, ["rows/*", "--keep", "aera"], "area", 2),
        (nothing, ["rows/*", "-o", "out.parquet"], "name a new one with -o FOLDER", 2),
        (nothing, ["rows/*", "-o", "none/out"], "Make it first", 1),
        (nothing, ["rows/*", "--memory", "1GB"], "--memory is that of each worker", 2),
    ]


@pytest.mark.parametrize(("prepare", "words", "said", "code"), mistake_cases())
def test_mistakes_are_said_in_words_and_leave_nothing(prepare, words, said, code, rows, folder, run):
    prepare(rows)
    before = sorted(path for path in rows.rglob("*"))
    found = run("predict", folder / "y.knotwise", words[0], "-o", "out", *words[1:])
    assert found[0] == code, found[2]
    assert said in found[2]
    assert sorted(path for path in rows.rglob("*")) == before


def test_fit_names_the_file_that_lacks_a_column(rows, run):
    write(rows / "rows" / "part.9.parquet", {"a": [1.0], "y": [2.0]})
    code, _, said = run("fit", "rows/*.parquet", "--target", "y", "--inputs", "a,b", "-o", "m.knotwise")
    assert code == 1
    assert "rows/part.9.parquet has no column 'b'" in said


def test_a_file_whose_name_looks_like_a_pattern_is_one_file(rows, folder, run):
    (rows / "all.parquet").rename(rows / "rows[1].parquet")
    assert run("predict", folder / "y.knotwise", "rows[1].parquet", "-o", "one.parquet")[0] == 0
    assert len(pq.read_table(rows / "one.parquet")) == 60


def test_names_are_kept_where_their_order_is_that_of_the_files():
    assert part_names(["x/1.parquet", "y/2.parquet"]) == ["1.parquet", "2.parquet"]
    assert part_names(["x/2.parquet", "y/1.parquet"]) == ["0-2.parquet", "1-1.parquet"]
    assert part_names(["x/1.parquet", "y/1.parquet"]) == ["0-1.parquet", "1-1.parquet"]


def test_parquet_is_written_in_groups_of_rows_that_hold_what_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 5)
    pieces = [{"a": [float(3 * i + j) for j in range(3)], "b": list("xyz")} for i in range(5)]
    parquet.write_parquet(tmp_path / "t.parquet", iter(pieces))
    table = pq.ParquetFile(tmp_path / "t.parquet")
    assert table.num_row_groups == 3
    assert table.read().to_pydict() == {"a": list(map(float, range(15))), "b": list("xyz") * 5}


# -- workers --------------------------------------------------------------------------------------


def test_a_wrong_address_is_an_error_in_words_within_seconds(rows, folder, run, monkeypatch):
    monkeypatch.setattr(parquet, "SECONDS_TO_ANSWER", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense", "127.0.0.1:9"):
        start = time.perf_counter()
        words = ["predict", folder / "y.knotwise", "rows/*", "--scheduler", address, "-o", "out"]
        code, _, said = run(*words)
        assert code == 1
        assert f"No Dask scheduler answers at {address!r}" in said
        assert time.perf_counter() - start < 10
    assert not (rows / "out").exists()


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler in a process of its own, and a function that starts a worker of it."""
    started = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)

    file = tmp_path / "scheduler.json"
    start("dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    for _ in range(300):
        if file.exists() and file.read_text().strip().endswith("}"):
            break
        time.sleep(0.1)
    address = json.loads(file.read_text())["address"]
    yield address, lambda: start("dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny")
    for process in started:  # a worker that ends by itself waits for its scheduler first
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_scheduler_and_its_workers_fit_and_predict(scheduler, rows, folder, run, monkeypatch):
    address, start_worker = scheduler
    monkeypatch.setattr(parquet, "SECONDS_TO_ANSWER", 2)
    code, _, said = run("predict", folder / "y.knotwise", "rows/*", "--scheduler", address, "-o", "out")
    assert code == 1
    assert f"The Dask scheduler at {address!r} has no workers" in said
    monkeypatch.setattr(parquet, "SECONDS_TO_ANSWER", 60)
    start_worker()
    words = ["--target", "y", "--inputs", "a,b", "--knots", "6", "--kernel", "se"]
    assert run("fit", "rows/*", *words, "--scheduler", address, "-o", "there.knotwise")[0] == 0
    assert run("fit", "all.parquet", *words, "-o", "here.knotwise")[0] == 0
    assert run("predict", "there.knotwise", "rows/*", "--scheduler", address, "-o", "out")[0] == 0
    assert run("predict", "here.knotwise", "all.parquet", "-o", "one.parquet")[0] == 0
    assert_same_rows(joined(rows / "out"), pq.read_table("one.parquet"))  # few rows come to the driver
    write(rows / "rows" / "part.9.parquet", {"a": [np.inf], "b": [2.0]})
    code, _, said = run("predict", "there.knotwise", "rows/*", "--scheduler", address, "-o", "bad")
    assert code == 1
    assert "part.9.parquet is 'infinity' in row 0" in said
    assert not list(rows.glob("*bad*"))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_workers_that_are_started_here_predict_to_the_same_bits(rows, folder, run):
    name = folder / "three.knotwise"
    assert run("predict", name, "rows/*", "--workers", "2", "--memory", "1GB", "-o", "there")[0] == 0
    assert run("predict", name, "rows/*", "-o", "here")[0] == 0
    assert joined(rows / "there").equals(joined(rows / "here"))
