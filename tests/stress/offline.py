"""Everything that a user does, in a process that may not open a connection: run by ``test_offline.py``."""

import contextlib
import socket
import sys
from pathlib import Path

FORBIDDEN = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "urllib",
)


def guarded():
    """Refuse any way to the network that Python has, from now on; the list of what was tried."""
    tried = []

    def guard(event, arguments):
        if event.startswith(FORBIDDEN):
            tried.append(event)
            raise PermissionError(f"{event} {arguments}")

    sys.addaudithook(guard)
    with contextlib.suppress(PermissionError):
        socket.create_connection(("127.0.0.1", 9))
    assert tried, "the guard does not guard"
    tried.clear()
    return tried


def work():
    import numpy as np

    import calspline.export
    from calspline.cli import main

    for name in calspline.__all__:
        getattr(calspline, name)
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p**2).astype(int)
    cal = calspline.SplineCalibrator().fit(p, y)
    calspline.report(
        y, {"raw": p, "calibrated": cal.calibrate(p)}, "report.html", calibrator=cal
    )
    calspline.save(cal, "saved.json")
    calspline.load("saved.json")
    calspline.export.to_sql(cal, "p")
    Path("rows.csv").write_text(
        "score,label\n" + "".join(f"{a},{b}\n" for a, b in zip(p, y, strict=True))
    )
    for line in (
        "fit rows.csv -o model.json",
        "apply model.json rows.csv -o out.csv",
        "evaluate out.csv --score calibrated",
        "report out.csv --score calibrated -o again.html",
        "export model.json --to python -o model.py",
        "demo .",
    ):
        assert main(line.split()) == 0, line


if __name__ == "__main__":
    tried = guarded()
    work()
    assert not tried, tried
    print("offline")
