"""The command line: `main` reads it, `models` and `paper` have the commands, and the other files do their work."""
