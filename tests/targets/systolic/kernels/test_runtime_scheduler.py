"""The run-time schedulers: the kernel against the slow scheduler, and what each of them promises."""

import numpy as np
import pytest

from npuviz.sim.stop import NO_STOPS
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.parity.arrival import heap_order
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.spec import SystolicSpec, make_spec
from npuviz.targets.systolic.tables import SystolicTables
from tests.sweeps import quick, seeds
from tests.targets.systolic.kernels.slow_scheduler import SlowScheduled
from tests.targets.systolic.kernels.test_differential import random_template

SCHEDULERS = ("time_multiplex", "partition_cpu", "spatial_split")


def random_requests(seed: int) -> SystolicTables:
    """Requests of random arrival whose layers form random graphs."""
    random = np.random.default_rng(seed)
    builder = ProgramBuilder()
    earliest = 0
    for launch in range(int(random.integers(2, 5))):
        earliest += int(random.integers(0, 900))
        builder.begin_launch(earliest=earliest, partition=int(random.integers(0, 2)))
        first, edges = builder.num_layers, list[tuple[int, int]]()
        for layer in range(int(random.integers(1, 6))):
            edges += [(first + before, first + layer) for before in range(layer) if random.random() < 0.4]
            if random.random() < 0.2:
                builder.add_skip_layer("skip", num_tiles=int(random.integers(1, 4)))
                continue
            builder.begin_layer(f"{launch}.{layer}")
            template = random_template(random, builder, 0)
            preset = bool(random.integers(0, 2))
            for tile in range(int(random.integers(1, 8))):
                bases = random.integers(0, 1 << 20, size=2) // 256 * 256
                core = tile % 4 if preset else -1
                builder.add_tile(template, bases.tolist(), core=core, accumulate=bool(random.random() < 0.3))
            builder.end_layer()
        builder.add_edges(sorted(edges))
    return builder.finish()


def machine(scheduler: str, cores: int, mode: str = "parity") -> SystolicSpec:
    settings = {"mode": mode, "scheduler": scheduler, "cores": str(cores), "dram_channels": "4"}
    spec = make_spec("edge-8x8-c4", settings=settings)[0]
    # The last core alone is partition 1.
    spec.config.partition.update({core: int(core == cores - 1) for core in range(cores)})  # type: ignore[attr-defined]
    return spec


@quick(first=3)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("seed", seeds(4, 4, 40))
def test_kernel_equals_slow_scheduler(scheduler: str, seed: int) -> None:
    spec = machine(scheduler, cores=2 + seed % 3)
    tables = random_requests(seed)
    slow = SlowScheduled(tables, spec)
    cycles = slow.run(limit=1_000_000)
    engine = Engine(spec, tables)
    engine.advance(1 << 40, NO_STOPS, None)
    state = engine.state
    times = state[int(state[sk.CHIP.times]) :][: 2 * len(tables.layers)].reshape(-1, 2)
    assert {layer: int(end) for layer, end in enumerate(times[:, 1])} == slow.layer_ends
    assert int(state[sk.CHIP.cycle]) == cycles
    assert int(state[sk.CHIP.tiles_done]) == len(tables.tiles)


def test_ties_leave_the_heap_as_in_cpp() -> None:
    assert heap_order([0, 0, 0]) == [0, 1, 2]
    assert heap_order([0, 0, 0, 0]) == [0, 2, 1, 3]
    assert heap_order([5, 1, 3]) == [1, 2, 0]


def _accumulating(cores: int) -> tuple[SystolicTables, SystolicSpec]:
    builder = ProgramBuilder()
    for _ in range(2):
        builder.begin_launch()
        builder.begin_layer("layer")
        random = np.random.default_rng(7)
        template = random_template(random, builder, 0)
        for group in range(4):
            for part in range(3):
                builder.add_tile(template, (0, 4096 * group), core=group, accumulate=part > 0)
        builder.end_layer()
    return builder.finish(), machine("spatial_split", cores, "true")


def test_true_mode_keeps_the_tiles_of_an_accumulation_on_one_core() -> None:
    tables, spec = _accumulating(4)
    engine = Engine(spec, tables)
    seen: dict[int, set[int]] = {}
    while int(engine.state[sk.CHIP.status]) == sk.STATUS_RUNNING:
        engine.advance(int(engine.state[sk.CHIP.cycle]) + 1, NO_STOPS, None)
        for core in range(4):
            k = int(engine.state[sk.CHIP.cores]) + core * int(engine.state[sk.CHIP.core_words])
            for index in range(int(engine.state[k + sk.CORE.tiles])):
                slot = k + sk.CORE.slot + int(engine.state[k + sk.CORE.order + index]) * sk.SLOT.num_words
                seen.setdefault(int(engine.state[slot + sk.SLOT.tile]) // 3, set()).add(core)
    assert int(engine.state[sk.CHIP.tiles_done]) == len(tables.tiles)
    assert {len(cores) for cores in seen.values()} == {1}
    assert len({core for cores in seen.values() for core in cores}) == 4
    assert tables.tiles[:, tk.TILE.accumulate].sum() == 16
