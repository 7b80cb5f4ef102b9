"""Base class of all calibrators."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from calspline._arrays import Array, filled
from calspline._codec import from_json, to_json
from calspline._domains import Domain
from calspline._input.rows import LabelledRows, check_rows, label_scores
from calspline._input.scores import (
    GivenScores,
    Requirement,
    check_scores,
)
from calspline._input.segment_labels import (
    By,
    check_by,
)
from calspline._user_warnings import warn_user
from calspline.calibrators.array_api import keeps_kind
from calspline.calibrators.checks import check_fitted
from calspline.fits.rows import BinaryRows, MatrixRows, rows_of_classes
from calspline.fits.shift import shift_model
from calspline.maps.curve import CalibrationCurve
from calspline.maps.model import ADVICE, Model
from calspline.maps.one_vs_rest import maps_of
from calspline.maps.shifted import Shifted


class BaseCalibrator(ClassifierMixin, BaseEstimator):
    """Base class of all calibrators: classifiers whose features are scores.

    A calibrator says how checked rows become a :class:`~calspline.maps.model.Model`
    (``_fit``). Fitted attributes are views of ``model_``.
    """

    model_: Model

    _parameter_constraints: ClassVar[dict[str, Domain]] = {}
    """Options of the constructor, with their domains."""
    _kinds_of_map: ClassVar[tuple[type, ...]] = ()
    """What a class, or two classes, may be mapped by."""
    _prefers_margins: ClassVar[bool] = False
    """Whether a model's ``decision_function`` is read before its ``predict_proba``."""
    _fit_advice: ClassVar[str] = (
        "Margins of which so few lie outside [0, 1] are for "
        'SplineCalibrator(scale="identity").'
    )
    _advice: ClassVar[str] = ADVICE

    @abstractmethod
    def _fit(self, rows: BinaryRows | MatrixRows, options: Any) -> Model:
        """Fit checked rows."""

    def fit(self, scores: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the calibration from scores and outcomes.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
            Probabilities (of two classes: of the second, or of both, which keeps more
            of very confident ones), or margins. Columns are in the order of
            ``classes_``; columns of a data frame that are named after the classes are
            put in that order.
        y : array-like of shape (n,)
            Labels of any type. For three or more columns, integers from 0 to m-1 and
            names of a frame's columns need not all occur.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 is a row seen twice; of 0, a row not seen.

        Returns
        -------
        self
        """
        rows = check_rows(scores, y, sample_weight)
        rows.check_weights_as_counts()
        return self._fit_rows(rows)

    def _fit_scores(
        self,
        scores: GivenScores,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        by: By | None = None,
        classes: NDArray[Any],
        margins: bool = False,
    ) -> Self:
        """Fit scores whose columns are those of the classes.

        ``y`` has codes of the ``classes``, and weights are known to count rows;
        ``margins`` declares that the scores are margins.
        """
        rows = label_scores(scores, y, sample_weight, groups, by)
        if getattr(self, "weights", "frequency") == "importance":
            rows = rows.with_importance_weights()
        return self._fit_rows(rows, classes, margins=margins)

    def _fit_rows(
        self,
        rows: LabelledRows,
        classes: NDArray[Any] | None = None,
        *,
        margins: bool = False,
    ) -> Self:
        """Fit checked rows; ``classes`` are labels for the codes that ``y`` has."""
        options = self._options()
        requirement = self._required_scores(options, margins)
        checked = rows_of_classes(rows, requirement, self._fit_advice, classes)
        return self._set_model(self._fit(checked, options))

    def _set_model(self, model: Model) -> Self:
        if not model.fit.converged:
            warn_user("the fit did not converge", ConvergenceWarning)
        self.model_ = model
        return self

    def _options(self) -> Any:
        """The options, checked."""
        return {
            name: domain.check(getattr(self, name), name)
            for name, domain in self._parameter_constraints.items()
        }

    def _required_scores(self, options: Any, margins: bool) -> Requirement:
        """What the scores have to be, if they are declared to be margins or not."""
        return "margin" if margins else "auto"

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.one_d_array = True
        tags.classifier_tags.poor_score = True  # on features that are no scores
        return tags

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of columns."""
        return self.model_.classes

    @property
    def curves_(self) -> list[CalibrationCurve]:
        """The curves of the map: one for two classes, one per class, or none."""
        return self.model_.curves

    @property
    def shift_(self) -> Shifted | None:
        """How the base rates were shifted, if they were."""
        fitted = self.model_.map
        return fitted if isinstance(fitted, Shifted) else None

    @keeps_kind
    def predict_proba(self, scores: Any, *, by: Any = None) -> Array:
        """Calibrated probabilities of all classes.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row, if the fit knew segments. A segment never seen, and
            None, gets the probability that holds for a new segment: that of the common
            curve, the spread between segments taken into account. A warning says how
            many rows that were. Without ``by`` all rows are of new segments.

        Returns
        -------
        array of shape (n, n_classes)
            Columns in the order of ``classes_``. Scores in a tensor of PyTorch, or in
            an array that follows the array API, give one of the same kind, on the same
            device and in the same floating type.
        """
        return as_matrix(self._probability(scores, by)[0])

    @keeps_kind
    def calibrate(self, scores: Any, *, by: Any = None) -> Any:
        """Calibrated probabilities in the shape that came in.

        One column in gives the probability of ``classes_[1]``; more give all classes. A
        single score gives a number. ``by`` is as for :meth:`predict_proba`.
        """
        if isinstance(scores, np.ndarray) and scores.ndim == 0:
            scores = scores[()]
        if isinstance(scores, Real):
            return self._calibrate_one(scores, by)
        p, shape = self._probability(scores, by)
        if p.ndim == 2 or shape[1:] == (2,):
            return as_matrix(p)
        return p.reshape(shape)

    def _calibrate_one(self, score: Real, by: Any) -> float:
        """The calibrated probability of a single score, as a number.

        ``by`` has its segment, or one per column of segments.
        """
        if isinstance(by, (list, tuple)):
            by = [[label] for label in by]
        elif by is not None:
            by = [by]
        p, _ = self._probability([score], by)
        return float(p[0])

    @keeps_kind
    def predict(self, scores: Any, *, by: Any = None) -> NDArray[Any]:
        """The most probable class of each row; ``by`` as for :meth:`predict_proba`."""
        p, _ = self._probability(scores, by)
        if p.ndim == 2:
            return np.asarray(self.classes_[p.argmax(axis=1)])
        return np.asarray(self.classes_[(p > 0.5).astype(np.intp)])

    def _probability(
        self, scores: Any, by: Any = None
    ) -> tuple[Array, tuple[int, ...]]:
        """Probabilities of the second of two classes, or of all; the scores' shape."""
        check_fitted(self)
        given = check_scores(scores)
        segments = None if by is None else check_by(by, len(given))
        return self._predict(given, segments), given.values.shape

    def _predict(self, scores: GivenScores, by: By | None = None) -> Array:
        """Probabilities of the second of two classes, or of all, for checked rows."""
        model = self.model_
        places = None if by is None else model.match_segments(by, len(scores))
        return model.probabilities(scores, places, self._advice)

    def shifted(
        self, *, base_rate: Any = None, kept: Any = None, unlabelled: Any = None
    ) -> Self:
        """The same calibrator for another base rate; this one stays as it is.

        It is right if the base rate is all that changes: rows of either class have the
        scores they always had. Of a calibrator that was shifted already, ``base_rate``
        and ``unlabelled`` replace the shift and its uncertainty; ``kept`` is on top of
        it.

        Parameters
        ----------
        base_rate : float or mapping of label to float, optional
            The new share of the second of two classes, or of each class.
        kept : mapping of label to float, optional
            The shares of the rows of each class that were kept before the model or the
            calibrator was fitted (``{0: 0.1, 1: 1.0}`` if nine of ten negatives were
            thrown away; 3.0 if rows were repeated three times). The new calibrator is
            for the data before that.
        unlabelled : ScoreHistogram or array-like of scores, optional
            New scores, whose labels are not known (or do not count): the new base rate
            is estimated from them. A warning says if another base rate does not explain
            them.

        Returns
        -------
        calibrator
            Of the same class. Its ``shift_`` has the new ``base_rates``, their
            ``limits()`` and the ``p_value`` of the test, if they were estimated. It
            predicts, saves and exports as any other, and its intervals include the
            uncertainty of an estimated base rate.

        See Also
        --------
        calspline.drift : Whether a calibrator is still right, from labels.

        Notes
        -----
        The uncertainty of an estimate includes the calibrator's own for a
        :class:`~calspline.SplineCalibrator` of two classes.

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
        shifted = copy(self)
        shifted.model_ = shift_model(
            self.model_, base_rate, kept, unlabelled, self._advice
        )
        return shifted

    def to_dict(self) -> dict[str, Any]:
        """The fitted calibrator in plain JSON values."""
        check_fitted(self)
        parameters = {
            name: domain.to_json(getattr(self, name))
            for name, domain in sorted(self._parameter_constraints.items())
        }
        described = {"class": type(self).__name__, "parameters": parameters}
        return described | to_json(self.model_.with_reference())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The calibrator that :meth:`to_dict` described; anything else is an error."""
        given = data["parameters"]
        domains = cls._parameter_constraints
        if not isinstance(given, dict) or set(given) != set(domains):
            expected = ", ".join(sorted(domains)) or "none"
            raise ValueError(f"parameters must be exactly {expected}")
        parameters = {
            name: domain.from_json(given[name], name)
            for name, domain in domains.items()
        }
        described = {
            key: value
            for key, value in data.items()
            if key not in ("class", "parameters")
        }
        model = from_json(Model, described)
        cls._check_model(model)
        for name, value in parameters.items():
            if isinstance(value, np.ndarray):
                parameters[name] = value.tolist()
        calibrator = cls(**parameters)
        calibrator.model_ = model
        return calibrator

    @classmethod
    def _check_model(cls, model: Model) -> None:
        """Check that a model is one that this calibrator may have fitted."""
        for part in maps_of(model.base):
            if not isinstance(part, cls._kinds_of_map):
                raise ValueError(
                    f"map must be one that a {cls.__name__} fits; "
                    f"a {type(part).__name__} is not"
                )
        model.check_probabilities()


def as_matrix(p: Array) -> Array:
    """A column for each class; those of the second of two classes may come alone."""
    if p.ndim == 2:
        return p
    return filled(
        np.empty((len(p), 2)), lambda rows: np.column_stack([1.0 - p[rows], p[rows]])
    )
