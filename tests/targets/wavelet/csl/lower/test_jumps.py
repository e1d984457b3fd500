"""Jumps go to where they end: no jump leads to another one, or to a return."""

from pathlib import Path

import pytest

from npuviz.targets.wavelet.csl.lower.emitter import LONGEST_PREDICATED, Emitter, Label
from npuviz.targets.wavelet.kernels import isa
from tests.targets.wavelet.csl.executed import numbers

CHOICES = """
param unused: i16 = 0;
var which: i16 = @WHICH@;
var bound: i16 = 3;
var count: i16 = 0;
fn choose() i16 {
  var found: i16 = 0;
  if (which < 3) {
    if (which < 2) {
      if (which == 0) { found = bound + 10; count += 1; count += bound; count += 2; }
      else { found = bound + 20; count += 3; count += bound; count += 4; }
    } else { found = bound + 30; count += 5; count += bound; count += 6; }
  } else { found = bound + 40; count += 7; count += bound; count += 8; }
  return found;
}
fn main() void { out[0] = @as(i32, choose()); out[1] = @as(i32, count); }
"""


def targets(emitter: Emitter) -> list[tuple[int, int]]:
    """(operation, where to) of all jumps."""
    jumps = (isa.OP_JMP, isa.OP_JZ, isa.OP_JNZ)
    return [(row[isa.C_OP], row[isa.C_IMM]) for row in emitter.finish(100) if row[isa.C_OP] in jumps]


def test_a_branch_passes_over_chains_of_jumps() -> None:
    emitter = Emitter()
    far, link, end = Label(), Label(), Label()
    emitter.jump(far, isa.OP_JZ, 1)
    for _ in range(LONGEST_PREDICATED + 1):
        emitter.emit(isa.OP_ADD)
    emitter.set_label(far)
    emitter.jump(link)
    emitter.set_label(Label())
    emitter.is_reachable = True
    for _ in range(LONGEST_PREDICATED + 1):
        emitter.emit(isa.OP_SUB)
    emitter.set_label(link)
    emitter.jump(end)
    emitter.is_reachable = True
    for _ in range(LONGEST_PREDICATED + 1):
        emitter.emit(isa.OP_MUL)
    emitter.set_label(end)
    emitter.emit(isa.OP_ADD)
    emitter.emit(isa.OP_RET)
    place = 100 + end.position
    assert targets(emitter) == [(isa.OP_JZ, place), (isa.OP_JMP, place), (isa.OP_JMP, place)]


def test_a_jump_to_a_return_returns_on_its_own_line() -> None:
    emitter = Emitter()
    end = Label()
    emitter.line = 7
    emitter.jump(end)
    emitter.is_reachable = True
    for _ in range(LONGEST_PREDICATED + 1):
        emitter.emit(isa.OP_ADD)
    emitter.set_label(end)
    emitter.line = 9
    emitter.emit(isa.OP_RET, a=3)
    rows = emitter.finish(0)
    assert rows[0][isa.C_OP] == isa.OP_RET
    assert (rows[0][isa.C_A], rows[0][-1], rows[-1][-1]) == (3, 7, 9)


def test_a_jump_to_itself_stays() -> None:
    emitter = Emitter()
    again = Label()
    emitter.set_label(again)
    emitter.jump(again)
    assert targets(emitter) == [(isa.OP_JMP, 100)]


@pytest.mark.parametrize(("which", "found"), [(0, [13, 6]), (1, [23, 10]), (2, [33, 14]), (5, [43, 18])])
def test_choices_within_choices_give_what_they_gave(which: int, found: list[int], tmp_path: Path) -> None:
    assert numbers(tmp_path, CHOICES.replace("@WHICH@", str(which)), 2) == found
