"""`knotwise summary` and `knotwise diagnose`: what a model is, and whether it can be trusted.

Predictions are compared with known values: are they near, and are intervals and probabilities right?
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, dataclass
from typing import Any

from knotwise.cli.command import UsageError, print_json, warnings_as_notes
from knotwise.cli.loading import choose_columns, load_model, observed_values, require_option
from knotwise.cli.reading import open_table
from knotwise.cli.rows import errors_with_places, read_rows
from knotwise.report.scores import Share, judge
from knotwise.report.words import models_of


def summary(arguments: Namespace) -> None:
    gp = load_model(arguments)
    if arguments.json:
        print_json(facts(gp))
    else:
        print(gp.summary())


def facts(gp: Any) -> dict[str, Any]:
    """What a model is, for machines."""
    names = getattr(gp, "feature_names_in_", None)
    found: dict[str, Any] = {
        "class": type(gp).__name__,
        "inputs": [f"column {i}" for i in range(gp.n_features_in_)] if names is None else [str(name) for name in names],
    }
    if hasattr(gp, "classes_"):
        found["classes"] = gp.classes_.tolist()
    return found | {"log_evidence": gp.log_evidence_, "models": [_model_facts(m, label) for label, m in models_of(gp)]}


def _model_facts(model: Any, label: Any) -> dict[str, Any]:
    return ({} if label is None else {"label": label}) | {
        "likelihood": type(model.likelihood_).__name__,
        "transform": None if model.transform_ is None else model.transform_.of(model._target_name or "y"),
        "kernel": repr(model.kernel_),
        "averaged": [{"kernel": repr(m.kernel), "weight": m.weight} for m in model.models_],
        "n_knots": model.n_knots_,
        "n_neighbors": model.n_neighbors_,
        "log_evidence": model.log_evidence_,
        "log_prior": model.log_prior_,
        "status": str(model.status_),
        "converged": bool(model.converged_),
        "stop_reason": model.stop_reason_,
        "jitter": model.jitter_,
        "parameters": model.parameters_.as_dict(),
    }


# -- diagnose -------------------------------------------------------------------------------------


def diagnose(arguments: Namespace) -> None:
    if (arguments.data is None) != (arguments.target is None):
        raise UsageError("To check predictions, give both a table DATA and the column of its values, --target.")
    gp = load_model(arguments)
    check = None
    if arguments.data is not None:
        with warnings_as_notes():
            check = check_predictions(gp, arguments)
    if arguments.json:
        found = diagnosis_facts(gp)
        if check is not None:
            found |= {"ok": found["ok"] and check.ok, "check": check.to_dict()}
        print_json(found)
        return
    print(diagnosis_text(gp))
    if check is not None:
        print(f"\n{check}")


def diagnosis_facts(gp: Any) -> dict[str, Any]:
    """The findings about each model, and whether all are well, for machines."""
    found = [({} if label is None else {"label": label}) | model.diagnose().to_dict() for label, model in models_of(gp)]
    return {"ok": all(diagnosis["ok"] for diagnosis in found), "diagnoses": found}


def diagnosis_text(gp: Any) -> str:
    """The findings about each model in words."""
    return "\n\n".join(
        f"{'' if label is None else f'class {label!r}: '}{model.diagnose()}" for label, model in models_of(gp)
    )


@dataclass(frozen=True)
class Check:
    """Scores of predictions on rows with known values."""

    table: str
    n_rows: int
    n_dropped: int
    scores: dict[str, float]
    shares: tuple[Share, ...]

    @property
    def ok(self) -> bool:
        """Whether every share is where a right model's would be."""
        return not any(share.problem for share in self.shares)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dicts."""
        return asdict(self) | {"ok": self.ok}

    def __str__(self) -> str:
        left_out = f" ({self.n_dropped} left out)" if self.n_dropped else ""
        lines = [f"predictions of {self.n_rows} rows of {self.table}{left_out}"]
        lines += [f"  {name.replace('_', ' '):<28} {value:.4g}" for name, value in self.scores.items()]
        lines += [f"  {share}" for share in self.shares]
        return "\n".join(lines)


def check_predictions(gp: Any, arguments: Namespace) -> Check:
    """Compare predictions with the values of a table."""
    require_option(gp, arguments)
    with open_table(arguments) as table:
        rows = read_rows(table, choose_columns(gp, table, arguments), drop_missing=arguments.drop_missing)
    with errors_with_places(rows, table):
        y = observed_values(gp, table, rows, arguments)
        prediction = gp._prediction(rows.X) if hasattr(gp, "classes_") else gp.predictive(rows.X, **rows.extras)
        scores, shares = judge(prediction, y)
    return Check(table.name, len(rows), rows.n_dropped, scores, tuple(shares))
