import pytest

from tests.sweeps import quick
from tests.targets.systolic.parity_data import ReferenceRow, compile_row, count_requests, reference_rows
from tests.targets.systolic.slow_simulator import SlowSimulator, channel_of

ROWS = reference_rows()
FAST = [row for row in ROWS if row.config.endswith("dramsimple") and row.cycles < 10_000]


def test_all_rows_are_there() -> None:
    assert len(ROWS) == 13
    assert [row.cycles for row in FAST] == [1888, 9310]


@quick(but=["*resnet18map", "*lm_opt125m"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_counts(row: ReferenceRow) -> None:
    compiled, spec = compile_row(row.config, row.models_list)
    assert count_requests(compiled.tables, spec.req_size) == {
        "gemms": row.gemms,
        "reads": row.reads,
        "writes": row.writes,
        "tiles": row.tiles,
    }


@pytest.mark.parametrize("row", FAST, ids=lambda row: row.id)
def test_cycles_of_the_slow_simulator(row: ReferenceRow) -> None:
    compiled, spec = compile_row(row.config, row.models_list)
    simulator = SlowSimulator(compiled.tables, spec)
    assert simulator.run() == row.cycles
    assert simulator.counts == {"gemms": row.gemms, "reads": row.reads, "writes": row.writes}


def test_worked_example_of_the_layer_end() -> None:
    # Ref: systolic.md section 15.
    compiled, spec = compile_row("systolic_ws_128x128_c4_simple_noc_tpuv4_dramsimple", "matmul_256_256_256")
    simulator = SlowSimulator(compiled.tables, spec)
    simulator.run()
    assert simulator.layer_ends == {0: 1809}


def test_channels_are_spread_evenly() -> None:
    for channels in (2, 16, 32, 64):
        seen = [channel_of(32 * block, 32, channels) for block in range(channels * 8)]
        assert {seen.count(channel) for channel in range(channels)} == {8}
