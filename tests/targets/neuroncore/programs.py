"""Small programs by hand: instructions in the order in which they complete, with data in SBUF."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npuviz.program.dtypes import dtype_name
from npuviz.program.graph import Graph
from npuviz.sim.replay.contents import Edit
from npuviz.targets.neuroncore.isa import (
    DTYPE_BYTES,
    DTYPE_NAMES,
    INSTRUCTION_DTYPE,
    NUM_ENGINES,
    OPERAND_DTYPE,
    OPERAND_POSITIONS,
    Dtype,
    Engine,
    Flag,
    Opcode,
    Space,
)
from npuviz.targets.neuroncore.spec import NeuronSpec, make_spec
from npuviz.targets.neuroncore.tables import (
    SBUF,
    Access,
    Descriptor,
    Piece,
    QueueSet,
    Tables,
    Transfer,
    Variable,
    VariableKind,
)
from npuviz.targets.neuroncore.values.element_types import NUMPY_DTYPES
from npuviz.targets.neuroncore.values.engine import ValueEngine

EMPTY_GRAPH = Graph("empty", (), (), (), ())


def make_test_spec(preset: str = "trn2", **settings: str) -> NeuronSpec:
    """A machine by preset name."""
    return make_spec(preset, None, settings)[0]


def at(
    dtype: int,
    sizes: Sequence[int],
    address: int = 0,
    *,
    partition: int = 0,
    partitions: int = 128,
    steps: Sequence[int] | None = None,
    space: Space = Space.SBUF,
) -> np.ndarray:
    """An operand; without steps its elements lie densely."""
    if steps is None:
        dense = [1]
        for size in reversed(sizes[1:]):
            dense.insert(0, dense[0] * size)
        steps = dense[-len(sizes) :] if sizes else []
    made = np.zeros((), OPERAND_DTYPE)
    missing = 4 - len(sizes)
    made["space"], made["dtype"] = space, dtype
    made["partition"], made["partitions"], made["address"] = partition, partitions, address
    made["sizes"] = [1] * missing + list(sizes)
    made["steps"] = [0] * missing + list(steps)
    return made


def pattern(sizes: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """The PATTERN operand of iota and affine_select."""
    return at(0, sizes, partitions=0, steps=steps, space=Space.PATTERN)


def dtype_of(array: np.ndarray) -> int:
    """isa.Dtype of an array's elements."""
    return DTYPE_NAMES.index(dtype_name(array.dtype))


@dataclass
class Maker:
    """Collects instructions in log order."""

    spec: NeuronSpec = field(default_factory=make_test_spec)
    graph: Graph = EMPTY_GRAPH
    rows: list[np.ndarray] = field(default_factory=list[np.ndarray])
    cores: list[int] = field(default_factory=list[int])
    transfers: dict[int, Transfer] = field(default_factory=dict[int, Transfer])
    variables: list[Variable] = field(default_factory=list[Variable])
    pieces: list[Piece] = field(default_factory=list[Piece])
    entries: list[int] = field(default_factory=list[int])

    def variable(
        self,
        kind: VariableKind,
        shape: Sequence[int] = (),
        dtype: str = "float32",
        *,
        data: np.ndarray | None = None,
        tensor: int = -1,
        name: str = "",
    ) -> int:
        """A variable behind the others; its index."""
        if data is not None:
            shape, dtype = data.shape, dtype_name(data.dtype)
        count = int(np.prod(shape, dtype=np.int64))
        index = len(self.variables)
        end = max((v.address + v.size_bytes for v in self.variables), default=0)
        item = np.dtype(data.dtype).itemsize if data is not None else _item(dtype)
        self.variables.append(
            Variable(
                index,
                name or f"v{index}",
                kind,
                -(-end // 64) * 64,
                count * item,
                dtype,
                tuple(shape),
                data,
                tensor,
            )
        )
        return index

    def run(
        self,
        opcode: Opcode,
        *,
        engine: Engine = Engine.DVE,
        core: int = 0,
        op0: int = 0,
        op1: int = 0,
        cmd: int = 0,
        flags: int = 0,
        imm: Sequence[float] = (),
        id: int = 0,
        **operands: np.ndarray,
    ) -> int:
        """An instruction that completes next; its number (not yet its index in the tables)."""
        row = np.zeros((), INSTRUCTION_DTYPE)
        row["opcode"], row["engine"], row["flags"], row["id"] = opcode, engine, flags, id
        row["op0"], row["op1"], row["cmd"] = op0, op1, cmd
        numbers = [*imm, *(0.0,) * (3 - len(imm))]
        row["imm"] = (
            np.array(numbers, np.int64).astype(np.int32).view(np.float32) if flags & Flag.INTEGER else numbers
        )
        for position, name in enumerate(OPERAND_POSITIONS):
            if name in operands:
                row["operands"][position] = operands[name]
        assert set(operands) <= set(OPERAND_POSITIONS)
        number = len(self.rows)
        self.rows.append(row)
        self.cores.append(core)
        self.entries.append(number)
        return number

    def transfer(self, *descriptors: Descriptor, core: int = 0, **trigger: Any) -> int:
        """A trigger that completes, then its transfer."""
        number = self.run(
            trigger.pop("opcode", Opcode.DMA_TRIGGER),
            engine=Engine.SP,
            core=core,
            id=len(self.rows),
            **trigger,
        )
        self.transfers[number] = Transfer(number, core, 0, descriptors)
        self.entries.append(-1 - number)
        return number

    def load(
        self, array: np.ndarray, address: int = 0, *, partition: int = 0, core: int = 0, tensor: int = -1
    ) -> np.ndarray:
        """Rows of `array` to partitions, through a constant and DMA; the operand that names them."""
        variable = self.variable("constant", data=np.ascontiguousarray(array), tensor=tensor)
        rows, row_bytes = len(array), array.nbytes // len(array)
        self.transfer(
            Descriptor(
                "copy",
                self.rows_access(address, partition, rows, row_bytes),
                (Access(variable, 0, (1,), (array.nbytes,)),),
            ),
            core=core,
        )
        sizes = array.shape[1:] or (1,)
        return at(dtype_of(array), sizes, address, partition=partition, partitions=rows)

    def rows_access(self, address: int, partition: int, rows: int, row_bytes: int) -> Access:
        """Bytes address..address+row_bytes of some partitions of SBUF."""
        size = self.spec.sbuf_partition_bytes
        return Access(SBUF, partition * size + address, (1, size), (row_bytes, rows))

    def tables(self) -> Tables:
        """The program; `log()` is the order in which it was written down."""
        order = self._order()
        place = {number: index for index, number in enumerate(order)}
        rows = np.array([self.rows[number] for number in order], INSTRUCTION_DTYPE)
        sequencers: list[tuple[int, int]] = []
        for core in range(self.spec.num_cores):
            for engine in range(NUM_ENGINES + (core == self.spec.num_cores - 1)):
                mine = [
                    place[number]
                    for number in order
                    if (int(self.rows[number]["engine"]) == engine)
                    and (self.cores[number] == core or engine == Engine.HOST)
                ]
                start = sequencers[-1][1] if sequencers else 0
                sequencers.append((start, start + len(mine)))
        chosen = sorted(self.transfers, key=lambda number: place[number])
        transfer_of = np.full(len(rows), -1, np.int32)
        for index, number in enumerate(chosen):
            transfer_of[place[number]] = index
        none = np.full(len(rows), -1, np.int32)
        return Tables(
            num_cores=self.spec.num_cores,
            instructions=rows,
            sequencers=np.array(sequencers, np.int64),
            nodes=none,
            tiles=none,
            transfer_of=transfer_of,
            transfers=tuple(self.transfers[number] for number in chosen),
            queue_sets=tuple(
                QueueSet(core, f"q{core}", core, Engine.SP, 1) for core in range(self.spec.num_cores)
            ),
            variables=tuple(self.variables),
            pieces=tuple(replace(piece, instruction=place[piece.instruction]) for piece in self.pieces),
        )

    def log(self) -> np.ndarray:
        """Completions in the order in which they were written down."""
        place = {number: index for index, number in enumerate(self._order())}
        found = [place[entry] if entry >= 0 else -1 - place[-1 - entry] for entry in self.entries]
        return np.array(found, np.int64)

    def place_of(self, number: int) -> int:
        """Index in the tables of an instruction."""
        return self._order().index(number)

    def _order(self) -> list[int]:
        def key(number: int) -> tuple[int, int]:
            engine = int(self.rows[number]["engine"])
            return (self.cores[number] if engine != Engine.HOST else self.spec.num_cores, engine)

        return sorted(range(len(self.rows)), key=key)

    def engine(self, inputs: Mapping[str, np.ndarray] | None = None, **options: Any) -> ValueEngine:
        """A values engine that has applied nothing."""
        return ValueEngine(self.tables(), self.graph, self.spec, inputs or {}, **options)

    def finish(
        self, inputs: Mapping[str, np.ndarray] | None = None, edits: tuple[Edit, ...] = (), **options: Any
    ) -> ValueEngine:
        """A values engine that has applied everything."""
        made = self.engine(inputs, **options)
        made.advance_to(self.log(), edits)
        return made


def _item(dtype: str) -> int:
    from npuviz.program.dtypes import numpy_dtype

    return numpy_dtype(dtype).itemsize


def values_at(engine: ValueEngine, operand: np.ndarray, core: int = 0) -> np.ndarray:
    """What an operand of SBUF or PSUM holds: (partitions, elements), read byte by byte."""
    spec = engine.spec
    is_psum = int(operand["space"]) == Space.PSUM
    size = spec.psum_partition_bytes if is_psum else spec.sbuf_partition_bytes
    memory = core * 2 + int(is_psum)
    dtype = int(operand["dtype"])
    offsets = np.zeros(1, np.int64)
    for count, step in zip(operand["sizes"].tolist(), operand["steps"].tolist(), strict=True):
        offsets = (offsets[:, None] + np.arange(count) * step).reshape(-1)
    rows: list[np.ndarray] = []
    first = int(operand["partition"])
    for partition in range(first, first + int(operand["partitions"])):
        raw = np.frombuffer(engine.read(memory, partition * size, size), np.uint8)
        index = (
            int(operand["address"]) + offsets[:, None] * DTYPE_BYTES[dtype] + np.arange(DTYPE_BYTES[dtype])
        )
        rows.append(np.ascontiguousarray(raw[index]).view(NUMPY_DTYPES[dtype]).reshape(-1))
    return np.array(rows)


F32, BF16, F16 = Dtype.FLOAT32, Dtype.BFLOAT16, Dtype.FLOAT16
I32, U32, I8, U8 = Dtype.INT32, Dtype.UINT32, Dtype.INT8, Dtype.UINT8
