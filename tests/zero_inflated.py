"""Laws of SciPy with zeros beside their counts: an oracle."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ZeroInflated:
    """Counts of a law, which are zero instead with probability `share`."""

    share: float
    law: Any

    def logpmf(self, k):
        p = (1 - self.share) * self.law.pmf(k)
        return np.where(np.asarray(k) == 0, np.log(self.share + p), np.log1p(-self.share) + self.law.logpmf(k))

    def pmf(self, k):
        return np.exp(self.logpmf(k))

    def cdf(self, k):
        return np.where(np.asarray(k) < 0, 0.0, self.share + (1 - self.share) * self.law.cdf(k))

    def ppf(self, p):
        return np.maximum(self.law.ppf(np.clip((p - self.share) / (1 - self.share), 0.0, 1.0)), 0.0)

    def mean(self):
        return (1 - self.share) * self.law.mean()

    def var(self):
        return (1 - self.share) * (self.law.var() + self.share * self.law.mean() ** 2)
