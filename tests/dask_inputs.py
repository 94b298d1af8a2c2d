"""Tests of the estimators that run a second time, with Dask collections of three partitions in the place of arrays.

`CHOSEN` has their names by file; they are written once, for arrays. In the second run `fit`, predictions and scores
turn what they are given into Dask collections and compute what is lazy, and errors count rows as in the array again.
Fits stay on Dask, few rows as they are.
"""

import dataclasses
import functools
import inspect
import re

import numpy as np

from knotwise import GPClassifier, GPRegressor
from knotwise.data import partitions
from knotwise.errors import InvalidInputError
from knotwise.numerics.blocks import is_dask

#: tests by file
CHOSEN = {
    "test_regressor": """
        test_the_gradient_is_the_derivative_of_the_evidence_in_the_users_units
        test_the_evidence_at_the_fit_is_the_one_reported
        test_the_evidence_is_the_dense_formula_of_data_in_their_own_units
        test_parameters_are_in_the_units_of_y
        test_without_an_optimiser_everything_is_kept
        test_a_parameter_without_a_value_is_held_at_the_scale_of_the_data
        test_bounds_in_the_table_are_those_given
        test_a_number_as_mean_is_held_and_predictions_return_to_the_mean_far_away
        test_a_linear_mean_is_the_dense_model_with_random_coefficients
        test_known_noise_per_row_is_the_dense_model
        test_equal_known_noise_is_the_noise_held_at_its_value
        test_predictions_are_the_dense_posterior
        test_intervals_are_the_normal_quantiles
        test_intervals_of_a_higher_level_contain_those_of_a_lower_one
        test_log_predictive_density_is_the_normal_density_of_the_prediction
        test_a_kernel_on_named_columns_is_the_kernel_on_their_indices
        test_a_data_frame_is_its_array_to_the_bit
        test_columns_of_another_name_or_order_are_refused
        test_fitting_does_not_change_the_options
        test_fitting_twice_with_a_seed_gives_the_same_bits
        test_a_second_fit_leaves_nothing_of_the_first
        test_asking_does_not_change_the_model
        test_the_score_is_the_coefficient_of_determination
        test_the_summary_has_lengthscales_in_the_units_of_each_column
        test_a_common_scale_keeps_distances
        test_without_standardisation_everything_is_in_the_units_given
    """,
    "test_classifier": """
        test_two_classes_are_the_bernoulli_model_of_the_second_label
        test_swapping_the_labels_swaps_the_probabilities
        test_labels_of_any_kind_come_back
        test_several_classes_are_one_model_each_against_the_rest
        test_one_class_only_is_an_error_that_names_it
        test_a_label_has_no_observation_interval
        test_continuous_targets_are_refused
        test_missing_inputs_are_named_by_row
        test_a_data_frame_is_its_array_and_keeps_its_names
    """,
    "test_failures_input": """
        test_a_value_that_is_not_finite_is_refused_with_its_row
        test_infinities_of_both_signs_are_refused_with_their_rows
        test_a_value_that_is_not_finite_is_refused_at_prediction
        test_a_text_column_of_a_data_frame_is_named
    """,
    "test_failures_nongaussian": """
        test_every_mean_reaches_the_mode_of_large_counts
        test_all_ones_are_no_less_finite
        test_a_target_that_cannot_be_is_an_error_with_row_and_value
        test_a_target_that_is_not_finite_is_an_error_with_the_row
        test_an_exposure_that_is_not_positive_is_an_error_with_row_and_value
        test_trials_are_positive_whole_numbers
        test_more_successes_than_trials_are_an_error_with_both_numbers
        test_fractional_counts_are_used_with_one_warning
        test_exposure_in_other_units_moves_the_mean_only
    """,
    "test_weights_fits": """
        test_scores_take_weights
        test_weights_turn_the_fit_to_the_rows_that_have_them
        test_a_model_of_weighted_rows_comes_back_from_its_file
    """,
    "test_coefficients": """
        test_a_level_has_the_posterior_of_the_dense_linear_model
        test_where_the_function_is_flat_a_log_rate_has_the_error_of_its_fisher_information
        test_a_row_of_weight_2_is_the_row_twice
        test_names_are_those_of_the_columns
    """,
}

METHODS = (
    "fit",
    "predict",
    "predict_median",
    "predict_latent",
    "predict_interval",
    "predict_exceedance",
    "predict_proba",
    "decision_function",
    "log_predictive_density",
    "score",
)
PER_ROW = ("X", "y", "sample_weight", "exposure", "trials", "noise_variance")
N_PARTITIONS = 3


def is_chosen(module, name):
    """Whether a test of a file runs on Dask, too."""
    return name in CHOSEN.get(module, "").split()


class DaskInputs:
    """Methods of the estimators that turn arrays into Dask collections, unless another such method has called them."""

    def __init__(self):
        self.is_inside, self.n_fits = False, 0

    def install(self, monkeypatch):
        monkeypatch.setattr(partitions, "ROWS_AT_DRIVER", 0)
        for cls in (GPRegressor, GPClassifier):
            for name in METHODS:
                if hasattr(cls, name):
                    monkeypatch.setattr(cls, name, self.wrap(getattr(cls, name)))

    def wrap(self, method):
        names = [name for name in inspect.signature(method).parameters if name != "self"]

        @functools.wraps(method)
        def call(estimator, *values, **named):
            given = dict(zip(names, values, strict=False)) | named
            if self.is_inside or not can_be_lazy(given):
                return method(estimator, **given)
            self.n_fits += method.__name__ == "fit"
            self.is_inside = True
            try:
                return computed(method(estimator, **as_collections(given)))
            except InvalidInputError as error:
                raise with_rows_of_all(error, partition_size(given["X"])) from None
            finally:
                self.is_inside = False

        return call


def can_be_lazy(given):
    """Whether X is a table with rows, of which nothing is asked that needs them in one place."""
    X = given.get("X")
    return not (given.get("return_cov") or X is None or is_dask(X) or len(np.shape(X)) != 2 or not len(X))


def partition_size(X):
    return -(-len(X) // N_PARTITIONS)


def as_collections(given):
    """What is given for each row as Dask collections."""
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    size, lazy = partition_size(given["X"]), dict(given)
    for name in PER_ROW:
        value = given.get(name)
        if isinstance(value, pd.DataFrame | pd.Series):
            lazy[name] = dd.from_pandas(value.reset_index(drop=True), chunksize=size)
        elif value is not None and np.ndim(value):
            value = np.asarray(value)
            lazy[name] = da.from_array(value, chunks=(size, *value.shape[1:]))
    return lazy


def computed(found):
    """What is lazy as arrays."""
    if is_dask(found):
        return np.asarray(found.compute())
    if type(found) is tuple:
        return tuple(computed(each) for each in found)
    if dataclasses.is_dataclass(found):
        parts = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
        if any(is_dask(part) for part in parts.values()):
            return type(found)(**{name: computed(part) for name, part in parts.items()})
    return found


def with_rows_of_all(error, size):
    """The error of a row in a partition as that of a row of all."""
    facts = dict(error.__dict__)
    if "partition" not in facts:
        return error
    before = facts.pop("partition") * size
    words = re.sub(r"^Partition \d+: ", "", str(error))
    words = re.sub(r"row (\d+)", lambda found: f"row {int(found[1]) + before}", words, count=1)
    if "rows" in facts:
        facts["rows"] = np.asarray(facts["rows"]) + before
    return InvalidInputError(words, **facts)
