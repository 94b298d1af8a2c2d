"""The page about a fit, as a method of every estimator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

__all__ = ["ReportMixin"]


class ReportMixin:
    """Gives an estimator `report`."""

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
