"""What the debugger reads about instructions: operands, destinations, dependencies, tables."""

from pathlib import Path

import numpy as np
import pytest

from npuviz.onnx.reader import read_model
from npuviz.program.instruction import DetailTable, HasDependencies, HasDetails
from npuviz.targets.neuroncore.compiler.compile import compile_graph
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.ids import hbm_memory, host_unit, unit_of
from npuviz.targets.neuroncore.isa import Engine, Opcode
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.view.listing import NeuronListing
from tests.targets.neuroncore.every_kind import LNC2, everything

SPEC, _ = make_spec("trn2")
MODEL = Path(__file__).parents[4] / "sample_models" / "tiny_cnn.onnx"


def pairs(table: DetailTable) -> dict[str, str]:
    """A table of two columns."""
    return {row[0]: row[1] for row in table.rows}


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile_graph(read_model(MODEL), SPEC)


@pytest.fixture(scope="module")
def listing(compiled: Compiled) -> NeuronListing:
    return NeuronListing(compiled.tables, SPEC, compiled.graph)


def test_every_instruction_can_be_described(compiled: Compiled, listing: NeuronListing) -> None:
    assert isinstance(listing, HasDependencies)
    assert isinstance(listing, HasDetails)
    indices = np.arange(len(listing))
    units, nodes = listing.units_of(indices), listing.nodes_of(indices)
    address, size, _ = listing.destinations_of(indices)
    for index in indices.tolist():
        found = listing.describe(index)
        assert (found.index, found.unit, found.node) == (index, units[index], nodes[index])
        assert found.text.startswith(found.opcode)
        if found.writes:
            assert (address[index], size[index]) == (found.writes[0].address, found.writes[0].size_bytes)
        else:
            assert size[index] == 0
        for operand in (*found.reads, *found.writes):
            assert operand.memory in (0, 1, hbm_memory(SPEC))
            assert operand.size_bytes > 0
        assert all(
            len(row) == len(table.columns) for table in listing.details_of(index) for row in table.rows
        )


def test_out_of_range(listing: NeuronListing) -> None:
    outside = np.array([-1, len(listing), -(1 << 40), 1 << 40])
    assert listing.nodes_of(outside).tolist() == [-1] * 4
    assert listing.units_of(outside).tolist() == [-1] * 4
    assert [each.tolist() for each in listing.destinations_of(outside)] == [[0] * 4, [0] * 4, [-1] * 4]
    for ask in (listing.describe, listing.details_of, listing.dependencies_of):
        for index in (-1, len(listing)):
            with pytest.raises(IndexError):
                ask(index)


def test_ranges_cover_the_program(compiled: Compiled, listing: NeuronListing) -> None:
    whole = [listing.ranges_of_unit(unit_of(0, engine)) for engine in range(5)]
    assert sum(end - first for ranges in whole for first, end in ranges) == len(listing)
    assert listing.ranges_of_unit(host_unit(SPEC)) == []
    assert listing.ranges_of_unit(99) == []
    units = listing.units_of(np.arange(len(listing)))
    for node in range(len(compiled.graph.nodes)):
        ranges = listing.ranges_of_node(node)
        assert ranges == sorted(ranges)
        inside = [index for first, end in ranges for index in range(first, end)]
        assert inside == np.flatnonzero(compiled.tables.nodes == node).tolist()
        assert all(len(set(units[first:end])) == 1 for first, end in ranges)


def test_dependencies_agree_from_both_ends(listing: NeuronListing) -> None:
    found = {index: listing.dependencies_of(index) for index in range(len(listing))}
    for index, dependencies in found.items():
        assert list(dependencies) == sorted(dependencies, key=lambda each: (each.source, each.sink))
        for each in dependencies:
            assert index in (each.source, each.sink)
            assert each in found[each.source]
            assert each in found[each.sink]
    kinds = {each.kind for dependencies in found.values() for each in dependencies}
    assert {"flow", "accumulate"} <= kinds


def test_a_load_flows_into_a_matmul(compiled: Compiled, listing: NeuronListing) -> None:
    code = compiled.tables.instructions
    first = int(np.flatnonzero(code["opcode"] == Opcode.NC_MATMUL)[0])
    sources = [each.source for each in listing.dependencies_of(first) if each.sink == first]
    assert sources
    assert {listing.describe(each).opcode for each in sources} <= {"dma_trigger", "memset", "tensor_copy"}
    assert all(each.kind == "flow" for each in listing.dependencies_of(first) if each.sink == first)


def test_texts_name_what_numbers_mean() -> None:
    compiled = everything()
    listing = NeuronListing(compiled.tables, LNC2, compiled.graph)
    texts = [listing.describe(index).text for index in range(len(listing))]
    assert "table_load id=3  ; sqrt_and_others" in texts
    assert "host_call id=1 signal:S9+=4  ; Odd n1" in texts
    (copy,) = (text for text in texts if text.startswith("dma_copy"))
    assert copy.endswith("SBUF[0, 0x40] <- x+0x0, 32 bytes on qPool")
    assert any(text.endswith("8 bytes on qSP, 2 descriptors") for text in texts)
    # core_barrier is the last of core 0; the trigger of core 1 belongs to its own SP.
    trigger = texts.index("dma_trigger  ; SBUF[0, 0x8] <- x+0x0, 4 bytes on qSP")
    assert listing.describe(trigger).unit == unit_of(1, Engine.SP)
    host = listing.describe(len(listing) - 1)
    assert host.unit == host_unit(LNC2)
    assert {operand.tensor for operand in host.writes} == {1}


def test_the_descriptor_table_has_every_field() -> None:
    compiled = everything()
    listing = NeuronListing(compiled.tables, LNC2, compiled.graph)
    index = int(np.flatnonzero(compiled.tables.transfer_of == 0)[0])
    tables = {table.title: table for table in listing.details_of(index)}
    rows = tables["DMA descriptors"].rows
    assert [row[:4] for row in rows] == [
        ("0", "fma", "to", "y"),
        ("0", "fma", "from 0", "w"),
        ("0", "fma", "from 1", "w"),
        ("1", "min", "to", "y"),
        ("1", "min", "from", "y"),
        ("2", "transpose", "to", "y"),
        ("2", "transpose", "from", "x"),
    ]
    assert [row[8] for row in rows[1:3]] == ["1.5", "-2"]
    assert rows[3][9] == "7"
    assert rows[5][10] == "2 x 2 x 1 x 1 of 2 bytes"
    transfer = pairs(tables["DMA transfer"])
    assert transfer["queue set"] == "qPool of Pool, 16 queues"
    assert transfer["semaphore"] == "S[21] += 16 at the end"
    assert transfer["event"] == "E[5] is set at the end"
    assert transfer["placement"] == "first queue of the set only"
    other = int(np.flatnonzero(compiled.tables.transfer_of == 2)[0])
    tables = {table.title: table for table in listing.details_of(other)}
    assert pairs(tables["DMA transfer"])["other core"] == "S[6], S[7]"


def test_semaphores_and_costs() -> None:
    compiled = everything()
    listing = NeuronListing(compiled.tables, LNC2, compiled.graph)
    first = {table.title: table for table in listing.details_of(0)}
    assert [row[:3] for row in first["Semaphores"].rows] == [
        ("wait", "S[9]", ">= 3"),
        ("wait", "E[1]", "== 1"),
    ]
    memset = int(np.flatnonzero(compiled.tables.instructions["opcode"] == Opcode.MEMSET)[0])
    tables = {table.title: table for table in listing.details_of(memset)}
    assert tables["Semaphores"].rows == (
        ("update", "S[3]", "++", "when it is complete", "DVE"),
        ("update", "E[1]", "!", "as it starts to read", ""),
    )
    assert tables["Cost (estimated)"].rows[0][1] == "64"
    assert pairs(tables["Fields"])["immediates"] == "2.5"
