import itertools

import numpy as np
import pytest

from npuviz.program.instruction import Operand
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.isa import UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import SystolicTables, assign_cores
from npuviz.targets.systolic.view.listing import SystolicListing
from tests.targets.systolic.parity_data import compile_row

CORES = 2
UNITS = {(core, kind): core * 4 + at for core in range(CORES) for at, kind in enumerate(UNIT_KINDS[:4])}
UNITS[(-1, "Host")] = 8
MEMORIES = {(0, "SPAD"): 0, (0, "ACC"): 1, (1, "SPAD"): 2, (1, "ACC"): 3, (-1, "DRAM"): 4}


def make_tables() -> SystolicTables:
    builder = ProgramBuilder()
    for layer in range(2):
        builder.begin_layer(f"layer{layer}", node=layer + 5)
        act = builder.scratchpad_entry("act", 32, 64)
        out = builder.accumulator_entry("out", 16, 32)

        def write(template: Template, act: int = act, out: int = out) -> None:
            template.movin(act, Rows(0, 4, 64), size=64, tensor=0)
            template.gemm((act, act), out, 8, tile=(8, 8, 8), size=32, tensor=1)
            template.vector(tk.OP_ADD, (out, 0), out, vbytes=16, tile_m=2, size=32, tensor=1)
            template.movout(out, Rows(1, 64, 10, n0=3, s0=100), tensor=1)

        template = builder.template("t", write)
        for core in (0, 1):
            builder.add_tile(template, (1000 * core, 5000), core=core)
        builder.end_layer()
        builder.add_skip_layer("skip", 5)
    builder.add_host_layer("host", 9, 77)
    return builder.finish()


@pytest.fixture
def listing() -> SystolicListing:
    return SystolicListing(make_tables(), CORES, UNITS, MEMORIES, ("a", "b"))


def test_length_and_vectors(listing: SystolicListing) -> None:
    assert len(listing) == 17
    indices = np.arange(-1, 18)
    assert listing.nodes_of(indices).tolist() == [-1, *[5] * 8, *[6] * 8, 9, -1]
    # Layer 1 puts its presets on cores 1, 0; layer 3 (after a skip layer) the same.
    one, zero = [4, 5, 6, 7], [0, 1, 2, 3]
    assert listing.units_of(indices).tolist() == [-1, *one, *zero, *one, *zero, 8, -1]
    assert listing.tiles_of(np.array([[0, 4], [8, 16]])).tolist() == [[0, 1], [3, -1]]


def test_destinations(listing: SystolicListing) -> None:
    address, size, tensor = listing.destinations_of(np.array([0, 1, 3, 7, 16, 99]))
    assert address.tolist() == [32, 16, 5064, 5064, 0, 0]
    assert size.tolist() == [64, 32, 210, 210, 0, 0]
    assert tensor.tolist() == [0, 1, 1, 1, -1, -1]


def test_describe(listing: SystolicListing) -> None:
    load = listing.describe(4)
    assert (load.opcode, load.unit, load.node, load.tile) == ("MOVIN", 0, 5, 1)
    assert load.reads == (Operand(4, 1004, 64, 0),)
    assert load.writes == (Operand(0, 32, 64, 0),)
    assert load.text == "MOVIN s0, DRAM:0x3ec, 1 x 64 B  ; a"
    product = listing.describe(1)
    assert (product.opcode, product.unit) == ("GEMM_PRELOAD", 5)
    assert product.reads == (Operand(2, 32, 64), Operand(2, 32, 64))
    assert product.writes == (Operand(3, 16, 32, 1),)
    assert listing.describe(2).text == "ADD a0, a0, 16 B  ; b"
    store = listing.describe(3)
    assert store.writes == (Operand(4, 5064, 210, 1),)
    assert store.reads == (Operand(3, 16, 32, 1),)
    host = listing.describe(16)
    assert (host.opcode, host.unit, host.node, host.tile) == ("HOST", 8, 9, -1)
    for index in (-1, 17):
        with pytest.raises(IndexError):
            listing.describe(index)


def test_ranges(listing: SystolicListing) -> None:
    assert listing.ranges_of_node(5) == [(0, 8)]
    assert listing.ranges_of_node(6) == [(8, 16)]
    assert listing.ranges_of_node(9) == [(16, 17)]
    assert listing.ranges_of_node(4) == []
    assert listing.ranges_of_unit(0) == [(4, 5), (12, 13)]
    assert listing.ranges_of_unit(6) == [(2, 3), (10, 11)]
    assert listing.ranges_of_unit(8) == [(16, 17)]
    assert listing.ranges_of_unit(77) == []


def test_empty_program() -> None:
    listing = SystolicListing(ProgramBuilder().finish(), CORES, UNITS, MEMORIES)
    assert len(listing) == 0
    assert listing.nodes_of(np.array([0])).tolist() == [-1]
    assert listing.ranges_of_unit(0) == []


def test_vectors_agree_with_descriptions_on_a_real_program() -> None:
    compiled, spec = compile_row("systolic_ws_128x128_c4_simple_noc_tpuv4_dramsimple", "resnet18")
    kinds = UNIT_KINDS[:4]
    units = {(core, kind): core * 4 + at for core in range(4) for at, kind in enumerate(kinds)}
    memories = {(core, name): core * 2 + at for core in range(4) for at, name in enumerate(("SPAD", "ACC"))}
    listing = SystolicListing(compiled.tables, spec.num_cores, units, memories | {(-1, "DRAM"): 99})
    indices = np.arange(len(listing))
    nodes, found = listing.nodes_of(indices), listing.units_of(indices)
    address, size, tensor = listing.destinations_of(indices)
    for index in range(0, len(listing), 37):
        instruction = listing.describe(index)
        assert (instruction.node, instruction.unit) == (nodes[index], found[index])
        assert (instruction.writes[0].address, instruction.writes[0].tensor) == (
            address[index],
            tensor[index],
        )
        assert instruction.writes[0].size_bytes == size[index]
    held = sorted(place for unit in range(16) for place in listing.ranges_of_unit(unit))
    assert held[0][0] == 0
    assert all(before[1] == after[0] for before, after in itertools.pairwise(held))
    assert held[-1][1] == len(listing)
    cores = assign_cores(compiled.tables, 4)[listing.tiles_of(indices)]
    opcodes = np.concatenate(
        [
            compiled.tables.code[t[tk.TILE.code] : t[tk.TILE.code] + t[tk.TILE.count], 0]
            for t in compiled.tables.tiles
        ]
    )
    assert np.array_equal(found, cores * 4 + UNIT_KIND_OF[opcodes])
