"""Tiles rotate through SBUF and PSUM, and what is in use is never given away."""

import random

import pytest

from npuviz.base.errors import DoesNotFit
from npuviz.targets.neuroncore.compiler.builder.allocator import PsumAllocator, SbufAllocator
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile


def close(tile: Tile) -> None:
    tile.users = 0


def test_successive_tiles_alternate() -> None:
    allocator = SbufAllocator(1024)
    addresses: list[int] = []
    for _ in range(5):
        tile, _ = allocator.allocate(256, "a tile")
        addresses.append(tile.address)
        close(tile)
    assert addresses == [0, 256, 512, 768, 0]


def test_open_tiles_keep_their_bytes() -> None:
    draw = random.Random(1)
    allocator = SbufAllocator(4096)
    opened: list[Tile] = []
    for _ in range(400):
        if opened and draw.random() < 0.55:
            close(opened.pop(draw.randrange(len(opened))))
        try:
            tile, lost = allocator.allocate(draw.randrange(1, 900), "a tile")
        except DoesNotFit:
            continue
        assert tile.address + tile.size <= 4096
        assert all(old.users == 0 for old in lost)
        for other in opened:
            assert other.address + other.size <= tile.address or tile.address + tile.size <= other.address
        opened.append(tile)
    assert allocator.peak <= 4096


def test_a_full_memory_says_who_needs_what() -> None:
    allocator = SbufAllocator(1024)
    allocator.allocate(640, "a tile")
    with pytest.raises(DoesNotFit, match=r"weights of conv1 needs 512 bytes .* 640 of 1024"):
        allocator.allocate(512, "weights of conv1")


def test_a_used_copy_gets_a_second_chance() -> None:
    allocator = SbufAllocator(1024)
    tiles = [allocator.allocate(256, "a tile")[0] for _ in range(4)]
    for tile in tiles:
        close(tile)
    tiles[0].chance = True
    assert allocator.allocate(256, "a tile")[0].address == 256
    close(allocator.allocate(512, "a tile")[0])
    # The second time round it goes like the others.
    assert allocator.allocate(256, "a tile")[0].address == 0


def test_a_new_tile_inherits_what_was_done_to_its_bytes() -> None:
    allocator = SbufAllocator(1024)
    old, _ = allocator.allocate(512, "a tile")
    old.writes[((0, 128, 0, 512), 2)] = 7
    old.reads[((0, 128, 0, 512), 5)] = 3
    close(old)
    close(allocator.allocate(512, "a tile")[0])
    first, lost = allocator.allocate(128, "a tile")
    assert lost == [old]
    assert first.prior == {2: 8, 5: 4}
    # The rest of the old tile still binds those who come later.
    assert allocator.allocate(128, "a tile")[0].prior == {2: 8, 5: 4}


def test_after_a_restart_everything_waits() -> None:
    allocator = SbufAllocator(1024)
    allocator.allocate(512, "a tile")
    allocator.restart({0: 4})
    tile, _ = allocator.allocate(1024, "a tile")
    assert tile.prior == {0: 4}


def test_psum_banks_rotate() -> None:
    allocator = PsumAllocator(4, 2048)
    first = allocator.allocate(2048, "sums")
    assert [allocator.allocate(64, "sums").address for _ in range(3)] == [2048, 4096, 6144]
    with pytest.raises(DoesNotFit, match="4 PSUM banks"):
        allocator.allocate(64, "sums")
    close(first)
    assert allocator.allocate(64, "sums").address == 0
    with pytest.raises(DoesNotFit, match="a PSUM bank has 2048"):
        allocator.allocate(2049, "sums")
