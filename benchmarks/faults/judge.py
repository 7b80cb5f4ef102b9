"""What came back of a probe: right, a clear error, an unclear one, or silently wrong."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Word = Literal["right", "clear", "unclear", "wrong"]
Array = NDArray[np.float64]

PATIENCE = 60
SAME = 1e-6


@dataclass(frozen=True)
class Verdict:
    """A word, and what was seen."""

    word: Word
    seen: str


class TooLongError(Exception):
    """No answer in time."""


@contextmanager
def in_time() -> Iterator[None]:
    """Stop what takes too long, with its warnings unheard."""

    def stop(*_: Any) -> None:
        raise TooLongError(f"no answer in {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def proper(p: Any) -> bool:
    """Whether these are probabilities."""
    array = np.asarray(p)
    return bool(
        array.dtype.kind == "f"
        and np.all(np.isfinite(array))
        and np.all((array >= 0.0) & (array <= 1.0))
    )


def refuses(
    action: Callable[[], Any],
    words: str,
    fine: Callable[[Any], bool] = lambda _: False,
) -> Verdict:
    """An error is asked for; an answer is right only if it is ``fine``."""
    try:
        with in_time():
            answer = action()
            good = fine(answer)
    except Exception as error:
        return blamed(error, words)
    return Verdict("right" if good else "wrong", _shown(answer))


def answers(
    action: Callable[[], Any], fine: Callable[[Any], bool], words: str = ""
) -> Verdict:
    """An answer is asked for; an error is a refusal, clear if it names the problem."""
    try:
        with in_time():
            answer = action()
            good = fine(answer)
    except Exception as error:
        return blamed(error, words or "$.")
    return Verdict("right" if good else "wrong", _shown(answer))


def warns(action: Callable[[], Any], words: str) -> Verdict:
    """A proper answer is asked for, and a warning that names the problem; without one it is silently wrong."""
    heard: list[warnings.WarningMessage] = []

    def listened() -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = action()
        heard.extend(caught)
        return answer

    found = answers(listened, proper, words)
    named = any(
        re.search(words, str(warning.message), flags=re.IGNORECASE) for warning in heard
    )
    return (
        Verdict("wrong", f"no warning; {found.seen}")
        if found.word == "right" and not named
        else found
    )


def blamed(error: Exception, words: str) -> Verdict:
    """An error is clear if it says what is the matter, whatever its kind; a look-up that failed inside never does."""
    text = str(error)
    lost = isinstance(error, (LookupError, TooLongError)) or "has no attribute" in text
    clear = not lost and re.search(words, text, flags=re.IGNORECASE) is not None
    return Verdict(
        "clear" if clear else "unclear",
        f"{type(error).__name__}: {' '.join(text.split())[:100]}",
    )


def close(p: Any, expected: Any, tolerance: float = SAME) -> bool:
    """Whether two answers agree."""
    return np.shape(p) == np.shape(expected) and bool(
        np.all(
            np.abs(np.asarray(p, dtype=float) - np.asarray(expected, dtype=float))
            <= tolerance
        )
    )


def _shown(answer: Any) -> str:
    array = np.asarray(answer)
    if array.dtype.kind not in "fiub" or array.size == 0:
        return f"{array.dtype} of shape {array.shape}"
    if array.dtype.kind == "f" and np.isnan(array).any():
        return f"{np.isnan(array).sum()} of {array.size} are NaN"
    return f"from {array.min():.3g} to {array.max():.3g}"
