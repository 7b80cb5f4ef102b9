"""Batches of scores and labels of any shape, as rows: pixels, tokens, or rows as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, as_numpy

Codes = NDArray[np.intp]


class Batch(NamedTuple):
    """Rows of scores with their labels and the number of the image (the sequence, the row) that each is of."""

    scores: NDArray[Any]
    labels: Codes
    image: Codes


def read_batches(batches: Iterable[Any], dim: int, ignore_index: int | None) -> Iterator[Batch]:
    """Check batches, pairs of scores and labels, and lay them out as rows; ``dim`` is that of the classes."""
    first, n_classes = 0, None
    for k, pair in enumerate(batches):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"batches must be pairs of scores and labels; batch {k} is {type(pair).__name__}")
        scores, labels = as_numpy(pair[0]), as_numpy(pair[1])
        if scores.ndim < 2 or not -scores.ndim <= dim < scores.ndim or dim % scores.ndim == 0:
            raise ValueError(f"dim must be a dimension of the scores after the first; batch {k} has {scores.shape}")
        m = scores.shape[dim]
        rows = np.moveaxis(scores, dim, -1)
        if labels.shape != rows.shape[:-1]:
            raise ValueError(f"labels of batch {k} must have the shape {rows.shape[:-1]}; got {labels.shape}")
        if n_classes not in (None, m):
            raise ValueError(f"scores of batch {k} must have {n_classes} classes along dim; got {m}")
        n_classes = m
        image = first + np.arange(len(rows)).repeat(int(np.prod(rows.shape[1:-1])))
        first += len(rows)
        rows, flat = rows.reshape(-1, m), labels.ravel()
        if ignore_index is not None:
            kept = flat != ignore_index
            rows, flat, image = rows[kept], flat[kept], image[kept]
        wrong = np.flatnonzero((flat != np.floor(flat)) | (flat < 0) | (flat >= m))
        if wrong.size:
            raise ValueError(
                f"labels of batch {k} must be whole numbers from 0 to {m - 1}, or ignore_index; one is {flat[wrong[0]]}"
            )
        yield Batch(rows, flat.astype(np.intp), image)


class Reservoir:
    """A random sample of at most so many rows: each draws a number, and those with the smallest are kept."""

    def __init__(self, most: int, seed: int) -> None:
        self.most, self.seen = most, 0
        self._rng = np.random.default_rng(seed)
        self._limit = np.inf
        self._parts: list[tuple[Array, Batch]] = []

    def add(self, batch: Batch) -> None:
        """Look at some more rows."""
        key = self._rng.random(len(batch.labels))
        self.seen += len(key)
        kept = key < self._limit
        self._parts.append((key[kept], Batch(*(each[kept] for each in batch))))
        if sum(len(each) for each, _ in self._parts) > 2 * self.most:
            self._settle()

    def _settle(self) -> tuple[Array, Batch]:
        key = np.concatenate([each for each, _ in self._parts])
        rows = Batch(*map(np.concatenate, zip(*(each for _, each in self._parts), strict=True)))
        if len(key) > self.most:
            self._limit = float(np.partition(key, self.most)[self.most])
            rows, key = Batch(*(each[key < self._limit] for each in rows)), key[key < self._limit]
        self._parts = [(key, rows)]
        return key, rows

    @property
    def rows(self) -> Batch:
        """The sample."""
        return self._settle()[1]
