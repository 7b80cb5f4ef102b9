"""Fit and apply where the scores live: ``python -m benchmarks.frames``.

A Parquet file of scores and labels is fitted by each engine from the file, and the
calibrated column is computed and summed. Then a larger file is streamed through
``partial_fit``. Each engine runs in a process of its own, whose memory, with that of
its children, is watched from outside. ``--rows`` may be given several times. Writes
``FRAMES.md`` beside this file; ``--segments`` and ``--classes`` run and write their
sections alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from benchmarks.tables import table
from calspline import SplineCalibrator, apply_frame, fit_frame

Array = NDArray[np.float64]

RESULT = Path(__file__).with_name("FRAMES.md")
ENGINES = (
    "numpy",
    "pandas",
    "pyarrow",
    "polars eager",
    "polars",
    "duckdb",
    "ibis",
    "dask",
    "spark",
)
SIZES = (1_000_000, 10_000_000)
STREAMED = (1_000_000, 100_000_000)
ROUNDS = 3
GROUP = 1 << 20
BATCH = 1 << 18
LARGEST_DIFFERENCE = 1e-9
SEGMENTS = 1000
SEGMENT_ENGINES = ("numpy", "pandas", "polars", "duckdb")
BY_SEGMENT, SPARK_CLASSES = "## By segment", "## Several classes in Spark"
CLASSES = (3, 10)


def write_rows(path: Path, n: int, segments: int = 0) -> None:
    """An over-confident model's scores, written group by group; off in another way in each of some segments."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    columns = [
        ("score", pa.float64()),
        ("label", pa.int64()),
        *([("segment", pa.string())] if segments else []),
    ]
    schema = pa.schema(columns)
    level, slope, bend = (
        rng.normal(size=(3, max(segments, 1))) * [[0.5], [0.2], [0.5]] * bool(segments)
    )
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, GROUP):
            u = rng.normal(-0.3, 2.0, min(GROUP, n - start))
            s = (
                rng.integers(0, segments, len(u))
                if segments
                else np.zeros(len(u), dtype=np.int64)
            )
            y = rng.random(len(u)) < truth(
                u, level[s] + slope[s] * u + bend[s] * np.sin(2.0 * u)
            )
            rows = {
                "score": expit(u),
                "label": y.astype(np.int64),
                "segment": s.astype(str),
            }
            writer.write_table(
                pa.table({name: rows[name] for name, _ in columns}, schema=schema)
            )


def truth(u: Array, more: Array | float = 0.0) -> Array:
    """The probability of a label whose score has these log-odds."""
    return np.asarray(expit(0.5 * u + 0.4 * np.sin(u) + more))


Jobs = tuple[Callable[[], SplineCalibrator], Callable[[SplineCalibrator], float]]


def jobs(engine: str, path: str, by: str | None = None) -> Jobs:
    """A fit from the file, and the sum of the calibrated column."""
    if engine == "numpy":
        return _numpy(path, by)
    read, total = _engine(engine, path)

    def fit() -> SplineCalibrator:
        return fit_frame(read(), score="score", label="label", by=by)

    return fit, lambda calibrator: total(
        apply_frame(read(), calibrator, score="score", by=by)
    )


def _numpy(path: str, by: str | None) -> Jobs:
    import pyarrow.parquet as pq

    names = ["score", *([by] if by else [])]

    def segments(rows: Any) -> Any:
        return rows[by].to_numpy() if by else None

    def fit() -> SplineCalibrator:
        rows = pq.read_table(path, columns=[*names, "label"])
        return SplineCalibrator().fit(
            rows["score"].to_numpy(), rows["label"].to_numpy(), by=segments(rows)
        )

    def apply(calibrator: SplineCalibrator) -> float:
        rows = pq.read_table(path, columns=names)
        return float(
            calibrator.calibrate(rows["score"].to_numpy(), by=segments(rows)).sum()
        )

    return fit, apply


def _engine(engine: str, path: str) -> tuple[Callable[[], Any], Callable[[Any], float]]:
    """How an engine reads the file and sums a column."""
    if engine == "pyarrow":
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        return lambda: pq.read_table(path), lambda frame: float(
            pc.sum(frame["calibrated"]).as_py()
        )
    if engine == "pandas":
        import pandas as pd

        return lambda: pd.read_parquet(path), lambda frame: float(
            frame["calibrated"].sum()
        )
    if engine == "polars eager":
        import polars as pl

        return lambda: pl.read_parquet(path), lambda frame: float(
            frame["calibrated"].sum()
        )
    if engine == "polars":
        import polars as pl

        def by_streaming(frame: Any) -> float:
            return float(
                frame.select(pl.col("calibrated").sum())
                .collect(engine="streaming")
                .item()
            )

        return lambda: pl.scan_parquet(path), by_streaming
    if engine == "duckdb":
        import duckdb

        return lambda: duckdb.from_parquet(path), lambda frame: float(
            frame.sum("calibrated").fetchall()[0][0]
        )
    if engine == "ibis":
        import ibis

        backend = ibis.duckdb.connect()
        return lambda: backend.read_parquet(path), lambda frame: float(
            frame.calibrated.sum().to_pyarrow().as_py()
        )
    if engine == "dask":
        import dask.dataframe as dd

        return lambda: dd.read_parquet(
            path, split_row_groups=True
        ), lambda frame: float(frame["calibrated"].sum().compute())
    return _spark(path)


def _spark(path: str) -> tuple[Callable[[], Any], Callable[[Any], float]]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[*]").config(
        "spark.ui.enabled", "false"
    )
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config(
        "spark.driver.host", "127.0.0.1"
    )
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return (
        lambda: session.read.parquet(path),
        lambda frame: float(frame.agg({"calibrated": "sum"}).collect()[0][0]),
    )


def work(engine: str, path: str) -> None:
    """Run the jobs of an engine, ``"... by segment"`` perhaps, and print seconds and results as JSON."""
    alone = {"stream": stream, "sql": sql, "classes": spark_classes}
    if engine in alone:
        print(json.dumps(alone[engine](path)))
        return
    engine, _, by = engine.partition(" by ")
    fit, apply = jobs(engine, path, by or None)
    calibrator, fitting = best(fit)
    total, applying = best(lambda: apply(calibrator))
    probes = calibrator.calibrate(np.linspace(0.0, 1.0, 101)).tolist()
    print(
        json.dumps({"fit": fitting, "apply": applying, "sum": total, "probes": probes})
    )


def best(job: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The result, and the least time of some rounds: on the clock, and of all cores."""
    clock, cores = [], []
    for _ in range(ROUNDS):
        start, before = time.perf_counter(), core_seconds()
        result = job()
        clock.append(time.perf_counter() - start)
        cores.append(core_seconds() - before)
    return result, {"seconds": min(clock), "core": min(cores)}


def stream(path: str) -> dict[str, float]:
    """Seconds of a fit batch by batch, and its farthest distance from what the rows were drawn from."""
    import pyarrow.parquet as pq

    start = time.perf_counter()
    calibrator = SplineCalibrator()
    # Buffers read ahead would hold the whole file.
    for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(BATCH):
        calibrator.partial_fit(
            batch.column("score").to_numpy(), batch.column("label").to_numpy()
        )
    seconds = time.perf_counter() - start
    u = np.linspace(-4.0, 4.0, 101)
    return {
        "seconds": seconds,
        "error": float(np.abs(calibrator.calibrate(expit(u)) - truth(u)).max()),
    }


def sql(path: str) -> dict[str, float]:
    """Core seconds of ``to_sql``'s expressions in DuckDB, in one thread: the common curve, and effects joined."""
    import duckdb

    from calspline.export import to_sql

    connection = duckdb.connect(config={"threads": 1})
    rows = connection.sql(f"SELECT * FROM '{path}'")
    common = to_sql(fit_frame(rows, score="score", label="label"), "score")
    calibrator = fit_frame(rows, score="score", label="label", by="segment")
    create, join, expression = to_sql(
        calibrator, "score", by="segment", table="effects"
    )
    connection.sql(f"CREATE TABLE rows AS SELECT score, segment FROM '{path}'")
    for statement in create:
        connection.sql(statement)
    queries = {
        "common": f"SELECT sum({common}) FROM rows",
        "joined": f"SELECT sum({expression}) FROM rows {join}",
    }
    return {
        name: best(connection.sql(query).fetchall)[1]["core"]
        for name, query in queries.items()
    }


def write_classes(path: Path, n: int, classes: int) -> tuple[Array, NDArray[np.int64]]:
    """Scores of several classes in a file, and the same with labels as arrays."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(n, classes))
    y = np.argmax(0.6 * logits + rng.gumbel(size=logits.shape), axis=1)
    p = softmax(logits, axis=1)
    rows = pa.table({f"p{j}": p[:, j] for j in range(classes)})
    pq.write_table(rows, path, row_group_size=n // 8)
    return p, y


def spark_classes(path: str) -> dict[str, Any]:
    """Rows, and seconds of Spark to plan and to work, the first time and then at best, for each way.

    The last are seconds that all cores worked, at best.
    """
    from calspline.export import to_sql

    read, _ = _spark(path)

    def copied(
        calibrator: SplineCalibrator, names: list[str], results: list[str]
    ) -> Any:
        def copies(batches: Any) -> Any:
            from pyarrow import RecordBatch

            for batch in batches:
                yield RecordBatch.from_arrays(
                    [*batch.columns, *batch.columns], names=[*names, *results]
                )

        return read().mapInArrow(copies, applied(calibrator, names, results).schema)

    def applied(
        calibrator: SplineCalibrator, names: list[str], results: list[str]
    ) -> Any:
        return apply_frame(read(), calibrator, score=names)

    def queried(
        calibrator: SplineCalibrator, names: list[str], results: list[str]
    ) -> Any:
        expressions = to_sql(calibrator, names, dialect="spark")
        return read().selectExpr(
            *[
                f"{one} AS {name}"
                for one, name in zip(expressions, results, strict=True)
            ]
        )

    def joined(
        calibrator: SplineCalibrator, names: list[str], results: list[str]
    ) -> Any:
        _, join, expressions = to_sql(calibrator, names, dialect="spark", table="steps")
        listed = [
            f"{one} AS {name}" for one, name in zip(expressions, results, strict=True)
        ]
        scores = read()
        scores.createOrReplaceTempView("scores")
        return scores.sparkSession.sql(f"SELECT {', '.join(listed)} FROM scores {join}")

    found: dict[str, Any] = {}
    big = {
        "a copy in Python": copied,
        "apply_frame": applied,
        "to_sql with joins": joined,
    }
    for ways, n in (
        (big, SIZES[0]),
        ({"to_sql": queried}, SIZES[0] // 100),
    ):
        for classes in CLASSES:
            p, y = write_classes(Path(path), n, classes)
            calibrator = SplineCalibrator().fit(p[:5000], y[:5000])
            names, results = (
                [f"{name}{j}" for j in range(classes)] for name in ("p", "calibrated_")
            )
            calibrated = calibrator.predict_proba(p)
            times: dict[str, list[tuple[float, ...]]] = {way: [] for way in ways}
            for way, make in (1 + ROUNDS) * list(ways.items()):  # in turns
                start = time.perf_counter()
                frame = make(calibrator, names, results).agg(
                    dict.fromkeys(results, "sum")
                )
                frame._jdf.queryExecution().executedPlan()
                planned, worked = time.perf_counter(), core_seconds()
                (sums,) = frame.collect()
                times[way].append(
                    (
                        planned - start,
                        time.perf_counter() - planned,
                        core_seconds() - worked,
                    )
                )
                expected = (p if make is copied else calibrated).sum(axis=0)
                far = max(
                    abs(sums[f"sum({name})"] - one)
                    for name, one in zip(results, expected, strict=True)
                )
                if far > LARGEST_DIFFERENCE * n:
                    raise RuntimeError(
                        f"{way} of {classes} classes does not agree with numpy"
                    )
            for way, each in times.items():
                least = [min(seconds) for seconds in zip(*each[1:], strict=True)]
                found[f"{way}, {classes} classes"] = [n, *each[0][:2], *least]
    return found


def core_seconds() -> float:
    """Time that all cores have spent on this process and its children, also those that have ended."""
    import psutil

    me = psutil.Process()
    times = [one.cpu_times() for one in (me, *me.children(recursive=True))]
    return float(
        sum(
            one.user + one.system + one.children_user + one.children_system
            for one in times
        )
    )


def watched(engine: str, path: Path) -> dict[str, Any]:
    """The work in a process of its own, with the peak of its memory in bytes."""
    import psutil

    command = [sys.executable, "-m", "benchmarks.frames", "--work", engine, str(path)]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            try:
                parent = psutil.Process(process.pid)
                family = [parent, *parent.children(recursive=True)]
                peak = max(peak, sum(one.memory_info().rss for one in family))
            except psutil.Error:
                pass
            time.sleep(0.05)
        if process.returncode != 0:
            raise RuntimeError(f"{engine} ended with code {process.returncode}")
        out.seek(0)
        seen: dict[str, Any] = json.loads(out.read().splitlines()[-1])
        return seen | {"peak": peak}


def measured(n: int, engines: list[str]) -> dict[str, dict[str, Any]]:
    """What each engine makes of a file of ``n`` rows; the same fit as the first, or it is an error."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, n)
        for engine in engines:
            seen = watched(engine, path)
            base = next(iter(found.values()), seen)
            seen["apart"] = max(
                abs(a - b) for a, b in zip(seen["probes"], base["probes"], strict=True)
            )
            if (
                seen["apart"] > LARGEST_DIFFERENCE
                or abs(seen["sum"] - base["sum"]) > LARGEST_DIFFERENCE * n
            ):
                raise RuntimeError(f"{engine} does not agree with {engines[0]}")
            found[engine] = seen
            print(f"{n:,}", engine, seen["fit"], seen["apply"], flush=True)
    return found


def lines_of(n: int, found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """A line for each engine."""
    lines = []
    for engine, seen in found.items():
        jobs_of = [seen["fit"], seen["apply"]]
        seconds = [f"{job['seconds']:.2f}" for job in jobs_of]
        rates = [f"{n / job['core'] / 1e6:.1f}" for job in jobs_of]
        lines.append(
            [
                f"{n:,}",
                engine,
                *seconds,
                *rates,
                f"{seen['peak'] / 2**20:,.0f}",
                f"{seen['apart']:.1e}",
            ]
        )
    return lines


def marginal(sizes: dict[int, dict[str, dict[str, Any]]]) -> list[list[str]]:
    """Rows per core second of what the largest file has more than the smallest: starting and planning cancel out."""
    small, large = min(sizes), max(sizes)
    lines = []
    for engine, seen in sizes[large].items():
        more = [
            seen[job]["core"] - sizes[small][engine][job]["core"]
            for job in ("fit", "apply")
        ]
        lines.append(
            [
                engine,
                *(
                    f"{(large - small) / core / 1e6:.1f}" if core > 0.0 else ""
                    for core in more
                ),
            ]
        )
    return lines


def streamed(n: int) -> list[str]:
    """A line for a file that is streamed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, n)
        size = path.stat().st_size
        seen = watched("stream", path)
    rate = n / seen["seconds"] / 1e6
    print(f"{n:,}", "streamed", seen, flush=True)
    return [
        f"{n:,}",
        f"{size / 2**20:,.0f}",
        f"{seen['seconds']:.1f}",
        f"{rate:.1f}",
        f"{seen['peak'] / 2**20:,.0f}",
        f"{seen['error']:.1e}",
    ]


def by_segment(n: int, engines: list[str]) -> str:
    """The section on segments."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, n, SEGMENTS)
        lines = []
        for engine in engines:
            pooled, own = (watched(f"{engine}{by}", path) for by in ("", " by segment"))
            rates = [
                f"{n / seen[job]['core'] / 1e6:.2f}"
                for job in ("fit", "apply")
                for seen in (pooled, own)
            ]
            seconds = [
                f"{seen[job]['seconds']:.2f}"
                for job in ("fit", "apply")
                for seen in (pooled, own)
            ]
            lines.append([engine, *seconds, *rates, f"{own['peak'] / 2**20:,.0f}"])
            print(*lines[-1], flush=True)
        core = watched("sql", path)
    header = [f"{job}{by}{unit}" for unit in (", s", ", M rows per core s") for job in ("fit", "apply")
              for by in ("", " by segment")]  # fmt: skip
    rates = [f"{n / core[name] / 1e6:.2f}" for name in ("common", "joined")]
    return "\n\n".join(
        [
            BY_SEGMENT,
            f"`python -m benchmarks.frames --segments` writes this section alone: {n:,} rows of a Parquet file in "
            f"{SEGMENTS:,} segments whose intercepts, slopes and bends differ, fitted and applied without and with "
            f"`by`, on a machine with a load average of {os.getloadavg()[0]:.1f} at the end.",
            table(["engine", *header, "peak memory, MB"], lines),
            "`to_sql` in DuckDB, one thread, rows in memory: the expression of the common curve, and the expression "
            "with a joined table of effects, in million rows per core second.",
            table(
                ["common curve", "segments joined", "ratio"],
                [[*rates, f"{core['common'] / core['joined']:.2f}"]],
            ),
        ]
    )


def classes_in_spark() -> str:
    """The section on several classes."""
    with tempfile.TemporaryDirectory() as folder:
        found = watched("classes", Path(folder) / "rows.parquet")
    found.pop("peak")
    lines = [
        [
            way,
            f"{n:,}",
            *(f"{t:.2f}" for t in times[:4]),
            *(f"{n / t:,.0f}" for t in times[3:]),
        ]
        for way, (n, *times) in found.items()
    ]
    return "\n\n".join(
        [
            SPARK_CLASSES,
            "`python -m benchmarks.frames --classes` writes this section alone: rows of a Parquet file, the "
            "structured map, all columns of its result summed. Seconds to plan and to work: the first time, when "
            f"Spark compiles itself and starts its Python, and the best of {ROUNDS} times after. The copy hands the "
            "scores to Python, as `apply_frame` does, and gets them back twice: what Spark takes for the way, whatever "
            f"Python does. On a machine with a load average of {os.getloadavg()[0]:.1f} at the end.",
            table(
                [
                    "",
                    "rows",
                    "first plan",
                    "first work",
                    "plan",
                    "work",
                    "rows a second",
                    "rows a core second",
                ],
                lines,
            ),
        ]
    )


def with_section(text: str, section: str) -> str:
    """A page with one of its sections replaced."""
    title = section.partition("\n")[0]
    before, _, after = text.partition(title)
    _, mark, rest = after.partition("\n## ")
    return before.rstrip() + "\n\n" + section + "\n" + (mark + rest if mark else "")


def page(sizes: dict[int, dict[str, dict[str, Any]]], streams: list[list[str]]) -> str:
    """The result as Markdown."""
    header = [
        "rows",
        "engine",
        "fit, s",
        "apply, s",
        "fit, million rows per core second",
        "apply, million rows per core second",
        "peak memory, MB",
        "largest difference",
    ]
    lines = [line for n, found in sizes.items() for line in lines_of(n, found)]
    command = " ".join(["python -m benchmarks.frames", *sys.argv[1:]])
    parts = [
        "# Fit and apply where the scores live",
        f"`{command}`: from a Parquet file, reading included; the best of {ROUNDS} rounds, so that Spark's start is "
        "not counted. numpy is `SplineCalibrator.fit` and `calibrate` on the columns as arrays. Rows per core second "
        "tell what a job costs on all cores together, whatever else runs on the machine. Peak memory is of the whole "
        "process and its children, Python, Java and libraries included. The difference is of calibrated "
        "probabilities, at 101 scores, from the first engine's.",
        f"Python {platform.python_version()} on {os.cpu_count()} cores, with a load average of "
        f"{os.getloadavg()[0]:.1f} at the end.",
        table(header, lines),
    ]
    if len(sizes) > 1:
        parts += [
            "## What more rows cost",
            "Million rows per core second, of the rows that the largest file has more than the smallest. What engines "
            "need to start, plan and compile, however few the rows, is left out.",
            table(["engine", "fit", "apply"], marginal(sizes)),
        ]
    if streams:
        parts += [
            "## A file larger than memory",
            f"`partial_fit` over batches of {BATCH:,} rows of a Parquet file, in one process and one thread. The error "
            "is the farthest distance of the curve from the probabilities that the labels were drawn with, at log-odds "
            "from -4 to 4.",
            table(
                [
                    "rows",
                    "file, MB",
                    "seconds",
                    "million rows a second",
                    "peak memory, MB",
                    "error",
                ],
                streams,
            ),
        ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run all engines and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows",
        type=int,
        action="append",
        help="default: " + ", ".join(map(str, SIZES)),
    )
    parser.add_argument(
        "--stream",
        type=int,
        action="append",
        help="default: " + ", ".join(map(str, STREAMED)),
    )
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument(
        "--segments", action="store_true", help="the section on segments alone"
    )
    parser.add_argument(
        "--classes", action="store_true", help="the section on several classes alone"
    )
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return
    alone = arguments.segments or arguments.classes
    if not alone:
        sizes = {n: measured(n, arguments.engines) for n in arguments.rows or SIZES}
        streams = [streamed(n) for n in arguments.stream or STREAMED]
        RESULT.write_text(page(sizes, streams))
    if arguments.segments or not alone:
        section = by_segment(
            SIZES[0],
            [engine for engine in arguments.engines if engine in SEGMENT_ENGINES],
        )
        RESULT.write_text(with_section(RESULT.read_text(), section))
    if arguments.classes or not alone:
        RESULT.write_text(with_section(RESULT.read_text(), classes_in_spark()))


if __name__ == "__main__":
    main()
