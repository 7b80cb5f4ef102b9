"""CalibratedClassifierCV: calibration of classifiers by cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from inspect import isclass, signature
from typing import Any, Literal, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC
from sklearn.utils import column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from calspline import _crossfit, calibrators
from calspline._arrays import Array
from calspline._crossfit import Fold, ResponseMethod, Training, model_scores, pool
from calspline._input.groups import check_groups
from calspline._input.labels import check_label_array
from calspline._input.options import check_integer, check_one_of
from calspline._input.pandas_names import has_odd_names, listed, place_of
from calspline._input.scores import check_scores
from calspline._input.segment_labels import By, check_by
from calspline._input.weights import check_weights, check_weights_as_counts
from calspline.calibrators.base import BaseCalibrator

PROBABILITIES_FIRST: tuple[ResponseMethod, ...] = ("predict_proba", "decision_function")
MARGINS_FIRST: tuple[ResponseMethod, ...] = ("decision_function", "predict_proba")
"""Methods that prefer margins, as in scikit-learn."""


class CalibratedClassifierCV(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Calibrate a classifier on its own training data, by cross-validation.

    With ``ensemble=False``, this is Algorithm 4 of the paper: the calibrator is fitted
    to out-of-fold scores of the model, and the model is refitted to all rows. No row is
    scored by a model that was trained on it, and no row is set aside.

    Parameters
    ----------
    estimator : classifier, optional
        Classifier with ``fit`` and ``predict_proba`` or ``decision_function``. A
        :class:`~sklearn.frozen.FrozenEstimator` is not refitted, and all rows are used
        for calibration. By default a :class:`~sklearn.svm.LinearSVC`.
    method : str or calibrator, default="spline"
        Method of calibration: ``"spline"``, ``"sigmoid"``, ``"isotonic"``, ``"beta"``,
        ``"temperature"``, ``"clipping"``, a calibrator, or any object with
        ``fit(scores, y)`` and ``predict_proba(scores)``, to which classes are passed as
        integers from 0. As in scikit-learn, sigmoid, isotonic and temperature prefer
        ``decision_function`` to ``predict_proba``; all others prefer ``predict_proba``.
    cv : int, splitter, iterable of splits, "oob" or None, default=None
        Cross-validation strategy. None means five stratified folds, or fewer if a class
        has fewer rows. If several splits score a row, as in repeated cross-validation,
        it still counts once; a row that no split scores is not used for calibration.
        ``"oob"`` uses the out-of-bag votes of a forest or another bagging estimator,
        which may be the last step of a pipeline: one fit instead of six.
    n_jobs : int, optional
        Number of models to fit in parallel. The result does not depend on it.
    ensemble : bool or "auto", default=False
        If True, the model of each fold is calibrated on the rows left out, and the
        predictions of all pairs are averaged. ``"auto"`` is True unless the estimator
        is frozen or ``cv="oob"``.
    by : column of X, or list of columns, optional
        Columns of X that hold segments: names of a data frame, or indices of an array.
        The estimator is still passed all columns, so leave them out in a pipeline if
        they are not features. Requires a calibrator whose ``fit`` takes ``by``; see
        :meth:`SplineCalibrator.fit <calspline.SplineCalibrator.fit>`.
    verbose : int, default=0
        If 1, show the number of fitted models and the remaining time, on a terminal or
        in a notebook.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    calibrated_classifiers_ : list
        Pairs with ``estimator``, ``calibrators`` (a list of one) and ``predict_proba``;
        one pair unless ``ensemble=True``.
    n_features_in_ : int
        Number of features, if the fitted model has it.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features, if the fitted model has them.

    See Also
    --------
    SplineCalibrator : Calibrate existing scores.
    sklearn.calibration.CalibratedClassifierCV : Calibration in scikit-learn.

    Notes
    -----
    If the model of a fold was not trained on a class, that class has probability 0 (or
    the lowest margin) in its scores. Rows of that class in the fold are not used for
    calibration, and a warning is issued. With ``ensemble=True``, a fold whose rows have
    only one class uses the scores of all folds.

    References
    ----------
    B. Lucena (2018). Spline-based probability calibration. arXiv:1809.07751.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calspline import CalibratedClassifierCV
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    >>> model = GaussianNB(var_smoothing=1e-4)
    >>> round(log_loss(y_test, model.fit(X, y).predict_proba(X_test)), 1)
    1.8
    >>> calibrated = CalibratedClassifierCV(model).fit(X, y)
    >>> round(log_loss(y_test, calibrated.predict_proba(X_test)), 1)
    0.4
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: Any = "spline",
        cv: Any = None,
        n_jobs: int | None = None,
        ensemble: bool | Literal["auto"] = False,
        verbose: int = 0,
        by: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs
        self.ensemble = ensemble
        self.verbose = verbose
        self.by = by

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the models and the calibrator.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, list of str, ...
            Features, as supported by the estimator.
        y : array-like of shape (n,)
            Labels of any type.
        sample_weight : array-like of shape (n,), optional
            Sample weights for the calibrator, and for the estimator if its ``fit``
            takes weights. Rows of weight 0 are left out.
        groups : array-like of shape (n,), optional
            Group of each row. The splitter keeps groups together (an integer ``cv``
            then means :class:`~sklearn.model_selection.StratifiedGroupKFold`), and they
            are passed to the calibrator if it takes them; see
            :meth:`SplineCalibrator.fit <calspline.SplineCalibrator.fit>`.
        **fit_params : dict
            Parameters of the estimator's ``fit``; those with one value per row are
            split like the rows. With metadata routing enabled, all are passed to where
            they were requested. For early stopping, ``eval_set`` may be a splitter,
            such as ``StratifiedShuffleSplit(1, test_size=0.2)``, or a function of ``X``
            and ``y`` that returns two arrays of indices: each model, including the one
            for all rows, is fitted to the first part of its rows and is passed the
            second as ``eval_set=[(X, y)]``, or ``eval_X`` and ``eval_y``.

        Returns
        -------
        self : object
            Fitted classifier.
        """
        estimator, calibrator, ensemble = self._parts()
        if hasattr(y, "to_numpy"):
            y = np.asarray(y)  # scikit-learn makes floats of pandas' own integers
        X, y = indexable(X, column_or_1d(y, warn=True))
        check_label_array(y, len(y))
        check_classification_targets(y)
        weight = check_weights(sample_weight, len(y), beside="X")
        group = check_groups(groups, len(y), beside="X")
        segments = None if self.by is None else segments_of(X, self.by, len(y))
        rows = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
        model_params, split_params = self._routed(estimator, weight, groups, fit_params)
        frozen = isinstance(estimator, FrozenEstimator)
        classes, codes = _classes(
            y,
            rows,
            estimator.classes_ if frozen and hasattr(estimator, "classes_") else None,
        )
        if getattr(calibrator, "_prefers_margins", False):
            methods = MARGINS_FIRST
        else:
            methods = PROBABILITIES_FIRST
        training = Training(
            X, y, classes, codes, weight, group, rows, model_params, methods, segments
        )
        if weight is not None and getattr(calibrator, "weights", "") != "importance":
            check_weights_as_counts(weight, labels=codes, scores=_feature_columns(X))
        if isinstance(self.cv, str):
            if groups is not None:
                raise ValueError(
                    'groups must be None with cv="oob": trees that did not draw a row '
                    "did draw others of its group. "
                    "Use folds, such as cv=5, which keep groups together"
                )
            folds = [_crossfit.fit_out_of_bag(estimator, training)]
        elif frozen and not ensemble:
            folds = [Fold(estimator, rows, training.scores(estimator, rows))]
        else:
            splits = _crossfit.split_rows(
                training, self.cv, split_params, every_class=ensemble
            )
            show = bool(self.verbose)
            folds = _crossfit.fit_folds(
                estimator,
                training,
                splits,
                refit=not ensemble,
                n_jobs=self.n_jobs,
                show=show,
            )
        pairs = [
            _calibrate_fold(fold, folds, calibrator, training, self.by)
            for fold in folds
        ]
        self.classes_ = classes
        self.calibrated_classifiers_ = pairs
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(pairs[0].estimator, name):
                setattr(self, name, getattr(pairs[0].estimator, name))
            elif hasattr(self, name):
                delattr(self, name)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Predict calibrated probabilities of all classes.

        Parameters
        ----------
        X : array-like, data frame, ...
            Features, as supported by the estimator.

        Returns
        -------
        p : ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        each = [pair.predict_proba(X) for pair in self.calibrated_classifiers_]
        return np.asarray(each[0] if len(each) == 1 else np.mean(each, axis=0))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each row, by calibrated probability."""
        p = self.predict_proba(X)
        return np.asarray(self.classes_[p.argmax(axis=1)])

    def _parts(self) -> tuple[Any, Any, bool]:
        """Validate the parameters; return estimator, calibrator and ``ensemble``."""
        estimator = self._estimator()
        if isclass(estimator) or not hasattr(estimator, "fit"):
            raise TypeError(
                f"estimator must be a classifier with fit; got {estimator!r}"
            )
        check_one_of(self.ensemble, "ensemble", (True, False, "auto"))
        check_integer(self.verbose, "verbose", least=0)
        if isinstance(self.cv, str):
            if self.cv != "oob":
                raise ValueError(
                    'cv must be a number of folds, a splitter, splits or "oob"; got '
                    f"{self.cv!r}. To calibrate a model "
                    "that is fitted already, give FrozenEstimator(model) and rows that "
                    "it has not seen."
                )
            if self.ensemble is True:
                raise ValueError(
                    'ensemble must be False with cv="oob": there is one model only'
                )
        one = isinstance(self.cv, str) or isinstance(estimator, FrozenEstimator)
        return (
            estimator,
            self._calibrator(),
            not one if self.ensemble == "auto" else bool(self.ensemble),
        )

    def _estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        default = LinearSVC(dual=False, tol=1e-8, random_state=0)
        if get_config()["enable_metadata_routing"]:
            return default.set_fit_request(sample_weight=True)
        return default

    def _calibrator(self) -> Any:
        if isinstance(self.method, str):
            check_one_of(self.method, "method", calibrators.names())
            return calibrators.find(self.method)()
        if isclass(self.method) or not (
            hasattr(self.method, "fit") and hasattr(self.method, "predict_proba")
        ):
            raise TypeError(
                f"method must be one of {', '.join(map(repr, calibrators.names()))}, "
                "or a calibrator with fit and "
                f"predict_proba; got {self.method!r}"
            )
        return self.method

    def _routed(
        self,
        estimator: Any,
        weight: Array | None,
        groups: Any,
        fit_params: dict[str, Any],
    ) -> tuple[dict[str, Any], ...]:
        """Route parameters to the estimator's ``fit`` and to the splitter."""
        split_params = {} if groups is None else {"groups": groups}
        if get_config()["enable_metadata_routing"]:
            routed_groups = split_params if hasattr(self.cv, "split") else {}
            routed = process_routing(
                self, "fit", sample_weight=weight, **routed_groups, **fit_params
            )
            if hasattr(self.cv, "split"):
                splitter = dict(routed.splitter.split)
            else:
                splitter = split_params
            return dict(routed.estimator.fit), splitter
        params = dict(fit_params)
        if weight is not None:
            if has_fit_parameter(estimator, "sample_weight") or isinstance(
                estimator, FrozenEstimator
            ):
                params["sample_weight"] = weight
            else:
                warnings.warn(
                    f"{type(estimator).__name__}.fit does not take sample_weight: the "
                    "weights are used for the "
                    "calibration only, not for the model",
                    stacklevel=3,
                )
        return params, split_params

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata to the estimator and the splitter."""
        router: MetadataRouter = MetadataRouter(owner=self).add_self_request(self)
        fits = MethodMapping().add(caller="fit", callee="fit")
        splits = MethodMapping().add(caller="fit", callee="split")
        router.add(estimator=self._estimator(), method_mapping=fits)
        router.add(splitter=self.cv, method_mapping=splits)
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags = get_tags(self._estimator()).input_tags
        return tags


@dataclass(frozen=True)
class CalibratedClassifier:
    """A fitted model and the calibrator of its scores.

    ``known`` holds the indices in ``classes`` of the classes that the calibrator was
    fitted to; a model that has seen only one class has no calibrator.
    """

    estimator: Any
    calibrators: list[Any]
    classes: NDArray[Any]
    known: NDArray[np.intp]
    methods: tuple[ResponseMethod, ...]
    by: Any = None

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, with a column for each of ``classes``."""
        scores = model_scores(self.estimator, X, self.methods, self.classes)
        p = np.ones((len(scores.values), 1))
        if self.calibrators:
            by = None if self.by is None else segments_of(X, self.by, len(p))
            values = scores.for_classes(self.known).values
            p = _predict(self.calibrators[0], values, by)
            if p.ndim == 1 or p.shape[1] == 1:
                p = np.column_stack([1.0 - p.reshape(-1), p.reshape(-1)])
        if len(self.known) == len(self.classes):
            return p
        out = np.zeros((len(p), len(self.classes)))
        out[:, self.known] = p
        return out


def _predict(calibrator: Any, scores: Any, by: By | None) -> Array:
    """Calibrated probabilities of scores, in one column or several."""
    if isinstance(calibrator, BaseCalibrator):
        return calibrator._predict(check_scores(scores), by)
    told = {} if by is None else {"by": by}
    return np.asarray(calibrator.predict_proba(scores, **told), dtype=np.float64)


def segments_of(X: Any, by: Any, n: int) -> By:
    """Segments of the rows of ``X``, from the columns ``by``."""
    if has_odd_names(X):
        return check_by(
            [X.iloc[:, place_of(X, each, "by", "X")] for each in listed(X, by)],
            n,
            beside="X",
        )
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    columns = []
    for column in by if isinstance(by, (list, tuple)) else [by]:
        if isinstance(frame, nw.DataFrame):
            if column not in frame.columns:
                raise ValueError(
                    f"by must name columns of X; {column!r} is none of "
                    f"{', '.join(map(repr, frame.columns))}"
                )
            columns.append(frame[column].to_native())
        elif not isinstance(column, (int, np.integer)):
            raise TypeError(
                "by must be numbers of columns where X is no data frame; got "
                f"{column!r}"
            )
        elif np.ndim(X) != 2 or not 0 <= column < np.shape(X)[1]:
            raise ValueError(
                f"by must be a column of X, whose shape is {np.shape(X)}; got "
                f"{column!r}"
            )
        else:
            columns.append(np.asarray(X)[:, column])
    return check_by(columns, n, beside="X")


def _calibrate_fold(
    fold: Fold, folds: list[Fold], calibrator: Any, training: Training, by: Any
) -> CalibratedClassifier:
    """Calibrate the model of a fold on the scores of that fold.

    If the rows of the fold have only one class or one group, the calibrator is fitted
    to the scores of all folds.
    """
    known = fold.scores.known
    if len(known) == 1:
        return CalibratedClassifier(
            fold.model, [], training.classes, known, training.methods
        )
    one_group = training.groups is not None and not np.ptp(training.groups[fold.rows])
    if one_group or len(np.intersect1d(training.codes[fold.rows], known)) < 2:
        fold = pool(folds, fold.model)
    fold = fold.of(np.isin(training.codes[fold.rows], known))
    calibrator = clone(calibrator, safe=False)
    params = _calibrator_params(calibrator, fold, training)
    scores = fold.scores.for_classes(known)
    values: Any = scores.values
    codes = np.searchsorted(known, training.codes[fold.rows])
    if isinstance(calibrator, BaseCalibrator):
        values = check_scores(values)
        labels = training.classes[known]
        margins = scores.margins
        calibrator._fit_scores(values, codes, classes=labels, margins=margins, **params)
    else:
        calibrator.fit(values, codes, **params)
    return CalibratedClassifier(
        fold.model, [calibrator], training.classes, known, training.methods, by
    )


def _calibrator_params(
    calibrator: Any, fold: Fold, training: Training
) -> dict[str, Any]:
    """Weights, groups and segments of a fold that the calibrator's ``fit`` takes."""
    takes = signature(calibrator.fit).parameters
    name = type(calibrator).__name__
    rows = fold.rows
    params: dict[str, Any] = {}
    if training.groups is not None and "groups" in takes:
        params["groups"] = training.groups[rows]
    if training.segments is not None:
        if "by" not in takes:
            raise TypeError(
                f"by needs a calibrator whose fit takes by; {name} does not"
            )
        params["by"] = training.segments.of(rows)
    weight = fold.share
    if training.weight is not None:
        weight = training.weight[rows] * (1.0 if weight is None else weight)
    if weight is not None and "sample_weight" in takes:
        params["sample_weight"] = weight
    elif weight is not None:
        warnings.warn(
            f"{name}.fit does not take sample_weight: it is fitted without weights",
            stacklevel=4,
        )
    return params


def _classes(
    y: NDArray[Any], rows: NDArray[np.intp], given: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """All classes, and the codes of the labels.

    A frozen model has classes of its own, ``given``.
    """
    found = np.unique(y[rows])
    if len(found) < 2:
        if len(found):
            shown = f"got one class, every row is {found.tolist()[0]!r}"
        else:
            shown = "there are no rows"
        raise ValueError(f"y must have at least two classes; {shown}")
    classes = found if given is None else np.asarray(given)
    order = np.argsort(classes)
    codes = order[np.searchsorted(classes, y, sorter=order).clip(max=len(classes) - 1)]
    strange = rows[classes[codes[rows]] != y[rows]]
    if len(strange):
        raise ValueError(
            f"y must have classes that the frozen estimator knows; row {strange[0]} is "
            f"{y[strange[0]]!r}"
        )
    return classes, codes


def _feature_columns(X: Any) -> list[NDArray[Any]]:
    """Columns of numeric features, or none."""
    try:
        values = np.asarray(X)
    except (TypeError, ValueError):
        return []
    return [values] if values.ndim == 2 and values.dtype.kind in "biuf" else []
