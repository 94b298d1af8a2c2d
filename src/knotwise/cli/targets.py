"""What kind of target a column is: numbers for a regressor, or labels for a classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from knotwise.cli.columns import NotANumberError, numbers_of
from knotwise.cli.numerals import is_code, is_number, meant_as_number, to_float
from knotwise.cli.rows import Rows, number_error
from knotwise.cli.tables import Table
from knotwise.errors import InvalidInputError

__all__ = ["are_labels", "known_labels", "labels_of", "target_numbers"]

MOST_CLASSES = 100
MANY_CLASSES = 20  # of text that nobody has called labels
LARGEST_WHOLE = 2.0**53  # up to which every whole number is a float


def are_labels(texts: Sequence[str], decimal: str) -> bool:
    """Whether a target is text: most of its values are no numbers, nor meant to be, as 1_000 and $1,200 are."""
    return sum(count for text, count in Counter(texts).items() if meant_as_number(text, decimal)) < len(texts) / 2


def target_numbers(table: Table, rows: Rows, target: str, decimal: str) -> np.ndarray:
    """The target as numbers."""
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
    if not all(map(is_number, different)) or any(map(is_code, different)):
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
        is_number(text) and not is_code(text) and to_float(text).is_integer() and abs(to_float(text)) < LARGEST_WHOLE
    )
    return str(int(to_float(text))) if whole else text
