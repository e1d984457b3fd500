"""Values of the chip that decide how a kernel goes on, instances that wait for each other, packed types."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from npuviz.program.instruction import HasDependencies
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, outputs_of, ran, random

_COUNTED = """
@nki.jit
def kernel(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=count, src=n)
    nisa.dma_copy(dst=tile, src=x)
    register = nisa.register_alloc()
    nisa.register_load(register, n)
    for i in nl.dynamic_range(0, register):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.register_load(register, count)
    while register:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
        nisa.register_load(register, count)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def test_loops_end_by_values_of_the_chip(tmp_path) -> None:
    x = random(128, 8)
    found = ran(tmp_path, SECOND + _COUNTED, {"x": x, "n": np.array([[3]], np.int32)})
    assert np.allclose(found, (x + 3) * 8)


def test_values_that_are_drawn_decide_as_given_ones_do(tmp_path) -> None:
    spec, program = loaded(tmp_path, SECOND + _COUNTED, {}, **{"shape.x": "128x8", "shape.n": "1x1:int32"})
    x, n = (np.asarray(program.payload.inputs[name]) for name in ("x", "n"))
    (found,) = outputs_of(spec, program)
    assert np.allclose(found, (x + int(n[0, 0])) * 2.0 ** int(n[0, 0]))


_EXCHANGE = """
import nki.collectives as ncc
@nki.jit
def kernel(x):
    out = nl.ndarray((4, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    k = nl.program_id(0)
    a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=float(k))
    nisa.sendrecv(src=a, dst=b, send_to_rank=1 - k, recv_from_rank=1 - k, pipe_id=0)
    nisa.core_barrier(out, (0, 1))
    nisa.dma_copy(dst=out[k], src=b)
    own = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=own, src=a)
    ncc.all_reduce([own], [own], ncc.ReplicaGroup([[0, 1]]), nl.add)
    nisa.dma_copy(dst=out[2 + k], src=own)
    return out
"""


def test_instances_send_each_other_tiles_and_reduce(tmp_path) -> None:
    x = random(32, 16)
    found = ran(tmp_path, SECOND + _EXCHANGE, {"x": x}, grid="2")
    assert np.allclose(found, [x + 1, x, 2 * x + 1, 2 * x + 1])


def test_instances_that_wait_without_an_end_are_named(tmp_path) -> None:
    text = SECOND + _EXCHANGE.replace(
        "nisa.core_barrier(out, (0, 1))", "if k: nisa.core_barrier(out, (0, 1))"
    )
    with pytest.raises(KernelError, match="wait for each other without an end"):
        loaded(tmp_path, text, {"x": random(32, 16)}, grid="2")
    with pytest.raises(KernelError, match=r"kernel.py:\d+: sendrecv with 1: the kernel has one instance"):
        loaded(tmp_path, SECOND + _EXCHANGE, {"x": random(32, 16)})


_MICROSCALED = """
@nki.jit
def kernel(a, b):
    result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = []
    for x in (a, b):
        raw = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=raw, src=x)
        packed = nl.ndarray((64, x.shape[1] // 4), dtype=nl.FORMAT, buffer=nl.sbuf)
        scale = nl.ndarray((64, x.shape[1] // 4), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.memset(dst=scale, value=0)
        nisa.quantize_mx(dst=packed, src=raw, dst_scale=scale)
        tiles.append((packed, scale))
    product = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.psum)
    (first, first_scale), (second, second_scale) = tiles
    nisa.nc_matmul_mx(product, first, second, first_scale, second_scale)
    copied = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=product)
    nisa.dma_copy(dst=result, src=copied)
    return result
"""


def _rounded(x: np.ndarray, kind: type, largest: int) -> np.ndarray:
    """Values after quantisation: a power of two for 8 partitions and 4 elements, as nki.md 2.5 defines it."""
    groups = x.astype(np.float64).reshape(x.shape[0] // 8, 8, -1, 4)
    scale = 2.0 ** (np.floor(np.log2(np.abs(groups).max((1, 3), keepdims=True))) - (largest - 1))
    return ((groups / scale).astype(kind).astype(np.float64) * scale).reshape(x.shape)


@pytest.mark.parametrize(
    ("name", "kind", "largest"),
    [("float8_e4m3fn_x4", ml_dtypes.float8_e4m3fn, 8), ("float8_e5m2_x4", ml_dtypes.float8_e5m2, 15)],
)
def test_microscaled_products_are_those_of_the_rounded_values(tmp_path, name, kind, largest) -> None:
    a, b = random(64, 256).astype(ml_dtypes.bfloat16), random(64, 128, seed=1).astype(ml_dtypes.bfloat16)
    found = ran(tmp_path, SECOND + _MICROSCALED.replace("FORMAT", name), {"a": a, "b": b}, preset="trn3")
    left, right = (
        _rounded(x, kind, largest).reshape(64, -1, 4).transpose(0, 2, 1).reshape(256, -1) for x in (a, b)
    )
    assert np.allclose(found, left.T @ right, rtol=1e-5, atol=1e-4)


def test_microscaled_products_depend_on_those_that_they_add_to(tmp_path) -> None:
    product = "    nisa.nc_matmul_mx(product, first, second, first_scale, second_scale)\n"
    text = SECOND + _MICROSCALED.replace("FORMAT", "float8_e5m2_x4").replace(product, 2 * product)
    inputs = {
        "a": random(64, 256).astype(ml_dtypes.bfloat16),
        "b": random(64, 128).astype(ml_dtypes.bfloat16),
    }
    _, program = loaded(tmp_path, text, inputs, preset="trn3")
    listing = program.listing
    assert isinstance(listing, HasDependencies)
    opcodes = [program.listing.describe(index).opcode for index in range(len(program.listing))]
    first, second = (index for index, opcode in enumerate(opcodes) if opcode == "nc_matmul_mx")
    for index in (first, second):
        found = listing.dependencies_of(index)
        edges = [(each.source, each.sink) for each in found if each.kind == "accumulate"]
        assert edges == [(first, second)]


def test_random_numbers_follow_their_seed_and_positions_are_counted(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(x, seed):
    kept = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    places = nl.ndarray((x.shape[0], x.shape[1] + 1), dtype=nl.int32, buffer=nl.shared_hbm)
    held = nl.ndarray((1, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=seed)
    nisa.set_rng_seed(held)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dropout(dst=tile, data=tile, prob=0.25)
    nisa.dma_copy(dst=kept, src=tile)
    found = nl.ndarray(places.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=found, value=7)
    nisa.nonzero_with_count(dst=found, src=tile, index_offset=100, padding_val=-5)
    nisa.dma_copy(dst=places, src=found)
    return kept, places
"""
    )
    x = np.ones((32, 512), np.float32)
    runs = [
        outputs_of(*loaded(tmp_path, text, {"x": x, "seed": np.array([[seed]], np.uint32)}))
        for seed in (1, 1, 2)
    ]
    kept, places = runs[0]
    assert abs(kept.mean() - 0.75) < 0.02
    assert np.array_equal(kept, runs[1][0])
    assert not np.array_equal(kept, runs[2][0])
    wanted = np.flatnonzero(kept[16])
    assert np.array_equal(places[16, : len(wanted)], wanted + 100)
    assert (places[16, len(wanted) : -1] == -5).all()
    assert places[16, -1] == len(wanted)
    assert (places[1] == 7).all()


def test_a_dma_that_computes_adds_its_sources(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a, b, c):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(out, (a, b, c), reduce_op=nl.add, scales=(1.0, 1.0, 1.0))
    return out
"""
    )
    a, b, c = (random(200, 16, seed=seed) for seed in range(3))
    assert np.allclose(ran(tmp_path, text, {"a": a, "b": b, "c": c}), a + b + c, atol=1e-6)


def test_dynamic_copies_of_generation_1(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a, at):
    out = nl.ndarray((2, 128, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    t, offsets = nl.load(a), nl.load(at)
    to = nl.zeros((128, 8), dtype=a.dtype)
    i_p, i_f = nl.mgrid[0:128, 0:4]
    for i in nl.affine_range(2):
        got = nisa.tensor_copy_dynamic_src(t[i_p, offsets[0, i] + i_f])
        nisa.tensor_copy_dynamic_dst(dst=to[i_p, offsets[0, i] - 3 + i_f], src=got)
        nl.store(out[i], to)
    return out
"""
    )
    a, at = random(128, 64), np.array([[3, 7]], np.int32)
    out = ran(tmp_path, text, {"a": a, "at": at})
    assert (out[0] == np.concatenate([a[:, 3:7], np.zeros((128, 4))], 1)).all()
    assert (out[1] == np.concatenate([a[:, 3:7], a[:, 7:11]], 1)).all()


def test_atomic_read_modify_write_of_generation_1(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a, rows, more):
    nl.atomic_rmw(a[nl.load(rows), nl.arange(64)[None, :]], value=nl.load(more), op=np.add)
    return a
"""
    )
    a, more = random(256, 64), random(128, 64, seed=1)
    rows = np.random.default_rng(2).permutation(256)[:128].astype(np.int32)[:, None]
    wanted = a.copy()
    wanted[rows[:, 0]] += more
    assert np.allclose(ran(tmp_path, text, {"a": a, "rows": rows, "more": more}), wanted)


def test_a_state_of_the_generator_can_be_kept_and_set_again(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray((3, 128, 16), dtype=nl.uint32, buffer=nl.shared_hbm)
    state = nl.ndarray((128, 6), dtype=nl.uint32, buffer=nl.sbuf)
    bits = nl.ndarray((128, 16), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.rng(bits)
    nisa.rand_get_state(state)
    for i in range(3):
        if i == 2:
            nisa.rand_set_state(state)
        nisa.rng(bits)
        nisa.dma_copy(dst=out[i], src=bits)
    return out
"""
    )
    out = ran(tmp_path, text, {"a": random(1, 1)}, preset="trn2")
    assert (out[0] != out[1]).any()
    assert (out[0] == out[2]).all()


def test_rows_that_an_offset_leads_outside_are_skipped_where_the_kernel_says_so(tmp_path: Path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a, at):
    out = nl.ndarray((8, 16), dtype=a.dtype, buffer=nl.shared_hbm)
    ones = nl.ndarray((8, 16), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    nisa.dma_copy(dst=out, src=ones)
    tile = nl.ndarray((4, 16), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    for k in range(3):
        row = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=at[0:1, k : k + 1])
        nisa.dma_copy(
            dst=out.ap(pattern=[[16, 4], [1, 16]], offset=0, scalar_offset=row, indirect_dim=0), src=tile,
            oob_mode=nisa.oob_mode.skip,
        )
    return out
"""
    )
    a = random(4, 16)
    got = ran(tmp_path, text, {"a": a, "at": np.array([[-1000000, -1, 6]], np.int32)})
    wanted = np.ones((8, 16), np.float32)
    wanted[:3], wanted[6:] = a[1:], a[:2]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_an_element_of_the_chip_as_a_subscript_drops_its_dimension(tmp_path: Path, kind: str) -> None:
    text = (
        FIRST
        + f"""
@nki.jit
def kernel(a, at):
    out = nl.ndarray((16, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    column = nl.ndarray((16, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    place = nl.load(at, dtype=nl.{kind})
    nl.store(out, value=nl.load(a[place[0, 1], :, :]))
    nl.store(column, value=nl.load(a[1, :, place[0, 0]]))
    return out, column
"""
    )
    a = random(3, 16, 8)
    at = np.array([[5, 2]], np.int32)
    out, column = outputs_of(*loaded(tmp_path, text, {"a": a, "at": at}))
    np.testing.assert_array_equal(out, a[2])
    np.testing.assert_array_equal(column[:, 0], a[1, :, 5])


def test_blocks_are_filled_and_found_by_indices_of_one_element(tmp_path: Path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray((4, 16, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    blocks = nl.full((4, nl.par_dim(16), 8), -2.5, dtype=a.dtype, buffer=nl.sbuf)
    i_block, i_p, i_f = nl.arange(1)[:, None], nl.arange(16)[:, None], nl.arange(8)[None, :]
    for i in nl.affine_range(4):
        blocks[i_block + i, i_p, i_f] += nl.load(a[i])
    for i in nl.affine_range(4):
        nl.store(out[i], value=blocks[i])
    return out
"""
    )
    a = random(4, 16, 8)
    np.testing.assert_allclose(ran(tmp_path, text, {"a": a}), a - 2.5, rtol=1e-6)


@pytest.mark.parametrize(("axes", "wanted"), [("0", 0), ("(1,)", 1), ("[0, 1]", (0, 1))])
def test_all_reduce_combines_the_tiles_of_instances(tmp_path: Path, axes: str, wanted: int | tuple) -> None:
    text = (
        FIRST
        + f"""
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    row, column = nl.program_id(0), nl.program_id(1)
    total = nl.all_reduce(nl.load(a[row, column]), op=np.add, program_axes={axes})
    nl.store(out[row, column], value=total)
    return out
"""
    )
    a = random(2, 3, 16, 8)
    got = ran(tmp_path, text, {"a": a}, grid="2x3")
    np.testing.assert_allclose(got, np.broadcast_to(a.sum(wanted, keepdims=True), a.shape), rtol=1e-5)


def test_bodies_of_loops_get_a_register(tmp_path) -> None:
    text = f"""{SECOND}
@nki.jit
def kernel(x, n):
    out = nl.ndarray((1, 8), dtype=nl.int32, buffer=nl.shared_hbm)
    seen = nl.ndarray((1, 8), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=seen, value=-1)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=count, src=n)
    register = nisa.register_alloc()
    nisa.register_load(register, count)

    def turn(i):
        nisa.register_store(seen[:, 4 + i], i)
        nisa.register_load(i, count)

    def again(r):
        nisa.register_store(seen[:, r], r)
        nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
        nisa.register_load(r, count)
        return r

    nl.fori_loop(0, 3, turn)
    nl.while_loop(register, again)
    nisa.dma_copy(dst=out, src=seen)
    return out
"""
    found = ran(tmp_path, text, {"x": random(1, 1), "n": np.array([[3]], np.int32)})
    assert found.tolist() == [[-1, 1, 2, 3, 0, 1, 2, -1]]


def test_a_while_loop_whose_body_returns_nothing_is_refused(tmp_path) -> None:
    text = f"""{SECOND}
@nki.jit
def kernel(x):
    nl.while_loop(nisa.register_alloc(1), lambda r: None)
    return x
"""
    with pytest.raises(KernelError, match=r"kernel.py:\d+: nl.while_loop: body_fun returned nothing"):
        loaded(tmp_path, text, {"x": random(4, 4)})


@pytest.mark.parametrize("swaps", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("ops", [("multiply", "subtract"), ("subtract", "multiply"), ("divide", "add")])
def test_a_scan_swaps_the_operands_of_its_operators(tmp_path, swaps, ops) -> None:
    text = f"""{SECOND}
@nki.jit
def kernel(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(y)
    nisa.tensor_tensor_scan(dst=a, data0=a, data1=b, initial=0.5, op0=nl.{ops[0]}, op1=nl.{ops[1]},
                            reverse0={swaps[0]}, reverse1={swaps[1]})
    nl.store(out, a)
    return out
"""
    x, y = 1.5 + abs(random(16, 6)), random(16, 6, seed=1)
    f, g = (getattr(np, name) for name in ops)
    last, wanted = np.full(16, 0.5, np.float32), np.empty_like(x)
    for i in range(x.shape[1]):
        inner = f(last, x[:, i]) if swaps[0] else f(x[:, i], last)
        last = wanted[:, i] = g(y[:, i], inner) if swaps[1] else g(inner, y[:, i])
    assert np.allclose(ran(tmp_path, text, {"x": x, "y": y}), wanted, rtol=1e-3)


@pytest.mark.parametrize("kind", ["uint32", "uint16"])
def test_a_value_that_is_looked_for_twice_has_two_places(tmp_path, kind) -> None:
    text = f"""{SECOND}
@nki.jit
def kernel(x, wanted):
    tile, eight = nl.load(x), nl.load(wanted)
    rows = x.shape[0]
    outs = []
    first = nl.ndarray((rows, 8), dtype=nl.{kind}, buffer=nl.sbuf)
    nisa.nc_find_index8(dst=first, data=tile, vals=eight)
    places = nl.ndarray((rows, 8), dtype=nl.{kind}, buffer=nl.sbuf)
    nisa.nc_match_replace8(dst=tile, data=tile, vals=eight, imm=-1.0, dst_idx=places)
    for each in (first, places, tile):
        outs.append(nl.ndarray(each.shape, dtype=each.dtype, buffer=nl.shared_hbm))
        nl.store(outs[-1], each)
    return tuple(outs)
"""
    # The first row is the documented example of nc_match_replace8; the second has values that are not there.
    x = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8], [1, 2, 3, 4, 8, 5, 8, 0, 0, 6, 7]], np.float32)
    wanted = np.array([[3, 8, 8, 8, 8, 8, 8, 8], [8, 8, 8, 1, 9, 0, 4, 0]], np.float32)
    first, places, tile = outputs_of(*loaded(tmp_path, text, {"x": x, "wanted": wanted}))
    none = np.iinfo(kind).max
    assert first.tolist() == [[2, 4, 5, 6, 7, 8, 9, 10], [4, 6, none, 0, none, 7, 3, 8]]
    assert places.tolist() == [[2, 10, 9, 8, 7, 6, 5, 4], [none, 6, 4, 0, none, 8, 3, 7]]
    assert tile.tolist() == [[1, 2, -1, 4, *[-1] * 7], [-1, 2, 3, -1, -1, 5, -1, -1, -1, 6, 7]]
