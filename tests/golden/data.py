"""Generated data of the golden cases: rows to fit, and unusual scores to calibrate.

Only ``random`` of a generator is used, whose stream is that of its bits; normal
variates are quantiles of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, ndtri, softmax

PROBABILITIES = np.array(
    [
        0.0,
        5e-324,
        1e-12,
        1e-6,
        0.0013,
        0.017,
        0.093,
        0.21,
        1 / 3,
        0.5,
        0.618,
        0.77,
        0.901,
        0.987,
        1 - 1e-9,
        1.0,
    ]
)
MARGINS = np.array(
    [
        -40.0,
        -17.5,
        -7.3,
        -3.1,
        -1.7,
        -0.4,
        -1e-9,
        0.0,
        5e-324,
        0.25,
        1.0,
        2.2,
        4.9,
        11.0,
        23.0,
        40.0,
    ]
)
COUNTRIES = ("at", "be", "ch", "de", "es")


def uniform(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).random(shape)


def normal(seed: int, *shape: int) -> Any:
    return ndtri(uniform(seed, *shape))


@dataclass(frozen=True)
class Rows:
    """What is fitted, and scores to calibrate."""

    scores: Any
    y: Any
    probes: Any
    weight: Any = None
    groups: Any = None
    by: Any = None
    probes_by: Any = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def fit_arguments(self) -> dict[str, Any]:
        """Arguments of ``fit``, without those that are not given."""
        given = {"sample_weight": self.weight, "groups": self.groups, "by": self.by}
        return {"scores": self.scores, "y": self.y} | {
            k: v for k, v in given.items() if v is not None
        }

    def disturbed(self) -> Rows:
        """The rows in another order, every score moved by its last bit."""
        order = np.argsort(uniform(999, len(self)))
        scores = np.asarray(self.scores, dtype=float)
        inside = 0.5 if np.all((scores >= 0.0) & (scores <= 1.0)) else 0.0
        exact = (scores == 0.0) | (scores == 1.0)
        scores = np.where(exact, scores, np.nextafter(scores, inside))

        def moved(column: Any) -> Any:
            return None if column is None else np.asarray(column)[order]

        by = (
            [moved(column) for column in self.by]
            if isinstance(self.by, list)
            else moved(self.by)
        )
        return replace(
            self,
            scores=scores[order],
            y=moved(self.y),
            weight=moved(self.weight),
            groups=moved(self.groups),
            by=by,
        )


def outcomes(seed: int, chance: Any) -> Any:
    return (uniform(seed, len(chance)) < chance).astype(int)


def wavy(n: int = 600) -> Rows:
    """Over-confident probabilities whose log-odds are off by a wave."""
    u = -0.3 + 2.0 * normal(1, n)
    return Rows(expit(u), outcomes(2, expit(0.5 * u + 0.4 * np.sin(u))), PROBABILITIES)


def bent(n: int = 600) -> Rows:
    """Probabilities whose order is wrong in the middle."""
    u = 1.5 * normal(3, n)
    return Rows(
        expit(u), outcomes(4, expit(0.9 * u + 1.6 * np.sin(2.0 * u))), PROBABILITIES
    )


def rare() -> Rows:
    u = -3.0 + 1.5 * normal(5, 2000)
    return Rows(expit(u), outcomes(6, expit(1.3 * u - 1.0)), PROBABILITIES)


def tied() -> Rows:
    score = np.round(uniform(7, 800), 1)
    return Rows(score, outcomes(8, score**2), PROBABILITIES)


def ends() -> Rows:
    """A third of the scores are an exact 0 or 1, as a small forest gives them."""
    score = np.clip(np.round(1.6 * uniform(9, 700) - 0.3, 2), 0.0, 1.0)
    return Rows(score, outcomes(10, 0.1 + 0.75 * score), PROBABILITIES)


def extreme() -> Rows:
    """Log-odds down to hundreds, as naive Bayes gives them; not up, as 1 - p rounds."""
    u = 80.0 * normal(11, 900)
    u = np.where(u > 0.0, u / 25.0, u)
    y = outcomes(12, expit(0.4 * np.sign(u) * np.sqrt(np.abs(u))))
    return Rows(expit(u), y, PROBABILITIES)


def margins(n: int = 500) -> Rows:
    x = 3.0 * normal(13, n) + 1.0
    return Rows(x, outcomes(14, expit(0.8 * x - 0.05 * x * x)), MARGINS)


def separated() -> Rows:
    score = uniform(15, 60)
    return Rows(score, (score > 0.4).astype(int), PROBABILITIES)


def three_rows() -> Rows:
    return Rows(np.array([0.2, 0.7, 0.9]), np.array([0, 1, 1]), PROBABILITIES)


def constant() -> Rows:
    return Rows(np.full(200, 0.3), outcomes(16, np.full(200, 0.2)), PROBABILITIES)


def one_positive() -> Rows:
    return Rows(uniform(17, 80), (np.arange(80) == 17).astype(int), PROBABILITIES)


def classes(m: int, n: int, sharpness: float = 2.0) -> Rows:
    """Over-confident probabilities of classes confused with their neighbours."""
    z = normal(20 + m, n, m)
    z[:, 0] += 0.5
    truth = softmax(0.9 * z + 0.3 * np.roll(z, 1, axis=1), axis=1)
    y = (uniform(40 + m, n, 1) > truth.cumsum(axis=1)).sum(axis=1).clip(max=m - 1)
    return Rows(softmax(sharpness * z, axis=1), y, unusual_rows(m))


def unusual_rows(m: int) -> Any:
    """Rows of probabilities: certain, tied, even, nearly certain, and usual ones."""
    tie = np.zeros(m)
    tie[:2] = 0.5
    nearly = np.full(m, 1e-12)
    nearly[-1] = 1.0 - 1e-12 * (m - 1)
    rest = softmax(3.0 * normal(60 + m, 5, m), axis=1)
    return np.vstack([np.eye(m)[0], tie, np.full(m, 1.0 / m), nearly, rest])


def logits(m: int, n: int) -> Rows:
    rows = classes(m, n)
    probes = 3.0 * normal(70 + m, 8, m)
    probes[0] = 0.0
    probes[1] *= 100.0
    return replace(rows, scores=np.log(rows.scores) + 7.0, probes=probes)


def three(n: int = 700) -> Rows:
    return classes(3, n)


def ten(n: int = 900) -> Rows:
    return classes(10, n)


def absent() -> Rows:
    """Four classes, of which no row is of the third."""
    rows = classes(4, 500)
    return replace(rows, y=np.where(rows.y == 2, 1, rows.y))


def alike() -> Rows:
    """Rows of equal scores."""
    rows = classes(3, 300)
    return replace(rows, scores=np.tile([0.2, 0.3, 0.5], (300, 1)))


def named(rows: Rows, *names: str) -> Rows:
    return replace(rows, y=np.array(names)[rows.y])


def counted(rows: Rows) -> Rows:
    """Weights that are numbers of rows, some of them zero."""
    return replace(rows, weight=np.floor(4.0 * uniform(80, len(rows))))


def weighted(rows: Rows, scale: float = 1.0) -> Rows:
    """Weights that are fractions, a factor of ten between the ends."""
    return replace(rows, weight=scale * 10.0 ** (uniform(81, len(rows)) - 0.5))


def grouped(rows: Rows, size: int = 5) -> Rows:
    """Groups of dependent rows: half of them have the label of the first."""
    groups = np.arange(len(rows)) // size
    copied = uniform(82, len(rows)) < 0.5
    return replace(
        rows, groups=groups, y=np.where(copied, rows.y[size * groups], rows.y)
    )


def segmented(rows: Rows, *columns: tuple[Any, ...], few: int = 0) -> Rows:
    """Segments with effects: some rows of two segments become of the last class.

    With ``few`` segments more, of one or two rows each.
    """
    n, codes = len(rows), []
    for k, labels in enumerate(columns):
        codes.append(np.floor(len(labels) * uniform(90 + k, n)).astype(int))
    changed = uniform(95, n) < 0.35 * (codes[0] == 0) + 0.2 * (codes[-1] == 1)
    y = np.where(changed, rows.y.max(), rows.y)
    by = [
        np.array([labels[code] for code in column])
        for labels, column in zip(columns, codes, strict=True)
    ]
    if few:
        by[0] = by[0].astype(object)
        by[0][: 2 * few] = [f"small {k // 2}" for k in range(2 * few)]
    asked = [repeated([*labels, None], len(rows.probes)) for labels in columns]
    one = len(columns) == 1
    return replace(
        rows, y=y, by=by[0] if one else by, probes_by=asked[0] if one else asked
    )


def repeated(labels: list[Any], n: int) -> list[Any]:
    return [labels[i % len(labels)] for i in range(n)]


def pair(rows: Rows) -> Rows:
    """Probabilities in two columns."""
    columns = [np.column_stack([1.0 - p, p]) for p in (rows.scores, rows.probes)]
    return replace(rows, scores=columns[0], probes=columns[1])


def pair_of_margins(rows: Rows) -> Rows:
    """Two margins, of which the difference counts."""
    probes = rows.probes
    return replace(
        rows,
        scores=np.column_stack([0.25 - rows.scores, 0.5 * rows.scores]),
        probes=np.column_stack([-probes, probes]),
    )
