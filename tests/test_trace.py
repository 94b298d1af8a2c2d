"""The words of a trace: an action is its word, has facts, and a selector of one's own may have words of its own."""

import ast
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import knotwise
from knotwise import GPRegressor
from knotwise.errors import InvalidInputError, ModelFileError
from knotwise.kernels import SquaredExponential
from knotwise.knots import Action, Fixed, KnotTrace
from knotwise.persistence.records import TRACE
from knotwise.persistence.schema import Reading, Writing
from knotwise.selection.trace import NEUTRAL

SOURCE = Path(knotwise.__file__).parent
X = np.random.default_rng(1).normal(size=(50, 2))
Y = 40 * np.sin(2 * X[:, 0])


class Telling(Fixed):
    """A selector with words of its own."""

    def select(self, problem, rng):
        chosen = super().select(problem, rng)
        trace = problem.new_trace()
        trace.add("weigh", len(chosen.Z), chosen.result.value, note="by hand")
        return replace(chosen, trace=trace)


@pytest.fixture(scope="module")
def told():
    events = []
    knots = Telling("kmeans", n_knots=6)
    gp = GPRegressor(SquaredExponential(), knots=knots, noise="constant", callback=events.append, random_state=0).fit(
        X, Y
    )
    return gp, events


def test_an_action_is_its_word():
    assert Action.SIGNAL == "signal" and Action("every place") is Action.EVERY_PLACE
    assert f"{Action.MOVE:<6}|{Action.MOVE}|{Action.MOVE!r}" == "move  |move|'move'"
    assert json.dumps([Action.ADD]) == '["add"]' and pickle.loads(pickle.dumps(Action.ADD)) is Action.ADD
    step = KnotTrace().add("signal", 0, 2.5)
    assert step.action is Action.SIGNAL and step.facts.compares_with_null


def test_only_a_comparison_keeps_its_value_in_other_units():
    trace = KnotTrace()
    for action in Action:
        trace.add(action, 3, 2.0)
    for step in trace.in_units(10, 0.5, lambda Z: Z):
        assert step.evidence == (2.0 if step.facts.compares_with_null else 7.0)


def test_every_word_of_a_shipped_selector_is_an_action():
    words = {
        node.args[0].value
        for room in ("selection", "decisions")
        for path in (SOURCE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("trace.add")
        if isinstance(node.args[0], ast.Constant)
    }
    assert words and words <= {str(action) for action in Action}


def test_a_word_of_ones_own_is_shown_and_means_nothing_else(told):
    gp, events = told
    step = gp.trace_[-1]
    assert type(step.action) is str and step.facts == NEUTRAL
    assert_allclose(step.evidence, gp.log_evidence_, rtol=1e-12)  # in the user's units, as every evidence
    assert [event.action for event in events] == ["weigh", "fitted"]
    assert "weigh" in str(gp.trace_) and list(gp.trace_.to_frame()["action"]) == ["weigh"]


@pytest.mark.parametrize("action", [None, 3, b"move"])
def test_an_action_that_is_no_text_is_refused(action):
    with pytest.raises(InvalidInputError, match="word of your own"):
        KnotTrace().add(action, 3, 1.0)


def test_a_word_of_ones_own_is_kept_in_a_file(told, tmp_path):
    gp = pickle.loads(pickle.dumps(told[0])).set_params(knots=6, callback=None)
    gp.save(tmp_path / "model.knotwise")
    assert [step.action for step in knotwise.load(tmp_path / "model.knotwise").trace_] == ["weigh"]


@pytest.mark.parametrize("action", ["moove", "weigh", {"own": "move"}, {"own": 3}, {"else": "weigh"}, None])
def test_a_file_with_an_unknown_action_is_refused(action):
    trace = KnotTrace()
    trace.add("move", 3, 1.0)
    content = TRACE.write(trace, "trace", Writing())
    assert TRACE.read(content, "trace", Reading({}))[0].action is Action.MOVE
    content["steps"][0]["action"] = action
    with pytest.raises(ModelFileError, match=r"trace\.steps\.0\.action"):
        TRACE.read(content, "trace", Reading({}))


def test_a_step_with_another_kernel_than_the_last_one_has_no_parameters_in_the_units_of_the_data():
    class OtherKernelFirst(Fixed):
        def select(self, problem, rng):
            selection = super().select(problem, rng)
            selection.trace.add("kernel", 0, 1.0, theta=np.zeros(1), note="a kernel of one parameter")
            return selection

    X = np.linspace(0, 1, 24)[:, None]
    gp = GPRegressor(knots=OtherKernelFirst(n_knots=4), random_state=0).fit(X, np.sin(6 * X[:, 0]))
    assert gp.trace_[-1].note == "a kernel of one parameter" and gp.trace_[-1].theta is None
    assert gp.trace_[0].theta is None or len(gp.trace_[0].theta) == len(gp.parameters_.theta)
