"""What a fit leaves behind."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from knotwise.data.scaling import Scaling
from knotwise.errors import KnotwiseError, NoTrainingDataError
from knotwise.evidence import Evidence, Model
from knotwise.evidence.model import Rows
from knotwise.numerics.blocks import single_threaded_blas
from knotwise.numerics.parameters import ParameterTable
from knotwise.numerics.standard_errors import ParameterErrors
from knotwise.posterior.base import Posterior, Shares
from knotwise.selection.base import Selection
from knotwise.selection.problem import Problem

__all__ = ["Fit"]


@dataclass(frozen=True)
class Fit:
    """The solution in the engine's units, and the way back to the user's.

    `table` has the parameters with which the fit began, and their bounds; `n_rows` the number of rows, each as often as
    it counts. `training` is the problem with the data, which a model from a file does not have, nor a pickled one whose
    rows are elsewhere, and `row_numbers` the rows of the user's data that its rows are, None for all. `size_given` says
    whether the data came with an exposure or trials, `noise_given` whether each row came with its own known noise.
    `noise_remark` is what was said of known noise that was too small; empty where it was used as given. `errors` are
    the standard errors of the parameters in the user's units that a file holds.
    """

    selection: Selection
    scaling: Scaling
    posterior: Posterior
    table: ParameterTable
    n_rows: int | float
    training: Problem | None = None
    row_numbers: np.ndarray | None = None
    size_given: bool = False
    noise_given: bool = False
    noise_remark: str = ""
    errors: ParameterErrors | None = None

    def __getstate__(self) -> dict[str, Any]:
        here = self.training is None or self.training.run.blocks.at_hand
        return self.__dict__ | ({} if here else {"training": None})

    @property
    def final(self) -> Evidence:
        """The evidence at the end, without gradients."""
        return self.selection.evidence

    @property
    def model(self) -> Model:
        """The model at the fitted parameters."""
        return self.posterior.state.model

    @property
    def n_neighbors(self) -> int:
        """How many Vecchia neighbours each row has."""
        return self.posterior.n_neighbors

    @cached_property
    def shares(self) -> Shares | None:
        """What knots, neighbours and noise explain of the variance of y; None without neighbours."""
        with single_threaded_blas(), np.errstate(all="ignore"), suppress(KnotwiseError):  # a file may have any numbers
            return self.posterior.shares()
        return None

    @property
    def rows_at_hand(self) -> Rows | None:
        """The training rows in the engine's units, where they are in this process: after a fit, or of the exact GP."""
        if self.training is not None and self.training.run.blocks.at_hand:
            return self.training.rows
        return self.posterior.rows if self.posterior.is_exact else None

    @property
    def inputs_at_hand(self) -> np.ndarray | None:
        """The inputs of the training rows alone, [N, D], which a model with neighbours holds too."""
        rows = self.posterior.rows if self.rows_at_hand is None else self.rows_at_hand
        return None if rows is None else rows.X

    @property
    def problem(self) -> Problem:
        """The problem that was solved."""
        if self.training is None:
            raise NoTrainingDataError(
                "This model comes from a file, which holds what predictions need and not the data of the fit, so the "
                "evidence cannot be evaluated. Fit again, or keep the whole estimator with pickle (of data in memory: "
                "what was fitted to a Dask collection is pickled without it)."
            )
        return self.training
