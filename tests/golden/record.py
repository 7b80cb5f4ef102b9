"""Golden files: what is stored of a case, how it is written, and how it is compared.

A case is a function that returns numbers and words: a mapping, a list or a text. Its
file is ``<area>/<name>.json``, or ``.txt`` for a text. ``make golden`` writes files,
tests only read them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
TOLERANCE = 1e-10
"""Largest difference from a stored number: absolute up to 1, relative beyond."""
DIGITS = 13
"""Significant digits stored: last bits, which depend on processors, rarely show."""
STEPS = {"n_iter": 1}
"""Counts that may differ by so much: the last step may hang on the last bit."""
LONGEST_REPORT, LONG_TEXT = 12, 30
NUMBER = re.compile(
    r"[-+\N{MINUS SIGN}]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?|[-+]?\b(?:nan|inf)\b"
)


@dataclass(frozen=True)
class Case:
    """What makes the result of a case, and how closely it has to agree."""

    make: Callable[[], Any]
    tolerance: float = TOLERANCE
    looser: Mapping[str, float] = field(default_factory=dict)
    """Tolerances of single keys."""
    reason: str = ""
    """Why a tolerance is larger than usual."""

    def __post_init__(self) -> None:
        if (self.tolerance > TOLERANCE or self.looser) and not self.reason:
            raise ValueError("a larger tolerance needs a reason")

    def explain(self, now: Any, then: Any) -> str:
        """Where two results of the case differ; empty if they agree."""
        return explain(now, then, self.tolerance, STEPS | dict(self.looser))


@dataclass(frozen=True)
class Area:
    """A folder of golden files, one for each case."""

    name: str
    cases: Mapping[str, Case]
    suffix: str = ".json"
    known: dict[str, Any] = field(default_factory=dict)
    """Results of this process, for tests that need the same one several times."""

    @property
    def folder(self) -> Path:
        return HERE / self.name

    def path(self, name: str) -> Path:
        return self.folder / f"{name}{self.suffix}"

    def result(self, name: str) -> Any:
        """The present result of a case, in plain values."""
        if name not in self.known:
            self.known[name] = plain(self.cases[name].make())
        return self.known[name]

    def read(self, name: str) -> Any:
        """The stored result."""
        text = self.path(name).read_text(encoding="utf-8")
        return json.loads(text) if self.suffix == ".json" else text

    def write(self, name: str) -> None:
        """Store the present result."""
        self.folder.mkdir(exist_ok=True)
        result = self.result(name)
        text = to_json(result) + "\n" if self.suffix == ".json" else result
        self.path(name).write_text(text, encoding="utf-8")

    def changes(self, name: str) -> str:
        """Where the result differs from the stored one; empty if they agree."""
        return self.cases[name].explain(self.result(name), self.read(name))

    def is_current(self, name: str) -> bool:
        """Whether the stored result exists and agrees with the present one."""
        return self.path(name).exists() and not self.changes(name)

    def check(self, name: str) -> None:
        """Fail with the largest differences if the result is not the stored one."""
        case = self.cases[name]
        report = self.changes(name)
        assert not report, (
            f"{self.name}/{name} has changed; tolerance {case.tolerance:g}\n{report}"
        )


def plain(value: Any) -> Any:
    """Values as JSON has them: arrays as lists, floats rounded to stored digits."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a golden file cannot hold {type(value).__name__}")


def to_json(value: Any, indent: str = "") -> str:
    """JSON with a line for each list of numbers and each text, for readable diffs."""
    inner = indent + " "
    if isinstance(value, dict) and value:
        items = [
            f"{inner}{json.dumps(key)}: {to_json(each, inner)}"
            for key, each in value.items()
        ]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(
        isinstance(each, (list, dict)) or is_long(each) for each in value
    ):
        return (
            "[\n"
            + ",\n".join(inner + to_json(each, inner) for each in value)
            + f"\n{indent}]"
        )
    return json.dumps(value, ensure_ascii=False)


def is_long(value: Any) -> bool:
    """Whether a value is a text that needs a line of its own."""
    return isinstance(value, str) and len(value) > LONG_TEXT


def explain(
    now: Any, then: Any, tolerance: float, looser: Mapping[str, float] = STEPS
) -> str:
    """Where two results differ, the largest difference first; empty if they agree."""
    if isinstance(then, str):
        return explain_text(now, then, tolerance)
    found = sorted(differences(now, then, tolerance, looser), key=lambda each: -each[0])
    lines = [line for _, line in found[:LONGEST_REPORT]]
    if len(found) > LONGEST_REPORT:
        lines.append(f"and {len(found) - LONGEST_REPORT} more")
    return "\n".join(lines)


def differences(
    now: Any, then: Any, tolerance: float, looser: Mapping[str, float], where: str = ""
) -> Iterator[tuple[float, str]]:
    """Size and description of each difference; those that have no size come first."""
    if isinstance(now, dict) and isinstance(then, dict):
        for key in [*then, *(key for key in now if key not in then)]:
            place = f"{where}.{key}" if where else key
            if key not in now:
                yield math.inf, f"{place}: is missing"
            elif key not in then:
                yield math.inf, f"{place}: is new, {shorten(now[key])}"
            else:
                yield from differences(
                    now[key], then[key], looser.get(key, tolerance), looser, place
                )
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for i, pair in enumerate(zip(now, then, strict=True)):
            yield from differences(*pair, tolerance, looser, f"{where}[{i}]")
    elif is_number(now) and is_number(then):
        size = distance(now, then)
        if not size <= tolerance:
            yield size, f"{where}: {now!r}, stored {then!r}, difference {size:.2g}"
    elif isinstance(now, str) and isinstance(then, str):
        if not same_text(now, then, tolerance):
            yield math.inf, f"{where}: {shorten(now)}, stored {shorten(then)}"
    elif now != then:
        yield math.inf, f"{where}: {shorten(now)}, stored {shorten(then)}"


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def distance(now: float, then: float) -> float:
    """Difference of two numbers, relative to the stored one if that exceeds 1.

    Integers are counts: their difference is absolute.
    """
    if now == then or (math.isnan(now) and math.isnan(then)):
        return 0.0
    if not (math.isfinite(now) and math.isfinite(then)):
        return math.inf
    if isinstance(now, int) and isinstance(then, int):
        return abs(now - then)
    return abs(now - then) / max(1.0, abs(then))


def shorten(value: Any, longest: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= longest else text[:longest] + " ..."


def same_text(now: str, then: str, tolerance: float) -> bool:
    """Whether texts agree, numbers in them within the tolerance."""
    if now == then:
        return True
    if NUMBER.sub("#", now) != NUMBER.sub("#", then):
        return False
    pairs = zip(NUMBER.findall(now), NUMBER.findall(then), strict=True)
    return all(distance(parse(a), parse(b)) <= tolerance for a, b in pairs)


def parse(text: str) -> float:
    return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))


def explain_text(now: str, then: str, tolerance: float) -> str:
    """Lines that differ, as in a diff; empty if the texts agree."""
    ours, stored = now.splitlines(), then.splitlines()
    if len(ours) == len(stored):
        pairs = zip(ours, stored, strict=True)
        ours = [b if same_text(a, b, tolerance) else a for a, b in pairs]
    return "\n".join(unified_diff(stored, ours, "stored", "now", lineterm="", n=1))
