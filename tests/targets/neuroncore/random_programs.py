"""Random small programs for the machine, free of deadlock unless asked for: waits point back only."""

import numpy as np

from npuviz.targets.neuroncore.ids import partition_bytes
from npuviz.targets.neuroncore.isa import INSTRUCTION_DTYPE, Activation, Alu, Opcode, Space, Update, When
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import (
    SBUF,
    Access,
    Descriptor,
    QueueSet,
    Tables,
    Transfer,
    Variable,
)

_KINDS = (
    (0, Opcode.NC_TRANSPOSE, Space.PSUM),
    (1, Opcode.ACTIVATION, Space.SBUF),
    (1, Opcode.ACTIVATION, Space.PSUM),
    (3, Opcode.TENSOR_TENSOR, Space.SBUF),
    (3, Opcode.TENSOR_COPY, Space.PSUM),
    (2, Opcode.TENSOR_TENSOR, Space.SBUF),
    (4, Opcode.NOP, Space.NONE),
)


def operand(
    row: np.ndarray, position: int, space: int, address: int, count: int, partitions: int = 128
) -> None:
    """Set one operand: `count` fp32 elements side by side in partitions 0..partitions-1."""
    place = row["operands"][position]
    place["space"], place["address"], place["partitions"] = space, address, partitions
    place["sizes"], place["steps"] = (1, 1, 1, count), (0, 0, 0, 1)


def instruction(engine: int, opcode: int) -> np.ndarray:
    """One empty instruction (shape (), writable)."""
    row = np.zeros((), INSTRUCTION_DTYPE)
    row["engine"], row["opcode"] = engine, opcode
    row["operands"]["sizes"] = 1
    row["imm"][0] = 1.0
    return row


def assemble(
    spec: NeuronSpec, rows: list[np.ndarray], transfers: dict[int, Transfer], queues: tuple[QueueSet, ...]
) -> Tables:
    """Tables of instructions of core 0 in emission order; `transfers` by emission index of the trigger."""
    order = sorted(range(len(rows)), key=lambda index: (int(rows[index]["engine"]), index))
    code = np.array([rows[index][()] for index in order], INSTRUCTION_DTYPE).reshape(len(order))
    bounds = [0, *(int((code["engine"] <= engine).sum()) for engine in range(6))]
    transfer_of = np.full(len(order), -1, np.int32)
    kept: list[Transfer] = []
    for place, index in enumerate(order):
        if index in transfers:
            transfer_of[place] = len(kept)
            kept.append(transfers[index])
    none = np.full(len(order), -1, np.int32)
    return Tables(
        num_cores=1,
        instructions=code,
        sequencers=np.array([bounds[:-1], bounds[1:]]).T.astype(np.int64),
        nodes=none,
        tiles=none,
        transfer_of=transfer_of,
        transfers=tuple(kept),
        queue_sets=queues,
        variables=(Variable(0, "x", "input", 0, 1 << 20, "uint8", (1 << 20,)),),
    )


def random_tables(spec: NeuronSpec, seed: int, length: int = 24) -> Tables:
    """A program of `length` instructions in emission order."""
    random = np.random.default_rng(seed)
    limit = min(3, spec.max_queues)
    queues = tuple(
        QueueSet(n, f"q{n}", 0, 4, int(random.integers(1, limit + 1)) if limit > 1 else 1, 6 + n)
        for n in range(2)
    )
    rows: list[np.ndarray] = []
    transfers: dict[int, Transfer] = {}
    counts: dict[int, int] = {}
    for index in range(length):
        is_transfer = random.random() < 0.3
        engine, opcode, space = (
            (4, Opcode.DMA_TRIGGER, 0) if is_transfer else _KINDS[random.integers(len(_KINDS))]
        )
        row = instruction(engine, opcode)
        if space != Space.NONE and not is_transfer:
            size = int(random.choice([1, 40, 64, 100, 300]))
            operand(row, 0, space, int(random.integers(4)) * 2048, size)
            operand(row, 1, Space.SBUF, 0, size)
            if opcode == Opcode.TENSOR_TENSOR:
                operand(row, 2, Space.SBUF, 8192, size)
                row["op0"] = Alu.ADD
            if opcode == Opcode.ACTIVATION:
                row["op0"] = Activation.COPY
        for slot, semaphore in enumerate(random.permutation(sorted(counts))[: random.integers(3)].tolist()):
            row["waits"][slot] = (semaphore, 0, 1, int(random.integers(1, counts[semaphore] + 1)))
        if is_transfer:
            queue = queues[int(random.integers(2))]
            transfers[index] = _transfer(spec, random, index, queue)
            counts[queue.semaphore] = counts.get(queue.semaphore, 0) + queue.num_queues
        elif random.random() < 0.7:
            when = When.READ if random.random() < 0.3 else When.COMPLETE
            row["updates"][0] = (engine, Update.SEM_INC, when, 0)
            counts[engine] = counts.get(engine, 0) + 1
        rows.append(row)
    return assemble(spec, rows, transfers, queues)


def _transfer(spec: NeuronSpec, random: np.random.Generator, index: int, queue: QueueSet) -> Transfer:
    pitch = partition_bytes(spec, Space.SBUF)
    made: list[Descriptor] = []
    for _ in range(int(random.integers(1, 3))):
        run, count = int(random.choice([4, 64, 1000])), int(random.integers(1, 30))
        source = Access(0, 0, (1, run), (run, count))
        made.append(Descriptor("copy", Access(SBUF, 0, (1, pitch), (run, count)), (source,)))
    return Transfer(index, 0, queue.id, tuple(made), semaphore=queue.semaphore)
