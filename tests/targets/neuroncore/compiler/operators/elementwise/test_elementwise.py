"""Elementwise operators on the machine, against onnx's reference and numpy."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from npuviz.targets.neuroncore.compiler.operators.elementwise.formulas import FORMULAS
from npuviz.targets.neuroncore.compiler.operators.elementwise.iteration import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from tests.targets.neuroncore.compiler.on_machine import check_node, run_node

SPECIAL = np.array(
    [0, 1, -1, 0.5, -0.5, 1e-8, -1e-3, 2, 7.5, -7.5, 20, -20, 87, -87, 1e10, -1e10, 1e-30, 3e38, 2.5, -2.5],
    np.float32,
)
INFINITE = np.array([np.inf, -np.inf], np.float32)
UNIT = np.concatenate([np.linspace(-1, 1, 41), [1e-7, 0.9999999]]).astype(np.float32)
ANGLES = np.linspace(-60, 60, 203).astype(np.float32)
ABOVE_ONE = np.concatenate([[1, 1.0000001, 1.001], np.geomspace(1.1, 1e9, 30)]).astype(np.float32)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(7)


EXACT: dict[str, tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]] = {
    "Sin": (np.sin, ANGLES),
    "Cos": (np.cos, ANGLES),
    "Tan": (np.tan, ANGLES[np.abs(np.cos(ANGLES)) > 0.05]),
    "Asin": (np.arcsin, UNIT),
    "Acos": (np.arccos, UNIT),
    "Atan": (np.arctan, np.concatenate([SPECIAL, INFINITE])),
    "Sinh": (np.sinh, SPECIAL[np.abs(SPECIAL) < 88]),
    "Cosh": (np.cosh, SPECIAL[np.abs(SPECIAL) < 88]),
    "Asinh": (np.arcsinh, SPECIAL[np.abs(SPECIAL) < 1e18]),
    "Acosh": (np.arccosh, ABOVE_ONE),
    "Atanh": (np.arctanh, UNIT),
    "Log": (np.log, np.concatenate([np.abs(SPECIAL), INFINITE[:1], [-1.0]]).astype(np.float32)),
    "Exp": (np.exp, np.concatenate([SPECIAL, INFINITE])),
    "Sqrt": (np.sqrt, np.concatenate([np.abs(SPECIAL), INFINITE[:1], [-1.0]]).astype(np.float32)),
}


@pytest.mark.parametrize("op_type", EXACT)
def test_functions_are_near_fp32_and_stay_in_the_valid_ranges(op_type: str) -> None:
    function, x = EXACT[op_type]
    with np.errstate(all="ignore"):
        expected = function(x.astype(np.float64)).astype(np.float32)
    check_node(op_type, [x], expected=[expected], rtol=2e-5, atol=3e-7)


@pytest.mark.parametrize(("op_type", "function"), [("Sin", np.sin), ("Cos", np.cos)])
def test_waves_of_angles_near_half_turns_are_exact(op_type: str, function: Callable[..., np.ndarray]) -> None:
    """Of a thousand turns, fp32 has steps of 4e-4: the nearest turn is told wrongly next to a half."""
    half_turns = (2 * np.arange(900, 1000) + 1) * math.pi
    x = np.concatenate([half_turns, -half_turns, half_turns - math.pi / 2]).astype(np.float32)
    expected = function(x.astype(np.float64)).astype(np.float32)
    check_node(op_type, [x], expected=[expected], rtol=0, atol=1e-6)


ACTIVATIONS = (
    "Abs",
    "Neg",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Reciprocal",
    "Erf",
    "Gelu",
    "Sigmoid",
    "Tanh",
    "Relu",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Celu",
    "HardSigmoid",
    "HardSwish",
    "Mish",
    "Softplus",
    "Softsign",
    "ThresholdedRelu",
    "Shrink",
)


@pytest.mark.parametrize("op_type", ACTIVATIONS)
def test_activations_on_extreme_values(op_type: str) -> None:
    check_node(op_type, [SPECIAL], rtol=2e-5, atol=2e-7)


@pytest.mark.parametrize("op_type", ["Floor", "Ceil", "Round", "Abs", "Relu", "IsNaN", "IsInf", "Neg"])
def test_infinities_and_nan_pass_through(op_type: str) -> None:
    check_node(op_type, [np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((), ()),
        ((1,), (7,)),
        ((513,), (513,)),
        ((100003,), (100003,)),
        ((2, 3, 700), (3, 1)),
        ((128, 768), (768,)),
        ((300, 5), (5,)),
        ((1, 16, 20, 20), (16, 1, 1)),
        ((2, 1, 3, 1, 5), (1, 4, 1, 6, 5)),
        ((4, 1, 3000), (1, 5, 1)),
        ((2, 3, 4, 5, 6, 7), (3, 1, 5, 1, 7)),
        ((0, 3), (3,)),
        ((1000, 1), (1, 17)),
    ],
)
def test_any_broadcast_shapes(
    first: tuple[int, ...], second: tuple[int, ...], rng: np.random.Generator
) -> None:
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in (first, second))
    check_node("Sub", [x, y])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers_wrap_around_and_divide_towards_zero(kind: type, rng: np.random.Generator) -> None:
    info = np.iinfo(kind)
    x = rng.integers(info.min, info.max, (3, 70), kind, endpoint=True)
    y = rng.integers(info.min, info.max, (70,), kind, endpoint=True)
    y[:20] %= 7
    y[y == 0] = 3
    for op_type in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Greater", "LessOrEqual"):
        check_node(op_type, [x, y])
    for op_type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        check_node(op_type, [x, y])
    if info.min < 0:
        check_node("Mod", [x, y], fmod=1)
        check_node("Abs", [x])
        check_node("Sign", [x])


def test_64_bit_integers_are_computed_in_32_bits_and_the_user_is_told() -> None:
    x = np.array([1, -5, 2**31 - 2], np.int64)
    ran = check_node("Add", [x, np.array([1, 1, 1], np.int64)])
    assert "wide-integers" in {note.code for note in ran.program.notes}


def test_where_keeps_what_is_not_chosen(rng: np.random.Generator) -> None:
    condition = rng.random((4, 300)) > 0.5
    x, y = rng.standard_normal(300).astype(np.float32), np.full((4, 1), np.nan, np.float32)
    check_node("Where", [condition, x, y])


@pytest.mark.parametrize("opset", [6, 13])
def test_clip_takes_its_limits_from_attributes_or_inputs(opset: int) -> None:
    x = np.array([-3, -1, 0, 1, 3], np.float32)
    expected = [np.clip(x, -1, 2)]
    if opset == 6:
        check_node("Clip", [x], expected=expected, opset=opset, min=-1.0, max=2.0)
    else:
        limits = [np.array(-1, np.float32), np.array(2, np.float32)]
        check_node("Clip", [x, *limits], expected=expected, opset=opset)
        check_node("Clip", [x, *limits], expected=expected, opset=opset, constants=(1, 2))


@pytest.mark.parametrize("preset", ["inf1", "trn1", "trn2", "trn3"])
@pytest.mark.parametrize("op_type", ["Log", "Sin", "Asinh", "HardSwish"])
def test_formulas_run_on_every_generation(op_type: str, preset: str) -> None:
    x = np.linspace(0.1, 5, 300).astype(np.float32)
    ran = run_node(op_type, [x], preset=preset)
    assert ran.host == []
    assert ran.hazards == []
    wanted = {"Log": np.log, "Sin": np.sin, "Asinh": np.arcsinh}.get(
        op_type, lambda value: value * np.clip(value / 6 + 0.5, 0, 1)
    )
    np.testing.assert_allclose(ran.outputs[0], wanted(x), 2e-5, 1e-6)


def test_float64_is_computed_as_float32() -> None:
    ran = run_node("Add", [np.ones(3), np.ones(3)])
    assert ran.host == []
    assert ran.outputs[0].dtype == np.float32
    np.testing.assert_array_equal(ran.outputs[0], np.full(3, 2.0))


@pytest.mark.parametrize(
    "shape",
    [(1,), (512,), (513,), (129, 5), (3, 4000), (2, 3, 5, 7, 11), (64, 3136), (70, 1, 130), (2, 65, 2049)],
)
@pytest.mark.parametrize("width", [64, 300, 2048])
def test_blocks_cover_every_element_once_within_the_limits(shape: tuple[int, ...], width: int) -> None:
    view = HbmView(0, 0, "uint8", shape)
    row = HbmView(1, 0, "uint8", (1,) * (len(shape) - 1) + shape[-1:])
    seen = np.zeros(math.prod(shape), np.int32)
    for block in blocks(shape, (view, row), width):
        assert 1 <= block.partitions <= 128
        assert math.prod(block.free) <= max(width, 512)
        assert len(block.free) <= 4
        whole, repeated = block.sides
        places = _places(whole, (block.partitions, *block.free))
        seen[places] += 1
        np.testing.assert_array_equal(_places(repeated, (block.partitions, *block.free)), places % shape[-1])
    np.testing.assert_array_equal(seen, 1)


def _places(view: HbmView, shape: tuple[int, ...]) -> np.ndarray:
    """Element numbers that a view of bytes, repeated to `shape`, names."""
    wide = view.broadcast_to(shape)
    found = np.full(shape, wide.offset)
    for axis, step in enumerate(wide.steps):
        line = np.arange(shape[axis]) * step
        found += line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return found.reshape(-1)


def test_every_formula_has_a_case_in_onnx_or_here() -> None:
    """A formula whose name no operator has would never be used."""
    import onnx

    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    assert set(FORMULAS) <= known
