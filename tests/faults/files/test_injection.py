"""Names, titles and labels made to break out of the page or the source they are written into."""

import ast
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from calspline import SplineCalibrator, report
from calspline.export import to_c, to_javascript, to_python

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--<script>",
    "*/ int evil(void); /*",
    "\nimport os; os.system('touch sprung')\n#",
    "\r\nalert(1)//",
    "\u2028alert(1)//",
    "coding: utf-7 +AAo-import os+AAo-",
    "-*- coding=rot13 -*-",
    "??/",
    "\\",
    "\\\n",
    '"""',
    "`${alert(1)}`",
    "{name} {0} %s $script",
    "\x1b[31m\x00red",
]


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and attributes that run code."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.handlers = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.handlers += [key for key, _ in attributes if key.startswith("on")]
        self.handlers += [
            value
            for key, value in attributes
            if value and value.lower().startswith("javascript:")
        ]


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    return p, (rng.random(300) < p).astype(int)


def page(judged, tmp_path, name, title, labels):
    p, y = judged
    calibrator = SplineCalibrator().fit(p, np.array(labels)[y])
    report(
        np.array(labels)[y],
        {name: p},
        tmp_path / "r.html",
        calibrator=calibrator,
        title=title,
        labels=labels,
    )
    return (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_61_html_in_names_titles_and_labels_is_escaped(judged, tmp_path):
    plain = Page(page(judged, tmp_path, "raw", "title", ["a", "b"]))
    for text in HOSTILE:
        found = page(judged, tmp_path, text, text, ["a", f"b{text}"])
        seen = Page(found)
        assert seen.tags.count("script") == plain.tags.count("script") == 2, text
        assert seen.tags.count("img") == plain.tags.count("img"), text
        assert seen.handlers == [], text
        assert "<!--" not in found


def test_61_three_classes_too(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    codes = (rng.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)
    labels = np.array(
        ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "c"]
    )
    order = np.argsort(labels)
    report(labels[order][codes], {HOSTILE[2]: p}, tmp_path / "r.html", title=HOSTILE[0])
    seen = Page((tmp_path / "r.html").read_text())
    assert seen.tags.count("script") == 2
    assert seen.handlers == []


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def labelled(request, two):
    """A calibrator whose class has a hostile name."""
    labels = np.array(["", request.param], dtype=object)
    return SplineCalibrator(n_knots=3).fit(two.scores, labels[two.y])


@pytest.mark.process
def test_56_a_label_in_python_source_is_a_comment_of_one_line(labelled, two, tmp_path):
    source = to_python(labelled)
    assert source.isascii()
    kinds = {type(node).__name__ for node in ast.parse(source).body}
    assert kinds <= {"Import", "ImportFrom", "Assign", "AnnAssign", "FunctionDef"}
    plain = to_python(SplineCalibrator(n_knots=3).fit(two.scores, two.y))
    assert source.splitlines()[1:] == plain.splitlines()[1:]
    # From a file, where the first lines may say how to read the rest.
    (tmp_path / "calibrate.py").write_text(source + "\nprint(calibrate(0.3))\n")
    done = subprocess.run(
        [sys.executable, "-I", "calibrate.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == pytest.approx(labelled.calibrate([0.3])[0], abs=1e-9)
    assert [path.name for path in tmp_path.iterdir()] == ["calibrate.py"]


def test_56_a_label_in_javascript_and_c_is_a_comment_of_one_line(labelled, two):
    plain = SplineCalibrator(n_knots=3).fit(two.scores, two.y)
    for write, comment in ((to_javascript, r"// [^\n]*"), (to_c, r"/\* [^\n]* \*/")):
        source = write(labelled)
        assert source.isascii()
        first, rest = source.split("\n", 1)
        assert re.fullmatch(comment, first)
        assert rest == write(plain).split("\n", 1)[1]
        assert first.count("*/") == (write is to_c)
        assert "</" not in first
        assert "??/" not in first
        assert all(32 <= ord(character) < 127 for character in first)
