"""Degenerate input of numerical helpers: no information, no spread, no uncertainty."""

import numpy as np

from calspline._input.scores import check_binary_scores
from calspline.fitting.groups import _inverse, _lower_quantile
from calspline.fitting.new_segments import new_variance
from calspline.fitting.newton import DenseDesign, Problem, brier_loss, log_loss
from calspline.maps.curve import line
from calspline.transforms import Transform


def test_a_matrix_without_information_has_the_inverse_zero():
    assert _inverse(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)


def test_a_singular_matrix_has_its_pseudo_inverse():
    inverse = _inverse(1.0, 2.0, 4.0)
    matrix = np.array([[1.0, 2.0], [2.0, 4.0]])
    expected = np.linalg.pinv(matrix)
    np.testing.assert_allclose(inverse, expected[[0, 0, 1], [0, 1, 1]])


def test_squares_that_are_all_zero_say_nothing_of_their_mean():
    zeros = np.zeros(5)
    assert _lower_quantile(zeros, np.ones(5), np.ones(5)) == 1.0


def test_segments_without_information_have_no_variance_between_them():
    assert new_variance(np.zeros(3), np.zeros(3), usual=0.5) == 0.0


def test_losses_of_many_points_are_those_of_each():
    rng = np.random.default_rng(0)
    design = DenseDesign(rng.normal(size=(30, 2)))
    w = np.ones(30)
    s = rng.integers(0, 2, 30).astype(np.float64)
    U = rng.normal(size=(4, 2))
    for loss in (log_loss, brier_loss):
        problem = Problem(design, np.full(30, 0.5), w, s, loss)
        each = [problem.at(u).local.value for u in U]
        np.testing.assert_allclose(problem.values(U), each, rtol=1e-12)


def test_a_line_without_posterior_has_no_standard_deviations():
    curve = line(Transform("logit"), 1.0, 0.0)
    scores = check_binary_scores([0.2, 0.7])
    assert curve.log_odds(scores) is None
    assert curve.noise(scores).shape == (0, 2)
    assert curve.sum_variance(scores, np.ones((2, 2))) == 0.0
    assert curve.describe() == ["logit, increasing"]
