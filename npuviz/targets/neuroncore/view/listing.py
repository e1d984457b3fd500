"""List the instructions of a NeuronCore program for the debugger; each is decoded when it is asked for."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from npuviz.program.graph import Graph
from npuviz.program.instruction import Dependency, DetailTable, Instruction, Operand, Touched
from npuviz.program.variables import VariablePlace
from npuviz.targets.neuroncore.activation_tables import TABLE_SETS
from npuviz.targets.neuroncore.costs.instructions import host_cycles
from npuviz.targets.neuroncore.ids import host_unit, unit_of
from npuviz.targets.neuroncore.isa import NUM_ENGINES, Opcode, Space
from npuviz.targets.neuroncore.machine.accesses import access_rows, transfer_accesses
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Access, Tables, Transfer
from npuviz.targets.neuroncore.text.disassembler import instruction_text
from npuviz.targets.neuroncore.view.dependencies import Dependencies
from npuviz.targets.neuroncore.view.details import access_name, details, offset_text
from npuviz.targets.neuroncore.view.touched import touched_by
from npuviz.targets.neuroncore.view.variables import variable_places

_UNKNOWN = -2
_MEMORY, _WRITE, _PARTITION, _COUNT, _LOW, _HIGH, _PITCH = range(7)


class NeuronListing:
    """A `program.instruction.Listing` with dependencies and details, read from the tables.

    An operand over several partitions is given by its bytes in the first one.
    """

    def __init__(self, tables: Tables, spec: NeuronSpec, graph: Graph) -> None:
        self._tables, self._spec, self._graph = tables, spec, graph
        self._dependencies = Dependencies(tables, spec, graph)
        self._ranges: dict[int, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self._tables.instructions)

    # --- vectorised ----------------------------------------------------------------------------

    def _inside(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices, with 0 for those out of range, and a mask of those in range."""
        index = np.asarray(indices, np.int64)
        inside = (index >= 0) & (index < len(self))
        return np.where(inside, index, 0), inside

    def _looked_up(self, values: np.ndarray, indices: np.ndarray, dtype: type, missing: int) -> np.ndarray:
        index, inside = self._inside(indices)
        if not len(self):
            return np.full(index.shape, missing, dtype)
        return np.where(inside, values[index], missing).astype(dtype)

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the graph node ids (int32, -1 none) of instruction indices, same shape."""
        return self._looked_up(self._tables.nodes, indices, np.int32, -1)

    def units_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the unit ids (int32, -1 none) of instruction indices, same shape."""
        return self._looked_up(self._units, indices, np.int32, -1)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first written operands: (address int64, size_bytes int64, tensor int32); 0, 0, -1 for
        none.
        """
        address, size, tensor, low, memory = self._destinations
        tensors = self._looked_up(tensor, indices, np.int32, -1)
        for place in np.flatnonzero(tensors == _UNKNOWN).tolist():
            index = int(indices[place])
            tensors[place] = self._tile_tensor(index, int(memory[index]), int(low[index]))
        return (
            self._looked_up(address, indices, np.int64, 0),
            self._looked_up(size, indices, np.int64, 0),
            tensors,
        )

    @cached_property
    def _units(self) -> np.ndarray:
        units = np.full(len(self), -1, np.int32)
        for number, (first, end) in enumerate(self._tables.sequencers.tolist()):
            core, engine = divmod(number, NUM_ENGINES)
            is_host = core >= self._tables.num_cores
            units[first:end] = host_unit(self._spec) if is_host else unit_of(core, engine)
        return units

    @cached_property
    def _accesses(self) -> tuple[np.ndarray, np.ndarray]:
        return access_rows(self._spec, self._tables, self._graph)

    @cached_property
    def _transfer_accesses(self) -> tuple[np.ndarray, np.ndarray]:
        return transfer_accesses(self._spec, self._tables)

    @cached_property
    def _destinations(self) -> tuple[np.ndarray, ...]:
        """First written operand by instruction: address, size, tensor (_UNKNOWN: not looked up yet), byte in
        the
        partition, memory."""
        address, size = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        low = np.zeros(len(self), np.int64)
        memory = np.full(len(self), -1, np.int64)
        rows, ranges = self._accesses
        owner = np.repeat(np.arange(len(ranges)), ranges[:, 1])
        # Host rows are appended behind the others, so that rows are not in the order of instructions.
        place = np.concatenate([np.arange(a, a + n) for a, n in ranges.tolist() if n] or [np.zeros(0, int)])
        self._fill(address, size, low, memory, owner, rows[place])
        transfer = self._tables.transfer_of
        triggers = np.flatnonzero(transfer >= 0)
        rows, ranges = self._transfer_accesses
        for index in triggers.tolist():
            first, count = ranges[transfer[index]].tolist()
            self._fill(address, size, low, memory, np.full(count, index), rows[first : first + count])
        return address, size, self._tensors_of(address, memory), low, memory

    @staticmethod
    def _fill(
        address: np.ndarray,
        size: np.ndarray,
        low: np.ndarray,
        memory: np.ndarray,
        owner: np.ndarray,
        rows: np.ndarray,
    ) -> None:
        """Fill in the address, size, low byte and memory of the first written row of each owner."""
        written = np.flatnonzero(rows[:, _WRITE] == 1)[::-1]
        chosen, at = rows[written], owner[written]
        address[at] = _address(chosen)
        size[at] = chosen[:, _HIGH] - chosen[:, _LOW]
        low[at] = chosen[:, _LOW]
        memory[at] = chosen[:, _MEMORY]

    def _tensors_of(self, address: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Return the tensors of destinations: in HBM by variable, on chip by the first instruction of each
        tile.

        The other destinations on chip are _UNKNOWN, and looked up when they are asked for.
        """
        tensor = np.where(memory >= 0, _UNKNOWN, -1).astype(np.int32)
        tensor[self._tables.allocations["first"]] = self._tables.allocations["tensor"]
        starts, tensors = self._homes
        in_hbm = memory == self._tables.num_cores * 2
        if len(starts):
            place = np.searchsorted(starts, address[in_hbm], side="right") - 1
            tensor[in_hbm] = np.where(place >= 0, tensors[place], -1)
        return tensor

    @cached_property
    def _homes(self) -> tuple[np.ndarray, np.ndarray]:
        """Start addresses of the variables in HBM, rising, and their tensors."""
        order = sorted(self._tables.variables, key=lambda each: each.address)
        return np.array([each.address for each in order]), np.array([each.tensor for each in order])

    @cached_property
    def variable_places(self) -> Sequence[VariablePlace]:
        """The places of tiles and of tensors in HBM, by name."""
        return variable_places(self._tables, self._spec, self._graph)

    # --- ranges --------------------------------------------------------------------------------

    def ranges_of_node(self, node: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a graph node, rising."""
        if node not in self._ranges:
            mine = (self._tables.nodes == node).astype(np.int8)
            # A range ends with its sequencer.
            edges = np.diff(np.concatenate(([0], mine, [0])))
            starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
            cuts = self._tables.sequencers[:, 0]
            found: list[tuple[int, int]] = []
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                inner = cuts[(cuts > start) & (cuts < end)].tolist()
                found += list(zip([start, *inner], [*inner, end], strict=True))
            self._ranges[node] = found
        return self._ranges[node]

    def ranges_of_unit(self, unit: int) -> list[tuple[int, int]]:
        """Return the instruction range of a sequencer; [] for other units."""
        if not 0 <= unit < len(self._tables.sequencers):
            return []
        first, end = self._tables.sequencers[unit].tolist()
        return [(first, end)] if end > first else []

    # --- one instruction -----------------------------------------------------------------------

    def describe(self, index: int) -> Instruction:
        """Decode one instruction. Raises IndexError outside 0..len-1."""
        self._check(index)
        record = self._tables.instructions[index]
        rows = self._dependencies.accesses(index)
        return Instruction(
            index=index,
            unit=int(self._units[index]),
            opcode=Opcode(int(record["opcode"])).name.lower(),
            text=self._text(index),
            node=int(self._tables.nodes[index]),
            tile=int(self._tables.tiles[index]),
            reads=tuple(self._operand(index, row) for row in rows if not row[_WRITE]),
            writes=tuple(self._operand(index, row) for row in rows if row[_WRITE]),
        )

    def dependencies_of(self, index: int) -> tuple[Dependency, ...]:
        """Return all dependencies with this instruction as source or sink, by source then sink."""
        self._check(index)
        return self._dependencies.of(index)

    def details_of(self, index: int) -> tuple[DetailTable, ...]:
        """Return tables of operands, fields, semaphores, cost, transfer and descriptors of an instruction."""
        self._check(index)
        record = self._tables.instructions[index]
        on_host = None
        if record["opcode"] == Opcode.HOST_CALL and record["id"] < len(self._graph.nodes):
            on_host = host_cycles(self._spec, self._graph, self._graph.nodes[int(record["id"])])
        return details(self._tables, self._spec, index, self._core(index), on_host)

    def touched_by(self, index: int) -> tuple[Touched, ...]:
        """Return the pieces of SBUF and PSUM that an instruction reads and writes. Raises IndexError."""
        self._check(index)
        return touched_by(self._tables, self._spec, index, self._core(index))

    def _check(self, index: int) -> None:
        if not 0 <= index < len(self):
            raise IndexError(f"instruction {index} of {len(self)}")

    def _core(self, index: int) -> int:
        unit = int(self._units[index])
        return unit // NUM_ENGINES if unit < self._tables.num_cores * NUM_ENGINES else 0

    def _operand(self, index: int, row: np.ndarray) -> Operand:
        memory, low, high = int(row[_MEMORY]), int(row[_LOW]), int(row[_HIGH])
        address = int(_address(row[None])[0])
        if memory == self._tables.num_cores * 2:
            starts, tensors = self._homes
            place = int(np.searchsorted(starts, low, side="right")) - 1
            return Operand(memory, address, high - low, int(tensors[place]) if place >= 0 else -1)
        return Operand(memory, address, high - low, self._tile_tensor(index, memory, low))

    def _tile_tensor(self, index: int, memory: int, low: int) -> int:
        """Return the tensor of the tile that holds a byte when an instruction runs, by program order; else
        -1.
        """
        tiles = self._tables.allocations
        known = self._destinations[2][index] if self._destinations[4][index] == memory else _UNKNOWN
        if known != _UNKNOWN and self._destinations[3][index] == low:
            return int(known)
        mine = (tiles["core"] * 2 + tiles["space"] - Space.SBUF) == memory
        mine &= (tiles["address"] <= low) & (low < tiles["address"] + tiles["size_bytes"])
        chosen = tiles[mine]
        first, last, unit = self._units[chosen["first"]], self._units[chosen["last"]], self._units[index]
        is_late = (first == unit) & (chosen["first"] > index)
        is_over = (last == unit) & (chosen["last"] < index)
        chosen = chosen[~is_late & ~is_over]
        nodes, node = self._tables.nodes, self._tables.nodes[index]
        same = chosen[(nodes[chosen["first"]] == node) | (nodes[chosen["last"]] == node)]
        tensors = np.unique((same if len(same) else chosen)["tensor"])
        return int(tensors[0]) if len(tensors) == 1 else -1

    def _text(self, index: int) -> str:
        record = self._tables.instructions[index]
        opcode = int(record["opcode"])
        text = instruction_text(record).partition(" ")[2]
        transfer = int(self._tables.transfer_of[index])
        if transfer >= 0:
            return f"{text}  ; {self._transfer_text(self._tables.transfers[transfer])}"
        if opcode == Opcode.TABLE_LOAD and record["id"] < len(TABLE_SETS):
            return f"{text}  ; {TABLE_SETS[int(record['id'])]}"
        if opcode == Opcode.HOST_CALL and record["id"] < len(self._graph.nodes):
            node = self._graph.nodes[int(record["id"])]
            return f"{text}  ; {node.op_type} {node.name}"
        return text

    def _transfer_text(self, transfer: Transfer) -> str:
        queue = self._tables.queue_sets[transfer.queue].name
        if not transfer.descriptors:
            return f"nothing on {queue}"
        first = transfer.descriptors[0]
        total = sum(each.to.num_bytes for each in transfer.descriptors)
        more = f", {len(transfer.descriptors)} descriptors" if len(transfer.descriptors) > 1 else ""
        op = "" if first.op == "copy" else f"{first.op} "
        source = self._place(first.sources[0])
        return f"{op}{self._place(first.to)} <- {source}, {total} bytes on {queue}{more}"

    def _place(self, access: Access) -> str:
        return f"{access_name(self._tables, access)}{self._offset(access)}"

    def _offset(self, access: Access) -> str:
        text = offset_text(self._spec, access)
        return text if text.startswith("[") else f"+{text}"


def _address(rows: np.ndarray) -> np.ndarray:
    """Return the addresses of the first bytes in the first partitions (HBM has one partition)."""
    return rows[:, _PARTITION] * rows[:, _PITCH] + rows[:, _LOW]
