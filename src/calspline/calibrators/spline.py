"""The smoothing-spline calibrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

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
from calspline._input.labels import label_array
from calspline._input.options import check_number, check_one_of
from calspline._input.rows import check_rows
from calspline._input.scores import (
    MARGIN_ADVICE,
    Requirement,
    ScoreKind,
)
from calspline.calibrators.base import BaseCalibrator
from calspline.calibrators.checks import check_fitted
from calspline.fits.accumulated import (
    SeenRows,
    check_n_effective,
    check_new_rows,
    fit_seen_rows,
)
from calspline.fits.options import Recipe, required_scores
from calspline.fits.rows import BinaryRows, MatrixRows
from calspline.fits.spline import fit_binary, fit_multiclass
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms
from calspline.maps.curve import CalibrationCurve
from calspline.maps.model import Model
from calspline.maps.segment_columns import SegmentTable
from calspline.maps.segmented import SegmentedCurve
from calspline.maps.segmented_classes import SegmentedClasses
from calspline.maps.structured import StructuredMap
from calspline.transforms import TRANSFORMS


class SplineCalibrator(BaseCalibrator):
    """Smoothing-spline calibration of scores.

    The log-odds of the calibrated probability are a natural cubic spline of the
    (transformed) score. The amount of smoothing is chosen from the data; without
    evidence of curvature, the curve is a straight line in the log-odds, as in Platt
    scaling. For three or more classes, pass one column of scores per class; see
    ``multiclass``.

    Parameters
    ----------
    scale : str, default="auto"
        Scale on which the spline is fitted: ``"auto"``, ``"logit"``,
        ``"compact_logit"``, ``"asinh_logit"`` or ``"identity"``. ``"auto"`` selects
        ``"logit"`` for probabilities, or ``"asinh_logit"`` if many scores are extreme
        and the marginal likelihood clearly prefers it. If more than a tenth of the rows
        lie outside [0, 1], all scores are treated as margins and the scale is
        ``"identity"``; if fewer do, an error is raised. Deviations from [0, 1] of up to
        1e-4 are clipped. With ``loss="brier"``, ``"auto"`` is ``"identity"``. See
        :mod:`calspline.transforms`.
    epsilon : float or "auto", default="auto"
        Score in (0, 0.5) below which the compact logit is linear. ``"auto"`` is the
        heuristic of the paper, which considers scores near 1 only; see
        :func:`calspline.transforms.choose_epsilon`.
    knots : {"quantile", "sample"}, default="quantile"
        Knots at quantiles, or sampled from the distinct scores as in the paper.
    n_knots : int, optional
        Number of knots, at least 2. By default 24 for up to 10,000 rows and slowly
        increasing beyond; with ``smoothing="reml"``, the number is doubled, up to 128,
        as long as the effective degrees of freedom exceed half of it. It is limited to
        the number of distinct scores and to 512.
    penalty : {"curvature", "ridge"}, default="curvature"
        ``"curvature"``: half of lambda times the integral of ``f''^2``, where ``f`` is
        the log-odds as a function of x scaled to [0, 1]. This is equation (1) of the
        paper, which is printed without the square and with ``f`` as the probability
        (the integral of ``f''`` would be just a difference of two slopes). ``"ridge"``:
        Algorithm 1 of the paper, half of lambda times the sum of squared coefficients
        of the basis ``N_2 .. N_K``, as in scikit-learn's ``LogisticRegression`` with
        ``C = 1 / lambda``. Margins larger than 10,000 are scaled to [0, 1] for
        ``"ridge"``, since their cubes would not be penalized otherwise.
    smoothing : {"reml", "cv"} or float, default="reml"
        Choice of lambda: by marginal likelihood, by k-fold cross-validation (as in the
        paper), or a given value. With ``"reml"``, fits are averaged over lambda and
        over how far the straight part of the curve may move away from the identity,
        unless ``loss="brier"`` or ``penalty="ridge"``. Well-calibrated scores are
        therefore left almost unchanged if there are few rows.
    smoothing_grid : array-like of float, optional
        Values of lambda to try. By default values from 1e-8 to 1e6, of which
        ``"reml"`` evaluates only some.
    cv : int, default=5
        Number of folds for ``smoothing="cv"``.
    loss : {"log", "brier"}, default="log"
        ``"brier"`` fits the probability itself by penalized least squares, with
        constraints that keep it inside (0, 1) where necessary.
    monotone : bool or "auto", default="auto"
        If True, the curve is nondecreasing; it equals the unconstrained curve if that
        is nondecreasing. ``"auto"`` does the same unless the constraint reduces the
        log-likelihood by more than 5 nats, not counting the most influential row.
        :meth:`summary` reports where a curve decreases. With
        ``multiclass="structured"`` or ``penalty="ridge"``, ``"auto"`` means False.
    weights : {"frequency", "importance"}, default="frequency"
        Meaning of ``sample_weight``. ``"frequency"``: weights count rows, so their
        scale matters. ``"importance"``: only ratios matter, as for weights that correct
        for the sampling design; weights are scaled to sum to the effective sample size,
        ``(sum w)^2 / sum w^2``. This requires all rows at once: :meth:`partial_fit`
        does not support it, and :meth:`fit_histogram` uses the weights as they were
        summed.
    multiclass : {"structured", "ovr"}, default="structured"
        Model for three or more classes. ``"structured"`` is
        ``softmax(s(u) + W u + b)``: a spline ``s`` of the tempered log-probabilities
        ``u``, shared by all classes, a matrix and intercepts, each shrunk towards
        temperature scaling with a strength estimated from the data. It supports
        ``monotone``, a numeric ``smoothing`` and ``n_knots``. With ``monotone=True``
        there is no matrix, so the ranking of the classes within a row is preserved.
        Unless ``smoothing`` is a number, the fit is averaged with a conservative
        temperature scaling, so well-calibrated scores are left almost unchanged if
        there are few rows. ``"ovr"`` is Algorithm 3 of the paper, one curve per class
        against the rest, and supports all other parameters.
    random_state : int, RandomState instance or None, default=None
        Random state for ``knots="sample"`` and for the folds of ``smoothing="cv"``.
        None is the same as 0, so fits are reproducible.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted. With two classes, ``calibrate`` returns the probability of
        the second.
    curves_ : list of CalibrationCurve
        One curve for two classes, one per class for ``"ovr"``, none for
        ``"structured"``.
    structure_ : StructuredMap
        Fitted map of ``"structured"``.
    smoothing_ : float
        Value of lambda used; for an average of fits, the value with the same effective
        degrees of freedom. With ``"ovr"``, this attribute, ``edf_`` and ``epsilon_``
        are arrays, and ``scale_``, ``smoothing_path_`` and ``knots_`` are lists.
    smoothing_path_ : dict of arrays
        The values of lambda tried (``"smoothing"``) and their criterion
        (``"criterion"``; lower is better).
    edf_ : float
        Effective degrees of freedom: 2 for an unpenalized straight line, 0 for the
        identity.
    scale_ : str
        Scale used.
    epsilon_ : float or None
        Value of epsilon used by the compact logit.
    knots_ : ndarray
        Knots, as scores.
    converged_ : bool
        Whether the fit converged.
    n_iter_ : int
        Number of Newton steps of the final fit.
    n_effective_ : float
        Effective sample size: the total weight, or less if ``groups`` were given.
    design_effect_ : float
        Total weight divided by ``n_effective_``; 1 without groups.
    histogram_ : ScoreHistogram
        Histogram to which the curve was fitted. ``partial_fit`` adds rows to it.
    segments_ : SegmentTable
        After a fit with ``by``, a dict of columns with one entry per segment:
        ``segment``, ``rows``, ``events``, ``mean_score``, ``event_rate``, ``intercept``
        and ``slope`` (deviations of its log-odds from the common curve, at an average
        score and per unit of x), ``shrinkage`` (how far the intercept is pulled from
        the segment's own estimate to the common curve: 0 not at all, 1 entirely), and
        the 95% limits of the intercept, ``low`` and ``high``. If ``by`` has several
        columns, ``column`` is the one to which a segment belongs.

    See Also
    --------
    CalibratedClassifierCV : Calibrate a classifier by cross-validation.
    sklearn.isotonic.IsotonicRegression : Isotonic regression.

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
    """Rows of ``partial_fit`` as long as one class is missing."""
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
        """Create a calibrator with the settings of the paper.

        Algorithm 1 calibrates the score itself and Algorithm 2 its compact logit, with
        200 knots sampled from the scores, a ridge penalty on the natural basis, and
        lambda chosen by five-fold cross-validation of the log-loss. Algorithm 3 applies
        Algorithm 2 (or Algorithm 1, with ``scale="identity"``) to each class against
        the rest and normalizes.

        Parameters
        ----------
        algorithm : {1, 2, 3}, default=1
            Number of the algorithm in the paper.
        **overrides : dict
            Parameters of the calibrator that replace those of the paper.

        Returns
        -------
        calibrator : SplineCalibrator
            Calibrator that is not fitted yet.

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
        """Fit the calibrator to scores and labels.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
            Probabilities or margins. For two classes, pass the score of the second
            class, or both columns, which are more precise for very confident models.
            Columns must be in the order of ``classes_``; columns of a data frame that
            are named after the classes are reordered.
        y : array-like of shape (n,)
            Labels of any type. With three or more columns of scores, a class may be
            missing from ``y`` if the labels are integers from 0 to m-1 or the columns
            of a data frame name the classes.
        sample_weight : array-like of shape (n,), optional
            Sample weights; see the parameter ``weights``.
        groups : array-like of shape (n,), optional
            Group of each row (patient, game). Rows of a group may depend on each other;
            groups are independent. A group of ``n`` rows has the weight of
            ``n / (1 + rho (n - 1))`` independent rows, so no large group dominates the
            curve. The correlation ``rho`` is estimated; with few groups the estimate is
            conservative, rather too large than too small. With ``by``, differences
            between segments do not count as dependence, and effects of segments have a
            design effect of their own. ``smoothing="cv"`` leaves out whole groups.
        by : array-like of shape (n,) or (n, n_columns), optional
            Segment of each row (country, campaign). Several columns may also be given
            as a list or a data frame; their effects are added. Each segment has the
            common curve with an intercept, a slope and a bend of its own, each shrunk
            as strongly as the data suggest. Labels are compared by value: 1 and 1.0 are
            the same segment, 1 and "1" are not. Rows with the label None contribute to
            the common curve only. Requires ``loss="log"``.

        Returns
        -------
        self : object
            Fitted calibrator.

        Examples
        --------
        Ten forecasts for each of 100 games, with one outcome per game:

        >>> import numpy as np
        >>> from calspline import SplineCalibrator
        >>> rng = np.random.default_rng(0)
        >>> log_odds = np.repeat(rng.normal(size=100), 10)
        >>> won = np.repeat(rng.random(100), 10) < 1 / (1 + np.exp(-log_odds))
        >>> forecast = 1 / (1 + np.exp(-log_odds + 0.1 * rng.normal(size=1000)))
        >>> games = np.repeat(np.arange(100), 10)
        >>> cal = SplineCalibrator().fit(forecast, won, groups=games)
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
        rows = check_rows(scores, y, sample_weight, groups, by)
        if self.weights != "importance":
            rows.check_weights_as_counts()
        self._fit_rows(rows)
        self._pending = None
        return self

    def _fit(self, rows: BinaryRows | MatrixRows, options: dict[str, Any]) -> Model:
        recipe = _recipe_of(options)
        if options["weights"] == "importance":
            rows = rows.with_importance_weights()
        if isinstance(rows, BinaryRows):
            return fit_binary(rows, recipe)
        return fit_multiclass(rows, recipe, options["multiclass"])

    def _recipe(self) -> Recipe:
        """The checked options of a fit."""
        return _recipe_of(self._check_parameters())

    @property
    def _requirement(self) -> Requirement:
        return required_scores(self.scale)

    def partial_fit(
        self,
        scores: Any,
        y: Any,
        sample_weight: Any = None,
        classes: Any = None,
        *,
        by: Any = None,
    ) -> Self:
        """Add rows to those of earlier calls and refit.

        The result is that of a single :meth:`fit` to all rows, however they are split
        into chunks, and the time of a call does not depend on the number of earlier
        rows. The calibrator is not fitted until both classes have occurred. Two classes
        only.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, 2)
            Probabilities or margins, as in :meth:`fit`.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Sample weights; they count rows.
        classes : array-like of two labels, optional
            Class labels, in the order of ``classes_``. Required in the first call if
            its rows have only one of them.
        by : array-like of shape (n,) or (n, n_columns), optional
            Segment of each row, as in :meth:`fit`; in every call or in none.

        Returns
        -------
        self : object
            The calibrator.
        """
        recipe = self._recipe()
        seen = self._seen_rows()
        if self.weights == "importance" and sample_weight is not None:
            raise ValueError(
                'weights must be "frequency" for partial_fit: the scale of importance '
                "weights depends on all rows"
            )
        new = check_new_rows(scores, y, sample_weight, classes, by, recipe.scale, seen)
        return self._fit_seen(new if seen is None else seen.with_rows(new), recipe)

    def _seen_rows(self) -> SeenRows | None:
        """The rows of earlier calls; None if there are none."""
        if self._pending is not None or not self.__sklearn_is_fitted__():
            return self._pending
        return SeenRows.of_model(self.model_)

    def _fit_seen(
        self, rows: SeenRows, recipe: Recipe, fitted_to: ScoreHistogram | None = None
    ) -> Self:
        """Fit accumulated rows, or only keep them while a class is missing."""
        if not rows.has_both_classes:
            self._pending = rows
            return self
        self._set_model(fit_seen_rows(rows, recipe, fitted_to))
        self._pending = None
        return self

    def fit_histogram(
        self,
        histogram: ScoreHistogram | Mapping[Any, ScoreHistogram],
        *,
        n_effective: float | None = None,
    ) -> Self:
        """Fit the calibrator to a histogram of scores.

        The classes are those of the histogram, or 0 and 1 if it has none.

        Parameters
        ----------
        histogram : ScoreHistogram or mapping
            Sufficient statistics of the calibration rows. A mapping from segments to
            histograms, as returned by ``ScoreHistogram.from_scores(..., by=)``, gives a
            fit with ``by``; keys are tuples for several columns of segments.
        n_effective : float, optional
            Effective sample size, if rows depend on each other. By default the total
            weight. Required with ``weights="importance"``.

        Returns
        -------
        self : object
            Fitted calibrator.

        Examples
        --------
        >>> from calspline import ScoreHistogram, SplineCalibrator
        >>> counts = ScoreHistogram.from_counts(
        ...     [0.2, 0.5, 0.8], positives=[5, 30, 60], totals=[100, 100, 100])
        >>> SplineCalibrator().fit_histogram(counts).calibrate([0.5]).round(1)
        array([0.3])
        """
        recipe = self._recipe()
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
                'n_effective must be given with weights="importance": the effective '
                "sample size does not follow from the sums of weights in a histogram"
            )
        classes = label_array(
            [0, 1] if histogram.classes is None else list(histogram.classes)
        )
        kind = ScoreKind(histogram.kind if required == "auto" else required)
        worth = check_n_effective(n_effective, histogram)
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
        """Credible intervals of the calibrated probabilities.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
            Scores of the same kind as in :meth:`fit`.
        level : float, default=0.95
            Probability of the interval, in (0, 1).
        simultaneous : bool, default=False
            If True, the limits hold for all scores in the range of the calibration data
            at the same time. Two classes only.
        by : array-like of shape (n,) or (n, n_columns), optional
            Segment of each row. Intervals for unseen segments include the spread
            between segments. For three or more classes, requires ``multiclass="ovr"``.

        Returns
        -------
        limits : ndarray of shape (n, 2) or (n, n_classes, 2)
            Lower and upper limits; for three or more classes, those of each class.

        Notes
        -----
        For three or more classes, the limits come from the posterior of the fit by the
        delta method, applied to the log-odds of each class against the others.
        Intervals are not available for ``loss="brier"``: a spline of the probability
        itself is biased near 0 and 1, which its variance does not reflect.
        """
        check_fitted(self)
        model = self.model_
        curves = model.base_curves
        if curves and curves[0].link != "logit":
            raise ValueError(
                'interval requires loss="log"; with loss="brier" the limits would not '
                "have the stated level"
            )
        if model.n_classes > 2 and simultaneous:
            raise ValueError("simultaneous must be False for more than two classes")
        level = check_number(level, "level", above=0.0, below=1.0)
        checked = model.check(scores, self._advice)
        places = model.check_segments(by, len(checked.values))
        log_odds = model.map.log_odds(checked, places.codes if places else None)
        if log_odds is None:
            raise ValueError(
                'this curve has no intervals; splines with loss="log" have them'
            )
        return log_odds.limits(level, simultaneous=simultaneous)

    @property
    def structure_(self) -> StructuredMap:
        """Fitted map of ``multiclass="structured"``."""
        structure: StructuredMap | None = self.model_.base.structure
        if structure is None:
            raise AttributeError(
                f"this {type(self).__name__} has no structure_: it has curves_"
            )
        return structure

    @property
    def _is_structured(self) -> bool:
        return self.model_.base.structure is not None

    @classmethod
    def _check_model(cls, model: Model) -> None:
        super()._check_model(model)
        if len(model.fit.curves) != len(model.base_curves):
            raise ValueError("fit.curves must have one entry per curve of the map")

    @property
    def smoothing_(self) -> Any:
        """Value of lambda used; an array for ``"ovr"``."""
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
        """Scale used; a list for ``"ovr"``."""
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
        """Number of Newton steps of the final fit."""
        return self.model_.fit.n_iter

    @property
    def n_effective_(self) -> float:
        """Effective sample size."""
        return self.model_.fit.n_effective

    @property
    def design_effect_(self) -> float:
        """The total weight divided by ``n_effective_``."""
        return self.model_.fit.design_effect

    @property
    def histogram_(self) -> ScoreHistogram:
        """Histogram of the calibration rows; two classes only."""
        if self._pending is not None:
            return self._pending.histogram
        histogram = self.model_.fit.histogram
        if histogram is None:
            raise AttributeError(
                f"this {type(self).__name__} has no histogram_: it was loaded from a "
                "file, or has more than two classes"
            )
        return histogram

    @property
    def segments_(self) -> SegmentTable:
        """Effects of the segments; available after a fit with ``by``."""
        model = self.model_
        if not model.segment_columns:
            raise AttributeError(
                f"this {type(self).__name__} has no segments_: it was fitted without by"
            )
        parts = model.base.parts
        columns = [column for part in parts for column in part.segment_columns]
        classes = [] if len(parts) == 1 else model.classes.tolist()
        return SegmentTable.of(columns, classes)

    def summary(self) -> str:
        """Describe the fit in a few lines.

        Returns
        -------
        description : str
            Kind of scores, scale, smoothing and effective degrees of freedom.

        Examples
        --------
        >>> from calspline import SplineCalibrator
        >>> cal = SplineCalibrator().fit([0.1, 0.3, 0.6, 0.8, 0.9], [0, 0, 1, 0, 1])
        >>> print(cal.summary())
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


def _recipe_of(options: dict[str, Any]) -> Recipe:
    names = options.keys() - {"multiclass", "weights", "random_state"}
    kept = {name: options[name] for name in names}
    return Recipe(seed=options["random_state"], **kept)
