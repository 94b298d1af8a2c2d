"""The page about a fit: its numbers are the estimator's, it is whole by itself, and names from data stay text."""

import re
import sys

import numpy as np
import pandas as pd
import pytest

from browser import find_chromium, open_page
from knotwise import GPClassifier, GPRegressor, load
from knotwise.errors import InvalidInputError
from knotwise.kernels import Matern32, SquaredExponential
from knotwise.knots import Auto
from knotwise.likelihoods import Gaussian
from knotwise.plotting.style import MissingMatplotlibError
from knotwise.plotting.view import view_of
from knotwise.report.data import data_of
from knotwise.report.html import POLICY
from knotwise.report.sections import parameters_section
from pages import Page, needs_browser

RNG = np.random.default_rng(3)
X = pd.DataFrame(RNG.uniform(0, 6, size=(120, 2)), columns=["rain", "wind"])
Y = pd.Series(np.sin(X["rain"]) + 0.3 * X["wind"] + 0.2 * RNG.normal(size=120), name="yield")
TRAIN, TEST = slice(0, 80), slice(80, 120)
#: set a mark where a browser takes them for more than text; a formula that cannot be drawn; what XML cannot hold
SCRIPT = "<script>window.ran = 1</script>"
IMAGE = '"><img src=x onerror="window.ran = 2">'
STYLE = "</style><script>window.ran = 3</script>"
FORMULA = "$\\frac{$\x00\n\u202e"
HOSTILE = (SCRIPT, IMAGE, STYLE, FORMULA)
COUNTS = RNG.poisson(3, 120).astype(float)
NO_SIZES = {"exposure": None, "trials": None, "noise_variance": None}


def held(likelihood=None, knots=10, **options):
    """A model without optimisation, which is quick and the same everywhere."""
    kernel = SquaredExponential(1.0, 0.5, column_scales="standard")
    return GPRegressor(
        kernel, likelihood or Gaussian(0.05), knots=knots, optimizer=None, n_neighbors=0, random_state=0, **options
    )


def read(path):
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def sections(page):
    return [link["href"].removeprefix("#") for link in page.all("a")]


@pytest.fixture(scope="module")
def gp():
    return held().fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def written(gp, tmp_path_factory):
    return gp.report(tmp_path_factory.mktemp("page") / "fit.html", X[TEST], Y[TEST])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A page whose columns, classes, title and files are named to do harm."""
    from knotwise.report.page import write_report

    data = X.set_axis([SCRIPT, FORMULA], axis=1)
    labels = np.where(Y.median() < Y, STYLE, IMAGE)
    classifier = GPClassifier(
        SquaredExponential(4.0, 0.5, column_scales="standard"), knots=6, optimizer=None, random_state=0
    )
    classifier.fit(data, labels)
    names = {"title": SCRIPT, "model_name": f"{IMAGE}.knotwise", "data_name": STYLE, "target": IMAGE}
    path = tmp_path_factory.mktemp("page") / "hostile.html"
    return write_report(classifier, path, data, labels, **names)


# -- numbers and words --------------------------------------------------------------------------------


def test_numbers_on_the_page_are_those_of_the_estimator(gp, written):
    text, page = read(written)
    cells = page.words("td")
    for line in gp.parameters_.estimates().lines:
        assert f"{line.estimate:.4g}" in cells
    error = Y[TEST] - gp.predict(X[TEST])
    low, high = gp.predict_interval(X[TEST], 0.95).T
    inside = np.mean((low <= Y[TEST]) & (high >= Y[TEST]))
    assert f"{np.sqrt(np.mean(error**2)):.4g}" in cells
    assert f"{np.mean(gp.log_predictive_density(X[TEST], Y[TEST])):.4g}" in cells
    assert f"{100 * inside:.1f} %" in cells and f"95\u00a0% intervals hold {100 * inside:.1f}\u00a0% of them" in text
    assert f"Log evidence: {gp.log_evidence_:,.3f}" in text
    assert "fitted to 80 rows and 2 columns" in text and "through 10 knots" in text
    told = " ".join(page.words("p")).casefold()
    for finding in gp.diagnose().shown():
        assert finding.text.casefold().rstrip(".") in told
    assert "as given" in text and "knotwise predict model.knotwise new.csv" in text
    assert "[['rain', 'wind']]" in "".join(page.words("code"))


def test_the_page_has_every_section_in_order_with_unique_anchors(written):
    _, page = read(written)
    assert page.words("title") == page.words("h1") == ["A fit of yield"]
    assert sections(page) == [
        "effects-by-column", "map", "calibration", "residuals", "knots", "parameters", "checks", "how-to-predict",
        "about-this-page",
    ]  # fmt: skip
    anchors = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(anchors) == len({*anchors}) and {*sections(page)} <= {*anchors}
    assert len(page.all("img")) == len(page.all("figure")) == 6
    assert all(len(image["alt"]) > 10 for image in page.all("img"))


def test_warnings_stand_before_everything_else(tmp_path):
    few = held(knots=2).fit(X[TRAIN], Y[TRAIN])
    text, page = read(few.report(tmp_path / "few.html", X[:1]))
    problem = few.diagnose().finding("knots")
    assert problem.level == "problem"
    place = text.index("Are there enough knots?")
    assert text.index("</h1>") < place < text.index('class="lead"') < text.index("<nav")
    assert text.count(problem.advice.replace("`", "").split("'")[0]) >= 1 and "see the top of this page" in text
    assert "calibration" not in sections(page)  # there are no targets


def test_the_page_says_whether_the_model_has_seen_the_rows(gp, tmp_path):
    view = view_of(gp)
    assert data_of(view, X[TRAIN], Y[TRAIN], **NO_SIZES).origin.fitted is True
    assert data_of(view, X[TEST], Y[TEST], **NO_SIZES).origin.fitted is False
    some = data_of(view, X[40:120], None, **NO_SIZES).origin
    assert some.fitted is None and some.text.startswith("50 % of the rows were part of the fit")
    gp.save(tmp_path / "m.knotwise")
    loaded = view_of(load(tmp_path / "m.knotwise"))
    assert "cannot tell" in data_of(loaded, X[TEST], None, **NO_SIZES).origin.text
    assert data_of(loaded, **NO_SIZES).origin.word == "knots"


def test_the_page_knows_the_name_of_the_target_from_the_fit_and_from_its_file(gp, tmp_path):
    gp.save(tmp_path / "m.knotwise")
    assert data_of(view_of(load(tmp_path / "m.knotwise")), **NO_SIZES).target == "yield"
    assert data_of(view_of(gp), **NO_SIZES).target == "yield" == data_of(view_of(gp), X[TEST], **NO_SIZES).target
    assert data_of(view_of(gp), X[TEST], Y[TEST].rename("crop"), **NO_SIZES).target == "crop"
    assert data_of(view_of(held().fit(X, Y.to_numpy())), **NO_SIZES).target == "y"


def test_without_rows_the_page_takes_those_of_the_fit_each_as_often_as_it_counted():
    weights = RNG.integers(0, 3, 80)
    exposure = RNG.uniform(1, 3, 80)
    counts = RNG.poisson(exposure * np.exp(np.sin(X["rain"][TRAIN]))).astype(float)
    gp = held("poisson").fit(X[TRAIN], counts, sample_weight=weights, exposure=exposure)
    data = data_of(view_of(gp), **NO_SIZES)
    expected = np.repeat(np.column_stack([X[TRAIN], counts, exposure]), weights, axis=0)
    found = np.column_stack([data.X, data.y, data.sizes["exposure"]])
    np.testing.assert_allclose(*(a[np.lexsort(a.T)] for a in (found, expected)), rtol=1e-12)


@pytest.mark.slow
def test_a_mixed_table_is_scored_as_the_estimator_predicts_it_and_its_rows_come_back(tmp_path):
    mixed = X.assign(soil=np.where(X["wind"] > 3, "clay", "sand"), day=pd.date_range("2024-01-01", periods=120))
    mixed["rain"] = mixed["rain"].where(mixed.index % 9 != 0)
    gp = held(missing="indicator", knots="auto", approximation="full").fit(mixed[TRAIN], Y[TRAIN])
    text, page = read(gp.report(tmp_path / "fit.html", mixed[TEST], Y[TEST]))
    error = np.sqrt(np.mean((Y[TEST] - gp.predict(mixed[TEST])) ** 2))
    assert f"{error:.4g}" in text and page.all("img")
    view = view_of(gp)
    given, fitted = data_of(view, mixed[TRAIN], Y[TRAIN], **NO_SIZES), data_of(view)
    assert given.origin.fitted is True
    np.testing.assert_allclose(np.sort(gp.predict(fitted.X)), np.sort(gp.predict(mixed[TRAIN])), rtol=1e-9)
    soil = mixed[["soil", "day"]]  # a map and a curve along levels would have no meaning
    for columns in (["soil", "day"], ["soil"]):
        held(knots="auto", approximation="full").fit(soil[columns], Y).report(
            tmp_path / "levels.html", soil[columns], Y
        )


def test_a_classifier_of_two_classes_gives_its_rows_back_with_their_labels():
    labels = np.where(Y[TRAIN] > 1, "high", "low")
    gp = GPClassifier(
        SquaredExponential(4.0, 0.5, column_scales="standard"), knots=6, optimizer=None, random_state=0
    ).fit(X[TRAIN], labels)
    data = data_of(view_of(gp), **NO_SIZES)
    pairs = {(*row, label) for row, label in zip(data.X.round(9).tolist(), data.y, strict=True) for row in [tuple(row)]}
    assert pairs == {(*row, label) for row, label in zip(map(tuple, X[TRAIN].round(9).values), labels, strict=True)}


@pytest.fixture(scope="module")
def mixed():
    """A table with a category, dates, a gap and amounts in dollars."""
    rng = np.random.default_rng(5)
    when = pd.to_datetime("2024-01-10") + pd.to_timedelta(rng.integers(0, 300, 90), "D")
    city = rng.choice(["Oslo", "Rome", SCRIPT], 90)
    frame = pd.DataFrame({"city": city, "when": when, "size": rng.uniform(20, 90, 90)})
    frame.loc[85, "size"] = np.nan
    return frame, pd.Series(
        2 * frame["size"].fillna(50) + 30 * (city == "Rome") + rng.normal(size=90), name="rent in $"
    )


def test_a_table_of_categories_dates_and_gaps_has_its_page_with_the_numbers_of_the_table(mixed, tmp_path):
    frame, rent = mixed
    gp = held(missing="mean").fit(frame[:60], rent[:60])
    text, page = read(gp.report(tmp_path / "fit.html", frame[60:], rent[60:]))
    error = rent[60:] - gp.predict(frame[60:])
    assert f"{np.sqrt(np.mean(error**2)):.4g}" in page.words("td")
    assert f"{np.mean(gp.log_predictive_density(frame[60:], rent[60:])):.4g}" in page.words("td")
    assert page.words("h1") == ["A fit of rent in $"] and "were not part of the fit" in text
    assert {"lengthscale, when (days)", "lengthscale, size", "noise_variance, as sd"} <= {*page.words("th")}
    rows = data_of(view_of(gp), **NO_SIZES)  # those of the fit
    assert np.sort(gp.predict(rows.X)).tolist() == pytest.approx(np.sort(gp.predict(frame[:60])), rel=1e-9)
    assert data_of(view_of(gp), frame[:60], **NO_SIZES).origin.fitted is True


def test_places_on_the_globe_and_a_single_category_have_their_pages(mixed, tmp_path):
    frame, rent = mixed
    places = pd.DataFrame({"lon": RNG.uniform(-180, 180, 90), "lat": RNG.uniform(-80, 80, 90)})
    globe = held(coords="lonlat").fit(places, rent)
    text, page = read(globe.report(tmp_path / "globe.html"))
    assert "lengthscale, lon,lat (km)" in page.words("th") and "Map: mean rent in $" in text
    assert len(page.all("img")) == 6
    cities = held(knots=3).fit(frame[["city"]], rent)
    text, page = read(cities.report(tmp_path / "cities.html"))
    assert "The levels of city" in text and not page.all("script")


def test_the_top_of_the_page_says_that_intervals_are_wrong_and_by_how_much(gp, written):
    text, _ = read(written)
    low, high = gp.predict_interval(X[TEST], 0.5).T
    share = 100 * np.mean((low <= Y[TEST]) & (high >= Y[TEST]))
    assert share > 80 and text.index("Intervals are too wide") < text.index("<nav")
    assert f"{share:.1f}\u00a0% inside 50\u00a0% intervals" in text


def test_values_of_counts_are_said_to_be_on_the_latent_scale_and_the_bound_a_bound():
    text = parameters_section(view_of(held("poisson").fit(X, COUNTS)), "y")
    assert "on the scale of the latent function f" in text and "Variational bound of the log evidence: " in text


# -- whole by itself, and harmless --------------------------------------------------------------------


def test_nothing_is_loaded_from_elsewhere_and_nothing_can_run(written, hostile):
    for path in (written, hostile):
        _, page = read(path)
        addresses = [attributes[key] for _, attributes in page.elements for key in ("src", "href") if key in attributes]
        assert addresses and all(address.startswith(("data:", "#")) for address in addresses)
        assert not page.all("script") and not any(key.startswith("on") for _, a in page.elements for key in a)
        assert any(meta.get("content") == POLICY for meta in page.all("meta"))
        assert path.stat().st_size < 3e6


def test_hostile_names_of_columns_classes_title_and_files_are_text(hostile):
    text, page = read(hostile)
    shown = " ".join(data for _, data in page.texts)
    assert all(name.strip("\x00\n\u202e") in shown for name in HOSTILE)
    assert page.words("h1") == [SCRIPT] and f"{IMAGE}.knotwise" in shown
    assert len(page.all("style")) == 1 and len(re.findall("</style>", text)) == 1


@needs_browser
def test_a_phone_shows_the_page_whole_and_runs_nothing_of_its_names(hostile, tmp_path):
    open_door = tmp_path / "without-policy.html"  # so that escaping alone must hold
    open_door.write_text(hostile.read_text(encoding="utf-8").replace(POLICY, ""), encoding="utf-8")
    for path in (hostile, open_door):
        seen = open_page(path, width=390)
        assert seen.facts["ran"] is None and seen.facts["title"] == SCRIPT
        assert seen.facts["width"] == 390 and seen.facts["scroll_width"] <= 390 and seen.facts["loose"] == 0
        assert seen.facts["broken"] == [] and seen.facts["dead"] == [] and seen.facts["images"] == 4
        assert seen.complaints == [] and seen.requests == [path.resolve().as_uri()]


@needs_browser
def test_the_browser_would_tell_of_a_script_that_runs(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(f"<!DOCTYPE html><title>bad</title><body>{IMAGE}<script>window.ran = 1</script>", encoding="utf-8")
    assert open_page(bad).facts["ran"] is not None


# -- errors -------------------------------------------------------------------------------------------


def test_without_matplotlib_the_error_has_the_remedy(gp, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingMatplotlibError, match=r"pip install 'knotwise\[plot\]'"):
        gp.report(tmp_path / "fit.html")


def test_pages_that_cannot_be_say_why_and_leave_nothing(gp, tmp_path):
    with pytest.raises(InvalidInputError, match="no folder"):
        gp.report(tmp_path / "nowhere" / "fit.html")
    with pytest.raises(InvalidInputError, match="is a folder"):
        gp.report(tmp_path)
    with pytest.raises(InvalidInputError, match="give X as well"):
        gp.report(tmp_path / "fit.html", y=Y)
    with pytest.raises(InvalidInputError, match="80 rows, but y has shape"):
        gp.report(tmp_path / "fit.html", X[TRAIN], Y)
    with pytest.raises(InvalidInputError, match=r"gp.report\(path, X, y, exposure=\.\.\.\)"):
        held("poisson").fit(X, COUNTS, exposure=2.0).report(tmp_path / "fit.html", X, COUNTS)
    labels = GPClassifier(SquaredExponential(4.0, 0.5, column_scales="standard"), knots=4, optimizer=None).fit(
        X, np.where(Y > 1, "a", "b")
    )
    with pytest.raises(InvalidInputError, match="but is 'c' in row 3"):
        labels.report(tmp_path / "fit.html", X, np.where(np.arange(120) == 3, "c", "a"))
    assert list(tmp_path.iterdir()) == []


# -- every kind of model ------------------------------------------------------------------------------


def of_three_classes():
    labels = np.array(["+", "-", IMAGE])[np.digitize(X["rain"], [2, 4])]
    gp = GPClassifier(
        SquaredExponential(4.0, 0.5, column_scales="standard"), knots=6, optimizer=None, random_state=0
    ).fit(X, labels)
    return gp, (X, labels), {}


def of_many_columns():
    wide = pd.DataFrame(RNG.normal(size=(80, 8)), columns=[f"column number {i} with a long name" for i in range(8)])
    return held().fit(wide, wide.iloc[:, 3] + RNG.normal(size=80)), (), {}


def of_a_file(tmp_path):
    held().fit(X, Y).save(tmp_path / "m.knotwise")
    return load(tmp_path / "m.knotwise"), (), {}


def of_a_limit():
    x = RNG.uniform(size=(150, 1))
    gp = GPRegressor(SquaredExponential(), n_neighbors=0, knots=Auto(max_knots=4), random_state=0)
    with pytest.warns(UserWarning):
        return gp.fit(x, np.sin(60 * x[:, 0])), (), {}


KINDS = {
    "three classes": of_three_classes,
    "many columns": of_many_columns,
    "limit": of_a_limit,
    "exact": lambda: (held(approximation="full", knots="auto").fit(X, Y), (), {}),
    "neighbours": lambda: (GPRegressor(Matern32(), n_neighbors=6, knots=8, random_state=0).fit(X, Y), (), {}),
    "counts": lambda: (held("poisson").fit(X, COUNTS, exposure=2.0), (), {}),
    "trials": lambda: (held("binomial").fit(X[["rain"]], RNG.binomial(9, 0.4, 120).astype(float), trials=9), (), {}),
    "labels": lambda: (held("bernoulli").fit(X, (Y > 1).astype(float)), (), {}),
    "positive": lambda: (held("gamma").fit(X[["wind"]], np.exp(Y)), (), {}),
    "known noise": lambda: (held().fit(X, Y, noise_variance=np.full(120, 0.1)), (), {}),
    "one row": lambda: (GPRegressor(random_state=0).fit([[1.0]], [3.0]), (), {}),
    "trend": lambda: (held(mean="linear").fit(X, Y), (), {}),
}


def assert_whole(seen, path, width):
    """Nothing is cut or missing, nothing complains, and nothing is loaded but the page."""
    assert seen.facts["scroll_width"] <= width and seen.facts["loose"] == 0 and seen.facts["broken"] == []
    assert seen.complaints == [] and seen.requests == [path.resolve().as_uri()]


@pytest.mark.filterwarnings("ignore:One row tells nothing of the noise")
@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "file"])
def test_every_kind_of_model_has_its_page(kind, tmp_path):
    gp, data, options = of_a_file(tmp_path) if kind == "file" else KINDS[kind]()
    path = gp.report(tmp_path / "fit.html", *data, **options)
    text, page = read(path)
    anchors = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(anchors) == len({*anchors})
    assert len(page.all("img")) >= (1 if kind == "one row" else 2) and len(text) < 3e6
    assert {"knots", "parameters", "checks", "how-to-predict"} <= {*sections(page)}
    assert ("calibration" in sections(page)) == (kind != "file")
    expected = {
        "three classes": "3 classes, by one model of each against the rest",
        "many columns": "The other 2 columns",
        "limit": "limit reached",
        "exact": "the exact GP, without knots",
        "neighbours": "6 neighbours of each row",
        "counts": "exposure=exposure",
        "trials": "trials=trials",
        "file": "No rows are at hand",
        "trend": "Coefficients of the mean",
    }
    assert expected.get(kind, "A fit of y") in text
    if find_chromium() is not None:
        assert_whole(open_page(path, width=390), path, 390)


@pytest.mark.slow
@needs_browser
def test_a_page_of_many_rows_is_small_and_whole_at_any_width(tmp_path):
    rows = RNG.uniform(size=(25_000, 2))
    y = np.sin(6 * rows[:, 0]) + 0.2 * RNG.normal(size=25_000)
    gp = held(knots=15).fit(pd.DataFrame(rows, columns=["x", "y"]), y)
    path = gp.report(tmp_path / "fit.html")
    text, _ = read(path)
    assert path.stat().st_size < 3e6 and "Shown are 20,000 of 25,000 rows" in text
    for width, dark in ((390, False), (1280, True)):
        assert_whole(open_page(path, width=width, dark=dark), path, width)
