"""Views by .indirect(): elements that a tile of offsets picks."""

import ml_dtypes
import numpy as np
import pytest

from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import SECOND, loaded, ran, random

_HEAD = """
def brought(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


@nki.jit
def kernel(x, y, i):
    a, b, index = brought(x), brought(y), brought(i)
    d = nl.ndarray((x.shape[0], COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=d, value=0.0)
    CALL
    out = nl.ndarray(d.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=d)
    return out
"""


def _text(call: str, columns: int) -> str:
    return SECOND + _HEAD.replace("CALL", call).replace("COLUMNS", str(columns))


def _inputs(rows: int, count: int) -> dict[str, np.ndarray]:
    """Offsets are a permutation by 16 partitions, the same in each group."""
    order = np.random.default_rng(2).permutation(48)[:count]
    index = np.zeros((rows, -(-count // 16)), np.uint16)
    for number, offset in enumerate(order):
        index[number % 16 :: 16, number // 16] = offset
    return {"x": random(rows, 48), "y": random(rows, count, seed=5), "i": index}


def _order(index: np.ndarray, count: int, group: int = 16) -> np.ndarray:
    return index[:group].T.reshape(-1)[:count].astype(int)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("nisa.tensor_copy(dst=d, src=a.indirect(index, 20))", lambda a, b: a),
        ("nisa.tensor_tensor(dst=d, data1=a.indirect(index, 20), data2=b, op=nl.add)", lambda a, b: a + b),
        ("nisa.tensor_scalar(d, a.indirect(index, 20), nl.multiply, 2.0)", lambda a, b: a * 2),
        ("nisa.activation(dst=d, op=nl.square, data=a.indirect(index, 20))", lambda a, b: a * a),
        (
            "nisa.tensor_copy_predicated(d, b, a.indirect(index, 20).is_indirect() and "
            "mask(a).indirect(index, 20))",
            lambda a, b: np.where(a > 0, b, 0),
        ),
    ],
)
def test_operands_are_gathered_by_offsets(tmp_path, call, wanted) -> None:
    given = _inputs(64, 20)
    mask = (
        "def mask(a):\n    m = nl.ndarray(a.shape, dtype=nl.uint8, buffer=nl.sbuf)\n"
        "    nisa.tensor_scalar(m, a, nl.greater, 0.0)\n    return m\n\n"
    )
    text = _text(call, 20).replace("def brought", mask + "\ndef brought", 1)
    found = ran(tmp_path, text, given, preset="trn3")
    picked = given["x"][:, _order(given["i"], 20)]
    assert np.allclose(found, wanted(picked, given["y"]), atol=1e-6)


_COLUMN = "c = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)\n    "


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("nisa.tensor_reduce(c, nl.add, a.indirect(index, 20), axis=1)", lambda a: a),
        (
            "nisa.activation_reduce(e, nl.square, a.indirect(index, 20), reduce_op=nl.add, reduce_res=c)",
            lambda a: a * a,
        ),
        (
            "nisa.activate2(e, nl.copy, a.indirect(index, 20), imm0=2.0, imm1=0.5, op0=nl.multiply, "
            "op1=nl.add, reduce_op=nl.add, reduce_res=c, reduce_cmd=nisa.reduce_cmd.reset_reduce)",
            lambda a: 2 * a + 0.5,
        ),
        (
            "nisa.exponential(e, a.indirect(index, 20), reduce_res=c, "
            "reduce_cmd=nisa.reduce_cmd.reset_reduce)",
            np.exp,
        ),
        (
            "nisa.tensor_scalar_reduce(e, a.indirect(index, 20), nl.multiply, 3.0, nl.add, c)",
            lambda a: 3 * a,
        ),
        (
            "nisa.tensor_scalar_cumulative(e, a.indirect(index, 20), nl.multiply, nl.add, 1.0)\n    "
            "nisa.tensor_copy(dst=c, src=e[:, 19:20])",
            lambda a: a,
        ),
    ],
)
def test_sums_are_those_of_the_elements_picked(tmp_path, call, wanted) -> None:
    given = _inputs(64, 20)
    made = _COLUMN + "e = nl.ndarray((64, 20), dtype=nl.float32, buffer=nl.sbuf)\n    "
    found = ran(tmp_path, _text(f"{made}{call}\n    nisa.tensor_copy(dst=d, src=c)", 1), given, preset="trn3")
    picked = given["x"][:, _order(given["i"], 20)]
    assert np.allclose(found, wanted(picked).sum(1, keepdims=True), rtol=1e-4, atol=1e-4)


def test_a_result_is_scattered_and_the_rest_stays(tmp_path) -> None:
    given = _inputs(32, 20)
    call = "nisa.tensor_copy(dst=a.indirect(index, 20), src=b); nisa.tensor_copy(dst=d, src=a)"
    found = ran(tmp_path, _text(call.replace("; ", "\n    "), 48), given, preset="trn3")
    wanted = given["x"].copy()
    wanted[:, _order(given["i"], 20)] = given["y"]
    assert np.array_equal(found, wanted)


def test_products_take_offsets_of_32_partitions(tmp_path) -> None:
    given = _inputs(64, 30)
    order = np.random.default_rng(4).permutation(48)[:30].astype(np.uint16)
    given["i"] = np.zeros((64, 1), np.uint16)
    given["i"][:30, 0] = given["i"][32:62, 0] = order
    given["x"] = given["x"].astype(ml_dtypes.bfloat16)
    given["y"] = random(64, 64, seed=6).astype(ml_dtypes.bfloat16)
    call = (
        "p = nl.ndarray((64, 30), dtype=nl.float32, buffer=nl.psum)\n    "
        "nisa.nc_matmul(dst=p, stationary=b, moving=a.indirect(index, 30))\n    "
        "nisa.tensor_copy(dst=d, src=p)"
    )
    found = ran(tmp_path, _text(call, 30), given, preset="trn3")
    wanted = given["y"].astype(np.float32).T @ given["x"].astype(np.float32)[:, order]
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "said", "preset"),
    [
        ("nisa.tensor_copy(dst=d, src=a.indirect(index, 20))", "needs NeuronCore-v4", "trn2"),
        ("nisa.tensor_copy(dst=d, src=a.indirect(index, 65))", "holds up to 64 offsets", "trn3"),
        ("nisa.tensor_copy(dst=d, src=a.indirect(index, 40))", "16 partitions hold 32", "trn3"),
        ("nisa.tensor_tensor(d, b, a.indirect(index, 20), nl.add)", "no operand that it takes", "trn3"),
        ("nisa.tensor_copy(dst=d, src=a.indirect(index, 20)[:, 0:4])", "has no further views", "trn3"),
        ("nisa.tensor_copy(dst=d, src=a.indirect(b, 20))", "tile of integers in SBUF", "trn3"),
        ("nisa.nc_transpose(dst=d, data=a.indirect(index, 20))", "no operand that it takes", "trn3"),
    ],
)
def test_offsets_that_do_not_fit_are_refused(tmp_path, call, said, preset) -> None:
    with pytest.raises(KernelError, match=rf"kernel.py:\d+: .*{said}"):
        loaded(tmp_path, _text(call, 20), _inputs(32, 20), preset=preset)


def test_an_offset_beyond_the_tile_is_a_hazard(tmp_path) -> None:
    given = _inputs(32, 20)
    given["i"][3, 0] = 48
    call = "nisa.tensor_copy(dst=d, src=a.indirect(index, 20))"
    spec, program = loaded(tmp_path, _text(call, 20), given, preset="trn3")
    machine = NeuronMachine(spec, program)
    assert machine.advance(1 << 62, NO_STOPS, None).kind == StopKind.FINISHED
    assert ["index 48 is outside 0..47" in each.text for each in machine.hazards()] == [True]


def test_kinds_of_the_trace_have_one_number_each(tmp_path) -> None:
    call = "nisa.tensor_copy(dst=d, src=a.indirect(index, 20))"
    machine = NeuronMachine(*loaded(tmp_path, _text(call, 20), _inputs(32, 20), preset="trn3"))
    numbers = [each.id for each in machine.description.kinds]
    assert len(set(numbers)) == len(numbers)
