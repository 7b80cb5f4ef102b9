"""Sampling of rows from batches, such as pixels of images or tokens of sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, as_numpy
from calspline._input.options import check_integer, check_seed

Codes = NDArray[np.intp]


class BatchRows(NamedTuple):
    """Scores, labels and groups (images or sequences) of rows."""

    scores: NDArray[Any]
    labels: Codes
    groups: Codes

    def select(self, rows: NDArray[np.bool_]) -> BatchRows:
        """Select some of the rows."""
        return BatchRows(self.scores[rows], self.labels[rows], self.groups[rows])


def sample_batches(
    batches: Iterable[Any],
    *,
    dim: int = 1,
    ignore_index: int | None = None,
    max_rows: int = 100_000,
    random_state: Any = None,
) -> BatchRows:
    """Draw a random sample of rows from batches, without holding all of them in memory.

    Parameters
    ----------
    batches : iterable of (scores, labels)
        Scores of shape (N, C), (N, C, H, W) or similar, as arrays or tensors. Labels
        have the same shape without the classes and are integers from 0 to C - 1. Each
        element along the first dimension, an image or a sequence, is a group of
        dependent rows.
    dim : int, default=1
        Dimension of the classes.
    ignore_index : int, optional
        Label of rows to leave out.
    max_rows : int, default=100000
        Size of the sample. All rows are returned if there are fewer.
    random_state : int, RandomState or None, default=None
        Random state of the sample. None is a fixed seed.

    Returns
    -------
    scores : ndarray of shape (n, C)
        Scores of the sampled rows.
    labels : ndarray of shape (n,)
        Their labels.
    groups : ndarray of shape (n,)
        Their groups, for ``fit(scores, labels, groups=groups)``.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import SplineCalibrator, sample_batches
    >>> rng = np.random.default_rng(0)
    >>> def loader():
    ...     for _ in range(5):
    ...         logits = rng.normal(size=(4, 3, 16, 16))
    ...         labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    ...         labels[:, 0] = 255  # a border without labels
    ...         yield 2 * logits, labels
    >>> scores, y, groups = sample_batches(loader(), ignore_index=255, max_rows=2000)
    >>> scores.shape
    (2000, 3)
    >>> cal = SplineCalibrator().fit(scores, y, groups=groups)
    """
    size = check_integer(max_rows, "max_rows", least=2)
    reservoir = Reservoir(size, check_seed(random_state, "random_state"))
    for rows in read_batches(batches, dim, ignore_index):
        reservoir.add(rows)
    if not reservoir.n_seen:
        raise ValueError("batches must hold at least one row that is not ignored")
    return reservoir.sample()


def read_batches(
    batches: Iterable[Any], dim: int, ignore_index: int | None
) -> Iterator[BatchRows]:
    """Validate batches of scores and labels, and reshape each to rows."""
    n_groups = 0
    n_classes = None
    for k, pair in enumerate(batches):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            kind = type(pair).__name__
            raise ValueError(
                f"batches must be pairs of scores and labels; batch {k} is {kind}"
            )
        scores = as_numpy(pair[0])
        labels = as_numpy(pair[1])
        if (
            scores.ndim < 2
            or not -scores.ndim <= dim < scores.ndim
            or dim % scores.ndim == 0
        ):
            raise ValueError(
                f"dim must be a dimension of the scores after the first; batch {k} has "
                f"shape {scores.shape}"
            )
        m = scores.shape[dim]
        if n_classes not in (None, m):
            raise ValueError(
                f"scores of batch {k} must have {n_classes} classes along dim; got {m}"
            )
        n_classes = m
        table = np.moveaxis(scores, dim, -1)
        if labels.shape != table.shape[:-1]:
            raise ValueError(
                f"labels of batch {k} must have the shape {table.shape[:-1]}; got "
                f"{labels.shape}"
            )
        rows_per_group = int(np.prod(table.shape[1:-1]))
        groups = n_groups + np.arange(len(table)).repeat(rows_per_group)
        n_groups += len(table)
        rows = BatchRows(table.reshape(-1, m), labels.ravel(), groups)
        if ignore_index is not None:
            rows = rows.select(rows.labels != ignore_index)
        yield rows._replace(labels=_check_labels(rows.labels, m, k))


def _check_labels(labels: NDArray[Any], n_classes: int, batch: int) -> Codes:
    is_wrong = (labels != np.floor(labels)) | (labels < 0) | (labels >= n_classes)
    if is_wrong.any():
        raise ValueError(
            f"labels of batch {batch} must be integers from 0 to {n_classes - 1}, or "
            f"ignore_index; got {labels[is_wrong][0]}"
        )
    return labels.astype(np.intp)


class Reservoir:
    """Random sample of bounded size, by random keys of the rows."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.n_seen = 0
        self._rng = np.random.default_rng(seed)
        self._largest_key = np.inf
        self._keys: list[Array] = []
        self._rows: list[BatchRows] = []

    def add(self, rows: BatchRows) -> None:
        """Add rows."""
        keys = self._rng.random(len(rows.labels))
        self.n_seen += len(keys)
        is_candidate = keys < self._largest_key
        self._keys.append(keys[is_candidate])
        self._rows.append(rows.select(is_candidate))
        if self.n_held > 2 * self.size:
            self._drop_large_keys()

    @property
    def n_held(self) -> int:
        """Number of rows in memory, at most about twice the size of the sample."""
        return sum(len(keys) for keys in self._keys)

    def sample(self) -> BatchRows:
        """Rows with the smallest keys."""
        self._drop_large_keys()
        return self._rows[0]

    def _drop_large_keys(self) -> None:
        keys = np.concatenate(self._keys)
        rows = BatchRows(*map(np.concatenate, zip(*self._rows, strict=True)))
        if len(keys) > self.size:
            self._largest_key = float(np.partition(keys, self.size)[self.size])
        is_small = keys < self._largest_key
        self._keys = [keys[is_small]]
        self._rows = [rows.select(is_small)]
