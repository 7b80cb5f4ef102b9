"""Run commands and statements as forks of this process, which has imported what is slow to import.

Requests are lines of JSON on standard input, and each is answered by a line: how the
process ended, and what it said and left. Most ask for one run; a request with a signal
asks for rounds that are struck by it at random moments.
"""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import duckdb  # noqa: F401
import pyarrow.dataset  # noqa: F401

import calspline  # noqa: F401
from calspline import demo  # noqa: F401
from calspline.cli import apply, evaluate, fit, main  # noqa: F401


def begin(arguments, files, folder, environment, room=None):
    """A fork that works like ``python arguments``; ``files`` are those of its standard streams."""
    Path(files[2]).write_text(
        ""
    )  # here, since the fork may be struck before it does anything
    child = os.fork()
    if child:
        return child
    for stream, path in enumerate(files):
        os.dup2(
            os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if stream else os.O_RDONLY
            ),
            stream,
        )
    os.environ.update(environment)
    tempfile.tempdir = None
    os.chdir(folder)
    if room is not None:
        sys.dont_write_bytecode = True  # it would be written in part
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    option, program, *rest = arguments
    sys.argv = [option if option == "-c" else program, *rest]
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # as Python has it when it starts a program
    if option == "-c":
        exec(program, {"__name__": "__main__"})
        sys.exit()
    sys.exit(main())


def run(arguments, files, folder, environment, small=None, room=None):
    """One run; on a small disk its folder is emptied before and copied to ``folder`` after."""
    if small is not None:
        for path in Path(small).iterdir():
            path.unlink()
        Path(small, "old").write_text("old")
    child = begin(arguments, files, small or folder, environment, room)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if small is not None:
        shutil.copytree(small, folder, dirs_exist_ok=True)
    return {"returncode": code, "stderr": Path(files[2]).read_text()}


def ended(child):
    """The exit code of a fork, or minus the signal that ended it; None while it runs."""
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def parts(target):
    """Hidden files that may become the target."""
    return [
        path.name for path in target.parent.iterdir() if path.name.endswith(".part")
    ]


def strike(struck, rounds, target, duration, **more):
    """The rounds, one after the other, each as long as ``duration`` or as a round before that is not struck.

    Half of them wait until the hidden file is there that becomes the target, and every
    other one of these strikes at once; the rest strike at any time that a round takes,
    early ones more often, since the last part is Python's end.
    """
    target, temporary, found = Path(target), more["environment"]["TMPDIR"], []
    before = target.read_bytes() if target.exists() else None
    if duration is None:
        start = time.monotonic()
        os.waitpid(begin(**more), 0)
        duration = time.monotonic() - start
    rng = random.Random()  # moments that differ from call to call
    for number in range(rounds):
        if before is None:
            target.unlink(missing_ok=True)
        else:
            target.write_bytes(before)
        known, code = set(parts(target)), None
        child = begin(**more)
        if number % 2:
            while (code := ended(child)) is None and not set(parts(target)) - known:
                time.sleep(0.0005)
        if code is None:
            share = (
                rng.uniform(0.0, 0.3) * (number % 4 > 1)
                if number % 2
                else rng.random() ** 2
            )
            time.sleep(duration * share)
            os.kill(child, signal.Signals[struck])
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found.append(
            {
                "code": code,
                "said": Path(more["files"][2]).read_text(),
                "target": hashlib.sha256(target.read_bytes()).hexdigest()
                if target.exists()
                else None,
                "parts": parts(target),
                "temporary": os.listdir(temporary),
            }
        )
    return found


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # a fork that is struck before its program begins says nothing
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        print(
            json.dumps(strike(**request) if "struck" in request else run(**request)),
            file=answers,
            flush=True,
        )
