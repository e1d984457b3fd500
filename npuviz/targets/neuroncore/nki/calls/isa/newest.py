"""Functions of nki.isa that came with NeuronCore-v4."""

from typing import Any

from npuviz.targets.neuroncore.nki.calls import accumulating, compute, microscaling, random_numbers
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use


def activate2(
    dst: Any,
    op: Any,
    data: Any,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = 0,
    name: Any = None,
) -> None:
    """dst = op((data op0 imm0) op1 imm1)."""
    if spec_in_use().version < 4:
        raise KernelError("activate2 needs NeuronCore-v4 (trn3) or newer")
    scale, bias = compute.linear(data, (op0, imm0, reverse0), (op1, imm1, reverse1))
    compute.activation(dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, relu_param=relu_param)


def exponential(
    dst: Any,
    src: Any,
    max_value: Any = 0.0,
    reduce_res: Any = None,
    reduce_cmd: Any = 0,
    reduce_init: float = 0.0,
    name: Any = None,
) -> None:
    """exp(src - max_value)."""
    accumulating.exponential(dst, src, max_value, reduce_res, reduce_cmd, reduce_init)


def rand2(dst: Any, min: Any = 0.0, max: Any = 1.0, name: Any = None) -> None:
    """dst = uniform numbers."""
    random_numbers.rand2(dst, min, max)


def quantize_mx(dst: Any, src: Any, dst_scale: Any, name: Any = None) -> None:
    """dst, dst_scale = src in a microscaled type."""
    microscaling.quantize_mx(dst, src, dst_scale)


def nc_matmul_mx(
    dst: Any,
    stationary: Any,
    moving: Any,
    stationary_scale: Any,
    moving_scale: Any,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: Any = None,
    name: Any = None,
) -> None:
    """dst = or += stationary.T @ moving of microscaled tiles."""
    scales = (stationary_scale, moving_scale)
    microscaling.nc_matmul_mx(dst, (stationary, moving), scales, accumulate, bool(tile_position or tile_size))
