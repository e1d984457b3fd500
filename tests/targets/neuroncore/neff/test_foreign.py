"""Vendor NEFFs: names, sources and typed dependencies are shown, the schedule is estimated."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.base.progress import NoProgress
from npuviz.formats.neff.debug_records import DebugFile, DebugRecord, Dependency, debug_bytes
from npuviz.formats.neff.file import make_neff, read_neff
from npuviz.formats.neff.model import EngineFile, Neff, QueueSet, Subgraph
from npuviz.program.instruction import DetailTable
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, MAX_WAITS, Opcode
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.neff.foreign import ForeignProgram, open_foreign
from npuviz.targets.neuroncore.neff.reader import has_own_encoding, neff_spec
from npuviz.targets.neuroncore.target import TARGET
from tests.formats.neff.cases import real_file, small_neff


def pairs(table: DetailTable) -> dict[str, str]:
    """A table of two columns."""
    return {row[0]: row[1] for row in table.rows}


def opened(neff: Neff) -> ForeignProgram:
    return open_foreign(neff, neff_spec(neff)[0])


@pytest.fixture(scope="module")
def real() -> ForeignProgram:
    return opened(read_neff(real_file()))


def test_the_real_file_lists_its_instructions(real: ForeignProgram) -> None:
    listing = real.listing
    texts = [listing.describe(index).text for index in range(len(listing))]
    half = len(texts) // 2
    assert texts[:half] == texts[half:]
    assert sum(text.startswith("I-") or "final" in text for text in texts[:half]) == 15
    assert "I-72-0  [instruction, slots 8..9]  test_spike_async.py:58" in texts
    assert "I-80-0-accel-tc-act-PWP  [table load, slot 2]" in texts
    assert real.tables.num_cores == 2
    assert not any("/home" in text for text in texts)


def test_the_real_file_has_typed_edges(real: ForeignProgram) -> None:
    """14 edges in field 4 of each subgraph, 13 flow and 1 accumulate; explicit waits come on top."""
    edges = {each for index in range(len(real.listing)) for each in real.listing.dependencies_of(index)}
    kinds = [each.kind for each in edges]
    assert kinds.count("accumulate") == 2
    assert set(kinds) == {"flow", "accumulate"}
    names = {index: real.listing.describe(index).text.split()[0] for index in range(len(real.listing))}
    (accumulation,) = (each for each in edges if each.kind == "accumulate" and each.sink < len(names) // 2)
    assert (names[accumulation.source], names[accumulation.sink]) == ("I-72-0", "I-72-1")
    for index in range(len(real.listing)):
        for each in real.listing.dependencies_of(index):
            assert index in (each.source, each.sink)


def test_the_real_file_tells_where_things_come_from(real: ForeignProgram) -> None:
    (index,) = (i for i in range(25) if real.listing.describe(i).text.startswith("I-72-1"))
    tables = {table.title: table for table in real.listing.details_of(index)}
    fields = pairs(tables["Debug record"])
    assert fields["source"] == "test_spike_async.py:58"
    assert fields["opcode"] == fields["operands"] == "not in file"
    assert ("debug_info_pttf.dbg", "2", "%op0 = dot(%x, %y)") in tables["Comes from"].rows
    assert [row[0] for row in tables["Slots (not decoded)"].rows] == ["10", "11"]


def test_the_real_file_keeps_its_variables_and_queues(real: ForeignProgram) -> None:
    shapes = {each.name: (each.kind, each.shape, each.dtype) for each in real.tables.variables}
    assert shapes["x"] == ("input", (128, 256), "float16")
    assert shapes["output0"] == ("output", (128, 128), "float16")
    assert shapes["identity_82_sg0000"] == ("constant", (128, 128, 1, 1), "float16")
    assert [(each.core, each.name) for each in real.tables.queue_sets] == [
        (0, "qPoolDynamic"),
        (0, "qSPDynamicHW"),
        (1, "qPoolDynamic"),
        (1, "qSPDynamicHW"),
    ]
    (node,) = real.graph.nodes
    assert [real.graph.tensors[each].name for each in (*node.inputs, *node.outputs)] == ["x", "y", "output0"]
    codes = [note.code for note in real.notes]
    assert codes[:2] == ["not-simulated", "estimated"]


def test_the_real_file_opens_and_runs_as_an_estimate() -> None:
    """Dependencies hold: nothing starts before what it depends on has ended."""
    begin = time.process_time()
    spec, program = TARGET.load(LoadRequest(real_file()), NoProgress())
    assert time.process_time() - begin < 2
    assert program.payload.is_estimated
    machine = TARGET.build(spec, program)
    assert isinstance(machine, NeuronMachine)
    assert machine.advance(1 << 40, NO_STOPS, None).kind == StopKind.FINISHED
    log = machine.log()[:, 0].tolist()
    place = {index: number for number, index in enumerate(log)}
    listing = program.listing
    for index in range(len(listing)):
        for each in listing.dependencies_of(index):  # pyright: ignore[reportAttributeAccessIssue]
            assert place[each.source] < place[each.sink]


def foreign(edges: dict[int, tuple[Dependency, ...]], engine_of: Mapping[int, str]) -> Neff:
    """A vendor file with one record for each id on its engine."""
    files: dict[str, bytes] = {}
    engines: dict[str, EngineFile] = {}
    for name in ENGINE_NAMES[:-1]:
        mine = [number for number, engine in engine_of.items() if engine == name]
        records = tuple(DebugRecord(number, f"I-{number}", (), edges.get(number, ())) for number in mine)
        files[f"{name}.dbg"] = debug_bytes(DebugFile(records=records))
        slots = tuple(DebugRecord(parents=(number,)) for number in mine)
        files[f"{name}_asm.dbg"] = debug_bytes(DebugFile(records=slots))
        engines[name] = EngineFile(
            name, bytes(64 * len(mine)), backend_debug=(f"{name}.dbg",), assembly_debug=(f"{name}_asm.dbg",)
        )
    subgraph = Subgraph("sg00", engines=engines, files=files)
    return make_neff([subgraph], name="made.neff", target="cayman")


def test_an_instruction_that_waits_for_four_engines_gets_a_nop() -> None:
    names = dict(zip(range(1, 6), ENGINE_NAMES, strict=False))
    edges = {5: tuple(Dependency(number, "anti") for number in range(1, 5))}
    program = opened(foreign(edges, names))
    waits = (program.tables.instructions["waits"]["used"] > 0).sum(axis=1)
    assert waits.max() <= MAX_WAITS
    assert waits.sum() == 4
    texts = [program.listing.describe(index).text for index in range(len(program.listing))]
    assert "I-5 (waits)" in texts
    assert {
        each.kind for each in program.listing.dependencies_of(texts.index("I-5  [instruction, slot 0]"))
    } == {"anti"}


def test_unknown_ids_are_left_out() -> None:
    program = opened(foreign({1: (Dependency(77),)}, {1: "PE", 2: "DVE"}))
    assert all(program.listing.dependencies_of(index) == () for index in range(len(program.listing)))


def test_a_file_without_debug_records_is_one_block_an_engine() -> None:
    engines = {name: EngineFile(name, bytes(64 * 3)) for name in ENGINE_NAMES[:-1]}
    neff = make_neff([Subgraph("sg00", engines=engines)], name="bare.neff", target="cayman")
    program = opened(neff)
    assert not has_own_encoding(neff)
    assert program.listing.describe(0).text == "start-up  [not named in the file, slots 0..2]"
    assert any("no debug records" in note.text for note in program.notes)
    assert program.tables.instructions["id"][0] == 48


def test_declared_descriptors_run_as_declared() -> None:
    """Static transfers of a vendor file keep queue, semaphore and patterns."""
    program = opened(small_neff())
    assert program.tables.transfers
    first = program.tables.transfers[0]
    assert (first.id, first.semaphore, first.event) == (1, 9, 3)
    assert first.descriptors[0].to.sizes == (64, 2)
    triggers = program.tables.instructions["opcode"] == Opcode.DMA_TRIGGER
    assert np.flatnonzero(triggers).tolist() == list(range(len(program.tables.transfers)))
    assert any("declared transfers" in note.text for note in program.notes)


def test_damage_is_a_format_error() -> None:
    neff = foreign({}, {1: "PE"})
    (subgraph,) = neff.subgraphs
    broken = replace(subgraph, files={**subgraph.files, "PE.dbg": b"\xff\xff"})
    with pytest.raises(FormatError, match=r"PE\.dbg"):
        opened(replace(neff, subgraphs=(broken,)))
    queues = {"q": QueueSet("q", semaphore=3)}
    program = opened(replace(neff, subgraphs=(replace(subgraph, queue_sets=queues),)))
    assert 3 not in {number for _, number in program.tables.semaphore_uses}


def test_more_cores_than_the_machine_has() -> None:
    neff = small_neff("trn1", cores=2)
    with pytest.raises(UsageError, match="trn1 has no logical cores"):
        neff_spec(neff)
