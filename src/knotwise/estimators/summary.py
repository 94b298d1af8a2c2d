"""A fitted model in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from knotwise.kernels.base import Kernel
from knotwise.kernels.compose import OnColumns

__all__ = ["Summary", "summarize"]


class Summary(str):
    """Text that shows itself as it is, also at a prompt."""

    def __repr__(self) -> str:
        return str(self)


def summarize(model: Any, x_scale: np.ndarray, feature_names: Sequence[str] | None) -> Summary:
    """Describe a fitted estimator: size, evidence, parameters, length-scales in the units of the inputs."""
    names = list(feature_names or [f"column {i}" for i in range(len(x_scale))])
    knots = f"{model.n_knots_} knots" if model.n_knots_ else "exact GP"
    lines = [
        f"{type(model).__name__}: {knots}, log evidence {model.log_evidence_:.3f}",
        f"{'converged' if model.converged_ else 'NOT converged'}: {model.stop_reason_}",
        f"kernel {model.kernel_!r}",
    ]
    if model.jitter_:
        lines.append(f"jitter {model.jitter_:.0e} of the prior variance")
    lines += ["", str(model.parameters_)]
    if len(model.trace_):
        lines += ["", str(model.trace_)]
    own_units = list(_lengthscales(model.kernel_, x_scale, names))
    if own_units:
        width = max(len(column) for column, _ in own_units)
        lines += ["", "length-scales in the units of the inputs"]
        lines += [f"  {column:<{width}}  {value:.4g}" for column, value in own_units]
    return Summary("\n".join(lines))


def _lengthscales(kernel: Kernel, x_scale: np.ndarray, names: list[str]) -> Iterator[tuple[str, float]]:
    if isinstance(kernel, OnColumns):
        columns = kernel.indices()
        yield from _lengthscales(kernel.kernel, x_scale[columns], [names[c] for c in columns])
        return
    for child in kernel.children().values():
        yield from _lengthscales(child, x_scale, names)  # type: ignore[arg-type]
    if "lengthscale" in kernel.transforms and "period" not in kernel.transforms:
        yield from zip(names, np.broadcast_to(kernel.value("lengthscale"), len(names)) * x_scale, strict=True)
