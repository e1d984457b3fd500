# Kernels of both generations: what the machine computes is what numpy says.
from pathlib import Path

import numpy as np
import pytest

from npuviz.program.source import HasSource
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, outputs_of, ran, random

SAMPLES = Path(__file__).parents[4] / "sample_models" / "nki"


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _sample(folder: Path, name: str, **inputs: np.ndarray) -> np.ndarray:
    return ran(folder, (SAMPLES / f"{name}.py").read_text(), inputs)


def test_the_samples_are_right(tmp_path) -> None:
    a, b = random(256, 64), random(256, 64, seed=1)
    assert (_sample(tmp_path, "vector_add", a=a, b=b) == a + b).all()
    x = random(200, 96)
    assert np.allclose(_sample(tmp_path, "softmax", x=x), _softmax(x), atol=1e-6)
    a, b = random(256, 128), random(256, 512, seed=1)
    assert np.allclose(_sample(tmp_path, "matmul", a_transposed=a, b=b), a.T @ b, atol=1e-3)
    q, k, v = random(64, 256) / 8, random(64, 256, seed=1), random(256, 64, seed=2)
    assert np.allclose(_sample(tmp_path, "flash_attention", q=q, k=k, v=v), _softmax(q.T @ k) @ v, atol=1e-5)


BLOCKS = (
    FIRST
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray((4, nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.sbuf)
    total = nl.zeros((nl.par_dim(128), 64), dtype=np.float32, buffer=nl.psum)
    ones = nl.shared_constant(np.identity(128, dtype=np.float32))
    identity = nl.load(ones)
    for i in nl.affine_range(4):
        tiles[i, nl.arange(128)[:, None], nl.arange(64)[None, :]] = nl.load(
            x[128 * i + nl.arange(128)[:, None], nl.arange(64)[None, :]]
        )
        total += nisa.nc_matmul(identity, tiles[i, nl.arange(128)[:, None], nl.arange(64)[None, :]])
    for i in nl.affine_range(4):
        scaled = nl.multiply(tiles[i], 2.0)
        nl.store(out[i], nl.add(scaled, total))
    return out
"""
)


def test_block_dimensions_and_accumulation_in_psum(tmp_path) -> None:
    x = random(512, 64)
    parts = x.reshape(4, 128, 64)
    assert np.allclose(ran(tmp_path, BLOCKS, {"x": x}), 2 * parts + parts.sum(0), atol=1e-5)


SHAPES = (
    SECOND
    + """
@nki.jit
def kernel(x, rows):
    out = nl.ndarray((64, 12), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 4, 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.reshape(64, 4, 6))
    even = nl.ndarray((64, 4, 3), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=even, src=tile.slice(2, 0, 6, 2))
    turned = nl.ndarray((64, 12), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=turned.reshape(64, 3, 4), src=even.permute((0, 2, 1)))
    index = nl.ndarray((64, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=index, src=rows)
    picked = nl.ndarray((64, 12), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=picked, src=x.ap([[24, 64], [2, 12]], vector_offset=index))
    pattern = nl.ndarray((64, 12), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=pattern, pattern=[[1, 12]], offset=5, channel_multiplier=12)
    nisa.tensor_tensor(dst=turned, data1=turned, data2=picked, op=nl.add)
    nisa.tensor_tensor(dst=turned, data1=turned, data2=pattern, op=nl.add)
    nisa.dma_copy(dst=out, src=turned)
    return out
"""
)


def test_views_access_patterns_and_rows_by_index(tmp_path) -> None:
    x = random(64, 24)
    rows = np.random.default_rng(1).integers(0, 64, (64, 1)).astype(np.int32)
    expected = x.reshape(64, 4, 6)[:, :, ::2].transpose(0, 2, 1).reshape(64, 12)
    expected = expected + x[rows[:, 0], ::2] + (5 + 12 * np.arange(64)[:, None] + np.arange(12))
    assert np.allclose(ran(tmp_path, SHAPES, {"x": x, "rows": rows}), expected, atol=1e-4)


GRID = (
    FIRST
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(1)
    rows = nl.ds(i * 128, 128)
    columns = nl.ds(j * 32, 32)
    nl.store(out[rows, columns], nl.exp(nl.load(x[rows, columns])) - nl.num_programs(axes=(0, 1)))
    return out
"""
)


def test_the_instances_of_a_grid_share_their_output(tmp_path) -> None:
    x = random(256, 96)
    assert np.allclose(ran(tmp_path, GRID, {"x": x}, grid="2x3"), np.exp(x) - 6, atol=1e-5)


COMPOSITES = (
    FIRST
    + """
@nki.jit
def kernel(x, w):
    out = nl.ndarray((4, 100, 48), dtype=x.dtype, buffer=nl.shared_hbm)
    tile, row = nl.load(x), nl.load(w)
    nl.store(out[0], nl.softmax(tile, axis=1))
    nl.store(out[1], nl.rms_norm(tile, row, axis=1, n=48, epsilon=1e-5))
    nl.store(out[2], nl.where(tile > 0.0, tile, -1.5))
    distance = tile - nl.mean(tile, axis=1, keepdims=True)
    nl.store(out[3], distance * nl.rsqrt(nl.var(tile, axis=1, keepdims=True)))
    return out
"""
)


def test_composites(tmp_path) -> None:
    x, w = random(100, 48), random(1, 48, seed=3)
    found = ran(tmp_path, COMPOSITES, {"x": x, "w": w})
    assert np.allclose(found[0], _softmax(x), atol=1e-6)
    assert np.allclose(found[1], x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w, atol=1e-5)
    assert np.allclose(found[2], np.where(x > 0, x, -1.5))
    assert np.allclose(found[3], (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), atol=1e-5)


def test_tiles_that_are_dead_make_room(tmp_path) -> None:
    text = (
        SECOND
        + """
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = []
        for n in range(16):
            tile = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)
            tiles.append(tile)
        nisa.dma_copy(dst=out, src=tiles[3])
        return out
    """.replace("\n    ", "\n")
    )
    x = random(128, 8192)
    assert (ran(tmp_path, text, {"x": x}) == x).all()
    together = text.replace(
        "src=tiles[3])",
        "src=tiles[3])\n    wide = [nl.ndarray((128, 32000), x.dtype, nl.sbuf) for n in range(2)]\n"
        "    nisa.tensor_copy(dst=wide[0], src=wide[1])",
    )
    with pytest.raises(Exception, match=r"kernel.py:\d+: .*in each SBUF partition"):
        ran(tmp_path, together, {"x": x})


def test_instructions_know_their_lines(tmp_path) -> None:
    spec, program = loaded(tmp_path, BLOCKS, {"x": random(512, 64)})
    listing = program.listing
    assert isinstance(listing, HasSource)
    (source,) = listing.sources
    assert source.text == (tmp_path / "kernel.py").read_text()
    line = 1 + source.text.splitlines().index("        scaled = nl.multiply(tiles[i], 2.0)")
    assert line in listing.lines_with_code(0)
    ranges = listing.ranges_of_line(0, line)
    found = [index for first, end in ranges for index in range(first, end)]
    assert len(found) == 4
    for index in found:
        place = listing.place_of(index)
        assert place is not None
        assert place.line == line
        assert "tensor_scalar" in listing.describe(index).opcode
    assert len(outputs_of(spec, program)) == 1


SLICES = (
    SECOND
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray((64, 12), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 12), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    turned = nl.ndarray((64, 12), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=turned[:, 0:5], src=tile[64:128, 7:12])
    nisa.tensor_copy(dst=turned[:, 5:12], src=tile[64:128, 0:7])
    nisa.dma_copy(dst=out, src=turned)
    return out
"""
)


def test_slices_on_the_chip_begin_at_their_partition_and_column(tmp_path) -> None:
    x = random(128, 12)
    assert (ran(tmp_path, SLICES, {"x": x}) == np.roll(x[64:], 5, axis=1)).all()


ACCUMULATORS = (
    SECOND
    + """
@nki.jit
def kernel(x, bounds):
    out = nl.ndarray((64, 75), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 24), dtype=nl.float32, buffer=nl.sbuf)
    limits = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    made = nl.ndarray((64, 75), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=limits, src=bounds)
    nisa.tensor_scalar_reduce(
        dst=made[:, 0:12], data=tile[:, 0:12], op0=nl.multiply, operand0=2.0, reduce_op=nl.add
    )
    nisa.tensor_scalar_reduce(
        dst=made[:, 12:24], data=tile[:, 12:24], op0=nl.multiply, operand0=2.0, reduce_op=nl.add,
        reduce_res=made[:, 72:73], reduce_cmd=nisa.reduce_cmd.reduce, reduce_res_negate=True,
    )
    nisa.range_select(
        dst=made[:, 24:48], on_true_tile=tile, comp_op0=nl.greater_equal, comp_op1=nl.less,
        bound0=limits[:, 0:1], bound1=limits[:, 1:2], range_start=100, reduce_res=made[:, 73:74],
    )
    nisa.tensor_scalar_cumulative(
        dst=made[:, 48:60], src=tile[:, 0:12], op0=nl.add, op1=nl.maximum, imm0=1.0, imm1=0.5,
        reduce_cmd=nisa.reduce_cmd.load_reduce,
    )
    nisa.tensor_scalar_cumulative(
        dst=made[:, 60:72], src=tile[:, 12:24], op0=nl.add, op1=nl.maximum, imm0=1.0,
        reduce_cmd=nisa.reduce_cmd.reduce,
    )
    nisa.memset(dst=made[:, 74:75], value=0.0)
    nisa.dma_copy(dst=out, src=made)
    return out
"""
)


def test_the_accumulators_of_vector_go_from_one_instruction_to_the_next(tmp_path) -> None:
    x = random(64, 24)
    bounds = np.stack([100.0 + np.arange(64) % 9, 105.0 + np.arange(64) % 19], axis=1).astype(np.float32)
    got = ran(tmp_path, ACCUMULATORS, {"x": x, "bounds": bounds}, kernel="kernel")
    columns = 100 + np.arange(24)
    kept = np.where((columns >= bounds[:, :1]) & (columns < bounds[:, 1:]), x, np.finfo(np.float32).min)
    assert np.array_equal(got[:, :24], 2 * x)
    assert np.allclose(got[:, 72], -2 * x.sum(1), atol=1e-5)
    assert np.array_equal(got[:, 24:48], kept)
    assert np.array_equal(got[:, 73], kept.max(1))
    assert np.array_equal(got[:, 48:72], np.maximum(0.5, np.maximum.accumulate(x + 1, axis=1)))


MASKS = (
    FIRST
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray((64, 48), dtype=np.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    row, column = nl.arange(64)[:, None], nl.arange(32)[None, :]
    made = nl.zeros((64, 48), dtype=np.float32, buffer=nl.sbuf)
    inside = (row < 40) & (column < 20)
    made[row, column] = nl.softmax(tile, axis=1, mask=inside)
    largest = nisa.max8(src=tile, mask=(row < 40 and column < 20))
    made[nl.arange(40)[:, None], 32 + nl.arange(8)[None, :]] = nl.copy(
        largest[nl.arange(40)[:, None], nl.arange(8)[None, :]]
    )
    made[3:5, 40:48] = nl.copy(tile[3:5, 0:8])
    nl.store(out, made)
    return out
"""
)


def test_masks_of_composites_and_tiles_that_begin_anywhere(tmp_path) -> None:
    x = random(64, 32)
    got = ran(tmp_path, MASKS, {"x": x})
    assert np.allclose(got[:40, :20], _softmax(x[:40, :20]), atol=1e-6)
    assert np.array_equal(got[:40, 32:40], -np.sort(-x[:40, :20], axis=1)[:, :8])
    assert np.array_equal(got[3:5, 40:48], x[3:5, :8])
    assert not got[5:, 40:48].any()


SPILLED = (
    SECOND
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 8192), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = []
    for n in range(8):
        tile = nl.ndarray((128, 8192), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[128 * n : 128 * (n + 1), :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=n + 1.0)
        tiles.append(tile)
    total = tiles[0]
    for tile in tiles[1:]:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
"""
)


def test_tiles_that_do_not_fit_wait_in_hbm(tmp_path) -> None:
    x = random(1024, 8192)
    spec, program = loaded(tmp_path, SPILLED, {"x": x}, kernel_reorder="0")
    (got,) = outputs_of(spec, program)
    wanted = sum((n + 1) * x[128 * n : 128 * (n + 1)] for n in range(8))
    assert np.allclose(got, wanted, atol=1e-4)
    assert [note.code for note in program.notes if note.severity == "warning"] == ["spilled"]


LOOPS = (
    SECOND
    + """
class Scale(nl.NKIObject):
    factor: float = 3.0

@nki.jit
def kernel(x):
    out = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    scale, first = Scale(), nisa.register_alloc(2)
    tile = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    def body(i):
        part = tile[:, 8 * i : 8 * i + 8]
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=scale.factor)
    nl.fori_loop(0, 2, body)
    for i in nl.dynamic_range(first, 4, 1):
        nisa.tensor_scalar(
            dst=tile[:, 8 * i : 8 * i + 8], data=tile[:, 8 * i : 8 * i + 8], op0=nl.add, operand0=1.0
        )
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)


def test_loops_of_the_hardware_with_known_bounds(tmp_path) -> None:
    x = random(128, 32)
    got = ran(tmp_path, LOOPS, {"x": x})
    assert np.array_equal(got, np.where(np.arange(32) < 16, np.float32(3) * x, x + np.float32(1)))
    text = LOOPS.replace("nisa.register_alloc(2)", "nisa.register_alloc(2); nisa.register_load(scale, x)")
    with pytest.raises(
        Exception, match=r"kernel.py:12: register_load of hbm tensor x .* expected a tensor and a"
    ):
        ran(tmp_path, text, {"x": x})


GATHERED = (
    FIRST
    + """
@nki.jit
def kernel(x, index):
    out = nl.ndarray((32, 20, 2), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nisa.local_gather(nl.load(x), nl.load(index), 2, 20))
    return out
"""
)


def test_indices_of_sixteen_partitions_gather_for_each_of_them(tmp_path) -> None:
    x = random(32, 64)
    index = np.random.default_rng(1).integers(0, 63, (32, 2)).astype(np.uint16)
    got = ran(tmp_path, GATHERED, {"x": x, "index": index})
    for first in (0, 16):
        starts = index[first : first + 16].T.reshape(-1)[:20].astype(int)
        wanted = x[first : first + 16][:, starts[:, None] + np.arange(2)]
        assert np.array_equal(got[first : first + 16], wanted)


def test_a_result_goes_to_a_tile_only_where_nobody_touched_that_in_between(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(x):
    out = nl.ndarray((4, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    tile[...] = nl.load(x)
    doubled = nl.multiply(tile, 2.0)
    more = nl.add(tile, 1.0)
    tile[...] = doubled
    nl.store(out[0], tile)
    nl.store(out[1], more)
    total = nl.zeros(x.shape, dtype=nl.float32, buffer=nl.psum)
    total += nisa.nc_matmul(more[:, 0:128], more)
    again = nisa.nc_matmul(more[:, 0:128], more)
    nl.store(out[2], nl.copy(total))
    total += again
    blocks = nl.zeros((2, nl.par_dim(128), x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    blocks[1, :, 0:64] = nl.load(x[:, 0:64])
    nl.store(out[3], nl.add(blocks[1], total))
    return out.reshape((4 * x.shape[0], x.shape[1]))
"""
    )
    x = random(128, 128)
    product = (x + 1).T @ (x + 1)
    wanted = [2 * x, x + 1, product, np.where(np.arange(128) < 64, x, 0) + 2 * product]
    assert np.allclose(ran(tmp_path, text, {"x": x}), np.concatenate(wanted), rtol=1e-4, atol=1e-4)


def test_products_that_psum_does_not_hold_wait_and_products_of_products_are_copied(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((12, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    kept = nl.ndarray((12, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
    for i in nl.affine_range(12, directives=None):
        kept[i] = nisa.nc_matmul(left[:, i * 128 : (i + 1) * 128], right)
    for i in nl.affine_range(11):
        nl.store(out[i], kept[i])
    again = nl.matmul(nl.transpose(left[:, 0:128]), kept[11])
    nl.store(out[11], again)
    return out
"""
    )
    a, b = random(128, 12 * 128), random(128, 512, seed=1)
    products = [a[:, i * 128 : (i + 1) * 128].T @ b for i in range(12)]
    products[11] = a[:, :128].T @ products[11]
    assert np.allclose(ran(tmp_path, text, {"a": a, "b": b}), products, rtol=1e-4, atol=1e-2)


def test_classes_of_kernels_have_fields_and_arguments_may_be_none(tmp_path) -> None:
    text = (
        SECOND
        + """
from dataclasses import dataclass

@dataclass
class Part(nl.NKIObject):
    first = None
    count: int = 0

class Whole(nl.NKIObject):
    part: Part
    scale = 1.0

@nki.jit
def kernel(x, weight=None):
    whole = Whole(Part(first=64, count=64), scale=2.0)
    assert weight == None and x != None
    out = nl.ndarray((whole.part.count, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    turned = nl.ndarray((x.shape[1], 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(turned, tile, nl.shared_identity_matrix(128, dtype=nl.float32))
    back = nl.ndarray((x.shape[1], 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=back, data=turned, op0=nl.multiply, operand0=whole.scale)
    nisa.dma_copy(dst=out, src=back[:, whole.part.first : whole.part.first + whole.part.count])
    return out
"""
    )
    x = random(128, 64)
    assert np.allclose(ran(tmp_path, text, {"x": x}), 2 * x.T[:, 64:], atol=1e-5)


def test_masks_in_subscripts_leave_a_part_of_the_operands(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a, b, kept=40):
    out = nl.ndarray((32, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    rows, columns = nl.arange(64)[:, None], nl.arange(32)[None, :]
    product = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.psum)
    product[...] = nisa.nc_matmul(left[rows, columns][rows < kept], right[rows < kept][kept < 64])
    nl.store(out, nl.copy(product))
    return out
"""
    )
    a, b = random(64, 32), random(64, 64, seed=1)
    assert np.allclose(ran(tmp_path, text, {"a": a, "b": b}), a[:40].T @ b[:40], atol=1e-4)
    with pytest.raises(Exception, match=r"kernel.py:\d+: .*leaves no element"):
        ran(tmp_path, text, {"a": a, "b": b}, kept="64")


def test_zeros_of_psum_are_there_where_products_do_not_overwrite_them(tmp_path) -> None:
    """A first product that is to be added overwrites what PSUM held; a part without products is zero."""
    again = (
        SECOND
        + """
@nki.jit
def kernel(x):
    out = nl.ndarray((3, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in range(3):
        total = nl.zeros((128, 64), dtype=nl.float32, buffer=nl.psum)
        for _ in range(2):
            nisa.nc_matmul(dst=total, stationary=tile, moving=tile[:, 0:64], accumulate=True)
        copied = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=total)
        nl.store(out[i], copied)
    return out
"""
    )
    x = random(128, 128)
    expected = 2 * x.T @ x
    found = ran(tmp_path, again, {"x": x})
    assert np.allclose(found, np.broadcast_to(expected[:, :64], found.shape), rtol=1e-4, atol=1e-3)
    part = (
        FIRST
        + """
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    total = nl.zeros((128, 128), dtype=nl.float32, buffer=nl.psum)
    total[:, 0:64] += nisa.nc_matmul(tile, tile[:, 0:64])
    total[:, 32:96] += nisa.nc_matmul(tile, tile[:, 32:96])
    nl.store(out, nl.copy(total))
    return out
"""
    )
    times = np.repeat([1, 2, 1, 0], 32)
    assert np.allclose(ran(tmp_path, part, {"x": x}), x.T @ x * times, rtol=1e-4, atol=1e-3)
    some = part.replace("    total[:, 32:96] += nisa.nc_matmul(tile, tile[:, 32:96])\n", "")
    times = np.repeat([1, 0], 64)
    assert np.allclose(ran(tmp_path, some, {"x": x}), x.T @ x * times, rtol=1e-4, atol=1e-3)


def test_angles_of_generation_2_are_brought_to_the_range_of_the_scalar_engine(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(x):
    out = nl.ndarray((3, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out[0], nl.sin(tile))
    nl.store(out[1], nl.cos(tile))
    nl.store(out[2], nl.tan(tile))
    return out
"""
    )
    x = np.linspace(-20.0, 20.0, 128 * 8, dtype=np.float32).reshape(128, 8)
    sine, cosine, tangent = ran(tmp_path, text, {"x": x})
    assert np.allclose(sine, np.sin(x), atol=1e-5)
    assert np.allclose(cosine, np.cos(x), atol=1e-5)
    assert np.allclose(tangent, np.tan(x), rtol=1e-2, atol=1e-3)
