"""A disk that is full, and a folder that nobody may write to: one clear line, the old file as it was, no other."""

import os
import subprocess

import pytest

pytestmark = pytest.mark.process

SMALL = 'mount -t tmpfs -o size=8k none "$1" && shift && exec "$@"'
"""Two pages: one for the old file, one free."""

PYTHON = {
    "save": "calspline.save(calspline.load(sys.argv[1]), 'new')",
    "save-over": "calspline.save(calspline.load(sys.argv[1]), 'old')",
    "save-histogram": "calspline.save(calspline.load(sys.argv[2]), 'new')",
    "report": "calspline.report([0, 1, 1, 0] * 50, {'raw': [0.1, 0.6, 0.7, 0.4] * 50}, 'new')",
}
COMMANDS = {
    "fit": "fit {rows} -o new",
    "fit-over": "fit {rows} -o old --force",
    "apply-csv": "apply {model} {rows} -o new.csv",
    "apply-over": "apply {model} {rows} -o old --output-format csv --force",
    "apply-parquet": "apply {model} {rows} -o new.parquet",
    "apply-jsonl": "apply {model} {rows} -o new.jsonl",
    "apply-arrow": "apply {model} {rows} -o new.arrow",
    "report": "report {csv} -o new.html",
    "demo": "demo .",
}


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """A small disk and what to start a process with that sees it; None where that is not allowed."""
    disk = tmp_path_factory.mktemp("disk")
    for unshare in (["unshare", "-m"], ["unshare", "-Urm"]):
        prefix = [*unshare, "sh", "-c", SMALL, "small", str(disk)]
        try:
            if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
                return disk, prefix
        except FileNotFoundError:
            break
    return None


@pytest.fixture
def full(small_disk, run_fork, tmp_path):
    """Run a process whose folder is on a small disk, or which may write small files only; what it left there."""
    left = tmp_path / "left"
    left.mkdir()

    def run(*arguments, **more):
        if small_disk is not None:
            disk, prefix = small_disk
            return run_fork(
                *arguments, prefix=prefix, small=disk, folder=left, **more
            ), left
        (left / "old").write_text("old")
        return run_fork(*arguments, folder=left, room=4096, **more), left

    return run


def only_the_old(folder):
    return {path.name: path.read_text() for path in folder.iterdir()} == {"old": "old"}


@pytest.mark.parametrize("statement", PYTHON)
def test_a_full_disk_is_an_error_that_names_the_file(statement, full, inputs):
    done, left = full(
        "-c",
        f"import sys, calspline; {PYTHON[statement]}",
        inputs.model,
        inputs.histogram,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("OSError: [Errno ")
    assert done.stderr.splitlines()[-1].endswith(
        "'old'" if statement == "save-over" else "'new'"
    )
    assert only_the_old(left)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_no_file(name, full, inputs):
    arguments = [word.format(**vars(inputs)) for word in COMMANDS[name].split()]
    done, left = full("-m", "calspline", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (
        "old" in done.stderr
        if "over" in name
        else "new" in done.stderr or "calspline-demo.html" in done.stderr
    )
    assert only_the_old(left)


@pytest.mark.parametrize(
    "arguments", ["evaluate {csv}", "apply {model} {csv} -o -", "fit {csv} -o -"]
)
def test_a_standard_output_that_is_full_is_one_line(arguments, run_fork, inputs):
    words = [word.format(**vars(inputs)) for word in arguments.split()]
    done = run_fork("-m", "calspline", *words, stdout="/dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "standard output: No space left on device" in done.stderr


@pytest.mark.parametrize(
    "arguments", ["apply {model} {csv} -o -", "apply {model} - -o new.csv"]
)
def test_a_full_disk_for_temporary_files_is_one_line(arguments, full, inputs, tmp_path):
    words = [word.format(**vars(inputs)) for word in arguments.split()]
    script = (
        "import os, sys; os.environ['TMPDIR'] = os.getcwd(); os.chdir(sys.argv.pop(1))\n"
        "from calspline.cli import main; sys.exit(main())"
    )
    (tmp_path / "work").mkdir()
    done, left = full("-c", script, tmp_path / "work", *words, stdin=inputs.csv)
    assert (
        done.returncode,
        (tmp_path / "stdout").read_text(),
        done.stderr.count("\n"),
    ) == (2, "", 1)
    assert only_the_old(left)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.fixture
def read_only(run_fork, tmp_path):
    """Run a process in a folder that it may not write to; root loses the right to do so all the same."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    (folder / "old").write_text("old")
    folder.chmod(0o555)
    drop = (
        ["setpriv", "--bounding-set", "-dac_override", "--"]
        if os.geteuid() == 0
        else []
    )
    yield lambda *arguments: (run_fork(*arguments, prefix=drop, folder=folder), folder)
    folder.chmod(0o755)


@pytest.mark.parametrize("statement", ["save-over", "report"])
def test_a_folder_that_is_read_only_is_an_error_that_names_the_file(
    statement, read_only, inputs
):
    done, folder = read_only(
        "-c",
        f"import sys, calspline; {PYTHON[statement]}",
        inputs.model,
        inputs.histogram,
    )
    assert done.returncode == 1
    named = "'old'" if statement == "save-over" else "'new'"
    assert (
        done.stderr.splitlines()[-1]
        == f"PermissionError: [Errno 13] Permission denied: {named}"
    )
    assert only_the_old(folder)


@pytest.mark.parametrize("name", ["fit-over", "apply-csv", "demo"])
def test_a_folder_that_is_read_only_is_one_line(name, read_only, inputs):
    done, folder = read_only(
        "-m",
        "calspline",
        *(word.format(**vars(inputs)) for word in COMMANDS[name].split()),
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Permission denied" in done.stderr
    assert only_the_old(folder)
