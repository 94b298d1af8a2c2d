"""The paper's claims in words, one by one, judged by the rows of each setting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from knotwise_reproduction.judging import Finding
from knotwise_reproduction.results import Results, Row
from knotwise_reproduction.statements import STATEMENTS

__all__ = ["Claim", "judge_claims"]


@dataclass(frozen=True)
class Claim:
    """What the paper says and where, and what the rows of a setting say to it.

    `verdict` is "holds", "holds in part", "does not hold here", "not computed" where the rows lack a number that the
    claim needs, or "not run"; `evidence` a sentence with the numbers.
    """

    text: str
    where: str
    setting: str
    verdict: str
    evidence: str


def judge_claims(rows: Iterable[Row]) -> list[Claim]:
    """Every claim in every setting that can judge it, in the paper's order."""
    results = Results(rows)
    claims = []
    for statement in STATEMENTS:
        for setting in statement.settings:
            finding = statement.judge(results, setting)
            claims.append(Claim(statement.text, statement.where, setting, finding.verdict, _evidence(finding)))
    return claims


def _evidence(finding: Finding) -> str:
    lack = f"{finding.lacking} comparisons lack a number: rows of an older run, to be run again"
    if finding.n:
        return f"{finding.words}{f'; {lack}' if finding.lacking else ''}."
    return f"{lack[0].upper()}{lack[1:]}." if finding.lacking else "No rows."
