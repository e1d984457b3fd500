"""Chains of element-by-element operators on 8-bit tensors: one task with a table, exact for all numbers."""

from pathlib import Path

import numpy as np
import pytest

from npuviz.base.progress import NoProgress
from npuviz.onnx.reader import read_model
from npuviz.onnx.runtime import onnxruntime
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588.compiler.layers import Planner
from npuviz.targets.rk3588.compiler.pointwise import between_steps, most_steps_between
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.target import TARGET
from tests.targets.rk3588.compiler.models import FOREVER, Model, on_npu

SCALE = 0.05


class Quantised(Model):
    """A model whose nodes are followed by a QuantizeLinear and a DequantizeLinear."""

    def rounded(self, source: str, scale: float = SCALE, point: int = 3, kind: type = np.int8) -> str:
        ends = [self.constant(np.float32(scale)), self.constant(kind(point))]
        return self.add("DequantizeLinear", self.add("QuantizeLinear", source, *ends), *ends)

    def product(self, source: str, inputs: int, outputs: int) -> str:
        """A convolution of 1x1 with weights and bias in integers."""
        draw = np.random.default_rng(outputs)
        step = self.constant(np.float32(0.002))
        weights = draw.integers(-90, 90, (outputs, inputs, 1, 1)).astype(np.int8)
        bias = draw.integers(-4000, 4000, outputs).astype(np.int32)
        return self.add(
            "Conv",
            source,
            self.add("DequantizeLinear", self.constant(weights), step),
            self.add("DequantizeLinear", self.constant(bias), self.constant(np.float32(0.002 * SCALE))),
        )

    def scalar(self, value: float) -> str:
        return self.constant(np.float32(value))


def hard_swish(model: Quantised, x: str, kind: type = np.int8) -> str:
    """x * min(max(x + 3, 0), 6) / 6, rounded behind each operator."""
    point = 128 if kind is np.uint8 else 0
    shifted = model.rounded(model.add("Add", x, model.scalar(3)), 0.06, point, kind)
    low, high = model.scalar(0), model.scalar(6)
    limited = model.rounded(model.add("Clip", shifted, low, high), 0.025, point, kind)
    product = model.rounded(model.add("Mul", x, limited), 0.3, point, kind)
    return model.rounded(model.add("Div", product, model.scalar(6)), 0.05, point, kind)


def grid(shape: tuple[int, ...]) -> np.ndarray:
    """Real values of all 256 numbers of the first 8-bit tensor."""
    return ((np.arange(-128, 128) - 3) * np.float32(SCALE)).astype(np.float32).reshape(shape)


def run_of(path: Path, values: np.ndarray) -> np.ndarray:
    """The model's result as the machine computes it from these values."""
    spec, program = TARGET.load(LoadRequest(path, inputs={"x": values}), NoProgress())
    machine = TARGET.build(spec, program)
    assert isinstance(machine, RknnMachine)
    assert machine.advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED
    engine = machine.values()
    engine.advance_to(machine.log()[:, 0])
    found = engine.tensor(program.graph.outputs[0])
    assert found is not None
    return found


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_chain_is_one_task_and_exact(tmp_path: Path, kind: type) -> None:
    shape = (1, 8, 8, 4)
    model, point = Quantised(*shape), 131 if kind is np.uint8 else 3
    made = hard_swish(model, model.rounded("x", SCALE, point, kind), kind)
    model.rounded(model.add("Mul", model.scalar(1.5), made), 0.05, point, kind)
    path = model.save(tmp_path)
    assert len(on_npu(path).work) == 1
    # Its optimised operators of 8 bits round otherwise than the operators that the file has.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    expected = np.rint(np.asarray(session.run(None, {"x": grid(shape)})[0]) / SCALE)
    assert len(np.unique(expected)) > 40
    # The model's float output is fp16 on this machine: what is compared is the number that it stands for.
    assert np.array_equal(np.rint(run_of(path, grid(shape)) / SCALE), expected)


def test_what_others_read_stays(tmp_path: Path) -> None:
    """The sum before the limits goes to a convolution too: the chain begins behind it."""
    model = Quantised(1, 32, 6, 6)
    x = model.rounded("x")
    shifted = model.rounded(model.add("Add", x, model.scalar(0.5)))
    limited = model.rounded(model.add("Clip", shifted, model.scalar(0), model.scalar(4)))
    scaled = model.rounded(model.add("Mul", limited, model.scalar(0.5)))
    made = model.rounded(model.add("Mul", shifted, scaled))
    model.add("Add", made, model.rounded(model.product(shifted, 32, 32)))
    path = model.save(tmp_path)
    layers = Planner(read_model(path, {}, optimize=True)).layers()
    chains = [
        layer for layer in layers if layer.activation is not None and layer.activation.chain is not None
    ]
    assert [layer.head.op_type for layer in chains] == ["Clip"]
    on_npu(path)


@pytest.mark.parametrize(("kernels", "tasks"), [(64, 1), (16, 2)])
def test_a_table_behind_a_product_where_it_is_faster(tmp_path: Path, kernels: int, tasks: int) -> None:
    """16 kernels are filled up to 32, which a table takes longer for than for 16 channels on its own."""
    model = Quantised(1, 32, 6, 6)
    x = model.rounded(model.product(model.rounded("x"), 32, kernels))
    hard_swish(model, x)
    assert len(on_npu(model.save(tmp_path)).work) == tasks


def test_a_product_that_others_read_is_stored(tmp_path: Path) -> None:
    model = Quantised(1, 32, 6, 6)
    x = model.rounded(model.product(model.rounded("x"), 32, 64))
    model.rounded(model.add("Add", hard_swish(model, x), model.rounded(model.product(x, 64, 64))))
    assert len(on_npu(model.save(tmp_path)).work) == 4


def test_a_table_behind_a_product_is_not_too_steep(tmp_path: Path) -> None:
    """From one number to the next the result changes by 60: the sums must be rounded first."""
    model = Quantised(1, 32, 6, 6)
    x = model.rounded(model.product(model.rounded("x"), 32, 64))
    for factor in (3, 4, 5):
        x = model.rounded(model.add("Mul", x, model.scalar(factor)))
    assert len(on_npu(model.save(tmp_path)).work) == 2


def test_between_two_numbers_a_table_is_half_a_change_off_at_most() -> None:
    taken, out = Quantisation(0.5, 10), Quantisation(0.25, -7)
    sums = np.random.default_rng(2).uniform(-80, 50, 4000)
    points = (np.arange(-128 * 4, 127 * 4 + 1) / 4 - 10) * 0.5
    held = np.interp(sums, points, between_steps(np.abs, taken)(points))
    wanted = out.rounded(np.abs(taken.rounded(sums)))
    off = np.abs(out.rounded(held) - wanted).max() / 0.25
    assert 1 <= off <= most_steps_between(np.abs, taken, out) == 1.5
