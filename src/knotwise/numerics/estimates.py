"""Parameters as people read them: standard deviations for variances, in the units of the data, with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from knotwise.numerics.tabular import html_table, make_frame

LONGEST_NAME, LONGEST_COLUMN = 30, 16  # in a printed table, which has at most 110 characters
NUMBERS = ("estimate", "std. error", "lower 95 %", "upper 95 %")


@dataclass(frozen=True)
class Estimate:
    """One parameter on the scale on which it is read, in the units of the data.

    Attributes
    ----------
    parameter : str
        Its name, as in `parameters_`.
    reads_as : "sd", "length-scale" or "value"
        The root of a variance, a length-scale, or the value as it is.
    column : str
        The column of the inputs that it is about, in words.
    units : str
        Its units: "y", or the name of a column.
    estimate : float
        The fitted value.
    standard_error : float
        How well the data determine it; NaN where there is none.
    lower_95 : float
        Lower end of its interval.
    upper_95 : float
        Upper end of its interval.
    note : str
        Why there is no standard error, or "".
    given : str, default ""
        What became of a value that the user gave, on the scale of the estimate: "started at 2", "held at 365.25", or ""
        where it was taken from the data.

    Examples
    --------
    >>> from knotwise.numerics.estimates import Estimate
    >>> Estimate("noise_variance", "sd", "", "y", 2.0, 0.1, 1.8, 2.2, "", "started at 3").remark
    'started at 3'
    """

    parameter: str
    reads_as: str
    column: str
    units: str
    estimate: float
    standard_error: float
    lower_95: float
    upper_95: float
    note: str
    given: str = ""

    @property
    def remark(self) -> str:
        """Why there is no standard error, and what became of a value that was given; "" where nothing is to be said."""
        held = self.given.startswith("held")
        without = "" if np.isfinite(self.standard_error) or held else self.note
        return "; ".join(filter(None, [without, self.given]))


def read_estimate(
    name: str, reads_as: str, column: str, units: str, numbers: Sequence[float], note: str, start: float, held: bool
) -> Estimate:
    """Make an estimate of numbers on the natural scale: the value, its standard error, the ends of its interval  (F4).

    `start` is the value that the user gave, NaN for none, and `held` whether it was held there.
    """
    value, error, low, high = numbers
    if reads_as == "sd":
        root = np.sqrt(value)
        value, error, low, high = root, error / (2 * root) if root else np.nan, np.sqrt(low), np.sqrt(high)
        units, start = units.replace("^2", ""), np.sqrt(start)
    given = f"{'held' if held else 'started'} at {start:.6g}" if np.isfinite(start) else ""
    return Estimate(name, reads_as, column, units, float(value), float(error), float(low), float(high), note, given)


@dataclass(frozen=True, repr=False)
class Estimates:
    """All parameters of a fitted model on the scale on which they are read; printed, it is a table.

    `parameters_.estimates()` makes it, and `summary()` shows it. The standard deviation of the function stands for the
    variance of its kernel, that of the noise for its variance, and length-scales are in the units of their columns; one
    that serves columns of different scale has a line for each.

    Parameters
    ----------
    lines : tuple of Estimate
        One for each line of the table.
    remark : str, default ""
        What is to be said of all standard errors, in a sentence, or "".

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.kernels import SquaredExponential
    >>> x = np.linspace(0, 10, 60)
    >>> y = np.sin(x) + 0.2 * np.random.default_rng(0).normal(size=60)
    >>> gp = GPRegressor(SquaredExponential(), random_state=0).fit(x[:, None], y)
    >>> noise = gp.parameters_.estimates()[2]
    >>> noise.parameter, noise.reads_as, noise.units
    ('noise_variance', 'sd', 'y')
    >>> noise.lower_95 < noise.estimate < noise.upper_95
    True
    """

    lines: tuple[Estimate, ...]
    remark: str = ""

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: int) -> Estimate:
        return self.lines[number]

    def to_frame(self) -> Any:
        """The estimates as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row per line of the table: `parameter`, `reads_as`, `column`, `units`, `estimate`, `standard_error`,
            `lower_95`, `upper_95`, `note` and `given`.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> X = np.linspace(0, 1, 24)[:, None]
        >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
        >>> gp = GPRegressor(knots=5, random_state=0).fit(X, y)
        >>> gp.parameters_.estimates().to_frame()[["parameter", "reads_as"]].values.tolist()
        [['variance', 'sd'], ['lengthscale', 'length-scale'], ['noise_variance', 'sd']]
        """
        return make_frame([asdict(line) for line in self.lines], columns=list(Estimate.__dataclass_fields__))

    def __repr__(self) -> str:
        """A table of at most 110 characters, and below it the remark."""
        words = [
            (_cut(line.parameter, LONGEST_NAME), line.reads_as, _cut(_column_of(line), LONGEST_COLUMN))
            for line in self.lines
        ]
        heads = ("parameter", "reads as", "column" if any(w[2] for w in words) else "")
        widths = [max(len(head), *(len(w[i]) for w in words)) if words else len(head) for i, head in enumerate(heads)]
        shown = NUMBERS if any(np.isfinite(line.standard_error) or line.note for line in self.lines) else NUMBERS[:1]
        rows = [(heads, "".join(f"  {head:>10}" for head in shown))]
        for line, names in zip(self.lines, words, strict=True):
            numbers = f"  {line.estimate:10.4g}"
            if np.isfinite(line.standard_error):
                numbers += "".join(f"  {v:10.4g}" for v in (line.standard_error, line.lower_95, line.upper_95))
            if line.remark:
                numbers += f"  {line.remark}"
            rows.append((names, numbers))
        table = [
            "  ".join(f"{w:<{width}}" for w, width in zip(names, widths, strict=True) if width) + numbers
            for names, numbers in rows
        ]
        return "\n".join([row.rstrip() for row in table] + ([self.remark] if self.remark else []))

    def _repr_html_(self) -> str:
        """The table of a notebook, with names in full and the remark below it."""
        heads = ("parameter", "reads as", "column", "units", *NUMBERS, "", "")
        return html_table(heads, (tuple(asdict(line).values()) for line in self.lines), remark=self.remark)


def _column_of(line: Estimate) -> str:
    """The column of a line, or of a length-scale of a warped column what that became: log(age)."""
    warped = line.reads_as == "length-scale" and line.column and line.column in line.units
    return line.units if warped else line.column


def _cut(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 3]}..."
