"""Sources of SDK 0.9 and before: colors name tasks, and some names were others."""

from pathlib import Path

import pytest

from npuviz.base.errors import NpuvizError
from npuviz.sim.stop import StopKind
from tests.targets.wavelet.csl.programs import write
from tests.targets.wavelet.running import variable
from tests.targets.wavelet.small import EASTWARD, compiled, run

TASKS = """
const first = @get_color(3);
const second = @get_color(25);
var seen: u16 = 0;
task one() void { seen = 2 * seen + @get_color_id(second); @activate(second); }
task two() void { seen += 1; sys.unblock_cmd_stream(); }
fn main() void { seen = 4; @activate(first); }
comptime { @bind_task(one, first); @bind_task(two, second); @rpc(d); }
"""
MESSAGE = """
const out = @get_dsd(fabout_dsd, .{ .extent = 2, .fabric_color = c });
const words = [2]u32 { 40, 2 };
var total: u32 = 0;
task take(word: u32) void { total += word; if (total == 42) { sys.unblock_cmd_stream(); } }
comptime { if (x == 1) { @bind_task(take, c); } }
fn main() void {
  if (x == 0) {
    @mov32(out, @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> words[i] }));
    sys.unblock_cmd_stream();
  }
}
"""


def test_a_task_has_a_color_and_activating_the_color_starts_it(tmp_path: Path) -> None:
    stop, machine = run(tmp_path, TASKS, arch="wse2")
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "seen") == 2 * 4 + 25 + 1
    assert any("@bind_task is of an earlier SDK" in text for text in machine.wafer.warnings)


def test_a_task_of_a_color_takes_its_wavelets_without_a_queue(tmp_path: Path) -> None:
    stop, machine = run(tmp_path, MESSAGE, 2, EASTWARD, "wse2")
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "total", 1) == 42


def test_a_task_could_be_called(tmp_path: Path) -> None:
    text = """
    var seen: u16 = 0;
    const again_id = @get_local_task_id(10);
    task again() void { seen += 1; if (seen == 1) { @activate(again_id); return; } sys.unblock_cmd_stream(); }
    fn main() void { again(); seen *= 5; }
    comptime { @bind_local_task(again, again_id); }
    """
    stop, machine = run(tmp_path, text, arch="wse2")
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "seen") == 6
    assert any("a call of a task is of an earlier SDK" in text for text in machine.wafer.warnings)
    with pytest.raises(NpuvizError, match="again is a task; tasks are activated, not called"):
        compiled(tmp_path, text)


def test_a_queue_was_its_number(tmp_path: Path) -> None:
    text = """
    const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = 3 });
    var found: u32 = 0;
    fn main() void {
      var n: u16 = 1;
      const in = @get_dsd(fabin_dsd, .{ .extent = n, .fabric_color = c, .input_queue = 2 });
      if (x == 0) { @mov32(out, @as(u32, 42)); } else { @mov32(&found, in); }
      sys.unblock_cmd_stream();
    }
    comptime { if (x == 1) { @initialize_queue(@get_input_queue(2), .{ .color = c }); } }
    """
    stop, machine = run(tmp_path, text, 2, EASTWARD, "wse2")
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "found", 1) == 42
    assert sum("a number as the output_queue is of an earlier SDK" in t for t in machine.wafer.warnings) == 1
    with pytest.raises(NpuvizError, match="_queue, found comptime_int"):
        compiled(tmp_path, text, 2, EASTWARD, "wse3")
    with pytest.raises(NpuvizError, match="output queue 6"):
        compiled(tmp_path, text.replace("= 3", "= 6"), 2, EASTWARD, "wse2")


@pytest.mark.parametrize(
    ("text", "arch", "reason"),
    [
        (TASKS.replace("@rpc(d);", ""), "wse3", "color 25 is out of range|is of SDK 0.9"),
        (TASKS.replace("25", "7"), "wse3", "is of SDK 0.9, for WSE-2"),
        ("fn main() void { @activate(c); }", "wse2", "@activate takes a local_task_id"),
        (
            "const o = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = @get_color(30) });"
            "fn main() void { @mov32(o, @as(u32, 1)); }",
            "wse2",
            "color 30 is no color of wavelets",
        ),
    ],
)
def test_what_today_is_wrong_stays_wrong(text: str, arch: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(NpuvizError, match=reason):
        compiled(tmp_path, text, arch=arch)


def test_old_libraries_have_another_folder(tmp_path: Path) -> None:
    text = """
    const old = @import_module("<memcpy_multi/memcpy>", .{ .LAUNCH = @get_color(4) });
    fn main() void { old.unblock_cmd_stream(); }
    """
    wafer = compiled(tmp_path, text, arch="wse2")
    assert any("<memcpy_multi/memcpy> is of an earlier SDK" in text for text in wafer.warnings)


def test_streams_that_the_layout_does_not_name_can_be_added_on_the_pe(tmp_path: Path) -> None:
    text = """
    const made = @import_module("<memcpy_multi/get_params>", .{ .width = 1, .height = 1, .MEMCPYD2H_1 = 2 });
    const given = made.get_params(0);
    const more = @concat_structs(given, .{ .MEMCPYH2D_1 = @get_color(5) });
    comptime {
      @comptime_assert(more.MEMCPYD2H_1 == 2);
      @comptime_assert(more.MEMCPYH2D_1 == @get_color(5));
      @comptime_assert(!@has_field(given, "MEMCPYH2D_1"));
    }
    fn main() void {}
    """
    compiled(tmp_path, text, arch="wse2")


def test_imports_are_found_beside_the_layout(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts", {"inner.csl": "const number: u16 = 5;"})
    write(tmp_path / "parts", {"outer.csl": 'const inner = @import_module("parts/inner.csl");'})
    text = 'const outer = @import_module("parts/outer.csl");\n'
    text += "comptime { @comptime_assert(outer.inner.number == 5); } fn main() void {}"
    compiled(tmp_path, text)


def test_a_register_can_be_chosen_at_compile_time(tmp_path: Path) -> None:
    text = """
    const source = @get_dsr(comptime if (x == 0) dsr_src1 else dsr_src0, 3);
    const target = @get_dsr(dsr_dest, 3);
    var data = [2]u16 { 8, 9 };
    var copy = @zeros([2]u16);
    fn main() void {
      @load_to_dsr(source, @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> data[i] }));
      @load_to_dsr(target, @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> copy[i] }));
      @mov16(target, source);
      sys.unblock_cmd_stream();
    }
    """
    _, machine = run(tmp_path, text)
    assert variable(machine, "copy").tolist() == [8, 9]


STREAMS = """
const made = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1, .MEMCPYH2D_1 = c });
const all = made.get_params(0);
const part = @import_module("part.csl", .{ .stream = all.MEMCPYH2D_%d });
var found: u16 = 0;
fn main() void { found = part.number; sys.unblock_cmd_stream(); }
"""
PART = "param stream: color = @get_color(32); const number: u16 = @get_int(stream);"


@pytest.mark.parametrize(("stream", "number"), [(1, 1), (2, 32)])
def test_a_stream_that_is_not_used_leaves_a_typed_param_at_its_default(
    stream: int, number: int, tmp_path: Path
) -> None:
    (tmp_path / "part.csl").write_text(PART)
    stop, machine = run(tmp_path, STREAMS % stream, arch="wse2")
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "found") == number


def test_a_dsr_goes_on_from_another_base_address(tmp_path: Path) -> None:
    text = """
    var rows = [6]f32 { 1.0, 2.0, 3.0, 4.0, 5.0, 6.0 };
    var sums = @zeros([4]f32);
    fn main() void {
      const from = @get_dsr(dsr_src1, 0);
      const to = @get_dsr(dsr_src0, 1);
      @load_to_dsr(from, @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> rows[i] }));
      @load_to_dsr(to, @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> sums[i] }));
      for (@range(i16, 2)) |i| {
        @set_dsr_base_addr(from, @ptrcast([*]f32, &(rows[2 * i + 2])));
        @set_dsr_base_addr(to, &sums[2 * i]);
        @fmacs(to, to, from, 10.0);
      }
      sys.unblock_cmd_stream();
    }
    """
    stop, machine = run(tmp_path, text, arch="wse2")
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "sums").tolist() == [30, 40, 50, 60]
    assert any("@set_dsr_base_addr is of an earlier SDK" in text for text in machine.wafer.warnings)


def test_notes_for_debugging_had_no_key(tmp_path: Path) -> None:
    text = """
    const notes = @import_module("<debug>", .{ .buffer_size = 4 });
    fn main() void { notes.trace_u16(5); sys.unblock_cmd_stream(); }
    """
    stop, _ = run(tmp_path, text)
    assert stop.kind is StopKind.FINISHED
