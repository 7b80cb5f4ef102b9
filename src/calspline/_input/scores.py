"""Scores: what a calibrator is given, and whether they are probabilities or margins.

:func:`decide_kind` is the only place that decides it. It needs a few numbers
(:class:`ScoreSummary`), which come from arrays (:class:`GivenScores`), from an engine
or from the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, as_numpy, filled, is_masked
from calspline._input.class_columns import (
    are_named_after_classes,
    column_names,
    order_columns,
)
from calspline._input.hints import (
    FEATURES_ADVICE,
    warn_if_probabilities,
    warn_of_percentages,
)
from calspline._input.labels import distinct_labels, is_missing
from calspline.transforms import log_odds, log_odds_from_pair

Kind = Literal["probability", "margin"]
"""What a single number is."""
Requirement = Literal["auto", "probability", "margin"]
"""Required kind of scores; for ``"auto"`` it depends on their values.

Columns that are declared to be margins are treated as probabilities if all rows are,
since the sum of a row's logits would be one only by chance.
"""

ROW_SUM_TOLERANCE = 5e-3  # ten probabilities rounded to three digits
ROUNDING = 1e-4
"""Scores this far outside [0, 1] are rounded probabilities, and are clipped."""
MARGIN_SHARE = 0.1
"""Scores are margins if more than this share of the rows lies outside [0, 1]."""
PERCENT = 100.0
PERCENT_TOLERANCE = 0.5
SMALL_MARGIN = 0.01
"""Margins close to zero are at most this large..."""
SMALL_SHARE = 0.01
"""...and the least is below minus this share of the largest..."""
FEWEST_NEGATIVE = 10
"""...and at least so many are negative."""
LARGEST_MARGIN = 1e300
SCORE_LIMITS: dict[Kind, tuple[float, float]] = {
    "probability": (-ROUNDING, 1.0 + ROUNDING),
    "margin": (-LARGEST_MARGIN, LARGEST_MARGIN),
}
"""Limits of a score in exports; probabilities are then clipped to [0, 1]."""
MARGIN_ADVICE = (
    'To calibrate margins, such as a decision_function gives, use scale="identity".'
)


class ScoreSummary(Protocol):
    """What decides whether finite scores are probabilities or margins."""

    @property
    def name(self) -> str:
        """The name of the argument, for errors."""
        ...

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        ...

    @property
    def n_columns(self) -> int:
        """Columns of scores."""
        ...

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest score."""
        ...

    @property
    def n_outside(self) -> int:
        """Rows with a score outside [0, 1], by more than rounding."""
        ...

    @property
    def n_negative(self) -> int:
        """Rows with a negative score, if none is larger than a small margin."""
        ...

    @property
    def n_off(self) -> int:
        """Rows of several columns that do not sum to one."""
        ...

    @property
    def sums(self) -> tuple[float, float]:
        """Lowest and highest sum of a row of several columns."""
        ...

    def example_outside(self) -> str:
        """A score outside [0, 1], and where it is."""
        ...

    def example_large(self) -> str:
        """A score that is too large, and where it is."""
        ...

    def example_off(self) -> str:
        """The sum of a row that is not one, and where it is."""
        ...


@dataclass(frozen=True)
class ScoreKind:
    """What the scores of a fit are, so that new scores are interpreted alike.

    A ``"difference"`` is a margin that came as two columns, of which it is the
    difference. ``share_inside`` is the share of margins that lay in [0, 1]; None if all
    of them did.
    """

    name: Literal["probability", "margin", "difference"]
    share_inside: float | None = None

    def __post_init__(self) -> None:
        share = self.share_inside
        if self.name not in ("probability", "margin", "difference"):
            raise ValueError(f"name must be a kind of scores; got {self.name!r}")
        if share is not None and not 0.0 < share < 1.0:
            raise ValueError(f"share_inside must be a number in (0, 1); got {share!r}")
        if share is not None and self.name == "probability":
            raise ValueError("share_inside must be None for probabilities")

    @classmethod
    def of(cls, kind: Kind, share_inside: float | None, difference: bool) -> ScoreKind:
        """The kind of checked scores."""
        if kind == "probability":
            return cls("probability")
        return cls("difference" if difference else "margin", share_inside)

    @property
    def value_kind(self) -> Kind:
        """What a single number is."""
        return "probability" if self.name == "probability" else "margin"

    @property
    def is_difference(self) -> bool:
        """Whether a margin is the difference of two columns."""
        return self.name == "difference"

    @property
    def lies_in_unit_interval(self) -> bool:
        """Whether the scores of the fit all lay in [0, 1]."""
        if self.name == "probability":
            return True
        return self.name == "margin" and self.share_inside is None

    def check(
        self, scores: GivenScores, classes: NDArray[Any], advice: str
    ) -> BinaryScores | MatrixScores:
        """Interpret new scores as those of the fit were."""
        ordered = scores.in_class_order(classes)
        if self.value_kind == "margin":
            warn_if_probabilities(len(ordered), *ordered.limits, self.share_inside)
        if len(classes) == 2:
            return self.binary(ordered, advice)
        return self.matrix(ordered, len(classes), advice)

    def binary(self, scores: GivenScores, advice: str = MARGIN_ADVICE) -> BinaryScores:
        """Scores of two classes, in one column or two."""
        array = scores.values
        _check_columns_of_two(scores)
        _check_values(scores, self.value_kind, advice)
        if scores.n_columns == 1:
            values = scores.probabilities() if self.name == "probability" else array
            return BinaryScores(self.value_kind, values.reshape(-1), None, array.shape)
        if self.name == "probability":
            array = scores.probabilities()
            return BinaryScores("probability", array[:, 1], array[:, 0], array.shape)
        if self.name == "margin" and scores.n_off:
            raise ValueError(
                f"{scores.name} must be one column of margins, as in the fit; got two "
                "columns "
                f"that are not probabilities either: {scores.example_off()}"
            )
        values = array.astype(np.float64, copy=False)[:, 1]
        if self.is_difference:
            values = values - array[:, 0]
        return BinaryScores("margin", values, None, array.shape)

    def matrix(
        self, scores: GivenScores, n_classes: int, advice: str = MARGIN_ADVICE
    ) -> MatrixScores:
        """Scores of three or more classes, in as many columns."""
        array = scores.values
        if array.ndim != 2 or array.shape[1] != n_classes:
            raise ValueError(
                f"{scores.name} must have {n_classes} columns, one for each class; got "
                f"shape {array.shape}"
            )
        _check_values(scores, self.value_kind, advice)
        if self.name == "probability":
            array = scores.probabilities()
        return MatrixScores(self.value_kind, array)


def decide_kind(
    scores: ScoreSummary,
    requirement: Requirement = "auto",
    advice: str = MARGIN_ADVICE,
) -> ScoreKind:
    """What scores are, if they are what they have to be; anything else is an error."""
    kind = _kind_of_values(scores, requirement)
    _check_values(scores, kind, advice)
    if kind == "probability":
        return ScoreKind("probability")
    n = scores.n_rows
    share_inside = None
    if is_outside(*scores.limits):  # a little towards a half
        share_inside = (n - scores.n_outside + 1.0) / (n + 2.0)
    is_difference = scores.n_columns == 2 and _columns_are_margins(scores)
    return ScoreKind("difference" if is_difference else "margin", share_inside)


def _kind_of_values(scores: ScoreSummary, requirement: Requirement) -> Kind:
    if requirement == "probability":
        return "probability"
    _check_size(scores)
    if requirement == "margin":
        if scores.n_columns > 2 and not _columns_are_margins(scores):
            return "probability"
        return "margin"
    n = scores.n_rows
    low, high = scores.limits
    if may_be_small_margins(low, high):
        negative = scores.n_negative
        if negative >= FEWEST_NEGATIVE and _are_enough(negative, n):
            return "margin"
    if not is_outside(low, high):
        return "probability"
    if not _are_enough(scores.n_outside, n) or _have_equal_sums(scores):
        return "probability"  # which they are not: an error
    if low >= 0.0 and high <= PERCENT and scores.n_columns == 1:
        warn_of_percentages()
    return "margin"


def _are_enough(outside: int, n_rows: int) -> bool:
    """Whether so many rows outside [0, 1] make the scores margins."""
    return outside > MARGIN_SHARE * n_rows and (outside > 1 or n_rows <= 2)


def _have_equal_sums(scores: ScoreSummary) -> bool:
    """Whether the rows look like shares of something else than one: of 100, say."""
    if scores.n_columns == 1 or scores.limits[0] < 0.0 or scores.n_rows < 3:
        return False
    low, high = scores.sums
    return high - low <= 2.0 * PERCENT_TOLERANCE / PERCENT * high


def _columns_are_margins(scores: ScoreSummary) -> bool:
    """Whether several columns are not probabilities."""
    return is_outside(*scores.limits) or scores.n_off > 0


def _check_columns_of_two(scores: GivenScores) -> None:
    if scores.n_columns > 2 or not scores.n_columns:
        raise ValueError(
            f"{scores.name} must have one or two columns for a two-class problem; got "
            f"shape {scores.values.shape}"
        )


def _check_values(scores: ScoreSummary, kind: Kind, advice: str) -> None:
    """Check that scores can be of a kind."""
    if kind == "margin":
        _check_size(scores)
        return
    several = scores.n_columns > 1
    low = scores.limits[0]
    if several and scores.n_off and not is_outside(low, 0.0):
        raise ValueError(_sums_message(scores, advice))
    if is_outside(*scores.limits):
        raise ValueError(_outside_message(scores, advice))
    if several and scores.n_off:
        raise ValueError(_sums_message(scores, advice))


def _check_size(scores: ScoreSummary) -> None:
    low, high = scores.limits
    if max(-low, high) > LARGEST_MARGIN:
        raise ValueError(
            f"{scores.name} must be at most {LARGEST_MARGIN:g} in size; "
            f"{scores.example_large()}"
        )


CORRECTION_ADVICE = "If they should be probabilities, correct or clip them."
PERCENT_ADVICE = "If they are percentages, divide them by 100."


def _outside_message(scores: ScoreSummary, advice: str) -> str:
    n = scores.n_rows
    outside = scores.n_outside
    low, high = scores.limits
    ways = [advice, f"{outside} of {n} rows are outside."]
    if low >= 0.0 and high <= PERCENT and outside > MARGIN_SHARE * n:
        ways.append(PERCENT_ADVICE)
    elif outside <= MARGIN_SHARE * n:
        ways.append(CORRECTION_ADVICE)
    return (
        f"{scores.name} must be probabilities in [0, 1]; {scores.example_outside()}. "
        f"{' '.join(filter(None, ways))}"
    )


def _sums_message(scores: ScoreSummary, advice: str) -> str:
    name = scores.name
    low, high = scores.sums
    if PERCENT - PERCENT_TOLERANCE <= low <= high <= PERCENT + PERCENT_TOLERANCE:
        return f"{name} must be probabilities, not percentages; divide them by 100"
    remedy = "Divide each row by its sum."
    if scores.n_columns == 2:
        remedy = "Divide each row by its sum, or pass the second column alone."
    return (
        f"each row of {name} must sum to one (within {ROW_SUM_TOLERANCE:g}); "
        f"{scores.example_off()}, and {scores.n_off} of {scores.n_rows} rows do not. "
        f"{remedy} {advice}"
    ).rstrip()


def is_outside(low: float, high: float) -> bool:
    """Whether scores within these limits are not probabilities, up to rounding."""
    return low < -ROUNDING or high > 1.0 + ROUNDING


def show_outside(value: Any) -> str:
    """A score outside [0, 1], with enough digits to see that it is."""
    for digits in (6, 9, 12):
        text = f"{float(value):.{digits}g}"
        if is_outside(float(text), float(text)):
            return text
    return repr(float(value))


def may_be_small_margins(low: float, high: float) -> bool:
    """Whether the range of scores is that of margins close to zero.

    Logits on a small scale, such as cosine similarities divided by a large number, may
    all lie within the rounding of a probability.
    """
    return 0.0 < high <= SMALL_MARGIN and low < -SMALL_SHARE * high


@dataclass(frozen=True, eq=False)
class GivenScores:
    """Scores as they came in: finite numbers, not yet probabilities or margins.

    ``names`` are those of a data frame's columns.
    """

    values: NDArray[np.floating[Any]]
    names: list[Any] | None = None
    name: str = "scores"

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_rows(self) -> int:
        """Rows."""
        return len(self.values)

    @property
    def n_columns(self) -> int:
        """Columns of scores."""
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest score; NaN if there is one."""
        if not self.values.size:
            return 0.0, 0.0
        return float(self.values.min()), float(self.values.max())

    @property
    def _is_outside(self) -> NDArray[np.bool_]:
        """Which scores are outside [0, 1]; not cached, as there may be many."""
        return np.asarray((self.values < -ROUNDING) | (self.values > 1.0 + ROUNDING))

    @property
    def _is_outside_row(self) -> NDArray[np.bool_]:
        outside = self._is_outside
        return outside if outside.ndim == 1 else np.asarray(outside.any(axis=1))

    @cached_property
    def n_outside(self) -> int:
        """Rows with a score outside [0, 1]."""
        if not is_outside(*self.limits):
            return 0
        return int(np.count_nonzero(self._is_outside_row))

    @property
    def n_negative(self) -> int:
        """Rows with a negative score."""
        lowest = self.values if self.values.ndim == 1 else self.values.min(axis=1)
        return int(np.count_nonzero(lowest < 0.0))

    def _sums(self, rows: slice) -> Array:
        return np.asarray(self.values[rows].sum(axis=1, dtype=np.float64))

    @property
    def _is_off(self) -> NDArray[np.bool_]:
        """Which rows do not sum to one."""
        n, m = self.values.shape

        def is_off(rows: slice) -> NDArray[np.bool_]:
            return np.abs(self._sums(rows) - 1.0) > ROW_SUM_TOLERANCE

        return filled(np.zeros(n, dtype=bool), is_off, m)

    @cached_property
    def n_off(self) -> int:
        """Rows of several columns that do not sum to one."""
        if self.n_columns == 1:
            return 0
        return int(np.count_nonzero(self._is_off))

    @property
    def sums(self) -> tuple[float, float]:
        """Lowest and highest sum of a row."""
        sums = self._sums(slice(None))
        return float(sums.min(initial=np.inf)), float(sums.max(initial=-np.inf))

    @property
    def n_improper(self) -> int:
        """Rows that are not probabilities."""
        return int(np.count_nonzero(self._is_off | self._is_outside_row))

    def example_outside(self) -> str:
        """The first score outside [0, 1]."""
        place = tuple(np.argwhere(self._is_outside)[0])
        return f"row {place[0]} is {show_outside(self.values[place])}"

    def example_large(self) -> str:
        """The first score that is too large."""
        place = tuple(np.argwhere(np.abs(self.values) > LARGEST_MARGIN)[0])
        return f"row {place[0]} is {self.values[place]:g}"

    def example_off(self) -> str:
        """The first row that does not sum to one."""
        row = int(np.argmax(self._is_off))
        return f"row {row} sums to {self._sums(slice(row, row + 1))[0]:.6g}"

    def probabilities(self) -> NDArray[np.floating[Any]]:
        """The values, clipped to [0, 1], from which they differ by rounding at most."""
        low, high = self.limits
        if low >= 0.0 and high <= 1.0:
            return self.values
        return np.asarray(np.clip(self.values, 0.0, 1.0))

    def in_class_order(
        self, classes: NDArray[Any], *, known: bool = False
    ) -> GivenScores:
        """Columns in the order of the classes, if they are named after them."""
        order = order_columns(self.names, classes, self.name, known=known)
        if order is None:
            return self
        return replace(self, values=self.values[:, order], names=list(classes))


@dataclass(frozen=True)
class BinaryScores:
    """Checked scores of a two-class problem.

    ``values`` has one number a row, of any float type: the probability of the second
    class, or a margin. ``first`` has the probability of the first class where two
    columns were given.
    """

    kind: Kind
    values: NDArray[np.floating[Any]]
    first: NDArray[np.floating[Any]] | None
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.values)

    def locations(self, rows: slice = slice(None)) -> Array:
        """Log-odds of probabilities, or the margins themselves."""
        if self.kind == "margin":
            return self.values[rows].astype(np.float64, copy=False)
        if self.first is None:
            return log_odds(self.values[rows])
        return log_odds_from_pair(self.first[rows], self.values[rows])


@dataclass(frozen=True)
class MatrixScores:
    """Checked scores of a problem with three or more classes: a column for each.

    Probabilities, whose rows sum to one, or margins such as a network's logits.
    """

    kind: Kind
    values: NDArray[np.floating[Any]]


def check_numeric_array(values: Any, name: str) -> Array:
    """``values`` as float64, one or two dimensions, all finite."""
    return check_scores(values, name).values.astype(np.float64, copy=False)


NOT_NUMBERS = (
    str,
    bytes,
    complex,
    np.complexfloating,
    np.datetime64,
    np.timedelta64,
    np.void,
    np.ndarray,
)


def check_scores(values: Any, name: str = "scores") -> GivenScores:
    """``values`` as floats, one or two dimensions, all finite."""
    array = float_array(values, name)
    given = GivenScores(array, column_names(values, array.ndim), name)
    if not np.isfinite(given.limits).all():
        place = tuple(np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite; row {place[0]} is {array[place]}")
    return given


def float_array(values: Any, name: str) -> NDArray[np.floating[Any]]:
    """``values`` as floats, one or two dimensions; of objects, NaN are missing."""
    if values is None:
        raise TypeError(f"{name} must be given; got None")
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):
        raise TypeError(
            f"{name} must be a dense array; got a sparse {type(values).__name__}"
        )
    if is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise ValueError(f"{name} has missing values; the first is in row {row}")
    try:
        array = as_numpy(values)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length") from None
    if array.ndim not in (1, 2):
        raise ValueError(
            f"{name} must have one or two dimensions; got {type(values).__name__} of "
            f"shape {array.shape}"
        )
    if array.dtype.kind == "O":
        array = _object_to_float(array, name)
    if array.dtype.kind in "SU":
        first = array.flat[0].item() if array.size else ""
        raise TypeError(f"{name} must be real numbers; got texts such as {first!r}")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers; got dtype {array.dtype}")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _object_to_float(array: NDArray[Any], name: str) -> Array:
    floats = np.empty(array.shape)
    for place, value in np.ndenumerate(array):
        wrong = f"{name} must be real numbers; row {place[0]} is"
        if isinstance(value, NOT_NUMBERS):
            raise TypeError(f"{wrong} {value!r}")
        try:
            floats[place] = np.nan if is_missing(value) else float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{wrong} {value!r}") from None
    return floats


def check_binary_scores(
    scores: Any,
    *,
    kind: Requirement = "auto",
    name: str = "scores",
    advice: str = MARGIN_ADVICE,
) -> BinaryScores:
    """Check scores of a two-class problem, in one column or two."""
    given = check_scores(scores, name)
    _check_columns_of_two(given)
    return decide_kind(given, kind, advice).binary(given, advice)


def looks_like_features(n_columns: int, n_classes: int, n_rows: int) -> bool:
    """Whether so many columns are too many for the classes that the labels show.

    Columns of probabilities are not features. Rows show at most one class each.
    """
    return n_columns > 2 and 2 * n_classes < min(n_columns, n_rows)


def check_columns_are_scores(
    n_improper: int,
    n_rows: int,
    columns: Sequence[Any] | None,
    n_columns: int,
    labels: NDArray[Any],
    *,
    scores: str = "scores",
    y: str = "y",
) -> None:
    """Check that columns are not those of a matrix of features.

    ``n_improper`` of the rows are not probabilities, ``columns`` are the names of the
    columns, and ``labels`` the distinct labels.
    """
    n_classes = len(labels)
    if not looks_like_features(n_columns, n_classes, n_rows):
        return
    if 2 * n_improper <= n_rows or are_named_after_classes(columns, labels):
        return
    raise ValueError(
        f"{scores} must be one column of scores, or one column for each class; got "
        f"{n_columns} columns that are not probabilities, and {y} shows {n_classes} "
        f"classes, as with a matrix of features. {FEATURES_ADVICE}"
    )


def check_given_columns(scores: GivenScores, y: NDArray[Any]) -> None:
    """Check that the columns of arrays are not those of a matrix of features."""
    if scores.n_columns <= 2 or not len(scores):
        return
    labels = distinct_labels(y, "y")
    if looks_like_features(scores.n_columns, len(labels), len(scores)):
        check_columns_are_scores(
            scores.n_improper, len(scores), scores.names, scores.n_columns, labels
        )
