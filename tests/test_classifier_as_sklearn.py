"""scikit-learn's own checks and tests, run on our class."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from calspline import CalibratedClassifierCV

HERE = Path(__file__).parent

# These build scikit-learn's private pieces themselves, or are not about the class.
PRIVATE = [
    "test_calibration_zero_probability",
    "test_calibration_ensemble_false",
    "test_sigmoid_calibration",
    "test_temperature_scaling_input_validation",
    "test_calibration_curve",
    "test_calibration_display",
    "test_plot_calibration_curve",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        CalibratedClassifierCV(),
        CalibratedClassifierCV(LogisticRegression()),
        CalibratedClassifierCV(LogisticRegression(), ensemble=True),
        CalibratedClassifierCV(method="sigmoid"),
        CalibratedClassifierCV(LogisticRegression(), method="beta"),
        CalibratedClassifierCV(RandomForestClassifier(20, random_state=0), cv="oob", method="isotonic"),
    ],
    ids=repr,
)
def test_check_estimator_passes_without_exceptions(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [(r["check_name"], str(r["exception"])) for r in results if r["status"] in ("failed", "xfail")]
    assert not failed
    assert len(results) > 40


def test_their_own_tests_pass_with_our_class():
    unless = " and ".join(f"not {name}" for name in PRIVATE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "sklearn_shim", "-p", "no:cacheprovider", "-k", unless]
    done = subprocess.run(
        [*command, "--pyargs", "sklearn.tests.test_calibration"],
        capture_output=True,
        text=True,
        cwd="/",
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 60
