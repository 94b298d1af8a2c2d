"""Estimators: scikit-learn's face of knotwise."""

from knotwise.estimators.regressor import GPRegressor

__all__ = ["GPRegressor"]
