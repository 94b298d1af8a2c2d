"""What the tests share: a generator, every kind of kernel, and small data on which everything can be checked."""

from dataclasses import dataclass

import numpy as np
import pytest

from dask_inputs import DaskInputs, is_chosen
from knotwise import kernels as k
from knotwise.evidence import Jitter, Model, Rows
from knotwise.likelihoods import Gaussian
from toys import MEANS

# for data with two columns, of unit size
KERNELS = {
    "squared-exponential": k.SquaredExponential(1.3, 0.8),
    "squared-exponential-ard": k.SquaredExponential(0.7, [0.5, 1.4]),
    "matern12": k.Matern12(1.3, 0.9),
    "matern32-ard": k.Matern32(1.1, [1.2, 0.6]),
    "matern52": k.Matern52(2.0, 0.7),
    "rational-quadratic": k.RationalQuadratic(1.5, 0.7, shape=0.6),
    "periodic-ard": k.Periodic(1.2, [0.9, 1.6], period=2.3),
    "constant": k.Constant(1.7),
    "linear": k.Linear([0.4, 1.9]),
    "sum": k.Matern32(0.8, 0.7) + k.Linear(0.3),
    "product": k.SquaredExponential(1.2, 0.9) * k.Periodic(1.0, 1.1, period=1.7),
    "columns": k.Matern52(1.1, 0.6).on(0) * k.Linear(0.8).on(1) + k.Constant(0.5) + k.Matern12(0.4, 0.8).on([1, 0]),
}


@dataclass(frozen=True)
class Toy:
    """Data [40, 2] with targets and a noise variance for each row, six knots [6, 2] and new rows [9, 2]."""

    X: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    Z: np.ndarray
    X_new: np.ndarray

    def problem(self, kernel, power=1.0, mean="constant", *, known_noise=False, jitter=1e-4):
        """Model, rows, knots and jitter: the arguments of an evidence."""
        bound = MEANS[mean].bind(self.X, level=0.2, second_moment=float((self.y**2).mean()))
        rows = Rows(self.X, self.y, self.noise if known_noise else None, bound.basis(self.X))
        return Model(kernel, Gaussian(0.3), bound, power), rows, self.Z, Jitter(jitter, self.X[:5])


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture
def toy(rng):
    X = rng.normal(size=(40, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=40)
    return Toy(X, y, rng.uniform(0.05, 0.6, 40), rng.normal(size=(6, 2)), rng.normal(scale=1.5, size=(9, 2)))


@pytest.fixture(params=KERNELS.values(), ids=KERNELS.keys())
def kernel(request):
    """Each kind of kernel in turn."""
    return request.param


@pytest.fixture
def kernels():
    """Every kernel by its name."""
    return KERNELS


# -- arrays and Dask collections ------------------------------------------------------------------


def pytest_generate_tests(metafunc):
    """Run the chosen tests twice: as they are, and with Dask collections in the place of arrays."""
    if is_chosen(metafunc.module.__name__, metafunc.function.__name__):
        metafunc.fixturenames.insert(0, "inputs")
        metafunc.parametrize("inputs", ["arrays", "dask"], indirect=True)


@pytest.fixture
def inputs(request, monkeypatch):
    """What the estimators are given in a test that runs with both."""
    if request.param == "arrays":
        yield
        return
    pytest.importorskip("dask.dataframe")
    dask_inputs = DaskInputs()
    dask_inputs.install(monkeypatch)
    yield
    assert dask_inputs.n_fits, "nothing was fitted to Dask collections"
