"""Bad input to the command: an exit code and one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.golden.bad_input import (
    FEATURES,
    MANY,
    MANY_THREE,
    ONE_AND_TWO,
    SHUFFLED,
    THREE,
    THREES,
    TWO,
    Book,
    N,
    bad_weights,
    put,
)
from tests.golden.cases_commands import run, write_csv
from tests.golden.messages_files import NOT_MODELS

GOOD = "score,label\n0.1,0\n0.6,1\n0.3,0\n0.8,1\n"
WRONG_OPTIONS = (
    "--smoothing -1",
    "--smoothing much",
    "--scale probit",
    "--method magic",
    "--missing ignore",
    "--multiclass ovo",
    "--positive 7",
    "--score nope",
    "--label nope",
    "--format xls",
    "--encoding klingon",
    "--delimiter ab",
    "--nonsense",
    "--by nope",
    "--group nope",
)


class RefusalError(Exception):
    """What a command said on standard error, with its exit code."""


def table(*rows: str, names: str = "score,label") -> str:
    return "\n".join([names, *rows]) + "\n"


def tell(command: str) -> None:
    code, _, err = run(command)
    if err:
        raise RefusalError(f"exit code {code}\n{err.rstrip()}")


def fit(content: str | bytes, options: str = "") -> None:
    data = content if isinstance(content, bytes) else content.encode()
    Path("data.csv").write_bytes(data)
    tell(f"fit data.csv -o model.json --force {options}")


def fit_columns(options: str = "", **columns: Any) -> None:
    write_csv(Path("data.csv"), **columns)
    tell(f"fit data.csv -o model.json --force {options}")


def apply(content: str) -> None:
    Path("more.csv").write_text(content, encoding="utf-8")
    tell("apply model.json more.csv -o out.csv --force")


def fit_and_apply(content: str, other: str) -> None:
    fit(content)
    apply(other)


def write(book: Book) -> None:
    write_scores(book)
    write_labels_and_weights(book)
    write_classes(book)
    write_groups_and_segments(book)
    write_files(book)
    for wrong in WRONG_OPTIONS:
        book.add(54, wrong, fit, GOOD, wrong)
    book.add(54, "no such file", tell, "fit nothing.csv -o other.json")
    book.add(54, "the output is there", fit_and_tell, "fit data.csv -o model.json")


def fit_and_tell(command: str) -> None:
    fit(GOOD)
    tell(command)


def write_scores(book: Book) -> None:
    book.add(1, "missing scores", fit, "score,label\n0.1,0\n,1\nNaN,1\n0.5,0\n")
    for value in ("inf", "-inf", "1e999"):
        book.add(2, value, fit, table("0.1,0", f"{value},1"))
    book.add(3, "outside [0, 1]", fit, table("0.1,0", "1.5,1"))
    outside = table("0.2,0", "1.5,0")
    book.add(3, "outside [0, 1], to apply to", fit_and_apply, GOOD, outside)
    p, y = TWO
    stray = put(put(p, 3, 1.5), 8, -0.2)
    book.add("3b", "two outside", fit_columns, score=stray, label=y)
    for method in ("spline", "isotonic"):
        option, (many, y_many) = f"--method {method}", MANY
        columns = {"score": 1.0 - many, "label": y_many}
        book.add("3c", f"reversed scores, {method}", fit_columns, option, **columns)
        for number, what, weight in bad_weights():
            if number == "35a":
                columns = {"score": p, "label": y, "w": weight}
                weighted = f"--weight w {option}"
                book.add(number, f"{what}, {method}", fit_columns, weighted, **columns)
    book.add(4, "no rows", fit, "score,label\n")
    book.add(4, "nothing", fit, "")
    book.add(7, "complex", fit, table("0.1,0", "0.5+2j,1"))
    book.add(8, "words", fit, table("0.1,0", "abc,1"))
    book.add(13, "equal scores", fit, table("0.7,0", "0.7,1", "0.7,1"))
    book.add(16, "one row", fit, table("0.1,0"))
    book.add(61, "terminal codes", fit, "score,label\n0.1,0\n\x1b[31mred\x07,1\n")


def write_labels_and_weights(book: Book) -> None:
    book.add(20, "missing labels", fit, table("0.1,0", "0.2,", "0.5,1"))
    book.add(21, "one class", fit, table("0.1,1", "0.2,1"))
    book.add(24, "continuous labels", fit, table("0.1,0.2", "0.2,0.7"))
    book.add(25, "three classes, one column", fit, table("0.1,1", "0.2,2", "0.3,3"))
    book.add(26, "fields left over", fit, table("0.1,0", "0.9,1,3"))
    book.add(26, "fields missing", fit, table("0.1,0", "0.9", "0.3,1"))

    def fit_weights(first: str, second: str) -> None:
        rows = f"0.1,0,{first}", f"0.2,1,{second}"
        fit(table(*rows, names="score,label,w"), "--weight w")

    book.add(30, "negative weights", fit_weights, "1", "-2")
    book.add(31, "weights of zero", fit_weights, "0", "0")
    book.add(32, "weights that are NaN", fit_weights, "1", "nan")
    book.add(32, "infinite weights", fit_weights, "1", "inf")
    book.add(35, "no such column of weights", fit, GOOD, "--weight w")


def classes(*names: str) -> dict[str, Any]:
    return {f"p_{name}": THREE[0][:, k] for k, name in enumerate(names)}


def write_classes(book: Book) -> None:
    stray = classes("0", "1", "2")
    stray["p_0"] = put(stray["p_0"], 4, 1.2)
    what = "one outside, three classes"
    book.add("3b", what, fit_columns, **stray, y=THREE[1])
    what, absent = "labels from 1, a class absent", classes(*"xyz")
    book.add("29a", what, fit_columns, **absent, label=ONE_AND_TWO)
    some = classes("0", "1", "other")
    book.add("29b", "names of some classes", fit_columns, **some, label=THREE[1])
    shuffled = dict(zip("uvw", SHUFFLED.T, strict=True)) | {"label": MANY_THREE[1]}
    book.add("29c", "shuffled columns", fit_columns, "--score u,v,w", **shuffled)
    features = dict(zip("abcdef", FEATURES.T, strict=True)) | {"label": TWO[1]}
    options = "--score a,b,c,d,e,f --scale identity"
    book.add("29d", "features", fit_columns, options, **features)

    def fit_rows(*rows: str) -> None:
        fit(table(".1,.2,.7,2", *rows, names="p_0,p_1,p_2,y"))

    book.add(40, "a row sums to too little", fit_rows, ".2,.2,.2,0", ".5,.1,.4,1")
    book.add(41, "a negative entry", fit_rows, "-.2,.2,1,0")
    book.add(42, "a row of zeros", fit_rows, "0,0,0,0", ".5,.1,.4,1")

    def apply_to_others() -> None:
        fit_rows(".5,.1,.4,1", ".6,.3,.1,0", ".2,.5,.3,1")
        apply(GOOD)

    book.add(45, "a model of other columns", apply_to_others)


def write_groups_and_segments(book: Book) -> None:
    columns = {"score": TWO[0], "label": TWO[1]}
    gap = put(np.arange(N) // 2, 7, "")
    book.add("54a", "missing groups", fit_columns, "--group g", **columns, g=gap)
    one = np.zeros(N, dtype=int)
    book.add("54b", "one group", fit_columns, "--group g", **columns, g=one)

    def apply_without() -> None:
        fit_columns("--by s", **columns, s=THREES)
        apply(GOOD)

    book.add("54d", "no segments to apply to", apply_without)


def write_files(book: Book) -> None:
    book.add(46, "no such model", tell, "apply nothing.json data.csv -o other.csv")

    def apply_bytes(content: bytes) -> None:
        Path("model.json").write_bytes(content)
        apply(GOOD)

    for what, content in NOT_MODELS.items():
        book.add(55, what, apply_bytes, content)
    elsewhere = "apply model.json data.csv -o nowhere/out.csv"
    book.add(58, "a folder that is not there", fit_and_tell, elsewhere)
    book.add(58, "a folder", fit_and_tell, "apply model.json data.csv -o .")
    gaps = GOOD + ",1\n0.5,NA\n"
    book.add(59, "missing values dropped", fit, gaps, "--missing drop")
    book.add(60, "a wrong delimiter", fit, "score label\n0.1 0\n0.9 1\n")
    book.add(60, "latin-1", fit, "score,label\n0.1,né\n0.9,ok\n".encode("latin-1"))
    book.add(60, "utf-16", fit, "score,label\n0.1,0\n0.9,1\n".encode("utf-16"))
    book.add(60, "Parquet named CSV", fit, b"PAR1" + bytes(100))
    book.add(60, "not text", fit, b"\x00\x01\x02" * 50)
