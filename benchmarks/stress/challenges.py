"""Data on which fits with segments, groups, weights or many classes have gone wrong.

A challenge has rows to fit, and new rows with their true probabilities, so that the
loss to be expected of a calibrator is known without noise of labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

NEW_ROWS = 10_000
NEW_ROWS_OF_CLASSES = 3_000
LARGEST_LOG_ODDS = 36.0
"""Probabilities are as close to 1 as floating point allows, and not exactly 1."""


class NewRows(NamedTuple):
    """Rows to predict: scores, segments of each column, and true probabilities."""

    scores: Array
    by: list[Codes] | None
    truth: Array


@dataclass(frozen=True)
class Challenge:
    """Rows to fit, and new rows to judge the fit by.

    ``options`` are the calibrator's, ``arguments`` those of its ``fit``: ``by``,
    ``groups`` and ``sample_weight``.
    """

    family: str
    detail: str
    scores: Array
    y: Codes
    new: NewRows
    arguments: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The family and what was drawn."""
        return f"{self.family}, {self.detail}, {len(self.y)} rows"


Family = Callable[[np.random.Generator, np.random.Generator], Challenge]
"""From two generators, of the design and of rows."""


def number_of_rows(rng: np.random.Generator, least: float = 300.0) -> int:
    """Between ``least`` and 5,000, evenly on a logarithmic scale."""
    return round(float(np.exp(rng.uniform(np.log(least), np.log(5000.0)))))


class Signal(NamedTuple):
    """Scores with a heavy tail, or with an atom, and log-odds that may flatten out.

    Scores are margins, or else probabilities. ``u`` has a t distribution with
    ``freedom`` degrees (0: normal), scores are ``scale u`` and log-odds ``1.5 steepest
    tanh(u / steepest)``. A share of all rows has the score ``atom``, and the true
    probability ``rate``.
    """

    margins: bool
    freedom: int
    scale: float
    steepest: float
    atom: float | None
    share: float
    rate: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Signal:
        """Heavy tails or an atom, of any kind."""
        margins = bool(rng.random() < 0.4)
        with_atom = not margins and rng.random() < 0.5
        freedom = int(rng.choice([0, 3])) if with_atom else int(rng.choice([1, 3]))
        return cls(
            margins,
            freedom,
            scale=float(
                rng.choice([0.5, 1.0, 2.0, 10.0] if margins else [1.0, 1.5, 2.5])
            ),
            steepest=float(rng.choice([0.5, 1.0, 3.0])),
            atom=float(rng.choice([1e-3, 1e-6, 0.0])) if with_atom else None,
            share=float(rng.choice([0.01, 0.05, 0.2])),
            rate=float(rng.choice([0.01, 0.2, 0.5])),
        )

    def __str__(self) -> str:
        tail = {0: "normal", 1: "Cauchy", 3: "t3"}[self.freedom]
        kind = "margins" if self.margins else "probabilities"
        if self.atom is None:
            return f"{tail} {kind} of scale {self.scale:g}"
        return (
            f"{tail} {kind}, {self.share:.0%} at {self.atom:g} with rate {self.rate:g}"
        )

    def latent(self, rng: np.random.Generator, n: int) -> Array:
        """The ``u`` of each row."""
        if self.freedom == 0:
            return rng.normal(size=n)
        return np.asarray(rng.standard_t(self.freedom, n))

    def log_odds(self, u: Array) -> Array:
        """Those of the common curve."""
        return np.asarray(1.5 * self.steepest * np.tanh(u / self.steepest))

    def rows(
        self, rng: np.random.Generator, u: Array, log_odds: Array
    ) -> tuple[Array, Array]:
        """Scores and true probabilities, given log-odds with all effects."""
        p = expit(log_odds)
        x = self.scale * u
        if not self.margins:
            x = expit(np.clip(x, -700.0, LARGEST_LOG_ODDS))
        if self.atom is None:
            return x, p
        there = rng.random(len(u)) < self.share
        return np.where(there, self.atom, x), np.where(there, self.rate, p)


def labels(rng: np.random.Generator, p: Array) -> Codes:
    """Labels with these probabilities of 1, at least one of either class."""
    y = (rng.random(len(p)) < p).astype(np.intp)
    if y.min() == y.max():
        y[rng.integers(len(y))] = 1 - y[0]
    return y


def segments(design: np.random.Generator, rng: np.random.Generator) -> Challenge:
    """Segments of any sizes, perhaps one with hardly any event, that differ or not."""
    signal = Signal.draw(design)
    S = int(design.choice([2, 3, 5, 10, 30, 100]))
    intercepts = design.normal(size=S) * design.choice([0.0, 0.3, 0.8])
    slopes = 1.0 + design.normal(size=S) * design.choice([0.0, 0.3])
    one_class = int(design.integers(S)) if design.random() < 0.3 else -1
    sizes = design.dirichlet(np.full(S, design.choice([0.5, 50.0])))
    if design.random() < 0.25:
        sizes = 0.1 * sizes
        sizes[0] += 0.9

    def draw(n: int) -> tuple[Array, Array, Codes]:
        s = rng.choice(S, size=n, p=sizes).astype(np.intp)
        u = signal.latent(rng, n)
        x, p = signal.rows(rng, u, slopes[s] * signal.log_odds(u) + intercepts[s])
        return x, np.where(s == one_class, 0.001, p), s

    x, p, s = draw(number_of_rows(design))
    new, truth, of_new = draw(NEW_ROWS)
    known = np.isin(of_new, s)
    detail = f"{signal}, {S} segments"
    if one_class >= 0:
        detail += ", one of a single class"
    rows = NewRows(new[known], [of_new[known]], truth[known])
    return Challenge("segments", detail, x, labels(rng, p), rows, {"by": s})


def confounded_columns(
    design: np.random.Generator, rng: np.random.Generator
) -> Challenge:
    """Two columns of segments that mostly agree, and whose effects cancel out."""
    signal = Signal.draw(design)
    K = int(design.choice([3, 10, 30]))
    effects = design.normal(0.0, design.choice([0.0, 0.8]), K)
    agree = float(design.choice([0.8, 0.95, 1.0]))

    def draw(n: int) -> tuple[Array, Array, list[Codes]]:
        a = rng.integers(K, size=n)
        b = np.where(rng.random(n) < agree, a, rng.integers(K, size=n))
        u = signal.latent(rng, n)
        x, p = signal.rows(rng, u, signal.log_odds(u) + effects[a] - effects[b] / agree)
        return x, p, [a, b]

    x, p, by = draw(number_of_rows(design))
    new, truth, of_new = draw(NEW_ROWS)
    known = np.isin(of_new[0], by[0]) & np.isin(of_new[1], by[1])
    detail = f"{signal}, {K} segments in each of two columns, {agree:.0%} equal"
    rows = NewRows(new[known], [code[known] for code in of_new], truth[known])
    return Challenge("confounded columns", detail, x, labels(rng, p), rows, {"by": by})


def dominating_group(
    design: np.random.Generator, rng: np.random.Generator
) -> Challenge:
    """Groups that differ, one of which has up to 95% of all rows."""
    signal = Signal.draw(design)
    G = int(design.choice([10, 30, 100]))
    n = number_of_rows(design)
    share = float(design.choice([0.0, 0.5, 0.9, 0.95]))
    sd = float(design.choice([0.0, 0.7]))
    group = rng.integers(1, G, n)
    group[rng.random(n) < share] = 0
    effects = rng.normal(0.0, sd, G)
    u = signal.latent(rng, n)
    x, p = signal.rows(rng, u, signal.log_odds(u) + effects[group])
    # Of each new row, the probability in a group of its own.
    u_new = signal.latent(rng, NEW_ROWS)
    own = rng.normal(0.0, sd, NEW_ROWS)
    new, truth = signal.rows(rng, u_new, signal.log_odds(u_new) + own)
    detail = f"{signal}, {G} groups, {share:.0%} in one, sd {sd:g}"
    y = labels(rng, p)
    return Challenge(
        "groups", detail, x, y, NewRows(new, None, truth), {"groups": group}
    )


def survey_weights(design: np.random.Generator, rng: np.random.Generator) -> Challenge:
    """Rounded survey weights, or the same as importance weights."""
    signal = Signal.draw(design)
    n = number_of_rows(design)
    mean = float(design.choice([1.0, 3.0, 30.0, 1000.0]))
    u = signal.latent(rng, n)
    x, p = signal.rows(rng, u, signal.log_odds(u))
    weight = np.maximum(np.rint(mean * rng.lognormal(0.0, 0.5, n)), 1.0)
    u_new = signal.latent(rng, NEW_ROWS)
    new, truth = signal.rows(rng, u_new, signal.log_odds(u_new))
    options = {"weights": "importance"} if design.random() < 0.5 else {}
    detail = f"{signal}, mean weight {mean:g}, {options.get('weights', 'as they come')}"
    arguments = {"sample_weight": weight}
    y = labels(rng, p)
    return Challenge(
        "weights", detail, x, y, NewRows(new, None, truth), arguments, options
    )


def plain_curve(design: np.random.Generator, rng: np.random.Generator) -> Challenge:
    """Heavy tails and atoms, nothing else."""
    signal = Signal.draw(design)
    u = signal.latent(rng, number_of_rows(rng))
    x, p = signal.rows(rng, u, signal.log_odds(u))
    u_new = signal.latent(rng, NEW_ROWS)
    new, truth = signal.rows(rng, u_new, signal.log_odds(u_new))
    return Challenge(
        "one curve", str(signal), x, labels(rng, p), NewRows(new, None, truth)
    )


def labels_of_classes(rng: np.random.Generator, P: Array) -> Codes:
    """Labels with these probabilities; the first two rows are of the first and last class."""
    chosen = (P.cumsum(axis=1) > rng.random((len(P), 1))).argmax(axis=1)
    chosen[0] = 0
    chosen[1] = P.shape[1] - 1
    return np.asarray(chosen, dtype=np.intp)


def small_logits(design: np.random.Generator, rng: np.random.Generator) -> Challenge:
    """Logits of any scale that need a temperature, or one for each class."""
    m = int(design.choice([5, 10, 30, 100, 1000], p=[0.3, 0.3, 0.2, 0.15, 0.05]))
    n = number_of_rows(design, 1000.0)
    scale = float(10.0 ** design.uniform(-6.0, 0.0))
    freedom = int(design.choice([0, 3]))
    differ = bool(design.random() < 0.4)
    slopes = 1.0 + 0.3 * design.normal(size=m) * differ
    intercepts = 0.5 * design.normal(size=m) * differ

    def draw(n: int) -> tuple[Array, Array]:
        u = rng.normal(0.0, 2.0, (n, m))
        if freedom:
            u = 1.2 * rng.standard_t(freedom, (n, m))
        return scale * u - 0.25, softmax(slopes * u + intercepts, axis=1)

    x, P = draw(n)
    new, truth = draw(NEW_ROWS_OF_CLASSES)
    tail = "t3" if freedom else "normal"
    need = "own slopes" if differ else "a temperature"
    detail = f"{m} classes, {tail} logits of scale {scale:.2g}"
    y = labels_of_classes(rng, P)
    return Challenge(f"small logits, {need}", detail, x, y, NewRows(new, None, truth))


def segments_of_classes(
    design: np.random.Generator, rng: np.random.Generator
) -> Challenge:
    """Several classes by segments, of which one may have a single class."""
    m = int(design.choice([3, 5, 10]))
    S = int(design.choice([2, 5, 20]))
    multiclass = str(design.choice(["structured", "ovr"]))
    effects = design.normal(size=(S, m)) * design.choice([0.0, 0.7])
    one_class = int(design.integers(S)) if design.random() < 0.3 else -1
    freedom = int(design.choice([0, 1, 3]))

    def draw(n: int) -> tuple[Array, Array, Codes]:
        s = rng.integers(S, size=n)
        u = rng.normal(0.0, 1.5, (n, m))
        if freedom:
            u = rng.standard_t(freedom, (n, m))
        bounded = 4.0 * np.tanh(u / 4.0)
        P = softmax(bounded + effects[s], axis=1)
        single = np.full(m, 0.001 / (m - 1))
        single[0] = 0.999
        P = np.where((s == one_class)[:, None], single, P)
        return softmax(np.clip(u, -300.0, 300.0), axis=1), P, s

    x, P, s = draw(number_of_rows(design))
    new, truth, of_new = draw(NEW_ROWS_OF_CLASSES)
    tail = {0: "normal", 1: "Cauchy", 3: "t3"}[freedom]
    detail = f"{multiclass}, {m} classes, {tail} logits, {S} segments"
    if one_class >= 0:
        detail += ", one of a single class"
    return Challenge(
        "segments of classes",
        detail,
        x,
        labels_of_classes(rng, P),
        NewRows(new, [of_new], truth),
        {"by": s},
        {"multiclass": multiclass},
    )


FAMILIES: dict[str, Family] = {
    "segments": segments,
    "confounded columns": confounded_columns,
    "groups": dominating_group,
    "weights": survey_weights,
    "one curve": plain_curve,
    "small logits": small_logits,
    "segments of classes": segments_of_classes,
}


def challenge_at(family: str, seed: int, repeat: int = 0) -> Challenge:
    """The challenge of a family with this seed; repeats have the same design."""
    number = list(FAMILIES).index(family)
    design = np.random.default_rng([seed, 31, number])
    rng = np.random.default_rng([seed, 31, number, repeat + 1])
    return FAMILIES[family](design, rng)
