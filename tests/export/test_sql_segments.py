"""SQL of calibrators with segments, run in every database."""

import itertools
import subprocess
import tempfile
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from tests.export.conftest import values

from calspline import SplineCalibrator
from calspline.export import to_sql
from calspline.export.dialects import DIALECTS

ODD = [
    "c0",
    "it's",
    "",
    "line\nbreak",
    "back\\slash",
    "é ü",
    'quo"te',
    "C0",
    "{0} %s ?",
    "known_segment",
    "2",
    " c0",
]
AGREE = {"rtol": 0.0, "atol": 1e-9}


@cache
def rows(n=6000, seed=1):
    rng = np.random.default_rng(seed)
    number = rng.integers(0, len(ODD), n)
    u = rng.normal(size=n) * 1.5
    effect = rng.normal(size=(4, len(ODD)))
    bent = np.sin(2 * u) * 1.5 * effect[2][number]
    happened = rng.random(n) < expit(
        u * np.exp(0.5 * effect[1][number]) + effect[0][number] + bent
    )
    q = softmax(np.column_stack([u, rng.normal(size=n), np.zeros(n)]), axis=1)
    tilted = softmax(np.log(q) * 1.5 + rng.normal(size=(len(ODD), 3))[number], axis=1)
    return pd.DataFrame(
        {
            "p": expit(u),
            "x": u,
            "y": happened,
            "country": np.array(ODD, dtype=object)[number],
            "device": number % 4,
            "size": (number % 3) / 4,
            "app": number % 2 == 0,
            "a": q[:, 0],
            "b": q[:, 1],
            "c": q[:, 2],
            "kind": (tilted.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1),
        }
    )


@cache
def fitted(by, score="p", **options):
    frame, columns = rows(), list(by)
    cal = SplineCalibrator(**options)
    if score == "abc":
        return cal.fit(frame[list("abc")].to_numpy(), frame["kind"], by=frame[columns])
    return cal.fit(frame[score], frame["y"], by=frame[columns])


def some(seed=2, n=300):
    """Rows to calibrate, with segments that are new, and without any."""
    frame = (
        rows()
        .drop(columns=["y", "kind"])
        .sample(n, random_state=seed)
        .reset_index(drop=True)
    )
    frame = frame.astype(
        {"country": object, "device": "Int64", "size": object, "app": object}
    )
    frame.loc[:9, ["country", "device", "size"]] = ["nowhere", 99, 0.33]
    frame.loc[10:19, ["country", "device", "size", "app"]] = None
    frame.loc[20:23, "p"] = [0.0, 1.0, 1e-310, 1 - 1e-16]
    return frame


def run(database, query, frame, statements=()):
    """The answer of a database to a query on the table ``scores``, in the order of its rows."""
    writer = DIALECTS[database.dialect]
    query = f"{query} ORDER BY n"

    def literal(value):
        if (
            value is None
            or value is pd.NA
            or (isinstance(value, float) and np.isnan(value))
        ):
            return "NULL"
        if isinstance(value, str):
            return writer.literal(value)
        return repr(float(value)) if isinstance(value, float) else str(value)

    text, double = writer.types
    kinds = {"app": "BOOLEAN", "device": "INTEGER"}
    kinds |= {
        name: text for name in frame.columns if frame[name].map(type).eq(str).any()
    }
    columns = ", ".join(
        f"{writer.identifier(name)} {kinds.get(name, double)}" for name in frame.columns
    )
    listed = [
        f"({n}, {', '.join(map(literal, row))})"
        for n, row in enumerate(frame.itertuples(index=False))
    ]
    setup = [
        f"CREATE TABLE scores (n INTEGER, {columns})",
        f"INSERT INTO scores VALUES {', '.join(listed)}",
    ]
    if database.dialect == "postgres":
        cluster = database._cluster
        command = [
            cluster.psql,
            "-XqAt",
            "-F",
            ",",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            cluster.folder,
            "-U",
            "tester",
        ]
        script = [
            each.replace("CREATE TABLE", "CREATE TEMP TABLE", 1)
            for each in (*setup, *statements)
        ]
        script = ";\n".join([*script, query]) + ";\n"
        out = subprocess.run(
            [*command, "postgres"],
            input=script,
            capture_output=True,
            text=True,
            check=False,
        )
        assert out.returncode == 0, out.stderr
        lines = out.stdout.splitlines()
        return values(
            [[None if v == "" else float(v) for v in line.split(",")] for line in lines]
        )
    if database.dialect == "spark":
        with tempfile.TemporaryDirectory() as folder:
            frame.reset_index(names="n").to_parquet(f"{folder}/rows.parquet")
            database._session.read.parquet(
                f"{folder}/rows.parquet"
            ).createOrReplaceTempView("scores")
            for k, each in enumerate(statements):
                # Its files belong into the folder, not into the warehouse of whoever
                # runs this.
                where = (
                    f" LOCATION '{folder}/{k}'"
                    if each.startswith("CREATE TABLE")
                    else ""
                )
                database._session.sql(each + where)
            try:
                return values(database._session.sql(query).collect())
            finally:
                for each in statements:
                    if each.startswith("CREATE TABLE"):
                        database._session.sql(f"DROP TABLE {each.split()[2]}")
    connection = database._connection
    made = [
        each.split()[2]
        for each in (*setup, *statements)
        if each.startswith("CREATE TABLE")
    ]
    for name in made:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for each in (*setup, *statements):
        connection.execute(each)
    if database.dialect == "sqlite":
        connection.commit()  # of its own accord it has begun a transaction
    return values(connection.execute(query).fetchall())


def wanted(cal, frame, by, score):
    scores = (
        frame[list("abc")].to_numpy()
        if score == "abc"
        else frame[score].to_numpy(dtype=float)
    )
    columns = [
        frame[name].astype(object).where(frame[name].notna(), None).tolist()
        for name in by
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cal.calibrate(scores, by=columns if len(by) > 1 else columns[0])


CASES = {
    "texts": {"by": ("country",)},
    "integers": {"by": ("device",)},
    "numbers": {"by": ("size",)},
    "booleans": {"by": ("app",)},
    "two columns": {"by": ("country", "device")},
    "margins": {"by": ("country",), "score": "x", "scale": "identity"},
    "steady": {"by": ("country",), "monotone": True},
    "ovr": {"by": ("country",), "score": "abc", "multiclass": "ovr"},
    "structured": {"by": ("country", "device"), "score": "abc"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("joined", [False, True])
def test_sql_agrees_with_python(duckdb, case, joined):
    check_case(duckdb, case, joined)


SPANNING = [
    ("numbers", False),
    ("two columns", False),
    ("texts", True),
    ("steady", True),
    ("ovr", True),
    ("structured", True),
]
"""What is run in the other databases."""


@pytest.mark.parametrize(("case", "joined"), SPANNING)
@pytest.mark.parametrize("other", ["sqlite", "postgres", "spark"])
def test_sql_agrees_with_python_elsewhere(request, other, case, joined):
    check_case(request.getfixturevalue(other), case, joined)


def check_case(database, case, joined):
    options = CASES[case]
    by, score = options["by"], options.get("score", "p")
    cal, frame = fitted(**options), some()
    column = list("abc") if score == "abc" else score
    given = {"dialect": database.dialect, "by": list(by) if len(by) > 1 else by[0]}
    if joined:
        create, join, found = to_sql(cal, column, table="effects", **given)
    else:
        create, join, found = [], "", to_sql(cal, column, **given)
    expressions = [found] if isinstance(found, str) else found
    got = run(
        database, f"SELECT {', '.join(expressions)} FROM scores {join}", frame, create
    )
    expected = wanted(cal, frame, by, score)
    np.testing.assert_allclose(got if score == "abc" else got[:, 0], expected, **AGREE)


OTHER_TYPES = {
    "booleans as texts": (("app",), "app", ["true", "false", "1"]),
    "integers as texts": (("device",), "device", ["1", "0", "2"]),
    "numbers as texts": (("size",), "size", ["0.25", "0", "x"]),
    "texts as integers": (("country",), "country", [2, 2, 2]),
    "texts as numbers": (("country",), "country", [2.0, 0.5, 2.0]),
}


@pytest.mark.parametrize(
    ("case", "joined"), list(zip(OTHER_TYPES, itertools.cycle([False, True])))
)
def test_segments_of_another_type_are_an_error(database, case, joined):
    by, column, labels = OTHER_TYPES[case]
    cal, frame = fitted(by), pd.DataFrame({"p": [0.3, 0.5, 0.9], column: labels})
    if column == "country" and labels == [2, 2, 2]:
        frame = frame.rename(
            columns={"country": "device"}
        )  # which is declared to be an integer
    given = {"by": frame.columns[1], "dialect": database.dialect}
    found = (
        to_sql(cal, "p", table="effects", **given)
        if joined
        else ([], "", to_sql(cal, "p", **given))
    )
    create, join, expression = found
    with pytest.raises(TypeError, match="by must have labels like those of the fit"):
        cal.calibrate(frame["p"], by=frame.iloc[:, 1])
    wanted = "texts" if by == ("country",) else "numbers"
    with pytest.raises(
        Exception,
        match=f"by must be {wanted} as in the fit; column {frame.columns[1]} has others",
    ):
        run(database, f"SELECT {expression} FROM scores {join}", frame, create)


@pytest.mark.parametrize("joined", [False, True])
def test_equal_numbers_of_any_type_are_the_same_segment(database, joined):
    """True is 1 and 1.0, but neither 7 nor 1.5, whatever a condition would make of those."""
    by_value = [
        (("app",), "device", [1, 0, 7, None]),
        (("app",), "x", [1.0, 0.0, 1.5, None]),
        (("device",), "x", [1.0, 0.0, 1.5, None]),
        (("device",), "app", [True, False, None, None]),
        (("size",), "device", [0, 1, 2, None]),
    ]
    for by, column, labels in by_value:
        cal, frame = (
            fitted(by),
            pd.DataFrame(
                {"p": [0.3, 0.5, 0.7, 0.9], column: pd.Series(labels, dtype=object)}
            ),
        )
        if column == "device":
            frame = frame.astype({"device": "Int64"})
        if column == "x":
            frame = frame.astype({"x": float})
        given = {"by": column, "dialect": database.dialect}
        found = (
            to_sql(cal, "p", table="effects", **given)
            if joined
            else ([], "", to_sql(cal, "p", **given))
        )
        create, join, expression = found
        got = run(database, f"SELECT {expression} FROM scores {join}", frame, create)
        np.testing.assert_allclose(
            got[:, 0], wanted(cal, frame, (column,), "p"), **AGREE
        )


def test_sqlite_compares_values_whatever_the_column_is_declared_as(sqlite):
    """Its columns hold values of any type, and a declared one would make texts equal numbers, or ignore case."""
    connection = sqlite._connection
    for declared, labels in (
        ("TEXT COLLATE NOCASE", ["C0", "c0"]),
        ("NUMERIC", ["it's", "c0"]),
    ):
        connection.execute("DROP TABLE IF EXISTS declared")
        connection.execute(f"CREATE TABLE declared (p REAL, s {declared})")
        connection.executemany(
            "INSERT INTO declared VALUES (0.4, ?)", [(label,) for label in labels]
        )
        cal = fitted(("country",))
        for table in (None, "effects"):
            found = to_sql(cal, "p", by="s", dialect="sqlite", table=table)
            create, join, expression = ([], "", found) if table is None else found
            connection.execute("DROP TABLE IF EXISTS effects")
            for each in create:
                connection.execute(each)
            got = [
                row[0]
                for row in connection.execute(
                    f"SELECT {expression} FROM declared {join} ORDER BY declared.rowid"
                )
            ]
            np.testing.assert_allclose(
                got, cal.calibrate([0.4, 0.4], by=labels), **AGREE
            )


def test_the_effects_bend():
    assert fitted(("country",)).model_.formula().lookups[0].numbers.keys() >= {
        "effect_0_0",
        "effect_0_1",
        "effect_0_2",
    }


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark", "sqlite"])
def test_the_piece_that_a_score_lies_in_is_found_once(dialect):
    cal = fitted(("country",))
    expression = to_sql(cal, "p", by="country", table="effects", dialect=dialect)[2]
    pieces = dict(cal.model_.formula().program.steps)["f"].value
    middle = repr(pieces.breaks[len(pieces.breaks) // 2])
    # Once to find the piece, and once to count from where it starts.
    assert expression.count(middle) == 2


def test_labels_that_look_like_names_of_steps_are_texts(database):
    frame = rows()
    labels = np.array(["step_0", "STEP_1", "calibration_2"])[frame["device"] % 3]
    cal = SplineCalibrator().fit(frame["p"], frame["y"], by=labels)
    some_rows = pd.DataFrame({"p": frame["p"], "s": labels})[:30]
    found = to_sql(cal, "p", by="s", dialect=database.dialect)
    got = run(database, f"SELECT {found} FROM scores", some_rows)
    expected = cal.calibrate(some_rows["p"], by=some_rows["s"])
    np.testing.assert_allclose(got[:, 0], expected, **AGREE)


def test_names_that_the_expression_uses_itself_may_be_columns(database):
    cal, frame = fitted(("country",)), some(n=40)
    expected = wanted(cal, frame, ("country",), "p")
    for score, by in (
        ("known_place", "known_segment"),
        ("segment", "s0_"),
        ("u", "segment"),
    ):
        named = frame[["p", "country"]].rename(columns={"p": score, "country": by})
        create, join, found = to_sql(
            cal, score, by=by, table="effects", dialect=database.dialect
        )
        alone = to_sql(cal, score, by=by, dialect=database.dialect)
        for expression, more, statements in ((found, join, create), (alone, "", [])):
            got = run(
                database, f"SELECT {expression} FROM scores {more}", named, statements
            )
            np.testing.assert_allclose(got[:, 0], expected, **AGREE)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark", "sqlite"])
def test_what_cannot_be_written_is_refused(dialect):
    cal = fitted(("country", "device"))
    with pytest.raises(ValueError, match="by, the columns of segments, must be named"):
        to_sql(cal, "p", dialect=dialect)
    with pytest.raises(
        ValueError, match="by must have 2 columns, as in the fit; got 1"
    ):
        to_sql(cal, "p", by="country", dialect=dialect)
    with pytest.raises(
        ValueError, match="by must be the name of a column, or a list of names; got ''"
    ):
        to_sql(cal, "p", by=["", "device"], dialect=dialect)
    with pytest.raises(
        ValueError,
        match="table must be the name of a table, for a calibrator with by or of "
        "several classes; got ''",
    ):
        to_sql(cal, "p", by=["country", "device"], table="", dialect=dialect)
    frame = rows()
    plain = SplineCalibrator().fit(frame["p"], frame["y"])
    with pytest.raises(ValueError, match="by must be left out"):
        to_sql(plain, "p", by="country", dialect=dialect)
    with pytest.raises(ValueError, match="table must be the name of a table"):
        to_sql(plain, "p", table="effects", dialect=dialect)
    for labels, said in (
        (
            [1, "a"],
            "segments must be all texts or all numbers in SQL; column 's' has both",
        ),
        (["a\0", "b"], "segments must not hold the character 0 in SQL"),
        ([2**53, 1], "segments must be numbers below 2"),
    ):
        odd = SplineCalibrator().fit(
            frame["p"], frame["y"], by=[labels[k % 2] for k in range(len(frame))]
        )
        with pytest.raises(ValueError, match=said):
            to_sql(odd, "p", by="s", dialect=dialect)


def test_columns_are_matched_by_name(duckdb):
    cal, frame = fitted(("country", "device")), some(n=40)
    turned = to_sql(cal, "p", by=["device", "country"])
    assert turned == to_sql(cal, "p", by=["country", "device"])
    got = run(duckdb, f"SELECT {turned} FROM scores", frame)
    np.testing.assert_allclose(
        got[:, 0], wanted(cal, frame, ("country", "device"), "p"), **AGREE
    )
