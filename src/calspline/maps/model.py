"""Model: what a fit returns, and what is applied, exported and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._codec import Kinds, check_fields
from calspline._domains import ClassLabels
from calspline._expression import Formula
from calspline._input.scores import (
    BinaryScores,
    GivenScores,
    Kind,
    MatrixScores,
    ScoreKind,
    check_binary_scores,
    check_scores,
)
from calspline._input.segment_labels import By, SegmentCodes, check_by, warn_of_new
from calspline._user_warnings import warn_user
from calspline.maps.base import CalibrationMap
from calspline.maps.curve import CalibrationCurve
from calspline.maps.fit_info import FitInfo
from calspline.maps.reference import Reference
from calspline.maps.segment_columns import SegmentColumn
from calspline.maps.shifted import BASE_MAPS, Shifted

ADVICE = (
    "This calibrator was fitted on probabilities; "
    "to calibrate margins, fit it on margins."
)


TOLERANCE = 1e-6
"""By how much the probabilities of a row may miss a sum of one."""


@lru_cache(maxsize=16)
def probes(kind: Kind, n_classes: int) -> BinaryScores | MatrixScores:
    """Scores that every map must turn into probabilities: usual and extreme ones."""
    scores = np.array([0.0, 1e-300, 1e-9, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0 - 1e-9, 1.0])
    if kind == "margin":
        half = np.array([1e300, 1e9, 10.0, 1.0, 0.0])
        scores = np.concatenate([-half, half[::-1]])
    if n_classes == 2:
        return check_binary_scores(scores, kind=kind)
    rows = np.outer(scores, np.linspace(-1.0, 1.0, n_classes))
    if kind == "probability":
        first = np.eye(1, n_classes)[0]
        last = np.eye(1, n_classes, n_classes - 1)[0]
        rows = np.array([np.full(n_classes, 1.0 / n_classes), first, last])
    return MatrixScores(kind, rows)


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted map, its classes, the kind of scores it takes, and how it was fitted."""

    classes: Annotated[NDArray[Any], ClassLabels()]
    kind: ScoreKind
    map: Annotated[CalibrationMap[Any], Kinds(*BASE_MAPS, Shifted)]
    fit: FitInfo

    def __post_init__(self) -> None:
        check_fields(self)
        kind = self.kind.value_kind
        if not self.map.suits(kind, self.n_classes):
            raise ValueError(
                f"map must be one for {self.n_classes} classes and {kind} scores; "
                f"a {type(self.map).__name__} like this is not"
            )
        if self.fit.curves and len(self.fit.curves) != len(self.base.parts):
            raise ValueError("fit.curves must have one entry per curve of the map")
        reference = self.fit.reference
        if reference is not None and reference.counts.shape[1] != self.n_classes:
            raise ValueError("fit.reference.counts must have a column for each class")

    def check_probabilities(self) -> None:
        """Refuse numbers so large or so small that no probabilities come of them."""
        scores = probes(self.kind.value_kind, self.n_classes)
        with np.errstate(all="ignore"):
            p = self.map.probabilities(scores)
        sums = 1.0 if p.ndim == 1 else p.sum(axis=1)
        is_proper = np.abs(sums - 1.0).max() < TOLERANCE
        if not (is_proper and p.min() >= 0.0 and p.max() <= 1.0 + TOLERANCE):
            raise ValueError("map must give probabilities; its numbers give none")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def base(self) -> CalibrationMap[Any]:
        """The map as it was fitted, before any shift of the base rates."""
        return self.map if self.shift is None else self.shift.base

    @property
    def shift(self) -> Shifted | None:
        """The shift of the base rates, if any."""
        return self.map if isinstance(self.map, Shifted) else None

    def unshifted(self) -> Model:
        """The model for the base rates of its fit."""
        return replace(self, map=self.base)

    def with_names(self, classes: NDArray[Any], columns: Sequence[str]) -> Model:
        """The same model with names of its classes and of their columns of scores."""
        fit = replace(self.fit, columns=tuple(columns))
        if fit.histogram is not None:
            fit = replace(fit, histogram=fit.histogram.of_classes(classes))
        return replace(self, classes=classes, fit=fit)

    @property
    def base_curves(self) -> list[CalibrationCurve]:
        """The curves of the map, before any shift and without segments."""
        curves = [part.common_curve for part in self.base.parts]
        return [curve for curve in curves if curve is not None]

    @property
    def curves(self) -> list[CalibrationCurve]:
        """The curves of the map without segments, shifted if the map is one curve."""
        if self.map.common_curve is not None:
            return [self.map.common_curve]
        return self.base_curves

    @property
    def segment_columns(self) -> Sequence[SegmentColumn]:
        """The columns of segments of the fit, if any."""
        return self.map.segment_columns

    def check(self, scores: Any, advice: str = ADVICE) -> BinaryScores | MatrixScores:
        """Interpret new scores as those of the fit were."""
        return self.kind.check(check_scores(scores), self.classes, advice)

    def find_segments(self, by: By) -> SegmentCodes:
        """The places of rows' segments among those of the fit, without a warning."""
        known = self.segment_columns
        columns = by.like([column.name for column in known]).columns
        pairs = zip(known, columns, strict=True)
        return SegmentCodes([one.known.codes(column) for one, column in pairs])

    def check_segments(self, by: Any, n: int) -> SegmentCodes | None:
        """Check labels of segments and find their places; warn if some are new."""
        if by is None:
            return None
        return self.match_segments(check_by(by, n), n)

    def match_segments(self, by: By, n: int) -> SegmentCodes:
        """The places of checked labels of segments; warn if some are new."""
        if not self.segment_columns:
            raise ValueError(
                "by must not be given: this calibrator was fitted without segments"
            )
        places = self.find_segments(by)
        warn_of_new(places.n_new, n)
        return places

    def warn_without_segments(self) -> None:
        """Warn if scores come without the segments that the fit had."""
        if self.segment_columns:
            warn_user(
                "this calibrator was fitted with segments (by=), and these scores come "
                "without: all of them get the probability of a new segment"
            )

    def probabilities(
        self,
        scores: GivenScores,
        places: SegmentCodes | None = None,
        advice: str = ADVICE,
    ) -> Array:
        """Probabilities of the second of two classes, or of all."""
        checked = self.kind.check(scores, self.classes, advice)
        return self.map.probabilities(checked, places.codes if places else None)

    def formula(self) -> Formula:
        """The whole computation, in terms that the exports write."""
        kind = self.kind.value_kind
        labels = self.classes.tolist()
        if self.n_classes > 2:
            formula = Formula(labels, kind, self.map.formula("row", kind))
        else:
            one = self.map.formula("one", kind)
            pair = self.map.formula("pair", kind)
            formula = Formula(labels, kind, one, pair, self.kind.is_difference)
        names = formula.program.names
        lookups = [lookup.restricted(names) for lookup in self.map.lookups]
        return replace(formula, lookups=lookups)

    def with_reference(self) -> Model:
        """The same model with its reference, as files have it."""
        return replace(self, fit=replace(self.fit, reference=self.reference))

    @property
    def reference(self) -> Reference | None:
        """The rows of the fit in bins of the probability, if they are known."""
        histogram = self.fit.histogram
        if self.fit.reference is not None or histogram is None:
            return self.fit.reference
        scores = check_binary_scores(histogram.scores, kind=histogram.kind)
        p = self.base.probabilities(scores)
        weight = np.concatenate([histogram.negatives, histogram.positives])
        codes = np.repeat([0, 1], len(p))
        return Reference.of_rows(np.tile(p, 2), codes, weight)
