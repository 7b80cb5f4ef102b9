import os
import re
import subprocess
import sys

import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from calspline import demo


@pytest.mark.process
def test_the_demo_improves_the_numbers_and_says_where_the_report_is(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "calspline.demo", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = map(
        float, re.search(r"log-loss\s+([\d.]+)\s+([\d.]+)", done.stdout).groups()
    )
    assert after < 0.5 * before
    path = tmp_path / demo.FILE_NAME
    assert str(path) in done.stdout
    page = path.read_text(encoding="utf-8")
    assert demo.TITLE in page
    assert "http:" not in page
    assert "https:" not in page


def test_the_demo_says_in_words_that_the_raw_scores_are_over_confident():
    assert (
        demo.demonstrate()
        .report()
        .headline.startswith("Raw scores are over-confident: ")
    )


def test_the_demo_prints_the_numbers_of_scikit_learn():
    story = demo.demonstrate()
    expected = [
        (
            log_loss(story.y, p),
            brier_score_loss(story.y, p),
            accuracy_score(story.y, p > 0.5),
        )
        for p in (story.before, story.after)
    ]
    found = [row[1:] for row in story.numbers()]
    assert [row[0] for row in found] == pytest.approx(expected[0], rel=1e-9)
    assert [row[1] for row in found] == pytest.approx(expected[1], rel=1e-9)


def test_the_demo_keeps_its_accuracy():
    (
        (_, loss_before, loss_after),
        (_, brier_before, brier_after),
        (_, right_before, right_after),
    ) = demo.demonstrate().numbers()
    assert loss_after < loss_before
    assert brier_after < brier_before
    assert right_after >= right_before - 0.01


def test_the_page_is_written_where_asked(tmp_path, capsys):
    demo.main(str(tmp_path))
    assert "before" in capsys.readouterr().out
    assert (
        (tmp_path / demo.FILE_NAME)
        .read_text(encoding="utf-8")
        .startswith("<!doctype html>")
    )


@pytest.mark.process
def test_the_command_needs_no_extra_for_the_demo(tmp_path):
    code = f"""
import sys
for name in ("duckdb", "matplotlib"):
    sys.modules[name] = None
from calspline.cli import main
sys.exit(main(["demo", {str(tmp_path)!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "before" in done.stdout
    assert (tmp_path / demo.FILE_NAME).exists()


@pytest.mark.process
def test_the_demo_draws_what_a_plain_terminal_can_show(tmp_path):
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "calspline.demo", str(tmp_path)],
        capture_output=True,
        env=ascii_only,
        check=True,
    )
    assert b"100%|" in done.stdout
    done.stdout.decode("ascii")
