"""The compiled kernel against the slow simulator, on programs and machines of many shapes."""

import numpy as np
import pytest

from npuviz.sim.stop import NO_STOPS
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.parity.fitting import check_fits
from npuviz.targets.systolic.compiler.template import Pick, Rows, Template
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.spec import SystolicSpec, make_spec
from npuviz.targets.systolic.tables import SystolicTables
from tests.sweeps import quick, seeds
from tests.targets.systolic.slow_simulator import SlowSimulator

VECTOR = (
    tk.OP_ADD,
    tk.OP_MUL,
    tk.OP_EXP,
    tk.OP_ADDTREE,
    tk.OP_SOFTMAX,
    tk.OP_LAYERNORM,
    tk.OP_GELU,
    tk.OP_COMP,
)


def random_template(random: np.random.Generator, builder: ProgramBuilder, key: int) -> int:
    """A tile program with loads, products, vector work and stores over a few entries."""
    num_loads = int(random.integers(1, 5))
    loaded = [builder.scratchpad_entry((key, "in", i), -1, 1024) for i in range(num_loads)]
    outs = [builder.accumulator_entry((key, "out", i), -1, 512) for i in range(int(random.integers(1, 4)))]
    late = builder.scratchpad_entry((key, "late"), -1, 512)

    def write(template: Template) -> None:
        for entry in loaded:
            length, pitch = int(random.integers(1, 120)), int(random.integers(120, 400))
            mode = int(random.integers(0, 2))
            rows = Rows(
                0, int(random.integers(0, 64)), length, n0=int(random.integers(1, 9)), s0=pitch, mode=mode
            )
            template.movin(entry, rows, size=1024)
        for out in outs:
            # Every load is waited for: a tile never leaves while its data are still on their way.
            for index in range(max(int(random.integers(1, 5)), num_loads)):
                sources = (loaded[index % num_loads], loaded[int(random.integers(num_loads))])
                count = int(random.integers(1, 40))
                is_preload = bool(random.integers(0, 2))
                template.gemm(sources, out, count, tile=(8, 8, count), size=512, preload=is_preload)
            for _ in range(int(random.integers(0, 3))):
                opcode = int(random.choice(VECTOR))
                vbytes, m = int(random.integers(0, 3000)), int(random.integers(0, 5))
                template.vector(opcode, (out, 0), out, vbytes=vbytes, tile_m=m, size=512)
        for out in outs:
            rows = Rows(1, 8, int(random.integers(1, 90)), n0=int(random.integers(1, 6)), s0=200)
            picked = Pick(outs[int(random.integers(len(outs)))], 0, 64)
            template.movout(out, rows, pick=picked if random.random() < 0.4 else None)
        if random.random() < 0.4:
            template.vector(tk.OP_MUL, (outs[0], 0), outs[0], vbytes=400, tile_m=1, size=512)
            template.movin(late, Rows(0, 0, 100), size=512, pick=Pick(outs[0], 0, 640))
            template.movout(late, Rows(1, 4096, 100))

    return builder.template(key, write)


def random_program(seed: int) -> SystolicTables:
    """Layers of random tiles with all ways of naming a core, accumulation, skip tiles and launches."""
    random = np.random.default_rng(seed)
    builder = ProgramBuilder()
    for launch in range(int(random.integers(1, 4))):
        builder.begin_launch(earliest=int(random.integers(0, 3000)), delay=int(random.integers(0, 3)))
        for layer in range(int(random.integers(1, 4))):
            if random.random() < 0.2:
                builder.add_skip_layer("skip", num_tiles=int(random.integers(1, 4)))
                continue
            builder.begin_layer(f"{launch}.{layer}")
            templates = [random_template(random, builder, key) for key in range(int(random.integers(1, 4)))]
            for _ in range(int(random.integers(1, 8))):
                bases = random.integers(0, 1 << 20, size=2) // 256 * 256
                builder.add_tile(
                    templates[int(random.integers(len(templates)))],
                    bases.tolist(),
                    core=int(random.integers(-1, 5)),
                    accumulate=bool(random.random() < 0.3),
                    fused=int(random.integers(0, 2)),
                )
            builder.end_layer()
    return builder.finish()


COMMANDS = {"dram_type": "ramulator2"}
MACHINES: tuple[dict[str, str], ...] = (
    {},
    {"cores": "3", "icnt_injection_ports_per_core": "2", "dram_freq": "700"},
    {"cores": "4", "dram_channels": "16", "icnt_freq": "1000", "icnt_injection_ports_per_core": "16"},
    {"cores": "2", "dram_channels": "5", "icnt_latency": "4", "icnt_injection_ports_per_core": "3"},
    {"dram_channels": "32", "dram_freq": "1333", "core_freq": "333", "dram_latency": "0"},
    {"cores": "5", "dram_channels": "8", "icnt_latency": "0", "icnt_freq": "150"},
    {
        "cores": "2",
        "add_latency": "3",
        "add_tree_latency": "2",
        "exp_latency": "7",
        "vector_process_bit": "256",
    },
    {"cores": "2", "core_height": "16", "core_width": "4", "dram_req_size": "64", "dram_channels": "64"},
    COMMANDS | {"dram_device": "HBM2", "dram_channels": "16", "icnt_injection_ports_per_core": "16"},
    COMMANDS | {"dram_device": "DDR4", "dram_freq": "800"},
    COMMANDS | {"dram_device": "DDR4", "cores": "3", "icnt_latency": "4", "dram_freq": "300"},
    COMMANDS | {"dram_device": "LPDDR5", "cores": "4", "icnt_freq": "3000", "dram_channels": "1"},
    COMMANDS | {"dram_device": "LPDDR4X", "dram_channels": "5", "icnt_latency": "0", "icnt_freq": "150"},
    COMMANDS | {"dram_device": "HBM2E", "dram_refresh": "on", "dram_channels": "3", "cores": "2"},
    COMMANDS | {"dram_device": "DDR4", "dram_queue_depth": "4", "cores": "2"},
)


def machine(settings: dict[str, str]) -> SystolicSpec:
    return make_spec("edge-8x8", settings={"mode": "parity"} | settings)[0]


@pytest.mark.parametrize("number", range(len(MACHINES)))
@pytest.mark.parametrize("seed", seeds(2, 3, 20))
def test_kernel_equals_slow_simulator(number: int, seed: int) -> None:
    spec = machine(MACHINES[number])
    tables = random_program(seed * 100 + number)
    check_fits(tables, spec)
    slow = SlowSimulator(tables, spec)
    cycles = slow.run(limit=1_000_000)
    engine = Engine(spec, tables)
    engine.advance(1 << 40, NO_STOPS, None)
    state = engine.state
    assert int(state[sk.CHIP.cycle]) == cycles
    assert int(state[sk.CHIP.gemm_count]) == slow.counts["gemms"]
    assert int(state[sk.CHIP.reads]) == slow.counts["reads"]
    assert int(state[sk.CHIP.writes]) == slow.counts["writes"]


WITH_COMMANDS = [settings for settings in MACHINES if settings.get("dram_type") == "ramulator2"]


@quick(every=4)
@pytest.mark.parametrize("number", range(len(WITH_COMMANDS)))
@pytest.mark.parametrize("period", [401, 9000])
def test_a_clock_changed_on_the_way_equals_the_slow_simulator(number: int, period: int) -> None:
    spec = machine(WITH_COMMANDS[number])
    tables = random_program(4100 + number)
    check_fits(tables, spec)
    middle = SlowSimulator(tables, spec).run(limit=1_000_000) // 3
    cycles = SlowSimulator(tables, spec).run(limit=1_000_000, change=(middle, period))
    engine = Engine(spec, tables)
    engine.advance(middle, NO_STOPS, None)
    engine.set_dram_period(period)
    engine.advance(1 << 40, NO_STOPS, None)
    assert int(engine.state[sk.CHIP.cycle]) == cycles


@pytest.mark.parametrize("number", range(len(MACHINES)))
def test_a_clock_changed_at_the_begin_is_that_of_a_machine_built_with_it(number: int) -> None:
    spec = machine(MACHINES[number])
    other = machine(MACHINES[number] | {"dram_freq": "77"})
    tables = random_program(4200 + number)
    check_fits(tables, spec)
    ends = []
    for built in (spec, other):
        engine = Engine(built, tables)
        engine.set_dram_period(other.dram_period_ps)
        engine.advance(1 << 40, NO_STOPS, None)
        ends.append(int(engine.state[sk.CHIP.cycle]))
    assert ends[0] == ends[1] > 0
