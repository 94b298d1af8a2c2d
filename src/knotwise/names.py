"""The words by which users choose a kernel or a likelihood, and the classes that they stand for.

Nothing is imported here: the command line lists the words in its help, and loads the classes only when it fits.
"""

from __future__ import annotations

__all__ = ["DECIDED", "KERNELS", "LIKELIHOODS", "TRANSFORMS", "WARPS", "WITH_ZEROS"]

#: words of the command line, and classes of knotwise.kernels
KERNELS = {
    "se": "SquaredExponential",
    "matern12": "Matern12",
    "matern32": "Matern32",
    "matern52": "Matern52",
    "rq": "RationalQuadratic",
    "periodic": "Periodic",
    "linear": "Linear",
}

#: words of an estimator's `likelihood` and of the command line, and classes of knotwise.likelihoods
LIKELIHOODS = {
    "gaussian": "Gaussian",
    "student_t": "StudentT",
    "bernoulli": "Bernoulli",
    "binomial": "Binomial",
    "poisson": "Poisson",
    "negative_binomial": "NegativeBinomial",
    "zero_inflated_poisson": "ZeroInflatedPoisson",
    "zero_inflated_negative_binomial": "ZeroInflatedNegativeBinomial",
    "gamma": "Gamma",
    "exponential": "Exponential",
    "weibull": "Weibull",
    "lognormal": "LogNormal",
    "beta": "Beta",
}

#: words of `likelihood` that leave a choice to the data, and the laws among which they do: fewest parameters first
DECIDED = {
    "counts": ("poisson", "negative_binomial", "zero_inflated_poisson", "zero_inflated_negative_binomial"),
}
#: those of them that are tried only where there are more zeros than the others say
WITH_ZEROS = ("zero_inflated_poisson", "zero_inflated_negative_binomial")

#: words of `transform` and of the command line, and classes of knotwise.transforms
TRANSFORMS = {"log": "Log", "sqrt": "Sqrt", "boxcox": "BoxCox", "yeojohnson": "YeoJohnson"}

#: words of `warp` and of the command line, and classes of knotwise.warps
WARPS = {"log": "Log", "normal": "NormalScores"}
