"""Knots that choose themselves: how many, where, and the parameters with them."""
