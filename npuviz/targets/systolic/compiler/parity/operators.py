"""Lowers ONNX operators to ONNXim's layers. Ref: systolic.md sections 12 and 13."""

from collections.abc import Callable, Mapping
from math import prod

from npuviz.base.errors import TargetError, UnsupportedOperator
from npuviz.formats.onnxim.mapping import Loops
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.parity.attention import AttentionShape, emit_onnx_attention
from npuviz.targets.systolic.compiler.parity.conv import ConvEmitter, ConvShape
from npuviz.targets.systolic.compiler.parity.gemm import GemmEmitter, GemmOperands
from npuviz.targets.systolic.compiler.parity.network import Layer, Network, address_of, node_layer
from npuviz.targets.systolic.compiler.parity.shapes import conv_output, gemm_weight, window_of
from npuviz.targets.systolic.compiler.parity.tiling import tile_conv
from npuviz.targets.systolic.compiler.parity.tokenwise import (
    Activation,
    TokenShape,
    emit_bias_activation,
    emit_skip_layernorm,
)
from npuviz.targets.systolic.kernels import program_records as tk


def lower_node(network: Network, node: Node) -> list[Layer]:
    """Return the layer of a node, and layers that are created after those of all nodes.

    Raises UnsupportedOperator where ONNXim has no usable program.
    """
    lower = _LOWERINGS.get(node.op_type, _lower_free)
    return lower(network, node)


def is_free(node: Node) -> bool:
    """Return whether the layer costs nothing in ONNXim."""
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


def _lower_skip_layernorm(network: Network, node: Node) -> list[Layer]:
    first, residual = _required(node, 2)

    def emit(builder: ProgramBuilder) -> None:
        addresses = (address_of(network.addresses, first), address_of(network.addresses, residual))
        shape = _tokens(network, node, first)
        emit_skip_layernorm(builder, network.spec, shape, addresses, (first, residual), network.target_core)

    return [node_layer(network, node, emit)]


def _lower_bias_gelu(network: Network, node: Node) -> list[Layer]:
    data = node.inputs[0]
    bias = node.inputs[1] if len(node.inputs) > 1 else -1

    def emit(builder: ProgramBuilder) -> None:
        shape, out = _tokens(network, node, data), node.outputs[0]
        addresses = tuple(address_of(network.addresses, tensor) for tensor in (data, bias, out))
        emit_bias_activation(
            builder,
            network.spec,
            shape,
            Activation(tk.OP_GELU, shape.features),
            (addresses[0], addresses[1], addresses[2]),
            (data, bias, out),
            is_spread=False,
            core=network.target_core,
        )

    return [node_layer(network, node, emit)]


def _lower_attention(network: Network, node: Node) -> list[Layer]:
    """Return the layer of an attention, and that of its QKV projection, which is created after all nodes."""
    source, weight, bias = _required(node, 3)
    batch, queries, width = _triple(network, node, source)
    if len(network.shapes[weight]) != 2 or network.shapes[weight][1] % 3:
        raise UnsupportedOperator(f"{node.op_type} {node.name!r}: its weight must be [d][3d]")
    third = network.shapes[weight][1] // 3
    heads = int(node.attributes.get("num_heads", 0))
    if heads < 1 or third % heads:
        raise UnsupportedOperator(f"{node.op_type} {node.name!r}: num_heads {heads} does not divide {third}")
    key, query, value = (network.new_tensor((batch, queries, third)) for _ in range(3))
    keys = queries
    if len(node.inputs) > 4 and node.inputs[4] >= 0:
        past = network.shapes[node.inputs[4]]
        length = past[3] if len(past) == 5 else 0
        keys = length + 1 if length > 0 else queries
    shape = AttentionShape(heads, heads, queries, keys, third // heads, batch)
    out = node.outputs[0]

    def emit(builder: ProgramBuilder) -> None:
        places = tuple(address_of(network.addresses, tensor) for tensor in (source, weight, bias, out))
        addresses = (places[0], places[1], places[2], places[3])
        tensors = (source, weight, bias, out)
        emit_onnx_attention(builder, network.spec, shape, addresses, tensors, network.target_core)

    def project(builder: ProgramBuilder) -> None:
        addresses = network.addresses
        operands = GemmOperands(
            address_of(addresses, source),
            address_of(addresses, weight),
            address_of(addresses, bias),
            addresses[key],
            (source, weight, bias, -1),
        )
        mapping = network.gemm_tiling(batch * queries, 3 * third, width)
        # Flaw F7: the list of tiles is made twice.
        for _ in range(2):
            GemmEmitter(builder, network.spec, mapping, operands, network.target_core).emit()

    own = node_layer(network, node, emit)
    attention = Layer(own.name, own.node, (*own.inputs, key, query, value), own.outputs, emit)
    inputs = tuple(tensor for tensor in (source, weight, bias) if tensor not in network.is_constant)
    return [attention, Layer(f"{own.name} projection", own.node, inputs, (key, query, value), project)]


def _required(node: Node, count: int) -> tuple[int, ...]:
    found = node.inputs[:count]
    if len(found) < count or min(found, default=-1) < 0:
        raise UnsupportedOperator(f"{node.op_type} {node.name!r}: it needs its first {count} inputs")
    return found


def _triple(network: Network, node: Node, tensor: int) -> tuple[int, int, int]:
    shape = network.shapes[tensor]
    if len(shape) == 2:
        return (1, shape[0], shape[1])
    if len(shape) != 3:
        raise UnsupportedOperator(
            f"{node.op_type} {node.name!r}: its input must be [batch][tokens][features], not {list(shape)}"
        )
    return (shape[0], shape[1], shape[2])


def _tokens(network: Network, node: Node, tensor: int) -> TokenShape:
    batch, seq, features = _triple(network, node, tensor)
    return TokenShape(seq, batch, features)


_LOWERINGS: Mapping[str, Callable[[Network, Node], list[Layer]]] = {
    "Conv": _lower_conv,
    "FusedConv": _lower_conv,
    "Gemm": _lower_gemm,
    "FusedGemm": _lower_gemm,
    "MatMul": _lower_gemm,
    "Attention": _lower_attention,
    "SkipLayerNormalization": _lower_skip_layernorm,
    "BiasGelu": _lower_bias_gelu,
    "FastGelu": _lower_bias_gelu,
}
