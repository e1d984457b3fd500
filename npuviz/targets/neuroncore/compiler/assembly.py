"""Assemble finished streams to Tables: insert table loads, number instructions, assign semaphores."""

import numpy as np

from npuviz.targets.neuroncore.activation_tables import choose_loads
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.compiler.streams.emitter import HEAD, OPERANDS_BYTES, Emitter, Stream
from npuviz.targets.neuroncore.compiler.streams.schedule import merged_order, start_times
from npuviz.targets.neuroncore.compiler.streams.semaphores import SemaphorePlan, Waits, write_waits
from npuviz.targets.neuroncore.isa import INSTRUCTION_DTYPE, NUM_ENGINES, Activation, Engine, Opcode
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import ALLOCATION_DTYPE, QueueSet, Tables, Transfer

_ROW = INSTRUCTION_DTYPE.itemsize


class _Sequencer:
    """The merged streams of one engine, with table loads and the END inserted.

    channels  of the streams;  place  (n,) position in the program of each of their instructions, with the
    streams concatenated
    rows      (m,) INSTRUCTION_DTYPE;  nodes, tiles, transfers  (m,) int32
    """

    def __init__(
        self, engine: Engine, channels: list[int], emitter: Emitter, rows: list[np.ndarray], order: np.ndarray
    ) -> None:
        emitted = np.concatenate([rows[channel] for channel in channels])[order]
        loads = _table_loads(emitted) if engine == Engine.ACTIVATION else []
        before = np.zeros(len(order), np.int64)
        for position, _ in loads:
            before[position] = 1
        places = np.arange(len(order)) + np.cumsum(before)
        self.channels = channels
        self.place = np.empty(len(order), np.int64)
        self.place[order] = places
        self.rows = np.zeros(len(order) + len(loads) + (engine != Engine.HOST), INSTRUCTION_DTYPE)
        self.rows["engine"] = engine
        self.rows[places] = emitted
        loaded = np.array([places[position] - 1 for position, _ in loads], np.int64)
        self.rows["opcode"][loaded] = Opcode.TABLE_LOAD
        self.rows["id"][loaded] = [table for _, table in loads]
        if engine != Engine.HOST:
            self.rows["opcode"][-1] = Opcode.END
        streams = [emitter.streams[channel] for channel in channels]
        self.nodes = self._spread([stream.nodes for stream in streams])
        self.tiles = self._spread([stream.tiles for stream in streams])
        self.transfers = self._spread([stream.transfers for stream in streams])
        self.nodes[loaded] = self.nodes[loaded + 1]
        self.tiles[loaded] = self.tiles[loaded + 1]

    def _spread(self, values: list[list[int]]) -> np.ndarray:
        spread = np.full(len(self.rows), -1, np.int32)
        spread[self.place] = np.concatenate([np.array(each, np.int32) for each in values])
        return spread


def _rows_of(stream: Stream) -> np.ndarray:
    """Return the instructions of a stream, without waits and updates."""
    count = len(stream.heads)
    raw = np.zeros((count, _ROW), np.uint8)
    raw[:, : HEAD.size] = np.frombuffer(b"".join(stream.heads), np.uint8).reshape(count, HEAD.size)
    operands = np.frombuffer(b"".join(stream.operands), np.uint8)
    raw[:, _ROW - OPERANDS_BYTES :] = operands.reshape(count, OPERANDS_BYTES)
    return raw.reshape(-1).view(INSTRUCTION_DTYPE)


def _table_loads(rows: np.ndarray) -> list[tuple[int, int]]:
    """Return (position, table set) of the table loads that the activation instructions need."""
    positions = np.flatnonzero(rows["opcode"] == Opcode.ACTIVATION)
    functions = [Activation(code) for code in rows["op0"][positions].tolist()]
    loads = choose_loads(functions)
    return [(position, load) for position, load in zip(positions.tolist(), loads, strict=True) if load >= 0]


def _sequencers(emitter: Emitter, spec: NeuronSpec) -> list[_Sequencer]:
    """Make the programs of all engines: core 0 PE .. SP, core 1 PE .. SP, Host."""
    rows = [_rows_of(stream) for stream in emitter.streams]
    starts = start_times(emitter, spec, rows)
    programs: dict[tuple[int, Engine], list[int]] = {
        (core, Engine(engine)): [] for core in range(emitter.num_cores) for engine in range(NUM_ENGINES)
    }
    programs[0, Engine.HOST] = []
    for channel in range(len(emitter.streams)):
        programs[emitter.core_of(channel), emitter.engine_of(channel)].append(channel)
    return [
        _Sequencer(engine, channels, emitter, rows, merged_order([starts[channel] for channel in channels]))
        for (_, engine), channels in programs.items()
    ]


def assemble(builder: Builder, outputs: dict[int, int]) -> Tables:
    """Assemble the program; outputs: graph output tensor -> variable."""
    emitter = builder.emitter
    emitter.check()
    spec = builder.spec
    parts = _sequencers(emitter, spec)
    ends = np.cumsum([len(part.rows) for part in parts])
    starts = ends - [len(part.rows) for part in parts]
    instructions = np.concatenate([part.rows for part in parts])
    final_of: dict[int, np.ndarray] = {}
    for start, part in zip(starts.tolist(), parts, strict=True):
        at = 0
        for channel in part.channels:
            end = at + len(emitter.streams[channel].heads)
            final_of[channel] = part.place[at:end] + start
            at = end
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
        variables=tuple(draft.variable for draft in builder.hbm.drafts),
        pieces=builder.shown.pieces({channel: final.tolist() for channel, final in final_of.items()}),
        allocations=_allocations(builder, final_of),
        tile_names=_tile_names(builder),
        tile_aliases=_tile_aliases(builder),
        tile_bytes=_tile_bytes(builder),
        outputs=outputs,
        semaphore_uses=plan.uses,
    )


def _all_waits(emitter: Emitter, final_of: dict[int, np.ndarray]) -> Waits:
    rows: list[np.ndarray] = []
    for channel, stream in enumerate(emitter.streams):
        if not stream.waits:
            continue
        waits = np.array(stream.waits, np.int64)
        core = emitter.core_of(channel)
        row = np.stack(
            [final_of[channel][waits[:, 0]], np.full(len(waits), core), waits[:, 1], waits[:, 2]], axis=1
        )
        rows.append(row)
    table = np.concatenate(rows) if rows else np.zeros((0, 4), np.int64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    return Waits(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def _queues_and_transfers(
    emitter: Emitter, used: list[int], plan: SemaphorePlan
) -> tuple[tuple[QueueSet, ...], tuple[Transfer, ...]]:
    """Return the used queue sets, renumbered, and the transfers on them with their semaphores."""
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
        for tile in _used_tiles(builder)
        if tile.first is not None and tile.last is not None
    ]
    table = np.array(rows, ALLOCATION_DTYPE)
    table.setflags(write=False)
    return table


def _tile_names(builder: Builder) -> tuple[str, ...]:
    """Return the names of the allocations, in their order; () if no tile has a name."""
    if not any(tile.name for tile in builder.tiles.all):
        return ()
    return tuple(tile.name for tile in _used_tiles(builder))


def _tile_aliases(builder: Builder) -> tuple[tuple[str, ...], ...]:
    """Return the further names of each allocation; () if no tile has one."""
    used = _used_tiles(builder)
    return tuple(tile.aliases for tile in used) if any(tile.aliases for tile in used) else ()


def _tile_bytes(builder: Builder) -> tuple[int, ...]:
    """Return the bytes a partition that each allocation was asked for; () if no tile has a name."""
    if not any(tile.name for tile in builder.tiles.all):
        return ()
    return tuple(tile.held for tile in _used_tiles(builder))


def _used_tiles(builder: Builder) -> list[Tile]:
    """Return the tiles that an instruction touches, in the order of the allocations."""
    return [tile for tile in builder.tiles.all if tile.first is not None and tile.last is not None]
