import ast
import subprocess
import sys
from pathlib import Path

import pytest

import calspline
import calspline.export
from calspline.cli import main

SOURCE = Path(calspline.__file__).parent

LAYERS = (
    ("_version", "_arrays", "_formatting", "_plots", "_results", "_user_warnings"),
    ("_expression", "transforms"),
    # What users pass: checked once.
    ("_codec", "_domains", "_input"),
    ("histograms",),
    ("fitting", "multiclass"),
    ("maps",),
    ("fits",),
    # scikit-learn starts here.
    ("calibrators",),
    ("classifier", "_crossfit"),
    ("evaluation",),
    ("operations",),
    ("_persistence",),
    ("display",),
    ("reporting",),
    ("export",),
    ("engines",),
    ("demo",),
    ("cli",),
    ("__init__",),
    ("__main__",),
)
"""The parts of the package from bottom to top: imports go down, or stay in a layer."""

OPTIONAL = [
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "duckdb",
    "pyspark",
    "dask",
    "onnx",
    "torch",
    "narwhals",
    "sklearn",
]


def names_of_modules():
    """The file of each module, by its name below the package."""
    modules = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if len(parts) > 1 and parts[-1] == "__init__":
            parts = parts[:-1]
        modules[".".join(parts)] = path
    return modules


MODULES = names_of_modules()


def imported_names(path):
    """All that a file imports: lazily and for type checkers, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def module_of(name):
    """The module of the package that a name is of; None for other packages."""
    if name.split(".")[0] != "calspline":
        return None
    name = name.removeprefix("calspline").removeprefix(".")
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or "__init__"


IMPORTS = {
    module: {module_of(name) for name in imported_names(path)} - {None, module}
    for module, path in MODULES.items()
}
LAYER = {part: i for i, parts in enumerate(LAYERS) for part in parts}


def layer_of(module):
    return LAYER[module.split(".")[0]]


def test_imports_go_down():
    upward = [
        f"{module} imports {imported}"
        for module, found in IMPORTS.items()
        for imported in found
        if layer_of(imported) > layer_of(module)
    ]
    assert upward == []


def test_no_imports_are_circular():
    with_open_imports = {module: set(found) for module, found in IMPORTS.items()}
    while True:
        done = {module for module, found in with_open_imports.items() if not found}
        if not done:
            break
        with_open_imports = {
            module: found - done
            for module, found in with_open_imports.items()
            if module not in done
        }
    assert set(with_open_imports) == set()


def test_nothing_below_the_calibrators_imports_scikit_learn():
    below = [
        module
        for module, path in MODULES.items()
        if layer_of(module) < LAYER["calibrators"]
        and any(name.split(".")[0] == "sklearn" for name in imported_names(path))
    ]
    assert below == []


def test_no_two_classes_share_a_name():
    trees = (
        ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")
    )
    names = [
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in names if names.count(name) > 1} == set()


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.process
def test_importing_calspline_loads_no_optional_dependency_and_not_even_scikit_learn():
    loaded = run(
        f"import sys, calspline; print(*[m for m in {OPTIONAL} if m in sys.modules])"
    )
    assert loaded == []


@pytest.mark.process
def test_fitting_loads_no_more_than_scikit_learn_itself_does():
    show = f"print(*[m for m in {OPTIONAL} if m in sys.modules])"
    fit = "calspline.SplineCalibrator().fit([0.1, 0.4, 0.6, 0.8], [0, 1, 0, 1]).calibrate([0.5])"
    allowed = {
        "narwhals",
        *run(f"import sys, sklearn.base; {show}"),
    }  # which newer releases of it load themselves
    assert set(run(f"import sys, calspline; {fit}; {show}")) <= allowed


@pytest.mark.process
def test_importing_the_exports_loads_nothing_that_none_of_them_needs_yet():
    assert (
        run(
            f"import sys, calspline.export; print(*[m for m in {OPTIONAL} if m in sys.modules])"
        )
        == []
    )


HEAVY = ["jinja2", "rich", "matplotlib", "calspline.operations"]
COMMANDS = {
    "fit": ["fit", "rows.csv", "-o", "model.json", "--force"],
    "apply": ["apply", "model.json", "rows.csv", "-o", "calibrated.parquet", "--force"],
    "export": ["export", "model.json", "--to", "sql", "-o", "model.sql", "--force"],
}


def command(words, folder, show):
    """What a command in a process of its own, as the installed script starts it, has loaded in the end."""
    code = f"import sys; sys.argv = ['calspline', *{words}]; from calspline.cli import main; code = main()"
    shown = f"print('loaded', *[m for m in {show} if m in sys.modules]); sys.exit(code)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {shown}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1].split()[1:]


ROWS = "\n".join(
    [
        "score,label",
        *(f"{(i % 97) / 97},{int(31 * i % 89 < i % 97 * 0.8)}" for i in range(1000)),
    ]
)
"""Scores and labels as a file has them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    (folder / "rows.csv").write_text(ROWS)
    command(COMMANDS["fit"], folder, [])
    return folder


@pytest.mark.process
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_two_classes_loads_nothing_that_it_does_not_need(name, folder):
    more = ["duckdb"] if name == "export" else []
    assert command(COMMANDS[name], folder, HEAVY + more) == []


@pytest.mark.surface
@pytest.mark.parametrize(
    "method", ["sigmoid", "isotonic", "beta", "temperature", "clipping"]
)
def test_calibrators_of_a_command_save_and_load_as_estimators_do(method, tmp_path):
    fitted, again = tmp_path / "fitted.json", tmp_path / "again.json"
    (tmp_path / "rows.csv").write_text(ROWS)
    words = ["fit", tmp_path / "rows.csv", "--method", method, "-o", fitted]
    assert main([str(word) for word in words]) == 0
    calspline.save(calspline.load(fitted), again)
    assert again.read_bytes() == fitted.read_bytes()


def test_every_public_name_loads_and_is_listed():
    for name in calspline.__all__:
        assert getattr(calspline, name).__name__ == name
        assert name in dir(calspline)
    with pytest.raises(AttributeError, match="no attribute 'Splines'"):
        calspline.Splines  # noqa: B018


def test_every_export_loads_and_is_listed():
    for name in calspline.export.__all__:
        assert getattr(calspline.export, name).__name__ == name
        assert name in dir(calspline.export)
    with pytest.raises(AttributeError, match="no attribute 'to_cobol'"):
        calspline.export.to_cobol  # noqa: B018


def test_the_package_is_typed_and_has_a_version():
    assert (SOURCE / "py.typed").exists()
    assert calspline.__version__.count(".") == 2
