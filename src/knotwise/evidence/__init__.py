"""Evidence: (model, rows) -> Evidence(value, gradient, knot_gradient, state)."""

from knotwise.evidence.blocks import Blocks, InMemory
from knotwise.evidence.model import Evidence, Jitter, Model, Point, Rows
from knotwise.evidence.sparse import MAX_FULL_ROWS, full_evidence, sparse_evidence

__all__ = [
    "MAX_FULL_ROWS",
    "Blocks",
    "Evidence",
    "InMemory",
    "Jitter",
    "Model",
    "Point",
    "Rows",
    "full_evidence",
    "sparse_evidence",
]
