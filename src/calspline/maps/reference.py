"""Reference: the rows of a fit in bins of their probability, by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, Counts, run_starts
from calspline._codec import check_fields
from calspline._domains import Numbers

BINS = 20
FEWEST_BINS = 4
"""In fewer bins, other rows may well have the same counts by chance."""
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Reference:
    """Weight of each class in bins of calibrated probabilities."""

    edges: Annotated[Array, Numbers("K", most=BINS, increasing=True)]
    counts: Annotated[Array, Numbers("K+1", "m", not_negative=True)]

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.counts.any():
            raise ValueError("counts must not all be zero")

    @classmethod
    def of_rows(
        cls, p: Array, codes: NDArray[np.intp], weight: Array | None, n_classes: int = 2
    ) -> Reference:
        """Create bins of equal weight from the calibrated probabilities of the fit."""
        w = np.ones(len(p)) if weight is None else weight
        table = Counts.from_sums(p, w, np.zeros(len(p)))
        first = run_starts(table.equal_weight_bins(BINS))[1:]
        edges = np.unique(0.5 * (table.x[first - 1] + table.x[first]))
        cells = np.searchsorted(edges, p) * n_classes + codes
        counts = np.bincount(cells, w, minlength=(len(edges) + 1) * n_classes)
        return cls(edges, counts.reshape(-1, n_classes).astype(np.float64, copy=False))

    @property
    def base_rates(self) -> Array:
        """Share of each class."""
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum())

    def matches(self, p: Array, codes: NDArray[np.intp], weight: Array | None) -> bool:
        """Whether rows have the counts of the fit in every bin, as its own rows do."""
        n_bins, n_classes = self.counts.shape
        if n_bins < FEWEST_BINS:
            return False
        cells = np.searchsorted(self.edges, p) * n_classes + codes
        counts = np.bincount(cells, weight, minlength=n_bins * n_classes)
        return np.allclose(counts, self.counts.ravel())

    def p_value(
        self, p: Array, weight: Array, rates: Array, design_effect: float = 1.0
    ) -> float:
        """P-value of the hypothesis that only the shares of the classes have changed.

        ``design_effect`` is the number of rows of the fit divided by their effective
        sample size.
        """
        seen = np.bincount(
            np.searchsorted(self.edges, p), weight, minlength=len(self.counts)
        )
        share = seen.sum() / self.counts.sum()

        def statistic(rates: Array) -> float:
            ratios = np.divide(
                rates,
                self.base_rates,
                out=np.zeros_like(rates),
                where=self.base_rates > 0.0,
            )
            variance = (
                share * self.counts @ ratios
                + design_effect * share**2 * self.counts @ ratios**2
            )
            return float(
                (
                    (seen - share * self.counts @ ratios) ** 2
                    / np.maximum(variance, TINY)
                ).sum()
            )

        least = statistic(rates)
        if len(rates) == 2:
            # The shares that fit these bins best: errors of the probabilities do not
            # matter then.
            best = scipy.optimize.minimize_scalar(
                lambda rate: statistic(np.array([1.0 - rate, rate])),
                bounds=(0.0, 1.0),
                method="bounded",
            )
            least = min(least, float(best.fun))
        return float(scipy.special.chdtrc(max(len(seen) - 2, 1), least))
