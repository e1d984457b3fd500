"""Compares a float model and its int8 version on one core of the RK3588, by type of operator.

    python -m benchmarks.int8_speed MODEL.onnx [DIMENSION=N...]

The int8 model (QDQ) is made by ONNX Runtime's quantiser, calibrated with random pictures. MAC, DPU and DDR
are the cycles that each of them would need alone; the largest counts.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import onnx

from benchmarks.rk3588_models import Run, quantise, run_model


def fixed(source: Path, sizes: dict[str, int]) -> onnx.ModelProto:
    """Load a model, set these dimensions of its inputs, and leave shapes of outputs to inference.

    Raises KeyError unless just these dimensions are open.
    """
    model = onnx.load(source)
    shapes = [value.type.tensor_type.shape.dim for value in model.graph.input]
    if (names := {each.dim_param for shape in shapes for each in shape} - {""}) != set(sizes):
        raise KeyError(f"{source}: sizes were given for {sorted(sizes)}, its dimensions are {sorted(names)}")
    for value in model.graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in sizes:
                dimension.dim_value = sizes[dimension.dim_param]
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
