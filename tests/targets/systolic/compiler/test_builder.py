import time

import numpy as np
import pytest

from npuviz.base.errors import DoesNotFit, SimulationError
from npuviz.targets.systolic.compiler import builder as builder_module
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.parity.fitting import check_fits
from npuviz.targets.systolic.compiler.template import Rows, Template, blocks_of_rows
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import make_spec
from npuviz.targets.systolic.tables import assign_cores


def write_product(builder: ProgramBuilder, load_size: int = 64) -> int:
    act = builder.scratchpad_entry("act", 0, load_size)
    out = builder.accumulator_entry("out", 0, 32)

    def write(template: Template) -> None:
        template.movin(act, Rows(0, 0, load_size), size=load_size, tensor=3)
        template.gemm((act, act), out, 8, tile=(8, 8, 8), size=32)
        template.vector(tk.OP_ADD, (out, 0), out, vbytes=16, tile_m=2, size=32)
        template.movout(out, Rows(1, 64, 32), tensor=4)

    return builder.template("product", write)


def test_tables_of_two_layers() -> None:
    builder = ProgramBuilder()
    builder.begin_layer("a", node=7)
    template = write_product(builder)
    builder.add_tile(template, (0, 256), core=1, coord=(1, 2))
    builder.add_tile(template, (512, 768), core=2, accumulate=True, fused=5)
    builder.end_layer()
    builder.add_skip_layer("b", 8, num_tiles=2)
    builder.begin_layer("c")
    builder.add_tile(write_product(builder), (1024,))
    builder.end_layer()
    tables = builder.finish()
    # Equal programs are stored once, across layers too.
    assert tables.code[:, tk.CODE.op].tolist() == [tk.OP_MOVIN, tk.OP_GEMM_PRELOAD, tk.OP_ADD, tk.OP_MOVOUT]
    assert tables.code[1, [tk.CODE.src0, tk.CODE.dst]].tolist() == [1, -1]
    assert tables.tiles[:, tk.TILE.count].tolist() == [4, 4, 0, 0, 4]
    assert tables.tiles[:, tk.TILE.first].tolist() == [0, 4, 8, 8, 8]
    assert tables.tiles[:, tk.TILE.skip].tolist() == [0, 0, 1, 1, 0]
    assert tables.tiles[1, [tk.TILE.accumulate, tk.TILE.fused]].tolist() == [1, 5]
    assert tables.tiles[0, tk.TILE.coord : tk.TILE.coord + 2].tolist() == [1, 2]
    assert tables.tiles[1, tk.TILE.base : tk.TILE.base + 3].tolist() == [512, 768, 0]
    assert tables.layers[:, : tk.LAYER.host_cycles].tolist() == [[0, 2, 7], [2, 2, 8], [4, 1, -1]]
    assert tables.layers[:, tk.LAYER.entry].tolist() == [0, 2, 2]
    assert tables.entries.tolist() == [[0, 64], [0, 32], [0, 64], [0, 32]]
    assert tables.launches.tolist() == [[0, 3, 0, 0, 0]]
    assert tables.layer_names == ("a", "b", "c")
    assert not tables.tiles.flags.writeable


def test_launches_and_host_layers() -> None:
    builder = ProgramBuilder()
    builder.begin_launch(earliest=10)
    builder.add_skip_layer("a")
    builder.add_host_layer("h", 3, 40)
    builder.begin_launch(delay=1)
    builder.begin_layer("c")
    builder.add_tile(write_product(builder))
    builder.end_layer()
    tables = builder.finish()
    assert tables.launches.tolist() == [[0, 2, 10, 0, 0], [2, 1, 0, 1, 0]]
    assert tables.layers[:, tk.LAYER.instruction].tolist() == [-1, 4, -1]
    assert tables.layers[:, tk.LAYER.host_cycles].tolist() == [0, 40, 0]


def test_entries_without_address_are_laid_out_behind_the_others() -> None:
    builder = ProgramBuilder()
    builder.begin_layer("a")
    first = builder.scratchpad_entry("x", -1, 32)
    builder.scratchpad_entry("y", 64, 64)
    assert builder.scratchpad_entry("x", -1, 96) == first
    builder.add_skip_tiles()
    builder.end_layer()
    assert builder.finish().entries.tolist() == [[128, 96], [64, 64]]


def test_core_assignment() -> None:
    builder = ProgramBuilder()
    for cores in ([0, 1, -1], [-1, 0, 3]):
        builder.begin_layer("a")
        templates = np.full(3, write_product(builder))
        builder.add_tiles(templates, np.zeros((3, 2), dtype=np.int64), cores=np.array(cores))
        builder.end_layer()
    # Presets shift by the layer number, the others share one counter.
    assert assign_cores(builder.finish(), 4).tolist() == [1, 2, 0, 1, 2, 1]


def test_misuse_is_an_internal_error() -> None:
    builder = ProgramBuilder()
    with pytest.raises(SimulationError, match="outside"):
        builder.add_skip_tiles()
    builder.begin_layer("a")
    with pytest.raises(SimulationError, match="inside layer 'a'"):
        builder.finish()
    with pytest.raises(SimulationError, match="no tiles"):
        builder.end_layer()


def test_many_tiles_are_cheap() -> None:
    builder = ProgramBuilder()
    builder.begin_layer("a")
    started = time.process_time()
    builder.add_tiles(np.full(32768, write_product(builder)), np.zeros((32768, 4), dtype=np.int64))
    builder.end_layer()
    tables = builder.finish()
    # Far below what one Python call per tile would take; generous because machines differ.
    assert time.process_time() - started < 2
    assert tables.tiles.nbytes == 32768 * tk.TILE.num_words * 8
    assert len(tables.code) == 4


def test_too_many_tiles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder_module, "MAX_TILES", 10)
    builder = ProgramBuilder()
    builder.begin_layer("big")
    with pytest.raises(DoesNotFit, match="'big' is cut into 11 tiles"):
        builder.add_skip_tiles(11)


def test_tile_larger_than_its_half() -> None:
    spec, _ = make_spec("edge-8x8")
    builder = ProgramBuilder()
    builder.begin_layer("big")
    builder.add_tile(write_product(builder, load_size=(32 << 10) + 32))
    builder.end_layer()
    with pytest.raises(
        DoesNotFit, match=r"layer 'big' takes 32\.03 KiB of the scratchpad, half of it is 32 KiB"
    ):
        check_fits(builder.finish(), spec)


def slow_blocks(rows: list[int], length: int, mode: int, req: int) -> list[int]:
    """The request rule of kernels.program_records, byte by byte."""
    found: list[int] = []
    for row in rows:
        if mode == tk.MODE_COVER:
            blocks = [byte - byte % req for byte in range(row, row + length)]
        else:
            blocks = [row - row % req + k * req for k in range(-(-length // req))]
        for block in blocks:
            if not found or found[-1] != block:
                found.append(block)
    return found


@pytest.mark.parametrize("mode", [tk.MODE_COVER, tk.MODE_STEP])
@pytest.mark.parametrize(("length", "pitch"), [(6, 6), (64, 66), (1, 2), (33, 100), (32, 32), (0, 8)])
def test_request_blocks(mode: int, length: int, pitch: int) -> None:
    rows = [7 + index * pitch for index in range(20)]
    found = blocks_of_rows(np.array(rows, dtype=np.int64), length, mode, 32)
    assert found.tolist() == slow_blocks(rows, length, mode, 32)


def test_rows_loop_order() -> None:
    rows = Rows(0, 10, 4, n0=2, s0=1000, n1=3, s1=40)
    assert rows.addresses(100, 8).tolist() == slow_blocks(
        [110, 150, 190, 1110, 1150, 1190], 4, tk.MODE_COVER, 8
    )
