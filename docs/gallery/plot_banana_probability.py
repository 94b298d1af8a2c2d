"""A map of probability: two interleaved classes, with the contour at one half and the knots as they were added."""

import numpy as np

from knotwise import GPClassifier, datasets
from knotwise.plotting import plot_map

part = datasets.split(datasets.load_banana(), n_train=531, seed=0)
labels = np.where(part.y_train == 1, "ripe", "green")
gp = GPClassifier(random_state=0).fit(part.X_train, labels)

ax = plot_map(gp, part.X_train, labels)
ax.figure.savefig("banana_probability.png", dpi=110)
