"""Files made to do harm, signed as an attacker could: each is refused in words, or gives probabilities."""

import copy
import itertools
import json
import resource
import warnings

import numpy as np
import pytest

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    ScoreHistogram,
    SplineCalibrator,
    TemperatureCalibrator,
    load,
    save,
)
from calspline._persistence import LARGEST_FILE, _checksum

VALUES = [
    None,
    True,
    -1,
    10**30,
    1.5,
    1e308,
    5e-324,
    "\ud800",
    [],
    [[1e308]],
    {},
    [None],
]


@pytest.fixture(
    params=[
        "spline",
        "margins",
        "structured",
        "isotonic",
        "beta",
        "temperature",
        "clipping",
    ]
)
def model(request, two, three):
    made = {
        "spline": lambda: (
            SplineCalibrator(n_knots=4).fit(two.scores, two.y),
            two.scores,
        ),
        "margins": lambda: (
            SplineCalibrator(n_knots=4).fit(two.margins, two.y),
            two.margins,
        ),
        "structured": lambda: (
            SplineCalibrator().fit(three.scores, three.y),
            three.scores,
        ),
        "isotonic": lambda: (IsotonicCalibrator().fit(two.scores, two.y), two.scores),
        "beta": lambda: (BetaCalibrator().fit(two.scores, two.y), two.scores),
        "temperature": lambda: (
            TemperatureCalibrator().fit(three.scores, three.y),
            three.scores,
        ),
        "clipping": lambda: (ClippingCalibrator().fit(two.scores, two.y), two.scores),
    }
    return made[request.param]()


@pytest.fixture(params=["exact", "grid"])
def histogram(request, two):
    if request.param == "exact":
        return ScoreHistogram.from_scores(two.scores[:9], two.y[:9])
    p = np.linspace(0.001, 0.999, 5000)
    return ScoreHistogram.from_scores(p, p > 0.5)


def body_of(thing, path):
    save(thing, path)
    body = json.loads(path.read_text())
    body.pop("checksum")
    return body


def sign(body, path):
    path.write_text(json.dumps(body | {"checksum": _checksum(body)}))


def places(node, place=()):
    """Every key, and the first and last item of every list."""
    if place:
        yield place
    if isinstance(node, dict):
        for key in node:
            yield from places(node[key], (*place, key))
    elif isinstance(node, list) and node:
        for i in sorted({0, len(node) - 1}):
            yield from places(node[i], (*place, i))


def spoiled(body, place, value):
    out = copy.deepcopy(body)
    node = out
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return out


@pytest.mark.slow
def test_55_a_wrong_value_anywhere_is_refused_or_harmless(model, tmp_path):
    calibrator, scores = model
    path = tmp_path / "m.json"
    body = body_of(calibrator, path)
    tried = refused = taken = 0
    for place, value in itertools.product(places(body), VALUES):
        sign(spoiled(body, place, value), path)
        tried += 1
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the fit did not converge")
                back = load(path)
        except ValueError as error:
            refused += str(path) in str(error)
            continue
        with np.errstate(all="ignore"):
            p = back.predict_proba(scores)
        assert np.all((p >= 0) & (p <= 1)), place
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-6)
        taken += 1
    assert refused + taken == tried
    assert refused > 100


@pytest.mark.slow
def test_55_a_wrong_value_anywhere_in_a_histogram_is_refused_or_harmless(
    histogram, tmp_path
):
    path = tmp_path / "h.json"
    body = body_of(histogram, path)
    tried = refused = taken = 0
    for place, value in itertools.product(
        places(body), (None, -1, 63, 10**9, 1e308, "x", [], [[1]])
    ):
        sign(spoiled(body, place, value), path)
        tried += 1
        try:
            back = load(path)
        except ValueError as error:
            refused += str(path) in str(error)
            continue
        assert np.isfinite(back.locations).all()
        assert min(back.positives.min(), back.negatives.min()) >= 0.0
        taken += 1
    assert refused + taken == tried


NOT_JSON = {
    "NaN": '{"format": NaN}',
    "infinity": '{"format": -Infinity}',
    "a number too large": '{"format": 1e400}',
    "an endless integer": '{"format": ' + "9" * 5000 + "}",
    "deep lists": "[" * 50_000 + "]" * 50_000,
    "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "a key twice": '{"format": "calspline", "format": "calspline", "version": 1}',
    "a comment": '/* hello */ {"format": "calspline"}',
    "a comma too many": '{"format": "calspline",}',
    "two documents": '{"format": "calspline"} {"format": "calspline"}',
    "a bare word": "calspline",
    "NUL": '{"format": "cal\0spline"}',
}


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON)
def test_55_what_is_not_strict_json_is_refused(tmp_path, text):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(
        ValueError, match=r"m.json is not a calspline model: it is not valid JSON"
    ):
        load(path)


@pytest.mark.parametrize("depth", [100, 300, 900, 960, 980, 990, 995])
def test_55_deep_but_readable_json_is_refused(tmp_path, depth):
    path = tmp_path / "m.json"
    keys = ("parameters", "classes", "kind", "map", "fit")
    deep = "[" * depth + "]" * depth
    fields = ", ".join(f'"{key}": {deep}' for key in keys)
    path.write_text(
        f'{{"format": "calspline", "version": 1, "class": "SplineCalibrator", {fields}, "checksum": "x"}}'
    )
    with pytest.raises(ValueError, match=r"m.json is not a (valid )?calspline model"):
        load(path)


def limited(megabytes):
    """Allow the process this much more memory than it has."""
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + megabytes * 2**20, hard))
    return soft, hard


@pytest.mark.parametrize(
    "dtype",
    [
        "<U1000000000",
        "<U100000000",
        "<U9999999999",
        "(100000,100000)f8",
        "<V1000000000",
    ],
)
def test_56_a_dtype_cannot_ask_for_gigabytes(tmp_path, two, dtype):
    path = tmp_path / "m.json"
    body = body_of(
        SplineCalibrator().fit(two.scores, np.array(["a", "b"])[two.y]), path
    )
    body["classes"]["dtype"] = dtype
    sign(body, path)
    before = limited(512)
    try:
        with pytest.raises(ValueError, match=r"m.json is not a valid calspline model"):
            load(path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("|b1", [1, 2]),
        ("|u1", [0, 1.5]),
        ("<f2", [0, 1e6]),
        ("<U1", ["aa", "ab"]),
        ("|i1", [1, 300]),
        ("<i8", ["1", "2"]),
    ],
)
def test_55_a_dtype_that_cannot_hold_the_labels_is_refused(
    tmp_path, two, dtype, values
):
    path = tmp_path / "m.json"
    body = body_of(SplineCalibrator().fit(two.scores, two.y), path)
    body["classes"] = {"dtype": dtype, "values": values}
    sign(body, path)
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"m.json is not a valid calspline model"),
    ):
        load(path)


def test_55_a_histogram_has_bounded_size(tmp_path):
    path = tmp_path / "h.json"
    body = body_of(ScoreHistogram.from_scores([0.1, 0.2], [0, 1]), path)
    n = 5000
    body["histogram"] |= {
        "locations": list(range(n)),
        "positives": [1.0] * n,
        "negatives": [1.0] * n,
    }
    sign(body, path)
    with pytest.raises(ValueError, match=r"locations must be at most 4096; got 5000"):
        load(path)


def test_55_cells_are_whole_numbers(tmp_path):
    path = tmp_path / "h.json"
    p = np.linspace(0.001, 0.999, 5000)
    body = body_of(ScoreHistogram.from_scores(p, p > 0.5), path)
    body["histogram"]["cells"] = [cell + 0.5 for cell in body["histogram"]["cells"]]
    sign(body, path)
    with pytest.raises(ValueError, match=r"cells must be a list of whole numbers"):
        load(path)


def test_56_what_never_ends_is_read_no_further_than_the_limit():
    before = limited(4 * LARGEST_FILE >> 20)
    try:
        with pytest.raises(ValueError, match=r"larger than 64 MB"):
            load("/dev/zero")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_56_loading_writes_nothing(tmp_path, two):
    path = tmp_path / "m.json"
    save(SplineCalibrator().fit(two.scores, two.y), path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (0, hard)
    )  # a byte written anywhere would end the process
    try:
        load(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [each.name for each in tmp_path.iterdir()] == ["m.json"]


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "__import__",
        "BaseCalibrator",
        "calspline.load",
        "object",
        "",
        None,
        3,
    ],
)
def test_56_a_class_is_one_of_a_list(tmp_path, two, name):
    path = tmp_path / "m.json"
    body = body_of(SplineCalibrator().fit(two.scores, two.y), path)
    body["class"] = name
    sign(body, path)
    with pytest.raises(
        ValueError, match=r"m.json is not a valid calspline model: class must be one of"
    ):
        load(path)
