"""Reads of variables that nobody has written, and sums of DSDs of i16 that wrap."""

import random
from pathlib import Path

import numpy as np
import pytest

from npuviz.sim.machine import Hazard
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.wavelet.wafer import HOST_COPY_IN, HOST_LAUNCH, HostCommand
from tests.targets.wavelet.samples import machine_of
from tests.targets.wavelet.small import EASTWARD, HEAD, LIMIT, compiled, line_with, run

UNSET = """
var one: i16;
var two: i16 = 2;
var buf: [16]f32;
var part: [16]i16;
var last: [16]i16;
var stamp: [3]u16;
var room: [16]i16;
var sum: f32 = 0.0;
var kept: i16 = 0;
var ones = @constants([16]i16, 1);
const time = @import_module("<time>");
const fifo = @allocate_fifo(room);
const words_of_two = @get_dsd(mem1d_dsd, .{ .base_address = &ones, .extent = 2 });
const all = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 16 });
const low = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 8 });
const odd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> buf[2 * i + 1] });
const even = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> buf[2 * i] });
const back = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> buf[7 - i] });
const square = @get_dsd(mem4d_dsd, .{ .tensor_access = |i,j|{4, 4} -> buf[4 * i + j] });
fn count(i: i16) i16 { return i; }
const words = @get_dsd(mem1d_dsd, .{ .base_address = &part, .extent = 16 });
fn main() void {
  BODY
  sys.unblock_cmd_stream();
}
"""


def found(folder: Path, text: str, kind: str = "unwritten", width: int = 1, routes: str = "") -> list[Hazard]:
    """Findings of a kind in a program."""
    _, machine = run(folder, text, width, routes)
    return [each for each in machine.hazards() if each.kind == kind]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("kept = one + 1;", "one"),
        ("sum = buf[3];", "buf[3]"),
        ("@fmovs(low, 0.0); @fadds(all, all, 1.0);", "buf[8]"),
        ("@fmovs(odd, 0.0); @fadds(odd, odd, 1.0); @fadds(even, even, 1.0);", "buf[0]"),
        ("@fmovs(even, 0.0); buf[1] = 1.0; @fmovs(low, all);", "buf[3]"),
        ("@fadds(&sum, sum, all);", "buf[0]"),
        ("@fmovs(low, 0.0); buf[8] = buf[9];", "buf[9]"),
        ("kept = part[2 * two];", "part[4]"),
        ("last = part;", "part[0]"),
    ],
)
def test_what_nobody_wrote_is_named_with_its_line(tmp_path: Path, body: str, what: str) -> None:
    text = UNSET.replace("BODY", body)
    (one,) = found(tmp_path, text)
    assert one.text.startswith(f"pe.csl:{line_with(text, body)}: ")
    assert f"reads {what}, which nobody has written" in one.text
    assert one.level == "warning"


@pytest.mark.parametrize(
    "body",
    [
        "one = 3; kept = one;",
        "@fmovs(all, 0.0); sum = buf[15];",
        "@fmovs(odd, 0.0); @fmovs(even, odd); @fadds(all, all, 1.0);",
        "@fmovs(back, 0.0); @fadds(low, low, 1.0);",
        "@fmovs(square, 0.0); @fadds(all, all, 1.0);",
        "@map(count, words, words); @add16(words, words, 1);",
        "for (@range(i16, 16)) |i| { buf[i] = 1.0; } @fadds(&sum, sum, all);",
        "part = @zeros([16]i16); kept = part[7];",
        "one = two; kept = one; two = kept;",
        "time.enable_tsc(); time.get_timestamp(&stamp); kept = @as(i16, stamp[1] & 1);",
        "@add16(fifo, 7, words_of_two); @add16(words, 0, fifo); kept = room[0];",
    ],
)
def test_what_is_written_first_is_no_finding(tmp_path: Path, body: str) -> None:
    assert not found(tmp_path, UNSET.replace("BODY", body))


def test_what_arrives_is_written(tmp_path: Path) -> None:
    text = """
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 8, .output_queue = oq });
const in = @get_dsd(fabin_dsd, .{ .extent = 8, .input_queue = iq });
var buf: [8]f32;
const all = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 8 });
comptime {
  if (x == 0) { @initialize_queue(oq, .{ .color = c }); } else { @initialize_queue(iq, .{ .color = c }); }
}
fn main() void {
  if (x == 0) { FIRST @fmovs(out, all); } else { @fmovs(all, in); @fadds(all, all, 1.0); }
  sys.unblock_cmd_stream();
}
"""
    assert not found(tmp_path, text.replace("FIRST", "@fmovs(all, 2.0);"), width=2, routes=EASTWARD)
    (one,) = found(tmp_path, text.replace("FIRST", ""), width=2, routes=EASTWARD)
    assert "buf[0]" in one.text
    assert one.unit.startswith("PE(0,0)")


HOSTED = """
var buf: [4]f32;
const all = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 4 });
fn main() void { @fadds(all, all, 1.0); sys.unblock_cmd_stream(); }
var pointer: [*]f32 = &buf;
comptime { @export_symbol(pointer, "buf"); }
"""


@pytest.mark.parametrize("words", [4, 3])
@pytest.mark.parametrize("by", ["host", "poke"])
def test_what_the_host_or_a_person_writes_is_written(tmp_path: Path, by: str, words: int) -> None:
    layout = '  @export_name("buf", [*]f32, true);'
    wafer = compiled(tmp_path, HOSTED, routes=layout)
    copy = HostCommand(HOST_COPY_IN, "buf", (0, 0, 1, 1), words, np.zeros((1, 1, words), np.uint32))
    machine = machine_of(wafer, [*([copy] if by == "host" else []), HostCommand(HOST_LAUNCH, "start")])
    if by == "poke":
        (symbol,) = (each for each in wafer.programs[0].symbols if each.name == "buf")
        machine.write_memory(0, symbol.address, bytes(4 * words))
    machine.advance(LIMIT, NO_STOPS, None)
    told = [each.text for each in machine.hazards() if each.kind == "unwritten"]
    assert len(told) == (words < 4)
    assert all("buf[3]" in text for text in told)


def test_what_a_control_word_ends_early_is_not_looked_at(tmp_path: Path) -> None:
    text = """
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 2, .output_queue = oq });
const end = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = oq, .control = true });
const in = @get_dsd(fabin_dsd, .{ .extent = 8, .input_queue = iq });
var buf: [8]f32;
var sums = @zeros([8]f32);
const two = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 2 });
const all = @get_dsd(mem1d_dsd, .{ .base_address = &buf, .extent = 8 });
const to = @get_dsd(mem1d_dsd, .{ .base_address = &sums, .extent = 8 });
comptime {
  if (x == 0) { @initialize_queue(oq, .{ .color = c }); } else { @initialize_queue(iq, .{ .color = c }); }
}
fn main() void {
  @fmovs(two, 1.0);
  if (x == 0) {
    @fmovs(out, two);
    @mov32(end, 0);
  } else {
    @fadds(to, in, all, .{ .async = true, .ut_id = @get_ut_id(4) HOW });
  }
  sys.unblock_cmd_stream();
}
"""
    ends = text.replace("HOW", ", .on_control = .{ .terminate = true }")
    assert not found(tmp_path, ends, width=2, routes=EASTWARD)
    (one,) = found(tmp_path, text.replace("HOW", ""), width=2, routes=EASTWARD)
    assert "buf[2]" in one.text


@pytest.mark.parametrize("seed", range(6))
def test_random_slices_agree_with_a_set_of_written_elements(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    lines: list[str] = []
    written: set[int] = set()
    expected: set[tuple[int, int]] = set()
    first = HEAD.count("\n") + 7
    for number in range(14):
        step = chosen.choice((1, 1, 2, 3, -1, -2))
        count = chosen.randint(1, 9)
        span = (count - 1) * abs(step)
        begin = chosen.randint(0, 63 - span) + (span if step < 0 else 0)
        elements = [begin + i * step for i in range(count)]
        view = f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{count}}} -> buf[{begin} + {step} * i] }})"
        if chosen.random() < 0.6:
            written |= set(elements)
            lines.append(f"  @fmovs({view}, 1.0);")
        else:
            missing = [each for each in elements if each not in written]
            if missing:
                expected.add((first + number, missing[0]))
            lines.append(f"  @fadds(&sum, 0.0, {view});")
    text = "var buf: [64]f32;\nvar sum: f32 = 0.0;\n\n\nfn main() void {\n\n" + "\n".join(lines)
    text += "\n  sys.unblock_cmd_stream();\n}\n"
    told = {
        (int(each.text.split(":")[1]), int(each.text.split("buf[")[1].split("]")[0]))
        for each in found(tmp_path, text)
    }
    assert told == expected


WRAPS = """
var a = [4]TYPE { 1, 30000, 7, 2 };
var b = [4]TYPE { 1, 30000, 7, -2 };
const left = @get_dsd(mem1d_dsd, .{ .base_address = &a, .extent = 4 });
const right = @get_dsd(mem1d_dsd, .{ .base_address = &b, .extent = 4 });
fn main() void {
  BODY
  sys.unblock_cmd_stream();
}
"""


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("@add16(left, left, right);", "sum"),
        ("@sub16(left, left, right); @sub16(left, left, 30000); @sub16(left, left, 30000);", "difference"),
        ("@add16(left, 30000, right);", "sum"),
    ],
)
def test_elements_that_wrap_are_told(tmp_path: Path, body: str, what: str) -> None:
    text = WRAPS.replace("TYPE", "i16").replace("BODY", body)
    (one,) = found(tmp_path, text, "overflow")
    assert f"the {what} of two i16 numbers does not fit in i16: it wraps" in one.text
    assert one.text.startswith(f"pe.csl:{line_with(text, body)}: ")


def test_elements_that_fit_or_have_no_sign_are_not(tmp_path: Path) -> None:
    fits = WRAPS.replace("TYPE", "i16").replace("BODY", "@sub16(left, left, right); @add16(left, left, 5);")
    assert not found(tmp_path, fits, "overflow")
    mixed = WRAPS.replace("var b = [4]TYPE", "var b = [4]u16").replace("TYPE", "i16").replace("-2", "2")
    assert not found(tmp_path, mixed.replace("BODY", "@add16(left, left, right);"), "overflow")
    unsigned = WRAPS.replace("TYPE", "u16").replace("-2", "40000")
    assert not found(tmp_path, unsigned.replace("BODY", "@add16(left, left, right);"), "overflow")
