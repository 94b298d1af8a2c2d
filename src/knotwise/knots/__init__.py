"""Knot selection: how many knots, and where."""

from knotwise.knots.fixed import Fixed
from knotwise.knots.initial import initial_knots
from knotwise.knots.problem import Problem, Selection, Selector
from knotwise.knots.simultaneous import Simultaneous

__all__ = ["Fixed", "Problem", "Selection", "Selector", "Simultaneous", "initial_knots"]
