"""The page: the summary, a plain dict, becomes HTML by way of autoescaping templates."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calspline.formatting import number
from calspline.reporting.charts import pixels


def page(summary: dict[str, Any]) -> str:
    """HTML with everything in it: style, script, charts, numbers."""
    environment = template_environment()
    script, style = (Markup(_source(environment, name)) for name in ("report.js", "report.css"))
    # The browser runs this script and no other.
    script_hash = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html").render(summary, script=script, style=style, script_hash=script_hash)


@cache
def template_environment() -> Environment:
    """Templates that escape every value, and refuse names that have none and numbers that JSON does not have."""
    environment = Environment(
        loader=PackageLoader("calspline.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"pixels": pixels, "number": number}
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]
