"""Lower QuantizeLinear and DequantizeLinear between fp16 and int8 cubes: the DPU converts them."""

from collections.abc import Callable, Mapping

from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu_task import emit
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.rescaling import to_halves, to_integers
from npuviz.targets.rk3588.task.cube import cube_shape


def lower_quantise(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a conversion of fp16 to int8, or back."""
    taken, given = layer.inputs[0], layer.output
    stages = (
        to_halves(taken.quantisation) if taken.quantisation is not None else to_integers(given.quantisation)
    )
    types = ["float16" if stored.quantisation is None else "int8" for stored in (taken, given)]
    source, target = (
        b.home(stored.tensor, dtype, stored.quantisation)
        for stored, dtype in zip((taken, given), types, strict=True)
    )
    for buffer, dtype in ((source, types[0]), (target, types[1])):
        if buffer.layout != "feature" or buffer.dtype != dtype:
            raise CannotLower(f"{buffer.name} is stored as {buffer.dtype}, {buffer.layout}")
    if cube_shape(source.shape) != cube_shape(target.shape):
        raise CannotLower(f"{source.shape} and {target.shape} do not lie alike in memory")
    emit(b, layer, source, target, None, lambda _: stages)


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = dict.fromkeys(
    ("QuantizeLinear", "DequantizeLinear"), lower_quantise
)
