"""Prints tasks and cycles that a step of a recurrent layer takes on the NPU of rk3588, by kind and size.

    python -m benchmarks.recurrent_steps           the sizes of real models
    python -m benchmarks.recurrent_steps 96 2      96 hidden values, a batch of 2

A layer of random weights is compiled for 8 and for 24 steps with `partition=most-npu`; a step is a sixteenth
of the difference. The Host's time of the same step stands beside it (`npuviz.onnx.host_work`).
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from npuviz.base.progress import NoProgress
from npuviz.onnx.host_work import host_work
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.target import TARGET
from npuviz.targets.rk3588.task.host_cost import processor_of

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("RNN", {}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"linear_before_reset": 0}),
    ("LSTM", {}),
)
SIZES = ((32, 1), (64, 1), (100, 1), (128, 1), (160, 1), (200, 1), (256, 1), (64, 4))
FEATURES = 32


def save(path: Path, kind: str, options: dict[str, Any], hidden: int, batch: int, steps: int) -> None:
    """Write a layer with random weights, as wide as its state."""
    numbers = np.random.default_rng(0)
    held = {
        name: numbers.normal(0, hidden**-0.5, shape).astype(np.float32)
        for name, shape in (
            ("W", (1, GATES[kind] * hidden, FEATURES)),
            ("R", (1, GATES[kind] * hidden, hidden)),
            ("B", (1, 2 * GATES[kind] * hidden)),
        )
    }
    node = helper.make_node(kind, ["x", "W", "R", "B"], ["y"], hidden_size=hidden, **options)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (steps, batch, FEATURES)), ("y", (steps, 1, batch, hidden)))
    ]
    constants = [numpy_helper.from_array(values, name) for name, values in held.items()]
    graph = helper.make_graph([node], "step", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(path: Path) -> tuple[int, int, float]:
    """Run a model. Returns tasks and cycles on the NPU, and the cycles of the layer on the Host."""
    spec, program = TARGET.load(LoadRequest(path, settings={"partition": "most-npu"}), NoProgress())
    machine = TARGET.build(spec, program)
    assert isinstance(machine, RknnMachine)
    machine.advance(1 << 50, NO_STOPS, None)
    processor = processor_of(machine.engine.spec)
    host = sum(processor.nanoseconds(host_work(program.graph, node)) for node in program.graph.nodes)
    return len(machine.engine.tables.tasks), machine.cycle, machine.engine.spec.to_cycles(host)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("hidden", type=int, nargs="?")
    parser.add_argument("batch", type=int, nargs="?", default=1)
    given = parser.parse_args()
    print(f"{'operator':18}{'hidden':>7}{'batch':>6}{'tasks':>7}{'cycles':>8}{'Host':>7}   of one step")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.onnx"
        for kind, options in KINDS:
            late = {1: " late reset", 0: " early reset"}.get(options.get("linear_before_reset", -1), "")
            for hidden, batch in [(given.hidden, given.batch)] if given.hidden else SIZES:
                found = []
                for steps in (8, 24):
                    save(path, kind, options, hidden, batch, steps)
                    found.append(run(path))
                tasks, cycles, host = (round((b - a) / 16, 1) for a, b in zip(*found, strict=True))
                print(f"{kind + late:18}{hidden:7}{batch:6}{tasks:7.1f}{cycles:8.0f}{host:7.0f}")


if __name__ == "__main__":
    main()
