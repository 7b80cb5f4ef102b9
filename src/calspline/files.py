"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def write_whole(path: Path, text: str) -> None:
    """Write beside ``path``, flush to disk, move into place; leave nothing behind on failure."""
    with atomic_path(path) as part:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A new file in the folder of ``path``, to be written and moved into place; else it is removed.

    A process that is killed cannot remove its own, so what such processes left of this ``path`` is removed first.
    A lock tells it from what another process is writing now: the lock goes when its process does.
    """
    _sweep(path)
    part, held = _locked_part(path)
    try:
        yield part
    except OSError as error:
        _name(error, path)
        raise
    finally:
        part.unlink(missing_ok=True)
        if held is not None:
            os.close(held)


def _locked_part(path: Path) -> tuple[Path, int | None]:
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            _name(error, path)
            raise
        if sys.platform == "win32":  # a file that is open cannot be moved there
            os.close(held)
            return part, None
        with suppress(OSError):  # a file system without locks, where nobody sweeps either
            fcntl.flock(held, fcntl.LOCK_EX)
        if os.fstat(held).st_nlink:
            return part, held
        os.close(held)  # swept by another process before it was locked


def _name(error: OSError, path: Path) -> None:
    """Have an error speak of the file that was wanted: a full disk names none, and the hidden one would puzzle."""
    if error.filename2 is None:
        error.filename = str(path)


def _sweep(path: Path) -> None:
    """Remove what killed processes left of ``path``."""
    if sys.platform == "win32":
        return
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.part")
    with suppress(OSError):  # a folder that cannot be listed may still be written to
        for name in filter(ours.fullmatch, os.listdir(path.parent)):
            with suppress(OSError):
                _remove_unlocked(path.with_name(name))


def _remove_unlocked(part: Path) -> None:
    seen = os.open(part, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(seen, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink()
    finally:
        os.close(seen)
