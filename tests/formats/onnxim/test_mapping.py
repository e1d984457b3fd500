from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.formats.onnxim.mapping import LayerMapping, Loops, read_mapping

DATA = Path(__file__).parents[2] / "data" / "onnxim"


def read_text(tmp_path: Path, text: str) -> dict[Loops, LayerMapping]:
    path = tmp_path / "x.mapping"
    path.write_text(text)
    return dict(read_mapping(path))


def test_shipped_file() -> None:
    found = read_mapping(DATA / "resnet18.mapping")
    # 14 lines, two shapes occur twice.
    assert len(found) == 12
    conv1 = found[Loops(c=3, m=64, p=112, q=112, s=7, r=7)]
    assert conv1.outer == Loops(m=4, p=5, q=6)
    assert conv1.inner == Loops(c=3, m=16, p=23, q=22, s=7, r=7)
    assert found[Loops(c=512, m=1000)].inner == Loops(c=512, m=248)


def test_further_sections_multiply_and_suffixes_count(tmp_path: Path) -> None:
    found = read_text(tmp_path, "[T] N1 C64 M64 - [O] M2 - [I] C4 M2 - [S] C8Y M16X\n\n")
    assert found[Loops(c=64, m=64)].inner == Loops(c=32, m=32)


def test_last_of_equal_shapes_stays(tmp_path: Path) -> None:
    found = read_text(tmp_path, "[T] C4 M4 - [O] M2 - [I] C4 M2\n[T] C4 M4 - [O] M4 - [I] C4 M1\n")
    assert found[Loops(c=4, m=4)].outer == Loops(m=4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[T] C4 - [O] M2", r"line 2: expected \[T\] ... - \[O\] ... - \[I\]"),
        ("[O] C4 - [T] M2 - [I] C1", "line 2"),
        ("[T] C4 K3 - [O] M2 - [I] C1", "found 'K3'"),
        ("[T] C4 C5 - [O] M2 - [I] C1", "loop C once"),
        ("[T] C0 - [O] M2 - [I] C1", "found C0"),
        ("[T] C9999999999 - [O] M2 - [I] C1", "a count from 1"),
        ("[T] C-4 - [O] M2 - [I] C1", "line 2"),
        ("[T] Cx - [O] M2 - [I] C1", "found 'Cx'"),
    ],
)
def test_wrong_lines(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_text(tmp_path, "[T] C1 M1 - [O] M1 - [I] C1\n" + line)


loops = st.builds(Loops, *[st.integers(1, 1000)] * 7)


def write(loop: Loops) -> str:
    return f"N{loop.n} C{loop.c} M{loop.m} P{loop.p} Q{loop.q} S{loop.s} R{loop.r}"


@given(total=loops, outer=loops, inner=loops)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, total: Loops, outer: Loops, inner: Loops
) -> None:
    folder = tmp_path_factory.mktemp("mapping")
    found = read_text(folder, f"[T] {write(total)} - [O] {write(outer)} - [I] {write(inner)}")
    assert found == {total: LayerMapping(total, outer, inner)}


def test_truncation_everywhere(tmp_path: Path) -> None:
    whole = "[T] N1 C3 M64 - [O] N1 C1 M4 - [I] N1 C3 M16"
    for length in range(len(whole)):
        try:
            found = read_text(tmp_path, whole[:length])
        except FormatError:
            continue
        assert len(found) <= 1
