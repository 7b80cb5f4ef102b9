import ast
import subprocess
import sys
from pathlib import Path

import pytest

import calspline
import calspline.export

SOURCE = Path(calspline.__file__).parent

# What each room of the house may import from. Nothing points upwards.
CORE = {"arrays", "labels", "options", "scores"}
NUMERICS = {"arrays", "fitting"}
FITS = NUMERICS | {"binary_fit", "curve", "expression", "histogram", "multiclass", "transforms"}
ALLOWED = {
    "formatting": set(),
    "arrays": {"export"},  # for tensors of torch only, when there is one
    "expression": {"arrays"},
    "transforms": {"arrays", "expression"},
    "labels": {"arrays", "formatting"},
    "options": CORE,
    "scores": CORE | {"transforms"},
    "grid": CORE | {"transforms"},
    "histogram": CORE | {"grid", "segments", "transforms"},  # segments inside ScoreHistogram.from_scores only
    "fitting": NUMERICS,
    "curve": CORE | NUMERICS | {"expression", "transforms"},
    "binary_fit": CORE | NUMERICS | {"curve", "histogram", "transforms"},
    "multiclass": CORE | NUMERICS | FITS,
    "segments": CORE | FITS | {"formatting", "grid", "segments"},
    "calibrators": CORE | FITS | {"calibrators", "segments"},
    "crossfit": CORE | {"formatting"},
    "classifier": CORE | {"calibrators", "crossfit", "segments"},
    "learning_curve": CORE | {"calibrators", "formatting"},
    "evaluation": CORE
    | NUMERICS
    | FITS
    | {"display", "evaluation", "formatting", "segments"},  # display for types and inside plot only
    "display": CORE
    | NUMERICS
    | {"calibrators", "curve", "display", "evaluation", "formatting", "learning_curve", "monitoring", "transforms"},
    "reporting": CORE | {"curve", "display", "evaluation", "formatting", "persistence", "reporting", "transforms"},
    "persistence": CORE | {"calibrators", "histogram", "monitoring"},
    "export": CORE | FITS | {"__version__", "calibrators", "classifier", "export", "segments"},
    "engines": CORE | FITS | {"calibrators", "engines", "export", "formatting", "grid", "segments"},
    "monitoring": CORE
    | NUMERICS
    | {
        "binary_fit",
        "calibrators",
        "display",
        "evaluation",
        "formatting",
        "grid",
        "histogram",
        "monitoring",
        "transforms",
    },
    "demo": {"arrays", "calibrators", "display", "evaluation", "reporting"},
    "cli": CORE
    | {
        "__version__",
        "calibrators",
        "cli",
        "demo",
        "display",
        "engines",
        "evaluation",
        "export",
        "fitting",
        "formatting",
        "histogram",
        "monitoring",
        "persistence",
        "reporting",
        "segments",
        "transforms",
    },
    "__main__": {"cli"},
    "__init__": {
        "arrays",
        "calibrators",
        "classifier",
        "curve",
        "display",
        "engines",
        "evaluation",
        "histogram",
        "learning_curve",
        "monitoring",
        "persistence",
        "reporting",
    },
}

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


def rooms(path):
    """Rooms of the package that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "calspline" else [node.module]
            )
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("calspline.")}
    return found


def test_no_two_classes_share_a_name():
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py"))
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    assert {name for name in names if names.count(name) > 1} == set()


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    relative = path.relative_to(SOURCE)
    room = relative.parts[0].removesuffix(".py")
    assert rooms(path) <= ALLOWED[room]


def test_the_numerics_know_no_estimator_and_no_frame():
    for path in [*(SOURCE / "fitting").glob("*.py"), *(SOURCE / "multiclass").glob("*.py")]:
        text = path.read_text()
        assert "sklearn" not in text.replace("scikit-learn", "")
        assert "narwhals" not in text


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.process
def test_importing_calspline_loads_no_optional_dependency_and_not_even_scikit_learn():
    loaded = run(f"import sys, calspline; print(*[m for m in {OPTIONAL} if m in sys.modules])")
    assert loaded == []


@pytest.mark.process
def test_fitting_loads_no_more_than_scikit_learn_itself_does():
    show = f"print(*[m for m in {OPTIONAL} if m in sys.modules])"
    fit = "calspline.SplineCalibrator().fit([0.1, 0.4, 0.6, 0.8], [0, 1, 0, 1]).calibrate([0.5])"
    allowed = {"narwhals", *run(f"import sys, sklearn.base; {show}")}  # which newer releases of it load themselves
    assert set(run(f"import sys, calspline; {fit}; {show}")) <= allowed


@pytest.mark.process
def test_importing_the_exports_loads_nothing_that_none_of_them_needs_yet():
    assert run(f"import sys, calspline.export; print(*[m for m in {OPTIONAL} if m in sys.modules])") == []


HEAVY = ["sklearn", "pandas", "narwhals", "scipy.stats", "scipy.interpolate", "jinja2", "rich", "matplotlib"]
SCIPY = ["scipy.special", "scipy.linalg", "scipy.optimize", "scipy.sparse"]
"""What a curve that is there already does without; a fit needs some of it."""
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
        [sys.executable, "-c", f"{code}; {shown}"], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    rows = [f"{(i % 97) / 97},{int((i * 31) % 89 < (i % 97) * 0.8)}" for i in range(1000)]
    (folder / "rows.csv").write_text("\n".join(["score,label", *rows]))
    command(COMMANDS["fit"], folder, [])
    return folder


@pytest.mark.process
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_two_classes_loads_no_scikit_learn_and_nothing_else_that_is_slow(name, folder):
    few = ["pyarrow", "scipy.special", "scipy.optimize"]
    more = {"fit": few, "apply": SCIPY, "export": [*SCIPY, "pyarrow", "duckdb"]}[name]
    assert command(COMMANDS[name], folder, HEAVY + more) == []


@pytest.mark.process
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "beta", "temperature", "clipping"])
def test_calibrators_of_a_command_save_and_load_as_estimators_do(method, folder):
    words = ["fit", "rows.csv", "--method", method, "-o", f"{method}.json"]
    assert "sklearn" not in command(words, folder, [] if method == "isotonic" else ["sklearn"])
    loaded = calspline.load(folder / f"{method}.json")
    calspline.save(loaded, folder / "again.json")
    assert (folder / "again.json").read_bytes() == (folder / f"{method}.json").read_bytes()


@pytest.mark.process
def test_a_calibrator_without_scikit_learn_describes_itself_as_one_with_it():
    show = "from calspline.calibrators import find; c = find('spline')(n_knots=7); print(c, c.get_params())"
    light = "from calspline.calibrators import do_without_sklearn; do_without_sklearn(); "
    assert run(light + show) == run(show)


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
