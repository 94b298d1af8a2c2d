"""Pictures look as they did when somebody looked at them: brightness on a coarse grid against a stored one.

To look again and store
anew: KNOTWISE_REGENERATE=1 python -m pytest tests/plotting/test_pictures.py, which leaves the pictures in the folder
that it prints.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.legend import Legend
from matplotlib.text import Text
from plotted import COUNTS, EXPOSURE, LABELS, X1, X2, X3, Y1, Y2

from knotwise import plotting

STORED = Path(__file__).parents[1] / "golden" / "pictures.json"
DPI, GRID = 120, 28
TOLERANCE = 1.5  # of a brightness from 0 to 255; matplotlib 3.8 to 3.11 differ by up to 0.6, mistakes by 4 and more

PICTURES = {
    "fit": lambda m: plotting.plot_fit(m["line"], X1, Y1),
    "effect": lambda m: plotting.plot_fit(m["named"], X3, Y2, feature="width", kind="latent"),
    "counts": lambda m: plotting.plot_fit(m["counts"], X1, COUNTS, exposure=EXPOSURE, kind="mean"),
    "classes": lambda m: plotting.plot_fit(m["three_classes"], X2),
    "map": lambda m: plotting.plot_map(m["plane"], X2, Y2, resolution=60),
    "sd": lambda m: plotting.plot_map(m["plane"], X2, what="sd", resolution=60),
    "probability": lambda m: plotting.plot_map(m["classifier"], X2, LABELS, resolution=60),
    "trace": lambda m: plotting.plot_trace(m["plane"])[0],
    "calibration": lambda m: plotting.plot_calibration(m["line"], X1, Y1),
    "reliability": lambda m: plotting.plot_calibration(m["classifier"], X2, LABELS, n_bins=5),
    "pit": lambda m: plotting.plot_pit(m["counts"], X1, COUNTS, exposure=EXPOSURE),
    "observed": lambda m: plotting.plot_observed(m["line"], X1, Y1),
}


@pytest.fixture
def models(line, plane, named, counts, classifier, three_classes):
    return {
        "line": line,
        "plane": plane,
        "named": named,
        "counts": counts,
        "classifier": classifier,
        "three_classes": three_classes,
    }


def brightness(ax):
    """Mean brightness of the blocks of a grid, [GRID, GRID], of what is drawn without words.

    Fonts, and the layout that makes room for them, differ between versions of matplotlib.
    """
    figure = ax.figure
    figure.set_layout_engine("none")
    for text in [*figure.findobj(Text), *figure.findobj(Legend)]:
        text.set_visible(False)
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    grey = np.asarray(canvas.buffer_rgba())[..., :3] @ np.array([0.299, 0.587, 0.114])
    down, across = (np.linspace(0, n, GRID + 1).round().astype(int) for n in grey.shape)
    blocks = np.add.reduceat(np.add.reduceat(grey, down[:-1], 0), across[:-1], 1)
    return blocks / np.outer(np.diff(down), np.diff(across))


def change(seen, stored):
    """Root mean square of the differences in brightness: it minds a few blocks that differ much."""
    return float(np.sqrt(((seen - np.array(stored, float)) ** 2).mean()))


def stored_pictures():
    return json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_looks_as_it_did(name, models, tmp_path_factory):
    seen = brightness(PICTURES[name](models))
    if os.environ.get("KNOTWISE_REGENERATE"):
        picture = tmp_path_factory.getbasetemp() / f"{name}.png"
        PICTURES[name](models).figure.savefig(picture, dpi=100)
        lines = stored_pictures() | {name: seen.round().astype(int).tolist()}
        rows = (f"{json.dumps(key)}: {json.dumps(grid, separators=(',', ':'))}" for key, grid in lines.items())
        STORED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        pytest.skip(f"stored anew; look at {picture}")
    assert change(seen, stored_pictures()[name]) < TOLERANCE


def test_the_comparison_sees_missing_knots_other_colours_and_another_band(models):
    stored = stored_pictures()
    plane, line = models["plane"], models["line"]
    wrong = {
        "map": plotting.plot_map(plane, X2, Y2, resolution=60, knots=False),
        "sd": plotting.plot_map(plane, X2, what="sd", resolution=60, cmap="viridis"),
        "fit": plotting.plot_fit(line, X1, Y1, level=0.5),
        "calibration": plotting.plot_calibration(line, X1, Y1 + 0.5),
        "observed": plotting.plot_observed(line, X1, Y1, level=0.5),
    }
    changes = {name: change(brightness(ax), stored[name]) for name, ax in wrong.items()}
    assert min(changes.values()) > 2 * TOLERANCE, changes
