"""Lower pooling: maximum and average on the PPU, averages that change their scale as convolutions on CORE."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from npuviz.formats.rk3588.registers import Word, writer
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.axes import reduced_axes
from npuviz.onnx.semantics.windows import WindowAxis, padded_axes, window_axes
from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import with_zeros
from npuviz.targets.rk3588.compiler.dpu_task import cube_of, emit
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.operator_kinds import POOLS
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into, emit_convolution
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.compiler.rescaling import rescaling, to_halves, to_integers
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import WRITTEN_CHANNELS, cube_shape, image_bytes
from npuviz.targets.rk3588.task.work import ATOM_BYTES, FP16, INT8

PPU_ENABLES = 0x60
AVERAGE, MAXIMUM = 0, 1
_REDUCTIONS = {"ReduceMean": AVERAGE, "ReduceMax": MAXIMUM}
MAX_TAPS = 31
"""Most taps of a row or column of a kernel of CORE: 5 bits. Ref: XML."""
MAX_KERNEL, MAX_PAD = 16, 7
"""Largest window and padding: fields of 4 bits for size - 1, of 3 bits for padding. Ref: XML."""


def lower_pool(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower MaxPool, AveragePool, GlobalAveragePool and GlobalMaxPool of one or two spatial dimensions."""
    node = layer.head
    if len([tensor for tensor in node.outputs if tensor >= 0]) > 1:
        raise CannotLower("indices of the maxima", change="drop the output Indices")
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    rank = len(b.graph.tensors[layer.inputs[0].tensor].shape)
    if rank not in (3, 4) or not len(source.shape) == len(target.shape) == rank:
        raise CannotLower(f"pooling of a tensor of {rank} dimensions")
    method = MAXIMUM if node.op_type in ("MaxPool", "GlobalMaxPool") else AVERAGE
    _lower_window(b, layer, (source, target), _window(layer, source, target, method), method)


def _lower_window(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], window: Shape, method: int) -> None:
    """Emit a pool by the block that holds its windows, in steps if none does."""
    node, (source, target) = layer.head, ends
    rescales = rescaling(layer.inputs[0].quantisation, layer.output.quantisation)
    if method == AVERAGE and _fits_core(window) and (rescales is not None or not _fits_ppu(window)):
        _on_core(b, layer, source, window)
        return
    if not _fits_ppu(window):
        pieces = _pieces(b, source, window) if method == AVERAGE and layer.is_quantised else None
        if pieces is None:
            _in_steps(b, layer, (source, target), _steps(window, method), method)
        elif pieces.rows.out == 1:
            _on_core(b, layer, source, pieces)
        else:
            _of_pieces(b, layer, (source, target), pieces)
        return
    place = target if rescales is None else b.scratch(f"{node.name} pooled", target.shape, target.dtype)
    _emit(b, layer, source, place, window, method)
    if rescales is not None:
        b.begin_layer()
        emit(b, layer, place, target, None, lambda _: rescales)


def reduces_planes(graph: Graph, node: Node) -> bool:
    """Return whether a node is a ReduceMean or ReduceMax over the planes of pictures, which stay pictures."""
    if node.op_type not in _REDUCTIONS or not node.attributes.get("keepdims", 1):
        return False
    rank = len(graph.tensors[node.inputs[0]].shape)
    held = node.inputs[1] if len(node.inputs) > 1 else -1
    values = graph.constants.get(held)
    if held >= 0 and values is None:
        return False
    given = None if values is None else np.reshape(values, -1).astype(np.int64).tolist()
    return rank in (3, 4) and reduced_axes(node, rank, given) == tuple(range(2, rank))


def lower_plane(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a reduction over planes as a pool of windows as large as they are."""
    method = _REDUCTIONS[layer.head.op_type]
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    if not len(source.shape) == len(target.shape) == len(b.graph.tensors[layer.output.tensor].shape):
        raise CannotLower("planes that are stored as rows")
    _, _, height, width = cube_shape(source.shape)
    window = Shape(WindowAxis(height, 1, height), WindowAxis(width, 1, width), is_depthwise=True)
    _lower_window(b, layer, (source, target), window, method)


def _in_steps(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], steps: list[Shape], method: int) -> None:
    """Emit small windows one after the other; averages of int8 are fp16 in between, because rounded ones
    drift."""
    source, target = ends
    name = layer.head.name or layer.head.op_type
    taken, out = layer.inputs[0].quantisation, layer.output.quantisation
    is_widened = taken is not None and out is not None
    if is_widened:
        wide = b.scratch(f"{name} in fp16", cube_shape(source.shape), "float16")
        emit(b, layer, source, wide, None, lambda _: to_halves(taken))
        b.begin_layer()
        source = wide
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1 and not is_widened
        shape = (*cube_shape(source.shape)[:2], step.rows.out, step.columns.out)
        place = target if is_last else b.scratch(f"{name} step {number}", shape, source.dtype)
        if _fits_ppu(step):
            _emit(b, layer, source, place, step, method)
        else:
            channels = shape[1]
            weights = np.full((channels, 1, *step.kernel), 1 / (step.kernel[0] * step.kernel[1]), np.float16)
            operands = Operands(weights, np.zeros(channels, np.float32))
            convolve_into(b, layer, step, operands, (source, place))
        source = place
        if not is_last:
            b.begin_layer()
    if is_widened:
        emit(b, layer, source, target, None, lambda _: to_integers(out))


def _pieces(b: Builder, source: Buffer, window: Shape) -> Shape | None:
    """Return windows of CORE, one below the other, that together see a whole plane once; None if there are
    none.

    The positions of a plane follow each other in memory, so that its rows may be taken as longer or shorter
    ones. MAX_KERNEL averages are as many as the PPU joins.
    """
    if (window.rows.out, window.columns.out) != (1, 1) or any(window.pads):
        return None
    _, channels, height, width = cube_shape(source.shape)
    # Each channel has weights of its own, of whole groups.
    filled = 2 * aligned(channels, WRITTEN_CHANNELS)
    for count in range(1, MAX_KERNEL + 1):
        size, rest = divmod(height * width, count)
        if rest or size * filled > b.spec.cbuf_bytes - 2 * b.spec.cbuf_bank_bytes:
            continue
        sides = (part for part in range(MAX_TAPS, 0, -1) if size % part == 0)
        rows = next((part for part in sides if size // part <= MAX_TAPS), 0)
        if rows:
            columns = size // rows
            return Shape(
                WindowAxis(rows * count, count, rows, rows),
                WindowAxis(columns, 1, columns),
                is_depthwise=True,
            )
    return None


def _of_pieces(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], pieces: Shape) -> None:
    """Emit averages of int8 over pieces of a plane, in fp16, and the average of these."""
    source, target = ends
    taken, out = layer.inputs[0].quantisation, layer.output.quantisation
    assert taken is not None
    name, count = layer.head.name or layer.head.op_type, pieces.rows.out
    images, channels = cube_shape(source.shape)[:2]
    apart = b.scratch(f"{name} pieces", (images, channels, count, 1), "float16")
    convolve_into(b, layer, pieces, _ones(channels, pieces.kernel, taken, None), (source, apart))
    b.begin_layer()
    whole = b.scratch(f"{name} in fp16", (images, channels, 1, 1), "float16")
    window = Shape(WindowAxis(count, 1, count), WindowAxis(1, 1, 1), is_depthwise=True)
    _emit(b, layer, apart, whole, window, AVERAGE)
    b.begin_layer()
    emit(b, layer, whole, target, None, lambda _: to_integers(out))


def _steps(window: Shape, method: int) -> list[Shape]:
    """Return small windows one after the other that make a window over the whole plane.

    Each has equal parts; those of maxima may overlap. Raises CannotLower for other windows, and for planes
    that cannot be divided so.
    """
    if (window.rows.out, window.columns.out) != (1, 1) or any(window.pads):
        raise CannotLower(
            f"a window of {window.kernel} with pads {window.pads}: the PPU holds {MAX_KERNEL} and {MAX_PAD}"
        )
    parts = [_factors(size, method) for size in window.kernel]
    count = max(len(part) for part in parts)
    sizes = list(window.kernel)
    found: list[Shape] = []
    for number in range(count):
        axes: list[WindowAxis] = []
        for place, part in enumerate(parts):
            kernel, stride = part[number] if number < len(part) else (1, 1)
            out = (sizes[place] - kernel) // stride + 1
            axes.append(WindowAxis(sizes[place], out, kernel, 1 if out == 1 else stride))
            sizes[place] = out
        found.append(Shape(axes[0], axes[1], is_depthwise=True))
    return found


def _factors(size: int, method: int) -> list[tuple[int, int]]:
    """Return few windows of the PPU, each with its stride, that one after the other cover a size.

    Averages, which take each position once, may end with a window that only CORE holds.
    """
    found: list[tuple[int, int]] = []
    while size > 1:
        factor = next((part for part in range(MAX_KERNEL, 1, -1) if size % part == 0), 0)
        if factor:
            found.append((factor, factor))
            size //= factor
            continue
        if method == AVERAGE:
            if size <= MAX_TAPS:
                return [*found, (size, size)]
            raise CannotLower(
                f"a window over {size} positions, which no window of up to {MAX_KERNEL} divides",
                str(size),
                f"a plane whose sides are products of numbers up to {MAX_KERNEL}",
            )
        found.append(_overlapping(size))
        size = (size - found[-1][0]) // found[-1][1] + 1
    return found or [(1, 1)]


def _overlapping(size: int) -> tuple[int, int]:
    """Return the window and stride that leave least of a size that no window divides, each position seen."""
    ways = ((kernel, stride) for kernel in range(2, MAX_KERNEL + 1) for stride in range(1, kernel + 1))
    whole = [(kernel, stride) for kernel, stride in ways if (size - kernel) % stride == 0]
    return min(whole, key=lambda way: ((size - way[0]) // way[1], way[0]))


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = dict.fromkeys(POOLS, lower_pool)


def _window(layer: Layer, source: Buffer, target: Buffer, method: int) -> Shape:
    """Return the window of a pool. The padding after the image is as much as the last window reaches."""
    node = layer.head
    _, _, height, width = cube_shape(source.shape)
    if node.op_type.startswith("Global"):
        return Shape(WindowAxis(height, 1, height), WindowAxis(width, 1, width), is_depthwise=True)
    attributes = attributes_of(node)
    axes = window_axes(node, source.shape, target.shape, attributes.integers("kernel_shape"))
    rows, columns = padded_axes(axes, 2)
    if max(rows.dilation, columns.dilation) != 1:
        raise CannotLower("a dilated window", f"{rows.dilation} x {columns.dilation}", "dilations of 1")
    # Rounded up, the last window may reach beyond the given padding.
    bottom, right = (max(0, axis.reach(axis.out) - axis.size - axis.before) for axis in (rows, columns))
    if method == AVERAGE and any((rows.before, columns.before, bottom, right)):
        if not attributes.flag("count_include_pad"):
            raise CannotLower("an average that leaves padding out", change="count_include_pad = 1")
        if bottom > rows.after or right > columns.after:
            raise CannotLower("an average over windows that reach beyond the padding")
    return Shape(replace(rows, after=bottom), replace(columns, after=right), is_depthwise=True)


def _fits_ppu(window: Shape) -> bool:
    return max(*window.kernel, *window.strides) <= MAX_KERNEL and max(window.pads) <= MAX_PAD


def _fits_core(window: Shape) -> bool:
    """Return whether the fields of CNA hold the window. Ref: XML."""
    return max(window.kernel) <= MAX_TAPS and max(window.strides) <= 7 and max(window.pads) <= 15


def _on_core(b: Builder, layer: Layer, source: Buffer, window: Shape) -> None:
    """Emit an average as a depthwise convolution: int8 sums stay exact until they are scaled for the
    output."""
    channels = cube_shape(source.shape)[1]
    taps = window.kernel[0] * window.kernel[1]
    size = (channels, 1, *window.kernel)
    taken, out = layer.inputs[0].quantisation, layer.output.quantisation
    if taken is None or out is None:
        weights = np.full(size, 1 / taps, np.float16)
        emit_convolution(b, layer, window, Operands(weights, np.zeros(channels, np.float32)))
        return
    emit_convolution(b, layer, window, _ones(channels, window.kernel, taken, out))


def _ones(channels: int, kernel: tuple[int, int], taken: Quantisation, out: Quantisation | None) -> Operands:
    """Return the numbers of an average of int8 as a sum. out  of the result, None: real numbers"""
    taps = kernel[0] * kernel[1]
    scale = 1.0 if out is None else out.scale
    return Operands(
        np.ones((channels, 1, *kernel), np.int8),
        np.full(channels, -taken.zero_point * taps, np.int32),
        np.full(channels, taken.scale / taps / scale),
        0 if out is None else out.zero_point,
        taken.zero_point,
        scale,
    )


def _emit(b: Builder, layer: Layer, source: Buffer, target: Buffer, window: Shape, method: int) -> None:
    """Emit PPU tasks: channel surfaces shared out to the cores."""
    dtype = source.dtype
    filling = source.zero_point if dtype == "int8" else 0
    group = packing(dtype).channels
    images, channels = cube_shape(source.shape)[:2]
    rows, columns = window.rows, window.columns
    surfaces = aligned(channels, group) // group
    cores = min(b.spec.cores, surfaces)
    for image in range(images):
        for core in range(cores):
            low, high = (surfaces * n // cores for n in (core, core + 1))
            places = (
                source.address
                + image * image_bytes(source.shape, dtype)
                + low * rows.size * columns.size * ATOM_BYTES,
                target.address
                + image * image_bytes(target.shape, dtype)
                + low * rows.out * columns.out * ATOM_BYTES,
            )
            words = _words((high - low) * group, places, dtype, window, method)
            if method == AVERAGE and any(window.pads):
                value = filling & 0xFFFFFFFF
                words.append(writer("PPU")("PADDING_VALUE_1_CFG", value_0=value))
            b.task(layer.head.id, core, with_zeros(words, "PPU", "PPU_RDMA"), PPU_ENABLES)


def _words(channels: int, places: tuple[int, int], dtype: str, window: Shape, method: int) -> list[Word]:
    rows, columns = window.rows, window.columns
    top, left, bottom, right = window.pads
    precision = INT8 if dtype == "int8" else FP16

    ppu, rdma = writer("PPU"), writer("PPU_RDMA")
    return [
        ppu("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        rdma("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        ppu("DATA_CUBE_IN_WIDTH", width=columns.size - 1),
        ppu("DATA_CUBE_IN_HEIGHT", height=rows.size - 1),
        ppu("DATA_CUBE_IN_CHANNEL", channels=channels - 1),
        ppu("DATA_CUBE_OUT_WIDTH", width=columns.out - 1),
        ppu("DATA_CUBE_OUT_HEIGHT", height=rows.out - 1),
        ppu("DATA_CUBE_OUT_CHANNEL", channels=channels - 1),
        ppu("OPERATION_MODE_CFG", flying=1, method=method),
        ppu(
            "POOLING_KERNEL_CFG",
            stride_height=rows.stride - 1,
            stride_width=columns.stride - 1,
            kernel_height=rows.kernel - 1,
            kernel_width=columns.kernel - 1,
        ),
        # Ref: TRM: the reciprocal times 65536.
        ppu("RECIP_KERNEL_WIDTH", reciprocal=round(65536 / columns.kernel)),
        ppu("RECIP_KERNEL_HEIGHT", reciprocal=round(65536 / rows.kernel)),
        ppu("POOLING_PADDING_CFG", bottom=bottom, right=right, top=top, left=left),
        ppu("DST_BASE_ADDR", address=places[1] >> 4),
        ppu("DST_SURF_STRIDE", stride=rows.out * columns.out),
        ppu("DATA_FORMAT", proc_precision=precision),
        rdma("CUBE_IN_WIDTH", width=columns.size - 1),
        rdma("CUBE_IN_HEIGHT", height=rows.size - 1),
        rdma("CUBE_IN_CHANNEL", channels=channels - 1),
        rdma("SRC_BASE_ADDR", address=places[0]),
        rdma("SRC_LINE_STRIDE", stride=columns.size),
        rdma("SRC_SURF_STRIDE", stride=rows.size * columns.size),
        rdma("DATA_FORMAT", in_precision=precision),
    ]
