"""Append instructions and transfers to the streams of a program under construction, as packed bytes."""

import struct
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from npuviz.base.errors import SimulationError
from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.compiler.streams.dependencies import Tracker
from npuviz.targets.neuroncore.compiler.streams.liveness import MOST_WORKS, Access, Work, is_dense
from npuviz.targets.neuroncore.isa import DST, MAX_WAITS, NUM_ENGINES, RES, Engine, Flag, Opcode
from npuviz.targets.neuroncore.tables import Descriptor, QueueSet, Transfer, TriggerKind

HEAD = struct.Struct("<BBHBBBx12sI")
"""The first 24 bytes of isa.INSTRUCTION_DTYPE; waits and updates follow."""
OPERANDS_BYTES = 192
MAX_INSTRUCTIONS = 100_000
"""Most instructions of one operator. Assumed: loops are unrolled, and more would take minutes to compile."""
MAX_TRANSFERS = 30_000
"""Most transfers of one operator. Assumed: each takes longer to compile than an instruction."""
WATCHED_CALLS = 1024
"""Emitter calls between two calls of `watch`, about a fifth of a second."""
_ABSENT = bytes(32)
NO_IMMEDIATES = bytes(12)
_FLOATS = struct.Struct("<fff")
_PLAIN = ("copy", "cast", "transpose")
"""Descriptor operations whose result does not depend on the target's previous contents."""

Relay = Callable[[], tuple[int, tuple[Descriptor, ...]]]
"""Function that returns a queue set of core 0, and descriptors that move unused bytes."""


def floats(first: float = 0.0, second: float = 0.0, third: float = 0.0) -> bytes:
    """Pack immediates as fp32."""
    return _FLOATS.pack(first, second, third)


def immediates(values: tuple[float, float, float], integer: bool) -> bytes:
    """Pack immediates as fp32, or as int32 bit patterns (values of uint32 wrap)."""
    if not integer:
        return _FLOATS.pack(*values)
    return b"".join((int(value) & 0xFFFFFFFF).to_bytes(4, "little") for value in values)


@dataclass(slots=True)
class Stream:
    """Instructions of one sequencer in program order.

    waits  (instruction, channel, done up to), see dependencies
    transfers  index of the transfer that an instruction triggers, -1 if none
    """

    heads: list[bytes] = field(default_factory=list[bytes])
    operands: list[bytes] = field(default_factory=list[bytes])
    nodes: list[int] = field(default_factory=list[int])
    tiles: list[int] = field(default_factory=list[int])
    transfers: list[int] = field(default_factory=list[int])
    waits: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])


@dataclass(frozen=True, slots=True)
class Mark:
    """Lengths of the emitter's lists, to restore when a node is taken back."""

    streams: tuple[int, ...]
    waits: tuple[int, ...]
    transfers: int
    queue_lengths: tuple[int, ...]
    known: tuple[tuple[int, ...], ...]


class Emitter:
    """Appends instructions with the waits they need.

    Channels (see dependencies): core * 5 + engine, then the Host, then one for the triggers of each
    queue set, then the queue sets. The triggers of a queue set form a separate stream, as of an engine of
    their own; `schedule` merges the streams of an engine into its program.

    core, node, tile  owners of the next instructions
    longest, most_transfers  most instructions of the program, with triggers, and most transfers; more
    raise CannotLower
    after             channel -> how far its work has to be before the next instructions, beside what their
    operands need
    works             accesses of each instruction of `order`, None for none
    is_skipped        whether the last call was left out
    watch             called regularly while instructions are emitted; may raise Cancelled
    """

    def __init__(
        self,
        num_cores: int,
        queue_sets: list[QueueSet],
        trigger: TriggerKind = "static",
        left_out: Collection[int] = (),
    ) -> None:
        """`left_out` has the numbers of calls of `instruction` and `transfer` that emit nothing
        (`liveness`).
        """
        self.trigger_kind: TriggerKind = trigger
        self.num_cores = num_cores
        self.host = num_cores * NUM_ENGINES
        self.first_trigger = self.host + 1
        self.first_queue = self.first_trigger + len(queue_sets)
        self.queue_sets = queue_sets
        self.streams = [Stream() for _ in range(self.first_queue)]
        self.order: list[int] = []  # channels in the order of emission
        self.works: list[Work | None] = []
        self.is_skipped = False
        self._calls = 0
        self._left_out = left_out
        self.transfers: list[Transfer] = []
        self.tracker = Tracker(self.first_queue, self.first_queue + len(queue_sets))
        self.relay: Relay | None = None
        self._relayed: dict[int, tuple[int, int]] = {}
        self.after: dict[int, int] = {}
        self.core = 0
        self.node = -1
        self.tile = -1
        self.longest = self.most_transfers = sys.maxsize
        self.watch: Callable[[], None] | None = None

    def core_of(self, channel: int) -> int:
        """Return the core of a channel; the Host belongs to core 0."""
        if channel > self.host:
            return self.queue_sets[(channel - self.first_trigger) % len(self.queue_sets)].core
        return 0 if channel == self.host else channel // NUM_ENGINES

    def engine_of(self, channel: int) -> Engine:
        """Return the engine whose program has the instructions of a channel."""
        if channel > self.host:
            return Engine(self.queue_sets[channel - self.first_trigger].owner)
        return Engine.HOST if channel == self.host else Engine(channel % NUM_ENGINES)

    def queue_channel(self, queue: int) -> int:
        """Return the channel of a queue set."""
        return self.first_queue + queue

    def instruction(
        self,
        engine: Engine,
        opcode: Opcode,
        views: tuple[View | None, ...],
        *,
        flags: int = 0,
        op0: int = 0,
        op1: int = 0,
        cmd: int = 0,
        imm: bytes = NO_IMMEDIATES,
        reads_target: bool = False,
        accumulates: bool = False,
        pattern: bytes | None = None,
    ) -> int:
        """Append an instruction of the core with its operands by position; return its index in the stream,
        -1 if it is left out.

        views         by isa.OPERAND_POSITIONS; the first and the last of six are written
        reads_target  whether its result depends on the target's previous contents
        accumulates   whether PE adds to PSUM, which needs no wait for PE's own earlier writes
        pattern       packed ARG0, for at most three views
        Raises CannotLower when the program is too long.
        """
        self._check_length()
        channel = self.core * NUM_ENGINES + engine
        packed, reads, writes, is_dense_write = _operands(views)
        if reads_target:
            reads.append((views[0].tile, views[0].box()))  # pyright: ignore[reportOptionalMemberAccess]
        if pattern is not None:
            packed = packed.ljust(96, b"\0") + pattern
        if self._skips():
            return -1
        tracker = self.tracker
        needs = tracker.needs_of(channel, reads, writes, channel, accumulates)
        if self.after:
            self._add_asked(channel, needs)
        if needs:
            self._wait(channel, needs)
        position = tracker.issue(channel)
        tracker.record(channel, position, reads, writes)
        for view in views:
            if view is not None:
                view.tile.touch(channel, position)
        self._append(
            channel,
            HEAD.pack(opcode, engine, flags, op0, op1, cmd, imm, 0),
            packed.ljust(192, b"\0"),
            -1,
            Work(self._calls, reads, writes, is_dense_write and not accumulates),
        )
        return position

    def _skips(self) -> bool:
        """Count a call; return whether it is left out."""
        self._calls += 1
        self.is_skipped = self._calls in self._left_out
        # Calls left out count as emitted, so that both compilations refuse the same operators.
        self.longest -= self.is_skipped
        return self.is_skipped

    def _check_length(self) -> None:
        if self.watch is not None and self._calls % WATCHED_CALLS == 0:
            self.watch()
        if len(self.order) >= self.longest:
            raise CannotLower("more instructions than one operator may have", change="smaller tensors")
        if len(self.transfers) >= self.most_transfers:
            raise CannotLower("more transfers than one operator may have", change="smaller tensors")

    def transfer(
        self,
        queue: int,
        descriptors: tuple[Descriptor, ...],
        reads: list[Access],
        writes: list[Access],
        tiles: tuple[Tile, ...] = (),
        trigger: TriggerKind | None = None,
        flags: int = 0,
        imm: bytes = NO_IMMEDIATES,
        index_view: View | None = None,
    ) -> int:
        """Append a trigger and the transfer that it starts; return the trigger's position, -1 if left out.

        tiles  tiles whose bytes it moves or uses
        Raises CannotLower when the program is too long.
        """
        self._check_length()
        if self._skips():
            self.most_transfers -= 1
            return -1
        own, channel = self.queue_channel(queue), self.first_trigger + queue
        needs = self.tracker.needs_of(channel, reads, writes, own)
        if self.after:
            self._add_asked(channel, needs)
        if needs:
            self._wait(channel, needs)
        position = self._trigger(queue, descriptors, trigger, flags, imm, index_view)
        self.tracker.record(own, self.tracker.length(own) - 1, reads, writes)
        is_plain = not flags and index_view is None and all(d.op in _PLAIN for d in descriptors)
        num_bytes = sum(descriptor.to.num_bytes for descriptor in descriptors)
        is_whole = is_plain and len(writes) == 1 and is_dense(writes[0][1], num_bytes)
        if len(self.works) < MOST_WORKS:
            self.works[-1] = Work(self._calls, reads, writes, is_whole)
        for tile in tiles:
            tile.touch(channel, position)
        return position

    def _trigger(
        self,
        queue: int,
        descriptors: tuple[Descriptor, ...],
        trigger: TriggerKind | None = None,
        flags: int = 0,
        imm: bytes = NO_IMMEDIATES,
        index_view: View | None = None,
    ) -> int:
        channel = self.first_trigger + queue
        trigger = trigger or self.trigger_kind
        if trigger == "software DGE":
            flags |= Flag.SOFTWARE
        position = self.tracker.issue(channel, self.queue_channel(queue))
        number = len(self.transfers)
        owner = self.queue_sets[queue]
        self.transfers.append(Transfer(number, owner.core, queue, descriptors, trigger))
        opcode = Opcode.DMA_TRIGGER if trigger == "static" else Opcode.DMA_COPY
        packed = bytes(OPERANDS_BYTES)
        if index_view is not None:
            packed = (_ABSENT * 2 + index_view.packed()).ljust(OPERANDS_BYTES, b"\0")
        head = HEAD.pack(opcode, owner.owner, flags, 0, 0, 0, imm, number)
        self._append(channel, head, packed, number)
        return position

    def progress(self) -> dict[int, int]:
        """Return how much work each engine and queue set has, by channel."""
        channels = (*range(self.host), *range(self.first_queue, self.tracker.num_channels))
        return {channel: length for channel in channels if (length := self.tracker.length(channel))}

    def _add_asked(self, channel: int, needs: dict[int, int]) -> None:
        """Add to the needs of a channel's next instruction what `after` asks for and is not certain yet."""
        known = self.tracker.known[channel]
        for other, count in self.after.items():
            if other != channel and count > known[other]:
                needs[other] = max(count, needs.get(other, 0))

    def host_call(self, node: int, moved_bytes: int, reads: list[Access], writes: list[Access]) -> None:
        """Append a HOST_CALL of a graph node."""
        needs = self.tracker.needs_of(self.host, reads, writes, self.host)
        if needs:
            self._wait(self.host, needs)
        position = self.tracker.issue(self.host)
        self.tracker.record(self.host, position, reads, writes)
        head = HEAD.pack(Opcode.HOST_CALL, Engine.HOST, 0, 0, 0, 0, floats(moved_bytes), node)
        self._append(self.host, head, bytes(OPERANDS_BYTES), -1, Work(-1, reads, writes, False, True))

    def _wait(self, channel: int, needs: dict[int, int]) -> None:
        """Append the waits of the next instruction; those beyond MAX_WAITS go to NOPs before it."""
        if self.host in needs and self.core_of(channel):
            self._relay_host(needs)
        waits = self.tracker.pruned(channel, needs)
        stream = self.streams[channel]
        engine = self.engine_of(channel)
        while len(waits) > MAX_WAITS:
            position = self.tracker.issue(channel)
            stream.waits += [(position, source, count) for source, count in waits[:MAX_WAITS]]
            head = HEAD.pack(Opcode.NOP, engine, 0, 0, 0, 0, NO_IMMEDIATES, 0)
            self._append(channel, head, bytes(OPERANDS_BYTES), -1)
            waits = waits[MAX_WAITS:]
        position = len(stream.heads)
        stream.waits += [(position, source, count) for source, count in waits]

    def _relay_host(self, needs: dict[int, int]) -> None:
        """Replace a wait of the other core for the Host by one for a transfer of core 0, which follows the
        Host.

        The Host updates semaphores of core 0 only.
        """
        count = needs.pop(self.host)
        found = self._relayed.get(count)
        if found is None:
            assert self.relay is not None
            queue, descriptors = self.relay()
            self._wait(self.first_trigger + queue, {self.host: count})
            self._trigger(queue, descriptors)
            own = self.queue_channel(queue)
            found = self._relayed[count] = (own, self.tracker.length(own))
        own, position = found
        needs[own] = max(position, needs.get(own, 0))

    def _append(
        self, channel: int, head: bytes, operands: bytes, transfer: int, work: Work | None = None
    ) -> None:
        stream = self.streams[channel]
        self.order.append(channel)
        self.works.append(work if len(self.works) < MOST_WORKS else None)
        stream.heads.append(head)
        stream.operands.append(operands)
        stream.nodes.append(self.node)
        stream.tiles.append(self.tile)
        stream.transfers.append(transfer)

    # Taking back ----------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return the present lengths, for `take_back`."""
        tracker = self.tracker
        return Mark(
            tuple(len(stream.heads) for stream in self.streams),
            tuple(len(stream.waits) for stream in self.streams),
            len(self.transfers),
            tuple(tracker.length(channel) for channel in range(tracker.num_channels)),
            tuple(tuple(known) for known in tracker.known),
        )

    def take_back(self, mark: Mark) -> dict[int, int]:
        """Remove everything since `mark`; return channel -> done up to, of the remaining work without
        triggers, which access nothing themselves.

        The caller must make every region depend on that, as their records may name removed work.
        """
        for stream, length, waits in zip(self.streams, mark.streams, mark.waits, strict=True):
            for part in (stream.heads, stream.operands, stream.nodes, stream.tiles, stream.transfers):
                del part[length:]
            del stream.waits[waits:]
        del self.transfers[mark.transfers :]
        del self.order[sum(mark.streams) :]
        del self.works[sum(mark.streams) :]
        self.tracker.take_back(mark.queue_lengths, mark.known)
        self._relayed.clear()
        return {
            channel: count
            for channel, count in enumerate(mark.queue_lengths)
            if count and not self.host < channel < self.first_queue
        }

    def check(self) -> None:
        """Raise SimulationError if streams and tracker disagree."""
        for channel, stream in enumerate(self.streams):
            if len(stream.heads) != self.tracker.length(channel):
                raise SimulationError(f"channel {channel} lost count of its instructions")


def _operands(views: Sequence[View | None]) -> tuple[bytes, list[Access], list[Access], bool]:
    """Return the operands packed by position, the accesses read and written, and whether every byte of the
    written boxes is written. Written tiles forget their copies of HBM patterns."""
    packed, reads, writes, is_whole = b"", list[Access](), list[Access](), True
    for index, view in enumerate(views):
        if view is None:
            packed += _ABSENT
            continue
        packed += view.packed()
        box = view.box()
        if index not in (DST, RES):
            reads.append((view.tile, box))
            continue
        writes.append((view.tile, box))
        is_whole = is_whole and is_dense(box, view.partitions * view.free_size * view.itemsize)
        if view.tile.keys:
            view.tile.forget(box)
    return packed, reads, writes, is_whole
