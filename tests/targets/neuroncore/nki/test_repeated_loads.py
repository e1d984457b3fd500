# Loads of what a tile of the same turn holds already: which of them are left out, and what is read then.
from pathlib import Path

import numpy as np
import pytest

from npuviz.program.program import Program
from tests.targets.neuroncore.nki.running import FIRST, loaded, outputs_of, random

TURNS = 4


def _read(program: Program, name: str) -> int:
    """Bytes of an input that transfers read."""
    tables = program.payload.tables
    wanted = {number for number, each in enumerate(tables.variables) if each.name == name}
    return sum(
        source.num_bytes
        for transfer in tables.transfers
        for descriptor in transfer.descriptors
        for source in descriptor.sources
        if source.variable in wanted
    )


def _ran(folder: Path, body: str, decorator: str = "", **settings: str) -> float:
    """How often `a` is read by a kernel that computes twice a and a squared."""
    lines = "\n        ".join(body.strip().splitlines())
    text = f"""{FIRST}
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.typing as nt
{decorator}
@nki.jit
def kernel(a):
    out = nl.ndarray(({TURNS}, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    for i in nl.affine_range({TURNS}):
        {lines}
    return out
"""
    a = random(TURNS, 128, 512)
    spec, program = loaded(folder, text, {"a": a}, **{"preset": "trn1", **settings})
    (out,) = outputs_of(spec, program)
    np.testing.assert_allclose(out, 2 * a + a * a, rtol=1e-2, atol=0.03)
    return _read(program, "a") / a.nbytes


TWICE = """
double = nl.add(nl.load(a[i]), nl.load(a[i]))
square = nl.multiply(nl.load(a[i]), nl.load(a[i]))
nl.store(out[i], nl.add(double, square))
"""


@pytest.mark.parametrize("preset", ["trn1", "trn2"])
def test_what_a_turn_loads_twice_it_loads_once(tmp_path, preset) -> None:
    assert _ran(tmp_path, TWICE, preset=preset) == 1


@pytest.mark.parametrize(
    ("decorator", "settings"),
    [("", {"kernel_share_loads": "0"}), ("@ncc.skip_middle_end_transformations", {})],
)
def test_loads_stay_as_written_where_that_is_asked_for(tmp_path, decorator, settings) -> None:
    assert _ran(tmp_path, TWICE, decorator, **settings) == 4


PARTS = """
whole = nl.load(a[i])
square = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
square[...] = nl.multiply(whole, whole)
for k in nl.affine_range(4):
    columns = 128 * k + nl.arange(128)[None, :]
    part = nl.load(a[i, rows, columns])
    nl.store(out[i, rows, columns], nl.add(nl.multiply(part, 2.0), square[rows, columns]))
"""


@pytest.mark.parametrize(("preset", "times"), [("trn1", 2), ("trn2", 1)])
def test_parts_that_an_inner_loop_loads_are_those_of_the_tile_around_it_from_trn2_on(
    tmp_path, preset, times
) -> None:
    assert _ran(tmp_path, PARTS, preset=preset) == times


TURNED = """
whole = nl.load(a[i])
square = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
square[...] = nl.multiply(whole, whole)
for k in nl.affine_range(4):
    columns = 128 * k + nl.arange(128)[None, :]
    part = nl.transpose(nl.load_transpose2d(a[i, rows, columns]))
    nl.store(out[i, rows, columns], nl.add(nl.multiply(part, 2.0), square[rows, columns]))
"""


def test_rows_that_are_turned_are_those_that_lie_there(tmp_path) -> None:
    assert _ran(tmp_path, TURNED, preset="trn2") == 1


@pytest.mark.parametrize(
    ("body", "times"),
    [
        (  # the first tile is changed before the second load
            """
t = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
t[...] = nl.load(a[i])
t[...] = nl.multiply(t, t)
nl.store(out[i], nl.add(t, nl.multiply(nl.load(a[i]), 2.0)))
""",
            2,
        ),
        (  # another type
            """
half = nl.load(a[i], dtype=nl.bfloat16)
nl.store(out[i], nl.add(nl.multiply(half, 2.0), nl.multiply(nl.load(a[i]), nl.load(a[i]))))
""",
            2,
        ),
        (  # rows that lie in other partitions
            """
whole = nl.load(a[i])
low = nl.load(a[i, 64 + nl.arange(64)[:, None], nl.arange(512)[None, :]])
nl.store(out[i], nl.add(nl.multiply(whole, whole), nl.multiply(whole, 2.0)))
lower = nl.add(nl.multiply(low, low), nl.multiply(low, 2.0))
nl.store(out[i, 64 + nl.arange(64)[:, None], nl.arange(512)[None, :]], lower)
""",
            1.5,
        ),
    ],
)
def test_a_load_stays_where_the_tile_holds_something_else(tmp_path, body, times) -> None:
    assert _ran(tmp_path, body, preset="trn2") == times


def test_a_load_stays_where_the_tensor_is_written(tmp_path) -> None:
    text = f"""{FIRST}
import neuronxcc.nki.typing as nt
@nki.jit
def kernel(a: nt.mutable_tensor):
    first = nl.load(a)
    nl.store(a, nl.multiply(first, 3.0))
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out, a
"""
    a = random(128, 256)
    spec, program = loaded(tmp_path, text, {"a": a}, preset="trn2")
    found = outputs_of(spec, program)
    np.testing.assert_allclose(found[0], 3 * a, rtol=1e-6)
    assert _read(program, "a") == 2 * a.nbytes


def test_loads_of_two_loops_stay(tmp_path) -> None:
    text = f"""{FIRST}
@nki.jit
def kernel(a):
    out = nl.ndarray((2, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        nl.store(out[i], nl.load(a[i]))
    for i in nl.affine_range(2):
        nl.store(out[i], nl.multiply(nl.load(a[i]), 2.0))
    return out
"""
    a = random(2, 128, 512)
    spec, program = loaded(tmp_path, text, {"a": a}, preset="trn2")
    (out,) = outputs_of(spec, program)
    np.testing.assert_array_equal(out, 2 * a)
    assert _read(program, "a") == 2 * a.nbytes
