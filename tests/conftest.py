import os

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=10_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items):
    """Tests that share an engine that is slow to start share a worker."""
    for item in items:
        if "spark" in item.nodeid.lower():
            item.add_marker(pytest.mark.xdist_group("spark"))


def simulate(n, seed=0, truth=lambda u: 0.5 * u + 0.4 * np.sin(u), spread=2.0):
    """Scores, labels and true probabilities of an over-confident model."""
    rng = np.random.default_rng(seed)
    u = rng.normal(-0.3, spread, n)
    p_true = 1 / (1 + np.exp(-truth(u)))
    return 1 / (1 + np.exp(-u)), (rng.random(n) < p_true).astype(int), p_true


@pytest.fixture(scope="session")
def simulated():
    return simulate
