import re
import subprocess
import sys

from calspline import demo


def test_the_demo_improves_the_numbers_and_says_where_the_report_is(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "calspline.demo", str(tmp_path)], capture_output=True, text=True, check=True
    )
    before, after = map(float, re.search(r"log-loss\s+([\d.]+)\s+([\d.]+)", done.stdout).groups())
    assert after < 0.5 * before
    path = tmp_path / demo.FILE_NAME
    assert str(path) in done.stdout
    page = path.read_text()
    assert page.count("<svg") == 2
    assert "http" not in page.replace("http-equiv", "")


def test_the_demo_keeps_its_accuracy():
    story = demo.tell()
    (_, loss_before, loss_after), (_, brier_before, brier_after), (_, right_before, right_after) = story.numbers()
    assert loss_after < loss_before
    assert brier_after < brier_before
    assert right_after >= right_before - 0.01


def test_the_page_is_written_where_asked(tmp_path, capsys):
    demo.main(str(tmp_path))
    assert "before" in capsys.readouterr().out
    assert (tmp_path / demo.FILE_NAME).read_text().startswith("<!doctype html>")
