"""Optimisers: one interface, one result."""

from knotwise.optimize.adadelta import Adadelta
from knotwise.optimize.base import Optimizer, OptimizeResult
from knotwise.optimize.lbfgs import LBFGS

__all__ = ["LBFGS", "Adadelta", "OptimizeResult", "Optimizer"]
