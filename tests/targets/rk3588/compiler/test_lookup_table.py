"""Tables of activations, run through the values engine on DPU tasks of their own and behind CORE."""

import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from npuviz.formats.rk3588.registers import Word
from npuviz.onnx.semantics.attributes import Attributes
from npuviz.targets.rk3588.compiler.activation_functions import activation_function
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.lookup_table import (
    ActivationTable,
    Piece,
    half_table,
    stand_alone_table,
    two_functions,
)
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from tests.targets.rk3588.values.test_dpu import run

NAMES = [
    "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Gelu", "Elu", "Selu", "Celu", "LeakyRelu", "Softplus",
    "Mish", "Erf",
]  # fmt: skip
TARGETS = [Quantisation(1 / 256, -128), Quantisation(0.031, 5), Quantisation(0.05, -100)]


def expected(name: str, values: np.ndarray) -> np.ndarray:
    """What ONNX says; Silu is x * Sigmoid(x)."""
    if name == "Silu":
        return values * expected("Sigmoid", values)
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, values.shape)
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, values.shape)
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"])], "one", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    onnx.checker.check_model(model)
    (found,) = ReferenceEvaluator(model).run(None, {"x": values.astype(np.float64)})
    return np.asarray(found)


def changes_of(words: list[Word]) -> dict[int, int]:
    """Registers by offset; table entries are no state, a second one would overwrite the first."""
    return {word.offset: word.value for word in words if word.offset not in (0x4100, 0x4104)}


def through(table: ActivationTable, values: np.ndarray, *, half: bool, scale: int = 0) -> np.ndarray:
    """What a task on its own makes of values of one channel; scale: another factor of BS."""
    factor = scale or table.main_factor
    stages = Stages(bias_constant=table.bias_constant, main_factor=factor).words(to_half=half)
    changes = changes_of([*stages, *table.switch_words(to_half=half), *table.fill])
    fill = [word.packed for word in table.fill]
    out = np.float16 if half else np.int8
    return run(values, changes, out=out, proc=2 if half else 0, table=fill).reshape(-1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*NAMES, "Silu"])
def test_every_int8_input_is_within_one_step(name: str, target: Quantisation) -> None:
    source = Quantisation(0.047, 9)
    found = activation_function(name, Attributes(name, {}))
    assert found is not None
    table = stand_alone_table(found.function, source, target)
    inputs = np.arange(-128, 128, dtype=np.int8)
    outputs = through(table, inputs[:, None, None].transpose(1, 2, 0).copy(), half=False)
    real = expected(name, (inputs.astype(np.float64) - source.zero_point) * source.scale)
    exact = np.clip(np.rint(real / target.scale) + target.zero_point, -128, 127)
    off = np.abs(outputs.astype(int) - exact)
    assert off.max() <= 1
    assert np.mean(off) < 0.02


@pytest.mark.parametrize("name", [*NAMES, "Silu"])
def test_fp16_is_close_inside_and_outside_of_the_tables(name: str) -> None:
    found = activation_function(name, Attributes(name, {}))
    assert found is not None
    table = half_table(found.function, found.low, found.high)
    inputs = np.linspace(-24, 24, 3001).astype(np.float16)
    outputs = through(table, inputs[None, None, :], half=True).astype(np.float64)
    real = expected(name, inputs.astype(np.float64))
    # Besides what fp16 itself rounds off.
    assert np.all(np.abs(outputs - real) <= 1e-3 + np.abs(real) * 2.0**-11)


@pytest.mark.parametrize("name", ["Sigmoid", "Tanh", "HardSigmoid", "Erf"])
def test_functions_that_level_off_stay_level_far_outside(name: str) -> None:
    found = activation_function(name, Attributes(name, {}))
    assert found is not None
    table = half_table(found.function, found.low, found.high)
    inputs = np.concatenate([np.linspace(-16, 16, 2001), [-60000, -300, -17, 17, 300, 60000]]).astype(
        np.float16
    )
    outputs = through(table, inputs[None, None, :], half=True).astype(np.float64)
    real = found.function(inputs.astype(np.float64))
    assert np.abs(outputs - real).max() <= 6e-5 + 2.0**-12
    assert outputs.min() >= real.min() - 1e-6


@pytest.mark.parametrize(("low", "high"), [(-8, 8), (0, 2), (-4, 12)])
def test_fp16_domains_need_not_be_symmetric(low: int, high: int) -> None:
    table = half_table(np.sin, low, high)
    inputs = np.linspace(low, high, 801).astype(np.float16)
    outputs = through(table, inputs[None, None, :], half=True).astype(np.float64)
    assert np.abs(outputs - np.sin(inputs.astype(np.float64))).max() < 1e-3


def test_attributes_and_operators_that_are_no_activations() -> None:
    leaky = activation_function("LeakyRelu", Attributes("LeakyRelu", {"alpha": 0.25}))
    assert leaky is not None
    assert leaky.function(np.array([-4.0, 4.0])).tolist() == [-1.0, 4.0]
    tanh = activation_function("Gelu", Attributes("Gelu", {"approximate": "tanh"}))
    exact = activation_function("Gelu", Attributes("Gelu", {}))
    assert tanh is not None
    assert exact is not None
    one = np.array([1.0])
    assert math.isclose(float(exact.function(one)[0]), 0.8413447460685429, rel_tol=1e-12)
    assert 1e-5 < abs(float(tanh.function(one)[0] - exact.function(one)[0])) < 1e-3
    assert activation_function("Softmax", Attributes("Softmax", {})) is None


def test_domains_that_cover_nothing() -> None:
    with pytest.raises(ValueError, match="power of two"):
        half_table(np.sin, 0, 3)
    with pytest.raises(ValueError, match="power of two"):
        half_table(np.sin, 0, 1)


def test_two_functions_side_by_side() -> None:
    """Each in its domain, the first level below it, the second level above; between them, where they meet."""
    table = two_functions(Piece(lambda x: np.tanh(x / 4), -16, 16), Piece(lambda x: np.tanh(64 - x), 60, 68))
    inputs = np.concatenate([[-60000, -20], np.linspace(-16, 16, 501), [17, 30, 50]]).astype(np.float16)
    above = np.concatenate([np.linspace(60, 68, 501), [69, 100, 60000]]).astype(np.float16)
    outputs = through(table, np.concatenate([inputs, above])[None, None, :], half=True).astype(np.float64)
    real = np.tanh(np.concatenate([inputs.astype(np.float64) / 4, 64 - above.astype(np.float64)]))
    assert np.abs(outputs - real).max() < 1e-3
    with pytest.raises(ValueError, match="power of two"):
        two_functions(Piece(np.sin, 0, 3), Piece(np.sin, 8, 16))
    with pytest.raises(ValueError, match="overlap"):
        two_functions(Piece(np.sin, 0, 8), Piece(np.sin, 8, 16))
