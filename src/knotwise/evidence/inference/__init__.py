"""Inference: how the sites of the observations are found. One protocol, one implementation per file."""

from __future__ import annotations

from knotwise.errors import InvalidInputError
from knotwise.evidence.inference.base import Inference, SiteFit
from knotwise.evidence.inference.conjugate import Conjugate, HeldSites
from knotwise.evidence.inference.ep import PowerEP
from knotwise.evidence.inference.laplace import Laplace
from knotwise.evidence.inference.scale_mixture import ScaleMixture
from knotwise.evidence.inference.variational import Variational
from knotwise.evidence.model import Model

__all__ = [
    "NAMED",
    "Conjugate",
    "HeldSites",
    "Inference",
    "Laplace",
    "PowerEP",
    "ScaleMixture",
    "SiteFit",
    "Variational",
    "inference_of",
]

#: those that have a word in options and files
NAMED: dict[str, Inference] = {known.word: known for known in (Laplace(), Variational(), PowerEP(), ScaleMixture())}

#: the first that does not refuse a model is the one that it gets, if it names none
DEFAULTS: tuple[Inference, ...] = (Conjugate(), Laplace())


def inference_of(model: Model) -> Inference:
    """The inference of a model: the one that it names, or the first of the defaults that can be used for it."""
    reasons = []
    for known in DEFAULTS if model.inference is None else (model.inference,):
        reason = known.refuses(model)
        if not reason:
            return known
        reasons.append(f"{known.name} cannot be used here: {reason}")
    raise InvalidInputError(" ".join(reasons))
