"""From the state of an evidence, or of a file, to its posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from knotwise.evidence.full_sites import FullState
from knotwise.evidence.model import Rows
from knotwise.evidence.sparse import SparseState
from knotwise.posterior.base import Posterior
from knotwise.posterior.exact import ExactPosterior
from knotwise.posterior.knots import KnotPosterior
from knotwise.posterior.vecchia import VecchiaPosterior, VecchiaState

__all__ = ["posterior_of"]

POSTERIORS: dict[type, Callable[[Any], Posterior]] = {
    FullState: ExactPosterior,
    SparseState: KnotPosterior,
    VecchiaState: VecchiaPosterior,
}


def posterior_of(state: SparseState | FullState, rows: Rows | None = None) -> Posterior:
    """The posterior of a state; that of an evidence with Vecchia neighbours keeps its rows. A single row has none."""
    residual = state.model.residual
    if residual is not None and type(state) is SparseState:
        if residual.n_neighbors and rows is not None:
            state = VecchiaState.of(state, rows)
        else:
            state = replace(state, model=replace(state.model, residual=None))
    return POSTERIORS[type(state)](state)
