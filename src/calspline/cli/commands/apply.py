"""``calspline apply``: a model and a file of scores in, the file with calibrated probabilities out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

from calspline.cli.console import InputError, escape_control, note, progress
from calspline.cli.data import Data, in_class_order, open_files, score_columns, shown
from calspline.cli.files import TEXT, WIDE, Source, format_of
from calspline.cli.output import STDOUT, check_free, whole, write_batches, writing_failed
from calspline.engines.in_memory import Calibrate
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
    data = Data(source, columns)
    # Two classes in two columns that do not sum to one cannot be told from margins; the model knows which it has.
    data.check(options.missing, margins=model.kind_ == "margin")
    work = _Work(data, Calibrate(model, data.helpers, outputs), drop=options.missing == "drop")
    with progress("Calibrating", source.about) as add, whole(options.output, force=options.force) as path:
        gzipped = options.output.endswith(".gz")
        try:
            write_batches(path, work.schema, work.batches(add), target, gzipped=gzipped)
        except Exception as error:
            if work.failure is not None:
                raise work.failure from None
            raise writing_failed(options.output, error) from error
    if data.n_missing and options.missing == "drop":
        note(f"{data.n_missing:,} rows with missing scores were left out")
    if options.output != STDOUT:
        print(escape_control(f"{work.n_written:,} rows with {', '.join(outputs)} in {options.output}"))


class _Work:
    """The rows with their new columns. DuckDB hides what a stream raises, so the failure is kept here."""

    def __init__(self, data: Data, calibrate: Calibrate, *, drop: bool) -> None:
        import pyarrow

        self._source, self._calibrate = data.source, calibrate
        self._select, self._where = f"*, {data.select}", data.present if drop else "true"
        self.n_written = 0
        self.failure: BaseException | None = None
        passed = [field for field in data.source.schema(self._select) if field.name not in data.helpers]
        self._names = [field.name for field in passed]
        new = [pyarrow.field(name, pyarrow.float64()) for name in calibrate.outputs]
        self.schema = pyarrow.schema([*passed, *new])

    def batches(self, add: Callable[[int], None]) -> Iterator[Any]:
        """Batches of the output."""
        import pyarrow

        try:
            for batch in self._source.batches(self._select, WIDE, self._where):
                columns = [*batch.select(self._names).columns, *self._calibrate.arrow(batch)]
                yield pyarrow.RecordBatch.from_arrays(columns, schema=self.schema)
                self.n_written += batch.num_rows
                add(batch.num_rows)
        except BaseException as error:  # an interrupt, too, would come out as an error of DuckDB's
            self.failure = error
            raise


def model_columns(source: Source, model: Any, given: str | None) -> list[str]:
    """The columns of scores that a model wants, in the order of its classes."""
    columns = score_columns(source.columns, given)
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
