"""Frozen dataclasses as JSON values, and back.

A stored field is declared once, where its dataclass declares it. Its type says how JSON
has it, and a domain in ``Annotated[..., domain]`` what it may be. A class calls
:func:`check_fields` in ``__post_init__``, so that no object has a field outside its
domain, whether a fit or a file makes it, and then checks what fields have to do with
each other. Errors begin with the name of the field; those of files with its path.
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from calspline._domains import (
    BOOLEAN,
    Choice,
    Domain,
    Integer,
    Number,
    Sizes,
    Text,
    optional,
)

NOT_STORED = {"stored": False}
"""Metadata of a field that is not stored in files; it needs a default."""
SIMPLE: dict[Any, Domain] = {
    bool: BOOLEAN,
    int: Integer(),
    float: Number(),
    str: Text(),
}
T = TypeVar("T")


def check_fields(record: Any) -> None:
    """Validate the stored fields of a new dataclass, and normalise their values."""
    sizes: Sizes = {}
    values = vars(record)
    for name, domain in stored_fields(type(record)).items():  # type: ignore[arg-type]
        value = values[name]
        checked = domain.check(value, name)
        if checked is not value:
            object.__setattr__(record, name, checked)
        domain.check_sizes(checked, name, sizes)


def to_json(record: Any) -> dict[str, Any]:
    """Convert the stored fields of a dataclass to JSON values."""
    return Record(type(record)).to_json(record)


def from_json(cls: type[T], data: Any, path: str = "") -> T:
    """Create the dataclass from the result of :func:`to_json`."""
    record: T = Record(cls).from_json(data, path)
    return record


@cache
def stored_fields(cls: type) -> dict[str, Domain]:
    """The domain of each stored field of a dataclass."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        one.name: domain_of(hints[one.name])
        for one in fields(cls)
        if one.metadata.get("stored", True)
    }


def domain_of(hint: Any) -> Domain:
    """The domain that a type declares."""
    if hint in SIMPLE:
        return SIMPLE[hint]
    origin = get_origin(hint)
    parts = get_args(hint)
    if origin is Annotated and isinstance(parts[1], Domain):
        return parts[1]
    if origin is Literal:
        return Choice(*parts)
    if origin is tuple and parts[-1] is Ellipsis:
        return TupleOf(domain_of(parts[0]))
    if origin is tuple:
        return Items(*map(domain_of, parts))
    if origin in (Union, types.UnionType):
        return _domain_of_union(parts)
    if is_dataclass(hint) and isinstance(hint, type):
        return Record(hint)
    raise TypeError(f"a field of type {hint} needs a domain: Annotated[..., domain]")


def _domain_of_union(parts: tuple[Any, ...]) -> Domain:
    rest = [part for part in parts if part is not type(None)]
    found = domain_of(rest[0]) if len(rest) == 1 else Kinds(*rest)
    return found if len(rest) == len(parts) else optional(found)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class Record(Domain):
    """Objects of a dataclass; in JSON, an object with exactly its stored fields."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def check(self, value: Any, name: str, also: str = "") -> Any:
        if not isinstance(value, self.cls):
            raise TypeError(
                f"{name} must be a {self.cls.__name__}{also}; "
                f"got {type(value).__name__}"
            )
        return value

    def to_json(self, value: Any) -> dict[str, Any]:
        domains = stored_fields(self.cls)
        return {
            name: domain.to_json(getattr(value, name))
            for name, domain in domains.items()
        }

    def from_json(self, data: Any, name: str) -> Any:
        domains = stored_fields(self.cls)
        if not isinstance(data, dict) or set(data) != set(domains):
            place = name or "the file"
            raise ValueError(
                f"{place} must be a dict with the keys {', '.join(domains)}"
                f"{_difference(data, domains)}"
            )
        values = {
            field: domain.from_json(data[field], _joined(name, field))
            for field, domain in domains.items()
        }
        try:
            return self.cls(**values)
        except (ValueError, TypeError) as error:
            raise ValueError(_joined(name, str(error))) from None


def _difference(data: Any, domains: dict[str, Domain]) -> str:
    if not isinstance(data, dict):
        return ""
    odd = ", ".join(sorted(str(key)[:40] for key in set(data) ^ set(domains)))
    return f"; missing or unknown: {odd}"


class Kinds(Domain):
    """Objects of one of several dataclasses; JSON has the name of the class as type."""

    def __init__(self, *classes: type) -> None:
        self.classes = classes
        self.records = {cls.__name__: Record(cls) for cls in classes}

    def check(self, value: Any, name: str, also: str = "") -> Any:
        if not isinstance(value, self.classes):
            shown = ", ".join(self.records)
            raise TypeError(
                f"{name} must be one of {shown}{also}; got {type(value).__name__}"
            )
        return value

    def to_json(self, value: Any) -> dict[str, Any]:
        kind = type(value).__name__
        return {"type": kind, **self.records[kind].to_json(value)}

    def from_json(self, data: Any, name: str) -> Any:
        kind = data.get("type") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind not in self.records:
            shown = ", ".join(self.records)
            raise ValueError(f"{name} must be a dict whose type is one of {shown}")
        rest = {key: value for key, value in data.items() if key != "type"}
        return self.records[kind].from_json(rest, name)


class TupleOf(Domain):
    """A tuple whose items have a common domain; in JSON, a list."""

    def __init__(self, items: Domain, least: int = 0) -> None:
        self.items = items
        self.least = least

    def check(self, value: Any, name: str, also: str = "") -> tuple[Any, ...]:
        if not isinstance(value, (tuple, list)):
            raise TypeError(f"{name} must be a tuple; got {type(value).__name__}")
        if len(value) < self.least:
            raise ValueError(
                f"{name} must have at least {self.least} items; got {len(value)}"
            )
        return tuple(
            self.items.check(item, f"{name}[{i}]") for i, item in enumerate(value)
        )

    def to_json(self, value: Any) -> list[Any]:
        return [self.items.to_json(item) for item in value]

    def from_json(self, data: Any, name: str) -> Any:
        if not isinstance(data, list):
            raise ValueError(f"{name} must be a list")
        items = [
            self.items.from_json(item, f"{name}[{i}]") for i, item in enumerate(data)
        ]
        return self.check(tuple(items), name)


class Items(Domain):
    """A tuple with a domain for each item; in JSON, a list."""

    def __init__(self, *domains: Domain) -> None:
        self.domains = domains

    def check(self, value: Any, name: str, also: str = "") -> tuple[Any, ...]:
        if not isinstance(value, (tuple, list)) or len(value) != len(self.domains):
            raise ValueError(f"{name} must have {len(self.domains)} items")
        pairs = zip(self.domains, value, strict=True)
        return tuple(
            domain.check(item, f"{name}[{i}]") for i, (domain, item) in enumerate(pairs)
        )

    def check_sizes(self, value: Any, name: str, sizes: Sizes) -> None:
        for domain, item in zip(self.domains, value, strict=True):
            domain.check_sizes(item, name, sizes)

    def to_json(self, value: Any) -> list[Any]:
        pairs = zip(self.domains, value, strict=True)
        return [domain.to_json(item) for domain, item in pairs]

    def from_json(self, data: Any, name: str) -> Any:
        if not isinstance(data, list) or len(data) != len(self.domains):
            raise ValueError(f"{name} must be a list of {len(self.domains)} items")
        pairs = zip(self.domains, data, strict=True)
        return tuple(
            domain.from_json(item, f"{name}[{i}]")
            for i, (domain, item) in enumerate(pairs)
        )
