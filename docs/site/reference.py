"""Show the methods of a class before its attributes."""

from __future__ import annotations

from typing import Any

from sphinx import addnodes


def setup(app: Any) -> None:
    """Let Sphinx call this for every object it describes."""
    app.connect("object-description-transform", move_attributes_last)


def move_attributes_last(
    app: Any, domain: str, kind: str, content: addnodes.desc_content
) -> None:
    """Move the attributes that the docstring of a class lists below the methods."""
    if kind != "class":
        return
    attributes = [
        node
        for node in content.children
        if isinstance(node, addnodes.desc) and node["objtype"] == "attribute"
    ]
    for node in attributes:
        content.remove(node)
    content += attributes
