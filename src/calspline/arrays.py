"""Arrays: sorted values with counts, blocks of rows, and what comes and goes as an array of another library.

The matrices here are small. On them BLAS threads cost more than they save, several times over on a busy machine, so
fits and predictions limit BLAS to one thread. Blocks of rows can be shared out over threads instead. They are the same
whatever the number of threads, and sums over them are made in their order: so results are the same to the last bit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
Block = TypeVar("Block")
Filled = TypeVar("Filled", bound=NDArray[Any])
Array = NDArray[np.float64]

CHUNK = 1 << 15
"""Rows of a column that stay in cache; of a matrix twice as many values do."""
MIN_THREADED_SIZE = 1 << 16
"""Number of values from which threads pay off."""
VARIABLE = "CALSPLINE_THREADS"
_threads: ContextVar[int | None] = ContextVar("threads", default=None)
MIN_SPAN = 1e-290
"""Values closer together than this are equal: a slope between them would overflow."""


def blocks(n: int, m: int, values: int | None = None) -> Iterator[slice]:
    """Slices of rows with about ``values`` values each, of a matrix of ``n`` rows and ``m`` columns."""
    step = max((2 * CHUNK if values is None else values) // m, 64)
    return (slice(i, min(i + step, n)) for i in range(0, n, step))


def chunks(n: int) -> Iterator[slice]:
    """Slices of the rows of a column."""
    return blocks(n, 2)


class Workspace:
    """Arrays to work in, one of each type, for blocks of rows of which the first is the largest.

    They are taken and put back, since fresh memory is slow.
    """

    def __init__(self, rows: list[slice], columns: int, *types: Any) -> None:
        self._shape, self._types = (rows[0].stop if rows else 0, columns), types
        self._spare: list[list[NDArray[Any]]] = []

    @contextmanager
    def taken(self, rows: slice) -> Iterator[list[Any]]:
        """The arrays, with as many rows as a block has."""
        try:
            arrays = self._spare.pop()
        except IndexError:  # as another thread may be quicker, there is no use in looking first
            arrays = [np.empty(self._shape, dtype=each) for each in self._types]
        yield [one[: rows.stop - rows.start] for one in arrays]
        self._spare.append(arrays)


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  it has a BLAS of its own, and only what is loaded is controlled
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread."""
    return cast(AbstractContextManager[Any], _controller().limit(limits=1, user_api="blas"))


def threads(n: int) -> AbstractContextManager[None]:
    """A context in which large arrays are shared out over ``n`` threads.

    Without it there is one. On two cores a second thread made fits and predictions of a million rows slower, since
    both wait for Python's lock, and only ``interval`` quicker: measure before you ask for more. The environment
    variable ``CALSPLINE_THREADS`` sets another number for a whole process. Results are the same to the last bit
    whatever the number.

    Parameters
    ----------
    n : int
        At least 1. It holds in the Python thread that enters the context.

    Examples
    --------
    >>> import numpy as np
    >>> import calspline
    >>> scores = np.random.default_rng(0).random(100_000)
    >>> happened = np.random.default_rng(1).random(100_000) < scores
    >>> with calspline.threads(1):
    ...     one = calspline.SplineCalibrator().fit(scores, happened).calibrate(scores)
    >>> with calspline.threads(2):
    ...     two = calspline.SplineCalibrator().fit(scores, happened).calibrate(scores)
    >>> bool((one == two).all())
    True
    """
    return _limited(_check_threads(n, "n"))


@contextmanager
def _limited(n: int) -> Iterator[None]:
    token = _threads.set(n)
    try:
        yield
    finally:
        _threads.reset(token)


def _check_threads(value: Any, name: str) -> int:
    if isinstance(value, bool) or not str(value).isdecimal() or int(value) < 1:
        raise ValueError(f"{name} must be a whole number of threads, at least 1; got {value!r}")
    return int(value)


def available() -> int:
    """Number of threads that blocks of rows may be shared out over; see :func:`threads`."""
    return _threads.get() or _check_threads(os.environ.get(VARIABLE) or 1, VARIABLE)


def map_blocks(function: Callable[[Block], T], blocks: Iterable[Block], size: int) -> Iterator[T]:
    """Apply ``function`` to every block, in order; in several threads if ``size``, the number of values, is large."""
    workers = available() if size >= MIN_THREADED_SIZE else 1
    return map(function, blocks) if workers == 1 else _threaded(function, blocks, workers)


def _threaded(function: Callable[[Block], T], blocks: Iterable[Block], workers: int) -> Iterator[T]:
    context, errors = copy_context(), np.geterr()  # which the context has since numpy 2
    context.run(_threads.set, 1)

    def apply(block: Block) -> T:
        with np.errstate(**errors):
            return function(block)

    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda block: context.copy().run(apply, block), blocks)


def added_up(part: Callable[[slice], list[Array]], rows: Iterable[slice], size: int) -> list[Array]:
    """The sums over all blocks of rows of what ``part`` gives for each."""
    totals: list[Array] = []
    for values in map_blocks(part, rows, size):
        totals = [a + b for a, b in zip(totals, values, strict=True)] if totals else values
    return totals


def filled(out: Filled, function: Callable[[slice], Any], columns: int | None = None) -> Filled:
    """``out`` with what ``function`` gives for each block of its rows, of ``columns`` values each if not its own."""
    n, m = len(out), columns or (out.shape[1] if out.ndim == 2 else 1)

    def fill(rows: slice) -> None:
        out[rows] = function(rows)

    for _ in map_blocks(fill, blocks(n, max(m, 2)), n * m):
        pass
    return out


@dataclass(frozen=True, eq=False)
class Counts:
    """Values ``x``, increasing, and the weight of positives and negatives at each.

    Whatever is fitted to one column of scores, or measured on it, is a function of this table, so rows are sorted once.
    """

    x: Array
    positives: Array
    negatives: Array
    squared: Array | None = None
    """Sums of the squared weights of independent units, where those are not rows of weight one."""

    @classmethod
    def from_rows(
        cls, x: Array, positive: NDArray[np.bool_], weight: Array | None = None, squared: Array | None = None
    ) -> Counts:
        """Count rows: their values, whether each is a positive, and their weights (one, if none are given)."""
        w = np.ones(len(x)) if weight is None else weight
        return Counts.from_sums(x, w * positive, w * ~positive, squared)

    @classmethod
    def from_sums(cls, x: Array, positives: Array, negatives: Array, squared: Array | None = None) -> Counts:
        """Sort values that carry weights already, and merge those that are equal."""
        order = np.argsort(x)
        counts = Counts(x, positives, negatives, squared).where(order)
        first = run_starts(counts.x)
        return counts.merged(first, counts.x[first]) if len(first) < len(x) else counts

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def w(self) -> Array:
        """Weight at each value."""
        return self.positives + self.negatives

    @cached_property
    def squares(self) -> Array:
        """What ``p (1 - p)`` is multiplied by in the variance of events at each value: the sum of squared weights."""
        return self.w if self.squared is None else self.squared

    @cached_property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.w.sum())

    @property
    def effective(self) -> Array:
        """Weight at each value as a number of rows that would say as much: in all, ``(sum w)^2 / sum w^2``."""
        return self.w * (self.total / float(self.squares.sum()))

    @property
    def base_rate(self) -> float:
        """Share of positives."""
        n1, n0 = float(self.positives.sum()), float(self.negatives.sum())
        return n1 / (n1 + n0)

    @property
    def mean(self) -> float:
        """Mean value."""
        return float(self.w @ self.x) / self.total

    @property
    def all_equal(self) -> bool:
        """Whether there is but one value."""
        return bool(self.x[-1] - self.x[0] <= MIN_SPAN)

    def where(self, at: NDArray[Any]) -> Counts:
        """Some of the values."""
        squared = None if self.squared is None else self.squared[at]
        return Counts(self.x[at], self.positives[at], self.negatives[at], squared)

    def equal_weight_bins(self, n_bins: int) -> NDArray[np.intp]:
        """The bin of each value when bins share the weight; equal values go where the middle of their weight lies."""
        middle = (np.cumsum(self.w) - 0.5 * self.w) / self.total
        return np.minimum((middle * n_bins).astype(np.intp), n_bins - 1)

    def coarsened(self, n_bins: int) -> Counts:
        """At most about ``n_bins`` values: beyond that, neighbours are merged in bins of equal weight."""
        return self if len(self) <= n_bins else self.merged(run_starts(self.equal_weight_bins(n_bins)))

    def merged(self, first: NDArray[np.intp], x: Array | None = None) -> Counts:
        """Runs of neighbours, which begin at the places ``first``, made one: at their mean, or at ``x``."""
        if x is None:
            x = np.add.reduceat(self.w * self.x, first) / np.add.reduceat(self.w, first)
            # A mean of equal numbers may round past its neighbours.
            x = np.clip(x, self.x[first], self.x[np.append(first[1:], len(self)) - 1])
        squared = None if self.squared is None else np.add.reduceat(self.squared, first)
        return Counts(x, np.add.reduceat(self.positives, first), np.add.reduceat(self.negatives, first), squared)


def run_starts(values: NDArray[np.generic]) -> NDArray[np.intp]:
    """Where runs of equal neighbours begin."""
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return np.flatnonzero(new)


def is_tensor(values: Any) -> bool:
    """Whether it is a tensor of PyTorch; only if that is loaded can it be."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def is_foreign(values: Any) -> bool:
    """Whether it is an array of another library."""
    return is_tensor(values) or (
        hasattr(values, "__array_namespace__") and not isinstance(values, (np.ndarray, np.generic))
    )


def as_numpy(values: Any) -> NDArray[Any]:
    """Anything as an array of numpy; a tensor without its gradient, from any device."""
    if is_tensor(values):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.dtype == sys.modules["torch"].bfloat16 else values)
    if not is_foreign(values):
        return np.asarray(values)
    if hasattr(values, "get"):  # CuPy
        return np.asarray(values.get())
    try:
        return np.asarray(values)
    except RuntimeError:  # it is on a device
        return np.asarray(np.from_dlpack(values))


def like(result: NDArray[Any], values: Any) -> Any:
    """An array as one like ``values``, on their device; probabilities in their type, labels if the library has them."""
    if result.dtype.kind not in "fiub":
        return result
    if is_tensor(values):
        torch = sys.modules["torch"]
        floating = values.dtype if values.is_floating_point() else torch.get_default_dtype()
        return torch.as_tensor(result, dtype=floating if result.dtype.kind == "f" else None, device=values.device)
    xp = values.__array_namespace__()
    if result.dtype.kind != "f":
        return xp.asarray(result, device=values.device)
    given = xp.isdtype(values.dtype, "real floating")
    dtype = values.dtype if given else xp.__array_namespace_info__().default_dtypes()["real floating"]
    return xp.asarray(result, dtype=dtype, device=values.device)


def keeps_kind(method: Method) -> Method:
    """A calibrator's method of scores that gives back the kind of array that it is given.

    Tensors of PyTorch do not leave it, so that gradients flow, unless the calibrator has no formula for them, or the
    scores are wrong: of that the method itself can tell.
    """

    @wraps(method)
    def of_any_kind(self: Any, scores: Any, **more: Any) -> Any:
        if not is_foreign(scores):
            return method(self, scores, **more)
        if is_tensor(scores) and method.__name__ != "predict":
            from calspline.export.torch import calibrated_tensor

            result = calibrated_tensor(self, scores, **more, all_classes=method.__name__ == "predict_proba")
            if result is not None:
                return result
        return like(method(self, as_numpy(scores), **more), scores)

    return cast(Method, of_any_kind)
