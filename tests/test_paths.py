"""How far a reader has to walk, and that docs/architecture.md leads the way: files and functions in their order."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import knotwise
from knotwise import GPRegressor

HOME = Path(knotwise.__file__).parent
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WAYS = ("an evaluation", "a fit", "a prediction")
MOST_FILES, MOST_CALLS = 74, 21  # 72 and 26 at commit 39d6818, scikit-learn's GP 13 and 13
MOST_FILES_OF_A_PREDICTION = 17  # 14, and three seams: what a row needs (data/exposure), averages, the Prediction


def walk(call):
    """Functions of knotwise in the order of their first calls, and the deepest stack of them, outermost first."""
    first, stack, deepest = {}, [], []

    def note(frame, event, argument):
        nonlocal deepest
        path = Path(frame.f_code.co_filename)
        if HOME not in path.parents:
            return
        if event == "call":
            function = path.relative_to(HOME).as_posix(), frame.f_code.co_qualname
            first.setdefault(function, len(first))
            stack.append(":".join(function))
            if len(stack) > len(deepest):
                deepest = stack[:]
        elif event == "return":
            stack.pop()

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(first), deepest


@pytest.fixture(scope="module")
def walks():
    """The three ways, walked: by name, functions in order and the deepest stack."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200)
    gp = GPRegressor(random_state=0, n_jobs=1).fit(X, y)  # what is imported and found once is no part of it
    calls = (gp.evidence, lambda: GPRegressor(random_state=0, n_jobs=1).fit(X, y), lambda: gp.predict(X[:5]))
    return {way: walk(call) for way, call in zip(WAYS, calls, strict=True)}


def files_of(functions):
    return {file for file, _ in functions}


def test_a_default_fit_passes_few_files_and_is_not_deep(walks):
    functions, deepest = walks["a fit"]
    files = files_of(functions)
    assert "selection/optimizing.py" in files and deepest[0] == "estimators/regressor.py:GPRegressor.fit"
    assert len(files) <= MOST_FILES, sorted(files)
    assert len(deepest) <= MOST_CALLS, "\n".join(deepest)


def section(page, title):
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def lines_of(way):
    """(file, function) of each line of a way on the page on the architecture."""
    block = section(PAGE, f"The way of {way}").split("```")[1]
    return [tuple(line.split()[:2]) for line in block.strip().splitlines()]


@pytest.mark.parametrize("way", WAYS)
def test_a_way_on_the_page_is_walked_in_that_order(way, walks):
    functions, _ = walks[way]
    places = []
    for file, name in lines_of(way):
        found = [i for i, (f, q) in enumerate(functions) if f == file and (q == name or q.endswith(f".{name}"))]
        assert found, f"{file} {name} is not called on the way of {way}"
        places.append((found[0], f"{file} {name}"))
    assert len(places) >= 10
    assert places == sorted(places), [line for _, line in sorted(places)]


def test_the_way_of_a_prediction_has_every_file_and_few(walks):
    files = files_of(walks["a prediction"][0])
    assert files == {file for file, _ in lines_of("a prediction")}
    assert len(files) <= MOST_FILES_OF_A_PREDICTION


def rows_of(table):
    """Cells of the rows of a Markdown table, without its head."""
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_layers_on_the_page_are_those_of_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in contracts["contracts"] if each["id"] == "layers")
    contract = [name.strip("() ") for layer in layers for name in layer.split("|")]
    assert [name for row in rows_of(section(PAGE, "Layers")) for name in re.findall(r"`(\w+)`", row[0])] == contract


def test_every_file_that_a_room_names_is_there_and_every_room_has_its_line():
    rooms = {row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in rows_of(section(PAGE, "Files by room"))}
    named = [f"{room}{name}.py" for room, names in rooms.items() for name in names]
    missing = [name for name in named if not (HOME / name).is_file()]
    assert not missing
    packages = {path.parent.relative_to(HOME).as_posix() + "/" for path in HOME.rglob("__init__.py")}
    assert packages - set(rooms) == {"./", "datasets/"}


def test_implementations_of_a_seam_are_where_the_page_says():
    for row in rows_of(section(PAGE, "Seams")):
        for name in re.findall(r"`([\w/]+)`", row[1]):
            assert (HOME / f"{name}.py").is_file(), name
