"""How each surface fits rows and calibrates scores, for the table of the contract.

An adapter has ``fit(rows)``, which gives a function from scores to probabilities, with a
column for each class, and leaves what it warned of in ``warnings``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from tests.faults.table import Rows, columns

from calspline import (
    CalibratedClassifierCV,
    ClippingCalibrator,
    ScoreHistogram,
    SigmoidCalibrator,
    TemperatureCalibrator,
    apply_frame,
    fit_frame,
    load,
    save,
)

Predict = Callable[[Any], Any]
UNNAMED = "the columns of .* are not named after the classes"
"""A warning that the names of columns in the table give cause for."""


class Adapter:
    """A surface, with what a method promises on its own."""

    words: ClassVar = {
        name: [name] for name in ("scores", "y", "sample_weight", "groups", "by")
    }
    """How errors name an argument."""
    refuses_later = True
    """Whether bad scores are an error after the fit, too."""

    def __init__(self, calibrator: Any) -> None:
        self.calibrator = calibrator
        self.warnings: list[str] = []

    def fit(self, rows: Rows) -> Predict:
        """Fit rows; what is warned of is noted."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            predict = self._fit(rows)
        self.warnings = [str(warning.message) for warning in caught]
        return predict

    def _fit(self, rows: Rows) -> Predict:
        raise NotImplementedError

    def check_error(self, text: str, argument: str, row: int | None) -> None:
        """An error names the argument and the first bad row."""
        words = self.words.get(argument, [argument])
        assert any(re.search(rf"\b{word}\b", text) for word in words), text
        if row is not None:
            self.check_row(text, row)

    def check_row(self, text: str, row: int) -> None:
        assert f"row {row}" in text, text

    @property
    def takes_margins(self) -> bool:
        scale = getattr(self.calibrator, "scale", "auto")
        clips = isinstance(self.calibrator, ClippingCalibrator)
        return scale in ("auto", "identity") and not clips

    @property
    def shrinks(self) -> bool:
        """Whether three rows are no proof."""
        penalty = getattr(self.calibrator, "penalty", None)
        return penalty == "curvature" or isinstance(self.calibrator, SigmoidCalibrator)

    def keeps_ranking(self, n_classes: int) -> bool:
        """Whether the classes of a row keep their order when all scores are equal."""
        if n_classes > 2 and getattr(self.calibrator, "monotone", False) is True:
            return self.calibrator.multiclass == "structured"
        return isinstance(self.calibrator, ClippingCalibrator)

    def learns_classes(self, n_classes: int) -> bool:
        """Whether each class has a curve or an intercept."""
        if isinstance(self.calibrator, TemperatureCalibrator):
            return False
        return not self.keeps_ranking(n_classes)


class Arrays(Adapter):
    """A calibrator, on arrays."""

    def _fit(self, rows: Rows) -> Predict:
        fitted = clone(self.calibrator).fit(rows.scores, rows.y, **rows.given)
        return fitted.predict_proba


class Files(Adapter):
    """A calibrator that was saved and loaded."""

    def __init__(self, calibrator: Any, folder: Path) -> None:
        super().__init__(calibrator)
        self.path = folder / "model.json"

    def _fit(self, rows: Rows) -> Predict:
        fitted = clone(self.calibrator).fit(rows.scores, rows.y, **rows.given)
        save(fitted, self.path)
        return load(self.path).predict_proba


class Numbered(ClassifierMixin, BaseEstimator):
    """A model whose only feature is the number of a row, and which has its scores."""

    def __init__(self, scores: Any = None) -> None:
        self.scores = scores

    def fit(self, X: Any, y: Any) -> Numbered:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        return columns(np.asarray(self.scores))[np.asarray(X)[:, 0]]


class Wrapper(Adapter):
    """``CalibratedClassifierCV`` of a fitted model."""

    words: ClassVar = Adapter.words | {
        "scores": ["scores", "predict_proba"],
        "y": ["y", "class", "classes", "label"],
    }
    refuses_later = False

    def _fit(self, rows: Rows) -> Predict:
        model = Numbered(rows.scores)
        shown = pd.Series(np.ravel(np.asarray(rows.y, dtype=object))).dropna()
        m = columns(rows.scores).shape[1]
        known = shown.unique().tolist()
        absent = [k for k in range(m) if k not in known]
        model.fit(None, np.array(known + absent[: max(m - len(known), 0)]))
        wrapper = CalibratedClassifierCV(FrozenEstimator(model), method=self.calibrator)
        wrapper.fit(np.arange(len(rows.scores))[:, None], rows.y, **rows.given)

        def predict(scores: Any) -> Any:
            model.scores = scores
            return wrapper.predict_proba(np.arange(len(scores))[:, None])

        return predict


class FromScores(Adapter):
    """``ScoreHistogram.from_scores`` and ``fit_histogram``."""

    words: ClassVar = Adapter.words | {
        "y": ["y", "classes"],
        "rows": ["rows", "classes", "class"],
    }

    def _fit(self, rows: Rows) -> Predict:
        histogram = ScoreHistogram.from_scores(rows.scores, rows.y, **rows.given)
        return clone(self.calibrator).fit_histogram(histogram).predict_proba


class PartialFit(FromScores):
    """``partial_fit``."""

    def _fit(self, rows: Rows) -> Predict:
        fitted = clone(self.calibrator).partial_fit(rows.scores, rows.y, **rows.given)
        fitted.calibrate([0.5])  # fitted when first read
        return fitted.predict_proba


class Frames(Adapter):
    """``fit_frame`` and ``apply_frame``, on frames of one kind."""

    words: ClassVar = {
        "scores": ["score", "scores", "p", "c0"],
        "y": ["label", "y"],
        "sample_weight": ["weight", "w"],
        "groups": ["group", "groups", "g"],
        "rows": ["rows"],
    }
    refuses_later = False  # null stays null

    def __init__(self, calibrator: Any, kind: str) -> None:
        super().__init__(calibrator)
        self.kind = kind

    def frame(self, given: dict[str, Any]) -> Any:
        """Columns as a frame of the kind."""
        data = pd.DataFrame({name: np.asarray(given[name]) for name in given})
        if self.kind == "pandas":
            return data
        table = pa.Table.from_pandas(data, preserve_index=False)
        if self.kind == "pyarrow":
            return table
        if self.kind == "polars":
            return pl.from_arrow(table)
        return duckdb.connect().from_arrow(table)

    def check_row(self, text: str, row: int) -> None:
        """Frames have no order: the column is named, and the value or the number of rows."""

    def _fit(self, rows: Rows) -> Predict:
        given = scores_by_name(rows.scores)
        names = list(given)
        given |= {"y": rows.y}
        options = {}
        if rows.sample_weight is not None:
            given |= {"w": rows.sample_weight}
            options |= {"weight": "w"}
        if rows.groups is not None:
            given |= {"g": rows.groups}
            options |= {"group": "g"}
        score = names if len(names) > 1 else names[0]
        warnings.filterwarnings("ignore", UNNAMED)
        params = self.calibrator.get_params()
        fitted = fit_frame(
            self.frame(given), score=score, label="y", **options, **params
        )

        def predict(scores: Any) -> Any:
            frame = self.frame(scores_by_name(scores))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", UNNAMED)
                found = apply_frame(frame, fitted, score=score)
            table = found.df() if self.kind == "duckdb" else found
            new = [name for name in table.columns if name.startswith("calibrated")]
            p = np.column_stack([np.asarray(table[name]) for name in new]).astype(float)
            return columns(p[:, 0]) if p.shape[1] == 1 else p

        return predict


def scores_by_name(scores: Any) -> dict[str, Any]:
    """Columns of scores: p, or c0, c1 and so on."""
    scores = np.asarray(scores)
    if scores.ndim == 1:
        return {"p": scores}
    return {f"c{j}": scores[:, j] for j in range(scores.shape[1])}


class CommandLine(Adapter):
    """``calspline fit`` on a CSV file; an error is one line, exit code 2 and no file."""

    words: ClassVar = {
        "scores": ["score", "scores", "a", "probabilities"],
        "y": ["label", "labels", "classes"],
        "sample_weight": ["weight", "w"],
        "groups": ["group", "groups", "g"],
        "rows": ["rows", "classes"],
    }
    refuses_later = False
    takes_margins = False  # they have to be declared

    def __init__(self, calibrator: Any, run: Callable[..., Any], folder: Path) -> None:
        super().__init__(calibrator)
        self.run = run
        self.folder = folder

    def check_row(self, text: str, row: int) -> None:
        assert re.search(rf"\brows? {row + 1}\b", text), text

    def _fit(self, rows: Rows) -> Predict:
        scores = np.asarray(rows.scores)
        names = ["score"]
        if scores.ndim > 1:
            names = list("abc")
        data = pd.DataFrame(
            scores.reshape(len(scores), len(names)), columns=names, dtype=object
        )
        data["label"] = np.asarray(rows.y)
        options = []
        if rows.sample_weight is not None:
            data["w"] = rows.sample_weight
            options += ["--weight", "w"]
        if rows.groups is not None:
            data["g"] = rows.groups
            options += ["--group", "g"]
        if scores.ndim > 1:
            options += ["--score", ",".join(names)]
        data.to_csv(self.folder / "data.csv", index=False)
        model = self.folder / "model.json"
        model.unlink(missing_ok=True)
        found = self.run("fit", "data.csv", "-o", "model.json", *options)
        if found.code:
            assert (found.code, found.out) == (2, "")
            assert found.err.count("\n") == 1
            assert found.err[:-1].isprintable()
            assert [path.name for path in self.folder.iterdir()] == ["data.csv"]
            raise ValueError(found.err)
        lines = found.err.splitlines()
        for line in lines:
            if "note:" in line and not re.search(UNNAMED, line):
                warnings.warn(line, stacklevel=1)
        return load(model).predict_proba
