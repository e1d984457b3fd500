"""Who made what on a wafer, held against what changes when inputs do."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuviz.debug import stretches
from npuviz.debug.provenance import Provenance, Step, provenance_of
from npuviz.debug.session import Session
from npuviz.sim.description import Memory
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand
from tests.sweeps import quick
from tests.targets.wavelet import small
from tests.targets.wavelet.samples import heat, machine_of, row_sum

COUNT = 6
BODY = """
const math = @import_module("<math>");
const input = @get_input_queue(2);
const output = @get_output_queue(3);
var a = [6]f32{ 1.5, 2.5, 3.5, 4.5, 5.5, 6.5 };
var half = @zeros([6]f16);
var other = @zeros([6]f32);
var result = @zeros([6]f32);
var total = @zeros([1]f32);
var kept = @zeros([6]f32);
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> a[i] });
const half_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> half[i] });
const other_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> other[i] });
const back_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> other[5 - i] });
const result_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> result[i] });
const some_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[2 * i] });
const grid_dsd = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{2, 3} -> a[3 * i + j] });
var room = @zeros([4]f32);
const fifo = @allocate_fifo(room);
const in_dsd = @get_dsd(fabin_dsd, .{ .extent = 6, .fabric_color = c, .input_queue = input });
const out_dsd = @get_dsd(fabout_dsd, .{ .extent = 6, .fabric_color = c, .output_queue = output });
fn added(v: f32, w: f32) f32 { return v + w; }
fn squared(v: f32) f32 { return v * v + 1.0; }
fn main() void {
  %s
  sys.unblock_cmd_stream();
}
comptime {
  if (x == 0) { @initialize_queue(output, .{ .color = c }); }
  if (x == 1) { @initialize_queue(input, .{ .color = c }); }
}
"""
PAIR = "if (x == 0) { %s @fmovs(out_dsd, other_dsd); } else { @fmovs(other_dsd, in_dsd); %s }"
HALF = """
const two = .{ .simd_32 = true };
const packed_in = @get_dsd(fabin_dsd,
  .{ .extent = 6, .fabric_color = c, .input_queue = input, .simd_mode = two });
const packed_out = @get_dsd(fabout_dsd,
  .{ .extent = 6, .fabric_color = c, .output_queue = output, .simd_mode = two });
"""
PROGRAMS = {
    "vector": PAIR % ("@fmuls(other_dsd, a_dsd, 3.0);", "@fadds(result_dsd, other_dsd, other_dsd);"),
    "backwards": PAIR % ("@fmovs(other_dsd, a_dsd);", "@fmuls(result_dsd, back_dsd, 2.0);"),
    "scalar operand": PAIR % ("@fmuls(other_dsd, a_dsd, a[2]);", "@fmovs(result_dsd, other_dsd);"),
    "sum": PAIR
    % (
        "@fadds(&total[0], a[1], some_dsd); @fmovs(other_dsd, total[0]);",
        "@fmovs(result_dsd, other_dsd);",
    ),
    "calls": PAIR
    % (
        "for (@range(u16, 6)) |i| { other[i] = added(a[i], a[(i + 1) % 6]); }",
        "for (@range(u16, 6)) |i| { const v = other[i]; result[i] = math.sqrt(v) - v; }",
    ),
    "choice": PAIR
    % (
        "@fmovs(other_dsd, a_dsd);",
        "for (@range(u16, 6)) |i| { result[i] = if (i > 2) other[i] else other[5 - i]; }",
    ),
    "map": PAIR % ("@map(squared, a_dsd, other_dsd);", "@map(squared, other_dsd, result_dsd);"),
    "shape": PAIR % ("@fmovs(other_dsd, grid_dsd);", "@fnegs(result_dsd, other_dsd);"),
    "fifo": PAIR
    % (
        "@fmovs(fifo, a_dsd, .{ .async = true }); @fmovs(other_dsd, fifo);",
        "@fmovs(result_dsd, other_dsd);",
    ),
    "overwritten": PAIR
    % ("@fmovs(other_dsd, a_dsd); other[3] = 7.0; other[4] = a[0];", "@fmovs(result_dsd, other_dsd);"),
    "halves": "",
}
PACKED = """if (x == 0) { @fs2h(half_dsd, a_dsd); @fmovh(packed_out, half_dsd); }
  else { @fmovh(half_dsd, packed_in); @fh2s(result_dsd, half_dsd); }"""


def _machine(folder: Path, name: str) -> WaveletMachine:
    text = BODY % PROGRAMS[name] if name != "halves" else HALF + BODY % PACKED
    wafer = small.compiled(folder, text, 2, small.EASTWARD)
    return machine_of(wafer, [HostCommand(HOST_LAUNCH, "start")])


def _memory(machine: WaveletMachine, name: str, column: int) -> tuple[Memory, int]:
    program = machine.wafer.programs[int(machine.wafer.program_of[0, column])]
    symbol = next(each for each in program.symbols if each.name == name)
    memory = machine.description.memory_named(f"PE({column},0).memory")
    assert memory is not None
    return memory, symbol.address


def _wafer(session: Session) -> WaveletMachine:
    assert isinstance(session.machine, WaveletMachine)
    return session.machine


def _values(machine: WaveletMachine) -> np.ndarray:
    memory, address = _memory(machine, "result", 1)
    return np.frombuffer(machine.read_memory(memory.id, address, 4 * COUNT), np.float32).copy()


def _run(folder: Path, name: str, changed: int | None) -> np.ndarray:
    machine = _machine(folder, name)
    if changed is not None:
        memory, address = _memory(machine, "a", 0)
        machine.write_memory(memory.id, address + 4 * changed, np.float32(9.25).tobytes())
    assert machine.advance(1 << 30, NO_STOPS, None).kind.name == "FINISHED"
    return _values(machine)


@quick(every=3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_value_reaches_is_what_changes_with_it(tmp_path: Path, name: str) -> None:
    """Both ways: nothing that changes is missed, and nothing is named that does not change."""
    session = Session(_machine(tmp_path, name))
    session.run()
    found = provenance_of(session)
    result, place = _memory(_wafer(session), "result", 1)
    given, at = _memory(_wafer(session), "a", 0)
    writers = [found.writer(result, place + 4 * i) for i in range(COUNT)]
    as_it_is = _run(tmp_path, name, None)
    for i in range(COUNT):
        changes = _run(tmp_path, name, i) != as_it_is
        readers = found.readers(given, at + 4 * i).steps
        reached = found.reached([step.place for step in readers])
        named = [step is not None and bool(reached[step.place]) for step in writers]
        assert named == changes.tolist(), (name, i)


def _leaves(found: Provenance, root: Step) -> set[str]:
    """What a value was made from in the end: what the host gave, by PE, and what was there."""
    todo, seen, leaves = [root], {root.place}, set[str]()
    while todo:
        for each in found.origins(todo.pop().place):
            if each.step is None:
                leaves.add(each.name)
            elif each.step.unit == "host":
                leaves.add(f"{each.step.instruction.text} {each.through}")
            elif each.step.place not in seen:
                seen.add(each.step.place)
                todo.append(each.step)
    return leaves


def test_a_sum_over_pes_leads_back_to_what_the_host_sent_to_each() -> None:
    session = Session(row_sum(4))
    session.run()
    found = provenance_of(session)
    memory, address = _memory(_wafer(session), "result", 0)
    root = found.writer(memory, address)
    assert root is not None
    assert root.unit == "PE(0,0)"
    assert root.line.startswith("pe.csl:")
    assert _leaves(found, root) == {
        f"host command 0: copy to value PE({column},0) value+0" for column in range(4)
    }
    begin = found.origins(root.place)[0].step
    assert begin is not None
    sender = found.origins(begin.place)
    assert [each.through for each in sender] == ["word 0 of PE(3,0)"]


def test_the_readers_of_what_the_host_sent() -> None:
    session = Session(row_sum(3))
    memory, address = _memory(_wafer(session), "value", 1)
    session.run()
    found = provenance_of(session).readers(memory, address)
    assert found.writer is not None
    assert found.writer.unit == "host"
    assert [step.unit for step in found.steps] == ["PE(1,0)"]
    assert found.outputs == ("result (host command 2)",)
    assert found.overwritten is None


def test_in_the_middle_of_a_run_later_readers_are_known_as_far_as_it_was_simulated() -> None:
    session = Session(row_sum(3))
    session.run()
    end = session.cycle
    memory, address = _memory(_wafer(session), "value", 2)
    session.go_to(120)
    found = provenance_of(session)
    assert found.is_whole
    assert found.until == end
    reader = found.readers(memory, address).steps[0]
    assert reader.cycle > 120
    assert session.cycle == 120
    session.go_to(10)
    assert provenance_of(session).writer(memory, address) is None


def test_a_long_run_is_followed_around_the_present_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(heat(2, 2, cells=4, steps=6))
    session.run()
    session.go_to(session.cycle // 2)
    monkeypatch.setattr(stretches, "MOST_WORK", 400)
    found = provenance_of(session)
    assert 0 < found.begin < session.cycle < found.until < session.known_to
    assert not found.is_whole
    assert any("before cycle" in text for text in found.left_out)
    memory, address = _memory(_wafer(session), "heat", 0)
    root = found.writer(memory, address)
    assert root is not None
    assert found.begin <= root.cycle < session.cycle
    assert any(f"as it was at cycle {found.begin}" in leaf for leaf in _leaves(found, root))


def test_following_a_run_changes_nothing() -> None:
    straight, session = Session(heat()), Session(heat())
    straight.run()
    session.run()
    provenance_of(session)
    session.go_to(300)
    provenance_of(session)
    session.run()
    assert session.machine.digest() == straight.machine.digest()


def test_the_stretch_of_a_long_run_is_found_in_few_ways_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(heat(3, 3, cells=8, steps=12))
    session.run()
    now = session.cycle // 2
    session.go_to(now)
    most = _wafer(session).work_so_far() // 8
    monkeypatch.setattr(stretches, "MOST_WORK", most)
    ways: list[list[int]] = []
    usual = Session.at_cycles

    def counted(self: Session, cycles: Iterable[int], look: Callable[[], Any]) -> list[Any]:
        ways.append([*cycles])
        assert ways[-1] == sorted(ways[-1])
        return usual(self, ways[-1], look)

    monkeypatch.setattr(Session, "at_cycles", counted)
    found = provenance_of(session)
    assert len(ways) <= 4  # the run, each end closer, and the stretch
    assert session.cycle == now

    def work(cycle: int) -> int:
        return usual(session, [cycle], _wafer(session).work_so_far)[0]

    for begin, end in ((found.begin, now), (now, found.until)):
        assert most // 4 <= work(end) - work(begin) <= most // 2
