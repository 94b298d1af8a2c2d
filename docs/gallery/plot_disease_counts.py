"""Disease counts with expected counts: sudden infant deaths in the counties of North Carolina, 1974 to 1978.

Each county is a count at a point in it, in longitude and latitude; the logarithm of the expected count, births times
the rate of the state, is the offset, so that the intensity is the relative risk. The lower map is where the risk is
surely above that of the state.
"""

from pathlib import Path

import geopandas as gpd
import matplotlib.pyplot as plt
import numpy as np

from knotwise import GPRegressor

counties = gpd.read_file(Path(__file__).parent / "data" / "sids.geojson")  # in degrees
expected = counties.births * counties.deaths.sum() / counties.births.sum()
places = counties.geometry.representative_point()
gp = GPRegressor(likelihood="poisson", nugget="fit", coords="lonlat", random_state=0)
gp.fit(places, counties.deaths, offset=np.log(expected))
print(gp.parameters_.estimates())  # the length-scale in km

counties["risk"] = gp.predict(places, offset=0)
counties["above"] = gp.predict_exceedance(places, threshold=1.0)
figure, axes = plt.subplots(2, 1, figsize=(8, 6.2), layout="constrained")
for ax, column, label in zip(axes, ("risk", "above"), ("relative risk", "P(relative risk > 1)"), strict=True):
    counties.plot(column, ax=ax, legend=True, edgecolor="white", linewidth=0.4, legend_kwds={"label": label})
    ax.set_axis_off()
figure.savefig("disease_counts.png", dpi=110)
