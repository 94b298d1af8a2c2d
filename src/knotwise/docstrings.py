"""Docstring fragments: what several functions say of a parameter is written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from textwrap import indent, wrap
from types import FunctionType
from typing import Any, TypeVar

__all__ = ["EXAMPLES", "documented", "filled"]

D = TypeVar("D", bound=Callable[..., Any])
#: a section of a numpydoc docstring, up to the next one
SECTION = r"\n\n{}\n-+\n(?P<entries>.*?)(?=\n\n\w[\w ]*\n---|\Z)"

#: what examples begin with, for `filled`
EXAMPLES = {
    "curve": """\
>>> import numpy as np
>>> from knotwise import GPRegressor
>>> X = np.linspace(0, 1, 24)[:, None]
>>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
>>> gp = GPRegressor(knots=5, random_state=0).fit(X, y)""",
    "smooth_curve": """\
>>> import numpy as np
>>> from knotwise import GPRegressor
>>> X = np.linspace(0, 1, 24)[:, None]
>>> y = np.sin(6 * X[:, 0])
>>> gp = GPRegressor(knots=5, random_state=0).fit(X, y)""",
    "saved_and_loaded": """\
>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> import knotwise
>>> X = np.linspace(0, 1, 24)[:, None]
>>> gp = knotwise.GPRegressor(knots=5, random_state=0).fit(X, np.sin(6 * X[:, 0]))
>>> with tempfile.TemporaryDirectory() as folder:
...     gp.save(Path(folder) / "model.knotwise")
...     again = knotwise.load(Path(folder) / "model.knotwise")
>>> bool((again.predict(X) == gp.predict(X)).all())
True""",
    "counts": """\
>>> import numpy as np
>>> from knotwise import GPRegressor
>>> X = np.linspace(0, 1, 24)[:, None]
>>> gp = GPRegressor(likelihood="poisson", knots=4, random_state=0).fit(X, np.arange(24) // 5)""",
    "two_classes": """\
>>> import numpy as np
>>> from knotwise import GPClassifier
>>> X = np.linspace(0, 1, 20)[:, None]
>>> y = np.repeat(["left", "right"] * 3, [7, 1, 2, 2, 1, 7])
>>> gp = GPClassifier(knots=3, random_state=0).fit(X, y)""",
}


def documented(fragments: Mapping[str, tuple[str, str]]) -> Callable[[D], D]:
    """Complete the Parameters of a function, or of a class and its own methods, by what is said of them elsewhere.

    `fragments` has type and description by the name of a parameter, and by "return" of what is returned. A docstring
    that has some parameters itself gets the others, in the order of the signature; one with a parameter of which nobody
    says anything stays as it is.
    """

    def decorate(owner: D) -> D:
        if not isinstance(owner, type):
            owner.__doc__ = _completed(inspect.cleandoc(owner.__doc__ or ""), owner, fragments)
            return owner
        methods = [member for member in vars(owner).values() if inspect.isfunction(member)]
        for each, function in [(owner, owner.__init__), *((method, method) for method in methods)]:  # type: ignore[misc]
            if each.__doc__ and each is not owner.__init__:  # type: ignore[misc]
                each.__doc__ = _completed(inspect.cleandoc(each.__doc__), function, fragments)
        return owner

    return decorate


def _completed(doc: str, function: Any, fragments: Mapping[str, tuple[str, str]]) -> str:
    own = re.search(SECTION.format("Parameters"), doc, re.S)
    blocks = re.split(r"\n(?=\S)", own["entries"]) if own else []
    known = {name.strip(): block for block in blocks for name in block.partition(" : ")[0].split(",")}
    entries: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        name = f"**{parameter.name}" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
        if name == "self":
            continue
        if name not in known and name not in fragments:
            return doc
        block = known[name] if name in known else _entry(name, *fragments[name])
        entries += [] if block in entries else [block]
    if not entries or set(entries) == set(blocks):
        return doc
    after = re.search(SECTION.format("(Returns|Examples)"), doc, re.S)
    start, stop = own.span() if own else [after.start() if after else len(doc)] * 2
    if "return" in fragments and "\nReturns\n" not in doc:
        kind, text = fragments["return"]
        entries += ["", "Returns", "-------", kind, f"    {text}"]
    return f"{doc[:start]}\n\nParameters\n----------\n" + "\n".join(entries) + doc[stop:]


def _entry(name: str, kind: str, text: str) -> str:
    return "\n".join([f"{name} : {kind}", *wrap(text, 112, initial_indent="    ", subsequent_indent="    ")])


def filled(paragraphs: Mapping[str, str]) -> Callable[[D], D]:
    """Put paragraphs where a line is `{name}`: into the docstring of a function, or of a class, its methods and
    properties.
    """

    def decorate(owner: D) -> D:
        for each in (owner, *(value for value in vars(owner).values() if isinstance(value, FunctionType | property))):
            if each.__doc__:
                lines = r"^( *)\{(\w+)\}$"
                each.__doc__ = re.sub(lines, lambda m: indent(paragraphs[m[2]], m[1]), each.__doc__, flags=re.MULTILINE)
        return owner

    return decorate
