"""Saving calibrators, histograms and monitors as versioned JSON, and loading them without trust.

The file is an object with ``format`` ("calspline"), ``version`` (of the format), ``class``, ``parameters``,
``classes``, ``fitted`` (small facts), ``curves``, ``structure`` (of a structured multiclass fit, else null) and
``checksum`` (SHA-256 of the rest). That of a :class:`~calspline.ScoreHistogram` has ``histogram``, and that of a
:class:`~calspline.Monitor` ``monitor``, in place of what is between ``class`` and ``checksum``. Numbers are written
so that they read back bit for bit. Nothing in a file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import calspline
from calspline.calibrators import classes, find_class, homes
from calspline.histogram import HISTOGRAM, ScoreHistogram
from calspline.options import Choice, Record, check_one_of, object_schema

if sys.platform != "win32":
    import fcntl

FORMAT = "calspline"
VERSION = 1
LARGEST_FILE = 64 * 2**20
FIELDS = {"format", "version", "class", "parameters", "classes", "fitted", "curves", "structure", "checksum"}
OTHERS = {"ScoreHistogram": "histogram", "Monitor": "monitor"}
"""Where a file has what is no calibrator, by its class."""


def save(calibrator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator, a :class:`~calspline.ScoreHistogram` or a :class:`~calspline.Monitor` to a JSON file.

    The file appears whole or not at all: it is written beside its place, under a hidden name, and
    then moved there. What a process that was killed left under such a name is removed by the next to save there.

    Examples
    --------
    >>> import tempfile, pathlib, calspline
    >>> cal = calspline.SplineCalibrator().fit([0.1, 0.3, 0.6, 0.9], [0, 0, 1, 1])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> calspline.save(cal, path)
    >>> bool((calspline.load(path).calibrate([0.4]) == cal.calibrate([0.4])).all())
    True
    """
    write_whole(Path(path), text_of(calibrator))


def text_of(calibrator: Any) -> str:
    """What :func:`save` writes."""
    name = type(calibrator).__name__
    if name not in (*OTHERS, *homes()) or type(calibrator) is not _class_of(name):
        raise TypeError(
            f"calibrator must be a fitted calibrator of calspline, a ScoreHistogram or a Monitor; got {name}"
        )
    described = calibrator.to_dict()
    if name in OTHERS:
        described = {"class": name, OTHERS[name]: described}
    body = {"format": FORMAT, "version": VERSION} | described
    return json.dumps(body | {"checksum": _checksum(body)}, indent=1, allow_nan=False) + "\n"


def load(path: str | os.PathLike[str]) -> Any:
    """Read a calibrator, a histogram or a monitor that :func:`save` wrote.

    A file that is not one, is damaged, or is of a newer version is a ``ValueError``.
    """
    path = Path(path)
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError(f"{path} is not a calspline model: it is larger than {LARGEST_FILE >> 20} MB")
    try:
        body = json.loads(
            content.decode("utf-8"), parse_constant=_finite, parse_float=_finite, object_pairs_hook=_without_repeats
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a calspline model: it is not valid JSON ({error})") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ValueError(f'{path} is not a calspline model: it has no "format": "{FORMAT}"')
    if type(body.get("version")) is not int or body["version"] != VERSION:
        raise ValueError(f"{path} has format version {body.get('version')!r}; this calspline reads version {VERSION}")
    name = body.get("class")
    other = OTHERS.get(name) if isinstance(name, str) else None
    fields = FIELDS if other is None else {"format", "version", "class", other, "checksum"}
    if set(body) != fields:
        odd = ", ".join(sorted(set(body) ^ fields))
        raise ValueError(f"{path} is not a whole calspline model: missing or unknown {odd}")
    checksum = body.pop("checksum")
    try:
        if checksum != _checksum(body):
            raise ValueError("it is damaged or was edited: its checksum does not match")
        if other == "histogram":
            return ScoreHistogram.from_dict(body["histogram"])
        described = body if other is None else body["monitor"]["calibrator"]
        check_one_of(described["class"], "class", tuple(homes()))
        calibrator = find_class(described["class"]).from_dict(described)
        return calibrator if other is None else calspline.Monitor.from_dict(body["monitor"], calibrator)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{path} is not a valid calspline model: {error}") from None


def _class_of(name: str) -> Any:
    """What a file calls by this name, imported when it is needed: a monitor comes with all of evaluation."""
    return find_class(name) if name in homes() else getattr(calspline, name)


def schema() -> dict[str, Any]:
    """The JSON schema of all that :func:`save` writes; ``model.schema.json`` is this, in a file."""
    head = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    tail = {"checksum": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}}
    from calspline.monitoring.monitor import MONITOR

    described = {"ScoreHistogram": HISTOGRAM, "Monitor": MONITOR}
    others = (Record(name, {"class": Choice(name), OTHERS[name]: one}) for name, one in described.items())
    records: dict[str, Any] = {}
    files = [*others, *(cls.record() for cls in classes().values())]
    references = [file.schema(records) for file in files]
    for file in files:
        records[file.title] = object_schema(head | records[file.title]["properties"] | tail)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:calspline:model:{VERSION}",
        "title": f"A calibrator, a histogram or a monitor saved by calspline, format version {VERSION}",
        "description": (
            "Numbers are finite doubles that read back bit for bit. "
            "The checksum is SHA-256 of the object without it, as JSON with sorted keys and no blanks. "
            f"A file has at most {LARGEST_FILE >> 20} MB; no key is there twice."
        ),
        "oneOf": references,
        "$defs": records,
    }


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a number that a double can hold")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a key that is there twice, readers would disagree which value counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{max(keys, key=keys.count)[:40]!r} is there twice")
    return found


def write_whole(path: Path, text: str) -> None:
    """Write a text file: all of it, or nothing."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def atomic_path(path: Path, move: Callable[[Path, Path], object] = Path.replace) -> Iterator[Path]:
    """A temporary file in the folder of ``path`` to write to, which is then flushed to disk and moved into place.

    A process that is killed cannot remove its temporary file, so what such processes left for this ``path`` is removed
    first. Files that another process is writing are locked, and a lock ends with its process.
    """
    _remove_leftovers(path)
    part = _new_name(path)  # before the file is there, so that an interrupt finds what to remove
    held = None
    try:
        while (held := _create_locked(part)) is None:
            part = _new_name(path)
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        move(part, path)
    except OSError as error:
        if error.filename2 is None:  # a full disk names no file, and the temporary one would be confusing
            error.filename = str(path)
        raise
    finally:
        try:
            part.unlink(missing_ok=True)
        finally:  # an interrupt may come just before the first one
            part.unlink(missing_ok=True)
        if held is not None:
            os.close(held)


def _new_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")


def _create_locked(part: Path) -> int | None:
    """Create a file and lock it: its descriptor, or None if another process removed the file before the lock."""
    held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    if sys.platform == "win32":  # a file that is open cannot be moved there
        os.close(held)
        return os.open(os.devnull, os.O_RDONLY)  # nothing to hold
    with suppress(OSError):  # a file system without locks, where no leftovers are removed either
        fcntl.flock(held, fcntl.LOCK_EX)
    if os.fstat(held).st_nlink:
        return held
    os.close(held)
    return None


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files for ``path`` that killed processes left."""
    if sys.platform == "win32":
        return
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.part")
    with suppress(OSError):  # a folder that cannot be listed may still be written to
        for part in map(path.with_name, filter(ours.fullmatch, os.listdir(path.parent))):
            with suppress(OSError), open(os.open(part, os.O_RDWR | os.O_NOFOLLOW), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
