"""What every calibrator shares, checked rows in and probabilities out, and what those for two classes do with more."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, blocks, filled, keeps_kind, one_blas_thread
from calspline.calibrators.shift import Reference, Shift, find_shift
from calspline.calibrators.stored import StoredCalibrator
from calspline.curve import CalibrationCurve, WhenRead, constant
from calspline.expression import Formula, Program, one_vs_rest
from calspline.labels import (
    check_binary_labels,
    check_matrix_labels,
    warn_if_columns_shuffled,
    warn_if_rows_reversed,
    warn_user,
)
from calspline.multiclass.one_vs_rest import AgainstRest, ScoreMap, combine, fit_classes
from calspline.multiclass.scale import unmasked
from calspline.options import BOOLEAN, Domain, check_fitted
from calspline.scores import (
    BinaryScores,
    GivenScores,
    Kind,
    LabelledRows,
    MatrixKind,
    MatrixScores,
    WeightMeaning,
    check_binary_scores,
    check_matrix_scores,
    check_rows,
    check_scores,
    row_weight,
)
from calspline.transforms import Source

ALL_EQUAL = "all scores are equal: the calibrated probability is the base rate"
VALUES_AT_ONCE = 1 << 21
"""Probabilities that a fit looks back at: so many have memory that is used again."""


class BaseCalibrator(StoredCalibrator):
    """A scikit-learn estimator whose features are a model's scores.

    A method says how it fits checked scores (``_fit_two``, ``_fit_many``) and how it evaluates them (``_two``,
    ``_many``).
    """

    classes_: NDArray[Any]
    curves_: list[CalibrationCurve]
    kind_: Kind
    difference_: bool
    reference_: WhenRead[Reference | None] = WhenRead(None)
    shift_: Shift | None = None

    prefers_margins: ClassVar[bool] = False
    """Whether a model's ``decision_function`` is read before its ``predict_proba``."""
    _inside: float | None = None
    _fit_advice: ClassVar[str] = (
        'Margins of which so few lie outside [0, 1] are for SplineCalibrator(transform="identity").'
    )
    _advice: ClassVar[str] = "This calibrator was fitted on probabilities; to calibrate margins, fit it on margins."

    def fit(self, scores: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the calibration from scores and what happened.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
            Probabilities (of two classes: of the second, or of both, which keeps more of
            very confident ones), or margins. Columns are in the order of ``classes_``; columns
            of a data frame that are named after the classes are put in that order.
        y : array-like of shape (n,)
            Labels of any type. For three or more columns, integers from 0 to m-1 and names
            of a frame's columns need not all occur.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 is a row seen twice; of 0, a row not seen.

        Returns
        -------
        self
        """
        meaning: WeightMeaning = "checked" if isinstance(scores, GivenScores) else "frequency"
        return self._fit_rows(check_rows(scores, y, sample_weight, weights=meaning))

    def _fit_rows(self, rows: LabelledRows) -> Self:
        """Fit checked rows, of two classes or of more."""
        options = self.recipe()
        given, n = rows.scores, len(rows.labels)
        kind = self._takes(options, given.margins)
        if given.n_columns > 2:
            classes, codes = check_matrix_labels(rows.labels, n, given.n_columns, given.names)
            matrix = check_matrix_scores(given.in_class_order(classes), kind=kind, advice=self._fit_advice)
            self._fit_many(matrix, codes, rows, options)
            warn_if_columns_shuffled(matrix.values, codes, rows.weight, classes, getattr(self, "design_effect_", 1.0))
            highest = np.empty(n)
            for some in blocks(n, len(classes), VALUES_AT_ONCE):
                highest[some] = self._many(MatrixScores(matrix.kind, matrix.values[some])).max(axis=1)
            known = Reference.of_rows(highest, codes, rows.weight, len(classes))
            return self._remember(classes, matrix.kind, given.share_inside, known)
        classes, positive = check_binary_labels(rows.labels, n)
        ordered, difference = given.in_class_order(classes), given.margins or None
        binary = check_binary_scores(ordered, kind=kind, difference=difference, advice=self._fit_advice)
        self._fit_two(binary, positive, rows, options)
        reference = self._look_back(binary, positive, rows, classes)
        return self._remember(classes, binary.kind, given.share_inside, reference, difference=binary.difference)

    def _look_back(
        self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, classes: NDArray[Any]
    ) -> Reference | Callable[[], Reference]:
        """What to remember of the rows of a fit of two classes; warn if they are probably not what was meant."""
        warn_if_rows_reversed(scores.locations(), positive, rows.weight, classes, row_weight(rows.weight))
        return Reference.of_rows(self._two(scores), positive.astype(np.intp), rows.weight)

    def _remember(
        self, classes: NDArray[Any], kind: Kind, inside: float | None, reference: Any, *, difference: bool = False
    ) -> Self:
        """How the scores of the fit were taken, to take others so; ``inside`` is the share of margins in [0, 1]."""
        self._inside = inside if kind == "margin" else None
        self.classes_, self.kind_, self.difference_ = classes, kind, difference
        self.reference_, self.shift_ = reference, None
        return self

    def recipe(self) -> Any:
        """The options, checked, as a fit wants them."""
        return {name: domain.check(getattr(self, name), name) for name, domain in self._parameter_constraints.items()}

    def _takes(self, options: Any, margins: bool) -> MatrixKind:
        """What the scores have to be; by default they decide, unless they were declared to be margins."""
        return "margin" if margins else "auto"

    @abstractmethod
    def _fit_two(self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, options: Any) -> None:
        """Fit two classes; ``rows`` has the weights and groups."""

    @abstractmethod
    def _fit_many(self, scores: MatrixScores, codes: NDArray[np.intp], rows: LabelledRows, options: Any) -> None:
        """Fit three or more classes."""

    def formula(self) -> Formula:
        """What it computes, in terms that the exports write."""
        check_fitted(self)
        classes = self.classes_.tolist()
        moved = (lambda program: program) if self.shift_ is None else self.shift_.program
        if len(classes) > 2:
            return Formula(classes, self.kind_, moved(self._many_program()))
        one, pair = moved(self._two_program("one")), moved(self._two_program("pair"))
        return Formula(classes, self.kind_, one, pair, self.difference_)

    def _two_program(self, source: Source) -> Program:
        """The steps from the score of two classes."""
        return self.curves_[0].program(source)

    def _many_program(self) -> Program:
        """The steps from a row of scores of three or more classes."""
        raise TypeError(f"{type(self).__name__} has no formula for three or more classes")

    @abstractmethod
    def _two(self, scores: BinaryScores) -> Array:
        """Calibrated probabilities of the second of two classes."""

    @abstractmethod
    def _many(self, scores: MatrixScores) -> Array:
        """Calibrated probabilities of three or more classes, a column for each."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.classifier_tags.poor_score = True  # on features that are no scores
        return tags

    @keeps_kind
    def predict_proba(self, scores: Any, *, by: Any = None) -> Array:
        """Calibrated probabilities of all classes.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row, if the fit knew segments. A segment never seen, and None, gets the probability that
            holds for a new segment: that of the common curve, the spread between segments taken into account. A warning
            says how many rows that were. Without ``by`` all rows are of new segments.

        Returns
        -------
        array of shape (n, n_classes)
            Columns in the order of ``classes_``. Scores in a tensor of PyTorch, or in an array that follows the array
            API, give one of the same kind, on the same device and in the same floating type.
        """
        return as_matrix(self._probability(scores, by)[0])

    @keeps_kind
    def calibrate(self, scores: Any, *, by: Any = None) -> Array:
        """Calibrated probabilities in the shape that came in.

        One column in gives the probability of ``classes_[1]``; more give all classes. ``by`` is as for
        :meth:`predict_proba`.
        """
        p, shape = self._probability(scores, by)
        return as_matrix(p) if p.ndim == 2 or shape[1:] == (2,) else p.reshape(shape)

    @keeps_kind
    def predict(self, scores: Any, *, by: Any = None) -> NDArray[Any]:
        """The most probable class of each row; ``by`` is as for :meth:`predict_proba`."""
        p, _ = self._probability(scores, by)
        return np.asarray(self.classes_[p.argmax(axis=1) if p.ndim == 2 else (p > 0.5).astype(np.intp)])

    def _probability(self, scores: Any, by: Any = None) -> tuple[Array, tuple[int, ...]]:
        """Calibrated probabilities, of two classes those of the second, flat; and the shape of the scores."""
        check_fitted(self)
        given = check_scores(scores)
        segments = {} if by is None else {"codes": self.codes_of(by, len(given))}
        checked = self._check_scores(given)
        if isinstance(checked, BinaryScores):
            p, shape = self._two(checked, **segments), checked.shape
        else:
            p, shape = self._many(checked, **segments), checked.values.shape
        return p if self.shift_ is None else self.shift_.apply(p), shape

    def codes_of(self, by: Any, n: int) -> Any:
        """The place of each row's segment among those of the fit; here, there are none."""
        raise ValueError("by must not be given: this calibrator was fitted without segments")

    @property
    def scores_in_unit_interval(self) -> bool:
        """Whether the scores of the fit lay in [0, 1], as probabilities do."""
        return self.kind_ == "probability" or (self._inside is None and not self.difference_)

    def warn_without_segments(self) -> None:
        """Warn where scores come without the segments of the fit; here, there are none."""

    def shifted(self, *, base_rate: Any = None, kept: Any = None, unlabelled: Any = None) -> Self:
        """The same calibrator for another base rate; this one stays as it is.

        It is right if the base rate is all that changes: rows of either class have the scores they always had. Of a
        calibrator that was shifted already, ``base_rate`` and ``unlabelled`` replace the shift and its uncertainty;
        ``kept`` is on top of it.

        Parameters
        ----------
        base_rate : float or mapping of label to float, optional
            The new share of the second of two classes, or of each class.
        kept : mapping of label to float, optional
            The shares of the rows of each class that were kept before the model or the calibrator was fitted
            (``{0: 0.1, 1: 1.0}`` if nine of ten negatives were thrown away; 3.0 if rows were repeated three times). The
            new calibrator is for the data before that.
        unlabelled : ScoreHistogram or array-like of scores, optional
            New scores, whose labels are not known (or do not count): the new base rate is estimated from them. A
            warning says if another base rate does not explain them.

        Returns
        -------
        calibrator
            Of the same class. Its ``shift_`` has the new ``base_rates``, their ``limits()`` and the ``p_value`` of the
            test, if they were estimated. It predicts, saves and exports as any other, and its intervals include the
            uncertainty of an estimated base rate.

        See Also
        --------
        calspline.drift : Whether a calibrator is still right, from labels.

        Notes
        -----
        A model file of version 0.1.0 does not know the base rate of its fit, so that only ``kept`` is possible.
        The uncertainty of an estimate includes the calibrator's own for a :class:`~calspline.SplineCalibrator` of two
        classes.

        Examples
        --------
        >>> import numpy as np
        >>> from calspline import SplineCalibrator
        >>> rng = np.random.default_rng(0)
        >>> y = rng.random(4000) < 0.5
        >>> score = 1 / (1 + np.exp(-rng.normal(2 * y - 1)))
        >>> cal = SplineCalibrator().fit(score, y)
        >>> cal.calibrate([0.5]).round(2), cal.shifted(base_rate=0.1).calibrate([0.5]).round(2)
        (array([0.5]), array([0.1]))
        >>> rare = rng.random(4000) < 0.1
        >>> today = 1 / (1 + np.exp(-rng.normal(2 * rare - 1)))
        >>> cal.shifted(unlabelled=today).shift_.limits()[1].round(2)
        array([0.07, 0.11])
        """
        check_fitted(self)
        moved = self.unshifted()
        moved._absorb(find_shift(moved, base_rate, kept, unlabelled, earlier=self.shift_))
        return moved

    def unshifted(self) -> Self:
        """A copy without the shift."""
        plain = copy(self)
        plain.shift_ = None
        return plain

    def _absorb(self, shift: Shift) -> None:
        """Take a shift: a method may move its own curves, and others move what comes out of them."""
        self.shift_ = shift

    def noise(self, scores: Any) -> Array:
        """Independent errors of the log-odds of two classes, one standard deviation each, (r, n); r is 0 if unknown."""
        return self.curves_[0].noise(self._check_scores(scores)) if self.curves_ else np.empty((0, len(scores)))

    def sum_variance(self, scores: Any, weights: Array) -> float:
        """Of three or more classes, the variance of a weighted sum of the log-probabilities before they are normalised.

        It is 0 where the method does not know its own uncertainty.
        """
        return 0.0

    def _check_scores(self, scores: Any) -> Any:
        """Scores to calibrate, taken as those of the fit were: those of two classes, or a matrix of more."""
        given = check_scores(scores).in_class_order(self.classes_)
        if self.kind_ == "margin":
            given.warn_if_probabilities(self._inside)
        if len(self.classes_) == 2:
            return check_binary_scores(given, kind=self.kind_, difference=self.difference_, advice=self._advice)
        return check_matrix_scores(given, kind=self.kind_, n_columns=len(self.classes_), advice=self._advice)


def warn_not_converged() -> None:
    """Warn, in scikit-learn's category, that a fit did not converge."""
    from sklearn.exceptions import ConvergenceWarning

    warn_user("the fit did not converge", ConvergenceWarning)


def as_matrix(p: Array) -> Array:
    """A column of probabilities for each class; of two, those of the second may come alone."""
    return p if p.ndim == 2 else filled(np.empty((len(p), 2)), lambda rows: np.column_stack([1.0 - p[rows], p[rows]]))


@dataclass(frozen=True)
class MapFit:
    """A fitted map; ``constant`` where all scores were equal."""

    map: ScoreMap
    constant: bool = False
    converged: bool = True


class OneVsRestCalibrator(BaseCalibrator):
    """A calibrator whose method maps one class's score to its probability; see :func:`fit_classes` and :func:`combine`.

    Maps are :class:`~calspline.CalibrationCurve` objects, unless a method overrides what is done with them.
    """

    _maps: list[Any]
    converged_: bool

    _stored: ClassVar[dict[str, Domain]] = {"converged": BOOLEAN}

    @abstractmethod
    def _fit_map(self, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None) -> MapFit:
        """Fit one class against the rest; both occur."""

    def _constant_map(self, kind: Kind, rate: float) -> ScoreMap:
        """The same probability for every score."""
        return constant(kind, rate)

    def _set_maps(self, maps: list[Any]) -> None:
        """Set the fitted attributes that the maps give: one map for two classes, else one per class."""
        self._maps = self.curves_ = maps

    def _maps_from(self, facts: dict[str, Any], curves: list[CalibrationCurve]) -> list[Any]:
        """The maps that a file describes."""
        return curves

    def _columns(self, scores: MatrixScores) -> AgainstRest:
        """Each class's score against the rest; a margin is that already."""
        return AgainstRest(scores, "logit", logits=False)

    def _fit_two(self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, options: Any) -> None:
        with one_blas_thread():
            self._set_fits([self._fit_map(scores, positive, rows.weight)])

    def _fit_many(self, scores: MatrixScores, codes: NDArray[np.intp], rows: LabelledRows, options: Any) -> None:
        columns = self._columns(unmasked(scores, rows.weight))
        with one_blas_thread():
            fits = fit_classes(
                columns,
                codes,
                rows.weight,
                lambda column, positive: self._fit_map(column, positive, rows.weight),
                lambda rate, total: MapFit(self._constant_map(columns.kind, rate), constant=True),
            )
        self._set_fits(fits)

    def _set_fits(self, fits: list[MapFit]) -> None:
        if all(fit.constant for fit in fits):
            warn_user(ALL_EQUAL)
        self.converged_ = all(fit.converged for fit in fits)
        if not self.converged_:
            warn_not_converged()
        self._set_maps([fit.map for fit in fits])

    def _two(self, scores: BinaryScores) -> Array:
        p: Array = self._maps[0].evaluate(scores)
        return p

    def _many(self, scores: MatrixScores) -> Array:
        return combine([each.evaluate for each in self._maps], self._columns(scores))

    def _many_program(self) -> Program:
        return one_vs_rest([each.program("pair") for each in self._maps])

    def _restore(self, facts: dict[str, Any], curves: list[CalibrationCurve], structure: Any, n_classes: int) -> None:
        maps = self._maps_from(facts, curves)
        if len(maps) != (1 if n_classes == 2 else n_classes):
            raise ValueError(f"curves must be one for two classes, or one per class; got {len(maps)}")
        self.converged_ = facts["converged"]
        self._set_maps(maps)
