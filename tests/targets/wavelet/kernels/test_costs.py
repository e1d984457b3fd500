"""What depends on more than the operation: sources in memory, constants, arguments known when compiling."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.wavelet.running import variable
from tests.targets.wavelet.small import compiled, run

HEAD = """
const tsc = @import_module("<time>");
const ctrl = @import_module("<control>");
var t0 = @zeros([3]u16);
var t1 = @zeros([3]u16);
var v = @zeros([256]f32);
var w = @zeros([256]f32);
var n: u32 = 1000;
var m: i32 = 77;
var q: u32 = 0;
var r: i32 = 0;
const dv = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{256} -> v[i] });
const ew = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{256} -> w[i] });
fn main() void {
  tsc.enable_tsc();
  tsc.get_timestamp(&t0);
  %s
  tsc.get_timestamp(&t1);
  sys.unblock_cmd_stream();
}
"""


def cycles(folder: Path, statement: str, arch: str = "wse3") -> tuple[int, dict[str, int]]:
    """Cycles between two reads of the timer around a statement, and what q and r are then."""
    folder.mkdir(exist_ok=True)
    _, machine = run(folder, HEAD % statement, arch=arch)
    symbols = {symbol.name: symbol for symbol in machine.wafer.programs[0].symbols}

    def read(name: str, dtype: str) -> np.ndarray:
        return np.frombuffer(machine.read_symbol(0, 0, symbols[name]), dtype)

    stamps = [read(name, "<u2").astype(np.int64) @ (1, 1 << 16, 1 << 32) for name in ("t0", "t1")]
    values = {"q": int(read("q", "<u4")[0]), "r": int(read("r", "<i4")[0])}
    return int(stamps[1] - stamps[0]), values


@pytest.mark.parametrize(("arch", "each"), [("wse2", 2), ("wse3", 1)])
def test_two_sources_in_memory(tmp_path: Path, arch: str, each: int) -> None:
    found, _ = cycles(tmp_path, "@fmacs(dv, dv, ew, 2.0);", arch)
    assert 256 * each <= found <= 256 * each + 40


def test_one_source_in_memory_is_not_two(tmp_path: Path) -> None:
    product, _ = cycles(tmp_path / "a", "@fmuls(dv, dv, 2.0);", "wse2")
    assert 256 <= product <= 300


def test_division_by_a_constant_costs_little_and_one_by_a_variable_much(tmp_path: Path) -> None:
    variable, values = cycles(tmp_path / "a", "q = n / @as(u32, m); r = m % @as(i32, n);")
    assert (values["q"], values["r"]) == (12, 77)
    assert variable > 100
    constant, values = cycles(tmp_path / "b", "q = n / 77; r = m % 10;")
    assert (values["q"], values["r"]) == (12, 7)
    assert constant < 30
    power, _ = cycles(tmp_path / "c", "q = n / 8;")
    other, _ = cycles(tmp_path / "d", "q = n / 7;")
    assert power < other


def test_only_powers_of_two_have_an_exact_inverse_among_floats(tmp_path: Path) -> None:
    half, _ = cycles(tmp_path / "a", "v[0] = w[1] / 4.0;")
    third, _ = cycles(tmp_path / "b", "v[0] = w[1] / 3.0;")
    assert half < 20
    assert third > 50


def test_payloads_of_constants_are_made_by_the_compiler(tmp_path: Path) -> None:
    text = "q = ctrl.encode_payload(2, .{ctrl.opcode.NOP, ctrl.opcode.SWITCH_ADV}, .{true, true}, true, {});"
    known, values = cycles(tmp_path, text)
    assert known < 20
    assert values["q"] == 0x0B1F_9249  # a published payload, with the id for "none"


def test_payloads_of_constants_make_no_function(tmp_path: Path) -> None:
    text = HEAD % "q = ctrl.encode_single_payload(ctrl.opcode.SWITCH_ADV, true, {}, 5);"
    names = [function.name for function in compiled(tmp_path, text).programs[0].functions]
    assert not any("encode" in name for name in names)


@pytest.mark.parametrize(("arch", "each"), [("wse2", 6), ("wse3", 11)])
def test_a_pe_of_a_chain_that_adds_as_words_pass(arch: str, each: int, tmp_path: Path) -> None:
    """HPDC (WSE-2): twice the ramp of 2 cycles, a cycle to add, a hop. WSE-3 sends 4 later and hops in 2."""
    text = """
    const iq = @get_input_queue(2); const oq = @get_output_queue(3);
    const from = if (x % 2 == 0) d else c; const to = if (x % 2 == 0) c else d;
    const tsc = @import_module("<time>");
    var stamp = @zeros([3]u16);
    var a = @constants([8]f32, 1.0);
    const in = @get_dsd(fabin_dsd, .{ .extent = 8, .fabric_color = from, .input_queue = iq });
    const out = @get_dsd(fabout_dsd, .{ .extent = 8, .fabric_color = to, .output_queue = oq });
    const all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> a[i] });
    comptime {
      if (x > 0) { @initialize_queue(iq, .{ .color = from }); }
      if (x < 4) { @initialize_queue(oq, if (@is_arch("wse3")) .{ .color = to } else .{}); }
    }
    fn main() void {
      tsc.enable_tsc();
      if (x == 0) { @fmovs(out, all); } else if (x == 4) { @fadds(all, all, in); }
      else { @fadds(out, all, in); @fadds(all, all, 1.0); }
      tsc.get_timestamp(&stamp);
      sys.unblock_cmd_stream();
    }
    """
    routes = """
    for (@range(u16, 5)) |x| {
      if (x < 4) { @set_color_config(x, 0, if (x % 2 == 0) c else d,
        .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } }); }
      if (x > 0) { @set_color_config(x, 0, if (x % 2 == 0) d else c,
        .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } }); }
    }
    """
    _, machine = run(tmp_path, text, 5, routes, arch)
    stamps = [int(variable(machine, "stamp", x)[0]) for x in range(1, 4)]
    assert np.diff(stamps).tolist() == [each, each]
