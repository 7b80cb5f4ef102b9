"""Fixtures for the contract: tests carry the numbers of its cases.

``cal`` is an unfitted calibrator, a spline and a baseline; ``each`` is every calibrator;
``problem`` has rows of two classes, or of three.
"""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from tests.faults.table import Rows, good_rows, put

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
)

COARSE = [0.01, 1.0, 100.0]
"""Strengths for cross-validation to choose from: the default ones take ten times as long and accept the same input."""
FITS = {}
CALIBRATORS = {
    "spline": SplineCalibrator(),
    "monotone": SplineCalibrator(monotone=True),
    "ovr": SplineCalibrator(multiclass="ovr"),
    "brier": SplineCalibrator(loss="brier", multiclass="ovr"),
    "paper1": SplineCalibrator.paper(
        1, multiclass="ovr", n_knots=10, smoothing_grid=COARSE
    ),
    "paper2": SplineCalibrator.paper(
        2, multiclass="ovr", n_knots=10, smoothing_grid=COARSE
    ),
    "sigmoid": SigmoidCalibrator(),
    "sigmoid_on_probability": SigmoidCalibrator(on="probability"),
    "isotonic": IsotonicCalibrator(),
    "beta": BetaCalibrator(),
    "beta_am": BetaCalibrator(parameters="am"),
    "beta_ab": BetaCalibrator(parameters="ab"),
    "temperature": TemperatureCalibrator(),
    "clipping": ClippingCalibrator(),
    "clipping_fixed": ClippingCalibrator(p_min=0.02),
}


REPRESENTATIVE = ["spline", "beta"]
"""What meets every case: all calibrators check rows and write files by the same functions."""
OTHERS = [name for name in CALIBRATORS if name not in REPRESENTATIVE]


class Problem(Rows):
    """Rows of the table, and fits to them."""

    def fit(self, cal):
        """The calibrator, fitted to these scores: once in a session, then copied."""
        key = str(type(cal)), str(cal.get_params()), id(self)
        if key not in FITS:
            FITS[key] = clone(cal).fit(self.scores, self.y)
        vars(cal).update(copy.deepcopy(vars(FITS[key])))
        return cal

    def changed(self, value, row=3):
        """The scores with one of them replaced."""
        return put(self.scores, row, value)


def _problem(m, n=60):
    rows = good_rows(m, n)
    return Problem(rows.scores, rows.y, rows.grid)


PROBLEMS = {"two": _problem(2), "three": _problem(3)}


@pytest.fixture(params=REPRESENTATIVE)
def cal(request):
    return clone(CALIBRATORS[request.param])


@pytest.fixture(params=CALIBRATORS)
def each(request):
    """Every calibrator."""
    return clone(CALIBRATORS[request.param])


@pytest.fixture
def calibrators():
    """All of them, by name."""
    return {name: clone(cal) for name, cal in CALIBRATORS.items()}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


@pytest.fixture
def two():
    return PROBLEMS["two"]


@pytest.fixture
def three():
    return PROBLEMS["three"]


@pytest.fixture
def any_score_goes(cal, problem):
    """Of two classes ``scale="identity"`` takes any number, fitted on probabilities or not."""
    return getattr(cal, "scale", None) == "identity" and problem.n_classes == 2


@pytest.fixture
def takes_margins(cal):
    """Whether scores outside [0, 1] are taken for margins at fit."""
    return not isinstance(cal, ClippingCalibrator) and getattr(
        cal, "scale", "auto"
    ) in ("auto", "identity")


@pytest.fixture
def check():
    """Probabilities are finite, inside (0, 1), and sum to one."""

    def proper(p, shape=None):
        assert np.all((p > 0) & (p < 1))
        assert shape is None or p.shape == shape
        if p.ndim == 2 and p.shape[1] > 1:
            np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)

    return proper
