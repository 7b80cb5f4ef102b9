"""A transform needs only its entry; what evaluators do not know, they say."""

from dataclasses import replace

import duckdb
import numpy as np
import pytest
import torch

from calspline import SigmoidCalibrator
from calspline._expression import call
from calspline.export import to_python, to_sql, to_torch
from calspline.maps.curve import line
from calspline.transforms import TRANSFORMS, Definition, Transform

ROOT = Definition(
    "root",
    formula=lambda p, u, _: call("sqrt", p),
    inverse=lambda x, _: x**2,
    slope=lambda p, u, _: 0.5 / np.sqrt(p),
    unchanged=None,
)
SCORES = [0.04, 0.25, 0.64]


@pytest.fixture
def calibrator(monkeypatch):
    monkeypatch.setitem(TRANSFORMS, "root", ROOT)
    fitted = SigmoidCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    curve = line(Transform("root"), 2.0, -1.0)
    fitted.model_ = replace(fitted.model_, map=curve)
    return fitted


def expected():
    return 1.0 / (1.0 + np.exp(1.0 - 2.0 * np.sqrt(SCORES)))


def test_arrays_tensors_and_sql_have_its_formula(calibrator):
    np.testing.assert_allclose(calibrator.calibrate(SCORES), expected(), rtol=1e-12)
    tensor = torch.tensor(SCORES, dtype=torch.float64)
    np.testing.assert_allclose(calibrator.calibrate(tensor), expected(), rtol=1e-12)
    connection = duckdb.connect()
    query = f"SELECT {to_sql(calibrator, 'p')} FROM (SELECT unnest(?) AS p)"
    rows = connection.execute(query, [SCORES]).fetchall()
    np.testing.assert_allclose([p for (p,) in rows], expected(), rtol=1e-12)


def test_exports_that_do_not_know_it_say_so(calibrator):
    with pytest.raises(TypeError, match="the scale 'root' has no evaluator"):
        to_torch(calibrator)
    with pytest.raises(TypeError, match="the scale 'root' has no table for source"):
        to_python(calibrator)
