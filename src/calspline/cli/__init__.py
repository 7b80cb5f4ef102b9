"""The ``calspline`` command. Nothing heavy is imported before it is needed."""

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
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from calspline.calibrators import do_without_sklearn
from calspline.cli.arguments import parser
from calspline.cli.output import InputError, check_free, complain, note, temporary_files

OUR_FAULT = 1
BAD_INPUT = 2
STOPPED = 128


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code.

    It is 0, or 2 if something is wrong with the input: then one line on standard error says what to do, and no output
    is left behind.
    """
    stop = _Stop()
    try:
        if arguments is None:  # the process is ours
            stop.listen()
            do_without_sklearn()
        given = sys.argv[1:] if arguments is None else list(arguments)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a ± that a terminal cannot show is no reason to fail
        code = _run_to_end(given, stop)
        if arguments is None and "narwhals" in sys.modules:
            _forget_types_of_duckdb()
        stop.cease()  # here, so that a signal in the last moment is still caught
    except KeyboardInterrupt:
        code = STOPPED + (stop.signal or signal.SIGINT)
    finally:
        stop.cease()
    return code


def _forget_types_of_duckdb() -> None:
    """Empty the caches of narwhals: one keeps types of DuckDB, which writes thirty lines about them at exit."""
    for one in gc.get_objects():
        if type(one) is functools._lru_cache_wrapper and str(one.__module__).startswith("narwhals."):
            one.cache_clear()
    gc.collect()


class _Stop:
    """A handler of signals that want the command to end; it tells afterwards whether there was one."""

    signal: int | None = None
    listening: tuple[int, ...] = ()

    def listen(self) -> None:
        """Make Ctrl-C and a supervisor's signal an interrupt, so that everything is cleaned up."""
        ignored = signal.getsignal(signal.SIGINT) is not signal.default_int_handler  # a job in the background
        self.listening = (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGINT)
        for number in self.listening:
            signal.signal(number, self._raise)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._raise_again

    def cease(self) -> None:
        """Handle no more: all is cleaned up, and a signal while Python shuts down ends it without a message."""
        for number in self.listening:
            signal.signal(number, signal.SIG_DFL)
        if self.listening:
            sys.unraisablehook = self._hook

    def _raise(self, number: int, _: Any) -> NoReturn:
        self.signal = number
        raise KeyboardInterrupt

    def _raise_again(self, lost: Any) -> None:
        """Send a signal once more if it came in a place that cannot raise, as a callback of the import system."""
        if self.signal is not None and isinstance(lost.exc_value, KeyboardInterrupt):
            threading.Timer(0.01, os.kill, (os.getpid(), self.signal)).start()
        else:
            self._hook(lost)


def _run_to_end(given: list[str], stop: _Stop) -> int:
    """Run the command; the exit code."""
    try:
        with temporary_files:
            _run(given)
            sys.stdout.flush()
    except Exception as error:
        if stop.signal is not None:  # DuckDB makes an error of its own of an interrupt
            return STOPPED + stop.signal
        if "--debug" in given:
            traceback.print_exc()
        return _complain(error)
    return 0


def _run(given: list[str]) -> None:
    options = parser().parse_args(given)
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_: note(str(message))
        if options.command == "demo":
            import_module("calspline.demo").main(options.folder)
            return
        if "output" in options:
            check_free(options.output, force=options.force)
        getattr(import_module(f"calspline.cli.{options.file}"), options.command)(options)


def _complain(error: Exception) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has had enough; a second complaint at exit would only puzzle.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if not isinstance(error, (InputError, ValueError, TypeError, OSError, MemoryError)):
        complain(f"a fault in calspline ({type(error).__name__}: {error}); --debug shows where")
        return OUR_FAULT
    message = str(error)
    if isinstance(error, FileNotFoundError) and error.filename:
        message = f"there is no file {error.filename}"
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename or 'standard output'}: {error.strerror}"
    elif isinstance(error, MemoryError):
        message = "not enough memory for these rows; fit --method spline on two classes needs little"
    complain(message)
    return BAD_INPUT
