"""The activation instruction: functions, ranges, scale and bias, accumulators, casts."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npuviz.targets.neuroncore.activation_tables import TABLE_SETS, sets_of
from npuviz.targets.neuroncore.isa import Activation, Dtype, Engine, Opcode, ReduceCmd, Space
from npuviz.targets.neuroncore.values.activation import FUNCTIONS, RANGES
from npuviz.targets.neuroncore.values.engine import ValueEngine
from tests.targets.neuroncore.programs import BF16, F16, F32, I8, Maker, at, values_at

RANDOM = np.random.default_rng(11)
EVERYWHERE = np.concatenate(
    [RANDOM.uniform(-6, 6, (128, 60)), RANDOM.uniform(-40, 40, (128, 4))], axis=1
).astype(np.float32)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def slope(f: Callable[[float], float]) -> Callable[[float], float]:
    """The derivative by a central difference of high order."""
    h = 1e-3

    def derivative(x: float) -> float:
        return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)

    return derivative


def gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


REFERENCES: dict[Activation, Callable[[float], float]] = {
    Activation.COPY: lambda x: x,
    Activation.SQUARE: lambda x: x * x,
    Activation.SIGN: lambda x: math.copysign(1, x),
    Activation.ABS: abs,
    Activation.SIGMOID: sigmoid,
    Activation.TANH: math.tanh,
    Activation.EXP: math.exp,
    Activation.RELU: lambda x: max(x, 0.0),
    Activation.PRELU: lambda x: x if x > 0 else 0.125 * x,
    Activation.GELU: lambda x: x * phi(x),
    Activation.GELU_DX: slope(lambda x: x * phi(x)),
    Activation.ERF: math.erf,
    Activation.ERF_DX: slope(math.erf),
    Activation.GELU_APPRX_TANH: gelu_tanh,
    Activation.GELU_APPRX_SIGMOID: lambda x: x * sigmoid(1.702 * x),
    Activation.GELU_APPRX_SIGMOID_DX: slope(lambda x: x * sigmoid(1.702 * x)),
    Activation.SILU: lambda x: x * sigmoid(x),
    Activation.SILU_DX: slope(lambda x: x * sigmoid(x)),
    Activation.SOFTPLUS: softplus,
    Activation.MISH: lambda x: x * math.tanh(softplus(x)),
    Activation.LOG: math.log,
    Activation.SIN: math.sin,
    Activation.ARCTAN: math.atan,
    Activation.SQRT: math.sqrt,
    Activation.RSQRT: lambda x: x**-0.5,
    Activation.RECIPROCAL: lambda x: 1 / x,
}

INPUTS = {
    Activation.LOG: np.exp2(RANDOM.uniform(-64, 64, (128, 64))),
    Activation.SIN: RANDOM.uniform(-3.14, 3.14, (128, 64)),
    Activation.ARCTAN: RANDOM.uniform(-1.57, 1.57, (128, 64)),
    Activation.SQRT: np.exp2(RANDOM.uniform(-116, 118, (128, 64))),
    Activation.RSQRT: np.exp2(RANDOM.uniform(-87, 97, (128, 64))),
    Activation.RECIPROCAL: np.exp2(RANDOM.uniform(-42, 42, (128, 64))) * RANDOM.choice([-1, 1], (128, 64)),
}


def run(
    values: np.ndarray, function: Activation, dtype: int = F32, **options: Any
) -> tuple[ValueEngine, np.ndarray]:
    maker = Maker()
    source = maker.load(values)
    out = at(dtype, values.shape[1:], 8192, partitions=len(values))
    if function in tuple(Activation):
        maker.run(Opcode.TABLE_LOAD, engine=Engine.ACTIVATION, id=sets_of(function)[0])
    maker.run(
        Opcode.ACTIVATION,
        engine=Engine.ACTIVATION,
        dst=out,
        src0=source,
        op0=function,
        imm=options.pop("imm", (1.0, 0.0, 0.125)),
        **options,
    )
    engine = maker.finish()
    return engine, values_at(engine, out)


def test_every_function_has_a_reference() -> None:
    assert set(FUNCTIONS) == set(REFERENCES) == set(Activation)
    assert set(RANGES) == set(INPUTS)


@pytest.mark.parametrize("function", REFERENCES)
def test_functions_inside_their_range(function: Activation) -> None:
    values = INPUTS.get(function, EVERYWHERE).astype(np.float32)
    engine, found = run(values, function)
    assert engine.hazards == []
    expected = np.vectorize(REFERENCES[function], otypes=[np.float64])(values.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-6)


def test_functions_of_special_values() -> None:
    values = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan, 100.0, -100.0]], np.float32)
    expected = {
        Activation.SIGMOID: [0.5, 0.5, 1, 0, np.nan, 1, 0],
        Activation.TANH: [0, 0, 1, -1, np.nan, 1, -1],
        Activation.RELU: [0, 0, np.inf, 0, np.nan, 100, 0],
        Activation.SOFTPLUS: [math.log(2), math.log(2), np.inf, 0, np.nan, 100, 0],
        Activation.ERF: [0, 0, 1, -1, np.nan, 1, -1],
        Activation.GELU: [0, 0, np.inf, 0, np.nan, 100, 0],
        Activation.GELU_DX: [0.5, 0.5, 1, 0, np.nan, 1, 0],
        Activation.SILU_DX: [0.5, 0.5, 1, 0, np.nan, 1, 0],
        Activation.SIGN: [0, 0, 1, -1, np.nan, 1, -1],
    }
    for function, wanted in expected.items():
        _, found = run(values, function)
        np.testing.assert_allclose(found[0], wanted, atol=1e-6, err_msg=function.name)


def test_sin_goes_on_as_a_cubic() -> None:
    """Ref: the vendor's page gives sin(9.0) as about 27.65."""
    values = np.array([[9.0, -9.0, 3.2, math.pi / 2]], np.float32)
    engine, found = run(values, Activation.SIN)
    assert found[0, 0] == pytest.approx(27.65, abs=0.01)
    assert found[0, 1] == pytest.approx(-27.65, abs=0.01)
    assert found[0, 2] == pytest.approx(math.sin(3.2), abs=1e-4)
    assert found[0, 3] == pytest.approx(1)
    assert [hazard.kind for hazard in engine.hazards] == ["input-range"]


@pytest.mark.parametrize(
    ("function", "inside", "outside", "text"),
    [
        (Activation.LOG, [2.0**-64, 2.0**64], [2.0**-65, 2.0**65, 0.0, -1.0], "[2^-64, 2^64]"),
        (Activation.SIN, [math.pi, -math.pi], [3.142, -3.142], "[-pi, pi]"),
        (Activation.ARCTAN, [math.pi / 2, -math.pi / 2], [1.571, -1.571], "[-pi/2, pi/2]"),
        (Activation.SQRT, [2.0**-116, 2.0**118], [2.0**-117, 2.0**119, 0.0], "[2^-116, 2^118]"),
        (Activation.RSQRT, [2.0**-87, 2.0**97], [2.0**-88, 2.0**98, -4.0], "[2^-87, 2^97]"),
        (Activation.RECIPROCAL, [-(2.0**-42), 2.0**42], [2.0**-43, -(2.0**43)], "magnitude in [2^-42, 2^42]"),
    ],
)
def test_ranges(function: Activation, inside: list[float], outside: list[float], text: str) -> None:
    engine, _ = run(np.array([inside], np.float32), function)
    assert engine.hazards == []
    for value in (*outside, math.nan):
        rows = np.full((40, 3), inside[0], np.float32)
        rows[33, 2] = value
        engine, _ = run(rows, function)
        (hazard,) = engine.hazards
        assert hazard.kind == "input-range"
        for part in (f"instruction {hazard.entry}", "partition 33", text, f"{np.float32(value):.9g}"):
            assert part in hazard.text


def test_the_range_is_of_what_the_function_sees() -> None:
    values = np.full((4, 8), 100.0, np.float32)
    assert run(values, Activation.SIN, imm=(0.01, 0.5, 0))[0].hazards == []
    assert run(np.zeros((4, 8), np.float32), Activation.SIN, imm=(1.0, 4.0, 0))[0].hazards


@pytest.mark.parametrize("scale_is_column", [False, True])
@pytest.mark.parametrize("bias_is_column", [False, True])
def test_scale_then_bias_then_function(scale_is_column: bool, bias_is_column: bool) -> None:
    scale, bias = RANDOM.standard_normal((2, 128, 1)).astype(np.float32)
    maker = Maker()
    source = maker.load(EVERYWHERE.reshape(128, 4, 16))
    columns = {}
    if scale_is_column:
        columns["arg0"] = maker.load(scale, 1024)
    if bias_is_column:
        columns["arg1"] = maker.load(bias.astype(ml_dtypes.bfloat16), 1088)
    out = at(F32, [64], 8192)
    maker.run(
        Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=out, src0=source, op0=Activation.TANH,
        imm=(-0.75, 0.3, 0), **columns,
    )  # fmt: skip
    factor = scale.astype(np.float64) if scale_is_column else float(np.float32(-0.75))
    added = bias.astype(ml_dtypes.bfloat16).astype(np.float64) if bias_is_column else float(np.float32(0.3))
    expected = np.tanh(EVERYWHERE.astype(np.float64) * factor + added)
    np.testing.assert_allclose(values_at(maker.finish(), out), expected, rtol=1e-5, atol=1e-6)


def test_the_bias_is_inside_the_function() -> None:
    """(2 b + c)^2, not 2 b^2 + c."""
    _, found = run(np.array([[3.0]], np.float32), Activation.SQUARE, imm=(2.0, 1.0, 0))
    assert found.tolist() == [[49.0]]


@pytest.mark.parametrize("dtype", [BF16, F16, I8])
def test_the_output_is_cast_after_fp32(dtype: Dtype) -> None:
    _, found = run(EVERYWHERE, Activation.TANH, dtype, imm=(1.0, 0.0, 0))
    wide = np.tanh(EVERYWHERE)
    kinds = {BF16: ml_dtypes.bfloat16, F16: np.float16}
    expected = np.rint(wide) if dtype == I8 else wide.astype(kinds[dtype])
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_input_types_and_psum() -> None:
    values = RANDOM.integers(-100, 100, (128, 32)).astype(np.int16)
    maker = Maker()
    source = maker.load(values)
    psum = at(F32, [32], 2048, space=Space.PSUM)
    out = at(F32, [32], 8192)
    maker.run(
        Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=psum, src0=source, op0=Activation.COPY, imm=(0.5,)
    )
    maker.run(
        Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=out, src0=psum, op0=Activation.RELU, imm=(1.0,)
    )
    np.testing.assert_array_equal(values_at(maker.finish(), out), np.maximum(values * 0.5, 0))


def test_accumulators_through_every_command() -> None:
    """A chain: the accumulators persist, also where nothing reads them out."""
    values = RANDOM.standard_normal((7, 128, 20)).astype(np.float32)
    commands = [
        ReduceCmd.REDUCE, ReduceCmd.RESET_REDUCE, ReduceCmd.REDUCE, ReduceCmd.IDLE, ReduceCmd.REDUCE,
        ReduceCmd.RESET, ReduceCmd.REDUCE,
    ]  # fmt: skip
    maker = Maker()
    state, expected = np.zeros(128), []
    readouts = [at(F32, [1], 16384 + 4 * step) for step in range(len(commands))]
    out = at(F32, [20], 8192)
    for step, command in enumerate(commands):
        source = maker.load(values[step], 256 * step)
        reads: dict[str, Any] = {} if step in (1, 4) else {"res": readouts[step]}
        maker.run(
            Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=out, src0=source, op0=Activation.SQUARE,
            imm=(1.0,), cmd=command, **reads,
        )  # fmt: skip
        total = (values[step].astype(np.float64) ** 2).sum(1)
        if command in (ReduceCmd.RESET, ReduceCmd.RESET_REDUCE):
            state = np.zeros(128)
        if command in (ReduceCmd.REDUCE, ReduceCmd.RESET_REDUCE):
            state = state + total
        expected.append(state)
    engine = maker.finish()
    for step, wanted in enumerate(expected):
        if step not in (1, 4):
            np.testing.assert_allclose(values_at(engine, readouts[step])[:, 0], wanted, rtol=1e-5)
    np.testing.assert_allclose(engine.accumulators(0), expected[-1], rtol=1e-5)
    np.testing.assert_allclose(values_at(engine, out), values[-1] ** 2, rtol=1e-6)


def test_the_sum_is_of_fp32_before_the_cast() -> None:
    values = np.full((4, 1000), 1.001, np.float32)
    total = at(F32, [1], 12288, partitions=4)
    engine, found = run(values, Activation.COPY, BF16, imm=(1.0,), cmd=ReduceCmd.RESET_REDUCE, res=total)
    assert (found.astype(np.float32) == 1.0).all()
    np.testing.assert_allclose(values_at(engine, total), 1001.0, rtol=1e-5)


def test_accumulators_belong_to_lanes() -> None:
    values = np.ones((32, 8), np.float32)
    maker = Maker()
    source = maker.load(values, 0, partition=64)
    maker.run(
        Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=at(F32, [8], 512, partition=64, partitions=32),
        src0=source, op0=Activation.COPY, imm=(1.0,), cmd=ReduceCmd.RESET_REDUCE,
    )  # fmt: skip
    wanted = np.zeros(128)
    wanted[64:96] = 8
    np.testing.assert_array_equal(maker.finish().accumulators(0), wanted)


def test_what_activation_refuses() -> None:
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"cmd": ReduceCmd.LOAD_REDUCE}, "load_reduce"),
        ({"cmd": 9}, "load_reduce"),
        ({"arg0": at(F32, [2], 0)}, "one in each"),
        ({"res": at(F32, [2], 4096)}, "one element"),
    )
    for options, part in refused:
        engine, found = run(EVERYWHERE, Activation.EXP, **options)
        assert [hazard.kind for hazard in engine.hazards] == ["fault"]
        assert part in engine.hazards[0].text
        assert not found.any()
    engine, _ = run(EVERYWHERE, 200)  # pyright: ignore[reportArgumentType]
    assert "function 200" in engine.hazards[0].text


def test_tables_are_remembered() -> None:
    maker = Maker()
    maker.run(Opcode.TABLE_LOAD, engine=Engine.ACTIVATION, id=5)
    maker.run(Opcode.TABLE_LOAD, engine=Engine.ACTIVATION, id=2)
    engine, log = maker.engine(), maker.log()
    found = []
    for length in (0, 1, 2, 1, 0):
        engine.advance_to(log[:length])
        found.append(engine.table_set(0))
    assert found == [-1, 5, 2, 5, -1]


def test_a_function_of_another_table_set_is_a_hazard() -> None:
    maker = Maker()
    source = maker.load(np.ones((4, 8), np.float32))
    out = at(F32, [8], 8192, partitions=4)
    functions = (Activation.GELU, Activation.EXP, Activation.GELU, Activation.RELU)
    for function, loaded in zip(functions, (None, 0, None, None), strict=True):
        if loaded is not None:
            maker.run(Opcode.TABLE_LOAD, engine=Engine.ACTIVATION, id=loaded)
        maker.run(Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=out, src0=source, op0=function, imm=(2.0,))
    hazards = maker.finish().hazards
    assert [hazard.kind for hazard in hazards] == ["table-set", "table-set"]
    assert hazards[0].text.endswith("gelu needs table set gelu_and_others; loaded is none")
    assert hazards[1].text.endswith(f"gelu needs table set gelu_and_others; loaded is {TABLE_SETS[0]}")
