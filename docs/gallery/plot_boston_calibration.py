"""Are the intervals right? Rows that the fit has not seen: coverage, PIT histogram, observed against predicted."""

from matplotlib import pyplot

from knotwise import GPRegressor, datasets
from knotwise.plotting import plot_calibration, plot_observed, plot_pit

boston = datasets.load_boston()
part = datasets.split(boston, 0.4, seed=0)
gp = GPRegressor(random_state=0).fit(part.X_train, part.y_train)

figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
plot_calibration(gp, part.X_test, part.y_test, ax=left)
plot_pit(gp, part.X_test, part.y_test, ax=middle)
plot_observed(gp, part.X_test, part.y_test, ax=right).set(
    xlabel="predicted value (1000 dollars)", ylabel="observed value (1000 dollars)"
)
figure.savefig("boston_calibration.png", dpi=90)
