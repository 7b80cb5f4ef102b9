"""``calspline evaluate``, ``compare``, ``report`` and ``monitor``."""

from __future__ import annotations

import argparse
import glob
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from calspline._input.scores import check_scores
from calspline._persistence import load, locked, text_of
from calspline.cli.columns import in_class_order, named, score_columns
from calspline.cli.data import Data, last, open_for_model, open_labelled
from calspline.cli.files import Source, open_source
from calspline.cli.fit import notes_naming
from calspline.cli.output import (
    InputError,
    escape_control,
    heading,
    note,
    tell,
    write_text,
)
from calspline.evaluation import compare as comparisons
from calspline.evaluation import evaluate as evaluations
from calspline.evaluation.predictions import Predictions, check_prediction_sets
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.operations.monitor import Monitor
from calspline.reporting import report as reports


def evaluate(options: argparse.Namespace) -> None:
    """One set of probabilities."""
    source = open_source(options)
    data = open_labelled(source, score_columns(source.columns, last(options)), options)
    rows = _read(data, {"probabilities": data.scores})["probabilities"]
    found = evaluations.Evaluation(rows)
    if found.segments is None:
        of_segments = {}
    else:
        of_segments = {"segments": list(map(_finite, found.segments.records()))}
    title, _, table = str(found).partition("\n")
    of = ""
    if len(data.scores) <= 2:
        of = f", column {data.scores[-1]}"
        if not rows.event_title:
            of += f", event: {data.label} = {data.classes[1]}"
    _print(
        options,
        found.to_dict() | of_segments,
        f"{heading(title + of, sys.stdout)}\n{escape_control(table)}",
    )


def compare(options: argparse.Namespace) -> None:
    """Several sets of probabilities of the same rows."""
    source, sets = _sets_of(options)
    if len(sets) < 2:
        raise InputError(
            "compare needs two or more sets of scores, for example --score "
            "raw,calibrated"
        )
    if options.reference is not None and options.reference not in sets:
        raise InputError(
            f"--reference must be one of {', '.join(sets)}; got {options.reference!r}"
        )
    _, rows = _read_sets(source, sets, options)
    found = comparisons.compare_predictions(rows, options.reference)
    table, advice, grouping = str(found).rpartition(found.recommendation)
    shown = heading(advice, sys.stdout)
    told = f"{escape_control(table)}{shown}{escape_control(grouping)}"
    _print(options, found.to_dict(), told)


def report(options: argparse.Namespace) -> None:
    """Write an HTML report."""
    model = None if options.model is None else load(options.model)
    if model is None:
        data, rows = _read_sets(*_sets_of(options), options)
    else:
        data = open_for_model(options, model)
        known = list(map(str, model.classes_.tolist()))
        classes = list(map(str, data.classes))
        if known != classes:
            raise InputError(
                f"the model's classes are {', '.join(known)}, and those of the data "
                f"{', '.join(classes)}; "
                "see --label, --positive and --classes"
            )
        rows = _read(data, {"raw": data.scores}, model)
    if options.title is not None:
        title = options.title
    else:
        title = f"Calibration of {data.source.name}"
    found = reports.report_predictions(
        rows, calibrator=model, title=title, costs=options.costs
    )
    write_text(options.output, found.html, force=options.force)
    tell(f"{found.headline}\nReport: {options.output}", options)


def monitor(options: argparse.Namespace) -> None:
    """A day, or several, more."""
    if options.group is not None:
        raise InputError(
            "monitor takes rows as independent of each other; leave out --group"
        )
    state = Path(options.state)
    folder = Path(os.path.realpath(state)).parent
    with locked(folder):  # another job would overwrite what this one adds
        _update_state(state, options)


def _update_state(state: Path, options: argparse.Namespace) -> None:
    if state.exists():
        found = load(state)
        if not isinstance(found, Monitor):
            raise InputError(
                f"{state} is a model, not the state of a monitor; to begin, name a new "
                "file and --model"
            )
        _check_same_monitor(found, options)
    elif options.model is None:
        raise InputError(
            f"{state} does not exist; to begin, name the model with --model"
        )
    else:
        found = Monitor(
            load(options.model), alpha=0.05 if options.alpha is None else options.alpha
        )
    before = len(found.log)
    for path in _days(options.data):
        _take_in(found, path, options)
    if len(found.log) > before:
        write_text(str(state), text_of(found), force=True)
    table, _, verdict = str(found).rpartition("\n")
    told = f"{escape_control(table)}\n{heading(escape_control(verdict), sys.stdout)}"
    more = {"updates": len(found.log) - before, "verdict": found.verdict}
    _print(options, found.log[-1] | more, told)


def _check_same_monitor(found: Monitor, options: argparse.Namespace) -> None:
    """Check that model and alpha, if they are given again, are those of the monitor.

    So the first call can be repeated as it is.
    """
    state = options.state
    if options.alpha is not None and options.alpha != found.alpha:
        raise InputError(
            f"{state} has the alpha {found.alpha:g} already; leave out --alpha"
        )
    if options.model is None:
        return
    if load(options.model).to_dict() != found.calibrator.to_dict():
        raise InputError(
            f"{state} watches another model than {options.model}; leave out --model, "
            "or name a new state file"
        )
    note(
        f"{state} has its model already; later calls can leave out --model and --alpha"
    )


def _take_in(found: Monitor, path: Path, options: argparse.Namespace) -> None:
    """Update a monitor with a file, unless it has the same rows already.

    A job that is repeated would count it twice.
    """
    model = found.calibrator
    of_file = argparse.Namespace(**vars(options) | {"data": [str(path)]})
    data = open_for_model(of_file, model)
    batch = data.source.digest()
    before = found.batches.get(batch)
    if before is not None:
        if before != path.name:
            same = f" has the same content as {before}, which"
        else:
            same = ""
        note(f"{path}{same} was counted before; it is not counted again")
        return
    rows = data.rows
    data.note_missing(file=f"{path.name}: ")
    kind = model.model_.kind.value_kind
    day = ScoreHistogram.from_scores(
        rows.scores.values, rows.labels, rows.weight, kind=kind, classes=[0, 1]
    )
    found.update(day, when=path.name, batch=batch)


def _sets_of(options: argparse.Namespace) -> tuple[Source, dict[str, list[str]]]:
    """Sets of scores by name: ``raw,calibrated``, or ``name=columns``."""
    source = open_source(options)
    sets: dict[str, list[str]] = {}
    for given in options.score or []:
        name, equals, columns = (part.strip() for part in given.partition("="))
        if equals and given not in source.columns:
            if name in sets:
                raise InputError(f"--score has two sets named {name!r}")
            sets[name] = named(source.columns, columns, "--score")
        else:
            sets |= {
                column: [column] for column in named(source.columns, given, "--score")
            }
    if not sets:
        sets = {"raw": score_columns(source.columns, None)}
    counts = {name: len(columns) for name, columns in sets.items()}
    if len(set(counts.values())) > 1:
        raise InputError(
            "sets of scores must have as many columns; "
            + ", ".join(f"{name} has {count}" for name, count in counts.items())
        )
    return source, sets


def _read_sets(
    source: Source, sets: dict[str, list[str]], options: argparse.Namespace
) -> tuple[Data, dict[str, Predictions]]:
    """All sets of scores, whose labels are those of the first."""
    first, *others = sets.values()
    every = list(dict.fromkeys(name for names in sets.values() for name in names))
    data = open_labelled(source, first, options, every=every if others else None)
    return data, _read(
        data,
        {name: in_class_order(columns, data.classes) for name, columns in sets.items()},
    )


def _read(
    data: Data, sets: dict[str, list[str]], model: Any = None
) -> dict[str, Predictions]:
    """Sets of probabilities with outcomes; with a model, also the first calibrated."""
    rows = data.rows
    data.note_missing()
    probs = {}
    table = rows.scores.values.reshape(len(rows.labels), -1)
    for name, names in sets.items():
        values = table[:, [data.scores.index(column) for column in names]]
        probs[name] = values[:, 0] if len(names) == 1 else values
    if model is not None:
        by = rows.by if model.model_.segment_columns else None
        p = model._predict(check_scores(next(iter(probs.values()))), by)
        if model.model_.kind.value_kind == "margin":
            note(
                "the scores are margins, not probabilities: the report is on the "
                "calibrated ones alone"
            )
            probs = {}
        probs["calibrated"] = p
    outcomes = np.array(data.classes)[rows.labels]
    with notes_naming(data.classes):
        return check_prediction_sets(
            outcomes, probs, rows.weight, data.classes, rows.groups, rows.by
        )


def _print(options: argparse.Namespace, numbers: dict[str, Any], text: str) -> None:
    """The answer, as JSON if that is wanted."""
    print(json.dumps(_finite(numbers), indent=1) if options.json else text)


def _finite(numbers: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: what is not known is null."""
    return {
        k: None if isinstance(v, float) and not math.isfinite(v) else v
        for k, v in numbers.items()
    }


def _days(given: list[str]) -> list[Path]:
    """Files in the order given; those of a folder or a pattern ordered by name.

    Hidden files of a folder are left out: they are those of the system.
    """
    days: list[Path] = []
    for name in given:
        path = Path(name)
        if path.is_dir():
            files = (one for one in path.iterdir() if one.is_file())
            days += sorted(one for one in files if not one.name.startswith("."))
        elif path.exists() or not glob.has_magic(name):
            days.append(path)
        else:
            days += sorted(map(Path, glob.glob(name, recursive=True)))
    if not days:
        raise InputError(f"{', '.join(given)} has no files")
    return days
