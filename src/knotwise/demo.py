"""The demonstration: the Boston data by the exact GP, FIC and VFE, as a table, sentences and a picture."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knotwise import datasets, metrics
from knotwise.datasets import Dataset, Split
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.estimators import GPRegressor
from knotwise.kernels import SquaredExponential
from knotwise.numerics.blocks import available_cores

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["CANDIDATES", "Candidate", "Comparison", "Row", "compare", "conclude", "draw", "show", "tabulate"]


@dataclass(frozen=True)
class Candidate:
    """A model to compare: its name in the table, the approximation, and the knots: a number to optimise, or "auto"."""

    name: str
    approximation: str
    n_knots: int | str = 0


#: the exact GP comes first: the others are compared with it
CANDIDATES = (
    Candidate("full GP", "full"),
    Candidate("FIC", "fic", 13),
    Candidate("FIC", "fic", 50),
    Candidate("VFE", "vfe", 25),
    Candidate("VFE", "vfe", 50),
    Candidate("automatic", "vfe", "auto"),
)


@dataclass(frozen=True)
class Row:
    """How one model did: time to fit, evidence of the training rows, scores on the test rows.

    The AUKL is from the exact GP's predictions, of the latent f and of new observations; `coverage` is the share
    of test values inside their 95 % interval.
    """

    model: str
    n_knots: int
    seconds: float
    log_evidence: float
    srmse: float
    mnlp: float
    aukl_latent: float
    aukl_observation: float
    coverage: float
    converged: bool


@dataclass(frozen=True)
class Comparison:
    """All rows of the table, the exact GP's first, and what they came from."""

    dataset: Dataset
    split: Split
    seed: int
    threads: int
    rows: tuple[Row, ...]
    models: tuple[GPRegressor, ...] = field(repr=False)


def show(
    seed: int = 0,
    out: Path = Path("knotwise-demo"),
    *,
    console: Console | None = None,
    candidates: Sequence[Candidate] = CANDIDATES,
) -> Comparison:
    """Run the demonstration: compare, print, draw, and say where the picture is."""
    from rich.console import Console

    console = console or Console(highlight=False)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"The folder {str(out)!r} cannot be made: {error.strerror}. Choose another `--out`."
        ) from error
    with console.status("starting") if console.is_terminal else nullcontext() as status:
        comparison = compare(seed, candidates, report=status.update if status else lambda text: None)
    console.print(tabulate(comparison))
    for sentence in conclude(comparison):
        console.print(sentence, markup=False)
    console.print()
    try:
        files = draw(comparison, out)
    except OSError as error:
        raise InvalidInputError(f"No picture: {error}. Choose another `--out`.") from error
    except ImportError:
        console.print("No picture: matplotlib is not here. To have it: pip install knotwise[plot]", markup=False)
    else:
        console.print(f"Picture: {files[0]} (and {files[1].suffix})", markup=False, soft_wrap=True)
    return comparison


# -- numbers ------------------------------------------------------------------------------------------


def compare(
    seed: int = 0, candidates: Sequence[Candidate] = CANDIDATES, *, report: Callable[[str], Any] = lambda text: None
) -> Comparison:
    """Fit every candidate to four fifths of the Boston data and score it on the rest; the first is the reference."""
    boston = datasets.load_boston()
    parts = datasets.split(boston, 0.2, seed)
    import_module("scipy.optimize")  # the first fit would load it, and its time would count that
    models, rows = [], []
    for candidate in candidates:
        knots = f", {candidate.n_knots} knots" if candidate.n_knots else ""
        report(f"fitting {candidate.name}{knots} to {len(parts.y_train)} rows")
        model = GPRegressor(
            kernel=SquaredExponential(),
            approximation=candidate.approximation,
            knots=candidate.n_knots or 1,
            random_state=seed,
        )
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # the row says whether the fit converged
            model.fit(parts.X_train, parts.y_train)
        seconds = time.perf_counter() - start
        models.append(model)
        rows.append(score(candidate.name, model, models[0], parts, seconds))
    return Comparison(boston, parts, seed, available_cores(), tuple(rows), tuple(models))


def score(name: str, model: GPRegressor, exact: GPRegressor, parts: Split, seconds: float) -> Row:
    """Score one fitted model on the test rows, against the data and against the exact GP."""
    X, y = parts.X_test, parts.y_test
    f, f_exact = model.predict_latent(X), exact.predict_latent(X)
    moments = f_exact.mean, f_exact.variance, f.mean, f.variance
    low, high = model.predict_interval(X, level=0.95).T
    return Row(
        model=name,
        n_knots=model.n_knots_,
        seconds=seconds,
        log_evidence=model.log_evidence_,
        srmse=metrics.srmse(y, f.mean),
        mnlp=metrics.mnlp(model.log_predictive_density(X, y)),
        aukl_latent=metrics.aukl_latent(*moments),
        aukl_observation=metrics.aukl_observation(
            *moments,
            full_noise_variance=exact.likelihood_.value("noise_variance"),
            sparse_noise_variance=model.likelihood_.value("noise_variance"),
        ),
        coverage=metrics.interval_coverage(y, low, high),
        converged=model.converged_,
    )


# -- words --------------------------------------------------------------------------------------------


def tabulate(comparison: Comparison) -> Table:
    """Make the table of a comparison; it fits 80 columns."""
    from rich import box
    from rich.table import Table

    parts = comparison.split
    title = (
        f"Boston house values, {len(parts.y_train)} training and {len(parts.y_test)} test rows, "
        f"{parts.X_train.shape[1]} inputs; isotropic squared exponential; seed {comparison.seed}; "
        f"up to {comparison.threads} thread{'s' if comparison.threads > 1 else ''}"
    )
    table = Table(title=title, title_style="bold", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model")
    for name in ("K", "seconds", "log\nevidence", "SRMSE", "MNLP", "AUKL\nlatent", "AUKL\nobservation"):
        table.add_column(name, justify="right")
    for row in comparison.rows:
        divergences = f"{row.aukl_latent:#.3g}", f"{row.aukl_observation:#.3g}"
        table.add_row(
            row.model if row.converged else f"{row.model} *",
            str(row.n_knots or "-"),
            f"{row.seconds:.2f}",
            f"{row.log_evidence:.2f}",
            f"{row.srmse:.3f}",
            f"{row.mnlp:.3f}",
            *(("-", "-") if row is comparison.rows[0] else divergences),
        )
    if not all(row.converged for row in comparison.rows):
        table.caption = "* the optimiser stopped before it converged"
    return table


def conclude(comparison: Comparison) -> list[str]:
    """Say in sentences what the rows show, whatever they show."""
    exact, *others = comparison.rows
    fic, vfe = ([row for row in others if row.model == name] for name in ("FIC", "VFE"))
    sentences = []
    if fic:
        misled = all(row.log_evidence > exact.log_evidence for row in fic)
        farther = min(row.aukl_latent for row in fic) > max((row.aukl_latent for row in vfe), default=0.0)
        comment = ": the overfit of optimised FIC knots that the literature describes (Bauer et al., 2016)"
        sentences.append(
            f"FIC's log evidence lies {_distances(fic, exact)} the exact GP's, "
            f"{'although' if misled and farther else 'and'} its latent AUKL is "
            f"{_listed(f'{row.aukl_latent:#.3g}' for row in fic)} nats per row{comment if misled and farther else ''}."
        )
    if vfe:
        bounded = all(row.log_evidence <= exact.log_evidence for row in vfe)
        comment = "" if bounded else "; above can only be where the exact GP's own fit ended short of its best"
        sentences.append(
            f"VFE's, a lower bound at equal parameters, {'stays' if bounded else 'lies'} "
            f"{_distances(vfe, exact)}; its latent AUKL is "
            f"{_listed(f'{row.aukl_latent:#.3g}' for row in vfe)}{comment}."
        )
    for row, model in zip(comparison.rows, comparison.models, strict=True):
        if row.model == "automatic":
            sentences.append(f"Automatic: {model.stop_reason_}; its latent AUKL is {row.aukl_latent:#.3g}.")
    n_test = len(comparison.split.y_test)
    inside = ", ".join(f"{round(row.coverage * n_test)} ({_label(row)})" for row in comparison.rows)
    sentences.append(f"Test values inside their 95 % intervals, of {n_test}: {inside}.")
    return sentences


def _distances(rows: list[Row], exact: Row) -> str:
    """How far the rows' log evidence lies from the exact GP's, and on which side."""
    gains = [(row.n_knots, row.log_evidence - exact.log_evidence) for row in rows]
    sides = ["nats above" if gain > 0 else "nats below" for _, gain in gains]
    if len(set(sides)) == 1:
        return _listed(f"{abs(gain):#.3g} (K={K})" for K, gain in gains) + f" {sides[0]}"
    return _listed(f"{abs(gain):#.3g} {side} (K={K})" for (K, gain), side in zip(gains, sides, strict=True))


def _label(row: Row) -> str:
    return f"{row.model} with {row.n_knots} knots" if row.n_knots else row.model


def _listed(items: Iterable[str]) -> str:
    *head, last = items
    return f"{', '.join(head)} and {last}" if head else last


# -- picture ------------------------------------------------------------------------------------------

#: of Okabe and Ito, told apart by every kind of colour vision; line styles differ as well
BLACK, BLUE, VERMILION = "#000000", "#0072B2", "#D55E00"
LOOK: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.hashsalt": "knotwise",  # the same numbers give the same file
}


def draw(comparison: Comparison, out: Path) -> tuple[Path, Path]:
    """Draw the effect of one input by the exact GP and the first VFE and FIC, and VFE's predictions; PNG and SVG.

    Needs matplotlib, and raises ImportError without it.
    """
    import matplotlib
    from matplotlib.figure import Figure

    pairs = list(zip(comparison.rows, comparison.models, strict=True))
    first = {row.model: (row, model) for row, model in reversed(pairs[1:])}
    chosen = [pairs[0], *(first[name] for name in ("VFE", "FIC") if name in first)]
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(12, 5.4), dpi=150, layout="constrained")
        effect, predictions = figure.subplots(1, 2, width_ratios=[1.35, 1])
        draw_effect(effect, comparison, chosen)
        draw_predictions(predictions, comparison, *first.get("VFE", pairs[0]))
        files = out / "boston.png", out / "boston.svg"
        figure.savefig(files[0])
        figure.savefig(files[1], metadata={"Date": None})
    return files


def draw_effect(axes: Any, comparison: Comparison, chosen: list[tuple[Row, GPRegressor]]) -> None:
    """Draw f along lstat with the other inputs at their medians, bands of f, and the knots.

    The data are moved to the curve's slice of the input space: the exact GP's curve plus its residuals.
    """
    names = comparison.dataset.feature_names
    X, y, exact = comparison.split.X_train, comparison.split.y_train, chosen[0][1]
    middle = np.median(X, axis=0)
    line, shadow = np.tile(middle, (300, 1)), np.tile(middle, (len(X), 1))
    line[:, 0] = np.linspace(X[:, 0].min(), X[:, 0].max(), len(line))
    shadow[:, 0] = X[:, 0]
    moved = exact.predict(shadow) + y - exact.predict(X)
    axes.scatter(X[:, 0], moved, s=13, color="0.55", linewidths=0, label="training rows (full GP's residuals)")

    styles = [(BLACK, "-", 0.22, 3), (BLUE, (0, (4, 2)), 0.0, 4), (VERMILION, "-", 0.18, 2)]
    for (row, model), (colour, dashes, fill, order) in zip(chosen, styles, strict=False):
        stroke = {"color": colour, "linestyle": dashes, "zorder": order}
        low, high = model.predict_interval(line, level=0.95, kind="latent").T
        axes.fill_between(line[:, 0], low, high, color=colour, alpha=fill, linewidth=0, zorder=order - 1)
        axes.plot(line[:, 0], np.column_stack([low, high]), linewidth=0.9, **stroke)
        axes.plot(line[:, 0], model.predict(line), linewidth=2.0, label=_label(row), **stroke)

    bottom, top = axes.get_ylim()
    step = 0.045 * (top - bottom)
    for level, ((row, model), (colour, *_)) in enumerate(zip(chosen[1:], styles[1:], strict=False), start=1):
        Z = model.knots_
        axes.plot(Z[:, 0], np.full(len(Z), bottom - level * step), "|", color=colour, markersize=9, markeredgewidth=1.4)
        place = {"xycoords": ("axes fraction", "data"), "va": "center"}
        axes.annotate(f"{row.model}'s knots", (1.01, bottom - level * step), color=colour, fontsize=9, **place)
    axes.set_ylim(bottom - len(chosen) * step, top + 3 * step)  # room for the knots and the legend
    others = " and ".join(f"{name} ({value:.3g})" for name, value in zip(names[1:], middle[1:], strict=True))
    axes.set_title(f"f along {names[0]} at median {others}: mean and 95 % band")
    axes.set(xlabel=f"{names[0]}: lower status of the population (%)", ylabel="medv: median house value (1000 dollars)")
    axes.legend(loc="upper right")


def draw_predictions(axes: Any, comparison: Comparison, row: Row, model: GPRegressor) -> None:
    """Draw observed against predicted values of the test rows, with the intervals of new observations."""
    X, y = comparison.split.X_test, comparison.split.y_test
    mean = model.predict(X)
    low, high = model.predict_interval(X, level=0.95).T
    inside = (low <= y) & (y <= high)
    ends = [min(low.min(), y.min()) - 1, max(high.max(), y.max()) + 1]
    axes.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    axes.vlines(mean, low, high, color=BLUE, alpha=0.28, linewidth=1.1, label="95 % interval")
    axes.plot(mean[inside], y[inside], "o", color=BLUE, markersize=4.5, label=f"inside: {inside.sum()}")
    axes.plot(mean[~inside], y[~inside], "D", color=VERMILION, markersize=5.5, label=f"outside: {(~inside).sum()}")
    axes.set_title(f"{len(y)} test rows by {_label(row)}")
    axes.set(xlabel="predicted medv", ylabel="observed medv", xlim=ends, ylim=ends, aspect="equal")
    axes.legend(loc="upper left")
