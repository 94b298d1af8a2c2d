"""Is a fitted model to be trusted? Findings with numbers and advice, and tests of what a model misses."""
