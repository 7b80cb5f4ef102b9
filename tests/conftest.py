import contextlib
import glob
import os
import re
import resource
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


LAYERS = {"engine", "process", "browser", "site", "slow"}
"""What `make check` leaves out. A test is in one by its decorator, or by one of these."""
LAYER_OF_PATH = {
    "calibrators/test_groups.py::test_rows_that_agree_count_for_little": "slow",
    "calibrators/test_intervals_of_classes.py::test_limits_cover_what_they_promise": "slow",
    "calibrators/test_monotone.py::test_a_fall_by_chance_is_not": "slow",
    "calibrators/test_monotone.py::test_the_band_of_a_curve_held_back_has_room_for_the_one_that_falls": "slow",
    "calibrators/test_ovr.py::test_absent_classes_among_many_stay_where_they_are": "slow",
    "calibrators/test_ovr.py::test_classes_fitted_together_equal_classes_fitted_one_by_one": "slow",
    "calibrators/test_ovr.py::test_which_classes_are_fitted_together_does_not_matter": "slow",
    "calibrators/test_segments.py::test_it_beats_one_curve_and_a_curve_each": "slow",
    "calibrators/test_shift.py::test_limits_of_the_base_rate_hold_it": "slow",
    "calibrators/test_spline.py::test_monotone_means_monotone_whatever_the_weights": "slow",
    "calibrators/test_spline.py::test_pointwise_intervals_cover_the_truth_as_often_as_they_say": "slow",
    "calibrators/test_spline.py::test_simultaneous_intervals_cover_the_whole_curve": "slow",
    "calibrators/test_spline.py::test_the_simultaneous_critical_value_is_that_of_simulated_curves": "slow",
    "calibrators/test_spline.py::test_weights_of_any_size_converge": "slow",
    "calibrators/test_structured.py::test_fewer_rows_than_ten_per_class_do_not_hurt": "slow",
    "cli/test_a_million_rows.py": "slow",
    "cli/test_after.py::test_a_report_has_the_section_on_decisions_if_asked": "slow",
    "cli/test_commands.py::test_apply_writes_any_format_from_any": "slow",
    "cli/test_commands.py::test_compare_and_report_read_every_format": "slow",
    "cli/test_ends.py::test_a_command_leaves_no_open_files_in_the_process_of_its_caller": "slow",
    "cli/test_groups.py::test_without_groups_it_is_said_that_rows_seem_to_belong_together": "slow",
    "cli/test_output.py::test_a_stream_that_fails_is_an_error_and_no_endless_wait": "slow",
    "cli/test_pipes.py::test_report_and_export_go_into_a_pipe": "slow",
    "cli/test_segments.py::test_a_fit_by_segment_is_judged_from_its_sums_as_from_rows": "slow",
    "cli/test_segments.py::test_a_report_on_a_model_with_segments_uses_them": "slow",
    "cli/test_segments.py::test_labels_are_numbers_if_all_of_them_are": "slow",
    "cli/test_segments.py::test_rows_of_new_segments_are_counted_once_for_a_file_of_many_batches": "slow",
    "crash": "process",
    "crossfit/test_oob.py::test_it_does_as_well_as_folds": "slow",
    "display/test_reliability.py::test_small_diagrams_have_one_size": "slow",
    "display/test_reliability.py::test_tiny_and_tied_data_are_drawn": "slow",
    "docs/test_figures.py::test_a_script_draws_figures_that_are_committed": "slow",
    "docs/test_site.py": "site",
    "engines/test_segments.py::test_what_comes_back_is_bounded_however_many_segments_there_are": "slow",
    "evaluation/test_calibration_test.py::test_it_finds_a_curve_that_no_line_shows": "slow",
    "evaluation/test_calibration_test.py::test_it_finds_a_slope_of_one_and_a_half": "slow",
    "evaluation/test_calibration_test.py::test_it_rejects_right_probabilities_about_as_often_as_it_says": "slow",
    "evaluation/test_calibration_test.py::test_with_more_classes_all_are_tested": "slow",
    "evaluation/test_compare.py::test_among_ten_equal_sets_the_first_is_rarely_left": "slow",
    "evaluation/test_decisions.py::test_bands_hold_the_truth_at_all_thresholds_at_once": "slow",
    "evaluation/test_segments.py::test_gathering_rows_in_cells_changes_next_to_nothing": "slow",
    "evaluation/test_units.py::test_groups_keep_the_test_near_its_level_and_widen_intervals": "slow",
    "evaluation/test_units.py::test_standard_errors_are_the_spread_of_the_estimates_under_weights": "slow",
    "evaluation/test_units.py::test_the_intervals_of_bins_cover_under_weights": "slow",
    "examples": "process",
    "export/test_sql.py::test_sql_agrees_with_python": "slow",
    "faults/calibrators/test_labels.py::test_23_labels_of_any_kind_give_the_same_probabilities": "slow",
    "faults/calibrators/test_life.py::test_50_the_number_of_threads_does_not_matter": "slow",
    "faults/calibrators/test_scores.py::test_18_many_rows_are_all_seen": "slow",
    "faults/calibrators/test_scores.py::test_19_every_container_gives_the_same_numbers": "slow",
    "faults/command_line/test_meaning.py::test_35a_weights_that_make_no_sense_as_counts_get_a_note": "slow",
    "faults/files/test_hostile_files.py::test_55_a_wrong_value_anywhere_in_a_histogram_is_refused_or_harmless": "slow",
    "faults/files/test_hostile_files.py::test_55_a_wrong_value_anywhere_is_refused_or_harmless": "slow",
    "faults/files/test_injection.py::test_61_html_in_names_titles_and_labels_is_escaped": "slow",
    "faults/files/test_life.py::test_51_sixteen_threads_agree": "slow",
    "faults/files/test_models.py::test_55_a_model_that_cannot_be_trusted_is_refused": "slow",
    "faults/files/test_models.py::test_55_numbers_that_make_no_sense_are_refused": "slow",
    "faults/files/test_schema.py::test_55_an_object_anywhere_else_breaks_the_schema": "slow",
    "faults/wrapper/test_wrapper.py::test_23_labels_of_any_type": "slow",
    "faults/wrapper/test_wrapper.py::test_51_sixteen_threads_agree": "slow",
    "fuzz/test_readers.py::test_any_value_in_the_place_of_another_is_refused_or_harmless": "slow",
    "fuzz/test_readers.py::test_spoilt_files_give_our_errors_alone": "slow",
    "multiclass/test_many_classes.py::test_a_fit_needs_little_more_memory_than_a_copy_of_the_scores": "slow",
    "packaging/test_distribution.py": "site",
    "reporting/test_report.py::test_every_calibrator_is_told_of": "slow",
    "reporting/test_report.py::test_of_many_classes_those_that_cost_most_are_shown": "slow",
    "reporting/test_segments.py::test_names_are_escaped_and_the_page_is_the_same_each_time": "slow",
    "segments/test_effects.py::test_variances_are_a_fixed_point_of_mackay": "slow",
    "stress/test_nasty_data.py": "slow",
    "stress/test_offline.py": "process",
    "stress/test_threads.py": "slow",
    "test_classifier_as_sklearn.py::test_check_estimator_passes_without_exceptions": "slow",
    "test_expected.py::test_the_measures_that_then_happen_are_within_the_limits": "slow",
    "test_learning_curve.py::test_a_rate_of_thirty_per_cent_needs_about_what_an_absolute_gain_does": "slow",
    "test_learning_curve.py::test_rare_events_need_rows_that_hold_some": "slow",
    "test_learning_curve.py::test_the_log_loss_at_the_largest_size_lies_in_its_interval_around_the_truth": "slow",
    "test_learning_curve.py::test_the_rate_of_a_fit_with_two_parameters_is_one": "slow",
    "test_monitor.py::test_one_segment_that_changes_is_found_among_many": "slow",
    "test_monitor.py::test_segments_share_one_fortune": "slow",
    "test_monitoring.py::test_without_drift_the_tests_reject_as_often_as_they_should": "slow",
    "test_pages.py::test_a_how_to_page_runs_from_top_to_bottom": "slow",
    "test_pages.py::test_the_code_runs_and_prints_what_the_page_says": "slow",
    "test_threads.py::test_one_against_the_rest_is_the_same_to_the_last_bit": "slow",
    "test_threads.py::test_other_methods_are_the_same_to_the_last_bit": "slow",
}
LAYER_OF_FIXTURE = {
    "browser": "browser",
    "find_program": "engine",
    "postgres_cluster": "engine",
    "spark_session": "engine",
}
ENGINE_PARAMETER = re.compile("spark|postgres|dask|ibis", flags=re.IGNORECASE)
TESTS = Path(__file__).parent


def layers(item):
    """The layers that a test belongs to."""
    path = item.path.relative_to(TESTS) if item.path.is_relative_to(TESTS) else Path()
    names = [*map(Path.as_posix, path.parents), path.as_posix(), f"{path.as_posix()}::{item.name.partition('[')[0]}"]
    parameters = item.callspec.id if hasattr(item, "callspec") else ""
    found = {LAYER_OF_PATH[name] for name in names if name in LAYER_OF_PATH}
    found |= {LAYER_OF_FIXTURE[name] for name in getattr(item, "fixturenames", ()) if name in LAYER_OF_FIXTURE}
    return found | ({"engine"} if ENGINE_PARAMETER.search(parameters) else set())


def pytest_collection_modifyitems(items):
    """Mark every test with its layers; of combinations of parameters, `make check` tries each value of each once."""
    tried = set()
    for item in items:
        for layer in layers(item):
            item.add_marker(layer)
        if hasattr(item, "callspec") and not any(item.get_closest_marker(layer) for layer in LAYERS):
            values = {(item.path, item.originalname, *value) for value in enumerate(item.callspec._idlist)}
            if values <= tried:
                item.add_marker("slow")
            tried |= values
        if item.get_closest_marker("slow"):
            item.add_marker("no_cover")  # coverage is of tests that say what they test; tracing doubles the time


ONE_WORKER = {
    "spark": re.compile("tests/(engines|export)/.*spark"),
    "postgres": re.compile("tests/export/.*postgres|tests/engines/test_databases"),
    "site": re.compile("tests/docs/test_site"),
    "packages": re.compile("tests/packaging/"),
}
"""Tests that share what is slow to start or to build, so that one worker runs them all."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out tests one by one, but those of ``ONE_WORKER`` together and first.

    (Their ``--dist loadgroup`` does not do so with pytest 9.2: pytest-xdist issue 1386.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((name for name, tests in ONE_WORKER.items() if tests.search(nodeid.lower())), nodeid)

        def mark_test_complete(self, node, item_index, duration=0):
            super().mark_test_complete(node, item_index, duration)
            # They keep and count all that is done after each test, which takes the longer the more there are.
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
            raise AssertionError(f"this test starts a process, so it needs a marker, such as `process`: {arguments[0]}")


guard = ProcessGuard()
# The first count of the cores, which scikit-learn asks for, starts a process.
joblib.cpu_count(only_physical_cores=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    guard.active = not any(item.get_closest_marker(layer) for layer in LAYERS - {"slow"})
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
        # Code that runs once or twice is not worth the slower, better compiler.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
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

    @contextlib.contextmanager
    def limited(room):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, old_handler)

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
        self._user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
        if self._user:
            shutil.chown(self.folder, "nobody")
        self._call(program("initdb", *places), "-D", f"{self.folder}/data", "-A", "trust", "-U", "tester", "-E", "UTF8")
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self._call(self._control, "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "-o", options, "start")

    def _call(self, *command):
        done = subprocess.run(
            command, cwd=self.folder, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, **self._user,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    def stop(self):
        self._call(self._control, "-D", f"{self.folder}/data", "-m", "immediate", "stop")


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
        # Root, as in a container, has no sandbox.
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
