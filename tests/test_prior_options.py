"""The option `priors`: names and roles, units, the fit that it makes, what is said of it, files and checkpoints."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import knotwise
from knotwise import GPClassifier, GPRegressor
from knotwise import kernels as k
from knotwise.checkpoint.digest import digest
from knotwise.data.observations import Observations
from knotwise.errors import InvalidInputError, ModelFileError, UnknownOptionError
from knotwise.estimators.assemble import assemble
from knotwise.knots import GreedyVariance, OneAtATime, RandomSubset
from knotwise.likelihoods import Gaussian
from knotwise.means import Constant
from knotwise.numerics.blocks import Serial
from knotwise.persistence.records import TABLE
from knotwise.persistence.schema import Reading, Writing
from knotwise.priors import HalfNormal, InverseGamma, LogNormal, PCRange, PCSd

RNG = np.random.default_rng(8)
N = 40
X = RNG.uniform(size=(N, 2)) * [1.0, 50.0]
Y = 100 + 20 * np.sin(5 * X[:, 0]) + 0.1 * X[:, 1] + 4 * RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(1 + np.sin(5 * X[:, 0]))).astype(float)
LABELS = np.where(X[:, 0] + 0.01 * X[:, 1] > 0.7, "b", "a")
ARD = k.Matern32(ard=True)
SMOOTH = k.SquaredExponential()  # where the kernel is not the matter, so that none is chosen
EXACT = {"approximation": "full", "random_state": 0}


@dataclass(frozen=True)
class Own:
    """A prior of one's own: normal on theta's scale."""

    centre: float = 0.0

    def log_density(self, theta):
        return -0.5 * (theta - self.centre) ** 2, self.centre - theta


class Sharp(Own):
    """The same, and far narrower."""

    def log_density(self, theta):
        value, slope = super().log_density(theta)
        return 1e6 * value, 1e6 * slope


def table_of(X=X, y=Y, **options):
    """The table of parameters with which a fit begins, in the engine's units, and the scaling."""
    found = assemble(GPRegressor(**options), Observations(X, y), None, Serial())
    return found.problem.table, found.scaling


def priors_of(**options):
    table, _ = table_of(**options)
    return dict(zip(table.names, table.priors, strict=True))


# -- names and roles --------------------------------------------------------------------------------------------


def test_without_the_option_no_parameter_has_a_prior():
    assert set(priors_of().values()) == {None}
    gp = GPRegressor(SMOOTH, knots=5, random_state=0).fit(X, Y)
    assert gp.log_prior_ == 0 and "priors" not in gp.summary()


def test_a_name_wins_over_a_role_whatever_their_order():
    by_role, by_name = InverseGamma(2.0, 3.0), LogNormal(1.0, 2.0)
    for given in ({"amplitude": by_role, "k1__variance": by_name}, {"k1__variance": by_name, "amplitude": by_role}):
        found = priors_of(kernel=k.SquaredExponential() + k.Constant(), priors=given, standardize=False)
        assert found["k1__variance"] == by_name and found["k2__variance"] == by_role
        assert found["k1__lengthscale"] is None and found["noise_variance"] is None


def test_a_key_that_is_a_name_and_a_role_is_the_name():
    """A gamma likelihood's shape has the role of noise; the kernel's is called so too, and has the role."""
    y, prior = np.exp((Y - 100) / 20), LogNormal(1.0, 1.0)
    assert priors_of(y=y, likelihood="gamma", priors={"shape": prior})["shape"] == prior
    options = {"y": y, "likelihood": "gamma", "kernel": k.RationalQuadratic()}
    with pytest.raises(
        InvalidInputError, match="two parts of the model have: write kernel__shape and likelihood__shape"
    ):
        priors_of(**options, priors={"shape": prior})
    found = priors_of(**options, priors={"noise": prior})
    assert found["likelihood__shape"] == prior and found["kernel__shape"] is None


@pytest.mark.parametrize("key", ["lengthscale", "kernel__lengthscale"])
def test_the_name_of_a_list_means_all_its_entries(key):
    prior = LogNormal(1.0, 2.0)
    found = priors_of(kernel=ARD, priors={key: prior}, standardize=False)
    assert found["lengthscale[0]"] == found["lengthscale[1]"] == prior and found["variance"] is None
    found = priors_of(kernel=ARD, priors={f"{key}[1]": prior}, standardize=False)
    assert found["lengthscale[1]"] == prior and found["lengthscale[0]"] is None


def test_every_role_can_be_given():
    prior = LogNormal(1.0, 1.0)
    roles = ["amplitude", "lengthscale", "noise", "nugget", "shape"]
    found = priors_of(
        y=np.abs(Y),
        likelihood="student_t",
        nugget="fit",
        priors=dict.fromkeys(roles, prior),
        standardize=False,
    )
    assert dict.fromkeys(found, prior) == found and len(found) == 5


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"lenghtscale": LogNormal(1, 1)}, UnknownOptionError, "A key of `priors` .* Did you mean 'lengthscale'"),
        ({"noize": LogNormal(1, 1)}, UnknownOptionError, "Did you mean 'noise'"),
        ({"kernel__varianc": LogNormal(1, 1)}, UnknownOptionError, "Did you mean 'kernel__variance'"),
        ({3: LogNormal(1, 1)}, UnknownOptionError, "A key of `priors` is 3"),
        ({"nugget": LogNormal(1, 1)}, InvalidInputError, "no parameter of this model has that role"),
        ({"variance": LogNormal(1, 1), "kernel__variance": LogNormal(1, 1)}, InvalidInputError, "the same parameter"),
        ("week", UnknownOptionError, "Did you mean 'weak'"),
        (LogNormal(1, 1), InvalidInputError, "must be None, 'weak', or a dict"),
        ({"noise": LogNormal}, InvalidInputError, "the class LogNormal; give an object"),
        ({"noise": (1.0, 2.0)}, InvalidInputError, "or an object with `log_density"),
        (
            {"lengthscale": LogNormal(1, 1)},
            InvalidInputError,
            r"2 columns of different scale\. Write one per column, `lengthscale=",
        ),
        ({"lengthscale": PCRange(1)}, InvalidInputError, "standardize='common'"),
        ({"variance": PCRange(1)}, InvalidInputError, "a PCRange for `variance`, but it is for the length-scale"),
        ({"lengthscale": HalfNormal(1)}, InvalidInputError, "for a variance or a standard deviation"),
        ({"noise": Own(np.nan)}, InvalidInputError, "must return two finite numbers"),
    ],
)
def test_what_cannot_be_a_prior_is_refused_in_words(given, error, match):
    gp = GPRegressor(SMOOTH, priors=given, **EXACT)
    with pytest.raises(error, match=match):
        gp.fit(X, Y)


def test_a_density_of_positive_numbers_is_refused_for_a_mean():
    with pytest.raises(InvalidInputError, match="`mean`, which can be negative"):
        table_of(mean=Constant(prior_sd=None), priors={"mean": LogNormal(1, 1)})
    found = priors_of(mean=Constant(prior_sd=None), priors={"mean": Own(3.0)})["mean"]
    value, slope = found.log_density(0.5)  # in standard deviations of y from its mean
    assert_allclose(value, Own(3.0).log_density(Y.mean() + 0.5 * Y.std())[0], rtol=1e-12)
    assert_allclose(slope, Y.std() * (3.0 - Y.mean() - 0.5 * Y.std()), rtol=1e-12)


def test_a_range_is_for_three_columns_at_most_and_for_kernels_that_have_one():
    wide = np.column_stack([X[:, 0]] * 4)
    with pytest.raises(InvalidInputError, match="which is about 4 columns, but it is for 3"):
        table_of(X=wide, priors={"lengthscale": PCRange(1.0)})
    found = priors_of(X=wide, kernel=k.Matern52().on([0, 1, 2]), priors={"lengthscale": PCRange(1.0)})
    assert next(iter(p for p in found.values() if p)).columns == 3
    for kernel in (k.RationalQuadratic(), k.Periodic().on(0)):
        with pytest.raises(InvalidInputError, match="of which the range is known"):
            table_of(kernel=kernel, priors={"lengthscale": PCRange(1.0)}, standardize=False)


def test_a_more_precise_likelihood_has_no_standard_deviation():
    with pytest.raises(InvalidInputError, match="a PCSd for `precision`"):
        table_of(y=stats.norm.cdf((Y - 100) / 20), likelihood="beta", priors={"noise": PCSd(1.0)})


# -- units ------------------------------------------------------------------------------------------------------


def test_priors_speak_in_the_units_of_the_data():
    given = {"variance": LogNormal(200, 1), "lengthscale": LogNormal(3, 1), "noise": HalfNormal(4)}
    table, scaling = table_of(kernel=ARD, priors=given)
    sd, scales = Y.std(), X.std(0)
    assert_allclose(scaling.x_scale, scales, rtol=1e-12)
    found = dict(zip(table.names, table.priors, strict=True))
    assert_allclose(found["variance"].median, 200 / sd**2, rtol=1e-12)
    assert_allclose([found[f"lengthscale[{i}]"].median for i in range(2)], 3 / scales, rtol=1e-12)
    assert_allclose(found["noise_variance"].scale, 4 / sd, rtol=1e-12)


def test_on_a_links_scale_a_variance_has_no_units():
    given = {"variance": PCSd(2.0), "lengthscale[1]": PCRange(5.0, 0.1)}
    table, _ = table_of(y=COUNTS, kernel=ARD, likelihood="poisson", priors=given)
    found = dict(zip(table.names, table.priors, strict=True))
    assert found["variance"] == PCSd(2.0)
    assert_allclose(found["lengthscale[1]"].lower, 5.0 / X[:, 1].std(), rtol=1e-12)
    assert found["lengthscale[1]"].factor == 2.0


def test_a_period_is_in_the_units_of_its_column():
    table, _ = table_of(kernel=k.Periodic(period=0.5).on(0), priors={"kernel__period": LogNormal(0.5, 0.1)})
    found = dict(zip(table.names, table.priors, strict=True))
    assert_allclose(found["kernel__period"].median, 0.5 / X[:, 0].std(), rtol=1e-12)


def test_the_second_factor_of_a_product_has_no_units_of_y():
    table, _ = table_of(kernel=k.SquaredExponential() * k.Constant(), priors={"amplitude": LogNormal(2.0, 1.0)})
    found = dict(zip(table.names, table.priors, strict=True))
    assert_allclose([found["k1__variance"].median, found["k2__variance"].median], [2.0 / Y.var(), 2.0], rtol=1e-12)


@pytest.mark.parametrize("knots", [{"approximation": "full"}, {"knots": 6}])
def test_a_fit_in_other_units_is_the_same_fit(knots):
    by_x, by_y = np.array([1 / 64, 8.0]), 32.0  # powers of two, so that not even the rounding differs

    def priors(x0, x1, y):
        return {
            "variance": PCSd(25.0 * y, 0.1),
            "lengthscale[0]": LogNormal(0.3 * x0, 0.5),
            "lengthscale[1]": PCRange(30.0 * x1, 0.05),
            "noise": InverseGamma(3.0, 40.0 * y**2),
        }

    options = {"kernel": ARD, "random_state": 0, **knots}
    one = GPRegressor(priors=priors(1, 1, 1), **options).fit(X, Y)
    other = GPRegressor(priors=priors(*by_x, by_y), **options).fit(X * by_x, Y * by_y)
    assert_allclose(other.log_prior_, one.log_prior_, rtol=1e-9)
    assert_allclose(other.log_evidence_, one.log_evidence_ - N * np.log(by_y), rtol=1e-9)
    assert_allclose(other.predict(X * by_x), by_y * one.predict(X), rtol=1e-7)
    plain = GPRegressor(**options).fit(X, Y)
    assert abs(plain.predict(X) - one.predict(X)).max() > 0.1  # the priors matter


@pytest.mark.parametrize("standardize", ["columns", "common", False])
def test_the_parameters_of_a_fit_have_its_log_prior_in_their_own_units(standardize):
    given = {"variance": HalfNormal(25.0), "lengthscale": LogNormal(3.0, 2.0), "noise": InverseGamma(2.0, 9.0)}
    gp = GPRegressor(kernel=ARD, priors=given, standardize=standardize, optimizer=None, **EXACT).fit(X, Y)
    table = gp.parameters_
    assert_allclose(table.log_prior(table.theta)[0], gp.log_prior_, rtol=1e-10)
    frame = table.to_frame().set_index("parameter")["data_value"]
    expected = [given["lengthscale"].log_density(np.log(frame[f"lengthscale[{i}]"]))[0] for i in range(2)]
    expected += [given[n].log_density(np.log(frame[m]))[0] for n, m in (("variance",) * 2, ("noise", "noise_variance"))]
    assert_allclose(gp.log_prior_, sum(expected), rtol=1e-10)


def test_one_length_scale_of_columns_of_one_scale_has_their_units():
    table, scaling = table_of(standardize="common", priors={"lengthscale": LogNormal(3.0, 1.0)})
    assert_allclose(table.priors[1].median, 3.0 / scaling.x_scale[0], rtol=1e-12)
    assert table_of(standardize=False, priors={"lengthscale": PCRange(3.0)})[0].priors[1] == PCRange(
        3.0, columns=2, factor=2.0
    )


# -- the fit ----------------------------------------------------------------------------------------------------


def test_a_fit_is_the_maximum_of_evidence_and_prior_by_brute_force():
    """Dense covariances and scipy's densities in the units of the data, maximised without gradients."""
    x, y = X[:25, :1], Y[:25]
    distance2 = (x - x.T) ** 2

    def objective(theta):
        v, ell, noise = np.exp(theta)
        C = v * np.exp(-0.5 * distance2 / ell**2) + noise * np.eye(len(y))
        value = stats.multivariate_normal(np.full(len(y), 100.0), C).logpdf(y)
        value += stats.invgamma(3.0, scale=120.0).logpdf(noise) + theta[2]
        value += stats.lognorm(s=0.3, scale=0.15).logpdf(ell) + theta[1]
        return value - np.log(20) / 15.0 * np.sqrt(v)  # P(sd > 15) = 0.05, without Jacobian

    best = optimize.minimize(
        lambda t: -objective(t),
        np.log([200.0, 0.2, 20.0]),
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-10, "maxiter": 4000},
    )
    priors = {"noise": InverseGamma(3.0, 120.0), "lengthscale": LogNormal(0.15, 0.3), "amplitude": PCSd(15.0, 0.05)}
    gp = GPRegressor(SMOOTH, priors=priors, mean=100.0, **EXACT).fit(x, y)
    found = gp.parameters_.to_frame().set_index("parameter")["data_value"]
    assert_allclose(found[["variance", "lengthscale", "noise_variance"]], np.exp(best.x), rtol=1e-3)
    assert_allclose(gp.log_evidence_ + gp.log_prior_, -best.fun, rtol=1e-8)


def test_a_strong_prior_holds_the_noise_of_counts_and_values():
    priors = {"nugget": LogNormal(0.2, 1e-3)}
    gp = GPRegressor(SMOOTH, "poisson", nugget="fit", priors=priors, knots=6, random_state=0).fit(X, COUNTS)
    assert_allclose(gp.nugget_, 0.2, rtol=1e-2)
    gp = GPRegressor(SMOOTH, priors={"noise": LogNormal(50.0, 1e-3)}, random_state=0).fit(X, Y)
    assert_allclose(gp.likelihood_.noise_variance, 50.0, rtol=1e-2)


@pytest.mark.parametrize(
    "knots", ["auto", 8, GreedyVariance(8), OneAtATime(max_knots=6, proposal=RandomSubset(5), n_initial=3)]
)
def test_traces_and_evidence_do_not_know_the_prior(knots):
    """A constant added to the log prior changes nothing; the last evidence of the trace is that of the model."""

    @dataclass(frozen=True)
    class Shifted:
        shift: float

        def log_density(self, theta):
            return self.shift - 0.05 * theta**2, -0.1 * theta

    fits = [
        GPRegressor(SMOOTH, priors={"variance": Shifted(shift)}, knots=knots, random_state=0).fit(X, Y)
        for shift in (0.0, 64.0)
    ]
    for gp in fits:
        assert_allclose(gp.log_evidence_, gp.evidence(gradient=False).value, rtol=1e-9)
        if len(gp.trace_):
            assert_allclose(gp.trace_.steps[-1].evidence, gp.log_evidence_, rtol=1e-7)
    one, other = fits
    assert_allclose(other.log_prior_ - one.log_prior_, 64.0, rtol=1e-4)
    assert other.n_knots_ == one.n_knots_
    assert_allclose(other.log_evidence_, one.log_evidence_, atol=1e-3)
    assert [s.action for s in other.trace_.steps] == [s.action for s in one.trace_.steps]


def test_the_gradient_at_the_end_of_an_automatic_fit_is_that_of_the_objective():
    gp = GPRegressor(SMOOTH, priors={"noise": LogNormal(60.0, 0.05)}, random_state=0).fit(X, Y)
    evidence = gp.evidence()
    noise = list(gp.parameters_.names).index("noise_variance")
    assert abs(evidence.gradient[noise]) > 5  # the prior holds against the data
    assert gp.optimize_result_.gradient_norm < 1


def test_an_own_prior_is_one_of_theta_in_the_units_of_the_data():
    given = {"noise": Own(-1.0), "lengthscale[0]": Own(0.5)}
    gp = GPRegressor(ARD, priors=given, optimizer=None, **EXACT).fit(X, Y)
    theta = dict(zip(gp.parameters_.names, gp.parameters_.theta, strict=True))
    expected = Own(-1.0).log_density(theta["noise_variance"])[0] + Own(0.5).log_density(theta["lengthscale[0]"])[0]
    assert_allclose(gp.log_prior_, expected, rtol=1e-10)
    assert_allclose(gp.parameters_.log_prior(gp.parameters_.theta)[0], expected, rtol=1e-10)
    held = GPRegressor(ARD, priors={"lengthscale[0]": Sharp(0.5)}, **EXACT).fit(X, Y)
    assert_allclose(held.kernel_.lengthscale[0], np.exp(0.5), rtol=0.01)


def test_classes_have_the_same_priors_each():
    gp = GPClassifier(SMOOTH, knots=5, priors="weak", random_state=0).fit(X, LABELS)
    (model,) = gp.models_
    assert_allclose(gp.log_prior_, np.log(0.05) / 30 * np.sqrt(model.kernel_.variance), rtol=1e-10)
    plain = GPClassifier(SMOOTH, knots=5, random_state=0).fit(X, LABELS)
    assert model.kernel_.variance < plain.kernel_.variance  # classes that can be separated
    three = GPClassifier(SMOOTH, knots=4, priors={"amplitude": PCSd(5.0)}, random_state=0)
    three.fit(X, np.digitize(X[:, 0], [0.3, 0.6]))
    assert_allclose(three.log_prior_, sum(model.log_prior_ for model in three.models_), rtol=1e-12)
    assert len(three.models_) == 3 and three.summary().count("P(standard deviation > 5) = 0.05") == 3


# -- weak priors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standardize", ["columns", False])
def test_weak_priors_go_with_the_scale_of_the_targets_and_leave_length_scales_alone(standardize):
    table, scaling = table_of(kernel=ARD + k.Linear(), priors="weak", standardize=standardize)
    found = dict(zip(table.names, table.priors, strict=True))
    assert {name for name, prior in found.items() if prior} == {"k1__variance", "noise_variance"}
    assert_allclose(found["k1__variance"].upper * scaling.y_scale, 30 * Y.std(), rtol=1e-10)
    assert_allclose(found["noise_variance"].median * scaling.y_scale**2, 0.3 * Y.var(), rtol=1e-10)


def test_weak_priors_on_a_links_scale_are_of_the_amplitude_alone():
    assert priors_of(y=COUNTS, likelihood="negative_binomial", priors="weak", nugget="fit") == {
        "variance": PCSd(30.0, 0.05),
        "lengthscale": None,
        "dispersion": None,
        "nugget": None,
    }


# -- estimators, summary, files, checkpoints --------------------------------------------------------------------


def test_estimators_keep_the_option_as_it_was_given():
    given = {"noise": LogNormal(1.0, 1.0)}
    for estimator in (GPRegressor(priors=given), GPClassifier(priors=given)):
        assert estimator.get_params()["priors"] is given
        assert clone(estimator).priors == given
    gp = GPRegressor(SMOOTH, priors=given, **EXACT).fit(X, Y)
    assert gp.priors is given and given == {"noise": LogNormal(1.0, 1.0)}


def test_a_search_compares_priors():
    options = [None, "weak", {"noise": LogNormal(1e4, 0.01)}]
    search = GridSearchCV(GPRegressor(SMOOTH, knots=5, random_state=0), {"priors": options}, cv=2).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_params_["priors"] != options[2] and scores[2] < scores[0] - 0.01


def test_the_summary_has_a_line_for_each_prior_in_the_units_of_the_data():
    given = {"lengthscale": LogNormal(3.0, 0.5), "noise": InverseGamma(2.0, 16.0), "variance": Own()}
    text = GPRegressor(kernel=ARD, priors=given, **EXACT).fit(X, Y).summary()
    assert text.count("log-normal with median 3, spread 0.5 of the logarithm") == 2
    assert "noise_variance  inverse gamma with shape 2, scale 16" in text
    assert "variance        Own(centre=0.0)" in text
    assert "priors in the units of the data, log density" in text


FILES = {
    "by name": {"kernel": ARD, "priors": {"lengthscale": PCRange(2, 0.1), "noise": InverseGamma(2, np.float64(16.0))}},
    "all kinds": {"priors": {"variance": HalfNormal(30), "noise": LogNormal(16, 1)}, "approximation": "full"},
    "weak": {"priors": "weak"},
}


@pytest.mark.parametrize("options", FILES.values(), ids=FILES)
def test_priors_survive_a_file(options, tmp_path):
    gp = GPRegressor(**{"kernel": SMOOTH, "knots": 5, "random_state": 0} | options).fit(X, Y)
    gp.save(tmp_path / "model.knotwise")
    same = knotwise.load(tmp_path / "model.knotwise")
    assert same.log_prior_ == gp.log_prior_ != 0
    assert str(same.summary(standard_errors=False)) == str(gp.summary(standard_errors=False))  # those need the data
    assert same.priors == gp.priors and same.parameters_.priors == gp.parameters_.priors
    same.save(tmp_path / "again.knotwise")
    assert (tmp_path / "again.knotwise").read_bytes() == (tmp_path / "model.knotwise").read_bytes()


def test_a_classifier_with_priors_survives_a_file(tmp_path):
    gp = GPClassifier(SMOOTH, knots=4, priors={"amplitude": PCSd(5.0)}, random_state=0).fit(X, LABELS)
    gp.save(tmp_path / "model.knotwise")
    same = knotwise.load(tmp_path / "model.knotwise")
    assert same.log_prior_ == gp.log_prior_ != 0 and (same.predict_proba(X) == gp.predict_proba(X)).all()


def test_a_file_holds_the_priors_of_the_fit_whatever_the_settings_say_now(tmp_path):
    gp = GPRegressor(SMOOTH, knots=5, priors={"noise": LogNormal(16, 1)}, random_state=0).fit(X, Y)
    gp.set_params(priors=None).save(tmp_path / "model.knotwise")
    assert knotwise.load(tmp_path / "model.knotwise").log_prior_ == gp.log_prior_ != 0


def test_a_prior_of_ones_own_cannot_be_saved(tmp_path):
    gp = GPRegressor(SMOOTH, knots=5, priors={"noise": Own()}, random_state=0).fit(X, Y)
    with pytest.raises(InvalidInputError, match="Own, which a model file cannot hold"):
        gp.save(tmp_path / "model.knotwise")
    with pytest.raises(InvalidInputError, match=r"The prior .*Own.* is not one of knotwise's own"):
        gp.set_params(priors=None).save(tmp_path / "model.knotwise")
    assert not list(tmp_path.iterdir())


def test_a_table_without_priors_has_none_of_each_parameter():
    table, _ = table_of()
    written = TABLE.write(table, "table", Writing())
    assert written["priors"] == [None] * len(table.names)
    assert TABLE.read(written, "table", Reading({}))["priors"] == table.priors


@pytest.mark.parametrize(
    "forged",
    [
        [None, None],
        [None, None, {"class": "Prior", "arguments": {}}],
        [None, None, {"class": "LogNormal", "arguments": {"median": -1.0, "spread": 1.0}}],
        [None, None, {"class": "LogNormal", "arguments": {"median": "1", "spread": 1.0}}],
        [None, None, {"class": "SquaredExponential", "arguments": {}}],
    ],
)
def test_a_forged_table_is_refused(forged):
    table, _ = table_of(priors={"noise": LogNormal(1.0, 1.0)})
    written = TABLE.write(table, "table", Writing())
    assert TABLE.read(written, "table", Reading({}))["priors"] == table.priors
    with pytest.raises(ModelFileError):
        TABLE.read(written | {"priors": forged}, "table", Reading({}))


def test_another_prior_is_another_fit_for_checkpoints():
    given = [None, "weak", {"noise": LogNormal(1, 1)}, {"noise": LogNormal(1, 2)}, {"noise": InverseGamma(1, 2)}]
    settings = [digest(GPRegressor(priors=each).get_params(False)) for each in given]
    tables = [digest(table_of(priors=each)[0]) for each in given]
    assert len(set(settings)) == len(set(tables)) == len(given)
    assert settings[2] == digest(GPRegressor(priors={"noise": LogNormal(1, 1)}).get_params(False))
    assert digest(GPRegressor(priors={"noise": Own(1.0)})) != digest(GPRegressor(priors={"noise": Own(2.0)}))


def test_a_fit_with_priors_goes_on_from_its_checkpoint(tmp_path):
    class Interrupted(BaseException):
        pass

    def interrupt(event):
        if event.action == "move":
            raise Interrupted

    options = {"kernel": SMOOTH, "priors": {"noise": LogNormal(30.0, 0.2)}, "random_state": 0}
    whole = GPRegressor(**options).fit(X, Y)
    with pytest.raises(Interrupted):
        GPRegressor(**options, checkpoint=tmp_path / "state", callback=interrupt).fit(X, Y)
    with pytest.raises(Interrupted):  # another prior has a folder of its own
        GPRegressor(**options | {"priors": "weak"}, checkpoint=tmp_path / "state", callback=interrupt).fit(X, Y)
    assert len(list((tmp_path / "state").iterdir())) == 2
    again = GPRegressor(**options, checkpoint=tmp_path / "state").fit(X, Y)
    assert again.log_evidence_ == whole.log_evidence_ and again.log_prior_ == whole.log_prior_


def test_a_prior_that_a_part_declares_is_kept_unless_another_is_given():
    class Held(Gaussian):
        parameters = (replace(Gaussian.parameters[0], prior=Own(2.0)),)

    assert priors_of(likelihood=Held())["noise_variance"] == Own(2.0)
    assert priors_of(likelihood=Held(), priors={"noise": Own(3.0)})["noise_variance"].prior == Own(3.0)
