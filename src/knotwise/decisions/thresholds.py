"""Every constant of a decision: its value, the failure that made it or the reason of the number, and who measured it.

One frozen dataclass a decision, with an instance of it. The metadata of a field name the reason (`why`) and the
benchmark (`benchmark`) whose rows moved when the constant did; "not measured by itself" says that no row of it does.
"""

# ruff: noqa: RUF009 (nobody changes the settings of an optimiser)
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from knotwise.evidence.scores import NEARLY_EXACT
from knotwise.optimize.lbfgs import LBFGS

AUTOMATIC, COLUMNS = "benchmarks/bars/automatic.py", "benchmarks/bars/many_columns.py"
ROWS, NEAR, SITES = "benchmarks/bars/many_rows.py", "benchmarks/bars/neighbours.py", "benchmarks/bars/near_sites.py"
NO_SIGNAL, NOISY = "benchmarks/bars/no_signal.py", "benchmarks/bars/noisy_columns.py"
PRUNED, RARE, STUDY = "benchmarks/bars/pruning.py", "benchmarks/bars/rare.py", "benchmarks/study.py"
FIT_TIME, BESIDE = "benchmarks/bars/fit_time.py", "benchmarks/bars/beside_knots.py"
SUMS = "benchmarks/bars/sums.py"
GAPS, ROUGH = "benchmarks/bars/gaps.py", "benchmarks/bars/rough.py"
COUNTING = "benchmarks/bars/counts.py"
WARPING = "benchmarks/bars/warps.py"
AVERAGES = "benchmarks/bars/averages.py"
UNEVEN = "benchmarks/bars/varying_noise.py"
TAILS = "benchmarks/bars/heavy_tails.py"


def _constant(value: Any, benchmark: str, why: str) -> Any:
    """A field with its value, or without one where instances differ (`...`), the reason and the benchmark."""
    metadata = {"why": why, "benchmark": benchmark}
    return field(metadata=metadata) if value is ... else field(default=value, metadata=metadata)


def _search(max_iterations: int, value_tolerance: float, gradient_tolerance: float) -> LBFGS:
    return LBFGS(max_iterations, value_tolerance, gradient_tolerance)


@dataclass(frozen=True)
class SignalThresholds:
    """Is there anything to learn?"""

    chance: float = _constant(0.01, NO_SIGNAL, "once in a hundred sets of noise a function is seen that is none")
    rows: int = _constant(300, AUTOMATIC, "an exact GP of so many takes a tenth of a second")
    knots: int = _constant(30, NOISY, "all rows through so few knots show a weak function, quickly")
    short: float = _constant(0.1, AUTOMATIC, "length-scales in a patch of neighbours: short ones hide in random rows")
    weaker: float = _constant(100.0, NOISY, "times less variance, with which a weak signal is looked for")
    search: LBFGS = _constant(_search(40, 1e-6, 1e-2), FIT_TIME, "whether there is signal needs no last digit")


@dataclass(frozen=True)
class CountThresholds:
    """Which law of counts, and do counts vary more than Poisson counts would?"""

    rows: int = _constant(300, COUNTING, "to which each law is fitted, with two kernels, in a few tenths of a second")
    validation_rows: int = _constant(1000, COUNTING, "whose density has a small standard error")
    margin: float = _constant(
        1.0, COUNTING, "nats of evidence beyond one for each further parameter: Poisson counts have more twice in 100"
    )
    sure: float = _constant(2.0, COUNTING, "standard errors by which rows that were left out overrule the evidence")
    shorter: float = _constant(0.25, COUNTING, "of the first length-scale, where a second start follows single counts")
    search: LBFGS = _constant(_search(25, 1e-4, 3e-2), COUNTING, "laws differ by more than a tenth of a nat")
    chance: float = _constant(0.01, COUNTING, "that Poisson counts are said to vary more than they may")
    factors: tuple[float, float] = _constant(
        (1.5, 10.0), COUNTING, "times the variance of Poisson counts: the range in which dispersions are tried"
    )
    dispersion: float = _constant(1.0, COUNTING, "to which they are tried at least: of large counts that is far more")
    dispersions: int = _constant(4, COUNTING, "that are tried, each as many times the one before")
    least_factor: float = _constant(1.2, COUNTING, "times as much: with less, intervals are right within a tenth")
    longest: tuple[float, ...] = _constant(
        (1.0, 4.0), COUNTING, "first length-scales: a function that follows each count has far shorter ones"
    )
    tolerance: float = _constant(0.05, COUNTING, "of the logarithm of a dispersion, for a factor with one digit")
    followed: float = _constant(
        0.1, COUNTING, "parameters that the function has for each row, from where on longer ones are tried, too"
    )
    shares: tuple[float, ...] = _constant(
        (0.1, 0.3, 0.5), COUNTING, "of zeros beside the counts, at which a gain is looked for"
    )
    less_dispersion: tuple[float, ...] = _constant(
        (1.0, 0.3, 0.03), COUNTING, "of the dispersion, with each share: it has stood for such zeros"
    )
    least_dispersion: float = _constant(0.1, COUNTING, "the dispersion with which that begins, where the law has none")
    zeros_margin: float = _constant(
        3.0, COUNTING, "nats of evidence beyond one for each further parameter, for zeros beside the counts"
    )
    test_rows: int = _constant(300, COUNTING, "which tell a factor of 1.5 of counts of 3; more take longer")


@dataclass(frozen=True)
class WarpThresholds:
    """Which columns are warped, and how?"""

    skewness: float = _constant(1.0, WARPING, "of a column, below which warps hardly bend it: no uniform one has it")
    kurtosis: float = _constant(6.0, WARPING, "of a column, twice that of a normal one, from where on tails are long")
    least_distinct: int = _constant(8, WARPING, "values of a column: fewer are levels, between which nothing is known")
    many_distinct: int = _constant(50, WARPING, "values, below which these themselves must be skewed: lattices are not")
    skewness_of_distinct: float = _constant(0.7, WARPING, "of few values; those of a lattice have none")
    left_skewed: float = _constant(1.0, WARPING, "skewness after a logarithm: one near 0 throws single rows far out")
    least_rows: int = _constant(60, WARPING, "below which a warp is a gamble")
    most_columns: int = _constant(20, WARPING, "length-scales: with more of them, rows do not tell which one is bent")
    rows: int = _constant(300, WARPING, "that are fitted with each warp, in some hundredths of a second")
    most_tried: int = _constant(6, WARPING, "columns, those with the shortest length-scales, tried one by one")
    irrelevant: float = _constant(10.0, WARPING, "standard deviations of a column: a longer length-scale sees no bend")
    price: float = _constant(2.0, WARPING, "nats of evidence for each warped column: the best of two warps is taken")
    margin: float = _constant(4.0, WARPING, "nats beyond that for all of them")
    clear: float = _constant(12.0, WARPING, "nats with which rows left out need not confirm it: a few outliers hide it")
    sure: float = _constant(1.0, WARPING, "standard errors by which rows left out confirm or refuse a warp")
    search: LBFGS = _constant(_search(25, 1e-4, 3e-2), WARPING, "warps differ by more than a tenth of a nat")


@dataclass(frozen=True)
class VaryingNoiseThresholds:
    """Does the noise of Gaussian data vary with the inputs?"""

    chance: float = _constant(
        0.01, UNEVEN, "that even noise passes the first test, which takes milliseconds; fits take longer"
    )
    few_rows: int = _constant(500, UNEVEN, "up to which fits are quick, and the test has missed what they see")
    chance_of_few: float = _constant(0.05, UNEVEN, "the same there: of 66 rows with a tenfold range p was up to 0.04")
    least_rows: int = _constant(40, UNEVEN, "of which a fifth would be eight: of fewer, sizes of errors tell nothing")
    above_floor: float = _constant(
        100.0,
        UNEVEN,
        "times the least noise that there may be: below, errors are those of rounding; not measured by itself",
    )
    neighbour_rows: int = _constant(40, UNEVEN, "of fewer, sizes of neighbouring errors tell little more than columns")
    near: int = _constant(6, UNEVEN, "rows near each other, whose errors have sizes in common")
    test_rows: int = _constant(5000, UNEVEN, "with neighbours: more rows take longer, and tell no more than enough")
    exact_rows: int = _constant(2500, UNEVEN, "of the exact GP, whose inverse takes as long as an evaluation")
    knots: int = _constant(60, UNEVEN, "of the log noise: with half as many a border across two columns is blurred")
    rows_per_knot: int = _constant(8, UNEVEN, "of fewer rows a knot knows nothing")
    rows: int = _constant(2000, UNEVEN, "that tell the hyperparameters of the log noise, in a second")
    turns: int = _constant(4, UNEVEN, "from the noise to the function and back: a fifth gains less than a tenth nat")
    gain: float = _constant(0.1, UNEVEN, "nats that another turn must promise, by what the last one gained")
    margin: float = _constant(
        1.0, UNEVEN, "nats: the bound has paid for the parameters, and of even noise two sets in 300 have as much"
    )
    sure: float = _constant(2.0, UNEVEN, "standard errors by which rows left out must be likelier")
    columns: int = _constant(5, UNEVEN, "each with a length-scale of the log noise; of more the ones that the test saw")
    seen: int = _constant(3, UNEVEN, "of them, those with the smallest p-values")
    largest: float = _constant(
        4.0,
        UNEVEN,
        "variance of the log noise variance: far from the data the sd of 95 % of noise is 1/7 to 7 times as large",
    )
    log_reach: float = _constant(20.0, UNEVEN, "of the level of the log noise about that of all rows")
    search: LBFGS = _constant(_search(25, 1e-5, 1e-2), UNEVEN, "hyperparameters of the log noise in a turn")
    function_search: LBFGS = _constant(_search(8, 1e-5, 1e-2), UNEVEN, "those of the function in a turn")


@dataclass(frozen=True)
class HeavyTailThresholds:
    """Has the noise of Gaussian data heavy tails?"""

    suspicious: float = _constant(
        4.0, TAILS, "nats by which a t law of errors is likelier: normal errors have more once in some hundred sets"
    )
    starts: tuple[float, ...] = _constant((2.5, 12.0), TAILS, "degrees of freedom: one maximum is of few wild errors")
    df_range: tuple[float, float] = _constant((1.0, 200.0), TAILS, "as of the likelihood, and normal at its upper end")
    normal_kurtosis: float = _constant(3.0, TAILS, "below which no t law is likelier: most sets end there")
    log_reach: float = _constant(6.0, TAILS, "of the scale of a t law about the sd: outliers may be 400 times as large")
    least_precision: float = _constant(
        1e-8, TAILS, "of a site over the prior's: variational inference has negative ones; not measured by itself"
    )
    margin: float = _constant(3.0, TAILS, "nats of the bound over normal noise: one for the parameter, two for chance")
    sure: float = _constant(1.0, TAILS, "standard errors by which rows left out must be likelier")
    near_sure: float = _constant(2.0, TAILS, "the same with neighbours, where no bound speaks")


@dataclass(frozen=True)
class KernelThresholds:
    """Which kernel: one length-scale or one per column, how smooth, and on which columns?"""

    rows: int = _constant(300, AUTOMATIC, "rows that are fitted at first; with fewer, smoothness was chance")
    finalist_rows: tuple[int, ...] = _constant(
        (600, 1500),
        ROUGH,
        "that tell finalists apart: of 300 rows a rough function seems smooth, of 700 airfoil's too rough",
    )
    finalist_rows_of_sites: tuple[int, ...] = _constant(
        (600,), FIT_TIME, "the same where each evaluation searches for sites"
    )
    finalists: int = _constant(3, FIT_TIME, "kernels of a structure that more rows are asked of, at most")
    other_finalists: int = _constant(
        2, STUDY, "of a structure that had lost: of 300 rows of concrete the wrong one led"
    )
    close: tuple[float, ...] = _constant(
        (15.0, 4.0), ROUGH, "nats up to which a kernel is a finalist: 300 rows of concrete are wrong by as much"
    )
    more_rows: float = _constant(1.25, FIT_TIME, "times as many rows, from where on they are asked")
    a_few_more: float = _constant(1.35, FIT_TIME, "times as many rows as are to be fitted, up to which all are")
    newton_steps: int = _constant(8, FIT_TIME, "with a known curvature, before it is learned anew")
    flat: float = _constant(0.05, FIT_TIME, "nats that such a step must promise")
    longest_step: float = _constant(1.0, FIT_TIME, "of it, on the log scale: a curvature holds nearby")
    far_behind: float = _constant(30.0, GAPS, "nats of rows of all scales, beyond which smoother ones are behind, too")
    scales_apart: float = _constant(3.0, GAPS, "times shorter and longer than one length-scale where two begin")
    two_scales: float = _constant(
        2.0, GAPS, "times as long, the longer one: of smooth fields two that were the same seemed likelier"
    )
    most_slopes: int = _constant(10, STUDY, "columns up to which a linear trend is a candidate; not measured by itself")
    vague_slope: float = _constant(
        2.3, GAPS, "nats that a slope's vague prior, ten deviations of y, costs beyond one: a trend in holes was lost"
    )
    rows_per_parameter: int = _constant(
        10, COLUMNS, "for each column, with fewer of which rows that told the hyperparameters do not judge them"
    )
    thin: float = _constant(
        10.0, GAPS, "times as many rows as are fitted, from where on these are thin: patches are, too"
    )
    patches: int = _constant(4, GAPS, "of adjacent rows, which show how rough the function is")
    patch_share: float = _constant(0.4, GAPS, "of the fitted rows lie in patches then")
    validation_rows: int = _constant(1000, AUTOMATIC, "whose density has a small standard error")
    rows_per_column: int = _constant(25, NOISY, "of eight columns, 300 rows took one that matters for irrelevant")
    most_first_rows: int = _constant(800, FIT_TIME, "an exact GP of more takes longer than the fit itself")
    most_rows: int = _constant(1000, NOISY, "fitted where fewer show no signal")
    most_rows_of_sites: int = _constant(600, FIT_TIME, "the same where each evaluation searches for sites")
    fitted_share: float = _constant(0.7, STUDY, "of few rows; not measured by itself")
    least_rows: int = _constant(30, STUDY, "below which nothing is chosen; not measured by itself")
    least_validation_rows: int = _constant(30, STUDY, "fewer say nothing; not measured by itself")
    many_columns: int = _constant(20, COLUMNS, "from which on a kernel on the few that explain most is tried, too")
    longer: float = _constant(1.4, AUTOMATIC, "length-scales of a rougher kernel, relative to the smoother one's")
    longest: float = _constant(2.5, ROUGH, "the same of Matern 1/2: its search took twice the evaluations from 1.4")
    margin: float = _constant(3.0, STUDY, "nats of evidence beyond one for each further hyperparameter")
    clear_margin: float = _constant(
        10.0, FIT_TIME, "times that price, with which rows of all scales are not asked again"
    )
    unconfirmed: float = _constant(2.0, STUDY, "times that price where no rows confirm it; not measured by itself")
    tie: float = _constant(
        1.0, ROUGH, "nats within which Matern 3/2 is taken for a smoother kernel: around a kink its intervals hold"
    )
    rough_tie: float = _constant(
        2.0, ROUGH, "the same for Matern 1/2, with which knots are many: exponential truths were ahead by more"
    )
    open: float = _constant(5.0, ROUGH, "nats within which validation rows may decide between kernels")
    sure: float = _constant(
        3.0, STUDY, "standard errors by which they must be sure: of a few half-spaces two are chance"
    )
    few_rows: float = _constant(
        0.2, COLUMNS, "further hyperparameters for each row from which on validation rows must confirm the evidence"
    )
    many_parameters: float = _constant(
        0.1,
        COLUMNS,
        "further hyperparameters for each row from which on rows beyond the others must be predicted as well, too: of "
        "128 columns with far-out values, a length-scale for each extrapolated to three standard deviations of y",
    )
    clear: float = _constant(2.0, STUDY, "standard errors by which validation rows decide alone")
    search: LBFGS = _constant(_search(25, 1e-5, 1e-2), FIT_TIME, "kernels differ by more than the last digit")
    first_search: LBFGS = _constant(_search(40, 1e-4, 1e-1), FIT_TIME, "finalists differ by more than a tenth of a nat")


@dataclass(frozen=True)
class ValidationThresholds:
    """Where are models judged: near the rows, in gaps of them and beyond them?"""

    balls: int = _constant(16, GAPS, "of rows that are taken away: of one ball the choice was chance")
    least_rows: int = _constant(5, GAPS, "of a ball; fewer are no gap")
    ball_share: float = _constant(
        0.05, GAPS, "of the rows in the largest ball, a sixth to a quarter of the domain wide"
    )
    half_spaces: int = _constant(4, GAPS, "random directions in which rows beyond the others are cut off")
    beyond_share: float = _constant(0.05, GAPS, "of the rows lie farthest out in each")
    judged: int = _constant(
        60, GAPS, "rows of a ball or half-space that are predicted: all of them are one observation"
    )
    most_removed: float = _constant(0.4, GAPS, "of the rows, where all folds are taken away at once")
    asked: int = _constant(60, GAPS, "places at which predictions are wanted, around which balls are taken away")
    asked_share: float = _constant(
        0.2,
        GAPS,
        "of the rows in such a ball: with 0.05, places beyond the data were tested less far than without them",
    )
    middle: float = _constant(0.3, GAPS, "of such a ball's radius, within which its rows are as far away as was asked")
    most_asked: int = _constant(1000, GAPS, "of very many such places that are kept; not measured by itself")


@dataclass(frozen=True)
class ExtrapolationThresholds:
    """Is a prediction farther from the data than the model was tested?"""

    known: float = _constant(
        0.5, GAPS, "of what was known of f at the farthest row that was judged, below which a place is clearly farther"
    )
    least_share: float = _constant(0.5, GAPS, "of the prior variance of f: with less left, the data tell most of it")
    nearly_all: float = _constant(0.95, GAPS, "of the prior variance: farther than where so much was left is nowhere")
    rows: int = _constant(
        1000, GAPS, "of the fit at which few knots that were asked for may leave more than was tested"
    )
    few_places: float = _constant(
        0.01, GAPS, "of the places that may be far without a word: of many rows like those of the fit some are"
    )


@dataclass(frozen=True)
class ScreeningThresholds:
    """Which of many columns matter?"""

    most_columns: int = _constant(20, COLUMNS, "that are taken: more length-scales explain anything")
    chance: float = _constant(0.01, COLUMNS, "that a column which does not matter is taken")
    independent: float = _constant(1e-8, COLUMNS, "length of what is new in a column; below it is rounding")


@dataclass(frozen=True)
class EnoughThresholds:
    """When are knots enough? One instance for each target; shares are unexplained shares of the variance."""

    share: float = _constant(..., STUDY, "that the knots may leave; 0.6 share^2 nats a row from the exact GP")
    first_share: float = _constant(..., STUDY, "of the many knots on rows that find the hyperparameters")
    last_share: float = _constant(..., STUDY, "of those with which they converge")
    first_knots: int = _constant(
        ..., NEAR, "few knots make length-scales long, for which few are enough: observations alone do not lead out"
    )
    converged: float = _constant(..., STUDY, "share at which hyperparameters are the exact GP's")
    converged_sites: float = _constant(..., STUDY, "the same where sites follow them")
    too_few: float = _constant(..., STUDY, "share at which hyperparameters are not the exact GP's")


@dataclass(frozen=True)
class AllTargetsThresholds:
    """What holds for both targets of the knots."""

    wide_rows: float = _constant(0.01, STUDY, "share of rows of which the knots may leave much")
    start_share: float = _constant(0.5, STUDY, "down to which growth is quick, and at which few knots start to move")


@dataclass(frozen=True)
class HyperparameterThresholds:
    """Which hyperparameters: those of the exact GP, through many knots on rows."""

    growth: float = _constant(1.25, FIT_TIME, "of the number of knots between two scores")
    quick_growth: float = _constant(1.6, FIT_TIME, "while most is unexplained")
    still: float = _constant(0.05, STUDY, "change of log hyperparameters below which they have converged")
    flat: float = _constant(0.1, STUDY, "nats between two rounds, up to which it does not matter that they move")
    rounds: int = _constant(8, STUDY, "of fitting hyperparameters and choosing knots for them")
    negligible: float = _constant(0.01, FIT_TIME, "nats that a step must promise where the curvature is known")
    exact_share: float = _constant(1 / 3, FIT_TIME, "of the rows as knots, from where on the exact GP is no slower")
    exact_rows: int = _constant(3000, NEAR, "up to which the exact GP is taken")
    exact_rows_of_sites: int = _constant(1000, SITES, "the same where each evaluation searches for sites")
    first_exact_rows: int = _constant(1000, FIT_TIME, "that see the hyperparameters first")
    more_exact_rows: float = _constant(1.5, FIT_TIME, "times as many rows, from where on that pays")
    some_rows: int = _constant(30_000, ROWS, "that see the hyperparameters before very many do")
    many_rows: int = _constant(150_000, ROWS, "that are very many")
    least_precision: float = _constant(1e-12, STUDY, "of a site: one that says nothing is no place for a knot")
    first_knots: int = _constant(10, STUDY, "with which few knots for given hyperparameters begin")
    round: LBFGS = _constant(_search(40, 1e-7, 1e-2), FIT_TIME, "the next round goes on")
    last_round: LBFGS = _constant(_search(LBFGS().max_iterations, 1e-7, 1e-2), STUDY, "nothing comes after it")
    exact: LBFGS = _constant(_search(LBFGS().max_iterations, 1e-6, 1e-2), FIT_TIME, "each evaluation costs N^3")
    all_rows: LBFGS = _constant(_search(40, 1e-7, 1.0), ROWS, "some rows have found nearly everything")


@dataclass(frozen=True)
class LackOfFitThresholds:
    """Is anything left in the residuals?"""

    groups: tuple[int, ...] = _constant((4, 16), AUTOMATIC, "rows, itself included, whose residuals are added up")
    surprising: float = _constant(5.5, AUTOMATIC, "standard deviations: of 5,000 rows chance gives it once in 1,000")
    least_rows: int = _constant(50, STUDY, "that can show it; not measured by itself")
    patch_rows: int = _constant(300, AUTOMATIC, "around the most surprising place, and as many elsewhere")
    short: tuple[float, ...] = _constant((0.3, 0.05), AUTOMATIC, "length-scales, in spreads of the patch")
    gain: float = _constant(5.0, AUTOMATIC, "nats that other hyperparameters must bring there")
    shorter: float = _constant(2.0, AUTOMATIC, "times as short as before: a fit that starts there may end elsewhere")
    search: LBFGS = _constant(_search(60, 1e-6, 1e-2), FIT_TIME, "a start needs no last digit")


@dataclass(frozen=True)
class InactiveInputThresholds:
    """Does a column really not matter?"""

    inactive: float = _constant(10.0, NOISY, "length-scale in spreads of the columns, too long to matter")
    active: float = _constant(2.0, NOISY, "where one may matter")
    gain: float = _constant(3.0, NOISY, "nats that shorter ones must bring: one more column to be wrong about")
    rows: int = _constant(1000, NOISY, "whose exact GP is asked first, where there are more")
    more: float = _constant(1.5, FIT_TIME, "times as many rows, from where on that pays")
    search: LBFGS = _constant(_search(60, 1e-6, 1e-2), FIT_TIME, "of that exact GP")


@dataclass(frozen=True)
class VanishedThresholds:
    """Has a term of a sum been lost?"""

    rows: int = _constant(200, SUMS, "among which near ones share a term, or do not")
    share: float = _constant(
        0.2, SUMS, "of its start, below which little is left of a variance: weak terms end at a wrong length-scale, too"
    )
    nothing: float = _constant(1e-4, SUMS, "of its start, at which the score is that at zero, without its rounding")
    some: float = _constant(0.05, SUMS, "of its start, at which a second score tells the curvature")
    gain: float = _constant(0.05, SUMS, "nats that the score must promise: less is rounding")
    lengthscales: tuple[float, ...] = _constant(
        (1.0, 0.25, 0.05, 0.01), SUMS, "of their start, at which a score is asked: one says nothing of the others"
    )


@dataclass(frozen=True)
class ExplanationThresholds:
    """Are other hyperparameters of a sum as likely, and do they predict otherwise?"""

    rows: int = _constant(300, SUMS, "whose exact GP tells what each predicts")
    noticeable: float = _constant(0.5, SUMS, "posterior standard deviations by which predictions differ")


@dataclass(frozen=True)
class PlacementThresholds:
    """Few knots for given hyperparameters: where?"""

    rounds: int = _constant(8, STUDY, "of moving knots and adding some")
    iterations: int = _constant(12, FIT_TIME, "of moving knots in each round")
    more_iterations: int = _constant(8, FIT_TIME, "of moving knots further on all rows")
    widest_rows: int = _constant(5000, ROWS, "among which further knots are looked for")
    moving_rows: int = _constant(100_000, ROWS, "that move knots, where there are very many")
    moving_saves: float = _constant(1.7, STUDY, "times the share at which as many knots on rows do what moved ones do")
    far: float = _constant(2.0, FIT_TIME, "times the share wanted, above which more knots are added at once")
    more: float = _constant(0.12, FIT_TIME, "of the knots that are added")
    many_more: float = _constant(0.25, FIT_TIME, "of the knots that are added where the share is far above")
    least_new: int = _constant(2, FIT_TIME, "knots that are added at least; not measured by itself")
    in_gaps: int = _constant(2, GAPS, "times as many knots, of which validation rows in gaps are asked")
    value_tolerance: float = _constant(1e-9, STUDY, "of moving knots; not measured by itself")
    gradient_tolerance: float = _constant(1e-3, STUDY, "of moving knots; not measured by itself")


@dataclass(frozen=True)
class PruningThresholds:
    """Which knots can the others do without?"""

    nearly: float = _constant(1.5, PRUNED, "tolerances up to which a loss with held sites is worth an evaluation")
    singles: int = _constant(4, PRUNED, "cheapest knots that are tried so")


@dataclass(frozen=True)
class NeighbourThresholds:
    """Do Vecchia neighbours predict the residual?"""

    neighbors: int = _constant(15, NEAR, "of a row; more tell little")
    site_neighbors: int = _constant(20, SITES, "a site tells less than an observation, and far rows more beside it")
    pays: float = _constant(
        0.01, BESIDE, "nats per validation row that neighbours must bring, or knots that are too few"
    )
    clear: float = _constant(0.05, BESIDE, "nats that knots do not make up for, once they are moved and fitted")
    sure: float = _constant(
        2.0, BESIDE, "standard errors of a gain in density, below which it may be chance; one where knots are too few"
    )
    many_knots: int = _constant(300, BESIDE, "on rows, against which neighbours are compared")
    tested_rows: int = _constant(10_000, NEAR, "whose residuals are compared with those of their nearest rows")
    surprising: float = _constant(5.0, NEAR, "standard errors of a correlation of residuals that asks for neighbours")
    large: float = _constant(0.05, NEAR, "correlation of residuals below which nothing is worth a neighbour")
    knots: int = _constant(60, GAPS, "with which hyperparameters are learned; more cost time, and tell little")
    usual_knots: int = _constant(200, GAPS, "at last: in gaps, which 100 lie farther from, they predict 2 % better")
    numbers_of_knots: tuple[int, ...] = _constant((400,), GAPS, "tried where the function may be smooth")
    more_knots_pay: float = _constant(0.02, GAPS, "nats per validation row, mean of the kinds, that more must bring")
    pool_rows: int = _constant(2000, NEAR, "among which these knots are placed")
    more_predicting: int = _constant(
        4, GAPS, "times as many neighbours predict new rows, where that helps: in gaps the CRPS is 2 % lower"
    )
    predicting_pays: float = _constant(
        0.001,
        GAPS,
        "nats per validation row that they must bring: less is no gap, and a prediction takes twice as long",
    )
    chosen_rows: int = _constant(4000, GAPS, "rows of all scales, whose density tells kernel and hyperparameters")
    thin_share: float = _constant(
        0.4, GAPS, "of them are thin, each given earlier ones: near rows tell variance / length-scale^(2 nu) only"
    )
    more_chosen_rows: int = _constant(
        20_000, GAPS, "the same at last: of 9,000 chance moved length-scales, and the CRPS in gaps by 4 %"
    )
    validation_rows: int = _constant(3000, NEAR, "near the others, beside those in gaps and beyond")
    validation_share: float = _constant(0.1, NEAR, "of the rows, where they are fewer")
    judges: int = _constant(30, NEAR, "what fewer rows say of hyperparameters that move is chance")
    rounds: int = _constant(6, NEAR, "of choosing neighbours and fitting hyperparameters to them")
    turns: int = _constant(4, SITES, "of fitting hyperparameters to held sites, and finding these anew, a round")
    worse_turns: int = _constant(2, SITES, "one after the other, after which no other is made")
    still: float = _constant(0.02, SITES, "change of log hyperparameters in a turn below which no other is made")
    most_sites: int = _constant(20_000, SITES, "rows whose sites are found again and again; beyond, patches serve")
    patches: int = _constant(20, SITES, "of neighbouring rows, then")
    better: float = _constant(0.003, NEAR, "nats per validation row that another round must bring")
    much_better: float = _constant(
        0.01, NEAR, "nats per validation row by which hyperparameters still move, or another turn is worse"
    )
    longest: tuple[float, float] = _constant(
        (1.0, 8.0), NEAR, "length-scales of two starts, in spreads of the columns: none is irrelevant yet"
    )
    vanished: float = _constant(0.1, SITES, "of its start, below which an amplitude or nugget hardly comes back")
    found: float = _constant(1e-5, SITES, "squared residual of sites that are good enough to find hyperparameters")
    round: LBFGS = _constant(_search(25, 1e-5, 1e-1), NEAR, "validation rows say when to end")
    turn: LBFGS = _constant(_search(12, 1e-5, 1e-1), SITES, "the next turn goes on")
    likelihood: LBFGS = _constant(_search(20, 1e-8, 1e-3), SITES, "one or two parameters, which the next turn moves")


@dataclass(frozen=True)
class GuardThresholds:
    """Does a fit end as good as nothing, and call itself converged?"""

    rows: int = _constant(5000, ROWS, "that tell the evidence of a model without inputs nearly")
    clear: float = _constant(0.05, ROWS, "nats per row above it, five standard errors of so many rows")
    restart_rows: int = _constant(300, "benchmarks/bars/one_at_a_time.py", "whose exact GP gives another start")
    difference: float = _constant(0.5, AUTOMATIC, "nats by which another start must be better to be taken")
    search: LBFGS = _constant(_search(40, 1e-6, 1e-2), FIT_TIME, "of mean and noise alone")


@dataclass(frozen=True)
class AutoThresholds:
    """How many knots and rows, in all?"""

    cap: int = _constant(300, STUDY, "knots, where rows are many")
    big_cap: int = _constant(400, STUDY, "knots on rows that find hyperparameters")
    smallest_cap: int = _constant(100, STUDY, "knots that are never too many")
    rows_per_knot: int = _constant(3, STUDY, "at least, from where on the exact GP is no slower")
    rows_per_big_knot: int = _constant(2, STUDY, "the same of knots that find hyperparameters")
    tolerance: float = _constant(0.01, PRUNED, "nats that a knot must be worth: less shows in no prediction")
    affordable: float = _constant(1e9, ROWS, "rows times squared knots of a pass, where more than the cap are needed")
    no_signal_knots: int = _constant(5, NO_SIGNAL, "that hold the mean and its uncertainty")
    few_rows: int = _constant(20, STUDY, "up to which a knot on every row is the exact GP, and costs nothing")
    judging_rows: int = _constant(1000, AUTOMATIC, "whose exact GP compares what values through knots do not")
    far_from_exact: float = _constant(10.0, AUTOMATIC, "nats by which knots may fall short that rounding keeps few")
    selection_rows: int = _constant(5000, ROWS, "on which hyperparameters and knots are found before all are seen")
    advised_exact_rows: int = _constant(2500, STUDY, "up to which the exact GP is advised; not measured by itself")


@dataclass(frozen=True)
class InformationThresholds:
    """Do the targets tell anything at all?"""

    no_events: int = _constant(3, RARE, "targets that differ: of fewer no mean can be learned")
    few_events: int = _constant(5, RARE, "targets that differ: so many tell little")
    rows_per_event: int = _constant(10, RARE, "among so many rows for each of them")
    most_certain: float = _constant(
        1e10, RARE, "precision times variance of the function from which on sums are rounding"
    )
    nugget_floor: float = _constant(1e-8, RARE, "nugget there, relative to the variance; not measured by itself")


@dataclass(frozen=True)
class AverageThresholds:
    """Over which models are predictions of few rows averaged?"""

    rows: int = _constant(
        500, AVERAGES, "up to which the choice of one kernel is a gamble: of 40 rows it loses .1 nats a row, of 300 .02"
    )
    most_rows: int = _constant(2000, AVERAGES, "up to which an average is made where it is asked for; not measured")
    least_rows: int = _constant(10, AVERAGES, "with fewer, no hyperparameters are looked for; not measured by itself")
    nats: float = _constant(
        10.0,
        AVERAGES,
        "of log evidence within which a kernel is reasonable: with 3, or by leave-one-out errors, real sets lost .1 a "
        "row, and 20 average a rough function with smooth ones",
    )
    price: float = _constant(1.0, AVERAGES, "nats of evidence for each hyperparameter; not measured by itself")
    pair_rows: int = _constant(
        150, AVERAGES, "up to which a kernel has two points of its hyperparameters: of 20 rows, intervals held .90"
    )
    longest: float = _constant(2.5, AVERAGES, "of these points from the optimum, on the log scale")
    lost: float = _constant(4.0, AVERAGES, "nats by which a point may be less likely than the curvature says")
    left: float = _constant(
        1e-4, AVERAGES, "of the noise variance that knots on rows may leave anywhere; not measured by itself"
    )
    determined: float = _constant(1e-8, AVERAGES, "of the prior variance below which what is left is rounding")


@dataclass(frozen=True)
class StandardErrorThresholds:
    """Are standard errors computed unasked?"""

    budget: float = _constant(
        2e10, "benchmarks/bars/standard_errors.py", "products beyond which nobody waits; not measured by itself"
    )


SIGNAL, KERNEL, SCREENING = SignalThresholds(), KernelThresholds(), ScreeningThresholds()
COUNTS = CountThresholds()
WARP = WarpThresholds()
VARYING_NOISE, HEAVY_TAILS = VaryingNoiseThresholds(), HeavyTailThresholds()
VALIDATION, EXTRAPOLATION = ValidationThresholds(), ExtrapolationThresholds()
HYPERPARAMETERS, LACK_OF_FIT = HyperparameterThresholds(), LackOfFitThresholds()
INACTIVE_INPUTS, PLACEMENT, PRUNING = InactiveInputThresholds(), PlacementThresholds(), PruningThresholds()
VANISHED, EXPLANATIONS = VanishedThresholds(), ExplanationThresholds()
NEIGHBOURS, GUARD, AUTO = NeighbourThresholds(), GuardThresholds(), AutoThresholds()
AVERAGE = AverageThresholds()
INFORMATION, STANDARD_ERRORS, ENOUGH = InformationThresholds(), StandardErrorThresholds(), AllTargetsThresholds()

#: what knots must be enough for: the function itself, or new observations
TARGETS = {
    "latent": EnoughThresholds(NEARLY_EXACT, 0.06, 0.004, 10, 0.03, 0.015, 0.12),
    "observation": EnoughThresholds(0.01, 0.03, 0.006, 64, 0.008, 0.006, 0.02),
}
