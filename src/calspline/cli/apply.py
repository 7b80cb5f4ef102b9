"""``calspline apply`` and ``export``: use a model, here or in another language."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from calspline import export as exports
from calspline._persistence import load
from calspline.cli.columns import model_columns, segment_columns
from calspline.cli.data import HELPER, Data, last
from calspline.cli.files import TEXT, Source, format_of, open_source, write_batches
from calspline.cli.output import (
    STDOUT,
    InputError,
    missing_extra,
    progress,
    tell,
    whole,
    write_text,
    writing_failed,
)
from calspline.engines.calibrate import Calibrate
from calspline.export.dialects import DIALECTS


def apply(options: argparse.Namespace) -> None:
    """Stream the rows through the model."""
    said = options.output_format
    if options.output == STDOUT:
        target = said or options.format or "csv"
    else:
        target = format_of(options.output, said, "--output-format")
    if (
        options.output == STDOUT
        and target in ("parquet", "arrow")
        and sys.stdout.isatty()
    ):
        raise InputError(
            f"{target} is not for a terminal; give a file with -o, or pipe it on"
        )
    model = load(options.model)
    source = open_source(options, typed=target not in TEXT)
    columns = model_columns(source.columns, model, last(options))
    outputs = output_columns(options.column, model, source)
    # Two classes in two columns that do not sum to one cannot be told from margins; the
    # model knows which it has.
    by, types = segment_columns(source.columns, model, options.by)
    data = Data(
        source,
        columns,
        by=by,
        types=types,
        margins=model.model_.kind.value_kind == "margin",
    )
    data.check(options.missing)
    work = _Work(
        data,
        Calibrate(model, data.helpers, outputs, data.segments),
        drop=options.missing == "drop",
    )
    watched = progress("Calibrating", source.about, lambda _: work.n_written)
    with watched, whole(options.output, force=options.force) as path:
        gzipped = options.output.endswith(".gz")
        try:
            write_batches(path, work.schema, work.batches(), target, gzipped=gzipped)
        except Exception as error:
            if work.failure is not None:
                raise work.failure from None
            raise writing_failed(options.output, error) from error
    work.calibrate.warn_of_new_segments()
    if options.missing == "drop":
        data.note_missing("scores")
    tell(
        f"{work.n_written:,} rows with {', '.join(outputs)} in {options.output}",
        options,
    )


class _Work:
    """The rows with their new columns.

    DuckDB hides what a stream raises, so the error is stored here.
    """

    def __init__(self, data: Data, calibrate: Calibrate, *, drop: bool) -> None:
        import pyarrow

        self._source = data.source
        self.calibrate = calibrate
        self._select = f"*, {data.select}"
        self._where = data.present if drop else "true"
        self.n_written = 0
        self.failure: BaseException | None = None
        schema = data.source.query(self._select, 0).to_arrow_reader(1).schema
        passed = [field for field in schema if not field.name.startswith(HELPER)]
        self._names = [field.name for field in passed]
        new = [pyarrow.field(name, pyarrow.float64()) for name in calibrate.outputs]
        self.schema = pyarrow.schema([*passed, *new])

    def batches(self) -> Iterator[Any]:
        """Batches of the output."""
        import pyarrow

        try:
            for batch in self._source.batches(self._select, self._where):
                columns = [
                    *batch.select(self._names).columns,
                    *self.calibrate.arrow(batch),
                ]
                yield pyarrow.RecordBatch.from_arrays(columns, schema=self.schema)
                self.n_written += batch.num_rows
        except (
            BaseException
        ) as error:  # an interrupt, too, would come out as an error of DuckDB's
            self.failure = error
            raise


def output_columns(name: str, model: Any, source: Source) -> list[str]:
    """Names of the new columns: one for two classes, else one for each class."""
    many = len(model.classes_) > 2
    names = [f"{name}_{value}" for value in model.classes_] if many else [name]
    taken = {column.lower() for column in source.columns}
    for new in names:
        if new.lower() in taken:
            raise InputError(
                f"{source.name} has a column {new!r} already; choose another name with "
                "--output"
            )
    return names


def export(options: argparse.Namespace) -> None:
    """Write the model in another language."""
    for name in ("dialect", "score", "column", "by"):
        if getattr(options, name) is not None and options.to != "sql":
            shown = "output" if name == "column" else name
            raise InputError(
                f"--{shown} is for --to sql; leave it out with --to {options.to}"
            )
    if options.to == "onnx" and options.output == STDOUT and sys.stdout.isatty():
        raise InputError(
            "an ONNX model is not for a terminal; give a file with -o, or pipe it on"
        )
    content = _content(load(options.model), options)
    write_text(options.output, content, force=options.force)
    tell(f"{options.to} in {options.output}", options)


def _content(model: Any, options: argparse.Namespace) -> str | bytes:
    if options.to == "sql":
        return _sql(model, options)
    try:
        found = getattr(exports, f"to_{options.to}")(model)
    except ImportError as error:
        raise missing_extra(error.name or "onnx", "onnx") from None
    return found if isinstance(found, str) else bytes(found.SerializeToString())


def _sql(model: Any, options: argparse.Namespace) -> str:
    """Items for a SELECT list."""
    dialect: Any = options.dialect or "duckdb"
    output = options.column or "calibrated"
    classes = model.classes_.tolist()
    if options.by:
        by = options.by.split(",")
    else:
        by = [one.name for one in model.model_.segment_columns] or None
    if by is not None and None in by:
        raise InputError(
            "--by must name the columns of segments: the model does not know their "
            "names"
        )
    of_fit = list(model.model_.fit.columns)
    if len(classes) == 2:
        score = options.score or (of_fit or ["score"])[-1]
        items = {output: exports.to_sql(model, score, dialect=dialect, by=by)}
    else:
        columns: list[str] = (
            options.score.split(",")
            if options.score
            else of_fit or [f"p_{value}" for value in classes]
        )
        if len(columns) != len(classes):
            raise InputError(
                f"--score must name {len(classes)} columns, one for each class; got "
                f"{options.score!r}"
            )
        found = exports.to_sql(model, columns, dialect=dialect, by=by)
        items = {
            f"{output}_{value}": text
            for value, text in zip(classes, found, strict=True)
        }
    named = [
        f"{text} AS {DIALECTS[dialect].identifier(name)}"
        for name, text in items.items()
    ]
    return ",\n".join(named) + "\n"
