"""Small cases with reference values from another program, through the public face."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from knotwise import GPRegressor
from knotwise.kernels import SquaredExponential
from knotwise.likelihoods import Gaussian

CASES = json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())["cases"]
GAUSSIAN = [name for name, case in CASES.items() if case["likelihood"] == "gaussian"]


def fitted(case, approximation):
    return GPRegressor(
        kernel=SquaredExponential(case["variance"], case["lengthscale"]),
        likelihood=Gaussian(case["noise_variance"]),
        approximation=approximation,
        knots=np.array(case["knots"]),
        mean=case["mean"],
        jitter=case["jitter"],
        optimizer=None,
        standardize=False,
        n_jobs=1,
    ).fit(case["X"], case["y"])


def test_there_are_gaussian_cases_with_one_and_with_several_lengthscales():
    assert {np.ndim(CASES[name]["lengthscale"]) for name in GAUSSIAN} == {0, 1}


@pytest.mark.parametrize("approximation", ["fic", "full"])
@pytest.mark.parametrize("name", GAUSSIAN)
def test_evidence_and_predictions_are_the_golden_ones(name, approximation):
    case = CASES[name]
    gp, expected = fitted(case, approximation), case["expected"]
    assert_allclose(gp.log_evidence_, expected[f"{approximation}_log_evidence"], rtol=1e-8)
    assert_allclose(gp.evidence().value, gp.log_evidence_, rtol=1e-12)
    latent = gp.predict_latent(case["X_test"])
    assert_allclose(latent.mean, expected[f"{approximation}_latent_mean"], rtol=1e-8)
    assert_allclose(latent.variance, expected[f"{approximation}_latent_variance"], rtol=1e-8)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_the_knot_gradient_is_the_golden_one(name):
    case = CASES[name]
    assert_allclose(fitted(case, "fic").evidence().knot_gradient, case["expected"]["fic_knot_gradient"], rtol=1e-8)


@pytest.mark.parametrize("approximation", ["fic", "full"])
@pytest.mark.parametrize("name", GAUSSIAN)
def test_without_an_optimiser_everything_stays_as_it_was_given(name, approximation):
    case = CASES[name]
    gp = fitted(case, approximation)
    assert_allclose(gp.kernel_.variance, case["variance"], rtol=1e-14)
    assert_allclose(gp.kernel_.lengthscale, case["lengthscale"], rtol=1e-14)
    assert_allclose(gp.likelihood_.noise_variance, case["noise_variance"], rtol=1e-14)
    assert gp.mean_.offset == case["mean"]
    if approximation == "fic":
        assert_allclose(gp.knots_, case["knots"], rtol=0)
        assert gp.jitter_ == case["jitter"]
