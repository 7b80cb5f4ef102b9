"""Docstrings are numpydoc with a few roles of reStructuredText; the site reads Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|obj):`(?:(?P<text>[^`<]+) <)?(?P<short>~?)(?P<name>[^`<>]+)>?`")
SEE_ALSO = re.compile(r"(?<=^See Also\n--------\n)(?P<lines>(?:.+\n?)+)", flags=re.M)
ENTRY = re.compile(r"^(?P<name>[\w.]+) : ", flags=re.M)
MATH = re.compile(r"^( *)\.\. math:: (.+)$", flags=re.M)


class Roles(griffe.Extension):
    """Roles become links, where what they name is on the site, ``.. math::`` formulas, and "See Also" a list."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite a docstring once it is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value, obj)


def rewritten(text: str, obj: griffe.Object) -> str:
    """The docstring in Markdown."""
    text = text.replace("array-like", "array\N{NON-BREAKING HYPHEN}like")  # it is no difference
    text = SEE_ALSO.sub(lambda found: ENTRY.sub(r"- :obj:`\g<name>`: ", found["lines"]), text)
    text = MATH.sub(r"\1$$\n\1\2\n\1$$", text)
    return ROLE.sub(lambda role: _link(role, obj), text)


def _link(role: re.Match[str], obj: griffe.Object) -> str:
    name = role["name"]
    shown = role["text"] or (name.rpartition(".")[2] if role["short"] else name)
    try:
        target = name if name.startswith("calspline.") else obj.resolve(name)
    except griffe.NameResolutionError:
        target = name
    return f'<autoref identifier="{target}" optional><code>{shown}</code></autoref>'
