"""The study: tables are right on rows made by hand, stored rows are not run again, and the page is up to date."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("study")


def row(selector, seed, name="boston", **values):
    made = {
        "n_knots": 50,
        "seconds": 1.0,
        "log_evidence": -90.0,
        "full_log_evidence": -100.0,
        "aukl": 0.5,
        "nlpd": 2.25,
        "full_nlpd": 2.0,
        "coverage": 0.95,
        "converged": True,
        "stop_reason": "made by hand",
    }
    return {"set": name, "selector": selector, "seed": seed} | made | values


def line_of(table, start):
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("values", "style", "text"),
    [
        ([3, 1, 9], "g", "3 (1 to 9)"),
        ([4, 4], "g", "4"),
        ([1, 2], "g", "1.5 (1 to 2)"),
        ([0.011, 0.02, 5.0, 0.3], ".2g", "0.16 (0.011 to 5)"),
        ([], "g", "-"),
    ],
)
def test_a_cell_is_the_median_and_the_range(study, values, style, text):
    assert study.spread(values, style) == text


def test_a_set_table_has_medians_ranges_and_differences_from_the_exact_gp(study):
    rows = [
        row("auto", 2, n_knots=40, aukl=0.004, nlpd=1.9, log_evidence=-103.0, coverage=0.9),
        row("auto", 0, n_knots=20, aukl=0.001, nlpd=2.0, log_evidence=-101.0, coverage=1.0),
        row("auto", 1, n_knots=31, aukl=0.002, nlpd=2.1, log_evidence=-102.0, coverage=0.95),
        row("full", 0, n_knots=0, log_evidence=-100.0, nlpd=2.0, aukl=0.0),
        row("auto", 0, name="banana", n_knots=999),
        {"set": "boston", "selector": "auto", "seed": 3, "error": "no luck"},
    ]
    table = study.set_table(rows, "boston")
    assert line_of(table, "Auto, VFE") == [
        "Auto, VFE",
        "3, 1 failed",
        "31 (20 to 40)",
        "1",
        "-2.0 (-3.0 to -1.0)",
        "0.002 (0.001 to 0.004)",
        "+0.000 (-0.100 to +0.100)",
        "0.95 (0.90 to 1.00)",
    ]
    assert line_of(table, "exact GP") == ["exact GP", "1", "-", "1", "-100.0", "-", "2.000", "0.95"]
    assert len(table.splitlines()) == 4


def test_claims_are_counted_over_the_splits_that_both_selectors_have(study):
    rows = [row("sim-fic", seed, aukl=0.5, n_knots=50, seconds=1.0) for seed in range(4)]
    rows += [
        row("oat-bo", 0, aukl=0.4, n_knots=49, seconds=2.0),
        row("oat-bo", 1, aukl=0.6, n_knots=50, seconds=2.0),  # as many knots are not fewer
        row("oat-bo", 2, aukl=0.4, n_knots=30, seconds=0.5),
        row("oat-bo", 7, aukl=0.0, n_knots=1, seconds=0.0),  # nothing to compare with
    ]
    block = study.claims_block(rows)
    assert line_of(block, "boston, OAT-BO, L-BFGS")[1:] == ["2 of 3", "2 of 3", "1 of 3"]
    assert line_of(block, "boston, OAT-BO, published")[1:] == ["0 of 0"] * 3
    assert line_of(block, "OAT-BO, L-BFGS")[1:] == ["mixed (2 of 3)", "mixed (2 of 3)", "mixed (1 of 3)"]


def test_a_claim_holds_when_nearly_always_true_and_turns_when_nearly_always_false(study):
    said = [study.verdict(n, 10) for n in (0, 2, 3, 7, 8, 10)]
    assert said == ["turns", "turns", "mixed", "mixed", "holds", "holds"]
    assert study.verdict(0, 0) == "not run"


def test_powers_are_compared_on_the_same_split(study):
    rows = [row("sim-fic", seed, nlpd=2.5, aukl=1.0) for seed in (0, 1)]
    rows += [row("sim-vfe", 1, nlpd=2.0, aukl=0.25, log_evidence=-100.5)]
    cells = line_of(study.power_block(rows), "boston")
    assert cells == ["boston", "+10.0", "-0.5", "1", "0.25", "+0.500", "+0.000", "1 of 1"]


def test_the_default_shows_its_worst_seed_and_how_often_it_reached_the_limit(study):
    rows = [row("auto", 0, aukl=0.1), row("auto", 1, aukl=0.3, stop_reason="the limit of 9 knots"), row("full", 0)]
    cells = line_of(study.auto_block(rows), "boston")
    assert cells[6] == "1" and cells[8] == "1 of 2"
    assert "seed 1" in study.limits_block(rows)


def test_the_rule_divides_by_the_square_of_the_share(study):
    rows = [row("auto", 0, aukl=0.02, share=0.2), row("auto", 1, aukl=0.01, share=0.1), row("auto", 2)]
    assert line_of(study.share_block(rows), "boston")[3] == "0.75 (0.5 to 1)"


def test_tables_do_not_depend_on_the_order_of_rows_and_change_none(study):
    rows = [
        row(selector, seed, aukl=0.1 * seed) for selector in ("auto", "full", "oat-bo", "sim-fic") for seed in (0, 1)
    ]
    before = json.dumps(rows)
    assert study.all_tables(rows) == study.all_tables(rows[::-1])
    assert json.dumps(rows) == before


def test_only_the_text_between_markers_is_rewritten(study):
    page = "a\n<!-- study:start -->\n<!-- limits -->\nold\n<!-- study:end -->\nb <!-- study:end -->\n"
    new = study.with_tables(page, [])
    assert new == (
        "a\n<!-- study:start -->\n<!-- limits -->\n\nNo run reached its limit.\n\n<!-- study:end -->\n"
        "b <!-- study:end -->\n"
    )
    assert study.with_tables(new, []) == new


def test_a_stored_row_is_not_run_again_and_a_new_one_is_stored_at_once(study, tmp_path):
    path, ran = tmp_path / "rows" / "study.jsonl", []

    def run_one(name, selector, seed):
        ran.append((name, selector, seed))
        if seed == 2 and len(ran) < 4:
            raise KeyboardInterrupt
        return row(selector, seed, name)

    runs = [("boston", "auto", seed) for seed in range(4)]
    with pytest.raises(KeyboardInterrupt):
        study.run_missing(runs, path, run_one)
    assert [r["seed"] for r in study.read_rows(path)] == [0, 1]
    rows = study.run_missing(runs, path, run_one)
    assert [run[2] for run in ran] == [0, 1, 2, 2, 3]
    assert [r["seed"] for r in rows] == [r["seed"] for r in study.read_rows(path)] == [0, 1, 2, 3]


def test_the_plan_has_no_run_twice_and_quick_is_a_part_of_it(study):
    every, quick = study.plan(), study.plan(quick=True)
    assert len(set(every)) == len(every) and set(quick) < set(every)
    assert {seed for name, selector, seed in every if selector == "auto" and name == "noise"} == set(range(10))
    assert {name for name, _, _ in study.plan(["boston"])} == {"boston"}
    assert [run for run in every if run[:2] == ("hickory", "full")] == [("hickory", "full", 0)]


def test_one_run_of_an_exact_gp_and_of_knots_fills_the_columns(study, monkeypatch):
    small = study.wiggle(0)
    task = study.Task(small.X[:60], small.y[:60], small.X_test[:20], small.y_test[:20])
    monkeypatch.setitem(study.SETS, "wiggle", ("small", lambda seed: task))
    study.exact.cache_clear()
    try:
        full, sparse = (study.run("wiggle", selector, 0) for selector in ("full", "auto"))
    finally:
        study.exact.cache_clear()
    assert full["aukl"] == 0 and full["nlpd"] == full["full_nlpd"] == sparse["full_nlpd"]
    assert 0 <= sparse["aukl"] < 0.1 and 0 < sparse["n_knots"] <= 60 and sparse["coverage"] > 0.7
    assert json.loads(json.dumps(sparse)) == sparse


def test_the_page_is_up_to_date_with_the_stored_rows(study):
    rows = study.read_rows(study.HERE / "results" / "study.jsonl")
    page = study.PAGE.read_text(encoding="utf-8")
    names = [block["name"] for block in study.BLOCK.finditer(page)]
    assert rows and sorted(names) == sorted(study.BLOCKS)
    assert len({study.key(r) for r in rows}) == len(rows)
    assert study.with_tables(page, rows) == page, "run: python benchmarks/study.py --tables"
