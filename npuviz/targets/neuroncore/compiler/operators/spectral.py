"""Lower DFT and STFT to products with constant matrices on PE."""

from collections.abc import Callable, Mapping

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement import arguments
from npuviz.targets.neuroncore.compiler.operators.movement.indices import dense
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.operators.sampling.resize import FLOATS, contract
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

MAX_LENGTH = 4096
"""Longest transform; its matrix has the square of this many elements."""
# Smaller sines and cosines are zeros with a rounding error.
_ZERO = 1e-12


def dft_matrix(length: int, size: int, out: int, parts: tuple[int, int], *, is_inverse: bool) -> np.ndarray:
    """Return the matrix of a transform, (out * parts[1], size * parts[0]) float64; complex numbers are pairs.

    length  length of the transform;  size, out  samples before and after: fewer than `length` after means a
    one-sided result, more parts before than after a real signal from one side
    parts   numbers of a sample before and after: 1 real, 2 real and imaginary
    """
    used = min(size, length)
    angles = 2 * np.pi * (np.outer(np.arange(out), np.arange(used)) % length) / length
    cosine, sine = np.cos(angles), np.sin(angles)
    cosine[np.abs(cosine) < _ZERO] = 0
    sine[np.abs(sine) < _ZERO] = 0
    scale = np.full(used, 1.0 / length if is_inverse else 1.0)
    if is_inverse and parts[1] == 1:
        # The other side mirrors all samples except the first and, for even lengths, the last.
        scale[1 : (length + 1) // 2] *= 2
    turn = sine if is_inverse else -sine
    made = np.zeros((out, parts[1], size, parts[0]))
    made[:, 0, :used, 0] = cosine * scale
    if parts[0] == 2:
        made[:, 0, :used, 1] = -turn * scale
    if parts[1] == 2:
        made[:, 1, :used, 0] = turn * scale
        if parts[0] == 2:
            made[:, 1, :used, 1] = cosine * scale
    return made.reshape(out * parts[1], size * parts[0])


def lower_dft(b: Builder, node: Node) -> None:
    """Lower DFT of any axis, forward or inverse, one-sided or not."""
    to, of = arguments.target(b, node), arguments.source(b, node)
    _check_type(of)
    rank = len(of.shape)
    is_inverse = bool(arguments.integer(node, "inverse"))
    given_axis = arguments.known_ints(b, node, 2, "the axis")
    default = arguments.integer(node, "axis", 1) if b.graph.opsets.get("ai.onnx", 0) < 20 else -2
    axis = arguments.axis_of(given_axis[0] if given_axis else default, rank)
    if axis == rank - 1:
        raise CannotLower("a transform along the parts of complex numbers")
    given = arguments.known_ints(b, node, 1, "the length of the transform")
    size, out = of.shape[axis], to.shape[axis]
    length = given[0] if given else size
    if is_inverse and arguments.integer(node, "onesided"):
        length = given[0] if given else out
    order = (*(at for at in range(rank - 1) if at != axis), axis, rank - 1)
    parts = (of.shape[-1], to.shape[-1])
    rows = of.num_elements // (size * parts[0])
    matrix = _limited(length, size, out, parts, is_inverse)
    data = dense(b, of.permute(*order), (rows, size * parts[0]))
    results = to.permute(*order)
    made = b.hbm.scratch(results.shape, to.dtype)
    contract(b, made.reshape(rows, out * parts[1]), data, 1, matrix)
    arguments.copy(b, results, made)


def lower_stft(b: Builder, node: Node) -> None:
    """Lower STFT: read overlapping frames by one descriptor each, weight by the window, transform."""
    to, of = arguments.target(b, node), arguments.source(b, node)
    _check_type(of)
    step = arguments.known_ints(b, node, 1, "the step of the frames")
    given = arguments.known_ints(b, node, 3, "the length of the frames")
    if step is None:
        raise CannotLower("frames without a step")
    window = arguments.source(b, node, 2) if arguments.input_id(node, 2) >= 0 else None
    length = given[0] if given else window.shape[0] if window is not None else 0
    batch, count, bins, _ = to.shape
    parts = of.shape[2] if len(of.shape) == 3 else 1
    item = of.itemsize
    samples = of.shape[1]
    overlapping = HbmView(
        of.variable,
        of.offset,
        of.dtype,
        (batch, count, length * parts),
        (samples * parts * item, step[0] * parts * item, item),
    )
    frames = b.hbm.scratch((batch * count, length * parts), of.dtype)
    b.dma.copy(frames.reshape(batch, count, length * parts), overlapping)
    if window is not None:
        frames = _weighted(b, frames, window, parts)
    matrix = _limited(length, length, bins, (parts, 2), False)
    contract(b, to.reshape(batch * count, bins * 2), frames, 1, matrix)


def _weighted(b: Builder, frames: HbmView, window: HbmView, parts: int) -> HbmView:
    made = b.hbm.scratch(frames.shape, frames.dtype)
    length = window.num_elements
    for begin, end in blocks(frames.shape[0], NUM_PARTITIONS):
        with b.tiles.scope():
            rows = b.dma.fetch(frames[begin:end]).reshape(length, parts)
            factors = b.dma.fetch(window.reshape(1, length).broadcast_to((end - begin, length)))
            scaled = b.tiles.sbuf(end - begin, (length, parts), frames.dtype)
            for part in range(parts):
                b.isa.tensor_tensor(scaled[:, :, part], rows[:, :, part], factors, Alu.MULTIPLY)
            b.dma.store(made[begin:end], scaled.reshape(length * parts))
    return made


def _check_type(of: HbmView) -> None:
    if of.dtype not in FLOATS:
        raise CannotLower(f"a transform of {of.dtype}")


def _limited(length: int, size: int, out: int, parts: tuple[int, int], is_inverse: bool) -> np.ndarray:
    if not 1 <= length <= MAX_LENGTH or size > MAX_LENGTH:
        raise CannotLower(f"a transform of {max(length, size)} samples, at most {MAX_LENGTH}")
    return dft_matrix(length, size, out, parts, is_inverse=is_inverse)


LOWERINGS: Mapping[str, Callable[[Builder, Node], None]] = {
    "DFT": lower_dft,
    "STFT": lower_stft,
}
