"""What the default decides by itself: the kernel, the exact GP, the target of the knots, and a second look."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise.decisions import lack_of_fit
from knotwise.decisions.enough import Rule
from knotwise.decisions.lack_of_fit import _most_surprising
from knotwise.decisions.thresholds import LACK_OF_FIT
from knotwise.decisions.trials import Candidate
from knotwise.errors import FitWarning
from knotwise.evidence import Rows
from knotwise.kernels import Matern12, Matern32, Matern52, SquaredExponential
from knotwise.knots import Auto
from knotwise.likelihoods import Gaussian
from knotwise.means import Linear, Zero
from knotwise.selection.base import Stage


def draw(kernel, X, rng, noise=0.2):
    """A draw of a GP with noise."""
    K = kernel(X, X) + 1e-9 * np.eye(len(X))
    return np.linalg.cholesky(K) @ rng.standard_normal(len(X)) + noise * rng.standard_normal(len(X))


def actions(gp):
    return [str(step.action) for step in gp.trace_]


# -- the kernel -------------------------------------------------------------------------------------


def test_columns_that_do_not_matter_ask_for_a_length_scale_per_column(rng):
    X = rng.uniform(size=(300, 8))
    gp = GPRegressor(random_state=0).fit(X, np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=300))
    lengthscale = gp.kernel_.lengthscale
    assert len(lengthscale) == 8 and max(lengthscale[:2]) < min(lengthscale[2:])
    told = GPRegressor(random_state=0).fit(X[:, :2], np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=300))
    new = rng.uniform(size=(200, 8))
    assert_allclose(gp.predict(new), told.predict(new[:, :2]), atol=0.2)


@pytest.mark.parametrize("n_columns", [2, 8])
def test_columns_that_matter_alike_share_a_length_scale(n_columns, rng):
    X = rng.standard_normal((400, n_columns))
    gp = GPRegressor(random_state=0).fit(X, draw(SquaredExponential(1.0, np.sqrt(n_columns)), X, rng))
    assert np.ndim(gp.kernel_.lengthscale) == 0


@pytest.mark.parametrize("kernel", [SquaredExponential, Matern32])
def test_the_smoothness_is_that_of_the_data(kernel):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(400, 1))
    gp = GPRegressor(random_state=0).fit(X, draw(kernel(1.0, 0.2), X, rng, noise=0.01))
    assert type(gp.kernel_) is kernel


def test_a_rough_function_has_a_rough_kernel_and_intervals_that_hold():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(500, 1))
    K = Matern12(1.0, [0.05])(X, X)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(500)) @ rng.standard_normal(500)
    gp = GPRegressor(random_state=0, average=False).fit(X[:300], f[:300] + 0.15 * rng.standard_normal(300))
    low, high = gp.predict_interval(X[300:], kind="mean").T
    assert type(gp.kernel_) is Matern12
    assert np.mean((low <= f[300:]) & (f[300:] <= high)) > 0.88  # Matern 3/2 has 0.8 there


def test_a_linear_trend_beside_a_field_is_found_and_goes_on_beyond_the_data():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(size=(200, 1)), axis=0)
    f = 30 * X[:, 0] + draw(SquaredExponential(1.0, 0.05), X, rng, noise=0.0)
    gp = GPRegressor(random_state=0).fit(X, f + 0.1 * rng.standard_normal(200))
    assert type(gp.mean_) is Linear
    with pytest.warns(FitWarning, match="2 of 2 places lie farther from the data than the model was tested"):
        slope = np.diff(gp.predict([[2.0], [3.0]]))
    assert_allclose(slope, 30, atol=4)


def test_kernels_that_were_tried_are_in_the_trace_with_their_numbers(rng):
    X = rng.uniform(size=(200, 2))
    gp = GPRegressor(random_state=0).fit(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200))
    tried = [step for step in gp.trace_ if step.action == "kernel"]
    names = [step.note.partition(", ")[0] for step in tried[:-1]]
    kinds = ("SquaredExponential", "Matern52", "Matern32", "Matern12")
    assert {f"{kind}({ard})" for kind in kinds for ard in ("", "ard=True")} <= set(names)
    assert all("200 rows" in step.note for step in tried[:-1])
    assert "is taken, of 9 kernels; log density of validation rows" in tried[-1].note  # one with a trend beside it
    assert "near the others" in tried[-1].note and "length-scales from the data" in tried[-1].note
    assert "of 9 kernels" in gp.summary()
    assert actions(gp)[len(tried)] == "signal"


def test_the_evidence_and_the_density_of_a_kernel_are_those_of_an_exact_gp(rng):
    """The numbers of the trace, again by the estimator on the same rows, at the parameters that it finds there."""
    from knotwise.decisions.candidates import fit_candidate
    from knotwise.decisions.trials import Trial

    X = rng.uniform(size=(200, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    gp = GPRegressor(SquaredExponential(), approximation="full", random_state=0).fit(X, y)
    problem = gp._fit.problem
    trial = Trial.draw(problem, 300, np.random.default_rng(1), problem.new_trace())
    tried = trial.judged(fit_candidate(trial, problem, [gp._fit.selection.theta]))
    assert len(trial.fitted) == 200 and len(trial.validation) == 0  # each row is predicted from all others
    model = problem.model.with_theta(tried.theta)
    kernel, noise, offset = model.kernel, model.likelihood.noise_variance, model.mean.offset
    A = trial.fitted
    C = kernel(A.X, A.X) + A.basis @ A.basis.T + noise * np.eye(len(A))
    r = A.y - offset
    value = -0.5 * (r @ np.linalg.solve(C, r) + np.linalg.slogdet(2 * np.pi * C)[1])
    assert_allclose(tried.value, value, rtol=1e-9)

    def density(judged, removed):
        others = np.setdiff1d(np.arange(200), removed)
        weights = np.linalg.solve(C[np.ix_(others, others)], C[np.ix_(others, judged)])
        mean = offset + weights.T @ r[others]
        variance = C[judged, judged] - np.sum(C[np.ix_(others, judged)] * weights, axis=0)
        return -0.5 * (np.log(2 * np.pi * variance) + (A.y[judged] - mean) ** 2 / variance)

    near = [density(np.array([i]), np.array([i])) for i in range(200)]
    far = [density(fold.judged, fold.removed) for fold in trial.folds]
    assert_allclose(tried.density, np.concatenate(near + far), rtol=1e-6)
    assert {fold.kind for fold in trial.folds} == {"gap", "beyond"}


def test_a_kernel_that_is_given_is_not_chosen(rng):
    X = rng.uniform(size=(100, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=100)
    gp = GPRegressor(Matern52(), random_state=0).fit(X, y)
    assert "kernel" not in actions(gp) and type(gp.kernel_) is Matern52
    held = GPRegressor(optimizer=None, random_state=0).fit(X, y)
    assert "kernel" not in actions(held) and type(held.kernel_) is SquaredExponential
    few = GPRegressor(random_state=0).fit(X[:25], y[:25])
    assert "kernel" not in actions(few) and type(few.kernel_) is SquaredExponential


def test_the_choice_of_a_kernel_does_not_depend_on_the_order_of_rows(rng):
    X = rng.uniform(size=(150, 3))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=150)
    order = rng.permutation(150)
    one, other = (GPRegressor(random_state=0).fit(X[rows], y[rows]) for rows in (slice(None), order))
    assert repr(one.kernel_) == repr(other.kernel_)
    assert_array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("knots", [10, "full"])
def test_every_selector_gets_the_kernel_that_suits_the_data(knots, rng):
    X = rng.uniform(size=(200, 5))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    options = {"approximation": "full"} if knots == "full" else {"knots": knots}
    gp = GPRegressor(random_state=0, **options).fit(X, y)
    assert np.ndim(gp.kernel_.lengthscale) == 1 and "kernel" in actions(gp)


@pytest.mark.slow
def test_a_signal_in_few_of_many_columns_is_seen_on_more_rows():
    """On the first rows no kernel sees it; before "no signal" is said, more of them are looked at."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1600, 12))
    f = np.sin(4 * X[:, 3]) * X[:, 4] * (1 + X[:, 7])
    gp = GPRegressor(random_state=0).fit(X[:1200], (f + 0.5 * f.std() * rng.standard_normal(1600))[:1200])
    assert gp.status_ != "no signal"
    assert np.mean((gp.predict(X[1200:]) - f[1200:]) ** 2) < 0.2 * f.var()


def test_classes_have_their_kernel_chosen_too(rng):
    X = rng.normal(size=(200, 4))
    gp = GPClassifier(random_state=0).fit(X, np.abs(X[:, 0]) + 0.3 * rng.normal(size=200) > 0.7)
    assert np.ndim(gp.kernel_.lengthscale) == 1
    assert gp.score(X, np.abs(X[:, 0]) > 0.7) > 0.8


# -- the exact GP -----------------------------------------------------------------------------------


@pytest.fixture
def rough(rng):
    """Rows that need more knots than a third of them."""
    X = rng.uniform(size=(120, 6))
    return X, np.sin(5 * X[:, 0] * X[:, 1]) + X[:, 2] * np.cos(4 * X[:, 3]) + X[:, 4] + 0.01 * rng.normal(size=120)


def test_the_exact_gp_is_taken_where_the_knots_would_be_too_many(rough, tmp_path):
    X, y = rough
    gp = GPRegressor(SquaredExponential(ard=True), random_state=0).fit(X, y)
    assert gp.n_knots_ == 0 and gp.approximation_ == "full" and gp.status_ == "converged"
    assert "exact GP, since more than 40 knots would be needed for 120 rows" in gp.stop_reason_
    full = GPRegressor(SquaredExponential(ard=True), approximation="full", random_state=0).fit(X, y)
    assert_allclose(gp.log_evidence_, full.log_evidence_, atol=0.05)
    assert_allclose(gp.log_evidence_, gp.evidence(gradient=False).value, rtol=1e-9)
    gp.save(tmp_path / "exact.knotwise")
    assert_array_equal(knotwise.load(tmp_path / "exact.knotwise").predict(X), gp.predict(X))


@pytest.mark.parametrize("asked", [{"approximation": "vfe"}, {"knots": Auto(max_knots=60)}])
def test_who_asks_for_knots_gets_them(asked, rough):
    X, y = rough
    gp = GPRegressor(SquaredExponential(ard=True), random_state=0, **asked)
    with pytest.warns(FitWarning, match="limit of"):
        gp.fit(X, y)
    assert gp.n_knots_ > 0 and gp.approximation_ == "vfe" and gp.status_ == "limit reached"


# -- what the knots must be enough for ----------------------------------------------------------------


def test_the_share_of_an_observation_is_that_of_the_dense_formula(rng):
    X, Z = rng.uniform(size=(40, 2)), rng.uniform(size=(6, 2))
    gp = GPRegressor(SquaredExponential(1.3, 0.4), knots=Z, mean=Zero(), optimizer=None, standardize=False)
    gp.fit(X, rng.normal(size=40))
    problem, point = gp._fit.problem, gp._fit.selection.point
    kernel, noise = gp.kernel_, gp.likelihood_.noise_variance
    Q = kernel(X, Z) @ np.linalg.solve(kernel(Z, Z), kernel(Z, X))
    c = kernel.diag(X) - Q.diagonal()
    v = c + (Q - Q @ np.linalg.solve(Q + noise * np.eye(40), Q)).diagonal()
    scores = problem.scores(point)
    assert_allclose(scores.observation_share, np.mean(c / (v + noise)), rtol=1e-6)
    assert_allclose(scores.share, np.mean(c / v), rtol=1e-6)
    assert Rule.of("observation", None, 300).share_of(scores) == scores.observation_share


@pytest.mark.slow
def test_observations_need_fewer_knots_than_the_function(rng):
    X = rng.uniform(size=(3000, 2))
    y = draw(SquaredExponential(1.0, 0.2), X, rng, noise=0.3)
    options = {"kernel": SquaredExponential(), "approximation": "vfe", "random_state": 0}
    latent, observation = (
        GPRegressor(knots=Auto(target=target), **options).fit(X, y) for target in ("latent", "observation")
    )
    assert observation.n_knots_ < latent.n_knots_
    assert "of the variance of an observation unexplained" in observation.stop_reason_
    assert "of the posterior variance unexplained" in latent.stop_reason_
    new = rng.uniform(size=(300, 2))
    for one, other in zip(observation.predict(new, return_std=True), latent.predict(new, return_std=True), strict=True):
        assert_allclose(one, other, atol=0.1)


# -- a second look ------------------------------------------------------------------------------------


def test_residuals_are_standardised_by_the_dense_formula(rng):
    X, Z = rng.uniform(size=(40, 1)), rng.uniform(size=(5, 1))
    gp = GPRegressor(
        SquaredExponential(1.3, 0.2), knots=Z, approximation="fic", mean=Zero(), optimizer=None, standardize=False
    ).fit(X, rng.normal(size=40))
    kernel, noise = gp.kernel_, gp.likelihood_.noise_variance
    Q = kernel(X, Z) @ np.linalg.solve(kernel(Z, Z), kernel(Z, X))
    R = np.linalg.inv(Q + np.diag(kernel.diag(X) - Q.diagonal() + noise))
    rows = gp._fit.problem.rows
    assert isinstance(rows, Rows)
    order = np.lexsort(X.T)
    scores = gp._fit.problem.row_scores(gp._fit.selection.point)
    y = rows.y
    expected = (R[np.ix_(order, order)] @ y) / np.sqrt(R.diagonal()[order])
    assert_allclose(scores.standardized, expected, rtol=1e-5)


def test_one_outlier_is_no_structure_and_a_group_is(rng):
    X = np.sort(rng.uniform(size=(300, 1)), axis=0)
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=300)
    outlier, group = y.copy(), y.copy()
    outlier[100] += 3.0
    group[100:104] += 1.0
    for targets, surprising in ((y, False), (outlier, False), (group, True)):
        gp = GPRegressor(
            SquaredExponential(1.0, 1.0, column_scales="standard"),
            knots=8,
            approximation="fic",
            noise="constant",
            random_state=0,
        ).fit(X, targets)
        surprise, centre = _most_surprising(gp._fit.problem.row_scores(gp._fit.selection.point))
        assert (surprise > LACK_OF_FIT.surprising) == surprising
        assert not surprising or abs(centre - 101.5) < 4


def bump(rng, n=1500, width=0.008):
    X = rng.uniform(size=(n, 1))
    centre = rng.uniform(0.2, 0.8)

    def truth(x):
        return np.sin(3 * x) + 3 * np.exp(-0.5 * ((x - centre) / width) ** 2)

    return X, truth(X[:, 0]) + 0.1 * rng.normal(size=n), centre, truth


def test_a_smooth_fit_that_misses_a_bump_is_looked_at_again(rng):
    X, y, _, _ = bump(rng)
    plain = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=len(X))
    for targets, noise, is_missed in ((y, 0.1, True), (plain, 0.01, False)):
        smooth = GPRegressor(
            SquaredExponential(1.0, 1.0, column_scales="standard"),
            likelihood=Gaussian(noise),
            optimizer=None,
            random_state=0,
        )
        problem, at = smooth.fit(X, targets)._fit.problem, smooth._fit.selection.point
        trace = problem.new_trace()
        fitted = Candidate(problem, Stage(at, smooth._fit.selection.result), knots=at.Z)
        found = lack_of_fit.decide(problem, problem.rows, fitted, np.random.default_rng(0), trace).choice
        assert (found is not None) == is_missed
        if found is not None:
            assert (np.exp(found[problem.table.with_role("lengthscale")]) < 0.1).all()
            assert "residuals of neighbours agree" in trace[0].note


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_bump_on_a_smooth_trend_is_found(seed):
    X, y, centre, truth = bump(np.random.default_rng(seed))
    near = np.linspace(centre - 0.03, centre + 0.03, 50)
    gp = GPRegressor(SquaredExponential(), random_state=0).fit(X, y)
    assert_allclose(gp.predict(near[:, None]), truth(near), atol=0.4)
    missed = GPRegressor(SquaredExponential(1.0, 1.0, column_scales="standard"), knots=10, random_state=0).fit(X, y)
    assert np.abs(missed.predict(near[:, None]) - truth(near)).max() > 1.0  # what ten knots from a smooth start do
