"""Predictions to judge."""

import numpy as np
import pytest
from scipy.special import expit, softmax

SHAPES = {
    "uniform": lambda rng, n: rng.random(n),
    "rare events": lambda rng, n: expit(rng.normal(-4.0, 1.0, n)),
    "U-shaped": lambda rng, n: rng.beta(0.2, 0.2, n),
    "ten values": lambda rng, n: (rng.integers(10, size=n) + 0.5) / 10,
}


def make_binary(n=500, seed=0, ties=False, shape="uniform", slope=1.0):
    """Probabilities and what happened, at log-odds ``slope`` times theirs."""
    rng = np.random.default_rng([seed, n])
    p = SHAPES[shape](rng, n)
    if ties:
        p = np.round(p, 1)
    with np.errstate(divide="ignore"):
        truth = p if slope == 1.0 else expit(slope * np.log(p / (1.0 - p)))
    return p, (rng.random(n) < truth).astype(int)


def make_multiclass(n=500, m=4, seed=0, sharpness=1.0):
    """Probabilities of ``m`` classes, too sharp by a factor, and the class of each row."""
    rng = np.random.default_rng([seed, n, m])
    z = rng.normal(0.0, 1.5, (n, m))
    y = (softmax(z, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return softmax(sharpness * z, axis=1), y


@pytest.fixture(scope="session")
def binary():
    return make_binary


@pytest.fixture(scope="session")
def multiclass():
    return make_multiclass


@pytest.fixture(scope="session", params=[False, True], ids=["no weights", "weights"])
def weights(request):
    """Weights for so many rows: None, or counts from 1 to 4, most of them 1."""
    counts = [1.0, 1.0, 1.0, 2.0, 4.0]
    return lambda n: (
        np.random.default_rng(n).choice(counts, n) if request.param else None
    )
