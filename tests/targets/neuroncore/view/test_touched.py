"""The bytes that instructions touch: strided tiles, transfers, and their reach against access rows."""

from pathlib import Path

import pytest

from npuviz.onnx.reader import read_model
from npuviz.program.instruction import HasTouched, Touched
from npuviz.program.source import HasSource
from npuviz.targets.neuroncore.compiler.compile import compile_graph
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.isa import Space
from npuviz.targets.neuroncore.view import touched
from npuviz.targets.neuroncore.view.listing import NeuronListing
from npuviz.workbench.opening import OpenOptions, open_file
from tests.targets.neuroncore.every_kind import LNC2, everything
from tests.targets.neuroncore.nki.running import SECOND

MODEL = Path(__file__).parents[4] / "sample_models" / "tiny_cnn.onnx"
KERNEL = (
    SECOND
    + """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 16), dtype=a.dtype, buffer=nl.sbuf)
    other = nl.ndarray((128, 16), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.memset(dst=other, value=0.0)
    nisa.tensor_copy(dst=other[0:64, 0:16:4], src=tile[0:64, 4:8])
    nisa.dma_copy(dst=out, src=other)
    return out
"""
)


def line_of(text: str) -> int:
    return KERNEL[: KERNEL.index(text)].count("\n") + 1


def touched_of_line(listing: object, text: str) -> tuple[Touched, ...]:
    assert isinstance(listing, HasSource)
    assert isinstance(listing, HasTouched)
    indices = [i for first, end in listing.ranges_of_line(0, line_of(text)) for i in range(first, end)]
    return tuple(each for index in indices for each in listing.touched_by(index))


def test_strided_parts_of_tiles_and_transfers(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    opened = open_file(tmp_path / "kernel.py", OpenOptions(settings={"shape.a": "128x16"}))
    try:
        assert opened.session is not None
        listing = opened.session.program.listing
        (tile,) = touched_of_line(listing, "nisa.dma_copy(dst=tile")
        assert (tile.size_bytes, tile.banks, tile.is_written) == (64, 128, True)
        (other,) = touched_of_line(listing, "nisa.memset")
        read, *written = touched_of_line(listing, "nisa.tensor_copy")
        assert read == Touched(tile.memory, tile.address + 16, 16, 64, False)
        assert written == [Touched(other.memory, other.address + 16 * n, 4, 64, True) for n in range(4)]
        (source,) = touched_of_line(listing, "nisa.dma_copy(dst=out")
        assert source == Touched(other.memory, other.address, 64, 128, False)
        assert isinstance(listing, HasTouched)
        with pytest.raises(IndexError):
            listing.touched_by(1 << 20)
    finally:
        opened.close()


def reach(pieces: list[tuple[int, int, int, int]]) -> tuple[int, int, int, int]:
    """Return the box around (partition, partitions, low, high)."""
    return (
        min(each[0] for each in pieces),
        max(each[0] + each[1] for each in pieces),
        min(each[2] for each in pieces),
        max(each[3] for each in pieces),
    )


@pytest.mark.parametrize("most", [touched.MAX_RUNS, 1])
def test_pieces_reach_as_far_as_the_accesses(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched, "MAX_RUNS", most)
    seen: set[Space] = set()
    for made in (everything(), compile_graph(read_model(MODEL), LNC2)):
        seen |= check_reach(made)
    assert seen == {Space.SBUF, Space.PSUM}


def check_reach(made: Compiled) -> set[Space]:
    """Hold what each instruction touches against its access rows; return the memories."""
    listing = NeuronListing(made.tables, LNC2, made.graph)
    seen: set[Space] = set()
    for index in range(len(listing)):
        boxes: dict[tuple[int, bool], list[tuple[int, int, int, int]]] = {}
        for each in listing.touched_by(index):
            pitch = LNC2.psum_partition_bytes if each.memory % 2 else LNC2.sbuf_partition_bytes
            partition, low = divmod(each.address, pitch)
            key = each.memory, each.is_written
            boxes.setdefault(key, []).append((partition, each.banks, low, low + each.size_bytes))
            seen.add(Space.PSUM if each.memory % 2 else Space.SBUF)
        wanted: dict[tuple[int, bool], list[tuple[int, int, int, int]]] = {}
        for memory, write, partition, count, low, high, *_ in listing._dependencies.accesses(index).tolist():
            if memory < 2 * made.tables.num_cores and made.tables.instructions[index]["opcode"]:
                wanted.setdefault((memory, bool(write)), []).append((partition, count, low, high))
        assert {key: reach(found) for key, found in boxes.items()} == {
            key: reach(found) for key, found in wanted.items()
        }
    return seen
