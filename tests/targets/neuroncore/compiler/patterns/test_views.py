"""Patterns address what numpy's views of the same slicing address."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.base.errors import SimulationError
from npuviz.targets.neuroncore.compiler.patterns.descriptors import Side, descriptors, hbm_side
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import OPERAND_DTYPE, Space
from npuviz.targets.neuroncore.tables import Access


def addresses(shape: tuple[int, ...], steps: tuple[int, ...], first: int = 0) -> np.ndarray:
    """Addresses of a pattern's elements."""
    found = np.array(first)
    for size, step in zip(shape, steps, strict=True):
        found = found[..., None] + np.arange(size) * step
    return found


def hbm(shape: tuple[int, ...], dtype: str = "float32") -> tuple[HbmView, np.ndarray]:
    """A whole variable and the byte address of each of its elements."""
    view = HbmView(0, 0, dtype, shape)
    return view, np.arange(np.prod(shape, dtype=int)).reshape(shape) * view.itemsize


def assert_same(view: HbmView, expected: np.ndarray) -> None:
    assert view.shape == expected.shape
    assert np.array_equal(addresses(view.shape, view.steps, view.offset), expected)


KEYS: list[Any] = [
    (slice(1, 5), slice(None), 3),
    (2, slice(None, None, -1)),
    (..., slice(None, None, 2)),
    (slice(4, None, -2), ..., slice(5, 1, -1)),
    -1,
    (slice(6), -2, slice(1, 2)),
]


@pytest.mark.parametrize("key", KEYS)
def test_hbm_slicing_is_numpys(key: Any) -> None:
    view, cells = hbm((7, 4, 6))
    assert_same(view[key], cells[key])


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.permute(2, 0, 1) if isinstance(v, HbmView) else v.transpose(2, 0, 1),
        lambda v: v.reshape(7, 24),
        lambda v: v.reshape(-1, 2, 3),
        lambda v: v[::-1].reshape(7, 2, 2, 6),
        lambda v: (
            v[:, 1:2].broadcast_to((7, 4, 6))
            if isinstance(v, HbmView)
            else np.broadcast_to(v[:, 1:2], (7, 4, 6))
        ),
        lambda v: v.reshape(168) if not isinstance(v, HbmView) else v.flatten(),
    ],
)
def test_hbm_views_are_numpys(change: Callable[[Any], Any]) -> None:
    view, cells = hbm((7, 4, 6))
    assert_same(change(view), change(cells))


def test_a_reshape_that_numpy_would_copy_is_refused() -> None:
    view, _ = hbm((7, 4, 6))
    with pytest.raises(ValueError, match="not a view"):
        view.permute(1, 0, 2).reshape(28, 6)
    with pytest.raises(ValueError, match="cannot reshape"):
        view.reshape(5, 5)
    with pytest.raises(ValueError, match="broadcast"):
        view.broadcast_to((7, 5, 6))
    with pytest.raises(IndexError):
        view[9]
    with pytest.raises(TypeError):
        view["a"]


def test_bitcast_needs_dense_elements() -> None:
    view, _ = hbm((3, 4), "int64")
    words = view.bitcast("int32")
    assert (words.shape, words.steps) == ((3, 8), (32, 4))
    assert words[:, ::2].steps == (32, 8)
    assert words.bitcast("int64").shape == (3, 4)
    assert hbm((3, 4), "uint8")[0].bitcast("bool").shape == (3, 4)
    with pytest.raises(ValueError, match="cannot be taken as 4 bytes"):
        view[:, ::2].bitcast("int32")
    with pytest.raises(ValueError, match="cannot be taken as 8 bytes"):
        hbm((3, 3), "int32")[0].bitcast("int64")


def tile_view(shape: tuple[int, ...], dtype: str = "float32", partitions: int = 128) -> View:
    """A view of a tile large enough, at byte 256."""
    return View(Tile(Space.SBUF, 256, 1 << 16), 0, partitions, 256, dtype, shape)


def packed_addresses(view: View) -> tuple[np.void, np.ndarray]:
    operand = np.frombuffer(view.packed(), OPERAND_DTYPE)[0]
    sizes, steps = operand["sizes"].tolist(), operand["steps"].tolist()
    return operand, int(operand["address"]) + addresses(tuple(sizes), tuple(steps)).reshape(
        -1
    ) * view.itemsize


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v[:, 1:4, ::2],
        lambda v: v[:, 2, 1:],
        lambda v: v[:, :, 5],
        lambda v: v.reshape(5, 2, 4),
        lambda v: v[:, ::-1],
    ],
)
def test_view_operands_hold_what_numpy_slices(change: Callable[[Any], Any]) -> None:
    cells = np.broadcast_to(np.arange(40).reshape(5, 8), (128, 5, 8))
    view = tile_view((5, 8))
    expected = change(cells if change(view).shape != (5, 2, 4) else cells[0])
    expected = expected[0] if expected.ndim > len(change(view).shape) else expected
    _, found = packed_addresses(change(view))
    assert np.array_equal(found, 256 + 4 * expected.reshape(-1))


def test_partitions_are_sliced_first() -> None:
    view = tile_view((6,))[32:64, 2:4]
    operand, _ = packed_addresses(view)
    assert (operand["partition"], operand["partitions"], operand["address"]) == (32, 32, 264)
    assert view.box() == (32, 64, 264, 272)
    one = tile_view((6,))[64]
    assert (one.partition, one.partitions, one.shape) == (64, 1, (6,))


@pytest.mark.parametrize("rows", [slice(16, 32), slice(32, 97), slice(96, 128), slice(64, 128), slice(1, 2)])
def test_start_partitions_follow_the_rule(rows: slice) -> None:
    view = tile_view((6,))[rows]
    count = rows.stop - rows.start
    is_legal = rows.start % (128 if count > 64 else 64 if count > 32 else 32) == 0
    if is_legal:
        view.packed()
    else:
        with pytest.raises(SimulationError, match="may not start at partition"):
            view.packed()


def test_what_does_not_fit_an_operand_is_refused() -> None:
    with pytest.raises(SimulationError, match="5 free dimensions"):
        tile_view((2, 3, 2, 3, 2)).permute(4, 3, 2, 1, 0).packed()
    wide = View(Tile(Space.SBUF, 0, 1 << 18), 0, 128, 0, "uint8", (70000,))
    with pytest.raises(SimulationError, match="16 bits"):
        wide.packed()
    with pytest.raises(SimulationError, match="leaves its tile"):
        View(Tile(Space.SBUF, 0, 64), 0, 128, 0, "float32", (17,)).packed()
    with pytest.raises(SimulationError, match="no elements"):
        tile_view((6,))[:, 3:3].packed()


def test_view_broadcast_and_bitcast() -> None:
    view = tile_view((6,))[:, 0:1].broadcast(4, 6)
    assert view.steps == (0, 0)
    assert tile_view((6, 2), "int32").bitcast("uint8").shape == (6, 8)
    assert tile_view((6, 1)).broadcast(6, 5).steps == (1, 0)
    with pytest.raises(ValueError, match="cannot broadcast"):
        tile_view((6, 2)).broadcast(6, 5)


def access_addresses(access: Access) -> np.ndarray:
    """Byte addresses in the order of the stream."""
    shape, steps = access.sizes[::-1], access.steps[::-1]
    return addresses(tuple(shape), tuple(steps), access.offset).reshape(-1)


def moved(to: Side, source: Side, size: int) -> np.ndarray:
    """Where each byte of a target of `size` bytes comes from, -1 if it is not written."""
    found = np.full(size, -1)
    for descriptor in descriptors(to, source):
        assert max(len(descriptor.to.sizes), len(descriptor.sources[0].sizes)) <= 4
        assert descriptor.to.steps[0] == descriptor.sources[0].steps[0] == 1
        found[access_addresses(descriptor.to)] = access_addresses(descriptor.sources[0])
    return found


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_descriptors_move_every_byte_of_any_pattern(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 6))
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    view, cells = hbm(tuple(2 * size for size in shape), data.draw(st.sampled_from(["float32", "uint8"])))
    axes = data.draw(st.permutations(range(rank)))
    key = tuple(
        data.draw(
            st.sampled_from(
                [slice(None, size), slice(size, None), slice(None, None, 2), slice(None, None, -2)]
            )
        )
        for size in shape
    )
    source = view[key].permute(*axes)
    expected = cells[key].transpose(axes)
    target = HbmView(1, 0, view.dtype, source.shape)
    item = view.itemsize
    found = moved(hbm_side(target), hbm_side(source), expected.size * item)
    wanted = (expected.reshape(-1, 1) + np.arange(item)).reshape(-1)
    assert np.array_equal(found, wanted)


def test_contiguous_bytes_become_one_long_element() -> None:
    view, _ = hbm((8, 16, 32))
    (only,) = descriptors(hbm_side(HbmView(1, 0, "float32", (8, 16, 32))), hbm_side(view))
    assert only.to.sizes == only.sources[0].sizes == (8 * 16 * 32 * 4,)
