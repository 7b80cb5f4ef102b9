"""Warnings about rows that are probably not what was meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, Counts
from calspline._formatting import first_few
from calspline._input.labels import plain_labels
from calspline._user_warnings import warn_user

CLEARLY = -4.0
"""Standard errors below chance: one in 30,000 fits of scores without information."""
LARGEST_AUC = 0.38
"""Warn only if the AUC is lower than this."""
FIT_THE_OTHER_CLASS = " (if so, fit with y == {0})"
"""What to do about scores of the first of two classes."""
NAME_THE_CLASS = " (if so, pass pos_label={0})"
"""The same where scores are evaluated."""
SWAP_THE_COLUMNS = " (if so, pass labels=[{1}, {0}])"
"""What to do about two columns of scores in the wrong order."""
FEATURES_ADVICE = (
    "To calibrate a model, use CalibratedClassifierCV(model).fit(X, y). Logits of "
    "classes that hardly occur can be passed as probabilities (their softmax)"
)


class ClassOrderWarning(UserWarning):
    """Scores contradict the order of the classes.

    The text is a template with a place for each class, or one for ``all``: the command
    line fits codes, and names the labels that they stand for. The remedy is a template
    too, because options of the command line have other names.
    """

    def __init__(
        self,
        template: str,
        classes: Sequence[Any] | NDArray[Any],
        remedy: str = "",
    ) -> None:
        self.template = template
        self.classes = plain_labels(classes)
        self.remedy = remedy
        super().__init__(self.named(classes, remedy))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.template, self.classes, self.remedy)

    def named(self, classes: Sequence[Any] | NDArray[Any], remedy: str = "") -> str:
        """The text with these labels and this remedy."""
        labels = [repr(label) for label in plain_labels(classes)]
        return self.template.format(
            *labels, all=first_few(labels), remedy=remedy.format(*labels)
        )


def warn_if_reversed(
    counts: Counts,
    classes: NDArray[Any],
    design_effect: float = 1.0,
    *,
    remedy: str = FIT_THE_OTHER_CLASS,
    name: str = "scores",
    taken: str = "calibrated",
) -> None:
    """Warn if scores are clearly lower for the second class (Mann-Whitney test)."""
    n1 = float(counts.positives.sum())
    n0 = float(counts.negatives.sum())
    if not (n1 > 0.0 and n0 > 0.0):
        return
    below = np.cumsum(counts.negatives) - 0.5 * counts.negatives
    auc = float((counts.positives / n1) @ (below / n0))
    rows1 = n1 / design_effect
    rows0 = n0 / design_effect
    z = (auc - 0.5) / np.sqrt((rows1 + rows0 + 1.0) / (12.0 * rows1 * rows0))
    if auc < LARGEST_AUC and z < CLEARLY:
        template = (
            f"{_literal(name)} are lower where the class is {{1}} (AUC {auc:.2f}): "
            "perhaps they are those of {0}{remedy}, or the labels are reversed. They "
            f"are {taken} as they are"
        )
        warn_user(ClassOrderWarning(template, classes, remedy))


def _literal(text: str) -> str:
    """The text as a part of a template: names of sets may contain braces."""
    return text.replace("{", "{{").replace("}", "}}")


FEWEST_DECISIONS = 20
"""Fewer rows may have probabilities of exactly 0 and 1 without a warning."""


def warn_if_decisions(counts: Counts, n_rows: int, name: str) -> None:
    """Warn if all probabilities are 0 or 1, as those of many rows hardly ever are."""
    if n_rows >= FEWEST_DECISIONS and np.array_equal(counts.x, [0.0, 1.0]):
        warn_user(
            f"{name} are only 0 and 1, like the decisions of predict; if the model has "
            "probabilities, pass those of predict_proba"
        )


def warn_if_rows_reversed(
    x: Array,
    positive: NDArray[np.bool_],
    weight: Array | None,
    classes: NDArray[Any],
    design_effect: float,
) -> None:
    """Warn if scores of rows are reversed; sort them only if the means are."""
    w = np.ones(len(x)) if weight is None else weight
    with np.errstate(over="ignore", invalid="ignore"):
        means = [
            float(np.average(x[where], weights=w[where]))
            for where in (positive, ~positive)
            if where.any()
        ]
    if len(means) == 2 and means[0] < means[1]:
        warn_if_reversed(Counts.from_rows(x, positive, weight), classes, design_effect)


LARGEST_ACCURACY = 0.9
"""Warn only if the accuracy is less than this share of that of random guesses."""


def warn_if_columns_shuffled(
    values: NDArray[Any],
    codes: NDArray[np.intp],
    weight: Array | None,
    classes: NDArray[Any],
    design_effect: float,
    *,
    where: str = "",
) -> None:
    """Warn if the largest score is right clearly less often than by chance."""
    top = values.argmax(axis=1)
    m = values.shape[1]
    w = np.full(len(top), 1.0 / len(top)) if weight is None else weight / weight.sum()
    right = float(w[top == codes].sum())
    chance = float(np.bincount(top, w, m) @ np.bincount(codes, w, m))
    rows = 1.0 / float(w @ w) / design_effect
    z = (right - chance) / np.sqrt(max(chance * (1.0 - chance), 1e-300) / rows)
    if right < LARGEST_ACCURACY * chance and z < CLEARLY:
        template = (
            f"{_literal(where)}the class of the largest score is right in {right:.1%} "
            f"of the rows, less often than by chance ({chance:.1%}): perhaps the "
            "columns are not in the order of the classes ({all}). Columns of a data "
            "frame that are named after the classes are reordered"
        )
        warn_user(ClassOrderWarning(template, classes))


FEATURES_SHARE = 0.1
"""Share of rows whose largest column belongs to no label, for a warning."""
FEWEST_FEATURE_ROWS = 20


def warn_if_features(
    values: NDArray[Any], codes: NDArray[np.intp], classes: NDArray[Any]
) -> None:
    """Warn about margins of few classes that look like a matrix of features.

    The labels show two classes, and the largest score is often that of another one.
    """
    n, m = values.shape
    if n < FEWEST_FEATURE_ROWS:
        return
    occurs = np.bincount(codes, minlength=m) > 0
    if np.count_nonzero(occurs) != 2:
        return
    share = float(np.mean(~occurs[values.argmax(axis=1)]))
    if share > FEATURES_SHARE:
        absent = first_few([repr(label) for label in plain_labels(classes[~occurs])])
        warn_user(
            f"scores has {m} columns that are not probabilities, but y has only two "
            f"classes. The columns are treated as logits of {m} classes, but in "
            f"{share:.0%} of the rows a class without labels ({absent}) has the "
            f"largest score. Features cannot be calibrated. {FEATURES_ADVICE}"
        )


def warn_of_unnamed_columns(
    name: str, columns: Sequence[Any], classes: Sequence[Any]
) -> None:
    """Warn that columns whose names are not those of classes go by position."""
    labels = plain_labels(classes)
    pairs = [
        f"{column!r} is {label!r}"
        for column, label in zip(columns, labels, strict=True)
    ]
    warn_user(
        f"the columns of {name} are not named after the classes and are assigned by "
        f"position: {first_few(pairs)}"
    )


def warn_of_percentages() -> None:
    """Warn about margins between 0 and 100."""
    warn_user(
        "scores lie between 0 and 100; if they are percentages, divide them by 100. "
        'They are treated as margins; scale="identity" states that and avoids this '
        "warning"
    )


UNLIKELY = 1e-3
"""Probability that all new margins lie in [0, 1] by chance, for a warning."""
FEWEST_MARGINS = 3
"""Fewer new margins may lie in [0, 1] without a warning."""


def warn_if_probabilities(
    n: int, low: float, high: float, share_inside: float | None
) -> None:
    """Warn if new margins all lie in [0, 1], unlike those of the fit.

    ``share_inside`` is the share of the margins of the fit that did.
    """
    if share_inside is None or n < FEWEST_MARGINS or low < 0.0 or high > 1.0:
        return
    if share_inside**n >= UNLIKELY:
        return
    warn_user(
        "all scores lie in [0, 1], like probabilities, but this calibrator was fitted "
        f"on margins, {1.0 - share_inside:.0%} of which were outside: pass scores of "
        "the same kind as in the fit"
    )


def warn_that_scores_are_equal() -> None:
    """Warn about scores without information."""
    warn_user("all scores are equal: the calibrated probability is the base rate")


def warn_of_weights(
    name: str, n_rows: int, total: float, unit: float, remedy: str
) -> None:
    """Warn about weights that are treated as counts, but do not look like counts."""
    warn_user(
        f"{name} sums to {total:.6g} for {n_rows} rows. Weights count rows (2 means "
        f"that a row was seen twice), so these count as {total:.3g} rows; if only "
        f"their ratios matter, as for survey weights, they count as "
        f"{total / unit:.3g} rows: "
        f"{remedy}divide them by {unit:.3g}"
    )
