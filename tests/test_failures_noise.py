"""Known noise that is too small for knots, and weights that are too large or too small to count."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import knotwise
from knotwise import GPClassifier, GPRegressor, cross_validate
from knotwise.errors import FitWarning, InvalidInputError
from knotwise.kernels import Matern52, SquaredExponential

N = 60


@pytest.fixture(scope="module")
def wave():
    """A wave on a line with noise of variance 0.02, in units in which y has variance 1."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(size=(N, 1)), axis=0)
    y = np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=N)
    return X, (y - y.mean()) / y.std()


def noise_with(*tiny, rows=(7,)):
    noise = np.full(N, 0.02)
    noise[list(rows)] = tiny
    return noise


# -- known noise -----------------------------------------------------------------------------------


@pytest.mark.failure(4)
@pytest.mark.parametrize("tiny", [1e-14, 1e-18, 1e-300])
@pytest.mark.parametrize("options", [{}, {"approximation": "fic"}, {"approximation": 0.5}], ids=str)
def test_a_row_that_is_known_almost_exactly_has_the_evidence_of_the_exact_gp(options, tiny, wave):
    """Case 4: for one row. The exact GP needs no jitter, so it is right for any noise; knots cost .1 or .2 nats."""
    exact = GPRegressor(approximation="full").fit(*wave, noise_variance=noise_with(1e-14)).log_evidence_
    with pytest.warns(
        FitWarning, match=r"in row 7, .* raised to the floor of 1e-08, 1e-08 times the variance"
    ) as caught:
        gp = GPRegressor(random_state=0, **options).fit(*wave, noise_variance=noise_with(tiny))
    assert len(caught) == 1
    assert_allclose(gp.log_evidence_, exact, atol=0.2)


@pytest.mark.failure(4)
def test_the_floor_of_known_noise_is_named_in_the_units_of_the_user_with_the_first_row(wave):
    """Case 4: equal rows become one row and are sorted; the row that is named is the user's."""
    X, y = np.vstack([wave[0], wave[0][:5]]), 100 * np.concatenate([wave[1], wave[1][:5]])
    noise = 1e4 * np.concatenate([noise_with(1e-13, 1e-12, rows=(50, 9)), np.full(5, 0.02)])
    floor = 1e-8 * y.var()
    with pytest.warns(FitWarning, match=rf"is 1e-08 in row 9 and in 1 more row, .* floor of {floor:.1g},"):
        GPRegressor(knots=8, optimizer=None, random_state=0).fit(X, y, noise_variance=noise)


def log_normal(y, mean, V):
    """Log density of N(mean, V) at y, by a factor of V, which is nearly singular here."""
    L = np.linalg.cholesky(V)
    a = np.linalg.solve(L, y - mean)
    return -0.5 * a @ a - np.log(np.diag(L)).sum() - 0.5 * len(y) * np.log(2 * np.pi)


#: 60 rows of six columns, for which the default is the exact GP
SIX = np.random.default_rng(0).random((60, 6))
OF_SIX = np.sin(7 * SIX[:, 0]) * SIX[:, 1] + np.cos(9 * SIX[:, 2]) * SIX[:, 3] + SIX[:, 4] ** 2 * np.sin(8 * SIX[:, 5])


@pytest.mark.parametrize("tiny", [1e-4, 1e-9, 1e-12])
def test_a_default_that_ends_as_the_exact_gp_has_the_noise_as_given_and_no_warning(tiny):
    noise = np.full(60, tiny)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        gp = GPRegressor(random_state=0, n_jobs=1).fit(SIX, OF_SIX, noise_variance=noise)
    assert gp.approximation_ == "full"
    held = {"kernel": gp.kernel_, "mean": 0.3, "optimizer": None, "n_jobs": 1, "standardize": False}
    auto, exact = (GPRegressor(approximation=how, **held) for how in (None, "full"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # knots may be enough for these parameters
        auto.fit(SIX, OF_SIX, noise_variance=noise)
    exact.fit(SIX, OF_SIX, noise_variance=noise)
    dense = log_normal(OF_SIX, 0.3, gp.kernel_(SIX, SIX) + tiny * np.eye(60))
    assert_allclose(exact.log_evidence_, dense, rtol=1e-6)
    assert auto.approximation_ == "vfe" or auto.log_evidence_ == exact.log_evidence_


@pytest.mark.failure(4)
@pytest.mark.parametrize("options", [{"knots": 8}, {"knots": 8, "approximation": "fic"}, {"knots": "auto"}], ids=str)
@pytest.mark.parametrize("rows", [(7,), tuple(range(N))], ids=["one row", "all rows"])
def test_known_noise_of_zero_is_the_floor_of_knots_with_one_warning(options, rows, wave):
    """Case 4: zero noise of some rows, or of all; a number is for all rows."""
    noise = 0.0 if len(rows) == N else noise_with(0.0, rows=rows)
    with pytest.warns(FitWarning, match=r"is 0 in row .* through knots: .* floor of 1e-08, 1e-08 times") as caught:
        gp = GPRegressor(random_state=0, optimizer=None, n_jobs=1, **options).fit(*wave, noise_variance=noise)
    assert len(caught) == 1 and gp.approximation_ != "full"
    floor = GPRegressor(random_state=0, optimizer=None, n_jobs=1, **options)
    floor.fit(*wave, noise_variance=np.maximum(noise, 1e-8 * wave[1].var() * (1 + 1e-12)))
    assert_allclose(gp.log_evidence_, floor.log_evidence_, rtol=1e-6)


@pytest.mark.failure(4)
@pytest.mark.parametrize("doubled", [False, True])
def test_known_noise_of_zero_is_the_floor_of_the_exact_gp_with_one_warning(doubled, wave):
    """Case 4: of the exact GP. Equal rows that differ in y contradict each other, and still have finite numbers."""
    X, y = wave
    if doubled:
        X, y = np.vstack([X, X[:3]]), np.r_[y, y[:3] + 1e-3]
    gp = GPRegressor(Matern52(1.0, 0.4), approximation="full", optimizer=None, mean=0.0, standardize=False, n_jobs=1)
    with pytest.warns(FitWarning, match=r"is 0 in row 0 and in .* more rows, .* floor of 1e-08, 1e-08 times") as caught:
        gp.fit(X, y, noise_variance=0.0)
    assert len(caught) == 1
    noise = np.full(len(y), 1e-8 * y.var())
    dense = log_normal(y, 0.0, gp.kernel_(X, X) + np.diag(noise))
    assert_allclose(gp.log_evidence_, dense, rtol=1e-4)


def test_known_noise_of_zero_is_learned_from_by_the_exact_gp(wave):
    X = wave[0]
    with pytest.warns(FitWarning, match="1e-08 times"):
        gp = GPRegressor(approximation="full", random_state=0, n_jobs=1).fit(X, np.sin(9 * X[:, 0]), noise_variance=0)
    new = np.linspace(0.1, 0.9, 7)[:, None]
    assert_allclose(gp.predict(new), np.sin(9 * new[:, 0]), atol=1e-3)


@pytest.mark.parametrize("approximation", [None, "full"])
def test_noise_with_which_the_exact_gp_has_no_factor_is_raised_and_said(approximation):
    """150 smooth rows known to 1e-14: with this noise a factor exists only where rows tell nothing of each other."""
    rng = np.random.default_rng(0)
    X, new = rng.random((150, 2)), rng.uniform(0.05, 0.95, size=(50, 2))

    def f(X):
        return np.sin(7 * X[:, 0]) * X[:, 1]

    gp = GPRegressor(SquaredExponential(), approximation=approximation, random_state=0, n_jobs=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp.fit(X, f(X), noise_variance=1e-14)
    said = [str(each.message) for each in caught if "no factor" in str(each.message)]
    assert len(said) == 1 and "raised to the floor" in said[0] and "knots" not in said[0]
    assert gp.approximation_ == "full" and said[0] in str(gp.certify()).replace("\n  ", " ")
    assert np.sqrt(np.mean((gp.predict(new) - f(new)) ** 2)) < 1e-3


def twins(tiny, apart=1e-3):
    """Rows of which the first two are equal, known almost exactly, and differ."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 5, size=(N, 1)), 0)
    X[1] = X[0]
    noise = np.full(N, 1e-2)
    noise[:2] = tiny
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=N)
    y[0] = np.sin(2 * X[0, 0])
    y[1] = y[0] + apart
    return X, y, noise


@pytest.mark.failure(54)
@pytest.mark.parametrize("how", [{}, {"approximation": "fic"}, {"n_neighbors": 5}], ids=str)
@pytest.mark.parametrize("tiny, apart", [(1e-10, 1e-3), (1e-10, 0.0), (1e-13, 1e-6), (0.0, 1e-5), (1e-3, 1e-2)])
@pytest.mark.parametrize("kernel", [SquaredExponential(1.0, 1.0), Matern52(1.0, 0.5)], ids=repr)
def test_a_certificate_is_of_the_known_noise_as_it_was_given(kernel, tiny, apart, how):
    X, y, noise = twins(tiny, apart)
    options = {"mean": 0.0, "optimizer": None, "standardize": False, "n_jobs": 1}
    used = np.where(noise == 0, 1e-8 * y.var(), noise)
    exact = log_normal(y, 0.0, kernel(X, X) + np.diag(used))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        gp = GPRegressor(kernel, knots=X[::3], random_state=0, **options, **how).fit(X, y, noise_variance=noise)
    certificate = gp.certify()
    slack = 1e-6 * abs(exact)
    assert certificate.lower <= exact + slack and exact - slack <= certificate.upper
    if certificate.posterior_lower is not None:
        assert certificate.posterior_lower <= exact + slack
    raised = tiny < 1e-8
    assert raised == ("as it was given" in str(certificate))
    if raised and tiny:
        assert certificate.gap < 0.5 * abs(exact - gp.log_evidence_) + 30


def test_a_certificate_of_partitions_is_of_the_known_noise_as_it_was_given(monkeypatch):
    da = pytest.importorskip("dask.array")
    from knotwise.data import partitions

    monkeypatch.setattr(partitions, "ROWS_AT_DRIVER", 10)
    X, y, noise = twins(1e-10)
    options = {"mean": 0.0, "optimizer": None, "standardize": False, "n_jobs": 1}
    kernel = SquaredExponential(1.0, 1.0)
    lazy = [da.from_array(values, chunks=25) for values in (X, y, noise)]
    with pytest.warns(FitWarning, match=r"is 1e-10 in partition 0, too small for a fit through knots"):
        gp = GPRegressor(kernel, knots=X[::3], **options).fit(*lazy[:2], noise_variance=lazy[2])
    certificate = gp.certify()
    exact = log_normal(y, 0.0, kernel(X, X) + np.diag(noise))
    assert certificate.lower <= exact <= certificate.upper and certificate.upper - certificate.lower < 10


def test_what_was_raised_is_said_wherever_the_evidence_is_shown(tmp_path):
    X, y, noise = twins(1e-10)
    with pytest.warns(FitWarning, match="log evidence and the posterior are those of the raised noise"):
        gp = GPRegressor(knots=X[::3], optimizer=None, n_jobs=1).fit(X, y, noise_variance=noise)
    gp.save(tmp_path / "m.knotwise")
    for model in (gp, knotwise.load(tmp_path / "m.knotwise")):
        assert "raised to the floor" in str(model.summary()).replace("\n", " ")
        assert any(finding.name == "known noise" for finding in model.diagnose().findings)
    with pytest.warns(FitWarning, match="raised to the floor"):
        cross_validate(gp, X, y, blocks=5, refit=False, noise_variance=noise)


def test_leave_one_out_of_the_exact_gp_has_the_noise_as_given():
    X, y, noise = twins(1e-12, apart=1e-6)
    gp = GPRegressor(Matern52(1.0, 0.5), approximation="full", mean=0.0, optimizer=None, standardize=False, n_jobs=1)
    gp.fit(X, y, noise_variance=noise)
    found = cross_validate(gp, X, y, refit=False, noise_variance=noise)
    K = gp.kernel_(X, X)
    rest = np.arange(N) != 1
    weights = np.linalg.solve(K[np.ix_(rest, rest)] + np.diag(noise[rest]), K[rest, 1])
    assert_allclose(found.mean[1], weights @ y[rest], atol=1e-8)


def test_noise_above_the_floor_and_the_exact_gp_are_left_alone(wave):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        GPRegressor(random_state=0).fit(*wave, noise_variance=noise_with(2e-8))
        gp = GPRegressor(approximation="full").fit(*wave, noise_variance=noise_with(1e-14))
    assert_allclose(gp.predict(wave[0][7:8]), wave[1][7], atol=1e-6)


# -- weights ---------------------------------------------------------------------------------------


def weights_with(value, rows=(7,)):
    weights = np.ones(N)
    weights[list(rows)] = value
    return weights


@pytest.mark.parametrize("weight", [1.1e8, 1e16, 1e300])
@pytest.mark.parametrize("options", [{}, {"approximation": "full"}, {"likelihood": "poisson"}], ids=str)
def test_a_weight_that_no_digits_can_follow_is_refused_with_its_row(options, weight, wave):
    X, y = wave
    y = np.round(np.exp(y)) if "likelihood" in options else y
    with pytest.raises(InvalidInputError, match=r"is .* in row 7 and 1 more row, .* 1e\+08 times.*mean") as caught:
        GPRegressor(**options).fit(X, y, sample_weight=weights_with(weight, rows=(7, 11)))
    assert caught.value.rows.tolist() == [7, 11]
    with pytest.raises(InvalidInputError, match="in row 7, "):
        GPClassifier().fit(X, y > 1, sample_weight=weights_with(weight))


def test_at_the_largest_weight_the_bound_is_still_below_the_evidence(wave):
    """Of known noise, where weights are counts."""
    known = {"sample_weight": weights_with(1e8), "noise_variance": np.full(N, 0.01)}
    sparse = GPRegressor(random_state=0, approximation="vfe").fit(*wave, **known)
    exact = GPRegressor(approximation="full").fit(*wave, **known)
    assert 0 < sparse.log_evidence_ < exact.log_evidence_


@pytest.mark.parametrize("tiny", [1e-101, 1e-300, 5e-324])
@pytest.mark.parametrize("approximation", ["vfe", "full"])
def test_a_row_of_a_tiny_weight_is_not_there(approximation, tiny, wave):
    gp = GPRegressor(approximation=approximation, random_state=0)
    without = gp.fit(*wave, sample_weight=weights_with(0.0)).predict(wave[0], return_std=True)
    assert_allclose(gp.fit(*wave, sample_weight=weights_with(tiny)).predict(wave[0], return_std=True), without, rtol=0)


@pytest.mark.parametrize("tiny", [0.0, 1e-300])
def test_weights_that_are_all_tiny_leave_nothing_to_fit(tiny, wave):
    with pytest.raises(InvalidInputError, match="nothing to fit"):
        GPRegressor().fit(*wave, sample_weight=np.full(N, tiny))
