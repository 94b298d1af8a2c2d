"""Slow twins and conformance checks: the oracles of our tests, and one-line tests for a user's own parts."""

from knotwise.testing.clauses import assert_adjoint
from knotwise.testing.dense import (
    dense_full_evidence,
    dense_full_posterior,
    dense_sparse_evidence,
    dense_sparse_posterior,
)
from knotwise.testing.kernel import check_kernel
from knotwise.testing.likelihood import check_likelihood
from knotwise.testing.posterior import check_posterior
from knotwise.testing.selector import check_selector

__all__ = [
    "assert_adjoint",
    "check_kernel",
    "check_likelihood",
    "check_posterior",
    "check_selector",
    "dense_full_evidence",
    "dense_full_posterior",
    "dense_sparse_evidence",
    "dense_sparse_posterior",
]
