"""Rows of two classes that arrive in parts: what is kept of them, and their fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._input.hints import warn_if_reversed
from calspline._input.labels import (
    check_binary_labels,
    check_label_array,
    check_two_classes,
)
from calspline._input.options import check_number
from calspline._input.scores import ScoreKind, check_scores, decide_kind
from calspline._input.segment_labels import check_by
from calspline._input.weights import (
    check_weights,
    check_weights_as_counts,
    counted_columns,
)
from calspline.fits.options import Recipe, required_scores
from calspline.fits.spline import fit_histogram
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms
from calspline.maps.model import Model

ROUNDING = 1e-9
"""Relative rounding error of a sum of weights."""


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Accumulated statistics of rows.

    ``counts`` has the histograms of segments, if there are any.
    """

    classes: NDArray[Any]
    kind: ScoreKind
    histogram: ScoreHistogram
    counts: SegmentHistograms | None
    n_effective: float

    @classmethod
    def of_model(cls, model: Model) -> SeenRows:
        """The rows of a fit, to which others may be added."""
        if model.shift is not None:
            raise ValueError(
                "this calibrator was shifted; update the original calibrator and "
                "shift it again"
            )
        if model.n_classes > 2:
            raise ValueError(
                "partial_fit is for two classes; this calibrator was fitted to more"
            )
        fit = model.fit
        if fit.histogram is None:
            raise ValueError(
                "this calibrator was loaded from a file, without the rows it was "
                "fitted on; fit a new one"
            )
        return cls(
            model.classes,
            model.kind,
            fit.histogram,
            fit.segment_histograms,
            fit.n_effective,
        )

    @property
    def has_both_classes(self) -> bool:
        """Whether a curve can be fitted."""
        histogram = self.histogram
        return bool(histogram.positives.any() and histogram.negatives.any())

    def with_rows(self, new: SeenRows) -> SeenRows:
        """These rows and new ones, of the same kind and classes."""
        if (self.counts is None) != (new.counts is None):
            raise ValueError(
                "by must be given in every call of partial_fit, or in none"
            )
        counts = new.counts
        if self.counts is not None and new.counts is not None:
            counts = self.counts + new.counts
        histogram = (self.histogram + new.histogram).of_classes(new.classes)
        n_effective = new.n_effective + self.n_effective
        return replace(new, histogram=histogram, counts=counts, n_effective=n_effective)


def check_new_rows(
    scores: Any,
    y: Any,
    sample_weight: Any,
    classes: Any,
    by: Any,
    scale: str,
    seen: SeenRows | None,
) -> SeenRows:
    """Check and collect rows, whose scores are like those ``seen`` before, if any."""
    given = check_scores(scores)
    weight = check_weights(sample_weight, len(given), some=False)
    known = None if seen is None else seen.classes
    if classes is not None:
        wanted = check_two_classes(classes)
        if known is not None and not np.array_equal(wanted, known):
            raise ValueError(
                f"classes must stay {known.tolist()}; got {wanted.tolist()}"
            )
        known = wanted
    labels = check_label_array(y, len(given))
    known, positive = check_binary_labels(labels, known)
    ordered = given.in_class_order(known)
    if seen is None:
        kind = decide_kind(ordered, required_scores(scale))
    else:
        kind = seen.kind
    checked = kind.binary(ordered)
    segments = None
    if by is not None:
        segments = check_by(by, len(checked), some=seen is None)
    if weight is not None:
        columns = counted_columns(given.values, segments)
        check_weights_as_counts(weight, labels=positive, scores=columns)
    histogram = ScoreHistogram.collect(checked, positive, weight).of_classes(known)
    counts = None
    if segments is not None:
        counts = SegmentHistograms.collect(
            histogram, checked, positive, weight, segments
        )
    return SeenRows(known, kind, histogram, counts, histogram.total)


def fit_seen_rows(
    rows: SeenRows, recipe: Recipe, fitted_to: ScoreHistogram | None = None
) -> Model:
    """Fit accumulated rows of both classes.

    ``fitted_to`` is the histogram of the same rows with other weights, to which the
    curve is fitted instead, if given.
    """
    histogram = rows.histogram
    kind = rows.kind
    if kind.value_kind == "margin":
        kind = replace(kind, share_inside=histogram.inside)
    design_effect = max(histogram.total / rows.n_effective, 1.0)
    model = fit_histogram(
        histogram,
        rows.classes,
        kind,
        replace(recipe, design_effect=design_effect),
        counts=rows.counts,
        fitted_to=fitted_to,
        n_effective=rows.n_effective,
    )
    warn_if_reversed(histogram.counts, rows.classes, model.fit.design_effect)
    return model


def check_n_effective(n_effective: Any, histogram: ScoreHistogram) -> float:
    """Effective sample size of a histogram, by default its total weight."""
    if n_effective is None:
        return histogram.total
    checked = check_number(n_effective, "n_effective", above=0.0)
    if checked > histogram.total * (1.0 + ROUNDING):
        raise ValueError(
            f"n_effective must be at most the weight of the rows, {histogram.total:g}; "
            f"got {checked:g}"
        )
    return checked
