"""A dialect of SQL from outside this package is one record: everything else reads it."""

import dataclasses

import numpy as np
import pytest

from calspline.export import to_sql
from calspline.export.dialects import DIALECTS


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """SQLite by another name, which quotes as the standard has it."""
    monkeypatch.setitem(DIALECTS, "quoting_sqlite", dataclasses.replace(DIALECTS["sqlite"], quote='"'))


@pytest.mark.parametrize("name", ["logit", "identity", "ovr", "structured of logits", "softmax temperature"])
def test_it_runs(sqlite, fitted, name):
    calibrator = fitted(name)
    two = len(calibrator.classes_) == 2
    columns = ['sc"ore'] if two else ["a", 'b"', "c`"]
    rows = [[0.3], [0.9], [0.0]] if two else [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1], [1.0, 0.0, 0.0]]
    if calibrator.kind_ == "margin":
        rows = (4.0 * np.array(rows) - 2.0).tolist()
    found = to_sql(calibrator, columns[0] if two else columns, dialect="quoting_sqlite")
    got = sqlite.run([found] if two else found, columns, rows)
    expected = calibrator.calibrate(np.array(rows)[:, 0] if two else rows)
    np.testing.assert_allclose(got, np.reshape(expected, got.shape), rtol=0.0, atol=1e-9)


def test_lists_need_no_function_of_each_item(duckdb, fitted, monkeypatch):
    monkeypatch.setitem(DIALECTS, "without_each", dataclasses.replace(DIALECTS["duckdb"], each=None))
    calibrator, rows = fitted("structured"), [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]]
    got = duckdb.run(to_sql(calibrator, ["a", "b", "c"], dialect="without_each"), ["a", "b", "c"], rows)
    np.testing.assert_allclose(got, calibrator.calibrate(rows), rtol=0.0, atol=1e-9)


def test_it_quotes_in_its_own_way(fitted):
    assert '"score" BETWEEN -1e-06 AND 1.000001' in to_sql(fitted("logit"), "score", dialect="quoting_sqlite")
    assert "`score` BETWEEN -1e-06 AND 1.000001" in to_sql(fitted("logit"), "score", dialect="sqlite")


def test_it_is_a_choice_of_the_command_line():
    from calspline.cli.arguments import parser

    options = parser().parse_args(["export", "m.json", "--to", "sql", "--dialect", "quoting_sqlite"])
    assert options.dialect == "quoting_sqlite"


@pytest.mark.parametrize(("dialect", "expected"), [("duckdb", r"'it''s \ '"), ("spark", r"'it\'s \\ '")])
def test_strings_are_quoted_as_the_dialect_reads_them(dialect, expected):
    assert DIALECTS[dialect].literal("it's \\ ") == expected
