import numpy as np
import pytest

from calspline import apply_frame
from calspline.export.sql import in_stages


@pytest.fixture(scope="module")
def connection():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as made:
        yield made


def test_stages_agree_with_python(connection, case):
    values = case.scores.reshape(len(case.scores), -1)
    names = [case.columns] if isinstance(case.columns, str) else case.columns
    columns = dict(zip(names, map(np.ascontiguousarray, values.T), strict=True))
    connection.register("rows_of_case", {"n": np.arange(len(values))} | columns)
    calibrated = (
        apply_frame(connection.table("rows_of_case"), case.calibrator, score=names)
        .order("n")
        .fetchnumpy()
    )
    new = [calibrated[name] for name in calibrated if name not in (*names, "n")]
    got = new[0] if case.expected.ndim == 1 else np.column_stack(new)
    np.testing.assert_allclose(got, case.expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("name", ["logit", "isotonic", "ovr", "structured", "beta"])
def test_every_stage_uses_only_columns_of_those_below(fitted, name):
    calibrator = fitted(name)
    columns = ["score"] if len(calibrator.classes_) == 2 else ["a", "b", "c"]
    staged = in_stages(calibrator, columns, "duckdb", taken=columns)
    below = set()
    for stage in staged.stages:
        above = {f"stage_{k}" for k in range(1000)} - below
        assert not any(
            used in above for value in stage.values() for used in words(value)
        )
        below |= set(stage)
    assert all(set(words(result)) & below for result in staged.results)


def words(text):
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def test_classes_share_their_stages(fitted):
    staged = in_stages(fitted("ovr"), ["a", "b", "c"], "spark", taken=["a", "b", "c"])
    assert len(staged.results) == 3
    assert (
        sum(value.count("ln(") for stage in staged.stages for value in stage.values())
        == 2 * 3
    )
    assert not any("ln(" in result for result in staged.results)
