import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calspline._persistence import atomic_path, write_whole

STALE = ".model.json.0123456789abcdef.part"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next_to_write_there(tmp_path):
    (tmp_path / STALE).write_text("half a mod")
    write_whole(tmp_path / "model.json", "whole")
    assert names(tmp_path) == ["model.json"]
    assert (tmp_path / "model.json").read_text() == "whole"


@pytest.mark.parametrize(
    "name",
    [
        ".other.json.0123456789abcdef.part",
        ".model.json.part",
        ".model.json.0123.part",
        "model.json.0123456789abcdef.part",
    ],
)
def test_files_of_others_stay(name, tmp_path):
    (tmp_path / name).write_text("theirs")
    write_whole(tmp_path / "model.json", "whole")
    assert (tmp_path / name).read_text() == "theirs"


@pytest.mark.process
def test_what_another_process_is_writing_stays(tmp_path):
    script = (
        "import sys, pathlib, calspline._persistence as files\n"
        "with files.atomic_path(pathlib.Path(sys.argv[1])) as part:\n"
        "    print(part, flush=True)\n"
        "    sys.stdin.read()\n"
        "    part.write_text('of the other')\n"
    )
    target = tmp_path / "model.json"
    with subprocess.Popen(
        [sys.executable, "-c", script, target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        part = other.stdout.readline().strip()
        write_whole(target, "ours")
        assert os.path.exists(part)
        assert target.read_text() == "ours"
        other.communicate("")
    assert other.returncode == 0
    assert target.read_text() == "of the other"
    assert names(tmp_path) == ["model.json"]


def test_a_link_in_the_place_of_a_leftover_leads_nowhere(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / STALE).symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "model.json", "whole")
    assert (tmp_path / "precious").read_text() == "precious"


def test_writers_of_one_file_at_the_same_time_do_not_harm_each_other(tmp_path):
    target = tmp_path / "model.json"
    texts = [f"{i} " * 1000 for i in range(8)]

    def write(text):
        for _ in range(60):
            write_whole(
                target, text
            )  # sweeps while others have made their files and not yet locked them
            assert target.read_text() in texts

    with ThreadPoolExecutor(len(texts)) as threads:
        list(threads.map(write, texts))
    assert names(tmp_path) == ["model.json"]


def test_an_error_names_the_file_that_was_wanted(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        write_whole(tmp_path / "nowhere" / "model.json", "whole")
    assert missing.value.filename == str(tmp_path / "nowhere" / "model.json")
    with (
        pytest.raises(OSError, match="No space") as full,
        atomic_path(tmp_path / "model.json"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert full.value.filename == str(tmp_path / "model.json")
    with pytest.raises(IsADirectoryError) as folder:
        write_whole(tmp_path, "whole")
    assert folder.value.filename == str(tmp_path)
    assert folder.value.filename2 is None
    assert names(tmp_path) == []


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444, 0o644], ids=oct)
def test_a_file_that_is_replaced_passes_its_permissions_on(mode, tmp_path):
    path = tmp_path / "model.json"
    path.write_text("old")
    path.chmod(mode)
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert mode_of(path) == mode


def test_nobody_else_can_read_the_new_file_while_it_is_written(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("old")
    path.chmod(0o600)
    with atomic_path(path) as part:
        assert mode_of(part) == 0o600
        part.write_text("new")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_that_is_replaced_keeps_its_owner_and_group(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    write_whole(path, "new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode_of(path)) == (12345, 23456, 0o640)


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another")
def test_a_group_that_cannot_be_kept_gives_its_permissions_to_nobody_else():
    another = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from calspline._persistence import write_whole\n"
        "os.setgid(12345), os.setuid(12345)\n"
        "write_whole(Path(sys.argv[1]), 'new')\n"
    )
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        os.chmod(folder, 0o777)
        path = Path(folder) / "model.json"
        path.write_text("old")
        os.chown(path, 0, 23456)
        path.chmod(0o664)
        subprocess.run([sys.executable, "-c", another, path], check=True)
        assert path.read_text() == "new"
        assert (path.stat().st_gid, mode_of(path)) == (12345, 0o644)


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path):
    (tmp_path / "releases").mkdir()
    real = tmp_path / "releases" / "model-7.json"
    real.write_text("old")
    real.chmod(0o600)
    (tmp_path / "latest.json").symlink_to("releases/model-7.json")
    (tmp_path / "model.json").symlink_to("latest.json")
    write_whole(tmp_path / "model.json", "new")
    assert (tmp_path / "model.json").is_symlink()
    assert (tmp_path / "latest.json").is_symlink()
    assert real.read_text() == "new"
    assert mode_of(real) == 0o600
    assert names(tmp_path / "releases") == ["model-7.json"]


def test_a_link_to_a_file_that_is_not_there_yet_makes_it(tmp_path):
    (tmp_path / "model.json").symlink_to("real.json")
    write_whole(tmp_path / "model.json", "new")
    assert (tmp_path / "model.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"


def test_a_link_to_itself_is_an_error(tmp_path):
    (tmp_path / "model.json").symlink_to("model.json")
    with pytest.raises(OSError, match="symbolic links") as found:
        write_whole(tmp_path / "model.json", "new")
    assert found.value.filename == str(tmp_path / "model.json")
    assert (tmp_path / "model.json").is_symlink()


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "new" * 100_000)
    reader.join()
    assert read == ["new" * 100_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


class _InterruptAtLine:
    """A trace function that raises KeyboardInterrupt at the given line of what runs in ``calspline._persistence``."""

    def __init__(self, which):
        self.left = which

    def __call__(self, frame, event, _):
        if frame.f_globals.get("__name__") != "calspline._persistence":
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def _write_and_be_interrupted(path, which):
    """Whether an interrupt at this line came."""
    traced = sys.gettrace()  # by whoever measures coverage
    sys.settrace(_InterruptAtLine(which))
    try:
        write_whole(path, "new")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(traced)
    return False


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of files that were left open
def test_an_interrupt_at_any_line_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "model.json"
    n_lines = 0
    while True:
        path.write_text("old")
        if not _write_and_be_interrupted(path, n_lines + 1):
            break
        n_lines += 1
        assert [one.name for one in tmp_path.iterdir()] == [path.name], n_lines
        assert path.read_text() in ("old", "new")
    assert n_lines > 20
    assert path.read_text() == "new"
