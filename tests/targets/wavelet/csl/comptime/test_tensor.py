from pathlib import Path

import pytest

from npuviz.base.errors import SourceError
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.tensor import strides
from npuviz.targets.wavelet.csl.comptime.values import DsdValue, PointerValue, StructValue
from tests.targets.wavelet.csl.programs import elaborate, globals_of, plain


def access(folder: Path, array: str, text: str) -> tuple[object, object, object]:
    """(offset, strides innermost first, extents outermost first)."""
    found = globals_of(folder, f"var A: {array}; const a = {text};")["a"]
    assert isinstance(found, StructValue)
    assert isinstance(found.fields["base_address"], PointerValue)
    return tuple(plain(found.fields[name]) for name in ("offset", "stride", "extent"))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("array", "text", "expected"),
    [
        ("[100]f32", "|i|{5} -> A[2 * i + 42]", (42, [2], [5])),
        ("[20]f32", "|p, q|{5, 5} -> A[2 * p + q]", (0, [1, -2], [5, 5])),
        (
            "[4, 5]f32",
            "|p, q, r, s|{5, 5, 5, 5} -> A[p + q, r + s + 2]",
            (2, [1, -3, 5 - 4 - 4, 5 - 20 - 4 - 4], [5] * 4),
        ),
        ("[20, 20]f32", "|i|{20} -> A[i, i]", (0, [21], [20])),
        ("[4]f32", "|i|{9} -> A[2]", (2, [0], [9])),
        ("[4, 3]f32", "|i, j|{2, 2} -> A[i, j]", (0, [1, 3 - 1], [2, 2])),
        ("[9]f32", "|i|{4} -> A[8 - i]", (8, [-1], [4])),
        ("[9]f32", "|i|{0} -> A[i]", (0, [1], [0])),
    ],
)
def test_offset_strides_and_extents(tmp_path: Path, array: str, text: str, expected: object) -> None:
    assert access(tmp_path, array, text) == expected


def walk(offset: int, stride: list[int], extent: list[int]) -> list[int]:
    """Addresses that the hardware visits: after each element the stride of the outermost loop that steps."""
    innermost_first = list(reversed(extent))
    counters = [0] * len(innermost_first)
    found: list[int] = []
    address = offset
    while True:
        found.append(address)
        for level, length in enumerate(innermost_first):
            counters[level] += 1
            if counters[level] < length:
                address += stride[level]
                break
            counters[level] = 0
        else:
            return found


@pytest.mark.parametrize(
    ("array", "text", "expected"),
    [
        ("[20]f32", "|p, q|{5, 5} -> A[2 * p + q]", [2 * p + q for p in range(5) for q in range(5)]),
        (
            "[4, 5]f32",
            "|p, q, r, s|{2, 3, 2, 4} -> A[p + q, r + s + 2]",
            [5 * (p + q) + r + s + 2 for p in range(2) for q in range(3) for r in range(2) for s in range(4)],
        ),
        (
            "[1, 2, 3, 4]f32",
            "|p, q, r, s|{1, 2, 1, 4} -> A[p, q, 1 + r, s]",
            [12 * q + 4 + s for q in range(2) for s in range(4)],
        ),
    ],
)
def test_the_strides_visit_the_elements_in_order(
    tmp_path: Path, array: str, text: str, expected: list[int]
) -> None:
    offset, stride, extent = access(tmp_path, array, text)
    assert isinstance(offset, int)
    assert isinstance(stride, list)
    assert isinstance(extent, list)
    assert walk(offset, stride, extent) == expected


def test_stride_rule() -> None:
    assert strides([1, 4, 12, 24], [4, 1, 2, 1]) == (1, 4 - 3, 12 - 3 - 0, 24 - 3 - 0 - 12)


def test_types_of_the_fields(tmp_path: Path) -> None:
    found = globals_of(tmp_path, "var A: [9]f32; const a = |i|{4} -> A[i];")["a"]
    assert isinstance(found, StructValue)
    assert found.kind.field_type("offset") is t.I16
    assert found.kind.field_type("stride") is t.tuple_type((t.I8,))
    assert found.kind.field_type("extent") is t.tuple_type((t.U16,))


def test_base_may_be_a_pointer_or_a_member(tmp_path: Path) -> None:
    found = globals_of(
        tmp_path,
        """
        var A: [4, 6]f32;
        const p: *[4, 6]f32 = &A;
        const row = &A[2, 0];
        const q = @ptrcast([*]f32, row);
        const a = |i|{4} -> p[i, 1];
        const b = |i|{4} -> q[i + 1];
        const d = @get_dsd(mem1d_dsd, .{ .tensor_access = b });
        """,
    )
    a = found["a"]
    assert isinstance(a, StructValue)
    assert plain(a.fields["stride"]) == [6]
    d = found["d"]
    assert isinstance(d, DsdValue)
    assert d.base is not None
    assert (d.base.offset, d.offset, d.extent) == (4 * 12, 4, (4,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("|i|{4} -> A[i, i]", "1 dimensions, found 2"),
        ("|i|{4} -> A[i * i]", "times constants"),
        ("|i|{-1} -> A[i]", "0 to 65535"),
        ("|i|{70000} -> A[i]", "0 to 65535"),
        ("|i, j, k, l, m|{1, 1, 1, 1, 1} -> A[i]", "at most 4"),
        ("|i|{4} -> n[i]", "needs an array"),
    ],
)
def test_wrong_accesses(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        elaborate(tmp_path, {"pe.csl": f"const n: u16 = 1; var A: [9]f32; comptime {{ const x = {text}; }}"})
