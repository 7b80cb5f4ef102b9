"""Workers of others that die: the error is clear, or the work is done again."""

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from calspline import CalibratedClassifierCV

pytestmark = [pytest.mark.process, pytest.mark.thorough]


class Mortal(ClassifierMixin, BaseEstimator):
    """A classifier whose process is killed in its first fit."""

    def __init__(self, mark=None):
        self.mark = mark

    def fit(self, X, y):
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            self.model_ = LogisticRegression().fit(X, y)
            self.classes_ = self.model_.classes_
            return self
        os.kill(os.getpid(), signal.SIGKILL)
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


SCRIPT = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
from test_lost_workers import Mortal, problem
from calspline import CalibratedClassifierCV
from joblib.externals.loky.process_executor import TerminatedWorkerError

X, y = problem()
wrapper = CalibratedClassifierCV(Mortal({mark!r}), n_jobs=2, cv=3)
try:
    wrapper.fit(X, y)
except TerminatedWorkerError as error:
    print("terminated" in str(error), hasattr(wrapper, "classes_"))
np.save({out!r}, wrapper.fit(X, y).predict_proba(X))
"""


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, (rng.random(300) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)


def test_a_worker_killed_under_n_jobs_is_an_error_and_the_next_fit_works(
    alone, tmp_path
):
    mark, out = tmp_path / "mark", tmp_path / "out.npy"
    done = alone(
        "-c",
        SCRIPT.format(folder=str(Path(__file__).parent), mark=str(mark), out=str(out)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "False"]
    X, y = problem()
    expected = (
        CalibratedClassifierCV(Mortal(str(mark)), cv=3).fit(X, y).predict_proba(X)
    )
    np.testing.assert_allclose(np.load(out), expected, rtol=0, atol=1e-12)


def test_a_spark_executor_lost_in_the_middle_of_fit_and_apply_changes_nothing(
    alone, tmp_path
):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    done = alone(Path(__file__).with_name("losing_executors.py"), tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"]
    assert found["fit"] < 1e-9
    assert found["apply"] < 1e-9
    executors = [(tmp_path / name).read_text() for name in ("fit", "apply")]
    assert all("CoarseGrainedExecutorBackend" in command for command in executors)
    assert len(set(executors)) == 2
