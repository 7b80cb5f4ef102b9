"""``calspline shift``, ``expect``, ``decide`` and ``monitor``: the days after a fit."""

from __future__ import annotations

import argparse
import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from calspline.arrays import Array
from calspline.cli.columns import model_columns
from calspline.cli.data import Data, last, open_for_model
from calspline.cli.evaluate import costs_of, finite, number_of, read_sets, sets_of, thresholds_of
from calspline.cli.files import open_source
from calspline.cli.output import STDOUT, InputError, check_free, escape_control, heading, write_text
from calspline.evaluation import decisions
from calspline.formatting import html_table
from calspline.histogram import ScoreHistogram
from calspline.monitoring.expected import expected
from calspline.monitoring.monitor import Monitor
from calspline.persistence import load, text_of
from calspline.reporting.report import template_environment

WIDTH, HEIGHT = 720, 220
"""Of the picture on a monitor's page."""


def shift(options: argparse.Namespace) -> None:
    """A model for another base rate."""
    check_free(options.output, force=options.force)
    given = [options.base_rate is not None, options.kept is not None, bool(options.data)]
    if sum(given) != 1:
        raise InputError("shift wants one of --base-rate, --kept and files of scores")
    model = load(options.model)
    if options.base_rate is not None:
        rate = _by_label(options.base_rate, model, "--base-rate") if "=" in options.base_rate else None
        moved = model.shifted(base_rate=number_of(options.base_rate, "--base-rate") if rate is None else rate)
    elif options.kept is not None:
        moved = model.shifted(kept=_by_label(options.kept, model, "--kept"))
    else:
        moved = model.shifted(unlabelled=_scores(model, options))
    write_text(options.output, text_of(moved), force=options.force)
    found = moved.shift_
    if options.output != STDOUT and found.base_rates is not None:
        rows = []
        for label, rate, (low, high) in zip(moved.classes_, found.base_rates, found.limits(), strict=True):
            reach = "" if np.isnan(low) else f" (95% limits {low:.4g} to {high:.4g})"
            rows.append(f"base rate of {label}: {rate:.4g}{reach}")
        print(escape_control("\n".join([*rows, f"Model: {options.output}"])))


def expect(options: argparse.Namespace) -> None:
    """What to expect before labels come."""
    model = load(options.model)
    found = expected(model, _scores(model, options), **costs_of(options))
    print(json.dumps(finite(found.to_dict()), indent=1) if options.json else escape_control(str(found)))


def decide(options: argparse.Namespace) -> None:
    """What probabilities are worth to somebody who acts on them."""
    wanted = costs_of(options) | thresholds_of(options)
    _no_groups(options)
    _, probs, y, more = read_sets(*sets_of(options), options)
    del more["groups"]
    found = decisions.decide(y, probs, **wanted, **more)
    print(json.dumps(finite(found.to_dict()), indent=1) if options.json else escape_control(str(found)))


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
    if options.json:
        print(json.dumps(finite(found.log[-1] | {"verdict": found.verdict}), indent=1))
        return
    table, _, verdict = str(found).rpartition("\n")
    print(f"{escape_control(table)}\n{heading(escape_control(verdict), sys.stdout)}")


def _scores(model: Any, options: argparse.Namespace) -> Array:
    """All scores of files without labels, as a model wants them."""
    source = open_source(options)
    data = Data(source, model_columns(source.columns, model, last(options)), margins=model.kind_ == "margin")
    data.check(options.missing)
    data.note_missing("scores")
    with source.reading():
        table = source.query(data.select, where=data.present).to_arrow_table()
    scores = np.column_stack([table.column(helper).to_numpy() for helper in data.helpers])
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _histogram(model: Any, path: Path, options: argparse.Namespace) -> ScoreHistogram:
    """The rows of a file with labels, in the words of the model."""
    own = copy.copy(options)
    own.data = [str(path)]
    data = open_for_model(own, model)
    scores, codes, weight, *_ = data.gathered
    data.note_missing(file=f"{path.name}: ")
    found: ScoreHistogram = ScoreHistogram.from_scores(scores, codes, weight, kind=model.kind_, classes=[0, 1])
    return found


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
        found[known[label]] = number_of(value, option)
    return found


def _page(found: Monitor) -> str:
    """One page on a monitor, with nothing to load."""
    evidence = np.log10(np.clip([entry["evidence"] for entry in found.log], 1e-3, 1e9))
    limit = float(np.log10(1.0 / found.alpha))
    low, high = min(float(evidence.min()), -1.0), max(float(evidence.max()), limit) + 0.3

    x = np.linspace(0.0, WIDTH, len(evidence)) if len(evidence) > 1 else np.array([0.5 * WIDTH])
    *y, alarm_from = HEIGHT * (high - np.append(evidence, limit)) / (high - low)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    rows = [
        (str(e["when"]), f"{e['rows']:g}", f"{e['rate']:.4f}", f"{e['expected_rate']:.4f}", f"{e['evidence']:.3g}")
        for e in found.log
    ]
    table = html_table(rows, ("update", "rows", "rate", "expected", "evidence"))
    page = template_environment().get_template("monitor.html")
    return page.render(
        monitor=found, width=WIDTH, height=HEIGHT, points=points, alarm_from=float(alarm_from), table=Markup(table)
    )
