"""SplineCalibrator: the method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calspline._arrays import Array
from calspline._domains import (
    BOOLEAN,
    Choice,
    Domain,
    Either,
    Integer,
    Number,
    Numbers,
    Seed,
    optional,
)
from calspline._input.hints import warn_if_reversed
from calspline._input.labels import check_binary_labels, check_two_classes, label_array
from calspline._input.options import check_number, check_one_of
from calspline._input.rows import label_scores
from calspline._input.scores import (
    MARGIN_ADVICE,
    Requirement,
    ScoreKind,
    check_given_columns,
    check_scores,
    decide_kind,
)
from calspline._input.segment_labels import check_by
from calspline._input.weights import (
    check_weights,
    check_weights_as_counts,
    counted_columns,
)
from calspline.calibrators.base import BaseCalibrator
from calspline.calibrators.checks import check_fitted
from calspline.fits.options import Recipe, required_scores
from calspline.fits.rows import BinaryRows, MatrixRows
from calspline.fits.spline import fit_binary, fit_histogram, fit_multiclass
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms
from calspline.maps.curve import CalibrationCurve
from calspline.maps.model import Model
from calspline.maps.one_vs_rest import maps_of
from calspline.maps.segment_columns import SegmentTable
from calspline.maps.segmented import SegmentedCurve
from calspline.maps.segmented_classes import SegmentedClasses
from calspline.maps.shifted import Shifted
from calspline.maps.structured import StructuredMap
from calspline.transforms import TRANSFORMS

ROUNDING = 1e-9
"""Of a sum of weights."""


@dataclass(frozen=True, eq=False)
class SeenRows:
    """What the rows of earlier calls of ``partial_fit`` add up to."""

    classes: NDArray[Any]
    kind: ScoreKind
    histogram: ScoreHistogram
    counts: SegmentHistograms | None
    n_effective: float


class SplineCalibrator(BaseCalibrator):
    """Calibrate scores with a smoothing spline.

    A natural cubic spline turns the (transformed) score into log-odds. How much it
    may bend is chosen from the data; with no reason to bend it is a straight line
    in the log-odds, close to Platt's. Scores in three or more columns are those of as
    many classes; see ``multiclass``.

    Parameters
    ----------
    scale : {"auto", "logit", "compact_logit", "asinh_logit", "identity"}, default="auto"
        Where the spline is fitted. ``"auto"`` is ``"logit"`` for probabilities, unless
        many scores are extreme and the marginal likelihood clearly prefers
        ``"asinh_logit"``. Scores are margins, and get ``"identity"``, if more than a
        tenth of the rows lie outside [0, 1]; fewer are an error, and what differs from
        [0, 1] by rounding (1e-4) is clipped. ``loss="brier"`` gets ``"identity"``, too.
        See :mod:`calspline.transforms`.
    epsilon : float or "auto", default="auto"
        Where the compact logit turns linear, in (0, 0.5). ``"auto"`` is the paper's
        heuristic, which looks at scores near 1 only: see
        :func:`calspline.transforms.choose_epsilon`.
    knots : {"quantile", "sample"}, default="quantile"
        ``"sample"`` draws from the distinct scores, as the paper does.
    n_knots : int, optional
        At least 2. None: 24 up to 10,000 rows, then slowly more, and with REML twice as
        many, up to 128, as long as the curve uses up more than half of them. Reduced to
        the number of distinct scores, and to 512.
    penalty : {"curvature", "ridge"}, default="curvature"
        ``"curvature"`` is half of lambda times the integral of ``f''^2``, ``f`` being
        the log-odds as a function of x scaled to [0, 1]. This is the paper's equation
        (1), which is printed without the square and with ``f`` as the probability;
        neither can be meant, as the integral of ``f''`` alone is a difference of two
        slopes. ``"ridge"`` is the paper's Algorithm 1: half of lambda times the sum of
        squares of the coefficients of the basis ``N_2 .. N_K``, as in scikit-learn's
        LogisticRegression with ``C = 1 / lambda``. Margins beyond 10,000, whose cubes
        it would not penalise at all, are scaled to [0, 1] for it.
    smoothing : {"reml", "cv"} or float, default="reml"
        How lambda is chosen: marginal likelihood, k-fold cross-validation (the paper),
        or not at all. By marginal likelihood, unless ``loss="brier"`` or
        ``penalty="ridge"``, fits are averaged: over lambda and over how far the curve's
        straight part may move away from the scores as they are. So good scores are left
        almost unchanged as long as few rows contradict them.
    smoothing_grid : array-like of floats, optional
        Values of lambda to try, all of them. None: values from 1e-8 to 1e6, of which
        REML visits those it needs.
    cv : int, default=5
        Folds for ``smoothing="cv"``.
    loss : {"log", "brier"}, default="log"
        ``"brier"`` fits the probability itself by penalised least squares, kept inside
        (0, 1) by constraints where needed.
    monotone : bool or "auto", default="auto"
        True: the curve never decreases. It is the free curve where that already never
        does. ``"auto"``: the same, unless an increasing curve loses more than 5 nats to
        the free one, not counting what any single row has to do with it.
        :meth:`summary` says where a curve falls. With ``multiclass="structured"`` and
        with ``penalty="ridge"``, ``"auto"`` is False.
    weights : {"frequency", "importance"}, default="frequency"
        What ``sample_weight`` means. ``"frequency"``: a weight of 2 is a row seen
        twice, so the scale matters. ``"importance"``: only ratios count, as with
        weights that correct for how rows were drawn; they are scaled to the effective
        number of rows, ``(sum w)^2 / sum w^2``. It needs all rows at once:
        :meth:`partial_fit` refuses it, and :meth:`fit_histogram` takes weights as they
        were summed.
    multiclass : {"structured", "ovr"}, default="structured"
        For three or more classes. ``"structured"`` is ``softmax(s(u) + W u + b)``: one
        spline ``s`` shared by all classes on tempered log-probabilities ``u``, a matrix
        and intercepts, each shrunk towards temperature scaling with a strength learnt
        from the data. It heeds ``monotone`` (the best increasing curve and no matrix,
        so that every row keeps its ranking; it gains some 30% of what the default gains
        over a temperature), a number as ``smoothing``, and ``n_knots``. ``"ovr"`` is
        the paper's Algorithm 3, one curve per class against the rest, with all other
        options. A structured fit whose smoothing is learnt is averaged with a cautious
        temperature, so that few rows of good scores leave them nearly alone.
    random_state : int, RandomState or None, default=None
        For ``knots="sample"`` and the folds of ``smoothing="cv"``. None is 0, so that
        fits repeat.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted: the order of columns. With two, ``calibrate`` gives the
        second's.
    curves_ : list of CalibrationCurve
        One curve for a two-class problem, one per class for ``"ovr"``, none for
        ``"structured"``.
    structure_ : StructuredMap
        The fitted map of ``"structured"``.
    smoothing_ : float
        The lambda in use; of an average, that of a curve which bends as much.
        (``"ovr"``: an array, as are ``edf_`` and ``epsilon_``; ``scale_``,
        ``smoothing_path_`` and ``knots_`` are lists.)
    smoothing_path_ : dict of arrays
        ``"smoothing"`` and ``"criterion"``: the values tried and what each scored
        (lower is better).
    edf_ : float
        Effective degrees of freedom; a straight line that is free to move has 2, scores
        left as they are have none.
    scale_ : str
        The scale in use.
    epsilon_ : float or None
        The epsilon of the compact logit.
    knots_ : array
        The knots, as scores.
    converged_ : bool
    n_iter_ : int
        Newton steps of the final fit.
    n_effective_ : float
        How many independent rows those of the fit are worth: their total weight, or
        less where ``groups`` were given.
    design_effect_ : float
        The total weight divided by ``n_effective_``; 1 without groups.
    histogram_ : ScoreHistogram
        What the fit saw. ``partial_fit`` adds to it.
    segments_ : SegmentTable
        After a fit with ``by``, a dict of columns with a value for each segment:
        ``segment``, ``rows``, ``events``, ``mean_score``, ``event_rate``, ``intercept``
        and ``slope`` (by how much its log-odds depart from the common curve, at an
        average score and per unit of x), ``shrinkage`` (the factor by which its own
        estimate of the intercept is multiplied: 1 leaves it alone, 0 is the common
        curve), and 95% limits of the intercept, ``low`` and ``high``. With several
        columns ``column`` is the one that a segment is of.

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
        "scale": Choice("auto", registry=TRANSFORMS),
        "epsilon": Either(Choice("auto"), Number(above=0.0, below=0.5)),
        "knots": Choice("quantile", "sample"),
        "n_knots": optional(Integer(least=2)),
        "penalty": Choice("curvature", "ridge"),
        "smoothing": Either(
            Choice("reml", "cv"), Number(not_negative=True, infinite=True)
        ),
        "smoothing_grid": optional(Numbers(least=1, positive=True)),
        "cv": Integer(least=2),
        "loss": Choice("log", "brier"),
        "monotone": Either(Choice("auto"), BOOLEAN),
        "weights": Choice("frequency", "importance"),
        "multiclass": Choice("structured", "ovr"),
        "random_state": Seed(),
    }
    _pending: SeenRows | None = None
    """What ``partial_fit`` has seen while a class is missing."""
    _advice: ClassVar[str] = MARGIN_ADVICE
    _fit_advice: ClassVar[str] = MARGIN_ADVICE
    _kinds_of_map = (CalibrationCurve, SegmentedCurve, StructuredMap, SegmentedClasses)

    def __init__(
        self,
        *,
        scale: Literal[
            "auto", "logit", "compact_logit", "asinh_logit", "identity"
        ] = "auto",
        epsilon: float | Literal["auto"] = "auto",
        knots: Literal["quantile", "sample"] = "quantile",
        n_knots: int | None = None,
        penalty: Literal["curvature", "ridge"] = "curvature",
        smoothing: Literal["reml", "cv"] | float = "reml",
        smoothing_grid: ArrayLike | None = None,
        cv: int = 5,
        loss: Literal["log", "brier"] = "log",
        monotone: bool | Literal["auto"] = "auto",
        weights: Literal["frequency", "importance"] = "frequency",
        multiclass: Literal["structured", "ovr"] = "structured",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.scale = scale
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

        Algorithm 1 calibrates the score itself, Algorithm 2 its compact logit: 200
        knots sampled from the scores, ridge penalty on the natural basis, lambda by
        five-fold cross-validated log-loss. Algorithm 3 applies Algorithm 2 (with
        ``scale="identity"``, Algorithm 1) to each class against the rest and
        normalises.

        Examples
        --------
        >>> SplineCalibrator.paper(algorithm=2, n_knots=50)
        SplineCalibrator(knots='sample', monotone=False, n_knots=50, penalty='ridge',
                         scale='compact_logit', smoothing='cv')
        """
        check_one_of(algorithm, "algorithm", (1, 2, 3))
        recipe: dict[str, Any] = {
            "scale": "identity" if algorithm == 1 else "compact_logit",
            "knots": "sample",
            "n_knots": 200,
            "penalty": "ridge",
            "smoothing": "cv",
            "monotone": False,
        }
        if algorithm == 3:
            recipe["multiclass"] = "ovr"
        return cls(**(recipe | overrides))

    def fit(
        self,
        scores: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        by: Any = None,
    ) -> Self:
        """Learn the calibration from scores and outcomes.

        Parameters
        ----------
        scores, y, sample_weight
            As for every calibrator; see :meth:`BaseCalibrator.fit`.
        groups : array-like of shape (n,), optional
            Rows with the same value (visits of a patient, snapshots of a game) may
            depend on each other; different groups do not. Rows then
            count for less: a group of ``n`` rows for ``n / (1 + rho (n - 1))`` of them,
            so that no large group has the curve to itself. The correlation ``rho`` is
            estimated and, as that is uncertain with few groups, rather too large than
            too small. With ``by``, what segments explain is no dependence, and
            differences between segments have a design effect of their own.
            ``smoothing="cv"`` leaves out whole groups.
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row (its country, its campaign), or several whose
            effects are added up. Each segment gets a curve of its own: the common one
            with another intercept, slope and bend, each shrunk as far as the data ask
            for. Labels are compared by value: 1 and 1.0 are the same segment, 1 and "1"
            are not. None is no segment: such rows count for the common curve only.
            Needs ``loss="log"``.

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

        A model that is calibrated in one country and under-confident in another:

        >>> country = np.where(np.arange(1000) % 2, "fr", "de")
        >>> p = rng.uniform(0.1, 0.9, size=1000)
        >>> paid = rng.random(1000) < np.where(country == "fr", p, p**2)
        >>> cal = SplineCalibrator().fit(p, paid, by=country)
        >>> cal.calibrate([0.5, 0.5], by=["de", "fr"]).round(1)
        array([0.3, 0.5])
        """
        given = check_scores(scores)
        segments = None if by is None else check_by(by, len(given), some=True)
        rows = label_scores(given, y, sample_weight, groups, segments)
        check_given_columns(rows.scores, rows.labels)
        if self.weights == "importance":
            rows = rows.with_importance_weights()
        else:
            rows.check_weights_as_counts()
        return self._fit_rows(rows)

    def _fit(self, rows: BinaryRows | MatrixRows, options: Recipe) -> Model:
        if isinstance(rows, BinaryRows):
            return fit_binary(rows, options)
        return fit_multiclass(rows, options, self.multiclass)

    def _set_model(self, model: Model) -> Self:
        self._pending = None
        return super()._set_model(model)

    def _options(self) -> Recipe:
        options = super()._options()
        del options["multiclass"], options["weights"]
        return Recipe(seed=options.pop("random_state"), **options)

    def _required_scores(self, options: Recipe, margins: bool) -> Requirement:
        if not margins:
            return required_scores(options.scale)
        if options.scale not in ("auto", "identity"):
            raise ValueError(
                f'scale must be "auto" or "identity" for margins; got {self.scale!r}, '
                "which needs "
                'probabilities. To calibrate margins, use scale="identity".'
            )
        return "margin"

    def partial_fit(
        self,
        scores: Any,
        y: Any,
        sample_weight: Any = None,
        classes: Any = None,
        *,
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
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row, as for :meth:`fit`; in every call or in none.
        """
        recipe = self._options()
        seen = self._seen_rows()
        if self.weights == "importance" and sample_weight is not None:
            raise ValueError(
                'weights must be "frequency" for partial_fit: the ratio to weights to '
                "come is not known"
            )
        given = check_scores(scores)
        weight = check_weights(sample_weight, len(given), some=False)
        known = None if seen is None else seen.classes
        if classes is not None:
            wanted = check_two_classes(classes)
            if known is not None and not np.array_equal(wanted, known):
                raise ValueError(
                    f"classes must stay {known.tolist()}; got {wanted.tolist()}"
                )
            known = wanted
        known, positive = check_binary_labels(y, len(given), known)
        ordered = given.in_class_order(known)
        if seen is None:
            kind = decide_kind(ordered, required_scores(recipe.scale))
        else:
            kind = seen.kind
        checked = kind.binary(ordered)
        segments = None
        if by is not None:
            segments = check_by(by, len(checked), some=seen is None)
        if weight is not None:
            columns = counted_columns(given.values, segments)
            check_weights_as_counts(weight, labels=positive, scores=columns)
        histogram = ScoreHistogram.collect(checked, positive, weight).of_classes(known)
        counts = None
        if segments is not None:
            counts = SegmentHistograms.collect(
                histogram, checked, positive, weight, segments
            )
        new = SeenRows(known, kind, histogram, counts, histogram.total)
        return self._fit_seen(new if seen is None else _add_rows(seen, new), recipe)

    def _seen_rows(self) -> SeenRows | None:
        """The rows of earlier calls; None if there are none."""
        if self._pending is not None:
            return self._pending
        if not self.__sklearn_is_fitted__():
            return None
        model = self.model_
        if isinstance(model.map, Shifted):
            raise ValueError(
                "this calibrator was shifted; update the one that it came from, and "
                "shift that again"
            )
        if model.n_classes > 2:
            raise ValueError(
                "partial_fit is for two classes; this calibrator was fitted to more"
            )
        histogram = model.fit.histogram
        if histogram is None:
            raise ValueError(
                "this calibrator was loaded from a file, without the rows it was "
                "fitted on; fit a new one"
            )
        fit = model.fit
        return SeenRows(
            model.classes,
            model.kind,
            histogram,
            fit.segment_histograms,
            fit.n_effective,
        )

    def _fit_seen(
        self, rows: SeenRows, recipe: Recipe, fitted_to: ScoreHistogram | None = None
    ) -> Self:
        """Fit what rows add up to; keep it until both classes have been seen.

        The curve is that of ``fitted_to``, the same rows with other weights, if given.
        """
        histogram = rows.histogram
        kind = rows.kind
        if kind.value_kind == "margin":
            kind = replace(kind, share_inside=histogram.inside)
        if not (histogram.positives.any() and histogram.negatives.any()):
            self._pending = replace(rows, kind=kind)
            return self
        recipe = replace(
            recipe, design_effect=max(histogram.total / rows.n_effective, 1.0)
        )
        model = fit_histogram(
            histogram,
            rows.classes,
            kind,
            recipe,
            counts=rows.counts,
            fitted_to=fitted_to,
            n_effective=rows.n_effective,
        )
        warn_if_reversed(histogram.counts, rows.classes, model.fit.design_effect)
        return self._set_model(model)

    def fit_histogram(
        self,
        histogram: ScoreHistogram | Mapping[Any, ScoreHistogram],
        *,
        n_effective: float | None = None,
    ) -> Self:
        """Fit from sufficient statistics alone; the classes are those of the histogram, or 0 and 1.

        Parameters
        ----------
        histogram : ScoreHistogram or mapping
            A mapping from segments to their histograms is a fit with ``by``;
            :meth:`ScoreHistogram.from_scores` makes one. Keys that are tuples are the
            labels of several columns.
        n_effective : float, optional
            How many independent rows it is worth, if its rows depend on each other; a
            histogram does not know groups. None: all of them. Needed with
            ``weights="importance"``, as a histogram has sums of weights only.

        Examples
        --------
        >>> from calspline import ScoreHistogram, SplineCalibrator
        >>> counts = ScoreHistogram.from_counts([0.2, 0.5, 0.8], positives=[5, 30, 60], totals=[100, 100, 100])
        >>> SplineCalibrator().fit_histogram(counts).calibrate([0.5]).round(1)
        array([0.3])
        """
        recipe = self._options()
        counts = None
        if isinstance(histogram, Mapping):
            counts = SegmentHistograms.of(histogram)
        pooled = histogram if counts is None else counts.pooled
        if not isinstance(pooled, ScoreHistogram):
            raise TypeError(
                f"histogram must be a ScoreHistogram; got {type(pooled).__name__}"
            )
        histogram = pooled
        required = required_scores(recipe.scale)
        if required == "probability" and histogram.kind == "margin":
            raise ValueError(
                'histogram holds margins; to calibrate them use scale="identity"'
            )
        if not (histogram.positives.any() and histogram.negatives.any()):
            raise ValueError("histogram must hold both classes")
        if self.weights == "importance" and n_effective is None:
            raise ValueError(
                'n_effective must be given with weights="importance": a histogram has '
                "sums of weights, and they do not "
                "say how many rows these are worth"
            )
        classes = label_array(
            [0, 1] if histogram.classes is None else list(histogram.classes)
        )
        kind = ScoreKind(histogram.kind if required == "auto" else required)
        worth = _check_worth(n_effective, histogram)
        rows = SeenRows(classes, kind, histogram.of_classes(classes), counts, worth)
        return self._fit_seen(rows, recipe)

    def interval(
        self,
        scores: Any,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
        by: Any = None,
    ) -> Array:
        """Limits for the true calibrated probability at each score.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
        level : float in (0, 1), default=0.95
        simultaneous : bool, default=False
            True: limits that hold for all scores in the fitted range at once; for two
            classes only.
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row. For a segment never seen the limits are as wide as
            such segments differ. Of several classes it takes ``multiclass="ovr"``.

        Returns
        -------
        array of shape (n, 2), or (n, n_classes, 2) for three or more classes
            Lower and upper limit; of several classes, of the probability of each.

        Notes
        -----
        Of several classes limits come from the posterior of the fit, by the delta
        method on the log-odds of each class against the others. There is none for
        ``loss="brier"``: a spline of the probability itself misses how it bends near 0
        and 1, by more than a variance about the fit says.
        """
        check_fitted(self)
        model = self.model_
        curves = model.base_curves
        if curves and curves[0].link != "logit":
            raise ValueError(
                'interval needs loss="log"; bands about a fit by loss="brier" would '
                "not hold what they say"
            )
        if model.n_classes > 2 and simultaneous:
            raise ValueError("simultaneous must be False for more than two classes")
        level = check_number(level, "level", above=0.0, below=1.0)
        checked = model.check(scores, self._advice)
        places = model.check_segments(by, len(checked.values))
        log_odds = model.map.log_odds(checked, places.codes if places else None)
        if log_odds is None:
            raise ValueError('this curve has no band; splines with loss="log" have one')
        return log_odds.limits(level, simultaneous=simultaneous)

    @property
    def structure_(self) -> StructuredMap:
        """The fitted map of ``"structured"``."""
        base = self.model_.base
        structure = base.base if isinstance(base, SegmentedClasses) else base
        if not isinstance(structure, StructuredMap):
            raise AttributeError(
                f"this {type(self).__name__} has no structure_: it has curves_"
            )
        return structure

    @property
    def _is_structured(self) -> bool:
        return isinstance(self.model_.base, (StructuredMap, SegmentedClasses))

    @classmethod
    def _check_model(cls, model: Model) -> None:
        super()._check_model(model)
        if len(model.fit.curves) != len(model.base_curves):
            raise ValueError("fit.curves must be as many as the curves of the map")

    @property
    def smoothing_(self) -> Any:
        """The lambda in use; an array for ``"ovr"``."""
        if self._is_structured:
            return float(self.structure_.strengths[-1])
        return self._one_or_array([fit.smoothing for fit in self.model_.fit.curves])

    @property
    def smoothing_path_(self) -> Any:
        """The values of lambda tried and their criterion; a list for ``"ovr"``."""
        if self._is_structured:
            return {
                "smoothing": np.array([self.smoothing_]),
                "criterion": np.array([np.nan]),
            }
        fits = self.model_.fit.curves
        return self._one_or_list(
            [{"smoothing": fit.grid, "criterion": fit.criterion} for fit in fits]
        )

    @property
    def edf_(self) -> Any:
        """Effective degrees of freedom; an array for ``"ovr"``."""
        if self._is_structured:
            return 1.0 + float(self.structure_.effective.sum())
        return self._one_or_array([fit.edf for fit in self.model_.fit.curves])

    @property
    def scale_(self) -> Any:
        """The scale in use; a list for ``"ovr"``."""
        if self._is_structured:
            return "log"
        return self._one_or_list(
            [curve.transform.name for curve in self.model_.base_curves]
        )

    @property
    def epsilon_(self) -> Any:
        """The epsilon of the compact logit; a list for ``"ovr"``."""
        if self._is_structured:
            return None
        transforms = [curve.transform for curve in self.model_.base_curves]
        values = [
            each.epsilon if TRANSFORMS[each.name].takes_epsilon else None
            for each in transforms
        ]
        return self._one_or_list(values)

    @property
    def knots_(self) -> Any:
        """The knots, as scores; a list for ``"ovr"``."""
        if self._is_structured:
            return np.exp(self.structure_.breaks)
        curves = self.model_.base_curves
        knots = [
            curve.transform.inverse(curve.origin + curve.unit * curve.breaks)
            for curve in curves
        ]
        return self._one_or_list(knots)

    @staticmethod
    def _one_or_list(values: list[Any]) -> Any:
        return values[0] if len(values) == 1 else values

    @staticmethod
    def _one_or_array(values: list[float]) -> Any:
        return values[0] if len(values) == 1 else np.array(values)

    @property
    def converged_(self) -> bool:
        """Whether the fit converged."""
        return self.model_.fit.converged

    @property
    def n_iter_(self) -> int:
        """Newton steps of the final fit."""
        return self.model_.fit.n_iter

    @property
    def n_effective_(self) -> float:
        """How many independent rows those of the fit are worth."""
        return self.model_.fit.n_effective

    @property
    def design_effect_(self) -> float:
        """The total weight divided by ``n_effective_``."""
        return self.model_.fit.design_effect

    @property
    def histogram_(self) -> ScoreHistogram:
        """What a fit of two classes saw."""
        if self._pending is not None:
            return self._pending.histogram
        histogram = self.model_.fit.histogram
        if histogram is None:
            raise AttributeError(
                f"this {type(self).__name__} has no histogram_: it was loaded, or has "
                "more classes"
            )
        return histogram

    @property
    def segments_(self) -> SegmentTable:
        """What was learnt of each segment; only a fit with ``by`` has it."""
        model = self.model_
        if not model.segment_columns:
            raise AttributeError(
                f"this {type(self).__name__} was fitted without segments, and has no "
                "segments_"
            )
        parts = maps_of(model.base)
        segmented = [part for part in parts if isinstance(part, SegmentedCurve)]
        if len(segmented) < 2:
            return SegmentTable.of(model.segment_columns)
        columns = [column for part in segmented for column in part.columns]
        return SegmentTable.of(columns, model.classes.tolist())

    def summary(self) -> str:
        """What was fitted, in a few lines.

        Examples
        --------
        >>> from calspline import SplineCalibrator
        >>> print(SplineCalibrator().fit([0.1, 0.3, 0.6, 0.8, 0.9], [0, 0, 1, 0, 1]).summary())
        SplineCalibrator for 2 classes, on probabilities
          logit: smoothing 0.0577, 0.4 effective degrees of freedom, increasing
        """
        check_fitted(self)
        model = self.model_
        what = "probabilities" if model.kind.name == "probability" else "margins"
        lines = [f"{type(self).__name__} for {model.n_classes} classes, on {what}"]
        pairs = zip(self.curves_, model.fit.curves, strict=True)
        for j, (curve, fit) in enumerate(pairs):
            name = "" if len(model.fit.curves) == 1 else f"{model.classes[j]}: "
            lines.append(
                f"  {name}{curve.transform.name}: smoothing {fit.smoothing:.3g}, "
                f"{fit.edf:.1f} effective degrees of freedom, {curve.shape}"
            )
        if self._is_structured:
            lines += self.structure_.describe()
        if model.segment_columns:
            lines += self.segments_.describe()
        return "\n".join(lines)


def _add_rows(seen: SeenRows, new: SeenRows) -> SeenRows:
    """The rows of all calls."""
    if (seen.counts is None) != (new.counts is None):
        raise ValueError("by must be given in every call of partial_fit, or in none")
    counts = new.counts
    if seen.counts is not None and new.counts is not None:
        counts = seen.counts + new.counts
    histogram = seen.histogram + new.histogram
    n_effective = new.n_effective + seen.n_effective
    return SeenRows(
        new.classes, new.kind, histogram.of_classes(new.classes), counts, n_effective
    )


def _check_worth(n_effective: Any, histogram: ScoreHistogram) -> float:
    """How many independent rows a histogram is worth, by default all of them."""
    if n_effective is None:
        return histogram.total
    worth = check_number(n_effective, "n_effective", above=0.0)
    if worth > histogram.total * (1.0 + ROUNDING):
        raise ValueError(
            f"n_effective must be at most the weight of the rows, {histogram.total:g}; "
            f"got {worth:g}"
        )
    return worth
