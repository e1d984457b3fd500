from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue
from npuviz.targets.wavelet.csl.comptime.values import DsdValue, FifoValue
from tests.targets.wavelet.csl.programs import elaborate, globals_of

_NAMES = """
const iq = @get_input_queue(2);
const oq = @get_output_queue(3);
const c = @get_color(4);
var A = @zeros([4, 6]f32);
var B = @zeros([20]u16);
"""


def dsds(folder: Path, text: str, arch: str = "wse2") -> dict[str, DsdValue]:
    found = globals_of(folder, _NAMES + text, arch)
    return {name: value for name, value in found.items() if isinstance(value, DsdValue)}


def test_memory_descriptors(tmp_path: Path) -> None:
    found = dsds(
        tmp_path,
        """
        const a = @get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = 24 });
        const b = @get_dsd(mem1d_dsd, .{ .base_address = &B, .extent = 5, .stride = 2, .offset = 3 });
        const c4 = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{2, 4} -> A[i, j + 1] });
        const d = @get_dsd(mem4d_dsd, .{ .base_address = &A, .extent = .{2, 4}, .stride = .{1, -2} });
        const e = @get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = .{7}, .wavelet_index_offset = true });
        const f = @get_dsd(circbuf_dsd, .{ .base_address = &B, .extent = 40, .wraparound = 10 });
        const g = @get_dsd(circbuf_dsd, .{ .base_address = &B, .extent = 40 });
        """,
    )
    assert (found["a"].extent, found["a"].stride, found["a"].offset) == ((24,), (1,), 0)
    assert (found["b"].stride, found["b"].offset) == ((2,), 6)
    assert (found["c4"].offset, found["c4"].stride, found["c4"].extent) == (4, (1, 3), (2, 4))
    assert (found["d"].stride, found["d"].extent) == ((1, -2), (2, 4))
    assert found["e"].index_offset
    assert (found["f"].wraparound, found["g"].wraparound) == (10, 20)


def test_fabric_descriptors(tmp_path: Path) -> None:
    found = dsds(
        tmp_path,
        """
        const a = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq });
        const b = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c });
        const d = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = oq,
          .control = true, .advance_switch = true, .simd_mode = .{ .simd_64 = true },
          .zero = .{ .second_source = true }, .wavelet_index_offset = true, .control_transform = true });
        """,
    )
    assert (found["a"].queue, found["a"].color) == (2, -1)
    assert (found["b"].queue, found["b"].color) == (-1, 4)
    d = found["d"]
    assert (d.queue, d.color, d.control, d.advance_switch, d.simd, d.zero) == (3, 4, True, True, 2, 2)
    assert (d.index_offset, d.control_transform, d.priority) == (True, True, -1)


def test_priority_is_a_field_on_wse3(tmp_path: Path) -> None:
    text = "const a = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq, .priority = .{ .low = true } });"
    assert dsds(tmp_path, text, "wse3")["a"].priority == 2


def test_derived_descriptors_leave_their_input(tmp_path: Path) -> None:
    found = dsds(
        tmp_path,
        """
        const a = @get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = 6, .offset = 2 });
        const b = @increment_dsd_offset(a, -3, f32);
        const d = @set_dsd_length(b, 9);
        const e = @set_dsd_stride(d, -4);
        const f = @set_dsd_base_addr(e, B);
        const g = @increment_dsd_offset(a, 4, u16);
        """,
    )
    assert (found["a"].offset, found["a"].extent) == (8, (6,))
    assert found["b"].offset == 8 - 12
    assert found["g"].offset == 8 + 8
    assert (found["e"].extent, found["e"].stride) == ((9,), (-4,))
    assert found["f"].base is not None
    assert found["f"].base.target is not None
    assert (found["f"].base.target.storage_name, found["f"].offset) == ("B", 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@get_dsd(mem1d_dsd, .{ .base_address = &A })", "needs an .extent"),
        ("@get_dsd(mem1d_dsd, .{ .extent = 4 })", "needs a .base_address"),
        ("@get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = 65536 })", "out of range"),
        ("@get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = -1 })", "out of range"),
        ("@get_dsd(mem1d_dsd, .{ .base_address = &A, .extnt = 4 })", "did you mean extent"),
        ("@get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> B[i], .extent = 4 })", "besides .tensor_access"),
        ("@get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = .{2, 2} })", "one extent"),
        (
            "@get_dsd(mem4d_dsd, .{ .base_address = &A, .extent = .{2, 2}, .stride = .{1} })",
            "2 extents, but 1",
        ),
        ("@get_dsd(mem1d_dsd, .{ .base_address = 64, .extent = 4 })", "needs a pointer"),
        ("@get_dsd(fabout_dsd, .{ .extent = 1 })", "needs an .output_queue"),
        ("@get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = iq })", "takes output_queue values"),
        (
            "@get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq, .priority = .{ .low = true } })",
            "WSE-3 only",
        ),
        ("@get_dsd(u16, .{ .extent = 1 })", "@get_dsd makes"),
        ("@get_dsd(circbuf_dsd, .{ .base_address = &B, .extent = 4, .wraparound = 21 })", "larger than"),
        (
            "@set_dsd_length(@get_dsd(mem4d_dsd, .{ .base_address = &A, .extent = .{2} }), 3)",
            "takes mem1d_dsd",
        ),
    ],
)
def test_wrong_descriptors(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        elaborate(tmp_path, {"pe.csl": _NAMES + f"comptime {{ const x = {text}; }}"})


def test_fifo_is_registered(tmp_path: Path) -> None:
    text = """
    const id = @get_local_task_id(9);
    task t() void {}
    const ends = .{ .terminate = true };
    const f = @allocate_fifo(B, .{ .activate_push = t, .activate_pop = id, .empty_action = ends });
    comptime { @bind_local_task(t, id); }
    """
    elaboration = elaborate(tmp_path, {"pe.csl": _NAMES + text})
    code = elaboration.codes[0]
    (fifo,) = code.registry.fifos
    assert (fifo.count, fifo.element, fifo.empty_action, fifo.activate_pop) == (20, t.U16, 1, 9)
    assert isinstance(fifo.activate_push, FunctionValue)
    entry = code.root.member("f")
    assert entry is not None
    assert not isinstance(entry, FunctionValue)
    value = elaboration.comptime.global_value(entry)
    assert isinstance(value, FifoValue)
    assert value.index == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("const f = @allocate_fifo(c);", "needs a global array"),
        ("const K = @zeros([4]u16); const f = @allocate_fifo(K);", "must be a var"),
        ("var D = @zeros([4]u8); const f = @allocate_fifo(D);", "16- or 32-bit"),
        (
            "const f = @allocate_fifo(B, .{ .full_action = .{ .terminate = true } });",
            "does not exist on wse2",
        ),
        ("const f = @allocate_fifo(B, .{ .empty_action = .{ .fault = true } });", "WSE-2 knows"),
        ("const f = @allocate_fifo(B, .{ .dest = 1 });", "all three"),
    ],
)
def test_wrong_fifos(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        elaborate(tmp_path, {"pe.csl": _NAMES + text})


def test_extent_zero_of_the_fabric_is_a_warning(tmp_path: Path) -> None:
    text = _NAMES + "const d = @get_dsd(fabin_dsd, .{ .extent = 0, .input_queue = iq });"
    found = elaborate(tmp_path, {"pe.csl": text}).warnings
    assert len(found) == 1
    assert "pe.csl:7:11: warning: a fabin_dsd of extent 0 moves nothing" in found[0]
