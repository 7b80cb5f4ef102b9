"""Arrays: their type, blocks of rows, and threads where they help.

The matrices here are small. On them BLAS threads cost more than they save, several times over on a busy machine, so
fits and predictions limit BLAS to one thread and share out blocks of rows instead, for which numpy releases the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # comes with scikit-learn

T = TypeVar("T")
Array = NDArray[np.float64]

CHUNK = 1 << 15
"""Rows per chunk of a column: small enough for the cache."""
VALUES_PER_BLOCK = 1 << 16
"""Values per block of rows of a matrix, for the same reason."""
MIN_THREADED_SIZE = 1 << 16
"""Number of values from which threads pay off."""
MAX_THREADS = 8


def chunks(n: int) -> Iterator[slice]:
    """Slices of a bounded number of rows, small enough to stay in cache."""
    for start in range(0, n, CHUNK):
        yield slice(start, min(start + CHUNK, n))


def blocks(n: int, m: int, values: int = VALUES_PER_BLOCK) -> Iterator[slice]:
    """Slices of rows with about ``values`` values each, of a matrix of ``n`` rows and ``m`` columns."""
    step = max(values // m, 64)
    return (slice(i, min(i + step, n)) for i in range(0, n, step))


@cache
def _controller() -> Any:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread."""
    return _controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


def available() -> int:
    """Number of cores that this process may use, at most eight."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_THREADS)


def map_blocks(function: Callable[[slice], T], blocks: Iterable[slice], size: int) -> Iterator[T]:
    """Apply ``function`` to every block, in order; on several cores if ``size``, the number of values, is large."""
    threads = available()
    if size < MIN_THREADED_SIZE or threads == 1:
        yield from map(function, blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(function, blocks)
