import io
from types import SimpleNamespace

import pytest

from calspline.cli import console


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
    monkeypatch.setattr(console, "sys", SimpleNamespace(stderr=stream))
    return stream.getvalue


def test_progress_tells_the_share_and_the_rows(shown, monkeypatch):
    monkeypatch.setattr(console, "PATIENCE", -1.0)
    with console.progress("Reading", lambda: 10_000) as add:
        add(2500)
        assert "Reading" in shown()
        assert "25%" in shown()
        assert "2,500 rows" in shown()
    assert shown().endswith("\x1b[2K")  # the line is taken away


def test_progress_without_a_total_tells_the_rows(shown, monkeypatch):
    monkeypatch.setattr(console, "PATIENCE", -1.0)
    with console.progress("Reading", lambda: None) as add:
        add(5000)
        assert "5,000 rows" in shown()


def test_short_work_shows_nothing(shown):
    with console.progress("Reading", lambda: 1000) as add:
        add(500)
    assert shown() == ""


def test_nobody_watching_is_shown_nothing(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(console, "sys", SimpleNamespace(stderr=stream))
    with console.progress("Reading", pytest.fail) as add:
        add(500)
    assert stream.getvalue() == ""
