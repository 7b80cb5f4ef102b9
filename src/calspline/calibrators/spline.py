"""SplineCalibrator: the method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calspline.arrays import Array, one_blas_thread
from calspline.binary_fit import FittedCurve, GroupedRows, Recipe, fit_curve, matrix_kind
from calspline.calibrators.base import ALL_EQUAL, warn_not_converged
from calspline.calibrators.incremental import IncrementalSpline
from calspline.calibrators.shift import Reference
from calspline.curve import CalibrationCurve
from calspline.fitting.criteria import CRITERIA
from calspline.fitting.groups import Parts
from calspline.histogram import ScoreHistogram
from calspline.labels import warn_if_reversed, warn_user
from calspline.options import (
    BOOLEAN,
    RANDOM_STATE,
    Choice,
    Domain,
    Either,
    Integer,
    Number,
    Numbers,
    check_one_of,
    optional,
)
from calspline.scores import (
    MARGIN_ADVICE,
    BinaryScores,
    LabelledRows,
    MatrixKind,
    WeightMeaning,
    check_binary_scores,
    check_rows,
    check_scores,
    row_weight,
)
from calspline.segments.curves import SegmentedCurve
from calspline.segments.fit import fit_segments
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import check_by
from calspline.transforms import TRANSFORMS


class SplineCalibrator(IncrementalSpline):
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
    _advice: ClassVar[str] = MARGIN_ADVICE
    _fit_advice: ClassVar[str] = MARGIN_ADVICE
    _parameters_since: ClassVar[dict[str, Any]] = {"weights": "frequency"}

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

    def _fit_two(self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, options: Recipe) -> None:
        weight, counts, parts = rows.weight, None, None
        histogram = ScoreHistogram.collect(scores, positive, weight)
        if rows.by is not None:
            counts = SegmentHistograms.collect(histogram, scores, positive, weight, rows.by)
        if rows.groups is not None:
            grouped = GroupedRows(weight, rows.groups)
            effect = grouped.design_effect([grouped.moments(histogram, scores, positive)])
            parts, options = grouped.parts(histogram, scores, positive, options), replace(options, design_effect=effect)
        self._fit_histogram(histogram, options, parts, counts)

    def _look_back(
        self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, classes: NDArray[Any]
    ) -> Callable[[], Reference]:
        warn_if_reversed(self.histogram_.counts, classes, self.design_effect_ * row_weight(rows.weight))
        return self._reference()

    def _fit_histogram(
        self,
        histogram: ScoreHistogram,
        recipe: Recipe,
        parts: Parts | None = None,
        counts: SegmentHistograms | None = None,
    ) -> None:
        """Fit two classes, with segments if there are ``counts`` of them; until both are seen there is no curve."""
        if histogram.positives.any() and histogram.negatives.any():
            with one_blas_thread():
                fitted = fit_curve(histogram, recipe, parts)
                self.set_curves([fitted], recipe, histogram.total, [] if counts is None else [counts])
            if np.isinf(fitted.smoothing):
                warn_user(ALL_EQUAL)
        self.histogram_ = histogram
        if counts is not None:
            self.segment_histograms_ = counts

    def _reference(self) -> Callable[[], Reference]:
        """What is to be remembered of the rows of a fit of two classes, from their histogram."""
        return partial(_remembered, self._curves[0], self.histogram_)

    def _remember(self, classes: NDArray[Any], *facts: Any, **others: Any) -> Self:
        if hasattr(self, "histogram_"):
            self.histogram_ = self.histogram_.of_classes(classes)
        return super()._remember(classes, *facts, **others)

    def set_curves(
        self, fits: list[FittedCurve], recipe: Recipe, total: float, counts: Sequence[SegmentHistograms] = ()
    ) -> None:
        """Take fitted curves of rows of this total weight, with segments if there are ``counts`` of them."""
        segmented: Sequence[SegmentedCurve] = ()
        if counts:
            if recipe.loss != "log":
                raise ValueError(f'loss must be "log" for a fit with by; got {recipe.loss!r}')
            found = [fit_segments(each, fitted, recipe) for each, fitted in zip(counts, fits, strict=True)]
            fits, segmented = [fitted for fitted, _ in found], [curves for _, curves in found]
        self._set_fits(fits, segmented)
        self._set_worth(total, recipe)

    def _set_worth(self, total: float, recipe: Recipe) -> None:
        """Set how many independent rows the rows of this total weight are worth."""
        self.design_effect_, self.n_effective_ = recipe.design_effect, total / recipe.design_effect

    def _set_fits(self, fits: Sequence[FittedCurve], segmented: Sequence[SegmentedCurve] = ()) -> None:
        """Take fitted curves as those of this calibrator: attributes are plain for one, lists or arrays for several."""
        self._fits, self.curves_ = fits, [fit.curve for fit in fits]
        self._curves = segmented or self.curves_
        self._class_segments = None
        transforms = [curve.transform for curve in self.curves_]
        facts: dict[str, Any] = {
            "smoothing_": np.array([fit.smoothing for fit in fits]),
            "smoothing_path_": [{"smoothing": fit.grid, "criterion": fit.criterion} for fit in fits],
            "edf_": np.array([fit.edf for fit in fits]),
            "transform_": [transform.name for transform in transforms],
            "epsilon_": [each.epsilon if TRANSFORMS[each.name].takes_epsilon else None for each in transforms],
            "knots_": [curve.transform.inverse(curve.origin + curve.unit * curve.breaks) for curve in self.curves_],
        }
        if len(fits) == 1:
            facts = {name: values[0] for name, values in facts.items()}
            facts |= {"smoothing_": fits[0].smoothing, "edf_": fits[0].edf}
        self.__dict__.update(facts)
        self._set_converged(all(fit.converged for fit in fits), max(fit.n_iter for fit in fits))
        self.__dict__.pop("structure_", None)  # of an earlier fit of another kind

    def _set_converged(self, converged: bool, n_iter: int) -> None:
        self.converged_, self.n_iter_ = converged, n_iter
        if not converged:
            warn_not_converged()
        self.__dict__.pop("segment_histograms_", None)  # of an earlier fit of another kind

    def _two(self, scores: BinaryScores, **segments: Any) -> Array:
        return self._curves[0].evaluate(scores, **segments)

    def recipe(self) -> Recipe:
        """The options, checked, as a fit wants them."""
        options = super().recipe()
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


def _remembered(curve: CalibrationCurve | SegmentedCurve, histogram: ScoreHistogram) -> Reference:
    scores = check_binary_scores(histogram.scores, kind=histogram.kind)
    p, weight = curve.evaluate(scores), np.concatenate([histogram.negatives, histogram.positives])
    return Reference.of_rows(np.tile(p, 2), np.repeat([0, 1], len(p)), weight)
