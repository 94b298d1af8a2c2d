"""Noise that grows along a column: the band of new observations widens, and the noise has a picture of its own."""

import numpy as np

from knotwise import GPRegressor
from knotwise.plotting import plot_fit, plot_noise
from knotwise.plotting.style import new_axes

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(250, 1))
y = np.sin(X[:, 0]) + 0.05 * np.exp(0.25 * X[:, 0]) * rng.normal(size=250)
gp = GPRegressor(random_state=0).fit(X, y)

above, below = new_axes(2, size=(6.4, 6.4))
plot_fit(gp, X, y, ax=above)
plot_noise(gp, X, y, ax=below)
above.set_title(gp.summary().splitlines()[3])
below.figure.savefig("uneven_noise.png", dpi=110)
