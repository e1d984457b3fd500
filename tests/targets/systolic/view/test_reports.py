"""Latency, roofline and energy of a run; what a search of tilings wins; banks of scratchpads."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from npuviz.base.progress import NoProgress
from npuviz.program.instruction import DetailTable
from npuviz.sim.machine import HasReports
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.compiler.tiling.choices import Choice, read_choices, write_choices
from npuviz.targets.systolic.hardware import energy
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.machine.machine import SystolicMachine
from npuviz.targets.systolic.machine.payload import Payload
from npuviz.targets.systolic.mapper import Mapper
from npuviz.targets.systolic.spec import make_spec
from npuviz.targets.systolic.target import TARGET
from npuviz.targets.systolic.view.layer_counts import layer_counts
from npuviz.targets.systolic.view.reports import OperatorRoof, roof_of
from tests.targets.systolic.true_cases import compile_model, save_model, weights

SAMPLES = Path(__file__).parents[4] / "sample_models"


def run(path: Path, **settings: str) -> SystolicMachine:
    machine = TARGET.build(
        *TARGET.load(LoadRequest(path, preset="edge-8x8-c4", settings=settings), NoProgress())
    )
    assert isinstance(machine, SystolicMachine)
    machine.advance(1 << 40, NO_STOPS, None)
    return machine


def table(machine: SystolicMachine, title: str) -> DetailTable:
    return next(each for each in machine.reports() if each.title.startswith(title))


def number(text: str) -> float:
    return float(text.split(" ")[0].replace("\u2009", ""))


def test_reports_of_a_run() -> None:
    machine = run(SAMPLES / "tiny_cnn.onnx")
    assert isinstance(machine, HasReports)
    requests = table(machine, "Requests")
    assert len(requests.rows) == 1
    # The machine waits for its last stores after the last layer.
    assert 0 < number(requests.rows[0][3]) <= machine.cycle
    roofline = table(machine, "Roofline (512 op/cycle")
    assert {row[0] for row in roofline.rows} >= {"conv1", "conv2", "classifier"}
    assert {row[-1] for row in roofline.rows} <= {"compute", "vector", "memory"}
    # Its last stores belong to a layer, though it ends when they are queued (F14).
    assert all(0 < float(row[8].rstrip("%")) <= 100 for row in roofline.rows)
    peaks = {peak.name: peak for peak in machine.peaks()}
    counters = machine.summary().counters
    assert peaks["DRAM, by operators"].used == (counters["reads"] + counters["writes"]) * 32
    assert all(peak.is_plausible for peak in peaks.values())
    assert all(number(row[6]) > 0 for row in roofline.rows if row[1] in ("Conv", "Gemm", "FusedGemm"))


def test_nothing_is_reported_before_it_ended() -> None:
    request = LoadRequest(SAMPLES / "tiny_cnn.onnx", preset="edge-8x8-c4")
    machine = TARGET.build(*TARGET.load(request, NoProgress()))
    assert isinstance(machine, SystolicMachine)
    assert [each.title for each in machine.reports()] == ["Requests"]
    assert machine.reports()[0].rows[0][2:] == ("-", "-", "-", "-")


def test_work_is_what_the_model_asks_for(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    path = save_model(tmp_path / "m.onnx", [node], {"x": (24, 40)}, {"y": (24, 56)}, [weights("w", 40, 56)])
    case = compile_model(path, make_spec("edge-8x8-c4")[0])
    work = layer_counts(case.compiled.tables, 2)
    assert work.macs.tolist() == [24 * 40 * 56]
    assert work.stores.tolist() == [24 * 56 * 2]
    assert work.loads[0] >= (24 * 40 + 40 * 56) * 2


def test_energy_is_counted_events_times_the_table() -> None:
    machine = run(SAMPLES / "tiny_cnn.onnx")
    rows = {row[0]: row for row in table(machine, "Energy (estimated)").rows}
    macs = sum(int(machine.read(f"Core[{core}].macs")) for core in range(4))
    assert number(rows["Array"][1]) == macs
    assert number(rows["Array"][3]) == pytest.approx(macs * energy.mac(2).picojoules / 1e6, abs=1e-3)
    counters = machine.summary().counters
    moved = (counters["reads"] + counters["writes"]) * 32
    assert number(rows["DRAM"][1]) == moved
    assert rows["DRAM"][2] == "162.50 pJ"
    total = sum(number(row[3]) for name, row in rows.items() if name != "Total")
    assert number(rows["Total"][3]) == pytest.approx(total, abs=0.01)
    sources = [each.source for each in (*energy.MAC.values(), energy.NOC_BYTE, *energy.DRAM_BYTE.values())]
    assert all("ISSCC" in text or "MICRO" in text or text.startswith("Assumed") for text in sources)


def test_roofs_are_those_of_the_description() -> None:
    roof = roof_of(make_spec("tpuv4")[0])
    assert roof.operations == 2 * 4 * 128 * 128
    assert roof.num_bytes == 16 * 32
    assert roof.vector == 4 * 65536 / 32
    found = OperatorRoof("product", "MatMul", 100, roof.operations * 50, roof.vector, 80 * 16 * 32)
    assert found.least_cycles(roof) == {"compute": 50, "vector": 1, "memory": 80}
    assert found.share(roof) == 0.8


def test_a_search_wins_what_it_says(tmp_path: Path) -> None:
    request = LoadRequest(SAMPLES / "tiny_cnn.onnx", preset="edge-8x8-c4")
    out = tmp_path / "tilings.json"
    result = TARGET.map(request, 3, out, NoProgress())
    assert result.default_cycles == run(SAMPLES / "tiny_cnn.onnx").cycle
    assert all(row.found_cycles <= row.default_cycles for row in result.rows)
    assert all(row.tried == 6 for row in result.rows)
    assert result.found_cycles < result.default_cycles
    machine = run(SAMPLES / "tiny_cnn.onnx", tilings=str(out))
    assert machine.cycle == result.found_cycles
    assert TARGET.check(machine, NoProgress()).num_failed == 0


def test_tilings_that_do_not_fit_are_not_used(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    path = save_model(tmp_path / "m.onnx", [node], {"x": (24, 40)}, {"y": (24, 56)}, [weights("w", 40, 56)])
    case = compile_model(path, make_spec("edge-8x8-c4")[0])
    mapper = Mapper(case.graph, case.spec, 2, NoProgress())
    assert mapper.search()[0].rows[0].operator == "product"
    out = tmp_path / "t.json"
    write_choices(out, {("matrix", 1, 24, 56, 40, 2, 0): Choice((1 << 20, 1 << 20, 40), "blocked")})
    assert read_choices(out) == {("matrix", 1, 24, 56, 40, 2, 0): Choice((1 << 20, 1 << 20, 40), "blocked")}
    spec = make_spec("edge-8x8-c4", settings={"tilings": str(out)})[0]
    again = compile_model(path, spec)
    assert any(note.code == "tilings" for note in again.compiled.notes)
    np.testing.assert_array_equal(again.compiled.tables.tiles, case.compiled.tables.tiles)


@pytest.mark.parametrize("flow", ["systolic_ws", "systolic_os", "systolic_is"])
def test_banks_cost_cycles_and_ports_give_them_back(flow: str) -> None:
    path, settings = SAMPLES / "tiny_cnn.onnx", {"core_type": flow}
    free = run(path, **settings)
    banked = run(path, spad_banks="4", **settings)
    ported = run(path, spad_banks="4", spad_ports="2", **settings)
    assert banked.cycle > free.cycle
    assert banked.summary().counters["bank_conflict_cycles"] > 0
    assert ported.cycle == free.cycle
    assert ported.summary().counters["bank_conflict_cycles"] == 0
    payload, other = banked.program.payload, free.program.payload
    assert isinstance(payload, Payload)
    assert isinstance(other, Payload)
    np.testing.assert_array_equal(payload.tables.code[:, tk.CODE.op], other.tables.code[:, tk.CODE.op])


@pytest.mark.parametrize("flow", ["systolic_os", "systolic_is"])
@pytest.mark.parametrize("model", ["tiny_cnn", "tiny_transformer"])
def test_other_dataflows_give_the_same_values(flow: str, model: str) -> None:
    machine = run(SAMPLES / f"{model}.onnx", core_type=flow)
    assert machine.is_finished
    result = TARGET.check(machine, NoProgress())
    assert result.num_failed == 0
    assert result.num_tensors > 10


def test_several_models_at_once_compute_the_same_values(tmp_path: Path) -> None:
    import json
    import shutil

    for name in ("tiny_cnn", "tiny_transformer"):
        (tmp_path / "models" / name).mkdir(parents=True)
        shutil.copy(SAMPLES / f"{name}.onnx", tmp_path / "models" / name)
    entries = [
        {"name": "tiny_cnn", "batch": 1},
        {"name": "tiny_transformer", "request_time": 0.001, "batch": 1, "partition_id": 1},
        {"name": "tiny_cnn", "request_time": 0.002, "batch": 2},
    ]
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"models": entries}))
    config = make_spec("edge-8x8-c4")[0].config
    assert config.num_cores == 4
    for scheduler in ("simple", "time_multiplex", "spatial_split"):
        machine = run(path, scheduler=scheduler)
        rows = table(machine, "Requests").rows
        assert [row[0] for row in rows] == ["tiny_cnn", "tiny_transformer", "tiny_cnn"]
        assert TARGET.check(machine, NoProgress()).num_failed == 0
        ends = [number(row[3]) for row in rows]
        assert (ends[1] > number(rows[2][2])) == (scheduler != "simple"), "requests run side by side"
