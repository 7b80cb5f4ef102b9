"""Base class of all calibrators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from calspline._arrays import Array, as_numpy, filled, is_foreign, like
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
from calspline.calibrators.array_api import both_columns, evaluate_array
from calspline.calibrators.checks import check_fitted
from calspline.fits.rows import BinaryRows, MatrixRows, rows_of_classes
from calspline.fits.shift import shift_model
from calspline.maps.curve import CalibrationCurve
from calspline.maps.model import ADVICE, Model
from calspline.maps.shifted import Shifted


class BaseCalibrator(ClassifierMixin, BaseEstimator):
    """Base class of all calibrators: classifiers whose features are scores.

    Subclasses implement ``_fit``, which turns validated rows into a
    :class:`~calspline.maps.model.Model`. Fitted attributes are views of ``model_``.
    """

    model_: Model

    _parameter_constraints: ClassVar[dict[str, Domain]] = {}
    """Domain of each constructor parameter."""
    _kinds_of_map: ClassVar[tuple[type, ...]] = ()
    """Types of map that a fit may produce."""
    _prefers_margins: ClassVar[bool] = False
    """Whether ``decision_function`` is preferred to ``predict_proba``."""
    _fit_advice: ClassVar[str] = (
        "To calibrate margins of which only a few lie outside [0, 1], use "
        'SplineCalibrator(scale="identity").'
    )
    _advice: ClassVar[str] = ADVICE

    @abstractmethod
    def _fit(self, rows: BinaryRows | MatrixRows, options: dict[str, Any]) -> Model:
        """Fit validated rows; ``options`` are the validated parameters."""

    def fit(self, scores: Any, y: Any, sample_weight: Any = None) -> Self:
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
            Sample weights. They count rows: a weight of 2 is equivalent to repeating
            the row, a weight of 0 to leaving it out.

        Returns
        -------
        self : object
            Fitted calibrator.
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
        """Fit to scores whose columns are in the order of ``classes``.

        ``y`` holds codes into ``classes``. Weights have been validated as counts.
        ``margins=True`` declares that the scores are margins.
        """
        rows = label_scores(scores, y, sample_weight, groups, by)
        return self._fit_rows(rows, classes, margins=margins)

    def _fit_rows(
        self,
        rows: LabelledRows,
        classes: NDArray[Any] | None = None,
        *,
        margins: bool = False,
    ) -> Self:
        """Fit validated rows; ``classes`` are the labels that the codes refer to."""
        options = self._check_parameters()
        requirement = self._requirement
        if margins and requirement == "probability":
            raise ValueError(
                "scores must be probabilities in [0, 1]; got margins. "
                f"{self._fit_advice}"
            )
        checked = rows_of_classes(
            rows, "margin" if margins else requirement, self._fit_advice, classes
        )
        return self._set_model(self._fit(checked, options))

    def _set_model(self, model: Model) -> Self:
        if not model.fit.converged:
            warn_user("the fit did not converge", ConvergenceWarning)
        self.model_ = model
        return self

    def _name(self, classes: NDArray[Any], columns: Sequence[str]) -> Self:
        """Name the classes of the model, and the columns of scores by class."""
        self.model_ = self.model_.with_names(classes, columns)
        return self

    @property
    def _requirement(self) -> Requirement:
        """The kind of scores that a fit requires."""
        return "auto"

    def _check_parameters(self) -> dict[str, Any]:
        """Validate the parameters, and return them in their usual form."""
        return {
            name: domain.check(getattr(self, name), name)
            for name, domain in self._parameter_constraints.items()
        }

    def __dir__(self) -> list[str]:
        """What users need: not scikit-learn's methods that route metadata."""
        names = super().__dir__()  # type: ignore[no-untyped-call]
        routing = {name for name in names if name.endswith("_request")}
        return sorted(set(names) - routing - {"get_metadata_routing"})

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.one_d_array = True
        tags.classifier_tags.poor_score = True  # features are not scores
        return tags

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels, in the order of the columns."""
        return self.model_.classes

    @property
    def curves_(self) -> list[CalibrationCurve]:
        """Calibration curves: one for two classes, one per class, or none."""
        return self.model_.curves

    @property
    def shift_(self) -> Shifted | None:
        """Shift of the base rates, or None if the calibrator was not shifted."""
        return self.model_.shift

    def predict_proba(self, scores: Any, *, by: Any = None) -> Any:
        """Predict calibrated probabilities of all classes.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
            Scores of the same kind as in ``fit``.
        by : array-like of shape (n,) or (n, n_columns), optional
            Segment of each row, if the calibrator was fitted with ``by``. Several
            columns may also be given as a list or a data frame. Rows whose segment was
            not seen in ``fit`` or is None get the common curve, adjusted for the spread
            between segments, and a warning gives their number. Without ``by``, all rows
            are treated that way.

        Returns
        -------
        p : ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``. If ``scores`` is a PyTorch
            tensor or follows the array API standard, the result is an array of the same
            library, device and floating-point type.
        """
        check_fitted(self)
        if is_foreign(scores):
            p = evaluate_array(self.model_, scores, by)
            if p is not None:
                return both_columns(self.model_, p)
            return like(self.predict_proba(as_numpy(scores), by=by), scores)
        return as_matrix(self._probability(scores, by)[0])

    def calibrate(self, scores: Any, *, by: Any = None) -> Any:
        """Predict calibrated probabilities in the shape of the scores.

        Parameters
        ----------
        scores : float or array-like of shape (n,), (n, 1) or (n, n_classes)
            Scores of the same kind as in ``fit``.
        by : array-like of shape (n,) or (n, n_columns), optional
            Segment of each row, as in :meth:`predict_proba`.

        Returns
        -------
        p : float or ndarray of the shape of ``scores``
            For a number or a single column, the probability of ``classes_[1]``; for
            more columns, the probabilities of all classes.
        """
        check_fitted(self)
        if is_foreign(scores):
            p = evaluate_array(self.model_, scores, by)
            if p is not None:
                return p
            return like(self.calibrate(as_numpy(scores), by=by), scores)
        if isinstance(scores, np.ndarray) and scores.ndim == 0:
            scores = scores[()]
        if isinstance(scores, Real):
            return self._calibrate_one(scores, by)
        p, shape = self._probability(scores, by)
        if p.ndim == 2 or shape[1:] == (2,):
            return as_matrix(p)
        return p.reshape(shape)

    def _calibrate_one(self, score: Real, by: Any) -> float:
        """Calibrate a single number; ``by`` is its segment, or one for each column."""
        if isinstance(by, (list, tuple)):
            by = [[label] for label in by]
        elif by is not None:
            by = [by]
        p, _ = self._probability([score], by)
        return float(p[0])

    def predict(self, scores: Any, *, by: Any = None) -> Any:
        """Predict the most probable class of each row.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
            Scores of the same kind as in ``fit``.
        by : array-like of shape (n,) or (n, n_columns), optional
            Segment of each row, as in :meth:`predict_proba`.

        Returns
        -------
        y : ndarray of shape (n,)
            Class labels.
        """
        check_fitted(self)
        if is_foreign(scores):
            return like(self.predict(as_numpy(scores), by=by), scores)
        p, _ = self._probability(scores, by)
        if p.ndim == 2:
            return np.asarray(self.classes_[p.argmax(axis=1)])
        return np.asarray(self.classes_[(p > 0.5).astype(np.intp)])

    def _probability(
        self, scores: Any, by: Any = None
    ) -> tuple[Array, tuple[int, ...]]:
        """Probabilities (of the second class for two), and the shape of the input."""
        given = check_scores(scores)
        segments = None if by is None else check_by(by, len(given))
        return self._predict(given, segments), given.values.shape

    def _predict(self, scores: GivenScores, by: By | None = None) -> Array:
        """Probabilities for validated scores, of the second class only for two."""
        model = self.model_
        places = None if by is None else model.match_segments(by, len(scores))
        return model.probabilities(scores, places, self._advice)

    def shifted(
        self, *, base_rate: Any = None, kept: Any = None, unlabelled: Any = None
    ) -> Self:
        """Return a copy of the calibrator that is adjusted to another base rate.

        Assumes prior shift: the distribution of scores within each class is unchanged.
        Exactly one of the parameters must be given. If the calibrator has already been
        shifted, ``base_rate`` and ``unlabelled`` replace the earlier shift, and
        ``kept`` is applied in addition to it.

        Parameters
        ----------
        base_rate : float or mapping of label to float, optional
            New base rate: the share of the second class, or of each class.
        kept : mapping of label to float, optional
            Sampling rate of each class in the calibration data. For example,
            ``{0: 0.1, 1: 1.0}`` if nine out of ten negatives were dropped; rates above
            1 are possible if rows were repeated. The result is calibrated for the data
            before sampling.
        unlabelled : ScoreHistogram or array-like of scores, optional
            Scores of new rows without labels. The base rate is estimated from them, and
            a warning is issued if a change of the base rate alone does not explain
            their distribution.

        Returns
        -------
        calibrator : object
            Calibrator of the same class. Its attribute ``shift_`` holds the new
            ``base_rates`` and, if they were estimated, their ``limits()`` and the
            ``p_value`` of the test of prior shift. Intervals include the uncertainty of
            an estimated base rate.

        See Also
        --------
        calspline.drift : Check with labels whether a calibrator is still calibrated.

        Notes
        -----
        For a :class:`~calspline.SplineCalibrator` with two classes, the uncertainty of
        an estimated base rate includes that of the calibration curve.

        Examples
        --------
        >>> import numpy as np
        >>> from calspline import SplineCalibrator
        >>> rng = np.random.default_rng(0)
        >>> y = rng.random(4000) < 0.5
        >>> score = 1 / (1 + np.exp(-rng.normal(2 * y - 1)))
        >>> cal = SplineCalibrator().fit(score, y)
        >>> cal.calibrate([0.5]).round(2)
        array([0.5])
        >>> cal.shifted(base_rate=0.1).calibrate([0.5]).round(2)
        array([0.1])
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
        """Convert the fitted calibrator to values that JSON can represent."""
        check_fitted(self)
        parameters = {
            name: domain.to_json(getattr(self, name))
            for name, domain in sorted(self._parameter_constraints.items())
        }
        described = {"class": type(self).__name__, "parameters": parameters}
        return described | to_json(self.model_.with_reference())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create a calibrator from the result of :meth:`to_dict`."""
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
        """Check that this class of calibrator can have fitted a model."""
        for part in model.base.parts:
            if not isinstance(part, cls._kinds_of_map):
                raise ValueError(
                    f"map must be one that a {cls.__name__} fits; "
                    f"a {type(part).__name__} is not"
                )
        model.check_probabilities()


def as_matrix(p: Array) -> Array:
    """One column per class; for two classes ``p`` may hold those of the second only."""
    if p.ndim == 2:
        return p
    return filled(
        np.empty((len(p), 2)), lambda rows: np.column_stack([1.0 - p[rows], p[rows]])
    )
