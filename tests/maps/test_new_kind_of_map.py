"""A kind of map needs only the abstract methods; what it lacks is said or made up for."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from calspline import SigmoidCalibrator
from calspline._expression import Program, between, name, number
from calspline.export import to_python, to_torch
from calspline.maps.base import CalibrationMap
from calspline.maps.model import Model


@dataclass(frozen=True)
class Step(CalibrationMap):
    """One probability below a half, another above."""

    low: float
    high: float

    def suits(self, kind, n_classes):
        return n_classes == 2

    def probabilities(self, scores, segments=None):
        return np.where(scores.values < 0.5, self.low, self.high)

    def formula(self, source, kind):
        p = name("p")
        return Program([], between(p, (0.5, 2.0), number(self.high), number(self.low)))

    def describe(self):
        return ["a step"]


@pytest.fixture
def stepped(monkeypatch):
    calibrator = SigmoidCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    monkeypatch.setattr(Model, "__post_init__", lambda model: None)
    calibrator.model_ = replace(calibrator.model_, map=Step(0.25, 0.75))
    return calibrator


def test_it_has_neither_errors_nor_segments_nor_curves(stepped):
    scores = stepped.model_.check([0.2, 0.7])
    step = stepped.model_.map
    assert stepped.calibrate([0.2, 0.7]).tolist() == [0.25, 0.75]
    assert step.log_odds(scores) is None
    assert step.noise(scores).shape == (0, 2)
    assert step.sum_variance(scores, np.ones(2)) == 0.0
    assert list(step.parts) == [step]
    assert (step.segment_columns, step.lookups) == ((), [])
    assert stepped.curves_ == []


def test_tensors_are_calibrated_by_numpy(stepped):
    p = stepped.calibrate(torch.tensor([0.2, 0.7], dtype=torch.float64))
    assert p.tolist() == [0.25, 0.75]


def test_exports_that_need_more_say_what(stepped):
    with pytest.raises(TypeError, match="a Step has no evaluator"):
        to_torch(stepped)
    with pytest.raises(TypeError, match="a Step has no table for source code"):
        to_python(stepped)


def test_formulas_have_finite_numbers():
    with pytest.raises(ValueError, match="must be finite; got inf"):
        number(np.inf)
    with pytest.raises(ValueError, match="limits in a formula must be finite"):
        between(name("p"), (0.5, np.inf), number(1.0), number(0.0))
