"""Every public name is documented: what it is, what it takes and gives back, and an example, which `make doctest` runs.

The rule, for all that `__all__` of the public packages names, for the objects that methods of estimators return, and
for every public method of these classes that is knotwise's own:

- a summary of one line, which is a sentence; no placeholder;
- Parameters that are exactly those of the signature, each with a type, a description and the default of the signature,
  `level : float, default 0.95`, or "optional" where that is None (for a record, Attributes);
- Returns with a type and a description, unless it returns None;
- an example that calls it. Functions and methods of estimators have their own; a method of another class may be called
  in the example of its class or of a base class. No example is skipped;
- of estimators, every attribute that a fit sets.

A method that overrides another may inherit its docstring, as `help` shows it. Properties have a sentence.
"""

import importlib
import inspect
import re

import numpy as np
import pandas as pd
import pytest

import knotwise
from docstrings import Docstring, faults_of_class, faults_of_function, methods_of
from knotwise import GPClassifier, GPRegressor

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
    "knotwise.diagnosis.certify": ["Certificate"],
    "knotwise.diagnosis.diagnose": ["Diagnosis"],
    "knotwise.diagnosis.findings": ["Finding", "Place"],
    "knotwise.diagnosis.autocorrelation": ["AutocorrelationTest"],
    "knotwise.diagnosis.heteroscedasticity": ["HeteroscedasticityTest"],
    "knotwise.estimators.averaging": ["AveragedModel", "AveragedModels"],
    "knotwise.estimators.classes": ["ByClass"],
    "knotwise.estimators.coefficients": ["Coefficients", "Contrast"],
    "knotwise.estimators.effects": ["Effect", "Effects"],
    "knotwise.data.encoding": ["Encoding"],
    "knotwise.estimators.noise": ["NoiseEstimate"],
    "knotwise.estimators.scoring": ["ResponseScorer"],
    "knotwise.estimators.summary": ["Summary"],
    "knotwise.estimators.totals": ["Totals"],
    "knotwise.estimators.variogram": ["Variogram"],
    "knotwise.evidence": ["Evidence"],
    "knotwise.evidence.model": ["Point"],
    "knotwise.evidence.scores": ["KnotScores", "RowScores"],
    "knotwise.selection.trace": ["Status"],
    "knotwise.means": ["Term"],
    "knotwise.numerics.estimates": ["Estimate", "Estimates"],
    "knotwise.noise": ["Noise"],
    "knotwise.numerics.parameters": ["DataValue", "ParameterTable"],
    "knotwise.numerics.standard_errors": ["ParameterErrors"],
    "knotwise.posterior.base": ["Latent"],
    "knotwise.posterior.residuals": ["LeaveOneOut"],
    "knotwise.progress": ["FitEvent"],
    "knotwise.spatial.cell_size": ["Step"],
}
#: types in signatures of those who write selectors, kernels or inference of their own, and Python's and NumPy's
OTHER_TYPES = {
    "Any",
    "Axes",
    "EffectAxes",
    "Facts",
    "Floats",
    "Inference",
    "Jitter",
    "Kind",
    "KnotSums",
    "Mapping",
    "MetadataRequest",
    "None",
    "OptimizerSettings",
    "PairsPullback",
    "Part",
    "Path",
    "Prior",
    "Pullback",
    "Result",
    "RowSummary",
    "Rows",
    "Self",
    "Vector",
}


def public_names():
    """Every public class and function once, by the name under which it is first met."""
    modules = [(name, importlib.import_module(name).__all__) for name in PACKAGES]
    seen = {}
    for home, names in (*modules, *RETURNED.items()):
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


def test_what_public_functions_return_is_documented_too():
    found = {}
    for name, value in PUBLIC.items():
        methods = methods_of(value) if inspect.isclass(value) else []
        for function in [method.function for method in methods] or [value]:
            for word in re.findall(r"\b[A-Z]\w+", str(getattr(function, "__annotations__", {}).get("return", ""))):
                found[word] = f"{name}.{function.__name__}"
    known = {name.rpartition(".")[2] for name in PUBLIC} | OTHER_TYPES
    assert not {word: where for word, where in found.items() if word not in known}


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_every_attribute_that_a_fit_sets_is_documented(n_classes):
    X = pd.DataFrame({"a": np.linspace(0, 1, 12), "b": np.tile([0.0, 1.0], 6)})
    y = np.arange(12) % n_classes if n_classes else np.sin(6 * X["a"])
    gp = (GPClassifier if n_classes else GPRegressor)(knots=2, optimizer=None).fit(X, y)
    told = [head.partition(" : ")[0] for head, _ in Docstring.of(type(gp).__doc__).entries("Attributes")]
    names = {name.strip() for names in told for name in names.split(",")}
    made = {name for name in dir(gp) if name.endswith("_") and not name.startswith("_")}
    assert made == names


@pytest.mark.parametrize("package", PACKAGES)
def test_a_public_package_says_what_it_is(package):
    assert len(inspect.getdoc(importlib.import_module(package)).split()) >= 3


# -- the reader of docstrings itself ------------------------------------------------------------------------------


def documented(first, second=2):
    """Add two numbers.

    Parameters
    ----------
    first : float
        The number to begin with.
    second : float, default 2
        The number to add.

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
        ("    second : float, default 2\n", "", "no parameter 'second'"),
        ("first : float", "first, third : float", "'third' is not a parameter"),
        ("first : float", "first", "no type of 'first'"),
        ("The number to add.", "", "no description of 'second'"),
        ("float, default 2", "float", "no default of 'second'"),
        ("float, default 2", "float, optional", "no default of 'second'"),
        ("float, default 2", "float, default 3", "the default of 'second' is 2"),
        ("first : float", "first : float, default 1", "'first' has no default"),
        (">>> documented(1)", ">>> documented(1)  # doctest: +SKIP", "an example that is not run"),
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


def test_what_a_docstring_leaves_out_is_completed_in_the_order_of_the_signature():
    from knotwise.docstrings import documented

    @documented({"a": ("float", "The first."), "c": ("int", "The third.")})
    class Shape:
        """A shape.

        Examples
        --------
        >>> 1
        """

        def __init__(self, a, c=1):
            pass

        def area(self, a, b, c):
            """Its area.

            Parameters
            ----------
            b : str
                The second.

            Returns
            -------
            float
                Its area.
            """

        def unknown(self, a, d):
            """Nobody knows d."""

    sections = "Parameters\n----------\na : float\n    The first.\n"
    assert Shape.__doc__ == f"A shape.\n\n{sections}c : int\n    The third.\n\nExamples\n--------\n>>> 1"
    told = Docstring.of(Shape.area.__doc__).entries("Parameters")
    assert told == [("a : float", "The first."), ("b : str", "The second."), ("c : int", "The third.")]
    assert "Returns\n-------\nfloat" in Shape.area.__doc__ and Shape.unknown.__doc__ == "Nobody knows d."


@pytest.mark.parametrize("estimator", [GPRegressor, GPClassifier])
def test_paragraphs_that_estimators_share_stand_in_their_docstrings(estimator):
    own = [estimator, *(getattr(estimator, name) for name in dir(estimator) if not name.startswith("__"))]
    left = [value for value in own if re.search(r"^ *\{\w+\}$", inspect.getdoc(value) or "", re.MULTILINE)]
    assert not left
    assert "n_neighbors : " in estimator.__doc__ and "in the units and with the columns" in estimator.predict.__doc__
