"""Files that DuckDB reads and writes: formats, CSV headers, and numbers of rows."""

from __future__ import annotations

import argparse
import codecs
import csv
import glob
import gzip
import hashlib
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from calspline.cli.output import InputError, missing_extra, temporary_path
from calspline.export.dialects import DIALECTS

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
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
ENOUGH = 1 << 16
ROWS = 1 << 17
"""Rows a batch."""
MAX_KEPT = 1 << 28
"""Bytes of text that is read once, into memory."""
STDIN = "standard input"

identifier, literal = DIALECTS["duckdb"].identifier, DIALECTS["duckdb"].literal


def reading_failed(name: str, error: Exception) -> InputError:
    """An error of DuckDB or Arrow about a file, without the query and settings."""
    text = str(error)
    if "not utf-8" in text or "Invalid unicode" in text:
        advice = (
            "name its encoding, for example --encoding latin-1 or --encoding utf-16"
        )
        return InputError(f"cannot read {name}: the file is not UTF-8; {advice}")
    line = re.search(r"CSV Error on Line: (\d+)", text)
    columns = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if line and columns:
        more = int(columns[2]) > int(columns[1])
        comma = " (a decimal comma separates fields, too)" if more else ""
        return InputError(
            f"cannot read {name}: line {line[1]} has {columns[2]} fields where "
            f"{columns[1]} are expected; "
            f"correct the line{comma}, or set the separator with --delimiter"
        )
    if line and "unterminated quote" in text:
        return InputError(
            f"cannot read {name}: a quote in line {line[1]} is opened and not closed"
        )
    if "parsing dialect" in text:
        return InputError(
            f"cannot read {name}: its lines do not all have the same number of fields; "
            "put them right, "
            "or set the separator with --delimiter"
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
            f"{name} has no ending that tells its format; say it with {option} (one of "
            f"{', '.join(FORMATS)})"
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
        raise InputError(
            f"cannot read {path}: it is not a whole gzip file ({error})"
        ) from None


def check_encoding(name: str, start: bytes) -> None:
    """Raise an error for text that is certainly not UTF-8."""
    for mark, encoding in MARKS.items():
        if start.startswith(mark):
            raise InputError(
                f"{name} is {encoding.upper()}, not UTF-8; read it with --encoding "
                f"{encoding}"
            )
    if start.startswith((b"PAR1", b"ARROW1")):
        real = "parquet" if start.startswith(b"PAR1") else "arrow"
        raise InputError(f"{name} is a {real} file; read it with --format {real}")
    if b"\0" in start:
        raise InputError(
            f"{name} is not text; set its format with --format (one of "
            f"{', '.join(FORMATS)})"
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(
            start
        )  # a character cut in two at the end is no error
    except UnicodeDecodeError:
        raise InputError(
            f"{name} is not UTF-8; name its encoding, for example --encoding latin-1"
        ) from None


def decoded(start: bytes, encoding: str | None) -> str:
    """Text without a byte-order mark."""
    try:
        return start.decode(encoding or "utf-8", errors="replace").lstrip("\ufeff")
    except LookupError:
        raise InputError(
            f"--encoding: there is no encoding {encoding!r}; try utf-8, latin-1 or "
            "utf-16"
        ) from None


def header_of(text: str, delimiter: str, *, header: bool) -> list[str]:
    """Names of the columns: in the first line, or made up."""
    lines = io.StringIO(text, newline="")  # lines may end in LF, CRLF or CR
    names = next(csv.reader(lines, delimiter=delimiter), [])
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

    Text files are read as text, so that what is passed on comes out as it was;
    ``typed`` asks for numbers and dates instead, for outputs that have types.
    """

    def __init__(
        self,
        paths: list[Path],
        names: list[str],
        format: str,
        options: argparse.Namespace,
        *,
        typed: bool,
    ) -> None:
        self.paths = paths
        self.names = names
        self.format = format
        encoding = options.encoding
        header = not options.no_header
        self._connection = self._latest = import_duckdb().connect()
        self._kept: str | None = None
        self._starts = [opening(path) for path in paths]
        self._headers: list[list[str]] = []
        for name, start in zip(names, self._starts, strict=True):
            if not start:
                raise InputError(f"{name} is empty")
            if encoding is None and format in (*TEXT, "jsonl"):
                check_encoding(name, start)
        if format in TEXT:
            self._headers = self._read_headers(options.delimiter, encoding, header)
            self._options = {
                "delim": literal(self._delimiter),
                "quote": literal('"'),
                "escape": literal('"'),
                "header": str(header).lower(),
                "encoding": literal(encoding or "utf-8"),
            }
        self.types: dict[str, str] = {}
        if format in TEXT and not typed:
            self.types = dict.fromkeys(self._headers[0], "VARCHAR")
        else:
            relation = self.query("*")
            self.types = dict(
                zip(relation.columns, map(str, relation.types), strict=True)
            )
        self.columns: list[
            str
        ] = []  # not known yet: a query takes all columns that there are
        for which in range(1, len(paths)):
            if set(self.query("*", which).columns) != set(self.types):
                raise InputError(
                    f"{names[which]} has other columns than {names[0]}; give files of "
                    "the same columns"
                )
        self.columns = list(self.types)

    @property
    def name(self) -> str:
        """What to call it in a sentence."""
        if len(self.names) == 1:
            return self.names[0]
        return f"{self.names[0]} and {len(self.names) - 1} more"

    def _scan(self, which: int | None) -> str:
        """A table function over one file, or over all.

        Types are found once, from all rows. From then on nothing is left to guess, so a
        line that does not fit is an error with its number.
        """
        paths = self.paths if which is None else [self.paths[which]]
        files = "[" + ", ".join(literal(glob.escape(str(path))) for path in paths) + "]"
        if self.format == "parquet":
            return f"read_parquet({files})"
        if self.format == "arrow":
            return "arrow"
        reordered = any(one != self._headers[0] for one in self._headers)
        if which is None and reordered:
            scans = map(self._scan, range(len(self.paths)))
            each = (f"SELECT * FROM {scan}" for scan in scans)
            return f"({' UNION ALL BY NAME '.join(each)})"
        names = self._headers[which or 0] if self.format in TEXT else self.types
        types = {name: self.types[name] for name in names} if self.types else {}
        known = ", ".join(
            f"{literal(name)}: {literal(kind)}" for name, kind in types.items()
        )
        if self.format == "jsonl":
            columns = f"columns = {{{known}}}" if known else "sample_size = -1"
            return f"read_json({files}, format = 'newline_delimited', {columns})"
        if known:
            columns = f"auto_detect = false, columns = {{{known}}}"
        else:
            columns = "sample_size = -1"
        options = ", ".join(f"{key} = {value}" for key, value in self._options.items())
        return f"read_csv({files}, {options}, {columns})"

    def _read_headers(
        self, delimiter: str | None, encoding: str | None, header: bool
    ) -> list[list[str]]:
        """The names of the columns of each file: the same in all, in any order."""
        texts = [decoded(start, encoding) for start in self._starts]
        first_line = re.split(r"[\r\n]", texts[0], maxsplit=1)[0]
        bare = "".join(first_line.split('"')[::2])  # without what is quoted
        self._delimiter = delimiter or (
            "\t" if self.format == "tsv" else max(DELIMITERS, key=bare.count)
        )
        headers = [header_of(text, self._delimiter, header=header) for text in texts]
        for name, other in zip(self.names, headers, strict=True):
            if sorted(other) != sorted(headers[0]):
                raise InputError(
                    f"{name} has other columns than {self.names[0]}; give files of the "
                    "same columns"
                )
        names = headers[0]
        if not names:
            raise InputError(
                f"the first line of {self.names[0]} is empty; it must hold the names "
                "of columns"
            )
        twice = next(
            (
                name
                for i, name in enumerate(names)
                if name.lower() in map(str.lower, names[:i])
            ),
            None,
        )
        if twice is not None:
            raise InputError(
                f"{self.names[0]} has two columns named {twice!r}; rename one"
            )
        if header and all(map(_is_number, names)):
            raise InputError(
                f"the first line of {self.names[0]} holds numbers, not names of "
                "columns; "
                "add a line with names, or use --no-header (then they are column0, "
                "column1, ...)"
            )
        return headers

    def query(
        self, select: str, which: int | None = None, *, where: str = "true"
    ) -> Any:
        """A relation: what is selected from the files, or from one of them."""
        connection = self._latest = (
            self._connection.cursor()
        )  # its own, because another stream may be open
        connection.execute(
            "SET enable_progress_bar = true; SET enable_progress_bar_print = false"
        )
        with self.reading(which):
            if self.format == "arrow":
                connection.register(
                    "arrow",
                    _arrow(self.paths if which is None else [self.paths[which]]),
                )
            # Files may have columns in another order, and of other types.
            alike = ", ".join(
                f"CAST({identifier(c)} AS {kind}) AS {identifier(c)}"
                for c, kind in self.types.items()
            )
            if which is not None and len(self.paths) > 1 and self.columns:
                columns = alike
            else:
                columns = "*"
            inner = f"SELECT {select} FROM (SELECT {columns} FROM {self._scan(which)})"
            if which is None and select == self._kept:
                inner = "SELECT * FROM kept"
            return connection.sql(f"SELECT * FROM ({inner}) WHERE {where}")

    def digest(self) -> str:
        """What identifies the rows, in whatever order rows and columns are."""
        names = sorted(self.types)
        texts = [f"CAST({identifier(name)} AS VARCHAR)" for name in names]
        # With their lengths, so that rows differ if and only if a field does.
        fields = [f"coalesce(length({text}) || ':' || {text}, '-')" for text in texts]
        row = " || ".join(fields)
        sums = f"count(*), sum(md5_number_lower({row}))"
        with self.reading():
            [found] = self.query("*").aggregate(sums).fetchall()
        described = json.dumps([names, *map(str, found)])
        return f"sha256:{hashlib.sha256(described.encode()).hexdigest()}"

    def keep(self, select: str) -> None:
        """Read text only once, if it is not too large: select it into a table."""
        if (
            self.format in (*TEXT, "jsonl")
            and sum(path.stat().st_size for path in self.paths) <= MAX_KEPT
        ):
            with self.reading():
                self._connection.execute(
                    f"CREATE TABLE kept AS SELECT {select} FROM {self._scan(None)}"
                )
            self._kept = select

    @contextmanager
    def reading(self, which: int | None = None) -> Iterator[None]:
        """Say of what goes wrong while rows are read which file it is."""
        try:
            yield
        except Exception as error:
            arrow = sys.modules.get(
                "pyarrow"
            )  # of its errors, many are not those of the system
            if not isinstance(
                error,
                (
                    import_duckdb().Error,
                    OSError,
                    *([arrow.ArrowException] if arrow else []),
                ),
            ):
                raise
            raise reading_failed(
                self.name if which is None else self.names[which], error
            ) from error

    def share_read(self) -> float:
        """The share of its rows that the latest query has read."""
        return max(float(self._latest.query_progress()) / 100.0, 0.0)

    def first_rows(
        self, select: str, where: str, most: int = 1
    ) -> list[tuple[str, int, tuple[Any, ...]]]:
        """The first rows that meet a condition: file, row, and selected values."""
        for which, name in enumerate(self.names):
            with self.reading(which):
                numbered = self.query(
                    f"row_number() OVER () AS row, {select}", which, where=where
                )
                rows = numbered.order("row").limit(most).fetchall()
            if rows:
                return [(name, int(row[0]), row[1:]) for row in rows]
        return []

    def batches(self, select: str, where: str = "true") -> Iterator[Any]:
        """Arrow record batches in the order of rows, one file after the other."""
        for which in range(len(self.names)):
            with self.reading(which):
                yield from self.query(select, which, where=where).to_arrow_reader(ROWS)

    def about(self) -> int | None:
        """Approximate number of rows, without reading them; None if unknown."""
        if self.format in ("parquet", "arrow"):
            return int(self.query("1").aggregate("count(*)").fetchall()[0][0])
        if any(path.suffix == ".gz" for path in self.paths):
            return None
        ends = (b"\n", b"\r")
        lines = sum(max(map(start.count, ends)) for start in self._starts)
        read = sum(len(start) for start in self._starts)
        return round(sum(path.stat().st_size for path in self.paths) * lines / read)


def write_batches(
    path: Path,
    schema: Any,
    batches: Iterator[Any],
    format: str,
    *,
    gzipped: bool = False,
) -> None:
    """Write Arrow record batches, with DuckDB or, as Arrow, with pyarrow."""
    import pyarrow
    import pyarrow.ipc

    if format == "arrow":
        with (
            pyarrow.OSFile(str(path), "wb") as sink,
            pyarrow.ipc.new_file(sink, schema) as writer,
        ):
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
        # With threads of its own for writing, DuckDB 2.0 waits forever for them once a
        # stream has failed.
        connection.execute("SET async_threads = 0")
    connection.register(
        "batches", pyarrow.RecordBatchReader.from_batches(schema, batches)
    )
    # The file is there and locked; a temporary one of DuckDB's own in its place would
    # be neither.
    connection.execute(
        f"COPY (SELECT * FROM batches) TO {literal(str(path))} ({options}, "
        "USE_TMP_FILE false)"
    )
    connection.close()


def open_source(options: argparse.Namespace, *, typed: bool = False) -> Source:
    """Open the files, patterns of files, or ``-`` that were named."""
    import_duckdb()
    names = []
    paths = []
    for item in options.data:
        if item == "-":
            if sys.stdin.isatty():
                raise InputError(
                    "standard input is a terminal; pipe data into it, or give a file"
                )
            names.append(STDIN)
            paths.append(_spooled(sys.stdin.buffer))
            continue
        if Path(item).exists():
            found = [item]
        else:
            found = sorted(glob.glob(item, recursive=True))
        if not found:
            raise InputError(f"there is no file {item}")
        for name in found:
            if Path(name).is_dir():
                raise InputError(
                    f"{name} is a folder; give files, or a pattern such as "
                    f"'{Path(name) / '*.parquet'}'"
                )
        names += found
        paths += map(_readable_again, map(Path, found))
    _check_different(names, paths)
    formats = {
        options.format
        or ("csv" if name == STDIN else format_of(name, None, "--format"))
        for name in names
    }
    if len(formats) > 1:
        raise InputError(
            f"the files are of different formats ({', '.join(sorted(formats))}); give "
            "those of one at a time"
        )
    return Source(paths, names, formats.pop(), options, typed=typed)


def _check_different(names: list[str], paths: list[Path]) -> None:
    """Complain about a file that would be counted twice."""
    known: set[Path] = set()
    for name, path in zip(names, paths, strict=True):
        real = path.resolve()
        if real in known:
            raise InputError(f"{name} is named twice; name every file once")
        known.add(real)


def _readable_again(path: Path) -> Path:
    """A file; of a pipe, such as ``<(...)`` in a shell, a copy of its content."""
    if path.is_file():
        return path
    with path.open("rb") as pipe:
        return _spooled(pipe)


def _spooled(stream: BinaryIO) -> Path:
    """What a stream holds as a file, because it is read more than once."""
    path = temporary_path(".stdin")
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file)
    return path


def _arrow(paths: list[Path]) -> Any:
    """Arrow files as a dataset, or streams as tables that stay on disk."""
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
