"""Case 49: folders that are somebody else's. What is in them stays as it is, to the byte."""

import os
import shutil
from pathlib import Path

import pytest

from knotwise.cli import main as cli
from knotwise.errors import InvalidInputError
from knotwise_reproduction import reproduce as whole
from knotwise_reproduction.experiments import EXPERIMENTS, Job
from knotwise_reproduction.folder import MARKER
from knotwise_reproduction.report import TITLE
from knotwise_reproduction.runs import Finished, versions
from knotwise_reproduction.store import RowStore, read_rows, row_line

PUBLISHED_ROWS = Path(__file__).parents[2] / "docs" / "paper" / "rows.jsonl"
JOB = Job("motivation", "published", "FIC 5", 0)


def contents(folder):
    """Everything below a folder: links as links, files with their bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[path] = os.readlink(path)
        elif path.is_file():
            found[path] = path.read_bytes()
        else:
            found[path] = "folder" if path.is_dir() else "special"
    return found


@pytest.fixture(scope="module")
def row():
    """A row of this program, without a picture."""
    return read_rows(PUBLISHED_ROWS)[0] | {"versions": versions()}


@pytest.fixture
def no_fits(monkeypatch, row):
    """Jobs are done at once by one row, under other names."""

    def run_jobs(jobs, store, n_workers, watcher):
        for job in jobs:
            watcher.started(job)
            names = {"experiment": job.experiment, "setting": job.setting, "method": job.method, "seed": job.seed}
            store.add(row | names)
            watcher.finished(job, Finished(row, None))

    monkeypatch.setattr(whole, "run_jobs", run_jobs)


# -- the folder of a reproduction -------------------------------------------------------------------

#: files of a user, by their place in the folder
FOREIGN = {
    "other files": {"thesis.txt": "years of work"},
    "other rows": {"rows.jsonl": '{"id": 1}\n{"id": 2}\n'},
    "rows without an end": {"rows.jsonl": '{"id": 1}\n{"id": 2}'},
    "one torn row": {"rows.jsonl": '{"id": 1'},
    "text": {"rows.jsonl": "not JSON\n"},
    "no rows at all": {"rows.jsonl": ""},
    "an experiment of others": {"rows.jsonl": '{"experiment":"boston","seed":1}\n', "exact/a.npz": "mine"},
    "arrays": {"exact/boston-published-0.npz": "mine", "exact/notes.txt": "mine"},
    "a page": {"report.html": "<html>my report</html>"},
    "figures": {"figures/figure-1-five-knots-published.png": "mine"},
    "another mark": {MARKER: "a list of things made by knotwise", "rows.jsonl": "1\n"},
}


@pytest.mark.failure(49)
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("case", FOREIGN)
def test_a_folder_of_somebody_else_is_refused_and_stays_as_it_is(case, fresh, tmp_path, capsys, no_fits):
    for name, text in FOREIGN[case].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = contents(tmp_path)
    words = ["reproduce", "motivation", "--out", str(tmp_path), *(["--fresh"] if fresh else [])]
    assert cli.main(words) == 1
    shown = capsys.readouterr()
    assert contents(tmp_path) == before
    assert str(tmp_path) in shown.err and "Choose an empty or a new folder" in shown.err and shown.err.count("\n") == 1


@pytest.mark.failure(49)
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["rows.jsonl", "exact", "figures", "report.html", MARKER])
@pytest.mark.parametrize("marked", [False, True])
def test_a_link_in_our_folder_is_refused_and_its_target_stays(name, marked, fresh, tmp_path, row):
    ours, elsewhere = tmp_path / "ours", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "boston-published-0.npz").write_text("mine")
    (elsewhere / "file").write_text(row_line(row))
    RowStore(ours).add(row)
    path = ours / name
    if not marked:
        (ours / MARKER).unlink()
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.symlink_to(elsewhere if "." not in name else elsewhere / "file")
    before = contents(tmp_path)
    with pytest.raises(InvalidInputError, match=r"is a link.*Nothing was changed"):
        RowStore(ours, fresh=fresh)
    assert contents(tmp_path) == before


@pytest.mark.failure(49)
@pytest.mark.parametrize("place", ["exact/boston-published-0.npz", "figures/figure-3-gaussian-published.svg"])
def test_a_link_in_the_place_of_a_result_is_refused(place, tmp_path):
    RowStore(tmp_path / "ours")
    (tmp_path / "mine").write_text("mine")
    path = tmp_path / "ours" / place
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(tmp_path / "mine")
    with pytest.raises(InvalidInputError, match="is a link"):
        RowStore(tmp_path / "ours", fresh=True)
    assert (tmp_path / "mine").read_text() == "mine" and path.is_symlink()


@pytest.mark.failure(49)
@pytest.mark.parametrize("make", [Path.mkdir, getattr(os, "mkfifo", Path.mkdir)])
def test_what_is_no_file_in_the_place_of_the_rows_is_refused(make, tmp_path):
    RowStore(tmp_path).path.unlink()
    make(tmp_path / "rows.jsonl")
    with pytest.raises(InvalidInputError, match=r"rows\.jsonl' is a (folder|special file)"):
        RowStore(tmp_path, fresh=True)


@pytest.mark.failure(49)
def test_starting_anew_removes_our_results_only(tmp_path, row):
    store = RowStore(tmp_path)
    store.add(row)
    ours = [
        f"{name}-{setting}-{seed}.npz"
        for name in EXPERIMENTS
        for setting in ("published", "knotwise")
        for seed in (0, 12)
    ]
    theirs = ["notes.txt", "mine.npz", "boston-published-x.npz", "boston-mine-0.npz", "boston-published-0.npz.old"]
    for name in ours + theirs:
        (store.exact_folder / name).write_text(name)
    (store.exact_folder / "deeper").mkdir()
    (store.exact_folder / "deeper" / "boston-published-0.npz").write_text("mine")
    (tmp_path / "diary.txt").write_text("mine")
    assert RowStore(tmp_path, fresh=True).rows == []
    assert sorted(path.name for path in store.exact_folder.iterdir()) == sorted([*theirs, "deeper"])
    assert (store.exact_folder / "deeper" / "boston-published-0.npz").read_text() == "mine"
    assert (tmp_path / "diary.txt").read_text() == "mine"


def test_a_new_and_an_empty_folder_are_marked_and_used_again(tmp_path, no_fits, row):
    for folder in (tmp_path / "not" / "there", tmp_path):
        assert cli.main(["reproduce", "motivation", "--out", str(folder)]) == 0
        assert b"knotwise" in (folder / MARKER).read_bytes() and (folder / "report.html").exists()
        (folder / "notes.txt").write_text("mine")
        before = (folder / "rows.jsonl").read_bytes()
        assert cli.main(["reproduce", "motivation", "--out", str(folder)]) == 0
        assert (folder / "rows.jsonl").read_bytes() == before and (folder / "notes.txt").read_text() == "mine"
        if folder != tmp_path:
            shutil.rmtree(tmp_path / "not")


def test_a_folder_of_an_earlier_version_goes_on(tmp_path, row):
    """It has no mark: rows, their torn end, predictions and a report are as earlier versions left them."""
    content = PUBLISHED_ROWS.read_bytes()
    (tmp_path / "rows.jsonl").write_bytes(content + row_line(row).encode()[:50])
    (tmp_path / "why.md").write_text("mine")
    (tmp_path / "report.html").write_text(f"<!DOCTYPE html>\n<title>{TITLE}</title>")
    assert RowStore(tmp_path).rows == read_rows(PUBLISHED_ROWS)
    assert (tmp_path / "rows.jsonl").read_bytes() == content and (tmp_path / "why.md").read_text() == "mine"
    begun = tmp_path / "begun"
    (begun / "exact").mkdir(parents=True)
    (begun / "rows.jsonl").touch()
    assert RowStore(begun).missing([JOB], versions()) == [JOB]
