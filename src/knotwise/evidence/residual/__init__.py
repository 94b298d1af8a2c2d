"""What is done with the residual of each row, whose covariance is K - Q: one protocol, one implementation per file."""

from knotwise.evidence.residual.base import (
    Independent,
    Pulled,
    Residual,
    RowAdjoints,
    Sites,
    Summed,
    check_rows,
    residual_of,
)
from knotwise.evidence.residual.neighbours import Neighbours
from knotwise.evidence.residual.ordering import VecchiaOrdering, vecchia_ordering

__all__ = [
    "Independent",
    "Neighbours",
    "Pulled",
    "Residual",
    "RowAdjoints",
    "Sites",
    "Summed",
    "VecchiaOrdering",
    "check_rows",
    "residual_of",
    "vecchia_ordering",
]
