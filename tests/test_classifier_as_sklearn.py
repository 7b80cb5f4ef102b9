"""scikit-learn's own checks and tests, run on our class."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from calspline import CalibratedClassifierCV

HERE = Path(__file__).parent

# It asks for the exact 0 of isotonic regression; ours keeps 1e-15 away from 0 and 1, so
# that the log-loss exists. tests/test_classifier.py asks for the rest of it.
EXCEPT = "not (test_calibration_ensemble_false and isotonic)"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        CalibratedClassifierCV(),
        CalibratedClassifierCV(LogisticRegression(), ensemble=True, method="beta"),
    ],
    ids=repr,
)
def test_check_estimator_passes_without_exceptions(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [
        (r["check_name"], str(r["exception"]))
        for r in results
        if r["status"] in ("failed", "xfail")
    ]
    assert not failed
    assert len(results) > 40


@pytest.mark.process
def test_their_own_tests_pass_with_our_class():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "sklearn_shim",
        "-p",
        "no:cacheprovider",
        "-k",
        EXCEPT,
    ]
    done = subprocess.run(
        [*command, "--pyargs", "sklearn.tests.test_calibration"],
        capture_output=True,
        text=True,
        cwd="/",
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        },
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 80
