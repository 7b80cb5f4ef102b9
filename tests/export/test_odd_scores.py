"""Odd scores in every target that runs here: each agrees with ``calibrate`` to 1e-9, also in what is no score."""

import warnings
from functools import cache

import numpy as np
import onnxruntime
import pytest
from scipy.special import expit, softmax

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    apply_frame,
)
from calspline.export import to_c, to_javascript, to_onnx, to_python, to_sql

NAN, INF = np.nan, np.inf
AGREE = {"rtol": 0.0, "atol": 1e-9}

PROBABILITIES = [
    *(-1e-7, -5e-7, -5e-5, -2e-4, 1 + 1e-7, 1 + 5e-5, 1.001, -0.5, 2.0),
    *(
        0.0,
        -0.0,
        1.0,
        5e-324,
        1e-310,
        1e-308,
        1e-300,
        1e-17,
        1e-16,
        1 - 1e-16,
        1 - 1e-12,
        0.3,
        0.5,
    ),
    *(NAN, INF, -INF, 1e308, -1e308),
]
MARGINS = [
    *(
        0.0,
        -0.0,
        5e-324,
        -1e-310,
        1e-20,
        1.0,
        -1.0,
        37.0,
        -37.0,
        700.0,
        -700.0,
        746.0,
        -800.0,
        1e4,
        -1e8,
        1e15,
    ),
    *(
        1e154,
        -1e160,
        1e200,
        1e299,
        -1e300,
        1.0000001e300,
        1e308,
        -1e308,
        NAN,
        INF,
        -INF,
    ),
]
ROWS = [
    *(
        [0.2, 0.3, 0.5],
        [1, 0, 0],
        [0, 0, 1],
        [0, 1, 0],
        [1 / 3] * 3,
        [0.5, 0.25, 0.25],
        [0.4, 0.4, 0.2],
    ),
    *(
        [-1e-7, 0.5, 0.5 + 1e-7],
        [-5e-5, 0.5, 0.5],
        [1 + 1e-7, 0, -1e-7],
        [1 + 5e-5, 0, 0],
        [1.001, 0, 0],
    ),
    *(
        [0.5, 0.5, 5e-324],
        [1e-310, 1e-300, 1.0],
        [1, 1e-17, 1e-17],
        [1 - 1e-16, 1e-16, 0],
    ),
    *(
        [0.5, 0.5, 0.0049],
        [0.5, 0.5, 0.0051],
        [0.5, 0.5, -0.0049],
        [0.3, 0.3, 0.3],
        [0, 0, 0],
    ),
    *([NAN, 0.5, 0.5], [0.5, 0.5, NAN], [INF, 0, 0], [1e308, -1e308, 1]),
]
LOGITS = [
    *(
        [0, 0, 0],
        [1, 2, 3],
        [0.2, 0.3, 0.5],
        [0, 0, 1],
        [40, 0, 0],
        [1e-300, 0, 0],
        [5e-324, 0, -5e-324],
    ),
    *(
        [700, 0, -700],
        [1e4, 0, -1e4],
        [1e15, 1e15, 0],
        [-1e8, -1e8, -1e8],
        [1e150, -1e160, 3],
    ),
    *(
        [1e299, -1e299, 0],
        [1e300, -1e300, 1e300],
        [1e301, 0, 0],
        [1e308, 1e308, -1e308],
    ),
    *([NAN, 0, 0], [INF, 0, 0], [-INF, 0, 0]),
]

rng = np.random.default_rng(0)
N = 1500
U = rng.normal(-0.3, 2.0, N)
SEGMENT = rng.integers(0, 3, N)
HAPPENED = rng.random(N) < expit(0.7 * U + 0.3 * np.sin(2 * U) + SEGMENT - 1.0)
Z = rng.normal(0.0, 2.0, (N, 3))
CLASS = (
    0.6 * Z + rng.gumbel(size=Z.shape) + SEGMENT[:, None] * [0.5, 0.0, -0.5]
).argmax(axis=1)
BY = np.array(["a", "b", "c"])[SEGMENT]
KINDS = {
    "probabilities": (expit(U), HAPPENED, PROBABILITIES),
    "margins": (U, HAPPENED, MARGINS),
    "rows": (softmax(Z, axis=1), CLASS, ROWS),
    "logits": (Z, CLASS, LOGITS),
}
CALIBRATORS = {
    "spline": (SplineCalibrator(), KINDS),
    "identity": (SplineCalibrator(scale="identity"), ["probabilities"]),
    "monotone": (SplineCalibrator(monotone=True), ["probabilities"]),
    "ovr": (SplineCalibrator(multiclass="ovr"), ["rows", "logits"]),
    "sigmoid": (SigmoidCalibrator(), KINDS),
    "isotonic": (IsotonicCalibrator(), ["probabilities", "margins", "rows"]),
    "beta": (BetaCalibrator(), ["probabilities", "rows"]),
    "temperature": (TemperatureCalibrator(), KINDS),
    "clipping": (ClippingCalibrator(), ["probabilities", "rows"]),
}
CASES = [
    (name, kind, by)
    for name, (_, kinds) in CALIBRATORS.items()
    for kind in kinds
    for by in ("", "by")
]
CASES = [
    case for case in CASES if case[2] == "" or case[0] in ("spline", "ovr", "monotone")
]

SPANNING = [
    ("spline", "probabilities", "by"),
    ("spline", "margins", ""),
    ("spline", "rows", "by"),
    ("spline", "logits", ""),
    ("monotone", "probabilities", ""),
    ("ovr", "rows", ""),
    ("ovr", "logits", "by"),
    ("sigmoid", "margins", ""),
    ("isotonic", "rows", ""),
    ("beta", "probabilities", ""),
    ("temperature", "logits", ""),
    ("clipping", "rows", ""),
]


class Odd:
    """A calibrator with odd scores, each in a known segment, in a new one and in none, and what Python says."""

    def __init__(self, name, kind, by):
        scores, labels, odd = KINDS[kind]
        fitted = CALIBRATORS[name][0]
        self.calibrator = type(fitted)(**fitted.get_params())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.calibrator.fit(scores, labels, **({"by": BY} if by else {}))
        self.segmented, self.m = bool(by), 1 if scores.ndim == 1 else 3
        self.by = (
            [each for _ in odd for each in ("a", "new", None)]
            if by
            else [None] * len(odd)
        )
        self.scores = [
            np.array(one, dtype=float) for one in odd for _ in range(3 if by else 1)
        ]
        self.expected = self.each(self._python)

    def _python(self, score, by):
        # A good score beside it, so that nothing is told from the batch.
        beside = 0.5 if self.m == 1 else np.full(3, 1 / 3)
        given = {"by": [by, by]} if self.segmented else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.calibrator.calibrate(np.array([beside, score]), **given)[1]

    def each(self, calibrate):
        """What a function makes of each score, NaN where it refuses."""
        found = np.full((len(self.scores), self.m), NAN)
        for row, (score, by) in enumerate(zip(self.scores, self.by, strict=True)):
            try:
                found[row] = calibrate(score, by)
            except ValueError:
                continue
        return found

    @property
    def plain(self):
        """Scores as Python has them."""
        return [score.tolist() for score in self.scores]

    @property
    def columns(self):
        return "c0" if self.m == 1 else ["c0", "c1", "c2"]

    def check(self, got):
        np.testing.assert_allclose(
            np.reshape(got, self.expected.shape), self.expected, **AGREE
        )


@cache
def cached(case):
    return Odd(*case)


@pytest.fixture(params=CASES, ids=lambda case: " ".join(case).strip())
def odd(request):
    return cached(request.param)


def test_some_scores_are_refused_and_others_are_not(odd):
    refused = np.isnan(odd.expected).all(axis=1)
    assert 0.1 < refused.mean() < 0.7
    assert not np.isnan(odd.expected[~refused]).any()


def test_python(odd, python):
    calibrate = python(to_python(odd.calibrator))
    odd.check(
        odd.each(
            lambda score, by: calibrate(
                score.tolist(), *([by] if odd.segmented else [])
            )
        )
    )


def test_javascript(odd, node):
    odd.check(
        node(
            to_javascript(odd.calibrator),
            odd.plain,
            *([odd.by] if odd.segmented else []),
        )
    )


def test_c(compiled, tmp_path):
    odds = [cached(case) for case in SPANNING]
    texts = [
        ["0" if label is None else f'"{label}"' for label in odd.by] for odd in odds
    ]
    by = [
        [("const char *", text)] if odd.segmented else []
        for odd, text in zip(odds, texts, strict=True)
    ]
    sources = [to_c(odd.calibrator) for odd in odds]
    scores = [np.array(odd.plain) for odd in odds]
    for odd, got in zip(odds, compiled(sources, scores, tmp_path, by), strict=True):
        odd.check(got)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_sql(odd, dialect, request):
    connection = request.getfixturevalue(dialect)._connection
    names = [odd.columns] if odd.m == 1 else odd.columns
    connection.execute("DROP TABLE IF EXISTS odd")
    connection.execute(
        f"CREATE TABLE odd (n INTEGER, {', '.join(f'{name} DOUBLE' for name in names)}, s TEXT)"
    )
    for n, (score, by) in enumerate(zip(odd.scores, odd.by, strict=True)):
        values = [n, *score.reshape(-1).tolist(), by]
        connection.execute(
            f"INSERT INTO odd VALUES ({', '.join('?' * len(values))})", values
        )
    given = {"dialect": dialect, "by": "s" if odd.segmented else None}
    join = ""
    if (
        dialect == "sqlite" and odd.segmented and odd.m > 1
    ):  # without a table it is too deep for the parser
        create, join, found = to_sql(
            odd.calibrator, odd.columns, table="effects", **given
        )
        connection.execute("DROP TABLE IF EXISTS effects")
        for statement in create:
            connection.execute(statement)
    else:
        found = to_sql(odd.calibrator, odd.columns, **given)
    expressions = [found] if odd.m == 1 else found
    rows = connection.execute(
        f"SELECT {', '.join(expressions)} FROM odd {join} ORDER BY n"
    ).fetchall()
    odd.check([[NAN if value is None else value for value in row] for row in rows])


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:the columns of scores? are not named after the classes"
)
def test_a_frame_of_duckdb(odd):
    import duckdb

    connection = duckdb.connect()
    names = [odd.columns] if odd.m == 1 else odd.columns

    def apply(score, by):
        values = zip(score.reshape(-1).tolist(), names, strict=True)
        query = ", ".join(f"'{value}'::DOUBLE AS {name}" for value, name in values)
        label = "NULL" if by is None else f"'{by}'"
        rows = connection.sql(f"SELECT {query}, {label}::VARCHAR AS s")
        try:
            found = apply_frame(
                rows,
                odd.calibrator,
                score=odd.columns,
                by="s" if odd.segmented else None,
            ).fetchall()
        except duckdb.InvalidInputException as error:
            raise ValueError(str(error)) from error
        return [NAN if value is None else value for value in found[0][len(names) + 1 :]]

    odd.check(odd.each(apply))


def test_onnx(odd):
    session = onnxruntime.InferenceSession(to_onnx(odd.calibrator).SerializeToString())
    scores = np.array(odd.scores).reshape(len(odd.scores), -1)
    by = (
        {"by": np.array([label or "" for label in odd.by], dtype=object)}
        if odd.segmented
        else {}
    )
    if odd.m == 1 and odd.calibrator.model_.kind.value_kind == "probability":
        # It takes both columns, and so does Python then.
        scores = np.column_stack([1.0 - scores, scores])

        def both(score, by):
            given = {"by": [by, by]} if odd.segmented else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return odd.calibrator.predict_proba(
                    np.array([[0.5, 0.5], [1.0 - score, score]]), **given
                )[1, 1]

        with np.errstate(all="ignore"):
            expected = odd.each(both)[:, 0]
        np.testing.assert_allclose(
            session.run(None, {"scores": scores} | by)[0][:, 1], expected, **AGREE
        )
        return
    got = session.run(None, {"scores": scores} | by)[0]
    odd.check(got[:, 1] if odd.m == 1 else got)


def test_torch(odd):
    torch = pytest.importorskip("torch")
    from calspline.export import to_torch

    module = to_torch(odd.calibrator)
    codes = [module.codes(odd.by)] if odd.segmented else []
    odd.check(module(torch.tensor(np.array(odd.scores)), *codes).numpy())
