"""``calspline fit``: scores and labels in, a model file out."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calspline._arrays import Array
from calspline._input.hints import ClassOrderWarning
from calspline._input.rows import LabelledRows
from calspline._input.scores import check_given_columns, check_scores
from calspline._input.segment_labels import check_by
from calspline._persistence import text_of
from calspline.calibrators import find
from calspline.calibrators.base import as_matrix
from calspline.cli.columns import Value, score_columns
from calspline.cli.data import Data, last, open_labelled
from calspline.cli.files import open_source
from calspline.cli.output import (
    STDOUT,
    InputError,
    escape_control,
    heading,
    note,
    progress,
    write_text,
)
from calspline.evaluation.losses import row_briers, row_log_losses
from calspline.transforms import expit

FOLDS = 5
CROSS_VALIDATED = f"cross-validated in {FOLDS} folds"
FEWEST_TO_FOLD = 50
MAX_TO_FOLD = 1_000_000
ONLY_SPLINE = ("smoothing", "monotone", "multiclass")
"""Options of the spline alone, next to ``group`` and ``by``."""


class Fitted(NamedTuple):
    """A calibrator with losses before and after, cross-validated if ``folded``."""

    calibrator: Any
    folded: bool
    before: tuple[float, float] | None
    after: tuple[float, float]


def fit(options: argparse.Namespace) -> None:
    """Fit, write the model, say what was done."""
    calibrator = _calibrator(options)
    source = open_source(options)
    margins = options.scale == "identity"
    data = open_labelled(
        source, score_columns(source.columns, last(options)), options, margins=margins
    )
    in_memory = (
        options.group is not None and data.n_rows * len(data.scores) <= MAX_TO_FOLD
    )  # to fold by group
    with notes_naming(data.classes):
        if len(data.classes) == 2 and options.method == "spline" and not in_memory:
            fitted = _by_frame(calibrator, data)
        else:
            if options.classes is None:
                _check_columns(data)
            fitted = _at_once(calibrator, data, margins)
    # The fit saw places in the list of classes: any order of columns, and classes that
    # no row shows, are then well.
    fitted.calibrator._name(np.array(data.classes), data.scores)
    write_text(options.output, text_of(fitted.calibrator), force=options.force)
    out = sys.stderr if options.output == STDOUT else sys.stdout
    if options.json:
        print(json.dumps(_facts(fitted, data, options), indent=1), file=out)
    else:
        print(_story(fitted, data, options), file=out)


@contextmanager
def notes_naming(classes: Sequence[Value]) -> Iterator[None]:
    """Show the warnings of a fit to codes with the labels that these stand for."""

    def named(message: Warning | str) -> str:
        if isinstance(message, ClassOrderWarning):
            remedy = " (if so, use --positive {0})" if message.remedy else ""
            return message.named(classes, remedy)
        return str(message)

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: note(named(message))
        yield


def _calibrator(options: argparse.Namespace) -> Any:
    """The calibrator that the options describe, not fitted."""
    cls = find(options.method)
    if options.method == "spline":
        given = {name: getattr(options, name) for name in ("scale", *ONLY_SPLINE)}
        return cls(
            **{name: value for name, value in given.items() if value is not None}
        )
    for name in (*ONLY_SPLINE, "group", "by"):
        if getattr(options, name) is not None:
            raise InputError(
                f"--{name} is for --method spline; leave it out with --method "
                f"{options.method}"
            )
    if options.scale not in (None, "identity"):
        raise InputError(
            f"--scale {options.scale} is for --method spline; with --method "
            f"{options.method} only identity, "
            "which says that the scores are margins"
        )
    return cls()


def _by_frame(calibrator: Any, data: Data) -> Fitted:
    """Two classes by the spline: the histogram is all that is needed to judge the fit.

    DuckDB sums the rows if they are many; few are summed here, before narwhals would be
    imported.
    """
    source = data.source
    if data.n_rows <= MAX_TO_FOLD // len(data.scores) and not data.by:
        rows = data.rows
        rows.check_weights_as_counts(f"column {data.weight!r}")
        fitted = _fit_rows(calibrator, rows, data.classes)
    else:
        from calspline.engines.frames import fit_frame

        with (
            progress(
                "Reading", source.about, lambda n: round((n or 0) * source.share_read())
            ),
            source.reading(),
        ):
            relation, columns = data.frame()
            fitted = fit_frame(relation, **columns, **calibrator.get_params(deep=False))
    every = fitted.histogram_
    where = None
    if data.by:
        every = fitted.model_.fit.segment_histograms
        where = (
            check_by(list(map(list, every.columns)), len(every))
            .named(every.names)
            .of(every.segment)
        )
    assert every is not None
    if fitted.model_.kind.value_kind == "probability":
        scores = expit(every.locations)
    else:
        scores = every.locations
    weights = np.array([every.negatives, every.positives])
    tests = _dealt(weights)
    trains = [weights - test for test in tests] if len(tests) > 1 else []
    folded = (
        data.group is None
        and data.n_rows >= FEWEST_TO_FOLD
        and all(train.any(axis=1).all() for train in trains)
    )

    def judge(cal: Any, weight: Array) -> tuple[float, float]:
        places = None if where is None else cal.model_.find_segments(where)
        p = cal.model_.probabilities(check_scores(scores), places)
        return _histogram_losses(p, weight)

    after = [judge(fitted, weights)]
    if folded:
        parts = (
            every.reweighted(positives, negatives) for negatives, positives in trains
        )
        fits = (_quietly(clone(calibrator).fit_histogram, part) for part in parts)
        after = [judge(fit, test) for fit, test in zip(fits, tests, strict=True)]
    log_loss, brier = np.average(
        after, axis=0, weights=[test.sum() for test in tests] if folded else None
    )
    pooled = fitted.histogram_
    before = None
    if pooled.kind == "probability":
        before = _histogram_losses(
            pooled.scores, np.array([pooled.negatives, pooled.positives])
        )
    return Fitted(fitted, folded, before, (float(log_loss), float(brier)))


def _fit_rows(calibrator: Any, rows: LabelledRows, classes: Sequence[Value]) -> Any:
    """The calibrator, fitted to these rows."""
    return calibrator._fit_scores(
        rows.scores,
        rows.labels,
        rows.weight,
        groups=rows.groups,
        by=rows.by,
        classes=np.array(classes),
    )


def _dealt(weights: Array) -> list[Array]:
    """Weights of negatives and positives, split at random into folds."""
    rng = np.random.default_rng(0)
    folds = np.empty((FOLDS, *weights.shape))
    for k in (1, 0):
        part = rng.multinomial(
            weights[k].astype(np.int64), np.full(FOLDS, 1.0 / FOLDS)
        ).astype(np.float64)
        part[np.arange(len(part)), rng.integers(0, FOLDS, len(part))] += (
            weights[k] % 1.0
        )
        folds[:, k] = part.T
    return [fold for fold in folds if fold.any()]


def _quietly(fit: Callable[..., Any], *rows: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(*rows)


def _histogram_losses(p: Array, weights: Array) -> tuple[float, float]:
    return _losses(np.tile(p, 2), np.repeat([0, 1], len(p)), weights.ravel())


def _losses(p: Array, codes: NDArray[Any], weight: Array | None) -> tuple[float, float]:
    return tuple(
        float(np.average(f(p, codes), weights=weight))
        for f in (row_log_losses, row_briers)
    )  # type: ignore[return-value]


def _check_columns(data: Data) -> None:
    """Check that columns are not those of a matrix of features."""
    labels = np.asarray(data.classes)[data.rows.labels]
    check_given_columns(replace(data.rows.scores, names=data.scores), labels)


def _at_once(calibrator: Any, data: Data, margins: bool) -> Fitted:
    """Several classes, groups to fold by, and the other methods: all rows in memory."""
    rows = data.rows
    rows.check_weights_as_counts(f"column {data.weight!r}")
    _fit_rows(calibrator, rows, data.classes)
    after = as_matrix(calibrator._predict(rows.scores, rows.by))
    trains = _trains(rows)
    for train in trains:
        fitted = _quietly(_fit_rows, clone(calibrator), rows.of(train), data.classes)
        test = rows.of(~train)
        after[~train] = as_matrix(_quietly(fitted._predict, test.scores, test.by))
    p = after
    raw = rows.scores.values.astype(np.float64, copy=False)
    if len(data.classes) == 2:
        p = after[:, 1]
        raw = raw if raw.ndim == 1 else raw[:, 1]
    before = None if margins else _losses(raw, rows.labels, rows.weight)
    return Fitted(
        calibrator, bool(trains), before, _losses(p, rows.labels, rows.weight)
    )


def _trains(rows: LabelledRows) -> list[NDArray[np.bool_]]:
    """The rows to fit for each fold, if there are enough; groups are not divided."""
    n = len(rows.labels)
    if n < FEWEST_TO_FOLD or rows.scores.values.size > MAX_TO_FOLD:
        return []
    rng = np.random.default_rng(0)
    if rows.groups is None:
        fold = rng.integers(0, FOLDS, n)
    else:
        fold = (rng.permutation(rows.groups.max() + 1) % FOLDS)[rows.groups]
    trains = [fold != k for k in np.unique(fold)]
    counts = np.ones(n, dtype=bool) if rows.weight is None else rows.weight > 0.0
    seen = {
        tuple(np.unique(rows.labels[counts & train])) for train in (counts, *trains)
    }
    groups_differ = rows.groups is None or all(
        len(np.unique(rows.groups[counts & train])) > 1 for train in trains
    )
    return trains if len(seen) == 1 and groups_differ else []


def _facts(fitted: Fitted, data: Data, options: argparse.Namespace) -> dict[str, Any]:
    names = ("log_loss", "brier")
    before = fitted.before or (None, None)
    return {
        "model": options.output,
        "class": type(fitted.calibrator).__name__,
        "classes": data.classes,
        "score": data.scores,
        "label": data.label,
        "rows": data.n_rows,
        "rows_left_out": data.n_missing,
        **(
            {}
            if data.group is None
            else {"group": data.group, "n_effective": fitted.calibrator.n_effective_}
        ),
        **({"by": data.by} if data.by else {}),
        "judged": CROSS_VALIDATED if fitted.folded else "in-sample",
        "before": dict(zip(names, before, strict=True)),
        "after": dict(zip(names, fitted.after, strict=True)),
    }


def _story(fitted: Fitted, data: Data, options: argparse.Namespace) -> str:
    out = sys.stderr if options.output == STDOUT else sys.stdout
    calibrator = fitted.calibrator
    classes = data.classes
    if len(classes) == 2:
        what = f"{data.scores[-1]} as the probability that {data.label} is {classes[1]}"
    else:
        pairs = [
            f"{name} = {value}"
            for name, value in zip(data.scores, classes, strict=True)
        ]
        what = (
            f"{len(classes)} classes of {data.label}: "
            + ", ".join(pairs[:6])
            + (", ..." * (len(pairs) > 6))
        )
    lines = [
        heading(f"Fitted on {data.n_rows:,} rows of {data.source.name}", out),
        f"  {escape_control(what)}",
    ]
    if data.group is not None:
        size = f"effective sample size {calibrator.n_effective_:,.0f}"
        lines.append(
            f"  rows of the same {escape_control(data.group)} are dependent: {size}"
        )
    summary = getattr(calibrator, "summary", None)
    lines.append(
        "  "
        + "\n  ".join(
            escape_control(summary() if summary else str(calibrator)).splitlines()
        )
    )
    if data.by:
        lines += [
            "",
            *(
                f"  {line}"
                for line in escape_control(str(calibrator.segments_)).splitlines()
            ),
        ]
    how = CROSS_VALIDATED if fitted.folded else "in-sample, therefore too optimistic"
    lines += [
        "",
        f"  {'':10}{'before' if fitted.before else '':>10}{'after':>10}   ({how})",
    ]
    for i, name in enumerate(("log-loss", "Brier")):
        before = f"{fitted.before[i]:>10.4f}" if fitted.before else " " * 10
        lines.append(f"  {name:10}{before}{fitted.after[i]:>10.4f}")
    data.note_missing()
    data.note_no_segment()
    if options.output != STDOUT:
        lines += ["", f"  Model: {escape_control(str(Path(options.output)))}"]
    return "\n".join(lines)
