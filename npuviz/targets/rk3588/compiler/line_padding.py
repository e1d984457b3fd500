"""Lower Pad of a line: whole atoms are copied, what is moved within atoms or turned round is a product."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.exchange import MAX_POSITIONS
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.lines import SAMPLES, Walk, line_pads
from npuviz.targets.rk3588.compiler.moving import Span, Window, move
from npuviz.targets.rk3588.compiler.operators.conv import Operands
from npuviz.targets.rk3588.compiler.operators.signals import walk_lines
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES

FILL, EMPTY = -1, -2
"""Numbers of samples that are the fill value, and of those that are zero or behind the end."""
MOST_ATOMS = 16
"""Most atoms of the result that one product makes, and most that it reads besides: larger ones read more
zeros."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Atoms of the result that lie in the source at one distance.

    shift  samples by which they begin within atoms of the source
    """

    given: int
    taken: int
    count: int
    shift: int


def lower_line_pad(b: Builder, layer: Layer, mode: str, value: float) -> None:
    """Lower Pad of the last axis of lines. value  that mode constant fills in"""
    source, target = b.home(layer.inputs[0].tensor), b.home(layer.output.tensor)
    pads = line_pads(b.graph, layer.head)
    if (source.layout, target.layout) != ("rows", "rows") or pads is None:
        raise CannotLower("its operand does not lie as a line of samples, but its result does")
    if abs(value) > np.finfo(np.float16).max:
        raise CannotLower("a value that fp16 cannot hold", f"{value:g}")
    numbers = padded_numbers(mode, source.shape[1], pads, fill=FILL if value else EMPTY)
    atoms = _in_atoms(numbers)
    runs, rest = _runs(atoms, _in_atoms(np.arange(source.shape[1])))
    for run in runs:
        if run.shift:
            _shift(b, layer, run, (source, target))
        else:
            _copy(b, layer, run, (source, target))
    for first, last in _blocks(atoms, rest):
        _multiply(b, layer, (atoms[first:last], first), value, (source, target))


def padded_numbers(mode: str, size: int, pads: tuple[int, int], fill: int = FILL) -> np.ndarray:
    """Return for each element of a padded axis its number on the axis before. fill  that of the fill value

    Raises CannotLower for an unknown mode, and for pads that a mode cannot take from the axis at once.
    """
    numbers = np.arange(size)
    if mode == "constant":
        return np.pad(numbers, pads, constant_values=fill)
    if mode not in ("reflect", "edge", "wrap"):
        raise CannotLower(f"mode {mode}", mode, "mode constant, reflect, edge or wrap")
    if mode != "edge" and max(pads) > size - (mode == "reflect"):
        raise CannotLower(f"mode {mode} with more padding than elements", str(max(pads)))
    return np.pad(numbers, pads, mode=mode)


def _in_atoms(numbers: np.ndarray) -> np.ndarray:
    """Return (atoms, samples of one), filled up with EMPTY."""
    filled = np.full((-(-len(numbers) // SAMPLES), SAMPLES), EMPTY)
    filled.reshape(-1)[: len(numbers)] = numbers
    return filled


def _runs(atoms: np.ndarray, source: np.ndarray) -> tuple[list[_Run], list[int]]:
    """Return runs of atoms with neighbouring samples, and the places of all others that are not empty."""
    runs: list[_Run] = []
    rest: list[int] = []
    for place, atom in enumerate(atoms):
        at, shift = divmod(int(atom[0]), SAMPLES)
        is_whole = at >= 0 and not shift and np.array_equal(atom, source[at])
        if not is_whole and (at < 0 or not np.array_equal(atom, atom[0] + np.arange(SAMPLES))):
            rest += [place] if np.any(atom != EMPTY) else []
            continue
        last = runs[-1] if runs else None
        if last is not None and (last.given + last.count, last.taken + last.count, last.shift) == (
            place, at, shift
        ):  # fmt: skip
            runs[-1] = replace(last, count=last.count + 1)
        else:
            runs.append(_Run(place, at, 1, shift))
    return runs, rest


def _blocks(atoms: np.ndarray, rest: list[int]) -> Iterator[tuple[int, int]]:
    """Yield neighbouring places of the result, from the first to before the last, for one product each."""
    begin = 0
    for end in range(1, len(rest) + 1):
        if end < len(rest) and rest[end] == rest[end - 1] + 1:
            low, high = _reach(atoms[rest[begin] : rest[end] + 1])
            if end + 1 - begin <= MOST_ATOMS and high - low <= 2 * MOST_ATOMS:
                continue
        yield rest[begin], rest[end - 1] + 1
        begin = end


def _reach(atoms: np.ndarray) -> tuple[int, int]:
    """Return the atoms of the source that atoms of the result read, from the first to before the last."""
    read = atoms[atoms >= 0]
    return (int(read.min()) // SAMPLES, int(read.max()) // SAMPLES + 1) if len(read) else (0, 1)


def _copy(b: Builder, layer: Layer, run: _Run, ends: tuple[Buffer, Buffer]) -> None:
    """Copy whole atoms of every line."""
    cubes, windows = [], []
    for end, first in zip(ends, (run.taken, run.given), strict=True):
        lines, length = end.shape
        shape = (1, SAMPLES, lines, -(-length // SAMPLES))
        cubes.append(replace(end, layout="feature", shape=shape))
        windows.append(Window(Span(0, 1), Span(0, SAMPLES), Span(0, lines), Span(first, run.count)))
    move(b, layer, (cubes[0], cubes[1]), (windows[0], windows[1]), Stages())


def _shift(b: Builder, layer: Layer, run: _Run, ends: tuple[Buffer, Buffer]) -> None:
    """Make atoms of two neighbours each, which one small product does for all of a line."""
    weights = np.eye(SAMPLES, 2 * SAMPLES, run.shift, dtype=np.float16)
    operands = Operands(weights[:, :, None, None], np.zeros(SAMPLES, np.float32))
    walk_lines(b, layer, Walk(run.count, 1, 2), operands, _from(ends, run.taken, run.given))


def _multiply(
    b: Builder, layer: Layer, block: tuple[np.ndarray, int], value: float, ends: tuple[Buffer, Buffer]
) -> None:
    """Make atoms of the result by a product with ones. block  their numbers, and the place of the first"""
    atoms, first = block
    numbers = atoms.reshape(-1)
    low, high = _reach(atoms)
    weights = np.zeros((len(numbers), (high - low) * SAMPLES), np.float16)
    moved = np.flatnonzero(numbers >= 0)
    weights[moved, numbers[moved] - low * SAMPLES] = 1
    bias = np.where(numbers == FILL, value, 0).astype(np.float32)
    operands = Operands(weights[:, :, None, None], bias)
    lines, sizes = ends[0].shape[0], [-(-end.shape[1] // SAMPLES) for end in ends]
    if sizes[1] > MAX_POSITIONS:
        walk_lines(b, layer, Walk(1, 1, high - low), operands, _from(ends, low, first))
        return
    # All lines are windows of one that is as long as all together.
    together = [
        replace(end, shape=(1, end.shape[0] * SAMPLES * size)) for end, size in zip(ends, sizes, strict=True)
    ]
    walk = Walk(lines, sizes[0], high - low, sizes[1])
    walk_lines(b, layer, walk, operands, _from((together[0], together[1]), low, first))


def _from(ends: tuple[Buffer, Buffer], taken: int, given: int) -> tuple[Buffer, Buffer]:
    """Return lines from atoms of them on."""
    source, target = (
        replace(end, address=end.address + first * ATOM_BYTES)
        for end, first in zip(ends, (taken, given), strict=True)
    )
    return source, target
