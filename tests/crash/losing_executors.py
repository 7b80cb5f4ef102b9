"""Fit and apply on a Spark of two executors, of which one is killed in the middle of each; print what came out.

The column of scores passes through a function that kills the process it runs for, the
first time that it sees the sixth of eight partitions: by then others are done, and
their results are lost with it.
"""

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from calspline import apply_frame, fit_frame


def deadly(mark):
    """The identity, once it has killed an executor."""

    def passed(score):
        if TaskContext.get().partitionId() == 5:
            try:
                place = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                return score
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            executor = int(daemon.rpartition(")")[2].split()[1])
            os.write(place, Path(f"/proc/{executor}/cmdline").read_bytes())
            os.kill(executor, signal.SIGKILL)
        return score

    return udf(passed, "double")


def session(folder):
    """Two executors, each a process of its own."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Code that runs once or twice is not worth the slower, better compiler.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.python.authenticate.socketTimeout": "1h",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName(
        "calspline tests"
    )
    for key, value in options.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def rows(n=4_000):
    """Scores and labels."""
    rng = np.random.default_rng(0)
    p = rng.random(n)
    return pd.DataFrame(
        {"id": np.arange(n), "p": p, "y": (rng.random(n) < p**2).astype(int)}
    )


def main(folder):
    """Lose an executor twice."""
    data = rows()
    data.to_parquet(folder / "rows.parquet")
    spark = session(folder)
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.read.parquet(str(folder / "rows.parquet")).repartition(8, "id")
    fitted = fit_frame(
        frame.withColumn("p", deadly(str(folder / "fit"))("p")), score="p", label="y"
    )
    applied = apply_frame(
        frame.withColumn("p", deadly(str(folder / "apply"))("p")), fitted, score="p"
    )
    found = applied.orderBy("id").toArrow().to_pandas()
    spark.stop()
    wanted = fit_frame(data, score="p", label="y")
    grid = np.linspace(0.0, 1.0, 1001)
    print(
        json.dumps(
            {
                "rows": found["id"].tolist() == data["id"].tolist(),
                "fit": float(
                    np.abs(fitted.calibrate(grid) - wanted.calibrate(grid)).max()
                ),
                "apply": float(
                    np.abs(found["calibrated"] - wanted.calibrate(data["p"])).max()
                ),
            }
        )
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of the versions of other packages
    main(Path(sys.argv[1]))
