"""Compares a float model and its int8 version on one core of the RK3588, by type of operator.

    python -m benchmarks.int8_speed MODEL.onnx [DIMENSION=N...]

An open dimension is given by its name or by its place, as in "x[2]=48": some exporters give all of them one
name.

The int8 model (QDQ) is made by ONNX Runtime's quantiser, calibrated with random pictures. MAC, DPU and DDR
are the cycles that each of them would need alone; the largest counts.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import onnx

from benchmarks.rk3588_models import Run, quantise, run_model
from npuviz.base.errors import UsageError
from npuviz.onnx.draft import read_draft
from npuviz.onnx.shape_inference import bind_dimensions


def fixed(source: Path, sizes: dict[str, int]) -> onnx.ModelProto:
    """Load a model, set these dimensions of its inputs, and leave shapes of outputs to inference.

    sizes  by name or by place, `input[axis]`
    Raises UsageError unless just the open dimensions are given.
    """
    draft = read_draft(source)
    bind_dimensions(draft, sizes)
    if draft.assumptions:
        raise UsageError(f"{source}: {'; '.join(map(str, draft.assumptions))}")
    model = onnx.load(source)
    bound = {value.name: value.type for value in draft.proto.graph.input}
    for value in model.graph.input:
        value.type.CopyFrom(bound.get(value.name, value.type))
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def told(name: str, found: Run) -> None:
    """Print a run: milliseconds, and thousands of cycles by operator type."""
    print(f"{name}: {found.whole_ms:.3f} ms, of it {found.npu_ms:.3f} ms with tasks")
    needs: dict[str, Counter[str]] = {}
    for layer in found.layers:
        own = needs.setdefault(layer.op_type or "inputs, outputs", Counter())
        own.update(
            MAC=layer.mac_cycles, DPU=layer.out_cycles, DDR=layer.bus_cycles, starts=layer.overhead_cycles
        )
        own[f"bound by {layer.bottleneck}"] += 1
    for kind, own in sorted(needs.items(), key=lambda item: -max(item[1].values())):
        cycles = ", ".join(f"{part} {own[part] / 1e3:,.0f}" for part in ("MAC", "DPU", "DDR", "starts"))
        bounds = ", ".join(f"{count} {text}" for text, count in own.items() if text.startswith("bound"))
        print(f"  {kind}: {cycles} thousand cycles; {bounds}")


def main(arguments: list[str]) -> int:
    """Run both models and print how many times faster int8 is."""
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    sizes = {name: int(size) for name, size in (each.split("=") for each in arguments[1:])}
    with tempfile.TemporaryDirectory() as folder:
        plain, small = Path(folder) / "plain.onnx", Path(folder) / "int8.onnx"
        onnx.save(fixed(Path(arguments[0]), sizes), plain)
        quantise(plain, small)
        runs = [run_model(path, 1) for path in (plain, small)]
    for name, found in zip(("fp16", "int8"), runs, strict=True):
        told(name, found)
    print(f"int8 is {runs[0].whole_ms / runs[1].whole_ms:.2f} times as fast")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
