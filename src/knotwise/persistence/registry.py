"""The parts that a model file may name: knotwise's own kernels, likelihoods, means, priors, selectors and optimisers.

A file names a class that one of knotwise's packages exports in its `__all__`, and the values of its arguments, nothing
else; so loading one runs no code but that of these constructors. What is not exported there, such as a user's own
kernel, can neither be saved nor be loaded.
"""

from __future__ import annotations

from types import ModuleType

from knotwise import kernels, knots, likelihoods, means, nugget, optimize, priors

__all__ = ["FAMILIES", "HOMES"]


def exported(package: ModuleType, method: str, *bases: type) -> dict[str, type]:
    """The classes that a package exports and that have this method, by name; without those that are bases only."""
    members = [getattr(package, name) for name in package.__all__]
    return {cls.__name__: cls for cls in members if isinstance(cls, type) and hasattr(cls, method) and cls not in bases}


FAMILIES: dict[str, dict[str, type]] = {
    "kernel": exported(kernels, "value_and_pullback", kernels.Kernel, kernels.Stationary),
    "likelihood": exported(likelihoods, "derivatives", likelihoods.Likelihood),
    "mean": exported(means, "basis", means.Mean),
    "nugget": {cls.__name__: cls for cls in (nugget.Nugget, nugget.NoNugget)},
    "prior": exported(priors, "log_density"),
    "knots": exported(knots, "select", knots.Selector),
    "proposal": exported(knots, "propose", knots.Proposal),
    "optimizer": exported(optimize, "maximize", optimize.Optimizer),
}

#: the family and the name of each class; a subclass of one is another class, and has none
HOMES: dict[type, tuple[str, str]] = {
    cls: (family, name) for family, classes in FAMILIES.items() for name, cls in classes.items()
}
