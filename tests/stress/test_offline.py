import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).with_name("offline.py")


def without_network():
    """How to run a process where there is no network at all; empty on machines that do not allow it."""
    room = ["unshare", "--map-root-user", "--net"]
    allowed = (
        shutil.which("unshare")
        and subprocess.run([*room, "true"], capture_output=True).returncode == 0
    )
    return room if allowed else []


def test_nothing_needs_or_tries_the_network_from_import_to_report(tmp_path):
    done = subprocess.run(
        [*without_network(), sys.executable, SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("offline\n")
