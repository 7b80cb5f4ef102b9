"""Spline fits that do not hold all rows: chunk by chunk, from histograms, and from batches of any shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, as_numpy, one_blas_thread
from calspline.binary_fit import Recipe, matrix_kind, recipe_kind
from calspline.calibrators.fitted_spline import FittedSpline
from calspline.histogram import ScoreHistogram
from calspline.labels import check_binary_labels, check_two_classes, label_array, warn_if_reversed
from calspline.multiclass.one_vs_rest import fit_histograms
from calspline.options import check_integer, check_number
from calspline.scores import (
    MatrixKind,
    check_binary_scores,
    check_matrix_scores,
    check_rows,
    check_scores,
    check_weights,
    check_weights_as_counts,
)
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import check_by

Codes = NDArray[np.intp]
ROUNDING = 1e-9
"""Of a sum of weights."""


class IncrementalSpline(FittedSpline):
    """Fits that see rows in parts; :class:`~calspline.SplineCalibrator` has the options and the fit itself."""

    def partial_fit(
        self,
        scores: Any,
        y: Any,
        sample_weight: Any = None,
        classes: Any = None,
        *,
        n_effective: float | None = None,
        by: Any = None,
    ) -> Self:
        """Add rows to those seen so far and refit, in time that does not grow with them.

        The result is that of one :meth:`fit` on all rows, whatever the chunks. Until
        both classes have been seen there is no curve yet.

        Parameters
        ----------
        scores, y, sample_weight
            As for :meth:`fit`.
        classes : array-like of two labels, optional
            All labels, in the order wanted for ``classes_``. Needed in the first call
            if its rows show only one.
        n_effective : float, optional
            How many independent rows those of this call are worth, if they depend on each other. Histograms do not
            know groups; the numbers of all calls add up. None: all of them.
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row, as for :meth:`fit`; in every call or in none.
        """
        recipe = self.recipe()
        if self.shift_ is not None:
            raise ValueError("this calibrator was shifted; update the one that it came from, and shift that again")
        seen = getattr(self, "histogram_", None)
        if seen is None and len(getattr(self, "classes_", ())) > 2:
            raise ValueError("partial_fit is for two classes; this calibrator was fitted to more")
        if seen is None and hasattr(self, "curves_"):
            raise ValueError("this calibrator was loaded from a file, without the rows it was fitted on; fit a new one")
        if self.weights == "importance" and sample_weight is not None:
            raise ValueError('weights must be "frequency" for partial_fit: the ratio to weights to come is not known')
        given = check_scores(scores)
        weight = check_weights(sample_weight, len(given), some=False)
        if weight is not None:
            check_weights_as_counts(weight)
        known = getattr(self, "classes_", None)
        if classes is not None:
            wanted = check_two_classes(classes)
            if known is not None and not np.array_equal(wanted, known):
                raise ValueError(f"classes must stay {known.tolist()}; got {wanted.tolist()}")
            known = wanted
        known, positive = check_binary_labels(y, len(given), known)
        kind = recipe_kind(recipe.transform) or (seen.kind if seen is not None else None)
        difference = getattr(self, "difference_", None)
        checked = check_binary_scores(given.in_class_order(known), kind=kind, difference=difference)
        histogram = ScoreHistogram.collect(checked, positive, weight)
        worth = _check_worth(n_effective, histogram)
        counts, earlier = None, getattr(self, "segment_histograms_", None)
        if seen is not None and (by is None) != (earlier is None):
            raise ValueError("by must be given in every call of partial_fit, or in none")
        if by is not None:
            counts = SegmentHistograms.collect(histogram, checked, positive, weight, check_by(by, len(checked)))
            counts = counts if earlier is None else earlier + counts
        if seen is not None:
            histogram, worth = seen + histogram, worth + self.n_effective_
        return self._fit_sums(histogram, counts, worth, recipe, known, bool(checked.difference or difference))

    def _fit_sums(
        self,
        histogram: ScoreHistogram,
        counts: SegmentHistograms | None,
        worth: float,
        recipe: Recipe,
        classes: NDArray[Any],
        difference: bool = False,
    ) -> Self:
        """Fit a histogram that is worth this many rows."""
        self._fit_histogram(histogram, replace(recipe, design_effect=max(histogram.total / worth, 1.0)), None, counts)
        self.n_effective_ = worth
        kind, reference = recipe_kind(recipe.transform) or histogram.kind, None
        if hasattr(self, "curves_"):  # else one class has been seen yet
            warn_if_reversed(histogram.counts, classes, self.design_effect_)
            reference = self._reference()
        return self._remember(classes, kind, histogram.inside, reference, difference=difference)

    def fit_histogram(
        self, histogram: ScoreHistogram | Mapping[Any, ScoreHistogram], *, n_effective: float | None = None
    ) -> Self:
        """Fit from sufficient statistics alone; the classes are those of the histogram, or 0 and 1.

        Parameters
        ----------
        histogram : ScoreHistogram or mapping
            A mapping from segments to their histograms is a fit with ``by``;
            :meth:`ScoreHistogram.from_scores` makes one. Keys that are tuples are the labels of several columns.
        n_effective : float, optional
            How many independent rows it is worth, if its rows depend on each other; a histogram does not know groups.
            None: all of them. Needed with ``weights="importance"``, as a histogram has sums of weights only.

        Examples
        --------
        >>> from calspline import ScoreHistogram, SplineCalibrator
        >>> counts = ScoreHistogram.from_counts([0.2, 0.5, 0.8], positives=[5, 30, 60], totals=[100, 100, 100])
        >>> SplineCalibrator().fit_histogram(counts).calibrate([0.5]).round(1)
        array([0.3])
        """
        recipe = self.recipe()
        counts = None
        if isinstance(histogram, Mapping):
            counts = SegmentHistograms.of(histogram)
            histogram = counts.pooled
        if not isinstance(histogram, ScoreHistogram):
            raise TypeError(f"histogram must be a ScoreHistogram; got {type(histogram).__name__}")
        if recipe_kind(recipe.transform) == "probability" and histogram.kind == "margin":
            raise ValueError('histogram holds margins; to calibrate them use transform="identity"')
        if not (histogram.positives.any() and histogram.negatives.any()):
            raise ValueError("histogram must hold both classes")
        if self.weights == "importance" and n_effective is None:
            raise ValueError(
                'n_effective must be given with weights="importance": a histogram has sums of weights, and they do not '
                "say how many rows these are worth"
            )
        classes = label_array([0, 1] if histogram.classes is None else list(histogram.classes))
        return self._fit_sums(histogram, counts, _check_worth(n_effective, histogram), recipe, classes)

    def fit_batches(
        self, batches: Iterable[Any], *, dim: int = 1, ignore_index: int | None = None, max_rows: int = 100_000
    ) -> Self:
        """Fit from batches of scores and labels of any shape, such as pixels or tokens, without holding them all.

        Parameters
        ----------
        batches : iterable of (scores, labels)
            Scores of shape (N, C), (N, C, H, W) or the like, arrays or tensors; labels, of the same shape without the
            classes, are whole numbers from 0 to C - 1. What lies along the first dimension, an image or a sequence,
            is a group whose rows depend on each other.
        dim : int, default=1
            The dimension of the classes.
        ignore_index : int, optional
            A label of rows that do not count.
        max_rows : int, default=100000
            The fit sees a random sample of so many rows, drawn from ``random_state``. With ``multiclass="ovr"`` or
            ``"top"`` and three or more classes it sees histograms of all rows; the sample then says how far rows depend
            on each other.

        Returns
        -------
        self
            ``rows_seen_`` and ``rows_kept_`` say how many rows there were, and how many are in the sample.

        Examples
        --------
        >>> import numpy as np
        >>> from calspline import SplineCalibrator
        >>> rng = np.random.default_rng(0)
        >>> def loader():
        ...     for _ in range(5):
        ...         logits = rng.normal(size=(4, 3, 16, 16))
        ...         labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        ...         labels[:, 0] = 255  # a border without labels
        ...         yield 2 * logits, labels
        >>> cal = SplineCalibrator().fit_batches(loader(), ignore_index=255, max_rows=2000)
        >>> cal.rows_seen_, cal.rows_kept_
        (4800, 2000)
        """
        recipe = self.recipe()
        kind: MatrixKind = matrix_kind(recipe.transform)
        sample = Reservoir(check_integer(max_rows, "max_rows", least=2), recipe.seed)
        histograms: list[ScoreHistogram] | None = None
        alone = True  # no image has two rows
        for batch in read_batches(batches, dim, ignore_index):
            sample.add(batch)
            alone &= bool(np.diff(batch.image).all())
            if self.multiclass != "structured" and batch.scores.shape[1] > 2 and len(batch.labels):
                matrix = check_matrix_scores(check_scores(batch.scores), kind=kind, advice=self._fit_advice)
                kind, columns = matrix.kind, self._columns(matrix, top=self.multiclass == "top")
                recipe = columns.recipe(recipe)
                codes = columns.codes(batch.labels)
                found = [ScoreHistogram.collect(column, codes == j, None) for j, column in enumerate(columns)]
                histograms = found if histograms is None else list(map(add, histograms, found))
        if not sample.seen:
            raise ValueError("batches must hold rows that count; there are none")
        rows = sample.rows
        self._fit_rows(check_rows(rows.scores, rows.labels, None, rows.image))
        self.rows_seen_, self.rows_kept_ = sample.seen, len(rows.labels)
        if histograms is not None:
            effect = 1.0 if alone else max(sample.seen / self.n_effective_, 1.0)
            recipe = replace(recipe, design_effect=effect)
            with one_blas_thread():
                self.set_curves(fit_histograms([*histograms], histograms[0].kind, recipe), recipe, float(sample.seen))
        return self


def _check_worth(n_effective: Any, histogram: ScoreHistogram) -> float:
    """How many independent rows a histogram is worth, by default all of them."""
    if n_effective is None:
        return histogram.total
    worth = check_number(n_effective, "n_effective", above=0.0)
    if worth > histogram.total * (1.0 + ROUNDING):
        raise ValueError(f"n_effective must be at most the weight of the rows, {histogram.total:g}; got {worth:g}")
    return worth


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
            self._parts = [self._settled()]

    def _settled(self) -> tuple[Array, Batch]:
        """The rows with the smallest numbers, which no more than so many rows have."""
        keys, batches = zip(*self._parts, strict=True)
        key, rows = np.concatenate(keys), Batch(*map(np.concatenate, zip(*batches, strict=True)))
        if len(key) > self.most:
            self._limit = float(np.partition(key, self.most)[self.most])
        kept = key < self._limit
        return key[kept], Batch(*(each[kept] for each in rows))

    @property
    def rows(self) -> Batch:
        """The sample."""
        return self._settled()[1]
