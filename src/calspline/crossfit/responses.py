"""What a fitted model says of rows: probabilities or margins, in the order of all classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calspline.scores import check_model_probabilities

Reading = Literal["predict_proba", "decision_function"]


@dataclass(frozen=True)
class ModelScores:
    """Scores of some rows.

    ``values`` has a column for each class, or one column for the margins of two classes. ``known``
    are the positions of the classes that the model has seen; the columns of others are
    filled with the least a class can have.
    """

    reading: Reading
    values: NDArray[np.floating[Any]]
    known: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def margins(self) -> bool:
        """Whether these are margins, which need not lie in [0, 1]."""
        return self.reading == "decision_function"

    def of(self, rows: Any) -> ModelScores:
        """The scores of some of the rows."""
        return replace(self, values=self.values[rows])

    def among(self, classes: NDArray[np.intp]) -> ModelScores:
        """The scores with columns for some of the classes only."""
        if self.values.shape[1] == 1 or len(classes) == self.values.shape[1]:
            return self
        values = self.values[:, classes]
        if self.margins and len(classes) == 2:
            values = values[:, 1:] - values[:, :1]
        elif not self.margins:
            sums = values.sum(axis=1, keepdims=True)
            values = np.where(sums > 0.0, values / np.where(sums > 0.0, sums, 1.0), 1.0 / len(classes))
        return ModelScores(self.reading, values, np.arange(len(classes)))


def read_scores(model: Any, X: Any, order: tuple[Reading, ...], classes: NDArray[Any]) -> ModelScores:
    """Scores of the rows of ``X`` by the first method in ``order`` that the model has.

    A class that the model has not seen gets probability 0, or the model's least margin.
    """
    reading = _first_of(model, order)
    raw = np.asarray(getattr(model, reading)(X))
    labels = getattr(model, "classes_", classes)
    place = {label: j for j, label in enumerate(np.asarray(classes).tolist())}
    known = np.array([place[label] for label in np.asarray(labels).tolist()], dtype=np.intp)
    name = type(model).__name__
    if reading == "predict_proba" and raw.ndim == 1:
        raw = np.column_stack([1.0 - raw, raw])
    if reading == "decision_function" and len(known) == 2 and (raw.ndim == 1 or raw.shape[1] == 1):
        margin = raw.reshape(-1, 1)
        if len(classes) == 2:
            return ModelScores(reading, margin, known)
        raw = np.column_stack([np.zeros_like(margin), margin])
    if raw.ndim != 2 or raw.shape[1] != len(known):
        raise ValueError(
            f"{reading} of {name} must give a column for each of {len(known)} classes; got shape {raw.shape}"
            + (' (with SVC, use decision_function_shape="ovr")' if reading == "decision_function" else "")
        )
    if reading == "predict_proba":
        raw = check_model_probabilities(raw, name)
    if len(known) == len(classes) and np.all(np.diff(known) > 0):
        return ModelScores(reading, raw, known)
    least = 0.0 if reading == "predict_proba" or not raw.size else raw.min()
    values = np.full((len(raw), len(classes)), least, dtype=raw.dtype if raw.dtype.kind == "f" else np.float64)
    values[:, known] = raw
    return ModelScores(reading, values, np.sort(known))


def _first_of(model: Any, order: tuple[Reading, ...]) -> Reading:
    for reading in order:
        if hasattr(model, reading):
            return reading
    raise TypeError(f"estimator must have predict_proba or decision_function; {type(model).__name__} has neither")
