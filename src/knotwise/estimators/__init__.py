"""Estimators: scikit-learn's face of knotwise."""

from knotwise.estimators.classifier import GPClassifier
from knotwise.estimators.regressor import GPRegressor

__all__ = ["GPClassifier", "GPRegressor"]
