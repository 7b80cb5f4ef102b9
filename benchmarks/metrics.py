"""Coverage of the limits of ``evaluate``: ``python -m benchmarks.metrics``.

Arguments are the number of simulations and the numbers of classes, two and three by
default. Writes ``benchmarks/METRICS.md``: how often the 95% limits of each number contain the
true value, for rows that are independent or in groups, with two and three classes.
True values are those of a large population whose outcomes are replaced by their true
probabilities. Limits of distances from the curve are about the rows at hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import expit, ndtr, softmax

from benchmarks.tables import table
from calspline import evaluate
from calspline._arrays import Counts, one_blas_thread
from calspline.evaluation import calibration_error, losses
from calspline.evaluation.recalibration import recalibration

Array = NDArray[np.float64]

SIMULATIONS = 400
SIZES = (200, 1000, 10_000)
POPULATION = 400_000
GROUP_SIZE = 5
OUTCOME_CORRELATION = 0.4
"""Correlation of the latent normal variables behind outcomes of a group."""
SCORE_CORRELATION = 0.5
CLASSES = 3
CURVE_CELLS = 400
SHOWN = (
    "log_loss",
    "calibration_log_loss",
    "refinement_log_loss",
    "brier",
    "calibration_brier",
    "accuracy",
    "auc",
    "ece",
    "smooth_ece",
    "ici",
    "e90",
    "emax",
    "base_rate",
    "calibration_slope",
    "class_wise_ece",
)

EXPLANATION = """\
Coverage above 97% has three causes.

- A true value of 0, or well within its error, can hardly be missed from above. The avoidable loss cannot be negative,
  so that limits of it are too low in none of 300 samples of right probabilities, and too high in the 1 to 2.5% that
  are meant for this side. The lower limit of a distance is 0 unless the calibration test rejects, which with 200 rows
  in groups it does for 6% of the samples of "waves": only the upper limit can miss. Upper limits of 95% in place of
  97.5% do not help: of "waves" with 1,000 rows they cover `e90` in 90%.
- Errors of the avoidable loss are skewed to the right, and larger estimates have wider limits.
- `emax` has an upper limit that covers the lines at the limits of the slope, on purpose.

The lowest coverage is that of 200 rows in 40 groups, and that of distances of three right classes with 200 rows, which
is chance: the calibration test, on which it hangs, rejects 5.1 and 5.4% of 3,000 other samples each, and 9.7% of the
first 300 of these."""

TRUTHS: dict[str, Callable[[Array], Array]] = {
    "right": lambda u: u,
    "over-confident": lambda u: 0.7 * u + 0.2,
    "waves": lambda u: 0.8 * u + 0.3 * np.sin(2.0 * u),
}


@dataclass(frozen=True)
class Sample:
    """Predicted and true probabilities with outcomes and groups of rows."""

    p: Array
    true: Array
    y: NDArray[np.intp]
    group: NDArray[np.intp]


def correlated(
    rng: np.random.Generator, group: NDArray[np.intp], correlation: float, m: int
) -> Array:
    """Standard normal columns that are correlated within groups."""
    shared = rng.standard_normal((group[-1] + 1, m))[group]
    own = rng.standard_normal((len(group), m))
    return np.asarray(np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own)


def draw(
    rng: np.random.Generator,
    n: int,
    truth: Callable[[Array], Array],
    n_classes: int,
    in_groups: bool,
) -> Sample:
    """Draw rows; outcomes of a group depend on each other given the scores."""
    group = np.arange(n) // GROUP_SIZE
    columns = 1 if n_classes == 2 else n_classes
    score_correlation = SCORE_CORRELATION if in_groups else 0.0
    outcome_correlation = OUTCOME_CORRELATION if in_groups else 0.0
    u = 1.5 * correlated(rng, group, score_correlation, columns)
    uniform = ndtr(correlated(rng, group, outcome_correlation, 1))
    if n_classes == 2:
        u = u[:, 0] - 0.5
        true = expit(truth(u))
        y = (uniform[:, 0] < true).astype(np.intp)
        return Sample(expit(u), true, y, group)
    true = softmax(truth(u), axis=1)
    y = (uniform > np.cumsum(true, axis=1)[:, :-1]).sum(axis=1)
    return Sample(softmax(u, axis=1), true, y, group)


def true_values(sample: Sample) -> dict[str, float]:
    """What ``evaluate`` estimates, from true probabilities instead of outcomes."""
    if sample.p.ndim == 1:
        return binary_values(sample.p, sample.true)
    p, true = sample.p, sample.true
    rows = np.arange(len(p))
    top = p.argmax(axis=1)
    values = binary_values(p[rows, top], true[rows, top])
    values["accuracy"] = values["base_rate"]
    by_class = [binary_values(p[:, j], true[:, j]) for j in range(p.shape[1])]
    for name in ("brier", "calibration_brier", "refinement_brier"):
        values[name] = sum(one[name] for one in by_class)
    values["auc"] = float(np.mean([one["auc"] for one in by_class]))
    for name in ("ece", "smooth_ece"):
        mean = float(np.mean([one[name] for one in by_class]))
        values[f"class_wise_{name}"] = mean
    refined = np.column_stack(
        [isotonic(p[:, j], true[:, j]) for j in range(p.shape[1])]
    )
    refined /= refined.sum(axis=1, keepdims=True)
    values["log_loss"] = float(-(true * np.log(p)).sum(axis=1).mean())
    values["refinement_log_loss"] = float(-(true * np.log(refined)).sum(axis=1).mean())
    difference = values["log_loss"] - values["refinement_log_loss"]
    values["calibration_log_loss"] = difference
    return values


def isotonic(p: Array, true: Array) -> Array:
    """Isotonic regression of the true probabilities on the predicted ones."""
    order = np.argsort(p)
    fitted = np.empty_like(p)
    fitted[order] = isotonic_regression(true[order]).x
    return np.clip(fitted, 1e-12, 1.0 - 1e-12)


def binary_values(p: Array, true: Array) -> dict[str, float]:
    order = np.argsort(p)
    f = Counts(p[order], true[order], 1.0 - true[order])
    q = losses.recalibrated(f)
    distance = np.abs(isotonic(p, true) - p)
    cox = recalibration(f)
    bins = calibration_error.equal_width_bins(f.x, calibration_error.ECE_BINS)
    ece = calibration_error.ece(f, bins)[0]
    e50, e90 = np.quantile(distance, [0.5, 0.9]).tolist()
    return {
        "log_loss": losses.log_loss(f),
        "calibration_log_loss": losses.log_loss(f) - losses.log_loss(f, q),
        "refinement_log_loss": losses.log_loss(f, q),
        "brier": losses.brier(f),
        "calibration_brier": losses.brier(f) - losses.brier(f, q),
        "refinement_brier": losses.brier(f, q),
        "accuracy": losses.accuracy(f),
        "auc": losses.auc(f),
        "ece": ece,
        "ece_debiased": ece,
        "smooth_ece": calibration_error.smooth_ece(f),
        "ici": float(distance.mean()),
        "e50": e50,
        "e90": e90,
        "emax": float(distance.max()),
        "mean_probability": f.mean,
        "base_rate": f.base_rate,
        "calibration_in_the_large": cox.in_the_large,
        "calibration_slope": cox.slope,
    }


def top_label(sample: Sample) -> tuple[Array, Array]:
    """Probability of the most probable class, and the true probability of that class."""
    place = sample.p.argmax(axis=1)[:, None]
    confidence = np.take_along_axis(sample.p, place, axis=1)[:, 0]
    return confidence, np.take_along_axis(sample.true, place, axis=1)[:, 0]


def top_label_curve(population: Sample) -> Callable[[Array], Array]:
    """How often the most probable class is right, by its probability."""
    confidence, true = top_label(population)
    order = np.argsort(confidence)
    x = [part.mean() for part in np.array_split(confidence[order], CURVE_CELLS)]
    y = [part.mean() for part in np.array_split(true[order], CURVE_CELLS)]
    return lambda p: np.interp(p, x, y)


def at_rows(p: Array, true: Array) -> dict[str, float]:
    """Distances at the rows of a sample."""
    distance = np.abs(true - p)
    e50, e90 = np.quantile(distance, [0.5, 0.9], method="inverted_cdf").tolist()
    mean = float(distance.mean())
    return {"ici": mean, "e50": e50, "e90": e90, "emax": float(distance.max())}


def covered(
    truth: str, n: int, n_classes: int, in_groups: bool, simulations: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Share of samples whose limits contain the true value, and mean bias, by name."""
    rng = np.random.default_rng(12345)
    population = draw(rng, POPULATION, TRUTHS[truth], n_classes, in_groups=False)
    values = true_values(population)
    curve = top_label_curve(population) if n_classes > 2 else expit
    hits = dict.fromkeys(values, 0)
    sums = dict.fromkeys(values, 0.0)
    for seed in range(simulations):
        rng = np.random.default_rng([seed, n])
        sample = draw(rng, n, TRUTHS[truth], n_classes, in_groups)
        groups = sample.group if in_groups else None
        result = evaluate(sample.y, sample.p, groups=groups, labels=range(n_classes))
        p, true = sample.p, sample.true
        if n_classes > 2:
            p, _ = top_label(sample)
            true = curve(p)
        known = values | at_rows(p, true)
        for name, value in known.items():
            low, high = result.limits[name]
            hits[name] += low <= value + 1e-9 and value - 1e-9 <= high
            sums[name] += getattr(result, name) - value
    shares = {name: count / simulations for name, count in hits.items()}
    return shares, {name: total / simulations for name, total in sums.items()}


def settings(classes: Sequence[int]) -> Iterator[tuple[str, int, int, bool]]:
    for n_classes in classes:
        for in_groups in (False, True):
            for truth in TRUTHS:
                for n in SIZES:
                    yield truth, n, n_classes, in_groups


def write_report(simulations: int, classes: Sequence[int], path: Path) -> None:
    """Run all settings and write a table of coverage."""
    rows = []
    for truth, n, n_classes, in_groups in settings(classes):
        shares, bias = covered(truth, n, n_classes, in_groups, simulations)
        label = [
            truth,
            str(n_classes),
            "groups" if in_groups else "independent",
            f"{n:,}",
        ]
        cells = [
            f"{100.0 * shares[name]:.1f}" if name in shares else "-" for name in SHOWN
        ]
        rows.append([*label, *cells, f"{bias['calibration_log_loss']:+.5f}"])
        print(*rows[-1], flush=True)
    path.write_text(report_text(rows, simulations, classes), encoding="utf-8")


def report_text(rows: list[list[str]], simulations: int, classes: Sequence[int]) -> str:
    """The table with its explanation."""
    arguments = " ".join(map(str, (simulations, *classes)))
    error = 100.0 * np.sqrt(0.95 * 0.05 / simulations)
    head = [
        "truth",
        "classes",
        "rows are",
        "rows",
        *SHOWN,
        "bias of calibration_log_loss",
    ]
    parts = [
        "# Limits of what evaluate measures: do they cover?",
        f"Written by `python -m benchmarks.metrics {arguments}`: share (in %) of {simulations:,} simulated data "
        f"sets whose 95% limits contain the true value. By chance alone, 95% is seen as 95 ± {error:.1f}% (one standard "
        "error), for all measures of a row alike, as they share their data sets.",
        table(head, rows),
        EXPLANATION,
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    with one_blas_thread():
        numbers = [int(argument) for argument in sys.argv[1:]]
        write_report(
            numbers[0] if numbers else SIMULATIONS,
            numbers[1:] or (2, CLASSES),
            Path(__file__).with_name("METRICS.md"),
        )
