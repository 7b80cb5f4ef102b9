"""Rows of a file as checked arrays: a complaint names the column, the row and the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.cli.errors import InputError
from calspline.cli.labels import MISSING, Labels, label_sql
from calspline.cli.source import NARROW, Source, identifier, literal
from calspline.scores import ROW_SUM_TOLERANCE

HELPER = "calspline helper "
NAMED_ROWS = 5


@dataclass(frozen=True)
class Wanted:
    """What to read: columns of scores, and of labels and weights where they are needed."""

    source: Source
    scores: tuple[str, ...]
    labels: Labels | None = None
    weight: str | None = None
    missing: str = "error"
    margins: bool = False
    sums: bool = True

    def select(self) -> str:
        """The columns as SQL, under names of our own."""
        numbers = [*self.scores, *([self.weight] if self.weight else [])]
        items = [f"{_number(name)} AS {identifier(f'{HELPER}{i}')}" for i, name in enumerate(numbers)]
        words = [_word(name) for name in numbers if self.source.types[name] == "VARCHAR"]
        if words:
            items.append(f"coalesce({', '.join(words)}, NULL) AS {identifier(f'{HELPER}word')}")
        if self.labels is not None:
            items.append(f"{label_sql(self.labels.column)} AS {identifier(f'{HELPER}label')}")
        return ", ".join(items)


@dataclass(frozen=True)
class Rows:
    """A batch of checked rows. ``present`` tells rows of the file that are here."""

    scores: Array
    codes: NDArray[np.int64] | None
    weight: Array | None
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.scores)


class Reader:
    """Checks batch after batch, and keeps count of where it is."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._source = wanted.source
        self.n_rows = 0
        self.n_missing = 0
        self._lost: list[int] = []
        self._lost_column = ""

    def batches(self) -> Iterator[Rows]:
        """All rows, checked."""
        for batch in self._source.batches(self._wanted.select(), NARROW):
            yield self.check(batch)
        self.finish()

    def check(self, batch: Any) -> Rows:
        """The rows of one Arrow batch."""
        want, n = self._wanted, batch.num_rows
        names = [*want.scores, *([want.weight] if want.weight else [])]
        numbers = np.empty((n, len(names)))
        for i in range(len(names)):
            numbers[:, i] = batch.column(f"{HELPER}{i}").to_numpy(zero_copy_only=False)
        codes = None if want.labels is None else want.labels.codes(batch.column(f"{HELPER}label"))
        if f"{HELPER}word" in batch.schema.names:
            self._check_words(batch.column(f"{HELPER}word"))
        lacking = np.isnan(numbers)
        present: NDArray[np.bool_] = np.asarray(~lacking.any(axis=1))
        if codes is not None:
            present &= codes >= 0
        if not present.all():
            self._note_missing(lacking, codes, names, present)
        rows = np.flatnonzero(present) + self.n_rows
        self.n_rows += n
        values = numbers if present.all() else numbers[present]
        k = len(want.scores)
        scores, weight = values[:, :k], values[:, k] if want.weight else None
        self._check_scores(scores, rows)
        if weight is not None:
            self._check_weight(weight, rows)
        return Rows(scores[:, 0] if k == 1 else scores, None if codes is None else codes[present], weight, present)

    def finish(self) -> None:
        """Complain about missing values, now that all of them are known."""
        if not self._lost or self._wanted.missing != "error":
            return
        places = [self._source.place(row).partition(" of ") for row in self._lost]
        file = places[0][2]
        same = [row.removeprefix("row ") for row, _, name in places if name == file]
        listed = ", ".join(same) + (" and more" if self.n_missing > len(same) else "")
        raise InputError(
            f"column {self._lost_column!r} of {file} has missing values: {self.n_missing} in all, "
            f"in row{'s' if len(same) > 1 else ''} {listed} (the first row of data is 1); "
            "leave them out with --missing drop"
        )

    def _note_missing(
        self,
        lacking: NDArray[np.bool_],
        codes: NDArray[np.int64] | None,
        names: Sequence[str],
        present: NDArray[np.bool_],
    ) -> None:
        if not self._lost_column:
            first = int(np.argmin(present))
            self._lost_column = next((n for i, n in enumerate(names) if lacking[first, i]), "")
            if not self._lost_column and self._wanted.labels is not None:
                self._lost_column = self._wanted.labels.column
        self.n_missing += int((~present).sum())
        room = NAMED_ROWS - len(self._lost)
        self._lost += [int(at) + self.n_rows for at in np.flatnonzero(~present)[:room]]

    def _check_words(self, words: Any) -> None:
        """Complain about the first value that is neither a number nor missing."""
        if words.null_count < len(words):
            row = int(np.argmax(words.is_valid().to_numpy(zero_copy_only=False)))
            raise InputError(f"{self._source.place(row + self.n_rows)}: {words[row]}, which is not a number")

    def _check_scores(self, scores: Array, rows: NDArray[np.intp]) -> None:
        if not scores.size:
            return
        low, high = float(scores.min()), float(scores.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            self._refuse(np.isinf(scores), scores, rows, "must be finite")
        if self._wanted.margins:
            return
        if low < 0.0 or high > 1.0:
            self._refuse(
                (scores < 0.0) | (scores > 1.0), scores, rows,
                "must be a probability in [0, 1]; to calibrate margins, such as a decision_function gives, fit with "
                "--transform identity",
            )  # fmt: skip
        if scores.shape[1] > 1 and self._wanted.sums:
            sums = scores.sum(axis=1)
            bad = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
            if bad.any():
                at = int(np.argmax(bad))
                columns = ", ".join(self._wanted.scores[:3]) + (", ..." if len(self._wanted.scores) > 3 else "")
                raise InputError(
                    f"{self._source.place(int(rows[at]))}: the scores ({columns}) must sum to one within "
                    f"{ROW_SUM_TOLERANCE:g}, and sum to {sums[at]:.6g}"
                )

    def _refuse(self, bad: NDArray[np.bool_], values: Array, rows: NDArray[np.intp], why: str) -> NoReturn:
        at, column = (int(i) for i in np.argwhere(bad)[0])
        name, value = self._wanted.scores[column], values[at, column]
        raise InputError(f"{self._source.place(int(rows[at]))}: {name} is {value:g}; it {why}")

    def _check_weight(self, weight: Array, rows: NDArray[np.intp]) -> None:
        bad = np.isinf(weight) | (weight < 0.0)
        if bad.any():
            at = int(np.argmax(bad))
            raise InputError(
                f"{self._source.place(int(rows[at]))}: {self._wanted.weight} is {weight[at]:g}; "
                "a weight must be finite and not negative"
            )


def _number(name: str) -> str:
    return f"TRY_CAST({identifier(name)} AS DOUBLE)"


def _word(name: str) -> str:
    """What stands where a number should, as a sentence; NULL where all is well."""
    column = identifier(name)
    absent = ", ".join(map(literal, MISSING))
    before, after = literal(f"{name} is '"), literal("'")
    said = f"concat({before}, {column}, {after})"
    return f"CASE WHEN trim({column}) NOT IN ({absent}) AND {_number(name)} IS NULL THEN {said} END"


def gathered(wanted: Wanted) -> tuple[Array, NDArray[np.int64], Array | None, Reader]:
    """All rows at once, for what cannot be done in a stream."""
    reader = Reader(wanted)
    parts = list(reader.batches())
    if not sum(map(len, parts)):
        raise InputError(f"{wanted.source.name} has no rows of data")
    scores = np.concatenate([part.scores for part in parts])
    codes = np.concatenate([part.codes for part in parts if part.codes is not None])
    weight = np.concatenate([part.weight for part in parts if part.weight is not None]) if wanted.weight else None
    if weight is not None and not weight.any():
        raise InputError(f"column {wanted.weight!r} of {wanted.source.name}: the weights are all zero")
    return scores, codes, weight, reader
