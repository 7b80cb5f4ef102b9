"""Persistence of calibrators, histograms and monitors as versioned JSON.

A file of a calibrator is an object with ``format`` ("calspline"), ``version`` (of the
format), ``class``, ``parameters``, the fields of the
:class:`~calspline.maps.model.Model` (``classes``, ``kind``, ``map`` and ``fit``, see
:mod:`calspline._codec`) and ``checksum`` (SHA-256 of the rest). A file of a
:class:`~calspline.ScoreHistogram` or a :class:`~calspline.Monitor` has ``histogram`` or
``monitor`` in place of the parameters and the model. Numbers are read back exactly.
Nothing in a file is ever executed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from calspline._codec import stored_fields
from calspline._input.options import check_one_of
from calspline.calibrators import find_class, homes
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.maps.model import Model

if sys.platform != "win32":
    import fcntl

FORMAT = "calspline"
VERSION = 1
LARGEST_FILE = 64 * 2**20
"""Largest size in bytes of a file that does not begin like one written by ``save``."""
LARGEST_MODEL = 512 * 2**20
"""Largest size in bytes of a file written by ``save``."""
HEADER = {"format", "version", "class", "checksum"}
OTHERS = {"ScoreHistogram": "histogram", "Monitor": "monitor"}
"""Classes other than calibrators that can be stored in files."""


def save(calibrator: Any, path: str | os.PathLike[str]) -> None:
    """Save a calibrator, a histogram or a monitor to a JSON file.

    The file is written atomically: first to a hidden temporary file in the same folder,
    which is then renamed. Temporary files of killed processes are removed by the next
    call for the same path. An existing file keeps its permissions, and symbolic links
    are followed.

    Parameters
    ----------
    calibrator : fitted calibrator, ScoreHistogram or Monitor
        Object to save.
    path : str or path-like
        Path of the file.

    Notes
    -----
    A ValueError is raised if the file would exceed 512 MB, which corresponds to half a
    million segments, or several times that if they differ in level and slope only.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import calspline
    >>> cal = calspline.SplineCalibrator().fit([0.1, 0.3, 0.6, 0.9], [0, 0, 1, 1])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> calspline.save(cal, path)
    >>> bool((calspline.load(path).calibrate([0.4]) == cal.calibrate([0.4])).all())
    True
    """
    write_whole(Path(path), text_of(calibrator))


def text_of(calibrator: Any) -> str:
    """Text that :func:`save` writes."""
    name = type(calibrator).__name__
    if name not in (*OTHERS, *homes()) or type(calibrator) is not _class_of(name):
        raise TypeError(
            "calibrator must be a fitted calibrator of calspline, a ScoreHistogram or "
            f"a Monitor; got {name}"
        )
    described = calibrator.to_dict()
    if name in OTHERS:
        described = {"class": name, OTHERS[name]: described}
    body = {"format": FORMAT, "version": VERSION} | described
    text = _json_lines(body | {"checksum": _checksum(body)}) + "\n"
    excess = _excess(text.encode())
    if excess:
        raise ValueError(
            f"the {name} is too large to be saved, because load would refuse it: "
            f"{excess}"
        )
    return text


def _json_lines(value: Any, indent: str = "") -> str:
    """Format JSON with a line for each field of an object and each row of a matrix.

    Lists of numbers or texts stay on one line: they are most of a large file.
    """
    deeper = indent + " "
    if isinstance(value, dict) and value:
        values = (_json_lines(one, deeper) for one in value.values())
        lines = [
            f"{json.dumps(key)}: {text}"
            for key, text in zip(value, values, strict=True)
        ]
        opening, closing = "{}"
    elif isinstance(value, list) and not {dict, list}.isdisjoint(map(type, value)):
        lines = [_json_lines(one, deeper) for one in value]
        opening, closing = "[]"
    else:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    inside = f",\n{deeper}".join(lines)
    return f"{opening}\n{deeper}{inside}\n{indent}{closing}"


BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"' + FORMAT.encode() + rb'"')
"""Beginning of every file written by ``save``."""


MOST_VALUES, MOST_BRACKETS = 2**25, 2**23
"""Largest number of values, and of lists and objects, in a file: reading it needs about
2 GB at most."""


def _excess(content: bytes) -> str:
    """Describe in which way a file is too large; empty if it is not."""
    if len(content) > LARGEST_MODEL:
        return f"it is larger than {LARGEST_MODEL >> 20} MB"
    if len(content) <= LARGEST_FILE:
        return ""
    if content.count(b",") > MOST_VALUES:
        return f"it has more than {MOST_VALUES:,} values"
    if content.count(b"[") + content.count(b"{") > MOST_BRACKETS:
        return f"it has more than {MOST_BRACKETS:,} lists and objects"
    return ""


def _read(path: Path) -> bytes:
    """Read a file up to the largest size of a model."""
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
        excess = ""
        if len(content) > LARGEST_FILE and BEGINNING.match(content) is None:
            excess = f"it is larger than {LARGEST_FILE >> 20} MB"
        elif len(content) > LARGEST_FILE:
            content += file.read(LARGEST_MODEL + 1 - len(content))
            excess = _excess(content)
    if excess:
        raise ValueError(f"{path} is not a calspline model: {excess}")
    return content


FIELDS = HEADER | {"parameters", *stored_fields(Model)}


def load(path: str | os.PathLike[str]) -> Any:
    """Load a calibrator, a histogram or a monitor from a file written by :func:`save`.

    Loading executes no code from the file. A ValueError is raised if the file is not
    valid, damaged, or of a newer version.

    Parameters
    ----------
    path : str or path-like
        Path of the file.

    Returns
    -------
    result : calibrator, ScoreHistogram or Monitor
        Equal to the saved object.
    """
    path = Path(path)
    content = _read(path)
    try:
        body = json.loads(
            content.decode("utf-8"),
            parse_constant=_finite,
            parse_float=_finite,
            object_pairs_hook=_without_repeats,
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not a calspline model: it is not valid JSON ({error})"
        ) from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ValueError(
            f'{path} is not a calspline model: it has no "format": "{FORMAT}"'
        )
    if type(body.get("version")) is not int or body["version"] != VERSION:
        raise ValueError(
            f"{path} has format version {body.get('version')!r}; this calspline reads "
            f"version {VERSION}"
        )
    name = body.get("class")
    other = OTHERS.get(name) if isinstance(name, str) else None
    fields = FIELDS if other is None else HEADER | {other}
    if set(body) != fields:
        odd = ", ".join(sorted(set(body) ^ fields))
        raise ValueError(
            f"{path} is not a whole calspline model: missing or unknown {odd}"
        )
    checksum = body.pop("checksum")
    try:
        if checksum != _checksum(body):
            raise ValueError("it is damaged or was edited: its checksum does not match")
        if other == "histogram":
            return ScoreHistogram.from_dict(body["histogram"])
        del body["format"], body["version"]
        described = body if other is None else body["monitor"]["calibrator"]
        check_one_of(described["class"], "class", tuple(homes()))
        calibrator = find_class(described["class"]).from_dict(described)
        if other is None:
            return calibrator
        return _class_of("Monitor").from_dict(body["monitor"], calibrator)
    except (
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise ValueError(f"{path} is not a valid calspline model: {error}") from None


def _class_of(name: str) -> Any:
    """Class by its name in a file, imported when needed."""
    if name in homes():
        return find_class(name)
    if name == "ScoreHistogram":
        return ScoreHistogram
    from calspline.operations.monitor import Monitor

    return Monitor


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a number that a double can hold")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Object without repeated keys, on which JSON readers would disagree."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{max(keys, key=keys.count)[:40]!r} is there twice")
    return found


def write_whole(path: Path, text: str) -> None:
    """Write a text file completely or not at all."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def atomic_path(
    path: Path, move: Callable[[Path, Path], object] = Path.replace
) -> Iterator[Path]:
    """Context with a temporary file that is moved to ``path`` at the end.

    The file is flushed to disk first. If ``path`` is a symbolic link, its target is
    replaced. The new file gets the permissions of the old one and, if allowed, its
    owner. Devices and pipes are written to directly.

    Temporary files for ``path`` of killed processes are removed first. Files that
    another process is writing are locked, and a lock ends with its process.
    """
    existing = _status(path)
    if existing is not None and stat.S_ISDIR(existing.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if existing is not None and _is_device(existing):
        with _copied_to(path) as copy:
            yield copy
        return
    target = Path(os.path.realpath(path))
    mode = 0o666 if existing is None else 0o600  # until it has those of the old file
    _remove_leftovers(target)
    part = _new_name(
        target
    )  # before the file is there, so that an interrupt finds what to remove
    held = None
    try:
        while (held := _create_locked(part, mode)) is None:
            part = _new_name(target)
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if existing is not None:
            _pass_on_permissions(existing, part)
        move(part, target)
    except OSError as error:
        if (
            error.filename2 is None
        ):  # a full disk names no file, and the temporary one would be confusing
            error.filename = str(path)
        raise
    finally:
        try:
            part.unlink(missing_ok=True)
        finally:  # an interrupt may come just before the first one
            part.unlink(missing_ok=True)
        if held is not None:
            os.close(held)


def _status(path: Path) -> os.stat_result | None:
    """Status of an existing file, following symbolic links; None if there is none."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_device(status: os.stat_result) -> bool:
    """Whether it is a device or a pipe."""
    return not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))


@contextmanager
def _copied_to(device: Path) -> Iterator[Path]:
    """Temporary file to write to, which is then copied to a device or a pipe."""
    with tempfile.TemporaryDirectory(prefix="calspline-") as folder:
        copy = Path(folder) / "output"
        yield copy
        with copy.open("rb") as source, device.open("wb") as sink:
            shutil.copyfileobj(source, sink)


def _pass_on_permissions(existing: os.stat_result, part: Path) -> None:
    """Give a file the owner, group and permissions of the one that it replaces.

    If it cannot have the group, its own group gets the permissions of all others.
    """
    mode = stat.S_IMODE(existing.st_mode)
    if sys.platform != "win32":
        with suppress(OSError):
            os.chown(part, -1, existing.st_gid)
        with suppress(OSError):
            os.chown(part, existing.st_uid, -1)
        if part.stat().st_gid != existing.st_gid:
            mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    with suppress(OSError):  # of a file that now is another's
        part.chmod(mode)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Context that holds the lock of a folder.

    There is none on Windows, and on file systems that have no locks.
    """
    if sys.platform == "win32":
        yield
        return
    with ExitStack() as stack:
        with suppress(OSError):
            held = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, held)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _new_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")


def _create_locked(part: Path, mode: int) -> int | None:
    """Create and lock a file; None if another process removed it before the lock."""
    held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    if sys.platform == "win32":  # a file that is open cannot be moved there
        os.close(held)
        return os.open(os.devnull, os.O_RDONLY)  # nothing to hold
    with suppress(
        OSError
    ):  # a file system without locks, where no leftovers are removed either
        fcntl.flock(held, fcntl.LOCK_EX)
    if os.fstat(held).st_nlink:
        return held
    os.close(held)
    return None


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files for ``path`` that killed processes left."""
    if sys.platform == "win32":
        return
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.part")
    with suppress(OSError):  # a folder that cannot be listed may still be written to
        for part in map(
            path.with_name, filter(ours.fullmatch, os.listdir(path.parent))
        ):
            with (
                suppress(OSError),
                open(os.open(part, os.O_RDWR | os.O_NOFOLLOW), "rb") as file,
            ):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
