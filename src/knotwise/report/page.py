"""One page about one fit, that needs nothing but itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from knotwise.data.exposure import exposure_of
from knotwise.diagnosis.diagnose import Diagnosis, Finding
from knotwise.errors import InvalidInputError
from knotwise.estimators.effects import levels_of
from knotwise.files import write_atomically
from knotwise.plotting.style import require_matplotlib
from knotwise.plotting.view import View, view_of
from knotwise.report import pictures, sections
from knotwise.report.data import Data, data_of
from knotwise.report.html import Html, Picture, join, page, paragraph, picture_element, quiet_drawing
from knotwise.report.scores import Share, judge
from knotwise.report.words import (
    describe_calibration,
    describe_comparison,
    describe_fit,
    models_of,
    of_class,
    says_little,
    short_name,
)
from knotwise.version import __version__


def write_report(
    gp: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    exposure: Any = None,
    trials: Any = None,
    offset: Any = None,
    noise_variance: Any = None,
    title: str | None = None,
    target: str | None = None,
    model_name: str = "",
    data_name: str = "",
) -> Path:
    """Write the page; see `GPRegressor.report`. The names of files are shown on the page."""
    require_matplotlib()
    place = Path(path)
    if place.is_dir():
        raise InvalidInputError(f"The report {str(place)!r} is a folder. Give the name of a file in it.")
    if not place.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(place.parent)!r} for the report. Make it first.")
    view = view_of(gp, X)
    sizes = {"exposure": exposure_of(exposure, offset), "trials": trials, "noise_variance": noise_variance}
    data = data_of(view, X, y, target=target, name=data_name, **sizes).predicted_by(view)
    with quiet_drawing():
        text = _page(view, data, title, model_name, data_name)
    write_atomically(place, text.encode("utf-8"))
    return place


def _page(view: View, data: Data, title: str | None, model_name: str, data_name: str) -> str:
    scores, shares = _judge(view, data)
    found = [(of_class(view.gp, label), model.diagnose()) for label, model in models_of(view.gp)]
    maps = pictures.maps(view, data)
    headline = _headline(view, data, maps)
    parts: list[tuple[str, Html]] = []
    if len(view.names) > 1 or levels_of(view.encoding, 0):
        parts.append(("Effects by column", sections.effects_section(view, data)))
    if view.n_classes <= 2 and view.model.warp_:
        parts.append(("Warped columns", sections.warps_section(view)))
    others = [picture for picture in maps if picture is not headline]
    if others:
        parts.append(("Map", join(*map(picture_element, others), paragraph(pictures.describe_maps(view), "note"))))
    if data.y is not None:
        parts.append(("Calibration", sections.calibration_section(view, data, shares, headline)))
        parts.append(("Residuals", sections.residuals_section(view, data, scores, headline)))
    parts += [
        ("Knots", sections.knots_section(view)),
        ("Parameters", sections.parameters_section(view, data.target)),
        ("Checks", sections.checks_section(found)),
        ("How to predict", sections.predict_section(view, model_name)),
        ("About this page", _about(view, data, model_name, data_name)),
    ]
    title = title or f"A fit of {short_name(data.target)}"
    comparison = " ".join(filter(None, [describe_comparison(data, scores, shares), describe_calibration(shares)]))
    return page(title, _header(view, found, headline, comparison), parts)


def _judge(view: View, data: Data) -> tuple[dict[str, float], list[Share]]:
    """Scores and shares on the rows, where they have targets."""
    if data.y is None:
        return {}, []
    return judge(data.prediction, data.y)


def _headline(view: View, data: Data, maps: list[Picture]) -> Picture | None:
    """The picture at the top: the curve of one column, the map of two coordinates, or observed against predicted."""
    if len(view.names) == 1:
        return pictures.levels(view, data) if levels_of(view.encoding, 0) else pictures.curve(view, data)
    if maps:
        return maps[0]
    if data.y is None:
        return None
    return pictures.calibration(view, data) if view.of_labels else pictures.observed(data)


def _header(view: View, found: list[tuple[str, Diagnosis]], headline: Picture | None, comparison: str) -> Html:
    """Warnings first, then what was decided and why, and the picture."""
    bad = [(of, each) for of, diagnosis in found for each in diagnosis.findings if each.level == "problem"]
    warned = [sections.finding_element(each, of) for of, each in bad] + _remarks(view)
    words = paragraph(" ".join(describe_fit(view)), "lead")
    picture = picture_element(headline) if headline is not None else Html()
    return join(*warned, words, paragraph(comparison), picture)


def _remarks(view: View) -> list[Html]:
    """What a reader must know of fits that are well but say little."""
    return [
        sections.finding_element(Finding(str(model.status_), "note", model._outcome.reason), of_class(view.gp, label))
        for label, model in models_of(view.gp)
        if says_little(model)
    ]


def _about(view: View, data: Data, model_name: str, data_name: str) -> Html:
    facts = {
        "model file": model_name,
        "rows": data_name or {"fit": "those of the fit", "given": "given", "knots": "none"}[data.origin.word],
        "compared": f"{len(data):,} rows" if data.y is not None else "nothing: there are no targets",
        "columns": ", ".join(view.names),
        "inference": str(view.model.inference_),
        "knotwise": __version__,
    }
    return join(sections.facts(facts), paragraph(data.origin.text, "note"))
