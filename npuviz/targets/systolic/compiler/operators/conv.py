"""Convolutions: groups, any kernel, stride, padding and dilation; fused bias, activation and residual.

Ref: systolic.md section 12.2 for the instruction order; section 16 F4 to F6 for what is repaired.
"""

from dataclasses import astuple, dataclass, replace

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.program.tensor import Tensor
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.conv_writer import (
    ChannelVector,
    ConvProblem,
    write_convolution,
)
from npuviz.targets.systolic.compiler.operators.gemm import activation_steps
from npuviz.targets.systolic.compiler.tiling.choices import Choice
from npuviz.targets.systolic.compiler.tiling.window import (
    WindowProblem,
    WindowTiling,
    fits_window,
    rank_window_tilings,
)
from npuviz.targets.systolic.compiler.windows import image_axes
from npuviz.targets.systolic.kernels import program_records as tk


@dataclass(frozen=True, slots=True)
class _Roles:
    """Tensor ids of a node's inputs by role; -1 where absent."""

    source: int
    weights: int
    bias: int
    residual: int


def lower_conv(lowering: Lowering, node: Node) -> None:
    """Lower Conv and FusedConv."""
    roles = _Roles(
        node.inputs[0],
        node.inputs[1],
        lowering.input(node, 2),
        lowering.input(node, 3) if node.op_type == "FusedConv" else -1,
    )
    used = [index for index in (roles.source, roles.weights, roles.bias, roles.residual) if index >= 0]
    lowering.require_floats(node, (*used, node.outputs[0]))
    problem = conv_problem(lowering, node, roles.source, roles.weights, roles.residual)
    vectors = () if roles.bias < 0 else (ChannelVector(roles.bias, tk.OP_ADD, "add", np.add),)
    problem = replace(problem, vectors=vectors, epilogue=activation_steps(node))
    write_convolution(lowering, node, problem)


def conv_problem(
    lowering: Lowering,
    node: Node,
    source: int,
    weights: int,
    residual: int = -1,
    zeros: tuple[int, int] = (-1, -1),
) -> ConvProblem:
    """Describe a convolution and choose its tiling. Raises CannotLower."""
    output = node.outputs[0]
    image, kernel, result = (lowering.tensor(index).shape for index in (source, weights, output))
    height, width = image_axes(node, image, result, kernel[2:])
    groups = attributes_of(node).integer("group")
    inputs, outputs = image[1] // groups, result[1] // groups
    is_depthwise = inputs == 1 and outputs == 1 and groups > 1
    if is_depthwise:
        copies, inputs, outputs = image[0], groups, groups
    else:
        copies = image[0] * groups
    if residual >= 0:
        _require_alike(lowering.tensor(residual), lowering.tensor(output))
        if lowering.storage(residual).order != lowering.storage(output).order:
            raise CannotLower("the residual lies in another order than the output")
    shape = WindowProblem(
        copies=copies,
        height=height,
        width=width,
        outputs=outputs,
        inputs=inputs,
        item=lowering.storage(source).item_bytes,
        weight_item=lowering.storage(weights).item_bytes,
        residual=residual >= 0,
        is_array=not is_depthwise,
    )
    choice = _choose(lowering, node, shape, sum(index >= 0 for index in zeros))
    if choice is None:
        raise CannotLower("not even one output pixel's window and weights fit half of the scratchpad")
    return ConvProblem(
        source=source,
        weights=weights,
        vectors=(),
        residual=residual,
        output=output,
        batch=image[0],
        groups=1 if is_depthwise else groups,
        shape=shape,
        tiling=WindowTiling(*choice.sizes),
        assignment=choice.assignment,
        epilogue=(),
        zeros=zeros,
    )


def _choose(lowering: Lowering, node: Node, shape: WindowProblem, entries: int) -> Choice | None:
    """Choose how to cut the convolution, with room for `entries` of one request beside it."""
    resources = lowering.resources.without(entries)
    axes = [
        value
        for each in (shape.height, shape.width)
        for value in (each.size, each.out, each.kernel, each.stride, each.dilation, each.before)
    ]
    rest = shape.copies, shape.outputs, shape.inputs, shape.item, shape.weight_item
    key = ("window", *axes, *rest, int(shape.residual), int(shape.is_array))
    ranked = [astuple(tiling) for tiling in rank_window_tilings(resources, shape)]

    def fits(choice: Choice) -> bool:
        return fits_window(resources, shape, WindowTiling(*choice.sizes))

    return lowering.choose(node, key, ranked, fits)


def _require_alike(residual: Tensor, output: Tensor) -> None:
    if residual.shape != output.shape:
        raise CannotLower("a residual of another shape than the output")


LOWERINGS = {"Conv": lower_conv, "FusedConv": lower_conv}
