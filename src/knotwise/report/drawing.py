"""From a figure of matplotlib to a picture inside a page: SVG, or PNG where that is smaller."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knotwise.plotting.style import look, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "new_figure", "picture_of", "quiet_drawing", "smaller"]

LARGE = 150_000  # bytes of an SVG from which a PNG may stand for it
DPI = 150
#: for names in writings that the font of matplotlib lacks, as systems have them
FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic",
    "Malgun Gothic", "Apple SD Gothic Neo", "WenQuanYi Zen Hei", "Arial Unicode MS", "Noto Sans Devanagari",
    "Noto Sans Thai", "Nirmala UI", "Leelawadee UI",
)  # fmt: skip


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
