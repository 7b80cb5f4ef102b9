"""Options: what a constructor or a function may be told, and what a saved model may say.

Most functions check an argument as it comes. The options of calibrators and the values in files are declared as
domains instead, once for two uses: ``check`` refuses what lies outside, with an error that names the option and its
domain, and ``schema`` says the same as JSON schema. (scikit-learn's own constraints take True for an integer, forget
the order of choices, and know no JSON.)
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.scores import check_numeric_array

Schema = dict[str, Any]
MAX_CLASSES_SIZE = 64 * 2**20


def check_one_of(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Check that an option is one of a few names."""
    if isinstance(value, np.generic):
        value = value.item()
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        shown = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {shown}; got {value!r}")


def check_number(value: Any, name: str, *, above: float = -np.inf, below: float = np.inf) -> float:
    """Check that an option is a number strictly between two limits."""
    return Number(above, below).check(value, name)


def check_integer(value: Any, name: str, *, least: int) -> int:
    """Check that an option is an integer of at least ``least``."""
    return Integer(least).check(value, name)


def _of_type(wanted: type[Any], value: Any, name: str, expected: str) -> Any:
    """The value, if it is a number of the wanted type, as True and False are not."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, wanted):
        kind = ValueError if isinstance(value, (str, numbers.Real)) else TypeError
        raise kind(f"{name} must be {expected}; got {value!r}")
    return value


def check_increasing(values: Any, name: str, *, least: int) -> Array:
    """Check that an option is a strictly increasing list of numbers."""
    return Numbers(least, increasing=True).check(values, name)


def check_seed(value: Any, name: str) -> int:
    """A seed from an integer, a RandomState (a new one every time) or None (always 0), as in scikit-learn."""
    if value is None:
        return 0
    if isinstance(value, np.random.RandomState):
        return int(value.randint(2**31))
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or not 0 <= int(value) < 2**32:
        raise ValueError(f"{name} must be an integer in [0, 2**32), a RandomState or None; got {value!r}")
    return int(value)


def check_fitted(calibrator: Any) -> None:
    """Raise scikit-learn's error of an estimator that is not fitted yet."""
    if not hasattr(calibrator, "curves_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(calibrator).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
            "before using this estimator."
        )


def check_fitted_calibrator(value: Any, n_classes: int) -> None:
    """Check that an option is a fitted calibrator of as many classes."""
    classes = classes_of_calibrator(value)
    if len(classes) != n_classes:
        raise ValueError(f"calibrator must be of the {n_classes} classes of predictions; it has {len(classes)}")


def classes_of_calibrator(value: Any) -> NDArray[Any]:
    """The classes of what has to be a fitted calibrator."""
    methods = ("calibrate", "predict_proba", "get_params", "to_dict")
    if isinstance(value, type) or not all(callable(getattr(value, name, None)) for name in methods):
        shown = value.__name__ if isinstance(value, type) else type(value).__name__
        raise TypeError(f"calibrator must be a fitted calibrator of calspline; got {shown}")
    classes = getattr(value, "classes_", None)
    if classes is None:
        raise ValueError(f"calibrator must be fitted; this {type(value).__name__} is not")
    return np.asarray(classes)


def check_text(value: Any, name: str) -> str:
    """Check that an option is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string; got {type(value).__name__}")
    return value


def check_by_name(given: Any, name: str, alone: str | None) -> dict[str, Any]:
    """Several things by name as they are; one thing by the name ``alone``."""
    if not isinstance(given, Mapping):
        given, name = {"" if alone is None else alone: given}, "name"
    elif alone is not None:
        raise ValueError(f"name must be None when {name} is a mapping, which has names of its own; got {alone!r}")
    elif not given:
        raise ValueError(f"{name} must hold at least one set")
    else:
        name = f"the names of {name}"
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"{name} must be a string; got {key!r}")
    return dict(given)


class Domain(ABC):
    """A set of values, with its check and its JSON schema."""

    @abstractmethod
    def check(self, value: Any, name: str, also: str = "") -> Any:
        """The value in the form that code wants; ``also`` ends the error's description of the domain."""

    @abstractmethod
    def schema(self, records: dict[str, Schema]) -> Schema:
        """The domain as JSON schema; records are written into ``records`` and referred to."""


@dataclass(frozen=True)
class Checked(Domain):
    """What a function of a value and its name lets through; its JSON schema, or another domain that has it."""

    function: Callable[[Any, str], Any]
    written: Schema | Domain

    def check(self, value: Any, name: str, also: str = "") -> Any:
        return self.function(value, name)

    def schema(self, records: dict[str, Schema]) -> Schema:
        return self.written.schema(records) if isinstance(self.written, Domain) else self.written


TEXT = Checked(check_text, {"type": "string"})
RANDOM_STATE = Checked(check_seed, {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 0}]})
"""What seeds a random generator; a generator is saved as null."""


class Choice(Domain):
    """One of a few constants, or of the names in a registry."""

    def __init__(self, *constants: Any, registry: Mapping[str, Any] | None = None) -> None:
        self.constants, self.registry = constants, {} if registry is None else registry

    @property
    def choices(self) -> tuple[Any, ...]:
        """All constants, also those registered since."""
        return (*self.constants, *self.registry)

    def check(self, value: Any, name: str, also: str = "") -> Any:
        check_one_of(value, name, self.choices)
        return value

    def schema(self, records: dict[str, Schema]) -> Schema:
        if self.choices == (True, False):
            return {"type": "boolean"}
        if self.choices == (None,):
            return {"type": "null"}
        return {"const": self.choices[0]} if len(self.choices) == 1 else {"enum": list(self.choices)}


BOOLEAN, NULL = Choice(True, False), Choice(None)


@dataclass(frozen=True)
class Number(Domain):
    """A number strictly between two limits, or not negative; then it may also be ``infinite``."""

    above: float = -np.inf
    below: float = np.inf
    not_negative: bool = False
    infinite: bool = False

    def check(self, value: Any, name: str, also: str = "") -> float:
        expected = "a number of at least 0" if self.not_negative else f"a number in ({self.above:g}, {self.below:g})"
        number = float(_of_type(numbers.Real, value, name, expected + also))
        if not (number >= 0.0 if self.not_negative else self.above < number < self.below):
            raise ValueError(f"{name} must be {expected}{also}; got {value!r}")
        return number

    def schema(self, records: dict[str, Schema]) -> Schema:
        found: Schema = {"type": "number"}
        if self.not_negative:
            found["minimum"] = 0
        if np.isfinite(self.above):
            found["exclusiveMinimum"] = self.above
        if np.isfinite(self.below):
            found["exclusiveMaximum"] = self.below
        # JSON has no number for infinity, which is a word in files.
        return {"anyOf": [{"const": "infinity"}, found]} if self.infinite else found


@dataclass(frozen=True)
class Integer(Domain):
    """An integer of at least ``least``."""

    least: int
    largest: int | None = None

    def check(self, value: Any, name: str, also: str = "") -> int:
        expected = f"an integer of at least {self.least}{also}"
        if _of_type(numbers.Integral, value, name, expected) < self.least:
            raise ValueError(f"{name} must be {expected}; got {value!r}")
        if self.largest is not None and value > self.largest:
            raise ValueError(f"{name} must be at most {self.largest}; got {value!r}")
        return int(value)

    def schema(self, records: dict[str, Schema]) -> Schema:
        limit = {} if self.largest is None else {"maximum": self.largest}
        return {"type": "integer", "minimum": self.least} | limit


@dataclass(frozen=True)
class Numbers(Domain):
    """A list of finite numbers, or rows of ``columns`` numbers each."""

    least: int = 0
    most: int | None = None
    columns: int | None = None
    increasing: bool = False
    positive: bool = False
    not_negative: bool = False
    note: str = ""

    def check(self, value: Any, name: str, also: str = "") -> Array:
        if self.most is not None and isinstance(value, list) and len(value) > self.most:
            raise ValueError(f"{name} must have at most {self.most} numbers; got {len(value)}")
        array = check_numeric_array(value, name)
        if self.positive and (array.ndim != 1 or len(array) == 0 or array.min() <= 0.0):
            raise ValueError(f"{name} must be one list of positive numbers; got {value!r}")
        if self.columns is not None and (array.ndim != 2 or array.shape[1] != self.columns):
            raise ValueError(f"{name} must have rows of {self.columns} numbers; got shape {array.shape}")
        if self.not_negative and array.min(initial=0.0) < 0.0:
            raise ValueError(f"{name} must not be negative")
        if self.columns is None and (array.ndim != 1 or len(array) < self.least):
            raise ValueError(f"{name} must be one list of at least {self.least} numbers; got shape {array.shape}")
        if self.increasing and (falls := array[1:] <= array[:-1]).any():
            at = int(np.argmax(falls)) + 1
            shown = f"item {at} is {array[at]:g} after {array[at - 1]:g}"
            raise ValueError(f"{name} must be sorted, without repeats; {shown}")
        return array

    def schema(self, records: dict[str, Schema]) -> Schema:
        items: Schema = {"type": "number"}
        if self.positive:
            items["exclusiveMinimum"] = 0
        if self.not_negative:
            items["minimum"] = 0
        if self.columns is not None:
            items = {"type": "array", "items": items, "minItems": self.columns, "maxItems": self.columns}
        return _array(items, self.least, self.most, self.note)


class Matrix(Domain):
    """A matrix of finite numbers, or its diagonal as a list."""

    def check(self, value: Any, name: str, also: str = "") -> Array:
        return check_numeric_array(value, name)

    def schema(self, records: dict[str, Schema]) -> Schema:
        row = {"type": "array", "items": {"type": "number"}}
        return {"anyOf": [row, {"type": "array", "items": row}]}


@dataclass(frozen=True)
class ListOf(Domain):
    """A list whose items are all of one domain."""

    items: Domain
    least: int = 0
    most: int | None = None

    def check(self, value: Any, name: str, also: str = "") -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list")
        if len(value) < self.least or (self.most is not None and len(value) > self.most):
            raise ValueError(f"{name} must have at least {self.least} and at most {self.most} items; got {len(value)}")
        each = f"a {self.items.title}" if isinstance(self.items, Record) else name
        return [self.items.check(item, each) for item in value]

    def schema(self, records: dict[str, Schema]) -> Schema:
        return _array(self.items.schema(records), self.least, self.most)


@dataclass(frozen=True)
class Either(Domain):
    """A word (or None) of a choice, or a value of a domain: ``Either(Choice("auto"), Number(above=0.0))``."""

    choice: Choice
    domain: Domain

    def check(self, value: Any, name: str, also: str = "") -> Any:
        words = self.choice.choices
        if (value is None or isinstance(value, str)) and value in words:
            return value
        if isinstance(value, str) and len(words) > 1:
            return self.choice.check(value, name)
        shown = ", ".join("None" if word is None else f'"{word}"' for word in words)
        return self.domain.check(value, name, f" or {'one of ' if len(words) > 1 else ''}{shown}")

    def schema(self, records: dict[str, Schema]) -> Schema:
        return {"anyOf": [self.choice.schema(records), self.domain.schema(records)]}


def optional(domain: Domain) -> Either:
    """None, or a value of a domain."""
    return Either(NULL, domain)


@dataclass(frozen=True)
class Record(Domain):
    """A JSON object with exactly these fields; ``added`` has values of those that earlier versions do not have."""

    title: str
    fields: dict[str, Domain]
    added: dict[str, Any] = field(default_factory=dict)

    def check(self, value: Any, name: str, also: str = "") -> dict[str, Any]:
        if not isinstance(value, dict) or set(self.added | value) != set(self.fields):
            raise ValueError(f"{name} must be a dict with the keys {', '.join(self.fields)}")
        value = self.added | value
        return {each: domain.check(value[each], each) for each, domain in self.fields.items()}

    def described(self, value: Any, **others: Any) -> dict[str, Any]:
        """The fields of an object as JSON values, but for ``others``, which are given.

        What is added, but says no more than its absence does, is left out: earlier versions can read the rest.
        """
        found = {name: others[name] if name in others else plain(getattr(value, name)) for name in self.fields}
        return {name: one for name, one in found.items() if name not in self.added or one != self.added[name]}

    def schema(self, records: dict[str, Schema]) -> Schema:
        if self.title not in records:
            own = object_schema({name: one.schema(records) for name, one in self.fields.items()})
            records[self.title] = own | {"required": [name for name in self.fields if name not in self.added]}
        return {"$ref": f"#/$defs/{self.title}"}


def plain(value: Any) -> Any:
    """A value as JSON has it: arrays and tuples as lists, objects as dicts."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return {one.name: plain(getattr(value, one.name)) for one in fields(value)} if is_dataclass(value) else value


def object_schema(properties: dict[str, Schema]) -> Schema:
    """A JSON object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _array(items: Schema, least: int, most: int | None, note: str = "") -> Schema:
    found: Schema = {"type": "array"} if most == 0 else {"type": "array", "items": items}
    if least:
        found["minItems"] = least
    if most is not None:
        found["maxItems"] = most
    return found | ({"description": note} if note else {})


def check_label(value: Any, name: str) -> Any:
    """Check that a value of a file can be the label of a class: a string, number or boolean."""
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"{name} must be strings, numbers or booleans; got {value!r}")
    return value


def check_class_labels(value: Any, name: str) -> NDArray[Any]:
    """Check class labels of a file, with their dtype, so that the same labels come back."""
    if not isinstance(value, dict) or set(value) != {"dtype", "values"} or not isinstance(value["dtype"], str):
        raise ValueError(f"{name} must be a dict with dtype and values")
    values = value["values"]
    if not isinstance(values, list) or not all(isinstance(label, (bool, int, float, str)) for label in values):
        raise ValueError(f"{name} must be strings or numbers")
    if len(values) < 2 or len(set(values)) != len(values):
        raise ValueError(f"{name} must be two or more different labels")
    dtype = np.dtype(value["dtype"])
    if dtype.kind not in "biufUO":
        raise ValueError(f"{name} cannot have dtype {dtype}")
    if dtype.itemsize * len(values) > MAX_CLASSES_SIZE:
        # A file of a few bytes may name a dtype of gigabytes.
        raise ValueError(f"{name} must take at most {MAX_CLASSES_SIZE >> 20} MB; dtype {dtype} takes more")
    labels = np.array(values, dtype=dtype)
    if labels.tolist() != values:
        raise ValueError(f"{name} must be labels that dtype {dtype} can hold")
    return labels


LABEL = Checked(check_label, {"type": ["string", "number", "boolean"]})
CLASS_LABELS = Checked(
    check_class_labels,
    object_schema(
        {
            "dtype": {"type": "string", "description": "As numpy writes it, or object."},
            "values": {"type": "array", "minItems": 2, "uniqueItems": True, "items": LABEL.written},
        }
    ),
)


def plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Labels as JSON values that ``CLASS_LABELS`` reads."""
    values = classes.tolist()
    if not all(isinstance(value, (bool, int, float, str)) for value in values):
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise TypeError(f"classes of type {kinds} cannot be saved; use strings or numbers")
    return {"dtype": classes.dtype.str if classes.dtype.kind != "O" else "object", "values": values}
