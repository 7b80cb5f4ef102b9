"""Formats of files: by their names, and what text files say of themselves."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from pathlib import Path

from calspline.cli.errors import InputError

FORMATS = ("csv", "tsv", "parquet", "jsonl", "arrow")
TEXT = ("csv", "tsv")
SUFFIXES = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
DELIMITERS = (",", ";", "\t", "|")
MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
ENOUGH = 1 << 16
GZIPPED = b"\x1f\x8b"


def format_of(name: str, said: str | None, option: str) -> str:
    """The format that was said, or that the name's ending tells."""
    if said is not None:
        return said
    path = Path(name)
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    found = SUFFIXES.get(suffix.lower())
    if found is None:
        raise InputError(
            f"{name} has no ending that tells its format; say it with {option} (one of {', '.join(FORMATS)})"
        )
    return found


def opening(path: Path) -> bytes:
    """The first bytes of a file, unpacked."""
    with path.open("rb") as file:
        start = file.read(ENOUGH)
    if not start.startswith(GZIPPED):
        return start
    try:
        with gzip.open(path) as unpacked:
            return unpacked.read(ENOUGH)
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: it is not a whole gzip file ({error})") from None


def check_encoding(name: str, start: bytes) -> None:
    """Complain about text that is surely not UTF-8."""
    for mark, encoding in MARKS.items():
        if start.startswith(mark):
            raise InputError(f"{name} is {encoding.upper()}, not UTF-8; read it with --encoding {encoding}")
    if start.startswith((b"PAR1", b"ARROW1")):
        real = "parquet" if start.startswith(b"PAR1") else "arrow"
        raise InputError(f"{name} is a {real} file; read it with --format {real}")
    if b"\0" in start:
        raise InputError(f"{name} is not text; say its format with --format (one of {', '.join(FORMATS)})")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # a character cut in two at the end is no error
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8; say what it is, for example --encoding latin-1") from None


def first_line(start: bytes, encoding: str | None) -> str:
    """The first line of text, without a byte-order mark."""
    try:
        text = start.decode(encoding or "utf-8", errors="replace")
    except LookupError:
        raise InputError(f"--encoding: there is no encoding {encoding!r}; try utf-8, latin-1 or utf-16") from None
    return text.lstrip("\ufeff")


def delimiter_of(start: bytes, encoding: str | None) -> str:
    """What separates fields: of the usual characters, the one most frequent in the first line."""
    bare = "".join(first_line(start, encoding).partition("\n")[0].split('"')[::2])
    return max(DELIMITERS, key=bare.count)


def header_of(start: bytes, delimiter: str, encoding: str | None, *, header: bool) -> list[str]:
    """Names of the columns: in the first line, or made up."""
    names = next(csv.reader(io.StringIO(first_line(start, encoding)), delimiter=delimiter), [])
    return (
        [name.strip() or f"column{i}" for i, name in enumerate(names)]
        if header
        else [f"column{i}" for i in range(len(names))]
    )
