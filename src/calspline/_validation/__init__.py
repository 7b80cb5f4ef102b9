"""The only gate for user input: scores, labels, weights and options.

Errors are ``ValueError`` (a value is wrong) or ``TypeError`` (a kind is wrong). They name
the argument, what was expected, and the first offending row, counting from 0.
"""

from calspline._validation.displays import (
    by_name,
    classes_of,
    function_values,
    score_functions,
    series,
    string,
    two_limits,
)
from calspline._validation.labels import (
    Rows,
    binary_labels,
    label_array,
    matrix_labels,
    rows_to_fit,
    two_classes_given,
    weight_array,
)
from calspline._validation.options import (
    fitted_calibrator,
    increasing,
    not_negative,
    number,
    one_of,
    positive_list,
    seed,
    text,
    whole_number,
)
from calspline._validation.predictions import Predictions, names_of_predictions, predictions, same_classes
from calspline._validation.scores import (
    MARGIN_ADVICE,
    BinaryScores,
    Kind,
    MatrixKind,
    MatrixScores,
    binary_scores,
    chunks,
    column_names,
    in_class_order,
    is_missing,
    matrix_scores,
    numeric_array,
    real_array,
)

__all__ = [
    "MARGIN_ADVICE",
    "BinaryScores",
    "Kind",
    "MatrixKind",
    "MatrixScores",
    "Predictions",
    "Rows",
    "binary_labels",
    "binary_scores",
    "by_name",
    "chunks",
    "classes_of",
    "column_names",
    "fitted_calibrator",
    "function_values",
    "in_class_order",
    "increasing",
    "is_missing",
    "label_array",
    "matrix_labels",
    "matrix_scores",
    "names_of_predictions",
    "not_negative",
    "number",
    "numeric_array",
    "one_of",
    "positive_list",
    "predictions",
    "real_array",
    "rows_to_fit",
    "same_classes",
    "score_functions",
    "seed",
    "series",
    "string",
    "text",
    "two_classes_given",
    "two_limits",
    "weight_array",
    "whole_number",
]
