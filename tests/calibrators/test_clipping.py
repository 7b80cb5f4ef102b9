import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from calspline import ClippingCalibrator
from calspline._input.scores import check_scores

PAPERS = [0.01, 0.001, 0.0001, 0.00001]


def clipped(p, p_min):
    """As the paper words it: a minimum probability for every class, then re-normalise."""
    out = np.where(p < p_min, p_min, p)
    return out / out.sum(axis=1, keepdims=True)


def simulate(n, sharpness, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.2, (n, 4))
    return softmax(sharpness * z, axis=1), (z + rng.gumbel(size=(n, 4))).argmax(axis=1)


@pytest.mark.parametrize("p_min", [0.2, 0.01, 1e-5])
def test_it_floors_and_normalises(p_min):
    p, y = simulate(300, 6)
    cal = ClippingCalibrator(p_min).fit(p, y)
    assert cal.p_min_ == p_min
    np.testing.assert_allclose(cal.predict_proba(p), clipped(p, p_min), atol=1e-15)


def test_two_classes_in_one_column_and_in_two():
    p = np.array([0.0, 0.004, 0.5, 0.999])
    cal = ClippingCalibrator(0.01).fit(p, [0, 1, 0, 1])
    pair = np.column_stack([1 - p, p])
    np.testing.assert_allclose(cal.calibrate(pair), clipped(pair, 0.01), atol=1e-15)
    np.testing.assert_allclose(cal.calibrate(p), clipped(pair, 0.01)[:, 1], atol=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sharpness", [1.0, 3.0, 8.0, 30.0])
def test_the_best_of_the_papers_four_has_the_least_log_loss(sharpness, weighted):
    p, y = simulate(400, sharpness)
    w = np.random.default_rng(1).uniform(0, 3, 400) if weighted else None
    losses = [log_loss(y, clipped(p, p_min), sample_weight=w) for p_min in PAPERS]
    best = ClippingCalibrator().fit(p, y, w).p_min_
    assert losses[PAPERS.index(best)] == pytest.approx(min(losses), rel=1e-12)


def test_of_equals_the_smallest_floor_is_taken():
    assert ClippingCalibrator().fit([0.2, 0.4, 0.6], [0, 1, 1]).p_min_ == 1e-5


def test_the_more_over_confident_the_higher_the_floor():
    p = np.full(10_000, 0.0005)
    for positives, floor in ((5, 0.00001), (20, 0.001), (200, 0.01)):
        assert (
            ClippingCalibrator().fit(p, np.arange(10_000) < positives).p_min_ == floor
        )


def test_margins_are_refused():
    for y, scores in (([0, 1], [-1.0, 2.0]), ([0, 1, 2], -np.eye(3))):
        with pytest.raises(
            ValueError,
            match=r"scores must be probabilities.*row 0 is -1\. Clipping is for probabilities",
        ):
            ClippingCalibrator().fit(scores, y)
    with pytest.raises(ValueError, match="got margins"):
        ClippingCalibrator()._fit_scores(
            check_scores([0.2, 0.4]), [0, 1], classes=np.array([0, 1]), margins=True
        )
