"""Pictures of decisions: net benefit against the threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from calspline.display import style
from calspline.display.style import INK, MUTED, RULE, get_axes
from calspline.evaluation.decisions import ALL, Decision
from calspline.formatting import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BELOW = 0.25
"""How far below zero the axis reaches, as a share of the highest net benefit: acting on all rows falls without end."""


class DecisionDisplay:
    """Decision curves: the net benefit of each set of predictions, with its band, against the threshold.

    To act on all rows and on none are drawn in grey. With costs, the threshold that follows from them is marked.

    Parameters
    ----------
    decision : Decision
        What :func:`decide` returns.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from calspline import decide
    >>> from calspline.display import DecisionDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> DecisionDisplay(decide(rng.random(1000) < p, {"model": p})).plot().ax_.get_ylabel()
    'net benefit (events found per row)'
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, in ``ax`` or a new figure, and return self."""
        from matplotlib.lines import Line2D
        from matplotlib.ticker import FuncFormatter

        self.ax_ = ax = get_axes(ax, style.SIDE + 0.6, 4.4)
        self.figure_ = ax.figure
        style.style_axes(ax)
        found = self.decision
        t, sets = found.thresholds, [name for name in found.net_benefit if name != ALL]
        ax.axhline(0.0, color=RULE, lw=1.1, zorder=1.5, gid="none")
        ax.plot(t, found.net_benefit[ALL].value, color=MUTED, lw=1.1, ls=(0, (4, 2)), zorder=2, gid="all")
        looks = style.series_styles(len(sets))
        entries = []
        for i, (name, look) in enumerate(zip(sets, looks, strict=True)):
            band = found.net_benefit[name]
            ax.fill_between(t, band.lower, band.upper, color=look.color, alpha=0.16, lw=0, zorder=2, gid=f"band-{i}")
            ax.plot(t, band.value, color=look.color, lw=2.0, ls=look.dashes, zorder=4, gid=f"net-benefit-{i}")
            entries.append((Line2D([], [], color=look.color, lw=2.0, ls=look.dashes), name))
        entries.append((Line2D([], [], color=MUTED, lw=1.1, ls=(0, (4, 2))), ALL))
        if found.costs is not None:
            ax.axvline(found.costs.threshold, color=INK, lw=1.0, ls=(0, (1.2, 1.6)), zorder=3, gid="costs")
        # Bands are wide at high thresholds, where a false alarm costs as much as many events.
        top = max(1e-3, *(float(np.max(found.net_benefit[name].value)) for name in sets))
        ax.set_ylim(-BELOW * top, 1.2 * top)
        ax.set_xlim(0.0, min(1.0, float(t[-1]) * 1.02))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(round(p, 6))))
        ax.set_xlabel("threshold: act from this probability on")
        ax.set_ylabel("net benefit (events found per row)")
        style.legend(ax, entries, "upper right")
        return self
