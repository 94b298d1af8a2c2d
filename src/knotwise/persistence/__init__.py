"""Model files: written atomically, read strictly, and never able to run code."""
