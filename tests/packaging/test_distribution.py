"""The wheel and the sdist: built, looked into, and installed into an environment of the core dependencies alone.

No network: the build uses the hatchling at hand, and the environment borrows the
dependencies of this one.
"""

import email
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with a sdist, and the wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder, ROOT)
    return folder


def build(folder, source, *options):
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(folder),
        *options,
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def one(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


@pytest.fixture(scope="module")
def wheel(built):
    return one(built, "*.whl")


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if not name.endswith("RECORD")
        }


@pytest.fixture(scope="module")
def metadata(wheel):
    (text,) = (
        data
        for name, data in contents(wheel).items()
        if name.endswith(".dist-info/METADATA")
    )
    return email.message_from_bytes(text)


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel):
    package = {
        f"calspline/{path.relative_to(ROOT / 'src/calspline')}"
        for path in (ROOT / "src/calspline").rglob("*")
    }
    package = {
        name
        for name in package
        if (ROOT / "src" / name).is_file() and "__pycache__" not in name
    }
    data = {
        "calspline/export/evaluators/calibrate.c",
        "calspline/py.typed",
        "calspline/reporting/templates/report.js",
    }
    assert data <= package
    found = {name for name in contents(wheel) if ".dist-info/" not in name}
    assert found == package


def test_the_wheel_carries_licence_script_and_readme(wheel, metadata):
    said = {
        name.partition(".dist-info/")[2]: data
        for name, data in contents(wheel).items()
        if ".dist-info/" in name
    }
    assert said["licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert b"calspline = calspline.cli:main" in said["entry_points.txt"]
    assert b"Root-Is-Purelib: true" in said["WHEEL"]
    assert metadata["License-Expression"] == "MIT"
    assert (
        metadata.get_payload(decode=True).decode("utf-8").strip()
        == (ROOT / "README.md").read_text(encoding="utf-8").strip()
    )


def test_the_sdist_has_what_the_tests_need_and_no_litter(built):
    with tarfile.open(one(built, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in (
        "pyproject.toml",
        "LICENSE",
        "Makefile",
        "README.md",
        "tests/conftest.py",
        "examples/README.md",
    ):
        assert wanted in names
    assert {
        "benchmarks/arena/RESULTS.md",
        "docs/picture.png",
        "src/calspline/py.typed",
    } <= names
    litter = re.compile(
        r"__pycache__|\.pyc$|\.venv|\.egg-info|\.coverage|\.npz$|\.parquet$"
    )
    assert [name for name in names if litter.search(name)] == []


def test_a_wheel_from_the_tree_is_the_wheel_from_the_sdist(wheel, tmp_path):
    build(tmp_path, ROOT, "--wheel")
    assert contents(one(tmp_path, "*.whl")) == contents(wheel)


def core(metadata):
    """Names of the packages that calspline needs, and of those that they need, without extras."""
    wanted, found = (
        [Requirement(text) for text in metadata.get_all("Requires-Dist")],
        set(),
    )
    while wanted:
        requirement = wanted.pop()
        if requirement.name not in found and (
            not requirement.marker or requirement.marker.evaluate({"extra": ""})
        ):
            found.add(requirement.name)
            wanted += map(Requirement, distribution(requirement.name).requires or [])
    return found


def lend(packages, site):
    """Link what belongs to the packages into another environment."""
    for package in packages:
        files = distribution(package).files
        for top in {
            file.parts[0]
            for file in files
            if file.parts[0] not in ("..", "__pycache__")
        }:
            if not (site / top).exists():
                (site / top).symlink_to(distribution(package).locate_file(top))


@pytest.fixture(scope="module")
def python(wheel, metadata, tmp_path_factory):
    """Interpreter of an environment with calspline and what it cannot do without."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    site = one(folder, "lib/python*/site-packages")
    lend(core(metadata), site)
    interpreter = folder / "bin" / "python"
    pip = [interpreter, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", wheel], check=True)
    subprocess.run([*pip, "check"], check=True)
    return interpreter


def test_the_installed_wheel_works_with_the_core_dependencies_alone(python, tmp_path):
    # Isolated: neither this folder nor PYTHONPATH may stand in for what is installed.
    command = [
        python,
        "-I",
        "-X",
        "dev",
        "-W",
        "error",
        ROOT / "tests/packaging/smoke.py",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"calspline \S+ on Python \S+: fine \(.+\)\n", done.stdout)


def test_the_core_dependencies_are_five(metadata):
    plain = [
        Requirement(text)
        for text in metadata.get_all("Requires-Dist")
        if "extra ==" not in text
    ]
    assert {requirement.name for requirement in plain} == {
        "numpy",
        "scipy",
        "scikit-learn",
        "narwhals",
        "jinja2",
    }
