import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

import calspline.reporting
from calspline import report
from calspline.reporting.report import template_environment

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "$name ${name}",
    "{{ 7 * 7 }} {% raw %} {# note #}",
    "\u2028\u2029\x00",
]


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += attributes

    def handle_data(self, text):
        self.text += text


def fill(template, **values):
    return template_environment().from_string(template).render(values)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_value_in_a_template_stays_text(text):
    found = Elements(fill('<p title="{{ t }}">{{ t }}</p>', t=text))
    assert found.tags == ["p"]
    assert found.text == text
    assert found.attributes == [("title", text)]


@given(st.text())
def test_any_text_in_an_element_comes_back_as_it_was(text):
    made = fill('<b title="{{ t }}">{{ t }}</b>', t=text)
    assert made.count("<") == 2
    assert made.count('"') == 2
    inner = made[made.index(">") + 1 : made.rindex("<")]
    assert inner == made[made.index('"') + 1 : made.rindex('"')]
    assert not set("<>\"'") & set(inner)
    assert unescape(inner) == text


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_data_is_json_that_cannot_leave_its_script(value):
    made = fill("{{ value|tojson }}", value=value)
    assert json.loads(made) == value
    assert not set("<>&") & set(made)


def test_data_refuses_what_json_does_not_have():
    with pytest.raises(ValueError, match="JSON"):
        fill("{{ value|tojson }}", value=float("nan"))


def test_every_name_of_a_template_must_be_given():
    with pytest.raises(UndefinedError):
        fill("<p>{{ one }} {{ two }}</p>", one=1)


def test_no_template_marks_a_value_as_safe():
    for path in (Path(calspline.reporting.__file__).parent / "templates").glob(
        "*.html"
    ):
        assert not re.search(r"\|\s*safe|autoescape", path.read_text(encoding="utf-8"))


def test_a_notebook_shows_the_page_in_a_frame_of_its_own():
    found = report([0, 1, 0, 1], {"<b>raw": [0.1, 0.8, 0.3, 0.6]})
    frame = Elements(found._repr_html_())
    assert frame.tags == ["iframe"]
    assert dict(frame.attributes)["srcdoc"] == found.html
    assert dict(frame.attributes)["sandbox"] == "allow-scripts"
