"""Arrays: sorted values with counts, blocks of rows, and what comes and goes as an array of another library.

The matrices here are small. On them BLAS threads cost more than they save, several
times over on a busy machine, so fits and predictions limit BLAS to one thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Filled = TypeVar("Filled", bound=NDArray[Any])
Array = NDArray[np.float64]

CHUNK = 1 << 15
"""Rows of a column that stay in cache; of a matrix twice as many values do."""
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

    Every block overwrites them, since fresh memory is slow.
    """

    def __init__(self, rows: list[slice], columns: int, *types: Any) -> None:
        shape = (rows[0].stop if rows else 0, columns)
        self._arrays = [np.empty(shape, dtype=each) for each in types]

    def views(self, rows: slice) -> list[Any]:
        """The arrays, with as many rows as a block has."""
        return [one[: rows.stop - rows.start] for one in self._arrays]


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  it has a BLAS of its own, and only what is loaded is controlled
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread."""
    return cast(
        "AbstractContextManager[Any]", _controller().limit(limits=1, user_api="blas")
    )


def added_up(
    part: Callable[[slice], list[Array]], rows: Iterable[slice]
) -> list[Array]:
    """The sums over all blocks of rows of what ``part`` gives for each."""
    totals: list[Array] = []
    for block in rows:
        values = part(block)
        totals = (
            [a + b for a, b in zip(totals, values, strict=True)] if totals else values
        )
    return totals


def filled(
    out: Filled, function: Callable[[slice], Any], columns: int | None = None
) -> Filled:
    """``out`` with what ``function`` gives for each block of its rows, of ``columns`` values each if not its own."""
    own = out.shape[1] if out.ndim == 2 else 1
    for rows in blocks(len(out), max(columns or own, 2)):
        out[rows] = function(rows)
    return out


@dataclass(frozen=True, eq=False)
class Counts:
    """Values ``x``, increasing, and the weight of positives and negatives at each.

    Whatever is fitted to one column of scores, or measured on it, is a function of this
    table, so rows are sorted once.
    """

    x: Array
    positives: Array
    negatives: Array
    squared: Array | None = None
    """Sums of the squared weights of independent units, where those are not rows of weight one."""

    @classmethod
    def from_rows(
        cls,
        x: Array,
        positive: NDArray[np.bool_],
        weight: Array | None = None,
        squared: Array | None = None,
    ) -> Counts:
        """Count rows: their values, whether each is a positive, and their weights (one, if none are given)."""
        w = np.ones(len(x)) if weight is None else weight
        return Counts.from_sums(x, w * positive, w * ~positive, squared)

    @classmethod
    def from_sums(
        cls, x: Array, positives: Array, negatives: Array, squared: Array | None = None
    ) -> Counts:
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
        return (
            self
            if len(self) <= n_bins
            else self.merged(run_starts(self.equal_weight_bins(n_bins)))
        )

    def merged(self, first: NDArray[np.intp], x: Array | None = None) -> Counts:
        """Runs of neighbours, which begin at the places ``first``, made one: at their mean, or at ``x``."""
        if x is None:
            x = np.add.reduceat(self.w * self.x, first) / np.add.reduceat(self.w, first)
            # A mean of equal numbers may round past its neighbours.
            x = np.clip(x, self.x[first], self.x[np.append(first[1:], len(self)) - 1])
        squared = None if self.squared is None else np.add.reduceat(self.squared, first)
        return Counts(
            x,
            np.add.reduceat(self.positives, first),
            np.add.reduceat(self.negatives, first),
            squared,
        )


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
        hasattr(values, "__array_namespace__")
        and not isinstance(values, (np.ndarray, np.generic))
    )


def is_masked(values: Any) -> bool:
    """Whether it is an array of numpy with values that are masked."""
    masked = sys.modules.get(
        "numpy.ma"
    )  # else there are none, and it takes time to import
    return (
        masked is not None
        and isinstance(values, masked.MaskedArray)
        and bool(masked.is_masked(values))
    )


def as_numpy(values: Any) -> NDArray[Any]:
    """Anything as an array of numpy; a tensor without its gradient, from any device."""
    if is_tensor(values):
        values = values.detach().cpu()
        return np.asarray(
            values.float() if values.dtype == sys.modules["torch"].bfloat16 else values
        )
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
        floating = (
            values.dtype if values.is_floating_point() else torch.get_default_dtype()
        )
        return torch.as_tensor(
            result,
            dtype=floating if result.dtype.kind == "f" else None,
            device=values.device,
        )
    xp = values.__array_namespace__()
    if result.dtype.kind != "f":
        return xp.asarray(result, device=values.device)
    given = xp.isdtype(values.dtype, "real floating")
    dtype = (
        values.dtype
        if given
        else xp.__array_namespace_info__().default_dtypes()["real floating"]
    )
    return xp.asarray(result, dtype=dtype, device=values.device)
