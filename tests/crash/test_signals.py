"""Processes struck at random moments: outputs are there whole or not at all, and nothing else is left for long."""

import hashlib
import os
import signal

import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.crash.conftest import ROWS

from calspline import load, save

pytestmark = pytest.mark.process

ROUNDS = int(os.environ.get("CALSPLINE_STRIKES", "4"))
SAVE = """
import itertools, sys, calspline
for model in itertools.cycle([calspline.load(path) for path in sys.argv[2:]]):
    calspline.save(model, sys.argv[1])
"""


def hashed(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def struck(forks, inputs, tmp_path):
    """What is left of a command that is struck by a signal, round by round."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def rounds(name, target, *arguments, rounds=ROUNDS, duration=None):
        files = [
            inputs.csv if "-" in arguments else os.devnull,
            os.devnull,
            tmp_path / "said",
        ]
        return forks(
            struck=name, rounds=rounds, target=target, duration=duration, arguments=arguments, files=files,
            folder=tmp_path, environment={"TMPDIR": str(temporary)},
        )  # fmt: skip

    return rounds


def commands(inputs, target):
    """Commands that write a target of two kinds of contents: none or old before, and whole after."""
    return {
        name: ("-m", "calspline", *words)
        for name, words in {
            "fit": ("fit", inputs.rows, "-o", target),
            "apply-csv": ("apply", inputs.model, inputs.rows, "-o", target),
            "apply-parquet": (
                "apply",
                inputs.model,
                inputs.rows,
                "-o",
                target,
                "--output-format",
                "parquet",
            ),
            "apply-arrow": (
                "apply",
                inputs.model,
                inputs.rows,
                "-o",
                target,
                "--output-format",
                "arrow",
            ),
            "report": ("report", inputs.rows, "-o", target),
            "export": ("export", inputs.model, "--to", "c", "-o", target),
            "stdin-to-stdout": ("apply", inputs.model, "-", "-o", "-"),
        }.items()
    }


def test_save_killed_at_random_moments_leaves_a_whole_model(struck, inputs, tmp_path):
    target = tmp_path / "out" / "model.json"
    target.parent.mkdir()
    save(load(inputs.model), target)
    found, whole = [], {hashed(inputs.model), hashed(inputs.other)}
    for _ in range(
        10
    ):  # until both models have been seen, and one that was being written
        found += struck(
            "SIGKILL",
            target,
            "-c",
            SAVE,
            target,
            inputs.model,
            inputs.other,
            rounds=10 * ROUNDS,
            duration=0.2,
        )
        if {one["target"] for one in found} >= whole and any(
            one["parts"] for one in found
        ):
            break
    assert {one["code"] for one in found} == {-signal.SIGKILL}
    assert {one["target"] for one in found} == whole
    assert any(one["parts"] for one in found)
    assert (
        max(len(one["parts"]) for one in found) == 1
    )  # each round removed what the last one left
    save(load(inputs.other), target)
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize(
    ("command", "old"),
    [
        ("apply-csv", None),
        ("apply-csv", "old"),
        ("apply-parquet", "old"),
        ("apply-arrow", None),
    ],
)
def test_apply_killed_at_random_moments_leaves_a_whole_file_or_the_old_one(
    command, old, struck, inputs, tmp_path
):
    target = tmp_path / "out" / "calibrated.csv"
    target.parent.mkdir()
    found = []
    for _ in range(
        10
    ):  # until one has struck while the file was being written, which may be quick
        target.unlink(missing_ok=True) if old is None else target.write_text(old)
        found += struck(
            "SIGKILL", target, *commands(inputs, target)[command], "--force"
        )
        if any(one["parts"] for one in found):
            break
    assert {one["code"] for one in found} <= {-signal.SIGKILL, 0}
    assert any(one["parts"] for one in found)
    assert max(len(one["parts"]) for one in found) == 1
    before = None if old is None else hashlib.sha256(old.encode()).hexdigest()
    assert before in {one["target"] for one in found}
    again = struck(
        "SIGCONT", target, *commands(inputs, target)[command], "--force", rounds=1
    )
    assert again[0]["parts"] == []
    assert {one["target"] for one in found} <= {before, hashed(target)}
    read = {
        "apply-csv": pyarrow.csv.read_csv,
        "apply-parquet": pyarrow.parquet.read_table,
    }
    if command in read:
        assert read[command](target).num_rows == ROWS


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    "command", ["fit", "apply-parquet", "report", "stdin-to-stdout"]
)
def test_an_interrupt_leaves_no_file_and_no_traceback(
    command, name, struck, inputs, tmp_path
):
    target = tmp_path / "out" / "result"
    target.parent.mkdir()
    number = signal.Signals[name]
    found = []
    for _ in range(
        10
    ):  # until one has struck while the command was at work, which is short where it starts slowly
        found += struck(name, target, *commands(inputs, target)[command])
        if (128 + number, None) in {(one["code"], one["target"]) for one in found}:
            break
        target.unlink(missing_ok=True)
    # A shell says 128 + number of the second, too: Python ends so while it starts, and
    # once all is done.
    assert {one["code"] for one in found} <= {128 + number, -number, 0}
    assert (128 + number, None) in {(one["code"], one["target"]) for one in found}
    if command == "apply-parquet":
        assert (
            len({one["target"] for one in found} - {None}) <= 1
        )  # whole, if the signal came just after
    assert {one["said"] for one in found} == {""}
    assert [one["parts"] + one["temporary"] for one in found] == [[]] * len(found)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    "arguments", [["export", "no-such-model.json", "--to", "sql"], ["--version"]]
)
def test_a_signal_once_all_is_done_ends_python_without_a_traceback(
    name, arguments, alone, tmp_path
):
    shutting_down = tmp_path / "shutting_down.py"
    shutting_down.write_text(
        "import signal\n"
        "from calspline.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        f"    signal.raise_signal(signal.{name})\n"
    )
    done = alone(shutting_down, *arguments)
    assert done.returncode == -signal.Signals[name]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_a_place_that_cannot_raise_is_not_lost(name, alone, tmp_path):
    in_a_callback = tmp_path / "in_a_callback.py"
    in_a_callback.write_text(
        "import signal, sys, time, weakref\n"
        "from calspline.cli import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.startswith('calspline.cli.'):\n"
        "            one = Finder()\n"
        f"            seen = weakref.ref(one, lambda _: signal.raise_signal(signal.{name}))\n"
        "            del one\n"
        "            time.sleep(20)\n"
        "            print('was lost')\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.exit(main())\n"
    )
    done = alone(in_a_callback, "export", "no-such-model.json", "--to", "sql")
    assert (done.returncode, done.stdout, done.stderr) == (
        128 + signal.Signals[name],
        "",
        "",
    )


def test_an_interrupt_stays_ignored_in_the_background(alone, tmp_path):
    ignored = tmp_path / "ignored.py"
    ignored.write_text(
        "import signal\n"
        "from calspline.cli import main\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "main()\n"
        "signal.raise_signal(signal.SIGINT)\n"
        "print('still here')\n"
    )
    assert (
        alone(ignored, "export", "no-such-model.json", "--to", "sql").stdout
        == "still here\n"
    )
