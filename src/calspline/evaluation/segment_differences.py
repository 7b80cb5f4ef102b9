"""Who gains and who loses: differences of the log-loss by segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import t as student

from calspline.arrays import Array
from calspline.evaluation.differences import PairedDifference
from calspline.evaluation.segment_test import benjamini_hochberg
from calspline.evaluation.segments import FALSE_SHARE, LEVEL, SHOWN, Coded
from calspline.evaluation.units import row_powers
from calspline.formatting import p_value, percent, text_table


@dataclass(frozen=True, eq=False)
class SegmentDifferences:
    """The mean log-loss of each segment minus that of the reference. Below 0 is better.

    Attributes
    ----------
    table : dict
        A value for each segment under each name: ``column`` (if there are several) and ``segment``; ``rows``;
        ``difference`` with its limits ``lower`` and ``upper``; ``p_value``, that there is none; ``adjusted``, the same
        after correction for all segments and sets looked at; and ``verdict``, "better" or "worse" where that is below
        0.05, else "unclear". On average, at most one in twenty such verdicts is there by chance.
    names : list of str
        What the segments are called.
    """

    table: dict[str, Any]
    names: list[str]

    def __len__(self) -> int:
        return len(self.names)

    def having(self, verdict: str) -> list[int]:
        """Places in the table of the segments with a verdict, the clearest first."""
        return [i for i in np.argsort(self.table["p_value"], kind="stable") if self.table["verdict"][i] == verdict]

    @property
    def verdict(self) -> str:
        """How many gain and lose, in a sentence."""
        better, worse = len(self.having("better")), len(self.having("worse"))
        rest = len(self) - better - worse
        return f"Of {len(self):,} segments {better:,} gain, {worse:,} lose, and for {rest:,} it cannot be told."

    def to_dict(self) -> dict[str, float]:
        """How many segments have each verdict."""
        return {f"segments_{verdict}": float(len(self.having(verdict))) for verdict in ("better", "worse", "unclear")}

    def __str__(self) -> str:
        t = self.table
        rows = [
            (
                self.names[i],
                f"{t['rows'][i]:g}",
                f"{t['difference'][i]:+.4f}",
                f"{t['lower'][i]:+.4f} to {t['upper'][i]:+.4f}",
                p_value(float(t["p_value"][i])),
                t["verdict"][i],
            )
            for i in np.argsort(t["p_value"], kind="stable")[:SHOWN]
        ]
        more = [f"... and {len(self) - SHOWN} more"] if len(self) > SHOWN else []
        table = text_table(rows, ("segment", "rows", "log-loss", percent(LEVEL), "p-value", "verdict"))
        return "\n".join([table, *more, self.verdict])


def segment_differences(paired: Mapping[str, PairedDifference]) -> Mapping[str, SegmentDifferences]:
    """Differences of each set by segment; none if there are no segments."""
    first = next(iter(paired.values()), None)
    if first is None or first.rows.by is None:
        return MappingProxyType({})
    coded = Coded.of(first.rows.by)
    parts = {name: _difference(one, coded) for name, one in paired.items()}
    adjusted = benjamini_hochberg(np.concatenate([part["p_value"] for part in parts.values()]))
    out = {}
    for (name, part), q in zip(parts.items(), np.split(adjusted, len(parts)), strict=True):
        verdict = np.where(q < FALSE_SHARE, np.where(part["difference"] < 0.0, "better", "worse"), "unclear")
        table = coded.table() | part | {"adjusted": q, "verdict": verdict.tolist()}
        out[name] = SegmentDifferences(table, coded.names)
    return MappingProxyType(out)


def _difference(one: PairedDifference, coded: Coded) -> dict[str, Array]:
    """Mean difference, limits and p-value of each segment.

    The variance is the larger of what the rows show and, with two classes, of what the probabilities of both sets say:
    few rows may all have turned out alike.
    """
    rows, S, code = one.rows, len(coded.labels), coded.code

    def total(values: Array) -> Array:
        return np.asarray(
            np.bincount(code.ravel(), np.broadcast_to(values, code.shape).ravel(), minlength=S), dtype=np.float64
        )

    n = len(rows.codes)
    w = np.ones(n) if rows.weight is None else rows.weight
    weight = total(w)
    mean = total(w * one.seen) / weight
    away = one.seen - mean[code]
    reach = np.full(S, float(ndtri(0.5 + 0.5 * LEVEL)))
    G = np.zeros(S)
    if rows.groups is None:
        variance = total(row_powers(rows.weight, n) * away**2) / weight**2
    else:
        pair = (code * (int(rows.groups.max()) + 1) + rows.groups).ravel()
        _, at, place = np.unique(pair, return_index=True, return_inverse=True)
        segment = code.ravel()[at]
        G = np.bincount(segment, minlength=S).astype(np.float64)
        squares = np.bincount(segment, np.bincount(place, (w * away).ravel()) ** 2, minlength=S)
        variance = squares * G / np.maximum(G - 1.0, 1.0) / weight**2
        reach = np.where(G > 1.0, student.ppf(0.5 + 0.5 * LEVEL, np.maximum(G - 1.0, 1.0)), np.inf)
    if rows.binary:
        p = 0.5 * (rows.probs + one.reference.probs)
        swing = one.if_happened(np.ones(n, dtype=np.intp)) - one.if_happened(np.zeros(n, dtype=np.intp))
        variance = np.maximum(variance, total(row_powers(rows.weight, n) * p * (1.0 - p) * swing**2) / weight**2)
    error = np.sqrt(variance)
    z = np.divide(np.abs(mean), error, out=np.zeros(S), where=error > 0.0)
    p_values = 2.0 * ndtr(-z)
    if rows.groups is not None:
        p_values = np.where(G > 1.0, 2.0 * student.sf(z, np.maximum(G - 1.0, 1.0)), 1.0)
    far = np.where(error > 0.0, reach, 0.0) * np.where(error > 0.0, error, 1.0)
    return {
        "rows": weight,
        "difference": mean,
        "lower": mean - far,
        "upper": mean + far,
        "p_value": p_values,
    }
