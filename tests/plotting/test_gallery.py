"""The gallery's scripts run from a clone, without a warning, and leave their picture where they are run."""

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
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
def test_a_script_has_at_most_25_lines_of_code(script):
    text = script.read_text(encoding="utf-8")
    end_of_docstring = ast.parse(text).body[0].end_lineno
    assert sum(bool(line.strip()) for line in text.splitlines()[end_of_docstring:]) <= 25


@pytest.fixture
def names_of(tmp_path, monkeypatch):
    """What a script has computed, by name."""
    pytest.importorskip("geopandas")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield lambda name: runpy.run_path(str(GALLERY / f"plot_{name}.py"))
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.slow
def test_houses_with_cholera_are_counted_and_fewer_far_from_the_pump(names_of):
    import shapely

    from knotwise.spatial import predict_total

    names = names_of("points_to_intensity")
    gp, cells, houses, pump, distance = (names[name] for name in ("gp", "cells", "houses", "pump", "distance"))
    assert cells.count.sum() == len(houses) and cells.crs == "EPSG:27700"
    assert gp.coefficients_.to_frame().set_index("coefficient").loc["distance", "upper"] < 0
    near = {"near": pump.buffer(100)}
    total = predict_total(gp, near, cell=10, covariates=distance, kind="observation", random_state=0)
    assert total.lower[0] < shapely.dwithin(pump, houses, 100).sum() < total.upper[0]
    # the map in houses for each square metre adds up to the houses
    np.testing.assert_allclose(names["grid"]["mean"].sum() * 5**2, len(houses), rtol=0.05)


@pytest.mark.slow
def test_the_risk_of_sudden_infant_death_is_shrunk_from_the_ratios_towards_that_of_the_state(names_of):
    names = names_of("disease_counts")
    gp, counties, ratio = names["gp"], names["counties"], names["counties"].deaths / names["expected"]
    assert gp.crs_ == "EPSG:4326" and gp.coords == "lonlat"
    assert (names["expected"] * counties.risk).sum() == pytest.approx(counties.deaths.sum(), rel=0.03)
    assert counties.risk.std() < 0.6 * ratio.std()
    assert set(counties.county[counties.above > 0.99]) >= {"Halifax", "Robeson"}  # as Cressie (1993) found
    assert counties.above[counties.risk < 0.7].max() < 0.1


@pytest.mark.slow
def test_the_map_of_frogs_tells_sites_with_them_from_those_without(names_of):
    names = names_of("presence")
    table, grid = names["table"], names["grid"]
    at = {"x": table.easting.to_xarray(), "y": table.northing.to_xarray()}
    probability = grid["mean"].sel(at, method="nearest").to_numpy()
    shown = np.isfinite(probability)
    assert shown.mean() > 0.98
    present, absent = (probability[shown & (table.present == which)] for which in (1, 0))
    assert (present[:, None] > absent).mean() > 0.85  # the area under the receiver operating characteristic


def test_every_script_is_shown_with_a_small_picture():
    page = (GALLERY / "README.md").read_text(encoding="utf-8")
    assert SCRIPTS
    for script in SCRIPTS:
        picture = GALLERY / f"{script.stem.removeprefix('plot_')}.png"
        assert f"({script.name})" in page and f"({picture.name})" in page
        assert picture.stat().st_size < 100_000
