"""Pieces of a page: text is escaped by construction, tables scroll in a box of their own, figures are inside."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Sequence

from knotwise.paper.figures import PaperFigure
from knotwise.paper.tables import WORDS, Table

__all__ = ["Html", "anchor", "empty_tag", "figure_element", "heading", "paragraph", "table_element", "tag"]


#: share of its own size at which the words of a figure can still be read
LEGIBLE = 0.72


class Html(str):
    """Text that is HTML already, and is not escaped again."""


def tag(element: str, *content: str, **attributes: str) -> Html:
    """Make an element; plain strings are escaped. A trailing underscore in a name falls, others become dashes."""
    inner = "".join(part if isinstance(part, Html) else html.escape(part) for part in content)
    return Html(f"{empty_tag(element, **attributes)}{inner}</{element}>")


def empty_tag(element: str, **attributes: str) -> Html:
    """Make the opening of an element, or one that has no content."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for name, value in attributes.items()
    )
    return Html(f"<{element}{written}>")


def anchor(text: str) -> str:
    """Make a name for a place in the page: lower-case letters and digits, joined by dashes."""
    return "-".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def heading(level: int, text: str, name: str | None = None) -> Html:
    """Make a heading that can be linked to."""
    return tag(f"h{level}", text, id=name or anchor(text))


def paragraph(text: str, class_: str = "") -> Html:
    """Make a paragraph, or nothing of nothing."""
    if not text:
        return Html()
    return tag("p", text, class_=class_) if class_ else tag("p", text)


def table_element(table: Table, level: int) -> Html:
    """Make a table with its title above and its note below; a wide one scrolls in its box, not the page."""
    name = anchor(table.title)
    head = tag("tr", *(_cell("th", column, column, scope="col") for column in table.columns))
    inside = tag("table", tag("thead", head), *_bodies(table), aria_labelledby=name)
    box = tag("div", inside, class_="scroll", role="region", aria_labelledby=name, tabindex="0")
    return tag("section", heading(level, table.title, name), box, paragraph(table.note, "note"), class_="table")


def _bodies(table: Table) -> list[Html]:
    """Make a body for each line with a name, and for those without one that follow it: they share its name."""
    groups: list[list[Sequence[str]]] = []
    for cells in table.rows:
        if cells[0] or not groups:
            groups.append([])
        groups[-1].append(cells)
    bodies = []
    for group in groups:
        span = {"scope": "row"} if len(group) == 1 else {"scope": "rowgroup", "rowspan": str(len(group))}
        lines = [
            [_cell("td", column, cell) for column, cell in zip(table.columns[1:], cells[1:], strict=True)]
            for cells in group
        ]
        lines[0].insert(0, tag("th", group[0][0], **span))
        bodies.append(tag("tbody", *(tag("tr", *line) for line in lines)))
    return bodies


def _cell(element: str, column: str, text: str, **attributes: str) -> Html:
    return tag(element, text, **attributes, class_="words") if column in WORDS else tag(element, text, **attributes)


def figure_element(figure: PaperFigure) -> Html:
    """Make a figure whose picture is part of the page: at most its own size, and legible on a phone."""
    content = figure.svg.read_bytes()
    width = float(re.search(rb'width="([\d.]+)pt"', content)[1]) / 12  # type: ignore[index]  # in rem
    attributes = {
        "src": f"data:image/svg+xml;base64,{b64encode(content).decode('ascii')}",
        "alt": f"{figure.title}. {figure.caption}",
        "style": f"max-width: {width:.1f}rem; min-width: {LEGIBLE * width:.1f}rem",
    }
    box = tag(
        "div",
        empty_tag("img", **attributes),
        class_="scroll paper",
        role="region",
        aria_label=figure.title,
        tabindex="0",
    )
    words = tag("figcaption", tag("strong", f"{figure.title}."), " ", figure.caption)
    return tag("figure", box, words, id=figure.name)
