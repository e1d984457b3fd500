"""RNN, GRU and LSTM step by step, against ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu

MOST = {"partition": "most-npu"}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(
    kind: str, steps: int, batch: int, features: int, hidden: int, *, given: str = "", **attributes: Any
) -> Model:
    """A model of one recurrent layer. given  which of B, h and c it has as inputs"""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    model = Model(steps, batch, features)
    rows = GATES[kind] * hidden
    weights = [model.weight(directions, rows, size, scale=1 / np.sqrt(hidden)) for size in (features, hidden)]
    bias = model.weight(directions, 2 * rows, scale=0.3) if "B" in given else ""
    names = ("h", "c") if kind == "LSTM" else ("h",)
    states = [model.weight(directions, batch, hidden, scale=0.7) if name in given else "" for name in names]
    model.add(kind, "x", *weights, bias, "", *states, hidden_size=hidden, **attributes)
    return model


@quick("sizes0-*", "sizes3-bidirectional-*")
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("sizes", [(5, 1, 12, 16), (3, 2, 7, 9), (1, 1, 40, 33), (4, 3, 16, 64)])
def test_values(tmp_path: Path, kind: str, direction: str, sizes: tuple[int, ...]) -> None:
    """Hidden sizes that fill no atom or group, batches, and one step."""
    model = layer(kind, *sizes, given="Bhc" if kind == "LSTM" else "Bh", direction=direction)
    on_npu(model.save(tmp_path), MOST)


@pytest.mark.parametrize("is_late", [0, 1])
@pytest.mark.parametrize("given", ["", "B", "h"])
def test_gru_with_its_reset(tmp_path: Path, is_late: int, given: str) -> None:
    """Before and after the product, with missing inputs."""
    model = layer("GRU", 6, 2, 10, 24, given=given, linear_before_reset=is_late)
    on_npu(model.save(tmp_path), MOST)


@pytest.mark.parametrize("kind", ["Relu", "Sigmoid", "LeakyRelu", "Elu", "Softplus", "HardSigmoid", "Tanh"])
def test_activations_of_an_rnn(tmp_path: Path, kind: str) -> None:
    """One task a step, with the table of its function; alpha given where there is one."""
    extra = {"activation_alpha": [0.3]} if kind in ("LeakyRelu", "HardSigmoid") else {}
    on_npu(layer("RNN", 4, 2, 6, 20, given="B", activations=[kind], **extra).save(tmp_path), MOST)


@pytest.mark.parametrize("cores", ["2", "3"])
@pytest.mark.parametrize("submit", ["chain", "layer"])
def test_several_cores(tmp_path: Path, cores: str, submit: str) -> None:
    """They share the products of the inputs; the steps are one core's."""
    model = layer("GRU", 4, 2, 16, 40, given="Bh", direction="bidirectional")
    on_npu(model.save(tmp_path), {**MOST, "cores": cores, "submit": submit})


def test_weights_beyond_cbuf_are_streamed(tmp_path: Path) -> None:
    on_npu(layer("LSTM", 2, 1, 16, 272, given="B").save(tmp_path), MOST)


def test_weights_stay_in_cbuf_from_step_to_step(tmp_path: Path) -> None:
    finished = on_npu(layer("LSTM", 4, 1, 16, 32).save(tmp_path), MOST)
    found = [task.work.convolution for task in finished.work]
    assert [conv.keeps_weights for conv in found if conv is not None] == [False, False, True, True, True]


TASKS = [
    ("RNN", 1, 20, {}, 1), ("RNN", 3, 20, {}, 1),
    ("GRU", 1, 20, {"linear_before_reset": 1}, 3), ("GRU", 3, 20, {"linear_before_reset": 1}, 6),
    ("GRU", 1, 20, {}, 4), ("GRU", 3, 20, {}, 6),
    ("LSTM", 1, 20, {}, 4), ("LSTM", 3, 20, {}, 5), ("LSTM", 1, 200, {}, 5),
]  # fmt: skip
"""Operator, batch, hidden values, attributes, tasks of a step."""


@pytest.mark.parametrize(("kind", "batch", "hidden", "extra", "tasks"), TASKS)
def test_tasks_of_a_step(
    tmp_path: Path, kind: str, batch: int, hidden: int, extra: dict[str, Any], tasks: int
) -> None:
    """One example has fewer; an LSTM of 200 has no room in CBUF for a gate that is there twice."""
    counts = [
        len(on_npu(layer(kind, steps, batch, 6, hidden, given="B", **extra).save(tmp_path), MOST).work)
        for steps in (3, 5)
    ]
    assert counts[1] - counts[0] == 2 * tasks


@pytest.mark.parametrize("is_late", [0, 1])
def test_weights_of_a_gru_stay_in_cbuf(tmp_path: Path, is_late: int) -> None:
    """Both products of a step take them from there, the second one those of one gate alone."""
    model = layer("GRU", 3, 1, 8, 32, linear_before_reset=is_late)
    found = [task.work.convolution for task in on_npu(model.save(tmp_path), MOST).work]
    products = [conv for conv in found if conv is not None][1:]
    assert [conv.keeps_weights for conv in products] == [False, *[True] * 5]
    assert [conv.kernels for conv in products] == [96, 32] * 3


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("batch", [1, 2])
def test_inputs_far_beyond_the_table_leave_gates_open_or_shut(tmp_path: Path, kind: str, batch: int) -> None:
    """Sums of thousands, of either sign, never reach the half of the table that is another function's."""
    model = Model(4, batch, 3)
    positive = model.add("Add", model.add("Relu", "x"), model.constant(np.float32(1)))
    signs = np.random.default_rng(3).choice([-2048.0, 2048.0], (1, GATES[kind] * 12, 3))
    signs[..., 1:] = 0
    weights = [model.constant(signs.astype(np.float32)), model.weight(1, GATES[kind] * 12, 12)]
    model.add(kind, positive, *weights, hidden_size=12)
    on_npu(model.save(tmp_path), MOST)


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_weights_of_the_state_beyond_the_table_are_the_hosts(tmp_path: Path, kind: str) -> None:
    model = Model(3, 1, 6)
    weights = [model.weight(1, GATES[kind] * 12, 6), model.weight(1, GATES[kind] * 12, 12, scale=60)]
    model.add(kind, "x", *weights, hidden_size=12)
    finished = checked(model.save(tmp_path), MOST)
    assert "reach beyond the table" in finished.host_reasons[0]


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_errors_of_many_steps_stay_small(tmp_path: Path, kind: str) -> None:
    finished = on_npu(layer(kind, 60, 1, 8, 24, given="B").save(tmp_path), MOST)
    (found,) = finished.result.tensors
    assert found.whole is not None
    assert found.whole.largest < 2e-3


def test_states_that_a_run_gives(tmp_path: Path) -> None:
    """Both states and the last ones as tensors of their own, read by other operators."""
    model = Model(5, 2, 24)
    state = model.add("ReduceMean", "x", model.constant(np.array([0])), keepdims=1)
    weights = [model.weight(1, 96, 24) for _ in range(2)]
    name = model.add("LSTM", "x", *weights, "", "", state, model.add("Relu", state), hidden_size=24)
    model.nodes[-1].output.extend(["last", "cell"])
    last = model.add("Add", "last", "cell")
    model.add("Add", name, last)
    on_npu(model.save(tmp_path), {**MOST, **SLOW_HOST})


@pytest.mark.parametrize("wanted", [["", "last", ""], ["", "", "cell"], ["all", "", "cell"]])
def test_missing_outputs(tmp_path: Path, wanted: list[str]) -> None:
    model = layer("LSTM", 3, 2, 8, 12, given="B", direction="bidirectional")
    del model.nodes[-1].output[:]
    model.nodes[-1].output.extend(wanted)
    model.add("Relu", next(name for name in wanted if name))
    on_npu(model.save(tmp_path), {**MOST, **SLOW_HOST})


def test_the_last_state_alone_of_an_input_in_8_bits(tmp_path: Path) -> None:
    """Nobody asks for the states of all steps, and the input stands for integers."""
    model = Model(3, 2, 10)
    scale, zero = model.constant(np.float32(0.02)), model.constant(np.int8(3))
    stored = model.add("QuantizeLinear", "x", scale, zero)
    weights = [model.weight(1, 80, size, scale=0.3) for size in (10, 20)]
    model.add("LSTM", model.add("DequantizeLinear", stored, scale, zero), *weights, hidden_size=20)
    del model.nodes[-1].output[:]
    model.nodes[-1].output.extend(["", "last"])
    model.add("Relu", "last")
    assert checked(model.save(tmp_path)).result.is_passed


def test_between_convolutions(tmp_path: Path) -> None:
    """A sequence is turned into rows before the steps, and back."""
    model = Model(2, 6, 9)
    made = model.add("Transpose", model.conv("x", 6, 16, 3, pads=[1, 1]), perm=[2, 0, 1])
    weights = [model.weight(2, 3 * 8, size, scale=0.3) for size in (16, 8)]
    made = model.add("GRU", made, *weights, hidden_size=8, direction="bidirectional", linear_before_reset=1)
    made = model.add("Transpose", made, perm=[2, 1, 3, 0])
    made = model.add("Reshape", made, model.constant(np.array([2, 16, 9])))
    model.conv(made, 16, 4, 1)
    on_npu(model.save(tmp_path), {**MOST, **SLOW_HOST})


@pytest.mark.parametrize(
    ("kind", "given", "extra", "reason"),
    [
        ("LSTM", {}, {"clip": 0.5}, "a clip of the gates"),
        ("LSTM", {7: np.full((1, 36), 0.5, np.float32)}, {}, "peepholes"),
        ("GRU", {4: np.array([3, 2], np.int32)}, {}, "sequences of unlike length"),
        ("GRU", {}, {"activations": ["HardSigmoid", "Tanh"]}, "activations other than Sigmoid and Tanh"),
        ("LSTM", {}, {"input_forget": 1}, "input and forget gate in one"),
    ],
)
def test_forms_without_tasks_are_the_hosts(
    tmp_path: Path, kind: str, given: dict[int, np.ndarray], extra: dict[str, Any], reason: str
) -> None:
    model = layer(kind, 3, 2, 8, 12, **extra)
    names = [*model.nodes[-1].input, *[""] * 8][:8]
    for place, values in given.items():
        names[place] = model.constant(values)
    del model.nodes[-1].input[:]
    model.nodes[-1].input.extend(names[: 8 if kind == "LSTM" else 6])
    finished = checked(model.save(tmp_path), MOST)
    assert finished.nodes_on_host() == {kind}
    assert reason in finished.host_reasons[0]


@pytest.mark.parametrize(("kind", "given"), [("GRU", {4: [3, 3]}), ("LSTM", {4: [3, 3], 7: [0.0] * 36})])
def test_inputs_that_change_nothing(tmp_path: Path, kind: str, given: dict[int, list[float]]) -> None:
    """Lengths that are all of the sequence, peepholes of zeros."""
    model = layer(kind, 3, 2, 8, 12)
    names = [*model.nodes[-1].input, *[""] * 8][: 8 if kind == "LSTM" else 6]
    for place, values in given.items():
        array = np.array(values, np.int32) if place == 4 else np.array([values], np.float32)
        names[place] = model.constant(array)
    del model.nodes[-1].input[:]
    model.nodes[-1].input.extend(names)
    on_npu(model.save(tmp_path), MOST)


def test_what_takes_longer_is_the_hosts(tmp_path: Path) -> None:
    """Small steps between operators of the Host, with the cycles of both sides."""
    model = layer("LSTM", 16, 1, 8, 8)
    model.add("Round", model.nodes[-1].output[0])
    finished = checked(model.save(tmp_path))
    assert "LSTM" in finished.nodes_on_host()
    assert any("the Host is faster" in reason and "cycles here" in reason for reason in finished.host_reasons)


@pytest.mark.parametrize(("cache", "is_host"), [("100", False), ("1000000", True)])
def test_a_host_whose_cache_is_too_small_reads_the_weights_again(
    tmp_path: Path, cache: str, is_host: bool
) -> None:
    model = layer("LSTM", 16, 1, 24, 96)
    model.add("Round", model.nodes[-1].output[0])
    finished = checked(model.save(tmp_path), {"host_cache_bytes": cache, "host_bytes_per_ns": "5"})
    assert ("LSTM" in finished.nodes_on_host()) == is_host
