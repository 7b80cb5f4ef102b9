import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from calspline import CalibratedClassifierCV, SplineCalibrator


@pytest.fixture(scope="module")
def two():
    return make_classification(400, 6, random_state=3)


@pytest.fixture(scope="module")
def three():
    return make_classification(450, 8, n_informative=5, n_classes=3, random_state=4)


class Memoriser(ClassifierMixin, BaseEstimator):
    """Knows every row it has seen, and nothing else."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen_ = {
            bytes(row): label for row, label in zip(np.asarray(X), y, strict=True)
        }
        return self

    def predict_proba(self, X):
        told = [self.seen_.get(bytes(row)) for row in np.asarray(X)]
        p = np.array([0.3 + 0.4 * (row[0] > 0) for row in X])
        p = np.array(
            [
                q if label is None else float(label == self.classes_[1])
                for q, label in zip(p, told, strict=True)
            ]
        )
        return np.column_stack([1 - p, p])


class Recorder(BaseEstimator):
    """A stranger's calibrator: keeps what it was given, and gives it back."""

    def fit(self, scores, y, sample_weight=None):
        self.scores_, self.y_, self.weight_ = scores, y, sample_weight
        return self

    def predict_proba(self, scores):
        return scores


def recorded(model, X, y, **fit_params):
    """What the calibrator of a wrapper around ``model`` was fitted on."""
    return model.fit(X, y, **fit_params).calibrated_classifiers_[0].calibrators[0]


def test_algorithm_4_equals_the_same_thing_by_hand(two):
    X, y = two
    scores = cross_val_predict(GaussianNB(), X, y, cv=5, method="predict_proba")
    by_hand = (
        SplineCalibrator()
        .fit(scores, y)
        .predict_proba(GaussianNB().fit(X, y).predict_proba(X))
    )
    np.testing.assert_allclose(
        CalibratedClassifierCV(GaussianNB()).fit(X, y).predict_proba(X),
        by_hand,
        atol=1e-9,
    )


def test_algorithm_4_equals_the_same_thing_by_hand_with_three_classes_and_a_splitter(
    three,
):
    X, y = three
    cv = StratifiedKFold(4, shuffle=True, random_state=1)
    scores = cross_val_predict(GaussianNB(), X, y, cv=cv, method="predict_proba")
    by_hand = (
        SplineCalibrator()
        .fit(scores, y)
        .predict_proba(GaussianNB().fit(X, y).predict_proba(X))
    )
    ours = CalibratedClassifierCV(GaussianNB(), cv=cv).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), by_hand, atol=1e-9)


def test_margins_are_calibrated_where_there_are_no_probabilities(two):
    X, y = two
    margins = cross_val_predict(LinearSVC(), X, y, cv=5, method="decision_function")
    by_hand = SplineCalibrator(scale="identity").fit(margins, y)
    ours = CalibratedClassifierCV(LinearSVC()).fit(X, y)
    expected = by_hand.predict_proba(LinearSVC().fit(X, y).decision_function(X))
    np.testing.assert_allclose(ours.predict_proba(X), expected, atol=1e-9)


def test_margins_of_three_classes_are_calibrated_too(three):
    X, y = three
    ours = CalibratedClassifierCV(RidgeClassifier()).fit(X, y)
    p = ours.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert log_loss(y, p) < 0.9 * np.log(3)


def test_isotonic_equals_scikit_learns_isotonic_by_hand(two):
    X, y = two
    margins = cross_val_predict(LinearSVC(), X, y, cv=3, method="decision_function")
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(margins, y)
    ours = CalibratedClassifierCV(LinearSVC(), method="isotonic", cv=3).fit(X, y)
    expected = isotonic.predict(LinearSVC().fit(X, y).decision_function(X))
    np.testing.assert_allclose(ours.predict_proba(X)[:, 1], expected, atol=1e-12)


def test_an_ensemble_averages_the_pairs_of_the_folds(two):
    X, y = two
    parts = []
    for train, test in StratifiedKFold(5).split(X, y):
        model = GaussianNB().fit(X[train], y[train])
        calibrator = SplineCalibrator().fit(model.predict_proba(X[test]), y[test])
        parts.append(calibrator.predict_proba(model.predict_proba(X)))
    ours = CalibratedClassifierCV(GaussianNB(), ensemble=True).fit(X, y)
    assert len(ours.calibrated_classifiers_) == 5
    np.testing.assert_allclose(ours.predict_proba(X), np.mean(parts, axis=0), atol=1e-9)


@pytest.mark.parametrize(
    "cv",
    [5, RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0), KFold(4)],
)
def test_no_score_comes_from_a_model_that_has_seen_its_row(two, cv):
    X, y = two
    scores = recorded(
        CalibratedClassifierCV(Memoriser(), method=Recorder(), cv=cv), X, y
    ).scores_
    np.testing.assert_array_equal(np.unique(scores[:, 1]), [0.3, 0.7])


def test_the_memoriser_would_give_itself_away(two):
    X, y = two
    scores = recorded(
        CalibratedClassifierCV(
            FrozenEstimator(Memoriser().fit(X, y)), method=Recorder()
        ),
        X,
        y,
    ).scores_
    np.testing.assert_array_equal(np.unique(scores[:, 1]), [0.0, 1.0])


def test_a_row_scored_three_times_counts_once(two):
    X, y = two
    cv = RepeatedStratifiedKFold(n_splits=4, n_repeats=3, random_state=0)
    got = recorded(CalibratedClassifierCV(GaussianNB(), method=Recorder(), cv=cv), X, y)
    assert len(got.scores_) == 3 * len(y)
    np.testing.assert_allclose(got.weight_, 1 / 3)


def test_rows_that_no_split_scores_are_not_used_for_calibration(two):
    X, y = two
    cv = ShuffleSplit(1, test_size=100, random_state=0)
    assert (
        len(
            recorded(
                CalibratedClassifierCV(GaussianNB(), method=Recorder(), cv=cv), X, y
            ).scores_
        )
        == 100
    )


def test_leave_one_out_works_for_one_model_and_not_for_an_ensemble(two):
    X, y = two[0][:40], two[1][:40]
    assert (
        len(
            recorded(
                CalibratedClassifierCV(
                    GaussianNB(), method=Recorder(), cv=LeaveOneOut()
                ),
                X,
                y,
            ).scores_
        )
        == 40
    )
    with pytest.raises(ValueError, match="LeaveOneOut cross-validation does not"):
        CalibratedClassifierCV(GaussianNB(), cv=LeaveOneOut(), ensemble=True).fit(X, y)


class Weighted(GaussianNB):
    """Keeps the weights and extras it was fitted with."""

    def fit(self, X, y, sample_weight=None, tag=None, extra=None):
        self.told_ = sample_weight, tag, extra
        return super().fit(X, y, sample_weight)


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_weights_and_other_parameters_reach_every_fit_cut_as_its_rows_are(two):
    X, y = two
    weight, tag = np.arange(1.0, len(y) + 1), np.arange(len(y))
    model = CalibratedClassifierCV(Weighted(), method=Recorder(), cv=4, ensemble=True)
    model.fit(X, y, sample_weight=weight, tag=tag, extra="whole")
    for (train, test), pair in zip(
        StratifiedKFold(4).split(X, y), model.calibrated_classifiers_, strict=True
    ):
        told_weight, told_tag, told_extra = pair.estimator.told_
        np.testing.assert_array_equal(told_weight, weight[train])
        np.testing.assert_array_equal(told_tag, tag[train])
        assert told_extra == "whole"
        np.testing.assert_array_equal(pair.calibrators[0].weight_, weight[test])


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_the_last_fit_gets_all_rows_and_weights(two):
    X, y = two
    weight = np.arange(1.0, len(y) + 1)
    pair = (
        CalibratedClassifierCV(Weighted())
        .fit(X, y, sample_weight=weight)
        .calibrated_classifiers_[0]
    )
    np.testing.assert_array_equal(pair.estimator.told_[0], weight)


def test_rows_of_weight_zero_are_absent(two):
    X, y = two
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    there = weight > 0
    with_zeros = CalibratedClassifierCV(GaussianNB()).fit(X, y, sample_weight=weight)
    without = CalibratedClassifierCV(GaussianNB()).fit(
        X[there], y[there], sample_weight=weight[there]
    )
    np.testing.assert_allclose(
        with_zeros.predict_proba(X), without.predict_proba(X), atol=1e-12
    )


def test_rows_of_weight_zero_are_absent_from_given_splits_too(two):
    X, y = two
    weight = np.ones(len(y))
    weight[::7] = 0.0
    given = list(KFold(4).split(X))
    got = recorded(
        CalibratedClassifierCV(GaussianNB(), method=Recorder(), cv=given),
        X,
        y,
        sample_weight=weight,
    )
    assert len(got.scores_) == int(weight.sum())


def test_groups_stay_together(two):
    X, y = two
    groups = np.repeat(np.arange(len(y) // 4), 4)
    X = X.copy()
    X[:, 0] = np.random.default_rng(0).permutation(len(groups))[
        groups
    ]  # rows of a group look alike
    X[:, 1:] = 0.0
    model = CalibratedClassifierCV(Memoriser(), method=Recorder(), cv=GroupKFold(5))
    assert set(recorded(model, X, y, groups=groups).scores_[:, 1]) == {0.3, 0.7}
    apart = CalibratedClassifierCV(Memoriser(), method=Recorder(), cv=5)
    assert {0.0, 1.0} & set(recorded(apart, X, y).scores_[:, 1])


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_metadata_routing_sends_weights_and_groups_where_they_were_requested(two):
    X, y = two
    weight, groups = np.arange(1.0, len(y) + 1), np.arange(len(y)) // 4
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Weighted().set_fit_request(sample_weight=True, tag=False, extra=False)
        model = CalibratedClassifierCV(inner, cv=GroupKFold(5))
        told = (
            model.fit(X, y, sample_weight=weight, groups=groups)
            .calibrated_classifiers_[0]
            .estimator.told_
        )
        np.testing.assert_array_equal(told[0], weight)
        refused = Weighted().set_fit_request(
            sample_weight=False, tag=False, extra=False
        )
        model = CalibratedClassifierCV(refused).fit(X, y, sample_weight=weight)
        assert model.calibrated_classifiers_[0].estimator.told_[0] is None


def test_a_model_without_weights_is_told_of(two):
    X, y = two
    with pytest.warns(UserWarning, match="Memoriser.fit does not take sample_weight"):
        CalibratedClassifierCV(Memoriser()).fit(X, y, sample_weight=np.ones(len(y)))


def test_naive_bayes_on_digits_loses_four_fifths_of_its_log_loss_and_no_accuracy():
    X, X_test, y, y_test = train_test_split(
        *load_digits(return_X_y=True), random_state=0
    )
    raw = GaussianNB().fit(X, y).predict_proba(X_test)
    p = CalibratedClassifierCV(GaussianNB()).fit(X, y).predict_proba(X_test)
    assert log_loss(y_test, p) < 0.2 * log_loss(y_test, raw)
    assert accuracy_score(y_test, p.argmax(axis=1)) >= accuracy_score(
        y_test, raw.argmax(axis=1)
    )


def test_a_frozen_model_is_calibrated_as_it_is(two):
    X, y = two
    model = GaussianNB().fit(X[:200], y[:200])
    ours = CalibratedClassifierCV(FrozenEstimator(model)).fit(X[200:], y[200:])
    by_hand = SplineCalibrator().fit(model.predict_proba(X[200:]), y[200:])
    np.testing.assert_allclose(
        ours.predict_proba(X), by_hand.predict_proba(model.predict_proba(X)), atol=1e-12
    )


def test_a_frozen_model_keeps_a_class_that_its_calibration_rows_lack(three):
    X, y = three
    names = np.array(["x", "y", "z"])[y]
    rows = y != 1
    ours = CalibratedClassifierCV(FrozenEstimator(GaussianNB().fit(X, names))).fit(
        X[rows], names[rows]
    )
    np.testing.assert_array_equal(ours.classes_, ["x", "y", "z"])
    p = ours.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.all((p > 0) & (p < 1))


def test_a_frozen_model_of_other_features_or_classes_is_an_error(two):
    X, y = two
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    with pytest.raises(
        ValueError, match="X has 3 features, but GaussianNB is expecting 6"
    ):
        CalibratedClassifierCV(frozen).fit(X[:, :3], y)
    with pytest.raises(
        ValueError, match=r"classes that the frozen estimator knows; row 0 is .*[45]"
    ):
        CalibratedClassifierCV(frozen).fit(X, y + 4)


def test_a_class_missing_from_a_fold_is_handled():
    rng = np.random.default_rng(0)
    codes = np.r_[np.arange(45) % 3, np.full(15, 3)]
    y = np.array(["a", "b", "c", "d"])[codes]
    X = rng.normal(size=(60, 3)) + 2 * np.eye(4, 3)[codes]
    for ensemble in (False, True):
        model = CalibratedClassifierCV(GaussianNB(), cv=KFold(4), ensemble=ensemble)
        with pytest.warns(UserWarning, match="'d' by the model of fold 4"):
            p = model.fit(X, y).predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.all(p > 0)


def test_too_few_rows_of_a_class_for_the_folds_is_an_error_as_scikit_learn_words_it(
    two,
):
    X, y = two
    rows = np.r_[np.flatnonzero(y == 0)[:50], np.flatnonzero(y == 1)[:3]]
    with pytest.raises(
        ValueError,
        match="Requesting 5-fold cross-validation but provided less than 5 examples",
    ):
        CalibratedClassifierCV(GaussianNB(), cv=5).fit(X[rows], y[rows])
    assert (
        len(
            recorded(
                CalibratedClassifierCV(GaussianNB(), method=Recorder()),
                X[rows],
                y[rows],
            ).scores_
        )
        == 53
    )


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [1.0, 2.0]])
def test_labels_of_any_type_give_the_same_probabilities(two, labels):
    X, y = two
    expected = CalibratedClassifierCV(GaussianNB()).fit(X, y).predict_proba(X)
    ours = CalibratedClassifierCV(GaussianNB()).fit(X, np.array(labels)[y])
    np.testing.assert_allclose(ours.predict_proba(X), expected, atol=1e-12)
    assert set(ours.predict(X)) <= set(labels)
    np.testing.assert_array_equal(
        ours.calibrated_classifiers_[0].calibrators[0].classes_, labels
    )


def test_frames_sparse_matrices_and_lists_give_what_arrays_give(two):
    X, y = two
    X = np.round(np.abs(X), 1)
    expected = CalibratedClassifierCV(MultinomialNB()).fit(X, y).predict_proba(X)
    columns = [f"c{j}" for j in range(X.shape[1])]
    for other in (
        pd.DataFrame(X, columns=columns),
        pl.DataFrame(X, schema=columns),
        sparse.csr_array(X),
        X.tolist(),
    ):
        ours = CalibratedClassifierCV(MultinomialNB()).fit(
            other, pd.Series(y, index=np.arange(len(y))[::-1])
        )
        np.testing.assert_allclose(ours.predict_proba(other), expected, atol=1e-9)


def test_feature_names_and_counts_are_those_of_the_model(two):
    X, y = two
    frame = pd.DataFrame(X, columns=list("abcdef"))
    ours = CalibratedClassifierCV(GaussianNB()).fit(frame, y)
    assert ours.n_features_in_ == 6
    np.testing.assert_array_equal(ours.feature_names_in_, list("abcdef"))
    assert not hasattr(ours.fit(X, y), "feature_names_in_")


def test_texts_go_through_a_pipeline():
    texts = [f"{'good' if j % 2 else 'bad'} word{j % 7}" for j in range(60)]
    y = [j % 2 if j % 10 else 1 - j % 2 for j in range(60)]
    ours = CalibratedClassifierCV(
        make_pipeline(CountVectorizer(), MultinomialNB())
    ).fit(texts, y)
    assert ours.predict_proba(["good", "bad"])[:, 1] @ [1, -1] > 0.5


def test_missing_values_are_the_models_business(two):
    X, y = two
    X = X.copy()
    X[::9, 2] = np.nan
    model = HistGradientBoostingClassifier(max_iter=10)
    p = CalibratedClassifierCV(model).fit(X, y).predict_proba(X)
    assert np.isfinite(p).all()
    assert sklearn.utils.get_tags(CalibratedClassifierCV(model)).input_tags.allow_nan
    with pytest.raises(ValueError, match="NaN"):
        CalibratedClassifierCV(GaussianNB()).fit(X, y)


def test_a_model_that_outputs_float32_is_calibrated_in_float64(two):
    X, y = two

    class Single(GaussianNB):
        def predict_proba(self, X):
            return super().predict_proba(X).astype(np.float32)

    p = CalibratedClassifierCV(Single()).fit(X, y).predict_proba(X)
    assert p.dtype == np.float64
    # float32 rounds large log-odds
    np.testing.assert_allclose(
        p, CalibratedClassifierCV(GaussianNB()).fit(X, y).predict_proba(X), atol=5e-3
    )


@pytest.mark.process
@pytest.mark.parametrize("ensemble", [False, True])
def test_the_number_of_jobs_changes_nothing(two, ensemble):
    X, y = two
    one, more = (
        CalibratedClassifierCV(
            RandomForestClassifier(10, random_state=0), n_jobs=n, ensemble=ensemble
        ).fit(X, y)
        for n in (None, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(X), more.predict_proba(X))


def test_it_works_inside_grid_search_pipelines_voting_and_cross_validation(two):
    X, y = two
    model = CalibratedClassifierCV(
        LogisticRegression(), method=SplineCalibrator(), cv=3
    )
    search = GridSearchCV(
        model, {"estimator__C": [0.1, 1.0], "method__monotone": [False, True]}, cv=2
    ).fit(X, y)
    assert set(search.best_params_) == {"estimator__C", "method__monotone"}
    vote = VotingClassifier(
        [("a", model), ("b", CalibratedClassifierCV(GaussianNB(), cv=3))], voting="soft"
    )
    assert (
        cross_val_score(
            make_pipeline(StandardScaler(), vote), X, y, cv=3, scoring="neg_log_loss"
        ).mean()
        > -0.6
    )


def test_clones_pickles_and_html(two):
    X, y = two
    model = CalibratedClassifierCV(
        GaussianNB(), method=SplineCalibrator(monotone=True), cv=3
    )
    assert clone(model).get_params()["method__monotone"] is True
    fitted = model.fit(X, y)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).predict_proba(X), fitted.predict_proba(X)
    )
    assert "GaussianNB" in fitted._repr_html_()
    assert fitted.score(X, y) == accuracy_score(y, fitted.predict(X))


def test_fitting_leaves_the_estimator_the_method_and_the_random_state_alone(two):
    X, y = two
    estimator, method = GaussianNB(), SplineCalibrator()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    CalibratedClassifierCV(estimator, method=method).fit(X, y)
    assert not hasattr(estimator, "classes_")
    assert not hasattr(method, "classes_")
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_strangers_calibrator_will_do(two):
    X, y = two
    ours = CalibratedClassifierCV(LinearSVC(), method=LogisticRegression()).fit(X, y)
    assert log_loss(y, ours.predict_proba(X)) < 0.5
    with_weights = CalibratedClassifierCV(LinearSVC(), method=LogisticRegression())
    with_weights.fit(X, y, sample_weight=np.linspace(0.1, 2, len(y)))


def test_a_stranger_that_takes_no_weights_gets_none_and_a_warning(two):
    X, y = two

    class Plain(BaseEstimator):
        def fit(self, scores, y):
            return self

        def predict_proba(self, scores):
            return scores[:, 1]

    with pytest.warns(UserWarning, match="Plain.fit does not take sample_weight"):
        ours = CalibratedClassifierCV(GaussianNB(), method=Plain()).fit(
            X, y, sample_weight=np.ones(len(y))
        )
    np.testing.assert_allclose(
        ours.predict_proba(X), GaussianNB().fit(X, y).predict_proba(X)
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"method": "splines"},
            ValueError,
            "method must be one of 'spline', 'sigmoid'",
        ),
        (
            {"method": SplineCalibrator},
            TypeError,
            "method must be one of .* or a calibrator with fit",
        ),
        ({"method": StandardScaler()}, TypeError, "with fit and predict_proba"),
        (
            {"estimator": GaussianNB},
            TypeError,
            "estimator must be a classifier with fit",
        ),
        ({"estimator": "svm"}, TypeError, "estimator must be a classifier with fit"),
        (
            {"ensemble": "yes"},
            ValueError,
            "ensemble must be one of True, False, 'auto'",
        ),
        (
            {"cv": "loo"},
            ValueError,
            'cv must be a number of folds, a splitter, splits or "oob"; got',
        ),
        ({"cv": "prefit"}, ValueError, r"got 'prefit'.*FrozenEstimator\(model\)"),
        ({"cv": 1}, ValueError, "n_splits"),
        ({"cv": []}, ValueError, "cv"),
        ({"verbose": -1}, ValueError, "verbose must be an integer of at least 0"),
        ({"cv": "oob"}, ValueError, 'cv="oob" needs a bagging estimator'),
        (
            {"cv": "oob", "estimator": RandomForestClassifier(bootstrap=False)},
            ValueError,
            "set bootstrap=True",
        ),
        (
            {"cv": "oob", "estimator": RandomForestClassifier(), "ensemble": True},
            ValueError,
            "ensemble must be False",
        ),
    ],
)
def test_wrong_options_are_errors_at_fit(two, options, error, message):
    X, y = two
    with pytest.raises(error, match=message):
        CalibratedClassifierCV(**{"estimator": GaussianNB()} | options).fit(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda X, y: (X, np.zeros(len(y))),
            "at least two classes; got one class, every row is 0",
        ),
        (lambda X, y: (X, [None, *y[1:]]), "missing labels; the first is in row 0"),
        (lambda X, y: (X, y[:-1]), r"\[400, 399\]"),
        (lambda X, y: (X, X[:, 0]), "Unknown label type"),
        (lambda X, y: (X[:0], y[:0]), "there are no rows"),
    ],
)
def test_wrong_rows_are_errors(two, change, message):
    with pytest.raises(ValueError, match=message):
        CalibratedClassifierCV(GaussianNB()).fit(*change(*two))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (lambda n: -np.ones(n), "sample_weight must not be negative; row 0"),
        (lambda n: np.zeros(n), "must not be all zero"),
        (lambda n: np.r_[np.nan, np.ones(n - 1)], "row 0 is nan"),
        (
            lambda n: np.ones(n + 1),
            "X and sample_weight must have the same length; got 400 and 401",
        ),
    ],
)
def test_wrong_weights_are_errors(two, weight, message):
    X, y = two
    with pytest.raises(ValueError, match=message):
        CalibratedClassifierCV(GaussianNB()).fit(X, y, sample_weight=weight(len(y)))


def test_models_that_give_no_scores_or_odd_ones_are_errors(two):
    class Mute(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            return self

    with pytest.raises(TypeError, match="Mute has neither"):
        CalibratedClassifierCV(Mute()).fit(*two)
    X, y = make_classification(200, 8, n_informative=6, n_classes=4, random_state=0)
    with pytest.raises(ValueError, match='use decision_function_shape="ovr"'):
        CalibratedClassifierCV(SVC(decision_function_shape="ovo")).fit(X, y)


def test_predicting_before_fitting_is_an_error(two):
    with pytest.raises(NotFittedError):
        CalibratedClassifierCV(GaussianNB()).predict_proba(two[0])
    with pytest.raises(NotFittedError):
        CalibratedClassifierCV(GaussianNB()).predict(two[0])


def test_refitting_equals_a_fresh_fit(two, three):
    model = CalibratedClassifierCV(GaussianNB()).fit(*three).fit(*two)
    fresh = CalibratedClassifierCV(GaussianNB()).fit(*two)
    np.testing.assert_array_equal(
        model.predict_proba(two[0]), fresh.predict_proba(two[0])
    )


def test_a_tree_that_knows_one_class_of_a_fold_predicts_it():
    X = np.arange(8.0).reshape(-1, 1)
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    halves = [(np.arange(4), np.arange(4, 8)), (np.arange(4, 8), np.arange(4))]
    p = (
        CalibratedClassifierCV(DecisionTreeClassifier(), cv=halves, ensemble=True)
        .fit(X, y)
        .predict_proba(X)
    )
    np.testing.assert_allclose(p, 0.5)


def grouped_data(n_groups=40, size=6):
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(n_groups), size)
    X = rng.normal(size=(len(group), 3)) + rng.normal(size=(n_groups, 3))[group]
    y = (rng.random(n_groups) < 0.5)[group].astype(int)
    return X, y, np.array([f"patient {g}" for g in group])


@pytest.mark.parametrize("cv", [None, 4])
@pytest.mark.parametrize("ensemble", [False, True])
def test_groups_reach_splitter_and_calibrator(cv, ensemble):
    X, y, groups = grouped_data()
    model = CalibratedClassifierCV(LogisticRegression(), cv=cv, ensemble=ensemble).fit(
        X, y, groups=groups
    )
    pairs = model.calibrated_classifiers_
    worth = [pair.calibrators[0].n_effective_ for pair in pairs]
    assert len(pairs) == ((cv or 5) if ensemble else 1)
    assert all(n < 0.5 * len(y) / len(pairs) for n in worth)
    same = CalibratedClassifierCV(
        LogisticRegression(), cv=StratifiedGroupKFold(cv or 5), ensemble=ensemble
    )
    np.testing.assert_array_equal(
        same.fit(X, y, groups=groups).predict_proba(X), model.predict_proba(X)
    )


def test_the_calibrator_counts_rows_of_a_frozen_model_by_group():
    X, y, groups = grouped_data()
    base = LogisticRegression().fit(X, y)
    model = CalibratedClassifierCV(FrozenEstimator(base)).fit(X, y, groups=groups)
    alone = SplineCalibrator().fit(base.predict_proba(X), y, groups=groups)
    assert model.calibrated_classifiers_[0].calibrators[
        0
    ].n_effective_ == pytest.approx(alone.n_effective_)


@pytest.mark.filterwarnings("ignore:scores are lower where")
def test_a_calibrator_without_groups_is_fitted_without():
    X, y, groups = grouped_data()
    model = CalibratedClassifierCV(LogisticRegression(), method="sigmoid").fit(
        X, y, groups=groups
    )
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_fold_of_one_group_borrows_the_scores_of_all():
    X, y, groups = grouped_data(4, 30)
    y[::2] = 1 - y[::2]
    model = CalibratedClassifierCV(LogisticRegression(), cv=5, ensemble=True).fit(
        X, y, groups=groups
    )
    assert len(model.calibrated_classifiers_) == 4
    assert (
        len(
            {pair.calibrators[0].n_effective_ for pair in model.calibrated_classifiers_}
        )
        == 1
    )


def test_bad_groups_are_refused():
    X, y, groups = grouped_data()
    for bad, message in (
        (groups[1:], "X and groups must have the same length; got 240 and 239"),
        (np.zeros(len(y)), "at least two groups that count; got 1"),
        (np.where(np.arange(len(y)) == 7, np.nan, 1.0), "groups has missing.*row 7"),
    ):
        with pytest.raises(ValueError, match=message):
            CalibratedClassifierCV(LogisticRegression()).fit(X, y, groups=bad)


def test_a_class_of_one_group_keeps_its_recall():
    # Before, its rows calibrated with probability 0, and its recall fell from 0.95 to
    # 0.
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(6), 50)
    y = np.where(groups == 5, 2, rng.integers(0, 2, 300))
    X = rng.normal(size=(300, 3)) + 3 * np.eye(3)[y]
    model = CalibratedClassifierCV(GaussianNB(), cv=GroupKFold(3))
    with pytest.warns(UserWarning, match="2 by the model of fold"):
        model.fit(X, y, groups=groups)
    assert np.mean(model.predict(X)[y == 2] == 2) > 0.9


def test_integers_of_pandas_stay_integers(two):
    X, y = two
    model = CalibratedClassifierCV(GaussianNB()).fit(X, pd.Series(y, dtype="Int64"))
    assert model.classes_.dtype.kind == "i"
    assert model.classes_.tolist() == [0, 1]


def test_out_of_bag_votes_know_no_groups_and_no_steps_that_see_labels(two):
    X, y = two
    forest = RandomForestClassifier(n_estimators=30, random_state=0)
    with pytest.raises(ValueError, match='groups must be None with cv="oob"'):
        CalibratedClassifierCV(forest, cv="oob").fit(
            X, y, groups=np.arange(len(y)) // 2
        )
    with pytest.warns(
        UserWarning, match="lets SelectKBest see the labels of every row"
    ):
        CalibratedClassifierCV(make_pipeline(SelectKBest(k=1), forest), cv="oob").fit(
            X, y
        )
