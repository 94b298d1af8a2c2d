"""Paragraphs that docstrings of estimators share: written once, and put in where a line is `{name}`."""

from __future__ import annotations

from knotwise.docstrings import EXAMPLES, filled

FRAGMENTS = {
    "predict_at": """\
predict_at : array or data frame [M, D], optional
    Inputs at which predictions are wanted, with the columns of X, such as the cells of a map. Where the kernel or
    neighbours are chosen, they are then judged by rows that are as far from the others as these places are from the
    data, instead of rows near them, in gaps and beyond. Of more than 1,000 places so many are drawn at random.""",
    # -- parameters of constructors -----------------------------------------------------------------
    "kernel": """\
kernel : Kernel, optional
    Covariance of the latent function f, from `knotwise.kernels`. By default one of squared exponential, Matern 5/2, 3/2
    and 1/2 is chosen (of several classes for each model), with one length-scale or one per column, perhaps with a
    linear trend or, of many rows, as two scales: by the evidence of rows of all scales and by the density of validation
    rows near the others, in gaps and beyond, as `trace_` shows; of fewer than 30 rows, or with `optimizer=None`, it is
    the squared exponential with one length-scale. Values are in the units of the data: a
    length-scale or a period in those of its column, a variance in those of f squared; one length-scale for columns of
    different scale counts in `column_scales` of the kernel. A number is where a fit starts, but a period is held; None
    is taken from the data. A fitted `kernel_` is the same function in any other fit.""",
    "settings": """\
approximation : "vfe", "fic", "full" or a number, optional
    A power between 0 (VFE) and 1 (FIC), or the exact GP. By default VFE; and the exact GP where `knots="auto"` would
    need more knots than a third of up to 3,000 rows (1,000 of data that are not Gaussian, such as labels), or
    neighbours (`n_neighbors`) where these are better. A file of the exact GP holds the training rows.
knots : "auto", int, array [K, D] or selector, default "auto"
    "auto" chooses how many and where, and says why in `stop_reason_` and `trace_`; a number of knots is placed by
    k-means, of labels within each class, and optimised together with the parameters; an array is held exactly as given;
    or a selector from `knotwise.knots`, such as `OneAtATime()`.
n_neighbors : "auto" or int, default "auto"
    Vecchia neighbours: the residual of each row is predicted from so many of the rows nearest to
    it, or 0 for none. "auto" does so of more than 3,000 rows (1,000 of data that are not Gaussian, such as labels),
    where `knots="auto"` would need more knots than its limit, or misses what near rows share, and validation rows are
    predicted better with neighbours; `n_neighbors_` and `stop_reason_` say so. A number holds for any knots and number
    of rows. Then `approximation` means nothing and must be left open, and the model and its file hold the training
    rows; data that are not Gaussian need variational inference. See `docs/neighbours.md`.
mean : "constant", "zero", "linear", a number or Mean, default "constant"
    Prior mean of f: of y for Gaussian data, else on the scale of the link. A constant and a linear trend are integrated
    out, so that their uncertainty is part of every prediction, and `coefficients_` shows them; a number is held.
    `knotwise.means` has `Constant(prior_sd=...)`, in which None is a point estimate, and `Linear(prior_sd=...,
    columns=[...])` for a trend in some columns.
nugget : float or "fit", default 0.0
    Variance of independent noise on the latent function, held or learned; not for Gaussian data, where it is the noise
    itself.
inference : "auto", "variational", "laplace", "ep" or "mixture", default "auto"
    How the posterior is approximated where data are not Gaussian (for these it is exact). "variational" is the best
    Gaussian, by the largest lower bound of the log evidence (ELBO); "laplace" centres it at the mode, which is quick
    and biased for counts, and towards 1/2 for classes; "ep" matches moments, under FIC; "mixture" is a quick
    bound for Student's t. "auto" (the default) gives the variational posterior, with parameters from Laplace's
    approximation where the two evidences agree within half a nat.
warp : "auto", None or dict, default "auto"
    Monotone functions of columns of numbers, of which the kernel and the mean are then functions: a dict from columns
    to "log" (of the column, or of the column and a shift where values are not above 0) or "normal" (normal scores), or
    to objects from `knotwise.warps`, such as those of `warp_`. "auto" tries both on skewed and long-tailed columns and
    takes what the data clearly prefer, which is nothing for most; columns stay as they are where `kernel`, `bounds`,
    `priors` or `fixed` speak in their units, and so do coordinates, dates and periods. Inputs and knots are in the
    units of X in any case; length-scales and trends, and what is given for them, are on the warped axis, such as in
    units of log(age).""",
    "noise": """\
noise : "auto", "constant", "varying" or "heavy", default "auto"
    The noise of Gaussian data: one variance for all rows, or a function of the inputs, which is learned with the
    function itself and integrated over in predictions. "auto" lets the noise vary where sizes of errors do, and where
    that is clearly likelier, which `summary()` says; not where the noise is given or
    held, with knots that were given, or for Dask collections.
    `predict_noise` has its standard deviation at new rows. "heavy" is Student-t noise with degrees of freedom that are
    learned, for outliers; "auto" takes it where errors of rows left out have heavy tails, and that is clearly likelier:
    `likelihood_` is then a `StudentT`. See `docs/how-to-choose.md`.""",
    "more_settings": """\
average : "auto", True or False, default "auto"
    Whether predictions are the average of all reasonable kernels, with equal weights, instead of those of the chosen
    one: a mixture, whose means, intervals, densities, samples and totals are all theirs. "auto" does so for Gaussian
    data of 10 to 500 rows (True of up to 2,000) where the kernel is not given, and the inputs say something; not with
    knots that were given, neighbours, Dask or `optimizer=None`. `models_` lists the kernels. `kernel_`, `parameters_`,
    `log_evidence_`, `evidence()`, `certify()` and `diagnose()` are of the chosen one. See `docs/how-to-choose.md`.
fixed : list of names, default ()
    Parameters to hold where they start, by the names in `parameters_`.
bounds : dict, optional
    (low, high) by parameter name, in the units of `parameters_`, instead of the bounds taken from the data. They also
    free a period that is given as a number.
priors : "weak" or dict, optional
    What is known of parameters before the data; the optimiser maximises the log evidence plus their log density. A dict
    has priors from `knotwise.priors` by the name of a parameter, as in `parameters_`, or by its role ("amplitude",
    "lengthscale", "noise", "nugget", "shape"); a name wins over a role. They speak in the units of the data: those of
    its column for a length-scale, those of f squared for a variance. "weak" is a mild set, in `docs/priors.md`. Any
    object with `log_density(theta) -> (value, derivative)` is a prior of theta as in `parameters_`; it cannot be saved
    to a file. None, the default, is no prior. The models of several classes have the same.
jitter : float, optional
    Diagonal added to Kuu, relative to the kernel's variance; None is the smallest that works.
optimizer : "lbfgs", optimizer or None, default "lbfgs"
    How parameters are found: by name, or as an object such as `knotwise.optimize.Adadelta()`. None keeps every
    parameter as given.
n_restarts : int, default 0
    Further random starts of the optimiser; those of a sum of kernels are about the scale of the data.
standardize : "columns", "common" or False, default "columns"
    Scale inputs by column or all by one factor (maps keep their distances), or leave inputs and targets alone. What is
    given and shown is in the units of the data in any case.
categorical : "auto" or list of columns, default "auto"
    Columns, by name or number, whose values are levels although they are numbers. Columns of text, also of codes such
    as '101', and pandas categories are so by themselves ("auto"); text that is meant as numbers is converted before
    (`pandas.to_numeric`). All pairs of levels are at the same distance, in which the length-scale of the column is
    measured, so that levels are exchangeable; one that the fit has not seen is predicted as a new draw, with a warning.
    See `docs/tables.md`.
missing : "error", "mean" or "indicator", default "error"
    What is done where a number or date is missing: it is refused with column and rows; or takes the mean of its column
    in the fit; or the mean and a further input that says so. A missing category is a level of its own in any case.
coords : "lonlat" or ("lonlat", [longitude, latitude]), optional
    Two columns of degrees are a place on the globe: distances are chords of the sphere, and their one length-scale is
    in kilometres. The columns are found by their names (lon, longitude, lat, latitude), or named.
periods : dict, optional
    By column, a period or a list of them: what repeats itself after so many units of the column, or for dates after so
    many days or a "year", "week" or "day". It adds the place on a circle as an input, which kernels and means call by
    its name in `parameters_`, such as "when (year)".
random_state : int, Generator, optional
    For the initial knots and restarts; the same number gives the same fit.
n_jobs : int, optional
    Threads; None is all cores. Results do not depend on it.
block_size : int, optional
    Rows per block of work.
progress : "auto", True or False, default "auto"
    A live line on stderr while a fit runs: "auto" in terminals and notebooks, when two seconds have passed. All that it
    tells goes to `logging.getLogger("knotwise")`, too, in any case.
callback : function, optional
    Gets a `knotwise.progress.FitEvent` after each step; what it raises ends the fit.
checkpoint : folder, optional
    Where finished steps are kept, so that a fit that was interrupted goes on at the next `fit` with the same data and
    settings, and ends with the same bits. Removed when the fit is complete.""",
    # -- attributes -----------------------------------------------------------------------------------
    "warp_": """\
warp_ : dict
    The warp of each column that has one, by its name or number; empty where none has. Kernel, length-scales and trends
    are of the warped columns.""",
    "columns_": """\
n_features_in_, feature_names_in_ : int and array of str
    The number of the columns of X, and their names where X was a data frame.
encoding_ : Encoding
    What each column was taken for, and how categories, dates, missing values and places became numbers.
crs_ : str or None
    Coordinate reference system of the points that were fitted, such as "EPSG:27700"; None if they had none.""",
    # -- parameters of methods ------------------------------------------------------------------------
    "X": """\
X : array or data frame [n, D]
    Inputs, in the units and with the columns of the fit.""",
    "sizes": """\
exposure : float or array [n], optional
    What each count is out of (area, time, population), and 1 for rates. Needed if the fit had it, except for medians,
    exceedance and intervals of the mean, which are of a rate without it.
trials : int or array [n], optional
    Number of trials of each binomial row, and 1 for probabilities. Needed as an exposure is.""",
    "noise_variance": """\
noise_variance : float or array [n], optional
    Known noise variance of each new row of Gaussian data; a number is for all rows, and 0 is an observation without
    noise. Needed for observations if the fit had it; else the fitted noise is taken.""",
    "offset": """\
offset : float or array [n], optional
    Logarithm of the exposure, instead of it.""",
    "level": """\
level : float, default 0.95
    Probability of the interval, between 0 and 1; the same share is left out at either end.""",
    "samples": """\
n_samples : int, default 1
    Samples to draw.
random_state : int, Generator, optional
    The same number gives the same samples.""",
    "total": """\
weights : float or array [n], optional
    Sample weight of each row, 1 by default. The mean of a row of weight 2 is that of the row twice; a new
    observation of weight 2 is one observation, counted twice. Weights of sums may be negative, for differences.
groups : array, Series or Categorical [n], optional
    A label for each row; None adds up all rows.
statistic : "sum" or "mean", default "sum"
    Averages are sums divided by the sum of the weights: rows count equally unless `weights` say otherwise. The
    rate of a region is the average with the areas as `weights`, without `exposure`; of labels it is a share.
kind : "mean" or "observation", default "mean"
    What is added up: the mean response given f, whose interval says how well the surface is known; or new
    observations, with their own noise. The nugget's effect on the mean (e^(nugget/2) for counts) is in both;
    its random part, drawn for each row, is that of observations only.
level : float, default 0.95
    Probability of the interval, between 0 and 1; the same share is left out at either end.""",
    "total_samples": """\
n_samples : int, default 2000
    Samples for the interval, where there is no closed form (Gaussian data, and the mean of Student-t data, have
    one). With 2,000 an end of a 95 % interval has a standard error of 1.6 % of the interval's width.
random_state : int, Generator, optional
    The same number gives the same result.""",
    "score_weight": """\
sample_weight : array [n], optional
    How much each row counts; equally by default.""",
    "summary": """\
standard_errors : bool, optional
    Parameters have standard errors, which are computed when they are first asked for: unless that takes long (None), in
    any case (True), or not (False).
variogram : bool, default False
    Also show nugget, sill and range, as `parameters_.variogram()` has them.""",
    "more_knots": """\
more_knots : int, optional
    Rows that serve as knots besides those of the fit, for the bounds alone. More of them tighten the bounds; as many as
    the fit has knots by default.""",
    "file": """\
The file is complete or not there, and holds what predictions need. **Of the exact GP (`n_knots_` is 0) and of a model
with neighbours (`n_neighbors_` is not 0) it holds all training rows**, inputs and targets, because these predict from
them: do not pass it on where the data must stay. Of other models it holds no rows, but knots may lie on the inputs of
some, and of an average over several models (`models_`) on those of all: `average=False` keeps to one. The logger
"knotwise" says which it is, as INFO. A kernel, likelihood or mean of your own cannot be saved; use pickle.

Parameters
----------
path : path
    The file to write; one that is there is replaced.""",
}


documented = filled(FRAGMENTS | EXAMPLES)
