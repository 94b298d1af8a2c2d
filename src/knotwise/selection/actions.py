"""What a step of a selection can do: the words of a trace, and what they mean to those who show it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from knotwise.errors import InvalidInputError

__all__ = ["NEUTRAL", "Action", "Facts", "known_action"]


@dataclass(frozen=True)
class Facts:
    """What plots, progress and tables must know of an action; none of it holds for a selector's own word."""

    compares_with_null: bool = False  # the evidence of the step is a gain over a model without inputs
    compares_kernels: bool = False  # the evidence of the step is that of a kernel which may not be the one taken
    begins_placement: bool = False  # earlier knots served to find parameters; from here on the final ones are placed
    orders_knots: bool = False  # knots are in the order in which they were added
    rejects: bool = False  # one more knot was tried, and is not in the model


NEUTRAL = Facts()


class Action(StrEnum):
    """What a step of a selection did; a member is its word, as text, and has `facts` for those who show it.

    Examples
    --------
    >>> from knotwise.knots import Action
    >>> Action.ADD == "add", Action.REJECT.facts.rejects
    (True, True)
    """

    facts: Facts

    def __new__(cls, word: str, facts: Facts = NEUTRAL) -> Action:
        member = str.__new__(cls, word)
        member._value_ = word
        member.facts = facts
        return member

    KERNEL = "kernel", Facts(compares_kernels=True)  # a kernel was tried on some rows
    SIGNAL = "signal", Facts(compares_with_null=True)  # is there anything to learn?
    PARAMETERS = "parameters"  # parameters were fitted
    REFINE = "refine"  # the same on all rows, from those of a subset
    LOOK_AGAIN = "look again"  # residuals of neighbours agree: parameters were looked for on the rows there
    WAKE = "wake"  # columns that seemed not to matter were tried again, from shorter length-scales
    NEIGHBORS = "neighbors", Facts(compares_kernels=True)  # knots and neighbours were tried on some rows
    REFIT = "refit"  # parameters were fitted to knots that are too few
    START = "start", Facts(begins_placement=True)  # the first of the final knots
    INITIAL = "initial"  # the knots from which others are added one at a time
    ADD = "add", Facts(orders_knots=True)  # one more knot
    REJECT = "reject", Facts(rejects=True)  # one more knot, which did not pay
    MOVE = "move", Facts(orders_knots=True)  # knots were moved; more may come
    CHOOSE = "choose", Facts(orders_knots=True)  # knots by the largest conditional variance
    PRUNE = "prune"  # knots were dropped
    EVERY_PLACE = "every place"  # a knot at each place where there are rows
    EVERY_ROW = "every row"  # the rows are so few that each is a knot
    FINAL = "final"  # the result, on all rows

    __repr__ = str.__repr__


def known_action(word: str) -> Action | str:
    """The action of a word, or the word itself where it is a selector's own."""
    if not isinstance(word, str):
        raise InvalidInputError(f"The action of a step is {word!r}; it must be an `Action` or a word of your own.")
    try:
        return Action(word)
    except ValueError:
        return word
