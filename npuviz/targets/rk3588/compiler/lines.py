"""Lay out signals of one channel as lines, 8 samples per atom, if long windows are taken of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.operator_kinds import VIEWS

FEWEST_TAPS = 16
"""Fewest taps of a window along lines. Shorter windows are fetched as a cube of one channel: half of an atom
of samples is not used anyway."""
SAMPLES = 8
"""Samples of an atom in fp16."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Windows at even distances along a line: their number, atoms from one to the next, atoms of each.

    given  atoms from one result to the next, if results are lines; more than 1: the atoms of a result are
           neighbours
    """

    groups: int
    step: int
    atoms: int
    given: int = 1


@dataclass(frozen=True, slots=True)
class LineWindow:
    """Windows along a line. A group of outputs is one position: its windows begin at a whole atom.

    count    outputs
    taps, stride, dilation  of their windows, in samples
    phases   outputs of a group
    """

    count: int
    taps: int
    stride: int
    dilation: int
    phases: int

    @property
    def groups(self) -> int:
        """Number of groups, each one position."""
        return -(-self.count // self.phases)

    @property
    def step(self) -> int:
        """Atoms from one group to the next."""
        return self.stride * self.phases // SAMPLES

    @property
    def atoms(self) -> int:
        """Atoms that a group reads."""
        reach = (self.taps - 1) * self.dilation + 1 + self.stride * (self.phases - 1)
        return -(-reach // SAMPLES)

    @property
    def walk(self) -> Walk:
        """The windows of the groups."""
        return Walk(self.groups, self.step, self.atoms)


def line_window(graph: Graph, node: Node) -> LineWindow | None:
    """Return how a Conv walks along lines, None if it does not: one channel, no padding, a long window."""
    if node.op_type != "Conv" or node.inputs[1] not in graph.constants:
        return None
    taken, kernel = (graph.tensors[tensor].shape for tensor in node.inputs[:2])
    given = graph.tensors[node.outputs[0]]
    attributes = attributes_of(node)
    if (
        len(taken) not in (3, 4)
        or taken[1] != 1
        or kernel[2:-1] != taken[2:-1]
        or any(size != 1 for size in taken[2:-1])
        or given.dtype not in ("float32", "float16")
        or graph.tensors[node.inputs[0]].dtype not in ("float32", "float16")
        or any(attributes.integers("pads", [0]))
        or attributes.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        or kernel[-1] < FEWEST_TAPS
    ):
        return None
    stride, dilation = (attributes.integers(name, [1])[-1] for name in ("strides", "dilations"))
    phases = SAMPLES if kernel[0] == 1 else SAMPLES // gcd(stride, SAMPLES)
    return LineWindow(given.shape[-1], kernel[-1], stride, dilation, phases)


def line_pads(graph: Graph, node: Node) -> tuple[int, int] | None:
    """Return how many samples a Pad of floats adds before and behind its last axis.

    None if it changes others, cuts off, or only a run tells.
    """
    if node.op_type != "Pad" or graph.tensors[node.outputs[0]].dtype not in ("float32", "float16"):
        return None
    size = len(graph.tensors[node.inputs[0]].shape)
    given = [graph.constants.get(tensor) if tensor >= 0 else None for tensor in node.inputs[1:]]
    if any(value is None and tensor >= 0 for value, tensor in zip(given, node.inputs[1:], strict=True)):
        return None
    known = given[0] if given else node.attributes.get("pads", node.attributes.get("paddings"))
    pads = np.reshape(np.asarray(known), -1).astype(np.int64).tolist()
    named = given[2] if len(given) > 2 else None
    axes = range(size) if named is None else [int(axis) % size for axis in np.reshape(named, -1)]
    before, after = dict.fromkeys(range(size), 0), dict.fromkeys(range(size), 0)
    before |= dict(zip(axes, pads, strict=False))
    after |= dict(zip(axes, pads[len(axes) :], strict=False))
    if not size or any(before[axis] or after[axis] for axis in range(size - 1)):
        return None
    ends = before[size - 1], after[size - 1]
    return ends if min(ends) >= 0 else None


@dataclass(frozen=True, slots=True)
class Line:
    """How a tensor lies as lines: their number and samples; room  bytes that windows read after the last
    one"""

    count: int
    length: int
    room: int = 0


def tensors_of_lines(graph: Graph, on_host: Collection[int]) -> Mapping[int, Line]:
    """Return the tensors that lie as lines.

    on_host  nodes that the Host runs: it fills a line as well as a cube

    A tensor is a line if all its readers take windows along it, even after a change of its shape, and if its
    maker can write one; or if it is made as one.
    """
    readers = graph.consumers()
    wanted: dict[int, Line] = {}
    for tensor in _backwards(graph):
        lines = [_wanted(graph, graph.nodes[node], wanted, on_host) for node in readers[tensor]]
        known = [line for line in lines if line is not None]
        if known and len(known) == len(lines) and len({(line.count, line.length) for line in known}) == 1:
            wanted[tensor] = max(known, key=lambda line: line.room)
    found: dict[int, Line] = {}
    for tensor in graph.tensors:
        maker = graph.nodes[tensor.producer] if tensor.producer >= 0 else None
        line = wanted.get(tensor.id)
        is_filled = tensor.id in graph.inputs
        if maker is not None:
            window = line_window(graph, maker) if maker.id not in on_host else None
            if window is not None and graph.tensors[maker.inputs[1]].shape[0] == 1:
                own = Line(prod(tensor.shape[:-1]), tensor.shape[-1])
                found[tensor.id] = line if line is not None and line.length == own.length else own
            is_view = maker.op_type in VIEWS and maker.inputs[0] in found
            is_padded = line_pads(graph, maker) is not None
            is_filled = window is None and (is_view or is_padded or maker.id in on_host)
        if line is not None and is_filled:
            found[tensor.id] = line
    return found


def _backwards(graph: Graph) -> list[int]:
    """Return the tensors of floats, each before those that it is made of."""
    made = [tensor for node in graph.nodes for tensor in node.outputs if tensor >= 0]
    order = [*graph.inputs, *made][::-1]
    return [tensor for tensor in order if graph.tensors[tensor].dtype in ("float32", "float16")]


def _wanted(graph: Graph, node: Node, wanted: Mapping[int, Line], on_host: Collection[int]) -> Line | None:
    """Return the lines that a node wants its first input as, None for no lines."""
    if node.id in on_host:
        return None
    if node.op_type in VIEWS:
        return wanted.get(node.outputs[0])
    if node.op_type == "Pad":
        shape = graph.tensors[node.inputs[0]].shape
        is_line = node.outputs[0] in wanted and line_pads(graph, node) is not None
        return Line(prod(shape[:-1]), shape[-1]) if is_line else None
    window = line_window(graph, node)
    if window is None:
        return None
    shape = graph.tensors[node.inputs[0]].shape
    read = (window.groups - 1) * window.step + window.atoms
    behind = max(0, read - -(-shape[-1] // SAMPLES))
    return Line(shape[0], shape[-1], 2 * SAMPLES * behind)
