from pathlib import Path

import numpy as np
import pytest

from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.wafer import PeProgram
from tests.targets.wavelet.csl.executed import numbers
from tests.targets.wavelet.csl.lowered import code, descriptors, operations, program


def address(found: PeProgram, name: str) -> int:
    """Address of a symbol."""
    return next(symbol.address for symbol in found.symbols if symbol.name == name)


def test_memory_descriptor_words(tmp_path: Path) -> None:
    text = """
      var m: [20, 20]f32;
      const diagonal = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{20} -> m[i, i] });
      const one = @get_dsd(mem1d_dsd, .{ .base_address = &m, .extent = 7, .offset = 3, .stride = 2 });
      fn f() void { @fmovs(diagonal, one); }
    """
    found = program(tmp_path, text)
    first, second = descriptors(found)
    base = address(found, "m")
    assert (first["kind"], first["base"], first["extent"], first["stride"]) == (k.KIND_MEM1D, base, 20, 21)
    assert (second["base"], second["extent"], second["stride"]) == (base + 12, 7, 2)


def test_tensor_descriptor_shapes(tmp_path: Path) -> None:
    text = """
      var m: [20]u16;
      const d = @get_dsd(mem4d_dsd, .{ .tensor_access = |p, q|{5, 5} -> m[2 * p + q] });
      fn f() void { @mov16(d, 1); }
    """
    found = program(tmp_path, text)
    (word,) = descriptors(found)
    assert (word["kind"], word["extent"]) == (k.KIND_MEM4D, 25)
    assert found.shapes[word["stride"]].tolist() == [1, 1, 5, 5, 1, -2, 0, 0]


def test_fabric_descriptors_and_completion(tmp_path: Path) -> None:
    text = """
      const oq = @get_output_queue(3);
      var m: [4]u32;
      const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> m[i] });
      const out = @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = oq, .control = true });
      task done() void {}
      fn f() void { @mov32(out, d, .{ .async = true, .activate = done, .index = 5 }); }
      comptime {
        @bind_local_task(done, @get_local_task_id(11));
        @initialize_queue(oq, .{ .color = @get_color(6) });
      }
    """
    found = program(tmp_path, text)
    word = descriptors(found)[0]
    assert (word["kind"], word["queue"], word["color"], word["control"]) == (k.KIND_FABOUT, 3, 31, 1)
    (row,) = operations(found)
    assert (row["operation"], row["async"], row["result"], row["unblock"]) == (k.D_MOV32, 1, -1, -1)
    assert f"li.u16 r{row['activate']}, 11" in code(found)
    assert f"li.u16 r{row['index']}, 5" in code(found)
    assert [(queue.queue, queue.is_output, queue.color) for queue in found.queues] == [(3, True, 6)]


def test_operand_kinds_of_the_forms(tmp_path: Path) -> None:
    text = """
      var m: [4]f32; var s: f32;
      const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> m[i] });
      fn f(v: f32) void {
        @fadds(d, d, d); @fadds(d, v, d); @fadds(d, d, v);
        @fadds(&s, v, d); @fmovs(&s, d); @fmacs(d, d, d, v);
      }
    """
    rows = operations(program(tmp_path, text))
    kinds = [[row["dst_kind"], row["a_kind"], row["b_kind"], row["c_kind"]] for row in rows]
    d, v, p, n = k.OPERAND_DSD, k.OPERAND_SCALAR, k.OPERAND_POINTER, k.OPERAND_NONE
    assert kinds == [[d, d, d, n], [d, v, d, n], [d, d, v, n], [p, v, d, n], [p, d, n, n], [d, d, d, v]]


def test_descriptors_change_at_run_time(tmp_path: Path) -> None:
    text = """
      var m: [40]f32;
      var d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> m[i] });
      fn f(n: u16, step: i16) void {
        d = @increment_dsd_offset(@set_dsd_length(d, n), step, f32);
        d = @set_dsd_base_addr(d, m);
      }
    """
    lines = code(program(tmp_path, text))
    assert [line.split()[0] for line in lines] == [
        *("ld.word", "set_extent", "move_dsd", "st.word"),
        *("ld.word", "li.i32", "set_base", "st.word", "ret"),
    ]
    assert lines[2].endswith("r1 * 4")


def test_run_time_fields_of_a_new_descriptor(tmp_path: Path) -> None:
    text = """
      var m: [40]f32;
      fn f(n: u16, p: [*]f32, at: i16) void {
        @fmovs(@get_dsd(mem1d_dsd, .{ .base_address = &m, .extent = n }), 1.0);
        @fmovs(@get_dsd(mem1d_dsd, .{ .base_address = p, .extent = 4, .offset = at }), 1.0);
      }
    """
    found = program(tmp_path, text)
    names = [line.split()[0] for line in code(found)]
    assert names[:2] == ["li.word", "set_extent"]
    assert names.count("set_base") == 1
    assert descriptors(found)[0]["base"] == address(found, "m")


def test_initial_image_holds_values_pointers_and_descriptors(tmp_path: Path) -> None:
    text = """
      var m = [3]i16 { 1, -2, 3 };
      export var p: [*]i16 = &m;
      var x: f32 = 1.5;
      var d = @get_dsd(mem1d_dsd, .{ .base_address = &m, .extent = 3 });
      const Pair = struct { a: u16, b: u32 };
      var pair = Pair{ .a = 7, .b = 9 };
      fn f() void {}
    """
    found = program(tmp_path, text)
    image = found.image.tobytes()

    def value(name: str, dtype: str, count: int = 1) -> list[float]:
        return np.frombuffer(image, dtype, count, address(found, name)).tolist()

    assert value("m", "<i2", 3) == [1, -2, 3]
    assert value("p", "<u2") == [address(found, "m")]
    assert value("x", "<f4") == [1.5]
    assert isa.unpack(int(value("d", "<i8")[0]), k.F_BASE) == address(found, "m")
    assert value("pair", "<u4", 2) == [7, 9]
    assert min(symbol.address for symbol in found.symbols) >= 4176
    export = next(item for item in found.exports if item.name == "p")
    assert found.symbols[export.symbol].is_pointer
    assert found.symbols[export.symbol].dtype == "int16"


def test_large_variables_that_no_code_uses_take_memory_last(tmp_path: Path) -> None:
    text = """
      var huge: [20000]f32;
      var used: [5000]f32;
      var spare: [1000]f32;
      fn f(a: u16) f32 { return used[a]; }
    """
    names = [symbol.name for symbol in program(tmp_path, text).symbols]
    assert names == ["used", "spare"]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [("H, S", 105), ("S, H", 105), ("@as(f16, 1.5), S", 103), ("S, @as(f16, 1.5)", 103)],
)
def test_a_half_is_added_to_a_single_in_either_order(tmp_path: Path, sources: str, expected: int) -> None:
    text = f"""
var h = [2]f16 {{ 3.0, 4.0 }};
var s = [2]f32 {{ 100.0, 101.5 }};
var d = @zeros([2]f32);
const H = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{2}} -> h[i] }});
const S = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{2}} -> s[i] }});
const D = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{2}} -> d[i] }});
fn main() void {{ @faddhs(D, {sources}); out[0] = @as(i32, d[1]); }}
"""
    assert numbers(tmp_path, text) == [expected]
