"""Outputs that appear whole or not at all, and never over a file that is there."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from calspline.cli.console import InputError, one_line
from calspline.cli.files import import_duckdb, literal
from calspline.files import atomic_path

STDOUT = "-"


def writing_failed(name: str, error: Exception) -> InputError:
    """What went wrong with an output, which is not there."""
    reason = getattr(error, "strerror", None) or re.sub(r"^[\w ]+ Error: ", "", str(error)).split("\n")[0]
    return InputError(one_line(f"cannot write {name}: {reason}; nothing was written"))


def check_free(name: str, *, force: bool) -> None:
    """Complain before any work if an output cannot be written where it is wanted."""
    path = Path(name)
    if name == STDOUT:
        return
    if path.is_dir():
        raise InputError(f"{name} is a folder; give the name of a file")
    if path.exists() and not force:
        raise InputError(f"{name} is there already; choose another name, or write over it with --force")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {name}: there is no folder {path.parent}")


@contextmanager
def whole(name: str, *, force: bool) -> Iterator[Path]:
    """A path to write to; moved into place, or copied to standard output, once all is well."""
    if name == STDOUT:
        with tempfile.TemporaryDirectory(prefix="calspline-") as folder:
            path = Path(folder) / "output"
            yield path
            with path.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    target = Path(name)
    try:
        with atomic_path(target) as part:
            yield part
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            _move(part, target, force=force)
    except OSError as error:
        raise writing_failed(name, error) from error


def _move(part: Path, target: Path, *, force: bool) -> None:
    if force:
        part.replace(target)
        return
    try:
        os.link(part, target)  # unlike a rename, it fails if somebody made the file meanwhile
    except FileExistsError:
        raise InputError(f"{target} has appeared meanwhile; write over it with --force") from None
    except OSError:
        part.replace(target)


def write_text(name: str, content: str | bytes, *, force: bool) -> None:
    """Write a small output."""
    data = content.encode() if isinstance(content, str) else content
    with whole(name, force=force) as path:
        path.write_bytes(data)


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
