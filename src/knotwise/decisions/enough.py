"""When knots are enough: the one rule by which they are added and dropped, and by which hyperparameters converge."""

from __future__ import annotations

from dataclasses import dataclass

from knotwise.decisions.thresholds import AUTO, ENOUGH, PLACEMENT, TARGETS
from knotwise.evidence.scores import KnotScores
from knotwise.selection.base import Decision
from knotwise.selection.trace import Status

#: why no more knots were added, where the share is not small, in words
ENDS = {
    "rounding": ", but no row brings more than rounding",
    "rounds": f"; knots were added {PLACEMENT.rounds} times, and further ones would lower it",
}


@dataclass(frozen=True)
class Rule:
    """What the knots must be enough for, the share that they may leave unexplained, and how many there may be.

    The share is a mean over rows: of the residual variance over the posterior variance ("latent"), or
    over the variance of an observation ("observation").
    """

    target: str
    share: float
    cap: int

    @staticmethod
    def of(target: str, share: float | None, cap: int) -> Rule:
        return Rule(target, TARGETS[target].share if share is None else share, cap)

    @property
    def variance(self) -> str:
        """Of which variance a share is unexplained, in words."""
        return "posterior variance" if self.target == "latent" else "variance of an observation"

    @property
    def first_knots(self) -> int:
        """With how many knots on rows the search for parameters begins."""
        return TARGETS[self.target].first_knots

    def share_of(self, scores: KnotScores) -> float:
        """The unexplained share of the variance (relative residual variance)."""
        return scores.share if self.target == "latent" else scores.observation_share

    def are_enough(self, scores: KnotScores) -> bool:
        """Whether knots leave so little unexplained that no more are wanted.

        What is enough for the function is enough for observations: of few rows it is less that is asked for.
        """
        if self.target == "observation" and scores.observation_share < self.share:
            return True
        share = self.share if self.target == "latent" else TARGETS["latent"].share
        return scores.share < share and scores.wide_rows < ENOUGH.wide_rows

    def are_a_start(self, scores: KnotScores) -> bool:
        """Whether there are so many knots that they should rather be moved than added to."""
        return scores.share < ENOUGH.start_share or self.are_enough(scores)

    def find_parameters(self, scores: KnotScores, *, last: bool) -> bool:
        """Whether knots on rows are so many that hyperparameters are nearly the exact GP's; at last, converged ones."""
        return self._is_below(scores, "last_share" if last else "first_share")

    def have_converged(self, scores: KnotScores, *, sites_move: bool) -> bool:
        """Whether the hyperparameters that these knots have found need no further ones."""
        return self._is_below(scores, "converged_sites" if sites_move else "converged")

    def are_too_few(self, scores: KnotScores) -> bool:
        """Whether hyperparameters of so few knots are not the exact GP's."""
        return scores.share > TARGETS["latent"].too_few and self.share_of(scores) > TARGETS[self.target].too_few

    def _is_below(self, scores: KnotScores, name: str) -> bool:
        least, of_target = (getattr(TARGETS[target], name) for target in ("latent", self.target))
        return scores.share < least or self.share_of(scores) < of_target


def decide(
    rule: Rule, n_knots: int, share: float, *, ended: str, hyperparameters: str, n_rows: int
) -> Decision[Status | None]:
    """Why so many knots, in words, and how good that is; the status is None where it is what the optimiser says.

    `ended` says why no more knots were added, `hyperparameters` how these ended, as in `Candidate`.
    """
    why = f"{n_knots} knots leave a share of {share:.3f} of the {rule.variance} unexplained"
    numbers = {"n_knots": n_knots, "share": share, "wanted": rule.share}
    enough = ended == "enough" or share < rule.share
    if share >= rule.share:
        why += ", enough for the function itself" if enough else f", above the {rule.share:g} wanted"
    if hyperparameters == "too few" or (ended == "limit" and not enough):
        why += f"; the limit of {rule.cap} knots was reached and more are needed"
        advice = f"Write `knots=Auto(max_knots={2 * rule.cap})`"
        advice += ", or `approximation='full'`." if n_rows <= AUTO.advised_exact_rows else "."
        return Decision(Status.LIMIT_REACHED, why, numbers, advice)
    if not enough:
        why += ENDS.get(ended, "")
    if hyperparameters == "moving":
        why += "; parameters still moved with every choice of knots"
        advice = "Try `n_restarts=2`, or give a start in the kernel."
        return Decision(Status.HYPERPARAMETERS_NOT_CONVERGED, why, numbers, advice)
    if ended == "rounds" and not enough:
        return Decision(Status.LIMIT_REACHED, why, numbers, f"Ask for a number of knots: `knots={rule.cap}`.")
    return Decision(None, why, numbers)
