"""The shipped data, against the csv module, the paper's sizes and exact integer arithmetic."""

import csv
import dataclasses
import hashlib
import shutil
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knotwise import datasets
from knotwise.errors import InvalidInputError, KnotwiseError

FOLDER = Path(datasets.__file__).parent / "data"
LOADERS = {
    "boston.csv": lambda: datasets.load_boston(censored=True),
    "banana.csv": datasets.load_banana,
    "hickory_grid.csv": datasets.load_hickory,
    "hickory.csv": datasets.load_hickory_points,
}
TABLES = ["boston.csv", "banana.csv", "hickory_grid.csv"]


def read_exactly(file):
    """Header and rows of a file, each number the exact decimal that is written there."""
    with open(FOLDER / file, newline="") as lines:
        header, *rows = csv.reader(lines)
    return header, [[Fraction(number) for number in row] for row in rows]


def thousandths():
    """The hickories' coordinates as the integers that three decimals are."""
    return [[int(1000 * number) for number in row] for row in read_exactly("hickory.csv")[1]]


@pytest.mark.parametrize("file", TABLES)
def test_every_number_and_name_is_the_one_in_the_file(file):
    header, rows = read_exactly(file)
    dataset = LOADERS[file]()
    assert (*dataset.feature_names, dataset.target_name) == tuple(header)
    np.testing.assert_array_equal(np.column_stack([dataset.X, dataset.y]), np.array(rows, dtype=float))


@pytest.mark.parametrize("file", TABLES)
def test_column_means_are_those_of_exact_fractions(file):
    _, rows = read_exactly(file)
    expected = [float(sum(column) / len(rows)) for column in zip(*rows, strict=True)]
    dataset = LOADERS[file]()
    np.testing.assert_allclose([*dataset.X.mean(0), dataset.y.mean()], expected, rtol=1e-10, atol=1e-14)


def test_boston_has_the_490_rows_of_the_paper_unless_the_censored_16_are_asked_for():
    boston, every = datasets.load_boston(), datasets.load_boston(censored=True)
    assert (len(boston.y), len(every.y)) == (490, 506)
    assert boston.y.max() < 50 and np.count_nonzero(every.y == 50) == 16
    np.testing.assert_array_equal(boston.X, every.X[every.y != 50])
    assert boston.feature_names == ("lstat", "rm", "ptratio")
    assert len(np.unique(boston.X, axis=0)) == 490


def test_banana_has_5300_rows_of_two_classes():
    banana = datasets.load_banana()
    assert Counter(banana.y.tolist()) == {1.0: 2376, 0.0: 2924}


def test_hickory_counts_703_trees_on_900_cells_of_area_1_over_900():
    hickory = datasets.load_hickory()
    assert (hickory.y.sum(), hickory.y.max(), np.count_nonzero(hickory.y == 0)) == (703, 6, 473)
    np.testing.assert_array_equal(hickory.exposure, np.full(900, 1 / 900))
    assert datasets.load_boston().exposure is None and datasets.load_banana().exposure is None


def test_hickory_cells_are_in_order_with_x_fastest():
    centres = (np.arange(30) + 0.5) / 30
    y, x = np.meshgrid(centres, centres, indexing="ij")
    np.testing.assert_allclose(datasets.load_hickory().X, np.column_stack([x.ravel(), y.ravel()]), rtol=1e-14)


def test_hickory_counts_are_those_of_the_points_in_cells_open_at_the_left_the_first_closed():
    def cell(k):  # the i with i/30 < k/1000 <= (i + 1)/30, in integers
        return max(-(-30 * k // 1000) - 1, 0)

    counts = np.zeros(900)
    for x, y in thousandths():
        counts[30 * cell(y) + cell(x)] += 1
    np.testing.assert_array_equal(counts, datasets.load_hickory().y)


def test_cells_open_at_the_right_would_change_16_counts_by_one():
    counts = np.zeros(900)
    for x, y in thousandths():
        counts[30 * min(30 * y // 1000, 29) + min(30 * x // 1000, 29)] += 1
    difference = np.abs(counts - datasets.load_hickory().y)
    assert np.count_nonzero(difference) == 16 and difference.max() == 1


def test_hickory_points_are_703_places_in_the_unit_square_one_of_them_twice():
    points = datasets.load_hickory_points()
    np.testing.assert_array_equal(points, np.array(read_exactly("hickory.csv")[1], dtype=float))
    assert points.shape == (703, 2) and len(np.unique(points, axis=0)) == 702
    assert points.min() >= 0 and points.max() <= 1


@pytest.mark.parametrize("file", sorted(LOADERS))
def test_the_registry_and_the_readme_agree_with_the_bytes(file):
    digest = hashlib.sha256((FOLDER / file).read_bytes()).hexdigest()
    assert datasets._FILES[file].sha256 == digest
    (line,) = [line for line in (FOLDER / "README.md").read_text().splitlines() if f"| `{file}`" in line]
    assert digest in line and f"| {len(read_exactly(file)[1])} |" in line


def test_the_registry_cannot_be_changed():
    with pytest.raises(TypeError):
        datasets._FILES["boston.csv"] = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        datasets._FILES["boston.csv"].sha256 = ""


@pytest.mark.parametrize("file", sorted(LOADERS))
def test_a_corrupted_copy_is_refused_and_a_true_copy_is_not(file, tmp_path, monkeypatch):
    shutil.copy(FOLDER / file, tmp_path)
    monkeypatch.setattr(datasets, "_FOLDER", tmp_path)
    LOADERS[file]()
    content = (tmp_path / file).read_bytes()
    digit = content.rindex(b"1")
    one_digit_changed = content[:digit] + b"2" + content[digit + 1 :]
    for corrupted in (one_digit_changed, content.replace(b"\n", b"\r\n"), content + b"\n"):
        (tmp_path / file).write_bytes(corrupted)
        with pytest.raises(datasets.DatasetChecksumError, match=r"Reinstall") as caught:
            LOADERS[file]()
        assert isinstance(caught.value, KnotwiseError)
        assert (caught.value.file, caught.value.found) == (file, hashlib.sha256(corrupted).hexdigest())


@pytest.mark.parametrize("file", sorted(LOADERS))
def test_loading_imports_neither_pandas_nor_scipy(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "scipy", None)  # an import of either would now fail
    assert LOADERS[file]() is not None


def test_what_is_loaded_or_split_cannot_be_written_to():
    hickory = datasets.load_hickory()
    arrays = [datasets.load_hickory_points()]
    for frozen in (hickory, datasets.split(hickory)):
        values = [getattr(frozen, field.name) for field in dataclasses.fields(frozen)]
        arrays += [value for value in values if isinstance(value, np.ndarray)]
    assert len(arrays) == 1 + 3 + 6
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        assert array.base is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        hickory.y = None


@given(st.integers(0, 2**32), st.integers(1, 489))
def test_a_split_parts_the_rows_and_keeps_each_row_whole(seed, n_train):
    boston = datasets.load_boston()
    part = datasets.split(boston, seed=seed, n_train=n_train)
    assert (len(part.train_rows), len(part.test_rows)) == (n_train, 490 - n_train)
    np.testing.assert_array_equal(np.sort([*part.train_rows, *part.test_rows]), np.arange(490))
    np.testing.assert_array_equal(part.X_train, boston.X[part.train_rows])
    np.testing.assert_array_equal(part.y_train, boston.y[part.train_rows])
    np.testing.assert_array_equal(part.X_test, boston.X[part.test_rows])
    np.testing.assert_array_equal(part.y_test, boston.y[part.test_rows])


def test_a_split_is_numpys_permutation_of_the_seed():
    part = datasets.split(datasets.load_boston(), 0.2, seed=7)
    expected = np.random.default_rng(7).permutation(490)
    np.testing.assert_array_equal([*part.train_rows, *part.test_rows], expected)
    other = datasets.split(datasets.load_boston(), 0.2, seed=8)
    assert np.any(part.train_rows != other.train_rows)


def test_a_split_has_the_sizes_of_the_paper():
    boston = datasets.split(datasets.load_boston())
    assert (len(boston.y_train), len(boston.y_test)) == (392, 98)
    banana = datasets.split(datasets.load_banana(), n_train=531)
    assert (len(banana.y_train), len(banana.y_test)) == (531, 4769)


@pytest.mark.parametrize("test_share", [0, 1, -0.1, 1.5, np.nan, 1e-9])
def test_a_share_that_leaves_one_side_empty_is_refused(test_share):
    with pytest.raises(InvalidInputError, match="test_share"):
        datasets.split(datasets.load_boston(), test_share)


@pytest.mark.parametrize("n_train", [0, 490, -3, 100.0])
def test_a_number_of_training_rows_that_cannot_be_is_refused(n_train):
    with pytest.raises(InvalidInputError, match="from 1 to 489"):
        datasets.split(datasets.load_boston(), n_train=n_train)


def test_two_ways_to_fix_the_sizes_are_refused_together():
    with pytest.raises(InvalidInputError, match="Give one of them"):
        datasets.split(datasets.load_boston(), 0.2, n_train=100)
