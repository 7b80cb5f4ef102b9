from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import expit, softmax

from calspline import IsotonicCalibrator, SplineCalibrator

pytestmark = pytest.mark.slow

rng = np.random.default_rng(5)
TWO = [
    (expit(2.0 * u), (rng.random(3000) < expit(u)).astype(int))
    for u in rng.normal(size=(4, 3000))
]
MANY = [
    (softmax(2.0 * z, axis=1), (z + rng.gumbel(size=z.shape)).argmax(axis=1))
    for z in rng.normal(size=(4, 800, 4))
]


@pytest.mark.parametrize(
    ("make", "problems"),
    [
        (lambda: SplineCalibrator(), TWO),
        (lambda: SplineCalibrator(monotone=True), TWO),
        (lambda: SplineCalibrator(), MANY),
        (lambda: SplineCalibrator(multiclass="ovr"), MANY),
        (lambda: IsotonicCalibrator(), TWO),
    ],
    ids=["spline", "monotone", "structured", "one against the rest", "isotonic"],
)
def test_sixteen_threads_that_fit_and_predict_agree(make, problems):
    def fit_and_predict(i):
        scores, y = problems[i % len(problems)]
        return make().fit(scores, y).predict_proba(scores)

    alone = [fit_and_predict(i) for i in range(len(problems))]
    with ThreadPoolExecutor(16) as pool:
        for i, out in enumerate(pool.map(fit_and_predict, range(32))):
            np.testing.assert_array_equal(out, alone[i % len(problems)])


def test_one_calibrator_is_used_while_others_are_fitted():
    scores, y = TWO[0]
    shared = SplineCalibrator().fit(scores, y)
    expected = shared.calibrate(scores)

    def work(i):
        if i % 2:
            SplineCalibrator().fit(*TWO[i % 4])
        return shared.calibrate(scores)

    with ThreadPoolExecutor(16) as pool:
        for out in pool.map(work, range(32)):
            np.testing.assert_array_equal(out, expected)
