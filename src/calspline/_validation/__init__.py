"""The only gate for user input: scores, labels, weights and options.

Errors are ``ValueError`` (a value is wrong) or ``TypeError`` (a kind is wrong). They name
the argument, what was expected, and the first offending row, counting from 0.
"""

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
    increasing,
    not_negative,
    number,
    one_of,
    positive_list,
    seed,
    whole_number,
)
from calspline._validation.scores import (
    LARGEST_MARGIN,
    MARGIN_ADVICE,
    ROW_SUM_TOLERANCE,
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
    "LARGEST_MARGIN",
    "MARGIN_ADVICE",
    "ROW_SUM_TOLERANCE",
    "BinaryScores",
    "Kind",
    "MatrixKind",
    "MatrixScores",
    "Rows",
    "binary_labels",
    "binary_scores",
    "chunks",
    "column_names",
    "in_class_order",
    "increasing",
    "is_missing",
    "label_array",
    "matrix_labels",
    "matrix_scores",
    "not_negative",
    "number",
    "numeric_array",
    "one_of",
    "positive_list",
    "real_array",
    "rows_to_fit",
    "seed",
    "two_classes_given",
    "weight_array",
    "whole_number",
]
