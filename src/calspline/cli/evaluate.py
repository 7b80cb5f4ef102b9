"""``calspline evaluate``, ``compare``, ``report``, ``decide``, ``expect``, ``monitor`` and ``shift``.

How good probabilities in a file are, what they are worth, and the days after a fit.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from calspline.arrays import Array
from calspline.cli.arguments import parse_number
from calspline.cli.columns import in_class_order, model_columns, named, score_columns
from calspline.cli.data import Data, last, note_groups, open_for_model, open_labelled
from calspline.cli.files import Source, open_source
from calspline.cli.output import InputError, check_free, escape_control, heading, note, tell, write_text
from calspline.evaluation import compare as comparisons
from calspline.evaluation import decisions
from calspline.evaluation import evaluate as evaluations
from calspline.evaluation.predictions import Predictions, check_prediction_sets
from calspline.formatting import html_table
from calspline.histogram import ScoreHistogram
from calspline.monitoring.expected import expected
from calspline.monitoring.monitor import Monitor
from calspline.persistence import load, text_of
from calspline.reporting import report as reports

WIDTH, HEIGHT = 720, 220
"""Of the picture on a monitor's page."""


def evaluate(options: argparse.Namespace) -> None:
    """One set of probabilities."""
    source = open_source(options)
    data = open_labelled(source, score_columns(source.columns, last(options)), options)
    rows = _read(data, {"probabilities": data.scores})["probabilities"]
    found = evaluations.evaluate(None, rows)
    note_groups(rows)
    of_segments = {} if found.segments is None else {"segments": list(map(_finite, found.segments.records()))}
    title, _, table = str(found).partition("\n")
    of = f", {data.scores[-1]} of {data.label} = {data.classes[1]}" if len(data.scores) <= 2 else ""
    _print(options, found.to_dict() | of_segments, f"{heading(title + of, sys.stdout)}\n{escape_control(table)}")


def compare(options: argparse.Namespace) -> None:
    """Several sets of probabilities of the same rows."""
    source, sets = _sets_of(options)
    if len(sets) < 2:
        raise InputError("compare wants two or more sets of scores, for example --score raw,calibrated")
    if options.reference is not None and options.reference not in sets:
        raise InputError(f"--reference must be one of {', '.join(sets)}; got {options.reference!r}")
    _, rows = _read_sets(source, sets, options)
    found = comparisons.compare(None, rows, reference=options.reference)
    note_groups(next(iter(rows.values())))
    table, advice, grouping = str(found).rpartition(found.recommendation)
    told = f"{escape_control(table)}{heading(advice, sys.stdout)}{escape_control(grouping)}"
    _print(options, found.to_dict(), told)


def report(options: argparse.Namespace) -> None:
    """The same as one HTML file with pictures."""
    acting = {"costs": options.costs, "thresholds": options.thresholds}
    if any(acting.values()) and options.group is not None:
        raise InputError("--costs and --thresholds are for rows independent of each other; leave out --group")
    model = None if options.model is None else load(options.model)
    if model is None:
        data, rows = _read_sets(*_sets_of(options), options)
    else:
        data = open_for_model(options, model)
        known, classes = list(map(str, model.classes_.tolist())), list(map(str, data.classes))
        if known != classes:
            raise InputError(
                f"the model's classes are {', '.join(known)}, and those of the data {', '.join(classes)}; "
                "see --label, --positive and --classes"
            )
        rows = _read(data, {"raw": data.scores}, model)
    title = options.title if options.title is not None else f"Calibration of {data.source.name}"
    found = reports.report(None, None, rows, calibrator=model, title=title, **acting)
    note_groups(next(iter(rows.values())))
    write_text(options.output, found.html, force=options.force)
    tell(f"{found.headline}\nReport: {options.output}", options)


def shift(options: argparse.Namespace) -> None:
    """A model for another base rate."""
    given = [options.base_rate is not None, options.kept is not None, bool(options.data)]
    if sum(given) != 1:
        raise InputError("shift wants one of --base-rate, --kept and files of scores")
    model = load(options.model)
    if options.base_rate is not None:
        rate = _by_label(options.base_rate, model, "--base-rate") if "=" in options.base_rate else None
        moved = model.shifted(base_rate=parse_number(options.base_rate, "--base-rate") if rate is None else rate)
    elif options.kept is not None:
        moved = model.shifted(kept=_by_label(options.kept, model, "--kept"))
    else:
        moved = model.shifted(unlabelled=_scores(model, options))
    write_text(options.output, text_of(moved), force=options.force)
    found = moved.shift_
    if found.base_rates is not None:
        rows = []
        for label, rate, (low, high) in zip(moved.classes_, found.base_rates, found.limits(), strict=True):
            reach = "" if np.isnan(low) else f" (95% limits {low:.4g} to {high:.4g})"
            rows.append(f"base rate of {label}: {rate:.4g}{reach}")
        tell("\n".join([*rows, f"Model: {options.output}"]), options)


def expect(options: argparse.Namespace) -> None:
    """What to expect before labels come."""
    model = load(options.model)
    found = expected(model, _scores(model, options), costs=options.costs)
    _print(options, found.to_dict(), escape_control(str(found)))


def decide(options: argparse.Namespace) -> None:
    """What probabilities are worth to somebody who acts on them."""
    _no_groups(options)
    _, rows = _read_sets(*_sets_of(options), options)
    found = decisions.decide(None, rows, costs=options.costs, thresholds=options.thresholds)
    _print(options, found.to_dict(), escape_control(str(found)))


def monitor(options: argparse.Namespace) -> None:
    """A day, or several, more."""
    _no_groups(options)
    state = Path(options.state)
    if options.page is not None:
        check_free(options.page, force=True)
    if state.exists():
        found = load(state)
        if not isinstance(found, Monitor):
            raise InputError(f"{state} is a model, not the state of a monitor; to begin, name a new file and --model")
        if options.model is not None or options.alpha is not None:
            raise InputError(f"{state} has a model and an alpha already; leave out --model and --alpha")
    elif options.model is None:
        raise InputError(f"{state} does not exist; to begin, name the model with --model")
    else:
        found = Monitor(load(options.model), alpha=0.05 if options.alpha is None else options.alpha)
    for path in _days(options.data):
        found.update(_histogram(found.calibrator, path, options), when=path.name)
    write_text(str(state), text_of(found), force=True)
    if options.page is not None:
        write_text(options.page, _page(found), force=True)
    table, _, verdict = str(found).rpartition("\n")
    told = f"{escape_control(table)}\n{heading(escape_control(verdict), sys.stdout)}"
    _print(options, found.log[-1] | {"verdict": found.verdict}, told)


def _sets_of(options: argparse.Namespace) -> tuple[Source, dict[str, list[str]]]:
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


def _read_sets(
    source: Source, sets: dict[str, list[str]], options: argparse.Namespace
) -> tuple[Data, dict[str, Predictions]]:
    """All sets of scores, whose labels are those of the first."""
    first, *others = sets.values()
    every = list(dict.fromkeys(name for names in sets.values() for name in names))
    data = open_labelled(source, first, options, every=every if others else None)
    return data, _read(data, {name: in_class_order(columns, data.classes) for name, columns in sets.items()})


def _read(data: Data, sets: dict[str, list[str]], model: Any = None) -> dict[str, Predictions]:
    """Sets of probabilities with what happened, in memory; with a model, also what it makes of the first."""
    scores, codes, weight, groups, segments = data.gathered
    data.note_missing()
    table, probs = scores.reshape(len(codes), -1), {}
    for name, names in sets.items():
        values = table[:, [data.scores.index(column) for column in names]]
        probs[name] = values[:, 0] if len(names) == 1 else values
    if model is not None:
        told = {"by": segments} if segments is not None and getattr(model, "segment_columns", []) else {}
        p = model.predict_proba(next(iter(probs.values())), **told)
        if model.kind_ == "margin":
            note("the scores are margins, not probabilities: the report is on the calibrated ones alone")
            probs = {}
        probs["calibrated"] = p[:, 1] if p.shape[1] == 2 else p
    return check_prediction_sets(np.array(data.classes)[codes], probs, weight, data.classes, groups, segments)


def _print(options: argparse.Namespace, numbers: dict[str, Any], text: str) -> None:
    """The answer, as JSON if that is wanted."""
    print(json.dumps(_finite(numbers), indent=1) if options.json else text)


def _finite(numbers: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: what is not known is null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in numbers.items()}


def _scores(model: Any, options: argparse.Namespace) -> Array:
    """All scores of files without labels, as a model wants them."""
    source = open_source(options)
    data = Data(source, model_columns(source.columns, model, last(options)), margins=model.kind_ == "margin")
    data.check(options.missing)
    data.note_missing("scores")
    return data.gathered[0]


def _histogram(model: Any, path: Path, options: argparse.Namespace) -> Any:
    """The rows of a file with labels, in the words of the model."""
    data = open_for_model(argparse.Namespace(**vars(options) | {"data": [str(path)]}), model)
    scores, codes, weight, *_ = data.gathered
    data.note_missing(file=f"{path.name}: ")
    return ScoreHistogram.from_scores(scores, codes, weight, kind=model.kind_, classes=[0, 1])


def _no_groups(options: argparse.Namespace) -> None:
    if options.group is not None:
        raise InputError(f"{options.command} takes rows as independent of each other; leave out --group")


def _days(given: list[str]) -> list[Path]:
    """Files in the order given; those of a folder in the order of their names."""
    days: list[Path] = []
    for name in given:
        path = Path(name)
        days += sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    if not days:
        raise InputError(f"{', '.join(given)} has no files")
    return days


def _by_label(text: str, model: Any, option: str) -> dict[Any, float]:
    """``no=0.1,yes=1`` by the labels of a model."""
    known = {str(label): label for label in model.classes_.tolist()}
    found = {}
    for part in text.split(","):
        label, equals, value = part.rpartition("=")
        if not equals or label not in known:
            raise InputError(
                f"{option} must name the classes {', '.join(known)}, as in {next(iter(known))}=0.1; got {part!r}"
            )
        found[known[label]] = parse_number(value, option)
    return found


def _page(found: Monitor) -> str:
    """One page on a monitor, with nothing to load."""
    evidence = np.log10(np.clip([entry["evidence"] for entry in found.log], 1e-3, 1e9))
    limit = float(np.log10(1.0 / found.alpha))
    low, high = min(float(evidence.min()), -1.0), max(float(evidence.max()), limit) + 0.3

    x = np.linspace(0.0, WIDTH, len(evidence)) if len(evidence) > 1 else np.array([0.5 * WIDTH])
    *y, alarm_from = HEIGHT * (high - np.append(evidence, limit)) / (high - low)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    table = html_table(*found.table())
    page = reports.template_environment().get_template("monitor.html")
    return page.render(
        monitor=found, width=WIDTH, height=HEIGHT, points=points, alarm_from=float(alarm_from), table=Markup(table)
    )
