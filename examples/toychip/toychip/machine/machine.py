"""The machine behind the contract: engine, observer and contents put together."""

from collections.abc import Sequence

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.machine import Region
from npuviz.sim.parts.kernel_machine import KernelMachine
from npuviz.sim.replay.contents import Edit, EditImage
from npuviz.sim.stop import StopReason
from toychip.isa import DRAM, STORE
from toychip.kernels.records import CHIP, NODE
from toychip.load.program import Payload
from toychip.machine.engine import Engine
from toychip.spec import ToySpec
from toychip.values.contents import make_values
from toychip.view.description import describe
from toychip.view.observe import Observer


class ToyMachine(KernelMachine):
    """One chip with one program."""

    def __init__(self, spec: ToySpec, program: Program) -> None:
        payload: Payload = program.payload
        engine = Engine(spec, payload, len(program.graph.nodes))
        observer = Observer(engine, spec, payload, program.listing)
        description = describe(spec, program)
        super().__init__(program, description, engine, observer, observer.probes(), EditImage())
        self._engine, self._payload = engine, payload
        sizes = tuple(memory.size_bytes for memory in description.memories)
        self._places = {place.tensor: place for place in program.memory_map.allocations}
        addresses = {tensor: place.address for tensor, place in self._places.items()}
        self._values = make_values(payload, sizes, addresses)

    def _broken(self, result: int) -> StopReason:
        raise AssertionError(f"the chip cannot break, but the kernel returned {result}")

    def _bytes(self, memory: int, address: int, size_bytes: int) -> np.ndarray:
        size = self._description.memories[memory].size_bytes
        if address < 0 or size_bytes < 0 or address + size_bytes > size:
            raise ValueError(f"{address:#x}+{size_bytes} is outside a memory of {size} bytes")
        with self._values.at(self._engine.log()[:, 0], self._image.edits) as values:
            return values.contents.memories[memory][address : address + size_bytes].copy()

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Bytes of a memory now."""
        return self._bytes(memory, address, size_bytes).tobytes()

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes from now on."""
        self._bytes(memory, address, len(data))
        edit = Edit(len(self._engine.log()), memory, address, data)
        self._image = EditImage((*self._image.edits, edit))

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Values of a tensor now."""
        place = self._places.get(tensor)
        return None if place is None else self._bytes(DRAM, place.address, place.size_bytes).view(np.float32)

    def regions(self, memory: int) -> Sequence[Region]:
        """Tensors in DRAM; in the scratchpad what the last instructions left there."""
        graph = self._program.graph
        if memory == DRAM:
            left = {node.id: NODE(self._engine.state, int(self._engine.state[CHIP.nodes]), node.id).left
                    for node in graph.nodes}  # fmt: skip
            return [
                Region(place.address, place.size_bytes, tensor, graph.tensors[tensor].name,
                       graph.tensors[tensor].shape, "float32",
                       left.get(graph.tensors[tensor].producer, 0) == 0, 0)
                for tensor, place in self._places.items()
            ]  # fmt: skip
        found: dict[int, Region] = {}
        for index, cycle in self._engine.log().tolist():
            instruction = self._payload.instructions[index]
            if self._payload.kinds[index] != STORE:
                write = instruction.writes[0]
                name = graph.tensors[write.tensor].name
                found[write.address] = Region(
                    write.address, write.size_bytes, write.tensor, f"{name}, tile {instruction.tile}",
                    (write.size_bytes // 4,), "float32", True, cycle, index,
                )  # fmt: skip
        return [found[address] for address in sorted(found)]
