"""Operands that end early: lengths of zero, destinations that are shorter, halves of words."""

from pathlib import Path

import pytest

from npuviz.sim.stop import StopKind
from tests.targets.wavelet.csl.executed import numbers
from tests.targets.wavelet.running import variable
from tests.targets.wavelet.small import EASTWARD, of_kind, run

COPY = """
var data = [6]i32 { 1, 2, 3, 4, 5, 6 };
var both = [6]i32 { 0, 0, 0, 0, 70, 80 };
const source = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> data[i] });
const target = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> both[i] });
fn main() void {
  @mov32(target, source);
  for (@range(u16, 6)) |i| { out[i] = both[i]; }
}
"""
RECEIVE = """
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
var buf = @zeros([8]u16);
const mem = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> buf[i] });
comptime {
  if (x == 0) { @initialize_queue(oq, .{ .color = c }); } else { @initialize_queue(iq, .{ .color = c }); }
}
"""


def test_a_shorter_destination_ends_the_operation(tmp_path: Path) -> None:
    assert numbers(tmp_path, COPY, 6) == [1, 2, 3, 4, 70, 80]


@pytest.mark.parametrize("how", [".{}", ".{ .async = true, .activate = after }"])
def test_a_receive_of_length_zero_ends_at_once(how: str, tmp_path: Path) -> None:
    text = """
    const in = @get_dsd(fabin_dsd, .{ .extent = 0, .input_queue = iq });
    const id = @get_local_task_id(9);
    var ends: u16 = 0;
    task after() void { ends = 1; sys.unblock_cmd_stream(); }
    comptime { @bind_local_task(after, id); }
    fn main() void { if (x == 1) { @mov16(mem, in, HOW); NEXT } else { sys.unblock_cmd_stream(); } }
    """.replace("HOW", how).replace("NEXT", "" if "async" in how else "@activate(id);")
    stop, machine = run(tmp_path, RECEIVE + text, 2, EASTWARD)
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "ends", 1) == 1


MODES = ["simd_32", "simd_64", "simd_32_or_64", "simd_max", "simd_off"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("extent", ["8", "eight"], ids=["constant", "at run time"])
def test_extents_count_the_halves_of_words(mode: str, extent: str, tmp_path: Path) -> None:
    text = """
    var eight: u16 = 8;
    fn main() void {
      const out = @get_dsd(fabout_dsd, .{ .extent = N, .output_queue = oq, .simd_mode = .{ .MODE = true } });
      const in = @get_dsd(fabin_dsd, .{ .extent = N, .input_queue = iq, .simd_mode = .{ .MODE = true } });
      if (x == 0) {
        for (@range(u16, 8)) |i| { buf[i] = 10 + i; }
        @mov16(out, mem);
      } else {
        @mov16(mem, in);
      }
      sys.unblock_cmd_stream();
    }
    """.replace("MODE", mode).replace("N,", f"{extent},")
    stop, machine = run(tmp_path, RECEIVE + text, 2, EASTWARD)
    assert stop.kind is StopKind.FINISHED
    assert variable(machine, "buf", 1).tolist() == list(range(10, 18))
    assert of_kind(machine, "words-left") == []
    assert of_kind(machine, "operand-lengths") == []


def test_two_words_a_step_leave_the_datapath_to_others(tmp_path: Path) -> None:
    text = """
    var words = @zeros([128]u16);
    var own = @zeros([512]u16);
    const message = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{128} -> words[i] });
    const all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{512} -> own[i] });
    const out = @get_dsd(fabout_dsd, .{
      .extent = 127, .output_queue = oq, .simd_mode = .{ .MODE = true } });
    const in = @get_dsd(fabin_dsd, .{ .extent = 127, .input_queue = iq, .simd_mode = .{ .MODE = true } });
    var end = @zeros([3]u16);
    const time = @import_module("<time>");
    fn main() void {
      if (x == 0) {
        for (@range(u16, 128)) |i| { words[i] = 10 + i; }
        time.enable_tsc();
        @mov16(out, message, .{ .async = true, .priority = .{ .high = true } });
        @add16(all, all, 1);
        @add16(all, all, 1);
        time.get_timestamp(&end);
      } else {
        @mov16(message, in);
      }
      sys.unblock_cmd_stream();
    }
    """
    cycles: dict[str, int] = {}
    for mode in ("simd_32", "simd_32_or_64", "simd_64"):
        (tmp_path / mode).mkdir()
        program = RECEIVE + text.replace("MODE", mode)
        stop, machine = run(tmp_path / mode, program, 2, EASTWARD, "wse2")
        assert stop.kind is StopKind.FINISHED
        assert variable(machine, "words", 1).tolist()[:127] == list(range(10, 137))
        cycles[mode] = int(variable(machine, "end")[0])
    assert 25 <= cycles["simd_32"] - cycles["simd_64"] <= 40
    assert cycles["simd_64"] <= cycles["simd_32_or_64"] <= cycles["simd_32"]


def test_calls_nest_as_deep_as_their_frames_fit(tmp_path: Path) -> None:
    text = """
    fn sum(n: i32) i32 { if (n == 0) { return 0; } return n + sum(n - 1); }
    fn main() void { out[0] = sum(100); }
    """
    assert numbers(tmp_path, text) == [5050]


def test_frames_of_recursive_calls_may_take_all_of_the_memory(tmp_path: Path) -> None:
    text = """
    fn sum(n: i32) i32 {
      var part = [4]i32 { n, n, n, n };
      const p = &part;
      if (n == 0) { return 0; }
      return p.*[0] + sum(n - 1);
    }
    fn main() void { out[0] = sum(60); }
    """
    assert numbers(tmp_path, text) == [1830]


def test_a_control_word_ends_an_operation_and_stays_for_the_next(tmp_path: Path) -> None:
    """The destination is one shorter than the source, which leaves room for the word that ends it."""
    text = """
    const ctrl = @import_module("<control>");
    const iq = @get_input_queue(2); const oq = @get_output_queue(2);
    const out = @get_dsd(fabout_dsd, .{ .extent = 3, .fabric_color = c, .output_queue = oq });
    const mark = @get_dsd(fabout_dsd,
      .{ .extent = 1, .fabric_color = c, .output_queue = oq, .control = true });
    const in = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c, .input_queue = iq });
    const one = @get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = c, .input_queue = iq });
    var words = [3]u32 { 5, 6, 7 };
    var got = @zeros([4]u32);
    var behind: u32 = 1;
    const words_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> words[i] });
    const got_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> got[i] });
    const last = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> got[i + 3] });
    task ended() void { @mov32(last, one); sys.unblock_cmd_stream(); }
    comptime {
      @bind_local_task(ended, @get_local_task_id(9));
      if (x == 1) { @initialize_queue(iq, .{ .color = c }); }
      else { @initialize_queue(oq, if (@is_arch("wse3")) .{ .color = c } else .{}); }
    }
    fn main() void {
      if (x == 0) {
        @mov32(out, words_dsd);
        @mov32(mark, ctrl.encode_single_payload(ctrl.opcode.NOP, false, {}, 0));
        sys.unblock_cmd_stream();
      } else {
        @mov32(got_dsd, in, .{ .async = true, .on_control = .{ .activate = @get_local_task_id(9) } });
      }
    }
    """
    stop, machine = run(tmp_path, text, 2, EASTWARD, "wse2")
    assert stop.kind is StopKind.FINISHED, stop
    got = variable(machine, "got", 1).tolist()
    assert got[:3] == [5, 6, 7]
    assert got[3] != 0
