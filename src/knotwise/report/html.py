"""Pieces of a page: text is escaped by construction, tables scroll in a box of their own, pictures are inside."""

from __future__ import annotations

import html
import io
import warnings
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from knotwise.plotting.style import look, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGE = 150_000  # bytes of an SVG from which a PNG may stand for it
DPI = 150
#: for names in writings that the font of matplotlib lacks, as systems have them
FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic",
    "Malgun Gothic", "Apple SD Gothic Neo", "WenQuanYi Zen Hei", "Arial Unicode MS", "Noto Sans Devanagari",
    "Noto Sans Thai", "Nirmala UI", "Leelawadee UI",
)  # fmt: skip
#: nothing is loaded, and nothing runs, not even by mistake
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
#: how much wider than its own size a picture may be on a large screen
LARGER = 1.3
#: columns of words, to the left; numbers are to the right
WORDS = (
    *("method", "by", "data", "settings", "parameter", "column", "what", "note", "action", "step"),
    "observed class",
)


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, rows of plain text, a note below, and a name for links (that of the title)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    name: str = ""

    def to_markdown(self) -> str:
        """The table in Markdown, with its title above and its note below; numbers are to the right."""
        rule = [":--" if name in WORDS else "--:" for name in self.columns]
        lines = ["| " + " | ".join(cells) + " |" for cells in [self.columns, rule, *self.rows]]
        return "\n".join([f"**{self.title}**", "", *lines, *(["", self.note] if self.note else [])])


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


def join(*pieces: Html) -> Html:
    return Html("".join(pieces))


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
    return tag("p", unbroken(text), class_=class_) if class_ else tag("p", unbroken(text))


def unbroken(text: str) -> str:
    """Keep numbers and the sign of percent after them in one line."""
    return text.replace(" %", "\u00a0%")


def fold(words: str, *content: Html) -> Html:
    """Fold content away below some words; nothing without content."""
    inside = join(*content)
    return tag("details", tag("summary", words), inside) if inside else Html()


def code_block(code: str) -> Html:
    """Make a block of code that scrolls in a box of its own."""
    return tag("div", tag("pre", tag("code", code)), class_="scroll", tabindex="0")


def table_element(table: Table, level: int) -> Html:
    """Make a table with its title above and its note below; a wide one scrolls in its box, not the page."""
    name = table.name or anchor(table.title)
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


def picture_element(picture: Picture) -> Html:
    """Make a figure whose picture is part of the page: a little larger than its own size, and whole on a phone."""
    attributes = {
        "src": f"data:{picture.kind};base64,{b64encode(picture.content).decode('ascii')}",
        "alt": f"{picture.title}. {picture.caption}",
        "style": f"max-width: {LARGER * picture.width:.1f}rem",
    }
    words = tag("figcaption", tag("strong", f"{picture.title}."), " ", unbroken(picture.caption))
    return tag("figure", tag("div", empty_tag("img", **attributes), class_="picture"), words, id=picture.name)


def page(title: str, header: Html, sections: Sequence[tuple[str, Html]], more_style: str = "") -> str:
    """Put a page together: what stands at the top, links to the sections, and these."""
    links = [tag("li", tag("a", name, href=f"#{anchor(name)}")) for name, _ in sections]
    body = tag(
        "body",
        tag("header", tag("h1", title), header),
        tag("nav", heading(2, "Contents"), tag("ul", *links), aria_labelledby="contents"),
        tag("main", *(tag("section", heading(2, name), content) for name, content in sections)),
    )
    style = resources.files("knotwise.report").joinpath("page.css").read_text(encoding="utf-8") + more_style
    head = Html(
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">{tag("title", title)}'
        f"<style>{style}</style>"
    )
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), body, lang='en')}\n"


# -- from a figure of matplotlib to a picture inside a page -------------------------------------------


@dataclass(frozen=True)
class Picture:
    """What a page shows: a name for links, words above and below, the file's content and kind, its width in rem."""

    name: str
    title: str
    caption: str
    content: bytes
    kind: str
    width: float


def new_figure(size: tuple[float, float], layout: Any = "constrained") -> Figure:
    """An empty figure that no window knows; sizes are in inches."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout=layout)


def picture_of(figure: Figure, name: str, title: str, caption: str) -> Picture:
    """Draw a figure; the same numbers give the same bytes."""
    with look():
        content, kind = _file(figure, "svg", metadata={"Date": None}), "image/svg+xml"
        if len(content) > LARGE:
            content, kind = smaller(content, _file(figure, "png", dpi=DPI))
    return Picture(name, title, caption, content, kind, 6.0 * figure.get_figwidth())


def _file(figure: Figure, ending: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, **options)
    return buffer.getvalue()


def smaller(svg: bytes, png: bytes) -> tuple[bytes, str]:
    """The sharp picture, unless it is large and the other is smaller; with its kind."""
    return (png, "image/png") if len(svg) > LARGE and len(png) < len(svg) else (svg, "image/svg+xml")


@contextmanager
def quiet_drawing() -> Iterator[None]:
    """Our look of pictures, in letters of any writing that the machine has; no warning of those that it lacks."""
    matplotlib = require_matplotlib()
    from matplotlib.font_manager import fontManager

    there = {font.name for font in fontManager.ttflist}
    fonts = [*matplotlib.rcParams["font.family"], *(name for name in FONTS if name in there)]
    with look(), matplotlib.rc_context({"font.family": fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield
