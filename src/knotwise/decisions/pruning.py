"""Knots that the others can do without, dropped in groups."""

from __future__ import annotations

import numpy as np

from knotwise.decisions.enough import Rule
from knotwise.decisions.thresholds import PRUNING
from knotwise.evidence import Point
from knotwise.evidence.scores import KnotSums
from knotwise.selection.base import Decision
from knotwise.selection.problem import Problem
from knotwise.selection.trace import KnotTrace


def decide(
    problem: Problem, theta: np.ndarray, Z: np.ndarray, tolerance: float, trace: KnotTrace, rule: Rule | None
) -> Decision[np.ndarray]:
    """Drop knots whose removal costs less log evidence than the tolerance, at fixed hyperparameters under VFE, as long
    as the others are enough by a rule; None where not even all of them are.

    One pass over all rows gives the sums from which the evidence of every subset follows, so that the choice costs
    O(K^3) for some groups of knots and no further pass; an evaluation confirms it, or it is taken back by halves.
    """
    whole_point = problem.point(theta, Z)
    sums = problem.knot_sums(whole_point)
    order = _cheap_knots(sums, tolerance)
    if not len(order) and not sums.sites_move:
        return Decision(Z, "no knot can be dropped", {"dropped": 0})

    def evaluate(dropped: np.ndarray) -> float:
        without = Point(theta, np.delete(Z, dropped, axis=0), whole_point.jitter)
        return problem.evaluate(without, gradient=False).value

    whole = value = evaluate(order[:0])
    while len(order):
        value = evaluate(order)
        if value > whole - tolerance * len(order):
            break
        order, value = order[: len(order) // 2], whole
    while sums.sites_move and len(Z) - len(order) > 1:  # held sites only tell nearly what a knot is worth
        more = _nearly_cheap(problem, theta, Z, order, tolerance)
        values = [evaluate(np.append(order, k)) for k in more]
        if not values or max(values) <= value - tolerance:
            break
        order, value = np.append(order, more[int(np.argmax(values))]), max(values)
    allowed = _as_the_rule_allows(problem, theta, Z, order, rule)
    if len(allowed) < len(order):
        order, value = allowed, evaluate(allowed)
    why = f"{len(order)} knots dropped at less than {tolerance:g} nats each"
    if len(order):
        word, count = problem.inference.word, problem.summary.count
        trace.add("prune", len(Z) - len(order), value, n_rows=count, note=why, inference=word)
    return Decision(np.delete(Z, order, axis=0), why, {"dropped": len(order)})


def _as_the_rule_allows(
    problem: Problem, theta: np.ndarray, Z: np.ndarray, order: np.ndarray, rule: Rule | None
) -> np.ndarray:
    """All knots to drop, or half of them, or a quarter, the first ones first, if the others are enough; else none."""
    if rule is None or not len(order):
        return order
    for n_dropped in dict.fromkeys((len(order), len(order) // 2, len(order) // 4)):
        if rule.are_enough(problem.scores(problem.point(theta, np.delete(Z, order[:n_dropped], axis=0)))):
            return order[:n_dropped]
    return order[:0]


def _cheap_knots(sums: KnotSums, tolerance: float) -> np.ndarray:
    """Numbers of knots to drop, the first ones first: in groups, since losses of several do not add up.

    Of two knots that stand for each other both seem to be free. So a group of cheap knots goes if together they cost
    little, and else the cheaper half of it.
    """
    left, order = np.arange(len(sums.Kuu)), np.empty(0, int)
    while len(left) > 1:
        cheap = np.argsort(sums.losses, kind="stable")
        cheap = cheap[sums.losses[cheap] < tolerance][: len(left) - 1]
        while len(cheap):
            without = sums.without(cheap)
            if without.value > sums.value - tolerance * len(cheap):
                break
            cheap = cheap[: len(cheap) // 2]
        else:
            return order
        order, left, sums = np.append(order, left[cheap]), np.delete(left, cheap), without
    return order


def _nearly_cheap(
    problem: Problem, theta: np.ndarray, Z: np.ndarray, order: np.ndarray, tolerance: float
) -> np.ndarray:
    """The cheapest of the knots that are left, where they cost about the tolerance or less."""
    left = np.delete(np.arange(len(Z)), order)
    losses = problem.knot_sums(problem.point(theta, Z[left])).losses
    cheap = np.argsort(losses, kind="stable")[: PRUNING.singles]
    return left[cheap[losses[cheap] < PRUNING.nearly * tolerance]]
