"""Standard errors of parameters: the curvature of the objective that fitted them, against Hessians of dense twins."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise.decisions.thresholds import STANDARD_ERRORS
from knotwise.errors import FitWarning, KnotwiseError, ModelFileError
from knotwise.estimators import fitted as budget
from knotwise.kernels import Matern52, SquaredExponential
from knotwise.means import Constant
from knotwise.persistence import archive
from knotwise.selection import curvature
from knotwise.selection.curvature import parameter_errors
from knotwise.selection.problem import Problem
from knotwise.testing import dense_full_evidence, dense_sparse_evidence
from test_objective import Near, problem_with_prior

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (70, 2))
Y = 5 + np.sin(X[:, 0]) + 0.7 * np.cos(1.3 * X[:, 1]) + 0.3 * RNG.normal(size=70)
COUNTS = RNG.poisson(np.exp(1.5 + np.sin(1.5 * X[:, 0]))).astype(float)
KNOTS = X[:20]
TABLE = "parameters, in the units of the data\n"


def fit(kernel=None, y=Y, x=X, **options):
    settings = {"knots": KNOTS, "random_state": 0, "n_jobs": 1, "progress": False, **options}
    return GPRegressor(kernel or SquaredExponential(), **settings).fit(x, y)


# -- independent Hessians ---------------------------------------------------------------------------------


def hessian(value, at, h=0.02):
    """By differences of fourth order of values alone."""
    first = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
    second = {-2: -1 / 12, -1: 16 / 12, 0: -30 / 12, 1: 16 / 12, 2: -1 / 12}
    steps = h * np.eye(len(at))
    H = np.empty((len(at), len(at)))
    for i, own in enumerate(steps):
        H[i, i] = sum(c * value(at + a * own) for a, c in second.items()) / h**2
        for j, other in enumerate(steps[:i]):
            pairs = ((a, b, c * d) for a, c in first.items() for b, d in first.items())
            H[i, j] = H[j, i] = sum(c * value(at + a * own + b * other) for a, b, c in pairs) / h**2
    return H


def fitted_at(gp):
    """Model of the objective that fitted the parameters, and its point; the exact GP has no jitter there."""
    selection, problem = gp._fit.selection, gp._fit.problem
    if selection.fitted is None:
        return problem.model, selection.point
    return problem.model.with_power(selection.fitted.power), selection.fitted.point


def dense_value(gp):
    rows = gp._fit.problem.rows
    model, point = fitted_at(gp)

    def value(theta):
        if point.jitter is None:
            return dense_full_evidence(model.with_theta(theta), rows)
        return dense_sparse_evidence(model.with_theta(theta), rows, point.Z, point.jitter)

    return value


def poisson_bound(gp):
    """The variational bound of counts, its q found by a plain fixed-point iteration of mean and variance.

    FIC has the prior covariance Q + diag(c); under VFE what the knots leave, c, is at its prior.
    """
    rows = gp._fit.problem.rows
    y = rows.y
    at, point = fitted_at(gp)

    def value(theta):
        model = at.with_theta(theta)
        K = model.kernel(rows.X, rows.X) + rows.basis @ rows.basis.T
        c = np.zeros(len(y))
        if point.jitter is not None:
            cross, size = model.kernel(rows.X, point.Z), point.jitter.scale(model.kernel)
            Kuu = model.kernel(point.Z, point.Z) + point.jitter.relative * size * np.eye(len(point.Z))
            Q = cross @ np.linalg.solve(Kuu, cross.T)
            left = np.diag(model.kernel(rows.X, rows.X) - Q)
            K = Q + np.diag(model.power * left) + rows.basis @ rows.basis.T
            c = (1 - model.power) * left
        a, W, m = np.zeros(len(y)), np.ones(len(y)), model.mean.offset
        for _ in range(400):
            B = np.eye(len(y)) + K * W  # K^-1 + W = K^-1 B
            S = np.linalg.solve(B, K)
            mu, tau = m + K @ a, np.diag(S) + c
            W_new = np.exp(mu + tau / 2)
            step = np.linalg.solve(B.T, (y - W_new) - a)  # Newton's to a = y - W, with the variance held
            step /= max(1.0, np.abs(K @ step).max())
            change = np.abs(step).max() + np.abs(W_new - W).max()
            a, W = a + step, W_new
            if change < 1e-12:
                break
        expected = y * mu - np.exp(mu + tau / 2) - gammaln(y + 1)
        divergence = 0.5 * (np.trace(np.linalg.solve(B, np.eye(len(y)))) - len(y) + np.linalg.slogdet(B)[1] + a @ K @ a)
        return float(expected.sum() - divergence)

    return value


def assert_errors_are_those_of(value, gp, rtol=1e-4, h=0.02):
    """The covariance of theta is the inverse of the negative Hessian, to a share of the standard errors."""
    _, point = fitted_at(gp)
    user = [1.0 if p.positive else gp._fit.scaling.y_scale for p in gp.parameters_.parameters]
    expected = np.linalg.inv(-hessian(value, point.theta, h)) * np.outer(user, user)
    se = np.sqrt(np.diagonal(expected))
    found = gp.parameters_.standard_errors(compute=True)
    assert found.notes == ("",) * len(se)
    assert_allclose(found.standard_error, se, rtol=rtol)
    assert_allclose(found.covariance, expected, atol=2 * rtol * np.outer(se, se).max())


def test_the_error_of_noise_alone_has_a_closed_form():
    """With eigenvalues l of K and s = noise: d2/d(log s)2 of -1/2 sum log(l + s) + u^2 / (l + s)."""
    gp = fit(
        SquaredExponential(1.0, 1.5, column_scales="standard"),
        approximation="full",
        mean="zero",
        fixed=["variance", "lengthscale"],
    )
    problem, theta = gp._fit.problem, gp._fit.selection.theta
    values, U = np.linalg.eigh(problem.model.with_theta(theta).kernel(problem.rows.X, problem.rows.X))
    u2, s = (U.T @ (problem.rows.y - problem.model.mean.offset)) ** 2, np.exp(theta[2])
    t = s / (values + s)
    information = 0.5 * np.sum(t * (1 - t) - u2 / (values + s) * t * (1 - 2 * t))
    found = gp.parameters_.standard_errors()
    assert found.notes[:2] == ("fixed", "fixed") and np.isnan(found.standard_error[:2]).all()
    assert_allclose(found.standard_error[2], information**-0.5, rtol=1e-6)


@pytest.mark.parametrize("mean", ["constant", Constant(prior_sd=None)], ids=["integrated", "learned"])
@pytest.mark.parametrize("approximation", ["vfe", "fic", 0.5, "full"])
def test_errors_are_the_inverse_of_the_dense_hessian(approximation, mean):
    gp = fit(approximation=approximation, mean=mean, jitter=1e-6)
    assert_errors_are_those_of(dense_value(gp), gp)


@pytest.mark.parametrize("approximation", ["vfe", "fic"])
def test_with_automatic_knots_the_objective_is_that_of_the_many_knots_under_fic(approximation):
    x = np.random.default_rng(4).uniform(0, 8, (130, 1))
    y = np.sin(x[:, 0]) + 0.3 * np.random.default_rng(5).normal(size=130)
    gp = fit(Matern52(), x=x, y=y, knots="auto", jitter=1e-6, approximation=approximation)
    fitted = gp._fit.selection.fitted
    assert fitted.power == 1.0 and len(fitted.Z) > gp.n_knots_ and not fitted.full
    assert_array_equal(fitted.theta, gp._fit.selection.theta)
    assert_errors_are_those_of(dense_value(gp), gp)


@pytest.mark.parametrize("approximation", ["vfe", "fic"])
def test_where_the_many_knots_would_be_most_rows_the_objective_is_that_of_the_exact_gp(approximation):
    gp = fit(Matern52(), knots="auto", jitter=1e-6, approximation=approximation)
    fitted = gp._fit.selection.fitted
    assert fitted.full and len(fitted.Z) == 0 and gp.n_knots_ > 0
    assert_array_equal(fitted.theta, gp._fit.selection.theta)
    assert_errors_are_those_of(dense_value(gp), gp)


def test_parameters_that_were_fitted_to_few_automatic_knots_have_the_errors_there():
    """Where the knots are too few for the parameters of many."""
    x = np.linspace(0, 60, 150)[:, None]
    y = np.sin(x[:, 0]) + 1e-3 * np.random.default_rng(0).normal(size=150)
    with pytest.warns(FitWarning, match="the limit of 10 knots was reached"):
        gp = fit(x=x, y=y, knots=knotwise.knots.Auto(max_knots=10), jitter=1e-6)
    assert "parameters were fitted to 10 knots" in gp.stop_reason_ and gp._fit.selection.fitted is None
    assert_errors_are_those_of(dense_value(gp), gp)


@pytest.mark.slow
def test_parameters_of_many_rows_are_at_the_maximum_of_the_objective_of_all_of_them():
    """They are found on 5,000 rows and refined on all, with the same knots."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 30, (6000, 1))
    gp = fit(x=x, y=np.sin(x[:, 0]) + 0.3 * rng.normal(size=6000), knots="auto")
    found, at = gp.parameters_.standard_errors(), gp._fit.selection.fitted
    problem = replace(gp._fit.problem, model=gp._fit.problem.model.with_power(at.power))
    assert np.abs(problem.evaluate(at.point).gradient).max() < 1.0 and found.remark == ""
    assert_allclose(found.standard_error[2], np.sqrt(2 / 6000), rtol=0.05)


@pytest.mark.parametrize(
    "options",
    [{"approximation": "full"}, {"approximation": "vfe"}, {"approximation": "fic"}, {"knots": "auto"}],
    ids=["exact", "vfe", "fic", "auto"],
)
def test_errors_of_counts_are_the_inverse_of_the_hessian_of_a_dense_variational_bound(options):
    gp = fit(Matern52(), COUNTS, likelihood="poisson", jitter=1e-6, **options)
    assert gp.inference_ == "variational"
    assert_errors_are_those_of(poisson_bound(gp), gp, h=0.03)


def test_a_prior_of_a_parameter_adds_its_precision_to_the_information():
    found = []
    for precision in (1e-300, 7.0):
        problem, selection, at = problem_with_prior(Near(0.3, precision))
        errors = parameter_errors(problem, selection)
        found.append(np.linalg.inv(errors.covariance))
    added = found[1] - found[0]
    assert_allclose(added[at, at], 7.0, rtol=1e-5)
    added[at, at] = 0.0
    assert_allclose(added, 0.0, atol=1e-5)


# -- units ----------------------------------------------------------------------------------------------------


def test_errors_have_the_units_of_the_data():
    """y in other units, far from 0, and columns in other units: logarithms have the same errors."""
    plain, other = (
        fit(mean=Constant(prior_sd=None)),
        fit(y=1000 * Y - 7e4, x=X * [1e3, 1e-2], knots=KNOTS * [1e3, 1e-2], mean=Constant(prior_sd=None)),
    )
    assert_allclose(
        other.parameters_.standard_errors().standard_error[:3],
        plain.parameters_.standard_errors().standard_error[:3],
        rtol=1e-3,
    )
    frames = [gp.parameters_.to_frame().set_index(["parameter", "column"]) for gp in (plain, other)]
    ratio = frames[1].data_standard_error / frames[0].data_standard_error
    assert_allclose(ratio, [1e6, 1e3, 1e-2, 1e6, 1e3], rtol=2e-3)
    ends = (frame.data_upper_95.to_numpy()[:4] for frame in frames)
    assert_allclose(next(ends) * [1e6, 1e3, 1e-2, 1e6], next(ends), rtol=5e-3)


def test_errors_do_not_depend_on_standardisation():
    """At the same parameters, in units of the data; the prior of an integrated level would know the units."""
    scaled = fit(SquaredExponential(ard=True), mean=5.0)
    own = scaled.parameters_.to_frame()
    kernel = SquaredExponential(scaled.kernel_.variance, own.data_value[1:3].tolist())
    plain = fit(kernel, mean=5.0, standardize=False)
    assert_allclose(plain.log_evidence_, scaled.log_evidence_, atol=1e-4)
    columns = ["data_value", "data_standard_error", "data_lower_95", "data_upper_95"]
    assert_allclose(plain.parameters_.to_frame()[columns], own[columns], rtol=5e-3)


# -- what is shown --------------------------------------------------------------------------------------------


def test_intervals_are_those_of_logarithms_and_deviations_stand_for_variances():
    gp = fit(mean=Constant(prior_sd=None))
    table, se = gp.parameters_, gp.parameters_.standard_errors().standard_error
    frame = table.to_frame()
    entry = [0, 1, 1, 2, 3]
    positive = np.array([1, 1, 1, 1, 0], bool)
    assert_allclose(frame.standard_error[:4], (frame.value * se[entry])[:4], rtol=1e-12)
    z = 1.959963984540054
    assert_allclose(np.log(frame.upper_95 / frame.lower_95)[positive], 2 * z * se[entry][positive], rtol=1e-10)
    assert_allclose(np.sqrt(frame.upper_95 * frame.lower_95)[positive], frame.value[positive], rtol=1e-12)
    assert_allclose([frame.lower_95[4], frame.upper_95[4]], frame.value[4] + z * se[3] * np.array([-1, 1]), rtol=1e-12)
    assert_allclose(frame.data_lower_95 / frame.data_value, frame.lower_95 / frame.value, rtol=1e-12)
    read = table.estimates().to_frame()
    assert read.reads_as.tolist() == ["sd", "length-scale", "length-scale", "sd", "value"]
    assert read.units.tolist() == ["y", "x", "x", "y", "y"]
    assert_allclose(read.estimate[[0, 3]] ** 2, frame.data_value[[0, 3]], rtol=1e-12)
    assert_allclose(read.upper_95[[0, 3]] ** 2, frame.data_upper_95[[0, 3]], rtol=1e-12)
    assert_allclose(read.standard_error[[0, 3]] / read.estimate[[0, 3]], se[[0, 2]] / 2, rtol=1e-12)
    assert_allclose(read.standard_error[[1, 2, 4]], frame.data_standard_error[[1, 2, 4]], rtol=1e-12)


def test_the_summary_has_one_aligned_table_that_is_not_wide():
    names = ["a name of a column that has no end", "b"]
    kernel = SquaredExponential(ard=True) * Matern52().on([1]) + Matern52(1.0).on([0])
    gp = fit(kernel, x=pd.DataFrame(X, columns=names), fixed=["k2__kernel__variance"])
    shown = gp.summary().split(TABLE)[1].split("\n\n")[0].splitlines()
    assert max(map(len, shown)) <= 110
    assert shown[0].split() == [
        *("parameter", "reads", "as", "column", "estimate", "std.", "error", "lower", "95", "%", "upper", "95", "%")
    ]
    ends = {
        line.index(f"{each.estimate:.4g}") + len(f"{each.estimate:.4g}")
        for line, each in zip(shown[1:], gp.parameters_.estimates().lines, strict=True)
    }
    assert ends == {shown[0].index("estimate") + len("estimate")}
    assert "in the units of the inputs" not in gp.summary()


def test_models_of_classes_have_errors_too():
    gp = GPClassifier(random_state=0, n_jobs=1).fit(X, np.where(Y > 5, "high", "low"))
    frame = gp.parameters_.to_frame()
    assert (frame.standard_error > 0).sum() >= 1 and "std. error" in gp.summary()
    assert gp.parameters_.estimates()[0].reads_as == "sd" and gp.parameters_.estimates()[0].units == ""


# -- parameters without one -----------------------------------------------------------------------------------


def test_a_parameter_at_its_bound_has_none_and_is_held_for_the_others():
    gp = fit(SquaredExponential(column_scales="standard"), bounds={"lengthscale": (2.0, 3.0)})
    side = gp.parameters_.standard_errors().notes[1]
    assert gp.parameters_.at_bound() == ["lengthscale"] and side in ("at its lower bound", "at its upper bound")
    held = fit(gp.kernel_, fixed=["lengthscale"])
    assert held.parameters_.standard_errors().notes == ("", "fixed", "")
    assert_allclose(
        gp.parameters_.standard_errors().standard_error, held.parameters_.standard_errors().standard_error, rtol=1e-3
    )
    line = next(line for line in gp.summary().splitlines() if line.startswith("lengthscale"))
    assert line.endswith(side) and gp.parameters_.to_frame().note[1] == side


def test_parameters_that_were_kept_as_given_have_none():
    gp = fit(optimizer=None, fixed=["variance"])
    found = gp.parameters_.standard_errors()
    assert found.notes == ("fixed", "kept as given", "kept as given") and np.isnan(found.standard_error).all()


def test_a_column_without_effect_has_a_lengthscale_that_the_data_do_not_determine():
    junk = np.column_stack([X, RNG.normal(size=len(X))])
    gp = fit(SquaredExponential(ard=True), x=junk, knots=junk[:15], bounds={"lengthscale": (1e-2, 1e9)})
    found = gp.parameters_.standard_errors()
    assert gp.parameters_.values[3] > 1e2
    assert [note for note in found.notes if note] == ["not determined by the data"] and found.notes[3]
    without = fit(SquaredExponential(ard=True), knots=junk[:15, :2]).parameters_.standard_errors()
    assert_allclose(np.delete(found.standard_error, 3), without.standard_error, rtol=1e-2)


def test_of_noise_alone_only_the_noise_is_determined():
    gp = fit(y=np.random.default_rng(3).normal(size=70), knots="auto")
    found = gp.parameters_.standard_errors()
    assert found.notes[2] == "" and all(found.notes[:2])
    assert_allclose(found.standard_error[2], np.sqrt(2 / 70), rtol=0.1)  # of a log variance from 70 numbers


def test_where_the_objective_bends_upwards_there_are_none_and_the_words_say_where():
    gp = fit(approximation="full")
    theta = gp._fit.selection.theta + np.array(
        [0.0, -4.0, 0.0]
    )  # on the far side of a ridge, where the function is noise
    away = replace(gp._fit.selection, point=replace(gp._fit.selection.point, theta=theta))
    found = parameter_errors(gp._fit.problem, away)
    assert np.isnan(found.standard_error).all()
    assert "no maximum in" in found.remark and "lengthscale" in found.remark


def test_a_fit_that_stopped_far_from_the_maximum_says_so():
    gp = fit()
    at = gp._fit.selection
    se = gp.parameters_.standard_errors().standard_error
    away = replace(at, point=replace(at.point, theta=at.theta + np.array([0.0, 0.0, 2 * se[2]])))
    assert (
        "stopped before the maximum, which in noise_variance is about" in parameter_errors(gp._fit.problem, away).remark
    )
    assert gp.parameters_.standard_errors().remark == ""


def test_an_evidence_that_cannot_be_computed_nearby_is_said(monkeypatch):
    gp = fit()

    def fails(*args, **options):
        raise KnotwiseError("No value here.")

    monkeypatch.setattr(Problem, "evaluate", fails)
    found = gp.parameters_.standard_errors()
    assert np.isnan(found.standard_error).all() and "No value here." in found.remark
    assert found.remark in gp.summary()


def test_directions_of_little_information_take_all_of_their_parameters_with_them():
    ridge = np.array([[50.0, -50.0, 0.0], [-50.0, 50.0, 0.0], [0.0, 0.0, 9.0]])
    flat, upwards = curvature._weak_parameters(ridge)
    assert flat.tolist() == [True, True, False] and not upwards.any()
    flat, upwards = curvature._weak_parameters(np.diag([4.0, -1.0, 1e-9]))
    assert upwards.tolist() == [False, True, False]
    flat, _ = curvature._weak_parameters(np.zeros((2, 2)))
    assert flat.all()


# -- when they are computed -----------------------------------------------------------------------------------


def test_a_fit_computes_none_and_asking_computes_them_once(monkeypatch):
    calls = []

    def counted(problem, selection):
        calls.append(len(selection.theta))
        return parameter_errors(problem, selection)

    monkeypatch.setattr(budget, "parameter_errors", counted)
    gp = fit(knots="auto")
    expected = gp.predict(X)
    assert not calls
    gp.parameters_.to_frame(standard_errors=False), gp.parameters_.standard_errors(compute=False), str(gp.parameters_)
    gp.summary(standard_errors=False)
    assert not calls and np.isnan(gp.parameters_.standard_errors(compute=False).standard_error).all()
    shown = gp.summary(), gp.parameters_.to_frame(), gp.parameters_.estimates()
    assert len(calls) == 1 and str(shown[2]) in shown[0]
    again = pickle.loads(pickle.dumps(gp))
    assert str(again.summary()) == str(shown[0]) and len(calls) == 1
    assert_array_equal(gp.predict(X), expected)
    assert np.isnan(gp.parameters_.with_theta(gp.parameters_.theta).standard_errors().standard_error).all()


def test_what_would_take_long_is_left_out_until_it_is_asked_for(monkeypatch):
    gp = fit()
    monkeypatch.setitem(vars(STANDARD_ERRORS), "budget", 2 * 3 * len(X) * len(KNOTS) ** 2 - 1)
    assert "`parameters_.standard_errors(compute=True)` computes them" in gp.summary()
    assert "std. error" not in gp.summary().split(TABLE)[1].split("\n\n")[0]
    assert gp.parameters_.to_frame().standard_error.isna().all()
    assert gp.parameters_.to_frame(standard_errors=True).standard_error.notna().all()
    assert gp.parameters_.to_frame().standard_error.notna().all() and "left out" not in gp.summary()
    monkeypatch.setitem(vars(STANDARD_ERRORS), "budget", 2 * 3 * len(X) * len(KNOTS) ** 2)
    assert fit().parameters_.to_frame().standard_error.notna().all()


def test_a_file_holds_the_standard_errors(tmp_path):
    gp = fit()
    gp.save(tmp_path / "model.knotwise")
    loaded = knotwise.load(tmp_path / "model.knotwise")
    found, expected = loaded.parameters_.standard_errors(), gp.parameters_.standard_errors()
    assert_array_equal(found.covariance, expected.covariance)
    assert found.notes == expected.notes and np.isfinite(found.standard_error).all()
    loaded.save(tmp_path / "again.knotwise")
    assert (tmp_path / "again.knotwise").read_bytes() == (tmp_path / "model.knotwise").read_bytes()


def test_a_negative_variance_in_a_file_is_refused(tmp_path):
    path = tmp_path / "model.knotwise"
    fit().save(path)
    saved = archive.read_archive(path)
    saved.arrays["fit.errors.covariance"] = -saved.arrays["fit.errors.covariance"]
    archive.write_archive(path, archive.Archive(saved.manifest, saved.arrays))
    with pytest.raises(ModelFileError, match="free of negative variances"):
        knotwise.load(path)


def test_a_file_without_standard_errors_says_that_they_need_the_data(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(STANDARD_ERRORS), "budget", 1)
    fit().save(tmp_path / "model.knotwise")
    loaded = knotwise.load(tmp_path / "model.knotwise")
    assert "Standard errors need the data of the fit, which this file does not have." in loaded.summary()
    assert loaded.parameters_.to_frame(standard_errors=True).standard_error.isna().all()


def test_threads_change_no_bit():
    x, y = np.tile(X, (9, 1)) + 1e-3 * RNG.normal(size=(630, 2)), np.tile(Y, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        one, two = (fit(x=x, y=y, n_jobs=n).parameters_.standard_errors().covariance for n in (1, 2))
    assert_array_equal(one, two)
