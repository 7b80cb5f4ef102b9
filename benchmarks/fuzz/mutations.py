"""Valid files, spoilt at random: their bytes, or what is in them."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from calspline._persistence import _checksum

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    0.5,
    -0.0,
    1e308,
    -1e308,
    5e-324,
    10**30,
    -(10**400),
    "",
    "x",
    "auto",
    "infinity",
    "object",
    "<U400000000",
    "M8[s]",
    "V1000000000",
    "\ud800",
    "__class__",
    [],
    {},
    [[]],
    [1, 2],
    [0.0, 1e-320],
    {"dtype": "object", "values": [0, 1]},
)
BYTES = (
    b"\x00",
    b"\xff",
    b"\n",
    b'"',
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b"-",
    b"e999",
    b"NaN",
    b"1e400",
    b"\xef\xbb\xbf",
    b"'",
)


def spoilt_bytes(random: Random, content: bytes) -> bytes:
    """Bytes changed, dropped, doubled, moved or cut off, in one to four places."""
    out = bytearray(content)
    for _ in range(random.randint(1, 4)):
        i, length = random.randrange(len(out) + 1), random.choice((1, 1, 2, 8, 64))
        how = random.randrange(6)
        if how == 0:
            out[i : i + length] = random.choice(BYTES)
        elif how == 1:
            out[i:i] = random.choice(BYTES) * length
        elif how == 2:
            del out[i : i + length]
        elif how == 3:
            out[i:i] = out[random.randrange(len(out) + 1) :][:length]
        elif how == 4:
            out[i : i + length] = random.randbytes(length)
        elif random.random() < 0.2:
            del out[i:]
    return bytes(out)


def spoilt_model(random: Random, body: dict[str, Any]) -> bytes:
    """A model with other values in one to four places, and a checksum that is right again."""
    body = copy.deepcopy(body)
    body.pop("checksum", None)
    for _ in range(random.randint(1, 4)):
        _spoil(random, body)
    try:
        checksum = _checksum(body)
    except (ValueError, UnicodeEncodeError):
        checksum = "sha256:" + "0" * 64
    return json.dumps(body | {"checksum": checksum}).encode("utf-8", "replace")


def _spoil(random: Random, node: Any) -> None:
    """Walk down to somewhere, and put something else there."""
    while True:
        keys: list[Any] = (
            list(node) if isinstance(node, dict) else list(range(len(node)))
        )
        if not keys:
            return
        if random.random() < 0.8:  # what is deep inside is checked last
            keys = [
                key for key in keys if isinstance(node[key], (dict, list)) and node[key]
            ] or keys
        key = random.choice(keys)
        if isinstance(node[key], (dict, list)) and node[key] and random.random() < 0.9:
            node = node[key]
            continue
        how = random.randrange(8)
        if how == 0:
            del node[key]
        elif how == 1 and isinstance(node, list):
            node[key:key] = [node[key]] * random.choice((1, 2, 100))
        elif how == 2 and isinstance(node, list):
            random.shuffle(node)
        elif how == 3 and isinstance(node, dict):
            node[random.choice(("extra", "", "kind"))] = node[key]
        elif how == 4 and type(node[key]) in (int, float):
            node[key] = _other_number(random, node[key])
        else:
            node[key] = copy.deepcopy(random.choice(VALUES))
        return


def _other_number(random: Random, value: float) -> float:
    try:
        return random.choice(
            (
                -value,
                value * 1e10,
                value * 1e300,
                value + 1,
                value * 1e-300,
                int(value),
                float(value),
            )
        )
    except OverflowError:
        return 0.0


def spoilt_table(random: Random, rows: list[dict[str, Any]], format: str) -> bytes:
    """A CSV or JSONL file with odd names, odd values, odd lines, and now and then odd bytes."""
    rows = copy.deepcopy(rows)
    words: tuple[Any, ...] = (
        *VALUES[:13],
        "nan",
        "NULL",
        "1e999",
        "0x10",
        "1,5",
        '"',
        "a\nb",
        "é",
        "0" * 5000,
        "-inf",
    )
    for _ in range(random.randint(0, 4)):
        row = random.choice(rows)
        row[random.choice(list(row) or ["score"])] = random.choice(words)
        if random.random() < 0.1:
            row.pop(random.choice(list(row)))
        if random.random() < 0.1:
            row[str(random.choice(words))] = random.choice(words)
    if format == "jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        names = list(rows[0])
        lines = [
            names,
            *([_field(row.get(name, "")) for name in names] for row in rows),
        ]
        text = "".join(
            ",".join(line) + random.choice(("\n",) * 50 + ("\r\n", ",\n", "\n\n"))
            for line in lines
        )
    content = text.encode("utf-8", "replace")
    return spoilt_bytes(random, content) if random.random() < 0.5 else content


def _field(value: Any) -> str:
    return "" if value is None else str(value)
