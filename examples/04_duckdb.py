"""DuckDB: one aggregation fits and one SQL expression applies, in the database.

``export.to_sql`` prints that expression, for a view or a job where Python is not.
"""

import tempfile
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from calspline import ReliabilityDisplay, apply_frame, export, fit_frame

rng = np.random.default_rng(0)
log_odds = rng.normal(-2.0, 2.0, 200_000)
paid_back = rng.random(200_000) < 1 / (1 + np.exp(-0.3 - 0.6 * log_odds))
loans = pa.table(
    {"score": 1 / (1 + np.exp(-log_odds)), "paid": np.where(paid_back, "yes", "no")}
)

with tempfile.TemporaryDirectory() as folder:
    pq.write_table(loans, f"{folder}/loans.parquet")
    connection = duckdb.connect()
    past = connection.sql(f"SELECT * FROM '{folder}/loans.parquet' LIMIT 100000")
    new = connection.sql(f"SELECT * FROM '{folder}/loans.parquet' OFFSET 100000")

    calibrator = fit_frame(past, score="score", label="paid")
    calibrated = apply_frame(
        new, calibrator, score="score"
    )  # a relation: nothing is computed until it is read
    columns = (
        "round(score, 1) AS score, avg((paid = 'yes')::INT) AS paid, "
        "avg(calibrated) AS calibrated"
    )
    print(connection.sql(f"SELECT {columns} FROM calibrated GROUP BY 1 ORDER BY 1"))
    judged = calibrated.to_arrow_table()

print("\n".join(export.to_sql(calibrator, "score").splitlines()[:4]), "...", sep="\n")

sets = {"before": judged["score"].to_numpy(), "after": judged["calibrated"].to_numpy()}
display = ReliabilityDisplay.from_predictions(judged["paid"].to_numpy(), sets)
display.ax_.set_title(
    "Loans, calibrated by a SQL expression", loc="left", fontweight="bold"
)
plt.savefig(Path(__file__).with_suffix(".png"), dpi=110)
