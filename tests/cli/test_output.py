import os
import pty
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from tests.cli.conftest import command, write

from calspline.cli.files import write_batches

GOOD = "score,label\n0.1,0\n0.6,1\n0.3,0\n0.8,1\n"


@pytest.fixture
def model(done, tmp_path):
    (tmp_path / "data.csv").write_text(GOOD)
    done("fit", "data.csv", "-o", "model.json")
    return tmp_path / "model.json"


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "data.csv"],
        ["apply", "model.json", "data.csv"],
        ["report", "data.csv"],
        ["export", "model.json", "--to", "c"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_file_that_is_there_is_written_over_only_by_force(
    arguments, model, run, done, tmp_path
):
    (tmp_path / "out.csv").write_text("precious")
    found = run(*arguments, "-o", "out.csv")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "--force" in found.err
    assert (tmp_path / "out.csv").read_text() == "precious"
    done(*arguments, "-o", "out.csv", "--force")
    assert (tmp_path / "out.csv").read_text() != "precious"


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "data.csv"],
        ["apply", "model.json", "data.csv"],
        ["apply", "model.json", "data.csv", "--output-format", "parquet"],
        ["apply", "model.json", "data.csv", "--output-format", "arrow"],
        ["report", "data.csv"],
        ["export", "model.json", "--to", "c"],
    ],
    ids=" ".join,
)
def test_what_is_written_over_stays_private_and_a_link_stays_a_link(
    arguments, model, done, tmp_path
):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o600)
    (tmp_path / "out.csv").symlink_to("real.csv")
    done(*arguments, "-o", "out.csv", "--force")
    assert (tmp_path / "out.csv").is_symlink()
    assert (tmp_path / "real.csv").read_bytes() != b"old"
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.process
@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ("calspline evaluate data.csv >&-", 0),
        ("calspline evaluate data.csv 2>&-", 0),
        ("calspline evaluate nothing.csv 2>&-", 2),
        ("calspline evaluate - <&-", 2),
        ("calspline apply model.json data.csv -o out.csv <&- >&- 2>&-", 0),
    ],
)
def test_streams_that_are_closed_are_no_disaster(shell, code, model, tmp_path):
    line = shell.replace("calspline", f"{sys.executable} -m calspline")
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert "fault" not in done.stderr
    if "out.csv" in shell:
        assert len((tmp_path / "out.csv").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    "arguments", [["fit"], ["apply", "model.json"]], ids=lambda arguments: arguments[0]
)
def test_a_pipe_is_read_as_a_file_is(arguments, model, done, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(GOOD,))
    writer.start()
    done(*arguments, "pipe.csv", "-o", "of_pipe.csv")
    writer.join()
    done(*arguments, "data.csv", "-o", "of_file.csv")
    assert (tmp_path / "of_pipe.csv").read_bytes() == (
        tmp_path / "of_file.csv"
    ).read_bytes()


@pytest.mark.process
def test_a_pipe_is_written_to_without_force(model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = [
        sys.executable,
        "-m",
        "calspline",
        "apply",
        model,
        tmp_path / "data.csv",
        "--output-format",
        "csv",
    ]
    with subprocess.Popen(
        [*code, "-o", tmp_path / "pipe"], stdout=subprocess.DEVNULL
    ) as writer:
        lines = (tmp_path / "pipe").read_text().splitlines()
    assert writer.returncode == 0
    assert len(lines) == 5
    assert (tmp_path / "pipe").is_fifo()


def test_a_place_that_cannot_be_written_is_an_error(model, run):
    for place in ("nowhere/out.csv", "data.csv/out.csv", "."):
        found = run("apply", model, "data.csv", "-o", place, "--output-format", "csv")
        assert (found.code, found.err.count("\n")) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "parquet", "jsonl", "arrow"])
def test_a_stream_that_fails_is_an_error_and_no_endless_wait(format, tmp_path):
    values = pa.record_batch({"score": np.random.default_rng(0).random(1 << 17)})

    def failing(after):
        yield from [values] * after
        raise ValueError("a bad row")

    for i in range(
        20
    ):  # DuckDB may wait for its writing threads for ever, but does not always
        with pytest.raises(Exception, match="a bad row"):
            write_batches(tmp_path / "out", values.schema, failing(1 + i % 5), format)


@pytest.mark.process
def test_help_loads_neither_scikit_learn_nor_duckdb():
    heavy = ["sklearn", "duckdb", "pyarrow", "numpy", "scipy"]
    code = f"""
import sys
from calspline.cli import main
try:
    main(["--help"])
except SystemExit:
    print("loaded:", *[name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip().endswith("loaded:")


@pytest.mark.process
def test_a_missing_extra_is_one_line_that_names_it(model, tmp_path):
    code = f"""
import sys
sys.modules["duckdb"] = None
from calspline.cli import main
sys.exit(main(["evaluate", {str(tmp_path / "data.csv")!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == "calspline: this command needs duckdb: pip install 'calspline[cli]'\n"
    )


@pytest.mark.process
def test_a_reader_that_goes_away_is_no_disaster(model, tmp_path):
    write(
        pa.table({"score": np.full(300_000, 0.5)}), tmp_path / "big.parquet", "parquet"
    )
    work = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "calspline",
            "apply",
            model,
            tmp_path / "big.parquet",
            "-o",
            "-",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    work.stdout.read(10)
    work.stdout.close()
    assert work.stderr.read() == b""
    work.wait()
    work.stderr.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("more", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(more, coloured):
    ours, theirs = pty.openpty()
    environment = (
        {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        | {"TERM": "xterm"}
        | more
    )
    subprocess.run(
        [sys.executable, "-m", "calspline", "fit"],
        stderr=theirs,
        env=environment,
        check=False,
    )
    os.close(theirs)
    said = os.read(ours, 4096)
    os.close(ours)
    assert b"calspline:" in said
    assert (b"\x1b[" in said) == coloured


@pytest.mark.process
def test_the_version_is_that_of_the_package():
    import calspline

    assert command("--version").stdout.decode().split() == [
        "calspline",
        calspline.__version__,
    ]
