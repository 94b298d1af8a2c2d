"""docs/reliability.md lists every failure case with the tests that there are, and they passed."""

import re
from collections import Counter

import pytest

from reliability import CASES, citations, listed, table

HOW = "Run `python -m pytest -m failure --reliability-table` and commit docs/reliability.md."


def test_every_case_has_a_test():
    assert sorted(CASES) == [*range(1, 36), *range(44, 57)]
    assert {case for case, _, _ in citations()} == set(CASES)


def test_the_page_lists_every_case_and_exactly_the_tests_that_cite_it():
    on_page = listed()
    assert list(on_page) == list(CASES), HOW
    tests = set().union(*(tests for tests, _ in on_page.values()))
    assert tests - citations() == set(), f"tests on the page that do not exist. {HOW}"
    assert citations() - tests == set(), f"tests that are not on the page. {HOW}"


@pytest.mark.parametrize("case", CASES)
def test_the_page_reports_passed_tests_only(case):
    assert re.fullmatch(r"[1-9]\d* passed", listed()[case][1]), HOW


def test_a_table_counts_outcomes_and_names_tests_as_sentences():
    outcomes = {(5, "test_a.py", "test_one_thing"): Counter(passed=3), (5, "test_b.py", "test_two"): Counter(failed=1)}
    row = table(outcomes).splitlines()[6]
    assert row.startswith("| 5 |") and row.endswith("| 1 failed, 3 passed |")
    assert "[one thing](../tests/test_a.py); [two](../tests/test_b.py)" in row
