"""Rows that are partitions of a Dask collection. Nothing here imports Dask before such a collection is given."""
