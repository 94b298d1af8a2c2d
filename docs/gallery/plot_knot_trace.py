"""How many knots? The evidence, and what the knots leave unexplained, while their number is chosen.

Parameters are found first with many knots on rows; then few knots are placed, moved and added until the share that
they leave unexplained is small.
"""

from knotwise import GPRegressor, datasets
from knotwise.plotting import plot_trace

trees = datasets.load_hickory()
gp = GPRegressor(likelihood="poisson", nugget="fit", standardize="common", random_state=0)
gp.fit(trees.X, trees.y, exposure=trees.exposure)

evidence, left = plot_trace(gp)
evidence.set_title(f"Hickory: {gp.n_knots_} knots")
evidence.figure.savefig("knot_trace.png", dpi=110)
