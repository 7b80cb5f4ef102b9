"""Columns of scores calibrated by numpy: as arrays, in pandas, in Arrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np

from calspline._arrays import Array
from calspline._input.scores import (
    check_scores,
)
from calspline._input.segment_labels import SegmentCodes, warn_of_new
from calspline.engines.rows import float_column

IN_A_PART = (
    " (rows are counted from the beginning of a part of the frame, as it is computed "
    "in parts)"
)


@dataclass(frozen=True)
class Calibrate:
    """Columns of scores in, columns of probabilities out; NaN for missing scores.

    An object, so that engines can send it to their workers. It counts rows and those of
    new segments in ``tally``, so that a caller that sees all rows can warn once.
    Where it does not see the ``whole`` frame at once, errors say that the rows they
    name are counted in a part of it.
    """

    calibrator: Any
    columns: list[str]
    outputs: list[str]
    by: Sequence[str] = ()
    whole: bool = True
    tally: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if not self.by:
            self.calibrator.model_.warn_without_segments()

    def __call__(self, scores: list[Array], frame: Any = None) -> list[Array]:
        """Calibrated probabilities; ``frame`` has the columns of segments."""
        try:
            return self._calibrated(scores, frame)
        except (TypeError, ValueError) as error:
            if self.whole:
                raise
            raise type(error)(f"{error}{IN_A_PART}") from None

    def _calibrated(self, scores: list[Array], frame: Any) -> list[Array]:
        matrix = np.column_stack(scores) if len(scores) > 1 else scores[0]
        if not np.isnan(
            matrix.min(initial=np.inf)
        ):  # as a rule; one number is enough to tell
            return self._probabilities(matrix, self._segments(frame, slice(None)))
        absent = np.isnan(matrix) if matrix.ndim == 1 else np.isnan(matrix).any(axis=1)
        segments = self._segments(frame, ~absent)
        try:
            parts = self._probabilities(matrix[~absent], segments)
        except ValueError:
            # Once more with scores in place of what is missing, so that the row in the
            # message is that of the frame.
            whole = matrix.copy()
            whole[absent] = 1.0 / max(len(scores), 2)
            self._probabilities(whole, None)
            raise
        out = [np.full(len(matrix), np.nan) for _ in parts]
        for whole, part in zip(out, parts, strict=True):
            whole[~absent] = part
        return out

    def warn_of_new_segments(self) -> None:
        """Warn if the rows so far had segments that the fit has not seen."""
        warn_of_new(self.tally["new"], self.tally["rows"])

    def _segments(self, frame: Any, rows: Any) -> SegmentCodes | None:
        if not self.by:
            return None
        from calspline.engines.in_memory import frame_segments

        by = frame_segments(nw.from_native(frame, eager_only=True), self.by)
        assert by is not None
        places: SegmentCodes = self.calibrator.model_.find_segments(by).of(rows)
        self.tally.update(rows=len(places.codes[0]), new=places.n_new)
        return places

    def _probabilities(self, matrix: Array, places: SegmentCodes | None) -> list[Array]:
        scores = check_scores(matrix)
        p = self.calibrator.model_.probabilities(
            scores, places, self.calibrator._advice
        )
        return [p] if p.ndim == 1 else list(p.T)

    def scores_in(self, frame: Any) -> list[Array]:
        """Columns of scores of a frame in memory."""
        known = nw.from_native(frame, eager_only=True)
        return [float_column(known[name], "score") for name in self.columns]

    def pandas(self, frame: Any) -> Any:
        """A pandas frame with the new columns."""
        found = self(self.scores_in(frame), frame)
        return frame.assign(**dict(zip(self.outputs, found, strict=True)))

    def arrow(self, batch: Any) -> list[Any]:
        """The new columns of an Arrow table or batch, as Arrow arrays."""
        import pyarrow as pa

        columns = [batch.column(name) for name in self.columns]
        scores = [
            _doubles(one if one.type == pa.float64() else one.cast(pa.float64()))
            for one in columns
        ]
        if isinstance(batch, pa.RecordBatch):
            whole = pa.Table.from_batches([batch])
        else:
            whole = batch
        return [_arrow(p) for p in self(scores, whole)]

    def arrow_batches(self, parts: Iterator[Any]) -> Iterator[Any]:
        """Arrow batches with the new columns."""
        import pyarrow as pa

        for batch in parts:
            names = [*batch.schema.names, *self.outputs]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *self.arrow(batch)], names=names
            )


def _doubles(column: Any) -> Array:
    """An Arrow column of doubles as an array, NaN where it is null.

    The conversion of pyarrow would import pandas.
    """
    if hasattr(column, "chunks"):
        parts = [_doubles(chunk) for chunk in column.chunks]
    else:
        parts = []
    if parts or not len(column):
        return np.concatenate([np.empty(0), *parts])
    valid, values = column.buffers()
    rows = slice(column.offset, column.offset + len(column))
    numbers = np.frombuffer(values, dtype=np.float64)[rows]
    if not column.null_count:
        return numbers
    return np.where(
        np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")[rows]
        == 1,
        numbers,
        np.nan,
    )


def _arrow(p: Array) -> Any:
    """An array as an Arrow column, null where it is NaN."""
    import pyarrow as pa

    absent = np.isnan(p)
    if absent.any():
        valid = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    else:
        valid = None
    return pa.Array.from_buffers(
        pa.float64(), len(p), [valid, pa.py_buffer(np.ascontiguousarray(p))]
    )
