"""Every number of the paper's five result tables, by experiment, method and measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["TABLES", "PublishedTable"]


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper: what it is called, its measures in order, and a value (or None) for each, by method."""

    label: str
    measures: tuple[str, ...]
    values: Mapping[str, tuple[float | None, ...]]

    def value(self, method: str, measure: str) -> float | None:
        """What the table has; None where it has a dash, or does not know the method."""
        row = self.values.get(method)
        return None if row is None else row[self.measures.index(measure)]


#: Garton, Niemi and Carriquiry (2020); "seconds" is Runtime, "steps" GA Steps, "log_evidence" log-Likelihood
TABLES: Mapping[str, PublishedTable] = {
    "gaussian": PublishedTable(
        "table of the Gaussian example",
        ("n_knots", "rmse", "seconds", "steps", "log_evidence"),
        {
            "Full": (None, 0.192, None, None, -311.720),
            "OAT uniform": (13, 0.180, 50, 464, -308.120),
            "OAT adversarial": (22, 0.228, 96, 669, -308.587),
            "OAT random": (13, 0.228, 50, 470, -308.225),
            "Simult. uniform": (13, 0.220, 140, 212, -306.852),
            "Simult. adversarial": (22, 0.196, 700, 529, -308.398),
            "Simult. random": (13, 0.247, 88, 140, -308.071),
        },
    ),
    "boston": PublishedTable(
        "table of the Boston results",
        ("seconds", "n_knots", "t_max", "srmse", "mnlp", "aukl"),
        {
            "Full": (394, None, None, 0.359, 2.500, 0.000),
            "OAT-BO 25": (545, 13, 25, 0.366, 2.466, 0.045),
            "OAT-RS 25": (356, 12, 25, 0.366, 2.464, 0.039),
            "OAT-RS 50": (339, 15, 50, 0.364, 2.469, 0.047),
            "Simult. 50": (25831, 50, None, 0.378, 2.291, 0.356),
            "Simult. 13": (3945, 13, None, 0.356, 2.313, 0.242),
        },
    ),
    "banana": PublishedTable(
        "table of the banana results",
        ("seconds", "t_max", "n_knots", "mnlp", "aukl"),
        {
            "Full": (26795, None, None, 0.038, 0.000),
            "OAT-BO 25": (3150, 25, 50, 0.037, 0.061),
            "OAT-RS 25": (2954, 25, 50, 0.038, 0.051),
            "OAT-RS 50": (3471, 50, 50, 0.038, 0.039),
            "Simult. 50": (6219, None, 50, 0.069, 3.265),
        },
    ),
    "hickory": PublishedTable(
        "table of the hickory results",
        ("seconds", "n_knots", "t_max", "mnlp", "aukl"),
        {
            "Full": (5892, None, None, 1.040, 0.000),
            "OAT-BO 25": (846, 28, 25, 1.058, 0.321),
            "OAT-RS 25": (1083, 33, 25, 1.066, 0.276),
            "OAT-RS 50": (989, 30, 50, 1.055, 0.279),
            "Simult. 50": (18456, 50, None, 1.068, 0.597),
            "Simult. 28": (15046, 28, None, 1.060, 0.426),
        },
    ),
    "poisson": PublishedTable(
        "table of the Poisson example",
        ("n_knots", "rmse", "seconds", "steps", "log_evidence"),
        {
            "Full": (None, 0.198, 195, 158, -511.006),
            "OAT uniform": (11, 0.249, 135, 950, -510.715),
            "OAT random": (19, 0.188, 177, 958, -508.356),
            "Simult. 11": (11, 0.187, 226, 194, -505.931),
            "Simult. 20": (20, 0.202, 197, 79, -507.725),
            "Fixed 20": (20, 0.197, 17, 166, -510.909),
        },
    ),
}
