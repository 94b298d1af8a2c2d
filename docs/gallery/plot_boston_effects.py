"""What each column does to house values: averages over the rows, which keep their other columns.

All panels have one scale, and the most important column is the first; ticks at the foot are deciles of the data.
"""

import pandas as pd

from knotwise import GPRegressor, datasets
from knotwise.plotting import plot_effects

boston = datasets.load_boston()
gp = GPRegressor(random_state=0).fit(boston.X, boston.y)

names = ["lower status (%)", "rooms", "pupils per teacher"]
axes = plot_effects(gp, pd.DataFrame(boston.X, columns=names), pd.Series(boston.y, name="value (1000 dollars)"))
axes[0].figure.savefig("boston_effects.png", dpi=110)
