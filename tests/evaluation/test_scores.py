import numpy as np
import pytest
from sklearn import metrics

from calspline import evaluate


@pytest.mark.parametrize("ties", [False, True])
def test_scores_of_two_classes_are_scikit_learns(binary, weights, ties):
    p, y = binary(700, ties=ties, slope=1.7)
    w = weights(700)
    e = evaluate(y, p, sample_weight=w)
    assert e.log_loss == pytest.approx(
        metrics.log_loss(y, p, sample_weight=w), rel=1e-12
    )
    assert e.brier == pytest.approx(
        metrics.brier_score_loss(y, p, sample_weight=w), rel=1e-12
    )
    assert e.accuracy == pytest.approx(
        metrics.accuracy_score(y, p > 0.5, sample_weight=w), rel=1e-12
    )
    assert e.auc == pytest.approx(
        metrics.roc_auc_score(y, p, sample_weight=w), rel=1e-12
    )


def test_scores_of_more_classes_are_scikit_learns(multiclass, weights):
    p, y = multiclass(600, m=5, sharpness=1.5)
    w = weights(600)
    e = evaluate(y, p, sample_weight=w)
    assert e.log_loss == pytest.approx(
        metrics.log_loss(y, p, sample_weight=w), rel=1e-12
    )
    squared = ((p - np.eye(5)[y]) ** 2).sum(axis=1)
    assert e.brier == pytest.approx(np.average(squared, weights=w), rel=1e-12)
    assert e.accuracy == pytest.approx(
        metrics.accuracy_score(y, p.argmax(axis=1), sample_weight=w), rel=1e-12
    )
    area = metrics.roc_auc_score(
        y, p, multi_class="ovr", average="macro", sample_weight=w
    )
    assert e.auc == pytest.approx(area, rel=1e-12)


def test_the_multiclass_brier_score_is_scikit_learns_where_it_has_one(multiclass):
    p, y = multiclass(300)
    try:
        expected = metrics.brier_score_loss(y, p)
    except ValueError:
        pytest.skip("this scikit-learn has the Brier score of two classes only")
    assert evaluate(y, p).brier == pytest.approx(expected, rel=1e-12)


def test_what_happened_with_probability_0_counts_as_in_scikit_learn_and_is_reported():
    y, p = [0, 1, 1, 0], [0.0, 0.0, 0.8, 1.0]
    e = evaluate(y, p)
    assert e.log_loss == pytest.approx(metrics.log_loss(y, p), rel=1e-12)
    assert e.impossible_weight == 2.0
    assert "outcome had probability 0" in e.details()
    assert "probability 0" not in evaluate([0, 1], [0.0, 1.0]).details()
    many = evaluate(
        [0, 1, 2],
        [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]],
        sample_weight=[3, 1, 1],
    )
    assert many.impossible_weight == 3.0


def test_probabilities_of_0_and_1_that_came_true_cost_nothing():
    e = evaluate([0, 1, 1, 0], [0, 1, 1, 0])
    assert e.log_loss == pytest.approx(0.0, abs=1e-15)
    assert (e.brier, e.accuracy, e.auc) == (0.0, 1.0, 1.0)


def test_the_area_is_nan_where_only_one_class_occurs():
    assert np.isnan(evaluate([1, 1], [0.4, 0.6]).auc)


def test_the_multiclass_area_is_of_the_classes_that_occur(multiclass):
    p, y = multiclass(300, m=3)
    keep = y != 2
    e = evaluate(y[keep], p[keep])
    expected = np.mean(
        [metrics.roc_auc_score(y[keep] == j, p[keep, j]) for j in (0, 1)]
    )
    assert e.auc == pytest.approx(expected, rel=1e-12)
