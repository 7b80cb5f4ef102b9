import io
import time
from types import SimpleNamespace

import pytest

from calspline.cli import output


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """What is written on a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    monkeypatch.setattr(output, "sys", SimpleNamespace(stderr=stream))
    return stream.getvalue


def wait_for(words, shown):
    """The bar is drawn beside the work, as soon as it is looked at."""
    while not all(word in shown() for word in words):
        time.sleep(0.01)


def test_progress_tells_the_share_and_the_rows(shown, monkeypatch):
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.progress("Reading", lambda: 10_000, lambda total: total // 4):
        wait_for(["Reading", "25%", "2,500 rows"], shown)
    assert shown().endswith("\x1b[2K")  # the line is taken away


def test_progress_follows_the_work(shown, monkeypatch):
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    monkeypatch.setattr(output, "PAUSE", 0.0)
    rows = []
    with output.progress("Reading", lambda: 4, lambda _: len(rows)):
        for _ in range(4):
            rows.append(0)
            wait_for([f"{len(rows)} rows"], shown)


def test_progress_without_a_total_tells_the_rows(shown, monkeypatch):
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.progress("Reading", lambda: None, lambda _: 5000):
        wait_for(["5,000 rows"], shown)


def test_short_work_shows_nothing(shown, monkeypatch):
    monkeypatch.setattr(
        output, "PATIENCE", 3600.0
    )  # short, however busy the machine is
    with output.progress("Reading", lambda: 1000, pytest.fail):
        pass
    assert shown() == ""


def test_nobody_watching_is_shown_nothing(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(output, "sys", SimpleNamespace(stderr=stream))
    with output.progress("Reading", pytest.fail, pytest.fail):
        pass
    assert stream.getvalue() == ""
