"""`why` follows waits to their reason; `who` finds the writer of a word and the sender of a wavelet."""

from pathlib import Path

import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.commands import answer_of
from npuviz.debug.session import Session
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand
from tests.targets.wavelet.samples import heat, machine_of, row_sum
from tests.targets.wavelet.small import EASTWARD, compiled, line_with, run

SEND = """
const iq = @get_input_queue(2);
const oq = @get_output_queue(3);
const in_dsd = @get_dsd(fabin_dsd, .{ .extent = 40, .input_queue = iq });
const out_dsd = @get_dsd(fabout_dsd, .{ .extent = 40, .output_queue = oq });
var a = @zeros([40]f32);
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{40} -> a[i] });
const send_id = @get_local_task_id(10);
const done_id = @get_local_task_id(11);
task send() void {
  @fmovs(out_dsd, a_dsd, .{ .async = true });
  sys.unblock_cmd_stream();
}
task done() void { sys.unblock_cmd_stream(); }
fn begin() void {
  @activate(send_id);
}
fn main() void {
  if (x == 1) { %(receiver)s }
  else { %(sender)s }
}
comptime {
  @bind_local_task(send, send_id);
  @bind_local_task(done, done_id);
  if (x == 1) { @initialize_queue(iq, .{ .color = c }); } else { @initialize_queue(oq, .{ .color = c }); }
}
"""
RECEIVE = "@fmovs(a_dsd, in_dsd, .{ .async = true, .activate = done });"


def stuck(folder: Path, receiver: str, sender: str) -> tuple[Session, str]:
    """A session in its deadlock, and the text of the program."""
    text = SEND % {"receiver": receiver, "sender": sender}
    machine = machine_of(compiled(folder, text, 2, EASTWARD), [HostCommand(HOST_LAUNCH, "start")])
    session = Session(machine)
    assert session.run().kind is StopKind.DEADLOCK
    return session, text


def states(session: Session, unit: str) -> list[str]:
    return [row["state"] for row in answer_of(session, f"why {unit}")]


def test_a_thread_waits_for_a_line_behind_a_task_that_nobody_activated(tmp_path: Path) -> None:
    session, text = stuck(tmp_path, RECEIVE, "if (a[0] == 2.0) { begin(); }")
    first, last = states(session, "PE(1,0).ut2")
    assert "waits for words of color 1" in first
    assert f"from PE(0,0), sent by pe.csl:{line_with(text, '@fmovs(out_dsd')}" in first
    assert "task send is not active" in last
    assert f"pe.csl:{line_with(text, '@activate(send_id)')} would activate it" in last


def test_an_idle_element_waits_for_the_thread_whose_end_activates_its_task(tmp_path: Path) -> None:
    session, _ = stuck(tmp_path, RECEIVE, "")
    chain = states(session, "PE(1,0).task")
    assert "the end of microthread 2 activates it" in chain[0]
    assert chain[1].startswith("PE(1,0) microthread 2")
    assert chain[2].startswith("PE(0,0) is idle")


def test_a_blocked_task_is_named(tmp_path: Path) -> None:
    session, _ = stuck(tmp_path, RECEIVE, "@block(send_id); begin();")
    assert "task send is active, but blocked" in states(session, "PE(1,0).ut2")[-1]


def test_a_sender_that_is_held_back_leads_to_the_queue_that_nobody_reads(tmp_path: Path) -> None:
    session, text = stuck(tmp_path, "", "begin();")
    chain = states(session, "PE(0,0).ut3")
    assert "waits for room on color 1" in chain[0]
    assert f"(pe.csl:{line_with(text, '@fmovs(out_dsd')})" in chain[0]
    assert "PE(1,0) router" in chain[-1]
    assert "no operation or data task takes its words" in chain[-1]


@pytest.mark.parametrize("offset", [0, 4, 12])
def test_the_writer_of_every_element_is_the_last_instruction_that_changed_it(offset: int) -> None:
    session = Session(heat(cells=4))
    session.run()
    end, digest = session.cycle, session.machine.digest()
    found = answer_of(session, f"who PE(1,1).memory heat+{offset}")
    assert (session.cycle, session.machine.digest()) == (end, digest)
    address = int(found["address"], 16)
    cycle, plain = found["cycle"], heat(cells=4)

    def value(at: int) -> bytes:
        plain.advance(at, NO_STOPS, None)
        return plain.read_memory(session.description.memory_named("PE(1,1).memory").id, address, 4)  # type: ignore[union-attr]

    assert value(cycle - 1) != value(cycle)
    assert value(cycle) == value(end)
    assert found["source"].startswith("pe.csl:")


def test_what_the_host_copied_and_what_nobody_wrote() -> None:
    session = Session(row_sum())
    session.run()
    assert answer_of(session, "who PE(2,0).memory value")["source"] == "host command 0: copy to value"
    assert answer_of(session, "who PE(0,0).memory 0")["writer"] is None


def test_every_wavelet_has_a_sender_however_long_ago() -> None:
    long_ago, recent = (Session(row_sum(6)) for _ in range(2))
    for session in (long_ago, recent):
        session.breakpoints.add("wavelet at 3,0")
        session.run()
    trail = long_ago.machine.engine.trail  # type: ignore[attr-defined]
    at = long_ago.cycle

    def forgetful() -> np.ndarray:
        rows = trail()
        return rows[rows[:, 1] >= at - 5] if long_ago.cycle >= at else rows

    long_ago.machine.engine.trail = forgetful  # type: ignore[attr-defined]
    (found,), (known,) = (answer_of(session, "who 3,0") for session in (long_ago, recent))
    assert found["by"] == known["by"]
    assert found["sent_in"] == known["sent_in"]
    assert known["sent_from"] == "PE(2,0)"
    assert long_ago.cycle == at


def test_a_stop_at_a_wavelet_tells_what_it_is_and_who_sent_it() -> None:
    session = Session(row_sum())
    session.breakpoints.add("wavelet at 2,0")
    stop = session.run()
    assert "of color 1, sent from PE(1,0) by pe.csl:" in stop.detail
    assert "(f32 1)" in stop.detail


def test_units_go_to_their_next_step_and_back() -> None:
    session = Session(heat())
    machine = session.machine
    for name in ("PE(0,0).task", "PE(0,0).router", "host"):
        unit = session.description.unit_named(name)
        assert unit is not None
        session.restart()
        forward: list[int] = []
        while session.step_instruction(unit.id).kind is StopKind.UNTIL:
            forward.append(session.cycle)
        assert len(forward) > 2
        backward: list[int] = []
        while session.step_instruction_back(unit.id).kind is StopKind.UNTIL:
            backward.append(session.cycle)
        assert backward[::-1] == forward
    assert machine.cycle == 0


def place_answers() -> tuple[Session, Answer]:
    session = Session(row_sum(3, 2))
    session.go_to(150)
    return session, answer_of(session, "units 1,0..2,1")


def test_units_and_queues_of_a_rectangle() -> None:
    session, units = place_answers()
    places = {row["unit"].partition(".")[0] for row in units}
    assert places == {"PE(1,0)", "PE(2,0)", "PE(1,1)", "PE(2,1)"}
    queues = {row["queue"].partition(".")[0] for row in answer_of(session, "queues 2,1")}
    assert queues == {"PE(2,1)"}


def test_elements_that_are_not_watched_are_told_from_a_glance(tmp_path: Path) -> None:
    text = SEND % {"receiver": RECEIVE, "sender": ""}
    wafer = compiled(tmp_path, text, 2, EASTWARD)
    machine = machine_of(wafer, [HostCommand(HOST_LAUNCH, "start")], {"watch": "0,0"})
    session = Session(machine)
    session.run()
    assert [row["unit"] for row in answer_of(session, "units 1,0")] == ["PE(1,0)"]
    assert [row["queue"] for row in answer_of(session, "queues 1,0")] == ["PE(1,0).in2"]


def test_names_match_whole_words_and_short_types_are_known() -> None:
    session = Session(row_sum())
    assert [row["name"] for row in answer_of(session, "globals 0,0 value")] == ["value"]
    assert len(answer_of(session, "globals 0,0 val")) == 0
    assert answer_of(session, "mem PE(0,0).memory 0 8 f32")["dtype"] == "float32"


def test_memory_is_shown_by_the_name_of_a_variable() -> None:
    session = Session(heat())
    session.run(400)
    (heat_row,) = (row for row in answer_of(session, "globals 1,1 heat"))
    address = int(heat_row["address"], 16)
    whole = answer_of(session, "mem PE(1,1).memory heat")
    assert int(whole["address"], 16) == address
    by_address = answer_of(session, f"mem PE(1,1).memory {address} {whole['bytes']}")
    assert list(whole) == list(by_address)
    assert len(whole) > 0
    part = answer_of(session, "mem PE(1,1).memory heat+8 u16")
    assert (part["bytes"], part["dtype"]) == (whole["bytes"] - 8, "uint16")
    assert answer_of(session, "mem PE(1,1).memory heat+8 4")["bytes"] == 4


def test_a_place_stands_for_the_main_thread_of_its_element_and_colons_for_dots() -> None:
    session = Session(heat())
    session.run(400)
    for command in ("why {}", "next {}", "previous {}"):
        by_place = str(answer_of(session, command.format("1,1")))
        session.go_to(400)
        assert by_place == str(answer_of(session, command.format("PE(1,1).task"))), command
        session.go_to(400)
    assert answer_of(session, "units 0,0:1,1").rows == answer_of(session, "units 0,0..1,1").rows
    with pytest.raises(UsageError, match="2 x 2"):
        answer_of(session, "why 8,0")


TWO_STREAMS = """
const oq = @get_output_queue(2);
const first = @get_input_queue(3);
const second = @get_input_queue(4);
var b = @zeros([6]f32);
const all = @get_dsd(mem1d_dsd, .{ .base_address = &b, .extent = 6 });
const out = @get_dsd(fabout_dsd, .{ .extent = 6, .output_queue = oq, .fabric_color = %(sent)s });
const one = @get_dsd(fabin_dsd, .{ .extent = 6, .input_queue = first, .fabric_color = c });
const two = @get_dsd(fabin_dsd, .{ .extent = 6, .input_queue = second, .fabric_color = d });
const ended_id = @get_local_task_id(9);
task ended() void { sys.unblock_cmd_stream(); }
comptime {
  @bind_local_task(ended, ended_id);
  if (x == 1) { @initialize_queue(first, .{ .color = c }); @initialize_queue(second, .{ .color = d }); }
}
fn main() void {
  if (x == 0) { @fmovs(out, all); sys.unblock_cmd_stream(); }
  else { @fadds(all, one, two, .{ .async = true, .activate = ended_id }); }
}
"""


@pytest.mark.parametrize(("sent", "missing"), [("c", 2), ("d", 1)])
def test_of_two_streams_the_one_without_words_is_waited_for(tmp_path: Path, sent: str, missing: int) -> None:
    routes = EASTWARD + EASTWARD.replace(" c,", " d,")
    stop, machine = run(tmp_path, TWO_STREAMS % {"sent": sent}, 2, routes, "wse2")
    assert f"in fadds, 6 left, waits for words of color {missing} from PE(0,0)" in stop.detail
    assert f"waits for words of color {missing}" in states(Session(machine), "PE(1,0).ut3")[0]


PASSED_ON = """
const iq = @get_input_queue(2);
const oq = @get_output_queue(3);
var a = @zeros([20]u32);
var seen: u16 = 0;
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{20} -> a[i] });
const out_dsd = @get_dsd(fabout_dsd, .{ .extent = 20, .output_queue = oq });
task hear(word: u32) void {
  for (@range(u16, 2 + 6 * (3 - x))) |k| { a[k] += word; }
  seen += 1;
  if (seen == 20) { sys.unblock_cmd_stream(); }
}
fn main() void {
  if (x == 0) { @mov32(out_dsd, a_dsd); sys.unblock_cmd_stream(); }
}
comptime {
  if (x > 0) { @bind_data_task(hear, @get_data_task_id(iq)); @initialize_queue(iq, .{ .color = c }); }
  else { @initialize_queue(oq, .{ .color = c }); }
}
"""
TO_ALL = """
  @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
  @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP, EAST} } });
  @set_color_config(2, 0, c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP, EAST} } });
  @set_color_config(3, 0, c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
"""


def test_words_are_told_where_they_lie_among_the_places_asked_for(tmp_path: Path) -> None:
    """A multicast has gone on long since, and its words still wait in a queue on the way."""
    wafer = compiled(tmp_path, PASSED_ON, 4, TO_ALL)
    session = Session(machine_of(wafer, [HostCommand(HOST_LAUNCH, "start")]))
    session.breakpoints.add("queue PE(1,0).in2 full")
    session.run()
    for question in ("who PE(1,0).in2", "who 1,0"):
        found = [row["now"] for row in answer_of(session, question)]
        assert len(found) > 3
        assert sum(text.startswith("taken at PE(1,0) in cycle") for text in found) > 3
        assert not any("PE(2,0)" in text or "PE(3,0)" in text for text in found), question
    assert "at work in hear" in states(session, "PE(1,0).in2")[-1]


def test_a_tree_that_is_cut_says_how_to_see_more() -> None:
    session = Session(heat())
    session.run(400)
    short = answer_of(session, "origin PE(1,1).memory heat 1")
    assert "it goes on below: `origin PE(1,1).memory 0x" in short.note
    assert short.note.partition("`")[2].partition("`")[0].endswith(" 2")
    assert "goes on below" not in answer_of(session, "origin PE(1,1).memory heat 64").note
