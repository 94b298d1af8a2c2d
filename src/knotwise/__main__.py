"""`python -m knotwise`: the command line where its script is not on the path."""

import sys

from knotwise.cli.main import main

if __name__ == "__main__":  # worker processes import this file too
    sys.exit(main())
