"""The finished streams become Tables: table loads put in, instructions numbered, semaphores assigned."""

import numpy as np

from npuviz.targets.neuroncore.activation_tables import choose_loads
from npuviz.targets.neuroncore.compiler.builder import Builder
from npuviz.targets.neuroncore.compiler.emit import HEAD, OPERANDS_BYTES, Emitter, Stream
from npuviz.targets.neuroncore.compiler.semaphores import SemaphorePlan, Waits, write_waits
from npuviz.targets.neuroncore.isa import INSTRUCTION_DTYPE, NUM_ENGINES, Activation, Engine, Opcode
from npuviz.targets.neuroncore.tables import ALLOCATION_DTYPE, QueueSet, Tables, Transfer

_ROW = INSTRUCTION_DTYPE.itemsize


class _Sequencer:
    """One stream with its final positions.

    place  (n,) position of each emitted instruction in the final program of the sequencer
    rows   (m,) INSTRUCTION_DTYPE;  nodes, tiles, transfers  (m,) int32
    """

    def __init__(self, stream: Stream, engine: Engine) -> None:
        emitted = len(stream.heads)
        heads = np.frombuffer(b"".join(stream.heads), np.uint8).reshape(emitted, HEAD.size)
        loads = _table_loads(heads) if engine == Engine.ACTIVATION else []
        before = np.zeros(emitted, np.int64)
        for position, _ in loads:
            before[position] = 1
        self.place = np.arange(emitted) + np.cumsum(before)
        length = emitted + len(loads) + (engine != Engine.HOST)
        raw = np.zeros((length, _ROW), np.uint8)
        raw[self.place, : HEAD.size] = heads
        operands = np.frombuffer(b"".join(stream.operands), np.uint8).reshape(emitted, OPERANDS_BYTES)
        raw[self.place, _ROW - OPERANDS_BYTES :] = operands
        self.rows = raw.reshape(-1).view(INSTRUCTION_DTYPE)
        self.rows["engine"] = engine
        for position, table in loads:
            row = int(self.place[position]) - 1
            self.rows["opcode"][row] = Opcode.TABLE_LOAD
            self.rows["id"][row] = table
        if engine != Engine.HOST:
            self.rows["opcode"][-1] = Opcode.END
        self.nodes = self._spread(stream.nodes, length)
        self.tiles = self._spread(stream.tiles, length)
        for position, _ in loads:
            self.nodes[self.place[position] - 1] = stream.nodes[position]
            self.tiles[self.place[position] - 1] = stream.tiles[position]
        self.transfers = self._spread(stream.transfers, length)

    def _spread(self, values: list[int], length: int) -> np.ndarray:
        spread = np.full(length, -1, np.int32)
        spread[self.place] = values
        return spread


def _table_loads(heads: np.ndarray) -> list[tuple[int, int]]:
    """(position, table set) of the loads that the activation instructions need."""
    positions = np.flatnonzero(heads[:, 0] == Opcode.ACTIVATION)
    functions = [Activation(code) for code in heads[positions, 4].tolist()]
    loads = choose_loads(functions)
    return [(position, load) for position, load in zip(positions.tolist(), loads, strict=True) if load >= 0]


def assemble(builder: Builder, outputs: dict[int, int]) -> Tables:
    """The program. outputs: graph output tensor -> variable."""
    emitter = builder.emitter
    emitter.check()
    spec = builder.spec
    engines = [Engine(index % NUM_ENGINES) for index in range(emitter.host)] + [Engine.HOST]
    parts = [_Sequencer(stream, engine) for stream, engine in zip(emitter.streams, engines, strict=True)]
    ends = np.cumsum([len(part.rows) for part in parts])
    starts = ends - [len(part.rows) for part in parts]
    instructions = np.concatenate([part.rows for part in parts])
    final_of = {channel: part.place + starts[channel] for channel, part in enumerate(parts)}
    waits = _all_waits(emitter, final_of)
    used_queues = sorted({transfer.queue for transfer in emitter.transfers})
    queue_channels = {emitter.queue_channel(queue): queue for queue in used_queues}
    needed = set(zip(waits.source.tolist(), waits.core.tolist(), strict=True))
    needed |= {(channel, emitter.core_of(channel)) for channel in queue_channels}
    plan = SemaphorePlan(spec, emitter.queue_sets, sorted(needed))
    counts = {channel: emitter.queue_sets[queue].num_queues for channel, queue in queue_channels.items()}
    write_waits(instructions, waits, plan, final_of, counts)
    queue_sets, transfers = _queues_and_transfers(emitter, used_queues, plan)
    arrays = [
        np.concatenate([getattr(part, name) for part in parts]) for name in ("nodes", "tiles", "transfers")
    ]
    for array in (instructions, *arrays):
        array.setflags(write=False)
    return Tables(
        num_cores=emitter.num_cores,
        instructions=instructions,
        sequencers=np.stack([starts, ends], axis=1).astype(np.int64),
        nodes=arrays[0],
        tiles=arrays[1],
        transfer_of=arrays[2],
        transfers=transfers,
        queue_sets=queue_sets,
        variables=tuple(draft.variable for draft in builder.variables.drafts),
        allocations=_allocations(builder, final_of),
        outputs=outputs,
        semaphore_uses=plan.uses,
    )


def _all_waits(emitter: Emitter, final_of: dict[int, np.ndarray]) -> Waits:
    rows: list[np.ndarray] = []
    for channel, stream in enumerate(emitter.streams):
        if not stream.waits:
            continue
        waits = np.array(stream.waits, np.int64)
        core = channel // NUM_ENGINES if channel != emitter.host else 0
        row = np.stack(
            [final_of[channel][waits[:, 0]], np.full(len(waits), core), waits[:, 1], waits[:, 2]], axis=1
        )
        rows.append(row)
    table = np.concatenate(rows) if rows else np.zeros((0, 4), np.int64)
    return Waits(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def _queues_and_transfers(
    emitter: Emitter, used: list[int], plan: SemaphorePlan
) -> tuple[tuple[QueueSet, ...], tuple[Transfer, ...]]:
    """The queue sets in use, renumbered, and the transfers on them with their semaphores."""
    sets: list[QueueSet] = []
    number: dict[int, tuple[int, int, tuple[int, ...]]] = {}
    for queue in used:
        old = emitter.queue_sets[queue]
        channel = emitter.queue_channel(queue)
        semaphore = plan.number[channel, old.core]
        number[queue] = (len(sets), semaphore, plan.remote(channel, old.core))
        sets.append(QueueSet(len(sets), old.name, old.core, old.owner, old.num_queues, semaphore))
    transfers: list[Transfer] = []
    for each in emitter.transfers:
        queue, semaphore, remote = number[each.queue]
        transfers.append(
            Transfer(each.id, each.core, queue, each.descriptors, each.trigger, semaphore, -1, remote)
        )
    return tuple(sets), tuple(transfers)


def _allocations(builder: Builder, final_of: dict[int, np.ndarray]) -> np.ndarray:
    rows = [
        (
            tile.core,
            tile.space,
            tile.address,
            tile.size,
            tile.partitions,
            tile.tensor,
            final_of[tile.first[0]][tile.first[1]],
            final_of[tile.last[0]][tile.last[1]],
        )
        for tile in builder.all_tiles
        if tile.first is not None and tile.last is not None
    ]
    table = np.array(rows, ALLOCATION_DTYPE)
    table.setflags(write=False)
    return table
