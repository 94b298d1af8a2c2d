"""A fitted model with neighbours: every question that can be asked of it has an answer that is right."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import knotwise
from knotwise import GPRegressor
from knotwise.errors import FitWarning, InvalidInputError, NoTrainingDataError, UnknownOptionError
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.knots import Auto, OneAtATime
from knotwise.likelihoods import Gaussian

RNG = np.random.default_rng(0)
N, M = 400, 10
X = RNG.uniform(size=(N, 2))
Y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + 0.3 * np.sin(40 * X[:, 0] * X[:, 1]) + 0.1 * RNG.normal(size=N) + 5
NEW = RNG.uniform(size=(30, 2))
WEIGHTS = RNG.uniform(0.5, 3.0, N)
GIVEN = {"optimizer": None, "standardize": False, "mean": 0.0}  # nothing is learned


def near(knots="auto", n_neighbors=M, kernel=None, **options):
    options = {"random_state": 0, "n_jobs": 1, **options}
    return GPRegressor(kernel or Matern32(), knots=knots, n_neighbors=n_neighbors, **options)


SELECTORS = {"auto": "auto", "number": 20, "array": X[:20].copy(), "one-at-a-time": OneAtATime(max_knots=8)}


@pytest.fixture(scope="module", params=SELECTORS)
def fitted(request):
    return near(SELECTORS[request.param]).fit(X, Y)


@pytest.fixture(scope="module")
def gp():
    return near(20).fit(X, Y)


@pytest.fixture(scope="module")
def twins():
    """A model with neighbours and the exact GP, with the same parameters, and data from it."""
    kernel = Matern32(1.0, 0.2)
    rng = np.random.default_rng(3)
    y = np.linalg.cholesky(kernel.bind(None, 2)(X, X) + 0.04 * np.eye(N)) @ rng.normal(size=N)
    model = near(X[:30], 15, kernel, likelihood=Gaussian(0.04), **GIVEN)
    exact = GPRegressor(kernel, Gaussian(0.04), approximation="full", **GIVEN)
    return model.fit(X, y), exact.fit(X, y), y


# -- the engine's questions -------------------------------------------------------------------------


def test_every_selector_has_neighbours_and_says_so(fitted):
    assert fitted.n_neighbors_ == M and fitted.approximation_ == "neighbors"
    assert fitted.stop_reason_ == f"{fitted.n_knots_} knots and {M} neighbours of each row, as was asked for"
    assert fitted.status_ == "converged" and fitted.trace_[-1].action == "final"
    assert "neighbors" in {str(step.action) for step in fitted.trace_}
    assert_array_equal(fitted.knots_.shape, (fitted.n_knots_, 2))


def test_the_evidence_is_that_of_the_fit_and_its_gradient_its_derivative(fitted):
    found = fitted.evidence()
    assert_allclose(found.value, fitted.log_evidence_, rtol=1e-12)
    theta = fitted.parameters_.theta
    step, direction = 1e-5, np.linspace(1.0, 0.3, len(theta))
    up, down = (fitted.evidence(theta + sign * step * direction, gradient=False).value for sign in (1, -1))
    assert_allclose((up - down) / (2 * step), found.gradient @ direction, rtol=1e-5, atol=1e-3)


def test_parameters_have_standard_errors_and_the_mean_its_own(fitted):
    frame = fitted.parameters_.to_frame()
    assert np.isfinite(fitted.parameters_.standard_errors().covariance).all()
    assert (frame["standard_error"] > 0).all()
    assert abs(fitted.coefficients_.estimate[0] - Y.mean()) < 4 * fitted.coefficients_.standard_error[0]


def test_given_knots_stay_and_their_parameters_are_held_where_asked():
    model = near(X[:20], kernel=Matern32(1.0, 0.7, column_scales="standard"), fixed=["lengthscale"]).fit(X, Y)
    assert_array_equal(model.knots_, X[:20])
    assert model.kernel_.lengthscale == 0.7
    model = near(kernel=Matern32(column_scales="standard"), bounds={"lengthscale": (0.1, 0.2)}).fit(X, Y)
    assert 0.1 <= model.kernel_.lengthscale <= 0.2
    assert near(priors="weak").fit(X, Y).log_prior_ != 0


# -- predictions ------------------------------------------------------------------------------------


def test_covariances_samples_and_totals_agree(fitted):
    mean, cov = fitted.predict(NEW, return_cov=True)
    _, std = fitted.predict(NEW, return_std=True)
    assert_allclose(np.sqrt(np.diagonal(cov)), std, rtol=1e-10)
    assert np.linalg.eigvalsh(cov).min() > 0
    total = fitted.predict_total(NEW, kind="observation")
    assert_allclose(total.estimate, mean.sum(), rtol=1e-12)
    assert_allclose(total.sd, np.sqrt(cov.sum()), rtol=1e-10)
    assert total.left_out == 0
    draws = fitted.sample_observations(NEW, 4000, random_state=0)
    assert_allclose(draws.std(0), std, rtol=0.06)
    assert_allclose(draws.sum(1).std(), total.sd[0], rtol=0.06)
    f = fitted.sample_latent(NEW, 4000, random_state=0)
    assert_allclose(f.mean(0), fitted.predict_latent(NEW).mean, atol=0.05)


def test_totals_are_nearly_those_of_the_exact_gp(twins):
    model, exact, _ = twins
    local = 0.4 + 0.2 * np.random.default_rng(1).uniform(size=(300, 2))
    for rows in (X, local):
        one, other = model.predict_total(rows), exact.predict_total(rows)
        assert_allclose(one.sd, other.sd, rtol=0.15)
        assert abs(one.estimate - other.estimate) < 0.7 * other.sd


def test_a_total_of_more_places_than_are_paired_is_told_by_some_of_them(twins, monkeypatch):
    model, _, _ = twins
    whole = model.predict_total(X, groups=X[:, 0] > 0.5)
    monkeypatch.setattr("knotwise.estimators.total_law.MOST_PAIRED_NEAR", 100)
    some = model.predict_total(X, groups=X[:, 0] > 0.5)
    assert_allclose(some.sd, whole.sd, rtol=0.25)
    assert (some.left_out == 0).all()


def test_differences_of_near_rows_are_better_known_than_their_sums(twins):
    model, exact, _ = twins
    pair = np.array([[0.5, 0.5], [0.51, 0.5]])
    for signs in ([1.0, 1.0], [1.0, -1.0]):
        one, other = (each.predict_total(pair, weights=signs).sd for each in (model, exact))
        assert_allclose(one, other, rtol=0.1)


def test_samples_of_many_rows_are_right_at_each_row_and_say_what_they_leave_out(gp, monkeypatch):
    latent = gp.predict_latent(NEW)
    monkeypatch.setattr("knotwise.posterior.base.MAX_JOINT_ROWS", 20)
    monkeypatch.setattr("knotwise.estimators.base.MAX_JOINT_ROWS", 20)
    with pytest.warns(FitWarning, match=r"which the neighbours leave open.*Ask for fewer rows at a time"):
        f = gp.sample_latent(NEW, 4000, random_state=0)
    assert_allclose(f.std(0), latent.std, rtol=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("knots", ["auto", 15], ids=str)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_neither_the_order_of_the_rows_nor_threads_matter(knots, weights):
    rows, order = slice(0, 300), np.random.default_rng(1).permutation(300)
    weights = None if weights is None else weights[rows]
    one = near(knots).fit(X[rows], Y[rows], weights)
    other = near(knots).fit(X[rows][order], Y[rows][order], None if weights is None else weights[order])
    threads = near(knots, n_jobs=2).fit(X[rows], Y[rows], weights)
    for a, b, c in zip(*(model.predict(NEW, return_std=True) for model in (one, other, threads)), strict=True):
        assert_allclose(b, a, rtol=1e-10)
        assert_array_equal(c, a)
    assert threads.log_evidence_ == one.log_evidence_


def test_a_weight_of_two_is_the_row_twice():
    twice = np.arange(N) % 3 == 0
    kernel = Matern32(0.4, 0.4, column_scales="standard")
    one = near(X[:20], kernel=kernel, optimizer=None).fit(X, Y, 1.0 + twice)
    other = near(X[:20], kernel=kernel, optimizer=None).fit(np.vstack([X, X[twice]]), np.append(Y, Y[twice]))
    assert_allclose(one.predict(NEW), other.predict(NEW), rtol=1e-9)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-9)


def test_copies_keep_what_they_predict(gp):
    for twin in (pickle.loads(pickle.dumps(gp)), copy.deepcopy(gp)):
        assert_array_equal(twin.predict(NEW), gp.predict(NEW))
        assert twin.summary() == gp.summary()
    other = clone(gp)
    assert other.n_neighbors == M and not hasattr(other, "n_neighbors_")
    assert_array_equal(other.fit(X, Y).predict(NEW), gp.predict(NEW))


# -- files ------------------------------------------------------------------------------------------


def test_a_file_gives_the_same_bits_and_the_same_diagnosis(fitted, tmp_path):
    path = tmp_path / "near.knotwise"
    fitted.save(path)
    loaded = knotwise.load(path)
    assert (loaded.n_neighbors_, loaded.approximation_) == (M, "neighbors")
    for one, other in zip(fitted.predict(NEW, return_cov=True), loaded.predict(NEW, return_cov=True), strict=True):
        assert_array_equal(one, other)
    assert_array_equal(fitted.sample_latent(NEW, 2, random_state=0), loaded.sample_latent(NEW, 2, random_state=0))
    assert_array_equal(fitted.predict_total(NEW).sd, loaded.predict_total(NEW).sd)
    one, other = (str(model.summary()).split("parameters, in")[0] for model in (loaded, fitted))
    assert one == other  # parameters have no standard errors in a file
    assert str(loaded.diagnose()) == str(fitted.diagnose())
    for question in (loaded.evidence, loaded.certify):
        with pytest.raises(NoTrainingDataError):
            question()


# -- summary, diagnosis, certificate ----------------------------------------------------------------


def test_a_summary_says_what_knots_and_neighbours_explain(gp):
    lines = str(gp.summary()).splitlines()
    assert lines[0].startswith(f"GPRegressor: 20 knots and {M} neighbours of each row, log evidence")
    assert lines[3].startswith("of the variance of y the knots explain")
    assert "not for comparing kernels" in lines[4]
    assert "more knots would raise" not in gp.summary()
    limited = replace_status(gp, "limit reached")
    assert "more knots would raise" not in limited.summary()


def replace_status(gp, status):
    other = copy.copy(gp)
    other.status_ = status
    return other


def test_shares_are_those_of_explicit_predictions_without_the_row(twins):
    model, _, y = twins
    shares, state = model._fit.shares, model._fit.posterior.state
    rows = [3, 77, 200]
    for row in rows:  # the neighbours without the row, one by one
        others = np.delete(np.arange(N), row)
        distance = ((state.X[others] - state.X[row]) ** 2).sum(1)
        expected = others[np.argsort(distance, kind="stable")[: state.n_predicting]]
        assert_array_equal(np.sort(model._fit.posterior.nearest_others(np.array([row]))[0]), np.sort(expected))
    assert_allclose(shares.noise, 0.04 / y.var(), rtol=1e-12)
    rest = 1 - shares.knots - shares.neighbours
    assert shares.knots > 0.5 and shares.neighbours > 0.1
    assert shares.noise < rest < shares.noise + 0.1
    assert model._fit.shares is shares  # computed once


def test_constant_targets_have_no_shares():
    with pytest.warns(FitWarning, match="All 60 targets are 1"):
        model = near(5).fit(X[:60], np.ones(60))
    assert model._fit.shares is None
    assert "explain" not in model.summary() and model.diagnose().finding("knots").level == "ok"


def test_rows_predicted_without_themselves_are_those_of_the_exact_gp(twins):
    model, exact, y = twins
    K = exact.kernel_.bind(None, 2)(X, X) + 0.04 * np.eye(N)
    R = np.linalg.inv(K)
    z = (R @ y) / np.sqrt(np.diagonal(R))  # leave-one-out errors over their standard deviations
    found = model._fit.posterior.leave_one_out()
    assert found.n_rows == N
    assert_allclose(found.size, np.sqrt(np.mean(z**2)), rtol=0.02)
    assert_allclose(found.coverage, np.mean(np.abs(z) < 1.96), atol=0.015)


def test_a_diagnosis_of_neighbours_asks_what_applies(fitted):
    found = fitted.diagnose()
    assert found.ok and found.unexplained_share is None and found.n_inflated is None and found.inflated == ()
    assert "neighbours" in found.finding("knots").text and found.finding("places").level == "ok"
    assert "predicted without themselves" in found.finding("neighbours").text
    assert 0.9 < found.leave_one_out.size < 1.1 and 0.91 < found.leave_one_out.coverage < 0.98
    assert "places" not in str(found) and "more knots" not in str(found)
    assert found.to_dict()["leave_one_out"]["n_rows"] == N


def test_residuals_in_order_do_not_depend_on_how_many_rows_are_seen_together(twins, monkeypatch):
    posterior = twins[0]._fit.posterior
    rows = np.arange(0, N, 3)
    whole = vars(posterior.residuals(rows)).values()
    monkeypatch.setattr("knotwise.posterior.vecchia.ROWS_TOGETHER", 50)
    for one, other in zip(whole, vars(posterior.residuals(rows)).values(), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_residuals_in_order_are_independent_with_the_covariance_that_they_say(twins):
    _, exact, y = twins
    rows, n = slice(0, 90), 90
    everyone = near(X[:30], n - 1, exact.kernel_, likelihood=Gaussian(0.04), **GIVEN).fit(X[rows], y[rows])
    found = everyone._fit.posterior.residuals(np.arange(n))
    a, w, H = found.a, found.w, found.H
    # with all earlier rows as neighbours, the quadratic form is that of the exact GP
    y, K = y[rows], exact.kernel_.bind(None, 2)(X[rows], X[rows]) + 0.04 * np.eye(n)
    gamma = everyone._fit.posterior.state.gamma
    assert_allclose((a**2 / w).sum() + gamma @ gamma, y @ np.linalg.solve(K, y), rtol=1e-8)
    assert (w > (H**2).sum(1)).all()


def test_residuals_of_neighbours_are_silent_for_the_right_model(twins):
    model, _, _ = twins
    assert model.diagnose().neighbours.p > 0.01


@pytest.mark.parametrize(
    ("kernel", "noise", "level", "words"),
    [
        (SquaredExponential(1.0, 0.4), 0.04, "problem", "too smooth a kernel, or too few neighbours"),
        (Matern32(1.0, 1.5), 0.04, "problem", "too smooth a kernel, or too few neighbours"),
        (Matern32(0.25, 0.2), 0.01, "problem", "intervals are too narrow"),
        (Matern32(4.0, 0.2), 0.16, "note", "intervals are too wide"),
    ],
)
def test_a_wrong_model_with_neighbours_is_found(kernel, noise, level, words, twins):
    _, _, y = twins
    found = near(X[:30], 15, kernel, likelihood=Gaussian(noise), **GIVEN).fit(X, y).diagnose()
    finding = found.finding("neighbours")
    assert finding.level == level and words in finding.text
    assert "held by `optimizer=None`" in finding.advice


@pytest.mark.parametrize("n_rows", [1, 2, 5, 29])
def test_few_rows_are_too_few_to_test_neighbours(n_rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        if n_rows == 1:
            warnings.filterwarnings("ignore", "One row tells", FitWarning)
        model = near(min(n_rows, 2)).fit(X[:n_rows], Y[:n_rows])
    assert model.n_neighbors_ == min(M, n_rows - 1)
    assert np.isfinite(model.predict(NEW, return_std=True)).all()
    if n_rows > 1:
        found = model.diagnose()
        assert found.leave_one_out is None and found.finding("neighbours").level == "unknown"
        assert "too few different rows" in found.finding("neighbours").text
    assert model.summary() and model.certify().lower is not None


def test_a_certificate_bounds_the_exact_gp_and_says_nothing_of_the_posterior(twins):
    model, exact, _ = twins
    found = model.certify()
    assert found.lower <= exact.log_evidence_ <= found.upper
    assert found.posterior_lower is None and found.kl_bound is None and found.variance_bounds is None
    assert "nothing is certain of its posterior" in str(found)
    tight = model.certify(more_knots=300)
    assert tight.lower <= exact.log_evidence_ <= tight.upper and tight.gap < 0.2 * found.gap


def test_a_certificate_of_more_rows_than_are_searched_for_knots(gp, monkeypatch):
    monkeypatch.setattr("knotwise.diagnosis.certify.MAX_PIVOT_ROWS", 100)
    assert gp.certify().gap > 0


# -- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1, 2.5, True, None, 10.0], ids=str)
def test_a_number_of_neighbours_is_a_whole_number(value):
    with pytest.raises(InvalidInputError, match=r"`n_neighbors` is .* whole number of at least 0"):
        near(5, value).fit(X, Y)


def test_a_misspelt_word_gets_the_right_one():
    with pytest.raises(UnknownOptionError, match="Did you mean 'auto'"):
        near(5, "atuo").fit(X, Y)


@pytest.mark.parametrize("approximation", ["vfe", "fic", "full", 0.5], ids=str)
def test_an_approximation_and_neighbours_contradict_each_other(approximation):
    with pytest.raises(InvalidInputError, match="Leave one of them out"):
        near(5, approximation=approximation).fit(X, Y)
    assert near(5, 0, approximation=approximation).fit(X[:40], Y[:40]).n_neighbors_ == 0


@pytest.mark.slow
def test_where_neighbours_do_not_pay_the_trace_says_so(monkeypatch):
    monkeypatch.setattr("knotwise.decisions.auto.most_exact_rows", lambda problem: 100)
    monkeypatch.setattr("knotwise.decisions.neighbours._near_rows_agree", lambda *asked: True)
    smooth = np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(4).normal(size=N)
    gp = GPRegressor(SquaredExponential(), random_state=0).fit(X, smooth)
    notes = [step.note for step in gp.trace_ if step.action == "neighbors"]
    assert gp.n_neighbors_ == 0 and gp.converged_
    assert notes[-1].startswith("knots alone are taken: with neighbours the log density of other rows is ")


@pytest.mark.parametrize(
    ("gains", "n_asked", "n_neighbors"),
    [([0.2], 1, 15), ([0.02, 0.03], 2, 15), ([0.02, -0.03], 2, 0), ([-0.01, 0.2], 2, 15)],
)
def test_where_neighbours_gain_little_fitted_knots_are_asked_again(gains, n_asked, n_neighbors, monkeypatch):
    asked = []

    def gain(self, trial, fit, theta, Z, *, fitted):
        asked.append(len(Z))
        return gains[len(asked) - 1], 0.001

    monkeypatch.setattr("knotwise.decisions.auto.most_exact_rows", lambda problem: 100)
    monkeypatch.setattr("knotwise.decisions.auto.Auto._may_be_exact", lambda self, problem: False)
    monkeypatch.setattr("knotwise.decisions.neighbours._near_rows_agree", lambda *asked: True)
    monkeypatch.setattr("knotwise.decisions.neighbours.Nearby._gain", gain)
    smooth = np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(4).normal(size=N)
    gp = GPRegressor(SquaredExponential(), random_state=0).fit(X, smooth)
    assert (len(asked), gp.n_neighbors_) == (n_asked, n_neighbors)
    actions = [str(step.action) for step in gp.trace_]
    assert ("move" in actions) == (gains != [0.2])  # a clear gain needs no fit of the knots
    assert n_asked == 1 or asked[1] < asked[0]  # the second time, of the few knots that were moved


def test_fitted_knots_that_are_too_few_must_be_clearly_better_to_stay_alone(monkeypatch):
    monkeypatch.setattr("knotwise.decisions.auto.most_exact_rows", lambda problem: 100)
    monkeypatch.setattr("knotwise.decisions.auto.Auto._may_be_exact", lambda self, problem: False)
    monkeypatch.setattr("knotwise.decisions.neighbours.Nearby._gain", lambda *args, fitted: (-0.005, 0.01))
    gp = GPRegressor(SquaredExponential(), random_state=0).fit(X, Y)  # for which 133 knots are too few
    assert gp.n_neighbors_ == 15 and "as well as through knots alone, which are too few" in gp.stop_reason_
    monkeypatch.setattr("knotwise.decisions.neighbours.Nearby._gain", lambda *args, fitted: (-0.02, 0.01))
    with pytest.warns(FitWarning, match="more are needed"):
        assert GPRegressor(SquaredExponential(), random_state=0).fit(X, Y).n_neighbors_ == 0


def test_without_neighbours_none_are_taken():
    plain, none = near(12, "auto").fit(X, Y), near(12, 0).fit(X, Y)
    assert plain.n_neighbors_ == none.n_neighbors_ == 0  # "auto" is for automatic knots of many rows
    assert_array_equal(plain.predict(NEW), none.predict(NEW))


HARD = {
    "more neighbours than rows": (X[:8], Y[:8], {}),
    "constant targets": (X[:60], np.ones(60), {}),
    "constant columns": (np.ones((60, 2)), Y[:60], {}),
    "a constant column": (np.column_stack([X[:60, 0], np.ones(60)]), Y[:60], {}),
    "equal rows": (np.vstack([X[:40]] * 3), np.tile(Y[:40], 3), {}),
    "equal inputs": (np.vstack([X[:40]] * 3), np.tile(Y[:40], 3) + 0.1 * RNG.normal(size=120), {}),
    "two places": (np.repeat([[0.0, 0.0], [1.0, 1.0]], 30, axis=0), RNG.normal(size=60), {}),
    "weights of 0": (X[:90], Y[:90], {"sample_weight": np.arange(90) % 3}),
    "known noise": (X[:90], Y[:90], {"noise_variance": np.linspace(0.001, 0.1, 90)}),
    "no noise": (X[:90], np.sin(9 * X[:90, 0]), {}),
    "far from the origin": (X[:90] + 1e6, Y[:90], {}),
}


@pytest.mark.parametrize("knots", ["auto", 5], ids=str)
@pytest.mark.parametrize("name", HARD)
def test_hard_data_have_sensible_answers(name, knots):
    inputs, y, rows = HARD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model = near(knots).fit(inputs, y, **rows)
    mean, std = model.predict(inputs, return_std=True, noise_variance=rows.get("noise_variance"))
    assert np.isfinite(mean).all() and np.isfinite(std).all()
    assert y.min() - y.std() - 1e-6 <= mean.min() and mean.max() <= y.max() + y.std() + 1e-6
    assert np.sqrt(np.mean((mean - y) ** 2)) <= 1.2 * y.std() + 1e-6
    assert model.diagnose() and np.isfinite(model.log_evidence_)


def test_a_limit_of_knots_holds_with_neighbours():
    model = near(Auto(max_knots=20)).fit(X[:200], Y[:200])
    assert model.n_knots_ == 20 and model.n_neighbors_ == M and model.status_ == "converged"


def test_trials_are_in_units_of_the_data_also_with_weights():
    weights = np.random.default_rng(5).integers(1, 5, 200)
    one, other = (near(15).fit(X[:200], scale * Y[:200], weights) for scale in (1.0, 100.0))
    for step, scaled in zip(one.trace_, other.trace_, strict=True):
        count = step.n_rows or len(weights)  # weights are relative: together they are as many as there are rows
        assert 0.2 * 200 < count <= 200
        assert_allclose(scaled.evidence, step.evidence - count * np.log(100), rtol=1e-5)  # of optimisers


def test_a_trend_is_part_of_the_model():
    model = near(mean="linear").fit(X, Y + 20 * X[:, 0])
    assert abs(model.coefficients_.estimate[1] - 20) < 4 * model.coefficients_.standard_error[1] + 2
    assert_allclose(model.predict(X), Y + 20 * X[:, 0], atol=0.6)


def test_parameters_as_given_are_kept():
    model = near(kernel=Matern32(0.4, 0.4, column_scales="standard"), likelihood=Gaussian(0.01), optimizer=None).fit(
        X, Y
    )
    assert model.status_ == "as given" and model.kernel_.lengthscale == 0.4
    assert_allclose(model.likelihood_.noise_variance, 0.01, rtol=1e-12)


@pytest.mark.slow
def test_automatic_knots_take_neighbours_where_they_pay(tmp_path):
    rng = np.random.default_rng(0)
    inputs = rng.uniform(size=(3500, 2))
    y = np.sin(60 * inputs[:, 0]) * np.sin(50 * inputs[:, 1]) + inputs[:, 0] + 0.05 * rng.normal(size=3500)
    model = GPRegressor(SquaredExponential(), random_state=0).fit(inputs[:3100], y[:3100])
    assert model.n_neighbors_ in (15, 30) and "higher than through knots alone" in model.stop_reason_
    none = GPRegressor(SquaredExponential(), knots=100, n_neighbors=0, random_state=0).fit(inputs[:3100], y[:3100])
    gains = [gp.log_predictive_density(inputs[3100:], y[3100:]).mean() for gp in (model, none)]
    assert gains[0] > gains[1] + 1
    assert model.diagnose().ok and "neighbours of each row" in model.summary()
    model.save(tmp_path / "auto.knotwise")
    assert_array_equal(knotwise.load(tmp_path / "auto.knotwise").predict(NEW), model.predict(NEW))


# -- while a fit runs, and pictures of it -----------------------------------------------------------


def test_a_callback_hears_of_neighbours():
    events = []
    near(15, callback=events.append).fit(X, Y)
    found = [event for event in events if event.action == "neighbors"]
    assert found and all(event.n_rows < N and "neighbours of each of" in event.note for event in found)
    assert events[-1].action == "fitted" and f"{M} neighbours" in events[-1].note


def test_every_picture_can_be_drawn(gp):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from knotwise import plotting

    plotting.plot_fit(gp, X, Y)
    plotting.plot_map(gp, X, resolution=20)
    plotting.plot_observed(gp, X[:50], Y[:50])
    plotting.plot_calibration(gp, X[:50], Y[:50])
    plotting.plot_pit(gp, X[:50], Y[:50])
    above, below = plotting.plot_trace(gp)
    assert [text.get_text() for text in above.get_legend().get_texts()] == [f"final: 20 knots and {M} neighbours"]
    assert "near rows" in below.texts[0].get_text()
    above, _ = plotting.plot_trace(near(OneAtATime(max_knots=6)).fit(X[:150], Y[:150]))
    (alone,) = (line for line in above.get_lines() if line.get_label() == "knots added and moved")
    assert len(alone.get_xdata()) >= 1 and above.get_lines()[-1].get_xdata()[0] == 6
    pyplot.close("all")
