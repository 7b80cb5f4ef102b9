"""DuckDB, a thousand segments: from a Parquet file to a SQL join.

One aggregation by merchant and cell fits a curve for each merchant, held towards the
common one as far as its rows ask for. ``export.to_sql(table=...)`` prints a table of
effects and what joins it, for a job where Python is not.
"""

import tempfile
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from calspline import evaluate, export, fit_frame

N, MERCHANTS = 400_000, 1_000
rng = np.random.default_rng(0)
merchant = np.minimum(
    rng.zipf(1.3, N) - 1, rng.integers(0, MERCHANTS, N)
)  # a few large ones, many small ones
log_odds = rng.normal(-2.0, 1.5, N)
level, slope = (
    rng.normal(0.0, 0.6, MERCHANTS)[merchant],
    np.exp(rng.normal(0.0, 0.2, MERCHANTS))[merchant],
)
fraud = rng.random(N) < 1 / (1 + np.exp(-level - slope * log_odds))
names = np.array([f"merchant {k:04d}" for k in range(MERCHANTS)])
payments = pa.table(
    {"score": 1 / (1 + np.exp(-log_odds)), "merchant": names[merchant], "fraud": fraud}
)

with tempfile.TemporaryDirectory() as folder:
    pq.write_table(payments, f"{folder}/payments.parquet")
    connection = duckdb.connect()
    past = connection.sql(f"SELECT * FROM '{folder}/payments.parquet' LIMIT {N // 2}")
    connection.sql(
        "CREATE TABLE payments AS "
        f"SELECT * FROM '{folder}/payments.parquet' OFFSET {N // 2}"
    )
    calibrator = fit_frame(past, score="score", label="fraud", by="merchant")
    common = fit_frame(past, score="score", label="fraud")

create, join, expression = export.to_sql(
    calibrator, "score", by="merchant", table="effects"
)
for statement in create:  # a column for each effect, a row for each merchant
    connection.sql(statement)
one_curve = export.to_sql(common, "score")
query = (
    f"SELECT merchant, fraud, {one_curve} AS common, {expression} AS calibrated "
    f"FROM payments {join}"
)
judged = connection.sql(query).to_arrow_table()
print(create[0], join, sep="\n")

y, by = judged["fraud"].to_numpy(), judged["merchant"].to_numpy()
before, after = (
    evaluate(y, judged[column].to_numpy(), by=by) for column in ("common", "calibrated")
)
print(
    f"{len(before.segments):,} merchants: log-loss {before.log_loss:.4f} before, "
    f"{after.log_loss:.4f} after"
)
print(
    f"miscalibrated: {len(before.segments.miscalibrated)} with one curve, "
    f"{len(after.segments.miscalibrated)} with their own"
)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 7), layout="constrained")
before.segments.plot(left).set_title("one curve")
after.segments.plot(right).set_title("a curve for each merchant")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
