"""Demonstration: an over-confident model before and after calibration.

``calspline demo``, or ``python -m calspline.demo [folder]``, prints the numbers and a
picture, and writes ``calspline-demo.html``, the report.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.feature_selection import VarianceThreshold
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from calspline._arrays import Array
from calspline.calibrators.spline import SplineCalibrator
from calspline.evaluation.evaluate import evaluate
from calspline.evaluation.reliability import Bins, reliability
from calspline.reporting.report import Report, report

TITLE = "Is this handwritten digit odd?"
MEASURES = {"log_loss": "log-loss", "brier": "Brier score", "accuracy": "accuracy"}

WIDTH, HEIGHT = 31, 11
PLAIN = str.maketrans(
    {"●": "o", "│": "|", "·": ".", "┤": "|", "└": "+", "─": "-", "┬": "+"}
)


@dataclass(frozen=True)
class Demonstration:
    """Test labels, and a model's probabilities before and after calibration."""

    y: NDArray[np.int_]
    before: Array
    after: Array
    calibrator: SplineCalibrator

    def numbers(self) -> list[tuple[str, float, float]]:
        """Name, value before and value after, for each measure."""
        before, after = (evaluate(self.y, p) for p in (self.before, self.after))
        return [
            (label, getattr(before, name), getattr(after, name))
            for name, label in MEASURES.items()
        ]

    def report(self, path: Path | None = None) -> Report:
        """The report, written to ``path`` if given."""
        sets = {"raw": self.before, "calibrated": self.after}
        return report(self.y, sets, path, calibrator=self.calibrator, title=TITLE)


def demonstrate() -> Demonstration:
    """Calibrate Gaussian naive Bayes on handwritten digits, odd against even.

    The calibrator is fitted to out-of-fold scores of the training rows, and evaluated
    on rows that neither the calibrator nor the model has seen.
    """
    images, digits = load_digits(return_X_y=True)
    odd = digits % 2
    train, test, y_train, y_test = train_test_split(
        images, odd, test_size=0.4, random_state=0, stratify=odd
    )
    model = make_pipeline(
        VarianceThreshold(1.0), GaussianNB()
    )  # the outermost pixels are blank
    scores = cross_val_predict(model, train, y_train, cv=5, method="predict_proba")
    calibrator = SplineCalibrator().fit(scores, y_train)
    raw = model.fit(train, y_train).predict_proba(test)
    return Demonstration(
        y_test, raw[:, 1], calibrator.predict_proba(raw)[:, 1], calibrator
    )


def reliability_text(
    y: Any, predictions: Mapping[str, Any], *, plain: bool = False
) -> str:
    """Draw reliability diagrams side by side as text; ``plain`` uses ASCII only.

    Points are bins of probabilities with 95% intervals; dots mark the diagonal.
    """
    panels = [
        _panel(name, reliability(y, p, strategy="uniform").bins)
        for name, p in predictions.items()
    ]
    # Only the first panel has numbers at its left.
    marks = {1: "100%", 1 + HEIGHT // 2: "50%", HEIGHT: "0%"}
    lines = []
    for i, row in enumerate(zip(*panels, strict=True)):
        line = f"{marks.get(i, ''):>5}" + "   ".join(row)
        lines.append((line[:5] + "┤" + line[6:] if i in marks else line).rstrip())
    text = "\n".join(lines)
    return text.translate(PLAIN) if plain else text


def _panel(name: str, bins: Bins) -> list[str]:
    """Lines of one diagram: name, cells with the vertical axis, and horizontal axis."""

    def row(share: float) -> int:
        return HEIGHT - 1 - round(float(share) * (HEIGHT - 1))

    cells = np.full((HEIGHT, WIDTH), " ")
    for column in range(WIDTH):
        cells[row(column / (WIDTH - 1)), column] = "·"
    columns = np.rint(bins.mean_score * (WIDTH - 1)).astype(int)
    for column, low, high in zip(
        columns, bins.interval_lower, bins.interval_upper, strict=True
    ):
        cells[row(high) : row(low) + 1, column] = "│"
    for column, share in zip(columns, bins.observed, strict=True):
        cells[row(share), column] = "●"
    half = "─" * (WIDTH // 2 - 1)
    below = ["└┬" + half + "┬" + half + "┬", " 0%" + "50%".center(WIDTH - 6) + "100%"]
    return [" " + name.center(WIDTH), *("│" + "".join(line) for line in cells), *below]


FILE_NAME = "calspline-demo.html"


def main(folder: str = ".") -> None:
    """Print the numbers, write the report, and print where it is."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    demonstration = demonstrate()
    found = demonstration.report(Path(folder).resolve() / FILE_NAME)
    print(f"{TITLE} Gaussian naive Bayes, before and after calibration,")
    print(f"on {len(demonstration.y)} images that neither has seen:\n")
    print(f"{'':14}{'before':>10}{'after':>10}")
    for name, before, after in demonstration.numbers():
        print(f"{name:14}{before:>10.3f}{after:>10.3f}")
    print(
        "\nObserved frequency (vertical) against predicted probability (horizontal); "
        "dots mark the diagonal:\n"
    )
    ascii_only = (
        not (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    )
    sets = {"before": demonstration.before, "after": demonstration.after}
    print(reliability_text(demonstration.y, sets, plain=ascii_only))
    print(f"\n{found.headline}")
    print(f"\nThe report, with plots: {found.path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
