"""Output of a command: messages, colors, progress, and files written atomically."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TextIO

STDOUT = "-"
PATIENCE = 1.0
"""Seconds that work may take before a bar shows how far it is."""
PAUSE = 0.2
"""Seconds between two looks."""
temporary_files = ExitStack()
"""Removes, at the end of a command, the files that only it needs."""


class InputError(Exception):
    """Something that the user can put right; the message says what and how."""


def temporary_path(suffix: str) -> Path:
    """Create a file that is removed when the command ends, however it ends.

    Its removal is registered first, so an interrupt at any moment leaves nothing.
    """
    name = f"calspline-{secrets.token_hex(8)}{suffix}"
    path = Path(tempfile.gettempdir()) / name
    temporary_files.callback(path.unlink, missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return path


def missing_extra(package: str, extra: str) -> InputError:
    """A package that only some commands need is not installed."""
    return InputError(f"this command needs {package}: pip install 'calspline[{extra}]'")


def escape_control(text: str) -> str:
    """Text with unprintable characters escaped, which could control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def in_color(text: str, code: str, stream: TextIO) -> str:
    """Text in a color, if the stream is a terminal that supports colors."""
    wanted = (
        stream.isatty()
        and "NO_COLOR" not in os.environ
        and os.environ.get("TERM") != "dumb"
    )
    return f"\x1b[{code}m{text}\x1b[0m" if wanted else text


def complain(message: str, word: str = "calspline:", color: str = "1;31") -> None:
    """An error, in one line."""
    print(
        in_color(word, color, sys.stderr),
        escape_control(" ".join(message.split())),
        file=sys.stderr,
    )


def note(message: str) -> None:
    """Something worth knowing that is not the answer."""
    complain(message, "note:", "33")


def tell(text: str, options: Namespace) -> None:
    """Say what was written, unless standard output holds it."""
    if options.output != STDOUT:
        print(escape_control(text))


def heading(text: str, stream: TextIO) -> str:
    """A line to be seen first."""
    return in_color(escape_control(text), "1", stream)


@contextmanager
def progress(
    what: str, total: Callable[[], int | None], done: Callable[[int | None], int]
) -> Iterator[None]:
    """Show a progress bar if standard error is a terminal and work takes a second.

    The number of rows in all is asked for only if somebody watches; ``done`` gives
    those that are done, given that.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}")
    rows = TextColumn("{task.completed:,.0f} rows")
    bar = Progress(
        text, BarColumn(), TaskProgressColumn(), rows, TimeRemainingColumn(),
        console=Console(file=sys.stderr), transient=True, auto_refresh=False,
    )  # fmt: skip
    every = total()
    ended = Event()
    task = bar.add_task(what, total=every)

    def draw() -> None:
        pause = PATIENCE
        while not ended.wait(pause):
            bar.start()
            bar.update(task, completed=done(every), refresh=True)
            pause = PAUSE

    artist = Thread(target=draw, daemon=True)
    artist.start()
    try:
        yield
    finally:
        ended.set()
        artist.join()
        bar.stop()


def writing_failed(name: str, error: Exception) -> InputError:
    """What went wrong with an output, which is not there."""
    reason = (
        getattr(error, "strerror", None)
        or re.sub(r"^[\w ]+ Error: ", "", str(error)).split("\n")[0]
    )
    return InputError(f"cannot write {name}: {reason}; nothing was written")


def check_free(name: str, *, force: bool, inputs: Sequence[str] = ()) -> None:
    """Complain before any work if an output cannot be written where it is wanted."""
    path = Path(name)
    if name == STDOUT:
        return
    if path.is_dir():
        raise InputError(f"{name} is a folder; give the name of a file")
    if path.is_file() and not force:  # a device or a pipe is written to, not over
        raise InputError(
            f"{name} already exists; choose another name, or overwrite it with --force"
        )
    if any(
        path.is_file() and os.path.exists(one) and path.samefile(one) for one in inputs
    ):
        raise InputError(f"{name} is read by this command; choose another name for -o")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {name}: there is no folder {path.parent}")


@contextmanager
def whole(name: str, *, force: bool) -> Iterator[Path]:
    """A path to write to, moved into place or to standard output on success."""
    if name == STDOUT:
        path = temporary_path(".output")
        yield path
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    from calspline._persistence import atomic_path  # with numpy: not for --help

    try:
        with atomic_path(Path(name), Path.replace if force else _link) as part:
            yield part
    except OSError as error:
        raise writing_failed(name, error) from error


def _link(part: Path, target: Path) -> None:
    try:
        os.link(
            part, target
        )  # unlike a rename, it fails if somebody made the file meanwhile
    except FileExistsError:
        raise InputError(
            f"{target} has appeared meanwhile; write over it with --force"
        ) from None
    except OSError:
        part.replace(target)


def write_text(name: str, content: str | bytes, *, force: bool) -> None:
    """Write a small output."""
    data = content.encode() if isinstance(content, str) else content
    with whole(name, force=force) as path:
        path.write_bytes(data)
