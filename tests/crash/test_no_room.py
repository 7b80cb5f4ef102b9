"""A disk that is full, and a folder that nobody may write to: one clear line, the old file as it was, no other."""

import os
import resource
import subprocess
import sys

import pytest

SMALL = """
mount -t tmpfs -o size=8k none "$DISK" && printf old > "$DISK/old" || exit 99
cd "$DISK" && "$@"
code=$?
cp -a "$DISK/." "$LEFT"
exit $code
"""
"""Two pages: one for the old file, one free. What is left on it is copied, as it goes with the shell."""

PYTHON = {
    "save": "calspline.save(calspline.load(sys.argv[1]), 'new')",
    "save-over": "calspline.save(calspline.load(sys.argv[1]), 'old')",
    "save-histogram": "calspline.save(calspline.load(sys.argv[2]), 'new')",
    "report": "calspline.report('new', [0, 1, 1, 0] * 50, {'raw': [0.1, 0.6, 0.7, 0.4] * 50})",
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


def of_its_own():
    """A shell in which disks may be mounted that nobody else sees; None where that is not allowed."""
    for unshare in (["unshare", "-m"], ["unshare", "-Urm"]):
        try:
            if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0:
                return [*unshare, "sh", "-c", SMALL, "small"]
        except FileNotFoundError:
            return None
    return None


@pytest.fixture(scope="module")
def small_disk():
    return of_its_own()


@pytest.fixture
def full(small_disk, tmp_path):
    """Run a process whose folder is on a small disk, or which may write small files only; what it left there."""
    disk, left = tmp_path / "disk", tmp_path / "left"
    disk.mkdir()
    left.mkdir()

    def run(*arguments):
        environment = os.environ | {"DISK": str(disk), "LEFT": str(left)}
        command = [sys.executable, *map(str, arguments)]
        if small_disk is not None:
            done = subprocess.run([*small_disk, *command], capture_output=True, text=True, env=environment, check=False)
            assert done.returncode != 99, done.stderr
            return done, left
        (disk / "old").write_text("old")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        done = subprocess.run(command, capture_output=True, text=True, cwd=disk, preexec_fn=limit, check=False)
        return done, disk

    return run


def only_the_old(folder):
    return {path.name: path.read_text() for path in folder.iterdir()} == {"old": "old"}


@pytest.mark.parametrize("statement", PYTHON)
def test_a_full_disk_is_an_error_that_names_the_file(statement, full, inputs):
    done, left = full("-c", f"import sys, calspline; {PYTHON[statement]}", inputs.model, inputs.histogram)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("OSError: [Errno ")
    assert done.stderr.splitlines()[-1].endswith("'old'" if statement == "save-over" else "'new'")
    assert only_the_old(left)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_no_file(name, full, inputs):
    arguments = [word.format(**vars(inputs)) for word in COMMANDS[name].split()]
    done, left = full("-m", "calspline", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "old" in done.stderr if "over" in name else "new" in done.stderr or "calspline-demo.html" in done.stderr
    assert only_the_old(left)


@pytest.mark.parametrize("arguments", ["evaluate {csv}", "apply {model} {csv} -o -", "fit {csv} -o -"])
def test_a_standard_output_that_is_full_is_one_line(arguments, alone, inputs):
    words = [word.format(**vars(inputs)) for word in arguments.split()]
    with open("/dev/full", "wb") as place:
        done = subprocess.run(
            [sys.executable, "-m", "calspline", *words], stdout=place, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "standard output: No space left on device" in done.stderr


@pytest.mark.parametrize("arguments", ["apply {model} {csv} -o -", "apply {model} - -o new.csv"])
def test_a_full_disk_for_temporary_files_is_one_line(arguments, full, inputs, tmp_path):
    words = [word.format(**vars(inputs)) for word in arguments.split()]
    script = (
        "import os, sys; os.environ['TMPDIR'] = os.getcwd(); place = sys.argv.pop(1)\n"
        "os.dup2(os.open(sys.argv.pop(1), os.O_RDONLY), 0); os.chdir(place)\n"
        "from calspline.cli import main; sys.exit(main())"
    )
    (tmp_path / "work").mkdir()
    done, left = full("-c", script, tmp_path / "work", inputs.csv, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert only_the_old(left)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.fixture
def read_only(tmp_path):
    """Run a process in a folder that it may not write to; root loses the right to do so all the same."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    (folder / "old").write_text("old")
    folder.chmod(0o555)
    drop = ["setpriv", "--bounding-set", "-dac_override", "--"] if os.geteuid() == 0 else []

    def run(*arguments):
        done = subprocess.run(
            [*drop, sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=folder, check=False
        )
        return done, folder

    yield run
    folder.chmod(0o755)


@pytest.mark.parametrize("statement", ["save-over", "report"])
def test_a_folder_that_is_read_only_is_an_error_that_names_the_file(statement, read_only, inputs):
    done, folder = read_only("-c", f"import sys, calspline; {PYTHON[statement]}", inputs.model, inputs.histogram)
    assert done.returncode == 1
    named = "'old'" if statement == "save-over" else "'new'"
    assert done.stderr.splitlines()[-1] == f"PermissionError: [Errno 13] Permission denied: {named}"
    assert only_the_old(folder)


@pytest.mark.parametrize("name", ["fit-over", "apply-csv", "demo"])
def test_a_folder_that_is_read_only_is_one_line(name, read_only, inputs):
    done, folder = read_only("-m", "calspline", *(word.format(**vars(inputs)) for word in COMMANDS[name].split()))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Permission denied" in done.stderr
    assert only_the_old(folder)
