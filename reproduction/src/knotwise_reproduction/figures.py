"""The paper's figures and two beyond it, drawn from stored rows: `draw_figures` makes each as PNG and SVG.

A figure is a pure function of the rows. What has no row is left out: a panel with a word in the caption, a figure
silently (`missing_figures` names it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knotwise.plotting.style import look, save
from knotwise_reproduction.data import KNOTWISE, PUBLISHED
from knotwise_reproduction.experiments import EXPERIMENTS
from knotwise_reproduction.figures_curves import draw_five_knots, draw_gaussian, draw_poisson, draw_sixth_knot
from knotwise_reproduction.figures_knots import draw_banana_knots, draw_hickory_knots
from knotwise_reproduction.figures_maps import draw_banana, draw_hickory
from knotwise_reproduction.figures_panels import Drawing, pictured, rows_of
from knotwise_reproduction.figures_short import draw_losses, draw_short
from knotwise_reproduction.results import Row

__all__ = ["SETTINGS", "SUBJECTS", "PaperFigure", "Subject", "draw_figures", "missing_figures"]

#: how a setting is named in titles, in the order in which its figures come
SETTINGS = {PUBLISHED: "as published", KNOTWISE: "knotwise's settings"}


@dataclass(frozen=True)
class PaperFigure:
    """A drawn figure: a name for files and anchors, what to write above and below it, where it is, and of what."""

    name: str
    title: str
    caption: str
    png: Path
    svg: Path
    experiment: str


@dataclass(frozen=True)
class Subject:
    """A figure: its number in the paper or after it, the experiment whose rows it shows, which, and how it is drawn."""

    number: int
    name: str
    title: str
    experiment: str
    draw: Callable[[Any], Drawing | None]
    select: Callable[[Sequence[Row], str, str], Any] = pictured

    def title_in(self, setting: str) -> str:
        """The title, with where the figure belongs."""
        if EXPERIMENTS[self.experiment].beyond:
            return f"Figure {self.number}, beyond the paper: {self.title}"
        return f"Figure {self.number} of the paper, {SETTINGS[setting]}: {self.title}"


#: in the paper's order, and ours at the end
SUBJECTS = (
    Subject(1, "five-knots", "A fit through five knots", "motivation", draw_five_knots),
    Subject(2, "sixth-knot", "The log-likelihood as a function of a sixth knot", "motivation", draw_sixth_knot),
    Subject(3, "gaussian", "Simulated Gaussian data", "gaussian", draw_gaussian),
    Subject(4, "banana", "Banana: class probabilities", "banana", draw_banana),
    Subject(5, "banana-knots", "Banana: where the knots are", "banana", draw_banana_knots),
    Subject(6, "hickory", "Hickory: intensity", "hickory", draw_hickory),
    Subject(7, "hickory-knots", "Hickory: where the knots are", "hickory", draw_hickory_knots),
    Subject(8, "poisson", "Simulated Poisson data", "poisson", draw_poisson),
    Subject(9, "short", "A short length-scale on a line", "short", draw_short),
    Subject(10, "short-losses", "Short length-scales against the exact GP", "short", draw_losses, rows_of),
)


def draw_figures(rows: Sequence[Row], out: Path) -> list[PaperFigure]:
    """Draw every figure for which there are rows into `out`, figure by figure, the published setting first.

    Needs matplotlib, and says so without it.
    """
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    with look():
        for subject in SUBJECTS:
            for setting in SETTINGS:
                drawing = subject.draw(subject.select(rows, subject.experiment, setting))
                if drawing is not None:
                    figures.append(_save(drawing, subject, setting, out))
    return figures


def missing_figures(figures: Sequence[PaperFigure]) -> list[str]:
    """Name the figures of which none was drawn."""
    drawn = {figure.name for figure in figures}
    return [
        f"Figure {subject.number} ({subject.title})"
        for subject in SUBJECTS
        if not any(_name(subject, setting) in drawn for setting in SETTINGS)
    ]


def _name(subject: Subject, setting: str) -> str:
    return f"figure-{subject.number}-{subject.name}-{setting}"


def _save(drawing: Drawing, subject: Subject, setting: str, out: Path) -> PaperFigure:
    """Write both files; the same rows give the same bytes."""
    name = _name(subject, setting)
    png, svg = out / f"{name}.png", out / f"{name}.svg"
    for file in (png, svg):
        save(drawing.figure, file)
    return PaperFigure(name, subject.title_in(setting), drawing.caption, png, svg, subject.experiment)
