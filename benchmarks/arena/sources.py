"""The experiments in a folder, whatever files hold them."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.arena import calarena
from benchmarks.arena.experiments import Experiment, load


class Source(NamedTuple):
    """An experiment's name, and how to read it."""

    name: str
    read: Callable[[], Experiment]


def sources(place: Path, only: str = "*") -> list[Source]:
    """Experiments in ``.npz`` files of their own and in CalArena's HDF5 files, those whose name matches ``only``."""
    found = [
        Source(path.stem, partial(load, path)) for path in sorted(place.glob("*.npz"))
    ]
    for path in sorted(p for p in place.iterdir() if p.suffix in calarena.SUFFIXES):
        found += [
            Source(name.replace("/", "__"), partial(calarena.read, path, name))
            for name in calarena.names(path)
        ]
    return [source for source in found if fnmatch(source.name, only)]
