"""How far a reader has to walk: files and depth of calls of a default fit."""

import sys
from pathlib import Path

import numpy as np

import knotwise
from knotwise import GPRegressor

HOME = str(Path(knotwise.__file__).parent)
MOST_FILES, MOST_CALLS = 60, 21  # 72 and 26 at commit 39d6818, scikit-learn's GP 13 and 13


def walk(call):
    """Files of knotwise that a call passes through, and the deepest stack of its functions, outermost first."""
    files, stack, deepest = set(), [], []

    def note(frame, event, argument):
        nonlocal deepest
        name = frame.f_code.co_filename
        if not name.startswith(HOME):
            return
        if event == "call":
            files.add(name)
            stack.append(f"{Path(name).relative_to(HOME)}:{frame.f_code.co_name}")
            deepest = max(deepest, stack[:], key=len)
        elif event == "return":
            stack.pop()

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {str(Path(name).relative_to(HOME)) for name in files}, deepest


def test_a_default_fit_passes_few_files_and_is_not_deep():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200)
    GPRegressor(random_state=0, n_jobs=1).fit(X, y)  # what is imported and found once is no part of it
    files, deepest = walk(lambda: GPRegressor(random_state=0, n_jobs=1).fit(X, y))
    assert "selection/optimizing.py" in files and deepest[0] == "estimators/regressor.py:fit"
    assert len(files) <= MOST_FILES, sorted(files)
    assert len(deepest) <= MOST_CALLS, "\n".join(deepest)
