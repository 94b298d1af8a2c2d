"""One page about one fit: `gp.report("fit.html")` writes it, and `knotwise report` does at the shell."""
