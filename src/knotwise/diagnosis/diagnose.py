"""Is a fitted model to be trusted, and where is it not? Findings with numbers, and advice in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from textwrap import TextWrapper
from typing import Any

import numpy as np

from knotwise.diagnosis import findings
from knotwise.diagnosis.autocorrelation import AutocorrelationTest, autocorrelation_test, residuals_and_graph, try_exact
from knotwise.diagnosis.findings import Finding, Place
from knotwise.diagnosis.heteroscedasticity import HeteroscedasticityTest, compare_sizes, describe_spread
from knotwise.docstrings import EXAMPLES, filled
from knotwise.errors import unknown_option
from knotwise.evidence.scores import WIDE, RowScores
from knotwise.numerics.blocks import Serial, single_threaded_blas
from knotwise.numerics.tabular import html_table, make_frame
from knotwise.numerics.weighted import counted
from knotwise.posterior.residuals import LeaveOneOut

RELEVANT = 0.05  # W c of a row below which the data could say nothing about the residual
N_PLACES = 5
SAMPLE_ROWS = 25_000  # of rows that are elsewhere, as many as the test of neighbours looks at


@filled(EXAMPLES)
@dataclass(frozen=True)
class Diagnosis:
    """What can be said about a fit; a printed one shows the findings with advice, `to_dict` is for machines.

    What needs the training data is None for a model from a file (those of the exact GP and with neighbours hold them),
    and what needs knots for the exact GP. With neighbours the knots may leave what near rows tell: `unexplained_share`,
    `residual_information`, `n_inflated` and `inflated` are about knots alone and not given, and `leave_one_out` says
    how training rows are predicted by the others. Rows count by their sample weights.

    Attributes
    ----------
    model : str
        What was fitted, in words.
    converged : bool
        Whether the fit ended well.
    gradient_norm : float
        Largest entry of the gradient at the end of the optimisation, after projection on the bounds.
    at_bound : tuple of str
        Parameters that ended on a bound.
    jitter : float
        Diagonal added to Kuu, relative to the prior variance.
    condition : float or None
        Condition number of Kuu with its jitter.
    unexplained_share : float or None
        Unexplained share of the posterior variance (relative residual variance), as a mean over rows.
    residual_information : float or None
        The same in nats per row.
    n_inflated : int, float or None
        How many rows have inflated uncertainty that the data there could reduce.
    inflated : tuple of Place
        The worst of them that are not neighbours, with their inputs.
    neighbours : AutocorrelationTest or None
        A test of what knots or kernel miss, from the residuals of neighbouring rows.
    spread : HeteroscedasticityTest or None
        A heteroscedasticity test: whether errors are larger in some places than in others, for Gaussian data (also
        after a log transform) of at least 40 rows that count equally often. Where it is None, its finding says why.
    leave_one_out : LeaveOneOut or None
        How training rows are predicted by the others, with neighbours; not of classes, whose labels have no size.
    findings : tuple of Finding
        One for each question, with advice.

    Examples
    --------
    {curve}
    >>> diagnosis = gp.diagnose()
    >>> diagnosis.ok, diagnosis.finding("convergence").level
    (True, 'ok')
    >>> diagnosis.to_frame()["name"].tolist()
    ['convergence', 'bounds', 'numerics', 'knots', 'places', 'neighbours', 'spread']
    >>> diagnosis.to_dict()["converged"]
    True
    """

    model: str
    converged: bool
    gradient_norm: float
    at_bound: tuple[str, ...]
    jitter: float
    condition: float | None
    unexplained_share: float | None
    residual_information: float | None
    n_inflated: int | float | None
    inflated: tuple[Place, ...]
    neighbours: AutocorrelationTest | None
    spread: HeteroscedasticityTest | None
    leave_one_out: LeaveOneOut | None
    findings: tuple[Finding, ...] = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing was found that should be repaired."""
        return all(finding.level != "problem" for finding in self.findings)

    def finding(self, name: str) -> Finding:
        """The finding of this name.

        Parameters
        ----------
        name : "convergence", "bounds", "numerics", "knots", "places", "neighbours" or "spread"
            What it is about.

        Returns
        -------
        Finding
            `name`, `level`, `text` and `advice`.
        """
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise unknown_option("The name of a finding", name, [finding.name for finding in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dicts that JSON can hold.

        Returns
        -------
        dict
            What is not finite is None.
        """
        return _plain(asdict(self) | {"ok": self.ok})

    def to_frame(self) -> Any:
        """The findings as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row for each finding: `name`, `level`, `text` and `advice`.
        """
        return make_frame([asdict(finding) for finding in self.findings])

    def __str__(self) -> str:
        def wrap(text: str, indent: int) -> list[str]:
            return TextWrapper(110, "  ", " " * indent, drop_whitespace=True).wrap(text)

        marks = {"ok": "ok", "note": "note", "problem": "PROBLEM", "unknown": "?"}
        lines = [self.model]
        for finding in self.shown():
            lines += wrap(f"{marks[finding.level]:<8} {finding.name:<12} {finding.text}", indent=24)
            lines += wrap(f"{'':22}-> {finding.advice}", indent=27) if finding.advice else []
        return "\n".join(lines)

    def shown(self) -> list[Finding]:
        """The findings that a reader needs: nothing of knots where there are none, and once what needs the data.

        Returns
        -------
        list of Finding
            Those that a printed diagnosis shows, in its order.

        Examples
        --------
        {smooth_curve}
        >>> [finding.name for finding in gp.diagnose().shown()][:2]
        ['convergence', 'bounds']
        """
        if self.condition is None:  # the exact GP
            return [finding for finding in self.findings if finding.name not in ("knots", "places")]
        shown = [finding for finding in self.findings if finding.text != findings.NO_PLACES]
        if self.unexplained_share is None and len(shown) == len(self.findings):  # from a file
            missing = [finding.name for finding in self.findings if finding.text.startswith(findings.NO_DATA)]
            shown = [finding for finding in self.findings if finding.name not in missing]
            return [*shown, findings.without_data(missing)]
        return shown

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The table of a notebook: the findings that a printed diagnosis shows."""
        rows = [(finding.level, finding.name, finding.text, finding.advice) for finding in self.shown()]
        return html_table(("", "finding", "what was found", "what to do"), rows, caption=self.model)


def diagnose(estimator: Any) -> Diagnosis:
    """Look at a fitted `GPRegressor` from all sides."""
    fit = estimator._fit
    posterior = fit.posterior
    scores = neighbours = trial = None
    places: tuple[Place, ...] = ()
    n_inflated = None
    with single_threaded_blas():
        condition, rows, leave_one_out = posterior.condition, posterior.rows, posterior.leave_one_out()
        if rows is None and fit.training is not None:
            scores = _scores(fit)
            rows = scores.rows
            n_inflated, places = _inflated(estimator, scores)
        found = None if rows is None else residuals_and_graph(posterior, rows, scores)
        if rows is not None and found is not None:
            neighbours = autocorrelation_test(*found, rows.weights)
            if scores is not None and neighbours is not None and findings.agree(neighbours):
                # automatic knots are placed when the hyperparameters have been learned with many, or without
                relearn = estimator.optimizer is not None and not findings.is_auto(estimator)
                trial = try_exact(fit, scores, *found, relearn=relearn)
        spread, why_not = compare_sizes(estimator, rows, found)
    result = estimator.optimize_result_
    at_bound = tuple(estimator.parameters_.at_bound())
    near = findings.neighbours(estimator, neighbours, leave_one_out, trial)
    said = (
        findings.convergence(estimator, result, fit.final),
        findings.bounds(estimator.parameters_, at_bound),
        findings.numerics(estimator.jitter_, condition),
        *findings.known_noise(estimator),
        findings.knots(estimator, scores),
        findings.places(estimator, n_inflated, places),
        near,
        describe_spread(estimator, spread, why_not, rows, near),
    )
    return Diagnosis(
        f"{type(estimator).__name__}: {posterior.size_in_words}, {round(fit.n_rows, 2):,} rows"
        + (", the chosen kernel of those over which predictions are averaged" if fit.members else ""),
        bool(estimator.converged_),
        float(result.gradient_norm),
        at_bound,
        float(estimator.jitter_),
        condition,
        None if scores is None else scores.share,
        None if scores is None else scores.residual_information,
        n_inflated,
        places,
        neighbours,
        spread,
        leave_one_out,
        said,
    )


def _scores(fit: Any) -> RowScores:
    """Scores of the training rows; of those that are elsewhere, of a random sample."""
    if fit.training.run.blocks.at_hand:
        return fit.training.anew().row_scores(fit.selection.point)
    problem = fit.training.computed_by(Serial())  # whose rows are given back when this is done
    sample = problem.take(problem.sample(SAMPLE_ROWS, np.random.default_rng(0)))
    return problem.row_scores(fit.selection.point, sample)


def _inflated(estimator: Any, scores: RowScores) -> tuple[int | float, tuple[Place, ...]]:
    """How many rows have inflated uncertainty, and the worst of them that are not neighbours."""
    share = scores.shares
    relevant = scores.precision * scores.c > RELEVANT
    inflated = (share > WIDE) & relevant
    X, kernel = scores.rows.X, estimator._fit.model.kernel
    names = getattr(estimator, "feature_names_in_", [f"column {i}" for i in range(estimator.n_features_in_)])
    numbers, whole = estimator._fit.row_numbers, estimator._fit.training.run.blocks.at_hand
    left = np.flatnonzero(inflated)
    places: list[Place] = []
    while len(left) and len(places) < N_PLACES:
        row = left[np.argmax(share[left])]
        inputs = estimator._inputs_back(X[row : row + 1])[0].tolist()
        number = int(row if numbers is None else numbers[row]) if whole else None
        places.append(Place(number, dict(zip(map(str, names), inputs, strict=True)), float(share[row])))
        prior = np.sqrt(kernel.diag(X[left]) * kernel.diag(X[row : row + 1]))
        left = left[np.abs(kernel(X[left], X[row : row + 1])[:, 0]) < 0.5 * prior]
    n_inflated = counted(inflated, scores.weights)
    if not whole:  # as many as the sample lets expect
        n_inflated = round(n_inflated * estimator._fit.n_rows / scores.rows.count)
    return n_inflated, tuple(places)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
