import numpy as np
import pytest

from calspline import evaluate
from calspline._arrays import Counts
from calspline.evaluation.calibration_error import ece, equal_width_bins


def by_definition(p, y, bin_of_row):
    total = 0.0
    for b in np.unique(bin_of_row):
        inside = bin_of_row == b
        total += inside.mean() * abs(y[inside].mean() - p[inside].mean())
    return total


def test_the_ece_on_bins_of_equal_width_is_the_definition(binary):
    p, y = binary(400, slope=2.0)
    assert evaluate(y, p).ece == pytest.approx(
        by_definition(p, y, np.minimum(p * 15, 14).astype(int)), abs=1e-14
    )


def test_the_multiclass_ece_is_that_of_the_most_probable_class(multiclass):
    p, y = multiclass(400, sharpness=2.0)
    confidence, right = p.max(axis=1), (p.argmax(axis=1) == y).astype(int)
    e, top = evaluate(y, p), evaluate(right, confidence)
    for name in ("ece", "ece_debiased", "smooth_ece", "base_rate"):
        assert getattr(e, name) == getattr(top, name)
    classes = [evaluate(y == j, p[:, j]) for j in range(4)]
    assert e.class_wise_ece == pytest.approx(
        np.mean([one.ece for one in classes]), abs=1e-14
    )
    assert e.class_wise_ece_debiased == pytest.approx(
        np.mean([one.ece_debiased for one in classes]), abs=1e-14
    )
    assert e.class_wise_smooth_ece == pytest.approx(
        np.mean([one.smooth_ece for one in classes]), abs=1e-14
    )


def unclipped(f, cell):
    """The debiased estimate before it is kept from going below zero: the sum over bins, each on its own."""
    from scipy.stats import norm

    total = 0.0
    for b in np.unique(cell):
        inside = cell == b
        gap = abs(np.sum(f.positives[inside] - f.w[inside] * f.x[inside]))
        s = np.sqrt(np.sum(f.w[inside] * f.x[inside] * (1 - f.x[inside])))
        total += gap * (2 * norm.cdf(gap / s) - 1) - 2 * s * norm.pdf(gap / s)
    return total / f.total


@pytest.mark.thorough
def test_the_debiased_ece_of_right_probabilities_has_mean_zero_where_the_plain_has_not(
    binary,
):
    plain, free, given = [], [], []
    for seed in range(300):
        p, y = binary(400, seed)
        f = Counts.from_rows(p, y == 1)
        a, b = ece(f, equal_width_bins(f.x, 15))
        plain.append(a)
        given.append(b)
        free.append(unclipped(f, equal_width_bins(f.x, 15)))
    error = np.std(free) / np.sqrt(300)
    assert abs(np.mean(free)) < 4 * error
    assert np.mean(plain) > 40 * error
    np.testing.assert_allclose(given, np.maximum(free, 0.0), atol=1e-12)


def test_both_estimates_agree_where_rows_are_many_and_the_error_is_large(binary):
    p, y = binary(200_000, slope=2.0)
    e = evaluate(y, p)
    assert e.ece == pytest.approx(e.ece_debiased, rel=0.01)
    assert e.ece_debiased <= e.ece


def test_certain_and_right_has_no_error():
    e = evaluate([0, 1, 1], [0.0, 1.0, 1.0])
    assert (e.ece, e.ece_debiased, e.smooth_ece) == (0, 0, 0)
