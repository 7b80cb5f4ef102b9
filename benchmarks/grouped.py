"""Rows that belong together: ``python -m benchmarks.grouped`` writes ``benchmarks/GROUPED.md``.

* Published forecasts whose rows come in groups, calibrated on half of the groups and
  judged on the others: the default with and without ``groups``, and what other
  libraries do, none of which knows groups.
* Simulated data whose design effect is known: is ``n_effective_`` right, and do tests,
  bands and intervals keep their level with groups, and fail without.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from benchmarks.datasets import grouped_names, load_grouped
from benchmarks.tables import table
from calspline import BetaCalibrator, SplineCalibrator, compare, evaluate
from calspline._arrays import Counts, one_blas_thread

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Method = Callable[[Array, Ints, Ints, Array], Array]

SPLITS = 6
CLIP = 1e-6
HARMED = 1.01
PLACES = 200
REPLICATIONS, LEVEL = 300, 0.05
GRID = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


def platt(p: Array, y: Ints, group: Ints, test: Array) -> Array:
    """A logistic regression on the log-odds, as in scikit-learn but for its smoothed targets."""
    x, z = (logit(np.clip(one, CLIP, 1.0 - CLIP))[:, None] for one in (p, test))
    return np.asarray(
        LogisticRegression(C=1e6, max_iter=1000).fit(x, y).predict_proba(z)[:, 1]
    )


def isotonic(p: Array, y: Ints, group: Ints, test: Array) -> Array:
    """Scikit-learn's isotonic regression."""
    return np.asarray(IsotonicRegression(out_of_bounds="clip").fit(p, y).predict(test))


def venn_abers(p: Array, y: Ints, group: Ints, test: Array) -> Array:
    """Venn-Abers: isotonic regression with the test row added as either class, at 200 places, and their merger."""
    counts = Counts.from_rows(p, y == 1)
    places = np.unique(np.quantile(test, np.linspace(0.0, 1.0, PLACES)))
    both = np.empty((2, len(places)))
    for k, place in enumerate(places):
        at = int(np.searchsorted(counts.x, place))
        known = at < len(counts) and counts.x[at] == place
        for label in (0, 1):
            if known:
                w, w1 = counts.w.copy(), counts.positives.copy()
                w[at], w1[at] = w[at] + 1.0, w1[at] + label
            else:
                w, w1 = (
                    np.insert(counts.w, at, 1.0),
                    np.insert(counts.positives, at, float(label)),
                )
            both[label, k] = isotonic_regression(w1 / w, weights=w).x[at]
    p0, p1 = (np.interp(test, places, one) for one in both)
    return np.asarray(p1 / (1.0 - p0 + p1))


METHODS: dict[str, Method] = {
    "raw": lambda p, y, group, test: test,
    "default, without groups": lambda p, y, group, test: (
        SplineCalibrator().fit(p, y).calibrate(test)
    ),
    "default, with groups": lambda p, y, group, test: (
        SplineCalibrator().fit(p, y, groups=group).calibrate(test)
    ),
    "isotonic": isotonic,
    "Platt": platt,
    "beta": lambda p, y, group, test: BetaCalibrator().fit(p, y).calibrate(test),
    "Venn-Abers": venn_abers,
}


def log_loss(p: Array, y: Ints) -> float:
    """Mean log-loss, with probabilities clipped at 1e-6."""
    p = np.clip(p, CLIP, 1.0 - CLIP)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


def real_losses(name: str) -> Array:
    """The log-loss of each method on each split of a set: shape (splits, methods)."""
    data = load_grouped(name)
    scores, labels = data["scores"].astype(np.float64), data["labels"].astype(np.intp)
    groups = np.unique(data["group"], return_inverse=True)[1]
    found = []
    for seed in range(SPLITS):
        here = (np.random.default_rng(seed).random(groups.max() + 1) < 0.5)[groups]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits = [
                run(scores[here], labels[here], groups[here], scores[~here])
                for run in METHODS.values()
            ]
        found.append([log_loss(p, labels[~here]) for p in fits])
    return np.array(found)


def real_tables() -> tuple[str, str]:
    """All sets together, and each of them."""
    losses = {name: real_losses(name) for name in grouped_names()}
    every = np.concatenate(list(losses.values()))
    harmed = (every > HARMED * every[:, :1]).mean(axis=0)
    rows = [
        [
            method,
            f"{every[:, j].mean():.4f}",
            f"{every[:, j].mean() - every[:, 0].mean():+.4f}",
            f"{harmed[j]:.0%}",
        ]
        for j, method in enumerate(METHODS)
    ]
    rows[0][3] = ""
    each = [
        [name, *(f"{loss:.4f}" for loss in found.mean(axis=0))]
        for name, found in losses.items()
    ]
    return table(["", "mean log-loss", "above raw", "harmed (of splits)"], rows), table(
        ["set", *METHODS], each
    )


def blocks(rng: np.random.Generator, effect: int) -> tuple[Array, Array, Ints, Ints]:
    """Fifty groups of 150 rows, in blocks of ``effect`` rows that agree: the design effect is that, exactly."""
    n = 50 * 150 // effect
    u = 1.5 * rng.normal(size=n)
    true = expit(0.7 * u - 0.3)
    y = (rng.random(n) < true).astype(np.intp)
    group = np.arange(n) // (150 // effect)
    return (
        np.repeat(u, effect),
        np.repeat(true, effect),
        np.repeat(y, effect),
        np.repeat(group, effect),
    )


def correlated(
    rng: np.random.Generator, correlation: float
) -> tuple[Array, Array, Ints, Ints]:
    """Two hundred groups of ten rows, whose outcomes share a normal variable."""
    group = np.repeat(np.arange(200), 10)
    u = 1.5 * rng.normal(size=len(group))
    true = expit(0.7 * u - 0.3)
    e = np.sqrt(correlation) * rng.normal(size=200)[group] + np.sqrt(
        1.0 - correlation
    ) * rng.normal(size=len(group))
    return u, true, (norm.cdf(e) < true).astype(np.intp), group


SIMULATIONS: dict[str, partial[tuple[Array, Array, Ints, Ints]]] = {
    "design effect 1, 50 groups of 150 rows": partial(blocks, effect=1),
    "design effect 3, 50 groups of 150 rows": partial(blocks, effect=3),
    "design effect 10, 50 groups of 150 rows": partial(blocks, effect=10),
    "design effect 50, 50 groups of 150 rows": partial(blocks, effect=50),
    "correlation 0.3, 200 groups of 10 rows": partial(correlated, correlation=0.3),
}


def expected_difference() -> float:
    """The true difference of log-loss between the scores and the true probabilities."""
    u = 1.5 * norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    true, p = expit(0.7 * u - 0.3), expit(u)
    entropy, cross = (
        -(true * np.log(q) + (1.0 - true) * np.log1p(-q)) for q in (true, p)
    )
    return float(np.mean(entropy - cross))


def simulated_rows(name: str) -> list[list[str]]:
    """Figures of one simulation, without and with groups."""
    draw = SIMULATIONS[name]
    effect = draw.keywords.get("effect")
    difference, at = expected_difference(), expit(0.7 * logit(GRID) - 0.3)
    out = []
    for told in (False, True):
        rejected, covered, simultaneous, compared, worth = [], [], [], [], []
        for seed in range(REPLICATIONS):
            u, true, y, group = draw(np.random.default_rng(seed))
            groups = group if told else None
            rejected.append(
                evaluate(y, true, groups=groups).calibration_p_value <= LEVEL
            )
            calibrator = SplineCalibrator().fit(expit(u), y, groups=groups)
            worth.append(calibrator.n_effective_)
            low, high = calibrator.interval(GRID).T
            covered.append(np.mean((low <= at) & (at <= high)))
            low, high = calibrator.interval(GRID, simultaneous=True).T
            simultaneous.append(np.all((low <= at) & (at <= high)))
            found = compare(y, {"raw": expit(u), "true": true}, groups=groups).log_loss[
                "true"
            ]
            compared.append(found.lower <= difference <= found.upper)
        known = "" if effect is None else f" (true: {7_500 // effect:,})"
        shares = (
            f"{100.0 * float(np.mean(one)):.1f}%"
            for one in (rejected, covered, simultaneous, compared)
        )
        out.append(
            [
                name,
                "with groups" if told else "without",
                f"{np.mean(worth):,.0f}{known}",
                *shares,
            ]
        )
    return out


def cost_row(curve: Callable[[Array], Array], name: str) -> list[str]:
    """Excess log-loss on 2,000 independent rows in groups of ten: not told, told, and counting a group as one row."""
    u_test = 1.5 * norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    true = expit(u_test)
    test = expit(curve(u_test))
    excess = np.empty((REPLICATIONS, 3))
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        u = 1.5 * rng.normal(size=2000)
        p, y = expit(curve(u)), (rng.random(2000) < expit(u)).astype(np.intp)
        calibrator = SplineCalibrator()
        fits = [calibrator.fit(p, y).calibrate(test)]
        fits.append(calibrator.fit(p, y, groups=np.arange(2000) // 10).calibrate(test))
        fits.append(
            calibrator.fit_histogram(
                calibrator.fit(p, y).histogram_, n_effective=200
            ).calibrate(test)
        )
        for j, q in enumerate(fits):
            excess[seed, j] = np.mean(
                true * np.log(true / q)
                + (1.0 - true) * np.log((1.0 - true) / (1.0 - q))
            )
    mean = 1e4 * excess.mean(axis=0)
    return [name, *(f"{value:.2f}" for value in mean), f"{mean[1] - mean[0]:+.2f}"]


def main() -> None:
    with one_blas_thread():
        whole, each = real_tables()
        simulated = table(
            [
                "simulated",
                "",
                "`n_effective_`",
                "test rejects",
                "band covers",
                "at once",
                "`compare` covers",
            ],
            [row for name in SIMULATIONS for row in simulated_rows(name)],
        )
        cost = table(
            [
                "scores",
                "without groups",
                "with groups",
                "a group as one row",
                "cost of asking",
            ],
            [
                cost_row(lambda u: u, "right"),
                cost_row(lambda u: 2.0 * u, "over-confident, twice the log-odds"),
            ],
        )
    text = f"""# Rows that belong together

Written by `python -m benchmarks.grouped`.

## Published forecasts

Forecasts of games, seasons and elections, many rows for each outcome, from FiveThirtyEight's "checking our work" data.
Each set is split {SPLITS} times by group: half to calibrate on, half to judge. "Harmed" are splits whose log-loss is
more than 1% above that of the raw forecasts. Only the third line knows groups.

{whole}

## Each set

Mean log-loss over the splits.

{each}

## Known design effects

Scores whose log-odds are too far out, {REPLICATIONS} samples each. In the first four, rows agree in blocks inside
groups, so that the design effect is known. The test is that of true probabilities and should reject in 5%; bands (at
five probabilities, and at all of them at once) and the intervals of `compare` should cover 95%.

{simulated}

`n_effective_` is made to err on the side of fewer rows, as an upper limit of the design effect is used. So bands are
a little wide with groups.

## What it costs to ask

Excess log-loss in 1e-4 nats of fits to 2,000 independent rows that come in groups of ten, {REPLICATIONS} samples each.

{cost}
"""
    Path(__file__).with_name("GROUPED.md").write_text(text)


if __name__ == "__main__":
    main()
