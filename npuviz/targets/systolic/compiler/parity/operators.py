"""Which ONNX operator becomes which layer. Ref: systolic.md sections 12 and 13."""

from collections.abc import Callable, Mapping
from math import prod

from npuviz.base.errors import TargetError, UnsupportedOperator
from npuviz.formats.onnxim_mapping import Loops
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.parity.conv import ConvEmitter, ConvShape
from npuviz.targets.systolic.compiler.parity.gemm import GemmEmitter, GemmOperands
from npuviz.targets.systolic.compiler.parity.network import Layer, Network, address_of, node_layer
from npuviz.targets.systolic.compiler.parity.shapes import conv_output, gemm_weight, window_of
from npuviz.targets.systolic.compiler.tiling import tile_conv


def lower_node(network: Network, node: Node) -> list[Layer]:
    """The layer of a node, and layers created after those of all nodes.

    Raises UnsupportedOperator where ONNXim has no usable program.
    """
    lower = _LOWERINGS.get(node.op_type, _lower_free)
    return lower(network, node)


def is_free(node: Node) -> bool:
    """Whether the layer costs nothing in ONNXim."""
    return node.op_type not in _LOWERINGS


def _lower_free(network: Network, node: Node) -> list[Layer]:
    # Flaw F11: MaxPool has two empty tiles.
    num_tiles = 2 if node.op_type == "MaxPool" else 1

    def emit(builder: ProgramBuilder) -> None:
        builder.add_skip_tiles(num_tiles)

    return [node_layer(network, node, emit)]


def _lower_gemm(network: Network, node: Node) -> list[Layer]:
    act, weight = node.inputs[0], node.inputs[1]
    if weight not in network.is_constant:
        raise UnsupportedOperator(
            f"{node.op_type} {node.name!r}: ONNXim cannot multiply two activations; --set mode=true runs it"
        )
    outputs, reduction = gemm_weight(node, network.shapes[weight])
    rows = prod(network.shapes[act][:-1])

    def emit(builder: ProgramBuilder) -> None:
        addresses, bias = network.addresses, None
        bias_tensor = node.inputs[2] if len(node.inputs) > 2 else -1
        if node.op_type != "MatMul":
            bias = address_of(addresses, bias_tensor)
        operands = GemmOperands(
            addresses[act],
            addresses[weight],
            bias,
            addresses[node.outputs[0]],
            (act, weight, bias_tensor, node.outputs[0]),
        )
        mapping = network.gemm_tiling(rows, outputs, reduction)
        GemmEmitter(builder, network.spec, mapping, operands, network.target_core).emit()

    return [node_layer(network, node, emit)]


def _lower_conv(network: Network, node: Node) -> list[Layer]:
    image, weight, out = node.inputs[0], node.inputs[1], node.outputs[0]
    image_shape, weight_shape = network.shapes[image], network.shapes[weight]
    if network.spec.config.layout != "NHWC":
        raise TargetError(
            f"{node.op_type} {node.name!r}: layout NCHW is not modelled; --set layout=NHWC runs it"
        )
    output = conv_output(node, image_shape, weight_shape)
    window = window_of(node, weight_shape)
    total = Loops(
        n=output[0],
        c=weight_shape[1],
        m=weight_shape[0],
        p=output[2],  # flaw F25: P counts columns, Q rows
        q=output[1],
        s=window.kernel[0],
        r=window.kernel[1],
    )

    def emit(builder: ProgramBuilder) -> None:
        mapping = network.tilings.get(total)
        if mapping is None:
            mapping = tile_conv(total, window.strides[0], window.pads[0], network.geometry)
            network.tilings[total] = mapping
        addresses = network.addresses
        shape = ConvShape(image_shape, window, mapping)
        bases = (addresses[image], addresses[weight], addresses[out])
        ConvEmitter(builder, network.spec, shape, bases, (image, weight, out), network.target_core).emit()

    return [node_layer(network, node, emit)]


_LOWERINGS: Mapping[str, Callable[[Network, Node], list[Layer]]] = {
    "Conv": _lower_conv,
    "FusedConv": _lower_conv,
    "Gemm": _lower_gemm,
    "FusedGemm": _lower_gemm,
    "MatMul": _lower_gemm,
}
