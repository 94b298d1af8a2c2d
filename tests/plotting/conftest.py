"""Models to plot, and a fresh matplotlib for each test."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from plotted import COUNTS, EXPOSURE, LABELS, X1, X2, X3, Y1, Y2, held

from knotwise import GPClassifier
from knotwise.kernels import SquaredExponential
from knotwise.knots import EvidenceGain, OneAtATime


@pytest.fixture(autouse=True)
def pictures():
    """No window, matplotlib's own settings, and every figure closed afterwards."""
    mpl.use("Agg")
    with mpl.rc_context(mpl.rcParamsDefault):
        yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def line():
    return held().fit(X1, Y1)


@pytest.fixture(scope="module")
def plane():
    return held(knots=OneAtATime(proposal=EvidenceGain(), max_knots=12, tolerance=-np.inf)).fit(X2, Y2)


@pytest.fixture(scope="module")
def named():
    return held(knots=10).fit(X3, Y2)


@pytest.fixture(scope="module")
def counts():
    return held("poisson").fit(X1, COUNTS, exposure=EXPOSURE)


@pytest.fixture(scope="module")
def classifier():
    return GPClassifier(
        SquaredExponential(4.0, 0.5, column_scales="standard"), knots=9, optimizer=None, random_state=0
    ).fit(X2, LABELS)


@pytest.fixture(scope="module")
def three_classes():
    labels = np.digitize(X2[:, 0], [-0.7, 0.7])
    gp = GPClassifier(SquaredExponential(4.0, 0.5, column_scales="standard"), knots=5, optimizer=None, random_state=0)
    return gp.fit(X2, np.array(["left", "middle", "right"])[labels])
