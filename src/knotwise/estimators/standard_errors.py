"""Standard errors of a fit's parameters, in the user's units: computed when they are first asked for, and kept."""

from __future__ import annotations

from typing import Any

from knotwise.data.validation import check_jobs
from knotwise.decisions.thresholds import STANDARD_ERRORS
from knotwise.estimators.fitted import Fit
from knotwise.estimators.variogram import Variogram, variogram_of
from knotwise.numerics.blocks import executor_for
from knotwise.numerics.parameters import ParameterTable
from knotwise.numerics.standard_errors import ParameterErrors
from knotwise.selection.curvature import n_products, parameter_errors

__all__ = ["FitErrors"]


class FitErrors:
    """What `parameters_` of a fitted estimator asks for standard errors."""

    def __init__(self, fit: Fit, n_jobs: Any) -> None:
        self.fit, self.n_jobs = fit, n_jobs
        self.known = fit.errors

    def errors(self, compute: bool | None) -> ParameterErrors:
        if self.known is None and compute is not False:
            problem, n = self.fit.training, len(self.fit.table)
            if problem is None:
                why = "Standard errors need the data of the fit, which this file does not have."
                return ParameterErrors.none(n, why)
            if compute is None and n_products(problem, self.fit.selection) > STANDARD_ERRORS.budget:
                why = (
                    "Standard errors take long for so many rows, knots and parameters, and are left out:\n"
                    "`parameters_.standard_errors(compute=True)` computes them, and then they are shown here."
                )
                return ParameterErrors.none(n, why)
            self.known = self._computed()
        return ParameterErrors.none(len(self.fit.table), "") if self.known is None else self.known

    def variogram(self, table: ParameterTable, compute: bool | None) -> Variogram:
        return variogram_of(self.fit.scaling.to_user(self.fit.model), table, self.errors(compute))

    def _computed(self) -> ParameterErrors:
        with executor_for(check_jobs(self.n_jobs)) as executor:
            found = parameter_errors(self.fit.problem.computed_by(executor), self.fit.selection)
        return self.fit.scaling.errors_to_user(self.fit.table, found)
