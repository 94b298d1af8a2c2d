"""What the paper says in words, and how rows can tell whether it is so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from knotwise_reproduction.data import DOMAIN, PUBLISHED, SETTINGS
from knotwise_reproduction.judging import Finding, Judge, each, known, lower, similar, times, together
from knotwise_reproduction.results import Results, Row, metric, spread

__all__ = ["STATEMENTS", "Statement"]


@dataclass(frozen=True)
class Statement:
    """A claim before it is judged."""

    text: str
    where: str
    judge: Judge
    settings: tuple[str, ...] = SETTINGS


# -- numbers of a row -----------------------------------------------------------------------------

AUKL, LATENT_AUKL, MNLP = metric("aukl_published"), metric("aukl_latent"), metric("mnlp")
MNLP_TWICE, RMSE, SRMSE = metric("mnlp_published"), metric("rmse"), metric("srmse")
SECONDS, KNOTS, NEAR, SPREAD = metric("seconds"), metric("n_knots"), metric("near_knots"), metric("spread")
STEPS = metric("gradient_steps")

#: of the simulated data's interval: a gap between knots that is longer leaves a part without any
WIDE_GAP = (DOMAIN[1] - DOMAIN[0]) / 4


def noise(row: Row) -> float | None:
    return row["parameters"].get("noise_variance")


def widest_gap(row: Row) -> float:
    """The longest part of the interval without a knot."""
    inside = np.clip(np.ravel(row["knots"]), *DOMAIN)
    return float(np.diff(np.sort([*inside, *DOMAIN])).max())


def near_share(row: Row) -> float | None:
    """The share of knots within a tenth of a length-scale of another."""
    near = NEAR(row)
    return near / row["n_knots"] if near is not None and row["n_knots"] else None


def has_near_knots(row: Row) -> bool | None:
    near = NEAR(row)
    return None if near is None else near > 0


def central_share(row: Row) -> float:
    """The share of knots in the inner half (by length) of the unit square, a quarter of its area."""
    return float(np.mean((np.abs(np.array(row["knots"]) - 0.5) < 0.25).all(1)))


# -- ways to judge that one claim needs -----------------------------------------------------------


def sixth_knot(name: str, words: str, smallest: float = -np.inf, largest: float = np.inf) -> Judge:
    """A number of the motivating example lies within limits."""

    def judge(results: Results, setting: str) -> Finding:
        values = results.values("motivation", setting, "FIC 5", metric(name))
        true, n = sum(smallest <= v <= largest for v in values), len(values)
        lacking = len(results.of("motivation", setting, "FIC 5")) - n
        return Finding(true, n, f"{spread(values, '.3g')} {words}", lacking=lacking)

    return judge


def noise_kept(experiment: str, methods: Iterable[str], contrast: str) -> Judge:
    """The noise variance is at least half that of the exact GP; the words have the contrast's too."""

    def ratios(results: Results, setting: str, method: str) -> list[float]:
        pairs = results.pairs(experiment, setting, method, "Full")
        return [a / b for one, other in pairs if (a := noise(one)) is not None and (b := noise(other))]

    def judge(results: Results, setting: str) -> Finding:
        found = [ratio for method in methods for ratio in ratios(results, setting, method)]
        beside = spread(ratios(results, setting, contrast), ".2f")
        words = f"{experiment}: {spread(found, '.2f')} times the full GP's under OAT, {beside} under {contrast}"
        return Finding(sum(ratio > 0.5 for ratio in found), len(found), words)

    return judge


def no_better(experiment: str) -> Judge:
    """OAT-BO's AUKL is not below that of OAT-RS, in at least half of the fits."""

    def judge(results: Results, setting: str) -> Finding:
        rows = results.pairs(experiment, setting, "OAT-BO 25", "OAT-RS 25")
        pairs = known(rows, AUKL)
        true, n = sum(a >= b for a, b in pairs), len(pairs)
        return Finding(true, n, f"{experiment}: no lower AUKL in {true} of {n}", enough=0.5, lacking=len(rows) - n)

    return judge


# -- the claims -----------------------------------------------------------------------------------

OATS = ("OAT-BO 25", "OAT-RS 25", "OAT-RS 50")
STARTS = ("uniform", "adversarial", "random")
GAUSSIAN_OATS = tuple(f"OAT {start}" for start in STARTS)
GAUSSIAN_SIMULTANEOUS = tuple(f"Simult. {start}" for start in STARTS)
POISSON_OATS = ("OAT uniform", "OAT random")
SIM = {"boston": ("Simult. 50", "Simult. 13"), "banana": ("Simult. 50",), "hickory": ("Simult. 50", "Simult. 28")}

STATEMENTS = (
    Statement(
        "A sixth knot on one of five leaves the log-likelihood as it was with five",
        "section 4, figure 2",
        sixth_knot("sixth_gap", "nats apart at most, at the five knots", largest=0.1),
        (PUBLISHED,),
    ),
    Statement(
        "There is a local optimum near every one of the five knots",
        "section 4, figure 2",
        sixth_knot("sixth_optima", "of 5 knots have one within a tenth of a length-scale or so", smallest=5),
        (PUBLISHED,),
    ),
    Statement(
        "From large regions, gradient ascent would leave the sixth knot where another is",
        "section 4",
        sixth_knot("sixth_stuck", "of the places climb to a knot that is there", smallest=0.1),
        (PUBLISHED,),
    ),
    Statement(
        "Whatever the start, OAT's and simultaneous knots span the input space (no gap of a quarter of it)",
        "section 5.2, figure 3",
        each(
            "gaussian",
            GAUSSIAN_OATS + GAUSSIAN_SIMULTANEOUS,
            lambda row: widest_gap(row) < WIDE_GAP,
            widest_gap,
            ".1f",
        ),
    ),
    Statement(
        "In every case at least two knots are so near that one is redundant (a tenth of a length-scale)",
        "section 5.2",
        each(
            "gaussian",
            GAUSSIAN_OATS + GAUSSIAN_SIMULTANEOUS,
            has_near_knots,
            NEAR,
            "g",
        ),
    ),
    Statement(
        "On simulated Gaussian data OAT-BO is always faster than simultaneous optimisation",
        "section 5.2, table of the Gaussian example",
        together(*(lower("gaussian", [f"OAT {s}"], [f"Simult. {s}"], SECONDS, ".2f") for s in STARTS)),
    ),
    Statement(
        "From the adversarial start it is about seven times as fast",
        "section 5.2, table of the Gaussian example",
        times("gaussian", ["Simult. adversarial"], ["OAT adversarial"], 7.3),
    ),
    Statement(
        "OAT takes more gradient steps than simultaneous optimisation, each cheaper",
        "section 5.2, table of the Gaussian example",
        together(*(lower("gaussian", [f"Simult. {s}"], [f"OAT {s}"], STEPS, "g") for s in STARTS)),
    ),
    Statement(
        "OAT's RMSE is like that of simultaneous optimisation (a factor of 1.5)",
        "appendix, table of the Gaussian example",
        together(*(similar("gaussian", [f"OAT {s}"], f"Simult. {s}", RMSE, 1.5) for s in STARTS)),
    ),
    Statement(
        "OAT adapts to the adversarial start: it places more knots than from the uniform one",
        "appendix, table of the Gaussian example",
        lower("gaussian", ["OAT uniform"], ["OAT adversarial"], KNOTS, "g"),
    ),
    Statement(
        "From uniform and random starts OAT chooses about the same number of knots (a factor of 1.25)",
        "appendix, table of the Gaussian example",
        similar("gaussian", ["OAT random"], "OAT uniform", KNOTS, 1.25),
    ),
    Statement(
        "The simultaneous fits to the Boston data did not converge in 1000 iterations; the others did",
        "section 6.1",
        together(
            each("boston", SIM["boston"], lambda row: not row["converged"], STEPS, "g"),
            each("boston", ("Full", *OATS), lambda row: row["converged"], STEPS, "g"),
        ),
        (PUBLISHED,),
    ),
    Statement(
        "Boston: OAT takes about as long as the full GP (a factor of 2)",
        "section 6.1, table of the Boston results",
        similar("boston", OATS, "Full", SECONDS, 2.0),
    ),
    Statement(
        "Boston: simultaneous optimisation of 50 knots takes about 65 times as long as the full GP",
        "section 6.1, table of the Boston results",
        times("boston", ["Simult. 50"], ["Full"], 65),
    ),
    Statement(
        "Boston: simultaneous optimisation of 13 knots takes about 10 times as long as the full GP",
        "section 6.1, table of the Boston results",
        times("boston", ["Simult. 13"], ["Full"], 10),
    ),
    Statement(
        "Boston: 50 simultaneous knots predict worst (SRMSE)",
        "section 6.1, table of the Boston results",
        lower("boston", ("Full", *OATS, "Simult. 13"), ["Simult. 50"], SRMSE),
    ),
    Statement(
        "Boston: OAT is nearer to the full GP than simultaneous optimisation (AUKL as the program computes it)",
        "section 6.1, table of the Boston results",
        lower("boston", OATS, SIM["boston"], AUKL),
    ),
    Statement(
        "Boston: the same by the paper's formula (AUKL of the latent function)",
        "section 6, table of the Boston results",
        lower("boston", OATS, SIM["boston"], LATENT_AUKL),
    ),
    Statement(
        "Boston: 50 simultaneous knots are the farthest from the full GP",
        "section 6.1, table of the Boston results",
        lower("boston", (*OATS, "Simult. 13"), ["Simult. 50"], AUKL),
    ),
    Statement(
        "Boston: simultaneous optimisation has the lowest MNLP (as the program computes it)",
        "section 6.1, table of the Boston results",
        lower("boston", SIM["boston"], ("Full", *OATS), MNLP_TWICE),
    ),
    Statement(
        "Boston: OAT stops at far fewer knots than the 50 it may have (at most 25)",
        "section 6.1, table of the Boston results",
        each("boston", OATS, lambda row: row["n_knots"] <= 25, KNOTS, "g"),
    ),
    Statement(
        "Banana: OAT uses all 50 knots",
        "section 6.2, table of the banana results",
        each("banana", OATS, lambda row: row["n_knots"] == 50, KNOTS, "g"),
    ),
    Statement(
        "Banana: OAT is nearer to the full GP than simultaneous optimisation (AUKL)",
        "section 6.2, table of the banana results",
        lower("banana", OATS, SIM["banana"], AUKL),
    ),
    Statement(
        "Banana: the AUKL of simultaneous optimisation is 50 to 100 times OAT's",
        "section 6.2, table of the banana results",
        times("banana", SIM["banana"], OATS, 50, AUKL),
    ),
    Statement(
        "Banana: the MNLP of simultaneous optimisation is nearly twice that of the others",
        "section 6.2, table of the banana results",
        times("banana", SIM["banana"], ("Full", *OATS), 1.8, MNLP),
    ),
    Statement(
        "Banana: OAT's MNLP is close to the full GP's (a factor of 1.25)",
        "section 6.2, table of the banana results",
        similar("banana", OATS, "Full", MNLP, 1.25),
    ),
    Statement(
        "Banana: every sparse model is faster than the full GP",
        "section 6.2, table of the banana results",
        lower("banana", (*OATS, "Simult. 50"), ["Full"], SECONDS, ".2f"),
    ),
    Statement(
        "Banana: OAT-BO and OAT-RS with Tmax = 25 take half the time of simultaneous optimisation",
        "section 6.2, table of the banana results",
        times("banana", SIM["banana"], OATS[:2], 2),
    ),
    Statement(
        "Banana: simultaneous knots clump more than OAT's (share of knots near another)",
        "section 6.2, figure 5",
        lower("banana", OATS, SIM["banana"], near_share, ".2f"),
    ),
    Statement(
        "Hickory: every sparse model over-smooths (f varies less over the cells than the full GP's)",
        "section 6.3, figure 6",
        lower("hickory", (*OATS, *SIM["hickory"]), ["Full"], SPREAD),
    ),
    Statement(
        "Hickory: OAT is nearer to the full GP than simultaneous optimisation (AUKL)",
        "section 6.3, table of the hickory results",
        lower("hickory", OATS, SIM["hickory"], AUKL),
    ),
    Statement(
        "Hickory: the AUKL of 50 simultaneous knots is nearly twice OAT's",
        "section 6.3, table of the hickory results",
        times("hickory", ["Simult. 50"], OATS, 1.9, AUKL),
    ),
    Statement(
        "Hickory: OAT's MNLP is below that of 50 simultaneous knots",
        "section 6.3, table of the hickory results",
        lower("hickory", OATS, ["Simult. 50"], MNLP),
    ),
    Statement(
        "Hickory: OAT is about five times as fast as the full GP",
        "section 6.3, table of the hickory results",
        times("hickory", ["Full"], OATS, 5),
    ),
    Statement(
        "Hickory: simultaneous optimisation takes about three times as long as the full GP",
        "section 6.3, table of the hickory results",
        times("hickory", SIM["hickory"], ["Full"], 3),
    ),
    Statement(
        "Hickory: most of the 50 simultaneous knots are pushed to the centre (half of them to a quarter of the area)",
        "section 6.3, figure 7",
        each("hickory", ["Simult. 50"], lambda row: central_share(row) > 0.5, central_share, ".2f"),
    ),
    Statement(
        "Hickory: OAT's knots are not pushed to the centre",
        "section 6.3, figure 7",
        each("hickory", OATS, lambda row: central_share(row) <= 0.5, central_share, ".2f"),
    ),
    Statement(
        "Hickory: OAT stops before the 50 knots it may have",
        "section 7, table of the hickory results",
        each("hickory", OATS, lambda row: row["n_knots"] < 50, KNOTS, "g"),
    ),
    Statement(
        "OAT does not underestimate the noise variance as simultaneous optimisation of FIC does",
        "section 7",
        together(
            noise_kept("boston", OATS, "Simult. 50"),
            noise_kept("gaussian", GAUSSIAN_OATS, "Simult. uniform"),
        ),
    ),
    Statement(
        "Bayesian optimisation proposes knots often no better than a random subset does",
        "section 7",
        together(*(no_better(name) for name in SIM)),
    ),
    Statement(
        "Poisson data: the random start gives OAT more knots than the uniform one",
        "appendix, table of the Poisson example",
        lower("poisson", ["OAT uniform"], ["OAT random"], KNOTS, "g"),
    ),
    Statement(
        "Poisson data: point estimates are nearly the same in all models (RMSE within 1.3 times the full GP's)",
        "appendix, table of the Poisson example",
        similar("poisson", (*POISSON_OATS, "Simult. 11", "Simult. 20", "Fixed 20"), "Full", RMSE, 1.3),
    ),
    Statement(
        "Poisson data: 20 fixed even knots are nearer to the full GP than any optimised knots",
        "appendix, figure 8",
        lower("poisson", ["Fixed 20"], (*POISSON_OATS, "Simult. 11", "Simult. 20"), AUKL, ".2g"),
    ),
    Statement(
        "Poisson data: fixed knots are by far the fastest (a tenth of the others' time)",
        "appendix, table of the Poisson example",
        times("poisson", ("Full", *POISSON_OATS, "Simult. 11", "Simult. 20"), ["Fixed 20"], 10),
    ),
    Statement(
        "Poisson data: OAT is faster than simultaneous optimisation",
        "appendix, table of the Poisson example",
        lower("poisson", POISSON_OATS, ("Simult. 11", "Simult. 20"), SECONDS, ".2f"),
    ),
)
