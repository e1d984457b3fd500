# What functions of nl and nisa compute: masks, names and signatures.
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from npuviz.targets.neuroncore.isa import Opcode
from npuviz.targets.neuroncore.machine.dma_elements import elements_of
from npuviz.targets.neuroncore.machine.payload import Payload
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.user_python import imported, stand_ins
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, outputs_of, ran, random


def test_masks_that_cut_a_tile_along_a_diagonal_are_several_instructions(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(x, y):
    tail = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    lower = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    ip, ix = nl.arange(4)[:, None], nl.arange(8)[None, :]
    tile = nl.zeros((4, 8), dtype=x.dtype)
    tile[...] = nl.load(x[ip * 8 + ix], mask=ip * 8 + ix < 21)
    nl.store(tail, tile)
    part = nl.full((4, 8), 7.0, dtype=x.dtype)
    part[...] = nl.multiply(nl.load(y), 2.0, mask=ip >= ix)
    nl.store(lower, part)
    return tail, lower
"""
    )
    x, y = random(21), random(4, 8)
    tail, lower = outputs_of(*loaded(tmp_path, text, {"x": x, "y": y}))
    assert np.array_equal(tail.reshape(-1), np.append(x, np.zeros(11, np.float32)))
    triangle = np.arange(4)[:, None] >= np.arange(8)[None, :]
    assert np.array_equal(lower, np.where(triangle, 2 * y, np.float32(7)))


def test_what_a_mask_without_elements_leaves_is_not_assigned(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    ix = nl.arange(8)[None, :]
    tile = nl.full((4, 8), 3.0, dtype=x.dtype)
    doubled = nl.multiply(nl.load(x), 2.0)
    tile[...] = nl.add(doubled, 5.0, mask=ix >= 8)
    tile[...] = nl.load(x, mask=ix >= 8)
    nl.store(out, doubled)
    nl.store(kept, tile)
    return out, kept
"""
    )
    x = random(4, 8)
    out, kept = outputs_of(*loaded(tmp_path, text, {"x": x}))
    assert np.array_equal(out, 2 * x)
    assert np.all(kept == 3)


def test_names_and_signatures_of_generation_2_are_the_documented_ones(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
    assert nl.is_hbm(out.buffer) and nl.is_on_chip(nl.sbuf) and nl.is_psum(nl.psum) and a.is_contiguous()
    tile = nl.load(a, nl.float32)
    zeros = nl.zeros_like(x=tile)
    halved = tile.rearrange(("p", ("h", "w")), ("p", "w", "h"), {"h": 4})
    assert halved.shape == (4, 6, 4) and not halved.is_contiguous()
    total = nl.sum(halved, 1, nl.float32, False)
    nl.fori_loop(0, 2, body_fun=lambda i: nisa.tensor_copy(dst=zeros[:, 0:4], src=total))
    nl.store(out, nl.add(nl.copy(x=zeros[:, 0:4]), 1.0, nl.float32))
    return out
"""
    )
    a = random(4, 24)
    assert np.allclose(ran(tmp_path, text, {"a": a}), a.reshape(4, 4, 6).sum(2) + 1, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("imm0=2.0, imm1=0.5, op0=nl.multiply, op1=nl.add", lambda x: 2 * x + 0.5),
        ("imm0=2.0, imm1=0.5, op0=nl.multiply, op1=nl.subtract, reverse1=True", lambda x: 0.5 - 2 * x),
        ("imm0=2.0, imm1=0.0, op0=nl.subtract, op1=nl.bypass", lambda x: x - 2),
        ("imm0=2.0, imm1=0.0, op0=nl.bypass, op1=nl.bypass", lambda x: x),
    ],
)
def test_activate2(tmp_path, call, wanted) -> None:
    text = (
        SECOND
        + f"""
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nisa.activate2(dst=tile, op=nl.tanh, data=tile, {call})
    nl.store(out, tile)
    return out
"""
    )
    a = random(4, 8)
    assert np.allclose(ran(tmp_path, text, {"a": a}, preset="trn3"), np.tanh(wanted(a)), atol=1e-5)


def test_a_tile_of_psum_is_repeated_as_often_as_a_tile_of_sbuf(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    column = nl.ndarray((4, 512, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.tensor_copy(dst=column.reshape(shape=(4, 512)), src=nl.load(b))
    nisa.tensor_tensor(dst=tile, data1=tile, data2=column.broadcast(2, 24), op=nl.subtract)
    nl.store(out, tile)
    return out
"""
    )
    a, b = random(4, 512, 24), random(4, 512)
    assert np.array_equal(ran(tmp_path, text, {"a": a, "b": b}), a - b[:, :, None])


def test_a_constant_is_an_array_or_a_file_of_one(tmp_path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a, path):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(nl.shared_constant(path))))
    return out
"""
    )
    a, b = random(4, 8), random(4, 8, seed=1)
    np.save(tmp_path / "b.npy", b)
    assert np.array_equal(ran(tmp_path, text, {"a": a}, path=str(tmp_path / "b.npy")), a + b)
    with pytest.raises(KernelError, match=r"kernel.py:9: nl.shared_constant '.*none.npy': no .npy file"):
        ran(tmp_path, text, {"a": a}, path=str(tmp_path / "none.npy"))


@pytest.mark.parametrize("shape", [(96, 64), (300, 128)])
def test_a_transposing_load_of_float32_moves_rows_and_turns_them_on_pe(
    tmp_path: Path, shape: tuple[int, int]
) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray((a.shape[1], a.shape[0]), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load_transpose2d(a))
    return out
"""
    )
    a = random(*shape)
    spec, program = loaded(tmp_path, text, {"a": a}, preset="trn2")
    np.testing.assert_array_equal(outputs_of(spec, program)[0], a.T)
    assert isinstance(program.payload, Payload)
    tables = program.payload.tables
    loads = [t for t in tables.transfers if t.descriptors[0].to.variable < 0]
    assert {elements_of(d, spec)[1] for t in loads for d in t.descriptors} == {4 * shape[1]}
    half = a.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(ran(tmp_path, text, {"a": half}, preset="trn2"), half.T)


def test_a_number_is_stored_to_a_row_and_to_an_element_of_hbm(tmp_path: Path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray((2, 8, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    for k in nl.affine_range(2):
        nl.store(out[0, k * 4 : (k + 1) * 4, 0], value=0.5)
        nl.store(out[1, k * 4 : (k + 1) * 4, 0], value=0.25)
    nl.store(dst=out[0, 0, 0], value=2.0)
    return out
"""
    )
    wanted = np.repeat(np.array([[0.5], [0.25]], np.float32), 8, 1)[..., None]
    wanted[0, 0, 0] = 2.0
    np.testing.assert_array_equal(ran(tmp_path, text, {"a": random(1, 1)}), wanted)


def test_arrays_may_stand_in_tuples_of_a_list(tmp_path: Path) -> None:
    a, b = random(4, 8), random(4, 8, seed=1)
    path = tmp_path / "kernel.py"
    path.write_text(
        FIRST
        + """
@nki.jit(mode="simulation")
def kernel(pairs):
    out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    for one, other in pairs:
        nl.store(out, nl.load(one) + nl.load(other))
    return out
"""
    )
    with stand_ins():
        found = imported(path).kernel([(a, b), (b, b)])
    np.testing.assert_array_equal(found, b + b)


def test_indices_of_a_tile_may_follow_a_number(tmp_path: Path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a, rows):
    out = nl.ndarray((2, 16, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    at = nl.load(rows)
    for part in range(2):
        nl.store(out[1 - part, at], value=nl.load(a[part, at]))
    return out
"""
    )
    a = random(2, 16, 8)
    rows = np.random.default_rng(1).permutation(16).astype(np.uint32)[:, None]
    np.testing.assert_array_equal(ran(tmp_path, text, {"a": a, "rows": rows}), a[::-1])


@pytest.mark.parametrize(("preset", "size"), [("trn1", 180_224), ("trn2", 212_984), ("trn3", 245_752)])
def test_the_compiler_keeps_a_part_of_sbuf(tmp_path: Path, preset: str, size: int) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nl.store(out, nisa.memset((1, 1), value=nl.tile_size.total_available_sbuf_size, dtype=nl.int32))
    return out
"""
    )
    assert ran(tmp_path, text, {"a": random(1, 1)}, preset=preset).item() == size


def test_a_transposing_load_takes_the_dimensions_after_the_first_as_one(tmp_path: Path) -> None:
    text = (
        SECOND
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray((40, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load_transpose2d(a[1, :, :]))
    return out
"""
    )
    a = random(2, 64, 40, 1)
    np.testing.assert_array_equal(ran(tmp_path, text, {"a": a}), a[1, :, :, 0].T)


@pytest.mark.parametrize(("name", "outside"), [("sum", 0.0), ("max", -np.inf), ("min", np.inf)])
def test_reductions_under_a_mask_along_a_diagonal(tmp_path: Path, name: str, outside: float) -> None:
    text = (
        FIRST
        + f"""
@nki.jit
def kernel(a):
    out = nl.ndarray((16, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    i, j = nl.arange(16)[:, None], nl.arange(24)[None, :]
    nl.store(out, nl.{name}(nl.load(a), axis=1, keepdims=True, mask=(j <= i)))
    return out
"""
    )
    a = random(16, 24)
    kept = np.where(np.tril(np.ones(a.shape, np.bool_)), a, outside)
    np.testing.assert_allclose(
        ran(tmp_path, text, {"a": a}), getattr(kept, name)(1, keepdims=True), rtol=1e-6, atol=1e-6
    )


TURNED = (
    FIRST
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
    turned = nl.ndarray((nl.par_dim(x.shape[1]), x.shape[0]), dtype=x.dtype, buffer=nl.sbuf)
    turned[...] = nisa.nc_transpose(nl.load(x), engine=nisa.vector_engine)
    nl.store(out, turned)
    return out
"""
)


@pytest.mark.parametrize(("rows", "columns"), [(128, 128), (100, 50), (32, 128), (8, 20)])
def test_vector_transposes_32_rows_and_columns_at_a_time(tmp_path, rows: int, columns: int) -> None:
    x = random(rows, columns)
    spec, program = loaded(tmp_path, TURNED, {"x": x})
    (found,) = outputs_of(spec, program)
    assert (found == x.T).all()
    payload = program.payload
    assert isinstance(payload, Payload)
    turning = payload.tables.instructions["opcode"] == Opcode.NC_TRANSPOSE
    assert turning.sum() == -(-rows // 32) * -(-columns // 32)


def test_a_comparison_of_indices_is_a_condition(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(x, y):
    out = nl.ndarray((2, 16, 24), dtype=x.dtype, buffer=nl.shared_hbm)
    ip, ix = nl.arange(16)[:, None], nl.arange(24)[None, :]
    a, b = nl.load(x), nl.load(y)
    nl.store(out[0], nl.where(ip + 3 >= ix, a, -9984.0))
    nl.store(out[1], nl.where((ip + 3 >= ix) & (ix > 1), a, b))
    return out
"""
    )
    x, y = random(16, 24), random(16, 24, seed=1)
    found = ran(tmp_path, text, {"x": x, "y": y})
    row, column = np.arange(16)[:, None], np.arange(24)[None, :]
    assert np.array_equal(found[0], np.where(row + 3 >= column, x, np.float32(-9984)))
    assert np.array_equal(found[1], np.where((row + 3 >= column) & (column > 1), x, y))
    with pytest.raises(KernelError, match=r"kernel.py:12: nl.where of a comparison of indices"):
        loaded(tmp_path, text.replace("a, -9984.0", "1.0, 2.0"), {"x": x, "y": y})


def test_iota_of_a_loop_index_or_program_is_one_element(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(out[i], nisa.iota(i + nl.program_id(0), dtype=nl.int32))
    return out
"""
    )
    assert ran(tmp_path, text, {"x": random(4, 4)})[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("engine", ["", ", engine=nisa.vector_engine", ", engine=nisa.gpsimd_engine"])
def test_whole_numbers_are_exact_on_gpsimd_alone(tmp_path, engine) -> None:
    text = FIRST + "@nki.jit\ndef kernel(x):\n    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
    text += f"    t = nl.load(x)\n    nl.store(out, nisa.tensor_tensor(t, t, op=np.add{engine}))\n"
    text += "    return out\n"
    x = np.array([[3, (1 << 26) + 1]], np.int32).repeat(4, axis=0)
    found = ran(tmp_path, text, {"x": x})
    assert found[0].tolist() == [6, (1 << 27) + (0 if "vector" in engine else 2)]


def test_whole_numbers_that_lie_in_psum_are_added_by_vector(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def kernel(x, y):
    out = nl.ndarray((16, 8), dtype=nl.int32, buffer=nl.shared_hbm)
    column = nl.transpose(nl.load(y).broadcast_to((1, 16)))
    nl.store(out, nl.load(x) * 3 + column.broadcast_to((16, 8)))
    return out
"""
    )
    x, y = np.arange(128, dtype=np.int32).reshape(16, 8), np.array([[7]], np.int32)
    assert np.array_equal(ran(tmp_path, text, {"x": x, "y": y}), x * 3 + 7)


def test_a_load_may_skip_rows_beyond_a_tensor(tmp_path) -> None:
    text = (
        FIRST
        + """
from neuronxcc.nki.isa.constants import oob_mode

@nki.jit
def kernel(x, rows):
    out = nl.ndarray((2, 8, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    ip, ix = nl.arange(8)[:, None], nl.arange(4)[None, :]
    index = nl.load(rows)
    kept = nl.zeros((2, nl.par_dim(8), 4), dtype=x.dtype)
    kept[1, ip, ix] = nl.load(x[index[ip, 0], ix], mode=oob_mode.skip)
    for i in nl.affine_range(2):
        nl.store(out[i], kept[i])
    return out
"""
    )
    x, rows = random(10, 4), np.array([[3], [9], [10], [0], [77], [1], [2], [9]], np.int32)
    found = ran(tmp_path, text, {"x": x, "rows": rows})
    wanted = np.where(rows < 10, x[np.minimum(rows[:, 0], 9)], np.float32(0))
    assert not found[0].any()
    assert np.array_equal(found[1], wanted)
    with pytest.raises(KernelError, match=r"oob_mode 7 is nisa.oob_mode.error or nisa.oob_mode.skip"):
        loaded(tmp_path, text.replace("oob_mode.skip)", "7)"), {"x": x, "rows": rows})


_LIMITS = (
    FIRST
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray((2, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    least = nl.finfo(x.dtype).min
    tile = nl.full((nl.par_dim(128), 64), least, x.dtype, nl.sbuf)
    tile[0:128, 1:63] = nl.load(x[:, 1:63])
    nl.store(out[0], tile)
    ip, ix = nl.mgrid[0:128, 0:64]
    below = nisa.affine_select(pred=ip >= ix, on_true_tile=tile, on_false_value=least, dtype=x.dtype)
    nl.store(out[1], below)
    return out
"""
)


@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_numbers_of_all_float_types_fill(tmp_path, kind) -> None:
    x = random(128, 64).astype(kind)
    found = ran(tmp_path, _LIMITS, {"x": x}).astype(np.float64)
    least = float(ml_dtypes.finfo(kind).min)
    filled = np.full((128, 64), least)
    filled[:, 1:63] = x[:, 1:63]
    below = np.arange(128)[:, None] >= np.arange(64)
    assert np.array_equal(found, np.stack([filled, np.where(below, filled, least)]))


@pytest.mark.parametrize("wrong", ["fill", "x"])
def test_what_is_no_number_fills_nothing(tmp_path, wrong) -> None:
    fill = "'a'" if wrong == "fill" else "x"
    text = _LIMITS.replace("least, x.dtype, nl.sbuf", f"{fill}, x.dtype, nl.sbuf")
    with pytest.raises(KernelError, match=r"kernel.py:11: nl.full with .*: expected a number"):
        ran(tmp_path, text, {"x": random(128, 64)})


def test_values_of_a_grid_repeat_over_all_of_it(tmp_path) -> None:
    """As numpy's mgrid, which is dense."""
    text = (
        FIRST
        + """
@nki.jit
def kernel(x):
    out = nl.ndarray((3, 128, 6, 4), dtype=nl.int32, buffer=nl.shared_hbm)
    grid = nl.mgrid[0:128, 0:6, 0:4]
    for n, index in enumerate((grid.y, 4 * grid.x + grid.y, 5 - grid.p // 1)):
        nl.store(out[n], nisa.iota(index, dtype=nl.int32))
    return out
"""
    )
    p, x, y = np.mgrid[0:128, 0:6, 0:4]
    found = ran(tmp_path, text, {"x": random(128, 1)})
    assert np.array_equal(found, np.stack([y, 4 * x + y, 5 - p]))
