"""From points to an intensity: houses with deaths of cholera in Soho, 1854, and the pump in Broad Street.

The houses are counted in cells of 30 m; the log intensity has a trend in the distance from the pump, and a Gaussian
process on the map. The total is the expected number of such houses within 100 m of the pump.
"""

from pathlib import Path

import geopandas as gpd
import pandas as pd
import shapely

from knotwise import GPRegressor, kernels, means
from knotwise.spatial import count_points, predict_grid, predict_total

table = pd.read_csv(Path(__file__).parent / "data" / "cholera.csv").drop_duplicates()
houses = gpd.GeoSeries(gpd.points_from_xy(table.lon, table.lat, crs=4326)).to_crs(27700)  # in metres
pump = shapely.Point(529391, 181025)
window = gpd.GeoSeries([houses.union_all().convex_hull.buffer(30)], crs=27700)
distance = {"distance": lambda x, y: shapely.distance(shapely.points(x, y), pump)}

cells = count_points(houses, window, cell=30, covariates=distance)
gp = GPRegressor(kernels.Matern32().on(["x", "y"]), "poisson", mean=means.Linear(columns=["distance"]), random_state=0)
gp.fit(cells.X, cells.count, exposure=cells.area)
print(gp.coefficients_)  # of the log intensity, per metre
print(predict_total(gp, {"near the pump": pump.buffer(100)}, cell=10, covariates=distance, random_state=0))

grid = predict_grid(gp, spacing=5, region=window, covariates=distance)
ax = (1e4 * grid["mean"]).plot(cbar_kwargs={"label": "houses with deaths per hectare"}).axes
houses.plot(ax=ax, color="black", markersize=3)
ax.plot(pump.x, pump.y, "w^", markeredgecolor="black", markersize=10)
ax.ticklabel_format(useOffset=False)
ax.set(xlabel="east (m)", ylabel="north (m)", aspect="equal", title="")
ax.figure.savefig("points_to_intensity.png", dpi=110)
