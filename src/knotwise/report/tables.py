"""A table of plain text: for a page, and in Markdown."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WORDS", "Table"]

#: columns of words, to the left; numbers are to the right
WORDS = (
    "method",
    "by",
    "data",
    "settings",
    "parameter",
    "column",
    "what",
    "note",
    "action",
    "step",
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
