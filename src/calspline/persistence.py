"""Saving calibrators as versioned JSON, and loading them without trust.

The file is an object with ``format`` ("calspline"), ``version`` (of the format), ``class``,
``parameters``, ``classes``, ``fitted`` (small facts), ``curves``, ``structure`` (of a structured multiclass
fit, else null) and ``checksum`` (SHA-256 of the rest). Numbers are written so that they read back bit for
bit. Nothing in a file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, Protocol

from calspline import _validation

FORMAT = "calspline"
VERSION = 1
LARGEST_FILE = 64 * 2**20
FIELDS = {"format", "version", "class", "parameters", "classes", "fitted", "curves", "structure", "checksum"}


class Saveable(Protocol):
    """A fitted calibrator that can describe itself in plain JSON values."""

    def to_dict(self) -> dict[str, Any]:
        """What a file says of it."""
        ...


def save(calibrator: Saveable, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator to a JSON file.

    The file appears whole or not at all: it is written beside its place and
    then moved there.

    Examples
    --------
    >>> import tempfile, pathlib, calspline
    >>> cal = calspline.SplineCalibrator().fit([0.1, 0.3, 0.6, 0.9], [0, 0, 1, 1])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> calspline.save(cal, path)
    >>> bool((calspline.load(path).calibrate([0.4]) == cal.calibrate([0.4])).all())
    True
    """
    if type(calibrator) not in _calibrators().values():
        raise TypeError(f"calibrator must be a fitted calibrator of calspline; got {type(calibrator).__name__}")
    body = {"format": FORMAT, "version": VERSION} | calibrator.to_dict()
    text = json.dumps(body | {"checksum": _checksum(body)}, indent=1, allow_nan=False)
    _write_whole(Path(path), text + "\n")


def load(path: str | os.PathLike[str]) -> Any:
    """Read a calibrator that :func:`save` wrote.

    A file that is not one, is damaged, or is of a newer version is a ``ValueError``.
    """
    path = Path(path)
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path} is not a calspline model: it is larger than {LARGEST_FILE >> 20} MB")
    try:
        body = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a calspline model: it is not valid JSON ({error})") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ValueError(f'{path} is not a calspline model: it has no "format": "{FORMAT}"')
    if type(body.get("version")) is not int or body["version"] != VERSION:
        raise ValueError(f"{path} has format version {body.get('version')!r}; this calspline reads version {VERSION}")
    if set(body) != FIELDS:
        odd = ", ".join(sorted(set(body) ^ FIELDS))
        raise ValueError(f"{path} is not a whole calspline model: missing or unknown {odd}")
    checksum = body.pop("checksum")
    if checksum != _checksum(body):
        raise ValueError(f"{path} is damaged or was edited: its checksum does not match")
    known = _calibrators()
    try:
        _validation.one_of(body["class"], "class", tuple(known))
        return known[body["class"]].from_dict(body)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"{path} is not a valid calspline model: {error}") from None


def _calibrators() -> dict[str, Any]:
    """Every class that can be saved, by name."""
    from calspline.calibrators.beta import BetaCalibrator
    from calspline.calibrators.clipping import ClippingCalibrator
    from calspline.calibrators.isotonic import IsotonicCalibrator
    from calspline.calibrators.sigmoid import SigmoidCalibrator
    from calspline.calibrators.spline import SplineCalibrator
    from calspline.calibrators.temperature import TemperatureCalibrator

    known = (
        SplineCalibrator,
        SigmoidCalibrator,
        IsotonicCalibrator,
        BetaCalibrator,
        TemperatureCalibrator,
        ClippingCalibrator,
    )
    return {cls.__name__: cls for cls in known}


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _write_whole(path: Path, text: str) -> None:
    """Write beside ``path``, flush to disk, move into place; leave nothing behind on failure."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
