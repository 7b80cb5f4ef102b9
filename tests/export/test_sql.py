import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calspline import SplineCalibrator
from calspline.export import to_sql


def calibrate(database, calibrator, columns, rows):
    """What an engine makes of rows; one column gives one number a row."""
    expressions = to_sql(calibrator, columns, dialect=database.dialect)
    if isinstance(expressions, str):
        return database.run([expressions], [columns], rows)[:, 0]
    return database.run(expressions, columns, rows)


def test_sql_agrees_with_python(duckdb, case):
    rows = case.scores.reshape(len(case.scores), -1).tolist()
    got = calibrate(duckdb, case.calibrator, case.columns, rows)
    np.testing.assert_allclose(got, case.expected, rtol=0.0, atol=1e-9)


def test_many_fits_in_one_query_agree_with_python(database, spanning):
    """Each fit has columns of its own in one table; its odd rows come first."""
    chosen = [*range(20), *range(20, len(spanning[0].scores), 10)]
    columns, expressions = [], []
    for k, case in enumerate(spanning):
        names = [f"s{k}_{j}" for j in range(case.scores[:1].size)]
        columns += names
        found = to_sql(
            case.calibrator,
            names if len(names) > 1 else names[0],
            dialect=database.dialect,
        )
        expressions += found if isinstance(found, list) else [found]
    rows = np.column_stack([case.scores[chosen] for case in spanning])
    expected = np.column_stack([case.expected[chosen] for case in spanning])
    got = database.run(expressions, columns, rows.tolist())
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)


def test_null_and_what_is_no_probability_give_null(database, fitted):
    got = calibrate(
        database, fitted("logit"), "score", [[None], [-0.0002], [1.0002], [0.5]]
    )
    assert np.isnan(got).tolist() == [True, True, True, False]


def test_a_margin_that_is_null_gives_null(database, fitted):
    got = calibrate(database, fitted("identity"), "score", [[None], [7.5]])
    assert np.isnan(got).tolist() == [True, False]


@pytest.mark.parametrize("name", ["ovr", "structured", "softmax temperature"])
def test_rows_that_are_no_probabilities_give_null(database, fitted, name):
    rows = [[0.2, 0.3, None], [0.2, 0.3, 0.4], [1.2, -0.2, 0.0], [0.2, 0.3, 0.5]]
    got = calibrate(database, fitted(name), ["a", "b", "c"], rows)
    assert np.isnan(got).all(axis=1).tolist() == [True, True, True, False]
    assert got[3].sum() == pytest.approx(1.0)


ODD_NAMES = [
    'sc"ore',
    "sc`ore",
    "sc'ore",
    "score; DROP TABLE scores; --",
    '"; DROP TABLE scores; --',
    "select",
    "z",
    "T",
    "é ü",
    "line\nbreak\r\n",
    "a\\",
    "a\\' OR 1=1; --",
    "/* */ --",
    "*/ x /*",
    "tab\tstop",
    "{} {0} %s ? :p $1",
    "[1]",
    "\u202e",
]
INNER_NAMES = [
    ["p", "q", "z"],
    ["i", "t", "e"],
    ["p1", "p2", "p3"],
    ["top", "total", "u"],
]


def test_any_name_of_a_column_is_safe(database, fitted):
    expressions = [
        to_sql(fitted("logit"), name, dialect=database.dialect) for name in ODD_NAMES
    ]
    rows = [[score] * len(ODD_NAMES) for score in (0.3, 0.9)]
    expected = fitted("logit").calibrate(rows[0] + rows[1]).reshape(2, -1)
    got = database.run(expressions, ODD_NAMES, rows)
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("name", ["ovr", "structured of logits"])
def test_names_that_the_expression_uses_itself_may_be_columns(database, fitted, name):
    rows = [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]]
    expected = fitted(name).calibrate(rows)
    for columns in INNER_NAMES:
        got = calibrate(database, fitted(name), columns, rows)
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark", "sqlite"])
def test_the_logarithm_is_written_once_for_each_side(fitted, dialect):
    text = to_sql(fitted("logit"), "score", dialect=dialect)
    assert text.count("ln(") == 2
    assert max(map(len, text.splitlines())) < 160


@pytest.mark.parametrize("other", ["sqlite", "postgres", "spark"])
@pytest.mark.parametrize("name", ["ovr", "structured of logits"])
def test_classes_that_share_joined_steps_agree_with_python(
    request, fitted, other, name
):
    database = request.getfixturevalue(other)
    rows = [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1], [0.1, None, 0.9]]
    create, join, found = to_sql(
        fitted(name), ["a", "b", "c"], dialect=database.dialect, table="steps"
    )
    assert create == []
    got = database.run(found, ["a", "b", "c"], rows, join)
    np.testing.assert_allclose(
        got[:2], fitted(name).calibrate(rows[:2]), rtol=0.0, atol=1e-9
    )
    assert np.isnan(got[2]).all()


@pytest.mark.parametrize("name", ["ovr", "structured"])
def test_joined_steps_have_no_lambdas(fitted, name):
    _, join, found = to_sql(
        fitted(name), ["a", "b", "c"], dialect="spark", table="steps"
    )
    assert "->" not in "".join([join, *found])
    assert sum(map(len, found)) < 1000


def test_few_names_are_bound_within_others(case):
    """DuckDB takes twice as long to plan for every one: 8 ms with eight, a minute with twenty."""
    found = to_sql(case.calibrator, case.columns)
    depth, within = 0, []
    for token in re.findall(
        r"lambda|[()]", found if isinstance(found, str) else found[0]
    ):
        if token == "lambda":
            within[-1] = True
        elif token == "(":
            within.append(False)
        else:
            within.pop()
        depth = max(depth, sum(within))
    assert depth <= 9


def test_a_column_that_does_not_exist_is_an_error_and_not_null(database, fitted):
    expression = to_sql(fitted("logit"), "scoer", dialect=database.dialect)
    with pytest.raises(Exception, match="scoer"):
        database.run([expression], ["score"], [[0.5]])


def test_integers_and_strings_of_sqlite_are_taken_for_what_they_are(fitted):
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE scores (score)")
    connection.executemany(
        "INSERT INTO scores VALUES (?)", [(0,), (1,), ("0.5",), ("none",)]
    )
    got = connection.execute(
        f"SELECT {to_sql(fitted('logit'), 'score', dialect='sqlite')} FROM scores"
    ).fetchall()
    assert got[2:] == [(None,), (None,)]
    np.testing.assert_allclose(
        [got[0][0], got[1][0]],
        fitted("logit").calibrate([0.0, 1.0]),
        rtol=0.0,
        atol=1e-12,
    )


def test_an_unknown_dialect_is_an_error_that_names_the_domain(fitted):
    with pytest.raises(
        ValueError,
        match="dialect must be one of 'duckdb', 'postgres', 'spark', 'sqlite'; got 'oracle'",
    ):
        to_sql(fitted("logit"), "score", dialect="oracle")


@pytest.mark.parametrize("column", ["", "a\0b"])
def test_what_cannot_be_a_name_is_an_error(fitted, column):
    with pytest.raises(ValueError, match="column must be the name of a column"):
        to_sql(fitted("logit"), column)


@pytest.mark.parametrize(("name", "column"), [("logit", ["score"]), ("ovr", "score")])
def test_columns_have_to_fit_the_classes(fitted, name, column):
    with pytest.raises(TypeError, match="column must be"):
        to_sql(fitted(name), column)


def test_there_is_a_column_for_each_class(fitted):
    with pytest.raises(ValueError, match="3 names, one for each class; got 2"):
        to_sql(fitted("ovr"), ["a", "b"])


def test_a_name_has_to_be_a_string(fitted):
    with pytest.raises(ValueError, match="column must be the name of a column; got 1"):
        to_sql(fitted("ovr"), [1, 2, 3])


def test_what_has_no_export_is_an_error_that_lists_what_has():
    calibrator = LogisticRegression().fit([[0.2], [0.8]], [0, 1])
    with pytest.raises(
        TypeError,
        match=r"SplineCalibrator, .*ClippingCalibrator; got LogisticRegression",
    ):
        to_sql(calibrator, "score")


def test_an_unfitted_calibrator_is_an_error():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        to_sql(SplineCalibrator(), "score")


def test_where_an_expression_with_a_subquery_cannot_stand(fitted):
    """As the docstring says: not in a generated column, but in a view."""
    import sqlite3

    database = sqlite3.connect(":memory:")
    expression = to_sql(fitted("logit"), "score", dialect="sqlite")
    with pytest.raises(
        sqlite3.OperationalError, match="subqueries prohibited in generated columns"
    ):
        database.execute(
            f"CREATE TABLE made (score REAL, calibrated REAL AS ({expression}))"
        )
    database.execute("CREATE TABLE scores (score REAL)")
    database.execute("INSERT INTO scores VALUES (0.3)")
    database.execute(
        f"CREATE VIEW made AS SELECT score, {expression} AS calibrated FROM scores"
    )
    [(got,)] = database.execute("SELECT calibrated FROM made").fetchall()
    assert got == pytest.approx(fitted("logit").calibrate([0.3])[0], abs=1e-9)
