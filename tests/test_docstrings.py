"""Every public name is documented: what it is, what it takes and gives back, and an example, which `make doctest` runs.

The rule, for all that `__all__` of the public packages names, for the objects that methods of estimators return, and
for every public method of these classes that is knotwise's own:

- a summary of one line, which is a sentence; no placeholder;
- Parameters that are exactly those of the signature, each with a type and a description (for a record, Attributes);
- Returns with a type and a description, unless it returns None;
- an example that calls it. Functions and methods of estimators have their own; a method of another class may be called
  in the example of its class or of a base class.

A method that overrides another may inherit its docstring, as `help` shows it. Properties have a sentence.
"""

import importlib
import inspect

import pytest

import knotwise
from docstrings import faults_of_class, faults_of_function

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
    "knotwise.spatial",
    "knotwise.testing",
)
#: objects that users get from the methods of estimators, and hold in their hands
RETURNED = {
    "knotwise.crossvalidation.result": ["CrossValidation"],
    "knotwise.diagnosis.certificate": ["Certificate"],
    "knotwise.diagnosis.diagnose": ["Diagnosis"],
    "knotwise.diagnosis.findings": ["Finding"],
    "knotwise.estimators.coefficients": ["Coefficients"],
    "knotwise.estimators.scoring": ["ResponseScorer"],
    "knotwise.estimators.summary": ["Summary"],
    "knotwise.estimators.totals": ["Totals"],
    "knotwise.estimators.variogram": ["Variogram"],
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


def test_no_public_package_is_left_out():
    named = {f"knotwise.{name}" for name in knotwise.__all__ if inspect.ismodule(getattr(knotwise, name))}
    assert named <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_public_package_says_what_it_is(package):
    assert len(inspect.getdoc(importlib.import_module(package)).split()) >= 3


# -- the reader of docstrings itself ------------------------------------------------------------------------------


def documented(first, second=2):
    """Add two numbers.

    Parameters
    ----------
    first, second : float
        The numbers to add.

    Returns
    -------
    float
        Their sum.

    Examples
    --------
    >>> documented(1)
    3
    """
    return first + second


def test_a_complete_docstring_has_no_fault():
    assert faults_of_function(documented) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("first, second : float", "first : float", "no parameter 'second'"),
        ("first, second : float", "first, second, third : float", "'third' is not a parameter"),
        ("first, second : float", "first, second", "no type of 'first, second'"),
        ("The numbers to add.", "", "no description of 'first, second'"),
        ("Add two numbers.", "", "no docstring"),
        ("Add two numbers.", "Add two numbers", "the summary is no sentence"),
        ("Add two numbers.", "TODO: say what it does.", "placeholder 'TODO'"),
        ("Their sum.", "", "no description of what it returns ('float')"),
        ("Returns\n    -------\n    float\n        Their sum.\n", "", "no Returns"),
        (">>> documented(1)", ">>> 1 + 2", "no example that calls it"),
        ("Examples\n    --------", "Examples\n    ---", "no example that calls it"),
    ],
)
def test_each_fault_of_a_docstring_is_found(old, new, fault):
    assert old in documented.__doc__
    assert fault in faults_of_function(documented, doc=documented.__doc__.replace(old, new))


def test_a_method_needs_an_example_of_its_own_where_its_class_is_an_estimator():
    class Adder:
        """Adds one.

        Examples
        --------
        >>> Adder().add(1)
        2
        """

        def add(self, number):
            """Add one to a number.

            Parameters
            ----------
            number : float
                Where to begin.

            Returns
            -------
            float
                One more.
            """
            return number + 1

    Adder.__module__ = Adder.add.__module__ = "knotwise.adder"
    assert faults_of_class(Adder, own_examples=False) == []
    assert faults_of_class(Adder, own_examples=True) == [".add: no example that calls it"]
