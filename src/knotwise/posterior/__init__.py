"""Posterior of the latent function: through knots, exact, or with Vecchia neighbours."""
