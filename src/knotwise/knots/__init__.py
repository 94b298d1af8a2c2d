"""Knot selection: how many knots, and where."""

from knotwise.knots.actions import Action
from knotwise.knots.automatic.auto import Auto
from knotwise.knots.bayesopt import BayesOpt
from knotwise.knots.fixed import Fixed
from knotwise.knots.greedy import GreedyVariance, KMeans
from knotwise.knots.initial import initial_knots
from knotwise.knots.oneatatime import OneAtATime
from knotwise.knots.problem import Problem
from knotwise.knots.proposals import EvidenceGain, GrowthState, Proposal, Proposed, RandomSubset, ResidualVariance
from knotwise.knots.selection import FittedAt, Selection, Selector, Stage
from knotwise.knots.simultaneous import Simultaneous
from knotwise.knots.trace import KnotStep, KnotTrace

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
