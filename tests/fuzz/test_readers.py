"""A sample of the hostile files that ``make thorough`` gives to every reader."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from benchmarks.fuzz.__main__ import READERS
from benchmarks.fuzz.readers import BODIES, fit_hostile, load_hostile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calspline._persistence import _checksum

same_folder = settings(
    suppress_health_check=[
        *settings().suppress_health_check,
        HealthCheck.function_scoped_fixture,
    ]
)
few = settings(same_folder, max_examples=max(settings().max_examples // 5, 1))

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "count"), list(zip(READERS, [400, 12, 12], strict=True))
)
def test_spoilt_files_give_our_errors_alone(reader, count, tmp_path):
    for seed in range(count):
        assert READERS[reader](Random(seed), tmp_path) is None, seed


@same_folder
@given(st.binary(max_size=300))
def test_any_bytes_are_no_model(tmp_path, content):
    assert load_hostile(content, tmp_path) is None


@pytest.mark.slow
@same_folder
@given(st.sampled_from(BODIES), st.data())
def test_any_value_in_the_place_of_another_is_refused_or_harmless(tmp_path, body, data):
    key = data.draw(st.sampled_from(sorted(set(body) - {"checksum"})))
    spoilt = {name: value for name, value in body.items() if name != "checksum"} | {
        key: data.draw(anything)
    }
    content = json.dumps(spoilt | {"checksum": _checksum(spoilt)}).encode()
    assert load_hostile(content, tmp_path) is None


@few
@given(st.binary(max_size=200), st.sampled_from(["csv", "jsonl"]))
def test_any_bytes_are_a_table_or_refused_in_one_line(tmp_path, content, format):
    assert fit_hostile(content, tmp_path, format) is None


@pytest.mark.process
def test_a_label_type_of_gigabytes_is_refused_in_little_memory(tmp_path):
    body = next(
        body
        for body in BODIES
        if body.get("classes", {}).get("values") == ["no", "yes"]
    )
    path = tmp_path / "model.json"
    path.write_text(json.dumps(body))
    code = (
        "import json, resource, sys, calspline\n"
        "from calspline._persistence import _checksum\n"
        "path = sys.argv[1]\n"
        "body = json.loads(open(path).read())\n"
        "body.pop('checksum')\n"
        "body['classes']['dtype'] = '<U400000000'\n"
        "open(path, 'w').write(json.dumps(body | {'checksum': _checksum(body)}))\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "try:\n    calspline.load(path)\n"
        "except ValueError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "dtype" in done.stdout
    assert "model.json" in done.stdout


def test_the_samples_include_every_kind_of_model():
    folder = Path(__file__).parents[1] / "golden" / "models"
    kinds = {json.loads(path.read_text())["class"] for path in folder.glob("*.json")}
    assert {body["class"] for body in BODIES} == kinds
