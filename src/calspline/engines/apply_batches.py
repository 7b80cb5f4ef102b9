"""Calibrated probabilities by numpy: whole columns in memory, or batch by batch in engines that are lazy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from calspline.arrays import Array

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]


@dataclass(frozen=True)
class Calibrate:
    """Columns of scores in, columns of probabilities out; NaN for a row that lacks a score.

    An object of its own, so that engines can send it to their workers.
    """

    calibrator: Any
    columns: list[str]
    outputs: list[str]

    def __call__(self, scores: list[Array]) -> list[Array]:
        """Calibrated probabilities of the second of two classes, or of all."""
        matrix = np.column_stack(scores) if len(scores) > 1 else scores[0]
        absent = np.isnan(matrix) if matrix.ndim == 1 else np.isnan(matrix).any(axis=1)
        if not absent.any():
            return self._probabilities(matrix)
        parts = self._probabilities(matrix[~absent])
        out = [np.full(len(matrix), np.nan) for _ in parts]
        for whole, part in zip(out, parts, strict=True):
            whole[~absent] = part
        return out

    def _probabilities(self, matrix: Array) -> list[Array]:
        p = self.calibrator.calibrate(matrix)
        if p.ndim == 1:
            return [p]
        return [p[:, 1]] if len(self.outputs) == 1 else list(p.T)

    def pandas(self, frame: Any) -> Any:
        """A pandas frame with the new columns."""
        found = self([frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in self.columns])
        return frame.assign(**dict(zip(self.outputs, found, strict=True)))

    def polars(self, struct: Any) -> Any:
        """A polars series of structs with the new columns."""
        import polars as pl

        found = self([struct.struct.field(name).cast(pl.Float64).to_numpy() for name in self.columns])
        columns = [pl.Series(name, p, nan_to_null=True) for name, p in zip(self.outputs, found, strict=True)]
        return pl.DataFrame(columns).to_struct(struct.name)

    def arrow(self, batch: Any) -> list[Any]:
        """The new columns of an Arrow table or batch, as Arrow arrays."""
        import pyarrow as pa

        scores = [batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in self.columns]
        return [pa.array(p, from_pandas=True) for p in self(scores)]

    def spark(self, parts: Iterator[Any]) -> Iterator[Any]:
        """Arrow batches with the new columns."""
        import pyarrow as pa

        for batch in parts:
            names = [*batch.schema.names, *self.outputs]
            yield pa.RecordBatch.from_arrays([*batch.columns, *self.arrow(batch)], names=names)


def add_columns(frame: Frame, calibrator: Any, columns: list[str], outputs: list[str]) -> Any:
    """The native frame with calibrated columns."""
    function = Calibrate(calibrator, columns, outputs)
    native, engine = frame.to_native(), frame.implementation
    if engine.is_polars():
        return _polars(native, function)
    if engine.is_pyarrow():
        for name, values in zip(outputs, function.arrow(native), strict=True):
            native = native.append_column(name, values)
        return native
    if engine.is_dask():
        meta = native._meta.assign(**{name: np.empty(0) for name in outputs})
        return native.map_partitions(function.pandas, meta=meta)
    if engine.is_spark_like():
        return _spark(native, function)
    return function.pandas(native)


def _polars(native: Any, function: Calibrate) -> Any:
    import polars as pl

    kind = pl.Struct(dict.fromkeys(function.outputs, pl.Float64))
    # Chosen so that no column of the frame has it.
    name = "calibrated " + max(native.lazy().collect_schema().names(), key=len)
    whole = pl.struct(function.columns).map_batches(function.polars, return_dtype=kind, is_elementwise=True)
    return native.with_columns(whole.alias(name)).unnest(name)


def _spark(native: Any, function: Calibrate) -> Any:
    from pyspark.sql.types import DoubleType, StructField, StructType

    fields = [*native.schema.fields, *(StructField(name, DoubleType(), True) for name in function.outputs)]
    return native.mapInArrow(function.spark, StructType(fields))
