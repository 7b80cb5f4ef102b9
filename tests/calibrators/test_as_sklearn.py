"""scikit-learn's own checks of estimators, run on every calibrator.

The ``X`` of a calibrator is scores: one column, a pair, or a column for each class.
scikit-learn's checks draw features, which fit that only by chance; what therefore
cannot hold is listed here, with the reason.
"""

import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.utils import get_tags

from calspline import calibrators

THREE_CLASSES = "asks one column of features for three or more classes: one column of scores is for two"
TWO_DIMENSIONS = "takes rows and columns of an array that the tag for one-dimensional input has made flat"
ANY_SHAPE = "two classes may be fitted on one column and asked about with two: a number of features says nothing"
OWN_WORDS = "looks for scikit-learn's words; our error names the argument, what was expected and the first bad row"

CANNOT_HOLD = {
    "check_classifiers_classes": THREE_CLASSES,
    "check_dtype_object": THREE_CLASSES,
    "check_estimators_fit_returns_self": THREE_CLASSES,
    "check_estimators_nan_inf": OWN_WORDS,
    "check_estimators_overwrite_params": THREE_CLASSES,
    "check_fit_score_takes_y": THREE_CLASSES,
    "check_n_features_in_after_fitting": THREE_CLASSES,
    "check_positive_only_tag_during_fit": THREE_CLASSES,
    "check_readonly_memmap_input": THREE_CLASSES,
    "check_sample_weights_list": THREE_CLASSES,
    "check_supervised_y_2d": THREE_CLASSES,
    "check_dict_unchanged": TWO_DIMENSIONS,
    "check_dont_overwrite_parameters": TWO_DIMENSIONS,
    "check_estimator_sparse_array": TWO_DIMENSIONS,
    "check_f_contiguous_array_estimator": TWO_DIMENSIONS,
    "check_fit2d_1feature": TWO_DIMENSIONS,
    "check_fit2d_1sample": TWO_DIMENSIONS,
    "check_fit2d_predict1d": TWO_DIMENSIONS,
    "check_methods_sample_order_invariance": TWO_DIMENSIONS,
    "check_methods_subset_invariance": TWO_DIMENSIONS,
    "check_classifiers_train": ANY_SHAPE,
    "check_n_features_in": ANY_SHAPE,
    "check_complex_data": OWN_WORDS,
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_requires_y_none": OWN_WORDS,
    "check_sample_weight_equivalence_on_dense_data": "its features are no scores, and it sets cv to a list of splits",
}
SPLINE_CANNOT_HOLD = {
    "check_estimators_partial_fit_n_features": "partial_fit is for two classes, and the check has three",
}
CLIPPING_TAKES = "clipping is for probabilities, and features lie outside [0, 1]"
CLIPPING_CANNOT_HOLD = dict.fromkeys(
    [
        "check_classifier_data_not_an_array",
        "check_estimators_dtypes",
        "check_estimators_pickle",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_pipeline_consistency",
        "check_sample_weights_not_an_array",
        "check_sample_weights_not_overwritten",
        "check_sample_weights_pandas_series",
        "check_sample_weights_shape",
    ],
    CLIPPING_TAKES,
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", calibrators.names())
def test_check_estimator_passes_but_for_what_cannot_hold(name):
    special = {"spline": SPLINE_CANNOT_HOLD, "clipping": CLIPPING_CANNOT_HOLD}
    excused = CANNOT_HOLD | special.get(name, {})
    results = checks.check_estimator(
        calibrators.find(name)(),
        expected_failed_checks=excused,
        on_fail=None,
        on_skip=None,
    )
    assert [
        (one["check_name"], str(one["exception"]))
        for one in results
        if one["status"] == "failed"
    ] == []
    assert sum(one["status"] == "passed" for one in results) > 15
    ran = {one["check_name"] for one in results}
    failed = {one["check_name"] for one in results if one["status"] == "xfail"}
    assert ran & set(excused) == failed, "a check that holds needs no excuse"


@pytest.mark.parametrize("name", calibrators.names())
def test_tags_say_what_a_calibrator_is(name):
    tags = get_tags(calibrators.find(name)())
    assert tags.estimator_type == "classifier"
    assert tags.target_tags.required
    assert tags.classifier_tags.multi_class
    assert tags.input_tags.one_d_array
    assert tags.input_tags.two_d_array
    assert not tags.input_tags.sparse
    assert not tags.input_tags.allow_nan
    assert tags.transformer_tags is None
