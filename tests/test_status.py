"""How a fit ended is one story: status, reason, `converged_`, summary, diagnosis and warning agree."""

import warnings

import numpy as np
import pytest

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise.errors import FitWarning
from knotwise.kernels import SquaredExponential
from knotwise.knots import Auto
from knotwise.optimize.lbfgs import LBFGS
from knotwise.selection.trace import Status


@pytest.fixture
def wave(rng):
    X = rng.uniform(size=(150, 1))
    return X, np.sin(20 * X[:, 0]) + 0.1 * rng.normal(size=150)


def fit(X, y, **options):
    """A fit and the warnings that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = GPRegressor(**{"kernel": SquaredExponential(), "random_state": 0, **options}).fit(X, y)
    return gp, [str(each.message) for each in caught if issubclass(each.category, FitWarning)]


def ends(X, y):
    rng = np.random.default_rng(5)
    few = np.zeros(150)
    few[[3, 80, 120]] = 1.0
    other = np.random.default_rng(1)
    a = other.uniform(size=80)
    mirrored = np.column_stack([a, 1 - a]), np.sin(6 * a) + 0.3 * other.standard_normal(80)
    several = SquaredExponential().on([0]) + SquaredExponential().on([1])
    return {
        "converged": lambda: fit(X, y),
        "several explanations": lambda: fit(*mirrored, kernel=several, approximation="full", n_restarts=3),
        "as given": lambda: fit(X, y, optimizer=None),
        "no signal": lambda: fit(rng.uniform(size=(150, 2)), rng.normal(size=150)),
        "little information": lambda: fit(X, few, likelihood="poisson"),
        "limit reached": lambda: fit(X, y, knots=Auto(max_knots=3)),
        "not converged": lambda: fit(X, y, knots=10, optimizer=LBFGS(max_iterations=2)),
    }


@pytest.mark.parametrize("status", [s for s in Status if s != "hyperparameters not converged"])
def test_status_reason_summary_diagnosis_and_warning_agree(status, wave, tmp_path):
    gp, told = ends(*wave)[status]()
    assert gp.status_ == status and gp.status_ in list(Status)
    assert gp.converged_ == gp.status_.is_good
    assert str(gp.summary()).splitlines()[1].startswith(f"{status}: ")
    finding = gp.diagnose().finding("convergence")
    assert (finding.level == "problem") == (not gp.converged_)
    assert bool(told) == (not gp.converged_ or status == "little information")
    if not gp.converged_:
        assert len(told) == 1
        assert finding.advice and finding.advice in told[0]
    gp.save(tmp_path / "model.knotwise")
    loaded = knotwise.load(tmp_path / "model.knotwise")
    assert loaded.status_ == status and str(loaded.summary()).splitlines()[1] == str(gp.summary()).splitlines()[1]


def test_the_advice_at_a_limit_is_a_line_that_works(wave):
    gp, (told,) = fit(*wave, knots=Auto(max_knots=6))
    assert "Write `knots=Auto(max_knots=12)`" in told
    better, _ = fit(*wave, knots=Auto(max_knots=12))
    assert better.n_knots_ > gp.n_knots_ and better.log_evidence_ > gp.log_evidence_


@pytest.mark.parametrize("max_knots", [3, 8])
def test_at_a_limit_that_matters_no_finding_contradicts_the_others(max_knots):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    y = np.sin(100 * X[:, 0]) + 0.1 * rng.normal(size=300)
    gp, (told,) = fit(X, y, knots=Auto(max_knots=max_knots))
    found = gp.diagnose()
    assert gp.status_ == "limit reached" and gp.stop_reason_[1:] in told  # which begins with a capital
    assert gp.stop_reason_.startswith("at the parameters of many, ")
    assert gp.stop_reason_.endswith(f"with which they leave a share of {found.unexplained_share:.3f}")
    assert found.finding("knots").level == "problem"


@pytest.mark.slow
def test_a_classifier_has_the_status_of_its_models(rng):
    X = rng.normal(size=(90, 2))
    gp = GPClassifier(SquaredExponential(), random_state=0).fit(X, X[:, 0] > 0)
    assert gp.status_ == gp.models_[0].status_
    three = GPClassifier(SquaredExponential(), random_state=0).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    assert three.status_ == [model.status_ for model in three.models_]
