import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from calspline.persistence import atomic_path, write_whole

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
        "import sys, pathlib, calspline.persistence as files\n"
        "with files.atomic_path(pathlib.Path(sys.argv[1])) as part:\n"
        "    print(part, flush=True)\n"
        "    sys.stdin.read()\n"
        "    part.write_text('of the other')\n"
    )
    target = tmp_path / "model.json"
    with subprocess.Popen(
        [sys.executable, "-c", script, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
            write_whole(target, text)  # sweeps while others have made their files and not yet locked them
            assert target.read_text() in texts

    with ThreadPoolExecutor(len(texts)) as threads:
        list(threads.map(write, texts))
    assert names(tmp_path) == ["model.json"]


def test_an_error_names_the_file_that_was_wanted(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        write_whole(tmp_path / "nowhere" / "model.json", "whole")
    assert missing.value.filename == str(tmp_path / "nowhere" / "model.json")
    with pytest.raises(OSError, match="No space") as full, atomic_path(tmp_path / "model.json"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert full.value.filename == str(tmp_path / "model.json")
    with pytest.raises(IsADirectoryError) as folder:
        write_whole(tmp_path, "whole")
    assert folder.value.filename2 == str(tmp_path)
    assert names(tmp_path) == []


class _InterruptAtLine:
    """A trace function that raises KeyboardInterrupt at the given line of what runs in ``calspline.persistence``."""

    def __init__(self, which):
        self.left = which

    def __call__(self, frame, event, _):
        if frame.f_globals.get("__name__") != "calspline.persistence":
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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of files that were left open
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
