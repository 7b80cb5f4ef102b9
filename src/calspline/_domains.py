"""Domains: the valid values of options and stored fields, and their form in JSON.

A domain is declared once. Estimators declare those of their parameters, frozen
dataclasses those of their fields (see :mod:`calspline._codec`). ``check`` refuses what
lies outside, with an error that begins with the name of the value.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._input.scores import check_numeric_array

SCALARS = (bool, int, float, str)
"""Types of labels that JSON supports."""
WORDS = {"infinity": np.inf, "-infinity": -np.inf}
"""Numbers that JSON does not support."""
FLOAT, INT = np.dtype(np.float64), np.dtype(np.int64)
Sizes = dict[str, int]
"""Sizes of the arrays of one object, by letter."""


class Domain(ABC):
    """A set of values, and their form in JSON."""

    @abstractmethod
    def check(self, value: Any, name: str, also: str = "") -> Any:
        """Validate a value and return it in its normal form.

        ``also`` is appended to the description of the domain in errors.
        """

    def check_sizes(self, value: Any, name: str, sizes: Sizes) -> None:
        """Check the shape of an array against those of others, stored in ``sizes``."""
        return

    def to_json(self, value: Any) -> Any:
        """Convert a valid value to JSON."""
        return value.item() if isinstance(value, np.generic) else value

    def from_json(self, data: Any, name: str) -> Any:
        """Convert the result of :meth:`to_json` to a value."""
        return self.check(data, name)


def check_one_of(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Check that an option is one of a few constants."""
    if isinstance(value, np.generic):
        value = value.item()
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return
    shown = ", ".join(repr(choice) for choice in choices)
    raise ValueError(f"{name} must be one of {shown}; got {value!r}")


def check_number_type(value: Any, wanted: type[Any], name: str, expected: str) -> None:
    """Check that a value is a number of the given type; booleans are not numbers."""
    is_boolean = isinstance(value, (bool, np.bool_))
    if is_boolean or not isinstance(value, wanted):
        error = ValueError if isinstance(value, (str, numbers.Real)) else TypeError
        raise error(f"{name} must be {expected}; got {value!r}")


class Choice(Domain):
    """One of a few constants, or of the names in a table."""

    def __init__(
        self, *constants: Any, registry: Mapping[str, Any] | None = None
    ) -> None:
        self.choices = (*constants, *(registry or ()))

    def check(self, value: Any, name: str, also: str = "") -> Any:
        check_one_of(value, name, self.choices)
        return value


BOOLEAN = Choice(True, False)


class Text(Domain):
    """A string."""

    def check(self, value: Any, name: str, also: str = "") -> str:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string; got {type(value).__name__}")
        return value


@dataclass(frozen=True)
class Number(Domain):
    """A number strictly between two limits, or not negative.

    ``infinite`` numbers are written as words.
    """

    above: float = -np.inf
    below: float = np.inf
    not_negative: bool = False
    infinite: bool = False

    def check(self, value: Any, name: str, also: str = "") -> float:
        if type(value) is not float:
            check_number_type(value, numbers.Real, name, self._expected(also))
            try:
                value = float(value)
            except OverflowError:
                raise ValueError(f"{name} must be {self._expected(also)}") from None
        if self.not_negative:
            is_within = 0.0 <= value < self.below
            is_within = is_within or (self.infinite and value == np.inf)
        elif self.infinite:
            is_within = self.above <= value <= self.below
        else:
            is_within = self.above < value < self.below
        if not is_within:
            raise ValueError(f"{name} must be {self._expected(also)}; got {value!r}")
        return float(value)

    def _expected(self, also: str) -> str:
        if self.not_negative and self.below == np.inf:
            return f"a number of at least 0{also}"
        if self.not_negative:
            return f"a number in [0, {self.below:g}){also}"
        return f"a number in ({self.above:g}, {self.below:g}){also}"

    def to_json(self, value: Any) -> Any:
        return _number_or_word(float(value))

    def from_json(self, data: Any, name: str) -> Any:
        if isinstance(data, str) and self.infinite:
            data = WORDS.get(data, data)
        return self.check(data, name)


@dataclass(frozen=True)
class Integer(Domain):
    """An integer of at least ``least``."""

    least: int = -(2**62)
    largest: int = 2**62

    def check(self, value: Any, name: str, also: str = "") -> int:
        expected = f"an integer of at least {self.least}{also}"
        check_number_type(value, numbers.Integral, name, expected)
        if value < self.least:
            raise ValueError(f"{name} must be {expected}; got {value!r}")
        if value > self.largest:
            raise ValueError(f"{name} must be at most {self.largest}")
        return int(value)


class Numbers(Domain):
    """An array of finite numbers.

    ``shape`` has a size or a letter for each dimension. Fields of one record with the
    same letter have the same size; ``"K+1"`` is one more.
    """

    def __init__(
        self,
        *shape: int | str,
        least: int = 0,
        most: int | None = None,
        largest: float = np.inf,
        increasing: bool = False,
        positive: bool = False,
        not_negative: bool = False,
        infinite: bool = False,
    ) -> None:
        self.shape = tuple(_dimension(size) for size in shape or ("n",))
        self.least = least
        self.most = most
        self.largest = largest
        self.increasing = increasing
        self.positive = positive
        self.not_negative = not_negative
        self.infinite = infinite

    def check(self, value: Any, name: str, also: str = "") -> Array:
        if type(value) is not np.ndarray or value.dtype is not FLOAT:
            value = self._as_array(value, name)
        self._check_dimensions(value, name)
        if value.size:
            self._check_values(value, name)
        elif self.positive:
            raise ValueError(
                f"{name} must be one list of positive numbers; got {value!r}"
            )
        return value  # type: ignore[no-any-return]

    def _as_array(self, value: Any, name: str) -> Array:
        if self.infinite:
            return np.asarray(value, dtype=np.float64)
        return check_numeric_array(value, name)

    def _shape_of(self, array: Array) -> tuple[Dimension, ...]:
        """Shape that an array must have."""
        return self.shape

    def _check_dimensions(self, array: Array, name: str) -> None:
        dimensions = len(self._shape_of(array))
        if array.ndim != dimensions or (self.least and len(array) < self.least):
            expected = f"one list of {'positive ' if self.positive else ''}numbers"
            if self.least is not None and self.least > 1:
                expected = f"one list of at least {self.least} numbers"
            if dimensions > 1:
                expected = f"an array of {dimensions} dimensions"
            raise ValueError(f"{name} must be {expected}; got shape {array.shape}")
        if self.most is not None and len(array) > self.most:
            raise ValueError(
                f"{name} must have at most {self.most} numbers; got {len(array)}"
            )

    def _check_values(self, array: Array, name: str) -> None:
        if self.infinite and np.isnan(array).any():
            raise ValueError(f"{name} must not be NaN")
        # A finite sum of squares takes half the time of looking at every number.
        is_large = not (self.infinite or np.vdot(array, array) < np.inf)
        if is_large and not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite")
        if self.positive and array.min() <= 0.0:
            shown = array.tolist() if array.size < 10 else float(array.min())
            raise ValueError(
                f"{name} must be one list of positive numbers; got {shown}"
            )
        if self.not_negative and array.min() < 0.0:
            raise ValueError(f"{name} must not be negative")
        if self.largest < np.inf and np.abs(array).max() > self.largest:
            raise ValueError(f"{name} must be at most {self.largest:g} in size")
        if self.increasing and (array[1:] <= array[:-1]).any():
            at = int(np.argmax(array[1:] <= array[:-1])) + 1
            shown = f"item {at} is {array[at]:g} after {array[at - 1]:g}"
            raise ValueError(f"{name} must be sorted, without repeats; {shown}")

    def check_sizes(self, value: Any, name: str, sizes: Sizes) -> None:
        shape = self._shape_of(value)
        for size, (letter, extra) in zip(value.shape, shape, strict=True):
            wanted = extra
            if letter:
                wanted += sizes.setdefault(letter, size - extra)
            if size != wanted:
                shown = ", ".join(_describe_size(each, sizes) for each in shape)
                raise ValueError(f"{name} must have shape ({shown}); got {value.shape}")

    def to_json(self, value: Any) -> Any:
        return _array_to_json(np.asarray(value, dtype=np.float64))

    def from_json(self, data: Any, name: str) -> Any:
        return self.check(_array_from_json(data, name, self.infinite), name)


Dimension = tuple[str, int]
"""A letter, if any, and an offset to its size."""


def _dimension(size: int | str) -> Dimension:
    if isinstance(size, int):
        return "", size
    letter, _, more = size.partition("+")
    return letter, int(more or 0)


def _describe_size(dimension: Dimension, sizes: Sizes) -> str:
    letter, extra = dimension
    if letter and letter not in sizes:
        return "any"
    return str(extra + (sizes[letter] if letter else 0))


def _number_or_word(value: float) -> Any:
    if np.isfinite(value):
        return value
    return "infinity" if value > 0.0 else "-infinity"


def _array_to_json(array: NDArray[Any]) -> Any:
    flat = array.ravel().tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        flat = [_number_or_word(number) for number in flat]
    if array.ndim == 1:
        return flat
    return {"shape": list(array.shape), "values": flat}


def _array_from_json(data: Any, name: str, infinite: bool = False) -> Array:
    """Create an array from a list, or from its values and shape."""
    shape = None
    if isinstance(data, dict) and set(data) == {"shape", "values"}:
        shape = data["shape"]
        data = data["values"]
        is_shape = isinstance(shape, list) and all(type(n) is int for n in shape)
        if not is_shape or min(shape, default=0) < 0 or len(shape) > 3:
            raise ValueError(f"{name} must have a shape of up to three sizes")
    if not isinstance(data, list):
        raise ValueError(f"{name} must be a list of numbers; got {_kind(data)}")
    if infinite:
        data = [WORDS.get(x, x) if isinstance(x, str) else x for x in data]
    odd = set(map(type, data)) - {int, float}
    if odd:
        shown = ", ".join(sorted(each.__name__ for each in odd))
        raise ValueError(f"{name} must be numbers; got {shown}")
    try:
        array = np.array(data, dtype=np.float64)
        return array if shape is None else array.reshape(shape)
    except OverflowError:
        raise ValueError(f"{name} must be numbers that a double can hold") from None
    except ValueError:
        raise ValueError(
            f"{name} must have as many values as its shape {shape}; got {len(data)}"
        ) from None


def _kind(data: Any) -> str:
    return "null" if data is None else type(data).__name__


class MatrixOrDiagonal(Numbers):
    """A square matrix, or its diagonal."""

    def __init__(self, size: str, *, largest: float) -> None:
        super().__init__(size, size, largest=largest)

    def _shape_of(self, array: Array) -> tuple[Dimension, ...]:
        return self.shape[:1] if array.ndim == 1 else self.shape


class Symmetric(Numbers):
    """A symmetric matrix for each row; in JSON, its lower triangle."""

    def __init__(self, rows: str, size: str) -> None:
        super().__init__(rows, size, size)

    def to_json(self, value: Any) -> Any:
        lower = np.tril_indices(value.shape[1])
        return _array_to_json(value[:, lower[0], lower[1]])

    def from_json(self, data: Any, name: str) -> Any:
        packed = _array_from_json(data, name)
        width = packed.shape[-1] if packed.ndim == 2 else -1
        m = int(np.sqrt(2.0 * max(width, 0)))
        if width != m * (m + 1) // 2:
            raise ValueError(
                f"{name} must have rows of the lower triangle of a matrix; "
                f"got shape {packed.shape}"
            )
        array = np.zeros((len(packed), m, m))
        lower = np.tril_indices(m)
        array[:, lower[0], lower[1]] = packed
        array[:, lower[1], lower[0]] = packed
        return self.check(array, name)


class Integers(Domain):
    """A list of integers; arrays with the same letter have the same size."""

    def check(self, value: Any, name: str, also: str = "") -> NDArray[np.int64]:
        if type(value) is np.ndarray and value.dtype is INT and value.ndim == 1:
            return value
        if not isinstance(value, list) or set(map(type, value)) - {int}:
            raise ValueError(f"{name} must be a list of whole numbers")
        try:
            return np.array(value, dtype=np.int64)
        except OverflowError:
            raise ValueError(f"{name} must be a list of whole numbers") from None

    def to_json(self, value: Any) -> Any:
        return value.tolist()


class Either(Domain):
    """A word (or None) of a choice, or a value of a domain.

    For example ``Either(Choice("auto"), Number(above=0.0))``.
    """

    def __init__(self, choice: Choice, domain: Domain) -> None:
        self.choice = choice
        self.domain = domain
        shown = ["None" if word is None else f'"{word}"' for word in choice.choices]
        self._also = f" or {'one of ' if len(shown) > 1 else ''}{', '.join(shown)}"

    def _is_word(self, value: Any) -> bool:
        is_constant = value is None or isinstance(value, str)
        return is_constant and value in self.choice.choices

    def check(self, value: Any, name: str, also: str = "") -> Any:
        if self._is_word(value):
            return value
        if isinstance(value, str) and len(self.choice.choices) > 1:
            return self.choice.check(value, name)
        return self.domain.check(value, name, self._also)

    def check_sizes(self, value: Any, name: str, sizes: Sizes) -> None:
        if not self._is_word(value):
            self.domain.check_sizes(value, name, sizes)

    def to_json(self, value: Any) -> Any:
        return value if self._is_word(value) else self.domain.to_json(value)

    def from_json(self, data: Any, name: str) -> Any:
        return data if self._is_word(data) else self.domain.from_json(data, name)


def optional(domain: Domain) -> Either:
    """None, or a value of a domain."""
    return Either(Choice(None), domain)


class Seed(Domain):
    """An integer, a RandomState (a new seed every time) or None (always 0).

    JSON has null for a RandomState.
    """

    def check(self, value: Any, name: str, also: str = "") -> int:
        if value is None:
            return 0
        if isinstance(value, np.random.RandomState):
            return int(value.randint(2**31))
        is_boolean = isinstance(value, (bool, np.bool_))
        is_integer = isinstance(value, numbers.Integral) and not is_boolean
        if not is_integer or not 0 <= int(value) < 2**32:
            raise ValueError(
                f"{name} must be an integer in [0, 2**32), a RandomState or None; "
                f"got {value!r}"
            )
        return int(value)

    def to_json(self, value: Any) -> Any:
        if isinstance(value, np.random.RandomState):
            return None
        return super().to_json(value)

    def from_json(self, data: Any, name: str) -> Any:
        self.check(data, name)
        return data


@dataclass(frozen=True)
class Labels(Domain):
    """Distinct labels of segments or classes as a tuple."""

    what: str
    least: int = 0
    most: int | None = None

    def check(self, value: Any, name: str, also: str = "") -> tuple[Any, ...]:
        labels = tuple(value)
        if len(set(labels)) != len(labels):
            raise ValueError(f"{name} must all be different")
        if len(labels) < self.least or len(labels) > (self.most or len(labels)):
            raise ValueError(f"{name} must be {self.least} labels; got {len(labels)}")
        return labels

    def to_json(self, value: Any) -> Any:
        for label in value:
            if not isinstance(label, SCALARS):
                raise TypeError(
                    f"{self.what} of type {type(label).__name__} cannot be saved; "
                    "use texts or numbers"
                )
        return list(value)

    def from_json(self, data: Any, name: str) -> Any:
        if not isinstance(data, list) or set(map(type, data)) - set(SCALARS):
            raise ValueError(f"{name} must be a list of texts and numbers")
        return self.check(data, name)


class ClassLabels(Domain):
    """An array of at least two distinct labels; in JSON, together with their dtype."""

    def check(self, value: Any, name: str, also: str = "") -> NDArray[Any]:
        labels = np.asarray(value)
        if labels.ndim != 1 or len(labels) < 2:
            raise ValueError(f"{name} must be two or more different labels")
        if len(set(labels.tolist())) != len(labels):
            raise ValueError(f"{name} must be two or more different labels")
        return labels

    def to_json(self, value: Any) -> Any:
        values = value.tolist()
        odd = {type(v).__name__ for v in values if not isinstance(v, SCALARS)}
        if odd:
            raise TypeError(
                f"classes of type {', '.join(sorted(odd))} cannot be saved; "
                "use strings or numbers"
            )
        dtype = "object" if value.dtype.kind == "O" else value.dtype.str
        return {"dtype": dtype, "values": values}

    def from_json(self, data: Any, name: str) -> Any:
        if not isinstance(data, dict) or set(data) != {"dtype", "values"}:
            raise ValueError(f"{name} must be a dict with dtype and values")
        values = data["values"]
        if not isinstance(values, list) or set(map(type, values)) - set(SCALARS):
            raise ValueError(f"{name} must be strings or numbers")
        dtype = _label_dtype(data["dtype"], len(values), name)
        try:
            labels = np.array(values, dtype=dtype)
        except (ValueError, OverflowError):
            labels = np.array([])
        if labels.tolist() != values:
            raise ValueError(f"{name} must be labels that dtype {dtype} can hold")
        return self.check(labels, name)


MAX_CLASSES_SIZE = 64 * 2**20
"""Largest size of the class labels in bytes."""


def _label_dtype(given: Any, count: int, name: str) -> np.dtype[Any]:
    """Dtype of labels; its size is limited, since files are not trusted."""
    try:
        dtype = np.dtype(given if isinstance(given, str) else None)
    except (TypeError, ValueError, SyntaxError):
        raise ValueError(
            f"{name} must have the dtype of labels; got {given!r}"
        ) from None
    if not isinstance(given, str) or dtype.kind not in "biufUO":
        raise ValueError(f"{name} cannot have dtype {given}")
    if dtype.itemsize * count > MAX_CLASSES_SIZE:
        raise ValueError(
            f"{name} must take at most {MAX_CLASSES_SIZE >> 20} MB; "
            f"dtype {dtype} takes more"
        )
    return dtype
