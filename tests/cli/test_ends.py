"""How a command ends: by a signal, by a fault of ours, for want of memory."""

import gc
import io
import signal

import numpy as np
import pytest
from tests.cli.conftest import command

from calspline.cli import main
from calspline.cli.data import Data


@pytest.fixture
def handlers():
    """Whatever handles signals, as it was."""
    kept = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Struck(io.BytesIO):
    """An input in the middle of which a signal comes."""

    number = signal.SIGINT

    def read(self, *_):
        signal.raise_signal(self.number)
        return b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_an_exit_code_and_no_word(
    number, handlers, monkeypatch, capfd, tmp_path
):
    stream = Struck()
    stream.number = number
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
    monkeypatch.setattr(
        "sys.argv", ["calspline", "fit", "-", "-o", str(tmp_path / "model.json")]
    )
    assert main() == 128 + number
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_is_one_for_callers_that_handle_signals_themselves(
    handlers, monkeypatch
):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Struck()))
    assert main(["fit", "-", "-o", "model.json"]) == 130
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (MemoryError(), 2, "not enough memory"),
        (
            ZeroDivisionError("by nothing"),
            1,
            "a fault in calspline (ZeroDivisionError: by nothing)",
        ),
        (
            OSError(28, "No space left on device"),
            2,
            "standard output: No space left on device",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_went_wrong_is_one_line(error, code, word, monkeypatch, capfd):
    class Failing(io.BytesIO):
        def read(self, *_):
            raise error

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Failing()))
    assert main(["evaluate", "-"]) == code
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert word in said


@pytest.mark.process
def test_a_fit_that_succeeds_leaves_standard_error_empty(tmp_path):
    """DuckDB complains at exit where types of its own are still in use."""
    rng = np.random.default_rng(0)
    score = rng.random(500)
    rows = np.column_stack([score, rng.random(500) < score])
    np.savetxt(
        tmp_path / "rows.csv",
        rows,
        delimiter=",",
        header="score,label",
        comments="",
        fmt=["%.6f", "%d"],
    )
    done = command("fit", tmp_path / "rows.csv", "-o", tmp_path / "model.json")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_a_command_leaves_no_open_files_in_the_process_of_its_caller(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("p,y\n" + "".join(f"{k / 50},{k % 3 % 2}\n" for k in range(50)))
    gc.collect()
    before = {id(one) for one in gc.get_objects() if type(one) is Data}
    assert (
        main(
            [
                "fit",
                str(rows),
                "--score",
                "p",
                "--label",
                "y",
                "-o",
                str(tmp_path / "model.json"),
            ]
        )
        == 0
    )
    gc.collect()
    assert {id(one) for one in gc.get_objects() if type(one) is Data} <= before
