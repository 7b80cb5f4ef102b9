"""The data that a command's options describe: files, columns, classes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from calspline.cli.columns import label_column, one_named, score_columns
from calspline.cli.errors import InputError
from calspline.cli.labels import Labels, many_classes, two_classes
from calspline.cli.source import Source, open_source

NUMBERS = ("DOUBLE", "FLOAT", "BOOLEAN", "VARCHAR", "DECIMAL", "INT")


@dataclass(frozen=True)
class Data:
    """Files with scores and labels."""

    source: Source
    scores: list[str]
    labels: Labels
    weight: str | None


def open_files(options: argparse.Namespace, *, typed: bool = False) -> Source:
    """The files that were named."""
    return open_source(
        options.data,
        format=options.format,
        delimiter=options.delimiter,
        encoding=options.encoding,
        header=not options.no_header,
        typed=typed,
    )


def open_data(options: argparse.Namespace) -> Data:
    """Files with one set of scores, and labels."""
    source = open_files(options)
    scores = score_columns(source.columns, options.score[-1] if options.score else None)
    return with_labels(source, scores, options)


def with_labels(source: Source, scores: list[str], options: argparse.Namespace) -> Data:
    """Find the labels and the weights that go with scores."""
    label = label_column(source.columns, options.label)
    weight = None if options.weight is None else one_named(source.columns, options.weight, "--weight")
    check_numbers(source, [*scores, *([weight] if weight else [])])
    if label in scores:
        raise InputError(f"column {label!r} cannot be both score and label; name them with --score and --label")
    if len(scores) <= 2:
        labels = two_classes(source, label, options.positive, options.classes, scores)
    else:
        if options.positive is not None:
            raise InputError("--positive is for two classes; for more, name them in order with --classes")
        labels = many_classes(source, label, options.classes, scores)
    return Data(source, scores, labels, weight)


def check_numbers(source: Source, names: list[str]) -> None:
    """Complain about columns that cannot hold numbers, such as dates and lists."""
    for name in names:
        kind = source.types[name]
        if not any(word in kind for word in NUMBERS) or kind.endswith("]") or "(" in kind.removeprefix("DECIMAL("):
            raise InputError(f"column {name!r} of {source.name} must hold numbers; it is of type {kind}")
