"""What the tests of both packages share."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

# Everyday draws are always the same, and a busy machine is no failure. For a search, with draws that are new each time:
# `python -m pytest --hypothesis-profile search`, perhaps with `--hypothesis-seed`.
HURRY = [HealthCheck.too_slow]
settings.register_profile("everyday", derandomize=True, deadline=None, database=None, suppress_health_check=HURRY)
settings.register_profile("search", max_examples=2000, deadline=None, suppress_health_check=HURRY)
settings.load_profile("everyday")


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """As in a fit; on matrices as small as these, further threads only wait for each other."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """What tests write is read on the same machine; that it reaches the disk takes long on a busy one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


# -- docs/reliability.md --------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption("--reliability-table", action="store_true", help="write the table of docs/reliability.md")


def pytest_configure(config):
    if config.getoption("--reliability-table"):
        config.pluginmanager.register(ReliabilityTable())


class ReliabilityTable:
    """Counts the outcomes of the tests that cite a failure case, and writes them to the page."""

    def __init__(self):
        self.cases, self.outcomes = {}, {}

    def pytest_collection_finish(self, session):
        for item in session.items:
            name = getattr(item, "originalname", item.name)
            self.cases[item.nodeid] = {(m.args[0], item.path.name, name) for m in item.iter_markers("failure")}

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.passed:
            return  # setting up and tearing down count only where they fail
        for key in self.cases.get(report.nodeid, ()):
            self.outcomes.setdefault(key, Counter())[report.outcome] += 1

    def pytest_sessionfinish(self):
        from reliability import write_page

        write_page(self.outcomes)
