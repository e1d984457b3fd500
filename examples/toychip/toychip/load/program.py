"""A graph becomes instructions: blocks of the operators, each two loads, a computation and a store."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Graph
from npuviz.program.instruction import Instruction, Operand
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import Note, Program
from toychip.isa import ADD, ALU, DRAM, LD, LOAD, MUL, OPCODES, SPAD, ST, STORE
from toychip.load.listing import ToyListing
from toychip.spec import ToySpec


@dataclass(frozen=True)
class Payload:
    """What the machine runs.

    kinds   of the instructions; after  the instructions that each of them waits for
    inputs  tensor id -> values
    """

    instructions: tuple[Instruction, ...]
    kinds: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]
    inputs: Mapping[int, np.ndarray]


def make_program(graph: Graph, spec: ToySpec, inputs: Mapping[int, np.ndarray]) -> Program:
    """The program of a graph."""
    places: list[Allocation] = []
    end = 0
    for tensor in graph.tensors:
        places.append(Allocation(tensor.id, DRAM, end, 4 * tensor.num_elements))
        end += 4 * tensor.num_elements
    compiler = _Compiler(graph, spec, places)
    compiler.run()
    payload = Payload(tuple(compiler.made), tuple(compiler.kinds), tuple(compiler.after), inputs)
    digest = hashlib.blake2b(repr((spec, graph.nodes, graph.tensors)).encode(), digest_size=16)
    for tensor in sorted(inputs):
        digest.update(inputs[tensor].tobytes())
    return Program(
        target="toychip",
        title=graph.name,
        graph=graph,
        listing=ToyListing(payload.instructions),
        memory_map=MemoryMap(tuple(places)),
        notes=(Note("info", "assumed", "every figure of this chip is invented"),),
        placement={node.id: "Core" for node in graph.nodes},
        payload=payload,
        fingerprint=digest.hexdigest,
    )


class _Compiler:
    """Emits instructions. A slot of the scratchpad holds left operand, right operand and result."""

    def __init__(self, graph: Graph, spec: ToySpec, places: list[Allocation]) -> None:
        self.graph, self.spec, self.places = graph, spec, places
        self.made: list[Instruction] = []
        self.kinds: list[int] = []
        self.after: list[tuple[int, ...]] = []
        self._stores: list[int] = []
        self._writers: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        """Every block of every operator."""
        for node in self.graph.nodes:
            count = self.graph.tensors[node.outputs[0]].num_elements
            for first in range(0, count, self.spec.block):
                self._block(node.id, first, 4 * min(self.spec.block, count - first))

    def _block(self, node: int, first: int, size: int) -> None:
        found = self.graph.nodes[node]
        (left, right), (out,) = found.inputs, found.outputs
        tile = len(self._stores)
        slot = tile % self.spec.slots * 3 * self.spec.block_bytes
        parts = [Operand(SPAD, slot + part * self.spec.block_bytes, size, tensor)
                 for part, tensor in enumerate((left, right, out))]  # fmt: skip
        # The slot is free once its last result is stored.
        free = self._stores[tile - self.spec.slots] if tile >= self.spec.slots else -1
        for tensor, part in zip((left, right), parts, strict=False):
            waits = (free, self._writers.get((tensor, first), -1))
            self._emit(LD, LOAD, (node, tile), (self._in_dram(tensor, first, size),), part, waits)
        last = len(self.made) - 1
        kind = MUL if found.op_type == "Mul" else ADD
        self._emit(ALU, kind, (node, tile), (parts[0], parts[1]), parts[2], (last - 1, last))
        self._emit(ST, STORE, (node, tile), (parts[2],), self._in_dram(out, first, size), (last + 1,))
        self._stores.append(last + 2)
        self._writers[out, first] = last + 2

    def _in_dram(self, tensor: int, first: int, size: int) -> Operand:
        return Operand(DRAM, self.places[tensor].address + 4 * first, size, tensor)

    def _emit(
        self, unit: int, kind: int, where: tuple[int, int], reads: tuple[Operand, ...], write: Operand,
        after: tuple[int, ...],
    ) -> None:  # fmt: skip
        opcode = OPCODES[kind]
        names = ", ".join(f"{('dram', 'spad')[o.memory]}+{o.address:#x}" for o in (write, *reads))
        index = len(self.made)
        text = f"{opcode} {names}, {write.size_bytes}"
        self.made.append(Instruction(index, unit, opcode, text, *where, reads, (write,)))
        self.kinds.append(kind)
        self.after.append(tuple(each for each in after if each >= 0))
