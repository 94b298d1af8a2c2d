"""Presence and absence: where Southern Corroboree frogs live, from 212 sites of the Snowy Mountains.

The map is the probability of presence within 40 units of a site; beyond, nobody has looked.
"""

from pathlib import Path

import geopandas as gpd
import pandas as pd

from knotwise import GPClassifier
from knotwise.spatial import predict_grid

table = pd.read_csv(Path(__file__).parent / "data" / "frogs.csv")
sites = gpd.GeoSeries(gpd.points_from_xy(table.easting, table.northing))
gp = GPClassifier(standardize="common", random_state=0).fit(sites, table.present)

grid = predict_grid(gp, spacing=3, region=(640, 60, 1260, 360), max_distance=40)
ax = grid["mean"].plot(vmin=0, vmax=1, cbar_kwargs={"label": "probability of presence"}, figsize=(8, 3.6)).axes
grid["mean"].plot.contour(ax=ax, levels=[0.5], colors="white")
sites[table.present == 1].plot(ax=ax, color="black", markersize=9, label="present")
sites[table.present == 0].plot(ax=ax, facecolor="none", edgecolor="black", linewidth=0.5, markersize=9, label="absent")
ax.legend(loc="lower left")
ax.set(xlabel="easting", ylabel="northing", aspect="equal", title="")
ax.figure.set_layout_engine("tight")
ax.figure.savefig("presence.png", dpi=110)
