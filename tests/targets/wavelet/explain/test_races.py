"""Threads of one PE that touch the same memory while nothing orders them."""

import itertools
from pathlib import Path

import pytest

from npuviz.targets.wavelet.kernels.dsd import races
from tests.targets.wavelet.small import EASTWARD, of_kind, run

KINDS = ("early-read", "early-overwrite", "unordered-writes")
PROGRAM = """
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const out = @get_dsd(fabout_dsd, .{ .extent = 32, .output_queue = oq });
const in = @get_dsd(fabin_dsd, .{ .extent = 32, .input_queue = iq });
var buf = @zeros([64]f32);
var kept: f32 = 0.0;
var late: i16 = %d;
const lower = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{32} -> buf[i] });
const upper = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{32} -> buf[i + 32] });
const even = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{32} -> buf[2 * i] });
const odd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{32} -> buf[2 * i + 1] });
const done = @get_local_task_id(9);
task end() void { %s sys.unblock_cmd_stream(); }
comptime {
  @bind_local_task(end, done);
  if (x == 0) { @initialize_queue(oq, .{ .color = c }); } else { @initialize_queue(iq, .{ .color = c }); }
}
fn main() void {
  if (x == 0) {
    @fmovs(out, %s, .{ .async = true, .activate = done });
    %s
  } else {
    while (late > 0) : (late -= 1) {}
    @fmovs(%s, in, .{ .async = true, .activate = done });
    %s
  }
}
"""


def _kinds(
    folder: Path, end: str, sent: str, sender: str, filled: str, receiver: str, late: int = 0
) -> set[str]:
    """Kinds of races that PE(0,0), the sender, and PE(1,0) have; the latter begins after `late` rounds."""
    _, machine = run(folder, PROGRAM % (late, end, sent, sender, filled, receiver), 2, EASTWARD)
    found = {kind: of_kind(machine, kind) for kind in KINDS}
    for kind, hazards in found.items():
        for hazard in hazards:
            assert "buf" in hazard.text
            assert "pe.csl:" in hazard.text.partition(": ")[2], (kind, hazard.text)  # the other line too
            assert hazard.level == "error"
    return {kind for kind, hazards in found.items() if hazards}


@pytest.mark.parametrize(
    ("filled", "receiver", "kinds"),
    [
        ("lower", "kept = buf[31];", {"early-read"}),
        ("lower", "kept = buf[32];", set()),
        ("lower", "buf[31] = 1.0;", {"unordered-writes"}),
        ("lower", "@fmovs(lower, 0.0);", {"unordered-writes"}),
        ("lower", "@fmovs(upper, lower);", {"early-read"}),
        ("lower", "@fmovs(upper, 0.0);", set()),
        ("even", "@fmovs(odd, 0.0);", set()),
        ("even", "@fmovs(odd, even);", {"early-read"}),
        ("even", "@fmovs(lower, 0.0);", {"unordered-writes"}),
        ("odd", "kept = buf[62];", set()),
    ],
)
def test_what_a_receiver_does_before_its_words_are_there(
    tmp_path: Path, filled: str, receiver: str, kinds: set[str]
) -> None:
    assert _kinds(tmp_path, "", "upper", "", filled, receiver) == kinds


@pytest.mark.parametrize(
    ("sent", "sender", "kinds"),
    [
        ("lower", "@fmovs(lower, 0.0);", {"early-overwrite"}),
        ("lower", "buf[31] = 1.0;", {"early-overwrite"}),
        ("lower", "kept = buf[31];", set()),
        ("lower", "@fmovs(upper, lower);", set()),
        ("even", "@fmovs(odd, 0.0);", set()),
    ],
)
def test_what_a_sender_does_before_its_words_are_gone(
    tmp_path: Path, sent: str, sender: str, kinds: set[str]
) -> None:
    """The receiver comes late: else the sending thread goes first, and is done before anything else."""
    assert _kinds(tmp_path, "", sent, sender, "lower", "", late=100) == kinds


def test_what_waits_for_the_end_is_no_race(tmp_path: Path) -> None:
    end = "@fmovs(lower, upper); @fmovs(upper, lower); buf[3] = buf[4];"
    assert _kinds(tmp_path, end, "lower", "", "lower", "") == set()


def test_rows_of_elements_meet_as_their_bytes_do() -> None:
    """Against sets of bytes, for every small row: exact where strides are equal or a row has no gaps."""
    meet = getattr(races.meet, "py_func", races.meet)
    rows = list(itertools.product((0, 2, 6, 12), (-6, -4, 0, 2, 4, 6), (1, 2, 4), (2, 4)))
    for first, second in itertools.product(rows, repeat=2):
        bytes_of = [
            {row[0] + 40 + k * row[1] + byte for k in range(row[2]) for byte in range(row[3])}
            for row in (first, second)
        ]
        exact = abs(first[1]) == abs(second[1]) or any(
            row[2] == 1 or row[1] == 0 or abs(row[1]) == row[3] for row in (first, second)
        )
        found = meet(*(races.Row(row[0] + 40, *row[1:]) for row in (first, second)))
        if exact:
            assert bool(found) == bool(bytes_of[0] & bytes_of[1]), (first, second)
        elif found:
            assert bytes_of[0] & bytes_of[1], (first, second)
