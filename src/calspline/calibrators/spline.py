"""SplineCalibrator: the method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import add
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calspline.arrays import one_blas_thread
from calspline.binary_fit import GroupedRows, Recipe, fit_curve, matrix_kind, recipe_kind
from calspline.calibrators.base import ALL_EQUAL
from calspline.calibrators.batches import Reservoir, read_batches
from calspline.calibrators.fitted_spline import FittedSpline
from calspline.calibrators.shift import Reference
from calspline.fitting.groups import Parts
from calspline.fitting.smoothing import CRITERIA
from calspline.histogram import ScoreHistogram
from calspline.labels import check_binary_labels, check_two_classes, label_array, warn_if_reversed, warn_user
from calspline.multiclass.one_vs_rest import (
    AgainstRest,
    TopAgainstRest,
    classes_design_effect,
    fit_histograms,
    fit_one_vs_rest,
)
from calspline.multiclass.structured_fit import fit_structure
from calspline.options import (
    BOOLEAN,
    RANDOM_STATE,
    Choice,
    Domain,
    Either,
    Integer,
    Number,
    Numbers,
    check_integer,
    check_number,
    check_one_of,
    optional,
)
from calspline.scores import (
    MARGIN_ADVICE,
    BinaryScores,
    LabelledRows,
    MatrixKind,
    MatrixScores,
    WeightMeaning,
    check_binary_scores,
    check_matrix_scores,
    check_rows,
    check_scores,
    check_weights,
    check_weights_as_counts,
    row_weight,
)
from calspline.segments.classes import fit_class_segments
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import check_by
from calspline.transforms import TRANSFORMS

ROUNDING = 1e-9
"""Of a sum of weights."""


class SplineCalibrator(FittedSpline):
    """Calibrate scores with a smoothing spline.

    A natural cubic spline turns the (transformed) score into log-odds. How much it
    may bend is chosen from the data; with no reason to bend it is a straight line
    in the log-odds, close to Platt's. Scores in three or more columns are those of as
    many classes; see ``multiclass``.

    Parameters
    ----------
    transform : {"auto", "logit", "compact_logit", "asinh_logit", "identity"}, default="auto"
        Where the spline is fitted. ``"auto"`` is ``"logit"`` for probabilities, unless
        many scores are extreme and the marginal likelihood clearly prefers
        ``"asinh_logit"``. Scores are margins, and get ``"identity"``, if more than a tenth of the rows lie outside
        [0, 1]; fewer are an error, and what differs from [0, 1] by rounding (1e-6) is clipped. ``loss="brier"`` gets
        ``"identity"``, too. See :mod:`calspline.transforms`.
    epsilon : float or "auto", default="auto"
        Where the compact logit turns linear, in (0, 0.5). ``"auto"`` is the paper's
        heuristic, which looks at scores near 1 only: see
        :func:`calspline.transforms.choose_epsilon`.
    knots : {"quantile", "sample"} or array-like of scores, default="quantile"
        ``"sample"`` draws from the distinct scores, as the paper does.
    n_knots : int, optional
        At least 2. None: 24 up to 10,000 rows, then slowly more, and with REML twice as many, up to 128,
        as long as the curve uses up more than half of them. Reduced to the number of distinct scores, and to 512.
    penalty : {"curvature", "ridge"}, default="curvature"
        ``"curvature"`` is half of lambda times the integral of ``f''^2``, ``f`` being the log-odds
        as a function of x scaled to [0, 1]. This is the paper's equation (1), which is
        printed without the square and with ``f`` as the probability; neither can be
        meant, as the integral of ``f''`` alone is a difference of two slopes. ``"ridge"`` is the
        paper's Algorithm 1: half of lambda times the sum of squares of the coefficients
        of the basis ``N_2 .. N_K``, as in scikit-learn's LogisticRegression with ``C = 1 / lambda``. Margins
        beyond 10,000, whose cubes it would not penalise at all, are scaled to [0, 1] for it.
    smoothing : {"reml", "cv", "loo"} or float, default="reml"
        How lambda is chosen: marginal likelihood, k-fold cross-validation (the
        paper), approximate leave-one-out, or not at all. By marginal likelihood, unless ``loss="brier"`` or
        ``penalty="ridge"``, fits are averaged: over lambda and over how far the curve's straight part may move away
        from the scores as they are. So good scores are left nearly alone as long as few rows speak against them.
    smoothing_grid : array-like of floats, optional
        Values of lambda to try, all of them. None: values from 1e-8 to 1e6, of which
        REML visits those it needs.
    cv : int, default=5
        Folds for ``smoothing="cv"``.
    loss : {"log", "brier"}, default="log"
        ``"brier"`` fits the probability itself by penalised least squares, kept inside
        (0, 1) by constraints where needed.
    monotone : bool or "auto", default="auto"
        True: the curve never decreases. It is the free curve where that already never does. ``"auto"``: the same,
        unless an increasing curve loses more than 5 nats to the free one, not counting what any single row has to do
        with it. :meth:`summary` says where a curve falls. With ``multiclass="structured"`` and with
        ``penalty="ridge"``, ``"auto"`` is False.
    weights : {"frequency", "importance"}, default="frequency"
        What ``sample_weight`` means. ``"frequency"``: a weight of 2 is a row seen twice, so the scale matters.
        ``"importance"``: only ratios count, as with weights that correct for how rows were drawn; they are scaled to
        the effective number of rows, ``(sum w)^2 / sum w^2``. It needs all rows at once: :meth:`partial_fit` refuses
        it, and :meth:`fit_histogram` takes weights as they were summed.
    multiclass : {"structured", "ovr", "top"}, default="structured"
        For three or more classes. ``"structured"`` is ``softmax(s(u) + W u + b)``: one spline ``s`` shared
        by all classes on tempered log-probabilities ``u``, a matrix and intercepts, each shrunk towards
        temperature scaling with a strength learnt from the data. It heeds ``monotone`` (the best increasing
        curve and no matrix, so that every row keeps its ranking; it gains some 30% of what the default gains
        over a temperature), a number as ``smoothing``, and ``n_knots``. ``"ovr"`` is the paper's Algorithm 3, one
        curve per class against the rest, with all other options. ``"top"`` calibrates the confidence of each row's
        most probable class, that is how often it is right, with one curve and all other options; the other classes
        share the rest as they did before. Logits become probabilities first. (In one column of confidences, with 0
        and 1 for wrong and right as labels, these are two classes.)
        A structured fit whose smoothing is learnt is averaged with a cautious temperature, so that few rows of good
        scores leave them nearly alone.
    random_state : int, RandomState or None, default=None
        For ``knots="sample"`` and the folds of ``smoothing="cv"``. None is 0, so that fits repeat.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted: the order of columns. With two, ``calibrate`` gives the second's.
    curves_ : list of CalibrationCurve
        One curve for a two-class problem and for ``"top"``, one per class for ``"ovr"``, none for ``"structured"``.
    structure_ : StructuredMap
        The fitted map of ``"structured"``.
    smoothing_ : float
        The lambda in use; of an average, that of a curve which bends as much. (``"ovr"``: an array, as are ``edf_`` and
        ``epsilon_``; ``transform_``, ``smoothing_path_`` and ``knots_`` are lists.)
    smoothing_path_ : dict of arrays
        ``"smoothing"`` and ``"criterion"``: the values tried and what each scored (lower is better).
    edf_ : float
        Effective degrees of freedom; a straight line that is free to move has 2, scores left as they are have none.
    transform_ : str
        The transform in use.
    epsilon_ : float or None
        The epsilon of the compact logit.
    knots_ : array
        The knots, as scores.
    converged_ : bool
    n_iter_ : int
        Newton steps of the final fit.
    n_effective_ : float
        How many independent rows those of the fit are worth: their total weight, or less where ``groups`` were given.
        NaN for a model that version 0.1.0 saved.
    design_effect_ : float
        The total weight divided by ``n_effective_``; 1 without groups.
    histogram_ : ScoreHistogram
        What the fit saw. ``partial_fit`` adds to it.
    segments_ : SegmentTable
        After a fit with ``by``, a dict of columns with a value for each segment: ``segment``, ``rows``, ``events``,
        ``said`` (its mean score), ``happened`` (its share of events), ``intercept`` and ``slope`` (by how much its
        log-odds depart from the common curve, at an average score and per unit of x), ``kept`` (the share of its own
        intercept that shrinkage left), and 95% limits of the intercept, ``low`` and ``high``. With several columns
        ``column`` is the one that a segment is of.
    segment_histograms_ : SegmentHistograms
        What a fit with ``by`` saw, a histogram for each segment. ``partial_fit`` adds to it.

    See Also
    --------
    sklearn.calibration.CalibratedClassifierCV : Sigmoid and isotonic calibration.

    References
    ----------
    B. Lucena, *Spline-Based Probability Calibration* (2018).

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import SplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> log_odds = rng.normal(size=5000)
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-log_odds))
    >>> overconfident = 1 / (1 + np.exp(-3 * log_odds))
    >>> cal = SplineCalibrator().fit(overconfident, y)
    >>> cal.calibrate([0.01, 0.5, 0.99]).round(2)
    array([0.17, 0.5 , 0.83])
    """

    _parameter_constraints: ClassVar[dict[str, Domain]] = {
        "transform": Choice("auto", registry=TRANSFORMS),
        "epsilon": Either(Choice("auto"), Number(above=0.0, below=0.5)),
        "knots": Either(Choice("quantile", "sample"), Numbers(least=2, increasing=True)),
        "n_knots": optional(Integer(least=2)),
        "penalty": Choice("curvature", "ridge"),
        "smoothing": Either(Choice(registry=CRITERIA), Number(not_negative=True, infinite=True)),
        "smoothing_grid": optional(Numbers(least=1, positive=True)),
        "cv": Integer(least=2),
        "loss": Choice("log", "brier"),
        "monotone": Either(Choice("auto"), BOOLEAN),
        "weights": Choice("frequency", "importance"),
        "multiclass": Choice("structured", "ovr", "top"),
        "random_state": RANDOM_STATE,
    }
    exported: ClassVar[bool] = True
    _advice: ClassVar[str] = MARGIN_ADVICE
    _fit_advice: ClassVar[str] = MARGIN_ADVICE
    _parameters_since: ClassVar[dict[str, Any]] = {"weights": "frequency"}

    n_effective_: float
    design_effect_: float

    def __init__(
        self,
        *,
        transform: Literal["auto", "logit", "compact_logit", "asinh_logit", "identity"] = "auto",
        epsilon: float | Literal["auto"] = "auto",
        knots: Literal["quantile", "sample"] | ArrayLike = "quantile",
        n_knots: int | None = None,
        penalty: Literal["curvature", "ridge"] = "curvature",
        smoothing: Literal["reml", "cv", "loo"] | float = "reml",
        smoothing_grid: ArrayLike | None = None,
        cv: int = 5,
        loss: Literal["log", "brier"] = "log",
        monotone: bool | Literal["auto"] = "auto",
        weights: Literal["frequency", "importance"] = "frequency",
        multiclass: Literal["structured", "ovr", "top"] = "structured",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.transform = transform
        self.epsilon = epsilon
        self.knots = knots
        self.n_knots = n_knots
        self.penalty = penalty
        self.smoothing = smoothing
        self.smoothing_grid = smoothing_grid
        self.cv = cv
        self.loss = loss
        self.monotone = monotone
        self.weights = weights
        self.multiclass = multiclass
        self.random_state = random_state

    @classmethod
    def paper(cls, algorithm: Literal[1, 2, 3] = 1, **overrides: Any) -> Self:
        """The recipe as the paper prints it.

        Algorithm 1 calibrates the score itself, Algorithm 2 its compact logit: 200 knots
        sampled from the scores, ridge penalty on the natural basis, lambda by
        five-fold cross-validated log-loss. Algorithm 3 applies Algorithm 2 (with
        ``transform="identity"``, Algorithm 1) to each class against the rest and normalises.

        Examples
        --------
        >>> SplineCalibrator.paper(algorithm=2, n_knots=50)
        SplineCalibrator(knots='sample', monotone=False, n_knots=50, penalty='ridge',
                         smoothing='cv', transform='compact_logit')
        """
        check_one_of(algorithm, "algorithm", (1, 2, 3))
        recipe: dict[str, Any] = {
            "transform": "identity" if algorithm == 1 else "compact_logit",
            "knots": "sample",
            "n_knots": 200,
            "penalty": "ridge",
            "smoothing": "cv",
            "monotone": False,
        }
        if algorithm == 3:
            recipe["multiclass"] = "ovr"
        return cls(**(recipe | overrides))

    def fit(self, scores: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, by: Any = None) -> Self:
        """Learn the calibration from scores and what happened.

        Parameters
        ----------
        scores, y, sample_weight
            As for every calibrator; see :meth:`BaseCalibrator.fit`.
        groups : array-like of shape (n,), optional
            Rows with the same value belong together (visits of a patient, snapshots of a game) and may depend on each
            other; different groups do not. Rows then count for less: one divided by ``design_effect_``, which is
            estimated and, as that is uncertain with few groups, rather too large than too small.
            ``smoothing="cv"`` and ``"loo"`` leave out whole groups (of more than 200, ``"loo"`` leaves several out
            together).
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row (its country, its campaign), or several whose effects are added up. Each segment
            gets a curve of its own: the common one with another intercept, slope and bend, each shrunk as far as the
            data ask for. Labels are compared by value: 1 and 1.0 are the same segment, 1 and "1" are not. None is no
            segment: such rows count for the common curve only. Needs ``loss="log"``.

        Returns
        -------
        self

        Examples
        --------
        Ten forecasts for each of 100 games, and one outcome a game:

        >>> import numpy as np
        >>> from calspline import SplineCalibrator
        >>> rng = np.random.default_rng(0)
        >>> log_odds = np.repeat(rng.normal(size=100), 10)
        >>> won = np.repeat(rng.random(100), 10) < 1 / (1 + np.exp(-log_odds))
        >>> forecast = 1 / (1 + np.exp(-log_odds + 0.1 * rng.normal(size=1000)))
        >>> cal = SplineCalibrator().fit(forecast, won, groups=np.repeat(np.arange(100), 10))
        >>> round(cal.n_effective_)
        100

        A model that is right in one country and too timid in another:

        >>> country = np.where(np.arange(1000) % 2, "fr", "de")
        >>> p = rng.uniform(0.1, 0.9, size=1000)
        >>> paid = rng.random(1000) < np.where(country == "fr", p, p**2)
        >>> cal = SplineCalibrator().fit(p, paid, by=country)
        >>> cal.calibrate([0.5, 0.5], by=["de", "fr"]).round(1)
        array([0.3, 0.5])
        """
        given = check_scores(scores)
        segments = None if by is None else check_by(by, len(given), some=True)
        meaning: WeightMeaning = self.weights
        if meaning == "frequency" and given is scores:
            meaning = "checked"
        return self._fit_rows(check_rows(given, y, sample_weight, groups, segments, weights=meaning))

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
                kind, columns = matrix.kind, self._against_rest(matrix)
                recipe = columns.recipe(recipe)
                codes = columns.codes(batch.labels)
                found = [ScoreHistogram.collect(column, codes == j, None) for j, column in enumerate(columns)]
                histograms = found if histograms is None else list(map(add, histograms, found))
        if not sample.seen:
            raise ValueError("batches must hold rows that count; there are none")
        rows = sample.rows
        self.fit(rows.scores, rows.labels, groups=rows.image)
        self.rows_seen_, self.rows_kept_ = sample.seen, len(rows.labels)
        if histograms is not None:
            effect = 1.0 if alone else max(sample.seen / self.n_effective_, 1.0)
            recipe = replace(recipe, design_effect=effect)
            with one_blas_thread():
                self.set_curves(fit_histograms([*histograms], histograms[0].kind, recipe), recipe, float(sample.seen))
        return self

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
        checked = check_binary_scores(
            given.in_class_order(known), kind=kind, difference=getattr(self, "difference_", None)
        )
        new = ScoreHistogram.collect(checked, positive, weight)
        worth = _check_worth(n_effective, new) + (0.0 if seen is None else self.n_effective_)
        histogram = new if seen is None else seen + new
        counts, earlier = None, getattr(self, "segment_histograms_", None)
        if seen is not None and (by is None) != (earlier is None):
            raise ValueError("by must be given in every call of partial_fit, or in none")
        if by is not None:
            counts = SegmentHistograms.collect(new, checked, positive, weight, check_by(by, len(checked)))
            counts = counts if earlier is None else earlier + counts
        if histogram.positives.any() and histogram.negatives.any():
            self._fit(histogram, _worth(recipe, histogram, worth), counts=counts)
            warn_if_reversed(histogram.counts, known, self.design_effect_)
        self.histogram_, self.n_effective_ = histogram, worth
        if counts is not None:
            self.segment_histograms_ = counts
        difference = checked.difference or getattr(self, "difference_", False)
        known_rows = self._reference(histogram) if hasattr(self, "curves_") else None
        inside = histogram.inside
        return self._remember(known, histogram.kind, difference=difference, reference=known_rows, inside=inside)

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
        self._fit(histogram, _worth(recipe, histogram, _check_worth(n_effective, histogram)), counts=counts)
        warn_if_reversed(histogram.counts, classes, self.design_effect_)
        kind = recipe_kind(recipe.transform) or histogram.kind
        return self._remember(classes, kind, reference=self._reference(histogram), inside=histogram.inside)

    def _fit_two(self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, options: Recipe) -> None:
        weight, counts, parts = rows.weight, None, None
        histogram = ScoreHistogram.collect(scores, positive, weight)
        if rows.by is not None:
            counts = SegmentHistograms.collect(histogram, scores, positive, weight, rows.by)
        if rows.groups is not None:
            grouped = GroupedRows(weight, rows.groups)
            effect = grouped.design_effect([grouped.moments(histogram, scores, positive)])
            parts, options = grouped.parts(histogram, scores, positive, options), replace(options, design_effect=effect)
        self._fit(histogram, options, parts, counts)

    def _fit(
        self,
        histogram: ScoreHistogram,
        recipe: Recipe,
        parts: Parts | None = None,
        counts: SegmentHistograms | None = None,
    ) -> None:
        """Set the attributes of a two-class fit, with segments if there are ``counts`` of them."""
        with one_blas_thread():
            fitted = fit_curve(histogram, recipe, parts)
            self.set_curves([fitted], recipe, histogram.total, [] if counts is None else [counts])
        if np.isinf(fitted.smoothing):
            warn_user(ALL_EQUAL)
        if counts is not None:
            self.segment_histograms_ = counts
        self.histogram_ = histogram

    def _look_back(
        self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, classes: NDArray[Any]
    ) -> Callable[[], Reference]:
        warn_if_reversed(self.histogram_.counts, classes, self.design_effect_ * row_weight(rows.weight))
        return self._reference(self.histogram_)

    def _fit_many(self, scores: MatrixScores, codes: NDArray[np.intp], rows: LabelledRows, options: Recipe) -> None:
        alike = not np.ptp(scores.values, axis=0).any() and not (
            self.monotone is True and self.multiclass == "structured"
        )
        if alike:
            warn_user(ALL_EQUAL)
        weight, grouped = rows.weight, None
        total = float(len(codes) if weight is None else weight.sum())
        with one_blas_thread():
            if rows.groups is not None:
                grouped = GroupedRows(weight, rows.groups)
                columns = self._against_rest(scores)
                effect = classes_design_effect(columns, columns.codes(codes), grouped)
                options = replace(options, design_effect=effect)
            if self.multiclass != "structured" or alike:  # of equal scores a curve per class makes the base rates
                columns = self._against_rest(scores)
                codes, options = columns.codes(codes), columns.recipe(options)
                fits, counts = fit_one_vs_rest(columns, codes, weight, options, grouped), []
                for j in range(0 if rows.by is None else columns.n_classes):
                    one = columns[j], codes == j, weight
                    counts.append(SegmentHistograms.collect(ScoreHistogram.collect(*one), *one, rows.by))
                self.set_curves(fits, options, total, counts)
            else:
                self._set_structure(fit_structure(scores, codes, weight, options))
                if rows.by is not None:
                    p = self.structure_.probabilities(scores)
                    self.set_segments([], fit_class_segments(scores, p, codes, weight, rows.by, options))
                self._set_worth(total, options.design_effect)
        self.__dict__.pop("histogram_", None)  # of an earlier fit of another kind

    def _against_rest(self, scores: MatrixScores) -> AgainstRest:
        """What curves are to be fitted to."""
        return (TopAgainstRest if self.multiclass == "top" else AgainstRest)(scores, self.transform)

    def recipe(self) -> Recipe:
        """The options, checked, as a fit wants them."""
        options = self._validate_params()
        del options["multiclass"], options["weights"]
        return Recipe(seed=options.pop("random_state"), **options)

    def _takes(self, options: Recipe, margins: bool) -> MatrixKind:
        if not margins:
            return matrix_kind(options.transform)
        if options.transform not in ("auto", "identity"):
            raise ValueError(
                f'transform must be "auto" or "identity" for margins; got {self.transform!r}, which needs '
                'probabilities. To calibrate margins, use transform="identity".'
            )
        return "margin"


def _check_worth(n_effective: Any, histogram: ScoreHistogram) -> float:
    """How many independent rows a histogram is worth, by default all of them."""
    if n_effective is None:
        return histogram.total
    worth = check_number(n_effective, "n_effective", above=0.0)
    if worth > histogram.total * (1.0 + ROUNDING):
        raise ValueError(f"n_effective must be at most the weight of the rows, {histogram.total:g}; got {worth:g}")
    return worth


def _worth(recipe: Recipe, histogram: ScoreHistogram, rows: float) -> Recipe:
    """The recipe for a histogram that is worth this many rows."""
    return replace(recipe, design_effect=max(histogram.total / rows, 1.0))
