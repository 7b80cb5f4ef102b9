"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


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
        for name in filter(ours.fullmatch, os.listdir(path.parent)):
            with suppress(OSError):
                _remove_unlocked(path.with_name(name))


def _remove_unlocked(part: Path) -> None:
    file = os.open(part, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink()
    finally:
        os.close(file)
