"""Numerical ground: linear algebra, row blocks, parameter vectors."""
