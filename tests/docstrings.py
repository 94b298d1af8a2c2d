"""Reads numpydoc docstrings and says what is missing in them; `test_docstrings.py` asks it about every public name."""

import enum
import inspect
import re
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property

SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "See Also", "Notes", "References", "Examples")
PLACEHOLDER = re.compile(
    r"\b(TODO|TBD|FIXME|XXX|lorem)\b|[Ss]ame as (in )?`?GP|other parameters are those of|as for `GP"
)


@dataclass
class Docstring:
    """The parts of a docstring: sections as lines, without their common indent."""

    text: str
    sections: dict = field(default_factory=dict)

    @classmethod
    def of(cls, text):
        lines = inspect.cleandoc(text or "").split("\n")
        heads = [
            i
            for i in range(len(lines) - 1)
            if lines[i] in SECTIONS and re.fullmatch(r"-+", lines[i + 1]) and len(lines[i + 1]) == len(lines[i])
        ]
        ends = [*heads, len(lines)][1:]
        sections = {lines[i]: lines[i + 2 : end] for i, end in zip(heads, ends, strict=True)}
        return cls("\n".join(lines[: heads[0]] if heads else lines).strip(), sections)

    def entries(self, section):
        """The (head, description) pairs of a section: a head has no indent, its description has one."""
        found = []
        for line in self.sections.get(section, []):
            if line.strip() and not line.startswith(" "):
                found.append((line, []))
            elif line.strip() and found:
                found[-1][1].append(line.strip())
        return [(head, " ".join(lines)) for head, lines in found]

    @property
    def examples(self):
        return "\n".join(line for line in self.sections.get("Examples", []) if line.startswith((">>>", "...")))


def arguments(function, *, bound):
    """Names of a signature, as a docstring has them; the first is left out where the function is bound to an object."""
    found = list(inspect.signature(function).parameters.values())
    return [p.name for p in (found[1:] if bound else found) if not p.name.startswith("_")]


def faults_of_defaults(doc, function):
    """What is not said, or wrongly, of the value that a parameter has if nobody gives it."""
    parameters, faults = inspect.signature(function).parameters, []
    for head, _ in doc.entries("Parameters"):
        names, _, kind = head.partition(" : ")
        for name in (name.strip().lstrip("*") for name in names.split(",")):
            default = parameters[name].default if name in parameters else inspect.Parameter.empty
            said = re.search(r"\bdefault (.+)$", kind)
            if default is inspect.Parameter.empty:
                faults += [f"{name!r} has no default"] if said or "optional" in kind else []
            elif said:
                right = said[1].replace('"', "'") == repr(default)
                faults += [] if right else [f"the default of {name!r} is {default!r}"]
            elif "optional" not in kind or isinstance(default, str | int | float | tuple):
                faults.append(f"no default of {name!r}")
    return faults


def faults_of_parameters(doc, wanted, section="Parameters"):
    entries = [(head.partition(" : "), text) for head, text in doc.entries(section)]
    told = [name.strip().lstrip("*") for (names, _, _), _ in entries for name in names.split(",")]
    faults = [f"no parameter {name!r}" for name in wanted if name not in told]
    faults += [f"{name!r} is not a parameter" for name in told if name not in wanted]
    faults += [f"no type of {head[0]!r}" for head, _ in entries if not head[2].strip()]
    faults += [f"no description of {head[0]!r}" for head, text in entries if len(text) < 8]
    return faults


def faults_of_returns(doc, function):
    if inspect.signature(function).return_annotation in (None, "None"):
        return []
    entries = doc.entries("Returns") + doc.entries("Yields")
    if not entries:
        return ["no Returns"]
    return [f"no description of what it returns ({head!r})" for head, text in entries if len(text) < 8]


def faults_of_text(doc):
    first = doc.text.split("\n\n")[0]
    if not first:
        return ["no docstring"]
    faults = [] if first.rstrip().endswith((".", "?", ":")) else ["the summary is no sentence"]
    faults += [] if "\n" not in first else ["the summary has more than one line"]
    whole = "\n".join([doc.text, *(line for lines in doc.sections.values() for line in lines)])
    faults += ["an example that is not run"] if re.search(r"doctest:.*SKIP", whole) else []
    return faults + [f"placeholder {hit.group()!r}" for hit in PLACEHOLDER.finditer(whole)]


def faults_of_function(function, *, doc=None, bound=False, examples_of=()):
    """What is missing in the docstring of a function; its example may be in `examples_of`, texts of other examples."""
    doc = Docstring.of(inspect.getdoc(function) if doc is None else doc)
    faults = faults_of_text(doc)
    if faults == ["no docstring"]:
        return faults
    faults += faults_of_parameters(doc, arguments(function, bound=bound)) + faults_of_returns(doc, function)
    faults += faults_of_defaults(doc, function)
    called = r"\w\(" if function.__name__ == "__call__" else rf"\b{function.__name__}\("
    if not any(re.search(called, text) for text in (doc.examples, *examples_of)):
        faults.append("no example that calls it")
    return faults


@dataclass(frozen=True)
class Method:
    """A public method or property as a class has it: its own docstring, or the one that it inherits."""

    name: str
    value: object
    doc: str | None

    @classmethod
    def of(cls, owner, name):
        """None for attributes, and for what another package has defined."""
        home = next(each for each in owner.__mro__ if name in vars(each))
        value = vars(home)[name]
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", value)
        if not home.__module__.startswith("knotwise") or not inspect.isfunction(function):
            return None
        if not function.__module__.startswith("knotwise"):  # scikit-learn's `set_fit_request` and the like
            return None
        return cls(name, value, inspect.getdoc(getattr(owner, name)))

    @property
    def function(self):
        """The function behind it."""
        return getattr(self.value, "__func__", None) or getattr(self.value, "fget", None) or self.value


def methods_of(owner):
    names = [name for name in dir(owner) if not name.startswith("_") or name == "__call__"]
    return [found for name in names if (found := Method.of(owner, name))]


def faults_of_class(cls, *, own_examples):
    """What is missing in the docstrings of a class and of its public methods, as a list of sentences.

    An estimator's methods have examples of their own (`own_examples`). A method of another class is called in an
    example too: in its own, or in that of its class or of a base of its class.
    """
    doc = Docstring.of(vars(cls).get("__doc__"))
    faults = faults_of_text(doc)
    if makes_its_own_objects(cls):
        # a record, which users read and do not make, has attributes
        section = "Attributes" if is_dataclass(cls) and "Attributes" in doc.sections else "Parameters"
        faults += faults_of_parameters(doc, arguments(cls, bound=False), section) + faults_of_defaults(doc, cls)
    if not doc.examples:
        faults.append("no example")
    examples = [] if own_examples else [Docstring.of(vars(base).get("__doc__")).examples for base in cls.__mro__]
    for method in methods_of(cls):
        if isinstance(method.value, property | cached_property):
            found = faults_of_text(Docstring.of(method.doc))
        else:
            found = faults_of_function(
                getattr(method.value, "__func__", method.value),
                doc=method.doc or "",
                bound=not isinstance(method.value, staticmethod),
                examples_of=examples,
            )
        faults += [f".{method.name}: {fault}" for fault in found]
    return faults


def makes_its_own_objects(cls):
    """Whether users, or the library for them, make its objects by arguments that a docstring has to explain."""
    if issubclass(cls, enum.Enum) or getattr(cls, "_is_protocol", False):
        return False
    init = cls.__init__
    return inspect.isfunction(init) and init.__module__.startswith("knotwise")
