"""RNN, GRU and LSTM as one layer: every form gives what ONNX Runtime gives, and weights are read once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from npuviz.onnx.model_form import GATES, Recurrence
from npuviz.onnx.reader import read_model
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.systolic.check import check
from npuviz.targets.systolic.compiler.tiling.recurrent import steps_at_once
from npuviz.targets.systolic.compiler.tiling.resources import resources_of
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels.records import CHIP, STATUS_FINISHED
from npuviz.targets.systolic.load.form import form_for
from npuviz.targets.systolic.machine.engine import Engine
from tests.sweeps import quick
from tests.targets.systolic.true_cases import (
    Compiled,
    assert_everything_stored_once,
    assert_sound,
    chip,
    compile_model,
    save_model,
    tile_rows,
    weights,
)

STEPS, BATCH, INPUTS, HIDDEN = 5, 2, 6, 10
Form = dict[str, Any]
CASES: dict[str, tuple[str, Form]] = {
    "LSTM": ("LSTM", {}),
    "LSTM, reverse": ("LSTM", {"direction": "reverse"}),
    "LSTM, both, from states": ("LSTM", {"direction": "bidirectional", "states": True}),
    "LSTM, peepholes": ("LSTM", {"peepholes": True, "direction": "bidirectional"}),
    "LSTM, without bias": ("LSTM", {"bias": False}),
    "GRU": ("GRU", {}),
    "GRU, late reset": ("GRU", {"linear_before_reset": 1}),
    "GRU, late reset, both, without bias": (
        "GRU",
        {"linear_before_reset": 1, "direction": "bidirectional", "bias": False},
    ),
    "GRU, both, from a state": ("GRU", {"direction": "bidirectional", "states": True}),
    "RNN": ("RNN", {}),
    "RNN, reverse, Relu": ("RNN", {"direction": "reverse", "activations": ["Relu"]}),
    "RNN, both, two functions": (
        "RNN",
        {"direction": "bidirectional", "activations": ["Tanh", "Sigmoid"], "states": True},
    ),
}


def recurrent_model(
    path: Path,
    kind: str,
    form: Form,
    sizes: tuple[int, int, int, int] = (STEPS, BATCH, INPUTS, HIDDEN),
    wanted: tuple[bool, ...] = (True, True, True),
) -> Path:
    steps, batch, width, hidden = sizes
    form = dict(form)
    has_bias, has_states = form.pop("bias", True), form.pop("states", False)
    has_peepholes = form.pop("peepholes", False)
    directions = 2 if form.get("direction") == "bidirectional" else 1
    gates = GATES[kind] * hidden
    initializers = [weights("w", directions, gates, width), weights("r", directions, gates, hidden)]
    names = ["x", "w", "r", "b" if has_bias else "", ""]
    inputs: dict[str, tuple[int, ...]] = {"x": (steps, batch, width)}
    if has_bias:
        initializers.append(weights("b", directions, 2 * gates))
    states = ("h", "c") if kind == "LSTM" else ("h",)
    if has_states:
        inputs |= dict.fromkeys(states, (directions, batch, hidden))
    names += [name if has_states else "" for name in states]
    if has_peepholes:
        initializers.append(weights("p", directions, 3 * hidden))
        names.append("p")
    shapes = {"y": (steps, directions, batch, hidden), "yh": (directions, batch, hidden)}
    shapes |= {"yc": (directions, batch, hidden)} if kind == "LSTM" else {}
    outputs = [name if is_wanted else "" for name, is_wanted in zip(shapes, wanted, strict=False)]
    node = helper.make_node(kind, names, outputs, name="steps", hidden_size=hidden, **form)
    return save_model(
        path, [node], inputs, {name: shapes[name] for name in outputs if name}, initializers, opset=17
    )


def assert_checks(case: Compiled) -> None:
    if case.spec.cores[0].core_type == "systolic_ws":
        assert_sound(case)
    assert_everything_stored_once(case)
    assert case.compiled.placement == {node.id: "Core" for node in case.graph.nodes}
    result = check(case.engine(), case.graph)
    assert result.num_failed == 0
    assert result.num_tensors == len(case.graph.outputs)
    engine = Engine(case.spec, case.compiled.tables)
    engine.advance(1 << 40, NO_STOPS, None)
    assert int(engine.state[CHIP.status]) == STATUS_FINISHED


@quick("*systolic_ws*")
@pytest.mark.parametrize("flow", ["systolic_ws", "systolic_os", "systolic_is"])
@pytest.mark.parametrize("case", CASES)
def test_every_form_equals_the_reference(tmp_path: Path, case: str, flow: str) -> None:
    spec = chip(side=8, cores=2, spad=32, acc=16, core_type=flow, precision=4)
    assert_checks(compile_model(recurrent_model(tmp_path / "m.onnx", *CASES[case]), spec))


@pytest.mark.parametrize(("kind", "batch"), [("LSTM", 1), ("GRU", 1), ("RNN", 2)])
def test_gates_of_some_steps_at_a_time(tmp_path: Path, kind: str, batch: int) -> None:
    spec = chip(side=8, cores=2, spad=32, acc=16, precision=4)
    sizes = (60, batch, 6, 10)
    assert 1 < steps_at_once(resources_of(spec), Recurrence(kind, *sizes), 4) < 60
    assert_checks(compile_model(recurrent_model(tmp_path / "m.onnx", kind, {}, sizes), spec))


@quick("*seed0*", "*seed1*")
@pytest.mark.parametrize("seed", range(24), ids=lambda seed: f"seed{seed}")
def test_drawn_forms_and_sizes(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(list(GATES)))
    form: Form = {"direction": str(rng.choice(["forward", "reverse", "bidirectional"]))}
    form |= {"bias": bool(rng.integers(2)), "states": bool(rng.integers(2))}
    form |= {"peepholes": True} if kind == "LSTM" and rng.integers(2) else {}
    form |= {"linear_before_reset": int(rng.integers(2))} if kind == "GRU" else {}
    batch, width, hidden = (int(size) for size in rng.integers(1, 40, 3))
    sizes = (int(rng.integers(1, 9)), batch, width, hidden)
    wanted = [bool(rng.integers(2)) for _ in range(3)]
    wanted[int(rng.integers(2))] = True
    spec = chip(side=int(rng.choice([4, 16])), cores=2, spad=256, acc=256, precision=int(rng.choice([2, 4])))
    path = recurrent_model(tmp_path / "m.onnx", kind, form, sizes, tuple(wanted))
    assert_checks(compile_model(path, spec))


def test_weights_are_read_once_and_stay_in_the_array(tmp_path: Path) -> None:
    spec = chip(side=64, cores=1, spad=256, acc=256, precision=4)
    case = compile_model(recurrent_model(tmp_path / "m.onnx", "LSTM", {}), spec)
    rows = tile_rows(case, 0)
    loads = rows[rows[:, tk.CODE.op] == tk.OP_MOVIN]
    assert len(loads) == 5  # weights of inputs and of hidden values, inputs, two biases
    preloads = int((rows[:, tk.CODE.op] == tk.OP_GEMM_PRELOAD).sum())
    assert preloads == 2  # those of the inputs, then those of the hidden values
    assert int((rows[:, tk.CODE.op] == tk.OP_GEMM).sum()) == 2 * STEPS - 2


def test_what_fits_a_core_stays_whole_and_the_rest_is_written_out(tmp_path: Path) -> None:
    path = recurrent_model(tmp_path / "m.onnx", "LSTM", {}, (6, 1, 64, 96), (True, False, False))
    large, small = (chip(side=8, cores=2, spad=spad, acc=64, precision=4) for spad in (1024, 64))
    kinds = [
        [node.op_type for node in read_model(path, form=form_for(spec)).nodes] for spec in (large, small)
    ]
    assert "LSTM" in kinds[0]
    assert "LSTM" not in kinds[1]
    assert "MatMul" in kinds[1]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"clip": 2.0}, "a clip"),
        ({"activations": ["Sigmoid", "Relu", "Tanh"]}, "the functions Sigmoid, Relu, Tanh"),
        ({"input_forget": 1}, "a clip, or forget gates coupled"),
    ],
)
def test_other_forms_go_to_the_host_with_their_reason(tmp_path: Path, form: Form, said: str) -> None:
    spec = chip(side=8, cores=2, spad=32, acc=16, precision=4)
    case = compile_model(recurrent_model(tmp_path / "m.onnx", "LSTM", form), spec)
    assert set(case.compiled.placement.values()) == {"Host"}
    (text,) = [note.text for note in case.compiled.notes if "runs on the host" in note.text]
    assert said in text
