"""Tables of results: as data frames, and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from knotwise.errors import KnotwiseError


class MissingPandasError(KnotwiseError, ImportError):
    """A data frame was asked for where pandas is not installed."""


def make_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], columns: Sequence[str] | None = None) -> Any:
    """A pandas DataFrame of rows or of columns, or an error that says how to get pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingPandasError(
            "`to_frame()` needs pandas, which is not installed here. To have it: pip install 'knotwise[frames]'"
        ) from error
    return pd.DataFrame(rows, columns=columns)


def html_table(heads: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", remark: str = "") -> str:
    """A table for a notebook; numbers stand right with four digits, all text is escaped, NaN and None are empty."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{html_lines(remark)}"


def html_lines(text: str) -> str:
    """Lines of text as a paragraph, escaped; nothing where there is no text."""
    return f"<p>{'<br>'.join(escape(line) for line in text.splitlines())}</p>" if text else ""


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f'<td style="text-align:left">{"" if value is None else escape(str(value))}</td>'
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f'<td style="text-align:right">{"" if value != value else shown}</td>'  # noqa: PLR0124  (NaN)
