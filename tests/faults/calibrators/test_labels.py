import numpy as np
import pytest

BAD = (ValueError, TypeError)


def test_23_booleans(cal, two):
    expected = two.fit(cal).predict_proba(two.grid)
    np.testing.assert_array_equal(
        cal.fit(two.scores, two.y == 1).predict_proba(two.grid), expected
    )
    assert cal.predict(two.grid).dtype == bool


def test_25_fewer_classes_than_columns_must_be_told_apart(cal, three):
    with pytest.raises(
        ValueError, match="or be integers from 0 to 2; got 2 classes for 3 columns"
    ):
        cal.fit(three.scores, np.where(three.y > 0, "yes", "no"))


def test_25_two_labels_with_three_columns_name_columns(cal, three):
    assert cal.fit(three.scores, three.y % 2).classes_.tolist() == [0, 1, 2]
