"""The public API gives plain values, answers questions and refuses what it cannot do in one line."""

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuviz
from npuviz.base.errors import NpuvizError, UsageError
from npuviz.sim.stop import StopKind, StopReason
from tests.workbench.toy_registry import install_toy, toy_file

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_tensor(dst=x, data1=x, data2=x, op=nl.add)
    nisa.dma_copy(dst=out, src=x)
    return out
"""


@pytest.fixture(scope="module")
def network() -> Generator[npuviz.DebugSession]:
    with npuviz.open("tiny_cnn.onnx", settings={"batch": 1}) as session:
        session.run()
        yield session


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> npuviz.DebugSession:
    install_toy(monkeypatch)
    return npuviz.open(toy_file(tmp_path))


def test_importing_npuviz_imports_nothing_else():
    names = "m for m in sys.modules if m.startswith(('npuviz.', 'numpy'))"
    code = f"import sys, npuviz; dir(npuviz); print(sorted({names}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_stub_names_what_there_is():
    stub = Path(npuviz.__file__).with_suffix(".pyi").read_text()
    for name in ("Answer", "DebugSession", "OpenArguments", "Picture", "open"):
        assert f" as {name}\n" in stub or f"\n{name} = " in stub
        assert getattr(npuviz, name) is not None
    with pytest.raises(AttributeError, match="opne"):
        npuviz.opne  # type: ignore[attr-defined]  # noqa: B018


def test_verbs_move_both_ways(network: npuviz.DebugSession):
    end = network.goto(1 << 40).cycle
    assert network.is_finished
    assert network.back(10).cycle == end - 10
    assert network.goto(100).cycle == network.cycle == 100
    assert network.step(5).cycle == 105
    assert network.run_to("op conv2").kind is StopKind.UNTIL
    begin = network.cycle
    assert network.goto(begin + 50).cycle == begin + 50
    assert network.run_back_to("op conv2").cycle == begin
    number = network.break_on("op conv2 ends")
    hit = network.run()
    assert hit.kind is StopKind.BREAKPOINT
    assert hit.breakpoints == (number,)
    assert [row["hits"] for row in network.breakpoints] == [1]
    network.delete(number)
    assert len(network.breakpoints) == 0
    assert network.run_back().cycle == 0


def test_questions_are_those_of_the_text_debugger(network: npuviz.DebugSession):
    network.goto(1 << 40)
    output = network.program.graph.tensors[network.program.graph.outputs[0]].name
    writer = network.who(output)
    assert set(network.tensors[0]) == {"tensor", "kind", "shape", "dtype", "memory", "address", "bytes"}
    assert writer["writer"] == network.who((writer["memory"], int(writer["address"], 16)))["writer"]
    assert writer["writer"] == network.do(f"who {writer['memory']} {writer['address']}")["writer"]
    network.goto(1000)
    chain = network.why("Core[0].EX", 900)
    assert chain[0]["unit"] == "Core[0].EX"
    assert chain[0]["from"] <= 900
    assert {row["unit"] for row in network.units} == {unit.name for unit in network.description.units}
    assert "<table>" in chain._repr_html_()
    assert "Core[0].EX" in str(chain)


def test_the_critical_path_is_as_long_as_the_run(network: npuviz.DebugSession):
    network.run()
    found = network.explain()
    causes = {name: cycles for name, cycles in found.pairs.items() if name != "cycles"}
    assert found["cycles"] == sum(causes.values()) == network.cycle
    shares = [row["share"] for row in found]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) < 1.001


def test_values_are_those_of_the_reference(network: npuviz.DebugSession):
    network.goto(1 << 40)
    assert network.check().is_passed
    tensor = network.program.graph.tensors[network.program.graph.outputs[0]]
    values = network.tensor(tensor.name)
    assert values.shape == tensor.shape
    place = network.program.memory_map.of_tensor(tensor.id)
    assert place is not None
    memory = next(m.name for m in network.description.memories if m.id == place.memory)
    data = network.memory(memory, place.address, place.size_bytes, network.description.memories[-1].dtype)
    np.testing.assert_allclose(data[: values.size].astype(float), values.reshape(-1).astype(float))


def test_sql_over_memory_is_sql_over_the_bundle(tmp_path: Path):
    questions = [
        "select role, sum(cycles), count(*), sum(node_id), sum(instruction) from slices group by 1 "
        "order by 1",
        "select track, max(cycle), sum(value), count(*) from samples group by 1 order by 1",
        "select count(*), sum(address), sum(tensor_id) from residence",
        "select count(*), sum(source), sum(cycle) from flows",
        "select name, busy, waiting, idle from unit_times order by name",
    ]
    with npuviz.open("tiny_cnn.onnx", settings={"batch": 1}, record=tmp_path / "run.npuviz") as session:
        session.run()
        live = [session.query(sql).rows for sql in questions]
        folder = session.publish()
    assert folder is not None
    with npuviz.open(folder) as trace:
        assert [trace.query(sql).rows for sql in questions] == live
        assert all(live)
        assert "trace" in repr(trace)
        with pytest.raises(UsageError, match="no machine"):
            trace.run()


def test_comparing_tells_where_two_runs_differ(network: npuviz.DebugSession):
    network.goto(1 << 40)
    with npuviz.open("tiny_cnn.onnx", settings={"batch": 2}) as other:
        other.run()
        found = network.compare(other)
        assert not found["is_equal"]
        assert found["cycles_b"] == other.cycle
        assert found[0]["change"] == found[0]["busy_b"] - found[0]["busy_a"]
    assert network.compare(network)["is_equal"]


def test_kernels_take_arrays_and_shapes(tmp_path: Path):
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    a = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    with npuviz.open(file, inputs={"a": a}) as session:
        session.run()
        name = session.program.graph.tensors[session.program.graph.outputs[0]].name
        np.testing.assert_array_equal(session.tensor(name), 2 * a)
    with npuviz.open(file, shapes={"a": (128, 32)}, preset="trn1") as session:
        assert session.run().kind is StopKind.FINISHED


def test_hazards_are_a_table_in_sql_over_memory_and_over_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    install_toy(monkeypatch)
    sql = "select kind, level, instruction, cycle, other from hazards order by cycle"
    file = toy_file(tmp_path, json.dumps({"hazard_above": 300}))
    with npuviz.open(file, record=tmp_path / "run.npuviz") as session:
        assert session.query(sql).rows == ()
        session.run()
        live = session.query(sql).rows
        folder = session.publish()
    assert [row[:3] for row in live] == [("range", "error", n) for n in (98, 102, 110, 122)]
    assert [row[4] for row in live] == [None] * 4
    assert folder is not None
    with npuviz.open(folder) as trace:
        assert trace.query(sql).rows == live


def test_what_cannot_be_done_is_said_in_one_line(toy: npuviz.DebugSession, tmp_path: Path):
    refusals = [
        lambda: toy.why("nobody"),
        lambda: toy.who("nothing"),
        lambda: toy.who("nothing 12"),
        lambda: toy.who(("nothing", 12)),
        lambda: toy.tensor("nothing"),
        lambda: toy.memory("nothing", 0, 1),
        lambda: toy.goto(-1),
        lambda: toy.step(0),
        lambda: toy.run(until=-1),
        lambda: toy.delete(99),
        lambda: toy.break_on("no condition"),
        lambda: toy.query("select"),
        lambda: toy.read("nothing"),
        lambda: toy.next("nobody"),
        lambda: toy.do("nonsense"),
        lambda: toy.check(),
        lambda: npuviz.open(tmp_path / "missing.onnx"),
        lambda: npuviz.open(toy.path, seed=-1),
        lambda: npuviz.open(toy.path, config=tmp_path / "missing.json"),
        lambda: npuviz.open(toy.path, settings={"a": {1: 2}}),
    ]
    for refused in refusals:
        with pytest.raises(NpuvizError) as caught:
            refused()
        assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match="no argument 'traget'"):
        npuviz.open(toy.path, traget="toy")  # type: ignore[call-arg]
    assert toy.run().kind is StopKind.FINISHED


def test_an_edited_machine_has_no_picture(toy: npuviz.DebugSession):
    toy.run(until=3)
    probe = next(probe for probe in toy.session.machine.probes if probe.writable)
    toy.write(probe.id, toy.read(probe.id))
    with pytest.raises(UsageError, match="values were written"):
        toy.picture()


def test_ctrl_c_stops_at_a_whole_cycle(toy: npuviz.DebugSession, monkeypatch: pytest.MonkeyPatch):
    before = signal.getsignal(signal.SIGINT)
    advance = toy.session.machine.advance

    def pressed(*arguments: Any) -> StopReason:
        reason = advance(*arguments)
        signal.raise_signal(signal.SIGINT)
        return reason

    monkeypatch.setattr(toy.session.machine, "advance", pressed)
    with pytest.raises(KeyboardInterrupt):
        toy.step(200)
    assert 0 < toy.cycle < 200
    assert toy.stop.kind is StopKind.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.undo()
    assert toy.run().kind is StopKind.FINISHED
