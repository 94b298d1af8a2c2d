"""A map of intensity: hickories in Lansing Woods, counted on a grid of 30 x 30 cells.

Circles are the knots, the first the largest; their number was chosen by the fit.
"""

from knotwise import GPRegressor, datasets
from knotwise.plotting import plot_map

trees = datasets.load_hickory()
gp = GPRegressor(likelihood="poisson", nugget="fit", standardize="common", random_state=0)
gp.fit(trees.X, trees.y, exposure=trees.exposure)

ax = plot_map(gp, trees.X, what="intensity")
ax.set(xlabel="east (924 feet)", ylabel="north (924 feet)")
ax.figure.savefig("hickory_intensity.png", dpi=110)
