"""What is done with what the knots leave of each row: one small protocol, one implementation per file."""

from knotwise.evidence.residual.arrange import Arrangement, arrange
from knotwise.evidence.residual.base import Pulled, Residual, RowAdjoints, Sites, Summed
from knotwise.evidence.residual.independent import Independent, check_rows, residual_of
from knotwise.evidence.residual.neighbours import Neighbours

__all__ = [
    "Arrangement",
    "Independent",
    "Neighbours",
    "Pulled",
    "Residual",
    "RowAdjoints",
    "Sites",
    "Summed",
    "arrange",
    "check_rows",
    "residual_of",
]
