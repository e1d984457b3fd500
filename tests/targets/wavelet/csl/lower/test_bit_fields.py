"""Fields of packed types that are no whole words, against a model that keeps one number for all of them."""

import random
from pathlib import Path

import pytest

from tests.targets.wavelet.csl.executed import numbers

HEADER = """const Kind = enum(u2) { plain, control, data };
const Header = packed struct { x: u5, y: i5, last: bool, kind: Kind, rest: u3 };
const Pair = packed struct { low: u8, high: i8 };
const Outer = packed struct { tag: u4, pair: Pair, end: u4, f: f16 };
const Both = packed union { full: u16, bits: Pair };
var header = Header{ .x = 1, .y = -2, .last = true, .kind = Kind.data, .rest = 5 };
var outer = Outer{ .tag = 9, .pair = Pair{ .low = 0x12, .high = -3 }, .end = 6, .f = 1.5 };
var many = [3]Pair{ Pair{ .low = 1, .high = 2 }, Pair{ .low = 3, .high = 4 }, Pair{ .low = 5, .high = 6 } };
fn sum(p: Pair) i32 { return @as(i32, p.low) + @as(i32, p.high); }
fn swapped(p: Pair) Pair { return Pair{ .low = @as(u8, p.high), .high = @as(i8, p.low) }; }
"""
CASES = {
    "begin": (
        """const words = @ptrcast([*]u16, &header); out[0] = @as(i32, words[0]);
        out[1] = @as(i32, header.x); out[2] = @as(i32, header.y); out[3] = if (header.last) 1 else 0;
        out[4] = if (header.kind == Kind.data) 1 else 0; out[5] = @as(i32, header.rest);""",
        [1 | 30 << 5 | 1 << 10 | 2 << 11 | 5 << 13, 1, -2, 1, 1, 5],
    ),
    "write": (
        """header.y = -16; header.last = false; header.kind = Kind.control; header.x += 24; header.x += 16;
        out[0] = @as(i32, header.x); out[1] = @as(i32, header.y); out[2] = if (header.last) 1 else 0;
        out[3] = if (header.kind == Kind.control) 1 else 0; out[4] = @as(i32, header.rest);""",
        [9, -16, 0, 1, 5],
    ),
    "nested": (
        """out[0] = @as(i32, outer.pair.low); out[1] = @as(i32, outer.pair.high); outer.pair.high = 7;
        out[2] = @as(i32, outer.pair.high); out[3] = @as(i32, outer.tag); out[4] = @as(i32, outer.end);
        outer.f = 2.5; out[5] = @as(i32, outer.f * 2.0); const copy = outer.pair; outer.pair.low = 0;
        out[6] = @as(i32, copy.low); outer.pair = Pair{ .low = 200, .high = -1 };
        out[7] = @as(i32, outer.pair.low); out[8] = @as(i32, outer.pair.high);
        out[9] = @as(i32, outer.end);""",
        [0x12, -3, 7, 9, 6, 5, 0x12, 200, -1, 6],
    ),
    "elements": (
        """var i: i16 = 1; many[i].high = -9; out[0] = @as(i32, many[1].low); out[1] = @as(i32, many[i].high);
        out[2] = @as(i32, many[2].low); const p = &many[2]; p.low = 77; out[3] = @as(i32, many[2].low);""",
        [3, -9, 5, 77],
    ),
    "functions": (
        """var p = Pair{ .low = 250, .high = -5 }; out[0] = sum(p); p = swapped(p); out[1] = @as(i32, p.low);
        out[2] = @as(i32, p.high);""",
        [245, 251, -6],
    ),
    "union": (
        """var u = Both{ .full = 0x1234 }; out[0] = @as(i32, u.bits.high); u.bits.low = 0xff;
        out[1] = @as(i32, u.full); u.full = 0x8000; out[2] = @as(i32, u.bits.high);""",
        [0x12, 0x12FF, -128],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_documented_bits(name: str, tmp_path: Path) -> None:
    text, expected = CASES[name]
    assert numbers(tmp_path, f"{HEADER} fn main() void {{ {text} }}", len(expected)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_bits_of_all_widths(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    kinds: list[tuple[bool, int]] = []
    while sum(bits for _, bits in kinds) < 50:
        kinds.append((draw.random() < 0.5, draw.choice((1, 2, 3, 5, 8, 11, 16, 20, 31, 32))))

    def value(signed: bool, bits: int) -> int:
        return draw.randrange(-(1 << bits - 1), 1 << bits - 1) if signed else draw.randrange(1 << bits)

    def shown(number: int, signed: bool, bits: int) -> int:
        return number - (1 << 32) if not signed and bits == 32 and number >> 31 else number

    state = [value(*kind) for kind in kinds]
    fields = ", ".join(f"f{i}: {'i' if s else 'u'}{bits}" for i, (s, bits) in enumerate(kinds))
    begin = ", ".join(f".f{i} = {number}" for i, number in enumerate(state))
    lines: list[str] = []
    for _ in range(8):
        i = draw.randrange(len(kinds))
        state[i] = value(*kinds[i])
        lines.append(f"p.f{i} = {state[i]};")
    for i, (signed, bits) in enumerate(kinds):
        read = f"p.f{i}" if signed or bits < 32 else f"@bitcast(i32, p.f{i})"
        lines.append(f"out[{i}] = @as(i32, {read});")
    text = f"const P = packed struct {{ {fields} }}; var p = P{{ {begin} }};"
    found = numbers(tmp_path, f"{text} fn main() void {{ {' '.join(lines)} }}", len(kinds))
    assert found == [shown(number, *kind) for number, kind in zip(state, kinds, strict=True)]
