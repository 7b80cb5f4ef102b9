"""Arrays: sorted values with counts, blocks of rows, and other array libraries.

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
"""Number of rows of a column that fit into the cache; for a matrix, half as many
values."""
MIN_SPAN = 1e-290
"""Values closer together than this count as equal, since a slope between them would
overflow."""


def blocks(n: int, m: int, values: int | None = None) -> Iterator[slice]:
    """Slices of the rows of an (n, m) matrix, with about ``values`` values each."""
    step = max((2 * CHUNK if values is None else values) // m, 64)
    return (slice(i, min(i + step, n)) for i in range(0, n, step))


def chunks(n: int) -> Iterator[slice]:
    """Slices of the rows of a column."""
    return blocks(n, 2)


class Workspace:
    """Reusable arrays, one of each type, for blocks of rows.

    The first block must be the largest.

    Every block overwrites them, since fresh memory is slow.
    """

    def __init__(self, rows: list[slice], columns: int, *types: Any) -> None:
        shape = (rows[0].stop if rows else 0, columns)
        self._arrays = [np.empty(shape, dtype=each) for each in types]

    def views(self, rows: slice) -> list[Any]:
        """Views of the arrays with as many rows as a block."""
        return [one[: rows.stop - rows.start] for one in self._arrays]


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  it has a BLAS of its own, and only what is loaded is controlled
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Context in which BLAS uses a single thread."""
    return cast(
        "AbstractContextManager[Any]", _controller().limit(limits=1, user_api="blas")
    )


def added_up(
    part: Callable[[slice], list[Array]], rows: Iterable[slice]
) -> list[Array]:
    """Sum of the results of ``part`` over all blocks of rows."""
    totals: list[Array] = []
    for block in rows:
        values = part(block)
        if totals:
            totals = [a + b for a, b in zip(totals, values, strict=True)]
        else:
            totals = values
    return totals


def filled(
    out: Filled, function: Callable[[slice], Any], columns: int | None = None
) -> Filled:
    """Fill ``out`` with the results of ``function`` for blocks of rows.

    ``columns`` is the number of values per row, by default that of ``out``.
    """
    own = out.shape[1] if out.ndim == 2 else 1
    for rows in blocks(len(out), max(columns or own, 2)):
        out[rows] = function(rows)
    return out


@dataclass(frozen=True, eq=False)
class Counts:
    """Increasing values ``x``, with the weight of positives and negatives at each.

    Whatever is fitted to one column of scores, or measured on it, is a function of this
    table, so rows are sorted once.
    """

    x: Array
    positives: Array
    negatives: Array
    squared: Array | None = None
    """Sums of the squared weights of independent units, unless these are rows of weight
    one."""

    @classmethod
    def from_rows(
        cls,
        x: Array,
        positive: NDArray[np.bool_],
        weight: Array | None = None,
        squared: Array | None = None,
    ) -> Counts:
        """Count rows by value and label, with their weights (by default one)."""
        if weight is None and squared is None and len(x) and x.min() >= 0.0:
            return Counts.from_labels(x, positive)
        w = np.ones(len(x)) if weight is None else weight
        return Counts.from_sums(x, w * positive, w * ~positive, squared)

    @classmethod
    def from_labels(cls, x: Array, positive: NDArray[np.bool_]) -> Counts:
        """Count rows of weight one whose values are not negative.

        The bits of such values sort as integers do, so the label can be the last bit of
        what is sorted.
        """
        keys = (x + 0.0).view(np.uint64) << np.uint64(1)
        keys |= positive
        keys.sort()
        x = (keys >> np.uint64(1)).view(np.float64)
        first = run_starts(x)
        if len(first) == len(x):
            labels = (keys & np.uint64(1)).astype(np.float64)
            return Counts(x, labels, 1.0 - labels)
        positives = np.add.reduceat(keys & np.uint64(1), first).astype(np.float64)
        rows = np.diff(first, append=len(x))
        return Counts(x[first], positives, rows - positives)

    @classmethod
    def from_sums(
        cls, x: Array, positives: Array, negatives: Array, squared: Array | None = None
    ) -> Counts:
        """Sort values that already carry weights, and merge equal ones."""
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
        """Sum of squared weights at each value: a factor in variances."""
        return self.w if self.squared is None else self.squared

    @cached_property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.w.sum())

    @property
    def effective(self) -> Array:
        """Effective sample size at each value; in total, ``(sum w)^2 / sum w^2``."""
        return self.w * (self.total / float(self.squares.sum()))

    @property
    def base_rate(self) -> float:
        """Share of positives."""
        return share_of_positives(self.positives, self.negatives)

    @property
    def mean(self) -> float:
        """Mean value."""
        return float(self.w @ self.x) / self.total

    @property
    def all_equal(self) -> bool:
        """Whether there is only one distinct value."""
        return bool(self.x[-1] - self.x[0] <= MIN_SPAN)

    def where(self, at: NDArray[Any] | slice) -> Counts:
        """Select some of the values."""
        squared = None if self.squared is None else self.squared[at]
        return Counts(self.x[at], self.positives[at], self.negatives[at], squared)

    def equal_weight_bins(self, n_bins: int) -> NDArray[np.intp]:
        """Index of the bin of each value; bins have equal weight."""
        return np.minimum((self._middle * n_bins).astype(np.intp), n_bins - 1)

    @cached_property
    def _middle(self) -> Array:
        """The share of the weight below the middle of each value's own."""
        return np.asarray((np.cumsum(self.w) - 0.5 * self.w) / self.total)

    def bin_starts(self, n_bins: int) -> NDArray[np.intp]:
        """Where bins of equal weight begin; those without a value are left out."""
        first = np.searchsorted(self._middle * n_bins, np.arange(n_bins))
        first = first[first < len(self)]
        return first[run_starts(first)]

    def coarsened(self, n_bins: int) -> Counts:
        """Merge neighbors in about ``n_bins`` bins of equal weight, if necessary."""
        return self if len(self) <= n_bins else self.merged(self.bin_starts(n_bins))

    def merged(self, first: NDArray[np.intp], x: Array | None = None) -> Counts:
        """Merge runs of neighbors, which start at the indices ``first``."""
        if x is None:
            x = np.add.reduceat(self.w * self.x, first) / np.add.reduceat(self.w, first)
            # A mean of equal numbers may round past its neighbors.
            x = np.clip(x, self.x[first], self.x[np.append(first[1:], len(self)) - 1])
        squared = None if self.squared is None else np.add.reduceat(self.squared, first)
        return Counts(
            x,
            np.add.reduceat(self.positives, first),
            np.add.reduceat(self.negatives, first),
            squared,
        )


def run_starts(values: NDArray[np.generic]) -> NDArray[np.intp]:
    """Indices at which runs of equal neighbors start."""
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return np.flatnonzero(new)


def is_tensor(values: Any) -> bool:
    """Whether it is a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def is_foreign(values: Any) -> bool:
    """Whether it is an array of another library."""
    return is_tensor(values) or (
        hasattr(values, "__array_namespace__")
        and not isinstance(values, (np.ndarray, np.generic))
    )


def is_masked(values: Any) -> bool:
    """Whether it is a NumPy array with masked values."""
    masked = sys.modules.get(
        "numpy.ma"
    )  # else there are none, and it takes time to import
    return (
        masked is not None
        and isinstance(values, masked.MaskedArray)
        and bool(masked.is_masked(values))
    )


def as_numpy(values: Any) -> NDArray[Any]:
    """Convert to a NumPy array; tensors are detached and copied from their device."""
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
    """Convert an array to the library and device of ``values``.

    Probabilities get the type of ``values``; labels remain NumPy arrays if the library
    does not support them.
    """
    if result.dtype.kind not in "fiub":
        return result
    if is_tensor(values):
        torch = sys.modules["torch"]
        if values.is_floating_point():
            floating = values.dtype
        else:
            floating = torch.get_default_dtype()
        return torch.as_tensor(
            result,
            dtype=floating if result.dtype.kind == "f" else None,
            device=values.device,
        )
    xp = values.__array_namespace__()
    if result.dtype.kind != "f":
        return xp.asarray(result, device=values.device)
    given = xp.isdtype(values.dtype, "real floating")
    if given:
        dtype = values.dtype
    else:
        dtype = xp.__array_namespace_info__().default_dtypes()["real floating"]
    return xp.asarray(result, dtype=dtype, device=values.device)


LARGEST_RATE = 1.0 - 2.0**-53


def share_of_positives(positives: Array, negatives: Array) -> float:
    """Their share of the weight, which is not 1 if there are negatives."""
    n1 = float(positives.sum())
    n0 = float(negatives.sum())
    rate = n1 / (n1 + n0)
    return min(rate, LARGEST_RATE) if n0 > 0.0 else rate
