"""How far a long run is, and how much longer it takes."""

from __future__ import annotations

import sys
import time


class Progress:
    """Says after each step how many are done and about how long the rest takes.

    Steps that were found in the cache count as done, but not for the speed.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.worked = 0
        self.start = time.monotonic()

    def step(self, what: str, *, cached: bool = False) -> None:
        """One more step is done."""
        self.done += 1
        self.worked += not cached
        left = self.total - self.done
        text = f"{self.done} of {self.total}: {what}"
        if cached:
            text += " (from the cache)"
        if left and self.worked:
            text += f", about {spell(left * (time.monotonic() - self.start) / self.worked)} left"
        print(text, file=sys.stderr, flush=True)


def spell(seconds: float) -> str:
    """Seconds, minutes or hours.

    >>> spell(42), spell(600), spell(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
