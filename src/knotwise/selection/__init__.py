"""Selection of knots: the problem, the selectors, and the trace they leave."""
