"""A first look: an over-confident model on built-in data, before and after calibration.

``python -m calspline.demo [folder]`` prints the numbers and writes ``calspline-demo.html``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.feature_selection import VarianceThreshold
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from calspline.calibrators.spline import SplineCalibrator

Array = NDArray[np.float64]

FILE_NAME = "calspline-demo.html"
SIZE = 320
BINS = 10


@dataclass(frozen=True)
class Story:
    """Test labels, and the probabilities a model gave them before and after."""

    y: NDArray[np.int_]
    before: Array
    after: Array
    calibrator: SplineCalibrator

    def numbers(self) -> list[tuple[str, float, float]]:
        """Name, before, after."""
        measures = {
            "log-loss": log_loss,
            "Brier score": brier_score_loss,
            "accuracy": lambda y, p: accuracy_score(y, p > 0.5),
        }
        return [(name, float(f(self.y, self.before)), float(f(self.y, self.after))) for name, f in measures.items()]


def tell() -> Story:
    """Is a handwritten digit odd? Gaussian naive Bayes is surer of its answer than it may be.

    The calibrator learns from out-of-fold scores of the training rows, so no row is
    set aside for it, and is judged on rows that neither it nor the model has seen.
    """
    images, digits = load_digits(return_X_y=True)
    odd = digits % 2
    train, test, y_train, y_test = train_test_split(images, odd, test_size=0.4, random_state=0, stratify=odd)
    model = make_pipeline(VarianceThreshold(1.0), GaussianNB())  # the outermost pixels are blank
    scores = cross_val_predict(model, train, y_train, cv=5, method="predict_proba")
    calibrator = SplineCalibrator().fit(scores, y_train)
    raw = model.fit(train, y_train).predict_proba(test)
    return Story(y_test, raw[:, 1], calibrator.predict_proba(raw)[:, 1], calibrator)


def reliability(y: NDArray[np.int_], p: Array) -> list[tuple[float, float, int]]:
    """Mean probability, observed share and count of each of ten equal bins that is not empty."""
    bin_of = np.minimum((p * BINS).astype(int), BINS - 1)
    rows = (bin_of == k for k in range(BINS))
    return [(float(p[r].mean()), float(y[r].mean()), int(r.sum())) for r in rows if r.any()]


def draw(y: NDArray[np.int_], p: Array, colour: str, label: str) -> str:
    """A reliability diagram as SVG: the area of a point is the number of rows in its bin."""
    points = "".join(
        f'<circle cx="{x * SIZE:.1f}" cy="{(1 - share) * SIZE:.1f}" r="{2.5 + 18 * np.sqrt(n / len(y)):.1f}">'
        f"<title>said {x:.1%}, happened {share:.1%} of {n}</title></circle>"
        for x, share, n in reliability(y, p)
    )
    ticks = "".join(
        f'<text class="tick" x="{at * SIZE}" y="{SIZE + 16}">{at:.0%}</text>'
        f'<text class="tick" x="-20" y="{(1 - at) * SIZE + 4}">{at:.0%}</text>'
        for at in (0.0, 0.5, 1.0)
    )
    return (
        f'<figure><figcaption>{escape(label)}</figcaption><svg viewBox="-66 -24 {SIZE + 92} {SIZE + 70}" role="img" '
        f'aria-label="{escape(label)}"><rect width="{SIZE}" height="{SIZE}"/>'
        f'<line x1="0" y1="{SIZE}" x2="{SIZE}" y2="0"/><g fill="{colour}">{points}</g>{ticks}'
        f'<text x="{SIZE / 2}" y="{SIZE + 38}">what the model says</text>'
        f'<text transform="translate(-48 {SIZE / 2}) rotate(-90)">what happened</text></svg></figure>'
    )


PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>calspline demo</title><style>
body { font: 17px/1.5 system-ui, sans-serif; color: #1b2733; max-width: 50rem; margin: 3rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1.5rem 0 } td, th { padding: .35rem 1.4rem .35rem 0; text-align: right }
td:first-child, th:first-child { text-align: left } tr { border-bottom: 1px solid #d8dee5 }
.plots { display: flex; flex-wrap: wrap; gap: 1rem } figure { flex: 1 1 20rem; margin: 0 }
figcaption { font-weight: 600; text-align: center } rect { fill: #f7f9fb; stroke: #b6c0ca }
line { stroke: #8a97a5; stroke-dasharray: 5 4 } circle { fill-opacity: .8; stroke: #fff }
text { text-anchor: middle; font-size: 14px; fill: #4a5a6a } .tick { font-size: 12px; fill: #7a8896 }
</style></head><body>
<h1>Is this digit odd?</h1>
<p>Gaussian naive Bayes on scikit-learn's handwritten digits, judged on $n images it never saw. On the dashed
line, what the model says is what happens.</p>
<table><tr><th></th><th>as the model says</th><th>calibrated</th></tr>$rows</table>
<div class="plots">$plots</div>
</body></html>
""")


def page(story: Story) -> str:
    """The report."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{before:.3f}</td><td>{after:.3f}</td></tr>"
        for name, before, after in story.numbers()
    )
    plots = draw(story.y, story.before, "#d1495b", "As the model says") + draw(
        story.y, story.after, "#00798c", "Calibrated"
    )
    return PAGE.substitute(n=len(story.y), rows=rows, plots=plots)


def main(folder: str = ".") -> None:
    """Print the numbers, write the page, say where it is."""
    story = tell()
    print("Is this handwritten digit odd? Gaussian naive Bayes, before and after calibration,")
    print(f"on {len(story.y)} images that neither has seen:\n")
    print(f"{'':14}{'before':>10}{'after':>10}")
    for name, before, after in story.numbers():
        print(f"{name:14}{before:>10.3f}{after:>10.3f}")
    path = Path(folder) / FILE_NAME
    path.write_text(page(story), encoding="utf-8")
    print(f"\nThe report, with pictures: {path.resolve()}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
