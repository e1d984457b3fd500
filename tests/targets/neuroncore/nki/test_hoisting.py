# What is the same in each turn of a loop: which of it the first turn makes for all of them.
from pathlib import Path

import numpy as np
import pytest

from npuviz.program.program import Program
from npuviz.targets.neuroncore.isa import Opcode
from tests.targets.neuroncore.nki.running import FIRST, loaded, outputs_of, random

TURNS = 6


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


def _count(program: Program, opcode: Opcode) -> int:
    return int((program.payload.tables.instructions["opcode"] == opcode).sum())


def _text(body: str, over: str = "nl.affine_range", decorator: str = "", before: str = "pass") -> str:
    lines = "\n        ".join(body.strip().splitlines())
    return f"""{FIRST}
import neuronxcc.nki.compiler as ncc
{decorator}
@nki.jit
def kernel(a, w):
    out = nl.ndarray(({TURNS}, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    {before}
    for i in {over}({TURNS}):
        {lines}
    return out
"""


SCALED = """
t = nl.load(a[128 * i:128 * i + 128])
s = nisa.activation(op=nl.exp, data=nl.load(w))
nl.store(out[i], nl.multiply(t, s))
"""


def _ran(folder: Path, text: str, **settings: str) -> tuple[Program, np.ndarray, np.ndarray, np.ndarray]:
    a, w = random(128 * TURNS, 512), random(128, 512, seed=1) / 4
    spec, program = loaded(folder, text, {"a": a, "w": w}, **{"preset": "trn1", **settings})
    (out,) = outputs_of(spec, program)
    return program, out, a.reshape(out.shape), w


@pytest.mark.parametrize("over", ["nl.affine_range", "nl.sequential_range", "range"])
def test_what_is_the_same_in_each_turn_is_made_once(tmp_path, over) -> None:
    program, out, a, w = _ran(tmp_path, _text(SCALED, over))
    np.testing.assert_allclose(out, a * np.exp(w), rtol=1e-5)
    assert _read(program, "w") == w.nbytes
    assert _count(program, Opcode.ACTIVATION) == 1
    assert any(note.text.startswith("s: the same in each turn") for note in program.notes)


@pytest.mark.parametrize(
    ("over", "decorator", "settings"),
    [
        ("nl.affine_range", "", {"kernel_hoist": "0"}),
        ("nl.affine_range", "", {"preset": "trn2"}),
        ("nl.static_range", "", {}),
        ("nl.affine_range", "@ncc.skip_middle_end_transformations", {}),
        ("nl.affine_range", "@ncc.enable_stack_allocator(log_level=50)", {}),
    ],
)
def test_where_each_turn_makes_its_own(tmp_path, over, decorator, settings) -> None:
    program, out, a, w = _ran(tmp_path, _text(SCALED, over, decorator), **settings)
    np.testing.assert_allclose(out, a * np.exp(w), rtol=1e-5)
    assert _read(program, "w") == TURNS * w.nbytes
    assert _count(program, Opcode.ACTIVATION) == TURNS
    assert not any("the same in each turn" in note.text for note in program.notes)


def test_what_only_some_turns_share_is_made_in_each(tmp_path) -> None:
    body = SCALED.replace("nl.load(w)", "nl.load(a[128 * (i % 2):128 * (i % 2) + 128])")
    program, out, a, _ = _ran(tmp_path, _text(body))
    np.testing.assert_allclose(out, a * np.exp(a[np.arange(TURNS) % 2]), rtol=1e-4)
    assert _count(program, Opcode.ACTIVATION) == TURNS


def test_a_tile_that_is_written_after_it_was_read_is_made_in_each_turn(tmp_path) -> None:
    body = """
t = nl.load(a[128 * i:128 * i + 128])
s = nl.load(w)
r = nl.add(t, s)
s[...] = nl.load(a[0:128])
nl.store(out[i], nl.multiply(r, s))
"""
    program, out, a, w = _ran(tmp_path, _text(body))
    np.testing.assert_allclose(out, (a + w) * a[:1], rtol=1e-5, atol=1e-6)
    assert _read(program, "w") == TURNS * w.nbytes


def test_what_depends_on_a_tile_that_turns_change_is_made_in_each(tmp_path) -> None:
    before = "total = nl.zeros((128, 512), dtype=a.dtype, buffer=nl.sbuf)"
    body = """
s = nisa.activation(op=nl.exp, data=total)
total[...] = nl.add(total, nl.load(w))
nl.store(out[i], nl.multiply(nl.load(a[128 * i:128 * i + 128]), s))
"""
    program, out, a, w = _ran(tmp_path, _text(body, "nl.sequential_range", before=before))
    powers = np.exp(np.arange(TURNS)[:, None, None] * w)
    np.testing.assert_allclose(out, a * powers, rtol=1e-4, atol=1e-5)
    assert _count(program, Opcode.ACTIVATION) == TURNS
    assert _read(program, "w") == w.nbytes


def test_rows_repeated_over_partitions_are_made_for_each_turn(tmp_path) -> None:
    body = """
t = nl.load(a[128 * i:128 * i + 128])
row = nl.load(w[0:1])
nl.store(out[i], nl.add(t, row.broadcast_to((128, 512))))
"""
    program, out, a, w = _ran(tmp_path, _text(body))
    np.testing.assert_allclose(out, a + w[:1], rtol=1e-6)
    assert _count(program, Opcode.NC_MATMUL) == TURNS


NESTED = f"""{FIRST}
@nki.jit
def kernel(a):
    out = nl.ndarray(({{turns}}, {{blocks}}, 128, 1024), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range({{turns}}):
        for k in nl.affine_range({{blocks}}):
            t = nl.load(a[k])
            p = nl.multiply(t, t)
            s = nisa.activation(op=nl.exp, data=t, scale=1.0 + i)
            nl.store(out[i, k], nl.add(s, p))
    return out
"""


@pytest.mark.parametrize(
    ("blocks", "products", "loads"),
    [
        (4, 4, 4),  # 16 KiB of products, and of what is loaded
        (26, 26, 3 * 26),  # the products fit, beside them the loaded tiles do not
        (43, 43, 3 * 43),  # the products fit alone: some wait in HBM
        (50, 3 * 50, 3 * 50),  # 200 KiB of products do not
    ],
)
def test_what_does_not_fit_stays_in_its_loop(tmp_path, blocks, products, loads) -> None:
    a = random(blocks, 128, 1024) / 8
    text = NESTED.format(turns=3, blocks=blocks)
    spec, program = loaded(tmp_path, text, {"a": a}, preset="trn1")
    (out,) = outputs_of(spec, program)
    wanted = np.stack([np.exp(a * (1 + i)) + a * a for i in range(3)])
    np.testing.assert_allclose(out, wanted, rtol=1e-5)
    assert _count(program, Opcode.TENSOR_TENSOR) == products + 3 * blocks
    assert _read(program, "a") == loads * 128 * 1024 * 4
