"""What every estimator shares: a fit of the latent GP, the posterior of f, and the evidence as a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from knotwise.data.encoding.encoding import EncodingMixin
from knotwise.data.observations import Observations
from knotwise.data.scaled import TrainingData
from knotwise.data.validation import check_count, check_inputs, check_jobs, generator_from
from knotwise.decisions import average, guard, kernel, overdispersion
from knotwise.decisions.neighbours import add_neighbours
from knotwise.decisions.thresholds import EXTRAPOLATION
from knotwise.errors import InvalidInputError, warn
from knotwise.estimators import noise
from knotwise.estimators.assemble import Assembly, assemble
from knotwise.estimators.averaging import (
    AveragedModels,
    EngineInputs,
    check_average,
    components_of,
    has_ended_well,
    parts_of,
    table_of,
    weights_of,
)
from knotwise.estimators.coefficients import Coefficients, coefficients_of
from knotwise.estimators.docstrings import documented
from knotwise.estimators.effects import EffectsMixin
from knotwise.estimators.fitted import Fit, FitErrors, Member, outcome_of, posterior_of
from knotwise.estimators.heavy import or_with_heavy_tails
from knotwise.estimators.laws import assemble_chosen
from knotwise.estimators.lazy import lazy_latent
from knotwise.estimators.options import likelihoods_from, selector_from
from knotwise.estimators.summary import ReportMixin, Summary, summarize
from knotwise.estimators.tested import Tested, Warned
from knotwise.estimators.warping import assemble_warped, given_warps, published
from knotwise.evidence import Evidence
from knotwise.evidence.inference import inference_of
from knotwise.likelihoods import StudentT
from knotwise.names import DECIDED
from knotwise.numerics.blocks import Executor, Serial, executor_for, is_dask, single_threaded_blas
from knotwise.posterior.base import MAX_JOINT_ROWS, Latent, Posterior
from knotwise.prediction import Prediction
from knotwise.progress import RunContext
from knotwise.selection.base import Selection
from knotwise.selection.fixed import select_exact, with_noise_as_given
from knotwise.selection.problem import Problem
from knotwise.selection.trace import Action, Status

if TYPE_CHECKING:
    from knotwise.diagnosis.certify import Certificate
    from knotwise.diagnosis.diagnose import Diagnosis

E = TypeVar("E", bound=BaseEstimator)


def keep_settings(estimator: BaseEstimator, given: dict[str, Any]) -> None:
    """Keep every argument of a constructor, its `locals()`, unchanged and under its name, as scikit-learn wants it."""
    vars(estimator).update({name: value for name, value in given.items() if name != "self"})


@contextmanager
def unchanged_on_failure(estimator: E) -> Iterator[E]:
    """Yield a copy to fit; the estimator becomes it when the block ends well, and stays as it was when it raises."""
    new = copy(estimator)
    yield new
    estimator.__dict__ = new.__dict__


@documented
class LatentGP(EffectsMixin, ReportMixin, EncodingMixin, BaseEstimator):
    """A latent Gaussian process fitted through knots; subclasses give it a response."""

    _run_context: RunContext | None = None  # of a classifier, while it fits its models
    crs_: str | None = None  # of the points that were fitted
    _warned: Warned  # whether predictions far from the data were warned of

    def _fit_latent(
        self, data: TrainingData, *, has_size: bool, has_noise: bool = False, asked: np.ndarray | None = None
    ) -> None:
        """Fit parameters and knots to checked data, and set the public attributes.

        `has_size` says whether the data came with an exposure or trials, `has_noise` whether with known noise by row.
        `asked` [M, E] are inputs at which predictions are wanted.
        """
        rng = generator_from(self.random_state)
        selector = selector_from(self.knots, self.n_features_in_, self._encoding)
        names = getattr(self, "feature_names_in_", None)
        with self._run_context or RunContext.of(self) as context, executor_for(check_jobs(self.n_jobs)) as executor:
            made = self._assemble(data, None if names is None else list(names), executor, asked)
            problem, scaling = made.problem, made.scaling
            averages = check_average(self, problem) and not made.little_information
            if context.folder is not None:
                context.open_journal(self, problem.run.blocks.identity(), scaling, names)
            problem, observer = context.attach(problem, -float(np.log(scaling.y_scale)), rng)
            tested = None
            if self.kernel is None:
                chosen = kernel.decide(replace(made.with_kernel, run=problem.run), rng)
                problem, tested = chosen.choice, Tested.of(chosen.numbers)
            select = select_exact if problem.full else selector.select
            if problem.n_neighbors:
                select = partial(add_neighbours, select)
            selection = select(problem, rng)
            if not made.little_information:
                own_optimizer = getattr(selector, "optimizer", None) is not None and not problem.full
                selection = guard.decide(problem, selection, None if own_optimizer else select, rng).choice
            noise_remark = made.noise_remarks.through_knots
            if selection.jitter is None and noise_remark:
                as_given = with_noise_as_given(selection.problem or problem, selection, rng)
                noise_remark = made.noise_remarks.exact if as_given else made.noise_remarks.singular
                selection = as_given or selection
            noise_record, suspicious = None, False
            if noise.is_open(self, data, made, has_noise=has_noise):
                decided = noise.choose(self, made, problem, selection, select, rng)
                problem, selection, noise_record = decided.problem, decided.selection, decided.record
                suspicious = decided.suspicious
            members = (
                self._averaged(made, selection.problem or problem, selection)
                if averages and noise_record is None
                else ()
            )
            selection.trace.listener = None
            if made.little_information and (selection.status is None or selection.status is Status.NO_SIGNAL):
                selection = replace(selection, status=Status.LITTLE_INFORMATION)
            final, has_knots = selection.evidence, selection.jitter is not None
            problem = selection.problem or problem
            posterior = posterior_of(final.state, None if problem.model.residual is None else problem.rows)
            if tested is not None:
                some = problem.take(problem.sample(EXTRAPOLATION.rows, np.random.default_rng(0)))
                tested = tested.and_at(posterior, some.X)
        self._fit = Fit(
            replace(
                selection,
                evidence=Evidence(final.value, None, None, None, final.converged, final.why),
                result=replace(selection.result, steps=None, turns=None),  # which were for stages to come
                problem=None,
                order=None,
                others=(),
            ),
            scaling,
            posterior,
            problem.table,
            problem.summary.count,
            replace(problem.computed_by(Serial()), full=not has_knots, rivals=()),
            _row_numbers(made.row_numbers, selection.order),
            has_size,
            has_noise,
            noise_remark,
            tested=None if selection.status is Status.NO_SIGNAL else tested,
            members=members,
            noise=noise_record,
        )
        if suspicious:
            given = {"has_size": has_size, "has_noise": has_noise, "asked": asked}
            self._fit = or_with_heavy_tails(self, data, **given)
        self._publish()
        observer.fitted(self.n_knots_, self.log_evidence_, self.stop_reason_)
        context.finish()
        self._warn(made.little_information)

    def _assemble(
        self, data: TrainingData, names: list[str] | None, executor: Executor, asked: np.ndarray | None
    ) -> Assembly:
        """The problem of a fit; where the data are to decide on likelihood and warps, with those that suit them."""
        if isinstance(data, Observations):
            data = replace(data, warps=given_warps(self))
        is_heavy = getattr(self, "noise", None) == "heavy"
        likelihoods = (StudentT(),) if is_heavy else likelihoods_from(self.likelihood)
        each = [partial(assemble, self, data, names, executor, asked, law) for law in likelihoods]
        several = len(each) > 1
        made = assemble_chosen(self, dict(zip(DECIDED[self.likelihood], each, strict=True))) if several else each[0]()
        taken = made.problem.model.likelihood
        law = next((law for law in likelihoods if type(law) is type(taken)), likelihoods[-1])
        return assemble_warped(self, data, made, lambda warped: assemble(self, warped, names, executor, asked, law))

    def _averaged(self, made: Assembly, problem: Problem, selection: Selection) -> tuple[Member, ...]:
        """The models beside the one of a selection over which predictions are averaged."""
        if not has_ended_well(selection) or made.noise_remarks.through_knots or problem.model.residual is not None:
            return ()
        rng = np.random.default_rng(0)  # its own: a fit has the same random numbers with it and without
        decided = average.decide(made.with_kernel, replace(problem, full=selection.jitter is None), rng)
        if decided.choice:
            n_knots, value = len(selection.Z), selection.evidence.value
            selection.trace.add(Action.AVERAGE, n_knots, value, theta=selection.theta, note=decided.why)
        return tuple(
            Member(
                posterior_of(each.evidence.state),
                each.problem.table,
                each.point.theta,
                each.evidence.value,
                each.weight,
            )
            for each in decided.choice
        )

    def _publish(self) -> None:
        self._warned = Warned()
        fit, final = self._fit, self._fit.final
        selection, scaling = fit.selection, fit.scaling
        user = scaling.to_user(fit.model)
        self.kernel_, self.likelihood_, self.mean_ = user.kernel, user.likelihood, user.mean
        self.nugget_ = user.nugget.variance
        self.warp_ = published(self, scaling)
        self._parts = [parts_of(scaling.to_user(member.posterior.state.model)) for member in fit.members]
        table = scaling.table_to_user(fit.table.with_theta(selection.theta), self._column_names)
        self.parameters_ = replace(table, errors=FitErrors(fit, self.n_jobs))
        given = selection.knots_as_given
        is_given = given is not None and self._encoding is None
        self.knots_: np.ndarray = np.asarray(given) if is_given else self._inputs_back(selection.Z)
        self.n_knots_ = len(selection.Z)
        self.log_evidence_ = final.value - fit.noise_penalty - fit.n_rows * float(np.log(scaling.y_scale))
        self.log_prior_ = fit.table.log_prior(selection.theta)[0]
        self.inference_ = inference_of(fit.model).word
        self._outcome = outcome_of(fit, self.parameters_, self.optimizer)
        self.status_ = self._outcome.status
        self.converged_ = self.status_.is_good
        self.stop_reason_ = selection.reason
        self.n_neighbors_ = fit.n_neighbors
        self.approximation_ = fit.posterior.approximation
        per_row = -float(np.log(scaling.y_scale))
        self.trace_ = selection.trace.in_units(fit.n_rows, per_row, self._inputs_back, self._theta_in_units)
        self.jitter_ = 0.0 if selection.jitter is None else selection.jitter.relative
        self.optimize_result_ = selection.result
        self.n_failed_restarts_ = selection.failed_restarts

    def _warn(self, little_information: bool) -> None:
        """Warn once of what a user must know, with what can be done."""
        if self._fit.noise_remark:
            warn(self._fit.noise_remark)
        if self._outcome.warning:
            warn(self._outcome.warning)
        elif self._fit.final.why:
            warn(f"A remark on the posterior: {self._fit.final.why}.")
        elif not little_information and self._fit.model.likelihood.with_dispersion(1.0) is not None:
            found = overdispersion.decide(self._fit.problem, self._fit.selection.theta, np.random.default_rng(0))
            if found.choice:
                warn(f"{found.why}. {found.advice}")

    def predict_latent(self, X: Any) -> Latent:
        """Posterior mean and variance of the function f at the rows of X, without noise or nugget.

        Parameters
        ----------
        {X}

        Returns
        -------
        Latent
            `mean` and `variance`, [n] each, and `std`; in the units of y for Gaussian data, else on the scale of the
            link (log rates, logits).

        Examples
        --------
        {counts}
        >>> latent = gp.predict_latent([[0.9]])
        >>> bool(2 < np.exp(latent.mean[0]) < 6), bool(latent.variance[0] > 0)
        (True, True)
        """
        if is_dask(X):
            return lazy_latent(self, X)
        X = self._engine_inputs(X)
        if self._fit.members:
            each = [own.predict_latent(EngineInputs(X)) for own in self._each]
            return self._mixed([Prediction.of(self.likelihood_, latent) for latent in each]).latent
        with executor_for(check_jobs(self.n_jobs)) as executor:
            latent = self._fit.posterior.latent(X, executor)
        if self._fit.tested is not None:
            self._fit.tested.warn_of(self._fit.posterior.share_left(X, latent.variance), self._warned)
        return self._in_units(latent)

    def _theta_in_units(self, theta: np.ndarray) -> np.ndarray | None:
        """theta of a step in the user's units; None where the step had another kernel than the fit ends with."""
        table = self._fit.table
        return self._fit.scaling.theta_to_user(table, theta) if len(theta) == len(table.theta) else None

    def _in_units(self, latent: Latent) -> Latent:
        scaling = self._fit.scaling
        return Latent(latent.mean * scaling.y_scale + scaling.y_centre, latent.variance * scaling.y_scale**2)

    def _latent_covariance(self, X: Any) -> np.ndarray:
        X = self._engine_inputs(X)
        with single_threaded_blas():
            return self._fit.posterior.covariance(X) * self._fit.scaling.y_scale**2

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw joint posterior samples of f at the rows of X, without noise or nugget.

        Up to 10,000 rows nothing is left out; it takes time with the cube of the rows. Beyond, models with knots need
        time in proportion to the rows: what the knots say is drawn jointly, and what they leave open independently at
        each distinct row. So samples are right at every row, but rougher from row to row than f is; where this is more
        than 1 % of the variance, a warning says how much. The exact GP refuses more rows.

        With neighbours, up to 10,000 rows are joint in what the knots say and in what the neighbours of each row leave
        open of it; that a neighbour of one row tells something of another row is left out, so that far fewer neighbours
        than rows near each other make samples vary together a little more than they should. Beyond 10,000 rows, what
        the neighbours leave open is drawn independently at each distinct row.

        Parameters
        ----------
        {X}
        {samples}

        Returns
        -------
        array [n_samples, n]
            One function in each row, on the scale of `predict_latent`.

        Examples
        --------
        {smooth_curve}
        >>> f = gp.sample_latent(X, n_samples=200, random_state=0)
        >>> f.shape
        (200, 24)
        >>> bool(np.abs(f.mean(0) - gp.predict_latent(X).mean).max() < 0.05)
        True
        """
        X = self._engine_inputs(X)
        n_samples = check_count(n_samples, "n_samples", least=1)
        if self._fit.members:
            rng = generator_from(random_state)
            return self._drawn(n_samples, rng, lambda own, n: own.sample_latent(EngineInputs(X), n, rng))
        scaling, posterior = self._fit.scaling, self._fit.posterior
        if len(X) > MAX_JOINT_ROWS and not posterior.is_exact:
            _warn_of_independent_residuals(posterior, X)
        with single_threaded_blas():
            samples = posterior.sample(X, n_samples, generator_from(random_state))
        return samples * scaling.y_scale + scaling.y_centre

    def evidence(self, theta: Any = None, gradient: bool = True) -> Evidence:
        """Log evidence of the training data at theta (default: at the fit), and its gradients.

        The knots stay where the fit has them. With neighbours, data that are not Gaussian have the gradient at held
        sites, which is 1 to 15 percent from that of the value. It needs the training data: a model from a file raises
        `NoTrainingDataError`.

        Parameters
        ----------
        theta : array [P], optional
            Parameters in the order of `parameters_`, with logarithms of positive ones; None is where the fit ended.
        gradient : bool, default True
            Also compute the gradients, which takes two to three times as long as the value.

        Returns
        -------
        Evidence
            `value`, `gradient` [P] in theta and `knot_gradient` [K, D] with respect to `knots_`, or to the encoded
            columns where some are not plain numbers; the last two are None if they were not asked for.

        Examples
        --------
        {curve}
        >>> evidence = gp.evidence()
        >>> bool(np.isclose(evidence.value, gp.log_evidence_))
        True
        >>> evidence.gradient.shape, evidence.knot_gradient.shape
        ((3,), (5, 1))
        >>> gp.evidence(gp.parameters_.theta + 0.5, gradient=False).value < evidence.value
        True
        """
        check_is_fitted(self)
        problem, selection, scaling = self._fit.problem, self._fit.selection, self._fit.scaling
        engine_theta = selection.theta
        if theta is not None:
            theta = np.asarray(theta, float)
            if theta.shape != selection.theta.shape or not np.isfinite(theta).all():
                raise InvalidInputError(
                    f"`theta` must have {len(selection.theta)} finite entries, one for each of "
                    f"{list(self.parameters_.names)}, but is {theta}."
                )
            engine_theta = scaling.theta_to_engine(problem.table, theta)
        with executor_for(check_jobs(self.n_jobs)) as executor:
            engine = problem.computed_by(executor).evaluate(
                replace(selection.point, theta=engine_theta), gradient=gradient, start=self._fit.posterior.start
            )
        knot_gradient = engine.knot_gradient
        return Evidence(
            engine.value - self._fit.noise_penalty - self._fit.n_rows * float(np.log(scaling.y_scale)),
            None if engine.gradient is None else scaling.gradient_to_user(problem.table, engine.gradient),
            None if knot_gradient is None else knot_gradient * scaling.stretch(scaling.inputs_back(selection.Z)),
            None,
            engine.converged,
            engine.why,
        )

    @property
    def coefficients_(self) -> Coefficients:
        """Intercept of a constant mean, or intercept and slopes of a linear one: estimates, standard errors, intervals.

        In the units of y and of the columns, with the intercept where all inputs are 0. `to_frame()` makes a data
        frame; printed, it is a table.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> X = np.linspace(0, 1, 24)[:, None]
        >>> gp = GPRegressor(mean="linear", knots=5, random_state=0)
        >>> gp = gp.fit(X, 2 + 3 * X[:, 0] + 0.1 * np.cos(40 * X[:, 0]))
        >>> gp.coefficients_.names, gp.coefficients_.estimate.round(1).tolist()
        (('intercept', 'column 0'), [2.0, 3.0])
        """
        check_is_fitted(self)
        return coefficients_of(self._fit.posterior, self._fit.scaling, self._column_names)

    def summary(self, standard_errors: bool | None = None, variogram: bool = False) -> Summary:
        """What was fitted and decided, in words and in the user's units; shown when printed.

        Parameters
        ----------
        {summary}

        Returns
        -------
        Summary
            A string that shows itself as a table in a notebook; `to_frame()` makes a data frame of its parameters.

        Examples
        --------
        {smooth_curve}
        >>> print(gp.summary())
        GPRegressor: 5 knots, log evidence ...
        converged: 5 knots optimised together with the parameters...
        """
        check_is_fitted(self)
        return summarize(self, standard_errors, variogram)

    def diagnose(self) -> Diagnosis:
        """Whether the fit can be trusted, and where not: findings with numbers and advice; shown when printed.

        Convergence, parameters at bounds, jitter and condition of Kuu, the unexplained share of the variance and where
        it is large; from the residuals of neighbouring rows a test of what the model misses, which is blamed on the
        knots only where the exact GP on some of the rows does better; and a heteroscedasticity test of Gaussian noise,
        from 40 rows on, or the reason why it could not be done. With neighbours (`n_neighbors_` is not 0) it says what
        these explain, and predicts training rows without themselves. A model from a file tells what it can.

        Returns
        -------
        Diagnosis
            `findings`, each with `name`, `level`, `text` and `advice`; `ok` says whether nothing should be repaired.

        Examples
        --------
        {curve}
        >>> gp.diagnose().converged
        True
        """
        from knotwise.diagnosis.diagnose import diagnose

        check_is_fitted(self)
        return diagnose(self)

    def certify(self, more_knots: int | None = None) -> Certificate:
        """How far the fit can be from the exact GP with the same parameters: certified bounds; shown when printed.

        For Gaussian data the exact GP's log evidence lies between `lower` and `upper`, and the fit's posterior is at
        most `kl_bound` nats from the exact one, which bounds means and variances at every x. For other data `lower`
        holds too; what else is certain depends on the likelihood, and the words say it. With neighbours both bounds
        hold, through the knots alone, and nothing is certain of the posterior. No N x N matrix is kept; up to
        30,000 rows it takes a few times N^2 kernel values, beyond less. It needs the training data: a model from a file
        raises `NoTrainingDataError`.

        Parameters
        ----------
        {more_knots}

        Returns
        -------
        Certificate
            `lower`, `upper`, `gap`, `kl_bound`, `mean_bound`, `variance_bounds` and `words`, among others; None where
            nothing can be certified.

        Examples
        --------
        >>> import numpy as np
        >>> from knotwise import GPRegressor
        >>> X = np.linspace(0, 6, 80)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=80)
        >>> certificate = GPRegressor(knots=12, random_state=0).fit(X, y).certify()
        >>> bool(certificate.lower <= certificate.upper <= certificate.lower + 0.1)
        True
        """
        from knotwise.diagnosis.certify import certify

        check_is_fitted(self)
        if more_knots is not None:
            more_knots = check_count(more_knots, "more_knots", least=0)
        problem = self._fit.problem
        with executor_for(check_jobs(self.n_jobs)) as executor:
            return certify(self, problem.computed_by(executor), more_knots)

    @property
    def _column_names(self) -> Sequence[str]:
        """Names of the engine's columns, with what they are where columns are encoded."""
        return getattr(self, "feature_names_in_", ()) if self._encoding is None else self._encoding.columns

    def _inputs_back(self, X: np.ndarray) -> np.ndarray:
        """Rows [n, E] of the engine, or one row [E], as the user's table has them."""
        natural = self._fit.scaling.inputs_back(X)
        if self._encoding is None:
            return natural
        values = self._encoding.decode(self._encoding.contract(np.atleast_2d(natural)))
        return values if X.ndim == 2 else values[0]

    @property
    def models_(self) -> AveragedModels:
        """The models over which predictions are averaged: kernel, weight and log evidence of each, `kernel_` first.

        Of most fits it is one.

        Examples
        --------
        {curve}
        >>> [model.weight for model in gp.models_]
        [1.0]
        """
        check_is_fitted(self)
        return table_of(self)

    @property
    def _each(self) -> list[Any]:
        """The models over which predictions are averaged, each as an estimator by itself; of most fits this one."""
        return components_of(self)

    def _mixed(self, each: Sequence[Prediction]) -> Prediction:
        """The mixture of the predictions of `_each`."""
        return each[0] if len(each) == 1 else Prediction.mixture(each, weights_of(self._fit.members))

    def _drawn(self, n_samples: int, rng: np.random.Generator, draw: Callable[[Any, int], np.ndarray]) -> np.ndarray:
        """Joint samples, each by one of `_each`, which is drawn by its weight: `draw(model, number)` has rows [n]."""
        which = rng.choice(len(self._fit.members) + 1, n_samples, p=weights_of(self._fit.members))
        found = [(which == number, own) for number, own in enumerate(self._each)]
        drawn = [(chosen, draw(own, int(chosen.sum()))) for chosen, own in found if chosen.any()]
        samples = np.empty((n_samples, drawn[0][1].shape[1]))
        for chosen, values in drawn:
            samples[chosen] = values
        return samples

    def _engine_inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if isinstance(X, EngineInputs):
            return X.X
        return self._fit.scaling.inputs(np.asarray(check_inputs(self, X)))


def _row_numbers(numbers: np.ndarray | None, order: np.ndarray | None) -> np.ndarray | None:
    """Which rows of the user's data the rows of a problem are, whose rows lie in another order."""
    return numbers if order is None else order if numbers is None else numbers[order]


def _warn_of_independent_residuals(posterior: Posterior, X: np.ndarray) -> None:
    """Say what samples of many rows leave out, as far as some of these rows tell."""
    some = X[:: -(-len(X) // MAX_JOINT_ROWS)]
    with single_threaded_blas():
        variance, residual = posterior.latent(some).variance, posterior.residual_variance(some)
    share = residual.sum() / max(variance.sum(), np.finfo(float).tiny)
    if share > 0.01:
        near = posterior.n_neighbors
        who, advice = ("the neighbours leave", "Ask") if near else ("the knots leave", "Fit with more knots, or ask")
        warn(
            f"X has more than {MAX_JOINT_ROWS:,} rows: {share:.0%} of the variance of f, which {who} open, "
            f"was drawn independently at each row, without the correlation of near rows. {advice} for fewer rows at a "
            "time."
        )
