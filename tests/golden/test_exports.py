"""What is exported gives Python's numbers, which are what they were."""

import numpy as np
import onnx
import pandas as pd
import pytest
from tests.export.conftest import (  # noqa: F401
    compiled,
    duckdb,
    gcc,
    node,
    postgres,
    python,
    spark,
    sqlite,
)
from tests.export.test_segments import c_text
from tests.export.test_sql_segments import run as run_sql
from tests.golden.cases_exports import AREA, EXPORTS

from calspline.export import to_c, to_javascript, to_onnx, to_python, to_sql, to_torch

AGREE = {"rtol": 0.0, "atol": 1e-9}


@pytest.fixture(params=EXPORTS)
def export(request):
    return EXPORTS[request.param]


SPANNING = pytest.mark.parametrize(
    "export",
    [
        "spline-exact-ends",
        "spline-shifted",
        "spline-margins",
        "spline-by-shifted",
        "spline-by-two-columns",
        "structured-by",
        "structured-logits",
        "ovr-by",
        "sigmoid-margins",
        "isotonic-three-classes",
        "beta",
        "temperature-three-classes",
    ],
    indirect=True,
)
"""What is run by programs of their own."""


@pytest.fixture
def stored(request):
    """The stored numbers of Python."""
    return np.array(AREA.read(request.node.callspec.params["export"])["calibrated"])


@pytest.mark.parametrize("name", AREA.cases)
def test_python_gives_what_it_gave(name):
    AREA.check(name)


def test_python_source_gives_the_stored_numbers(export, stored, python):  # noqa: F811
    calibrate = python(to_python(export.calibrator()))
    got = [
        calibrate(*row) for row in zip(export.scores.tolist(), *export.by, strict=True)
    ]
    np.testing.assert_allclose(got, stored, **AGREE)


@SPANNING
def test_javascript_gives_the_stored_numbers(export, stored, node):  # noqa: F811
    got = node(to_javascript(export.calibrator()), export.scores.tolist(), *export.by)
    np.testing.assert_allclose(got, stored, **AGREE)


@SPANNING
def test_c_gives_the_stored_numbers(export, stored, gcc, tmp_path):  # noqa: F811
    by = [("const char *", [c_text(label) for label in column]) for column in export.by]
    got = gcc(to_c(export.calibrator()), export.scores, tmp_path, by)
    np.testing.assert_allclose(got, stored, **AGREE)


def test_onnx_gives_the_stored_numbers(export, stored):
    model = to_onnx(export.calibrator())
    check_onnx(export, stored, model)


@SPANNING
def test_onnx_after_a_model_gives_the_stored_numbers(export, stored):
    helper = onnx.helper
    width = export.scores.shape[1] if export.scores.ndim == 2 else 2 - export.one_column
    inputs, outputs = (
        helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, [None, width])
        for name in ("features", "model_scores")
    )
    identity = helper.make_node("Identity", ["features"], ["model_scores"])
    graph = helper.make_graph([identity], "model", [inputs], [outputs])
    opsets = [helper.make_opsetid("", 17)]
    first = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    check_onnx(export, stored, to_onnx(export.calibrator(), after=first))


def check_onnx(export, stored, model):
    runtime = pytest.importorskip("onnxruntime")
    scores = export.scores
    if scores.ndim == 1:
        scores = (
            scores[:, None]
            if export.one_column
            else np.column_stack([1.0 - scores, scores])
        )
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    columns = [np.array(column, dtype=object) for column in export.by]
    names = [each.name for each in session.get_inputs()]
    (got,) = session.run(None, dict(zip(names, [scores, *columns], strict=True)))
    np.testing.assert_allclose(got if stored.ndim == 2 else got[:, 1], stored, **AGREE)


def test_torch_gives_the_stored_numbers(export, stored):
    torch = pytest.importorskip("torch")
    module, by = to_torch(export.calibrator()), export.by
    codes = [module.codes(by if len(by) > 1 else by[0])] if by else []
    got = module(torch.from_numpy(export.scores), *codes)
    np.testing.assert_allclose(got.numpy(), stored, **AGREE)


def test_sql_gives_the_stored_numbers(export, stored, duckdb):  # noqa: F811
    check_sql(export, stored, duckdb)


@pytest.mark.parametrize(
    "export", [name for name in EXPORTS if EXPORTS[name].by], indirect=True
)
def test_sql_with_a_table_gives_the_stored_numbers(export, stored, duckdb):  # noqa: F811
    check_sql(export, stored, duckdb, table="effects")


@SPANNING
@pytest.mark.parametrize("other", ["sqlite", "postgres", "spark"])
def test_sql_gives_the_stored_numbers_elsewhere(request, export, stored, other):
    check_sql(export, stored, request.getfixturevalue(other))


def check_sql(export, stored, database, table=None):
    by = {f"b{k}": column for k, column in enumerate(export.by)}
    names = export.columns if isinstance(export.columns, list) else [export.columns]
    frame = pd.DataFrame(
        export.scores.reshape(len(export.scores), -1), columns=names
    ).assign(**by)
    given = {"by": list(by)} if by else {}
    found = to_sql(
        export.calibrator(),
        export.columns,
        dialect=database.dialect,
        table=table,
        **given,
    )
    create, join, found = ([], "", found) if table is None else found
    expressions = [found] if isinstance(found, str) else found
    query = f"SELECT {', '.join(expressions)} FROM scores {join}"
    got = run_sql(database, query, frame, create)
    np.testing.assert_allclose(got if stored.ndim == 2 else got[:, 0], stored, **AGREE)
