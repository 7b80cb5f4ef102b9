"""A data frame and a dialect of SQL that the package does not know: each is one record, added from outside."""

import sqlite3
from dataclasses import replace

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from calspline import SplineCalibrator, apply_frame, fit_frame
from calspline.engines.backends import ENGINES, Engine
from calspline.engines.in_memory import array_rows
from calspline.export import to_sql
from calspline.export.dialects import DIALECTS


class Table(dict):
    """A toy data frame: lists by name."""


def open_table(frame):
    return nw.from_native(pd.DataFrame(frame)) if isinstance(frame, Table) else None


def assign(native, calibrate):
    found = calibrate([native[name].to_numpy(dtype=float) for name in calibrate.columns])
    return Table(native.to_dict("list")) | dict(zip(calibrate.outputs, map(np.ndarray.tolist, found), strict=True))


def select_in_sqlite(native, projections, outputs):
    """A toy database: rows go into SQLite, and the answers come back."""
    connection = sqlite3.connect(":memory:")
    native.to_sql("rows", connection, index=False)
    query = "rows"
    for projection in projections:
        query = f"(SELECT {', '.join(projection)} FROM {query})"
    return Table(pd.read_sql(f"SELECT * FROM {query}", connection).to_dict("list"))


@pytest.fixture
def table(data):
    return Table(data(800).to_dict("list"))


def expected(table):
    calibrator = SplineCalibrator().fit(table["p"], table["outcome"])
    return calibrator.calibrate(table["p"])


def test_a_data_frame_is_one_record(table, monkeypatch):
    monkeypatch.setitem(ENGINES, "toy", Engine("toy", array_rows, assign=assign, open=open_table))
    calibrator = fit_frame(table, score="p", label="outcome")
    found = apply_frame(table, calibrator, score="p")
    assert list(found) == [*table, "calibrated"]
    np.testing.assert_allclose(found["calibrated"], expected(table), rtol=0, atol=1e-12)


def test_a_dialect_is_one_record(table, monkeypatch):
    monkeypatch.setitem(DIALECTS, "toy", replace(DIALECTS["sqlite"], quote='"'))
    toy = Engine("toy", array_rows, select=select_in_sqlite, dialect=lambda native: "toy", open=open_table)
    monkeypatch.setitem(ENGINES, "toy", toy)
    calibrator = fit_frame(table, score="p", label="outcome")
    assert '"p"' in to_sql(calibrator, "p", dialect="toy")
    found = apply_frame(table, calibrator, score="p")
    np.testing.assert_allclose(found["calibrated"], expected(table), rtol=0, atol=1e-9)


def test_a_record_without_a_way_to_apply_is_refused(table, monkeypatch):
    monkeypatch.setitem(ENGINES, "toy", Engine("toy", array_rows, open=open_table))
    calibrator = fit_frame(table, score="p", label="outcome")
    with pytest.raises(TypeError, match="must have assign, or select and dialect"):
        apply_frame(table, calibrator, score="p")
