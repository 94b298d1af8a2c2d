"""What results show: the same numbers printed, in a notebook and as a data frame, and no markup from the data."""

import pickle
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from knotwise import GPClassifier, GPRegressor
from knotwise.kernels import SquaredExponential
from knotwise.knots import GreedyVariance
from knotwise.numerics.tabular import MissingPandasError

EVIL = "<script>alert('x')</script>"


class Cells(HTMLParser):
    """The rows of cells of a table."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.inside = [], set(), False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def gp():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({EVIL: np.linspace(0, 1, 24), "b": rng.uniform(size=24)})
    y = np.sin(6 * X[EVIL]) + 0.1 * rng.normal(size=24)
    kernel = SquaredExponential(ard=True)
    return GPRegressor(kernel, mean="linear", knots=GreedyVariance(5), random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def classifier():
    X = np.linspace(0, 1, 20)[:, None]
    y = np.repeat(["left", f"right{EVIL}"] * 3, [7, 1, 2, 2, 1, 7])
    return GPClassifier(SquaredExponential(), knots=3, random_state=0).fit(X, y)


SHOWN = {
    "parameters_": lambda gp: gp.parameters_,
    "estimates": lambda gp: gp.parameters_.estimates(),
    "coefficients_": lambda gp: gp.coefficients_,
    "variogram": lambda gp: gp.parameters_.variogram(),
    "trace_": lambda gp: gp.trace_,
    "diagnose": lambda gp: gp.diagnose(),
    "summary": lambda gp: gp.summary(),
}


@pytest.mark.parametrize("what", SHOWN)
def test_markup_in_names_of_columns_and_classes_is_only_text(gp, classifier, what):
    for model in (gp, classifier):
        cells = Cells(SHOWN[what](model)._repr_html_())
        assert cells.rows and cells.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "br"}


def test_labels_and_columns_are_shown_as_they_are(gp, classifier):
    escaped = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;"
    assert escaped in gp.summary()._repr_html_() and escaped in gp.coefficients_._repr_html_()
    assert "&lt;script&gt;" in classifier.summary()._repr_html_()
    assert "&lt;script&gt;" in classifier.diagnose()._repr_html_()


COLUMNS = {  # of the HTML table, and of the data frame
    "parameters_": {"name": "parameter", "value": "value", "lower": "lower", "upper": "upper", "role": "role"},
    "estimates": {"parameter": "parameter", "estimate": "estimate", "std. error": "standard_error"},
    "variogram": {"quantity": "quantity", "estimate": "estimate", "lower 95 %": "lower_95"},
    "coefficients_": {"coefficient": "coefficient", "estimate": "estimate", "lower 95 %": "lower"},
    "trace_": {"action": "action", "knots": "n_knots", "log evidence": "evidence", "note": "note"},
    "diagnose": {"finding": "name", "what was found": "text", "what to do": "advice"},
    "summary": {"parameter": "parameter", "units": "units", "upper 95 %": "upper_95"},
}


@pytest.mark.parametrize("what", COLUMNS)
def test_a_notebook_shows_the_numbers_of_the_data_frame(gp, what):
    shown = SHOWN[what](gp)
    frame, (heads, *rows) = shown.to_frame(), Cells(shown._repr_html_()).rows
    for head, column in COLUMNS[what].items():
        cells = [row[heads.index(head)] for row in rows[: len(frame)]]
        if frame[column].dtype.kind in "if":
            assert_allclose([float(cell) if cell else np.nan for cell in cells], frame[column], rtol=5e-4)
        else:
            assert cells == frame[column].tolist()


@pytest.mark.parametrize("what", SHOWN)
def test_the_representation_is_what_is_printed(gp, what):
    shown = SHOWN[what](gp)
    assert repr(shown) == str(shown) and "array(" not in repr(shown)


def test_a_summary_is_its_sections_and_survives_pickle(gp):
    summary = gp.summary()
    assert f"\n\n{gp.coefficients_!r}\n\n{gp.trace_}" in summary and summary.endswith(str(gp.trace_))
    again = pickle.loads(pickle.dumps(summary))
    assert again == summary and again._repr_html_() == summary._repr_html_()


def test_tables_of_several_classes_show_each_with_its_class():
    X = np.linspace(0, 1, 30)[:, None]
    gp = GPClassifier(knots=3, optimizer=None).fit(X, np.repeat(["a", "<b>", "c"], 10))
    for tables in (gp.parameters_, gp.trace_, gp.diagnose(), gp.coefficients_):
        frame = tables.to_frame()
        assert list(dict.fromkeys(frame["class"])) == (["<b>", "a", "c"] if len(tables[0].to_frame()) else [])
        assert [list(frame.columns[1:]), len(frame)] == [
            list(tables[0].to_frame()),
            sum(len(t.to_frame()) for t in tables),
        ]
        assert "&lt;b&gt;" in tables._repr_html_() and "<b>" not in tables._repr_html_()
        assert repr(tables).startswith("class '<b>'\n") and repr(pickle.loads(pickle.dumps(tables))) == repr(tables)


def test_the_frame_of_a_classifiers_summary_names_the_classes():
    X = np.linspace(0, 1, 24)[:, None]
    y = np.repeat(["a", "b", "c"] * 2, 4)
    gp = GPClassifier(
        SquaredExponential(4.0, 0.3, column_scales="standard"), knots=3, optimizer=None, random_state=0
    ).fit(X, y)
    frame = gp.summary(standard_errors=False).to_frame()
    assert frame["class"].tolist() == ["a", "a", "b", "b", "c", "c"]
    assert_allclose(frame["estimate"][::2], 2.0)  # the root of the variance


@pytest.mark.parametrize("what", SHOWN)
def test_without_pandas_a_data_frame_is_an_error_that_says_what_to_install(gp, what, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPandasError, match=r"pip install 'knotwise\[frames\]'"):
        SHOWN[what](gp).to_frame()
