"""Data on which fits went wrong silently: ``python -m benchmarks.silent_failures``.

Each case is generated here. Writes ``SILENT_FAILURES.md``: what versions before
1.0.0 gave and what is given now. A few minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from benchmarks.tables import table
from calspline import SplineCalibrator, TemperatureCalibrator, evaluate

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

RESULT = Path(__file__).parent / "SILENT_FAILURES.md"
TINY = 1e-15
Line = tuple[str, str, str]
"""What is measured, what it was, and what it is."""


def expected_loss(truth: Array, p: Array) -> float:
    """Mean log-loss to be expected of predictions, given true probabilities."""
    p = np.clip(p, TINY, 1.0 - TINY)
    return float(-np.mean(truth * np.log(p) + (1.0 - truth) * np.log1p(-p)))


def log_loss(y: Codes, P: Array) -> float:
    """Mean log-loss of several classes."""
    return float(-np.mean(np.log(np.maximum(P[np.arange(len(y)), y], TINY))))


def segments_of_heavy_tails() -> list[Line]:
    """Thirty segments that do not differ, margins with t3 tails."""
    behind = []
    for seed in range(150):
        rng = np.random.default_rng(seed)

        def draw(
            n: int, rng: np.random.Generator = rng
        ) -> tuple[Codes, Array, Array, Codes]:
            s = rng.integers(30, size=n)
            u = rng.standard_t(3, n)
            p = expit(2.0 * np.tanh(u))
            return s, 10.0 * u, p, (rng.random(n) < p).astype(np.intp)

        s, x, _, y = draw(4000)
        s_new, x_new, p_new, _ = draw(20_000)
        pooled = SplineCalibrator().fit(x, y).calibrate(x_new)
        by = SplineCalibrator().fit(x, y, by=s).calibrate(x_new, by=s_new)
        behind.append(expected_loss(p_new, by) - expected_loss(p_new, pooled))
    worse = sum(each > 0.01 for each in behind)
    return [
        (
            "`by`, t3 margins: fits more than 0.01 nats behind the pooled curve",
            "8 of 150",
            f"{worse} of 150; at most {max(behind):+.4f}",
        )
    ]


def confounded_columns() -> list[Line]:
    """Two columns of ten segments each, that agree in 80% of rows."""
    excess, apart = [], []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        effects = rng.normal(0.0, 0.8, 10)

        def draw(
            n: int, rng: np.random.Generator = rng, effects: Array = effects
        ) -> tuple[Array, Array, Codes, list[Codes]]:
            a = rng.integers(10, size=n)
            keep = rng.random(n) < 0.8
            b = np.where(keep, a, rng.integers(10, size=n))
            z = rng.normal(0.0, 1.5, n)
            p = expit(z + effects[a] - effects[b] / 0.8)
            return expit(z), p, (rng.random(n) < p).astype(np.intp), [a, b]

        x, _, y, by = draw(1000)
        x_new, p_new, _, by_new = draw(20_000)
        one = SplineCalibrator().fit(x, y, by=by).calibrate(x_new, by=by_new)
        other = SplineCalibrator().fit(x, y, by=by[::-1])
        turned = other.calibrate(x_new, by=by_new[::-1])
        losses = [expected_loss(p_new, p) for p in (one, turned, p_new)]
        apart.append(abs(losses[0] - losses[1]))
        excess.append(losses[0] - losses[2])
    return [
        (
            "two columns of segments in either order: largest difference in loss",
            "depends on the order",
            f"{max(apart):.1e}; excess {np.mean(excess):.4f}",
        )
    ]


def small_logits() -> list[Line]:
    """Logits that need a temperature, on scales from 1 to 1e-6, 5 to 1,000 classes."""
    lines = []
    for m, n, scales in (
        (5, 800, (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-6)),
        (10, 2000, (1.0, 0.01, 1e-4, 1e-6)),
        (100, 5000, (1.0, 0.01, 1e-6)),
        (1000, 5000, (1.0, 1e-4)),
    ):
        rng = np.random.default_rng(0)
        u = rng.normal(0.0, 2.0, (2 * n, m))
        chosen = softmax(u, axis=1).cumsum(axis=1) > rng.random((2 * n, 1))
        y = np.asarray(chosen.argmax(axis=1), dtype=np.intp)
        # Every class has a row.
        y[: min(m, n)] = np.arange(min(m, n))
        behind = []
        each_class = []
        for scale in scales:
            x = scale * u - 0.25
            ours = SplineCalibrator().fit(x[:n], y[:n]).predict_proba(x[n:])
            rival = TemperatureCalibrator().fit(x[:n], y[:n]).predict_proba(x[n:])
            behind.append(log_loss(y[n:], ours) - log_loss(y[n:], rival))
            ovr = SplineCalibrator(multiclass="ovr").fit(x[:n], y[:n])
            curves = ovr.predict_proba(x[n:])
            each_class.append(log_loss(y[n:], curves) - log_loss(y[n:], rival))
        was = "+0.335 at the scale of cosines" if m == 100 else ""
        lines.append(
            (
                f"{m:,} classes, logits of scale {scales[0]:g} to {scales[-1]:g}: loss "
                "above that of a temperature",
                was,
                f"{min(behind):+.4f} to {max(behind):+.4f}; a curve for each class "
                f"{min(each_class):+.4f} to {max(each_class):+.4f}",
            )
        )
    return lines


def dominating_group() -> list[Line]:
    """Twenty groups, one of which has 90% of the rows."""
    covered, effects = [], []
    z_new = np.linspace(-3.0, 3.0, 41)
    share = np.exp(-(z_new**2) / 2.88)
    share /= share.sum()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sizes = np.r_[8550, np.full(19, 50)]
        group = np.repeat(np.arange(20), sizes)
        z = rng.normal(0.0, 1.2, len(group))
        y = rng.random(len(z)) < expit(z + rng.normal(0.0, 0.7, 20)[group])
        truth = expit(z_new[:, None] + rng.normal(0.0, 0.7, 4000)).mean(axis=1)
        cal = SplineCalibrator().fit(expit(z), y, groups=group)
        low, high = cal.interval(expit(z_new)).T
        covered.append(float(share @ ((low <= truth) & (truth <= high))))
        effects.append(cal.design_effect_)
    return [
        (
            "one group with 90% of the rows: coverage of 95% intervals",
            "14%, design effect 2.3",
            f"{np.mean(covered):.0%}, design effect {np.median(effects):.0f}",
        )
    ]


def confident_segments() -> list[Line]:
    """Perfect probabilities with log-odds N(0, 8), in fifty segments."""
    p_values = []
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        p = expit(rng.normal(0.0, 8.0, 2000))
        y = (rng.random(2000) < p).astype(int)
        found = evaluate(y, p, by=rng.integers(50, size=2000)).segments
        assert found is not None
        p_values.append(found.p_value)
    return [
        (
            "`evaluate(by=)`, confident and calibrated: rejected at 5%",
            "56%",
            f"{np.mean(np.array(p_values) < 0.05):.1%}",
        )
    ]


def weights_that_are_no_counts() -> list[Line]:
    """Rounded weights with a mean of 1, 2, 4 and 100."""
    lines = []
    for mean, was in ((1.0, ""), (2.0, ""), (4.0, ""), (100.0, "0 of 20 (covers 14%)")):
        warned = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            z = rng.normal(-0.5, 1.5, 500)
            y = rng.random(500) < expit(0.7 * z)
            w = np.maximum(np.round(mean * rng.uniform(0.5, 1.5, 500)), 1.0)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                SplineCalibrator().fit(expit(z), y, sample_weight=w)
            warned += any("sample_weight" in str(each.message) for each in caught)
        name = f"rounded weights with a mean of {mean:g}: fits that warn"
        lines.append((name, was, f"{warned} of 20"))
    return lines


def segments_with_groups() -> list[Line]:
    """Twenty segments, each with one group or with ten; no dependence but theirs."""
    lines = []
    for per in (1, 10):
        behind, groups_only = [], []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            size = 150 // per
            s = np.repeat(np.arange(20), per * size)
            group = np.repeat(np.arange(20 * per), size)
            z = rng.normal(0.0, 1.3, len(s))
            p = expit(z + rng.normal(0.0, 0.8, 20)[s])
            y = rng.random(len(s)) < p
            truth = expected_loss(p, p)
            both = SplineCalibrator().fit(expit(z), y, by=s, groups=group)
            grouped = SplineCalibrator().fit(expit(z), y, groups=group)
            behind.append(expected_loss(p, both.calibrate(expit(z), by=s)) - truth)
            groups_only.append(expected_loss(p, grouped.calibrate(expit(z))) - truth)
        lines.append(
            (
                f"`by` with `groups`, {per} groups in each segment: excess loss",
                "as without `by`" if per == 1 else "",
                f"{np.mean(behind):.4f}; without `by` {np.mean(groups_only):.4f}",
            )
        )
    return lines


def stated_zeros() -> list[Line]:
    """Rounded forecasts: a score of 0 never seen, and three of three at 1."""
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 1.5, 600)
    group = np.arange(600) // 6
    y = rng.random(600) < expit(0.6 * z + rng.normal(size=100)[group])
    scores = np.clip(np.round(expit(z), 2), 0.02, 0.98)
    unseen = SplineCalibrator().fit(scores, y, groups=group).calibrate([0.0])[0]
    scores[:3], y[:3] = 1.0, True
    certain = SplineCalibrator().fit(scores, y, groups=group).calibrate([1.0])[0]
    return [
        ("a rounded score of 0 that was never seen", "2e-6", f"{unseen:.4f}"),
        ("a score of 1, three positives of three", "1.000000", f"{certain:.4f}"),
    ]


CASES: tuple[Callable[[], list[Line]], ...] = (
    segments_of_heavy_tails,
    confounded_columns,
    small_logits,
    dominating_group,
    confident_segments,
    weights_that_are_no_counts,
    segments_with_groups,
    stated_zeros,
)


def main() -> None:
    lines: list[list[str]] = []
    for case in CASES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for line in case():
                lines.append(list(line))
                print(" | ".join(line), flush=True)
    text = [
        "# Silent failures",
        "",
        "`python -m benchmarks.silent_failures`: data on which a version before 1.0.0 "
        "went wrong without a warning,",
        "with what it gave (where that is known) and what is given now. Losses are in "
        "nats a row. Random data sets of the",
        "same kinds, next to simple methods, are in [STRESS.md](STRESS.md).",
        "",
        table(["", "before", "now"], lines),
        "",
    ]
    RESULT.write_text("\n".join(text))


if __name__ == "__main__":
    main()
