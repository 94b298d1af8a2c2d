"""A fitted model in words: its summary, and the page about it, which are methods of every estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from knotwise.estimators.docstrings import documented
from knotwise.estimators.fitted import describe_average, describe_choice, describe_law
from knotwise.estimators.heavy import describe_tails
from knotwise.estimators.prior_options import describe_priors
from knotwise.estimators.warping import describe_warps
from knotwise.evidence.inference import inference_of
from knotwise.numerics.estimates import Estimates
from knotwise.numerics.tabular import html_lines, make_frame
from knotwise.posterior.base import Shares


@dataclass(frozen=True)
class Section:
    """A piece of a summary: words, or a table that shows itself. `label` is the class of the model that it is about."""

    content: Any
    title: str = ""
    label: Any = None

    def __str__(self) -> str:
        return f"{self.title}\n{self.content}" if self.title else str(self.content)

    @property
    def html(self) -> str:
        if isinstance(self.content, str):
            return html_lines(self.title) + html_lines(self.content)
        return html_lines(self.title) + self.content._repr_html_()


@documented
class Summary(str):
    """A fitted model in words and tables: text that shows itself as it is, also at a prompt, and as HTML in a notebook.

    Examples
    --------
    {curve}
    >>> summary = gp.summary()
    >>> summary.splitlines()[0]
    'GPRegressor: 5 knots, log evidence ...'
    >>> summary.to_frame()["parameter"].tolist()
    ['variance', 'lengthscale', 'noise_variance']
    """

    sections: tuple[Section, ...] = ()

    @classmethod
    def of(cls, sections: Sequence[Section]) -> Summary:
        """Make a summary of its pieces, which a blank line parts.

        Parameters
        ----------
        sections : sequence of Section
            Words and tables in their order.

        Returns
        -------
        Summary
            Their text, which knows them.

        Examples
        --------
        >>> from knotwise.estimators.summary import Section, Summary
        >>> Summary.of([Section("one"), Section("three", title="two")])
        one
        <BLANKLINE>
        two
        three
        """
        new = cls("\n\n".join(map(str, sections)))
        new.sections = tuple(sections)
        return new

    def to_frame(self) -> Any:
        """The parameters of the model, or of all models of a classifier, as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row per parameter, as people read it: `parameter`, `reads_as`, `column`, `units`, `estimate`,
            `standard_error`, `lower_95`, `upper_95`, `note` and `given` (what became of a value that was given:
            "started at 2", "held at 365.25"); for a classifier also `class`, the label.
        """
        tables = [section for section in self.sections if isinstance(section.content, Estimates)]
        return make_frame(
            [
                ({} if table.label is None else {"class": table.label}) | asdict(line)
                for table in tables
                for line in table.content.lines
            ]
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return "".join(section.html for section in self.sections)


def _explained(shares: Shares | None) -> list[str]:
    if shares is None:
        return []
    return [
        f"of the variance of y the knots explain {shares.knots:.0%} and the neighbours {shares.neighbours:.0%}, in "
        f"rows predicted without themselves; {shares.noise:.1%} is noise"
    ]


def summarize(model: Any, standard_errors: bool | None = None, variogram: bool = False) -> Summary:
    """Describe a fitted estimator: size, evidence, and parameters with their errors in the units of the data."""
    fit = model._fit
    lines = [
        f"{type(model).__name__}: {fit.posterior.size_in_words}, "
        f"{inference_of(fit.model).value_name} {model.log_evidence_:.3f}",
        f"{model.status_}: {model._outcome.reason}",
        f"kernel {model.kernel_!r}{describe_choice(model)}",
    ]
    average = describe_average(model)
    if average:
        lines.append(f"{average}; what follows is of the kernel above")
    law = describe_law(model)
    if law:
        lines.append(f"likelihood {model.likelihood_!r}: {law}")
    warped = describe_warps(model)
    if warped:
        lines.append(warped)
    tails = describe_tails(model)
    if tails:
        lines.append(tails)
    if fit.noise is not None:
        lines.append(fit.noise.in_words(fit.scaling.y_scale))
    if fit.tested is not None:
        lines.append(fit.tested.in_words(fit.scaling.y_scale))
    if fit.n_neighbors:
        lines += [*_explained(fit.shares), "the log evidence is of these neighbours: it is not for comparing kernels"]
    elif model.status_ == "limit reached":
        lines.append("more knots would raise the log evidence: it is not for comparing kernels")
    if fit.noise_remark:
        lines.append(fit.noise_remark)
    if model.jitter_:
        lines.append(f"jitter {model.jitter_:.0e} of the prior variance")
    sections = [Section("\n".join(lines))]
    if model.encoding_.converted:
        sections.append(Section(model.encoding_.converted, "columns that are not plain numbers were taken for"))
    estimates = model.parameters_.estimates(standard_errors)
    sections.append(Section(estimates, "parameters, in the units of the data"))
    if variogram:
        found = model.parameters_.variogram(standard_errors)
        sections.append(Section(found, "semivariogram, in the units of the data"))
    priors = describe_priors(model.parameters_)
    if priors:
        title = f"priors in the units of the data, log density {model.log_prior_:.3f}"
        sections.append(Section("\n".join(f"  {line}" for line in priors), title))
    coefficients = model.coefficients_
    if np.isfinite(coefficients.standard_error).all():
        sections.append(Section(coefficients))
    if len(model.trace_):
        sections.append(Section(model.trace_))
    return Summary.of(sections)


def join_summaries(by_label: Sequence[tuple[Any, Summary]]) -> Summary:
    """One summary of the models of a classifier, each with its class."""
    sections = []
    for label, summary in by_label:
        first, *others = (replace(section, label=label) for section in summary.sections)
        sections += [replace(first, content=f"class {label!r}: {first.content}"), *others]
    return Summary.of(sections)


@documented
class ReportMixin:
    """Gives an estimator `report` and `save`."""

    _target_name: str | None = None  # of what was fitted

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        exposure: Any = None,
        trials: Any = None,
        offset: Any = None,
        noise_variance: Any = None,
        title: str | None = None,
    ) -> Path:
        """Write one page about this fit, with pictures, that needs nothing but itself: for a browser, or a phone.

        Warnings come first. Then what was decided and why, a picture of the fit, the effect of each column, maps where
        two columns are coordinates, calibration and residuals, how the knots were chosen, parameters with intervals,
        all checks of `diagnose()`, and how to predict. It needs matplotlib: `pip install 'knotwise[plot]'`.

        Parameters
        ----------
        path : str or path
            The file to write, such as "fit.html". It is complete or not there, and replaces one of that name.
        X : array or data frame [n, D], optional
            Rows to draw and to compare predictions on, best such that the fit has not seen; the page says whether it
            has, as far as the model can tell. Of more than 20,000 rows so many are drawn at random. By default the rows
            of the fit, where the model holds them; a model from a file, without them, is drawn over its knots.
        y : array or Series [n], optional
            Their targets. Without them there is neither calibration nor residuals.
        exposure, trials, noise_variance : float or array [n], optional
            Of the rows, as in `predict`. Needed with y if the fit had them.
        offset : float or array [n], optional
            Logarithm of the exposure, instead of it.
        title : str, optional
            Of the page; by default "A fit of", and the name of y, here or in the fit.

        Returns
        -------
        Path
            Where the page is.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> X = np.linspace(0, 1, 60)[:, None]
        >>> y = np.sin(9 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
        >>> gp = GPRegressor(knots=8, random_state=0).fit(X, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = gp.report(Path(folder) / "fit.html").read_text(encoding="utf-8")
        >>> "through 8 knots" in page
        True
        """
        from knotwise.report.page import write_report

        check_is_fitted(self)
        sizes = {"exposure": exposure, "trials": trials, "offset": offset, "noise_variance": noise_variance}
        return write_report(self, path, X, y, title=title, **sizes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted model in a file from which `knotwise.load` makes it again, without running code.

        {file}

        Examples
        --------
        {saved_and_loaded}
        """
        from knotwise.estimators.saving import save

        save(self, path)
