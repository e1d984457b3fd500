from pathlib import Path

import numpy as np

from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.wafer import Wafer
from tests.targets.wavelet.csl.lowered import code, function, program, wafer


def test_scalar_expression_is_one_instruction_per_operator(tmp_path: Path) -> None:
    found = program(tmp_path, "fn f(a: i16, b: i16) i16 { return a * b + 1; }")
    assert code(found) == ["mul.i16 r4, r0, r1", "add.i16 r3, r4, 1", "ret r3"]


def test_global_sum_is_two_loads_an_add_and_a_store(tmp_path: Path) -> None:
    found = program(tmp_path, "var a: f32; var b: f32; var c: f32; fn f() void { c = a + b; }")
    names = [line.split()[0] for line in code(found)]
    assert names == ["ld.f32", "ld.f32", "add.f32", "st.f32", "ret"]


def test_compound_assignment_writes_the_variable_directly(tmp_path: Path) -> None:
    found = program(tmp_path, "fn f(a: i16) i16 { var x: i16 = a; x += 3; return x; }")
    assert code(found) == ["mov r2, r0", "add.i16 r2, r2, 3", "ret r2"]


def test_known_conditions_leave_no_code(tmp_path: Path) -> None:
    text = """
      param id: i16 = 3;
      fn f(a: i16) i16 {
        if (id == 3 and @is_arch("wse3")) { return a; } else { return nonsense(a); }
      }
    """
    assert code(program(tmp_path, text)) == ["ret r0"]


def test_short_circuit_tests_one_after_the_other(tmp_path: Path) -> None:
    found = program(tmp_path, "fn f(a: i16) void { if (a > 1 and a < 9) { @assert(a != 5); } }")
    names = [line.split()[0] for line in code(found)]
    assert names == ["gt.i16", "jz", "lt.i16", "jz", "ne.i16", "jnz", "li.u8", "assert", "ret"]
    assert found.messages[0].endswith("pe.csl:1")


def test_counted_loop_tests_at_its_end(tmp_path: Path) -> None:
    text = "var n: i16; fn f() void { for (@range(i16, 400)) |i| { n += i; } }"
    lines = code(program(tmp_path, text))
    assert [line.split()[0] for line in lines] == [
        *("li.i16", "ld.i16", "add.i16", "st.i16"),
        *("add.i16", "lt.i16", "jnz", "ret"),
    ]
    start = function(program(tmp_path, text), "f").entry
    assert lines[6].endswith(str(start + 1))


def test_comptime_loop_is_unrolled(tmp_path: Path) -> None:
    text = "var n: i16; fn f() void { comptime var i = 0; while (i < 3) : (i += 1) { n += i; } }"
    lines = code(program(tmp_path, text))
    assert [line for line in lines if line.startswith("add")] == [
        "add.i16 r2, r1, 0",
        "add.i16 r2, r1, 1",
        "add.i16 r2, r1, 2",
    ]


def test_functions_are_specialised_for_types_and_known_arguments(tmp_path: Path) -> None:
    text = """
      fn double(comptime T: type, x: T) T { return x + x; }
      fn f(a: i16, b: f32) i16 { return double(i16, a) + @as(i16, double(f32, b)); }
    """
    found = program(tmp_path, text)
    assert len([item for item in found.functions if item.name == "double"]) == 2
    assert code(found, "double")[0].startswith("add.i16")


def test_pointer_parameters_force_memory(tmp_path: Path) -> None:
    text = "fn g(p: *i16) void { p.* += 1; } fn f(a: i16) i16 { var x = a; g(&x); return x; }"
    found = program(tmp_path, text)
    assert function(found, "f").frame_bytes == 4
    assert code(found)[0].startswith("lea ")
    assert "st.i16 r0, [r1+0]" in code(found)


def test_struct_results_go_through_memory_of_the_caller(tmp_path: Path) -> None:
    text = """
      const P = struct { x: i16, y: f32 };
      fn make(a: i16) P { return P{ .x = a, .y = 1.0 }; }
      fn f(a: i16) i16 { const p = make(a); return p.x; }
    """
    found = program(tmp_path, text)
    assert function(found, "f").frame_bytes == 8
    assert [line.split()[0] for line in code(found, "make")] == ["st.i16", "li.f32", "st.f32", "ret"]


def test_narrow_integers_are_wrapped_to_their_width(tmp_path: Path) -> None:
    found = program(tmp_path, "fn f(a: u3) u3 { return a + 7; }")
    assert code(found) == ["add.u8 r2, r0, 7", "wrap r2, r2, u3", "ret r2"]


def test_source_places_and_local_variables(tmp_path: Path) -> None:
    text = "fn f(a: i16) i16 {\n  var x: i16 = a;\n  {\n    var y: i16 = 1;\n    x += y;\n  }\n  return x;\n}"
    found = program(tmp_path, text)
    f = function(found, "f")
    lines = [found.places[int(row[k.C_LINE])].line for row in found.code[f.entry :]]
    assert lines == [2, 4, 5, 7]
    scopes = {item.name: (item.first - f.entry, item.last - f.entry) for item in f.variables}
    assert scopes == {"a": (0, 4), "x": (1, 4), "y": (2, 3)}
    assert {item.name: item.type for item in f.variables} == {"a": "i16", "x": "i16", "y": "i16"}


def test_tasks_carry_the_types_of_their_arguments(tmp_path: Path) -> None:
    text = """
      task receive(value: f32) void {}
      task pair(low: u16, high: i16) void {}
      task start() void {}
      fn f() void { @activate(start); @block(@get_data_task_id(@get_input_queue(2))); }
      comptime {
        @bind_data_task(receive, @get_data_task_id(@get_input_queue(2)));
        @bind_data_task(pair, @get_data_task_id(@get_input_queue(3)));
        @bind_local_task(start, @get_local_task_id(9));
        @activate(@get_local_task_id(9));
      }
    """
    found = program(tmp_path, text)
    tasks = {task.name: (task.kind, task.id, task.arguments) for task in found.tasks}
    assert tasks == {
        "receive": (k.ID_DATA, 2, (k.T_F32,)),
        "pair": (k.ID_DATA, 3, (k.T_U16, k.T_I16)),
        "start": (k.ID_LOCAL, 9, ()),
    }
    assert found.activated == (9,)
    assert code(found)[-3:] == ["li.u16 r1, 2", "block data r1", "ret"]


def test_map_reads_calls_and_writes(tmp_path: Path) -> None:
    text = """
      var a: [4]f32;
      var total: f32;
      const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] });
      fn scaled(x: f32, by: f32) f32 { return x * by; }
      fn f() void { @map(scaled, d, 2.0, d); @map(scaled, d, 3.0, &total); }
    """
    names = [line.split()[0] for line in code(program(tmp_path, text))]
    assert names.count("map_open.f32") == 3
    assert names.count("map_write") == 1
    assert names.count("st.f32") == 1
    loop = names[names.index("map_test") : names.index("jmp") + 1]
    assert loop == ["map_test", "map_read", "mov", "r4", "map_write", "jmp"]


def test_functions_are_shared_by_pes_that_read_the_same_values(tmp_path: Path) -> None:
    layout = """
      layout {
        @set_rectangle(6, 1);
        for (@range(u16, 6)) |x| {
          @set_tile_code(x, 0, "pe.csl", .{ .x = x, .is_edge = x == 0 });
        }
      }
    """
    text = """
      param x: u16;
      param is_edge: bool;
      var out: u16;
      fn plain() void { out = 1; }
      fn edge() void { if (is_edge) { out = 2; } else { plain(); } }
      fn own() void { out = x; }
      fn f() void { edge(); }
      fn g() void { own(); }
      comptime { @export_symbol(f); @export_symbol(g); }
    """
    (tmp_path / "layout.csl").write_text(layout)
    found = wafer_of(tmp_path, text)
    assert len(found.programs) == 6
    names = [item.name for item in found.programs[0].functions]
    assert {name: names.count(name) for name in names} == {"plain": 1, "edge": 2, "f": 2, "own": 6, "g": 6}
    assert all(item.code is found.programs[0].code for item in found.programs)
    assert found.programs[1].exports[0].function == found.programs[5].exports[0].function


def wafer_of(folder: Path, text: str) -> Wafer:
    """Compile pe.csl with the layout that is there already."""
    (folder / "pe.csl").write_text(text)
    return compile_program(folder / "layout.csl", "wse3")


def test_wafer_knows_its_files_and_programs(tmp_path: Path) -> None:
    found = wafer(tmp_path, "fn f() void {}")
    assert [Path(name).name for name in found.files] == ["layout.csl", "pe.csl"]
    assert found.program_of.tolist() == [[0]]
    assert found.texts[1].startswith("fn f()")


def test_constants_of_shared_code_lie_in_the_memory_of_every_pe(tmp_path: Path) -> None:
    layout = """
      layout {
        @set_rectangle(3, 1);
        for (@range(u16, 3)) |x| { @set_tile_code(x, 0, "pe.csl", .{ .x = x }); }
      }
    """
    text = """
      param x: u16;
      var sum: u16; var at: u16;
      fn total(a: [3]u16) u16 { return a[0] + a[1] + a[2]; }
      fn f() void { sum = total([3]u16 { 7, 8, 9 }); for ([2]u16 { 5, 6 }) |e| { sum += e; } }
      fn g() void { const table = [2]u16 { 3, 4 }; sum = table[at]; }
      fn h() void { at = x; }
      comptime { @export_symbol(f); @export_symbol(g); @export_symbol(h); }
    """
    (tmp_path / "layout.csl").write_text(layout)
    programs = wafer_of(tmp_path, text).programs
    names = [item.name for item in programs[0].functions]
    assert (names.count("f"), names.count("g"), names.count("h")) == (1, 1, 3)
    for constant in ([7, 8, 9], [5, 6], [3, 4]):
        data = np.array(constant, np.uint16).tobytes()
        places = {bytes(item.image).find(data) for item in programs}
        assert len(places) == 1
        assert places != {-1}
