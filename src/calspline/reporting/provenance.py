"""What another person needs to make the same page: versions and fingerprints. No time: same input, same page."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version

import numpy as np

import calspline
from calspline.evaluation.predictions import Predictions


def versions() -> dict[str, str]:
    """Versions of what computed the numbers."""
    return {
        "calspline": calspline.__version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }


def fingerprints(rows: Mapping[str, Predictions]) -> dict[str, str]:
    """SHA-256 of what happened and of each set of predictions, as 64-bit little-endian numbers in the order of rows."""
    first = next(iter(rows.values()))
    happened = [first.codes.astype("<i8")]
    if first.weight is not None:
        happened.append(first.weight.astype("<f8"))
    out = {"what happened": _hash(*happened)}
    return out | {name: _hash(one.probs.astype("<f8")) for name, one in rows.items()}


def _hash(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
