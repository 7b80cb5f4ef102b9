import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.export.conftest import SCORES, cached

from calspline import SplineCalibrator
from calspline.export import to_torch
from calspline.export.torch import BLOCK

TYPES = {torch.float64: (np.float64, 1e-9), torch.float32: (np.float32, 2e-5)}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def rows(case, dtype):
    """The scores of a case, in this type."""
    with np.errstate(over="ignore"):
        scores = case.scores.astype(TYPES[dtype][0])
    return scores[np.isfinite(scores).reshape(len(scores), -1).all(axis=1)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_module_agrees_with_python(case, dtype):
    scores = rows(case, dtype)
    if case.name == "large margins" and dtype == torch.float32:
        with pytest.raises(
            ValueError, match=r"dtype must be torch\.float64 for this calibrator"
        ):
            to_torch(case.calibrator, dtype=dtype)
        return
    got = to_torch(case.calibrator, dtype=dtype)(torch.from_numpy(scores))
    assert got.dtype == dtype
    np.testing.assert_allclose(
        got.numpy(), case.calibrator.calibrate(scores), rtol=0.0, atol=TYPES[dtype][1]
    )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    "name", ["logit", "compact_logit", "sigmoid", "isotonic", "beta", "temperature"]
)
def test_two_columns_give_two(name, dtype):
    calibrator = cached(name).calibrator
    scores = np.column_stack([1.0 - SCORES, SCORES]).astype(TYPES[dtype][0])
    got = to_torch(calibrator, dtype=dtype)(torch.from_numpy(scores))
    np.testing.assert_allclose(
        got.numpy(), calibrator.calibrate(scores), rtol=0.0, atol=TYPES[dtype][1]
    )


def test_two_margins_count_by_their_difference():
    margins = np.random.default_rng(0).normal(size=(500, 2))
    calibrator = SplineCalibrator(scale="identity").fit(
        margins, margins[:, 1] > margins[:, 0]
    )
    got = to_torch(calibrator)(torch.from_numpy(margins))
    np.testing.assert_allclose(
        got.numpy(), calibrator.calibrate(margins), rtol=0.0, atol=1e-12
    )


def many_classes(m):
    rng = np.random.default_rng(m)
    logits = 2.0 * rng.normal(size=(2000, m)) + np.linspace(0.0, 2.0, m)
    return logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"multiclass": "ovr"}], ids=["structured", "ovr"]
)
def test_many_classes_agree_with_python(options, dtype):
    logits, y = many_classes(20)
    calibrator = SplineCalibrator(**options).fit(logits, y)
    scores = (2.0 * logits).astype(TYPES[dtype][0])
    got = to_torch(calibrator, dtype=dtype)(torch.from_numpy(scores))
    np.testing.assert_allclose(
        got.numpy(), calibrator.calibrate(scores), rtol=0.0, atol=TYPES[dtype][1]
    )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("dim", [-1, 1])
def test_what_is_calibrated_in_blocks_agrees_with_python(fitted, dim, dtype):
    calibrator = fitted("structured of logits")
    scores = torch.randn(
        (5, BLOCK // 8, 3) if dim == -1 else (5, 3, BLOCK // 8), dtype=dtype
    )
    scores.requires_grad_()
    got = to_torch(calibrator, dim=dim, dtype=dtype)(scores)
    rows = scores.detach().movedim(dim, -1).reshape(-1, 3).numpy()
    expected = calibrator.calibrate(rows).reshape(5, -1, 3)
    np.testing.assert_allclose(
        got.detach().movedim(dim, -1).numpy(), expected, rtol=0.0, atol=TYPES[dtype][1]
    )
    got.square().sum().backward()
    last = to_torch(calibrator, dim=dim, dtype=dtype)
    again = scores.detach()[-1:].requires_grad_()
    last(again).square().sum().backward()
    torch.testing.assert_close(scores.grad[-1:], again.grad, rtol=1e-4, atol=1e-6)


def test_a_table_of_lines_has_the_slopes_of_the_curve(fitted):
    calibrator = fitted("structured of logits")
    scores = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    slopes = []
    for dtype in TYPES:
        x = torch.tensor(scores, dtype=dtype, requires_grad=True)
        to_torch(calibrator, dtype=dtype)(x).square().sum().backward()
        slopes.append(x.grad.double())
    torch.testing.assert_close(slopes[0], slopes[1], rtol=0.0, atol=1e-3)


@pytest.mark.parametrize(
    "name",
    ["structured of logits", "ovr of logits", "ovr without a class", "ovr isotonic"],
)
@pytest.mark.parametrize(
    ("dim", "shape"),
    [(1, (2, 3, 5, 7)), (-3, (2, 3, 5, 7)), (1, (4, 3)), (0, (3, 6)), (-1, (2, 5, 3))],
)
def test_classes_may_have_any_dimension(name, dim, shape):
    calibrator = cached(name).calibrator
    scores = torch.randn(shape, dtype=torch.float64)
    if calibrator.model_.kind.value_kind == "probability":
        scores = torch.softmax(scores, dim)
    last = torch.movedim(scores, dim, -1)
    expected = calibrator.calibrate(last.reshape(-1, 3).numpy()).reshape(last.shape)
    got = to_torch(calibrator, dim=dim)(scores)
    assert got.shape == scores.shape
    np.testing.assert_allclose(
        torch.movedim(got, dim, -1).numpy(), expected, rtol=0.0, atol=1e-9
    )


def test_images_of_two_classes_have_one_channel_or_two(fitted):
    calibrator = fitted("identity")
    margins = torch.randn(2, 1, 4, 5, dtype=torch.float64)
    module = to_torch(calibrator, dim=1)
    expected = calibrator.calibrate(margins.flatten().numpy()).reshape(margins.shape)
    np.testing.assert_allclose(module(margins).numpy(), expected, rtol=0.0, atol=1e-9)
    p = torch.sigmoid(margins)
    both = to_torch(fitted("logit"), dim=1)(torch.cat([1.0 - p, p], dim=1))
    assert both.shape == (2, 2, 4, 5)
    torch.testing.assert_close(
        both.sum(dim=1), torch.ones(2, 4, 5, dtype=torch.float64)
    )


@pytest.fixture(
    params=[
        "asinh_logit",
        "identity",
        "isotonic",
        "ovr",
        "ovr isotonic",
        "structured of logits",
        "beta",
    ]
)
def usual(request):
    return cached(request.param)


def written(module, scores, how):
    """The module after a detour."""
    if how == "export":
        shapes = ({0: torch.export.Dim.DYNAMIC},)
        return torch.export.export(
            module, (scores[:7],), dynamic_shapes=shapes
        ).module()
    return copy.deepcopy(module)


@pytest.mark.parametrize("how", ["export", "copy"])
def test_a_module_can_be_written_down(usual, how):
    scores = torch.from_numpy(usual.scores)
    module = to_torch(usual.calibrator)
    got = written(module, scores, how)(scores)
    torch.testing.assert_close(got, module(scores), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("how", ["export", "copy"])
def test_a_module_for_images_can_be_written_down(fitted, how):
    images = torch.randn(9, 3, 4, 4)
    module = to_torch(fitted("structured of logits"), dim=1, dtype=torch.float32)
    torch.testing.assert_close(
        written(module, images, how)(images), module(images), rtol=0.0, atol=0.0
    )


@pytest.mark.parametrize(
    "name",
    [
        "logit",
        "identity",
        "sigmoid of margins",
        "ovr",
        "structured",
        "structured of logits",
        "softmax temperature",
    ],
)
def test_gradients_are_those_of_finite_differences(name):
    case = cached(name)
    rng = np.random.default_rng(1)
    takes_probabilities = case.calibrator.model_.kind.name == "probability"
    if case.scores.ndim == 1:
        scores = (
            rng.uniform(0.05, 0.95, 40) if takes_probabilities else rng.normal(size=40)
        )
    elif takes_probabilities:
        scores = rng.dirichlet(np.ones(3), 20)
    else:
        scores = rng.normal(size=(20, 3))
    module, h = to_torch(case.calibrator), 1e-5
    x = torch.tensor(scores, requires_grad=True)
    direction = torch.from_numpy(rng.normal(size=scores.shape))
    if case.scores.ndim == 2:
        direction -= direction.mean(dim=1, keepdim=True)  # rows stay sums of one
    weights = torch.from_numpy(rng.normal(size=scores.shape))
    (weights * module(x)).sum().backward()
    got = (x.grad * direction).reshape(len(scores), -1).sum(dim=1)
    above, below = (
        torch.from_numpy(case.calibrator.calibrate(scores + s * h * direction.numpy()))
        for s in (1, -1)
    )
    expected = (weights * (above - below) / (2 * h)).reshape(len(scores), -1).sum(dim=1)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


def test_gradients_are_numbers_at_the_ends(case):
    for dtype in (torch.float64,) if case.name == "large margins" else TYPES:
        x = torch.from_numpy(rows(case, dtype)[:500]).requires_grad_()
        to_torch(case.calibrator, dtype=dtype)(x).square().sum().backward()
        assert not torch.isnan(
            x.grad
        ).any()  # of a logarithm next to zero they may be beyond float32


def test_there_are_buffers_of_one_type_and_no_parameters(usual):
    module = to_torch(usual.calibrator, dtype=torch.float32)
    assert not list(module.parameters())
    assert {
        buffer.dtype for buffer in module.buffers() if buffer.is_floating_point()
    } <= {torch.float32}


def test_half_precision_changes_the_scores_and_not_the_curve(fitted):
    module = to_torch(fitted("structured of logits"))
    half = copy.deepcopy(module).half()
    scores = torch.randn(50, 3).half()
    got = half(scores)
    assert got.dtype == torch.float16
    torch.testing.assert_close(got, module(scores.double()).half(), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_are_no_scores_gives_nan(fitted, dtype):
    inf, nan = float("inf"), float("nan")
    pairs = torch.tensor([[0.5, 0.6], [-0.2, 1.2], [nan, 0.5], [0.4, 0.6]], dtype=dtype)
    assert torch.isnan(to_torch(fitted("logit"))(pairs)).all(dim=1).tolist() == [
        True,
        True,
        True,
        False,
    ]
    margins = torch.tensor([inf, nan, -inf, 0.5], dtype=dtype)
    assert torch.isnan(to_torch(fitted("identity"))(margins)).tolist() == [
        True,
        True,
        True,
        False,
    ]
    triples = torch.tensor(
        [[0.5, 0.6, 0.2], [-0.2, 1.0, 0.2], [nan, 0.5, 0.5], [0.2, 0.3, 0.5]],
        dtype=dtype,
    )
    logits = torch.tensor(
        [[inf, 0.0, 0.0], [0.0, -inf, 0.0], [0.0, 0.0, nan], [0.2, 0.3, 0.5]],
        dtype=dtype,
    )
    for name, values in [
        ("ovr", triples),
        ("structured", triples),
        ("structured of logits", logits),
        ("ovr of logits", logits),
    ]:
        module = to_torch(fitted(name), dtype=dtype)
        assert torch.isnan(module(values)).all(dim=1).tolist() == [
            True,
            True,
            True,
            False,
        ], name


def test_no_rows_give_no_rows(usual):
    scores = torch.from_numpy(usual.scores[:0])
    assert to_torch(usual.calibrator)(scores).shape == scores.shape


def test_wrong_arguments_say_so(fitted):
    with pytest.raises(TypeError, match="dim must be an integer; got 'classes'"):
        to_torch(fitted("ovr"), dim="classes")
    with pytest.raises(
        ValueError,
        match=r"dtype must be torch\.float64, torch\.float32 or None; got torch\.float16",
    ):
        to_torch(fitted("ovr"), dtype=torch.float16)
    with pytest.raises(
        ValueError, match="scores must have the size 3 along dim; got 4"
    ):
        to_torch(fitted("ovr"))(torch.rand(5, 4))
    with pytest.raises(
        ValueError, match="scores must have the size 1 or 2 along dim; got 4"
    ):
        to_torch(fitted("logit"))(torch.rand(5, 4))
    for name in ("logit", "ovr"):
        with pytest.raises(TypeError, match="scores must be of a floating type"):
            to_torch(fitted(name))(torch.ones(5, 3, dtype=torch.int64))


PROCESS = """
import sys, torch
model = {load}
torch.save(model(torch.load("inputs.pt")), "outputs.pt")
print("calspline" in sys.modules)
"""


@pytest.mark.process
@pytest.mark.parametrize("how", ["save", "export"])
def test_a_network_and_its_calibrator_run_in_another_process(tmp_path, how):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)
    )
    features = torch.randn(3000, 4)
    logits = network(features).detach().numpy()
    y = (3.0 * logits + np.random.default_rng(0).gumbel(size=logits.shape)).argmax(
        axis=1
    )
    calibrator = SplineCalibrator(scale="identity").fit(logits, y)
    model = torch.nn.Sequential(network, to_torch(calibrator))
    expected = calibrator.calibrate(logits)
    np.testing.assert_allclose(
        model(features).detach().numpy(), expected, rtol=0.0, atol=1e-6
    )

    torch.save(features, tmp_path / "inputs.pt")
    load = {
        "save": 'torch.load("model.pt", weights_only=False)',
        "export": 'torch.export.load("model.pt").module()',
    }[how]
    if how == "save":
        torch.save(model, tmp_path / "model.pt")
    else:
        torch.export.save(
            torch.export.export(model, (features,)), tmp_path / "model.pt"
        )
    code = PROCESS.format(load=load)
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(how == "save")]  # a program needs no calspline
    got = torch.load(tmp_path / "outputs.pt")
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=0.0, atol=1e-6)


def test_the_weights_of_a_network_stay_its_parameters(fitted):
    network = torch.nn.Linear(4, 3)
    model = torch.nn.Sequential(network, to_torch(fitted("structured of logits")))
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias"]
    model(torch.randn(6, 4)).log().sum().backward()
    assert torch.isfinite(network.weight.grad).all()


def test_two_margins_give_nan_where_the_fit_was_on_one(fitted):
    """Python refuses them; a model's ``[-d, d]`` is no difference of margins."""
    margins = np.array([[-1.5, 1.5], [0.2, -0.2]])
    assert torch.isnan(to_torch(fitted("identity"))(torch.tensor(margins))).all()
    with pytest.raises(ValueError, match="must be one column of margins"):
        fitted("identity").calibrate(margins)


def test_more_rows_than_a_block_are_calibrated_as_single_rows_are():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), BLOCK)
    labels = [rng.choice(3, p=row) for row in p[:300]]
    cal = SplineCalibrator().fit(p[:300], labels)
    module = to_torch(cal)
    got = module(torch.from_numpy(p)).numpy()
    np.testing.assert_allclose(got, cal.predict_proba(p), atol=1e-9)
    last = module(torch.from_numpy(p[-1:])).numpy()
    np.testing.assert_allclose(got[-1:], last, rtol=1e-12)
