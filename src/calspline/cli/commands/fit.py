"""``calspline fit``: scores and labels in, a model file out."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calspline.arrays import Array
from calspline.calibrators.beta import BetaCalibrator
from calspline.calibrators.isotonic import IsotonicCalibrator
from calspline.calibrators.sigmoid import SigmoidCalibrator
from calspline.calibrators.spline import SplineCalibrator
from calspline.calibrators.temperature import TemperatureCalibrator
from calspline.cli.columns import in_class_order
from calspline.cli.console import escape_control, heading, note, progress
from calspline.cli.errors import InputError
from calspline.cli.opening import Data, open_data
from calspline.cli.output import STDOUT, check_free, write_text
from calspline.cli.rows import Reader, Wanted, gathered
from calspline.evaluation.losses import row_briers, row_log_losses
from calspline.histogram import ScoreHistogram
from calspline.persistence import text_of

FOLDS = 5
FEWEST_TO_FOLD = 50
MAX_TO_FOLD = 1_000_000
ONLY_SPLINE = ("smoothing", "monotone", "multiclass")


@dataclass(frozen=True)
class Fitted:
    """A calibrator and how well it does: losses before and after, judged ``how``."""

    calibrator: Any
    n_rows: int
    n_missing: int
    how: str
    before: tuple[float, float] | None
    after: tuple[float, float]


def run(options: argparse.Namespace) -> None:
    """Fit, write the model, say what was done."""
    check_free(options.output, force=options.force)
    calibrator = _calibrator(options)
    data = open_data(options)
    margins = options.transform == "identity"
    columns = tuple(in_class_order(data.scores, data.labels.classes))
    wanted = Wanted(data.source, columns, data.labels, data.weight, options.missing, margins)
    two = len(data.labels.classes) == 2
    streamed = two and options.method == "spline" and not (margins and len(columns) == 2)
    fitted = _stream(calibrator, wanted) if streamed else _at_once(calibrator, wanted)
    # The fit saw places in the list of classes: any order of columns, and classes that no row shows, are then well.
    fitted.calibrator.classes_ = np.array(data.labels.classes)
    write_text(options.output, text_of(fitted.calibrator), force=options.force)
    out = sys.stderr if options.output == STDOUT else sys.stdout
    if options.json:
        print(json.dumps(_facts(fitted, data, columns, options), indent=1), file=out)
    else:
        print(_story(fitted, data, columns, options), file=out)


def _calibrator(options: argparse.Namespace) -> Any:
    """The calibrator that the options describe, not fitted."""
    if options.method == "spline":
        given = {name: getattr(options, name) for name in ("transform", *ONLY_SPLINE)}
        return SplineCalibrator(**{name: value for name, value in given.items() if value is not None})
    for name in ONLY_SPLINE:
        if getattr(options, name) not in (None, False):
            raise InputError(f"--{name} is for --method spline; leave it out with --method {options.method}")
    if options.transform not in (None, "identity"):
        raise InputError(
            f"--transform {options.transform} is for --method spline; with --method {options.method} only identity, "
            "which says that the scores are margins"
        )
    methods = {
        "sigmoid": SigmoidCalibrator,
        "isotonic": IsotonicCalibrator,
        "beta": BetaCalibrator,
        "temperature": TemperatureCalibrator,
    }
    return methods[options.method]()


def _fold_of(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    return rng.integers(0, FOLDS, n)


def _stream(calibrator: Any, wanted: Wanted) -> Fitted:
    """Two classes by the spline: rows become histograms, one for each fold, and are forgotten."""
    reader, rng = Reader(wanted), np.random.default_rng(0)
    kind = "margin" if wanted.margins else "probability"
    parts: list[ScoreHistogram | None] = [None] * FOLDS
    n = 0
    with progress("Reading", wanted.source) as shown:
        for rows in reader.batches():
            n += len(rows)
            fold = _fold_of(rng, len(rows))
            counts = np.ones(len(rows), dtype=bool) if rows.weight is None else rows.weight > 0.0
            for k in range(FOLDS):
                mine = counts & (fold == k)
                if mine.any():
                    part = ScoreHistogram.from_scores(
                        rows.scores[mine],
                        _of(rows.codes, mine),
                        None if rows.weight is None else rows.weight[mine],
                        kind=kind,  # type: ignore[arg-type]
                    )
                    seen = parts[k]
                    parts[k] = part if seen is None else seen + part
            shown.add(len(rows))
    histograms = [part for part in parts if part is not None]
    if not histograms:
        what = f"the weights in column {wanted.weight!r} are all zero" if n else "there are no rows of data"
        raise InputError(f"{wanted.source.name}: {what}")
    every = reduce(add, histograms)
    if not (every.positives.any() and every.negatives.any()):
        raise InputError(f"{wanted.source.name} must show two classes; every row that counts is of one")
    calibrator.fit_histogram(every)
    trains = [reduce(add, [h for h in histograms if h is not one]) for one in histograms] if len(histograms) > 1 else []
    folded = n >= FEWEST_TO_FOLD and all(h.positives.any() and h.negatives.any() for h in trains)
    pairs = list(zip(histograms, trains, strict=True)) if folded else [(every, every)]
    before: list[tuple[float, float]] = []
    after: list[tuple[float, float]] = []
    for test, train in pairs:
        fitted = _quietly(calibrator, train) if folded else calibrator
        after.append(_histogram_losses(fitted.calibrate(test.scores), test))
        if kind == "probability":
            before.append(_histogram_losses(test.scores, test))
    weights = [test.total for test, _ in pairs]
    return Fitted(
        calibrator, n, reader.n_missing, _how(folded), _mean(before, weights) if before else None, _mean(after, weights)
    )


def _of(codes: NDArray[np.int64] | None, mine: NDArray[np.bool_]) -> Any:
    return None if codes is None else codes[mine]


def _quietly(calibrator: Any, histogram: ScoreHistogram) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(calibrator).fit_histogram(histogram)


def _histogram_losses(p: Array, h: ScoreHistogram) -> tuple[float, float]:
    twice, happened = np.concatenate([p, p]), np.repeat([1, 0], len(p))
    return _losses(twice, happened, np.concatenate([h.positives, h.negatives]))


def _losses(p: Array, codes: NDArray[Any], weight: Array | None) -> tuple[float, float]:
    return tuple(float(np.average(f(p, codes), weights=weight)) for f in (row_log_losses, row_briers))  # type: ignore[return-value]


def _mean(losses: list[tuple[float, float]], weights: list[float]) -> tuple[float, float]:
    log_loss, brier = np.average(np.array(losses), axis=0, weights=weights)
    return float(log_loss), float(brier)


def _how(folded: bool) -> str:
    return f"cross-validated in {FOLDS} folds" if folded else "in-sample: on the rows of the fit, so flattering"


def _at_once(calibrator: Any, wanted: Wanted) -> Fitted:
    """Several classes, and the other methods: all rows in memory."""
    scores, codes, weight, reader = gathered(wanted)
    m = len(wanted.labels.classes) if wanted.labels else 0
    present = np.unique(codes if weight is None else codes[weight > 0.0])
    if len(present) < 2:
        raise InputError(f"{wanted.source.name} must show two classes; every row that counts is of one")
    calibrator.fit(scores, codes, weight)
    after, folded = calibrator.predict_proba(scores), False
    if len(codes) >= FEWEST_TO_FOLD and scores.size <= MAX_TO_FOLD:
        fold = _fold_of(np.random.default_rng(0), len(codes))
        kept = [_kept(fold != k, codes, weight) for k in range(FOLDS)]
        if all(np.array_equal(found, present) for found in kept):
            for k, p in _out_of_fold(calibrator, scores, codes, weight, fold):
                after[fold == k] = p
            folded = True
    two = m == 2
    p = after[:, 1] if two else after
    raw = scores if scores.ndim == 1 or not two else scores[:, 1]
    before = None if wanted.margins else _losses(raw, codes, weight)
    return Fitted(calibrator, len(codes), reader.n_missing, _how(folded), before, _losses(p, codes, weight))


def _kept(train: NDArray[np.bool_], codes: NDArray[np.int64], weight: Array | None) -> NDArray[np.int64]:
    return np.unique(codes[train if weight is None else train & (weight > 0.0)])


def _out_of_fold(
    calibrator: Any, scores: Array, codes: NDArray[np.int64], weight: Array | None, fold: NDArray[np.int64]
) -> Iterator[tuple[int, Array]]:
    for k in range(FOLDS):
        train, test = fold != k, fold == k
        if not test.any():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(calibrator).fit(scores[train], codes[train], None if weight is None else weight[train])
            yield k, fitted.predict_proba(scores[test])


def _facts(fitted: Fitted, data: Data, columns: tuple[str, ...], options: argparse.Namespace) -> dict[str, Any]:
    names = ("log_loss", "brier")
    before = fitted.before or (None, None)
    return {
        "model": options.output,
        "class": type(fitted.calibrator).__name__,
        "classes": list(data.labels.classes),
        "score": list(columns),
        "label": data.labels.column,
        "rows": fitted.n_rows,
        "rows_left_out": fitted.n_missing,
        "judged": fitted.how.partition(":")[0],
        "before": dict(zip(names, before, strict=True)),
        "after": dict(zip(names, fitted.after, strict=True)),
    }


def _story(fitted: Fitted, data: Data, columns: tuple[str, ...], options: argparse.Namespace) -> str:
    out = sys.stderr if options.output == STDOUT else sys.stdout
    calibrator, classes = fitted.calibrator, data.labels.classes
    if len(classes) == 2:
        what = f"{columns[-1]} as the probability that {data.labels.column} is {classes[1]}"
    else:
        pairs = [f"{name} = {value}" for name, value in zip(columns, classes, strict=True)]
        what = f"{len(classes)} classes of {data.labels.column}: " + ", ".join(pairs[:6]) + (", ..." * (len(pairs) > 6))
    lines = [heading(f"Fitted on {fitted.n_rows:,} rows of {data.source.name}", out), f"  {escape_control(what)}"]
    summary = getattr(calibrator, "summary", None)
    lines.append("  " + "\n  ".join(escape_control(summary() if summary else str(calibrator)).splitlines()))
    lines += ["", f"  {'':10}{'before' if fitted.before else '':>10}{'after':>10}   ({fitted.how})"]
    for i, name in enumerate(("log-loss", "Brier")):
        before = f"{fitted.before[i]:>10.4f}" if fitted.before else " " * 10
        lines.append(f"  {name:10}{before}{fitted.after[i]:>10.4f}")
    if fitted.n_missing:
        note(f"{fitted.n_missing:,} rows with missing values were left out")
    if options.output != STDOUT:
        lines += ["", f"  Model: {escape_control(str(Path(options.output)))}"]
    return "\n".join(lines)
