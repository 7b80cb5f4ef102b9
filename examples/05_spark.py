"""Spark: two aggregations fit, one column expression applies, rows stay in the cluster.

What the shuffles move does not grow with the rows: a few thousand counts for each
partition.
"""

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from calspline import ReliabilityDisplay, apply_frame, fit_frame

if not find_spec("pyspark") or not shutil.which("java"):
    raise SystemExit(print("This needs Java, and pip install 'calspline[spark]'"))
from pyspark.sql import SparkSession

rng = np.random.default_rng(0)
log_odds = rng.normal(0.0, 3.0, 100_000)
clicked = rng.random(100_000) < 1 / (
    1 + np.exp(1.0 - 0.4 * log_odds - 0.3 * np.sin(log_odds))
)

options = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}
options["spark.python.sql.dataFrameDebugging.enabled"] = (
    "false"  # long expressions are planned sooner
)
spark = SparkSession.builder.master("local[2]").config(map=options).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
with tempfile.TemporaryDirectory() as folder:
    pq.write_table(
        pa.table({"score": 1 / (1 + np.exp(-log_odds)), "clicked": clicked}),
        f"{folder}/clicks.parquet",
    )
    past, new = spark.read.parquet(f"{folder}/clicks.parquet").randomSplit(
        [0.5, 0.5], seed=0
    )

    calibrator = fit_frame(past, score="score", label="clicked")
    calibrated = apply_frame(new, calibrator, score="score")
    calibrated.groupBy("clicked").avg("score", "calibrated").show()
    judged = (
        calibrated.toArrow()
        if hasattr(calibrated, "toArrow")
        else calibrated.toPandas()
    )
spark.stop()

sets = {"before": judged["score"], "after": judged["calibrated"]}
display = ReliabilityDisplay.from_predictions(
    judged["clicked"], sets, curves={"the spline": calibrator}
)
display.ax_.set_title("Clicks, calibrated in Spark", loc="left", fontweight="bold")
plt.savefig(Path(__file__).with_suffix(".png"), dpi=110)
