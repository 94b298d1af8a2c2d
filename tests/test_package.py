"""The package as it is shipped: one version, types for those who use it, and `python -m knotwise`."""

import os
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import knotwise

ROOT = Path(__file__).parents[1]
PACKAGE = Path(knotwise.__file__).parent


def run_module(*words, folder):
    return subprocess.run(
        [sys.executable, "-m", "knotwise", *words],
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_version_stands_in_one_place_and_everybody_says_it(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"] and "version" in project["project"]["dynamic"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    written = re.findall(r'^__version__ = "(.+)"$', source.read_text(encoding="utf-8"), re.MULTILINE)
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert written == cited == [knotwise.__version__]
    assert run_module("--version", folder=tmp_path).stdout == f"knotwise {knotwise.__version__}\n"


def test_the_module_is_the_command_line(tmp_path):
    done = run_module("data", "hickory", "-o", "hickory.csv", folder=tmp_path)
    assert done.returncode == 0 and (tmp_path / "hickory.csv").read_text().startswith("x,y,count,area\n")
    done = run_module("daat", folder=tmp_path)
    assert done.returncode == 2 and "Did you mean 'data'?" in done.stderr and done.stderr.count("\n") == 1


def test_type_checkers_find_our_types():
    assert (PACKAGE / "py.typed").is_file()


def test_an_import_of_the_package_reads_no_metadata():
    program = "import sys, knotwise; print('importlib.metadata' in sys.modules, knotwise.__version__)"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"False {knotwise.__version__}\n"


def imports():
    """What each module imports at any time, also inside functions and by name, but for type checkers alone."""
    graph = grimp.build_graph("knotwise", "knotwise_reproduction", exclude_type_checking_imports=True, cache_dir=None)
    found = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    found["knotwise.cli.main"].add("knotwise_reproduction.commands")
    found["knotwise"] |= {*knotwise._HOME.values(), *(f"knotwise.{name}" for name in knotwise.__all__)} & set(found)
    return found


def test_no_module_imports_itself_through_others():
    TopologicalSorter(imports()).prepare()  # raises CycleError, which names the circle


def files_with(pattern):
    found = [path for path in PACKAGE.rglob("*.py") if re.search(pattern, path.read_text(encoding="utf-8"))]
    return [path.relative_to(PACKAGE).as_posix() for path in found]


def test_no_answer_depends_on_who_asks():
    assert files_with("_getframe") == [] and files_with(r"currentframe\(") == ["errors.py"]  # where warnings point


def test_only_the_package_itself_imports_by_name():
    assert files_with(r"import_module\((?!\"scipy|\"knotwise_reproduction)") == ["__init__.py"]


def test_only_the_command_line_knows_of_the_reproduction():
    assert files_with("knotwise_reproduction") == ["cli/main.py"]


@pytest.mark.parametrize("words", [["reproduce", "boston", "--quick"], ["list"], ["demo", "--help"]], ids=" ".join)
def test_without_the_reproduction_its_commands_say_how_to_get_it(words):
    program = f"import sys; from knotwise.cli.main import main; sys.exit(main({words!r}))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],  # no installed package is found
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and not done.stdout and done.stderr.count("\n") == 1
    assert done.stderr.endswith("from a checkout of knotwise: pip install ./reproduction\n")


def test_the_reproduction_is_not_in_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/knotwise"]
