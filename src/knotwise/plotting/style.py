"""Colours and the look of every picture; told apart by every kind of colour vision.

Lines and marks have the colours of Okabe and Ito, and differ in dashes or shape as well; maps have viridis and
cividis, whose lightness rises evenly.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from knotwise import docstrings
from knotwise.errors import KnotwiseError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, GREY, LIGHT_GREY = "#000000", "#767676", "#BFBFBF"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

#: for several series in one picture; yellow is left out, being too light for a line on white
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)), (0, (3, 1.5)), "-")
MARKERS = ("o", "D", "s", "^", "v", "P", "X")

#: colour maps: of means, intensities and probabilities; of standard deviations
MAP_OF_VALUES, MAP_OF_SPREAD = "viridis", "cividis"

#: settings of matplotlib for a figure of our own
LOOK: dict[str, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.dpi": 110,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "svg.hashsalt": "knotwise",  # the same numbers give the same file
}

ROWS = "float or array [n], optional"
#: what docstrings of plots say of parameters, unless they say something else
documented = docstrings.documented(
    {
        "gp": ("GPRegressor or GPClassifier", "The fitted model."),
        "X": ("array or data frame [n, D]", "Inputs of the rows, in the units of the fit; best such not fitted to."),
        "y": ("array or Series [n]", "Their targets or labels."),
        "exposure": (ROWS, "Of each row, for counts: a count is compared at its own. Needed if the fit had it."),
        "trials": (ROWS, "Of each row, for binomial counts. Needed if the fit had them."),
        "offset": (ROWS, "Logarithm of the exposure, instead of it."),
        "noise_variance": (ROWS, "Known noise variance of each row of Gaussian data. Needed if the fit had it."),
        "random_state": ("int or Generator, default 0", "For random draws, such as those within the steps of counts."),
        "ax": ("Axes, optional", "Where to draw; a new figure by default."),
        "return": ("Axes", "Of matplotlib, with the picture."),
    }
)


class MissingMatplotlibError(KnotwiseError, ImportError):
    """A picture was asked for where matplotlib is not installed."""


def require_matplotlib() -> Any:
    """Import matplotlib, or say how to get it."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingMatplotlibError(
            "Plots need matplotlib, which is not installed here. To have it: pip install 'knotwise[plot]'"
        ) from error
    return matplotlib


def look() -> AbstractContextManager[None]:
    """Settings of matplotlib within a `with` block."""
    return require_matplotlib().rc_context(LOOK)


def new_axes(n_rows: int = 1, *, size: tuple[float, float] = (6.4, 4.2), **options: Any) -> Any:
    """Axes in a new figure of pyplot, so that notebooks show it: one, or an array of `n_rows` below each other."""
    with look():
        from matplotlib import pyplot

        return pyplot.subplots(n_rows, figsize=size, layout="compressed", **options)[1]


def axes_or_new(ax: Axes | None, **options: Any) -> Axes:
    """The given axes, or new ones in our look."""
    return new_axes(**options) if ax is None else ax


def save(figure: Figure, path: Any, dpi: int = 150) -> None:
    """Write a figure without the date, so that the same numbers give the same file."""
    with look():
        undated: Any = {"metadata": {"Date": None}} if str(path).endswith(".svg") else {}
        figure.savefig(path, dpi=dpi, **undated)


def counted(n: int, noun: str) -> str:
    """A number with its noun, in the plural where it needs it."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def shorten(name: object, width: int = 28) -> str:
    """A name that fits beside others in a picture, shown as it is: dollar signs do not make a formula of it."""
    return abridge(name, width).replace("$", r"\$")


def abridge(name: object, width: int) -> str:
    """Keep the beginning and the end of a name that is long; what cannot be printed is a space."""
    text = "".join(letter if letter.isprintable() else " " for letter in str(name))
    if len(text) <= width:
        return text
    end = width // 3
    return f"{text[: width - end - 1]}…{text[-end:]}"


def write_title(ax: Axes, text: str) -> None:
    """Write a title where `ax.set_title` of the user replaces it; nothing leaves a title of the user alone."""
    if text:
        ax.set_title(text, fontsize=10)
