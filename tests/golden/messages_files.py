"""Files that are no models, and places that cannot be written."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from tests.golden.bad_input import MAKE, NEW, PROBLEMS, THREES, TWO, Book

from calspline import SplineCalibrator, load, save
from calspline.export import to_sql

NOT_MODELS = {
    "not JSON": b"score,label\n0.1,0\n",
    "half a file": b'{"format": "calspl',
    "nothing": b"",
    "another format": b'{"format": "other"}',
    "another version": b'{"format": "calspline", "version": 99}',
    "NaN": b'{"format": NaN}',
    "a key twice": b'{"format": "calspline", "format": "calspline", "version": 1}',
    "a list": b"[1, 2]",
    "deep": b"[" * 100_000,
    "a pickle": pickle.dumps({"a": 1}),
}


def write(book: Book) -> None:
    for name, make in MAKE.items():
        book.add(46, f"{name}: save before fit", save, make(), "unfitted.json")
        for problem, (p, y) in PROBLEMS.items():
            fitted = make().fit(p, y)
            book.add(55, f"{name}, {problem}: half a file", load_half, fitted)
            book.add(55, f"{name}, {problem}: edited", load_edited, fitted)
        fitted = make().fit(*TWO)
        elsewhere = "nowhere/model.json"
        book.add(58, f"{name}: a folder that is not there", save, fitted, elsewhere)
        book.add(58, f"{name}: a folder", save, fitted, ".")
    for what, content in NOT_MODELS.items():
        book.add(55, what, load_bytes, content)
    book.add(55, "a file that is not there", load, "nothing.json")
    book.add(55, "a text to save", save, "model", "model.json")
    labelled = SplineCalibrator().fit(TWO[0], np.array([b"a", b"b"])[TWO[1]])
    book.add(55, "labels that JSON cannot hold", save, labelled, "model.json")
    book.add(54, "a dialect that is unknown", to_sql, fitted, "p", dialect="oracle")
    book.add(54, "a name that is empty", to_sql, fitted, "")
    write_segments(book)


def write_segments(book: Book) -> None:
    """A model with segments, out of a file."""

    def loaded() -> Any:
        save(SplineCalibrator().fit(*TWO, by=THREES), "segments.json")
        return load("segments.json")

    def calibrate(by: Any) -> Any:
        return loaded().calibrate(TWO[0], by=by)

    book.add("54d", "segments never seen", calibrate, NEW)
    book.add("54d", "SQL without segments", lambda: to_sql(loaded(), "p"))
    book.add("54f", "texts for numbers", calibrate, THREES.astype(str))


def load_bytes(content: bytes) -> Any:
    Path("model.json").write_bytes(content)
    return load("model.json")


def load_half(calibrator: Any) -> Any:
    save(calibrator, "half.json")
    content = Path("half.json").read_bytes()
    Path("half.json").write_bytes(content[:40])
    return load("half.json")


def load_edited(calibrator: Any) -> Any:
    save(calibrator, "edited.json")
    text = Path("edited.json").read_text(encoding="utf-8")
    edited = text.replace('"classes"', '"klasses"')
    Path("edited.json").write_text(edited, encoding="utf-8")
    return load("edited.json")
