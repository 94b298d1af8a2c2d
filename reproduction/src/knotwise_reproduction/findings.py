"""What a reproduction found, in a few sentences: pure functions of the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from knotwise_reproduction.claims import Claim
from knotwise_reproduction.data import KNOTWISE, PUBLISHED
from knotwise_reproduction.experiments import AUTO, EXPERIMENTS, FULL
from knotwise_reproduction.results import Results, Row, metric, number
from knotwise_reproduction.tables import MEASURES
from knotwise_reproduction.tables_short import describe_losses

__all__ = ["VERDICTS", "findings"]

#: from best to worst
VERDICTS = ("holds", "holds in part", "does not hold here", "not computed", "not run")
SETTINGS = {PUBLISHED: "the paper's settings", KNOTWISE: "knotwise's own settings"}
IN_WORDS = {"holds": "hold", "holds in part": "hold in part", "does not hold here": "do not hold here"}
#: by which an experiment is judged in a sentence, and where less of it is better
SCORES = ("srmse", "rmse", "mnlp")


def findings(rows: Sequence[Row], claims: Sequence[Claim]) -> list[str]:
    """How many of the paper's claims hold, what automatic knots do on each data set, and what near rows add."""
    results = Results(rows)
    judged = [sentence for setting in SETTINGS if (sentence := _claims(claims, setting))]
    automatic = [sentence for name in MEASURES if (sentence := _automatic(results, name))]
    losses = describe_losses(results)
    return [*judged, *automatic, *([f"Short length-scales, beyond the paper: {losses}"] if losses else [])]


def _claims(claims: Sequence[Claim], setting: str) -> str:
    counts = Counter(claim.verdict for claim in claims if claim.setting == setting)
    n_judged = sum(counts[verdict] for verdict in IN_WORDS)
    if not n_judged:
        return ""
    parts = [f"{counts[verdict]} {words}" for verdict, words in IN_WORDS.items() if counts[verdict]]
    return f"With {SETTINGS[setting]}, of {n_judged} claims that the rows can judge {', '.join(parts)}."


def _automatic(results: Results, name: str) -> str:
    """What automatic knots do on one data set, beside the exact GP."""
    score = next(measure for measure in MEASURES[name] if measure.key in SCORES)

    def middle(method: str, key: str) -> float | None:
        values = results.values(name, KNOTWISE, method, score.value if key == "score" else metric(key))
        return median(values) if values else None

    knots, own, exact = middle(AUTO.name, "n_knots"), middle(AUTO.name, "score"), middle(FULL.name, "score")
    seconds = middle(AUTO.name, "seconds")
    if knots is None or own is None or seconds is None:
        return ""
    size = f"{knots:g} knots" if knots else "the exact GP"
    beside = "" if exact is None else f" (the exact GP: {number(exact, '.3f')})"
    title = EXPERIMENTS[name].title.split(":")[0]
    return f"{title}: automatic choice takes {size}, {score.short} {number(own, '.3f')}{beside}, in {seconds:.1f} s."
