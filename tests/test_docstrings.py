"""Every public name is documented: what it is, what it takes and gives back, and an example that `make doctest` runs."""

import importlib
import inspect

import pytest
from docstrings import Docstring, faults_of_class, faults_of_function

PACKAGES = (
    "knotwise",
    "knotwise.datasets",
    "knotwise.errors",
    "knotwise.kernels",
    "knotwise.knots",
    "knotwise.likelihoods",
    "knotwise.means",
    "knotwise.metrics",
    "knotwise.optimize",
    "knotwise.plotting",
    "knotwise.priors",
    "knotwise.testing",
)
#: objects that users get from the methods of estimators, and hold in their hands
RETURNED = {
    "knotwise.diagnosis.certificate": ["Certificate"],
    "knotwise.diagnosis.diagnose": ["Diagnosis"],
    "knotwise.diagnosis.findings": ["Finding"],
    "knotwise.estimators.coefficients": ["Coefficients"],
    "knotwise.estimators.scoring": ["ResponseScorer"],
    "knotwise.estimators.summary": ["Summary"],
    "knotwise.estimators.totals": ["Totals"],
    "knotwise.evidence": ["Evidence"],
    "knotwise.numerics.estimates": ["Estimate", "Estimates"],
    "knotwise.numerics.parameters": ["ParameterTable"],
    "knotwise.numerics.standard_errors": ["ParameterErrors"],
    "knotwise.posterior": ["Latent"],
    "knotwise.progress": ["FitEvent"],
}


def public_names():
    """Every public class and function once, by the name under which it is first met."""
    modules = {name: importlib.import_module(name).__all__ for name in PACKAGES} | RETURNED
    seen = {}
    for home, names in modules.items():
        for name in names:
            value = getattr(importlib.import_module(home), name)
            if inspect.isclass(value) or callable(value):
                seen.setdefault(id(value), (f"{home}.{name}", value))
    return dict(seen.values())


PUBLIC = public_names()


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_takes_and_gives_and_has_an_example(name):
    value = PUBLIC[name]
    if inspect.isclass(value):
        faults = faults_of_class(value, own_examples=hasattr(value, "fit"))
    else:
        faults = faults_of_function(value)
    assert not faults, f"{name}:\n" + "\n".join(faults)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_public_package_says_what_it_is(package):
    assert len(inspect.getdoc(importlib.import_module(package)).split()) >= 3
