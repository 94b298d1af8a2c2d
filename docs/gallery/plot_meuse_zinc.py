"""Kriging with drift: zinc in the flood plain of the Meuse, with trend table, masked map and block cross-validation.

The data are those of scikit-gstat (`pip install 'knotwise[docs]'`). A second GP tells the distance from the river where
nobody measured it, and cells where it does not know are left out of the map.
"""

import numpy as np
import pandas as pd
import skgstat
from matplotlib import pyplot

from knotwise import GPRegressor, cross_validate
from knotwise.kernels import Matern32
from knotwise.means import Linear
from knotwise.plotting import plot_errors, plot_variogram

meuse = pd.read_csv(f"{skgstat.__path__[0]}/data/samples/meuse.txt")
X, zinc = meuse[["x", "y"]].assign(sqrt_dist=np.sqrt(meuse["dist"])), np.log(meuse["zinc"]).rename("log zinc")
gp = GPRegressor(Matern32().on(["x", "y"]), mean=Linear(columns=["sqrt_dist"]), standardize="common", random_state=0)
found = cross_validate(gp.fit(X, zinc), X, zinc, blocks=10)
print(gp.coefficients_, gp.parameters_.variogram(), found, sep="\n\n")

river = GPRegressor(Matern32(), standardize="common", random_state=0).fit(X[["x", "y"]], X["sqrt_dist"])
east, north = np.meshgrid(np.arange(178400, 181600, 40), np.arange(329600, 333800, 40))
grid = pd.DataFrame({"x": east.ravel(), "y": north.ravel()})
distance, unsure = river.predict(grid, return_std=True)
ppm = np.exp(gp.predict(grid.assign(sqrt_dist=np.maximum(distance, 0))))

figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(14, 4.6), layout="compressed")
image = left.pcolormesh(east, north, np.where(unsure < 0.08, ppm, np.nan).reshape(east.shape))
figure.colorbar(image, ax=left, label="zinc (ppm), median")
left.set(aspect="equal", xlabel="x (m)", ylabel="y (m)")
plot_variogram(gp, X, zinc, ax=middle)
plot_errors(found, features=["x", "y"], ax=right)
figure.savefig("meuse_zinc.png", dpi=90)
