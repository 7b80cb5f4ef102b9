"""Fits whose probabilities, intervals and fitted attributes are kept.

A case is a calibrator and rows. ``make golden`` refuses one that moves by more than its
tolerance when rows are shuffled and scores change in their last bit: it would differ
between machines.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.ensemble import BaggingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from tests.golden import data
from tests.golden.data import COUNTRIES, Rows
from tests.golden.record import TOLERANCE, Area, Case, plain

from calspline import (
    BetaCalibrator,
    CalibratedClassifierCV,
    ClippingCalibrator,
    IsotonicCalibrator,
    ScoreHistogram,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
)

ATTRIBUTES = (
    "smoothing_",
    "edf_",
    "epsilon_",
    "knots_",
    "converged_",
    "n_iter_",
    "n_effective_",
    "design_effect_",
)
COARSE = [1e-3, 1e-1, 10.0]
"""Strengths for cross-validation to choose from: few and clearly different."""
COSTLY = {"n_knots": 25, "smoothing_grid": [1e-2, 1.0, 100.0]}
"""The paper's algorithms in a size that takes milliseconds."""
DEVICES = (1, 2.5, 7)
SINGLE = {
    "looser": {"interval": 1e-5},
    "reason": "single precision in the covariance of four and more classes",
}
RIDGE = {
    "tolerance": 1e-9,
    "looser": {"edf": 1e-7},
    "reason": "the basis of truncated powers is badly conditioned",
}


@contextmanager
def quiet():
    """Warnings are kept in another area."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def describe(calibrator: Any, rows: Rows, *, intervals: bool = True) -> dict[str, Any]:
    """Predictions and fitted attributes of a calibrator."""
    given = {} if rows.probes_by is None else {"by": rows.probes_by}
    binary = len(calibrator.classes_) == 2
    with quiet():
        p = calibrator.predict_proba(rows.probes, **given)
        found = {
            "classes": calibrator.classes_,
            "probabilities": p[:, 1] if binary else p,
            "labels": calibrator.predict(rows.probes, **given),
        }
        if given:
            found["without_segments"] = calibrator.predict_proba(rows.probes)[:, -1]
        if intervals and hasattr(calibrator, "interval"):
            found["interval"] = calibrator.interval(rows.probes, **given)
            if binary:
                found["simultaneous"] = calibrator.interval(
                    rows.probes, 0.9, simultaneous=True, **given
                )
    for name in ATTRIBUTES:
        if hasattr(calibrator, name):
            found[name.rstrip("_")] = getattr(calibrator, name)
    if hasattr(calibrator, "edf_"):
        found["scale"] = calibrator.scale_
    if hasattr(calibrator, "temperature_"):
        found["temperature"] = calibrator.temperature_
    if rows.by is not None:
        found["segments"] = dict(calibrator.segments_)
    return found


@dataclass(frozen=True)
class Fit:
    """A calibrator, and the rows that it is fitted to."""

    make: Callable[[], Any]
    rows: Callable[[], Rows]
    intervals: bool = True
    tolerance: float = TOLERANCE
    looser: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def case(self, make: Callable[[], Any]) -> Case:
        """A case with the tolerances of this fit."""
        return Case(make, self.tolerance, self.looser, self.reason)

    def result(self, *, disturbed: bool = False) -> dict[str, Any]:
        rows = self.rows()
        fitted = rows.disturbed() if disturbed else rows
        with quiet():
            calibrator = self.make().fit(**fitted.fit_arguments)
        return describe(calibrator, rows, intervals=self.intervals)


def of(
    rows: Callable[..., Rows], *changes: Callable[[Rows], Rows]
) -> Callable[[], Rows]:
    """Rows, changed by one function after the other."""

    def made() -> Rows:
        found = rows()
        for change in changes:
            found = change(found)
        return found

    return made


def by_country(rows: Rows) -> Rows:
    return data.segmented(rows, COUNTRIES)


def by_country_and_device(rows: Rows) -> Rows:
    return data.segmented(rows, COUNTRIES, DEVICES)


def by_many(rows: Rows) -> Rows:
    return data.segmented(rows, COUNTRIES, few=30)


def yes_no(rows: Rows) -> Rows:
    return data.named(rows, "no", "yes")


def animals(rows: Rows) -> Rows:
    return data.named(rows, "cat", "dog", "eel")


def default(**options: Any) -> Callable[[], Any]:
    return lambda: SplineCalibrator(**options)


def of_paper(algorithm: int, **options: Any) -> Callable[[], Any]:
    return lambda: SplineCalibrator.paper(algorithm, **(COSTLY | options))


def ovr(**options: Any) -> Callable[[], Any]:
    return default(multiclass="ovr", **options)


wavy, margins = data.wavy, data.margins
three, ten = data.three, data.ten
counted, weighted, grouped = data.counted, data.weighted, data.grouped

TWO_CLASSES = {
    "default": Fit(default(), wavy),
    "text-labels": Fit(default(), of(wavy, yes_no)),
    "column": Fit(
        default(), of(wavy, lambda rows: replace(rows, scores=rows.scores[:, None]))
    ),
    "two-columns": Fit(default(), of(wavy, data.pair)),
    "counts": Fit(default(), of(wavy, counted)),
    "fractional-weights": Fit(default(), of(wavy, weighted)),
    "importance": Fit(
        default(weights="importance"), of(wavy, lambda rows: weighted(rows, 37.0))
    ),
    "importance-groups": Fit(
        default(weights="importance"), of(wavy, weighted, grouped)
    ),
    "groups": Fit(default(), of(wavy, grouped)),
    "groups-counts": Fit(default(), of(wavy, counted, grouped)),
    "groups-margins": Fit(default(), of(margins, grouped)),
    "rare": Fit(default(), data.rare),
    "ties": Fit(default(), data.tied),
    "exact-ends": Fit(default(), data.ends),
    "extreme": Fit(default(), data.extreme),
    "extreme-two-columns": Fit(default(), of(data.extreme, data.pair)),
    "margins": Fit(default(), margins),
    "margins-two-columns": Fit(default(), of(margins, data.pair_of_margins)),
    "margins-counts": Fit(default(), of(margins, counted)),
    "separated": Fit(default(), data.separated),
    "three-rows": Fit(default(), data.three_rows),
    "sixty-rows": Fit(default(), lambda: wavy(60)),
    "one-positive": Fit(default(), data.one_positive),
    "binned": Fit(default(), lambda: wavy(12_000)),
    "binned-margins": Fit(default(), lambda: margins(9000)),
    "constant": Fit(default(), data.constant),
    "bent": Fit(default(), data.bent),
    "monotone": Fit(default(monotone=True), data.bent),
    "monotone-false": Fit(default(monotone=False), data.bent),
    "monotone-margins": Fit(default(monotone=True), margins),
    "monotone-rough": Fit(default(monotone=True, smoothing=1e-6), wavy),
    "monotone-counts": Fit(default(monotone=True), of(data.bent, counted)),
    "identity": Fit(default(scale="identity"), wavy),
    "logit": Fit(default(scale="logit"), data.ends),
    "compact-logit": Fit(default(scale="compact_logit"), data.ends),
    "compact-logit-epsilon": Fit(default(scale="compact_logit", epsilon=1e-3), wavy),
    "asinh-logit": Fit(default(scale="asinh_logit"), data.extreme),
    "eight-knots": Fit(default(n_knots=8), wavy),
    "hundred-knots": Fit(default(n_knots=100, smoothing=1e-4), lambda: wavy(3000)),
    "fixed-smoothing": Fit(default(smoothing=1e-3), wavy),
    "line": Fit(default(smoothing=np.inf), data.rare),
    "smoothing-grid": Fit(default(smoothing_grid=[1e-4, 1e-2, 1.0]), wavy),
    "cv": Fit(default(smoothing="cv", random_state=3), wavy),
    "cv-groups": Fit(default(smoothing="cv", smoothing_grid=COARSE), of(wavy, grouped)),
    "cv-counts": Fit(
        default(smoothing="cv", smoothing_grid=COARSE, cv=3), of(wavy, counted)
    ),
    "cv-margins": Fit(default(smoothing="cv", smoothing_grid=COARSE), margins),
    "brier": Fit(default(loss="brier"), wavy, intervals=False),
    "brier-monotone": Fit(
        default(loss="brier", monotone=True), data.tied, intervals=False
    ),
    "brier-cv": Fit(
        default(loss="brier", smoothing="cv", smoothing_grid=COARSE),
        wavy,
        intervals=False,
    ),
    "brier-weights": Fit(default(loss="brier"), of(wavy, weighted), intervals=False),
    "ridge": Fit(default(penalty="ridge", smoothing=1.0), data.ends, **RIDGE),
    "ridge-cv": Fit(default(penalty="ridge", smoothing="cv", **COSTLY), wavy),
    "sampled-knots": Fit(default(knots="sample", n_knots=12, random_state=0), wavy),
    "paper-1": Fit(of_paper(1), lambda: wavy(300)),
    "paper-1-exact-ends": Fit(of_paper(1), data.ends),
    "paper-2": Fit(of_paper(2), lambda: wavy(300)),
    "paper-2-groups": Fit(of_paper(2), of(lambda: wavy(300), grouped)),
}

SEGMENTS = {
    "by": Fit(default(), of(lambda: wavy(2000), by_country)),
    "by-counts": Fit(default(), of(lambda: wavy(2000), counted, by_country)),
    "by-importance": Fit(
        default(weights="importance"), of(lambda: wavy(2000), weighted, by_country)
    ),
    "by-groups": Fit(default(), of(lambda: wavy(2000), grouped, by_country)),
    "by-margins": Fit(default(), of(lambda: margins(2000), by_country)),
    "by-monotone": Fit(default(monotone=True), of(lambda: wavy(2000), by_country)),
    "by-monotone-false": Fit(
        default(monotone=False), of(lambda: data.bent(2000), by_country)
    ),
    "by-small-segments": Fit(default(), of(lambda: wavy(2000), by_many)),
    "by-binned": Fit(default(), of(lambda: wavy(9000), by_country)),
    "by-fixed-smoothing": Fit(
        default(smoothing=1e-2), of(lambda: wavy(2000), by_country)
    ),
    "by-exact-ends": Fit(default(), of(data.ends, by_country)),
    "by-two-columns": Fit(default(), of(lambda: wavy(2000), by_country_and_device)),
    "by-two-columns-monotone": Fit(
        default(monotone=True), of(lambda: wavy(2000), by_country_and_device)
    ),
    "by-two-columns-groups": Fit(
        default(), of(lambda: wavy(2000), grouped, by_country_and_device)
    ),
    "by-two-columns-margins": Fit(
        default(), of(lambda: margins(2000), by_country_and_device)
    ),
    "structured-by": Fit(
        default(), of(lambda: three(1500), by_country), intervals=False
    ),
    "structured-by-counts": Fit(
        default(), of(lambda: three(1500), counted, by_country), intervals=False
    ),
    "structured-by-groups": Fit(
        default(), of(lambda: three(1500), grouped, by_country), intervals=False
    ),
    "structured-by-monotone": Fit(
        default(monotone=True), of(lambda: three(1500), by_country), intervals=False
    ),
    "structured-by-two-columns": Fit(
        default(), of(lambda: three(1500), by_country_and_device), intervals=False
    ),
    "structured-by-ten-logits": Fit(
        default(), of(lambda: data.logits(10, 1200), by_country), intervals=False
    ),
    "ovr-by": Fit(ovr(), of(lambda: three(1500), by_country)),
    "ovr-by-counts": Fit(ovr(), of(lambda: three(1500), counted, by_country)),
    "ovr-by-two-columns": Fit(ovr(), of(lambda: three(1500), by_country_and_device)),
    "ovr-by-logits": Fit(ovr(), of(lambda: data.logits(3, 1500), by_country)),
}

SEVERAL_CLASSES = {
    "structured": Fit(default(), three),
    "structured-text-labels": Fit(default(), of(three, animals)),
    "structured-counts": Fit(default(), of(three, counted)),
    "structured-importance": Fit(default(weights="importance"), of(three, weighted)),
    "structured-groups": Fit(default(), of(three, grouped)),
    "structured-logits": Fit(default(), lambda: data.logits(3, 700)),
    "structured-monotone": Fit(default(monotone=True), three),
    "structured-monotone-false": Fit(default(monotone=False), three),
    "structured-fixed-smoothing": Fit(default(smoothing=0.1, n_knots=8), three),
    "structured-ten": Fit(default(), ten, **SINGLE),
    "structured-ten-logits": Fit(default(), lambda: data.logits(10, 900), **SINGLE),
    "structured-ten-groups": Fit(default(), of(ten, grouped), **SINGLE),
    "structured-absent": Fit(default(), data.absent, **SINGLE),
    "structured-constant": Fit(default(), data.alike),
    "ovr": Fit(ovr(), three),
    "ovr-counts": Fit(ovr(), of(three, counted)),
    "ovr-importance": Fit(ovr(weights="importance"), of(three, weighted)),
    "ovr-groups": Fit(ovr(), of(three, grouped)),
    "ovr-logits": Fit(ovr(), lambda: data.logits(3, 700)),
    "ovr-monotone": Fit(ovr(monotone=True), three),
    "ovr-identity": Fit(ovr(scale="identity"), three),
    "ovr-brier": Fit(ovr(loss="brier"), three, intervals=False),
    "ovr-cv": Fit(ovr(smoothing="cv", smoothing_grid=COARSE), three),
    "ovr-ten": Fit(ovr(), ten),
    "ovr-ten-logits": Fit(ovr(), lambda: data.logits(10, 900)),
    "ovr-absent": Fit(ovr(), data.absent),
    "paper-3": Fit(of_paper(3), lambda: three(200)),
}

BASELINES = {
    "sigmoid": SigmoidCalibrator,
    "sigmoid-on-probability": lambda: SigmoidCalibrator(on="probability"),
    "isotonic": IsotonicCalibrator,
    "beta": BetaCalibrator,
    "beta-am": lambda: BetaCalibrator(parameters="am"),
    "beta-ab": lambda: BetaCalibrator(parameters="ab"),
    "temperature": TemperatureCalibrator,
    "clipping": ClippingCalibrator,
    "clipping-fixed": lambda: ClippingCalibrator(p_min=0.01),
}
BASELINE_ROWS = {
    "": wavy,
    "-weights": of(wavy, weighted),
    "-margins": margins,
    "-three-classes": three,
    "-logits": lambda: data.logits(3, 700),
    "-ten-classes": ten,
    "-constant": data.constant,
}
VARIANTS = {"sigmoid-on-probability", "beta-am", "beta-ab", "clipping-fixed"}
"""Differ by an option only, so that two sets of rows are enough."""


def baselines() -> dict[str, Fit]:
    found = {}
    for name, make in BASELINES.items():
        for ending, rows in BASELINE_ROWS.items():
            for_probabilities = name.startswith("clipping") and ending in (
                "-margins",
                "-logits",
            )
            if for_probabilities or (
                name in VARIANTS and ending not in ("", "-three-classes")
            ):
                continue
            found[name + ending] = Fit(make, rows)
    return found


FITS: dict[str, Fit] = {
    **{
        f"spline-{name}": fit
        for name, fit in (TWO_CLASSES | SEGMENTS | SEVERAL_CLASSES).items()
    },
    **baselines(),
}


def shifted(fit: Fit) -> Callable[[], dict[str, Any]]:
    """Base rates given, from shares kept, and from scores; and one after another."""

    def result() -> dict[str, Any]:
        rows = fit.rows()
        with quiet():
            calibrator = fit.make().fit(**rows.fit_arguments)
            labels = calibrator.classes_.tolist()
            m = len(labels)
            rates = dict(
                zip(labels, np.arange(1.0, m + 1.0) / (m * (m + 1) / 2), strict=True)
            )
            kept = dict(zip(labels, np.linspace(0.2, 1.0, m), strict=True))
            # Rows of the last class are rarer than they were.
            unlabelled = rows.scores[
                (rows.y != rows.y.max()) | (np.arange(len(rows)) % 3 == 0)
            ]
            ways = {
                "base_rate": calibrator.shifted(base_rate=0.07 if m == 2 else rates),
                "kept": calibrator.shifted(kept=kept),
                "unlabelled": calibrator.shifted(unlabelled=unlabelled),
            }
            ways["twice"] = ways["kept"].shifted(base_rate=0.3 if m == 2 else rates)
            return {
                way: describe(each, rows, intervals=fit.intervals and way != "twice")
                | {"base_rates": each.shift_.base_rates}
                for way, each in ways.items()
            }

    return result


SHIFTED = [
    "spline-default",
    "spline-groups",
    "spline-margins",
    "spline-monotone",
    "spline-brier",
    "spline-by",
    "spline-by-two-columns",
    "spline-structured",
    "spline-structured-by",
    "spline-ovr",
    "isotonic",
    "beta",
    "temperature-three-classes",
]
REPEATED = {
    "classes",
    "knots",
    "smoothing",
    "edf",
    "epsilon",
    "converged",
    "n_iter",
    "scale",
    "segments",
    "labels",
}
"""What a shift leaves as it was; it is in the file of the fit."""


def only_shift(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    def result() -> dict[str, Any]:
        return {
            way: {k: v for k, v in each.items() if k not in REPEATED}
            for way, each in make().items()
        }

    return result


def in_parts(rows: Rows, n_parts: int, **first: Any) -> Any:
    """A calibrator fitted part by part, and asked in between."""
    calibrator = SplineCalibrator()
    for i, part in enumerate(np.array_split(np.arange(len(rows)), n_parts)):
        given = {
            key: np.asarray(column)[part] for key, column in rows.fit_arguments.items()
        }
        calibrator.partial_fit(**given, **(first if i == 0 else {}))
    return calibrator


def parts(
    rows: Callable[[], Rows], n_parts: int, **first: Any
) -> Callable[[], dict[str, Any]]:
    return lambda: describe(in_parts(rows(), n_parts, **first), rows())


def one_class_first() -> Rows:
    rows = wavy()
    order = np.argsort(rows.y, kind="stable")
    return replace(rows, scores=rows.scores[order], y=rows.y[order])


def histogram(rows: Callable[[], Rows], **options: Any) -> Callable[[], dict[str, Any]]:
    def result() -> dict[str, Any]:
        found = rows()
        counts = ScoreHistogram.from_scores(**found.fit_arguments)
        return describe(SplineCalibrator().fit_histogram(counts, **options), found)

    return result


def from_counts() -> dict[str, Any]:
    rows = data.tied()
    scores, codes = np.unique(rows.scores, return_inverse=True)
    counts = ScoreHistogram.from_counts(
        scores, np.bincount(codes, rows.y), np.bincount(codes)
    )
    return describe(SplineCalibrator().fit_histogram(counts), rows)


PARTS = {
    "parts": parts(wavy, 4),
    "parts-binned": parts(lambda: wavy(12_000), 5),
    "parts-weights": parts(of(wavy, counted), 3),
    "parts-one-class-first": parts(one_class_first, 4, classes=[0, 1]),
    "parts-by": parts(of(lambda: wavy(2000), by_country), 3),
    "histogram": histogram(wavy),
    "histogram-binned": histogram(lambda: wavy(12_000)),
    "histogram-margins": histogram(margins),
    "histogram-effective": histogram(wavy, n_effective=150),
    "histogram-by": histogram(of(lambda: wavy(2000), by_country)),
    "histogram-counts": from_counts,
}


def features(rows: Rows, seed: int) -> Any:
    """Features of which the scores are one, with noise."""
    first = np.asarray(rows.scores).reshape(len(rows), -1)
    noise = data.normal(seed, len(rows), 2)
    return np.column_stack([np.log(first + 0.01) + 0.5 * noise[:, :1], noise])


def wrapped(
    rows: Callable[[], Rows],
    *,
    frozen: bool = False,
    oob: bool = False,
    by: bool = False,
    **options: Any,
) -> Callable[[], dict[str, Any]]:
    """What a classifier with calibration predicts for its first rows."""

    def result() -> dict[str, Any]:
        found = rows()
        X = features(found, 100)
        given = {
            key: found.fit_arguments[key]
            for key in ("sample_weight", "groups")
            if key in found.fit_arguments
        }
        if by:  # numbers, as X is an array
            codes = [
                np.unique(column, return_inverse=True)[1]
                for column in columns_of(found.by)
            ]
            options["by"] = list(range(X.shape[1], X.shape[1] + len(codes)))
            X = np.column_stack([X, *codes])
        model: Any = GaussianNB()
        if frozen:
            model = FrozenEstimator(model.fit(X[::2], found.y[::2]))
        if oob:
            model = BaggingClassifier(model, n_estimators=25, random_state=0)
        with quiet():
            classifier = CalibratedClassifierCV(model, **options).fit(
                X, found.y, **given
            )
            return {
                "classes": classifier.classes_,
                "n_calibrated": len(classifier.calibrated_classifiers_),
                "probabilities": classifier.predict_proba(X[:20]),
                "labels": classifier.predict(X[:20]),
            }

    return result


def columns_of(by: Any) -> list[Any]:
    return by if isinstance(by, list) else [by]


FOLDS = "naive Bayes and folds of scikit-learn: sums of products in another order"
CLASSIFIERS = {
    "classifier": wrapped(wavy),
    "classifier-ensemble": wrapped(wavy, ensemble=True),
    "classifier-three-folds": wrapped(of(wavy, counted), cv=3),
    "classifier-sigmoid": wrapped(wavy, method="sigmoid"),
    "classifier-isotonic": wrapped(wavy, method="isotonic", ensemble=True),
    "classifier-prefit": wrapped(wavy, frozen=True),
    "classifier-prefit-groups": wrapped(of(wavy, grouped), frozen=True),
    "classifier-oob": wrapped(wavy, oob=True, cv="oob"),
    "classifier-groups": wrapped(of(wavy, grouped)),
    "classifier-groups-ensemble": wrapped(of(wavy, grouped), ensemble=True),
    "classifier-by": wrapped(of(lambda: wavy(2000), by_country), by=True),
    "classifier-by-ensemble": wrapped(
        of(lambda: wavy(2000), by_country), by=True, ensemble=True
    ),
    "classifier-by-two-columns": wrapped(
        of(lambda: wavy(2000), by_country_and_device), by=True
    ),
    "classifier-by-groups": wrapped(
        of(lambda: wavy(2000), grouped, by_country), by=True
    ),
    "classifier-three-classes": wrapped(three),
    "classifier-three-classes-ensemble": wrapped(three, ensemble=True),
    "classifier-three-classes-by": wrapped(
        of(lambda: three(1500), by_country), by=True
    ),
    "classifier-three-classes-oob": wrapped(three, oob=True, cv="oob"),
}


def cases() -> dict[str, Case]:
    found = {name: fit.case(fit.result) for name, fit in FITS.items()}
    for name in SHIFTED:
        fit = FITS[name]
        found[f"{name}-shifted"] = fit.case(only_shift(shifted(fit)))
    found |= {f"spline-{name}": Case(make) for name, make in PARTS.items()}
    found |= {
        name: Case(make, 1e-9, reason=FOLDS) for name, make in CLASSIFIERS.items()
    }
    return found


AREA = Area("fits", cases())


def disturbed(name: str) -> Any:
    """The result for shuffled rows with other last bits; None where order matters."""
    return plain(FITS[name].result(disturbed=True)) if name in FITS else None
