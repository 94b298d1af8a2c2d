"""The recipes of CONTRIBUTING.md: their files and names are there, and a toy of each works beside the engine."""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import knotwise
from knotwise import GPRegressor, kernels, plotting
from knotwise.cli import fit as cli_fit
from knotwise.cli import main as cli
from knotwise.cli import plot as cli_plot
from knotwise.data.encoding import choose, encoding
from knotwise.data.encoding.kinds import Numbers
from knotwise.errors import ModelFileError
from knotwise.estimators import loading, saving
from knotwise.numerics.columns import InputColumn
from knotwise.persistence.schema import Fields, ListOf, OneOf, Record, Whole

ROOT = Path(__file__).parents[1]
HOME = Path(knotwise.__file__).parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MOST_LINES = 3000  # of code that is read in an hour
RECIPES = (
    "kernel",
    "likelihood",
    "inference",
    "residual",
    "noise model",
    "posterior",
    "knot selector",
    "decision",
    "column kind",
    "plot",
    "command-line option",
    "backend",
    "field to model files",
)
#: where the toy of a recipe stands that is tested elsewhere
TOYS = {
    "inference": ("tests/toys.py", "class Variational", "tests/test_seams.py"),
    "residual": ("tests/toys.py", "class Chain", "tests/test_seams.py"),
    "noise model": ("tests/toys.py", "class LogLinearNoise", "tests/test_seams.py"),
    "posterior": ("tests/toys.py", "class SlopePosterior", "tests/test_seams.py"),
    "knot selector": ("tests/toys.py", "class EveryFew", "tests/test_seams.py"),
    "decision": ("tests/test_decisions.py", "def decide_smoothness", "tests/test_decisions.py"),
    "backend": ("tests/processes.py", "class InProcesses", "tests/test_processes.py"),
}


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def recipe(name):
    return section(f"Add {'an' if name[0] in 'aeiou' else 'a'} {name}")


def steps(text):
    return re.findall(r"^\d+\. (.*)$", text, re.MULTILINE)


def find(path):
    """A file of the checkout or of the package; of `<name>.py` the folder."""
    path = re.sub(r"<name>\.py$", "", path)
    return next((root / path for root in (ROOT, HOME) if (root / path).exists()), None)


def test_the_core_is_read_in_an_hour():
    listed = steps(section("Read the core in an hour"))
    files = [name for step in listed for name in re.findall(r"`([\w/]+\.py)`", step)]
    assert [name.split("/")[0] for name in files] == [
        *["kernels", "evidence", "evidence", "evidence", "evidence"],
        *["selection", "decisions", "prediction.py", "estimators"],
    ]
    lines = {name: len((HOME / name).read_text(encoding="utf-8").splitlines()) for name in files}
    assert sum(lines.values()) <= MOST_LINES, lines


def test_every_recipe_is_checked():
    assert [line.split(" ", 3)[3] for line in PAGE.splitlines() if line.startswith("## Add ")] == list(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_files_and_names_of_a_recipe_are_there(name):
    """A name in capitals, `__all__` or a function() stands in one of the files of its step."""
    listed = steps(recipe(name))
    assert len(listed) >= 2
    for step in listed:
        paths = re.findall(r"`((?:[\w<>-]+/)+(?:[\w<>-]+\.(?:py|md))?|\w+\.(?:py|md))`", step)
        assert paths, step
        found = {path: find(path) for path in paths if "/" in path or find(path)}
        assert found and all(found.values()), found
        text = "\n".join(file.read_text(encoding="utf-8") for file in found.values() if file.is_file())
        for word in re.findall(r"`(__all__|[A-Z][A-Z_]+|\w+\(\))`", step):
            assert re.search(rf"\b{word.strip('()')}\b", text), f"{word} is in none of {list(found)}"


@pytest.mark.parametrize(("file", "toy", "tests"), TOYS.values(), ids=list(TOYS))
def test_a_toy_is_where_its_test_takes_it_from(file, toy, tests):
    assert toy in (ROOT / file).read_text(encoding="utf-8")
    assert toy.split()[1] in (ROOT / tests).read_text(encoding="utf-8")


# -- toys of the others ------------------------------------------------------------------------------------


@pytest.fixture
def model(rng, tmp_path):
    """A model in a file, and its table."""
    X = rng.uniform(size=(40, 2))
    y = np.sin(6 * X[:, 0])
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y]), header="a,b,y", comments="", delimiter=",")
    return GPRegressor(kernels.SquaredExponential(), knots=6, random_state=0).fit(X, y), X, tmp_path


def as_module(monkeypatch, code, **names):
    """The code of a page as a module, from which pickles find its classes."""
    module = ModuleType("code_of_a_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(module).update(names, np=np)
    exec(code, vars(module))
    return module


def test_the_kernel_of_the_recipe_is_the_one_that_ships(rng, monkeypatch):
    code = re.findall(r"```python\n(.*?)```", recipe("kernel"), re.DOTALL)
    module = as_module(monkeypatch, code[0] + code[1], Stationary=kernels.Stationary)
    module.test_matern32_is_a_kernel()
    own, shipped = (kind(variance=1.3, lengthscale=[0.7, 1.9]) for kind in (module.Matern32, kernels.Matern32))
    X = rng.normal(size=(7, 2))
    assert_allclose(own(X), shipped(X), rtol=1e-12)


def test_the_likelihood_of_the_docs_is_complete(monkeypatch):
    page = (ROOT / "docs" / "likelihoods.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n([^`]*class Presence.*?)```", page, re.DOTALL)[1]
    assert "check_likelihood(Presence())" in code
    as_module(monkeypatch, code)


@dataclass(frozen=True)
class Direction(Numbers):
    """Degrees of the compass, as a place on a circle."""

    def columns(self):
        names = (f"{function} of {self.name}" for function in ("cos", "sin"))
        return [InputColumn(name, self.name, self.sources, "sphere", 1.0, radius=1.0, units="radii") for name in names]

    def expand(self, coded):
        angle = np.radians(coded)
        return np.hstack([np.cos(angle), np.sin(angle)])

    def contract(self, expanded):
        return np.degrees(np.arctan2(expanded[:, 1:], expanded[:, :1])) % 360


def test_a_column_kind_of_its_own_is_fitted_and_saved(rng, monkeypatch, tmp_path):
    wind = rng.uniform(0, 360, size=(60, 1))
    monkeypatch.setattr(choose._Chooser, "_kind", lambda chooser, i: Direction(chooser.names[i], i))
    gp = GPRegressor(knots=8, missing="mean", random_state=0).fit(wind, np.cos(np.radians(wind[:, 0])))
    north = gp.predict([[0.01], [359.99]])
    assert_allclose(north[0], north[1], atol=1e-3)
    assert ((gp.knots_ >= 0) & (gp.knots_ <= 360)).all()
    known = encoding.FIELDS.specs["kinds"].spec.records
    kinds = ListOf(OneOf(**known, direction=Record(Direction, **encoding.NUMBERS)), tuple)
    monkeypatch.setattr(encoding, "FIELDS", Fields(**(encoding.FIELDS.specs | {"kinds": kinds})))
    gp.save(tmp_path / "wind.knotwise")
    assert_array_equal(knotwise.load(tmp_path / "wind.knotwise").predict(wind), gp.predict(wind))


def test_a_plot_of_its_own_is_a_kind_of_the_command_line(model, monkeypatch):
    gp, _, folder = model
    gp.save(folder / "m.knotwise")
    command, drawn = cli.COMMANDS["plot"], []

    def add_arguments(parser):
        command.add_arguments(parser)
        next(action for action in parser._actions if action.dest == "kind").type = str  # one more word

    def plot_errors_by_row(gp, X, y=None, *, ax=None):
        from matplotlib import pyplot

        ax = pyplot.subplots()[1] if ax is None else ax
        ax.plot(np.asarray(y) - gp.predictive(X).mean)
        drawn.append(len(X))
        return ax

    monkeypatch.setattr(plotting, "plot_errors_by_row", plot_errors_by_row, raising=False)
    monkeypatch.setitem(cli_plot.OPTIONS, "errors_by_row", {"target"})
    monkeypatch.setattr(cli_plot, "NEEDS_TARGET", (*cli_plot.NEEDS_TARGET, "errors_by_row"))
    monkeypatch.setitem(cli.COMMANDS, "plot", replace(command, add_arguments=add_arguments))
    files = [str(folder / "m.knotwise"), str(folder / "rows.csv"), "-o", str(folder / "p.png"), "--inputs", "a,b"]
    assert cli.main(["plot", *files, "--kind", "errors_by_row", "--target", "y"]) == 0
    assert drawn == [40] and (folder / "p.png").stat().st_size > 1000


def test_a_command_line_option_of_its_own_reaches_the_estimator(model, monkeypatch):
    _, _, folder = model
    command, settings, fitted = cli.COMMANDS["fit"], cli_fit.settings_from, []

    def add_arguments(parser):
        command.add_arguments(parser)
        parser.add_argument("--restarts", type=int, metavar="N", help="further starts")

    def settings_from(arguments):
        fitted.append(arguments.restarts)
        return settings(arguments) | {"n_restarts": arguments.restarts}

    monkeypatch.setitem(cli.COMMANDS, "fit", replace(command, add_arguments=add_arguments))
    monkeypatch.setattr(cli_fit, "settings_from", settings_from)
    output = folder / "m.knotwise"
    words = ["fit", str(folder / "rows.csv"), "--target", "y", "--knots", "5", "-o", str(output), "--restarts", "1"]
    assert cli.main(words) == 0
    assert fitted == [1] and knotwise.load(output).n_restarts == 1


def test_a_file_field_of_its_own_is_written_read_and_refused_elsewhere(model, monkeypatch):
    gp, X, folder = model
    more = Fields(**saving.FIT.specs, n_neighbors=Whole)
    with monkeypatch.context() as patch:
        patch.setattr(saving, "FIT", more)
        patch.setattr(loading, "FIT", more)
        gp.save(folder / "m.knotwise")
        assert_array_equal(knotwise.load(folder / "m.knotwise").predict(X), gp.predict(X))
    with pytest.raises(ModelFileError, match="`fit` in its manifest is not an object with"):
        knotwise.load(folder / "m.knotwise")
