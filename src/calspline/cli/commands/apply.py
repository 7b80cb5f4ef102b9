"""``calspline apply``: a model and a file of scores in, the file with calibrated probabilities out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from calspline.cli.columns import in_class_order, score_columns, shown
from calspline.cli.console import escape_control, note, progress
from calspline.cli.errors import InputError, writing_failed
from calspline.cli.formats import TEXT, format_of
from calspline.cli.opening import check_numbers, open_files
from calspline.cli.output import STDOUT, check_free, whole, write_batches
from calspline.cli.rows import HELPER, Reader, Wanted
from calspline.cli.source import WIDE, Source
from calspline.persistence import load


def run(options: argparse.Namespace) -> None:
    """Stream the rows through the model."""
    check_free(options.output, force=options.force)
    said = options.output_format
    if options.output == STDOUT:
        target = said or options.format or "csv"
    else:
        target = format_of(options.output, said, "--output-format")
    if options.output == STDOUT and target in ("parquet", "arrow") and sys.stdout.isatty():
        raise InputError(f"{target} is not for a terminal; give a file with -o, or pipe it on")
    model = load(options.model)
    source = open_files(options, typed=target not in TEXT)
    columns = model_columns(source, model, options.score[-1] if options.score else None)
    outputs = output_columns(options.column, model, source)
    # Two classes in two columns that do not sum to one cannot be told from margins; the model knows which it has.
    wanted = Wanted(source, tuple(columns), missing=options.missing, margins=model.kind_ == "margin")
    work = _Work(source, model, wanted, outputs)
    with progress("Calibrating", source) as shown_progress, whole(options.output, force=options.force) as path:
        gzipped = options.output.endswith(".gz")
        try:
            write_batches(path, work.schema, work.batches(shown_progress), target, gzipped=gzipped)
        except Exception as error:
            if work.failure is not None:
                raise work.failure from None
            raise writing_failed(options.output, error) from error
    if work.reader.n_missing and options.missing == "drop":
        note(f"{work.reader.n_missing:,} rows with missing scores were left out")
    if options.output != STDOUT:
        print(escape_control(f"{work.n_written:,} rows with {', '.join(outputs)} in {options.output}"))


class _Work:
    """The rows with their new columns. DuckDB hides what a stream raises, so the failure is kept here."""

    def __init__(self, source: Source, model: Any, wanted: Wanted, outputs: list[str]) -> None:
        import pyarrow

        self._source, self._model, self._keep = source, model, wanted.missing == "keep"
        self._n_scores = len(wanted.scores)
        self.reader, self.n_written = Reader(wanted), 0
        self.failure: BaseException | None = None
        self._select = f"*, {wanted.select()}"
        passed = [field for field in source.schema(self._select) if not field.name.startswith(HELPER)]
        self._names = [field.name for field in passed]
        self.schema = pyarrow.schema([*passed, *(pyarrow.field(name, pyarrow.float64()) for name in outputs)])

    def batches(self, shown: Any) -> Iterator[Any]:
        """Batches of the output."""
        try:
            for batch in self._source.batches(self._select, WIDE):
                yield self._calibrated(batch)
                shown.add(batch.num_rows)
            self.reader.finish()
        except BaseException as error:  # an interrupt, too, would come out as an error of DuckDB's
            self.failure = error
            raise

    def _calibrated(self, batch: Any) -> Any:
        import pyarrow

        rows = self.reader.check(batch)
        p = self._model.predict_proba(rows.scores)
        p = p[:, 1:] if p.shape[1] == 2 else p
        passed = batch.select(self._names)
        if not rows.present.all():
            if self._keep:
                some, p = p, np.zeros((batch.num_rows, p.shape[1]))
                p[rows.present] = some
            else:
                passed = passed.filter(pyarrow.array(rows.present))
        absent = ~rows.present if self._keep else None
        new = [pyarrow.array(np.ascontiguousarray(p[:, j]), mask=absent) for j in range(p.shape[1])]
        self.n_written += passed.num_rows
        return pyarrow.RecordBatch.from_arrays([*passed.columns, *new], schema=self.schema)


def model_columns(source: Source, model: Any, given: str | None) -> list[str]:
    """The columns of scores that a model wants, in the order of its classes."""
    columns = score_columns(source.columns, given)
    check_numbers(source, columns)
    m = len(model.classes_)
    if len(columns) not in ((1, 2) if m == 2 else (m,)):
        wanted = "one column of scores, or two" if m == 2 else f"{m} columns of scores"
        raise InputError(
            f"the model has {m} classes and wants {wanted}; got {len(columns)} ({shown(columns)}); see --score"
        )
    return in_class_order(columns, list(model.classes_))


def output_columns(name: str, model: Any, source: Source) -> list[str]:
    """Names of the new columns: one for two classes, else one for each class."""
    many = len(model.classes_) > 2
    names = [f"{name}_{value}" for value in model.classes_] if many else [name]
    taken = {column.lower() for column in source.columns}
    for new in names:
        if new.lower() in taken:
            raise InputError(f"{source.name} has a column {new!r} already; choose another name with --output")
    return names
