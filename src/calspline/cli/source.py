"""Files read by DuckDB, batch by batch."""

from __future__ import annotations

import atexit
import glob
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calspline.cli.errors import InputError, MissingExtraError, reading_failed
from calspline.cli.formats import TEXT, check_encoding, delimiter_of, format_of, header_of, opening

NARROW, WIDE = 1 << 19, 1 << 17
"""Rows a batch: of the few columns that a fit needs, and of all columns."""
STDIN = "standard input"


def identifier(name: str) -> str:
    """A column's name in SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string in SQL, whatever is in it."""
    return "'" + text.replace("'", "''") + "'"


def engine() -> Any:
    """DuckDB, which streams through pyarrow."""
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(error.name or "duckdb", "cli") from None
    return duckdb


class Source:
    """One or more files of the same columns.

    Text files are read as text, so that what is passed on comes out as it was; ``typed`` asks for
    numbers and dates instead, for outputs that have types.
    """

    def __init__(
        self,
        paths: list[Path],
        names: list[str],
        format: str,
        *,
        delimiter: str | None = None,
        encoding: str | None = None,
        header: bool = True,
        typed: bool = False,
    ) -> None:
        self.paths, self.names, self.format = paths, names, format
        self._duckdb = engine()
        self._connection = self._duckdb.connect()
        self._connection.execute("SET enable_progress_bar = false")
        self._starts = [opening(path) for path in paths]
        for name, start in zip(names, self._starts, strict=True):
            if not start:
                raise InputError(f"{name} is empty")
            if encoding is None and format in (*TEXT, "jsonl"):
                check_encoding(name, start)
        if format in TEXT:
            self._header = self._read_headers(delimiter, encoding, header)
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
        self._delimiter = delimiter or ("\t" if self.format == "tsv" else delimiter_of(self._starts[0], encoding))
        headers = [header_of(start, self._delimiter, encoding, header=header) for start in self._starts]
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

    def query(self, select: str, which: int | None = None, columns: str = "*") -> Any:
        """A relation: what is selected from ``columns`` of the files, or of one of them."""
        connection = self._connection.cursor()  # its own, because another stream may be open
        try:
            if self.format == "arrow":
                connection.register("arrow", _arrow(self.paths if which is None else [self.paths[which]]))
            return connection.sql(f"SELECT {select} FROM (SELECT {columns} FROM {self._scan(which)})")
        except (self._duckdb.Error, OSError, ValueError) as error:
            raise reading_failed(self.name if which is None else self.names[which], error) from error

    def fetch(self, select: str, which: int | None = None, most: int = 1) -> list[tuple[Any, ...]]:
        """A small answer."""
        try:
            return self.query(select, which).limit(most).fetchall()  # type: ignore[no-any-return]
        except self._duckdb.Error as error:
            raise reading_failed(self.name if which is None else self.names[which], error) from error

    def schema(self, select: str) -> Any:
        """The Arrow schema of what :meth:`batches` gives."""
        return self._stream(select, 0, 1).schema

    def batches(self, select: str, size: int) -> Iterator[Any]:
        """Arrow record batches, in the order of the files and of the rows in each.

        One file after the other: a scan of several may take them in any order.
        """
        import pyarrow

        for which, name in enumerate(self.names):
            try:
                yield from self._stream(select, which, size)
            except (self._duckdb.Error, pyarrow.ArrowException, OSError) as error:
                raise reading_failed(name, error) from error

    def _stream(self, select: str, which: int, size: int) -> Any:
        if len(self.paths) == 1:
            return self.query(select, which).to_arrow_reader(size)
        if set(self.query("*", which).columns) != set(self.columns):
            raise InputError(
                f"{self.names[which]} has other columns than {self.names[0]}; give files of the same columns"
            )
        alike = ", ".join(f"CAST({identifier(c)} AS {kind}) AS {identifier(c)}" for c, kind in self.types.items())
        return self.query(select, which, columns=alike).to_arrow_reader(size)

    def place(self, row: int) -> str:
        """Where a row is, counting from 1 in its file."""
        if len(self.paths) == 1:
            return f"row {row + 1} of {self.names[0]}"
        for which, name in enumerate(self.names):
            count = int(self.fetch("count(*)", which)[0][0])
            if row < count:
                return f"row {row + 1} of {name}"
            row -= count
        raise IndexError(row)

    def about(self) -> int | None:
        """About how many rows there are, without reading them; None if that cannot be known."""
        if self.format in ("parquet", "arrow"):
            return int(self.fetch("count(*)")[0][0])
        if any(path.suffix == ".gz" for path in self.paths):
            return None
        lines = sum(start.count(b"\n") for start in self._starts)
        read = sum(len(start) for start in self._starts)
        return round(sum(path.stat().st_size for path in self.paths) * lines / read)


def open_source(
    given: list[str],
    *,
    format: str | None,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    typed: bool = False,
) -> Source:
    """Open files, patterns of files, or ``-``."""
    engine()
    names, paths = [], []
    for item in given:
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
    formats = {format or ("csv" if name == STDIN else format_of(name, None, "--format")) for name in names}
    if len(formats) > 1:
        raise InputError(
            f"the files are of different formats ({', '.join(sorted(formats))}); give those of one at a time"
        )
    return Source(paths, names, formats.pop(), delimiter=delimiter, encoding=encoding, header=header, typed=typed)


def _spooled() -> Path:
    """Standard input as a file, because it is read more than once."""
    if sys.stdin.isatty():
        raise InputError("standard input is a terminal; pipe data into it, or give a file")
    file = tempfile.NamedTemporaryFile(prefix="calspline-", suffix=".stdin")  # noqa: SIM115
    shutil.copyfileobj(sys.stdin.buffer, file)
    file.flush()
    atexit.register(file.close)
    return Path(file.name)


def _arrow(paths: list[Path]) -> Any:
    """Arrow files, or streams, which can be read once and so are opened for every query."""
    import pyarrow
    import pyarrow.dataset
    import pyarrow.ipc

    with paths[0].open("rb") as file:
        if file.read(6) == b"ARROW1":
            return pyarrow.dataset.dataset([str(path) for path in paths], format="ipc")
    readers = [pyarrow.ipc.open_stream(pyarrow.OSFile(str(path))) for path in paths]
    every = (batch for reader in readers for batch in reader)
    return pyarrow.RecordBatchReader.from_batches(readers[0].schema, every)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
