import functools
import json
import sqlite3
import subprocess
import tempfile
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.special import expit, softmax

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
)

N = 10_000
rng = np.random.default_rng(7)

LOG_ODDS = rng.normal(-0.3, 2.0, 4000)
HAPPENED = rng.random(4000) < expit(0.5 * LOG_ODDS + 0.4 * np.sin(LOG_ODDS))
SCORES = expit(LOG_ODDS)
# A confident model: log-odds at hundreds, probabilities of exactly 0 and 1.
CONFIDENT = expit(20.0 * LOG_ODDS)

LOGITS = rng.normal(0.0, 2.0, (3000, 3))
LABELS = (LOGITS + np.array([0.3, 0.0, -0.5]) + rng.gumbel(size=LOGITS.shape)).argmax(
    axis=1
)
MATRIX = softmax(2.0 * LOGITS, axis=1)


def probabilities():
    """Scores to calibrate: exact 0 and 1, denormals, next to 1, and everything between."""
    odd = [
        0.0,
        1.0,
        5e-324,
        1e-310,
        2.3e-308,
        1e-300,
        1e-200,
        1e-17,
        1e-9,
        1e-16,
        0.5,
        1.0 - 1e-16,
        1.0 - 1e-9,
    ]
    odd += [1.0 + 1e-12, 1.00001, -1e-7, -9e-5]  # rounding
    spread = np.concatenate(
        [np.linspace(0.0, 1.0, 3000), 10.0 ** np.linspace(-320.0, 0.0, 2000)]
    )
    near_one = 1.0 - 10.0 ** np.linspace(-17.0, 0.0, 1000)
    rest = expit(rng.normal(0.0, 10.0, N - len(odd) - len(spread) - len(near_one)))
    return np.concatenate([odd, spread, near_one, rest])


def margins():
    """Scores to calibrate that may be anything finite."""
    odd = [
        0.0,
        -0.0,
        5e-324,
        -1e-310,
        1e-95,
        1.0,
        -1.0,
        1e3,
        -1e3,
        1e9,
        -1e9,
        1e100,
        -1e100,
        1e300,
        -1e300,
    ]
    return np.concatenate(
        [odd, np.linspace(-15.0, 15.0, 5000), rng.normal(0.0, 4.0, N - 5000 - len(odd))]
    )


def rows_of_probabilities():
    """Rows to calibrate: with exact 0 and 1, denormals, ties, and sums that are one only within the tolerance."""
    odd = [
        [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3],
        [1.0, 5e-324, 0.0], [1e-310, 1.0, 1e-300], [1e-40, 1e-20, 1.0], [0.4, 0.4, 0.2005], [0.3, 0.3505, 0.3505],
        [1.00009, -9e-5, 0.0], [-9e-5, 0.2, 0.8],
    ]  # fmt: skip
    rest = softmax(
        rng.normal(size=(N - len(odd), 3))
        * 10.0 ** rng.uniform(-1.0, 2.5, (N - len(odd), 1)),
        axis=1,
    )
    return np.concatenate([odd, rest])


def rows_of_logits():
    """Rows to calibrate of which only differences count, some of them huge."""
    odd = [
        [0.0, 0.0, 0.0],
        [1e6, 0.0, -1e6],
        [-1e300, 1e300, 0.0],
        [5e-324, 0.0, -5e-324],
        [800.0, 0.0, 0.0],
    ]
    return np.concatenate([odd, rng.normal(0.0, 5.0, (N - len(odd), 3))])


PROBABILITIES, MARGINS = probabilities(), margins()
ROWS, LOGIT_ROWS = rows_of_probabilities(), rows_of_logits()


def fitted_to_margins(calibrator):
    return calibrator.fit(LOG_ODDS, HAPPENED), MARGINS


def of_one_score(calibrator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.fit(np.full(100, 0.5), np.arange(100) < 30), PROBABILITIES


def constant_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TemperatureCalibrator().fit(
            np.full((30, 3), 1 / 3), np.arange(30) % 3
        ), ROWS


CASES = {
    "logit": lambda: (
        SplineCalibrator(scale="logit").fit(SCORES, HAPPENED),
        PROBABILITIES,
    ),
    "compact_logit": lambda: (
        SplineCalibrator(scale="compact_logit").fit(SCORES, HAPPENED),
        PROBABILITIES,
    ),
    "tiny epsilon": lambda: (
        SplineCalibrator(scale="compact_logit", epsilon=1e-17).fit(CONFIDENT, HAPPENED),
        PROBABILITIES,
    ),
    "asinh_logit": lambda: (
        SplineCalibrator(scale="asinh_logit").fit(CONFIDENT, HAPPENED),
        PROBABILITIES,
    ),
    "identity": lambda: fitted_to_margins(SplineCalibrator(scale="identity")),
    "paper": lambda: (
        SplineCalibrator.paper(1, n_knots=20).fit(SCORES, HAPPENED),
        PROBABILITIES,
    ),
    "small margins": lambda: (
        SplineCalibrator(scale="identity").fit(1e-30 * LOG_ODDS, HAPPENED),
        1e-30 * MARGINS,
    ),
    "large margins": lambda: (
        SplineCalibrator(scale="identity").fit(1e200 * LOG_ODDS, HAPPENED),
        1e200 * MARGINS.clip(-1e100, 1e100),
    ),
    "brier": lambda: (
        SplineCalibrator(loss="brier").fit(SCORES, HAPPENED),
        PROBABILITIES,
    ),
    "monotone": lambda: (
        SplineCalibrator(monotone=True).fit(SCORES, HAPPENED),
        PROBABILITIES,
    ),
    "constant": lambda: of_one_score(SplineCalibrator()),
    "sigmoid": lambda: (SigmoidCalibrator().fit(SCORES, HAPPENED), PROBABILITIES),
    "sigmoid on probabilities": lambda: (
        SigmoidCalibrator(on="probability").fit(SCORES, HAPPENED),
        PROBABILITIES,
    ),
    "sigmoid of margins": lambda: fitted_to_margins(SigmoidCalibrator()),
    "isotonic": lambda: (IsotonicCalibrator().fit(SCORES, HAPPENED), PROBABILITIES),
    "isotonic of confident": lambda: (
        IsotonicCalibrator().fit(CONFIDENT, HAPPENED),
        PROBABILITIES,
    ),
    "isotonic of margins": lambda: fitted_to_margins(IsotonicCalibrator()),
    "beta": lambda: (BetaCalibrator().fit(SCORES, HAPPENED), PROBABILITIES),
    "beta of margins": lambda: fitted_to_margins(BetaCalibrator()),
    "constant beta": lambda: of_one_score(BetaCalibrator()),
    "temperature": lambda: (
        TemperatureCalibrator().fit(SCORES, HAPPENED),
        PROBABILITIES,
    ),
    "temperature of margins": lambda: fitted_to_margins(TemperatureCalibrator()),
    "clipping": lambda: (
        ClippingCalibrator(p_min=0.01).fit(SCORES, HAPPENED),
        PROBABILITIES,
    ),
    "clipping of rows": lambda: (
        ClippingCalibrator(p_min=0.01).fit(MATRIX, LABELS),
        ROWS,
    ),
    "ovr": lambda: (SplineCalibrator(multiclass="ovr").fit(MATRIX, LABELS), ROWS),
    "ovr compact_logit": lambda: (
        SplineCalibrator(multiclass="ovr", scale="compact_logit").fit(MATRIX, LABELS),
        ROWS,
    ),
    "ovr asinh_logit": lambda: (
        SplineCalibrator(multiclass="ovr", scale="asinh_logit").fit(MATRIX, LABELS),
        ROWS,
    ),
    "ovr identity": lambda: (
        SplineCalibrator(multiclass="ovr", scale="identity").fit(MATRIX, LABELS),
        ROWS,
    ),
    "ovr brier": lambda: (
        SplineCalibrator(multiclass="ovr", loss="brier").fit(MATRIX, LABELS),
        ROWS,
    ),
    "ovr of logits": lambda: (
        SplineCalibrator(multiclass="ovr").fit(2.0 * LOGITS, LABELS),
        LOGIT_ROWS,
    ),
    "ovr without a class": lambda: (
        SplineCalibrator(multiclass="ovr").fit(MATRIX, LABELS % 2),
        ROWS,
    ),
    "structured": lambda: (SplineCalibrator().fit(MATRIX, LABELS), ROWS),
    "structured of logits": lambda: (
        SplineCalibrator().fit(2.0 * LOGITS, LABELS),
        LOGIT_ROWS,
    ),
    "structured monotone": lambda: (
        SplineCalibrator(monotone=True).fit(MATRIX, LABELS),
        ROWS,
    ),
    "ovr sigmoid": lambda: (SigmoidCalibrator().fit(MATRIX, LABELS), ROWS),
    "ovr sigmoid of logits": lambda: (
        SigmoidCalibrator().fit(LOGITS, LABELS),
        LOGIT_ROWS,
    ),
    "ovr isotonic": lambda: (IsotonicCalibrator().fit(MATRIX, LABELS), ROWS),
    "ovr beta": lambda: (BetaCalibrator().fit(MATRIX, LABELS), ROWS),
    "ovr beta of logits": lambda: (
        BetaCalibrator().fit(2.0 * LOGITS, LABELS),
        LOGIT_ROWS,
    ),
    "softmax temperature": lambda: (TemperatureCalibrator().fit(MATRIX, LABELS), ROWS),
    "softmax temperature of logits": lambda: (
        TemperatureCalibrator().fit(2.0 * LOGITS, LABELS),
        LOGIT_ROWS,
    ),
    "constant temperature": constant_rows,
}


class Case:
    """A fitted calibrator, scores, and what Python makes of them."""

    def __init__(self, name):
        self.name = name
        self.calibrator, self.scores = CASES[name]()
        self.expected = self.calibrator.calibrate(self.scores)
        self.columns = (
            [f"s{j}" for j in range(self.scores.shape[1])]
            if self.scores.ndim == 2
            else "score"
        )


cached = functools.cache(Case)


SPANNING = [
    "logit",
    "asinh_logit",
    "identity",
    "monotone",
    "constant",
    "sigmoid of margins",
    "isotonic",
    "beta",
    "temperature",
    "clipping of rows",
    "ovr",
    "structured",
    "structured of logits",
    "softmax temperature",
]
"""Fits that together use every part of a formula: programs of their own, such as Spark and gcc, take these."""


@pytest.fixture(params=CASES)
def case(request):
    return cached(request.param)


@pytest.fixture(scope="session")
def spanning():
    """The cases of ``SPANNING``."""
    return [cached(name) for name in SPANNING]


@pytest.fixture(scope="session")
def fitted():
    """The calibrator of a case, by name."""
    return lambda name: cached(name).calibrator


def values(rows):
    """Rows of an answer as numbers; NULL is NaN."""
    return np.array(
        [[np.nan if value is None else value for value in row] for row in rows],
        dtype=float,
    )


class DuckDB:
    dialect = "duckdb"

    def __init__(self):
        self._connection = pytest.importorskip("duckdb").connect()

    def run(self, expressions, columns, rows, join=""):
        """Values of expressions over a table that has these columns and rows; None is NULL."""
        names = [f'"{column.replace(chr(34), chr(34) * 2)}"' for column in columns]
        return values(
            run_in(self._connection, expressions, names, "DOUBLE", rows, join)
        )


class SQLite:
    dialect = "sqlite"

    def __init__(self):
        # Tests share it: an INSERT of one would begin a transaction that nobody ends.
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            self._connection.execute("SELECT ln(1.0)")
        except sqlite3.OperationalError:
            pytest.skip("SQLite has no mathematical functions")

    def run(self, expressions, columns, rows, join=""):
        names = [f'"{column.replace(chr(34), chr(34) * 2)}"' for column in columns]
        return values(run_in(self._connection, expressions, names, "REAL", rows, join))


def run_in(connection, expressions, names, double, rows, join=""):
    connection.execute("DROP TABLE IF EXISTS scores")
    connection.execute(
        f"CREATE TABLE scores (n INTEGER, {', '.join(f'{name} {double}' for name in names)})"
    )
    places = ", ".join("?" * (len(names) + 1))
    connection.execute("BEGIN")
    if len(rows) > 100 and double == "DOUBLE":
        data = np.column_stack([np.arange(len(rows)), np.array(rows, dtype=float)])
        connection.register("data", {f"c{j}": data[:, j] for j in range(data.shape[1])})
        connection.execute("INSERT INTO scores SELECT * FROM data")
    else:
        connection.executemany(
            f"INSERT INTO scores VALUES ({places})",
            [[n, *row] for n, row in enumerate(rows)],
        )
    connection.execute("COMMIT")
    return connection.execute(
        f"SELECT {', '.join(expressions)} FROM scores {join} ORDER BY n"
    ).fetchall()


class PostgreSQL:
    dialect = "postgres"

    def __init__(self, cluster):
        self._cluster = cluster

    def run(self, expressions, columns, rows, join=""):
        names = [
            f'"{column.replace(chr(34), chr(34) * 2)}" float8' for column in columns
        ]
        lines = "\n".join(
            ",".join("" if v is None else repr(float(v)) for v in [n, *row])
            for n, row in enumerate(rows)
        )
        script = (
            f"CREATE TEMP TABLE scores (n float8, {', '.join(names)});\n"
            f"COPY scores FROM STDIN (FORMAT csv);\n{lines}\n\\.\n"
            f"SELECT {', '.join(expressions)} FROM scores {join} ORDER BY n;\n"
        )
        cluster = self._cluster
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
        command.append("postgres")
        out = subprocess.run(
            command, input=script, capture_output=True, text=True, check=False
        )
        assert out.returncode == 0, out.stderr
        return values(
            [
                [None if v == "" else float(v) for v in line.split(",")]
                for line in out.stdout.splitlines()
            ]
        )


class Spark:
    dialect = "spark"

    def __init__(self, session):
        self._session = session

    def run(self, expressions, columns, rows, join=""):
        # A file is much faster than rows through Python.
        table = {"n": list(range(len(rows)))} | dict(
            zip(columns, map(list, zip(*rows, strict=True)), strict=True)
        )
        types = pa.schema(
            [("n", pa.int64()), *((column, pa.float64()) for column in columns)]
        )
        with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
            parquet.write_table(pa.table(table, schema=types), file.name)
            self._session.read.parquet(file.name).createOrReplaceTempView("scores")
            return values(
                self._session.sql(
                    f"SELECT {', '.join(expressions)} FROM scores {join} ORDER BY n"
                ).collect()
            )


@pytest.fixture(scope="session")
def duckdb():
    return DuckDB()


@pytest.fixture(scope="session")
def sqlite():
    return SQLite()


@pytest.fixture(scope="session")
def postgres(postgres_cluster):
    return PostgreSQL(postgres_cluster)


@pytest.fixture(scope="session")
def spark(spark_session):
    return Spark(spark_session)


@pytest.fixture(params=["duckdb", "sqlite", "postgres", "spark"])
def database(request):
    """An engine that runs a dialect of SQL."""
    return request.getfixturevalue(request.param)


NODE = """
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
    const {source, rows} = JSON.parse(line);
    let found = null, error = null;
    try {
        const calibrate = new Function(source + "\\nreturn calibrate;")();
        found = JSON.parse(rows).map((row) => calibrate(...row));
    } catch (caught) {
        error = String(caught);
    }
    console.log(JSON.stringify({found, error}));
});
"""
"""Answers lines on standard input, each a source and rows, with lines of JSON."""


@pytest.fixture(scope="session")
def node(find_program):
    """Run JavaScript sources over scores, all in one process."""
    process = subprocess.Popen(
        [find_program("node"), "-e", NODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(source, scores, *by):
        if np.ndim(scores) == 1:
            scores = [None if row != row else row for row in scores]
        rows = list(zip(scores, *by, strict=True))
        # As JSON has infinities and NaN.
        text = json.dumps(rows).replace("Infinity", "1e999").replace("NaN", "null")
        process.stdin.write(json.dumps({"source": source, "rows": text}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["error"] is None, answer["error"]
        return np.array(answer["found"], dtype=float)  # null becomes NaN

    yield run
    process.stdin.close()
    process.wait()
    process.stdout.close()


FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"]


def c_function(k, m, by):
    """A function that calibrates each row of standard input by the function of a source."""
    given = "".join(f", by_{c}[n]" for c in range(len(by)))
    call = (
        f"calibrate(p{given}, out);" if m > 1 else f"out[0] = calibrate(p[0]{given});"
    )
    columns = "\n".join(
        f"static {kind} by_{c}[] = {{{', '.join(values)}}};"
        for c, (kind, values) in enumerate(by)
    )
    return f"""
#include <stdio.h>
{columns}
int run_{k}(void)
{{
    double p[{m}], out[{m}];
    for (int n = 0;; n++) {{
        for (int j = 0; j < {m}; j++)
            if (scanf("%lf", &p[j]) != 1)
                return 0;
        {call}
        for (int j = 0; j < {m}; j++)
            printf("%.17g ", out[j]);
        printf("\\n");
    }}
}}
"""


C_MAIN = """
#include <stdlib.h>
{declared}
int main(int argc, char **argv)
{{
    int (*const functions[])(void) = {{{names}}};
    return argc == 2 ? functions[atoi(argv[1])]() : 1;
}}
"""


@pytest.fixture(scope="session")
def compiled(find_program):
    """Compile C sources without a warning into one program, and run each over its scores."""
    path = find_program("gcc")

    def run(sources, scores, folder, by):
        files = []
        for k, (source, rows, segments) in enumerate(
            zip(sources, scores, by, strict=True)
        ):
            # Functions of sources may have one name, which the linker would see twice.
            text = f"#define calibrate calibrate_{k}\n{source}"
            files.append(folder / f"calibrate_{k}.c")
            files[-1].write_text(text + c_function(k, np.size(rows[0]), segments))
        names = [f"run_{k}" for k in range(len(files))]
        declared = "\n".join(f"int {name}(void);" for name in names)
        files.append(folder / "main.c")
        files[-1].write_text(C_MAIN.format(declared=declared, names=", ".join(names)))
        command = [path, *FLAGS, *map(str, files), "-o", str(folder / "all"), "-lm"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
        for k, rows in enumerate(scores):
            lines = (" ".join(map(repr, row.reshape(-1).tolist())) for row in rows)
            out = subprocess.run(
                [str(folder / "all"), str(k)],
                input="\n".join(lines),
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            answer = [
                [float(each) for each in line.split()] for line in out.splitlines()
            ]
            yield np.reshape(answer, np.shape(rows))

    return run


@pytest.fixture(scope="session")
def gcc(compiled):
    """Compile one C source, and run it over scores; ``by`` has types and literals of segments."""

    def run(source, scores, folder, by=()):
        [found] = compiled([source], [np.asarray(scores, dtype=float)], folder, [by])
        return found

    return run


@pytest.fixture(scope="session")
def python():
    """The function that a Python source defines."""

    def define(source):
        code = {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(source, "calibrate.py", "exec"), code)
        return code["calibrate"]

    return define
