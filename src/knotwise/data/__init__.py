"""From what users give to rows of the engine, and back to the users' units."""
