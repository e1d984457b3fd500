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


def cycles(folder: Path, statement: str, arch: str = "wse3", more: str = "") -> tuple[int, dict[str, int]]:
    """Cycles between two reads of the timer around a statement, and what q and r are then."""
    folder.mkdir(exist_ok=True)
    _, machine = run(folder, more + HEAD % statement, arch=arch)
    symbols = {symbol.name: symbol for symbol in machine.wafer.programs[0].symbols}

    def read(name: str, dtype: str) -> np.ndarray:
        return np.frombuffer(machine.read_symbol(0, 0, symbols[name]), dtype)

    stamps = [read(name, "<u2").astype(np.int64) @ (1, 1 << 16, 1 << 32) for name in ("t0", "t1")]
    values = {"q": int(read("q", "<u4")[0]), "r": int(read("r", "<i4")[0])}
    return int(stamps[1] - stamps[0]), values


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
@pytest.mark.parametrize(
    ("source", "each"),
    [
        ("|i|{128} -> w[i]", 2),  # arrays lie alike
        ("|i|{128} -> w[i + 1]", 1),  # one element apart: no element meets its other source
        ("|i|{128} -> w[i + 2]", 2),
        ("|i|{128} -> w[2 * i]", 1.5),  # every second element
        ("|i|{128} -> w[2 * i + 1]", 1.5),
    ],
)
def test_two_sources_in_memory(tmp_path: Path, arch: str, source: str, each: float) -> None:
    text = f"const b = @get_dsd(mem1d_dsd, .{{ .tensor_access = {source} }});"
    first = "const a = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{128} -> v[i] });"
    found, _ = cycles(tmp_path, "@fmacs(a, a, b, 2.0);", arch, f"{first}\n{text}")
    assert 128 * each <= found <= 128 * each + 40


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


LOOP = "var i: u16 = 0; while (i < 256) : (i += 1) { %s }"
ALONE = 4 + 2 + 8
"""An element of an array in a loop: shift, addition, two words; the wait for it; step, comparison, jump."""


@pytest.mark.parametrize(
    ("before", "statement", "each"),
    [
        ("var s: f32 = 0.0;", "s += v[i];", ALONE + 1),
        # A store: one more address and two words, no wait for the sum.
        ("var s: f32 = 0.0;", "s += v[i]; w[i] = s;", ALONE + 1 + 3),
        # The shift of the index is shared; the sum waits a cycle for the product.
        ("var s: f32 = 0.0;", "s += v[i] * w[i];", ALONE + 3 + 1 + 2),
        # The same element again needs no new address.
        ("", "v[i] = v[i] + 1.0;", ALONE + 1 + 2),
        # Neighbours are a part of the address.
        ("var s: f32 = 0.0;", "s += v[i + 1];", ALONE + 1),
        # A product that is there already is not computed again.
        ("var s: i16 = 0; var p: i16 = 0;", "const e = h[i]; s += e * e; p -= e * e;", ALONE - 1 + 3),
        # A short choice becomes a move that is predicated.
        ("var s: f32 = 0.0;", "const e = v[i]; if (e > s) { s = e; }", ALONE + 2),
        ("var s: f32 = 0.0;", "const e = v[i]; if (e == 0.0) { s = e; } else { s = 1.0; }", ALONE + 3),
        # What is no move is jumped over.
        ("var s: f32 = 0.0;", "const e = v[i]; if (e > 1.0) { s += e; }", ALONE + 1 + 6),
        # 16-bit elements are one word.
        ("var s: i16 = 0;", "s += h[i];", ALONE - 1 + 1),
    ],
)
def test_loops_over_arrays(tmp_path: Path, before: str, statement: str, each: int) -> None:
    text = "var h = @zeros([256]i16);"
    found, _ = cycles(tmp_path, f"{before} {LOOP % statement}", more=text)
    assert 256 * each <= found <= 256 * each + 30


def test_what_a_way_has_not_computed_is_computed(tmp_path: Path) -> None:
    """An address of one branch is not known behind it, one of the condition is."""
    known, _ = cycles(tmp_path / "a", LOOP % "const e = v[i]; if (n > 5) { w[i] = e; } v[i] = e;")
    other, _ = cycles(tmp_path / "b", LOOP % "const e = v[i]; if (n > 5) { w[i] = e; } w[i] = e;")
    assert other - known == 256


def test_a_loop_keeps_the_addresses_that_it_does_not_change(tmp_path: Path) -> None:
    fixed = "var j: u16 = @as(u16, n & 7); v[j] = 1.0; "
    kept, _ = cycles(tmp_path / "a", fixed + LOOP % "v[j] = 1.0;")
    moving, _ = cycles(tmp_path / "b", fixed + LOOP % "v[j] = 1.0; j += 0;")
    assert kept == moving - 256 * 3


def test_divisions_of_floats_take_what_an_inverse_takes(tmp_path: Path) -> None:
    floats, _ = cycles(tmp_path / "a", "v[0] = w[1] / w[2];")
    integers, _ = cycles(tmp_path / "b", "q = n / @as(u32, m);")
    assert floats > integers + 40


def test_an_index_that_changed_has_no_known_address(tmp_path: Path) -> None:
    start = "var j: u16 = @as(u16, n & 7); "
    same, _ = cycles(tmp_path / "a", start + "v[j] = 1.0; v[j] = 2.0; j += 2;")
    other, _ = cycles(tmp_path / "b", start + "v[j] = 1.0; j += 2; v[j] = 2.0;")
    assert other == same + 2


def test_arrays_lie_alike_whatever_stands_between_them(tmp_path: Path) -> None:
    text = HEAD % "first[0] = 1.0; small = 1; second[0] = 1.0; tiny[0] = 2; third[0] = 1.0;"
    arrays = "".join(f"var {name} = @zeros([5]f32);" for name in ("first", "second", "third"))
    program = compiled(tmp_path, f"{arrays} var small: u16 = 0; var tiny = @zeros([3]u16);" + text).programs[
        0
    ]
    found = {symbol.name: symbol.address % 8 for symbol in program.symbols}
    assert [found[name] for name in ("first", "second", "third")] == [0, 0, 0]
