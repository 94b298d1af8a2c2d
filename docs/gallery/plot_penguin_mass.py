"""A table as people have it: the mass of penguins by species, island, sex, date, flipper and diet, with gaps.

Text becomes categories and dates become days; a missing sex is a level of its own, and a missing isotope ratio is its
mean, with an indicator. The same at the command line, where --drop-missing leaves out the rows without a mass:

    knotwise fit penguins.csv --target mass_g --inputs species,island,sex,egg_date,flipper_mm,delta_13_c \\
        --missing indicator --drop-missing -o mass.knotwise
    knotwise predict mass.knotwise penguins.csv --keep penguin -o predicted.csv
"""

from pathlib import Path

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from knotwise import GPRegressor
from knotwise.plotting import plot_effects

table = pd.read_csv(Path(__file__).parent / "data" / "penguins.csv", parse_dates=["egg_date"])
inputs = ["species", "island", "sex", "egg_date", "flipper_mm", "delta_13_c"]
choose = make_column_transformer(("passthrough", inputs), verbose_feature_names_out=False)
pipe = make_pipeline(choose.set_output(transform="pandas"), GPRegressor(missing="indicator", random_state=0))
weighed = table.dropna(subset="mass_g")
pipe.fit(weighed, weighed["mass_g"])

gp, rows = pipe[-1], pipe[:-1].transform(table)  # `predict` is asked of the pipeline, all else of its last step
table["mean"] = pipe.predict(table)
table[["lower", "upper"]] = gp.predict_interval(rows).round()
print(gp.encoding_, table.loc[table["mass_g"].isna(), ["species", "sex", "mean", "lower", "upper"]], sep="\n\n")
axes = plot_effects(gp, rows, weighed["mass_g"].rename("mass (g)"))
axes[0].figure.savefig("penguin_mass.png", dpi=110)
