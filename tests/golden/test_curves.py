"""Fits of fixed data are those they were.

The tolerance: a case is kept only if the last bit of its data moves it by less than 1e-10, and other versions of
numpy, scipy and their BLAS have moved none by more than 2e-9. A change of a knot, a prior or a stopping rule shows from
1e-6 upwards. Where a change is meant, ``make golden`` writes the curves anew, and the commit says why.
"""

import json

import numpy as np
import pytest
from tests.golden.cases import CASES
from tests.golden.regenerate import CURVES, fitted

TOLERANCE = 1e-7
KEPT = json.loads(CURVES.read_text())


def test_the_forty_cases_are_those_that_are_kept():
    assert list(KEPT) == list(CASES)
    assert len(CASES) == 40


@pytest.mark.parametrize("name", KEPT)
def test_a_curve_is_what_it_was(name):
    now, then = fitted(name), KEPT[name]
    assert now.keys() == then.keys()
    np.testing.assert_allclose(now["probabilities"], then["probabilities"], rtol=0, atol=TOLERANCE)
    if "interval" in then:
        np.testing.assert_allclose(now["interval"], then["interval"], rtol=0, atol=TOLERANCE)
    if "edf" in then:
        np.testing.assert_allclose(now["edf"], then["edf"], rtol=1e-6)
        np.testing.assert_allclose(now["smoothing"], then["smoothing"], rtol=1e-5)
