"""Covariance functions: a kernel is its formula, its diagonal and the pullback of both."""

from knotwise.kernels.base import DataScale, Kernel, KernelGradient
from knotwise.kernels.compose import OnColumns, Product, Sum
from knotwise.kernels.others import Constant, Linear, Periodic
from knotwise.kernels.stationary import Matern12, Matern32, Matern52, RationalQuadratic, SquaredExponential, Stationary
from knotwise.numerics.parameters import Parameter

__all__ = [
    "Constant",
    "DataScale",
    "Kernel",
    "KernelGradient",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "OnColumns",
    "Parameter",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "SquaredExponential",
    "Stationary",
    "Sum",
]
