"""Functions that came last: topk, slopes of prelu, counted and implicit collectives."""

import ml_dtypes
import numpy as np
import pytest

from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.neuroncore.isa import Flag, Opcode
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.machine.payload import Payload
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import SECOND, loaded, outputs_of, ran, random

_TOPK = """
@nki.jit
def kernel(x):
    n, k = COUNT, KEPT
    values = nl.ndarray((x.shape[0], k), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    places = nl.ndarray((x.shape[0], k), dtype=nl.uint32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    v = nl.ndarray(values.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    p = nl.ndarray(places.shape, dtype=nl.uint32, buffer=nl.sbuf)
    nisa.topk(val_dst=v, idx_dst=p, src=tile, n=n)
    nisa.dma_copy(dst=values, src=v)
    nisa.dma_copy(dst=places, src=p)
    return values, places
"""


def test_topk_takes_the_largest_of_16_partitions_in_columns(tmp_path) -> None:
    x = random(32, 3).astype(ml_dtypes.bfloat16)
    text = SECOND + _TOPK.replace("COUNT", "42").replace("KEPT", "8")
    values, places = outputs_of(*loaded(tmp_path, text, {"x": x}))
    for group in range(2):
        snake = x[16 * group : 16 * group + 16].T.reshape(-1)[:42].astype(np.float32)
        wanted = np.sort(snake)[-8:]
        for row in range(16 * group, 16 * group + 16):
            assert np.array_equal(values[row].astype(np.float32), wanted)
            assert np.array_equal(snake[places[row].astype(int)], wanted)


@pytest.mark.parametrize(("count", "kept"), [("4", "2"), ("42", "43"), ("60", "8")])
def test_topk_refuses_what_does_not_fit(tmp_path, count, kept) -> None:
    text = SECOND + _TOPK.replace("COUNT", count).replace("KEPT", kept)
    with pytest.raises(KernelError, match=r"kernel.py:\d+: topk: .* of n = "):
        loaded(tmp_path, text, {"x": random(32, 3).astype(ml_dtypes.bfloat16)})


_PRELU = """
@nki.jit
def kernel(x, slopes):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    column = nl.ndarray(slopes.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=column, src=slopes)
    nisa.activate2(dst=tile, op=nl.prelu, data=tile, imm0=2.0, imm1=0.5, op0=nl.multiply, op1=nl.add,
                   relu_param=SLOPE)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


@pytest.mark.parametrize("slope", ["0.25", "column", "0.0"])
def test_prelu_has_a_slope_below_zero(tmp_path, slope) -> None:
    x, slopes = random(64, 40), random(64, 1, seed=1)
    text = SECOND + _PRELU.replace("SLOPE", slope)
    found = ran(tmp_path, text, {"x": x, "slopes": slopes}, preset="trn3")
    y = 2 * x + np.float32(0.5)
    factor = slopes if slope == "column" else float(slope)
    assert np.allclose(found, np.where(y > 0, y, y * factor), rtol=1e-5, atol=1e-6)


_COUNTED = """
import nki.collectives as ncc
@nki.jit
def kernel(x, tables):
    own = nl.program_id(0)
    out = nl.ndarray((3, 24), dtype=x.dtype, buffer=nl.shared_hbm)
    said = nl.ndarray(tables.shape, dtype=tables.dtype, buffer=nl.shared_hbm)
    src = nl.ndarray((8,), dtype=x.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=src, src=x[own])
    dst = nl.ndarray((24,), dtype=x.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=dst, src=x.reshape((24,)))
    table = nl.ndarray(tables.shape[1:], dtype=tables.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=table, src=tables[own])
    ncc.FUNCTION([src], [dst], ncc.ReplicaGroup([[0, 1, 2]]), table, OPTIONS)
    nisa.dma_copy(dst=out[own], src=dst)
    nisa.dma_copy(dst=said[own], src=table)
    return out, said
"""


@pytest.mark.parametrize("has_places", [False, True])
@pytest.mark.parametrize("function", ["all_to_all_v", "all_gather_v"])
def test_ranks_send_as_many_elements_as_they_say(tmp_path, function, has_places) -> None:
    x = random(3, 8)
    counts, starts = np.array([[1, 2, 3], [0, 4, 1], [2, 2, 2]]), np.array([[0, 1, 3], [0, 2, 7], [6, 1, 0]])
    places = np.array([[20, 10, 0], [1, 5, 12], [0, 8, 16]])
    tables = np.stack([counts, starts, np.full((3, 3), 99), places], 1).astype(np.uint32)
    tables = tables if has_places else tables[:, :3]
    text = SECOND + _COUNTED.replace("FUNCTION", function).replace("OPTIONS", f"has_rdispls={has_places}")
    out, said = outputs_of(*loaded(tmp_path, text, {"x": x, "tables": tables}, grid="3"))
    for rank in range(3):
        wanted = x.reshape(-1).copy()
        for sender in range(3):
            column = rank if function == "all_to_all_v" else 0
            count, start = counts[sender, column], starts[sender, column]
            place = places[rank, sender] if has_places else 8 * sender
            wanted[place : place + count] = x[sender, start : start + count]
            assert said[rank, 2, sender] == count
        assert np.array_equal(out[rank], wanted)


def test_counts_that_do_not_fit_are_named(tmp_path) -> None:
    tables = np.zeros((3, 3, 3), np.uint32)
    tables[1, 0] = 9
    text = SECOND + _COUNTED.replace("FUNCTION", "all_to_all_v").replace("OPTIONS", "recv_counts_known=True")
    with pytest.raises(KernelError, match=r"kernel.py:\d+: all_to_all_v: 9 elements from 0 of rank 1"):
        loaded(tmp_path, text, {"x": random(3, 8), "tables": tables}, grid="3")


_RING = """
import nki.collectives as ncc
@nki.jit
def kernel(x):
    own, group = nl.program_id(0), ncc.ReplicaGroup([[0, 2, 1]])
    out = nl.ndarray((3, 3, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray((8,), dtype=x.dtype, buffer=nl.private_hbm)
    b = nl.ndarray((8,), dtype=x.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=a, src=x[own])
    for i in range(3):
        rank = ncc.collective_permute_implicit_current_processing_rank_id(i, group)
        place = out.ap([[8, 1], [1, 8]], offset=24 * own, scalar_offset=rank, indirect_dim=1)
        nisa.dma_copy(dst=place, src=a)
        ncc.CALL
        a, b = b, a
    return out
"""


def test_data_goes_around_a_ring_of_ranks(tmp_path) -> None:
    x = random(3, 8)
    text = SECOND + _RING.replace("CALL", "collective_permute_implicit([[a]], [[b]], group)")
    found = ran(tmp_path, text, {"x": x}, grid="3")
    assert np.array_equal(found, np.stack([x] * 3))
    call = "collective_permute_implicit_reduce([[a]], [[a]], [[b]], group, nl.add)"
    text = SECOND + _RING.replace("CALL", call)
    found = ran(tmp_path, text, {"x": x}, grid="3")
    assert np.array_equal(found[0], [x[0], 2 * x[1], 4 * x[2]])


_WIDE = """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 1536), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    for _ in range(3):
        product = nl.ndarray((64, 1536), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=x, moving=y)
        copied = nl.ndarray((64, 1536), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=product)
        nisa.dma_copy(dst=out, src=copied)
    return out
"""


def test_a_product_may_have_several_banks_from_v4_on(tmp_path) -> None:
    a, b = random(128, 64), random(128, 1536, seed=1)
    found = ran(tmp_path, SECOND + _WIDE, {"a": a, "b": b}, preset="trn3")
    assert np.allclose(found, a.T @ b, rtol=1e-4, atol=1e-3)
    with pytest.raises(KernelError, match=r"the moving tile has 1536 elements a partition, at most 512"):
        loaded(tmp_path, SECOND + _WIDE, {"a": a, "b": b}, preset="trn2")
    held = "nisa.nc_matmul(dst=held, stationary=x, moving=y[:, 0:512])"
    lines = SECOND + _WIDE.replace("range(3)", "range(1)").replace("1536", "4096")
    first = f"held = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum); {held}; "
    text = lines.replace("        product =", f"        {first}product =")
    text = text.replace("        copied =", f"        {held}; copied =")
    with pytest.raises(KernelError, match=r"kernel.py:\d+: .*no 8 PSUM banks in a row are not in use"):
        loaded(tmp_path, text, {"a": a, "b": random(128, 4096)}, preset="trn3")


_ONE_PLACE = """
@nki.jit
def kernel(x):
    out = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    thrown = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    sums = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    place = thrown.ap(pattern=[[1, 64], [0, x.shape[1]]])
    nisa.activation_reduce(dst=place, op=nl.square, data=a, reduce_op=nl.add, reduce_res=sums[:, 0:1])
    nisa.tensor_scalar_reduce(
        dst=place, data=a, op0=nl.multiply, operand0=2.0, reduce_op=nl.add, reduce_res=sums[:, 1:2]
    )
    nisa.dma_copy(dst=out, src=sums)
    return out
"""


def test_sums_are_those_of_the_results_where_these_go_to_one_place(tmp_path) -> None:
    x = random(64, 100)
    found = ran(tmp_path, SECOND + _ONE_PLACE, {"x": x})
    assert np.allclose(found, np.stack([np.square(x).sum(1), 2 * x.sum(1)], 1), rtol=1e-4, atol=1e-4)


_TWO_BANKS = """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    y = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    for _ in range(3):
        both = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=both[:, 0:512], stationary=x, moving=y[:, 0:512])
        nisa.nc_matmul(dst=both[:, 512:1024], stationary=x, moving=y[:, 512:1024])
        copied = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=both)
        nisa.dma_copy(dst=out, src=copied)
    return out
"""


def test_a_tile_may_have_two_banks_a_product_of_trn2_goes_to_one(tmp_path) -> None:
    a, b = random(128, 64), random(128, 1024, seed=1)
    found = ran(tmp_path, SECOND + _TWO_BANKS, {"a": a, "b": b}, preset="trn2")
    assert np.allclose(found, a.T @ b, rtol=1e-4, atol=1e-3)
    text = (SECOND + _TWO_BANKS).replace("dst=both[:, 512:1024]", "dst=both[:, 256:768]")
    with pytest.raises(KernelError, match=r"kernel.py:16: .*PE writes 1 PSUM bank of 2048 bytes at most"):
        loaded(tmp_path, text, {"a": a, "b": b}, preset="trn2")


_HINTS = """
@nki.jit
def kernel(a):
    out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    identity = nl.shared_identity_matrix(128, dtype=nl.float32)
    turned = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=turned, stationary=x, moving=identity, is_moving_onezero=True, is_transpose=True)
    copied = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=turned)
    row = nl.broadcast_to(copied[0:1, :], (64, 128))
    nisa.tensor_tensor(dst=copied, data1=copied, data2=row, op=nl.add)
    nisa.dma_copy(dst=out, src=copied)
    return out
"""


def test_products_with_zeros_and_ones_say_so(tmp_path) -> None:
    a = random(128, 64)
    spec, program = loaded(tmp_path, SECOND + _HINTS, {"a": a}, preset="trn2")
    (found,) = outputs_of(spec, program)
    assert np.allclose(found, a.T + a.T[:1], rtol=1e-5, atol=1e-5)
    assert isinstance(program.payload, Payload)
    code = program.payload.tables.instructions
    flags = code["flags"][code["opcode"] == Opcode.NC_MATMUL].tolist()
    assert flags == [Flag.MOVING_ONEZERO | Flag.TRANSPOSE, 0]


_ONEZERO = """
@nki.jit
def kernel(x, y):
    a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=y)
    p = nl.ndarray((x.shape[1], y.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=a, moving=b, is_SIDE_onezero=True)
    s = nl.ndarray(p.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=s, src=p)
    out = nl.ndarray(p.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=s)
    return out
"""


@pytest.mark.parametrize("side", ["stationary", "moving"])
@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
def test_a_tile_that_is_said_to_hold_zeros_and_ones_is_looked_at(tmp_path, side, kind) -> None:
    ones = np.eye(32, 16).astype(kind)
    given = {"x": ones, "y": np.ones((32, 24)).astype(kind)}
    text = SECOND + _ONEZERO.replace("SIDE", side)
    assert np.array_equal(ran(tmp_path, text, given), np.ones((16, 24)))
    name = "x" if side == "stationary" else "y"
    given[name] = given[name].copy()
    given[name][5, 5] = 0.5
    machine = NeuronMachine(*loaded(tmp_path, text, given))
    assert machine.advance(1 << 62, NO_STOPS, None).kind == StopKind.FINISHED
    (hazard,) = machine.hazards()
    assert hazard.kind == "not-onezero"
    assert f"is_{side}_onezero, but the tile holds 0.5 too" in hazard.text
