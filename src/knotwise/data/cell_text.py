"""What the text of a cell means: a number as people write it, a date, a gap, an amount or a code.

Tables in files and in data frames are read by these rules. A number has the digits 0 to 9; Python's own `float` and
`int` also take 1_000 and other scripts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

#: what stands for a missing value in a file
GAPS = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null"})
TRUTH = {"true": 1.0, "false": 0.0}
#: the comma becomes the point; a point, which could part thousands, is no part of a number
COMMA = str.maketrans({",": ".", ".": "?"})
#: a sign or a code of a currency, before or after the number, or percent
UNIT = r"(?:[$%\u00a2-\u00a5\u0e3f\u20a0-\u20cf]|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD)"
#: digits, in groups of three or not, and decimals; either mark may part thousands
GROUPED = r"\d{1,3}(?:[,.'\u2019 \u00a0\u202f]\d{3})+(?:[.,]\d+)?"
DIGITS = rf"(?:{GROUPED}|\d+(?:[.,]\d+)?)"
AMOUNT = re.compile(rf"[-+(]?\s*(?:{UNIT}\s*[-+]?\s*{DIGITS}|{DIGITS}\s*{UNIT}|{GROUPED})\s*\)?")
#: 2024-01-31, 20240131 or 2024-W05-3, and after T or a space a time; Python alone takes 1610121512345 for 1610-12-15
ISO_DATE = re.compile(r"(\d{4}-\d\d-\d\d|\d{8}|\d{4}-?W\d\d(-?\d)?)([Tt ].+)?", re.ASCII)
#: 31/1/24, 31.01.2024, 2024/1/31 and 2024-01: dates of which one must know how they are meant
GUESSED_DATE = re.compile(
    r"(\d{1,2}/\d{1,2}/(\d{4}|\d{2})|\d{1,2}[.-]\d{1,2}[.-]\d{4}|\d{4}[/.]\d{1,2}[/.]\d{1,2}|\d{4}-\d{2}$)\b"
)
#: years in which eight digits are a date rather than a code
FIRST_YEAR, LAST_YEAR = 1900, 2099

# -- numbers --------------------------------------------------------------------------------------


def to_float(text: str) -> float:
    """The number that a text is, "inf" and "nan" with it; `ValueError` if it is not a number."""
    text = text.strip()
    if not are_plain([text]):
        raise ValueError(f"{text!r} is not a number in the digits 0 to 9")
    return float(text)


def are_plain(texts: Sequence[str]) -> bool:
    """Whether `float` reads no more into these texts than `to_float`: there is no underscore and no other script."""
    joined = "".join(texts)
    return joined.isascii() and "_" not in joined


def number_or_gap(text: str) -> float | None:
    """The number of a cell of a file, NaN where it is a gap, 1 and 0 for true and false; None if it is neither."""
    if is_gap(text):
        return float("nan")
    try:
        return to_float(text)
    except ValueError:
        return TRUTH.get(text.strip().casefold())


def is_gap(text: str) -> bool:
    """Whether the text of a cell of a file stands for a missing value."""
    return text.strip() in GAPS


def with_point(text: str, decimal: str) -> str:
    """A number with the decimal point instead of the decimal comma."""
    return text if decimal == "." else text.translate(COMMA)


def is_numeral(text: str) -> bool:
    """Whether a text is a number that we read."""
    try:
        to_float(text)
    except ValueError:
        return False
    return True


def looks_like_number(text: str) -> bool:
    """Whether it is meant as a number, although perhaps in a way that we do not read: as Python's `float` takes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def looks_like_amount(text: str) -> bool:
    """Whether it is meant as a number, with a currency, percent or marks between thousands: $1,200 or 1 200,50 EUR."""
    return AMOUNT.fullmatch(text.strip()) is not None


def meant_as_number(text: str, decimal: str = ".") -> bool:
    """Whether it is meant as a number, read by us or not: 1.5, 1,5, 1_000, $1,200 or 12 %."""
    return looks_like_number(text.replace(decimal, ".")) or looks_like_amount(text)


def is_code(text: str) -> bool:
    """Whether a whole number has leading zeros, which the number would lose: 007 may be a code."""
    return is_whole(text) and len(text) > 1 and text.startswith("0")


def is_whole(text: str) -> bool:
    """Whether a text is a whole number of at least 0."""
    return text.isascii() and text.isdecimal()


# -- dates ----------------------------------------------------------------------------------------


def iso_date(text: str) -> datetime:
    """The date that a text is in ISO 8601; `ValueError` where it is none."""
    if ISO_DATE.fullmatch(text.strip()) is None:
        raise ValueError(f"{text!r} is no date")
    return datetime.fromisoformat(text.strip())


def is_iso_date(value: Any) -> bool:
    """Whether a value is text such as 2024-01-31 or 2024-01-31T12:00."""
    if not isinstance(value, str) or "-" not in value:
        return False
    try:
        iso_date(value)
    except ValueError:
        return False
    return True


def is_basic_date(value: Any) -> bool:
    """Whether a value is text of eight digits that are a date of our time, such as 20240131."""
    if not isinstance(value, str) or len(value.strip()) != 8:
        return False
    try:
        return FIRST_YEAR <= iso_date(value).year <= LAST_YEAR and value.strip().isdecimal()
    except ValueError:
        return False


def is_guessed_date(value: Any) -> bool:
    """Whether a value is text such as 31/1/24, a date whose day, month or year is a guess."""
    return isinstance(value, str) and GUESSED_DATE.match(value.strip()) is not None
