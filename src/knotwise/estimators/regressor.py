"""GPRegressor: a Gaussian process through knots, with scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from knotwise.errors import FitWarning, InvalidInputError, unknown_option
from knotwise.estimators.assemble import assemble
from knotwise.estimators.options import selector_from
from knotwise.estimators.scaling import Scaling
from knotwise.estimators.summary import Summary, summarize
from knotwise.estimators.validation import (
    check_count,
    check_data,
    check_inputs,
    check_jobs,
    check_noise_variance,
    generator_from,
)
from knotwise.evidence import Evidence
from knotwise.kernels.base import Kernel
from knotwise.knots.fixed import select_exact
from knotwise.knots.problem import Problem, Selection, Selector
from knotwise.likelihoods import Gaussian
from knotwise.means import Mean
from knotwise.numerics.blocks import Serial, executor_for, single_threaded_blas
from knotwise.optimize.base import Optimizer
from knotwise.posterior import FullPosterior, Latent, Posterior, SparsePosterior, sample_latent

__all__ = ["GPRegressor"]


@dataclass(frozen=True)
class Fit:
    """What a fit leaves behind: the problem and its solution in the engine's units, and the way back."""

    problem: Problem
    selection: Selection
    scaling: Scaling
    posterior: Posterior


class GPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian process regression through knots.

    Parameters
    ----------
    kernel : Kernel, optional
        From `knotwise.kernels`; the isotropic squared exponential by default. Length-scales are in the units of the
        inputs that the kernel sees (standardised ones by default), variances in those of y. A parameter given as a
        value starts there; None is taken from the data.
    likelihood : "gaussian" or Gaussian
        `Gaussian(noise_variance=...)` starts the noise at a value.
    approximation : "vfe", "fic", "full" or a number, optional
        A power between 0 (VFE, the default) and 1 (FIC), or the exact GP.
    knots : int, array [K, D] or selector
        A number of knots, placed by k-means and optimised together with the parameters; an array, held exactly as
        given; or a selector from `knotwise.knots`.
    mean : "constant", "zero", "linear" or a number
        Prior mean; a constant is learned, a number is held, a linear trend is integrated out.
    fixed : list of names
        Parameters to hold at their start, by the names in `parameters_`.
    bounds : dict, optional
        (low, high) by parameter name, instead of the bounds taken from the data.
    jitter : float, optional
        Diagonal added to Kuu, relative to the kernel's variance; None is the smallest that works.
    optimizer : "lbfgs", Adadelta(), None, ...
        None keeps every parameter as given.
    n_restarts : int
        Further random starts of the optimiser.
    standardize : "columns", "common" or False
        Scale inputs by column or all by one factor (maps keep their distances), or leave inputs and targets alone.
    random_state : int, Generator, optional
        For the initial knots and restarts.
    n_jobs : int, optional
        Threads; None is all cores. Results do not depend on it.
    block_size : int, optional
        Rows per block of work.

    Attributes
    ----------
    kernel_, likelihood_, mean_ : the parts at their fitted values, in the user's units of y
    parameters_ : ParameterTable of names, values and bounds
    knots_, n_knots_ : the knots in the units of X, and their number (0 for the exact GP)
    log_evidence_ : log evidence of the data in their units
    converged_, stop_reason_, jitter_, optimize_result_, n_failed_restarts_ : how the fit went

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> X = np.linspace(0, 1, 80)[:, None]
    >>> gp = GPRegressor(knots=8, random_state=0).fit(X, np.sin(9 * X[:, 0]))
    >>> bool(abs(gp.predict([[0.5]])[0] - np.sin(4.5)) < 1e-3)
    True
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        likelihood: str | Gaussian = "gaussian",
        approximation: str | float | None = None,
        knots: int | np.ndarray | Selector = 50,
        mean: str | float | Mean = "constant",
        fixed: Sequence[str] | str = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        jitter: float | None = None,
        optimizer: str | Optimizer | None = "lbfgs",
        n_restarts: int = 0,
        standardize: str | bool = "columns",
        random_state: Any = None,
        n_jobs: int | None = None,
        block_size: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.approximation = approximation
        self.knots = knots
        self.mean = mean
        self.fixed = fixed
        self.bounds = bounds
        self.jitter = jitter
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.standardize = standardize
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.block_size = block_size

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, noise_variance: Any = None) -> GPRegressor:
        """Fit parameters and knots to the data; `noise_variance` is the known noise of each row, if any."""
        X, y = check_data(self, X, y)
        noise = check_noise_variance(noise_variance, len(X))
        rng = generator_from(self.random_state)
        selector = selector_from(self.knots, X.shape[1])
        with executor_for(check_jobs(self.n_jobs)) as executor:
            names = getattr(self, "feature_names_in_", None)
            problem, scaling = assemble(self, X, y, noise, None if names is None else list(names))
            problem = replace(problem, executor=executor)
            selection = select_exact(problem, rng) if problem.full else selector.select(problem, rng)
            state = problem.evaluate(selection.theta, selection.Z, selection.jitter, gradient=False).state
        posterior: Posterior = FullPosterior(state) if problem.full else SparsePosterior(state)
        self._fit = Fit(replace(problem, executor=Serial()), selection, scaling, posterior)
        self._publish()
        return self

    def _publish(self) -> None:
        """Set the public attributes in the user's units, and warn once if the optimiser did not converge."""
        fit = self._fit
        problem, selection, scaling = fit.problem, fit.selection, fit.scaling
        model = problem.model.with_theta(selection.theta)
        user = scaling.to_user(model)
        self.kernel_, self.likelihood_, self.mean_ = user.kernel, user.likelihood, user.mean
        self.parameters_ = scaling.table_to_user(problem.table.with_theta(selection.theta), model)
        self.knots_ = scaling.inputs_back(selection.Z)
        self.n_knots_ = len(selection.Z)
        self.log_evidence_ = selection.result.value - len(problem.rows) * float(np.log(scaling.y_scale))
        self.converged_ = selection.result.converged
        self.stop_reason_ = selection.reason
        self.jitter_ = 0.0 if selection.jitter is None else selection.jitter.relative
        self.optimize_result_ = selection.result
        self.n_failed_restarts_ = selection.failed_restarts
        if not self.converged_:
            bound = self.parameters_.at_bound()
            warnings.warn(
                f"The optimiser stopped before it converged ({selection.result.reason}; gradient norm "
                f"{selection.result.gradient_norm:.1e}{'; at a bound: ' + ', '.join(bound) if bound else ''}). "
                "The model can be used. To go further, raise `LBFGS(max_iterations=...)`, or try `n_restarts=2`.",
                FitWarning,
                stacklevel=3,
            )

    # -- prediction ---------------------------------------------------------------------------

    def predict_latent(self, X: Any) -> Latent:
        """Posterior mean and variance of the function f at the rows of X, without noise."""
        X = self._inputs(X)
        scaling = self._fit.scaling
        with single_threaded_blas():
            latent = self._fit.posterior.latent(X)
        return Latent(latent.mean * scaling.y_scale + scaling.y_centre, latent.variance * scaling.y_scale**2)

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, noise_variance: Any = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predictive mean and, if asked, the standard deviation or covariance of new observations.

        `noise_variance` is the known noise of each new row; without it the fitted noise is taken (the mean of
        the known ones, if the fit had them).
        """
        if return_std and return_cov:
            raise InvalidInputError("Ask for `return_std` or for `return_cov`, not for both.")
        latent = self.predict_latent(X)
        if return_std:
            return latent.mean, np.sqrt(latent.variance + self._noise(noise_variance, len(latent.mean)))
        if return_cov:
            with single_threaded_blas():
                cov = self._fit.posterior.covariance(self._inputs(X)) * self._fit.scaling.y_scale**2
            cov.flat[:: len(cov) + 1] += self._noise(noise_variance, len(cov))
            return latent.mean, cov
        return latent.mean

    def predict_interval(
        self, X: Any, level: float = 0.95, kind: str = "observation", noise_variance: Any = None
    ) -> np.ndarray:
        """Central interval, [n, 2], of a new observation, or of its "mean", which here is the "latent" f."""
        from scipy.special import ndtri

        if not 0 < level < 1:
            raise InvalidInputError(f"`level` is {level!r}; it must lie between 0 and 1, for example 0.95.")
        if kind not in ("observation", "mean", "latent"):
            raise unknown_option("`kind`", kind, ["observation", "mean", "latent"])
        latent = self.predict_latent(X)
        noise = self._noise(noise_variance, len(latent.mean)) if kind == "observation" else 0.0
        half = ndtri(0.5 + level / 2) * np.sqrt(latent.variance + noise)
        return np.column_stack([latent.mean - half, latent.mean + half])

    def log_predictive_density(self, X: Any, y: Any, noise_variance: Any = None) -> np.ndarray:
        """Log density of each observation y under its own prediction, [n]."""
        latent = self.predict_latent(X)
        y = np.asarray(y, float)
        if y.shape != latent.mean.shape:
            raise InvalidInputError(f"X has {len(latent.mean)} rows, but y has shape {y.shape}.")
        variance = latent.variance + self._noise(noise_variance, len(y))
        return -0.5 * (np.log(2 * np.pi * variance) + (y - latent.mean) ** 2 / variance)

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw joint posterior samples of f at the rows of X, [n_samples, n]."""
        X = self._inputs(X)
        n_samples = check_count(n_samples, "n_samples", least=1)
        scaling = self._fit.scaling
        with single_threaded_blas():
            samples = sample_latent(self._fit.posterior, X, n_samples, generator_from(random_state))
        return samples * scaling.y_scale + scaling.y_centre

    # -- the evidence as a function ---------------------------------------------------------------

    def evidence(self, theta: Any = None, gradient: bool = True) -> Evidence:
        """Log evidence of the training data at theta (default: at the fit), and its gradients.

        theta is in the order of `parameters_`, with logarithms of positive parameters. The knots stay where
        the fit has them; `knot_gradient` is with respect to `knots_`.
        """
        check_is_fitted(self)
        problem, selection, scaling = self._fit.problem, self._fit.selection, self._fit.scaling
        engine_theta = selection.theta
        if theta is not None:
            theta = np.asarray(theta, float)
            if theta.shape != selection.theta.shape:
                raise InvalidInputError(
                    f"`theta` must have {len(selection.theta)} entries, one for each of "
                    f"{list(self.parameters_.names)}, but has shape {theta.shape}."
                )
            engine_theta = scaling.theta_to_engine(problem.table, problem.model, theta)
        with executor_for(check_jobs(self.n_jobs)) as executor:
            engine = replace(problem, executor=executor).evaluate(
                engine_theta, selection.Z, selection.jitter, gradient=gradient
            )
        knot_gradient = engine.knot_gradient
        return Evidence(
            engine.value - len(problem.rows) * float(np.log(scaling.y_scale)),
            None if engine.gradient is None else scaling.gradient_to_user(problem.model, engine.gradient),
            None if knot_gradient is None else knot_gradient / scaling.x_scale,
            None,
        )

    def summary(self) -> Summary:
        """What was fitted and decided, in words and in the user's units; shown when printed."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return summarize(self, self._fit.scaling.x_scale, None if names is None else list(names))

    def _inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._fit.scaling.inputs(check_inputs(self, X))

    def _noise(self, given: Any, n_rows: int) -> np.ndarray | float:
        noise = check_noise_variance(given, n_rows)
        return float(self.likelihood_.value("noise_variance")) if noise is None else noise
