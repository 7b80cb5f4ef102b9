"""The ``calspline`` command. Nothing heavy is imported before it is needed.

``arguments.py`` declares the commands and their help, and each command is the function
of its name in ``fit.py``, ``apply.py`` or ``evaluate.py``. Files are relations of
DuckDB (``files.py``). ``data.py`` looks at the columns in one pass: of scores it makes
the summary that :func:`calspline._input.scores.decide_kind` decides on, as for arrays
and data frames, and looks for the first row that is wrong only to name it. It gives
rows as the ``LabelledRows`` that estimators fit, or as a relation for
:func:`~calspline.fit_frame`. Which column has the scores, and which label is which
class, is decided in ``columns.py``. Output goes through ``output.py``: messages,
progress, and files that are complete or not there at all.

To add an option, declare it in ``arguments.py`` and read it in the command. Whatever
the user can put right is an ``InputError`` with one line that says how.
"""

from __future__ import annotations

import functools
import gc
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from calspline.cli.arguments import parser
from calspline.cli.output import InputError, check_free, complain, note, temporary_files

OUR_FAULT = 1
BAD_INPUT = 2
STOPPED = 128


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code.

    It is 0, or 2 if something is wrong with the input: then one line on standard error
    says what to do, and no output is left behind.
    """
    stop = _Stop()
    try:
        if arguments is None:  # the process is ours
            _open_closed_streams()
            stop.listen()
        given = sys.argv[1:] if arguments is None else list(arguments)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(
                    errors="replace"
                )  # a ± that a terminal cannot show is no reason to fail
        code = _run_to_end(given, stop)
        if arguments is None and "narwhals" in sys.modules:
            _forget_types_of_duckdb()
        stop.cease()  # here, so that a signal in the last moment is still caught
    except KeyboardInterrupt:
        code = STOPPED + (stop.signal or signal.SIGINT)
    finally:
        stop.cease()
    return code


def _open_closed_streams() -> None:
    """Open the null device in the place of standard streams that are closed.

    Otherwise they are None, and the next file that is opened takes their number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _forget_types_of_duckdb() -> None:
    """Empty the caches of narwhals, of which one keeps types of DuckDB.

    DuckDB would write thirty lines about them at exit.
    """
    for one in gc.get_objects():
        if type(one) is functools._lru_cache_wrapper and str(one.__module__).startswith(
            "narwhals."
        ):
            one.cache_clear()
    gc.collect()


class _Stop:
    """Handler of signals that end the command, which keeps the one that came."""

    signal: int | None = None
    listening: tuple[int, ...] = ()

    def listen(self) -> None:
        """Turn Ctrl-C and a supervisor's signal into an interrupt that cleans up."""
        ignored = (
            signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        )  # a job in the background
        self.listening = (
            (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGINT)
        )
        for number in self.listening:
            signal.signal(number, self._raise)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._raise_again

    def ignore(self) -> None:
        """Ignore signals from now on, so that nothing interrupts the cleanup."""
        for number in self.listening:
            signal.signal(number, signal.SIG_IGN)

    def cease(self) -> None:
        """Restore the default handlers: a signal at shutdown needs no message."""
        for number in self.listening:
            signal.signal(number, signal.SIG_DFL)
        if self.listening:
            sys.unraisablehook = self._hook

    def _raise(self, number: int, _: Any) -> NoReturn:
        self.signal = number
        raise KeyboardInterrupt

    def _raise_again(self, lost: Any) -> None:
        """Send a signal once more if it came in a place that cannot raise."""
        if self.signal is not None and isinstance(lost.exc_value, KeyboardInterrupt):
            threading.Timer(0.01, os.kill, (os.getpid(), self.signal)).start()
        else:
            self._hook(lost)


def _run_to_end(given: list[str], stop: _Stop) -> int:
    """Run the command; the exit code."""
    try:
        with temporary_files:  # an interrupt may come just before the cleanup below
            try:
                _run(given)
                sys.stdout.flush()
            finally:
                stop.ignore()
                temporary_files.close()
    except Exception as error:
        if stop.signal is not None:  # DuckDB makes an error of its own of an interrupt
            return STOPPED + stop.signal
        if "--debug" in given:
            traceback.print_exc()
        return _complain(error)
    return 0


def _run(given: list[str]) -> None:
    options, unknown = parser().parse_known_args(given)
    if unknown:
        raise InputError(
            f"unrecognized arguments: {' '.join(unknown)}; see calspline "
            f"{options.command} --help"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_: note(str(message))
        if options.command == "demo":
            import_module("calspline.demo").main(options.folder)
            return
        if "output" in options:
            inputs = _inputs_to_keep(options)
            check_free(options.output, force=options.force, inputs=inputs)
        getattr(import_module(f"calspline.cli.{options.file}"), options.command)(
            options
        )


def _inputs_to_keep(options: Namespace) -> list[str]:
    """The files that an output must not replace; apply may add to its data."""
    data = [] if options.command == "apply" else getattr(options, "data", [])
    model = getattr(options, "model", None)
    return data if model is None else [*data, model]


def _complain(error: Exception) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has had enough; a second complaint at exit would only
        # puzzle.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if not isinstance(error, (InputError, ValueError, TypeError, OSError, MemoryError)):
        complain(
            f"a fault in calspline ({type(error).__name__}: {error}); --debug shows "
            "where"
        )
        return OUR_FAULT
    message = str(error)
    if isinstance(error, FileNotFoundError) and error.filename:
        message = f"there is no file {error.filename}"
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename or 'standard output'}: {error.strerror}"
    elif isinstance(error, MemoryError):
        message = (
            "not enough memory for these rows; fit --method spline on two classes "
            "needs little"
        )
    complain(message)
    return BAD_INPUT
