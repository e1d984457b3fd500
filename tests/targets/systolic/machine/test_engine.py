"""The engine below the contract: numbers shared with upper layers, faults, growth, uncompiled kernels."""

import os
import subprocess
import sys

import numpy as np
import pytest

from npuviz.base.errors import SimulationError, TargetError
from npuviz.sim import stop
from npuviz.sim.dram.channel_hash import channel_hash_tables
from npuviz.sim.dram.view import CommandView
from npuviz.sim.events import EventBuffer
from npuviz.sim.network import simple_kernels as ik
from npuviz.sim.parts import watch_kernels as wk
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.machine.state_words import NEAR_PACKETS
from npuviz.targets.systolic.spec import SystolicSpec, make_spec
from npuviz.targets.systolic.tables import SystolicTables
from npuviz.trace import schema

FOREVER = 1 << 40


def small_spec(**settings: str) -> SystolicSpec:
    return make_spec("edge-8x8", None, {"mode": "parity", **settings})[0]


def one_tile(size: int = 1024, pieces: int = 1, waits_for: int = 1) -> SystolicTables:
    """A tile that loads `pieces` entries, multiplies with the first, and stores."""
    builder = ProgramBuilder()
    builder.begin_layer("layer", 0)
    entries = [builder.scratchpad_entry(index, index * size, size) for index in range(max(pieces, waits_for))]
    out = builder.accumulator_entry("out", 0, 256)

    def write(template: Template) -> None:
        for index in range(pieces):
            template.movin(entries[index], Rows(0, index * size, size), size=size, tensor=-1)
        template.gemm((entries[0], entries[waits_for - 1]), out, 8, tile=(8, 8, 8), size=256, tensor=-1)
        template.movout(out, Rows(1, 0, 64), tensor=-1)

    builder.add_tile(builder.template("tile", write), (0, 1 << 20), core=0)
    builder.end_layer()
    return builder.finish()


def test_numbers_agree_with_the_layers_above() -> None:
    assert (wk.CAUSE, wk.KIND_SHIFT, wk.NOT_TOLD) == (schema.CAUSE, schema.KIND_SHIFT, schema.NOT_TOLD)
    assert (wk.INTERVAL, wk.COUNTER, wk.FLOW, wk.LIFETIME) == (
        schema.INTERVAL,
        schema.COUNTER,
        schema.FLOW,
        schema.LIFETIME,
    )
    names = ("INSTRUCTION", "QUEUE", "MEMORY_READ", "MEMORY_WRITE", "NODE_START", "NODE_END")
    for name in names:
        assert getattr(wk, f"STOP_{name}") == getattr(stop, f"STOP_{name}")
    assert wk.STOP_WORDS == stop.STOP_WORDS


def test_one_tile_runs() -> None:
    engine = Engine(small_spec(), one_tile())
    result, _ = engine.advance(FOREVER, NO_STOPS, None)
    assert result == sk.RESULT_FINISHED
    assert int(engine.state[sk.CHIP.reads]) == 1024 // 32
    assert int(engine.state[sk.CHIP.writes]) == 2


@pytest.mark.parametrize(
    ("tables", "settings", "fault"),
    [
        (one_tile(size=40_000), {}, sk.FAULT_SPAD_FULL),
        (one_tile(), {"accum_spad_size": "1", "spad_size": "64", "core_width": "8"}, 0),
        (one_tile(pieces=1, waits_for=2), {}, sk.FAULT_HANG),
    ],
    ids=["scratchpad full", "fits", "waits for ever"],
)
def test_faults(tables: SystolicTables, settings: dict[str, str], fault: int) -> None:
    engine = Engine(small_spec(**settings), tables)
    result, _ = engine.advance(FOREVER, NO_STOPS, None)
    assert int(engine.state[sk.CHIP.fault]) == fault
    assert result == (sk.RESULT_FAULT if fault else sk.RESULT_FINISHED)
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == result, "a stopped machine stays stopped"


def test_loading_an_entry_twice_is_a_fault() -> None:
    builder = ProgramBuilder()
    builder.begin_layer("layer", 0)
    entry = builder.scratchpad_entry("a", 0, 64)

    def write(template: Template) -> None:
        for _ in range(2):
            template.movin(entry, Rows(0, 0, 64), size=64, tensor=-1)

    builder.add_tile(builder.template("tile", write), (0,), core=0)
    builder.end_layer()
    engine = Engine(small_spec(), builder.finish())
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_FAULT
    assert int(engine.state[sk.CHIP.fault]) == sk.FAULT_ENTRY_EXISTS


def test_growing_keeps_the_run() -> None:
    """Many loads at once overflow the first burst ring and the first packet pool."""
    spec = make_spec("tpuv4", None, {"mode": "parity", "dram_channels": "1"})[0]
    tables = one_tile(size=16384, pieces=200)
    engine = Engine(spec, tables)
    first = (engine.shape.bursts, engine.shape.pool)
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_FINISHED
    assert engine.shape.bursts > first[0]
    assert engine.shape.pool > first[1]
    assert int(engine.state[sk.CHIP.reads]) == 200 * 16384 // 32
    # One channel takes one request a cycle: nothing was lost or doubled.
    assert int(engine.state[sk.CHIP.final]) > 200 * 16384 // 32


def many_loads(cores: int, tiles: int) -> SystolicTables:
    """Tiles on all cores that load 24 KiB each, from places of their own, and store a row."""
    builder = ProgramBuilder()
    builder.begin_layer("layer", 0)
    size = 24 << 10
    entry = builder.scratchpad_entry("in", 0, size)
    out = builder.accumulator_entry("out", 0, 256)

    def write(template: Template) -> None:
        template.movin(entry, Rows(0, 0, size), size=size, tensor=-1)
        template.gemm((entry, entry), out, 8, tile=(8, 8, 8), size=256, tensor=-1)
        template.movout(out, Rows(1, 0, 4096), tensor=-1)

    template = builder.template("tile", write)
    for index in range(tiles):
        builder.add_tile(template, (index * size, (1 << 30) + index * 4096), core=index % cores)
    builder.end_layer()
    return builder.finish()


@pytest.mark.parametrize("cores", [8, 70])
def test_near_nodes_change_nothing(cores: int) -> None:
    settings = {"cores": str(cores), "dram_channels": "4", "dram_type": "ramulator2", "dram_device": "HBM2"}
    spec = small_spec(**settings, icnt_injection_ports_per_core="2")
    found: list[tuple[int, ...]] = []
    for has_near in (True, False):
        engine = Engine(spec, many_loads(cores, 3 * cores))
        noc = int(engine.state[sk.CHIP.noc])
        if not has_near:
            engine.state[noc + ik.NOC.near] = 0
        assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_FINISHED
        # More packets waited than there are near nodes.
        assert engine.state[noc + ik.NOC.fresh] > 2 * NEAR_PACKETS * 4
        assert engine.state[noc + ik.NOC.live] == 0
        assert engine.shape.dram is not None
        commands = CommandView(engine.shape.dram, engine.shape.at["dram"]).commands(engine.state)
        words = (sk.CHIP.final, sk.CHIP.reads, sk.CHIP.writes, sk.CHIP.last_ack)
        found.append((*(int(engine.state[word]) for word in words), *commands.values()))
    assert found[0] == found[1]


def test_a_buffer_smaller_than_one_cycle_is_refused() -> None:
    engine = Engine(small_spec(), one_tile())
    with pytest.raises(SimulationError, match="one cycle may need"):
        engine.advance(FOREVER, NO_STOPS, EventBuffer(engine.event_margin - 1))


def channels_of(addresses: np.ndarray, num_channels: int, request_bytes: int) -> np.ndarray:
    """Channel of each byte address, as kernels look it up."""
    tables, modulo = channel_hash_tables(num_channels)
    line = addresses // request_bytes
    channel = tables[0][line & 127] ^ tables[1][line >> 7 & 127] ^ tables[2][line >> 14 & 127]
    return channel % modulo if modulo else channel


@pytest.mark.parametrize("count", [1, 2, 5, 16, 32, 64])
def test_channel_hash_spreads(count: int) -> None:
    addresses = np.arange(1 << 14, dtype=np.int64) * 32
    channels = channels_of(addresses, count, 32)
    assert set(channels.tolist()) == set(range(count))
    shares = np.bincount(channels, minlength=count) / len(addresses)
    if count & (count - 1) == 0:
        assert np.allclose(shares, 1 / count)


def test_channel_hash_by_its_definition() -> None:
    """Ref: systolic.md section 7: bit 0 of the 16-channel hash adds bits 0 3 4 6 8 9 10 11."""
    tables, modulo = channel_hash_tables(16)
    assert modulo == 0
    for bit, expected in ((0, 0b0011), (1, 0b0110), (2, 0b1100), (12, 0b0010)):
        assert int(tables[bit // 7][1 << (bit % 7)]) == expected


def test_channel_counts_without_a_hash() -> None:
    with pytest.raises(TargetError, match="1 to 16, 32 and 64"):
        channel_hash_tables(48)


_PLAIN = """
import sys
from tests.targets.systolic.machine.test_engine import FOREVER, one_tile, small_spec
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.machine.state_words import NEAR_PACKETS
for settings in ({}, {"icnt_latency": "3"}, {"icnt_injection_ports_per_core": "4"}):
    engine = Engine(small_spec(**settings), one_tile(pieces=3))
    engine.advance(FOREVER, NO_STOPS, None)
    print(engine.state.sum(), engine.state[5])
"""


# Quicker: tests/contract/test_first_start.py.
@pytest.mark.sweep
def test_uncompiled_kernels_agree() -> None:
    """The kernels are plain Python when numba is switched off: the slow twin of the compiled ones."""
    found = [
        subprocess.run(
            [sys.executable, "-c", _PLAIN],
            env={**os.environ, "NUMBA_DISABLE_JIT": off},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for off in ("0", "1")
    ]
    assert found[0] == found[1]
    assert len(found[0].split()) == 6


def test_a_longer_dram_latency_makes_the_run_longer() -> None:
    ends: list[int] = []
    for latency in (10, 500):
        engine = Engine(small_spec(), one_tile())
        engine.set_dram_latency(latency)
        engine.advance(FOREVER, NO_STOPS, None)
        ends.append(int(engine.state[sk.CHIP.final]))
    given = Engine(small_spec(dram_latency="500"), one_tile())
    given.advance(FOREVER, NO_STOPS, None)
    assert ends[1] == int(given.state[sk.CHIP.final])
    # One load and one store follow each other: 490 DRAM cycles of 2.5 core cycles, twice.
    assert ends[1] - ends[0] == 2 * 490 * 5 // 2


def test_the_margin_covers_every_cycle() -> None:
    """Sixteen ports at twice the core's clock end many short loads in one cycle."""
    spec = make_spec("tpuv4-1core", None, {"mode": "parity", "icnt_freq": "2000"})[0]
    tables = one_tile(size=32, pieces=600)
    engine = Engine(spec, tables)
    buffer = EventBuffer(engine.event_margin)
    rows, most = 0, 0
    while True:
        before = int(engine.state[sk.CHIP.cycle])
        result, _ = engine.advance(before + 1, NO_STOPS, buffer)
        most = max(most, int(buffer.count[0]))
        rows += int(buffer.count[0])
        buffer.count[0] = 0
        if result == sk.RESULT_FINISHED:
            break
    assert rows > 1200
    assert 10 < most <= engine.event_margin


def test_rows_beyond_the_buffer_are_a_bug_that_is_told() -> None:
    engine = Engine(small_spec(), one_tile(pieces=8, size=64))
    engine.event_margin = 1
    with pytest.raises(SimulationError, match="needed more than 1"):
        engine.advance(FOREVER, NO_STOPS, EventBuffer(3))
