"""What was fitted and decided, and why, in a few sentences."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from knotwise.estimators.fitted import describe_average, describe_choice, describe_law
from knotwise.estimators.heavy import describe_tails
from knotwise.estimators.warping import describe_warps
from knotwise.plotting.style import abridge, counted
from knotwise.plotting.view import View
from knotwise.report.data import Data
from knotwise.report.scores import Share
from knotwise.selection.trace import Status

LONGEST_NAME = 48  # letters

#: what is predicted, by the name of the likelihood
TARGETS = {
    "Gaussian": "numbers with Gaussian noise",
    "VaryingGaussian": "numbers with Gaussian noise that varies with the inputs",
    "StudentT": "numbers with outliers (Student-t noise)",
    "Bernoulli": "zeros and ones",
    "Binomial": "successes among trials (binomial)",
    "Poisson": "counts (Poisson)",
    "NegativeBinomial": "counts that vary more than Poisson counts (negative binomial)",
    "ZeroInflatedPoisson": "counts, and zeros beside them (zero-inflated Poisson)",
    "ZeroInflatedNegativeBinomial": (
        "counts that vary more than Poisson counts, and zeros beside them (zero-inflated negative binomial)"
    ),
    "Gamma": "positive numbers (gamma)",
    "Exponential": "waiting times (exponential)",
    "Weibull": "waiting times (Weibull)",
    "LogNormal": "positive numbers (log-normal)",
    "Beta": "shares (beta)",
}


def models_of(gp: Any) -> list[tuple[Any, Any]]:
    """The latent models and the class that each has the probability of, None for a regressor."""
    if not hasattr(gp, "classes_"):
        return [(None, gp)]
    labels = gp.classes_.tolist()
    return list(zip(labels[1:] if len(gp.models_) == 1 else labels, gp.models_, strict=True))


def of_class(gp: Any, label: Any) -> str:
    """Which model something is about, in words; nothing where there is one."""
    return f" (class {label!r})" if len(getattr(gp, "classes_", ())) > 2 else ""


def numbered(name: str, gp: Any, model: Any) -> str:
    """A name for a place in the page that is of one model; labels may have no letter in common with a link."""
    return f"{name}-{next(i for i, (_, each) in enumerate(models_of(gp)) if each is model)}"


def sentence(text: str) -> str:
    """A clause as a sentence: with a capital and a full stop, and no marks of code."""
    text = text.strip().replace("`", "")
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}" if text else ""


def number(value: float) -> str:
    """Four digits, and thousands with commas."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def percent(share: float) -> str:
    """A share in percent, with one digit after the point."""
    return f"{100 * share:.1f} %"


def short_name(name: object) -> str:
    """A name from the data as a title or a table has it."""
    return abridge(str(name).strip(), LONGEST_NAME)


def says_little(model: Any) -> bool:
    """Whether a fit is well but found next to nothing, which stands at the top of a page."""
    return model.status_ in (Status.NO_SIGNAL, Status.LITTLE_INFORMATION)


def describe_fit(view: View) -> list[str]:
    """What was fitted to what, how it ended, through how many knots and why, and with which kernel."""
    gp, model = view.gp, view.model
    n_rows = round(model._fit.n_rows, 2)
    what = TARGETS.get(type(model.likelihood_).__name__, type(model.likelihood_).__name__)
    if view.classes is not None:
        what = f"{view.n_classes} classes" + (", by one model of each against the rest" if view.n_classes > 2 else "")
    size = model.likelihood_.size_name if model._fit.size_given else "known noise" if model._fit.noise_given else None
    columns = "one column" if len(view.names) == 1 else f"{len(view.names)} columns"
    said = [
        f"A Gaussian process for {what}{f', with {size}' if size else ''}, "
        f"fitted to {n_rows:,} {'row' if n_rows == 1 else 'rows'} and {columns}."
    ]
    models = [each for _, each in models_of(gp)]
    if len(models) == 1:
        above = model._outcome.warning or says_little(model)
        why = [] if above else [sentence(f"why: {model._outcome.reason}")]
        varies = "" if model._fit.noise is None else model._fit.noise.in_words(model._fit.scaling.y_scale)
        decided = [
            sentence(describe_law(model)),
            sentence(describe_warps(model)),
            sentence(varies or describe_tails(model)),
            _kernel(model),
            sentence(describe_average(model)),
            describe_tested(model),
        ]
        rest = filter(None, [*decided, f"Status: {model.status_}."])
        return [*said, f"It is {describe_knots_of(model)}.", *why, *rest]
    statuses = Counter(str(each.status_) for each in models)
    knots = [each.n_knots_ for each in models]
    size = f"{knots[0]} knots each" if len({*knots}) == 1 else f"{min(knots)} to {max(knots)} knots"
    said.append(f"The models have {size}; the section on knots says why.")
    said.append("Status: " + ", ".join(f"{status} ({n} of {len(models)} models)" for status, n in statuses.items()))
    return [*said[:-1], f"{said[-1]}."]


def describe_knots_of(model: Any) -> str:
    """Exact, through knots, or through knots and neighbours."""
    if model._fit.posterior.is_exact:
        return "the exact GP, without knots"
    near = f", with {counted(model.n_neighbors_, 'neighbour')} of each row" if model.n_neighbors_ else ""
    return f"an approximation through {counted(model.n_knots_, 'knot')}{near}"


def kernel_name(kernel: Any) -> str:
    """A kernel by its class: "Matern 5/2"; of a sum or a product, as it is written."""
    name = type(kernel).__name__
    matern = re.fullmatch(r"Matern(\d)(\d)", name)
    if matern:
        return f"Matern {matern[1]}/{matern[2]}"
    parts = re.findall(r"[A-Z][a-z]+", name)
    return " ".join(parts).capitalize() if name in ("SquaredExponential", "RationalQuadratic") else repr(kernel)


def _kernel(model: Any) -> str:
    scales = model.parameters_.with_role("lengthscale").sum()
    length = f" with {scales} length-scales" if scales > 1 else ""
    choice = describe_choice(model)  # which has the columns of a kernel that sees few of many
    kernel = model.kernel_.unrestricted if choice else model.kernel_
    return f"The kernel is {kernel_name(kernel)}{length}{choice}."


def describe_tested(model: Any) -> str:
    """What validation rows said of the kernel that was chosen, and how far from the data; else nothing."""
    fit = model._fit
    return "" if fit.tested is None else sentence(fit.tested.in_words(fit.scaling.y_scale))


def describe_comparison(data: Data, scores: dict[str, float], shares: list[Share]) -> str:
    """How near predictions are to what was observed, and whether intervals hold, in a sentence; else nothing."""
    if not scores:
        return ""
    n = f"{len(data):,} {'row' if len(data) == 1 else 'rows'}"
    where = {True: " of the fit", False: " that the fit has not seen", None: ""}[data.origin.fitted]
    if "accuracy" in scores:
        return (
            f"Of {n}{where}, {percent(scores['accuracy'])} have the class that is predicted; the most frequent class "
            f"alone would be right for {percent(scores['share_of_most_frequent_class'])}."
        )
    error, spread = scores["root_mean_squared_error"], scores["standard_deviation_of_target"]
    text = f"On {n}{where}, predictions are off by {number(error)} (root mean square), while "
    text += f"{short_name(data.target)} has a standard deviation of {number(spread)}"
    inside = next((share for share in shares if share.what == "inside 95 % intervals"), None)
    return f"{text}; 95 % intervals hold {percent(inside.observed)} of them." if inside else f"{text}."


def describe_calibration(shares: list[Share]) -> str:
    """Which share is least like that of a right model, in a sentence; nothing where all are."""
    wrong = [share for share in shares if share.problem]
    if not wrong:
        return ""
    worst = max(wrong, key=lambda share: abs(share.observed - share.predicted))
    more = f", and {counted(len(wrong) - 1, 'other share')}" if len(wrong) > 1 else ""
    return (
        f"{sentence(worst.problem)[:-1]}: {percent(worst.observed)} {worst.what}{more}, where a right model has "
        f"{percent(worst.low)} to {percent(worst.high)}."
    )
