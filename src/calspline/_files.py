"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write beside ``path``, flush to disk, move into place; leave nothing behind on failure."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
