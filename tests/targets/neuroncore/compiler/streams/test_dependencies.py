"""No order that the machine may choose runs dependent work in the wrong order."""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.base.progress import NoProgress
from npuviz.sim.checks.findings import findings_of
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.assembly import assemble
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.patterns.tile import Region
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.compiler.streams.dependencies import Tracker
from npuviz.targets.neuroncore.compiler.streams.liveness import Work as Noted
from npuviz.targets.neuroncore.isa import MAX_WAITS, Activation, Alu, Engine, Opcode
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.tables import SBUF, Access, Tables
from npuviz.targets.neuroncore.target import TARGET
from tests.sweeps import seeds
from tests.targets.neuroncore.compiler.graphs import io_graph
from tests.targets.neuroncore.compiler.random_order import RandomMachine, Span

NOT_DATA = (Opcode.END, Opcode.NOP, Opcode.TABLE_LOAD, Opcode.DMA_TRIGGER, Opcode.DMA_COPY)


# The cells that something reads or writes: each is (memory << MEMORY) | (partition group << GROUP) | word.
Cells = np.ndarray
MEMORY, GROUP = 40, 20
NOTHING = np.zeros(0, np.int64)


@dataclass
class Work:
    """What an instruction or transfer reads and writes."""

    reads: Cells
    writes: Cells
    unit: tuple[str, int]
    is_accumulation: bool = False


def operand_cells(operand: np.void, core: int) -> Cells:
    """4-byte cells per partition group of an operand; a core's SBUF is memory 1 + 10 * core."""
    size = {0: 4, 1: 2, 2: 2, 7: 4, 8: 4}.get(int(operand["dtype"]), 1)
    offsets = np.zeros(1, np.int64)
    for count, step in zip(operand["sizes"].tolist(), operand["steps"].tolist(), strict=True):
        offsets = (offsets[:, None] + np.arange(count) * step).reshape(-1)
    words = np.unique((int(operand["address"]) + offsets * size) // 4)
    partitions = np.arange(int(operand["partitions"])) + int(operand["partition"])
    groups = np.unique(partitions // 32) << GROUP
    return ((int(operand["space"]) + 10 * core) << MEMORY) | (groups[:, None] | words).reshape(-1)


def access_cells(access: Access, partition_bytes: int, core: int) -> Cells:
    """The same cells for a side of a descriptor; variables are memories from 100 on."""
    offsets = np.arange(0, access.sizes[0], min(4, access.sizes[0])) * access.steps[0]
    for count, step in zip(access.sizes[1:], access.steps[1:], strict=True):
        offsets = (offsets[:, None] + np.arange(count) * step).reshape(-1)
    offsets = offsets + access.offset
    if access.variable != SBUF:
        return ((100 + access.variable) << MEMORY) | np.unique(offsets // 4)
    partitions, inner = np.divmod(offsets, partition_bytes)
    return ((1 + 10 * core) << MEMORY) | np.unique((partitions // 32 << GROUP) | (inner // 4))


def core_of(tables: Tables, index: int) -> int:
    """The core of an instruction."""
    return int(np.searchsorted(tables.sequencers[:, 1], index, side="right")) // 5


def works_of(tables: Tables, partition_bytes: int) -> tuple[dict[int, Work], dict[int, Work]]:
    """Work by instruction and by transfer."""
    instructions: dict[int, Work] = {}
    for index, row in enumerate(tables.instructions):
        if row["opcode"] in NOT_DATA:
            continue
        core = core_of(tables, index)
        cells = [
            operand_cells(operand, core) if operand["space"] in (1, 2) else NOTHING
            for operand in row["operands"]
        ]
        is_predicated = row["opcode"] == Opcode.TENSOR_COPY_PREDICATED
        reads = np.concatenate(cells[0 if is_predicated else 1 : 5])
        writes = np.concatenate([cells[0], cells[5]])
        is_pe = bool(row["opcode"] == Opcode.NC_MATMUL)
        instructions[index] = Work(reads, writes, ("engine", 10 * core + int(row["engine"])), is_pe)
    transfers: dict[int, Work] = {}
    for index, transfer in enumerate(tables.transfers):
        reads, writes = [NOTHING], [NOTHING]
        for descriptor in transfer.descriptors:
            writes.append(access_cells(descriptor.to, partition_bytes, transfer.core))
            reads += [access_cells(source, partition_bytes, transfer.core) for source in descriptor.sources]
        transfers[index] = Work(np.concatenate(reads), np.concatenate(writes), ("queue", transfer.queue))
    return instructions, transfers


class Log:
    """Emission order: every instruction gets its number in it as its tile."""

    def __init__(self, builder: Builder) -> None:
        self.transfers: list[int] = []  # by number, -1 if none
        emitter = builder.emitter
        append = emitter._append

        def logged(
            channel: int, head: bytes, operands: bytes, transfer: int, work: Noted | None = None
        ) -> None:
            emitter.tile = len(self.transfers)
            self.transfers.append(transfer)
            append(channel, head, operands, transfer, work)

        emitter._append = logged

    def indices(self, tables: Tables) -> list[int]:
        """Final index of each instruction; table loads were put in later."""
        is_emitted = ~np.isin(tables.instructions["opcode"], [Opcode.TABLE_LOAD, Opcode.END])
        found = np.flatnonzero(is_emitted)
        return found[np.argsort(tables.tiles[found])].tolist()


def masks_of(works: list[Work]) -> list[tuple[int, int]]:
    """What each reads and writes with a bit for each cell, so that two are compared at once."""
    numbered = np.unique(np.concatenate([cells for work in works for cells in (work.reads, work.writes)]))

    def mask(cells: Cells) -> int:
        flags = np.zeros(len(numbered), bool)
        flags[np.searchsorted(numbered, cells)] = True
        return int.from_bytes(np.packbits(flags).tobytes())

    return [(mask(work.reads), mask(work.writes)) for work in works]


def assert_ordered(tables: Tables, log: Log, partition_bytes: int, seed: int) -> int:
    """Run once and compare all conflicting pairs with the emission order; returns how many there are."""
    machine = RandomMachine(tables, seed)
    assert machine.run(), "the program hangs"
    instructions, transfers = works_of(tables, partition_bytes)
    steps: list[tuple[Work, Span, str]] = []
    for index, transfer in zip(log.indices(tables), log.transfers, strict=True):
        if transfer >= 0:
            steps.append((transfers[transfer], machine.transfer_spans[transfer], f"transfer {transfer}"))
        elif index in instructions:
            steps.append((instructions[index], machine.spans[index], f"instruction {index}"))
    conflicts = 0
    masks = masks_of([work for work, _, _ in steps])
    for at, (late, late_span, late_name) in enumerate(steps):
        late_reads, late_writes = masks[at]
        for (early, early_span, early_name), (early_reads, early_writes) in zip(
            steps[:at], masks[:at], strict=True
        ):
            flow = early_writes & late_reads
            other = (early_writes | early_reads) & late_writes
            if not flow and not other:
                continue
            conflicts += 1
            where = f"{early_name} before {late_name}"
            if flow:
                assert early_span.end < late_span.begin, f"flow: {where}"
            elif early.unit == late.unit:
                assert early_span.end < late_span.end, f"anti, output: {where}"
            else:
                assert early_span.end < late_span.begin, f"anti, output: {where}"
    return conflicts


def random_part(draw: random.Random, view: View) -> View:
    """A slice of a tile."""
    columns = view.shape[0]
    first = draw.randrange(0, columns - 8)
    count = draw.randrange(8, columns - first + 1)
    quarter = draw.choice((slice(0, 128), slice(0, 32), slice(32, 64), slice(64, 128)))
    return view[quarter, first : first + count]


def random_program(builder: Builder, draw: random.Random, length: int) -> None:
    """Loads, computations and stores over few tiles, so that much depends on much."""
    inputs = [builder.hbm[tensor] for tensor in builder.graph.inputs]
    outputs = [builder.hbm[tensor] for tensor in builder.graph.outputs]
    columns = inputs[0].shape[1]
    for target in outputs:
        builder.dma.copy(target, inputs[0])
    for _ in range(length // 12):
        with builder.node(0), builder.tiles.scope():
            tiles = [builder.tiles.sbuf(128, (columns,), "float32") for _ in range(3)]
            psum = builder.tiles.psum(128, (columns,))
            for tile in tiles:
                builder.dma.load(tile, draw.choice(inputs))
            for _ in range(8):
                random_step(builder, draw, tiles, psum, inputs, outputs)


def random_step(
    b: Builder, draw: random.Random, tiles: list[View], psum: View, inputs: list, outputs: list
) -> None:
    """One of everything that moves data."""
    kind = draw.randrange(8)
    part = random_part(draw, draw.choice(tiles))
    same = draw.choice(tiles)
    first = part.address - part.tile.address
    other = same[part.partition : part.partition + part.partitions, first // 4 : first // 4 + part.shape[0]]
    if kind == 0:
        b.isa.activation(part, other, draw.choice((Activation.EXP, Activation.GELU, Activation.RELU)))
    elif kind == 1:
        b.isa.tensor_tensor(part, other, part, Alu.ADD)
    elif kind == 2:
        b.isa.copy(part, other, engine=draw.choice((Engine.POOL, Engine.DVE, Engine.ACTIVATION)))
    elif kind == 3:
        b.isa.matmul(psum, same, draw.choice(tiles), accumulate=draw.random() < 0.5)
    elif kind == 4:
        b.isa.copy(draw.choice(tiles), psum)
    elif kind == 5:
        target = draw.choice(outputs)
        rows = slice(part.partition, part.partition + part.partitions)
        b.dma.store(target[rows, : part.shape[0]], part)
    elif kind == 6:
        b.dma.load(same, draw.choice([*inputs, *outputs]))
    else:
        b.dma.copy(draw.choice(outputs), draw.choice([*inputs, *outputs]))


@pytest.mark.parametrize("seed", seeds(1, 3, 24))
@pytest.mark.parametrize(("preset", "lnc"), [("trn1", "1"), ("trn2", "1"), ("trn2", "2")])
def test_random_programs_run_in_a_right_order(preset: str, lnc: str, seed: int) -> None:
    spec, _ = make_spec(preset, settings={"sbuf_partition_bytes": "4096", "lnc": lnc})
    builder = Builder(io_graph(2, (128, 128)), spec)
    log = Log(builder)
    random_program(builder, random.Random(seed), 72)
    tables = assemble(builder, {})
    assert assert_ordered(tables, log, spec.sbuf_partition_bytes, seed) > 30
    used = {int(tables.queue_sets[transfer.queue].core) for transfer in tables.transfers}
    assert used == set(range(spec.num_cores))


def test_every_wait_is_needed_for_something_that_can_be_late() -> None:
    """Dropping the waits makes the order wrong: the test above can fail."""
    spec, _ = make_spec("trn2", settings={"sbuf_partition_bytes": "4096"})
    builder = Builder(io_graph(2, (128, 128)), spec)
    log = Log(builder)
    random_program(builder, random.Random(3), 72)
    tables = assemble(builder, {})
    tables.instructions.setflags(write=True)
    tables.instructions["waits"]["used"] = 0
    with pytest.raises(AssertionError, match="flow"):
        assert_ordered(tables, log, spec.sbuf_partition_bytes, 1)


def test_waits_are_pruned_through_other_engines() -> None:
    tracker = Tracker(3, 3)
    region = Region()
    box = (0, 128, 0, 64)
    tracker.record(0, tracker.issue(0), [], [(region, box)])
    for engine in (1, 2):
        needs = tracker.needs_of(engine, [(region, box)], [], engine)
        assert tracker.pruned(engine, needs) == [(0, 1)]
        tracker.record(engine, tracker.issue(engine), [(region, box)], [])
    # Engine 1 knows engine 0's write already: only engine 2's read is new to it.
    needs = tracker.needs_of(1, [], [(region, box)], 1)
    assert tracker.pruned(1, needs) == [(2, 1)]
    position = tracker.issue(1)
    tracker.record(1, position, [], [(region, box)])
    # Engine 0 waits for engine 1 only: that engine 2 is done follows.
    needs = tracker.needs_of(0, [], [(region, box)], 0)
    assert tracker.pruned(0, needs) == [(1, position + 1)]


def test_parts_of_a_tile_do_not_wait_for_each_other() -> None:
    tracker = Tracker(2, 2)
    region = Region()
    tracker.record(0, tracker.issue(0), [], [(region, (0, 128, 0, 64))])
    assert tracker.needs_of(1, [(region, (0, 128, 64, 128))], [], 1) == {}
    assert tracker.needs_of(1, [(region, (0, 32, 60, 68))], [], 1) == {0: 1}


def test_many_records_are_merged_without_losing_a_dependency() -> None:
    tracker = Tracker(2, 2)
    region = Region()
    for at in range(500):
        box = (0, 128, at * 8, at * 8 + 4)
        tracker.record(0, tracker.issue(0), [], [(region, box)])
        assert tracker.needs_of(1, [(region, box)], [], 1) == {0: at + 1}
    assert len(region.writes) < 200


def test_no_instruction_has_more_waits_than_it_can_hold() -> None:
    spec, _ = make_spec("trn2")
    builder = Builder(io_graph(2, (128, 64)), spec)
    x = builder.hbm[builder.graph.inputs[0]]
    target = builder.tiles.sbuf(128, (64,), "float32")
    parts = [target[:, at * 16 : at * 16 + 16] for at in range(4)]
    builder.dma.load(parts[0], x[:, :16])
    builder.isa.memset(parts[1], 1.0)
    builder.isa.activation(parts[2], parts[2], Activation.EXP)
    builder.isa.copy(parts[3], parts[3], engine=Engine.POOL)
    psum = builder.tiles.psum(128, (64,))
    builder.isa.matmul(
        psum, builder.dma.fetch(builder.hbm.constant(np.ones((128, 128), np.float32))), target, False
    )
    tables = assemble(builder, {})
    pe = tables.instructions[slice(*tables.sequencers[Engine.PE].tolist())]
    assert pe["opcode"].tolist() == [Opcode.NOP, Opcode.NC_MATMUL, Opcode.END]
    used = (pe["waits"]["used"] > 0).sum(axis=1).tolist()
    assert used == [MAX_WAITS, 1, 0]
    assert RandomMachine(tables, 0).run()


def test_work_of_ones_own_queue_counts_after_an_operator_was_taken_back() -> None:
    """What is left of the records is how far each channel was: a queue reads before its last write ends."""
    tracker = Tracker(2, 3)
    region = Region()
    region.prior = {2: 4}
    assert tracker.needs_of(0, [(region, (0, 1, 0, 64))], [], 2) == {2: 4}


def test_a_copy_waits_for_what_its_queue_wrote_before_an_operator_was_taken_back(tmp_path: Path) -> None:
    """GatherElements of long rows is taken back, the Host's; the copy behind it reads what Pad copied."""
    shape = (1, 8320)
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["padded"]),
        helper.make_node("Add", ["first", "rest"], ["places"]),
        helper.make_node("GatherElements", ["padded", "places"], ["some"], axis=1),
        helper.make_node("ScatterElements", ["padded", "places", "some"], ["y"], axis=1),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, shape[1] - 200)),
        helper.make_tensor_value_info("first", TensorProto.INT64, (1, 1)),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    constants = [
        numpy_helper.from_array(np.array([0, 0, 0, 200], np.int64), "pads"),
        numpy_helper.from_array(np.arange(200, dtype=np.int64).reshape(1, 200), "rest"),
    ]
    graph = helper.make_graph(nodes, "moves", inputs, outputs, constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
        tmp_path / "m.onnx",
    )
    spec, program = TARGET.load(
        LoadRequest(tmp_path / "m.onnx", inputs={"first": np.array([[8000]])}), NoProgress()
    )
    machine = TARGET.build(spec, program)
    assert machine.advance(1 << 50, NO_STOPS, None).kind is StopKind.FINISHED
    assert "Host" in program.placement.values()
    assert [hazard.kind for hazard in findings_of(machine).hazards if hazard.kind == "early-read"] == []
