"""The latent models of an estimator, each with the class that it is of."""

from __future__ import annotations

from typing import Any

__all__ = ["models_of", "numbered", "of_class"]


def models_of(gp: Any) -> list[tuple[Any, Any]]:
    """The latent models and the class that each has the probability of, None for a regressor."""
    if not hasattr(gp, "classes_"):
        return [(None, gp)]
    labels = gp.classes_.tolist()
    return list(zip(labels[1:] if len(gp.models_) == 1 else labels, gp.models_, strict=True))


def of_class(gp: Any, label: Any) -> str:
    """Which model something is about, in words; nothing where there is one."""
    return f" (class {label!r})" if len(getattr(gp, "classes_", ())) > 2 else ""


def numbered(name: str, gp: Any, model: Any) -> str:
    """A name for a place in the page that is of one model; labels may have no letter in common with a link."""
    return f"{name}-{next(i for i, (_, each) in enumerate(models_of(gp)) if each is model)}"
