"""The contract for bad and odd input, over every calibrator: tests carry the numbers of its cases.

``cal`` is an unfitted calibrator and ``problem`` data of two classes, or of three. What a method promises
differently is said in the test.
"""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone

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
    "top": SplineCalibrator(multiclass="top"),
    "brier": SplineCalibrator(loss="brier", multiclass="ovr"),
    "paper1": SplineCalibrator.paper(1, multiclass="ovr", n_knots=10, smoothing_grid=COARSE),
    "paper2": SplineCalibrator.paper(2, multiclass="ovr", n_knots=10, smoothing_grid=COARSE),
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


@dataclass(frozen=True)
class Problem:
    """Scores, labels, and more scores to calibrate."""

    scores: np.ndarray
    y: np.ndarray
    grid: np.ndarray

    @property
    def n_classes(self):
        return 2 if self.scores.ndim == 1 else self.scores.shape[1]

    @property
    def margins(self):
        """The scores as margins, some outside [0, 1]."""
        return np.log(self.scores / (1 - self.scores)) if self.n_classes == 2 else 5.0 + np.log(self.scores)

    def fit(self, cal):
        """The calibrator, fitted to these scores: once in a session, then copied."""
        key = str(type(cal)), str(cal.get_params()), id(self)
        if key not in FITS:
            FITS[key] = clone(cal).fit(self.scores, self.y)
        vars(cal).update(copy.deepcopy(vars(FITS[key])))
        return cal

    def changed(self, value, row=3):
        """The scores with one of them replaced."""
        out = np.array(self.scores, dtype=object if value is None or isinstance(value, str) else float)
        out[(row,) + (0,) * (out.ndim - 1)] = value
        return out


def _problem(m, n=60):
    rng = np.random.default_rng(m)
    z = rng.normal(0, 1.5, (n, m))
    y = (z / 2 + rng.gumbel(size=(n, m))).argmax(axis=1)
    p, grid = softmax(z, axis=1), softmax(rng.normal(0, 3, (101, m)), axis=1)
    if m == 2:
        return Problem(p[:, 1], y, np.append(grid[:, 1], [0.0, 1.0]))
    return Problem(p, y, np.vstack([grid, np.eye(m)]))


PROBLEMS = {"two": _problem(2), "three": _problem(3)}


def one_of_each_class():
    """The names of the calibrators; `make check` leaves out those that differ by their options only."""
    seen = set()
    for name, cal in CALIBRATORS.items():
        yield pytest.param(name, marks=[pytest.mark.slow] if type(cal) in seen else [])
        seen.add(type(cal))


@pytest.fixture(params=one_of_each_class())
def cal(request):
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
    """Of two classes ``transform="identity"`` takes any number, fitted on probabilities or not."""
    return getattr(cal, "transform", None) == "identity" and problem.n_classes == 2


@pytest.fixture
def takes_margins(cal):
    """Whether scores outside [0, 1] are taken for margins at fit."""
    return not isinstance(cal, ClippingCalibrator) and getattr(cal, "transform", "auto") in ("auto", "identity")


@pytest.fixture
def check():
    """Probabilities are finite, inside (0, 1), and sum to one."""

    def proper(p, shape=None):
        assert np.all((p > 0) & (p < 1))
        assert shape is None or p.shape == shape
        if p.ndim == 2 and p.shape[1] > 1:
            np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)

    return proper
