"""Numbers as people write them: the digits 0 to 9. Python's own `float` and `int` also take 1_000 and other scripts."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = [
    "are_plain",
    "is_code",
    "is_number",
    "is_whole",
    "looks_like_amount",
    "looks_like_number",
    "meant_as_number",
    "to_float",
]

#: a sign or a code of a currency, before or after the number, or percent
UNIT = r"(?:[$%\u00a2-\u00a5\u0e3f\u20a0-\u20cf]|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD)"
#: digits, in groups of three or not, and decimals; either mark may part thousands
GROUPED = r"\d{1,3}(?:[,.'\u2019 \u00a0\u202f]\d{3})+(?:[.,]\d+)?"
DIGITS = rf"(?:{GROUPED}|\d+(?:[.,]\d+)?)"
AMOUNT = re.compile(rf"[-+(]?\s*(?:{UNIT}\s*[-+]?\s*{DIGITS}|{DIGITS}\s*{UNIT}|{GROUPED})\s*\)?")


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


def is_number(text: str) -> bool:
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
