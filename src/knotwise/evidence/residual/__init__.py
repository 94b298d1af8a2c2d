"""What is done with the residual of each row, whose covariance is K - Q: one protocol, one implementation per file."""

from knotwise.evidence.residual.base import Pulled, RowAdjoints, Sites, Summed, check_rows, residual_of
from knotwise.evidence.residual.neighbours import Neighbours
from knotwise.evidence.residual.ordering import vecchia_ordering

__all__ = ["Neighbours", "Pulled", "RowAdjoints", "Sites", "Summed", "check_rows", "residual_of", "vecchia_ordering"]
