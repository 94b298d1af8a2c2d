"""The trace of a selection, step by step."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from plotted import X1, Y1, held

from knotwise import GPRegressor, plotting
from knotwise.errors import InvalidInputError
from knotwise.knots import EvidenceGain, Fixed, OneAtATime


def test_the_trace_shows_evidence_share_and_residual_of_every_step(plane):
    evidence, left = plotting.plot_trace(plane)
    steps = list(plane.trace_)
    K = [step.n_knots for step in steps]
    np.testing.assert_array_equal(
        evidence.get_lines()[0].get_xydata(), np.column_stack([K, [s.evidence for s in steps]])
    )
    shown = {line.get_label(): line.get_xydata() for line in left.get_lines()}
    for label, name in (("share", "share"), ("information", "residual_information")):
        (points,) = [xy for text, xy in shown.items() if label in text]
        np.testing.assert_array_equal(points, np.column_stack([K, [getattr(step, name) for step in steps]]))
    assert left.get_yscale() == "log" and left.get_xlabel() == "number of knots"
    assert (evidence.get_lines()[1].get_xydata() == [[plane.n_knots_, plane.log_evidence_]]).all()


def test_the_trace_of_automatic_knots_keeps_its_two_phases_apart():
    gp = GPRegressor(random_state=0).fit(X1, Y1)
    evidence, _ = plotting.plot_trace(gp)
    many, few = evidence.get_lines()[:2]
    actions = {
        step.action for step in gp.trace_ if step.n_knots in many.get_xdata() and step.evidence in many.get_ydata()
    }
    assert "parameters" in actions <= {"parameters", "kernel"}  # which may have ended at the same evidence
    assert len(many.get_xdata()) == sum(step.action == "parameters" for step in gp.trace_)
    assert few.get_xydata()[-1] == pytest.approx([gp.n_knots_, gp.log_evidence_])


def test_kernels_that_were_tried_are_no_steps_with_knots():
    gp = GPRegressor(knots=OneAtATime(proposal=EvidenceGain(1), max_knots=6, n_initial=5), random_state=0).fit(X1, Y1)
    assert gp.trace_[0].action == "kernel"
    evidence, _ = plotting.plot_trace(gp)
    assert min(line.get_xdata().min() for line in evidence.get_lines()) == 5
    with pytest.raises(InvalidInputError, match="no trace"):
        plotting.plot_trace(GPRegressor(knots=4, random_state=0).fit(X1, Y1))


def test_a_rejected_knot_is_a_cross_where_it_would_have_led():
    gp = held(knots=OneAtATime(proposal=EvidenceGain(), max_knots=20, n_initial=3, tolerance=2.0)).fit(X1, Y1)
    evidence, _ = plotting.plot_trace(gp)
    last = gp.trace_[-1]
    assert last.action == "reject"
    (cross,) = [line for line in evidence.get_lines() if line.get_marker() == "x"]
    np.testing.assert_allclose(cross.get_xydata(), [[last.n_knots + 1, last.evidence + last.gain]])


def test_the_trace_takes_two_axes_and_a_fit_without_steps_is_an_error(plane, line):
    axes = Figure().subplots(1, 2)
    assert plotting.plot_trace(plane, ax=axes).tolist() == axes.tolist()
    with pytest.raises(InvalidInputError, match="two axes"):
        plotting.plot_trace(plane, ax=axes[:1])
    with pytest.raises(InvalidInputError, match="knots='auto'"):
        plotting.plot_trace(line)


def test_steps_with_words_of_ones_own_are_drawn():
    class Telling(Fixed):
        def select(self, problem, rng):
            chosen = super().select(problem, rng)
            chosen.trace.add("weigh", len(chosen.Z), chosen.result.value)
            return chosen

    gp = held(knots=Telling("kmeans", n_knots=6)).fit(X1, Y1)
    evidence, _ = plotting.plot_trace(gp)
    assert (evidence.get_lines()[0].get_xydata() == [[6, gp.log_evidence_]]).all()
