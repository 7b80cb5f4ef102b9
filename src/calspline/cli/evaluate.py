"""``calspline evaluate``, ``compare`` and ``report``: how good probabilities in a file are."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.cli.columns import in_class_order, named, score_columns
from calspline.cli.data import Data, last, note_groups, open_for_model, open_labelled
from calspline.cli.files import Source, open_source
from calspline.cli.output import STDOUT, InputError, check_free, escape_control, heading, note, write_text
from calspline.evaluation import compare as comparisons
from calspline.evaluation import evaluate as evaluations
from calspline.persistence import load
from calspline.reporting import report as reports


def evaluate(options: argparse.Namespace) -> None:
    """One set of probabilities."""
    source = open_source(options)
    data = open_labelled(source, score_columns(source.columns, last(options)), options)
    sets, y, more = _read(data, {"probabilities": data.scores})
    found = evaluations.evaluate(y, sets["probabilities"], **more)
    note_groups(y, next(iter(sets.values())), **more)
    if options.json:
        of_segments = {} if found.segments is None else {"segments": list(map(finite, found.segments.records()))}
        print(json.dumps(finite(found.to_dict()) | of_segments, indent=1))
        return
    title, _, table = str(found).partition("\n")
    of = f", {data.scores[-1]} of {data.label} = {data.classes[1]}" if len(data.scores) <= 2 else ""
    print(f"{heading(title + of, sys.stdout)}\n{escape_control(table)}")


def compare(options: argparse.Namespace) -> None:
    """Several sets of probabilities of the same rows."""
    source, sets = sets_of(options)
    if len(sets) < 2:
        raise InputError("compare wants two or more sets of scores, for example --score raw,calibrated")
    if options.reference is not None and options.reference not in sets:
        raise InputError(f"--reference must be one of {', '.join(sets)}; got {options.reference!r}")
    _, probs, y, more = read_sets(source, sets, options)
    found = comparisons.compare(y, probs, reference=options.reference, **more)
    note_groups(y, next(iter(probs.values())), **more)
    if options.json:
        print(json.dumps(finite(found.to_dict()), indent=1))
        return
    table, advice, grouping = str(found).rpartition(found.recommendation)
    print(f"{escape_control(table)}{heading(advice, sys.stdout)}{escape_control(grouping)}")


def report(options: argparse.Namespace) -> None:
    """The same as one HTML file with pictures."""
    check_free(options.output, force=options.force)
    acting = costs_of(options) | thresholds_of(options)
    if acting and options.group is not None:
        raise InputError("--costs and --thresholds are for rows independent of each other; leave out --group")
    model = None if options.model is None else load(options.model)
    if model is None:
        data, probs, y, more = read_sets(*sets_of(options), options)
    else:
        data = open_for_model(options, model)
        probs, y, more = _with_model(model, data)
    title = options.title if options.title is not None else f"Calibration of {data.source.name}"
    found = reports.report(None, y, probs, calibrator=model, title=title, **acting, **more)
    note_groups(y, next(iter(probs.values())), **more)
    write_text(options.output, found.html, force=options.force)
    if options.output != STDOUT:
        print(escape_control(f"{found.headline}\nReport: {options.output}"))


def _with_model(model: Any, data: Data) -> tuple[dict[str, Array], Any, dict[str, Any]]:
    """The scores as they are, and as the model makes them."""
    known, classes = list(map(str, model.classes_.tolist())), list(map(str, data.classes))
    if known != classes:
        raise InputError(
            f"the model's classes are {', '.join(known)}, and those of the data {', '.join(classes)}; "
            "see --label, --positive and --classes"
        )
    sets, y, more = _read(data, {"raw": data.scores})
    segmented = "by" in more and getattr(model, "segment_columns", [])
    p = model.predict_proba(sets["raw"], **({"by": more["by"]} if segmented else {}))
    after = {"calibrated": p[:, 1] if p.shape[1] == 2 else p}
    if model.kind_ == "margin":
        note("the scores are margins, not probabilities: the report is on the calibrated ones alone")
        return after, y, more
    return sets | after, y, more


def sets_of(options: argparse.Namespace) -> tuple[Source, dict[str, list[str]]]:
    """Sets of scores by name: ``raw,calibrated``, or ``name=columns`` for several columns a set."""
    source = open_source(options)
    sets: dict[str, list[str]] = {}
    for given in options.score or []:
        name, equals, columns = given.partition("=")
        if equals and given not in source.columns:
            sets[name.strip()] = named(source.columns, columns, "--score")
        else:
            sets |= {column: [column] for column in named(source.columns, given, "--score")}
    if not sets:
        sets = {"raw": score_columns(source.columns, None)}
    counts = {name: len(columns) for name, columns in sets.items()}
    if len(set(counts.values())) > 1:
        raise InputError(
            "sets of scores must have as many columns; "
            + ", ".join(f"{name} has {count}" for name, count in counts.items())
        )
    return source, sets


def read_sets(
    source: Source, sets: dict[str, list[str]], options: argparse.Namespace
) -> tuple[Data, dict[str, Array], NDArray[Any], dict[str, Any]]:
    """All sets of scores, whose labels are those of the first."""
    first, *others = sets.values()
    every = list(dict.fromkeys(name for names in sets.values() for name in names))
    data = open_labelled(source, first, options, every=every if others else None)
    ordered = {name: in_class_order(columns, data.classes) for name, columns in sets.items()}
    return data, *_read(data, ordered)


def _read(data: Data, sets: dict[str, list[str]]) -> tuple[dict[str, Array], NDArray[Any], dict[str, Any]]:
    """Sets of probabilities, what happened, and what else an evaluation wants to know, in memory."""
    scores, codes, weight, groups, segments = data.gathered
    data.note_missing()
    table = scores.reshape(len(codes), -1)
    out = {}
    for name, names in sets.items():
        values = table[:, [data.scores.index(column) for column in names]]
        out[name] = values[:, 0] if len(names) == 1 else values
    more: dict[str, Any] = {"sample_weight": weight, "labels": data.classes, "groups": groups}
    if segments is not None:
        more["by"] = segments
    return out, np.array(data.classes)[codes], more


def costs_of(options: argparse.Namespace) -> dict[str, Any]:
    """What ``--costs`` says, if anything."""
    if options.costs is None:
        return {}
    parts = options.costs.split(",")
    if len(parts) != 2:
        raise InputError(
            f"--costs must be those of a false positive and a false negative, as in 1,5; got {options.costs}"
        )
    costs = (number_of(part, "--costs") for part in parts)
    return {"costs": dict(zip(("false_positive", "false_negative"), costs, strict=True))}


def thresholds_of(options: argparse.Namespace) -> dict[str, Any]:
    """What ``--thresholds`` says, if anything."""
    if options.thresholds is None:
        return {}
    return {"thresholds": [number_of(text, "--thresholds") for text in options.thresholds.split(",")]}


def number_of(text: str, option: str) -> float:
    """The number that an option says."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} must be a number; got {text!r}") from None


def finite(numbers: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: what is not known is null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in numbers.items()}
