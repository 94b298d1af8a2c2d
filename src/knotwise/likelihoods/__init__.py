"""Likelihoods: how the data depend on the latent function."""

from knotwise import names
from knotwise.errors import unknown_option
from knotwise.likelihoods.base import Derivatives, Expectations, Likelihood, ParameterDerivatives, Tilted
from knotwise.likelihoods.bernoulli import Bernoulli
from knotwise.likelihoods.beta import Beta
from knotwise.likelihoods.binomial import Binomial
from knotwise.likelihoods.gamma import Exponential, Gamma
from knotwise.likelihoods.gaussian import Gaussian
from knotwise.likelihoods.lognormal import LogNormal
from knotwise.likelihoods.negative_binomial import NegativeBinomial
from knotwise.likelihoods.poisson import Poisson
from knotwise.likelihoods.student_t import StudentT
from knotwise.likelihoods.varying import VaryingGaussian
from knotwise.likelihoods.weibull import Weibull
from knotwise.likelihoods.zero_inflated import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from knotwise.numerics.parameters import Parameter

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Derivatives",
    "Expectations",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Likelihood",
    "LogNormal",
    "NegativeBinomial",
    "Parameter",
    "ParameterDerivatives",
    "Poisson",
    "StudentT",
    "Tilted",
    "VaryingGaussian",
    "Weibull",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "candidates_named",
    "likelihood_named",
]

#: the names that an estimator's `likelihood` takes
LIKELIHOODS: dict[str, type[Likelihood]] = {name: globals()[cls] for name, cls in names.LIKELIHOODS.items()}


def likelihood_named(name: str) -> Likelihood:
    """Return the likelihood of this name with its parameters left to the data.

    Parameters
    ----------
    name : str
        One of the names that the `likelihood` of `GPRegressor` takes, such as "poisson".

    Returns
    -------
    Likelihood
        A new object.

    Examples
    --------
    >>> from knotwise.likelihoods import likelihood_named
    >>> likelihood_named("student_t")
    StudentT()
    """
    if not isinstance(name, str) or name not in LIKELIHOODS:
        raise unknown_option("`likelihood`", name, [*LIKELIHOODS, *names.DECIDED])
    return LIKELIHOODS[name]()


def candidates_named(name: str) -> tuple[Likelihood, ...]:
    """Return the likelihoods among which the data decide, or the one of this name.

    Parameters
    ----------
    name : str
        One of the names that the `likelihood` of `GPRegressor` takes, such as "counts".

    Returns
    -------
    tuple of Likelihood
        New objects, the one with fewest parameters first.

    Examples
    --------
    >>> from knotwise.likelihoods import candidates_named
    >>> candidates_named("counts")
    (Poisson(), NegativeBinomial(), ZeroInflatedPoisson(), ZeroInflatedNegativeBinomial())
    >>> candidates_named("poisson")
    (Poisson(),)
    """
    decided = names.DECIDED.get(name, (name,)) if isinstance(name, str) else (name,)
    return tuple(map(likelihood_named, decided))
