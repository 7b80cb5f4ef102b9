"""What a spline fit leaves: curves or a map of all classes, and what segments add; limits, formulas and files of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array, one_blas_thread
from calspline.binary_fit import FIT, FittedCurve, GroupedRows, Recipe
from calspline.calibrators.base import ALL_EQUAL, BaseCalibrator
from calspline.calibrators.shift import Shift
from calspline.curve import CalibrationCurve
from calspline.expression import Formula, Program, one_vs_rest, top_against_rest
from calspline.histogram import ScoreHistogram
from calspline.labels import warn_user
from calspline.multiclass.one_vs_rest import (
    LEAST_LOG_PROBABILITY,
    AgainstRest,
    TopAgainstRest,
    classes_design_effect,
    combine,
    fit_one_vs_rest,
)
from calspline.multiclass.spread import limits
from calspline.multiclass.structured_fit import fit_structure
from calspline.multiclass.structured_map import STRUCTURE, StructuredMap
from calspline.options import Domain, ListOf, Number, Record, check_fitted, check_number, optional
from calspline.scores import LabelledRows, MatrixScores
from calspline.segments.classes import CLASS_SEGMENTS, ClassSegments, fit_class_segments
from calspline.segments.curves import SEGMENTED, SegmentColumn, SegmentedCurve, SegmentTable, lookups
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import Codes, SegmentCodes, check_by, warn_of_new
from calspline.transforms import Source


class FittedSpline(BaseCalibrator):
    """What :class:`SplineCalibrator` is made of: curves or a structured map of all classes, and what segments add."""

    _stored: ClassVar[dict[str, Domain]] = {
        "fits": ListOf(FIT),
        "n_effective": optional(Number(above=0.0)),
        "design_effect": Number(above=0.0),
        "segments": optional(ListOf(SEGMENTED, least=1)),
        "class_segments": optional(CLASS_SEGMENTS),
    }
    _stored_since: ClassVar[dict[str, Any]] = {
        "n_effective": None,
        "design_effect": 1.0,
        "segments": None,
        "class_segments": None,
    }
    _structure_record: ClassVar[Record | None] = STRUCTURE

    _curves: Sequence[CalibrationCurve | SegmentedCurve] = ()
    """Those of ``curves_``, with what segments add to them, if the fit knew any."""
    _class_segments: ClassSegments | None = None
    _fits: Sequence[FittedCurve] = ()
    structure_: StructuredMap
    histogram_: ScoreHistogram
    segment_histograms_: SegmentHistograms
    n_effective_: float
    design_effect_: float
    converged_: bool

    def interval(self, scores: Any, level: float = 0.95, *, simultaneous: bool = False, by: Any = None) -> Array:
        """Limits for the true calibrated probability at each score.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
        level : float in (0, 1), default=0.95
        simultaneous : bool, default=False
            True: limits that hold for all scores in the fitted range at once; for two classes only.
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row. For a segment never seen the limits are as wide as such segments differ. Of
            several classes it takes ``multiclass="ovr"`` or ``"top"``.

        Returns
        -------
        array of shape (n, 2), or (n, n_classes, 2) for three or more classes
            Lower and upper limit; of several classes, of the probability of each.

        Notes
        -----
        Of several classes limits come from the posterior of the fit, by the delta method on the log-odds of each class
        against the others. With ``multiclass="top"`` the curve is that of the most probable class; limits of the others
        move with it and take as given how they share the rest. There is none for ``loss="brier"``: a spline of the
        probability itself misses how it bends near 0 and 1, by more than a variance about the fit says.
        """
        check_fitted(self)
        if self.curves_ and self.curves_[0].link != "logit":
            raise ValueError(
                'interval needs loss="log"; bands about a fit by loss="brier" would not hold what they say'
            )
        many = len(self.classes_) > 2
        if many and simultaneous:
            raise ValueError("simultaneous must be False for more than two classes")
        level = check_number(level, "level", above=0.0, below=1.0)
        checked = self._check_scores(scores)
        segments = {} if by is None else {"codes": self.codes_of(by, len(checked.values))}
        if many:
            return self._limits_of_classes(checked, level, segments)
        band = self._curves[0].band(checked, level, simultaneous=simultaneous, **segments)
        return band if self.shift_ is None else self.shift_.apply_band(band, level)

    def _limits_of_classes(self, matrix: MatrixScores, level: float, segments: dict[str, Any]) -> Array:
        """The log-odds of each class, and on either side as many standard deviations as the level asks for."""
        if self._class_segments is not None:
            raise ValueError('interval knows segments (by=) of several classes only with multiclass="ovr" or "top"')
        p, critical = self._many(matrix, **segments), float(scipy.special.ndtri(0.5 + 0.5 * level))
        if self.shift_ is not None:
            p = self.shift_.apply(p)
        if not self.curves_:
            deviation = np.sqrt(self.structure_.log_odds_variance(matrix, p))
        else:
            columns = self._columns(matrix, top=len(self.curves_) == 1)
            deviation = np.empty((len(p), columns.n_classes))
            for j, curve in enumerate(self._curves):
                band = curve.band(columns[j], level, **segments)
                deviation[:, j] = np.diff(scipy.special.logit(band))[:, 0] / (2.0 * critical)
            deviation = columns.spread(p, deviation)
        if self.shift_ is not None:
            deviation = np.hypot(deviation, self.shift_.log_odds_errors)
        return limits(p, critical * deviation)

    def sum_variance(self, scores: Any, weights: Array) -> float:
        """Of three or more classes, the variance of a weighted sum of the log-probabilities before they are normalised.

        Curves against the rest do not know how their errors go together, and have none.
        """
        variance = 0.0 if self.curves_ else self.structure_.sum_variance(self._check_scores(scores), weights)
        errors = 0.0 if self.shift_ is None else self.shift_.log_odds_errors
        return variance + float(((weights.sum(axis=0) * errors) ** 2).sum())

    def formula(self) -> Formula:
        """What it computes, in terms that the exports write."""
        formula = super().formula()
        if not self.segment_columns:
            return formula
        found = lookups(self._segmented) if self._class_segments is None else self._class_segments.lookups
        return replace(formula, lookups=[lookup.restricted(formula.program.names) for lookup in found])

    def _two_program(self, source: Source) -> Program:
        return self._curves[0].program(source)

    @property
    def _segmented(self) -> list[SegmentedCurve]:
        return [curve for curve in self._curves if isinstance(curve, SegmentedCurve)]

    @property
    def segment_columns(self) -> Sequence[SegmentColumn]:
        """The columns of segments that the fit knew, if any."""
        if self._class_segments is not None:
            return self._class_segments.columns
        return self._segmented[0].columns if self._segmented else ()

    @property
    def segments_(self) -> SegmentTable:
        """What was learnt of each segment; only a fit with ``by`` has it."""
        if not self.segment_columns:
            raise AttributeError(f"this {type(self).__name__} was fitted without segments, and has no segments_")
        if len(self._segmented) < 2:
            return SegmentTable.of(self.segment_columns)
        columns = [column for curve in self._segmented for column in curve.columns]
        return SegmentTable.of(columns, self.classes_.tolist())

    def warn_without_segments(self) -> None:
        """Warn where scores of a calibrator with segments come without them, and nobody asked for that."""
        if self.segment_columns:
            warn_user(
                "this calibrator was fitted with segments (by=), and these scores come without: all of them get the "
                "probability of a new segment"
            )

    def places_of(self, by: Any, n: int) -> SegmentCodes:
        """The places of rows' segments among those of the fit; methods take them as ``by``, without a warning."""
        known = self.segment_columns
        columns = check_by(by, n).like([one.name for one in known]).columns
        return SegmentCodes([one.known.codes(column) for one, column in zip(known, columns, strict=True)])

    def codes_of(self, by: Any, n: int) -> list[Codes]:
        """The place of each row's segment among those of the fit, in each column; one never seen is -1."""
        if isinstance(by, SegmentCodes):
            return by.codes
        if not self.segment_columns:
            return super().codes_of(by, n)  # type: ignore[no-any-return]
        places = self.places_of(by, n)
        warn_of_new(places.n_new, n)
        return places.codes

    def _many(self, scores: MatrixScores, **segments: Any) -> Array:
        if self.curves_:
            maps = [partial(curve.evaluate, **segments) for curve in self._curves]
            return combine(maps, self._columns(scores, top=len(maps) == 1))
        p = self.structure_.probabilities(scores)
        return p if self._class_segments is None else self._class_segments.probabilities(p, **segments)

    def _columns(self, scores: MatrixScores, *, top: bool) -> AgainstRest:
        """What curves are of: each class's score against the rest, or that of the most probable class."""
        return (TopAgainstRest if top else AgainstRest)(scores, self.transform)

    def _many_program(self) -> Program:
        if not self.curves_:
            program = self.structure_.program(self.kind_)
            return program if self._class_segments is None else self._class_segments.program(program)
        programs = [curve.program("pair") for curve in self._curves]
        if len(programs) == 1:
            return top_against_rest(programs[0], logits=self.kind_ == "margin")
        if self.kind_ == "margin":
            return one_vs_rest(programs, "log_softmax", LEAST_LOG_PROBABILITY)
        return one_vs_rest(programs)

    def _absorb(self, shift: Shift) -> None:
        if len(self.classes_) == 2 and not self.segment_columns and self.curves_[0].link == "logit":
            self._move(shift.log_odds, shift.variance)
            shift = replace(shift, inside=True)
        self.shift_ = shift

    def unshifted(self) -> Self:
        """A copy without the shift."""
        plain, shift = super().unshifted(), self.shift_
        if shift is not None and shift.inside:
            plain._move(-shift.log_odds, -shift.variance)
        return plain

    def _move(self, log_odds: float, variance: float) -> None:
        self._set_fits([replace(self._fits[0], curve=self.curves_[0].shifted(log_odds, variance))])

    def _fit_many(self, scores: MatrixScores, codes: NDArray[np.intp], rows: LabelledRows, options: Recipe) -> None:
        steady = self.monotone is True and self.multiclass == "structured"
        alike = not steady and not np.ptp(scores.values, axis=0).any()
        if alike:
            warn_user(ALL_EQUAL)
        weight, grouped = rows.weight, None
        total = float(len(codes) if weight is None else weight.sum())
        with one_blas_thread():
            if rows.groups is not None:
                grouped = GroupedRows(weight, rows.groups)
                columns = self._columns(scores, top=self.multiclass == "top")
                effect = classes_design_effect(columns, columns.codes(codes), grouped)
                options = replace(options, design_effect=effect)
            if self.multiclass != "structured" or alike:  # of equal scores a curve per class makes the base rates
                columns = self._columns(scores, top=self.multiclass == "top")
                codes, options = columns.codes(codes), columns.recipe(options)
                fits, counts = fit_one_vs_rest(columns, codes, weight, options, grouped), []
                for j in range(0 if rows.by is None else columns.n_classes):
                    one = columns[j], codes == j, weight
                    counts.append(SegmentHistograms.collect(ScoreHistogram.collect(*one), *one, rows.by))
                self.set_curves(fits, options, total, counts)
            else:
                structure, segments = fit_structure(scores, codes, weight, options), None
                if rows.by is not None:
                    p = structure.probabilities(scores)
                    segments = fit_class_segments(scores, p, codes, weight, rows.by, options)
                self._set_structure(structure, segments)
                self._set_worth(total, options)
        self.__dict__.pop("histogram_", None)  # of an earlier fit of another kind

    def _set_structure(self, structure: StructuredMap, segments: ClassSegments | None = None) -> None:
        """Take a fitted map of all classes, and what segments add to it."""
        self._fits, self.curves_, self._curves = [], [], []
        self.structure_, self._class_segments = structure, segments
        self.smoothing_ = strength = float(structure.strengths[-1])
        self.smoothing_path_ = {"smoothing": np.array([strength]), "criterion": np.array([np.nan])}
        self.edf_ = 1.0 + float(structure.effective.sum())
        self.transform_, self.epsilon_ = "log", None
        self.knots_ = np.exp(structure.breaks)
        self._set_converged(structure.converged, 0)

    def summary(self) -> str:
        """What was fitted, in a few lines.

        Examples
        --------
        >>> from calspline import SplineCalibrator
        >>> print(SplineCalibrator().fit([0.1, 0.3, 0.6, 0.8, 0.9], [0, 0, 1, 0, 1]).summary())
        SplineCalibrator for 2 classes, on probabilities
          logit: smoothing 0.0577, 0.4 effective degrees of freedom, increasing
        """
        check_fitted(self)
        what = "probabilities" if self.kind_ == "probability" else "margins"
        lines = [f"{type(self).__name__} for {len(self.classes_)} classes, on {what}"]
        for j, fit in enumerate(self._fits):
            name = "" if len(self._fits) == 1 else f"{self.classes_[j]}: "
            falls = " and ".join(f"from {low:.3g} to {high:.3g}" for low, high in fit.curve.falls())
            shape = f"falls {falls}" if falls else "increasing"
            lines.append(
                f"  {name}{fit.curve.transform.name}: smoothing {fit.smoothing:.3g}, "
                f"{fit.edf:.1f} effective degrees of freedom, {shape}"
            )
        if not self._fits:
            lines += self.structure_.describe()
        if self.segment_columns:
            lines += self.segments_.describe()
        return "\n".join(lines)

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"fits": [fit.to_dict() for fit in self._fits]}
        if np.isfinite(self.n_effective_):  # else a file of version 0.1.0 did not say
            facts |= {"n_effective": self.n_effective_, "design_effect": self.design_effect_}
        if self._segmented:
            facts["segments"] = [curve.to_dict() for curve in self._segmented]
        if self._class_segments is not None:
            facts["class_segments"] = self._class_segments.to_dict()
        return facts

    def _structure(self) -> dict[str, Any] | None:
        return None if self.curves_ else self.structure_.to_dict()

    def _restore(self, facts: dict[str, Any], curves: list[CalibrationCurve], structure: Any, n_classes: int) -> None:
        self.design_effect_ = facts["design_effect"]
        self.n_effective_ = np.nan if facts["n_effective"] is None else facts["n_effective"]
        if len(facts["fits"]) != len(curves):
            raise ValueError("fits and curves must be lists of the same length")
        if structure is None:
            fits = [FittedCurve.restored(curve, fit) for curve, fit in zip(curves, facts["fits"], strict=True)]
            if len(fits) != (1 if n_classes == 2 or self.multiclass == "top" else n_classes):
                raise ValueError(f"curves must be one for two classes, or one per class; got {len(fits)}")
            segments = facts["segments"] or []
            if segments and len(segments) != len(curves):
                raise ValueError("segments and curves must be lists of the same length")
            self._set_fits(fits, list(map(SegmentedCurve.restored, curves, segments)))
        else:
            shared, added = StructuredMap.from_dict(structure), facts["class_segments"]
            if len(shared.b) != n_classes or curves:
                raise ValueError("structure must be one for the classes, without curves")
            self._set_structure(shared, None if added is None else ClassSegments.restored(added, n_classes))
