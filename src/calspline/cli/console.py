"""What is said to the person: messages, colours, progress. Nothing of it goes into a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

PATIENCE = 1.0
WIDTH = 24


def in_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that wants colours."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def escape_control(text: str) -> str:
    """Text in which a name from a file cannot command the terminal: what does not print is written as Python would."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def painted(text: str, code: str, stream: TextIO) -> str:
    """Text in a colour, where there are colours."""
    return f"\x1b[{code}m{text}\x1b[0m" if in_colour(stream) else text


def complain(message: str) -> None:
    """An error, in one line."""
    print(f"{painted('calspline:', '1;31', sys.stderr)} {escape_control(' '.join(message.split()))}", file=sys.stderr)


def note(message: str) -> None:
    """Something worth knowing that is no answer."""
    print(f"{painted('note:', '33', sys.stderr)} {escape_control(' '.join(message.split()))}", file=sys.stderr)


def heading(text: str, stream: TextIO) -> str:
    """A line to be seen first."""
    return painted(escape_control(text), "1", stream)


class Progress:
    """One line on a terminal, once work has taken a second: rows done, and the time left."""

    def __init__(self, what: str, total: int | None, stream: TextIO) -> None:
        self._what, self._total, self._stream = what, total, stream
        self._start = self._last = time.monotonic()
        self._done, self._shown = 0, False

    def add(self, rows: int) -> None:
        """Count rows; redraw a few times a second."""
        self._done += rows
        now = time.monotonic()
        if now - self._start < PATIENCE or now - self._last < 0.2:
            return
        self._last, self._shown = now, True
        self._stream.write(f"\r\x1b[K{self._line(now - self._start)}")
        self._stream.flush()

    def _line(self, seconds: float) -> str:
        rate = self._done / seconds
        if not self._total:
            return f"{self._what} {self._done:,} rows, {rate:,.0f} a second"
        share = min(1.0, self._done / self._total)
        bar = ("█" * round(share * WIDTH)).ljust(WIDTH, "░")
        left = max(0.0, self._total - self._done) / rate
        return f"{self._what} {bar} {100 * share:3.0f}%  {self._done:,} rows, {_duration(left)} left"

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 90 else f"{whole // 60}:{whole % 60:02d} min"


class Silence:
    """No progress, because nobody watches."""

    def add(self, rows: int) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


@contextmanager
def progress(what: str, source: Any) -> Iterator[Progress | Silence]:
    """Progress over the rows of a source, if standard error is a terminal."""
    watched = sys.stderr.isatty()
    shown = Progress(what, source.about(), sys.stderr) if watched else Silence()
    try:
        yield shown
    finally:
        shown.end()
