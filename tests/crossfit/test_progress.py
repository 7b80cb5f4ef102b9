import io

from calspline._crossfit import show_progress
from calspline._formatting import duration


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_what_is_done_and_what_is_left():
    screen = Terminal()
    assert list(
        show_progress(iter("abc"), 3, "models fitted", show=True, stream=screen)
    ) == ["a", "b", "c"]
    lines = screen.getvalue().split("\r")
    assert lines[1].startswith("models fitted: 1 of 3, about")
    assert lines[-1].rstrip() == "models fitted: 3 of 3"
    assert screen.getvalue().endswith("\n")


def test_a_pipe_and_a_person_who_did_not_ask_see_nothing():
    for screen, show in ((io.StringIO(), True), (Terminal(), False)):
        assert list(
            show_progress(iter("abc"), 3, "models fitted", show=show, stream=screen)
        ) == ["a", "b", "c"]
        assert screen.getvalue() == ""


def test_a_notebook_counts_as_a_terminal():
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    list(show_progress(iter("ab"), 2, "models fitted", show=True, stream=stream))
    assert "2 of 2" in stream.getvalue()


def test_times_are_told_in_units_that_fit():
    assert [duration(seconds) for seconds in (3, 600, 36_000)] == [
        "3 s",
        "10 min",
        "10.0 h",
    ]
