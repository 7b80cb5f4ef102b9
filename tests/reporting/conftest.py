import numpy as np
import pytest

from calspline import SplineCalibrator, report


class Opened:
    """A page in a browser, with all that it asked for and complained about."""

    def __init__(self, context, url):
        self.requests, self.complaints = [], []
        self.page = context.new_page()
        self.page.set_default_timeout(0)  # however busy the machine is
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "dialog",
            lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()),
        )
        self.page.goto(url)


@pytest.fixture
def open_page(browser):
    contexts = []

    def open_(path, **options):
        options.setdefault("viewport", {"width": 1280, "height": 900})
        context = browser.new_context(**options)
        contexts.append(context)
        return Opened(context, path.as_uri())

    yield open_
    for context in contexts:
        context.close()


def two_classes(n=3000, seed=0, factor=2.2):
    """Labels, over-confident scores and true probabilities."""
    rng = np.random.default_rng(seed)
    u = rng.normal(0.0, 1.6, n)
    p = 1 / (1 + np.exp(-u))
    return (rng.random(n) < p).astype(int), 1 / (1 + np.exp(-factor * u)), p


def three_classes(n=1500, seed=0, factor=2.5):
    """Labels, over-confident rows and true rows."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.2, (n, 3))
    p, raw = (
        np.exp(k * z) / np.exp(k * z).sum(axis=1, keepdims=True) for k in (1.0, factor)
    )
    return (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1), raw, p


@pytest.fixture(scope="session")
def binary(tmp_path_factory):
    """Labels, sets of predictions, and the report of them."""
    y, raw, _ = two_classes(6000)
    cal = SplineCalibrator().fit(raw[:3000], y[:3000])
    sets = {"raw": raw[3000:], "calibrated": cal.calibrate(raw[3000:])}
    path = tmp_path_factory.mktemp("report") / "binary.html"
    return y[3000:], sets, report(y[3000:], sets, path, calibrator=cal, title="Churn")


@pytest.fixture(scope="session")
def multiclass(tmp_path_factory):
    y, raw, p = three_classes()
    cal = SplineCalibrator().fit(raw, y)
    sets = {"raw": raw, "truth": p}
    path = tmp_path_factory.mktemp("report") / "multiclass.html"
    return y, sets, report(y, sets, path, calibrator=cal)
