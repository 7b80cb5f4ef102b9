"""How far a long fit has come, for a person who is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

T = TypeVar("T")


def watched(work: Iterable[T], total: int, what: str, *, show: bool, stream: TextIO | None = None) -> Iterator[T]:
    """Pass results on, and say how many are done and how long the rest will take.

    One line that is written over, on a terminal or in a notebook; nothing on a pipe or in a
    log, and nothing unless ``show``.
    """
    stream = sys.stderr if stream is None else stream
    if not (show and _seen_by_a_person(stream)):
        yield from work
        return
    start, width = time.monotonic(), 0
    try:
        for done, result in enumerate(work, 1):
            left = (time.monotonic() - start) / done * (total - done)
            line = f"{what}: {done} of {total}" + (f", about {_span(left)} left" if done < total else "")
            stream.write("\r" + line.ljust(width))
            stream.flush()
            width = len(line)
            yield result
    finally:
        stream.write("\n")
        stream.flush()


def _seen_by_a_person(stream: TextIO) -> bool:
    if stream.isatty():
        return True
    # A notebook's streams are no terminals, but are shown as they are written.
    return type(stream).__module__.partition(".")[0] == "ipykernel"


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
