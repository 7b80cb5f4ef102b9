"""Self-validation: no fit is returned that is worse on its own rows than its start.

A curve starts from the scores as they are or from the base rate, effects of segments
from none, and the structured map of several classes from a temperature. Each fit is
allowed a few nats, for what priors and weighted labels cost.
"""

from __future__ import annotations


def is_worse_than_start(loss: float, start_loss: float, tolerance: float) -> bool:
    """Whether a fit is worse than its start by more than allowed, or diverged."""
    return not loss <= start_loss + tolerance
