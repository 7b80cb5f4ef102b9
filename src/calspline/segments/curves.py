"""A curve for each segment: the common one, and how each departs from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calspline.arrays import Array, chunks
from calspline.curve import CalibrationCurve
from calspline.fitting.basis import NaturalSpline, evaluate
from calspline.options import ListOf, Matrix, Record
from calspline.scores import BinaryScores
from calspline.segments.labels import Codes
from calspline.segments.table import SEGMENT_COLUMN, SegmentColumn

SEGMENTED = Record(
    "segmented",
    {
        "directions": Matrix(),
        "covariance": Matrix(),
        "alone": Matrix(),
        "columns": ListOf(SEGMENT_COLUMN, least=1),
    },
)
"""How segments depart from a common curve, in a file."""


@dataclass(frozen=True, eq=False)
class SegmentedCurve:
    """A common curve, and what segments add to it.

    Parameters
    ----------
    curve : CalibrationCurve
        The curve of a segment without effects of its own.
    directions : array of shape (K, m)
        Coefficients of the functions that segments differ by; m is 0 where none does. They are constant beyond the
        breaks of the curve.
    covariance, alone : arrays of shape (m, m)
        Posterior covariance of the common curve in these directions, and what it would be if no segment differed.
    columns : list of SegmentColumn
        Effects of one column of segments or of several, which are added up.
    """

    curve: CalibrationCurve
    directions: Array
    covariance: Array
    alone: Array
    columns: list[SegmentColumn]

    def evaluate(self, scores: BinaryScores, codes: Sequence[Codes] | None) -> Array:
        """Calibrated probabilities of checked scores.

        ``codes`` has the place of each row's segment in each column, -1 for one never seen; None is that for all rows.
        The probability of a segment never seen is the mean over what such segments may be, for a normal spread of
        log-odds close to ``eta / sqrt(1 + pi/8 var)`` (MacKay 1992).
        """
        if not self.directions.shape[1]:
            return self.curve.evaluate(scores)
        out = np.empty(len(scores))
        for rows in chunks(len(scores)):
            eta, R, _ = self._at(scores, rows, codes)
            spread = np.zeros(len(eta))
            for column, code in self._each(rows, codes):
                spread += np.where(code < 0, R**2 @ column.spread, 0.0)
            out[rows] = self.curve.respond(eta / np.sqrt(1.0 + np.pi / 8.0 * spread))
        return out

    def band_of(
        self, scores: BinaryScores, codes: Sequence[Codes] | None, level: float, *, simultaneous: bool
    ) -> Array:
        """Lower and upper limit at checked scores."""
        if not self.directions.shape[1]:
            return self.curve.band_of(scores, level, simultaneous=simultaneous)
        critical = self.curve.critical(level, simultaneous)
        out = np.empty((len(scores), 2))
        for rows in chunks(len(scores)):
            eta, R, rest = self._at(scores, rows, codes)
            variance = np.maximum(rest - _quadratic(R, self.alone), 0.0)
            own = _quadratic(R, self.covariance)
            for column, code in self._each(rows, codes):
                own += np.where(code < 0, R**2 @ column.spread, _quadratic(R, column.difference_of(code)))
            reach = critical * np.sqrt(variance + np.maximum(own, 0.0))
            out[rows, 0], out[rows, 1] = self.curve.respond(eta - reach), self.curve.respond(eta + reach)
        return out

    def _each(self, rows: slice, codes: Sequence[Codes] | None) -> list[tuple[SegmentColumn, Any]]:
        n = rows.stop - rows.start
        return [(column, np.full(n, -1) if codes is None else codes[k][rows]) for k, column in enumerate(self.columns)]

    def _at(self, scores: BinaryScores, rows: slice, codes: Sequence[Codes] | None) -> tuple[Array, Array, Array]:
        """Log-odds, directions, and the variance of the curve of all rows, at some scores."""
        z = self.curve.place(scores, rows)
        with np.errstate(over="ignore"):
            where = self.curve.cubic.locate(z)
            variance = np.zeros(len(z)) if self.curve.variance is None else evaluate(self.curve.variance, *where)
        eta, R = self.curve.value(z), evaluate(self._pieces, *where)
        for column, code in self._each(rows, codes):
            eta = eta + np.einsum("ij,ij->i", R, column.theta_of(code))
        return eta, R, variance

    @cached_property
    def _pieces(self) -> Array:
        return flat_beyond(self.curve.breaks, self.directions)

    def to_dict(self) -> dict[str, Any]:
        """How segments depart from the curve, as JSON values; the curve itself is stored with the others."""
        return {
            "directions": self.directions.tolist(),
            "covariance": self.covariance.tolist(),
            "alone": self.alone.tolist(),
            "columns": [column.to_dict() for column in self.columns],
        }

    @classmethod
    def restored(cls, curve: CalibrationCurve, read: dict[str, Any]) -> SegmentedCurve:
        """What :meth:`to_dict` described, checked as ``SEGMENTED``."""
        K = len(curve.breaks)
        T = read["directions"].reshape(K, -1) if not read["directions"].size else read["directions"]
        m = T.shape[-1]
        if T.shape != (K, m):
            raise ValueError(f"directions must have {K} rows; got shape {T.shape}")
        P, alone = (read[key].reshape(m, m) for key in ("covariance", "alone"))
        return cls(curve, T, P, alone, [SegmentColumn.restored(each, m) for each in read["columns"]])


def flat_beyond(breaks: Array, directions: Array) -> Array:
    """Local coefficients of functions given by those of B-splines; constant beyond the breaks."""
    pieces = NaturalSpline(breaks).pieces @ directions
    pieces[2, [0, -1]] = 0.0
    return np.asarray(pieces)


def _quadratic(R: Array, M: Array) -> Array:
    """``r' M r`` of each row, for one matrix or one a row."""
    return np.asarray(np.einsum("ij,ijk,ik->i", R, M, R) if M.ndim == 3 else np.einsum("ij,jk,ik->i", R, M, R))


@dataclass(frozen=True)
class InSegments:
    """The curves of rows whose segments are known, as one map of their scores."""

    curves: SegmentedCurve
    codes: Sequence[Codes] | None

    def evaluate(self, scores: BinaryScores) -> Array:
        """Calibrated probabilities of checked scores."""
        return self.curves.evaluate(scores, self.codes)
