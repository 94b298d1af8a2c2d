"""The effect of one column on house values, with the other columns at their medians.

The data are moved to the curve (curve plus residual); the ticks at the foot are the knots.
"""

from knotwise import GPRegressor, datasets
from knotwise.plotting import plot_fit

boston = datasets.load_boston()
gp = GPRegressor(random_state=0).fit(boston.X, boston.y)

ax = plot_fit(gp, boston.X, boston.y, feature=0)
ax.set(xlabel="lower status of the population (%)", ylabel="median house value (1000 dollars)")
ax.set_title("Boston, number of rooms and pupils per teacher at their medians")
ax.figure.savefig("boston_effect.png", dpi=110)
