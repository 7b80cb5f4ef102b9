"""The cases of the contract as probes: an input for a library, and what its answer has to be."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import expit, softmax

from benchmarks.faults.judge import (
    SAME,
    Array,
    Verdict,
    answers,
    close,
    in_time,
    proper,
    refuses,
    warns,
)
from benchmarks.faults.libraries import Library

N = 120
BAD = 3
UNAFFECTED = 0.02
FEW = "distinct|tied|unique|constant|equal|at least|few|class|sample|observation"


@dataclass
class Trial:
    """A library, plain data, and what it makes of them."""

    library: Library

    def __post_init__(self) -> None:
        rng = np.random.default_rng(1)
        u = rng.normal(0.0, 2.0, N)
        self.p: Array = expit(u)
        self.y = (rng.random(N) < expit(u / 2)).astype(int)
        self.grid: Array = np.linspace(0.02, 0.98, 25)
        z = rng.normal(0.0, 1.5, (N, 3))
        self.P: Array = softmax(z, axis=1)
        self.k = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)

    def fitted(self, scores: Any, y: Any, weight: Any = None) -> Any:
        """The library's calibrator of these rows."""
        return self.library.fit(self.library.make(), scores, y, weight)

    def __call__(self, scores: Any, y: Any, weight: Any = None, at: Any = None) -> Any:
        """What it says, fitted to these rows."""
        return self.library.say(
            self.fitted(scores, y, weight), self.grid if at is None else at
        )

    @cached_property
    def plain(self) -> Any:
        """Fitted to plain rows."""
        with in_time():
            return self.fitted(self.p, self.y)

    @cached_property
    def expected(self) -> Array:
        """What it then says."""
        with in_time():
            return np.array(self.library.say(self.plain, self.grid), dtype=float)

    @cached_property
    def without_row(self) -> Array:
        """The same without the row that probes spoil."""
        with in_time():
            return np.array(
                self(np.delete(self.p, BAD), np.delete(self.y, BAD)), dtype=float
            )

    def changed(self, value: Any) -> Any:
        """The scores with one replaced."""
        out = self.p.astype(
            object
            if isinstance(value, str)
            else type(value)
            if value is not None
            else object
        )
        out[BAD] = value
        return out

    def unaffected(self, answer: Any) -> bool:
        """Whether a bad row was left out."""
        return proper(answer) and close(answer, self.without_row, UNAFFECTED)

    def is_nan_there(self, answer: Any) -> bool:
        """Whether NaN in gave NaN out, and the rest is as it was."""
        array = np.asarray(answer, dtype=float)
        return bool(np.isnan(array[0])) and close(array[1:], self.expected[1:])


Probe = Callable[[Trial], Verdict]
PROBES: dict[str, tuple[int | str, str, Probe]] = {}
NEEDS: dict[str, Callable[[Library], bool]] = {}


def probe(
    case: int | str, title: str, needs: Callable[[Library], bool] = lambda _: True
) -> Callable[[Probe], Probe]:
    """Register a probe of a case."""

    def keep(function: Probe) -> Probe:
        number = str(case).rstrip("abcdef")
        name = f"{number:0>2}{str(case).removeprefix(number)} {title}"
        PROBES[name] = case, title, function
        NEEDS[name] = needs
        return function

    return keep


def spoils(case: int, title: str, value: Any, words: str) -> None:
    """A bad value among the scores, at fit and at predict."""

    @probe(case, f"{title} at fit")
    def at_fit(t: Trial) -> Verdict:
        return refuses(lambda: t(t.changed(value), t.y), words, t.unaffected)

    @probe(case, f"{title} at predict")
    def at_predict(t: Trial) -> Verdict:
        grid: Any = t.grid.astype(object if isinstance(value, str) else type(value))
        grid[0] = value

        def fine(answer: Any) -> bool:
            if value == float("inf") and t.library.any_number:  # the limit
                return proper(answer) and close(answer[1:], t.expected[1:])
            return t.is_nan_there(answer)

        return refuses(lambda: t.library.say(t.plain, grid), words, fine)


spoils(1, "NaN", float("nan"), "nan|missing|finite|null|range")
spoils(2, "infinite", float("inf"), "inf|finite|large|range")
spoils(7, "complex", 0.5 + 1j, "complex|real|float|dtype|data type|input type")
spoils(8, "strings", "high", "string|str|numeric|number|float|real|dtype")


@probe(3, "1.5 at fit")
def outside_at_fit(t: Trial) -> Verdict:
    fine = proper if t.library.any_number else lambda _: False
    return refuses(
        lambda: t(t.changed(1.5), t.y),
        r"\[0, ?1\]|between|range|probabilit|outside",
        fine,
    )


@probe(3, "1.5 at predict")
def outside_at_predict(t: Trial) -> Verdict:
    grid = np.append(t.grid, 1.5)
    fine = proper if t.library.any_number else lambda _: False
    return refuses(
        lambda: t.library.say(t.plain, grid),
        r"\[0, ?1\]|between|range|probabilit|outside",
        fine,
    )


@probe("3a", "1 + 1e-12 and -5e-7 at fit")
def rounding_at_fit(t: Trial) -> Verdict:
    p = t.p.copy()
    p[:2] = [0.0, 1.0]
    with in_time():
        exact = np.array(t(p, t.y), dtype=float)
    p[:2] = [-5e-7, 1 + 1e-12]
    return answers(
        lambda: t(p, t.y),
        lambda a: close(a, exact, 1e-3),
        r"\[0, ?1\]|between|range|probabilit|outside",
    )


@probe("3a", "1 + 1e-12 and -5e-7 at predict")
def rounding_at_predict(t: Trial) -> Verdict:
    with in_time():
        exact = np.array(t.library.say(t.plain, np.array([0.0, 0.5, 1.0])), dtype=float)
    grid = np.array([-5e-7, 0.5, 1 + 1e-12])
    words = r"\[0, ?1\]|between|range|probabilit|outside"
    return answers(
        lambda: t.library.say(t.plain, grid), lambda a: close(a, exact, 1e-3), words
    )


@probe(
    "3b",
    "three of 120 are 1.5",
    lambda library: library.package == "calspline" or not library.any_number,
)
def few_outside(t: Trial) -> Verdict:
    p = t.p.copy()
    p[:3] = 1.5
    return refuses(lambda: t(p, t.y), r"\[0, ?1\]|between|range|probabilit|outside")


@probe("3c", "falling scores")
def falling(t: Trial) -> Verdict:
    n = 600
    rng = np.random.default_rng(2)
    p = expit(rng.normal(0.0, 2.0, n))
    y = (rng.random(n) > p).astype(int)
    return warns(
        lambda: t(p, y),
        "lower|revers|invert|flip|negative|decreas|slope|wrong|order|sign",
    )


@probe(4, "empty fit")
def empty_fit(t: Trial) -> Verdict:
    return refuses(
        lambda: t(t.p[:0], t.y[:0]), "empty|row|sample|at least|class|length|size"
    )


@probe(5, "empty predict")
def empty_predict(t: Trial) -> Verdict:
    return answers(
        lambda: t.library.say(t.plain, t.p[:0]),
        lambda a: np.shape(a)[0] == 0,
        "empty|sample|at least",
    )


@probe(6, "three dimensions", lambda library: library.package != "scikit-learn")
def dimensions(t: Trial) -> Verdict:
    return refuses(lambda: t(np.full((N, 2, 2), 0.5), t.y), "dim|shape|1d|2d|array")


@probe(9, "sparse", lambda library: library.package != "scikit-learn")
def sparse_scores(t: Trial) -> Verdict:
    return refuses(lambda: t(sparse.csr_array(t.p.reshape(-1, 1)), t.y), "sparse|dense")


@probe(10, "exact 0 and 1")
def exact_ends(t: Trial) -> Verdict:
    p = t.p.copy()
    p[:6] = [0.0, 1.0] * 3
    return answers(lambda: t(p, t.y, at=np.append(t.grid, [0.0, 1.0])), proper, FEW)


@probe(11, "only 0s and 1s")
def only_ends(t: Trial) -> Verdict:
    return answers(lambda: t(np.round(t.p), t.y, at=np.array([0.0, 1.0])), proper, FEW)


@probe(12, "denormals")
def denormals(t: Trial) -> Verdict:
    p = t.p.copy()
    p[:3] = [5e-324, 1e-310, 1e-300]
    return answers(lambda: t(p, t.y, at=p), proper, FEW)


@probe(13, "constant", lambda library: library.intercept)
def constant(t: Trial) -> Verdict:
    base = t.y.mean()
    return answers(
        lambda: t(np.full(N, 0.7), t.y, at=np.full(3, 0.7)),
        lambda a: proper(a) and bool(np.all(np.abs(np.asarray(a) - base) < 0.05)),
        FEW,
    )


@probe(14, "two distinct values")
def two_values(t: Trial) -> Verdict:
    return answers(lambda: t(np.where(t.p > 0.5, 0.8, 0.3), t.y), proper, FEW)


@probe(15, "five distinct values")
def five_values(t: Trial) -> Verdict:
    return answers(
        lambda: t(np.clip(np.round(t.p * 5) / 5, 0.1, 0.9), t.y), proper, FEW
    )


@probe(16, "one row")
def one_row(t: Trial) -> Verdict:
    return refuses(
        lambda: t(t.p[:1], t.y[:1]), "class|row|sample|at least|one|single|unique"
    )


@probe(17, "three rows")
def three_rows(t: Trial) -> Verdict:
    return answers(
        lambda: t(np.array([0.2, 0.4, 0.9]), np.array([0, 0, 1])), proper, FEW
    )


def _same(
    t: Trial, scores: Any, y: Any, words: str = "", tolerance: float = SAME
) -> Verdict:
    return answers(
        lambda: t(scores, y), lambda a: close(a, t.expected, tolerance), words
    )


@probe(19, "a list")
def a_list(t: Trial) -> Verdict:
    return _same(t, t.p.tolist(), t.y.tolist(), "array|list|type")


@probe(19, "float32")
def float32(t: Trial) -> Verdict:
    return _same(t, t.p.astype(np.float32), t.y, tolerance=1e-3)


@probe(19, "a Series")
def a_series(t: Trial) -> Verdict:
    return _same(t, pd.Series(t.p), pd.Series(t.y))


@probe(20, "a NaN label")
def nan_label(t: Trial) -> Verdict:
    y = t.y.astype(float)
    y[BAD] = np.nan
    return refuses(
        lambda: t(t.p, y), "nan|missing|finite|label|unknown|target", t.unaffected
    )


@probe(20, "a label of None")
def none_label(t: Trial) -> Verdict:
    y = t.y.astype(object)
    y[BAD] = None
    return refuses(
        lambda: t(t.p, y), "nan|none|missing|label|unknown|finite|target", t.unaffected
    )


@probe(21, "one class")
def one_class(t: Trial) -> Verdict:
    return refuses(
        lambda: t(t.p, np.ones(N, dtype=int)), "class|label|unique|both|only"
    )


@probe(22, "one positive")
def one_positive(t: Trial) -> Verdict:
    return answers(lambda: t(t.p, (np.arange(N) == 17).astype(int)), proper, FEW)


def _labels(title: str, labels: list[Any]) -> None:
    @probe(23, f"labels {title}")
    def labelled(t: Trial) -> Verdict:
        return _same(
            t,
            t.p,
            np.array(labels)[t.y],
            "label|class|target|binary|numeric|string|str_",
        )


_labels("of words", ["no", "yes"])
_labels("of booleans", [False, True])
_labels("-1 and 1", [-1, 1])
_labels("1 and 2", [1, 2])
_labels("0.0 and 1.0", [0.0, 1.0])


@probe(23, "three classes 1 to 3", lambda library: library.many)
def from_one(t: Trial) -> Verdict:
    with in_time():
        expected = np.array(t(t.P, t.k, at=t.P), dtype=float)
    return answers(
        lambda: t(t.P, t.k + 1, at=t.P),
        lambda a: close(a, expected),
        "label|class|target",
    )


@probe(24, "continuous labels")
def continuous(t: Trial) -> Verdict:
    return refuses(
        lambda: t(t.p, np.linspace(0.1, 0.9, N)), "continuous|label|class|binary|target"
    )


@probe(25, "three classes, one column")
def three_classes(t: Trial) -> Verdict:
    return refuses(
        lambda: t(t.p, np.arange(N) % 3), "class|label|binary|column|target|shape"
    )


@probe(26, "lengths differ")
def lengths(t: Trial) -> Verdict:
    return refuses(
        lambda: t(t.p, t.y[:-5]),
        "length|inconsistent|shape|size|number of|dimension|same|equal",
    )


@probe(27, "perfect separation")
def separation(t: Trial) -> Verdict:
    y = (t.p > 0.5).astype(int)
    return answers(
        lambda: t(t.p, y, at=np.array([0.1, 0.9])),
        lambda a: proper(a) and bool(np.asarray(a)[0] < 0.5 < np.asarray(a)[1]),
    )


@probe(28, "a shuffled index")
def shuffled_index(t: Trial) -> Verdict:
    order = np.random.default_rng(0).permutation(N)
    return _same(t, pd.Series(t.p, index=order), pd.Series(t.y, index=order[::-1]))


@probe(29, "no index 0")
def no_index_0(t: Trial) -> Verdict:
    index = np.arange(N) + 70
    return _same(t, pd.Series(t.p, index=index), pd.Series(t.y, index=index))


def _weights(case: int, title: str, make: Callable[[Array], Any], words: str) -> None:
    @probe(case, f"{title} weights", lambda library: library.weights)
    def weighted(t: Trial) -> Verdict:
        return refuses(lambda: t(t.p, t.y, make(np.ones(N))), words)


_weights(
    30,
    "negative",
    lambda w: np.where(np.arange(N) == BAD, -1.0, w),
    "negative|positive|weight",
)
_weights(31, "all zero", lambda w: 0.0 * w, "zero|weight")
_weights(
    32,
    "NaN among the",
    lambda w: np.where(np.arange(N) == BAD, np.nan, w),
    "nan|finite|missing",
)
_weights(
    35, "too few", lambda w: w[:3], "length|shape|size|inconsistent|weight|dimension"
)


def _scale(title: str, total: float) -> None:
    @probe("35a", f"weights that sum to {title}", lambda library: library.weights)
    def scaled(t: Trial) -> Verdict:
        w = np.random.default_rng(0).uniform(0.5, 1.5, N)
        with in_time():
            expected = np.array(t(t.p, t.y, w), dtype=float)
            same = close(t(t.p, t.y, w * total / w.sum()), expected, 1e-3)
        if same:  # only ratios count, so there is nothing to warn of
            return Verdict("right", "as with weights of mean 1")
        return warns(lambda: t(t.p, t.y, w * total / w.sum()), "weight")


_scale("1", 1.0)
_scale("a million a row", 1e6 * N)


@probe(33, "some zero weights", lambda library: library.weights)
def zero_weights(t: Trial) -> Verdict:
    there = np.arange(N) % 3 > 0
    with in_time():
        expected = np.array(
            t(t.p[there], t.y[there], np.ones(int(there.sum()))), dtype=float
        )
    return answers(
        lambda: t(t.p, t.y, there.astype(float)), lambda a: close(a, expected, 1e-3)
    )


@probe(34, "integer weights", lambda library: library.weights)
def integer_weights(t: Trial) -> Verdict:
    w = np.random.default_rng(0).integers(1, 4, N)
    with in_time():
        expected = np.array(t(t.p.repeat(w), t.y.repeat(w)), dtype=float)
    return answers(
        lambda: t(t.p, t.y, w.astype(float)), lambda a: close(a, expected, 1e-3)
    )


@probe(36, "read-only arrays")
def read_only(t: Trial) -> Verdict:
    p, y = t.p.copy(), t.y.copy()
    p.flags.writeable = y.flags.writeable = False
    return _same(t, p, y)


@probe(37, "arrays with gaps")
def with_gaps(t: Trial) -> Verdict:
    return _same(t, t.p.repeat(2)[::2], t.y.repeat(2)[::2])


@probe(38, "what is passed in")
def passed_in(t: Trial) -> Verdict:
    p, y, grid = t.p.copy(), t.y.copy(), t.grid.copy()
    p[:2] = grid[:2] = [0.0, 1.0]
    before = p.copy(), y.copy(), grid.copy()

    def unchanged(_: Any) -> bool:
        return all(
            np.array_equal(a, b) for a, b in zip(before, (p, y, grid), strict=True)
        )

    return answers(lambda: t(p, y, at=grid), unchanged)


@probe(39, "(n, 1)", lambda library: library.name != "venn-abers")
def one_column(t: Trial) -> Verdict:
    return answers(
        lambda: np.ravel(t(t.p.reshape(-1, 1), t.y, at=t.grid.reshape(-1, 1))),
        lambda a: close(a, t.expected),
        "dim|shape|1d|ravel|column",
    )


def _rows(case: int, title: str, row: list[float], words: str) -> None:
    @probe(case, title, lambda library: library.many)
    def spoilt(t: Trial) -> Verdict:
        P = t.P.copy()
        P[BAD] = row

        def fine(answer: Any) -> bool:
            if case == 41 and t.library.any_number:  # then the rows are margins
                return proper(answer)
            return proper(answer) and close(
                answer,
                t(np.delete(t.P, BAD, 0), np.delete(t.k, BAD), at=t.P),
                UNAFFECTED,
            )

        return refuses(lambda: t(P, t.k, at=t.P), words, fine)


_rows(40, "a row that sums to 1.2", [0.4, 0.4, 0.4], "sum|normali")
_rows(
    41, "a negative entry", [-0.2, 0.6, 0.6], "negative|range|between|probabilit|\\[0"
)
_rows(42, "a row of zeros", [0.0, 0.0, 0.0], "sum|zero|normali")


@probe(43, "a class without rows", lambda library: library.many)
def missing_class(t: Trial) -> Verdict:
    y = np.where(t.k == 2, 1, t.k)
    return answers(
        lambda: t(t.P, y, at=t.P),
        lambda a: (
            proper(a) and np.shape(a) == (N, 3) and close(np.sum(a, axis=1), np.ones(N))
        ),
        "class|label|column",
    )


@probe(46, "predict before fit")
def before_fit(t: Trial) -> Verdict:
    return refuses(lambda: t.library.say(t.library.make(), t.grid), "fit")


@probe(47, "refit")
def refit(t: Trial) -> Verdict:
    def again() -> Any:
        model = t.library.make()
        t.library.fit(model, t.p[::-1] ** 2, t.y, None)
        return t.library.say(t.library.fit(model, t.p, t.y, None), t.grid)

    return answers(again, lambda a: close(a, t.expected))


@probe(48, "pickle")
def pickled(t: Trial) -> Verdict:
    if t.library.package == "scikit-learn":
        # Its model is one of this benchmark's own, made in a function.
        return answers(
            lambda: t.library.say(copy.deepcopy(t.plain), t.grid),
            lambda a: close(a, t.expected),
        )
    return answers(
        lambda: t.library.say(pickle.loads(pickle.dumps(t.plain)), t.grid),
        lambda a: close(a, t.expected),
    )


@probe(49, "the global random state")
def random_state(t: Trial) -> Verdict:
    before: Any = np.random.get_state()  # noqa: NPY002

    def untouched(_: Any) -> bool:
        after: Any = np.random.get_state()  # noqa: NPY002
        return bool(np.array_equal(before[1], after[1]) and before[2] == after[2])

    return answers(lambda: t(t.p, t.y), untouched)


@probe(51, "sixteen threads")
def threads(t: Trial) -> Verdict:
    expected = t.expected

    def together() -> Any:
        with ThreadPoolExecutor(16) as pool:
            return np.array(
                list(pool.map(lambda _: t.library.say(t.plain, t.grid), range(32))),
                dtype=float,
            )

    return answers(together, lambda a: close(a, np.tile(expected, (32, 1))))


@probe(53, "row order")
def row_order(t: Trial) -> Verdict:
    order = np.random.default_rng(0).permutation(N)
    return _same(t, t.p[order], t.y[order], tolerance=1e-3)


@probe(54, "an option that does not exist", lambda library: library.wrong is not None)
def wrong_option(t: Trial) -> Verdict:
    def fit() -> Any:
        assert t.library.wrong is not None
        return t.library.say(t.library.fit(t.library.wrong(), t.p, t.y, None), t.grid)

    return refuses(
        fit, "magic|must be|invalid|unknown|parameter|option|should be|not supported"
    )
