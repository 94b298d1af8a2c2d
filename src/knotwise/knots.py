"""Knot selection: how many knots, and where."""

from knotwise.decisions.auto import Auto
from knotwise.selection.base import FittedAt, Selection, Selector, Stage
from knotwise.selection.bayesopt import BayesOpt
from knotwise.selection.fixed import Fixed, Simultaneous
from knotwise.selection.greedy import GreedyVariance, KMeans
from knotwise.selection.initial import initial_knots
from knotwise.selection.oneatatime import OneAtATime
from knotwise.selection.problem import Problem
from knotwise.selection.proposals import EvidenceGain, GrowthState, Proposal, Proposed, RandomSubset, ResidualVariance
from knotwise.selection.trace import Action, KnotStep, KnotTrace

__all__ = [
    "Action",
    "Auto",
    "BayesOpt",
    "EvidenceGain",
    "FittedAt",
    "Fixed",
    "GreedyVariance",
    "GrowthState",
    "KMeans",
    "KnotStep",
    "KnotTrace",
    "OneAtATime",
    "Problem",
    "Proposal",
    "Proposed",
    "RandomSubset",
    "ResidualVariance",
    "Selection",
    "Selector",
    "Simultaneous",
    "Stage",
    "initial_knots",
]
