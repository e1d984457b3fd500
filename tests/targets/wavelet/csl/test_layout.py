from pathlib import Path

import pytest

from npuviz.base.errors import SourceError, UsageError
from npuviz.targets.wavelet.csl import frontend
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import Global
from npuviz.targets.wavelet.csl.comptime.values import Scalar
from npuviz.targets.wavelet.kernels import isa
from tests.targets.wavelet.csl.programs import elaborate, write


def test_equal_parameters_share_code(tmp_path: Path) -> None:
    layout = """
    param width: u16;
    param chatty: bool = false;
    layout {
      @set_rectangle(width, 2);
      for (@range(u16, width)) |x| {
        var y: u16 = 0;
        while (y < 2) : (y += 1) {
          @set_tile_code(x, y, "pe.csl", .{ .is_first = x == 0, .part = .{ .row = y } });
        }
      }
      @export_name("A", [*]f32, true);
      @export_name("go", fn(u16, f32) void);
    }
    """
    code = "param is_first: bool; param part; const n: u16 = if (is_first) 1 else part.row;"
    found = elaborate(tmp_path, {"layout.csl": layout, "pe.csl": code}, width=3)
    assert (found.columns, found.rows) == (3, 2)
    assert [code.coordinates for code in found.codes] == [
        ((0, 0),),
        ((0, 1),),
        ((1, 0), (2, 0)),
        ((1, 1), (2, 1)),
    ]
    assert found.exported["A"] == (t.pointer(t.F32, many=True), True)
    assert found.exported["go"] == (t.function("fn", (t.U16, t.F32), t.VOID), False)
    assert found.params == {"width": "3"}


def test_a_file_may_be_layout_and_code(tmp_path: Path) -> None:
    text = """
    param me: u16 = 7;
    layout { @set_rectangle(2, 1); @set_tile_code(0, 0); @set_tile_code(1, 0, "layout.csl", .{ .me = 1 }); }
    const width = @get_rectangle().width;
    task t() void {}
    comptime { @bind_local_task(t, @get_local_task_id(width)); }
    """
    found = elaborate(tmp_path, {"layout.csl": text})
    assert [code.registry.tasks[0].id for code in found.codes] == [2, 2]


def test_colors_of_the_command_line(tmp_path: Path) -> None:
    layout = """
    color old;
    param new: color;
    layout {
      @set_rectangle(1, 1);
      @set_tile_code(0, 0, "pe.csl", .{});
      @set_color_config(0, 0, old, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
      @set_color_config(0, 0, new, .{ .routes = .{} });
    }
    """
    path = write(tmp_path, {"layout.csl": layout, "pe.csl": ""})
    found = frontend.elaborate(path, "wse2", colors={"old": 3, "new": 9})
    assert [channel.color for channel in found.channels[0, 0]] == [3, 9]
    with pytest.raises(UsageError, match="0 to 23"):
        frontend.elaborate(path, "wse2", colors={"old": 3, "new": 64})


def test_what_comptime_blocks_register(tmp_path: Path) -> None:
    text = """
    const id = @get_local_task_id(9);
    const q = @get_input_queue(2);
    const c = @get_color(5);
    const data_id = if (@is_arch("wse3")) @get_data_task_id(q) else @get_data_task_id(c);
    task local() void {}
    task data(x: f32) void {}
    task control(x: u16) void {}
    var A = @zeros([4]f32);
    var p: [*]f32 = &A;
    export var late: u16 = 3;
    fn f() void {}
    comptime {
      @bind_local_task(local, id);
      @bind_data_task(data, data_id);
      @bind_control_task(control, @get_control_task_id(40));
      @initialize_queue(q, .{ .color = c });
      @activate(id);
      if (@is_arch("wse3")) @block(q) else @block(c);
      @unblock(data_id);
      @export_symbol(p, "A");
      @export_symbol(f);
      @set_teardown_handler(f, c);
      @set_local_color_config(c, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
      @load_to_dsr(@get_dsr(dsr_dest, 3), @get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = 4 }));
    }
    """
    for arch, data_number in (("wse2", 5), ("wse3", 2)):
        registry = elaborate(tmp_path, {"pe.csl": text}, arch).codes[0].registry
        assert [(task.kind, task.id, task.function.name) for task in registry.tasks] == [
            (isa.ID_LOCAL, 9, "local"),
            (isa.ID_DATA, data_number, "data"),
            (isa.ID_CONTROL, 40, "control"),
        ]
        assert registry.queues[2, False].color == 5
        assert [number for number, _ in registry.activated] == [9]
        assert registry.blocked[0][:2] == ((isa.ID_INPUT_QUEUE, 2) if arch == "wse3" else (isa.ID_COLOR, 5))
        assert registry.unblocked[0][:2] == (isa.ID_DATA, data_number)
        assert [export.name for export in registry.exports] == ["A", "f", "late"]
        assert registry.teardown_handlers[5].name == "f"
        assert registry.channels[0].positions == ((1 << isa.PORT_WEST, 1 << isa.PORT_RAMP),)
        assert (registry.dsr_loads[0].kind, registry.dsr_loads[0].id) == (t.DSR_DEST, 3)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "never calls @set_rectangle"),
        ("@set_rectangle(0, 1);", "side 0 is out of range"),
        ("@set_rectangle(9999, 1);", "side 9999 is out of range"),
        ("@set_rectangle(1, 1); @set_rectangle(1, 1);", "set twice"),
        ('@set_tile_code(0, 0, "pe.csl", .{});', "comes after"),
        ('@set_rectangle(1, 1); @set_tile_code(1, 0, "pe.csl", .{});', "outside of the rectangle"),
        ('@set_rectangle(1, 1); @set_tile_code(0, 0, "no.csl", .{});', "no file no.csl"),
        (
            '@set_rectangle(1, 1); for (@range(u16, 2)) |_| { @set_tile_code(0, 0, "pe.csl", .{}); }',
            "has code already",
        ),
        (
            "@set_rectangle(1, 1); @set_color_config(0, 0, @get_color(24), .{});",
            "color 24 is no color of wav",
        ),
        ('@set_rectangle(1, 1); @export_name("x", u16);', "mutable"),
        ('@set_rectangle(1, 1); @export_name("x", [3]u16, true);', "cannot be exported"),
        ("@set_rectangle(1, 1); @bind_local_task(t, 3);", "expected a task|not declared"),
    ],
)
def test_wrong_layouts(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        elaborate(tmp_path, {"layout.csl": f"layout {{ {body} }}", "pe.csl": ""})


def test_the_fabric_must_be_large_enough(tmp_path: Path) -> None:
    path = write(tmp_path, {"pe.csl": ""})
    with pytest.raises(SourceError, match="--fabric-dims=8,3"):
        frontend.elaborate(path, "wse2", fabric=(7, 3))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("const c = @get_color(64);", "color 64 is out of range; it must be 0 to 23"),
        ("const q = @get_input_queue(8);", "input queue 8"),
        ("const q = @get_output_queue(6);", "output queue 6"),
        ("const i = @get_local_task_id(31);", "local task id 31"),
        ("const i = @get_control_task_id(64);", "control task id 64"),
        ("const i = @get_ut_id(1);", "WSE-3 only"),
        ("const i = @get_data_task_id(@get_input_queue(2));", "takes a color on wse2"),
        ("const d = @get_dsr(dsr_dest, 16);", "DSR 16"),
        ('const m = @import_module("absent.csl");', "no file absent.csl"),
        ('const m = @import_module("<absent>");', "no file <absent>"),
        ("@bind_local_task(main, id); @bind_local_task(main, id);", "bound to main already"),
        ("@initialize_queue(@get_input_queue(2));", "needs a .color"),
        ("const c = @get_color(1); const q = @get_input_queue(2);"
         "@initialize_queue(q, .{ .color = c }); @initialize_queue(q, .{ .color = c });", "twice"),
        ("@bind_data_task(main, @get_data_task_id(@get_color(1)));", "needs a parameter"),
        ("@block(@get_input_queue(2));", "takes local_task_id"),
        ("@export_symbol(main, \"a\"); @export_symbol(main, \"a\");", "exported twice"),
        ("@set_rectangle(1, 1);", "belongs into a layout block"),
        ("@comptime_assert(1 > 2, \"one is small\");", "one is small"),
        ("@initialize_queue(@get_input_queue(2), .{ .colour = @get_color(1) });", "did you mean color"),
        ("@system(\"S_X\");", "reserved for npuviz"),
    ],
)  # fmt: skip
def test_wrong_code(tmp_path: Path, text: str, words: str) -> None:
    pe = f"const id = @get_local_task_id(8); task main() void {{}}\ncomptime {{\n{text} }}"
    with pytest.raises(SourceError, match=words) as caught:
        elaborate(tmp_path, {"pe.csl": pe})
    assert caught.value.line == 3


def test_wse3_local_ids_start_at_eight(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="8 to 30"):
        elaborate(tmp_path, {"pe.csl": "comptime { @activate(@get_local_task_id(7)); }"}, "wse3")


def test_missing_param_and_unknown_param(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="param n has no value; give it in @set_tile_code"):
        elaborate(tmp_path, {"pe.csl": "param n: u16; comptime { const x = n; }"})
    with pytest.raises(SourceError, match=r"param w has no value.*=w:N \(cslc\), --set params.w=N"):
        elaborate(tmp_path, {"layout.csl": "param w: u16; layout { @set_rectangle(w, 1); }", "pe.csl": ""})
    layout = 'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{ .typo = 1 }); }'
    found = elaborate(tmp_path, {"layout.csl": layout, "pe.csl": ""})
    assert any("has no param typo" in line for line in found.warnings)


def test_wrong_options(tmp_path: Path) -> None:
    path = write(tmp_path, {"pe.csl": ""})
    with pytest.raises(UsageError, match="wse2 or wse3"):
        frontend.elaborate(path, "wse9")
    with pytest.raises(UsageError, match="f16"):
        frontend.elaborate(path, "wse2", fp16="f8")
    with pytest.raises(SourceError, match="no layout block"):
        frontend.elaborate(tmp_path / "pe.csl", "wse2")
    with pytest.raises(SourceError, match="cannot read"):
        frontend.elaborate(tmp_path / "none.csl", "wse2")


def test_exports_must_match_the_layout(tmp_path: Path) -> None:
    layout = """layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{});
      @export_name("A", [*]f32, true); }"""
    pe = 'var A = @zeros([2]{0}); {1} p: [*]{0} = &A; comptime {{ @export_symbol(p, "A"); }}'
    elaborate(tmp_path, {"layout.csl": layout, "pe.csl": pe.format("f32", "var")})
    for kind, word in (("u32", "var"), ("f32", "const")):
        with pytest.raises(SourceError, match="layout exports"):
            elaborate(tmp_path, {"layout.csl": layout, "pe.csl": pe.format(kind, word)})


def test_results_of_calls_are_shared_but_effects_are_not(tmp_path: Path) -> None:
    layout = """layout { @set_rectangle(2, 1);
      for (@range(u16, 2)) |x| { @set_tile_code(x, 0, "pe.csl", .{ .x = x }); } }"""
    pe = """
    param x: u16;
    const part = @import_module("part.csl");
    const id = @get_local_task_id(9);
    task t() void {}
    var n: u16 = x;
    fn start(number: u16) u16 { @activate(id); n += number; return n; }
    const a = start(5);
    const b = start(5);
    const c = part.slow(3);
    comptime { @bind_local_task(t, id); }
    """
    part = "fn slow(n: u16) u16 { var s: u16 = 0; for (@range(u16, n)) |i| { s += i; } return s; }"
    found = elaborate(tmp_path, {"layout.csl": layout, "pe.csl": pe, "part.csl": part})
    for x, code in enumerate(found.codes):
        values: dict[str, int] = {}
        for name in "abc":
            entry = code.root.member(name)
            assert isinstance(entry, Global)
            value = found.comptime.global_value(entry)
            assert isinstance(value, Scalar)
            values[name] = value.integer
        assert values == {"a": 5 + x, "b": 10 + x, "c": 3}
        assert len(code.registry.activated) == 2


def test_errors_name_the_calls_that_led_there(tmp_path: Path) -> None:
    files = {
        "pe.csl": 'const m = @import_module("part.csl", .{ .n = 70000 });',
        "part.csl": "param n; fn f(x: u16) u16 { return x; } comptime { const y = f(n); }",
    }
    with pytest.raises(SourceError, match="70000 does not fit in u16") as caught:
        elaborate(tmp_path, files)
    assert caught.value.file.endswith("part.csl")
    assert "imported at" in str(caught.value)
    assert "code of PE (0, 0)" in str(caught.value)
