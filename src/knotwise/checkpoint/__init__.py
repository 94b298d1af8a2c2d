"""Finished steps of a fit on disk, from which an interrupted fit goes on to the bit."""
