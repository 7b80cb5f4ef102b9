"""Run a command again and again in processes of its own, each struck by a signal at a random moment.

    python struck.py SIGNAL ROUNDS TARGET fit|apply|report|... arguments
    python struck.py SIGNAL ROUNDS TARGET save MODEL MODEL

prints, for each round and as JSON, how the process ended, what it said, the hash of TARGET, and other files that are
left beside it and in the folder of temporary files. All rounds are forks of this process, which has imported what
is slow to import. Half of the rounds wait until the hidden file is there that becomes TARGET, and every other one of
these strikes at once; the rest strike at any time that a round takes, early ones more often, since the last part is
Python's end.
"""

import hashlib
import itertools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import duckdb  # noqa: F401
import pyarrow.dataset  # noqa: F401

import calspline
from calspline.cli import apply, evaluate, fit, main  # noqa: F401


def work(target, arguments):
    """What a round does."""
    if arguments[0] == "save":
        models = [calspline.load(path) for path in arguments[1:]]
        for model in itertools.cycle(models):
            calspline.save(model, target)
    sys.argv = ["calspline", *arguments]
    sys.exit(main())


def begin(said, target, arguments):
    """A fork that works; its errors go to a file."""
    child = os.fork()
    if child:
        return child
    for place, stream in ((os.open(os.devnull, os.O_WRONLY), 1), (os.open(said, os.O_WRONLY | os.O_TRUNC), 2)):
        os.dup2(place, stream)
    if "-" in arguments:
        os.dup2(os.open(os.environ["STDIN"], os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    return work(target, arguments)


def ended(child):
    """The exit code of a fork, or minus the signal that ended it; None while it runs."""
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def parts(target):
    """Hidden files that may become the target."""
    return [path.name for path in target.parent.iterdir() if path.name.endswith(".part")]


def strike(struck, rounds, target, arguments):
    """The rounds, one after the other."""
    said = target.parent.with_suffix(".said")
    said.touch()
    before = target.read_bytes() if target.exists() else None
    duration = 0.2
    if arguments[0] != "save":
        start = time.monotonic()
        os.waitpid(begin(said, target, arguments), 0)
        duration = time.monotonic() - start
    rng = random.Random()  # moments that differ from call to call
    for number in range(rounds):
        if before is None:
            target.unlink(missing_ok=True)
        else:
            target.write_bytes(before)
        known, code = set(parts(target)), None
        child = begin(said, target, arguments)
        if number % 2:
            while (code := ended(child)) is None and not set(parts(target)) - known:
                time.sleep(0.0005)
        if code is None:
            share = rng.uniform(0.0, 0.3) * (number % 4 > 1) if number % 2 else rng.random() ** 2
            time.sleep(duration * share)
            os.kill(child, struck)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        yield {
            "code": code,
            "said": said.read_text(),
            "target": hashlib.sha256(target.read_bytes()).hexdigest() if target.exists() else None,
            "parts": parts(target),
            "temporary": os.listdir(os.environ["TMPDIR"]),
        }


if __name__ == "__main__":
    print(json.dumps(list(strike(signal.Signals[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]))))
