"""Evidence: (model, data) -> Evidence(value, gradient, knot_gradient, state)."""

from knotwise.evidence.full import MAX_FULL_ROWS, full_evidence
from knotwise.evidence.model import Evidence, Jitter, Model, Rows
from knotwise.evidence.sparse import sparse_evidence

__all__ = ["MAX_FULL_ROWS", "Evidence", "Jitter", "Model", "Rows", "full_evidence", "sparse_evidence"]
