"""The table of the contract: what is odd about some rows, and what becomes of them.

An entry changes rows that are good, and says what every surface has to make of them:
``adapters.py`` says how each surface fits and predicts. What takes more than rows, such as
threads or options, is tested beside the table, in the folder of each surface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.special import softmax

Case = int | str
"""The number of a case in the contract, or a number with a letter."""

N = 60
PAIRS, THREES = np.arange(N) // 2, np.arange(N) % 3
WEIGHT = np.random.default_rng(0).uniform(0.5, 1.5, N)


@dataclass(frozen=True)
class Rows:
    """Rows to fit, and scores to calibrate."""

    scores: Any
    y: Any
    grid: Any
    sample_weight: Any = None
    groups: Any = None
    by: Any = None

    @property
    def n_classes(self) -> int:
        return 2 if np.ndim(self.scores) == 1 else np.shape(self.scores)[1]

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of a fit beside scores and labels."""
        names = ("sample_weight", "groups", "by")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def margins(self) -> Any:
        """The scores as margins, some outside [0, 1]."""
        if self.n_classes == 2:
            return np.log(self.scores / (1 - self.scores))
        return 5.0 + np.log(self.scores)


def good_rows(m: int, n: int = N) -> Rows:
    """Over-confident scores of m classes; the grid to calibrate has exact 0 and 1."""
    rng = np.random.default_rng(m)
    z = rng.normal(0, 1.5, (n, m))
    y = (z / 2 + rng.gumbel(size=(n, m))).argmax(axis=1)
    p, grid = softmax(z, axis=1), softmax(rng.normal(0, 3, (101, m)), axis=1)
    if m == 2:
        return Rows(p[:, 1], y, np.append(grid[:, 1], [0.0, 1.0]))
    return Rows(p, y, np.vstack([grid, np.eye(m)]))


GOOD = {2: good_rows(2), 3: good_rows(3)}
MANY = {2: good_rows(2, 600), 3: good_rows(3, 600)}


def put(values: Any, row: int, value: Any) -> Any:
    """A copy with another value in a row, in its first column."""
    text = value is None or isinstance(value, (str, complex))
    out = np.array(values, dtype=object if text else float)
    out[(row,) + (0,) * (out.ndim - 1)] = value
    return out


def columns(scores: Any) -> Any:
    """Scores with a column for each class."""
    if scores.ndim == 1:
        return np.column_stack([1 - scores, scores])
    return scores.copy()


def first(scores: Any, values: Any) -> Any:
    """Scores whose first rows are these."""
    out = scores.copy()
    out[: len(values)] = values
    return out


# Outcomes


class Outcome:
    """What a surface has to make of rows."""

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Refused(Outcome):
    """An error that names the argument, and the first bad row if there is one."""

    argument: str
    row: int | None = None
    says: str = ""
    later: bool = False
    """Whether scores are refused after a fit on good ones, too."""

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        with pytest.raises((ValueError, TypeError)) as caught:
            adapter.fit(odd)
        adapter.check_error(str(caught.value), self.argument, self.row)
        assert self.says in str(caught.value)
        if self.later and adapter.refuses_later:
            predict = adapter.fit(good)
            with pytest.raises((ValueError, TypeError)) as caught:
                predict(odd.scores)
            adapter.check_error(str(caught.value), self.argument, self.row)


@dataclass(frozen=True)
class RefusedLater(Outcome):
    """Fitted on good rows, scores of another kind are an error."""

    row: int | None = None

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        predict = adapter.fit(good)
        with pytest.raises((ValueError, TypeError)) as caught:
            predict(odd.scores)
        adapter.check_error(str(caught.value), "scores", self.row)


@dataclass(frozen=True)
class Fits(Outcome):
    """Probabilities inside (0, 1) that sum to one, without a warning."""

    below: float = 1.0

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        predict = adapter.fit(odd)
        assert adapter.warnings == []
        for scores in (odd.scores, odd.grid):
            p = predict(scores)
            assert p.shape == (len(scores), odd.n_classes)
            assert np.all((p > 0) & (p < 1))
            np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        if self.below < 1.0 and adapter.shrinks:
            assert predict(odd.scores).max() < self.below


class Separates(Fits):
    """Rows that scores tell apart: each row keeps its class."""

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        super().check(adapter, good, odd)
        p = adapter.fit(odd)(odd.scores)
        np.testing.assert_array_equal(p.argmax(axis=1), odd.y)


@dataclass(frozen=True)
class Margins(Fits):
    """Margins are calibrated, or refused where probabilities are needed."""

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        if adapter.takes_margins:
            super().check(adapter, good, odd)
        else:
            Refused("scores").check(adapter, good, odd)


@dataclass(frozen=True)
class Same(Outcome):
    """The same probabilities as of other rows, without a warning."""

    wanted: Callable[[Rows], Rows] = lambda good: good
    atol: float = 1e-9
    scores: bool = False
    """Whether the scores themselves are calibrated, as they may be of another type."""

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        wanted = self.wanted(good)
        expected = adapter.fit(wanted)(wanted.scores if self.scores else good.grid)
        predict = adapter.fit(odd)
        assert adapter.warnings == []
        found = predict(odd.scores if self.scores else good.grid)
        np.testing.assert_allclose(found, expected, rtol=0, atol=self.atol)


@dataclass(frozen=True)
class Warns(Outcome):
    """Fitted as it is, with one warning."""

    says: str

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        predict = adapter.fit(odd)
        found = [text for text in adapter.warnings if self.says in text]
        assert len(found) == 1, adapter.warnings
        p = predict(odd.grid)
        assert np.all((p > 0) & (p < 1))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


class BaseRate(Outcome):
    """The share of each class, with a warning; what keeps a ranking keeps that of the scores."""

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        predict = adapter.fit(odd)
        p = predict(odd.scores)[0]
        if adapter.keeps_ranking(odd.n_classes):
            scores = columns(odd.scores)[0]
            assert adapter.warnings == []
            np.testing.assert_array_equal(np.argsort(p), np.argsort(scores))
            return
        [text] = adapter.warnings
        assert "all scores are equal" in text
        assert "base rate" in text
        np.testing.assert_allclose(p, np.bincount(odd.y) / len(odd.y), atol=1e-9)


class AbsentClass(Fits):
    """A class without rows has less than its scores say."""

    def check(self, adapter: Any, good: Rows, odd: Rows) -> None:
        super().check(adapter, good, odd)
        if adapter.learns_classes(odd.n_classes):
            p = adapter.fit(odd)(odd.scores)
            assert p[:, 2].mean() < 0.5 * odd.scores[:, 2].mean()


# The table

EVERY = ("calibrators", "wrapper", "histograms", "frames", "files", "command_line")
FITS = tuple(surface for surface in EVERY if surface != "files")
"""Where rows come in."""
NUMBERS = tuple(surface for surface in FITS if surface != "wrapper")
"""Where scores are what is given, and not what a model gives."""
CONTAINERS = ("calibrators", "histograms")
"""Where scores come in arrays of any kind."""
LABELS = ("calibrators", "wrapper", "histograms")
"""Where labels and weights come in arrays of any kind."""
TWO, THREE, BOTH = (2,), (3,), (2, 3)


@dataclass(frozen=True)
class Entry:
    """An entry of the table."""

    case: Case
    what: str
    change: Callable[[Rows], Rows]
    outcome: Outcome
    on: tuple[str, ...] = FITS
    classes: tuple[int, ...] = BOTH
    many: bool = False
    """Whether 600 rows are needed, which show what 60 do not."""
    own: bool = False
    """Whether every calibrator has its own way to come to the outcome."""

    @property
    def name(self) -> str:
        return f"{self.case} {self.what}"

    def check(self, adapter: Any, classes: tuple[int, ...] = ()) -> None:
        """Check the outcome for rows of so many classes."""
        for m in classes or self.classes:
            good = (MANY if self.many else GOOD)[m]
            self.outcome.check(adapter, good, self.change(good))


TABLE: list[Entry] = []


def entry(
    case: Case,
    what: str,
    change: Callable[[Rows], Rows],
    outcome: Outcome,
    on: tuple[str, ...] = FITS,
    classes: tuple[int, ...] = BOTH,
    **more: Any,
) -> None:
    TABLE.append(Entry(case, what, change, outcome, on, classes, **more))


def scores(change: Callable[..., Any]) -> Callable[[Rows], Rows]:
    return lambda rows: replace(rows, scores=change(rows.scores))


def labels(change: Callable[..., Any]) -> Callable[[Rows], Rows]:
    return lambda rows: replace(rows, y=change(rows.y))


def given(**columns: Any) -> Callable[[Rows], Rows]:
    return lambda rows: replace(rows, **columns)


def take(index: Any) -> Callable[[Rows], Rows]:
    """Some rows, or each as often as is said."""
    return lambda rows: replace(rows, scores=rows.scores[index], y=rows.y[index])


ARRAYS = ("calibrators", "wrapper", "histograms", "frames")

NAN = Refused("scores", row=3, later=True)
entry(1, "NaN", scores(lambda p: put(p, 3, np.nan)), NAN)
entry(1, "None", scores(lambda p: put(p, 3, None)), NAN, NUMBERS)
for kind, missing in {
    "pandas": pd.array([0.1, 0.2, 0.3, pd.NA] * 15, dtype="Float64"),
    "polars": pl.Series([0.1, 0.2, 0.3, None] * 15),
    "masked": np.ma.masked_equal([0.1, 0.2, 0.3, 0.4] * 15, 0.4),
}.items():
    entry(1, f"missing in {kind}", given(scores=missing), NAN, CONTAINERS, TWO)
for infinite in (np.inf, -np.inf):
    entry(2, f"{infinite}", scores(lambda p, v=infinite: put(p, 3, v)), NAN)
entry(
    3,
    "margins",
    lambda rows: replace(rows, scores=rows.margins, grid=rows.margins),
    Margins(),
    (*NUMBERS, "files"),
    own=True,
)
entry(
    3,
    "outside [0, 1] after probabilities",
    scores(lambda p: put(p, 3, 1.5)),
    RefusedLater(row=3),
    ("calibrators", "histograms", "files"),
)
entry(
    "3a",
    "rounding",
    scores(lambda p: first(p, [-9e-5, 1 + 1e-12])),
    Same(scores(lambda p: first(p, [0.0, 1.0])), atol=1e-5),
    classes=TWO,
)
for count in (1, 3):
    entry(
        "3b",
        f"{count} outside",
        scores(
            lambda p, k=count: np.where(
                (np.arange(N) // 5 == 1) & (np.arange(N) < 5 + k), 1.2, p
            )
        ),
        Refused("scores", row=5, says=f"{count} of 60 rows"),
        classes=TWO,
    )
entry(
    "3b",
    "one row outside among several columns",
    scores(lambda p: put(p, 5, 1.2)),
    Refused("scores", row=5, says="1 of 60 rows"),
    ("calibrators", "frames", "command_line"),
    THREE,
)
entry(
    "3c",
    "falling",
    scores(lambda p: 1 - p),
    Warns("scores are lower where the class is 1"),
    classes=TWO,
    many=True,
)
entry(4, "no rows", take(slice(0)), Refused("rows"), NUMBERS)
entry(
    6,
    "three dimensions",
    given(scores=np.full((N, 2, 2), 0.5)),
    Refused("scores", says="dimensions"),
    CONTAINERS,
)
entry(6, "a number", given(scores=0.5), Refused("scores"), CONTAINERS)
entry(6, "a dict", given(scores={"a": 1}), Refused("scores"), CONTAINERS)
COMPLEX = ("calibrators", "histograms", "command_line")
entry(7, "complex", scores(lambda p: p + 0j), Refused("scores", later=True), COMPLEX)
entry(7, "one complex", scores(lambda p: put(p, 3, 1j)), NAN, CONTAINERS)
entry(
    8,
    "texts",
    scores(lambda p: p.astype(str)),
    Refused("scores", later=True),
    ("calibrators", "histograms", "frames"),
)
entry(8, "one text", scores(lambda p: put(p, 3, "0.5x")), NAN, CONTAINERS)
entry(
    8,
    "dates",
    given(scores=np.arange(N).astype("M8[D]")),
    Refused("scores"),
    CONTAINERS,
    TWO,
)
entry(
    8,
    "objects",
    given(scores=np.array([object()] * N)),
    Refused("scores", row=0),
    CONTAINERS,
    TWO,
)
entry(
    9,
    "sparse",
    scores(lambda p: sparse.csr_array(columns(p))),
    Refused("scores", says="dense", later=True),
    CONTAINERS,
)
entry(
    10,
    "exact 0 and 1",
    lambda rows: replace(
        rows,
        scores=first(
            rows.scores,
            np.tile(np.eye(rows.n_classes), (2, 1))
            if rows.n_classes > 2
            else [0, 1] * 3,
        ),
    ),
    Fits(),
    EVERY,
    own=True,
)
entry(
    11,
    "only 0 and 1",
    lambda rows: replace(
        rows,
        scores=np.arange(N) % 2 * 1.0 if rows.n_classes == 2 else np.eye(3)[THREES],
    ),
    Fits(),
    EVERY,
)
TINY = np.array([5e-324, 1e-310, 1e-300, 1e-20])
entry(
    12,
    "denormals",
    scores(
        lambda p: first(
            p, TINY if p.ndim == 1 else np.column_stack([TINY, 1 - 2 * TINY, TINY])
        )
    ),
    Fits(),
)
entry(
    13,
    "constant",
    lambda rows: replace(
        rows,
        scores=np.full(N, 0.7)
        if rows.n_classes == 2
        else np.tile([0.2, 0.3, 0.5], (N, 1)),
    ),
    BaseRate(),
    EVERY,
    own=True,
)
entry(14, "two distinct values", scores(lambda p: p[np.arange(N) % 2]), Fits())
entry(15, "five distinct values", scores(lambda p: p[np.arange(N) % 5]), Fits())
entry(16, "one row", take(slice(1)), Refused("rows"), NUMBERS)
entry(
    17,
    "three rows",
    lambda rows: replace(
        rows,
        scores=np.array(
            [0.2, 0.4, 0.9]
            if rows.n_classes == 2
            else [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]]
        ),
        y=np.array([0, 0, 1] if rows.n_classes == 2 else [0, 1, 2]),
    ),
    Fits(below=0.99),
    EVERY,
    own=True,
)
CONTAINER: dict[str, Callable[..., Any]] = {
    "a list": lambda s: s.tolist(),
    "objects": lambda s: s.astype(object),
    "Fortran order": np.asfortranarray,
    "pandas": lambda s: pd.Series(s) if s.ndim == 1 else pd.DataFrame(s),
    "nullable pandas": lambda s: (
        pd.Series(s, dtype="Float64")
        if s.ndim == 1
        else pd.DataFrame(s, dtype="Float64")
    ),
    "polars": lambda s: pl.Series(s) if s.ndim == 1 else pl.DataFrame(s),
    "Arrow": lambda s: (
        pa.array(s)
        if s.ndim == 1
        else pa.table({f"c{j}": s[:, j] for j in range(s.shape[1])})
    ),
}
for kind, make in CONTAINER.items():
    entry(19, kind, scores(make), Same(scores=True, atol=0), CONTAINERS)
for dtype in (np.float32, np.float16):
    entry(
        19,
        np.dtype(dtype).name,
        scores(lambda p, t=dtype: p.astype(t)),
        Same(scores(lambda p, t=dtype: p.astype(t).astype(float)), scores=True),
        CONTAINERS,
    )
entry(
    19,
    "integers",
    scores(
        lambda p: (
            np.rint(columns(p)).astype(int)[:, 1]
            if p.ndim == 1
            else np.eye(3, dtype=int)[THREES]
        )
    ),
    Same(
        scores(lambda p: np.rint(p) if p.ndim == 1 else np.eye(3)[THREES]), scores=True
    ),
    ("calibrators", "histograms", "frames", "command_line"),
)
MISSING = Refused("y", row=2)
entry(20, "NaN", labels(lambda y: put(y, 2, np.nan)), MISSING)
entry(20, "None", labels(lambda y: put(y, 2, None)), MISSING, LABELS)
entry(
    20,
    "NaN among objects",
    labels(lambda y: put(y, 2, np.nan).astype(object)),
    MISSING,
    LABELS,
)
entry(
    20,
    "pandas",
    labels(lambda y: pd.array(put(y, 2, None), dtype="Int64")),
    MISSING,
    LABELS,
)
entry(
    20,
    "polars",
    labels(lambda y: pl.Series([None if i == 2 else int(v) for i, v in enumerate(y)])),
    MISSING,
    LABELS,
)
entry(
    20,
    "masked",
    labels(lambda y: np.ma.array(y, mask=np.arange(N) == 2)),
    MISSING,
    CONTAINERS,
)
entry(21, "one class", given(y=np.array(["yes"] * N)), Refused("y", says="yes"))
entry(21, "one number", given(y=np.ones(N, dtype=int)), Refused("y", says="1"))
entry(
    22,
    "one positive",
    labels(lambda y: (np.arange(N) == 17).astype(int)),
    Fits(),
    EVERY,
    own=True,
)
KINDS: dict[str, Callable[..., Any]] = {
    "floats": lambda y: y.astype(float),
    "texts": lambda y: np.array(["a", "b", "c"])[y],
    "from -1": lambda y: np.array([-1, 1, 3])[y],
    "from 1": lambda y: y + 1,
}
for kind, make in KINDS.items():
    # The command asks which of two texts is the event.
    on = FITS[:-1] if kind == "texts" else FITS
    entry(23, kind, labels(make), Same(), on)
BOXES: dict[str, Callable[..., Any]] = {
    "text objects": lambda y: np.array(["a", "b", "c"])[y].astype(object),
    "pandas categories": lambda y: pd.Categorical(np.array(["a", "b", "c"])[y]),
    "pandas texts": lambda y: pd.Series(np.array(["a", "b", "c"])[y], dtype="string"),
    "polars categories": lambda y: pl.Series(np.array(["a", "b", "c"])[y]).cast(
        pl.Categorical
    ),
    "Arrow": pa.array,
    "a list": lambda y: y.tolist(),
    "objects": lambda y: y.astype(object),
}
for kind, make in BOXES.items():
    # scikit-learn, which the wrapper follows, takes numbers among objects for no labels.
    entry(23, kind, labels(make), Same(), CONTAINERS if kind == "objects" else LABELS)
entry(23, "a column", labels(lambda y: y[:, None]), Same(), CONTAINERS)
entry(23, "booleans", labels(lambda y: y == 1), Same(), FITS, TWO)
entry(24, "continuous", given(y=np.linspace(0.1, 0.9, N)), Refused("y"))
ONE_A_ROW: dict[str, Callable[..., Any]] = {
    "two columns": lambda y: np.column_stack([y, y]),
    "no array": lambda y: None,
    "ragged": lambda y: [[0], [1, 2]] * 30,
    "of two types": lambda y: np.array(["a", 1] * 30, dtype=object),
    "dates": lambda y: y.astype("M8[D]"),
    "sparse": lambda y: sparse.csr_array(y[:, None]),
    "tuples": lambda y: objects((each, 0) for each in y.tolist()),
    "lists": lambda y: objects([each] for each in y.tolist()),
    "dicts": lambda y: objects({"a": each} for each in y.tolist()),
}


def objects(values: Any) -> Any:
    """Values of any kind as an array of one dimension."""
    out = np.empty(N, dtype=object)
    for row, value in enumerate(values):
        out[row] = value
    return out


for kind, make in ONE_A_ROW.items():
    entry(24, kind, labels(make), Refused("y"), CONTAINERS)
entry(25, "three classes, one column", given(y=THREES), Refused("y"), FITS, TWO)
entry(
    25,
    "four classes, three columns",
    given(y=np.arange(N) % 4),
    Refused("y"),
    ("calibrators", "wrapper", "frames", "command_line"),
    THREE,
)
entry(
    26,
    "labels",
    labels(lambda y: y[:55]),
    Refused("y", says="60 and 55"),
    CONTAINERS,
)
entry(
    27,
    "separated",
    lambda rows: replace(
        rows,
        y=np.arange(N) % rows.n_classes,
        scores=(
            np.where(np.arange(N) % 2, 0.8, 0.2) + np.linspace(-0.1, 0.1, N)
            if rows.n_classes == 2
            else 0.1 + 0.7 * np.eye(3)[THREES]
        ),
    ),
    Separates(),
    EVERY,
    own=True,
)
ORDER = np.random.default_rng(0).permutation(N)


def indexed(index: Any) -> Callable[[Rows], Rows]:
    """Rows in pandas, whose labels have another index than their scores."""
    return lambda rows: replace(
        rows,
        scores=pd.Series(rows.scores, index=index)
        if rows.n_classes == 2
        else pd.DataFrame(rows.scores, index=index),
        y=pd.Series(rows.y, index=index[::-1]),
        sample_weight=pd.Series(np.ones(N), index=index),
    )


entry(28, "shuffled index", indexed(ORDER), Same(), CONTAINERS)
entry(29, "index without 0", indexed(ORDER + 70), Same(), CONTAINERS)
entry(
    "29a",
    "a class absent",
    labels(lambda y: np.minimum(y, 1) + 1),
    Refused("classes"),
    ("calibrators", "frames", "command_line"),
    THREE,
)
for names in ([0, 1], [0.0, 1.0], [False, True], ["0", "1"], ["p_0.0", "p_1.0"]):
    entry(
        "29b",
        f"{names}",
        scores(lambda p, n=names: pd.DataFrame(columns(p)[:, ::-1], columns=n[::-1])),
        Same(atol=1e-6),
        CONTAINERS,
        TWO,
    )
entry(
    "29b",
    "some names",
    scores(lambda p: pd.DataFrame(p, columns=["0", "1", "other"])),
    Refused("scores", says="named after the classes"),
    ("calibrators",),
    THREE,
)
entry(
    "29c",
    "shuffled columns",
    scores(lambda p: p[:, [1, 2, 0]]),
    Warns("less often than by chance"),
    ("calibrators", "wrapper", "frames", "command_line"),
    THREE,
    many=True,
)
FEATURES = np.random.default_rng(0).normal(size=(N, 8))
for what, label in {
    "two": FEATURES[:, 0] > 0,
    "texts": np.where(FEATURES[:, 0] > 0, "yes", "no"),
}.items():
    entry(
        "29d",
        f"features, {what}",
        given(scores=FEATURES, y=label),
        Refused("CalibratedClassifierCV"),
        ("calibrators", "frames"),
        THREE,
    )
ONES = np.ones(N)
entry(
    30,
    "negative",
    given(sample_weight=put(ONES, 4, -1.0)),
    Refused("sample_weight", row=4),
)
entry(
    31,
    "all zero",
    given(sample_weight=0.0 * ONES),
    Refused("sample_weight", says="all zero"),
)
entry(
    32,
    "NaN",
    given(sample_weight=put(ONES, 1, np.nan)),
    Refused("sample_weight", row=1),
)
entry(
    32,
    "infinite",
    given(sample_weight=put(ONES, 1, np.inf)),
    Refused("sample_weight", row=1),
)
entry(
    32,
    "too large",
    given(sample_weight=np.full(N, 1e308)),
    Refused("sample_weight"),
    CONTAINERS,
)
entry(32, "texts", given(sample_weight=["1"] * N), Refused("sample_weight"), CONTAINERS)
entry(
    35,
    "two columns",
    given(sample_weight=np.ones((N, 2))),
    Refused("sample_weight"),
    CONTAINERS,
)
entry(
    33,
    "one row left",
    given(sample_weight=np.eye(N)[0]),
    Refused("rows"),
    ("calibrators",),
)
entry(
    33,
    "one class left",
    lambda rows: replace(rows, sample_weight=(rows.y == 1) * 1.0),
    Refused("y"),
    ("calibrators", "wrapper", "frames", "command_line"),
)
SOME = THREES > 0
entry(33, "some zero", given(sample_weight=SOME * 1.0), Same(take(SOME)))
entry(
    33,
    "odd rows of weight zero",
    lambda rows: replace(
        rows,
        scores=np.append(rows.scores, 17.0),
        y=np.append(rows.y, 2),
        sample_weight=np.append(ONES, 0.0),
    ),
    Same(given(sample_weight=ONES)),
    ("calibrators", "frames"),
    TWO,
)
COUNTS = np.random.default_rng(0).integers(0, 4, N)
REPEATED = Same(take(np.repeat(np.arange(N), COUNTS)))
entry(34, "integers", given(sample_weight=COUNTS), REPEATED, EVERY, own=True)
entry(34, "a column", given(sample_weight=COUNTS[:, None]), REPEATED, CONTAINERS)
entry(
    35,
    "too short",
    given(sample_weight=ONES[:3]),
    Refused("sample_weight", says="60 and 3"),
    LABELS,
)
UNLIKELY = {
    "a sum of one": WEIGHT / WEIGHT.sum(),
    "millions": 1e6 * np.pi * WEIGHT,
    "rounded": np.rint(100 * WEIGHT),
}
for what, weight in UNLIKELY.items():
    entry("35a", what, given(sample_weight=weight), Warns("for 60 rows"))
entry(
    "35a",
    "class weights",
    lambda rows: replace(rows, sample_weight=np.where(rows.y == 1, 20.0, 1.0)),
    Warns("for 60 rows"),
    classes=TWO,
)


def counted(rows: Rows) -> Rows:
    """A table of counts."""
    pairs = np.column_stack([np.round(rows.scores, 1), rows.y])
    table, counts = np.unique(pairs, axis=0, return_counts=True)
    return replace(
        rows, scores=table[:, 0], y=table[:, 1].astype(int), sample_weight=counts
    )


entry(
    "35a",
    "a table of counts",
    counted,
    Fits(),
    ("calibrators", "histograms", "frames", "command_line"),
    TWO,
    many=True,
)


def locked(rows: Rows) -> Rows:
    arrays = rows.scores.copy(), rows.y.copy(), np.ones(N)
    for array in arrays:
        array.flags.writeable = False
    return replace(rows, scores=arrays[0], y=arrays[1], sample_weight=arrays[2])


entry(36, "read-only", locked, Same(given(sample_weight=ONES)), LABELS)
entry(
    37,
    "gaps",
    lambda rows: replace(
        rows, scores=np.repeat(rows.scores, 2, axis=0)[::2], y=np.repeat(rows.y, 2)[::2]
    ),
    Same(),
    LABELS,
)
entry(39, "(n, 1)", scores(lambda p: p[:, None]), Same(), CONTAINERS, TWO)


def row(number: int, values: Any) -> Callable[[Rows], Rows]:
    """Scores with a column for each class, and other values in a row."""

    def change(rows: Rows) -> Rows:
        out = columns(rows.scores)
        out[number] = (
            values if np.ndim(values) == 0 else [*values, *[0.0] * (out.shape[1] - 2)]
        )
        return replace(rows, scores=out)

    return change


entry(
    40,
    "too little",
    row(3, 0.3),
    Refused("scores", row=3, says="0.005"),
    ("calibrators", "wrapper", "histograms"),
)
entry(
    40,
    "too little",
    row(3, 0.3),
    Refused("scores", row=3, says="0.005"),
    ("frames", "command_line"),
    THREE,
)
entry(
    40,
    "rounded",
    lambda rows: replace(rows, scores=np.round(columns(rows.scores), 4)),
    Same(scores(columns), atol=1e-2),
    ("calibrators", "wrapper", "histograms"),
)
entry(
    41,
    "one negative",
    row(3, [-0.2, 1.2]),
    Refused("scores", row=3, says="1 of 60 rows"),
    ("calibrators", "wrapper"),
)
entry(
    41,
    "one negative",
    row(3, [-0.2, 1.2]),
    Refused("scores", row=3),
    ("frames", "command_line"),
    THREE,
)
entry(
    42,
    "zeros",
    row(5, 0.0),
    Refused("scores", row=5, says="0.005"),
    ("calibrators", "wrapper", "histograms"),
)
entry(
    42,
    "zeros",
    row(5, 0.0),
    Refused("scores", row=5, says="0.005"),
    ("frames", "command_line"),
    THREE,
)
entry(
    43,
    "no rows",
    labels(lambda y: np.minimum(y, 1)),
    AbsentClass(),
    ("calibrators", "wrapper", "frames", "files", "command_line"),
    THREE,
    own=True,
)
SHUFFLED_WEIGHT = np.random.default_rng(1).uniform(0.2, 1.8, N)
entry(
    53,
    "row order",
    lambda rows: replace(take(ORDER)(rows), sample_weight=SHUFFLED_WEIGHT[ORDER]),
    Same(given(sample_weight=SHUFFLED_WEIGHT)),
    own=True,
)

GROUPED = ("calibrators", "wrapper", "frames", "command_line")
BAD_GROUP = Refused("groups", row=7)
entry(
    "54a",
    "a group that is NaN",
    given(groups=put(PAIRS, 7, np.nan)),
    BAD_GROUP,
    GROUPED,
)
entry(
    "54a",
    "a group that is None",
    given(groups=put(PAIRS, 7, None)),
    BAD_GROUP,
    GROUPED[:2],
)
entry(
    "54a",
    "a date that is none",
    given(groups=put(PAIRS, 7, "NaT").astype("M8[D]")),
    BAD_GROUP,
    GROUPED[:1],
)
entry(
    "54a",
    "too few groups",
    given(groups=PAIRS[:50]),
    Refused("groups", says="60 and 50"),
    GROUPED[:2],
)
for what, groups in {
    "two columns": np.ones((N, 2)),
    "ragged": [[1]] * 59 + [[1, 2]],
    "a set": [*put(PAIRS, 7, None).tolist()[:7], {1}, *PAIRS[8:].tolist()],
}.items():
    entry(
        "54a", f"groups: {what}", given(groups=groups), Refused("groups"), GROUPED[:1]
    )
entry(
    "54b",
    "one group",
    given(groups=np.zeros(N, dtype=int)),
    Refused("groups", says="at least two groups"),
    GROUPED,
)
entry("54c", "groups of one row", given(groups=np.arange(N)), Same(), GROUPED)
SEGMENTED = ("calibrators", "histograms")
entry(
    "54a",
    "too few segments",
    given(by=THREES[:50]),
    Refused("by", says="60 and 50"),
    SEGMENTED,
)
entry(
    "54a",
    "segments that are sets",
    given(by=[{1}] * N),
    Refused("by", row=0),
    SEGMENTED,
)
entry("54a", "no segment", given(by=[None] * N), Refused("by"), ("calibrators",))
entry("54a", "a name", given(by="country"), Refused("by"), ("calibrators",))
entry("54e", "segments of one row", given(by=np.arange(N)), Fits(), SEGMENTED)
entry("54e", "one segment", given(by=np.zeros(N)), Fits(), ("calibrators",))
entry(
    "54e",
    "one row in one segment",
    given(by=np.r_[0, np.ones(N - 1)]),
    Fits(),
    ("calibrators",),
)
entry(
    "54e",
    "segments of one class",
    lambda rows: replace(rows, by=(rows.y == rows.y[0]).astype(int)),
    Fits(),
    SEGMENTED,
)


def entries(surface: str) -> list[Entry]:
    """The entries of a surface."""
    return [each for each in TABLE if surface in each.on]


def cases(surface: str) -> list[Case]:
    """The cases that a surface has entries of."""
    return list(dict.fromkeys(each.case for each in entries(surface)))


def check(case: Case, surface: str, adapter: Any, *, two: bool = False) -> None:
    """Check all entries of a case on a surface; a failure says which it is.

    ``two`` leaves three classes to the entries that are about them.
    """
    for each in entries(surface):
        if each.case == case:
            try:
                each.check(adapter, each.classes[:1] if two else each.classes)
            except BaseException as error:
                error.add_note(f"entry {each.name!r} of the table")
                raise
