"""Each hazard of wavelet-fabric.md section 11 that shows while a program runs, by one small program."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npuviz.sim.machine import HasHazards, HasReports
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.wafer import HOST_COPY_IN, HOST_LAUNCH, HostCommand
from tests.targets.wavelet.samples import heat, machine_of, row_sum
from tests.targets.wavelet.small import EASTWARD, WESTWARD, compiled, line_with, of_kind, run

ENDS = """
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 64, .output_queue = oq });
const in = @get_dsd(fabin_dsd, .{ .extent = 128, .input_queue = iq });
var buf = @zeros([128]f32);
const part = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 64 });
const all = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 128 });
comptime {
  if (x == 0) { @initialize_queue(oq, .{ .color = c }); } else { @initialize_queue(iq, .{ .color = c }); }
}
"""
RECEIVE = """
  } else {
    @fadds(all, all, all);
    @fmovs(all, in);
  }
  sys.unblock_cmd_stream();
}
"""
IGNORE = "\n }\n sys.unblock_cmd_stream(); }\n"
SEND = "fn main() void { if (x == 0) {\n"


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
@pytest.mark.parametrize("sample", [row_sum, heat])
def test_the_sample_programs_have_none(sample: Callable[..., WaveletMachine], arch: str) -> None:
    machine = sample(arch=arch)
    assert isinstance(machine, HasHazards)
    assert isinstance(machine, HasReports)
    assert machine.advance(100_000, NO_STOPS, None).kind is StopKind.FINISHED
    assert list(machine.hazards()) == []
    assert list(machine.reports()) == []


def test_two_live_operations_on_one_microthread(tmp_path: Path) -> None:
    text = (
        ENDS + SEND + " @fmovs(out, part, .{ .async = true });\n @fmovs(out, part, .{ .async = true }); //2"
    )
    stop, machine = run(tmp_path, text + RECEIVE, 2, EASTWARD)
    assert stop.kind is StopKind.FINISHED
    (hazard,) = of_kind(machine, "thread-busy")
    assert hazard.text.startswith(f"pe.csl:{line_with(text, '//2')}: PE(0,0): microthread 2 has a live")
    assert 0 < hazard.cycle < stop.cycle


def test_two_live_operations_on_one_output_queue(tmp_path: Path) -> None:
    text = ENDS + SEND + """ @fmovs(out, part, .{ .async = true, .ut_id = @get_ut_id(4) });
      @fmovs(out, part, .{ .async = true, .ut_id = @get_ut_id(5) }); //2"""  # fmt: skip
    _, machine = run(tmp_path, text + RECEIVE, 2, EASTWARD)
    (hazard,) = of_kind(machine, "queue-busy")
    assert f"pe.csl:{line_with(text, '//2')}: PE(0,0): output queue 2: color 1" in hazard.text


def test_two_live_operations_on_one_input_queue(tmp_path: Path) -> None:
    text = ENDS + SEND + """ @fmovs(out, part); @fmovs(out, part); } else {
    @fmovs(part, in, .{ .async = true, .ut_id = @get_ut_id(4) });
    @fmovs(part, in, .{ .async = true, .ut_id = @get_ut_id(5) }); //2"""  # fmt: skip
    _, machine = run(tmp_path, text + IGNORE, 2, EASTWARD)
    (hazard,) = of_kind(machine, "queue-busy")
    assert f"pe.csl:{line_with(text, '//2')}: PE(1,0): input queue 3 is read by two" in hazard.text


REBIND = """
const oq = @get_output_queue(2);
const out = @get_dsd(fabout_dsd, .{ .extent = 64, .output_queue = oq });
const config = @import_module("<tile_config>");
var buf = @zeros([64]f32);
const part = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 64 });
comptime { @initialize_queue(oq, .{ .color = c }); }
fn main() void {
  if (x == 0) {
    @fmovs(out, part, .{ .async = true });
    for (@range(u16, 40)) |i| { buf[0] = 1.0; }
    config.output_queue_config.encode_output_queue(oq, d); //2
  }
  sys.unblock_cmd_stream();
}
"""


def test_a_queue_is_rebound_while_it_holds_words(tmp_path: Path) -> None:
    _, machine = run(tmp_path, REBIND, 2, EASTWARD + WESTWARD)
    (hazard,) = of_kind(machine, "queue-not-empty")
    assert "PE(0,0): output queue 2 gets color 2 while it holds words" in hazard.text


def test_an_output_queue_changes_its_color_while_it_holds_words(tmp_path: Path) -> None:
    text = """
    const oq = @get_output_queue(2);
    const one = @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = oq, .fabric_color = c });
    const two = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = oq, .fabric_color = d });
    var buf = @zeros([64]f32);
    const part = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 4 });
    const first = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 1 });
    fn main() void {
      if (x == 0) { @fmovs(one, part);
        @fmovs(two, first); //2
      }
      sys.unblock_cmd_stream();
    }"""
    routes = EASTWARD + EASTWARD.replace(", c,", ", d,")
    stop, machine = run(tmp_path, text, 2, routes, "wse2")
    assert stop.kind is StopKind.FINISHED
    (hazard,) = of_kind(machine, "queue-not-empty")
    assert f"pe.csl:{line_with(text, '//2')}: PE(0,0): output queue 2: color 2 is sent" in hazard.text


TWO_SIDES = """
const out = @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = @get_output_queue(2), .fabric_color = c });
const in = @get_dsd(fabin_dsd, .{ .extent = 8, .input_queue = @get_input_queue(3), .fabric_color = c });
var buf = @zeros([8]f32);
const four = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 4 });
const eight = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 8 });
fn main() void { if (x == 1) { @fmovs(eight, in); } else { @fmovs(out, four); }
  sys.unblock_cmd_stream();
}
"""
INTO_THE_MIDDLE = """
  @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
  @set_color_config(2, 0, c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{WEST} } });
  @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{EAST, WEST}, .tx = .{RAMP} } });
"""


def test_arrivals_from_two_directions_at_once(tmp_path: Path) -> None:
    stop, machine = run(tmp_path, TWO_SIDES, 3, INTO_THE_MIDDLE, "wse2")
    assert stop.kind is StopKind.FINISHED
    (hazard,) = of_kind(machine, "two-arrivals")
    assert "PE(1,0): two wavelets of color 1" in hazard.text
    assert hazard.text.startswith("layout.csl:")


def test_a_word_from_a_port_that_the_route_does_not_accept(tmp_path: Path) -> None:
    text = ENDS.replace("64", "4") + SEND + " @fmovs(out, part, .{ .async = true });" + IGNORE
    stop, machine = run(tmp_path, text, 2, EASTWARD.replace("WEST}", "SOUTH}"))
    (hazard,) = of_kind(machine, "route-refused")
    assert (hazard.unit, hazard.cycle) == ("PE(1,0)", stop.cycle)
    assert hazard.text.startswith("layout.csl:")
    assert "words from WEST (rx)" in hazard.text


@pytest.mark.parametrize(
    ("first", "settings", "text"),
    [
        ("SOUTH", ".pos1 = .{ .rx = WEST }", "position 0, position 1 would accept them; a SWITCH_ADV would"),
        ("WEST", ".pos1 = .{ .rx = SOUTH }, .current_switch_pos = 1",
         "position 1, position 0 would accept them; no SWITCH_ADV leads back"),
        ("WEST", ".pos1 = .{ .rx = SOUTH }, .current_switch_pos = 1, .ring_mode = true",
         "position 1, position 0 would accept them; a SWITCH_ADV would"),
    ],
)  # fmt: skip
def test_a_switch_that_stands_where_it_refuses_words(
    tmp_path: Path, first: str, settings: str, text: str
) -> None:
    """The answer names the position that would take them: a switch that was never set back, mostly."""
    program = ENDS.replace("64", "4") + SEND + " @fmovs(out, part, .{ .async = true });" + IGNORE
    routes = EASTWARD.replace(
        "{ .rx = .{WEST}, .tx = .{RAMP} }",
        f"{{ .rx = .{{{first}}}, .tx = .{{RAMP}} }}, .switches = .{{ {settings} }}",
    )
    _, machine = run(tmp_path, program, 2, routes)
    (hazard,) = of_kind(machine, "route-refused")
    assert text in hazard.text


def test_words_that_nobody_takes(tmp_path: Path) -> None:
    text = ENDS.replace("64", "4") + SEND + " @fmovs(out, part, .{ .async = true });" + IGNORE
    _, machine = run(tmp_path, text, 2, EASTWARD)
    (hazard,) = of_kind(machine, "words-left")
    assert "PE(1,0): 4 words stay in input queue 3 of color 1" in hazard.text


def test_a_color_without_a_route_on_the_next_pe_is_a_fault(tmp_path: Path) -> None:
    text = ENDS + SEND + " @fmovs(out, part, .{ .async = true });" + IGNORE
    stop, _ = run(tmp_path, text, 2, EASTWARD.split(";")[0] + ";")
    assert stop.kind is StopKind.FAULT
    assert "color 1 arrives from WEST: this PE has no route for the color" in stop.detail


def test_words_that_leave_the_rectangle_are_dropped(tmp_path: Path) -> None:
    text = ENDS + SEND + " @fmovs(out, part, .{ .async = true });" + IGNORE
    stop, machine = run(tmp_path, text, 2, EASTWARD.replace("EAST}", "NORTH}"))
    assert stop.kind is StopKind.FINISHED
    (hazard,) = of_kind(machine, "leaves-rectangle")
    expected = "layout.csl:9: PE(0,0): a wavelet of color 1 leaves the rectangle by NORTH: it is dropped"
    assert hazard.text == expected
    assert hazard.level == "warning"


def test_a_dsd_beyond_its_array(tmp_path: Path) -> None:
    text = ENDS + "fn main() void {\n const moved = @increment_dsd_offset(part, 66, f32);\n"
    text += " @fadds(part, part, moved); //2\n sys.unblock_cmd_stream(); }"
    stop, machine = run(tmp_path, text)
    assert stop.kind is StopKind.FINISHED
    (hazard,) = of_kind(machine, "out-of-bounds")
    assert hazard.text.startswith(f"pe.csl:{line_with(text, '//2')}: PE(0,0): a DSD over buf ([128]f32 at")
    assert hazard.text.endswith("4 bytes behind its end")


def test_a_dsd_beyond_the_memory_is_a_fault(tmp_path: Path) -> None:
    text = ENDS + "fn main() void {\n const moved = @increment_dsd_offset(part, 13000, f32);\n"
    text += " @fadds(part, part, moved); //2\n sys.unblock_cmd_stream(); }"
    stop, _ = run(tmp_path, text)
    assert stop.kind is StopKind.FAULT
    assert stop.detail.startswith(f"pe.csl:{line_with(text, '//2')}: memory access at 0x")


def test_operands_of_different_lengths(tmp_path: Path) -> None:
    text = ENDS + "fn main() void {\n @fadds(part, part, all);\n sys.unblock_cmd_stream(); }"
    _, machine = run(tmp_path, text)
    (hazard,) = of_kind(machine, "operand-lengths")
    assert "one has 128 elements" in hazard.text


def test_a_missing_index(tmp_path: Path) -> None:
    text = ENDS.replace("64,", "4, .wavelet_index_offset = true,") + """
    var h = @zeros([4]i16); const hs = @get_dsd(mem1d_dsd, .{ .base_address = &h, .extent = 4 });
    """ + SEND + " @mov16(out, hs, .{ .async = true }); //2" + IGNORE  # fmt: skip
    text = text.replace(".extent = 64 }", ".extent = 4 }")
    _, machine = run(tmp_path, text, 2, EASTWARD)
    (hazard,) = of_kind(machine, "missing-index")
    assert hazard.text.startswith(
        f"pe.csl:{line_with(text, '//2')}: PE(0,0): an operand has wavelet_index_offset"
    )


TASK = """
const t = @get_local_task_id(9);
task go() void { sys.unblock_cmd_stream(); }
comptime { @bind_local_task(go, t); %s }
fn main() void {
 @activate(t);
 %s
}
"""


def test_an_activation_without_a_task(tmp_path: Path) -> None:
    text = "fn main() void {\n @activate(@get_local_task_id(9)); //2\n sys.unblock_cmd_stream(); }"
    _, machine = run(tmp_path, text)
    (hazard,) = of_kind(machine, "task-unbound")
    assert hazard.text.startswith(
        f"pe.csl:{line_with(text, '//2')}: PE(0,0): id 9 is activated and no local task"
    )


def test_an_activation_that_is_absorbed(tmp_path: Path) -> None:
    _, machine = run(tmp_path, TASK % ("", "@activate(t);"))
    (hazard,) = of_kind(machine, "activation-absorbed")
    assert "task go (id 9) is active already" in hazard.text


def test_a_task_that_stays_blocked_and_a_stream_that_is_never_unblocked(tmp_path: Path) -> None:
    stop, machine = run(tmp_path, TASK % ("@block(t);", ""))
    assert stop.kind is StopKind.DEADLOCK
    (blocked,) = of_kind(machine, "task-blocked")
    (stream,) = of_kind(machine, "stream-blocked")
    assert "task go (id 9) is active and stays blocked" in blocked.text
    assert stream.text.startswith("pe.csl:")
    assert "unblock_cmd_stream() was not called" in stream.text


def test_a_control_wavelet_for_an_unbound_task(tmp_path: Path) -> None:
    text = ENDS.replace("64, .out", "1, .control = true, .out").replace(
        "@initialize_queue(iq, .{ .color = c });", "@initialize_queue(iq, .{ .color = c }); @unblock(iq);"
    )
    text += SEND + " @mov32(out, @as(u32, 5) << 16, .{ .async = true });" + IGNORE
    _, machine = run(tmp_path, text, 2, EASTWARD)
    (hazard,) = of_kind(machine, "control-unbound")
    assert (hazard.unit, "names task id 5" in hazard.text) == ("PE(1,0)", True)


@pytest.mark.parametrize(("number", "runs"), [(5, 0), (3, 1)])
def test_a_control_wavelet_starts_the_data_task_only_by_its_id(
    tmp_path: Path, number: int, runs: int
) -> None:
    """Tasks share one table: id 3 is the data task of input queue 3, id 5 nothing."""
    text = ENDS.replace("64, .out", "1, .control = true, .out").replace(
        "@initialize_queue(iq, .{ .color = c });",
        "@initialize_queue(iq, .{ .color = c }); @bind_data_task(take, @get_data_task_id(iq));",
    )
    text += "var runs = @zeros([1]i32);\ntask take(word: u32) void { runs[0] += 1; }\n"
    text += SEND + f" @mov32(out, @as(u32, {number}) << 16, .{{ .async = true }});" + IGNORE
    _, machine = run(tmp_path, text, 2, EASTWARD)
    program = machine.wafer.programs[int(machine.wafer.program_of[0, 1])]
    symbol = next(symbol for symbol in program.symbols if symbol.name == "runs")
    assert np.frombuffer(machine.read_symbol(1, 0, symbol), np.int32).tolist() == [runs]
    assert len(of_kind(machine, "control-unbound")) == 1 - runs


def test_a_start_behind_an_operation_that_never_ends_is_a_deadlock(tmp_path: Path) -> None:
    """The words of the first operation never come: nothing polls until the cycle limit."""
    text = (
        ENDS
        + SEND
        + """ } else {
    @fmovs(all, in, .{ .async = true });
    @fmovs(all, in, .{ .async = true }); //2"""
    )
    stop, machine = run(tmp_path, text + IGNORE, 2, EASTWARD)
    assert stop.kind is StopKind.DEADLOCK
    assert stop.cycle < 50_000
    assert "waits for the end of the operation that microthread 3 still has" in stop.detail
    (hazard,) = of_kind(machine, "thread-busy")
    assert f"pe.csl:{line_with(text, '//2')}" in hazard.text


def test_a_control_wavelet_on_a_blocked_channel(tmp_path: Path) -> None:
    text = ENDS.replace("64, .out", "1, .control = true, .out")
    text += SEND + " @mov32(out, @as(u32, 5) << 16, .{ .async = true });" + IGNORE
    _, machine = run(tmp_path, text, 2, EASTWARD)
    (hazard,) = of_kind(machine, "control-blocked")
    assert "is blocked" in hazard.text


@pytest.mark.parametrize(("kind", "queue"), [("fabin", "input"), ("fabout", "output")])
def test_an_uninitialised_queue_is_a_fault(tmp_path: Path, kind: str, queue: str) -> None:
    other = f"const other = @get_dsd({kind}_dsd, .{{ .extent = 8, .{queue}_queue = @get_{queue}_queue(5) }});"
    operands = "part, other" if kind == "fabin" else "other, part"
    text = ENDS + other + f"\nfn main() void {{\n @fmovs({operands}); //2\n }}"
    stop, _ = run(tmp_path, text)
    assert stop.kind is StopKind.FAULT
    assert stop.detail.startswith(f"pe.csl:{line_with(text, '//2')}: ")
    assert "queue 5" in stop.detail


def test_a_failed_assertion_is_a_fault_at_its_line(tmp_path: Path) -> None:
    text = "var n: u16 = 3;\nfn main() void {\n @assert(n == 4); //2\n }"
    stop, _ = run(tmp_path, text)
    assert stop.kind is StopKind.FAULT
    assert (stop.unit, stop.detail) == ("PE(0,0).task", f"pe.csl:{line_with(text, '//2')}: assertion failed")


RING = """
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = oq });
const in = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq });
var buf = @zeros([4]f32);
const four = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 4 });
comptime {
  @initialize_queue(oq, .{ .color = if (x == 0) c else d });
  @initialize_queue(iq, .{ .color = if (x == 0) d else c });
}
fn main() void {
  @fmovs(four, in); //1
  @fmovs(out, four);
  sys.unblock_cmd_stream();
}
"""


def test_a_cyclic_wait_is_told_in_one_sentence_and_a_table(tmp_path: Path) -> None:
    stop, machine = run(tmp_path, RING, 2, EASTWARD + WESTWARD)
    line = line_with(RING, "//1")
    assert stop.kind is StopKind.DEADLOCK
    assert "a cyclic wait of 2 PEs: " in stop.detail
    first = f"PE(0,0) main thread (pe.csl:{line}) in fmovs, 4 left, waits for words of color 2 from PE(1,0)"
    second = f"PE(1,0) main thread (pe.csl:{line}) in fmovs, 4 left, waits for words of color 1 from PE(0,0)"
    assert f"{first}, and {second}" in stop.detail
    (table,) = machine.reports()
    assert [(row[0], row[-1]) for row in table.rows] == [
        ("PE(0,0)", "in the cycle"),
        ("PE(1,0)", "in the cycle"),
    ]


def test_16_bit_copies_lose_upper_halves(tmp_path: Path) -> None:
    text = """var h = @zeros([2]u16); var p: [*]u16 = &h; comptime { @export_symbol(p, "h"); }
    fn main() void { sys.unblock_cmd_stream(); }"""
    data = np.array([1, 0x20001], np.uint32).reshape(1, 1, 2)
    command = HostCommand(HOST_COPY_IN, "h", (0, 0, 1, 1), 2, data, is_16bit=True)
    names = '@export_name("h", [*]u16, true);'
    _, machine = run(tmp_path, text, 1, names, commands=[command, HostCommand(HOST_LAUNCH, "start")])
    (hazard,) = of_kind(machine, "upper-half-lost")
    assert (hazard.unit, hazard.kind) == ("host", "upper-half-lost")


def test_hazards_come_and_go_with_time(tmp_path: Path) -> None:
    text = (
        ENDS + SEND + " @fmovs(out, part, .{ .async = true });\n @fmovs(out, part, .{ .async = true }); //2"
    )
    _, machine = run(tmp_path, text + RECEIVE, 2, EASTWARD)
    end = machine.snapshot()
    (hazard,) = machine.hazards()
    fresh = run_to(tmp_path, text + RECEIVE, hazard.cycle)
    assert list(fresh.hazards()) == []
    early = fresh.snapshot()
    fresh.advance(hazard.cycle + 1, NO_STOPS, None)
    assert list(fresh.hazards()) == [hazard]
    fresh.restore(early)
    assert list(fresh.hazards()) == []
    fresh.restore(end)
    assert list(fresh.hazards()) == [hazard]


def run_to(folder: Path, text: str, cycle: int) -> WaveletMachine:
    machine = machine_of(compiled(folder, text, 2, EASTWARD), [HostCommand(HOST_LAUNCH, "start")])
    machine.advance(cycle, NO_STOPS, None)
    return machine


def test_a_hazard_in_a_loop_is_listed_once_and_pes_that_are_not_watched_report_too(tmp_path: Path) -> None:
    text = """var i: u16 = 0; fn main() void {
    while (i < 300) { @activate(@get_local_task_id(9)); i += 1; }
    sys.unblock_cmd_stream(); }"""
    wafer = compiled(tmp_path, text, 2)
    machine = machine_of(wafer, [HostCommand(HOST_LAUNCH, "start")], {"watch": "0,0"})
    assert machine.advance(1 << 40, NO_STOPS, None).kind is StopKind.FINISHED
    assert [hazard.unit for hazard in machine.hazards()] == ["PE(0,0)", "PE(1,0)"]
    assert len(machine.engine.log_rows()) == 2


WRAPS = """
var a: i16 = 30000; var b: i32 = 65536; var n: u16 = 65535; var q: i16 = 0; var r: i32 = 0; var m: u16 = 0;
fn main() void {
  q = a + 2767;
  q = a + 2768; //sum
  r = b * 32767;
  r = b * b; //product
  q = -30000 - a; //difference
  m = n + 1;
  sys.unblock_cmd_stream();
}
"""


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_signed_integers_that_wrap(tmp_path: Path, arch: str) -> None:
    stop, machine = run(tmp_path, WRAPS, arch=arch)
    assert stop.kind is StopKind.FINISHED
    found = {hazard.text for hazard in of_kind(machine, "overflow")}
    where = {word: f"pe.csl:{line_with(WRAPS, '//' + word)}" for word in ("sum", "product", "difference")}
    assert found == {
        f"{line}: PE(0,0): the {word} of two {kind} numbers does not fit in {kind}: it wraps"
        for (word, line), kind in zip(where.items(), ("i16", "i32", "i16"), strict=True)
    }
    assert all(hazard.level == "warning" for hazard in machine.hazards())
