"""Rows on disk, one line of JSON each, written as they come: a run that was killed goes on where it was."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knotwise.errors import InvalidInputError
from knotwise.files import write_atomically
from knotwise_reproduction.experiments import FULL, Job, job_of
from knotwise_reproduction.folder import EXACT, ROWS, claim_folder, is_row, remove_results
from knotwise_reproduction.scores import Prediction

__all__ = ["Row", "RowStore", "read_rows", "row_line"]

Row = dict[str, Any]


def row_line(row: Row) -> str:
    """A row as one line of text; numbers keep all their digits."""
    return json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n"


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; a last line without its end was torn by a kill, and is left out."""
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            row = json.loads(line)
            if not is_row(row):
                raise ValueError("it does not say what was run, and by which versions")
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(
                f"Line {number} of {path} is no row: {error}. Remove the line, or start anew with `--fresh`."
            ) from error
        rows.append(row)
    return rows


class RowStore:
    """The folder of a reproduction: `rows.jsonl`, and the exact GPs' predictions that other rows are compared with.

    A folder of somebody else is refused as it is; `fresh` removes the results of ours and nothing else.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.path, self.exact_folder = folder / ROWS, folder / EXACT
        try:
            claim_folder(folder)
            if fresh:
                remove_results(folder)
            self.exact_folder.mkdir(exist_ok=True)
            self.path.touch()
        except OSError as error:
            raise InvalidInputError(
                f"The folder {str(folder)!r} cannot be used: {error.strerror}. Choose another `--out`."
            ) from error
        self._cut_torn_line()
        self._rows = {job_of(row): row for row in read_rows(self.path)}

    @property
    def rows(self) -> list[Row]:
        """One row for each job, the latest."""
        return list(self._rows.values())

    def missing(self, jobs: Sequence[Job], versions: dict[str, str]) -> list[Job]:
        """The jobs that are not done by these versions, with the exact GPs that they need."""
        open_ = [job for job in jobs if self._rows.get(job, {}).get("versions") != versions]
        needed = {job.exact for job in open_}
        lost = {job for job in jobs if job in needed and not self._prediction_file(job).exists()}
        return [job for job in jobs if job in lost or job in open_]

    def add(self, row: Row, prediction: Prediction | None = None) -> None:
        """Keep a row, and it is on the disk when this returns; the exact GP's predictions come before it."""
        job = job_of(row)
        if prediction is not None and job.method == FULL.name:
            self._write_prediction(job, prediction)
        with self.path.open("ab") as file:
            file.write(row_line(row).encode())
            file.flush()
            os.fsync(file.fileno())
        self._rows[job] = row

    def prediction(self, job: Job | None) -> Prediction | None:
        """What the exact GP of a job predicted; None where there is no such job, or it failed."""
        if job is None or not self._prediction_file(job).exists():
            return None
        with np.load(self._prediction_file(job)) as stored:
            return Prediction(stored["mean"], stored["variance"], float(stored["added"]))

    def _prediction_file(self, job: Job) -> Path:
        case = f"{job.case}-" if job.case else ""
        return self.exact_folder / f"{job.experiment}-{job.setting}-{case}{job.seed}.npz"

    def _write_prediction(self, job: Job, prediction: Prediction) -> None:
        content = io.BytesIO()
        np.savez(content, mean=prediction.mean, variance=prediction.variance, added=prediction.added)
        write_atomically(self._prediction_file(job), content.getvalue())

    def _cut_torn_line(self) -> None:
        """Cut what follows the last line end, so that the next row begins a line."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with self.path.open("r+b") as file:
                file.truncate(whole)
