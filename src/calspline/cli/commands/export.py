"""``calspline export``: a model as SQL, ONNX, Python, JavaScript or C."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from calspline.cli.console import InputError, MissingExtraError, escape_control
from calspline.cli.output import STDOUT, check_free, write_text
from calspline.export.dialects import DIALECTS
from calspline.persistence import load


def run(options: argparse.Namespace) -> None:
    """Write the model in another language."""
    check_free(options.output, force=options.force)
    for name in ("dialect", "score", "column"):
        if getattr(options, name) is not None and options.to != "sql":
            shown = "output" if name == "column" else name
            raise InputError(f"--{shown} is for --to sql; leave it out with --to {options.to}")
    if options.to == "onnx" and options.output == STDOUT and sys.stdout.isatty():
        raise InputError("an ONNX model is not for a terminal; give a file with -o, or pipe it on")
    content = _content(load(options.model), options)
    write_text(options.output, content, force=options.force)
    if options.output != STDOUT:
        print(escape_control(f"{options.to} in {options.output}"))


def _content(model: Any, options: argparse.Namespace) -> str | bytes:
    from calspline import export

    if options.to == "sql":
        return _sql(model, options)
    if options.to == "onnx":
        try:
            return bytes(export.to_onnx(model).SerializeToString())
        except ImportError as error:
            raise MissingExtraError(error.name or "onnx", "onnx") from None
    write = {"python": export.to_python, "javascript": export.to_javascript, "c": export.to_c}
    return write[options.to](model)


def _sql(model: Any, options: argparse.Namespace) -> str:
    """Items for a SELECT list."""
    from calspline import export

    dialect: Any
    dialect, output = options.dialect or "duckdb", options.column or "calibrated"
    classes = model.classes_.tolist()
    if len(classes) == 2:
        column = options.score or "score"
        items = {output: export.to_sql(model, column, dialect=dialect)}
    else:
        columns: list[str] = options.score.split(",") if options.score else [f"p_{value}" for value in classes]
        if len(columns) != len(classes):
            raise InputError(f"--score must name {len(classes)} columns, one for each class; got {options.score!r}")
        found = export.to_sql(model, columns, dialect=dialect)
        items = {f"{output}_{value}": text for value, text in zip(classes, found, strict=True)}
    named = [f"{text} AS {DIALECTS[dialect].identifier(name)}" for name, text in items.items()]
    return ",\n".join(named) + "\n"
