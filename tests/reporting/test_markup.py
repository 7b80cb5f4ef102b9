import json
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calspline.reporting.markup import Markup, data, fill, join, safe, tag

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "$name ${name}",
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


@pytest.mark.parametrize("text", HOSTILE)
def test_a_value_in_a_template_stays_text(text):
    found = Elements(fill('<p title="$t">$t</p>', t=text))
    assert found.tags == ["p"]
    assert found.text == text
    assert found.attributes == [("title", text)]


@given(st.text())
def test_any_text_in_an_element_comes_back_as_it_was(text):
    made = tag("b", text, title=text)
    assert made.count("<") == 2
    assert unescape(made[made.index(">") + 1 : made.rindex("<")]) == unescape(safe(text))
    assert made.count('"') == 2


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_data_is_json_that_cannot_leave_its_script(value):
    made = data(value)
    assert json.loads(made) == value
    assert not set("<>&") & set(made)


def test_data_refuses_what_json_does_not_have():
    with pytest.raises(ValueError, match="JSON"):
        data(float("nan"))


def test_every_name_of_a_template_must_be_given():
    with pytest.raises(KeyError):
        fill("<p>$one $two</p>", one=1)


def test_markup_is_not_escaped_twice():
    assert join(tag("b", "<"), "<") == "<b>&lt;</b>&lt;"
    assert fill("$x", x=Markup("<i>")) == "<i>"


def test_attributes_may_stand_alone_or_be_left_out():
    assert tag("input", class_="a", data_bin=0, checked=True, hidden=False, title=None) == (
        '<input class="a" data-bin="0" checked></input>'
    )
