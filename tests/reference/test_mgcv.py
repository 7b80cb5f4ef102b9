"""Agreement with mgcv, an independent implementation of the same model.

The reference values are of penalised cubic regression splines with REML, as
``mgcv.json`` says; ``python tests/reference/make_mgcv.py`` makes them anew.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from calspline import SplineCalibrator
from calspline.fits import curve

HERE = Path(__file__).resolve().parent
REFERENCE: dict[str, Any] = json.loads((HERE / "mgcv.json").read_text(encoding="utf-8"))
MODULE = runpy.run_path(str(HERE / "cases.py"))
CASES, generate, log_loss = MODULE["CASES"], MODULE["generate"], MODULE["log_loss"]

LOG_LOSS_LIMIT = 2e-4
MEDIAN_LIMIT = 0.01
BASIS_SIZES = ["10", "24"]
"""mgcv's default, and calspline's own up to 10,000 rows."""


@pytest.fixture(scope="module", params=list(CASES))
def comparison(
    request: pytest.FixtureRequest,
) -> tuple[Any, dict[str, Any], SplineCalibrator]:
    data = generate(CASES[request.param])
    # mgcv takes the most likely smoothing, and does not average.
    with patch.object(curve, "SPREADS", None):
        calibrator = SplineCalibrator(scale="logit", monotone=False).fit(
            data.scores, data.y
        )
    return data, REFERENCE["cases"][request.param], calibrator


def test_the_reference_is_of_these_cases() -> None:
    assert list(REFERENCE["cases"]) == list(CASES)


def test_the_data_are_those_the_reference_was_made_from(comparison: Any) -> None:
    data, reference, _ = comparison
    assert len(data.y) == reference["rows"]
    assert data.y.sum() == reference["positives"]
    assert data.test_y.sum() == reference["test_positives"]
    np.testing.assert_allclose(
        np.quantile(data.scores, np.linspace(0.005, 0.995, 101)),
        reference["scores"],
        atol=1e-9,
    )


@pytest.mark.parametrize("size", BASIS_SIZES)
def test_the_test_log_loss_is_that_of_mgcv(comparison: Any, size: str) -> None:
    data, reference, calibrator = comparison
    ours = log_loss(calibrator.calibrate(data.test_scores), data.test_y)
    assert ours == pytest.approx(
        reference["fits"][size]["test_log_loss"], rel=0.0, abs=LOG_LOSS_LIMIT
    )


@pytest.mark.parametrize("size", BASIS_SIZES)
def test_the_curve_is_that_of_mgcv(comparison: Any, size: str) -> None:
    _, reference, calibrator = comparison
    difference = np.abs(
        calibrator.calibrate(reference["scores"]) - reference["fits"][size]["p"]
    )
    assert np.median(difference) <= MEDIAN_LIMIT
