"""From a table to arrays by the names of columns: inputs, known facts of each row, a target of numbers or labels."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from knotwise.cli.command import note
from knotwise.cli.tables import Column, Piece, Table, TextColumn
from knotwise.data.cell_text import (
    are_plain,
    is_basic_date,
    is_code,
    is_gap,
    is_numeral,
    is_whole,
    looks_like_amount,
    looks_like_number,
    meant_as_number,
    to_float,
)
from knotwise.data.cells import NotANumberError, missing_texts, numbers_of
from knotwise.data.encoding.choose import too_many_levels
from knotwise.errors import InvalidInputError, warn

FEW_PLACES = 5  # places of missing values that an error names for each column
MOST_CLASSES = 100
MANY_CLASSES = 20  # of text that nobody has called labels
LARGEST_WHOLE = 2.0**53  # up to which every whole number is a float


@dataclass(frozen=True)
class Wanted:
    """The columns to read: inputs in order, the target, further numbers for each row by the argument that takes them
    (exposure, trials, sample_weight, noise_variance), and columns to copy. `same` are such numbers that are the same
    for all rows.

    `texts` are the inputs that are read as text, None to find out, beside the `levels`, which are so in any case;
    `may_lack` those that may have missing values.
    """

    inputs: Sequence[str]
    target: str | None = None
    extras: dict[str, str] = field(default_factory=dict)
    keep: Sequence[str] = ()
    texts: Sequence[str] | None = None
    may_lack: Sequence[str] = ()
    levels: Sequence[str] = ()
    same: dict[str, float] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """All of them, each once."""
        target = [] if self.target is None else [self.target]
        return list(dict.fromkeys([*self.inputs, *target, *self.extras.values(), *self.keep]))


@dataclass(frozen=True)
class Rows:
    """Rows as arrays; the target and the copied columns are text. `places` tells where in the file each row is.

    Where some inputs are text, X is an array of objects, None where one is missing.
    """

    X: np.ndarray  # [n, D]
    target: list[str]
    extras: dict[str, np.ndarray]
    kept: dict[str, list[str]]
    places: np.ndarray
    n_dropped: int = 0
    categories: tuple[str, ...] = ()  # inputs of which the file says that they are levels

    def __len__(self) -> int:
        return len(self.X)


def read_rows(table: Table, wanted: Wanted, *, drop_missing: bool) -> Rows:
    parts = list(iterate_rows(table, wanted, drop_missing=drop_missing))
    return Rows(
        np.concatenate([part.X for part in parts]),
        [text for part in parts for text in part.target],
        {name: np.concatenate([part.extras[name] for part in parts]) for name in parts[0].extras},
        {name: [text for part in parts for text in part.kept[name]] for name in wanted.keep},
        np.concatenate([part.places for part in parts]),
        sum(part.n_dropped for part in parts),
        parts[0].categories,
    )


def iterate_rows(table: Table, wanted: Wanted, *, drop_missing: bool, may_be_empty: bool = False) -> Iterator[Rows]:
    """Read the table piece by piece; missing values are dropped with their rows, or refused with all their places.

    A table of which no row is left is refused, unless it `may_be_empty`.
    """
    gaps: dict[str, list[int]] = {}
    n_read = n_left = 0
    for piece in table.pieces(wanted.columns):
        if wanted.texts is None:
            texts = [name for name in wanted.inputs if name in wanted.levels or _is_text(name, piece.columns[name])]
            wanted = replace(wanted, texts=texts)
        rows, missing = _convert(table, piece, wanted)
        complete = ~np.logical_or.reduce([np.zeros(len(rows), bool), *missing.values()])
        n_read, n_left = n_read + len(rows), n_left + int(complete.sum())
        if not complete.all() and not drop_missing:
            for name, gap in missing.items():
                gaps.setdefault(name, []).extend(piece.places[gap].tolist())
        if not gaps:
            yield rows if complete.all() else _choose(rows, complete)
    if gaps:
        can_fill = any(gaps[name] for name in wanted.inputs if name in gaps)
        raise _missing_error(table, gaps, n_read - n_left, can_fill=can_fill)
    if may_be_empty:
        return
    if not n_read:
        raise InvalidInputError(f"{table.name} has column names, but no rows. Add rows with data.")
    if not n_left:
        raise InvalidInputError(f"Each of the {n_read} rows of {table.name} has a missing value: none is left.")


def _convert(table: Table, piece: Piece, wanted: Wanted) -> tuple[Rows, dict[str, np.ndarray]]:
    """The rows of a piece, and for each column that is needed which values are missing."""

    def numbers(name: str) -> np.ndarray:
        try:
            return piece.columns[name].numbers()
        except NotANumberError as bad:
            role = "input" if name in wanted.inputs else "column"
            raise number_error(table, role, name, int(piece.places[bad.index]), bad.value) from None

    texts = {name: piece.columns[name].text() for name in wanted.texts or ()}
    inputs: list[Any] = [texts[name] if name in texts else numbers(name) for name in wanted.inputs]
    X = _mixed(inputs, wanted.inputs) if texts else np.column_stack(inputs)
    extras = {argument: numbers(name) for argument, name in wanted.extras.items()}
    target = [] if wanted.target is None else piece.columns[wanted.target].text()
    kept = {name: piece.columns[name].text() for name in wanted.keep}
    missing = {
        name: missing_texts(values) if name in texts else np.isnan(values)
        for name, values in zip(wanted.inputs, inputs, strict=True)
        if name not in wanted.may_lack
    }
    missing |= {name: np.isnan(extras[argument]) for argument, name in wanted.extras.items()}
    extras |= {argument: np.full(len(X), value) for argument, value in wanted.same.items()}
    if wanted.target is not None:
        missing[wanted.target] = missing_texts(target)
    categories = tuple(name for name in texts if getattr(piece.columns[name], "is_category", False))
    return Rows(X, target, extras, kept, piece.places, categories=categories), missing


def _mixed(inputs: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    """Inputs of which some are text: an array of objects, None where a value is missing."""
    X = np.empty((len(inputs[0]), len(inputs)), object)
    for i, values in enumerate(inputs):
        gaps = np.isnan(values) if isinstance(values, np.ndarray) else missing_texts(values)
        X[:, i] = values
        X[gaps, i] = None
    return X


def _is_text(name: str, column: Column) -> bool:
    """Whether an input is text: a category of the file's, or most of its values are no numbers nor meant to be.

    Numbers that a file stores as text are codes, unless they are too many for levels. A text file has no types, so that
    all that looks like numbers is numbers, but 20240131.
    """
    if getattr(column, "is_category", False):
        return True
    try:
        column.numbers()
    except NotANumberError:
        texts = [text for text in column.text() if not is_gap(text)]
        return sum(meant_as_number(text, ",") for text in texts) < len(texts) / 2  # a comma may be decimal
    stored_as_text = getattr(column, "is_text", False)
    if not stored_as_text and not isinstance(column, TextColumn):
        return False
    texts = [text for text in column.text() if not is_gap(text)]
    if texts and all(map(is_basic_date, texts)):
        note(f"the input {name!r} holds eight digits that are dates, such as {texts[0]}, and is taken for dates")
        return True
    if stored_as_text and not too_many_levels(len(set(texts)), len(texts)):
        return True
    if stored_as_text:
        note(f"the input {name!r} is text that looks like numbers, such as {texts[0]!r}, and is taken for numbers")
    code = next(filter(is_code, texts), None)
    if code is not None:
        warn(
            f"the input {name!r} has leading zeros, as in {code!r}, and is taken for numbers, which lose them; if its "
            "values are codes, name it with --categorical"
        )
    return False


def _choose(rows: Rows, chosen: np.ndarray) -> Rows:
    def texts(values: list[str]) -> list[str]:
        return [value for value, take in zip(values, chosen, strict=True) if take]

    return Rows(
        rows.X[chosen],
        texts(rows.target) if rows.target else [],
        {name: values[chosen] for name, values in rows.extras.items()},
        {name: texts(values) for name, values in rows.kept.items()},
        rows.places[chosen],
        int((~chosen).sum()),
        rows.categories,
    )


# -- errors ---------------------------------------------------------------------------------------


def number_error(table: Table, role: str, name: str, place: int, value: str) -> InvalidInputError:
    """The error for a value that should be a number, with its column and its place."""
    levels = "if its values are levels, name the column with --categorical; or leave it out: choose the others with"
    remedy = f"Correct it; or, {levels} --inputs." if role == "input" else "Correct it."
    if looks_like_number(value) and not are_plain([value]):
        remedy = "Numbers are written with the digits 0 to 9, without a mark between thousands."
    if is_whole(value.replace(",", "", 1).lstrip("+-")) and "," in value:
        remedy = "If the comma is the decimal sign, add --decimal ','."
    if looks_like_amount(value):
        plain = "Write plain numbers, such as 1200.5, without currency, percent or marks between thousands."
        remedy = f"{plain} {remedy}" if "--decimal" in remedy else plain
        remedy += f" Or, {levels} --inputs." if role == "input" else ""
    return InvalidInputError(
        f"The {role} {name!r} of {table.name} is {value!r} in {table.unit} {place}, which is not a finite number. "
        f"{remedy}"
    )


def _missing_error(table: Table, gaps: dict[str, list[int]], n_rows: int, *, can_fill: bool) -> InvalidInputError:
    texts = []
    for name, places in gaps.items():
        if places:
            more = f" and {len(places) - FEW_PLACES} more" if len(places) > FEW_PLACES else ""
            several = "s" if len(places) > 1 else ""
            texts.append(f"{name!r} in {table.unit}{several} {', '.join(map(str, places[:FEW_PLACES]))}{more}")
    rows = "this row" if n_rows == 1 else f"these {n_rows} rows"
    fill = "; a fit can also take the means of input columns (--missing mean)" if can_fill else ""
    return InvalidInputError(
        f"Values are missing in {table.name}: {'; '.join(texts)}. Fill them in, or leave {rows} out with "
        f"--drop-missing{fill}."
    )


@contextmanager
def errors_with_places(rows: Rows, table: Table) -> Iterator[None]:
    """Add to an error or a warning about a row where that row is in the file."""

    def with_place(message: Any) -> Any:
        bad = getattr(message, "rows", None)
        if bad is None or not len(bad):
            return message
        words = getattr(message, "details", "") or str(message)
        place = f"{table.unit} {rows.places[bad[0]]}"
        own = f"row {bad[0]}"
        if place != own:
            words += f" {own.capitalize()} is {place} of {table.name}."
        return message if words == str(message) else type(message)(words)

    show = warnings.showwarning

    def tell(message: Any, *others: Any, **options: Any) -> None:
        show(with_place(message), *others, **options)

    warnings.showwarning = tell
    try:
        yield
    except InvalidInputError as error:
        placed = with_place(error)
        if placed is error:
            raise
        raise placed from None
    finally:
        warnings.showwarning = show


def are_labels(texts: Sequence[str], decimal: str) -> bool:
    """Whether a target is text: most of its values are no numbers, nor meant to be, as 1_000 and $1,200 are."""
    return sum(count for text, count in Counter(texts).items() if meant_as_number(text, decimal)) < len(texts) / 2


def target_numbers(table: Table, rows: Rows, target: str, decimal: str) -> np.ndarray:
    try:
        return numbers_of(rows.target, decimal)
    except NotANumberError as bad:
        error = number_error(table, "target", target, int(rows.places[bad.index]), bad.value)
        raise InvalidInputError(f"{error} If the target is a label, add --classes.") from None


def labels_of(texts: Sequence[str], target: str, *, asked: bool) -> np.ndarray:
    """The target as labels: whole numbers if all are, without leading zeros, else text. Very many need to be `asked`
    for.
    """
    different = sorted(set(texts))
    if not asked and MANY_CLASSES < len(different) <= MOST_CLASSES:
        raise InvalidInputError(
            f"The target {target!r} is text with {len(different)} different values in {len(texts)} rows, such as "
            f"{', '.join(map(repr, different[:3]))}. If they are labels, add --classes, and a classifier fits a model "
            "for each; if they are numbers, write plain ones; or choose another --target."
        )
    if len(different) > MOST_CLASSES:
        raise InvalidInputError(
            f"The target {target!r} has {len(different)} different labels in {len(texts)} rows, such as "
            f"{', '.join(map(repr, different[:3]))}. A classifier fits a model for each, of at most {MOST_CLASSES}: "
            "join some labels, or predict a number."
        )
    if not all(map(is_numeral, different)) or any(map(is_code, different)):
        return np.array(texts, str)
    numbers = np.array(texts, float)
    whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < LARGEST_WHOLE)
    return numbers.astype(np.int64) if whole.all() else np.array(texts, str)


def known_labels(table: Table, rows: Rows, target: str, classes: Sequence[Any]) -> np.ndarray:
    """The target as labels of a fitted classifier."""
    label_of = {_key(str(label)): label for label in classes}
    labels = []
    for text, place in zip(rows.target, rows.places, strict=True):
        if _key(text) not in label_of:
            raise InvalidInputError(
                f"The target {target!r} of {table.name} is {text!r} in {table.unit} {place}, which is none of the "
                f"model's classes {list(label_of.values())}."
            )
        labels.append(label_of[_key(text)])
    return np.array(labels)


def _key(text: str) -> str:
    """The same for 1 and 1.0, but not for the code 01."""
    whole = (
        is_numeral(text) and not is_code(text) and to_float(text).is_integer() and abs(to_float(text)) < LARGEST_WHOLE
    )
    return str(int(to_float(text))) if whole else text
