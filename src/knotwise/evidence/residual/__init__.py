"""What is done with what the knots leave of each row: one small protocol, one implementation per file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knotwise.evidence.residual.base import Pulled, Residual, RowAdjoints, Summed
from knotwise.evidence.residual.independent import Independent

if TYPE_CHECKING:
    from knotwise.evidence.model import Model

__all__ = ["Independent", "Pulled", "Residual", "RowAdjoints", "Summed", "residual_of"]

_INDEPENDENT = Independent()


def residual_of(model: Model) -> Residual:
    """The residual of a model: the one that it names, or independent rows with the model's power."""
    return _INDEPENDENT if model.residual is None else model.residual
