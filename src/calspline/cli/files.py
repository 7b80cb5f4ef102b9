"""Files read and written by DuckDB, batch by batch: their formats, what text says of itself, and where a row is."""

from __future__ import annotations

import argparse
import codecs
import csv
import glob
import gzip
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calspline.cli.output import InputError, missing_extra, temporary_files
from calspline.export.dialects import DIALECTS

FORMATS = ("csv", "tsv", "parquet", "jsonl", "arrow")
TEXT = ("csv", "tsv")
SUFFIXES = {
    ".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
DELIMITERS = (",", ";", "\t", "|")
MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
ENOUGH = 1 << 16
ROWS = 1 << 17
"""Rows a batch."""
MAX_KEPT = 1 << 28
"""Bytes of text that is read once, into memory."""
STDIN = "standard input"

identifier, literal = DIALECTS["duckdb"].identifier, DIALECTS["duckdb"].literal


def reading_failed(name: str, error: Exception) -> InputError:
    """What DuckDB or Arrow said about a file, without the query and the settings it adds."""
    text = str(error)
    if "not utf-8" in text or "Invalid unicode" in text:
        advice = "say what it is, for example --encoding latin-1 or --encoding utf-16"
        return InputError(f"cannot read {name}: the file is not UTF-8; {advice}")
    line = re.search(r"CSV Error on Line: (\d+)", text)
    columns = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if line and columns:
        return InputError(
            f"cannot read {name}: line {line[1]} has {columns[2]} fields where {columns[1]} are expected; "
            "put the line right, or say what separates fields with --delimiter"
        )
    if "parsing dialect" in text:
        return InputError(
            f"cannot read {name}: its lines do not all have the same number of fields; put them right, "
            "or say what separates fields with --delimiter"
        )
    said = re.sub(r"^[\w ]+ Error: ", "", text).split("\n\n")[0].split("\nLINE ")[0]
    return InputError(f"cannot read {name}: {said}")


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
    if not start.startswith(b"\x1f\x8b"):
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


def decoded(start: bytes, encoding: str | None) -> str:
    """Text without a byte-order mark."""
    try:
        return start.decode(encoding or "utf-8", errors="replace").lstrip("\ufeff")
    except LookupError:
        raise InputError(f"--encoding: there is no encoding {encoding!r}; try utf-8, latin-1 or utf-16") from None


def header_of(text: str, delimiter: str, *, header: bool) -> list[str]:
    """Names of the columns: in the first line, or made up."""
    names = next(csv.reader(io.StringIO(text), delimiter=delimiter), [])
    return [(header and name.strip()) or f"column{i}" for i, name in enumerate(names)]


def import_duckdb() -> Any:
    """DuckDB, which streams through pyarrow."""
    try:
        import duckdb

        if find_spec("pyarrow") is None:  # it takes time to import, and not all need it
            raise ImportError(name="pyarrow")
    except ImportError as error:
        raise missing_extra(error.name or "duckdb", "cli") from None
    return duckdb


class Source:
    """One or more files of the same columns.

    Text files are read as text, so that what is passed on comes out as it was; ``typed`` asks for
    numbers and dates instead, for outputs that have types.
    """

    def __init__(
        self, paths: list[Path], names: list[str], format: str, options: argparse.Namespace, *, typed: bool
    ) -> None:
        self.paths, self.names, self.format = paths, names, format
        encoding, header = options.encoding, not options.no_header
        self._connection = self._latest = import_duckdb().connect()
        self._kept: str | None = None
        self._starts = [opening(path) for path in paths]
        for name, start in zip(names, self._starts, strict=True):
            if not start:
                raise InputError(f"{name} is empty")
            if encoding is None and format in (*TEXT, "jsonl"):
                check_encoding(name, start)
        if format in TEXT:
            self._header = self._read_headers(options.delimiter, encoding, header)
            self._options = {
                "delim": literal(self._delimiter),
                "quote": literal('"'),
                "escape": literal('"'),
                "header": str(header).lower(),
                "encoding": literal(encoding or "utf-8"),
            }
        self.types: dict[str, str] = {}
        if format in TEXT and not typed:
            self.types = dict.fromkeys(self._header, "VARCHAR")
        else:
            relation = self.query("*")
            self.types = dict(zip(relation.columns, map(str, relation.types), strict=True))
        self.columns = list(self.types)
        for which in range(1, len(paths)):
            if set(self.query("*", which).columns) != set(self.columns):
                raise InputError(f"{names[which]} has other columns than {names[0]}; give files of the same columns")

    @property
    def name(self) -> str:
        """What to call it in a sentence."""
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} more"

    def _scan(self, which: int | None) -> str:
        """A table function over one file, or over all.

        Types are found once, from all rows. From then on nothing is left to guess, so a line that
        does not fit is an error with its number.
        """
        paths = self.paths if which is None else [self.paths[which]]
        files = "[" + ", ".join(literal(glob.escape(str(path))) for path in paths) + "]"
        if self.format == "parquet":
            return f"read_parquet({files})"
        if self.format == "arrow":
            return "arrow"
        known = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in self.types.items())
        if self.format == "jsonl":
            columns = f"columns = {{{known}}}" if known else "sample_size = -1"
            return f"read_json({files}, format = 'newline_delimited', {columns})"
        columns = f"auto_detect = false, columns = {{{known}}}" if known else "sample_size = -1"
        options = ", ".join(f"{key} = {value}" for key, value in self._options.items())
        return f"read_csv({files}, {options}, {columns})"

    def _read_headers(self, delimiter: str | None, encoding: str | None, header: bool) -> list[str]:
        """The names of the columns, which all files have to share."""
        texts = [decoded(start, encoding) for start in self._starts]
        bare = "".join(texts[0].partition("\n")[0].split('"')[::2])  # the first line without what is quoted
        self._delimiter = delimiter or ("\t" if self.format == "tsv" else max(DELIMITERS, key=bare.count))
        headers = [header_of(text, self._delimiter, header=header) for text in texts]
        for name, other in zip(self.names, headers, strict=True):
            if other != headers[0]:
                raise InputError(f"{name} has other columns than {self.names[0]}; give files of the same columns")
        names = headers[0]
        twice = next((name for i, name in enumerate(names) if name.lower() in map(str.lower, names[:i])), None)
        if twice is not None:
            raise InputError(f"{self.names[0]} has two columns named {twice!r}; rename one")
        if header and all(map(_is_number, names)):
            raise InputError(
                f"the first line of {self.names[0]} holds numbers, not names of columns; "
                "add a line with names, or use --no-header (then they are column0, column1, ...)"
            )
        return names

    def query(self, select: str, which: int | None = None, *, where: str = "true") -> Any:
        """A relation: what is selected from the files, or from one of them."""
        connection = self._latest = self._connection.cursor()  # its own, because another stream may be open
        connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
        with self.reading(which):
            if self.format == "arrow":
                connection.register("arrow", _arrow(self.paths if which is None else [self.paths[which]]))
            # Files may have columns in another order, and of other types.
            alike = ", ".join(f"CAST({identifier(c)} AS {kind}) AS {identifier(c)}" for c, kind in self.types.items())
            columns = alike if which is not None and len(self.paths) > 1 and self.columns else "*"
            inner = f"SELECT {select} FROM (SELECT {columns} FROM {self._scan(which)})"
            if which is None and select == self._kept:
                inner = "SELECT * FROM kept"
            return connection.sql(f"SELECT * FROM ({inner}) WHERE {where}")

    def keep(self, select: str) -> None:
        """Read text only once, if it is not too large: what is selected becomes a table."""
        if self.format in (*TEXT, "jsonl") and sum(path.stat().st_size for path in self.paths) <= MAX_KEPT:
            with self.reading():
                self._connection.execute(f"CREATE TABLE kept AS SELECT {select} FROM {self._scan(None)}")
            self._kept = select

    @contextmanager
    def reading(self, which: int | None = None) -> Iterator[None]:
        """Say of what goes wrong while rows are read which file it is."""
        try:
            yield
        except Exception as error:
            arrow = sys.modules.get("pyarrow")  # of its errors, many are not those of the system
            if not isinstance(error, (import_duckdb().Error, OSError, *([arrow.ArrowException] if arrow else []))):
                raise
            raise reading_failed(self.name if which is None else self.names[which], error) from error

    def share_read(self) -> float:
        """The share of its rows that the latest query has read."""
        return max(float(self._latest.query_progress()) / 100.0, 0.0)

    def first_rows(self, select: str, where: str, most: int = 1) -> list[tuple[str, int, tuple[Any, ...]]]:
        """The first rows that meet a condition: the file, the place in it counting from 1, and what is selected."""
        for which, name in enumerate(self.names):
            with self.reading(which):
                numbered = self.query(f"row_number() OVER () AS row, {select}", which, where=where)
                rows = numbered.order("row").limit(most).fetchall()
            if rows:
                return [(name, int(row[0]), row[1:]) for row in rows]
        return []

    def batches(self, select: str, where: str = "true") -> Iterator[Any]:
        """Arrow record batches in the order of rows, one file after the other: a scan of several may take any order."""
        for which in range(len(self.names)):
            with self.reading(which):
                yield from self.query(select, which, where=where).to_arrow_reader(ROWS)

    def about(self) -> int | None:
        """About how many rows there are, without reading them; None if that cannot be known."""
        if self.format in ("parquet", "arrow"):
            return int(self.query("1").aggregate("count(*)").fetchall()[0][0])
        if any(path.suffix == ".gz" for path in self.paths):
            return None
        lines = sum(start.count(b"\n") for start in self._starts)
        read = sum(len(start) for start in self._starts)
        return round(sum(path.stat().st_size for path in self.paths) * lines / read)


def write_batches(path: Path, schema: Any, batches: Iterator[Any], format: str, *, gzipped: bool = False) -> None:
    """Write a stream of Arrow record batches, by DuckDB, or by Arrow in its own format."""
    import pyarrow
    import pyarrow.ipc

    if format == "arrow":
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return
    options = {
        "csv": "FORMAT csv, HEADER, DELIMITER ','",
        "tsv": "FORMAT csv, HEADER, DELIMITER '\t'",
        "jsonl": "FORMAT json",
        "parquet": "FORMAT parquet",
    }[format]
    if format != "parquet":
        options += f", COMPRESSION {'gzip' if gzipped else 'none'}"
    duckdb = import_duckdb()
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    with suppress(duckdb.CatalogException):  # before version 2 there are none
        # With threads of its own for writing, DuckDB 2.0 waits forever for them once a stream has failed.
        connection.execute("SET async_threads = 0")
    connection.register("batches", pyarrow.RecordBatchReader.from_batches(schema, batches))
    # The file is there and locked; a temporary one of DuckDB's own in its place would be neither.
    connection.execute(f"COPY (SELECT * FROM batches) TO {literal(str(path))} ({options}, USE_TMP_FILE false)")
    connection.close()


def open_source(options: argparse.Namespace, *, typed: bool = False) -> Source:
    """Open the files, patterns of files, or ``-`` that were named."""
    import_duckdb()
    names, paths = [], []
    for item in options.data:
        if item == "-":
            names.append(STDIN)
            paths.append(_spooled())
            continue
        found = [item] if Path(item).exists() else sorted(glob.glob(item, recursive=True))
        if not found:
            raise InputError(f"there is no file {item}")
        for name in found:
            if Path(name).is_dir():
                raise InputError(f"{name} is a folder; give files, or a pattern such as '{Path(name) / '*.parquet'}'")
        names += found
        paths += [Path(name) for name in found]
    formats = {options.format or ("csv" if name == STDIN else format_of(name, None, "--format")) for name in names}
    if len(formats) > 1:
        raise InputError(
            f"the files are of different formats ({', '.join(sorted(formats))}); give those of one at a time"
        )
    return Source(paths, names, formats.pop(), options, typed=typed)


def _spooled() -> Path:
    """Standard input as a file, because it is read more than once."""
    if sys.stdin.isatty():
        raise InputError("standard input is a terminal; pipe data into it, or give a file")
    file = tempfile.NamedTemporaryFile(prefix="calspline-", suffix=".stdin")  # noqa: SIM115
    temporary_files.callback(file.close)
    shutil.copyfileobj(sys.stdin.buffer, file)
    file.flush()
    return Path(file.name)


def _arrow(paths: list[Path]) -> Any:
    """Arrow files, or streams, which DuckDB would read only once: as tables on files that stay on disk."""
    import pyarrow
    import pyarrow.dataset
    import pyarrow.ipc

    with paths[0].open("rb") as file:
        if file.read(6) == b"ARROW1":
            return pyarrow.dataset.dataset([str(path) for path in paths], format="ipc")
    streams = [pyarrow.ipc.open_stream(pyarrow.memory_map(str(path))) for path in paths]
    return pyarrow.concat_tables([stream.read_all() for stream in streams])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
