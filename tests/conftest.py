import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import joblib
import numpy as np
import numpy.testing  # asks numpy 1.26 for the kind of processor, in a process, before the guard watches
import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says what else the machine is doing.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=60, derandomize=True, **PATIENT)
settings.register_profile("check", max_examples=10, derandomize=True, **PATIENT)
settings.register_profile("thorough", max_examples=1000, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


LAYERS = {"engine", "process", "browser", "site", "surface", "slow", "thorough"}
"""What `make check` leaves out: a test has one as a marker, or by what it uses."""
LAYER_OF_FIXTURE = {
    "browser": "browser",
    "find_program": "engine",
    "postgres_cluster": "engine",
    "spark_session": "engine",
}
ENGINE_PARAMETER = re.compile("spark|postgres|dask|ibis", flags=re.IGNORECASE)
SURFACES = ("cli", "engines", "faults/command_line", "faults/frames")
"""Folders of the command line and of data frames, of which `make check` runs the golden tests."""
TESTS = Path(__file__).parent


def layers(item):
    """The layers that a test belongs to."""
    found = {layer for layer in LAYERS if item.get_closest_marker(layer)}
    if any(place(item).is_relative_to(folder) for folder in SURFACES):
        found.add("surface")
    found |= {
        LAYER_OF_FIXTURE[name]
        for name in getattr(item, "fixturenames", ())
        if name in LAYER_OF_FIXTURE
    }
    if hasattr(item, "callspec") and ENGINE_PARAMETER.search(item.callspec.id):
        found.add("engine")
    return found


IN_FULL = {
    "fitting",
    "fuzz",
    "golden",
    "multiclass",
    "properties",
    "reference",
    "segments",
}
"""Folders whose combinations of parameters are all part of `make test`."""
SMOKE = {
    "crash/test_no_room.py": "test_a_full_disk_is_one_line_and_no_file",
    "crash/test_signals.py": "test_save_killed_at_random_moments_leaves_a_whole_model",
    "docs/test_site.py": "test_every_link_leads_to_a_file_of_the_site",
    "examples/test_examples.py": "test_duckdb_calibrates_in_sql",
    "packaging/test_distribution.py": "test_the_wheel_holds_the_whole_package_and_nothing_else",
    "reporting/test_in_a_browser.py": "test_the_page_opens_without_complaint_and_asks_for_nothing",
}
"""The one test of a file that `make test` runs, once; `make thorough` runs them all."""
EVERY_TIME = {
    "test_every_example_has_a_number_a_test_a_picture_and_a_line_in_the_table",
}
"""Tests of those files that start nothing."""


def place(item):
    """The path of a test's file, below the folder of the tests if it is there."""
    if item.path.is_relative_to(TESTS):
        return item.path.relative_to(TESTS)
    return item.path


def left_to_thorough(item, repeated):
    """Whether `make test` leaves a test out: it has been tried with other parameters, or has a smoke test."""
    where = place(item)
    name = getattr(item, "originalname", item.name)
    smoke = SMOKE.get(where.as_posix())
    if smoke is None:
        return repeated and where.parts[0] not in IN_FULL
    return repeated or (name != smoke and name not in EVERY_TIME)


def pytest_collection_modifyitems(items):
    """Mark every test with its layers.

    Of combinations of parameters, `make check` tries each value of each once; so does
    `make test`, but for the folders that it runs in full. The quick tests come last, so
    that all workers end at about the same time.
    """
    tried, quick, seen = set(), set(), set()
    for item in items:
        found = layers(item)
        if not found:
            quick.add(item)
        repeated = False
        if hasattr(item, "callspec"):
            test = item.path, item.originalname
            values = {(*test, *value) for value in enumerate(item.callspec._idlist)}
            once = test in seen and place(item).as_posix() in SMOKE
            repeated = values <= tried or once
            tried |= values
            seen.add(test)
        if repeated:
            found.add("slow")
        if left_to_thorough(item, repeated):
            found.add("thorough")
        for layer in found:
            item.add_marker(layer)
        if "slow" in found:
            # Coverage is of tests that say what they test; tracing doubles the time.
            item.add_marker("no_cover")
    items.sort(key=quick.__contains__)


ONE_WORKER = {
    "spark": re.compile("spark"),
    "postgres": re.compile("postgres|tests/engines/test_databases"),
    "browser": re.compile("_browser"),
    "site": re.compile("tests/docs/test_site"),
    "packages": re.compile("tests/packaging/"),
    "jobs": re.compile("number_of_jobs"),
}
"""Tests that share what is slow to start or to build, so that one worker runs them all."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out tests one by one, but those of ``ONE_WORKER`` together and first.

    (Their ``--dist loadgroup`` does not do so with pytest 9.2: pytest-xdist issue
    1386.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next(
                (
                    name
                    for name, tests in ONE_WORKER.items()
                    if tests.search(nodeid.lower())
                ),
                nodeid,
            )

        def mark_test_complete(self, node, item_index, duration=0):
            super().mark_test_complete(node, item_index, duration)
            # They keep and count all that is done after each test, which takes the
            # longer the more there are.
            scope = self._split_scope(self.registered_collections[node][item_index])
            if all(self.assigned_work[node][scope].values()):
                del self.assigned_work[node][scope]

    return Together(config, log)


class ProcessGuard:
    """Does not let a test start a process unless it is marked."""

    events = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"})

    def __init__(self):
        self.active = False
        sys.addaudithook(self._watch)

    def _watch(self, event, arguments):
        if self.active and event in self.events:
            if str(arguments[0]).endswith("ldconfig"):
                return  # PyTorch with CUDA asks it for libraries when it is imported
            raise AssertionError(
                f"this test starts a process, so it needs a marker, such as `process`: {arguments[0]}"
            )


guard = ProcessGuard()
# The first count of the cores, which scikit-learn asks for, starts a process.
joblib.cpu_count(only_physical_cores=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    guard.active = not any(
        item.get_closest_marker(layer)
        for layer in LAYERS - {"slow", "surface", "thorough"}
    )
    try:
        return (yield)
    finally:
        guard.active = False


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
        # Else each operator of an expression asks the JVM three times where it was
        # written.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Code that runs once or twice is not worth the slower, better compiler, nor
        # little memory threads that collect garbage.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # However busy the machine is.
        "spark.network.timeout": "1h",
        "spark.python.authenticate.socketTimeout": "1h",
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


@pytest.fixture
def disk_for():
    """A disk with room for so many bytes in a file, while it lasts."""
    resource = pytest.importorskip("resource", reason="Windows has no such limits")

    @contextlib.contextmanager
    def limited(room):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Python does not notice that it has written half of a module's bytecode.
        bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, old_handler)
            sys.dont_write_bytecode = bytecode

    return limited


def program(name, *places):
    """The path of a program."""
    found = shutil.which(name, path=os.pathsep.join([*places, os.environ["PATH"]]))
    return found or pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="session")
def find_program():
    """The path of a program, or the test is skipped."""
    return program


class PostgreSQLCluster:
    """A throw-away cluster, reached through a socket in its own folder."""

    def __init__(self, folder):
        places = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
        self.psql = program("psql", *places)
        self._control = program("pg_ctl", *places)
        self.folder = str(folder)
        # The server refuses to run as root.
        self._user = (
            {"user": "nobody", "group": "nogroup", "extra_groups": []}
            if os.getuid() == 0
            else {}
        )
        if self._user:
            shutil.chown(self.folder, "nobody")
        self._call(
            program("initdb", *places),
            "-D",
            f"{self.folder}/data",
            "-A",
            "trust",
            "-U",
            "tester",
            "-E",
            "UTF8",
        )
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self._call(
            self._control,
            "-D",
            f"{self.folder}/data",
            "-w",
            "-t",
            "3600",
            "-l",
            f"{self.folder}/log",
            "-o",
            options,
            "start",
        )

    def _call(self, *command):
        done = subprocess.run(
            command, cwd=self.folder, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, **self._user,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    def stop(self):
        self._call(
            self._control, "-D", f"{self.folder}/data", "-m", "immediate", "stop"
        )


@pytest.fixture(scope="session")
def postgres_cluster():
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        cluster = PostgreSQLCluster(folder)
        yield cluster
        cluster.stop()


CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser():
    """A Chromium, started once: a second one beside it would find the first one's event loop."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("Chromium is missing")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root, as in a container, has no sandbox, and a container little shared memory.
        found = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            timeout=0,  # however busy the machine is
        )
        yield found
        found.close()
