"""How many files of the package a call goes through: a reader who follows it opens as many."""

import sys
from pathlib import Path

import numpy as np

import calspline
from calspline import SplineCalibrator

SOURCE = Path(calspline.__file__).parent
MAX_FILES_OF_A_FIT = 14


def files_entered(call):
    """Files of the package in which a function ran."""
    found = set()

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SOURCE):
            found.add(str(path.relative_to(SOURCE)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def test_a_fit_and_a_prediction_of_two_classes_go_through_few_files():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    y = rng.random(3000) < p**2
    calibrator = SplineCalibrator()
    calibrator.fit(p, y)  # so that no import counts
    found = files_entered(lambda: calibrator.fit(p, y).calibrate(p))
    assert {"calibrators/spline.py", "histogram.py", "curve.py"} <= found
    assert len(found) <= MAX_FILES_OF_A_FIT, sorted(found)
