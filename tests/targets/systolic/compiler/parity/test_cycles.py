"""ONNXim's reference runs through the real machine: every count of every row, exactly."""

import pytest

from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.target import TARGET
from tests.sweeps import quick
from tests.targets.systolic.parity_data import ONNXIM, ReferenceRow, reference_rows

SIMPLE = [row for row in reference_rows() if row.config.endswith("_dramsimple")]
DETAILED = [row for row in reference_rows() if not row.config.endswith("_dramsimple")]
MODELLED = [*SIMPLE, *DETAILED]


def test_there_are_rows() -> None:
    assert sorted(row.cycles for row in SIMPLE) == [1888, 9310, 25371, 262489, 457447, 942792, 1216092]
    assert sorted(row.cycles for row in DETAILED) == [1936, 9393, 25776, 264315, 426360, 459441]


@quick(but=["resnet18map*", "lm_opt125m*"])
@pytest.mark.parametrize("row", MODELLED, ids=lambda row: f"{row.models_list} {row.cycles}")
def test_counts_are_exact(row: ReferenceRow) -> None:
    request = LoadRequest(
        ONNXIM / "model_lists" / f"{row.models_list}.json",
        config=ONNXIM / "configs" / f"{row.config}.json",
        settings={"mode": "parity"},
    )
    machine = TARGET.build(*TARGET.load(request, NoProgress()))
    stop = machine.advance(1 << 40, NO_STOPS, None)
    counters = machine.summary().counters
    assert (stop.kind, stop.cycle) == (StopKind.FINISHED, row.cycles)
    assert counters["gemm_instructions"] == row.gemms
    assert counters["reads"] == row.reads
    assert counters["writes"] == row.writes
    assert counters["tiles"] == row.tiles


def test_worked_example() -> None:
    """Ref: systolic.md section 15, GEMM 256: one tile on core 1, 1,024 array cycles, core 0 idle."""
    request = LoadRequest(
        ONNXIM / "model_lists" / "matmul_256_256_256.json",
        config=ONNXIM / "configs" / "systolic_ws_128x128_c4_simple_noc_tpuv4_dramsimple.json",
        settings={"mode": "parity"},
    )
    machine = TARGET.build(*TARGET.load(request, NoProgress()))
    machine.advance(1 << 40, NO_STOPS, None)
    busy = {name: cycles for name, cycles, _ in machine.summary().units}
    assert machine.read("Core[1].macs") == 1024 * 128 * 128
    assert machine.read("Core[0].macs") == 0
    # The weights of the first product move in before any row streams.
    assert busy["Core[1].EX"] == 2 * 128 - 1 + 8 * 128
    assert busy["Core[0].EX"] == 0
    assert machine.read("GEMM.preloads") == 8
