"""`knotwise data`: the data sets that come with knotwise, as tables."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np

from knotwise import datasets
from knotwise.cli.command import UsageError
from knotwise.cli.output import check_output, write_table
from knotwise.cli.tables import kind_of_file
from knotwise.errors import unknown_option

LOADERS = {"boston": datasets.load_boston, "banana": datasets.load_banana, "hickory": datasets.load_hickory}


def run(arguments: Namespace) -> None:
    if arguments.name is None:
        for name, load in LOADERS.items():
            data = load()
            print(f"{name:<8} {len(data.y)} rows: {', '.join(_columns(data))}\n{'':<8} {data.description}")
        return
    if arguments.name not in LOADERS:
        raise unknown_option("The data set", arguments.name, LOADERS)
    if arguments.test_share is not None and arguments.test is None:
        raise UsageError("--test-share goes with --test FILE, where these rows are written.")
    for path in filter(None, (arguments.output, arguments.test)):
        kind_of_file(path)
        check_output(path, inputs=[])
    if arguments.test == arguments.output:
        raise UsageError("--output and --test are one file: give two names.")
    columns = _columns(LOADERS[arguments.name]())
    if arguments.test is None:
        write_table(arguments.output, [_as_lists(columns)])
        return
    part = datasets.split(LOADERS[arguments.name](), arguments.test_share, arguments.seed)
    for path, rows in ((arguments.output, part.train_rows), (arguments.test, part.test_rows)):
        write_table(path, [_as_lists({name: values[rows] for name, values in columns.items()})])


def _columns(data: datasets.Dataset) -> dict[str, np.ndarray]:
    columns = dict(zip(data.feature_names, data.X.T, strict=True)) | {data.target_name: data.y}
    return columns if data.exposure is None else columns | {"area": data.exposure}


def _as_lists(columns: dict[str, np.ndarray]) -> dict[str, list[Any]]:
    """Numbers with all their digits, and whole ones without a point."""
    return {
        name: (values.astype(np.int64) if (values == np.floor(values)).all() else values).tolist()
        for name, values in columns.items()
    }
