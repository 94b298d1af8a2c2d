"""What a selector of knots works on: a model, the rows that it should explain, and what may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from knotwise.checkpoint.journal import Journal, are_alike
from knotwise.errors import InvalidInputError, warn
from knotwise.evidence import Blocks, Evidence, Jitter, Model, Point, Rows, full_evidence, sparse_evidence
from knotwise.evidence.blocks import RowSummary
from knotwise.evidence.inference import Inference, inference_of
from knotwise.evidence.scores import KnotScores, KnotSums, RowScores, knot_scores, knot_sums, rank_one_gains, row_scores
from knotwise.kernels.base import Kernel
from knotwise.numerics.blocks import Executor
from knotwise.numerics.linalg import pivoted_order
from knotwise.numerics.parameters import ParameterTable
from knotwise.optimize.base import Optimizer
from knotwise.selection.base import Decision, Observer, Selection, Stage
from knotwise.selection.initial import MAX_CLUSTER_ROWS, Initial, checked_knots, initial_knots
from knotwise.selection.optimizing import best_of_starts, through_surrogate
from knotwise.selection.places import KnotPlaces, distinct_places
from knotwise.selection.trace import KnotStep, KnotTrace

BOX_MARGIN = 0.1  # knots stay inside the data's box plus this share of its range on each side
REDUNDANT_SHARE = 1e-8  # conditional variance, relative to the prior's, below which a knot serves no function
NEVER_TOO_MANY = 1000  # knots that a user may ask for, whatever the number of rows

Result = TypeVar("Result")


@dataclass(frozen=True)
class Run:
    """How a problem is computed: where its rows are, what keeps finished steps, and the observer."""

    blocks: Blocks
    journal: Journal | None = None
    observer: Observer | None = None


class KernelMaker(Protocol):
    """Makes the problem of a fit for another kernel: an object of plain parts, which can be pickled."""

    def __call__(self, kernel: Kernel) -> Problem: ...

    def with_trend(self) -> KernelMaker | None:
        """The same with a linear trend beside the kernel; None where the mean is given, or is linear already."""
        ...


@dataclass(frozen=True)
class Problem:
    """Model, rows, bounds and optimiser of one fit, in the units of the engine: what a selector works on.

    Rows are seen through their `summary`, a sample, the best by a score, and passes; where they are is the matter of
    the `run`.

    Parameters
    ----------
    model : Model
        Kernel, likelihood, mean, nugget, inference and residual.
    table : ParameterTable
        Names, starts, bounds and holds of the parameters.
    run : Run
        How it is computed: where the rows are, what keeps finished steps, and the observer.
    optimizer : Optimizer or None
        What finds parameters and knots; None keeps them.
    given : array [P] of bool
        The parameters to which the user gave a value; the others may start elsewhere.
    jitter : float, optional
        Diagonal added to Kuu, relative to the kernel's variance; None is the smallest that works.
    n_restarts : int, default 0
        Further random starts of the optimiser.
    full : bool, default False
        Whether it is the exact GP, without knots.
    surrogate : Inference, optional
        A quicker inference than the model's, with which parameters and knots are looked for first; no value of it is
        kept.
    scale_inputs : function, optional
        From the user's units of the inputs to the engine's; by default they are the same.
    may_be_exact : bool, default False
        Whether a selector may take the exact GP instead of knots.
    n_neighbors : int or None, default 0
        How many Vecchia neighbours predict the residual; None where a selector may decide.
    found : Decision, optional
        Starting hyperparameters that an earlier search has found on some rows: `n_rows` and the `log_bayes_factor`
        against no signal are among its numbers.
    earlier : tuple of KnotStep, default ()
        The steps of that search.
    places : KnotPlaces, optional
        Where knots may be: on levels of categories, on spheres; by default anywhere.
    tried : object, optional
        The trial and the candidate in which the kernel was chosen with neighbours, from which their decision goes on.
    curvature : array [P, P], optional
        Negative Hessian for one row of the objective at the hyperparameters that were found, as far as it was learned.
    asked : array [M, D], optional
        Inputs at which predictions are wanted: validation rows are as far from the others as these from the data.
    rivals : tuple, default ()
        The candidates of the choice of the kernel, over which predictions of few rows are averaged.

    Examples
    --------
    What a selector can ask:

    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.numerics.blocks import Serial
    >>> class Tour:
    ...     def select(self, problem, rng):
    ...         theta, Z = problem.table.theta, problem.initial_knots("grid", problem.sensible_number(4), rng)
    ...         point = problem.point(theta, Z)
    ...         evidence = problem.evaluate(point, gradient=False)
    ...         stage = problem.optimize(theta, Z, rng)
    ...         some = problem.take(problem.sample(10, rng))
    ...         self.seen = {
    ...             "better": problem.log_evidence(stage) > evidence.value,
    ...             "rows": (problem.summary.n_rows, some.count, len(problem.distinct(100))),
    ...             "left": problem.scores(point).share > problem.scores(stage.point).share,
    ...             "row": problem.row_scores(point, some).c.shape,
    ...             "gains": problem.gains(point, some.X).shape,
    ...             "sums": problem.knot_sums(point) is not None,
    ...             "redundant": problem.redundant(theta, np.vstack([Z, Z[:1]])).sum(),
    ...             "on few rows": problem.on_rows(some).anew().computed_by(Serial()).summary.n_rows,
    ...         }
    ...         trace = problem.new_trace()
    ...         trace.add("tour", len(Z), problem.log_evidence(stage))
    ...         fits = lambda found: found.Z.shape == Z.shape
    ...         again = problem.memoize(("tour", Z), lambda: stage, (type(stage),), rng, fits=fits)
    ...         return problem.selection(again, "a tour", trace)
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> tour = Tour()
    >>> gp = GPRegressor(knots=tour, random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> bool(tour.seen["better"]), tour.seen["rows"], tour.seen["on few rows"]
    (True, (24, 10, 24), 10)
    >>> tour.seen["row"], tour.seen["gains"], int(tour.seen["redundant"])
    ((10,), (10,), 1)
    """

    model: Model
    table: ParameterTable
    run: Run = field(repr=False)
    optimizer: Optimizer | None
    given: np.ndarray
    jitter: float | None = None
    n_restarts: int = 0
    full: bool = False
    surrogate: Inference | None = None
    scale_inputs: Callable[[np.ndarray], np.ndarray] = np.array
    may_be_exact: bool = False
    n_neighbors: int | None = 0
    found: Decision[np.ndarray] | None = None
    earlier: tuple[KnotStep, ...] = ()
    places: KnotPlaces = field(default_factory=KnotPlaces)
    asked: np.ndarray | None = field(default=None, repr=False)
    tried: Any = field(default=None, repr=False)
    curvature: np.ndarray | None = field(default=None, repr=False)
    rivals: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def free(self) -> np.ndarray:
        """Which entries of theta are optimised."""
        return ~self.table.fixed

    @property
    def inference(self) -> Inference:
        """The inference of which all values are."""
        return inference_of(self.model)

    @property
    def by_surrogate(self) -> Problem:
        """The same problem under the surrogate's inference, for what needs no values; itself without a surrogate."""
        if self.surrogate is None:
            return self
        return replace(self, model=replace(self.model, inference=self.surrogate), surrogate=None)

    # -- rows -----------------------------------------------------------------------------------------

    @property
    def summary(self) -> RowSummary:
        """Count, box and moments of the rows."""
        return self.run.blocks.summary

    @property
    def rows(self) -> Rows:
        """All rows, for models that need them at one place: the exact GP, and samples."""
        return self.run.blocks.take(slice(None))

    def take(self, numbers: np.ndarray) -> Rows:
        """Some rows, by their numbers.

        Parameters
        ----------
        numbers : array of int
            Which rows of the data.

        Returns
        -------
        Rows
            Inputs, targets and what else is known of them.
        """
        return self.run.blocks.take(numbers)

    def sample(self, n_rows: int, rng: np.random.Generator, *, by_weight: bool = False) -> np.ndarray:
        """Numbers of some rows in order: all of them where there are no more, else drawn at random.

        Parameters
        ----------
        n_rows : int
            How many to draw.
        rng : Generator
            Where randomness comes from.
        by_weight : bool, default False
            Draw rows in proportion to their sample weights.

        Returns
        -------
        array of int
            Numbers of rows, for `take`.
        """
        if self.summary.n_rows <= n_rows and not by_weight:
            return np.arange(self.summary.n_rows)
        return self.run.blocks.sample(n_rows, rng, by_weight=by_weight)

    def on_rows(self, rows: Rows) -> Problem:
        """The same problem for other rows, few enough to be held here.

        Parameters
        ----------
        rows : Rows
            As from `take`.

        Returns
        -------
        Problem
            A new one; this one stays as it is.
        """
        rows = replace(rows, basis=self.model.mean.basis(rows.X))  # they may be those of another mean
        return replace(self, run=replace(self.run, blocks=self.run.blocks.at_driver(rows)))

    def anew(self) -> Problem:
        """The same problem, without the per-block cache of earlier evaluations.

        Returns
        -------
        Problem
            A new one; this one stays as it is.
        """
        return replace(self, run=replace(self.run, blocks=self.run.blocks.anew()))

    def computed_by(self, executor: Executor) -> Problem:
        """The same problem for nobody to follow, computed by another executor.

        Parameters
        ----------
        executor : Executor
            What runs the blocks of rows.

        Returns
        -------
        Problem
            A new one, without journal and observer.
        """
        return replace(self, run=Run(self.run.blocks.computed_by(executor)))

    @cached_property
    def box(self) -> np.ndarray:
        """Bounds of the knots, [D, 2]: the data's box and a margin."""
        low, high = self.summary.low, self.summary.high
        margin = BOX_MARGIN * (high - low)
        return self.places.widen(np.column_stack([low - margin, high + margin]))

    @property
    def varying_variances(self) -> np.ndarray:
        """Variances of the columns that vary; total ones of those groups of encoded columns that do."""
        variance, groups = self.summary.variance, self.model.kernel.groups
        varies = self.summary.varies
        if groups is None:
            return variance[varies]
        return np.bincount(groups, variance * varies)[np.unique(np.array(groups)[varies])]

    @cached_property
    def typical_points(self) -> np.ndarray:
        """Two points that stand for the inputs' size, whatever their order."""
        centre, spread = self.summary.mean, np.sqrt(self.summary.variance)
        return np.vstack([centre - spread, centre + spread])

    # -- evaluations ----------------------------------------------------------------------------------

    def point(self, theta: np.ndarray, Z: np.ndarray) -> Point:
        """Parameters and knots with the jitter that they need: the smallest that works, or the one that was given.

        Parameters
        ----------
        theta : array [P]
            Parameters.
        Z : array [K, D]
            Places of the knots.

        Returns
        -------
        Point
            Where the evidence can be evaluated.
        """
        if self.full:
            return Point(theta, Z, None)
        kernel = self.model.with_theta(theta).kernel
        return Point(theta, Z, Jitter.choose(kernel, Z, self.typical_points, self.jitter))

    def evaluate(self, point: Point, *, gradient: bool = True, start: np.ndarray | None = None) -> Evidence:
        """Evidence of the rows at a point, exact or through its knots.

        Parameters
        ----------
        point : Point
            Parameters, knots and jitter.
        gradient : bool, default True
            Also compute the gradients.
        start : array, optional
            Where inference begins, from a state of the same rows and knots: a of the exact GP, gamma through knots.
            None is the warm start that the last evaluation has left.

        Returns
        -------
        Evidence
            The value, gradients if asked, and the state.
        """
        model, blocks = self.model.with_theta(point.theta), self.run.blocks
        if self.full or point.jitter is None:
            evidence = full_evidence(
                model, self.rows, gradient=gradient, start=blocks.last() if start is None else start
            )
            if evidence.converged and inference_of(model).several_passes:
                blocks.restore(evidence.state.last)
        else:
            evidence = sparse_evidence(model, blocks, point.Z, jitter=point.jitter, gradient=gradient, start=start)
        if self.run.observer is not None:
            self.run.observer.tick(len(point.Z), evidence.value, self.summary.count)
        return evidence

    def scores(self, point: Point, rows: Rows | None = None, *, widest: int | None = None) -> KnotScores:
        """The residual relative to what is known, over all rows; and of some rows, or of the widest, each by itself.

        Parameters
        ----------
        point : Point
            Parameters, knots and jitter.
        rows : Rows, optional
            Rows to be looked at one by one.
        widest : int, optional
            So many rows of which the knots leave most are looked at one by one.

        Returns
        -------
        KnotScores
            `share` and `residual_information`, means over all rows.
        """
        return knot_scores(**self._at(point), at_rows=rows, widest=widest)

    def row_scores(self, point: Point, rows: Rows | None = None) -> RowScores:
        """Row by row, the residual and the unexplained share of the variance.

        Parameters
        ----------
        point : Point
            Parameters, knots and jitter.
        rows : Rows, optional
            Some rows; all of them by default.

        Returns
        -------
        RowScores
            `c`, the residual variance, `W`, the precision of the observation, and `shares`, [n] each.
        """
        return row_scores(**self._at(point), at_rows=rows)

    def gains(self, point: Point, candidates: np.ndarray) -> np.ndarray:
        """Approximate gain in log evidence of each candidate as one more knot, at fixed parameters.

        Parameters
        ----------
        point : Point
            Parameters, knots and jitter.
        candidates : array [M, D]
            Places of one more knot.

        Returns
        -------
        array [M]
            In nats; exact for Gaussian data under VFE.
        """
        return rank_one_gains(**self._at(point), candidates=candidates)

    def knot_sums(self, point: Point) -> KnotSums:
        """What tells the evidence of any subset of the knots under VFE, at fixed parameters.

        Parameters
        ----------
        point : Point
            Parameters, knots and jitter.

        Returns
        -------
        KnotSums
            Sums over all rows, K x K.
        """
        return knot_sums(**self._at(point))

    def _at(self, point: Point) -> dict[str, Any]:
        assert point.jitter is not None
        model = self.model.with_theta(point.theta)
        return {"model": model, "rows": self.run.blocks, "Z": point.Z, "jitter": point.jitter}

    def optimize(
        self, theta: np.ndarray, Z: np.ndarray, rng: np.random.Generator, *, move: np.ndarray | None = None
    ) -> Stage:
        """Optimise the free parameters, and knots together with them.

        With restarts, the best of several starts; a start whose evidence cannot be computed is skipped and counted.

        Parameters
        ----------
        theta : array [P]
            Where parameters start.
        Z : array [K, D]
            Where knots start.
        rng : Generator
            For restarts.
        move : array [K] of bool, optional
            The knots that move; None holds all of them.

        Returns
        -------
        Stage
            Where it ended, and how.
        """
        search = best_of_starts if self.surrogate is None or self.optimizer is None else through_surrogate
        return search(self, theta, Z, rng, move)

    def log_evidence(self, stage: Stage) -> float:
        """Log evidence at the end of a stage, whose value has the log prior of the parameters in it.

        Parameters
        ----------
        stage : Stage
            As from `optimize`.

        Returns
        -------
        float
            In nats, in the engine's units of y.
        """
        return stage.value - self.table.log_prior(stage.theta)[0]

    def selection(
        self,
        stage: Stage,
        reason: str,
        trace: KnotTrace | None = None,
        *,
        failed_restarts: int | None = None,
        knots_as_given: np.ndarray | None = None,
    ) -> Selection:
        """What a selector returns when it ends at a stage: with the evidence there.

        Parameters
        ----------
        stage : Stage
            As from `optimize`.
        reason : str
            Why so many knots, in words.
        trace : KnotTrace, optional
            The steps on the way, as from `new_trace`.
        failed_restarts : int, optional
            Starts that failed in all stages; by default those of this one.
        knots_as_given : array [K, D], optional
            The user's own array of knots, in the user's units.

        Returns
        -------
        Selection
            Parameters, knots, evidence and reason.
        """
        evidence = self.evaluate(stage.point, gradient=False)
        failed = stage.failed_restarts if failed_restarts is None else failed_restarts
        if trace is None:
            trace = KnotTrace(steps=self.earlier)
            trace.stop_reason = reason if self.earlier else ""
        others = stage.others
        return Selection(stage.point, evidence, stage.result, reason, failed, trace, knots_as_given, others=others)

    # -- checkpoints and trace ------------------------------------------------------------------------

    def memoize(
        self,
        inputs: tuple[Any, ...],
        compute: Callable[[], Result],
        types: tuple[type, ...],
        rng: np.random.Generator | None = None,
        *,
        fits: Callable[[Result], bool],
    ) -> Result:
        """Compute a step, or take its result from the journal, where it is kept from before an interruption.

        Parameters
        ----------
        inputs : tuple
            All that the step depends on beside the problem and the generator, beginning with its name.
        compute : function
            Computes the step, without arguments.
        types : tuple of types
            The dataclasses of which its result is made, its own first.
        rng : Generator, optional
            Which the step uses; it is left as the step has left it.
        fits : function
            Whether the arrays of a result have the shapes of this step.

        Returns
        -------
        result
            What `compute` gives.
        """
        journal, blocks = self.run.journal, self.run.blocks
        if journal is None:
            return compute()
        inferences = (repr(self.inference), repr(self.surrogate))
        own = (
            blocks.identity(),
            self.table,
            repr(self.model.kernel),
            self.model.power,
            self.full,
            self.optimizer,
            self.jitter,
            getattr(self.model.residual, "graph", None),
            *inferences,
        )
        return journal.memoize(
            (*inputs, *own),
            compute,
            types=types,
            warm_start=blocks,
            rng=rng,
            fits=lambda result, last: fits(result) and (last is None or _is_like_last(last, self.rows.y)),
        )

    def new_trace(self) -> KnotTrace:
        """An empty record of a selection, whose steps the observer sees.

        Returns
        -------
        KnotTrace
            With the steps of an earlier search, if there was one.
        """
        return KnotTrace(
            None if self.run.observer is None else self.run.observer.step, self.inference.word, self.earlier
        )

    # -- knots ----------------------------------------------------------------------------------------

    def distinct(self, most: int) -> np.ndarray:
        """Different places of the rows, in the order of their values.

        Parameters
        ----------
        most : int
            No more than so many are looked for.

        Returns
        -------
        array [n, D]
            Inputs, each once.
        """
        return distinct_places(self.run.blocks, most)

    def sensible_number(self, n_knots: int) -> int:
        """A number of knots that was asked for, or fewer with a warning.

        As many as there are different rows, and no more than a third of many rows, from where on knots cost more than
        the exact GP.

        Parameters
        ----------
        n_knots : int
            What was asked for.

        Returns
        -------
        int
            At most `n_knots`.
        """
        most = max(NEVER_TOO_MANY, self.summary.n_rows // 3)
        places = len(self.distinct(min(n_knots, most)))
        if places < n_knots:
            why = "the number of different rows" if places < most else "more would cost more than the exact GP"
            warn(
                f"{n_knots:,} knots were asked for, and cut to {places:,}: {why}. They stay where they are placed. "
                "Ask for fewer, let `knots='auto'` choose, or use approximation='full'."
            )
        return places

    def initial_knots(self, how: Initial, n_knots: int, rng: np.random.Generator) -> np.ndarray:
        """Initial knots in the units of the engine.

        Parameters
        ----------
        how : name, array [K, D] or function
            "kmeans", "grid", "random", "kmeans-per-class"; an array in the user's units; or a function of (X, y,
            n_knots, rng), which sees a sample of rows.
        n_knots : int
            How many at most.
        rng : Generator
            Where randomness comes from.

        Returns
        -------
        array [K, D]
            The knots, with K at most `n_knots`.
        """
        if not isinstance(how, str) and not callable(how):
            return self.scale_inputs(checked_knots(how, self.summary.n_columns))
        if isinstance(how, str) and how == "grid":
            if not self.places.is_free:
                raise InvalidInputError("A grid of knots is for columns of numbers. Use `initial='kmeans'`.")
            corners = np.vstack([self.summary.low, self.summary.high])
            return initial_knots(how, corners, np.zeros(2), n_knots, rng)
        rows = self.take(self.sample(MAX_CLUSTER_ROWS, rng))
        return self.places.onto(initial_knots(how, rows.X, rows.y, n_knots, rng))

    def redundant(self, theta: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Which knots the others determine to within a share of 1e-8 of the prior variance.

        It is a rule of minimum separation that each kernel sets for itself: the squared pivots of a pivoted
        Cholesky factor of Kuu are the variances of each knot's value given those before it.

        Parameters
        ----------
        theta : array [P]
            Parameters.
        Z : array [K, D]
            Places of the knots.

        Returns
        -------
        array [K] of bool
            True for knots that can be dropped.
        """
        Kuu = self.model.with_theta(theta).kernel(Z, Z)
        kept = pivoted_order(Kuu, REDUNDANT_SHARE * float(Kuu.diagonal().max()))
        drop = np.ones(len(Z), bool)
        drop[kept] = False
        return drop


def _is_like_last(last: np.ndarray, y: np.ndarray) -> bool:
    """Whether an array may be the warm start of a search: a, or a and sites."""
    return are_alike(last if last.ndim == 1 else last.T[0], y) and (last.ndim == 1 or last.shape[1:] == (3,))
