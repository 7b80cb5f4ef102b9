import os
import shutil
import sys
import warnings

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=10_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items):
    """Tests that share an engine that is slow to start share a worker."""
    for item in items:
        if "spark" in item.nodeid.lower():
            item.add_marker(pytest.mark.xdist_group("spark"))


def simulate(n, seed=0, truth=lambda u: 0.5 * u + 0.4 * np.sin(u), spread=2.0):
    """Scores, labels and true probabilities of an over-confident model."""
    rng = np.random.default_rng(seed)
    u = rng.normal(-0.3, spread, n)
    p_true = 1 / (1 + np.exp(-truth(u)))
    return 1 / (1 + np.exp(-u)), (rng.random(n) < p_true).astype(int), p_true


@pytest.fixture(scope="session")
def simulated():
    return simulate


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where every engine has to be there, a test that is skipped has failed."""
    report = yield
    if report.skipped and os.environ.get("CALSPLINE_REQUIRE_ENGINES") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and CALSPLINE_REQUIRE_ENGINES=1 allows none: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def spark_session():
    """A local Spark, started once."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the versions of other packages
        builder = SparkSession.builder.master("local[2]").appName("calspline tests")
        for key, value in options.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
