"""The house in order: parts, states and posteriors are asked, and not looked at by their type."""

import ast
import importlib
import pkgutil
from pathlib import Path

import knotwise
from knotwise.evidence.full_sites import FullState
from knotwise.evidence.sparse import SparseState
from knotwise.kernels import Kernel
from knotwise.likelihoods import Likelihood
from knotwise.means import Mean
from knotwise.noise import Nugget
from knotwise.posterior.base import Posterior

SOURCE = Path(knotwise.__file__).parent
FAMILIES = (Kernel, Likelihood, Mean, Nugget, FullState, SparseState, Posterior)
MOST_LOOKS = 14


def own_classes():
    """All classes of the package, by name."""
    found = {}
    for module in pkgutil.walk_packages([str(SOURCE)], "knotwise."):
        if not module.name.endswith("__main__") and ".plotting" not in module.name:
            own = vars(importlib.import_module(module.name)).values()
            found |= {each.__name__: each for each in own if isinstance(each, type)}
    return found


def is_part(cls):
    """Whether a class is a kernel, likelihood, mean, nugget, inference, residual, state or posterior."""
    inference, residual = ("refuses", "fit"), ("see", "pull", "knots_bar")  # of protocols: by what they can do
    return issubclass(cls, FAMILIES) or any(all(hasattr(cls, n) for n in names) for names in (inference, residual))


def looks(tree, parts):
    """Lines of `isinstance` and `issubclass` whose second argument names a part."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            inner = list(ast.walk(node.args[1]))
            names = {getattr(each, "id", None) for each in inner} | {getattr(each, "attr", None) for each in inner}
            if names & parts:
                yield node.lineno


def test_parts_are_asked_and_not_looked_at_by_their_type():
    parts = {name for name, cls in own_classes().items() if is_part(cls)}
    assert {"KnotPosterior", "VecchiaState", "Variational", "Neighbours", "Independent", "Matern32", "Poisson"} <= parts
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in looks(ast.parse(path.read_text(encoding="utf-8")), parts)
    ]
    assert len(found) <= MOST_LOOKS, found


def test_a_look_at_a_type_is_found_in_any_form():
    source = "isinstance(k, Kernel)\nassert isinstance(k, a.Sum | int)\nissubclass(c, (str, Sum))\nisinstance(k, str)"
    assert list(looks(ast.parse(source), {"Kernel", "Sum"})) == [1, 2, 3]
