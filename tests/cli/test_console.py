import io
import re

import pytest

from calspline.cli import console


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(console, "PATIENCE", -1.0)


def test_progress_tells_the_share_and_the_time_left(impatient):
    stream = io.StringIO()
    shown = console.Progress("Reading", 1000, stream)
    shown._start -= 10.0
    shown._last -= 10.0
    shown.add(250)
    shown.end()
    assert "25%  250 rows, 30 s left" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_progress_without_a_total_tells_the_rate(impatient):
    stream = io.StringIO()
    shown = console.Progress("Reading", None, stream)
    shown._start -= 10.0
    shown._last -= 10.0
    shown.add(5000)
    assert re.search(r"5,000 rows, (500|499) a second", stream.getvalue())


def test_short_work_shows_nothing():
    stream = io.StringIO()
    shown = console.Progress("Reading", 1000, stream)
    shown.add(500)
    shown.end()
    assert stream.getvalue() == ""
