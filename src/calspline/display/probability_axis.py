"""Axes of probabilities: percent, or log-odds with room for what is beyond the ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import expit, logit

from calspline.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Scale = Literal["probability", "logit"]

SCALES = ("probability", "logit")
CUSTOMARY, FARTHEST = 3, 6
"""Decades from 0 and from 1 that a log-odds axis shows, and shows at most."""
MAX_TICKS = 9
MARGIN = 0.03


def decades(least_of_bins: Array) -> int:
    """Decades to show so that the least of these probabilities is inside."""
    least = float(np.min(least_of_bins, initial=1.0))
    return int(np.clip(np.ceil(-np.log10(max(least, 1e-300)) - 1e-9), CUSTOMARY, FARTHEST))


def ticks(low: float, high: float) -> Array:
    """0.1%, 1%, 10%, 50%, 90%, ... between two limits, or every other of them."""
    tails = 10.0 ** -np.arange(FARTHEST, 0, -1.0)
    values = np.concatenate([tails, [0.5], 1.0 - tails[::-1]])
    shown = (values >= low * (1.0 - 1e-9)) & (values <= high + 1e-12)
    if shown.sum() > MAX_TICKS:
        # Every other decade, counted from the middle.
        shown &= (FARTHEST - np.arange(len(values))) % 2 == 0
    return np.asarray(values[shown])


def percent(p: float) -> str:
    """A probability as a short percentage that never rounds to 0 or 100."""
    nearest = min(p, 1.0 - p)
    places = 0 if nearest <= 0.0 else max(0, int(np.ceil(-np.log10(nearest) - 1e-9)) - 2)
    return f"{100.0 * p:.{places}f}%"


class ProbabilityScale:
    """Limits and marks of both axes of a diagram, and where a probability is drawn.

    Parameters
    ----------
    scale : {"probability", "logit"}
    limits : (float, float)
        Least and largest probability shown. On the log-odds scale what is beyond is drawn at the
        limit, which is then marked as "0.1% or less".
    """

    def __init__(self, scale: Scale, limits: tuple[float, float]) -> None:
        self.scale = scale
        self.low, self.high = limits

    def inside(self, p: Array) -> Array:
        """Where probabilities are drawn."""
        return np.asarray(np.clip(p, self.low, self.high) if self.scale == "logit" else p)

    def beyond(self, probabilities: list[Array]) -> tuple[bool, bool]:
        """Whether some lie below the least or above the largest that is shown."""
        return (
            bool(min(p.min() for p in probabilities) < self.low),
            bool(max(p.max() for p in probabilities) > self.high),
        )

    def cut(self, x: Array, *ys: Array) -> tuple[Array, ...]:
        """The part of lines over increasing ``x`` that is shown, with their values at the limits.

        Clamping would heap up at a limit what lies beyond it.
        """
        ends = [end for end in (self.low, self.high) if x[0] < end < x[-1]]
        within = x[(x >= self.low) & (x <= self.high)]
        at = np.unique(np.concatenate([within, ends])) if ends else within
        return (at, *(np.interp(at, x, y) for y in ys))

    def grid(self, count: int = 201) -> Array:
        """Probabilities to evaluate a curve at, none of them 0 or 1, even on both scales."""
        tiny = 1e-6
        low, high = max(self.low, tiny), min(self.high, 1.0 - tiny)
        even = expit(np.linspace(logit(low), logit(high), count))
        return np.unique(np.clip(np.concatenate([np.linspace(low, high, count), even]), low, high))

    def view(self) -> tuple[float, float]:
        """Limits of the axis: a little more than the probabilities shown."""
        if self.scale == "logit":
            low, high = logit(self.low), logit(self.high)
            reach = MARGIN * (high - low)
            return float(expit(low - reach)), float(expit(high + reach))
        reach = MARGIN * (self.high - self.low)
        return self.low - reach, self.high + reach

    def put_on(
        self,
        ax: Axes,
        *,
        x: bool = True,
        y: bool = True,
        beyond: tuple[bool, bool] = (False, False),
        few: bool = False,
    ) -> None:
        """Set scale, limits and ticks.

        ``beyond`` says that something lies below the least or above the largest probability shown; ``few`` leaves ticks
        at the ends and in the middle.
        """
        for wanted, axis, set_scale, set_limits in (
            (x, ax.xaxis, ax.set_xscale, ax.set_xlim),
            (y, ax.yaxis, ax.set_yscale, ax.set_ylim),
        ):
            if wanted:
                if self.scale == "logit":
                    set_scale("logit", nonpositive="clip")
                else:
                    set_scale("linear")
                self._mark(axis, beyond, few)
                set_limits(*self.view())

    def _mark(self, axis: Axis, beyond: tuple[bool, bool], few: bool) -> None:
        from matplotlib.ticker import (
            FixedFormatter,
            FixedLocator,
            Formatter,
            FuncFormatter,
            Locator,
            MaxNLocator,
            NullLocator,
        )

        locator: Locator
        formatter: Formatter
        if self.scale == "logit":
            places = ticks(self.low, self.high)
            if few:
                places = places[[0, len(places) // 2, -1]]
            names = [percent(float(p)) for p in places]
            if beyond[0] and np.isclose(places[0], self.low):
                names[0] = f"≤{names[0]}"
            if beyond[1] and np.isclose(places[-1], self.high):
                names[-1] = f"≥{names[-1]}"
            locator, formatter = FixedLocator(places.tolist()), FixedFormatter(names)
        else:
            whole = (self.low, self.high) == (0.0, 1.0)
            count = 2 if few else 5
            locator = FixedLocator(np.linspace(0.0, 1.0, count + 1).tolist()) if whole else MaxNLocator(count)
            formatter = FuncFormatter(lambda p, _: f"{100.0 * p:g}%")
        axis.set_major_locator(locator)
        axis.set_major_formatter(formatter)
        axis.set_minor_locator(NullLocator())
