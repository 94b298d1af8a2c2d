"""The gallery's scripts run from a clone, without a warning, and leave their picture where they are run."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_draws_its_picture(script, tmp_path):
    if "import skgstat" in script.read_text(encoding="utf-8"):
        pytest.importorskip("skgstat")
    paths = [str(GALLERY.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (picture,) = tmp_path.iterdir()
    assert picture.name == f"{script.stem.removeprefix('plot_')}.png"
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_at_most_25_lines_of_code(script):
    text = script.read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0].end_lineno
    code = [line for line in text.splitlines()[docstring:] if line.strip()]
    assert len([line for line in code if not line.startswith(("import ", "from "))]) <= 25


def test_every_script_is_shown_with_a_small_picture():
    page = (GALLERY / "README.md").read_text(encoding="utf-8")
    assert SCRIPTS
    for script in SCRIPTS:
        picture = GALLERY / f"{script.stem.removeprefix('plot_')}.png"
        assert f"({script.name})" in page and f"({picture.name})" in page
        assert picture.stat().st_size < 100_000
