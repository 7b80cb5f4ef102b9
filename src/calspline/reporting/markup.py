"""HTML in which everything is escaped unless it says that it is markup already."""

from __future__ import annotations

import json
from html import escape
from string import Template
from typing import Any


class Markup(str):
    """Text that is HTML already. Only this module makes it from anything but constants."""

    __slots__ = ()


def safe(value: Any) -> Markup:
    """A value as HTML: escaped, quotes included, unless it is markup."""
    return value if isinstance(value, Markup) else Markup(escape(str(value), quote=True))


def fill(template: str, **values: Any) -> Markup:
    """A template whose ``$names`` are replaced by escaped values; each must be given.

    Examples
    --------
    >>> fill("<p>$words</p>", words="a < b")
    '<p>a &lt; b</p>'
    """
    return Markup(Template(template).substitute({name: safe(value) for name, value in values.items()}))


def join(*parts: Any) -> Markup:
    """Values one after the other."""
    return Markup("".join(map(safe, parts)))


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """An element.

    ``class_`` is ``class``, ``data_bin`` is ``data-bin``; True stands alone, None and False are left out.

    Examples
    --------
    >>> tag("b", "1 < 2", title='"', hidden=True)
    '<b title="&quot;" hidden>1 &lt; 2</b>'
    """
    shown = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            shown.append(f" {key}")
        elif value is not None and value is not False:
            shown.append(f' {key}="{safe(value)}"')
    return Markup(f"<{name}{''.join(shown)}>{join(*children)}</{name}>")


def data(value: Any) -> Markup:
    """JSON for a ``<script type="application/json">``: no character in it can end or open anything."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
