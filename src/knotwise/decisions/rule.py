"""When knots are enough: the one rule by which they are added and dropped, and by which parameters are settled."""

from __future__ import annotations

from dataclasses import dataclass

from knotwise.evidence.scores import KnotScores

__all__ = ["FIRST_SHARE", "TARGETS", "Rule"]

TARGETS = ("latent", "observation")
WIDE_ROWS = 0.01  # share of rows whose unexplained share may exceed `WIDE`
FIRST_SHARE = 0.5  # of the posterior variance, down to which growth is quick, and at which the few knots start to move

#: by target, the share that knots may leave unexplained
SHARES = {"latent": 0.18, "observation": 0.01}
#: that of the many knots on rows which find the parameters, then of those which settle them
BIG_SHARES = {"latent": (0.06, 0.004), "observation": (0.03, 0.006)}
#: how many of these knots there are at least. Few knots make length-scales and variances long and large, for which few
#: knots are enough: what is enough for observations does not lead out of that
FIRST_KNOTS = {"latent": 10, "observation": 64}
#: at which parameters are settled; less where sites follow them
BIG_ENOUGH = {"latent": (0.03, 0.015), "observation": (0.008, 0.006)}
#: at which parameters are not the exact GP's
TOO_FEW = {"latent": 0.12, "observation": 0.02}


@dataclass(frozen=True)
class Rule:
    """What the knots must be enough for, the share that they may leave unexplained, and how many there may be.

    The share is a mean over rows: of the prior variance that the knots leave over the posterior variance ("latent"), or
    over the variance of an observation ("observation").
    """

    target: str
    share: float
    cap: int

    @staticmethod
    def of(target: str, share: float | None, cap: int) -> Rule:
        return Rule(target, SHARES[target] if share is None else share, cap)

    @property
    def variance(self) -> str:
        """Of what the knots leave a share unexplained, in words."""
        return "posterior variance" if self.target == "latent" else "variance of an observation"

    @property
    def first_knots(self) -> int:
        """With how many knots on rows the search for parameters begins."""
        return FIRST_KNOTS[self.target]

    def share_of(self, scores: KnotScores) -> float:
        """The share that the knots leave unexplained."""
        return scores.share if self.target == "latent" else scores.observation_share

    def are_enough(self, scores: KnotScores) -> bool:
        """Whether knots leave so little unexplained that no more are wanted.

        What is enough for the function is enough for observations: of few rows it is less that is asked for.
        """
        if self.target == "observation" and scores.observation_share < self.share:
            return True
        share = self.share if self.target == "latent" else SHARES["latent"]
        return scores.share < share and scores.wide_rows < WIDE_ROWS

    def are_a_start(self, scores: KnotScores) -> bool:
        """Whether there are so many knots that they should rather be moved than added to."""
        return scores.share < FIRST_SHARE or self.are_enough(scores)

    def find_parameters(self, scores: KnotScores, *, last: bool) -> bool:
        """Whether knots on rows are so many that parameters are nearly the exact GP's; at last, settled ones."""
        return self._is_below(scores, BIG_SHARES, last)

    def have_settled(self, scores: KnotScores, *, sites_move: bool) -> bool:
        """Whether the parameters that these knots have found need no further ones."""
        return self._is_below(scores, BIG_ENOUGH, sites_move)

    def are_too_few(self, scores: KnotScores) -> bool:
        """Whether parameters of so few knots are not the exact GP's."""
        return scores.share > TOO_FEW["latent"] and self.share_of(scores) > TOO_FEW[self.target]

    def _is_below(self, scores: KnotScores, shares: dict[str, tuple[float, float]], which: bool) -> bool:
        return scores.share < shares["latent"][which] or self.share_of(scores) < shares[self.target][which]
