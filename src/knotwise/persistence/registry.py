"""The parts that a model file may name: knotwise's own kernels, likelihoods, means, selectors and optimisers.

A file names a class of this list and the values of its arguments, nothing else; so loading one runs no code but
theirs. What is not in the list cannot be saved.
"""

from __future__ import annotations

from knotwise import kernels, knots, means, optimize
from knotwise.likelihoods import LIKELIHOODS
from knotwise.nugget import NoNugget, Nugget

__all__ = ["FAMILIES", "HOMES"]

FAMILIES: dict[str, dict[str, type]] = {
    family: {cls.__name__: cls for cls in classes}
    for family, classes in {
        "kernel": (
            kernels.SquaredExponential,
            kernels.Matern12,
            kernels.Matern32,
            kernels.Matern52,
            kernels.RationalQuadratic,
            kernels.Periodic,
            kernels.Linear,
            kernels.Constant,
            kernels.Sum,
            kernels.Product,
            kernels.OnColumns,
        ),
        "likelihood": tuple(LIKELIHOODS.values()),
        "mean": (means.Zero, means.Constant, means.Linear),
        "nugget": (Nugget, NoNugget),
        "knots": (
            knots.Auto,
            knots.Fixed,
            knots.GreedyVariance,
            knots.KMeans,
            knots.OneAtATime,
            knots.Simultaneous,
        ),
        "proposal": (knots.BayesOpt, knots.EvidenceGain, knots.RandomSubset, knots.ResidualVariance),
        "optimizer": (optimize.LBFGS, optimize.Adadelta),
    }.items()
}

#: the family and the name of each class; a subclass of one is another class, and has none
HOMES: dict[type, tuple[str, str]] = {
    cls: (family, name) for family, classes in FAMILIES.items() for name, cls in classes.items()
}
