"""Lower convolutions along lines: every window is the channels of a position, fetched where it lies.

CNA steps from row to row by the stride of the windows and from surface to surface by one atom, so that long
windows of one channel become products, with all channels of CORE at work. If the stride is no whole number of
atoms, a group of outputs shares a window, each with its kernel moved along.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.registers import Word, registers
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.lines import SAMPLES, LineWindow, Walk
from npuviz.targets.rk3588.compiler.moving import Span, Window, move
from npuviz.targets.rk3588.compiler.operators.activation import emit_activation
from npuviz.targets.rk3588.compiler.operators.conv import (
    Operands,
    conv_words,
    enables_of,
    pack_dense,
    stages_of,
)
from npuviz.targets.rk3588.compiler.strides import rows_bytes
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import WRITTEN_CHANNELS, cube_shape, image_bytes
from npuviz.targets.rk3588.task.work import ATOM_BYTES

MOST_ROWS = 2047
"""Most rows of the features of a task: 11 bits. Ref: XML."""


def convolve_lines(
    b: Builder, layer: Layer, window: LineWindow, operands: Operands, ends: tuple[Buffer, Buffer]
) -> None:
    """Emit tasks from lines to a cube, or to lines if there is one kernel; an activation gets tasks of its
    own.

    Raises CannotLower if a window does not fit CBUF.
    """
    source, target = ends
    kernels, phases = len(operands.weights), window.phases
    each = kernels if phases == 1 or kernels == 1 else aligned(kernels, packing("float16").channels)
    stacked = _stacked(operands.weights.reshape(kernels, -1), window, each)
    bias = np.zeros((phases, each), np.float32)
    bias[:, :kernels] = operands.bias
    whole = Operands(stacked[:, :, None, None], bias.reshape(-1))
    is_line = target.layout == "rows"
    name = layer.head.name or layer.head.op_type
    images = source.shape[0]
    if is_line and layer.activation is not None:
        raise CannotLower("an activation of a line")
    place = target
    if not is_line and (phases > 1 or layer.activation is not None):
        shape = (images, phases * each, window.groups, 1)
        place = b.scratch(f"{name} phases", shape, "float16")
    walk_lines(b, layer, window.walk, whole, (source, place))
    if place is target:
        return
    b.begin_layer()
    if phases > 1:
        spread = target if layer.activation is None else b.scratch(f"{name} sums", target.shape, "float16")
        for phase in range(phases):
            _spread(b, layer, (place, spread), (window, phase, kernels, each))
        b.begin_layer()
        place = spread
    if layer.activation is not None:
        emit_activation(b, layer, _like(place, target), target)


def _like(buffer: Buffer, other: Buffer) -> Buffer:
    return replace(buffer, shape=other.shape)


def _stacked(weights: np.ndarray, window: LineWindow, each: int) -> np.ndarray:
    """Return (phases * kernels, samples of a window): the kernels of each output of a group one after the
    other."""
    made = np.zeros((window.phases, each, window.atoms * SAMPLES), np.float16)
    for phase in range(window.phases):
        places = window.stride * phase + np.arange(window.taps) * window.dilation
        made[phase, : len(weights), places] = weights.T
    return made.reshape(-1, made.shape[2])


def walk_lines(b: Builder, layer: Layer, walk: Walk, operands: Operands, ends: tuple[Buffer, Buffer]) -> None:
    """Emit tasks that multiply windows of every line with kernels.

    operands  weights (kernels, samples of a window, 1, 1)
    ends      lines (their addresses may be within the first one); a cube with a position for each window, or
              lines with the kernels of each window one after the other
    """
    source, target = ends
    name = layer.head.name or layer.head.op_type
    packed = b.constant(f"{name} weights", pack_dense(operands.weights, packing("float16").kernels))
    stages = stages_of(b, name, None, operands)
    channels, kernels = walk.atoms * SAMPLES, len(operands.weights)
    data, rows = _shared(b, channels * 2, kernels)
    stays = packed.size_bytes <= (b.spec.cbuf_banks - data) * b.spec.cbuf_bank_bytes
    line = rows_bytes((1, source.shape[1]), "float16")
    image = line_bytes(target) if target.layout == "rows" else image_bytes(target.shape, "float16")
    count = -(-walk.groups // rows)
    edges = [walk.groups * number // count for number in range(count + 1)]
    number = 0
    apart = walk.groups if walk.given == 1 else 1
    is_filled_up = target.layout != "rows" and kernels < aligned(kernels, WRITTEN_CHANNELS)
    for turn in range(source.shape[0]):
        if turn and is_filled_up:
            # The channels that fill up one image lie where the next image begins.
            b.begin_layer()
        for low, high in pairwise(edges):
            task = ConvTask(
                in_dtype="float16", out_dtype="float16", width=1, height=high - low, channels=channels,
                kernels=kernels, out_height=high - low, surface_stride=apart, quantised=True,
                data_banks=data, weight_banks=b.spec.cbuf_banks - data,
                weight_reuse=stays and number >= b.spec.cores, feature_grains=min(high - low + 1, 1023),
                feature_address=source.address + turn * line + low * walk.step * ATOM_BYTES,
                weight_address=packed.address,
                output_address=target.address + turn * image + low * walk.given * ATOM_BYTES,
            )  # fmt: skip
            words = _along(conv_words(task, stages), walk, kernels if target.layout == "rows" else 0)
            b.task(layer.head.id, number % b.spec.cores, words, enables_of(stages))
            number += 1


def line_bytes(buffer: Buffer) -> int:
    """Return the bytes from one line to the next."""
    return rows_bytes((1, buffer.shape[1]), buffer.dtype)


def _shared(b: Builder, row_bytes: int, kernels: int) -> tuple[int, int]:
    """Return the banks for features, and the rows that they hold: the rest has room for the weights, or half
    of CBUF."""
    size, banks = b.spec.cbuf_bank_bytes, b.spec.cbuf_banks
    group = -(-row_bytes * min(kernels, packing("float16").kernels) // size)
    weights = max(group, min(-(-row_bytes * kernels // size), banks // 2))
    data = banks - weights
    rows = min(MOST_ROWS, data * size // row_bytes) if data > 0 else 0
    if rows < 1:
        raise CannotLower(f"CBUF: windows of {row_bytes} bytes and a group of kernels do not fit")
    return data, rows


def _along(words: list[Word], walk: Walk, lanes: int) -> list[Word]:
    """Return the words with the steps of a line.

    lanes  channels to write, 0: as they are (Assumed: as in copies of lanes, the DPU writes the channels that
           WDMA_SIZE_0 says)
    """
    encode = registers().encode
    changed = [
        encode("CNA", "DMA_CON1", line_stride=4 * walk.step),
        encode("CNA", "DMA_CON2", surface_stride=1 - 4 * walk.step),
    ]
    if lanes:
        changed += [
            encode("DPU", "DATA_CUBE_CHANNEL", original_channels=lanes - 1, channels=lanes - 1),
            encode("DPU", "WDMA_SIZE_0", channels=lanes - 1),
        ]
    if walk.given > 1:
        notch = walk.given - 1
        changed.append(encode("DPU", "DATA_CUBE_NOTCH_ADDR", notch_0=notch, notch_1=notch))
    new = {word.offset: word for word in changed}
    return [new.get(word.offset, word) for word in words]


def _spread(
    b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], which: tuple[LineWindow, int, int, int]
) -> None:
    """Write the outputs of one phase to every phases-th position of the result."""
    (source, target), (window, phase, kernels, each) = ends, which
    images = cube_shape(target.shape)[0]
    count = -(-(window.count - phase) // window.phases)
    if count < 1:
        return
    turned = _column(source)
    taken = Window(Span(0, images), Span(phase * each, kernels), Span(0, 1), Span(0, count))
    given = Window(Span(0, images), Span(0, kernels), Span(0, 1), Span(phase, count, window.phases))
    move(b, layer, (turned, target), (taken, given), Stages())


def _column(buffer: Buffer) -> Buffer:
    images, channels, height, width = cube_shape(buffer.shape)
    return replace(buffer, shape=(images, channels, width, height))
