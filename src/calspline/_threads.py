"""Threads where they help, none where they hurt.

The matrices here are small. BLAS threads cost more on them than they save, several
times over on a busy machine, so fits and predictions hold BLAS to one thread and
share out blocks of rows instead, on which numpy lets go of the interpreter's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # comes with scikit-learn

T = TypeVar("T")

WORTHWHILE = 1 << 16
"""Values from which threads pay."""
MOST_THREADS = 8


@cache
def _controller() -> Any:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread."""
    return _controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


def available() -> int:
    """Cores that this process may use, eight at most."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


def shared_out(function: Callable[[slice], T], blocks: Iterable[slice], size: int) -> Iterator[T]:
    """``function`` of every block, in order; on all cores if there are ``size`` values enough."""
    threads = available()
    if size < WORTHWHILE or threads == 1:
        yield from map(function, blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(function, blocks)
