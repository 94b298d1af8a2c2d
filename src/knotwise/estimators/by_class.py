"""Results of a classifier with several models: a list, one for each class, that shows itself as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from knotwise.numerics.tabular import html_lines, make_frame

__all__ = ["ByClass"]


class ByClass(list):
    """A list with one table for each class of a classifier, which shows each with its class and makes one data frame.

    It is what `parameters_`, `trace_`, `coefficients_` and `diagnose()` of a `GPClassifier` of three or more classes
    give.

    Parameters
    ----------
    tables : iterable
        Objects that show themselves as HTML and have `to_frame()`.
    labels : sequence
        The class of each.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPClassifier
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> gp = GPClassifier(knots=3, optimizer=None).fit(X, np.repeat(["a", "b", "c"], 10))
    >>> len(gp.parameters_), gp.parameters_.labels
    (3, ['a', 'b', 'c'])
    >>> gp.parameters_.to_frame()[["class", "parameter"]].head(3).values.tolist()
    [['a', 'variance'], ['a', 'lengthscale'], ['b', 'variance']]
    """

    def __init__(self, tables: Iterable[Any], labels: Sequence[Any]) -> None:
        super().__init__(tables)
        self.labels = list(labels)

    def __repr__(self) -> str:
        return "\n\n".join(f"class {label!r}\n{table!r}" for label, table in zip(self.labels, self, strict=True))

    def _repr_html_(self) -> str:
        parts = zip(self.labels, self, strict=True)
        return "".join(html_lines(f"class {label!r}") + table._repr_html_() for label, table in parts)

    def to_frame(self) -> Any:
        """One data frame of all tables, with the class of each row in its first column; needs pandas.

        Returns
        -------
        DataFrame
            The rows of the tables, one after the other.
        """
        frames = [(label, table.to_frame()) for label, table in zip(self.labels, self, strict=True)]
        rows = [{"class": label} | row for label, frame in frames for row in frame.to_dict("records")]
        return make_frame(rows, ["class", *frames[0][1].columns])
