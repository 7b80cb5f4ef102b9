"""What an installed calspline does with its core dependencies alone: ``python smoke.py`` with the interpreter to try.

``make smoke PYTHON=python3.13`` builds the wheel, installs it into an empty environment
of that interpreter, and runs this.
"""

import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import distributions, version
from importlib.util import find_spec
from pathlib import Path

SCRIPT = shutil.which("calspline", path=sysconfig.get_path("scripts"))
CORE = ("numpy", "scipy", "scikit-learn", "narwhals", "jinja2")


def the_package_is_the_installed_one():
    """Not a checkout that lies about."""
    import calspline

    assert Path(calspline.__file__).is_relative_to(sysconfig.get_path("purelib")), (
        calspline.__file__
    )
    assert calspline.__version__ == version("calspline")
    assert "sklearn" not in sys.modules, "import calspline is no longer light"
    for name in calspline.__all__:
        getattr(calspline, name)


def two_classes_are_fitted_and_saved(folder):
    """Fit, calibrate, save, load."""
    import numpy as np

    from calspline import SplineCalibrator, evaluate, load, save

    rng = np.random.default_rng(0)
    u = rng.normal(0, 2, 4000)
    happened = rng.random(4000) < 1 / (1 + np.exp(-u))
    raw = 1 / (1 + np.exp(-2 * u))  # twice too sure
    calibrator = SplineCalibrator().fit(raw[:2000], happened[:2000])
    after = calibrator.calibrate(raw[2000:])
    assert (
        evaluate(happened[2000:], after).log_loss
        < evaluate(happened[2000:], raw[2000:]).log_loss
    )
    assert np.abs(after - 1 / (1 + np.exp(-u[2000:]))).max() < 0.1
    save(calibrator, folder / "model.json")
    assert (
        load(folder / "model.json").calibrate(raw) == calibrator.calibrate(raw)
    ).all()
    return calibrator


def a_model_is_calibrated_and_reported(folder):
    """The wrapper on many classes, and the page with its templates."""
    from sklearn.datasets import load_iris
    from sklearn.naive_bayes import GaussianNB

    from calspline import CalibratedClassifierCV, report

    X, y = load_iris(return_X_y=True)
    probs = CalibratedClassifierCV(GaussianNB()).fit(X, y).predict_proba(X)
    assert abs(probs.sum(axis=1) - 1).max() < 1e-12
    report(y == 2, {"calibrated": probs[:, 2]}, folder / "report.html")
    assert "</html>" in (folder / "report.html").read_text(encoding="utf-8")


def what_is_not_installed_is_named(calibrator):
    """Each extra that is missing is asked for by its name."""
    from calspline import ReliabilityDisplay, export

    wants = {
        "matplotlib": (
            "calspline[plot]",
            lambda: ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.8]),
        ),
        "onnx": ("calspline[onnx]", lambda: export.to_onnx(calibrator)),
        "torch": ("calspline[torch]", lambda: export.to_torch(calibrator)),
    }
    for package, (extra, use) in wants.items():
        if find_spec(package) is None:
            assert extra in said_by(use), package


def said_by(use):
    """Why something could not be imported."""
    try:
        use()
    except ImportError as error:
        return str(error)
    raise AssertionError("nothing was missing")


def the_command_runs(folder):
    """The script beside the interpreter."""
    assert (
        run("--version", folder=folder).stdout.strip()
        == f"calspline {version('calspline')}"
    )
    assert "evaluate" in run("--help", folder=folder).stdout
    told = run("demo", folder=folder).stdout
    assert "log-loss" in told
    assert (folder / "calspline-demo.html").stat().st_size > 10_000
    assert (
        "function calibrate("
        in run("export", "model.json", "--to", "javascript", folder=folder).stdout
    )
    (folder / "past.csv").write_text(
        "score,label\n" + "0.2,0\n0.3,1\n0.8,1\n0.7,0\n" * 5
    )
    if find_spec("duckdb") is None:
        refused = run("fit", "past.csv", "-o", "new.json", folder=folder, code=2).stderr
        assert "pip install 'calspline[cli]'" in refused, refused
    else:
        run("fit", "past.csv", "-o", "new.json", folder=folder)


def run(*arguments, folder, code=0):
    """The command, in a folder; fails unless it ends with the code."""
    command = [SCRIPT, *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def main():
    """All of it; says what was tried with what."""
    the_package_is_the_installed_one()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calibrator = two_classes_are_fitted_and_saved(folder)
        a_model_is_calibrated_and_reported(folder)
        what_is_not_installed_is_named(calibrator)
        the_command_runs(folder)
    core = ", ".join(f"{name} {version(name)}" for name in CORE)
    count = sum(1 for _ in distributions())
    print(
        f"calspline {version('calspline')} on Python {platform.python_version()}: fine ({core}; {count} packages)"
    )


if __name__ == "__main__":
    main()
