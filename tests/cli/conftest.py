"""A folder with tables and models that the command line has fitted, and a way to run words."""

import pytest
from cli_tables import QUICK, make_columns, write_csv

from knotwise.cli import main as cli


@pytest.fixture(scope="session")
def columns():
    return make_columns()


@pytest.fixture(scope="session")
def folder(tmp_path_factory, columns):
    """A folder with tables, and models of a number, counts and labels fitted by the command line."""
    place = tmp_path_factory.mktemp("tables")
    write_csv(place / "all.csv", columns)
    write_csv(place / "new.csv", make_columns(20, seed=2))
    for name, words in {
        "y": [],
        "count": ["--likelihood", "poisson", "--exposure", "area"],
        "hits": ["--likelihood", "binomial", "--trials", "tries"],
        "colour": [],
        "three": [],
    }.items():
        out = ["-o", str(place / f"{name}.knotwise")]
        assert cli.main(["fit", str(place / "all.csv"), "--target", name, "--inputs", "a,b", *QUICK, *words, *out]) == 0
    return place


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run words in this process; the exit code, stdout and stderr."""

    def run_words(*words):
        capsys.readouterr()
        code = cli.main([str(word) for word in words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run_words
