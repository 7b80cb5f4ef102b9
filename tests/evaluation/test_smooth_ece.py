import numpy as np
import pytest
import relplot
from scipy.stats import norm

from calspline import evaluate


@pytest.mark.parametrize("slope", [1.0, 0.5, 2.5])
@pytest.mark.parametrize("shape", ["uniform", "U-shaped", "rare events", "ten values"])
def test_it_is_relplots(binary, shape, slope):
    for n in (300, 5000):
        p, y = binary(n, shape=shape, slope=slope)
        assert evaluate(y, p).smooth_ece == pytest.approx(relplot.smECE(p, y), abs=0.01)


def test_it_is_the_fixed_point_of_its_definition(binary):
    p, y = binary(200, slope=2.0)
    e = evaluate(y, p).smooth_ece
    t = (np.arange(2000) + 0.5) / 2000
    images = [shift + sign * p for shift in range(-6, 7, 2) for sign in (1, -1)]
    kernel = sum(norm.pdf(t[:, None] - image, scale=e) for image in images)
    assert np.abs(kernel @ (y - p) / 200).mean() == pytest.approx(e, abs=1e-4)


def test_of_one_probability_it_is_the_gap():
    assert evaluate([1, 1, 0, 0], [0.8] * 4).smooth_ece == pytest.approx(0.3, abs=1e-9)


def test_it_goes_to_zero_for_right_probabilities(binary):
    few, many = (evaluate(y, p).smooth_ece for p, y in (binary(500), binary(200_000)))
    assert many < 0.01 < few
