"""The toy's program: four elementwise operators, cut into blocks, four instructions a block.

Tile t = node * blocks + block runs the instructions 4t .. 4t+3: LOAD a, LOAD b, MUL or ADD, STORE.
"""

from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Graph, Node
from npuviz.program.instruction import Dependency, DetailTable, Instruction, Operand
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import Note, Program
from npuviz.program.tensor import Tensor, TensorKind

LD, ALU, ST = 0, 1, 2
DRAM, SPAD = 0, 1
PER_TILE = 4
NUM_BANKS = 4
SLOTS = 3  # of a bank: operand a, operand b, result

# node name, operator, left tensor, right tensor, output tensor
NODES = (
    ("scale", "Mul", 0, 1, 3),
    ("shift", "Add", 3, 2, 4),
    ("mix", "Add", 4, 0, 5),
    ("final square", "Mul", 5, 4, 6),
)
TENSORS: tuple[tuple[str, TensorKind, int], ...] = (
    ("x", "input", -1),
    ("w", "weight", -1),
    ("b", "weight", -1),
    ("y", "activation", 0),
    ("z", "activation", 1),
    ("m", "activation", 2),
    ("out", "output", 3),
)


@dataclass(frozen=True)
class ToySpec:
    """Sizes and latencies; all positive.

    fault_at      index of an instruction that ends the run, -1 for none
    stuck_at      tile that is never stored, so that the pipeline deadlocks behind it; -1 for none
    hazard_above  a product larger than this is a hazard; 0 for none
    estimated     1: the program says that nothing of it is certain
    """

    blocks: int = 8
    elements: int = 16
    queue: int = 2
    latency: int = 6
    fault_at: int = -1
    stuck_at: int = -1
    hazard_above: int = 0
    estimated: int = 0
    seed: int = 0

    @property
    def block_bytes(self) -> int:
        return self.elements * 4

    @property
    def tensor_bytes(self) -> int:
        return self.blocks * self.block_bytes

    @property
    def bank_bytes(self) -> int:
        return SLOTS * self.block_bytes

    @property
    def num_tiles(self) -> int:
        return len(NODES) * self.blocks

    def dram_address(self, tensor: int, tile: int) -> int:
        """Byte address of a tensor's block that a tile works on."""
        return tensor * self.tensor_bytes + (tile % self.blocks) * self.block_bytes


class ToyListing:
    """Instructions computed from their index."""

    def __init__(self, spec: ToySpec) -> None:
        self._spec = spec

    def __len__(self) -> int:
        return self._spec.num_tiles * PER_TILE

    def describe(self, index: int) -> Instruction:
        if not 0 <= index < len(self):
            raise IndexError(index)
        spec = self._spec
        tile, part = divmod(index, PER_TILE)
        node = tile // spec.blocks
        _, op_type, left, right, out = NODES[node]
        size = spec.block_bytes
        if part < 2:
            tensor = (left, right)[part]
            source = Operand(DRAM, spec.dram_address(tensor, tile), size, tensor)
            sink = Operand(SPAD, part * size, size, tensor)
            text = f"LOAD spad+{sink.address:#x}, dram+{source.address:#x}, {size}"
            return Instruction(index, LD, "LOAD", text, node, tile, (source,), (sink,))
        result = Operand(SPAD, 2 * size, size, out)
        if part == 2:
            reads = (Operand(SPAD, 0, size, left), Operand(SPAD, size, size, right))
            opcode = op_type.upper()
            text = f"{opcode} spad+{2 * size:#x}, spad+0x0, spad+{size:#x}, {spec.elements}"
            return Instruction(index, ALU, opcode, text, node, tile, reads, (result,))
        sink = Operand(DRAM, spec.dram_address(out, tile), size, out)
        text = f"STORE dram+{sink.address:#x}, spad+{2 * size:#x}, {size}"
        return Instruction(index, ST, "STORE", text, node, tile, (result,), (sink,))

    def dependencies_of(self, index: int) -> tuple[Dependency, ...]:
        """What a tile's instructions hand on, the tensors' ways through DRAM, and the reuse of banks."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        tile = index // PER_TILE
        found = self._inside(tile)
        for one in (tile, tile + NUM_BANKS):
            found |= self._reuse(one)
        blocks, node = self._spec.blocks, tile // self._spec.blocks
        for reader, (_, _, left, right, _) in enumerate(NODES):
            for operand, tensor in enumerate((left, right)):
                writer = TENSORS[tensor][2]
                if writer >= 0 and node in (reader, writer):
                    block = tile % blocks
                    source, sink = ((n * blocks + block) * PER_TILE for n in (writer, reader))
                    found.add(Dependency(source + 3, sink + operand, "flow"))
        mine = [d for d in found if index in (d.source, d.sink)]
        return tuple(sorted(mine, key=lambda d: (d.source, d.sink, d.kind)))

    def _inside(self, tile: int) -> set[Dependency]:
        first = tile * PER_TILE
        pairs = ((first, first + 2), (first + 1, first + 2), (first + 2, first + 3))
        return {Dependency(source, sink, "flow") for source, sink in pairs}

    def _reuse(self, tile: int) -> set[Dependency]:
        """A bank is written again only when the tile before has left it."""
        if not NUM_BANKS <= tile < self._spec.num_tiles:
            return set()
        now, before = tile * PER_TILE, (tile - NUM_BANKS) * PER_TILE
        found = {Dependency(before + 3, now + 2, "anti")}
        for part in range(2):
            found.add(Dependency(before + 2, now + part, "anti"))
            found.add(Dependency(before + part, now + part, "output"))
        return found

    def details_of(self, index: int) -> tuple[DetailTable, ...]:
        """Operands as access patterns, and the two descriptors of what crosses the edge of the chip."""
        instruction = self.describe(index)
        rows = tuple(
            (role, ("dram", "spad")[o.memory], f"{o.address:#x}", str(self._spec.elements), "1", "float32")
            for role, operands in (("read", instruction.reads), ("written", instruction.writes))
            for o in operands
        )
        tables = [DetailTable("Operands", ("Is", "Memory", "Address", "Count", "Step", "Type"), rows)]
        if instruction.unit != ALU:
            half = self._spec.block_bytes // 2
            source, sink = instruction.reads[0], instruction.writes[0]
            pieces = tuple(
                (str(i), f"{source.address + i * half:#x}", f"{sink.address + i * half:#x}", str(half))
                for i in range(2)
            )
            tables.append(DetailTable("Descriptors", ("#", "From", "To", "Bytes"), pieces))
        return tuple(tables)

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        nodes = indices // (PER_TILE * self._spec.blocks)
        return np.where(self._known(indices), nodes, -1).astype(np.int32)

    def units_of(self, indices: np.ndarray) -> np.ndarray:
        units = np.array([LD, LD, ALU, ST])[indices % PER_TILE]
        return np.where(self._known(indices), units, -1).astype(np.int32)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        addresses = np.zeros(indices.shape, np.int64)
        sizes = np.zeros(indices.shape, np.int64)
        tensors = np.full(indices.shape, -1, np.int32)
        for place, index in np.ndenumerate(indices):
            if 0 <= index < len(self):
                operand = self.describe(int(index)).writes[0]
                addresses[place] = operand.address
                sizes[place] = operand.size_bytes
                tensors[place] = operand.tensor
        return addresses, sizes, tensors

    def ranges_of_node(self, node: int) -> list[tuple[int, int]]:
        size = PER_TILE * self._spec.blocks
        return [(node * size, (node + 1) * size)]

    def ranges_of_unit(self, unit: int) -> list[tuple[int, int]]:
        first, last = {LD: (0, 2), ALU: (2, 3), ST: (3, 4)}[unit]
        return [(t * PER_TILE + first, t * PER_TILE + last) for t in range(self._spec.num_tiles)]

    def _known(self, indices: np.ndarray) -> np.ndarray:
        return (indices >= 0) & (indices < len(self))


def make_program(spec: ToySpec, inputs: dict[str, np.ndarray], target: str) -> Program:
    """The program of a spec; operands not in `inputs` are small random integers, so results are exact."""
    rng = np.random.default_rng(spec.seed)
    shape = (spec.blocks * spec.elements,)
    payload: dict[int, np.ndarray] = {}
    for tensor, (name, kind, _) in enumerate(TENSORS):
        if kind in ("input", "weight"):
            drawn = rng.integers(-4, 5, shape).astype(np.float32)
            payload[tensor] = np.asarray(inputs.get(name, drawn), np.float32).reshape(shape)
    tensors = tuple(Tensor(i, n, shape, "float32", k, p) for i, (n, k, p) in enumerate(TENSORS))
    nodes = tuple(
        Node(i, name, op_type, "", (left, right), (out,))
        for i, (name, op_type, left, right, out) in enumerate(NODES)
    )
    weights = {i: payload[i] for i, (_, kind, _) in enumerate(TENSORS) if kind == "weight"}
    graph = Graph("toy", nodes, tensors, (0,), (6,), weights)
    size = spec.tensor_bytes
    places = tuple(Allocation(i, DRAM, i * size, size) for i in range(len(TENSORS)))
    return Program(
        target=target,
        title=f"toy of {spec.blocks} blocks",
        graph=graph,
        listing=ToyListing(spec),
        memory_map=MemoryMap(places),
        notes=_notes(spec),
        placement=dict.fromkeys(range(len(NODES)), "Core[0]"),
        payload=payload,
        fingerprint=lambda: f"{spec}",
    )


def _notes(spec: ToySpec) -> tuple[Note, ...]:
    notes = (Note("info", "assumed", "every latency of the toy machine is invented"),)
    if not spec.estimated:
        return notes
    return (
        *notes,
        Note("warning", "estimated", "the schedule is estimated"),
        Note("warning", "not-simulated", "what the ALU does is not known"),
        Note("warning", "estimated", "one operator is more uncertain than others", node=1),
    )


def reference(payload: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Every tensor of the program, computed by numpy on whole tensors."""
    values = dict(payload)
    for _, op_type, left, right, out in NODES:
        values[out] = values[left] * values[right] if op_type == "Mul" else values[left] + values[right]
    return values
