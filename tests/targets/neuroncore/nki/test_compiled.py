# What the compiler is assumed to change: buffers of loops, loads at use, results in PSUM, the order.
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from npuviz.program.program import Program
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.neuroncore.costs.instructions import issue_cycles
from npuviz.targets.neuroncore.isa import DST, Engine, Opcode, Space
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.spec import NeuronSpec
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, outputs_of, random

TURNS = 12
STREAM = "t = nl.load(a[128 * i:128 * i + 128]); nl.store(out[i], nl.exp(t))"


def _loop(over: str, body: str = STREAM, head: str = FIRST, before: str = "pass") -> str:
    return f"""{head}
@nki.jit
def kernel(a):
    out = nl.ndarray(({TURNS}, 128, 1024), dtype=a.dtype, buffer=nl.shared_hbm)
    {before}
    for i in {over}({TURNS}):
        {body}
    return out
"""


def _made(folder, text: str, a: np.ndarray, **settings: str) -> tuple[NeuronSpec, Program, np.ndarray]:
    spec, program = loaded(folder, text, {"a": a}, **{"preset": "trn1", **settings})
    (out,) = outputs_of(spec, program)
    return spec, program, out


def _places(program: Program, opcode: Opcode) -> set[tuple[int, int]]:
    """(memory, address) of what instructions of an opcode write."""
    instructions = program.payload.tables.instructions
    chosen = instructions[instructions["opcode"] == opcode]["operands"][:, DST]
    return set(zip(chosen["space"].tolist(), chosen["address"].tolist(), strict=True))


def _cycles(spec: NeuronSpec, program: Program) -> int:
    machine = NeuronMachine(spec, program)
    machine.advance(1 << 62, NO_STOPS, None)
    return machine.cycle


@pytest.mark.parametrize(
    ("over", "head", "places"),
    [
        ("nl.affine_range", FIRST, 2),
        ("nl.sequential_range", FIRST, 1),
        ("range", FIRST, 1),
        ("nl.static_range", FIRST, TURNS),
        ("range", SECOND, TURNS),
    ],
)
def test_a_tile_of_a_loop_has_so_many_places(tmp_path, over, head, places) -> None:
    a = random(128 * TURNS, 1024)
    _, program, out = _made(tmp_path, _loop(over, head=head), a)
    assert np.allclose(out, np.exp(a.reshape(out.shape)), rtol=1e-5)
    assert len(_places(program, Opcode.ACTIVATION)) == places


def test_a_tile_of_a_loop_has_three_places_from_trn2_on(tmp_path) -> None:
    text, given = _loop("nl.affine_range"), {"a": random(128 * TURNS, 1024)}
    for preset, places in (("trn1", 2), ("inf2", 2), ("trn2", 3), ("trn3", 3)):
        _, program = loaded(tmp_path, text, given, preset=preset)
        assert len(_places(program, Opcode.ACTIVATION)) == places


def test_a_tile_of_an_unrolled_loop_has_as_many_places_from_trn2_on(tmp_path) -> None:
    text, given = _loop("nl.static_range"), {"a": random(128 * TURNS, 1024)}
    for preset, settings, places in (
        ("inf2", {}, TURNS),
        ("trn2", {}, 3),
        ("trn2", {"kernel_unrolled_places": "0"}, TURNS),
    ):
        _, program = loaded(tmp_path, text, given, preset=preset, **settings)
        assert len(_places(program, Opcode.ACTIVATION)) == places


def test_the_number_of_places_is_a_setting(tmp_path) -> None:
    a = random(128 * TURNS, 1024)
    for count, places in (("3", 3), ("0", TURNS)):
        _, program, _ = _made(tmp_path, _loop("nl.affine_range"), a, kernel_buffers=count)
        assert len(_places(program, Opcode.ACTIVATION)) == places


def test_small_tiles_of_successive_turns_are_one_buffer_together(tmp_path) -> None:
    body = "t = nl.load(a[128 * i:128 * i + 128, 0:128]); nl.store(out[i, 0:128, 0:128], nl.exp(t))"
    text = _loop("nl.affine_range", body)
    _, program = loaded(tmp_path, text, {"a": random(128 * TURNS, 1024)}, preset="trn1")
    assert len(_places(program, Opcode.ACTIVATION)) == min(TURNS, 2 * 4)


def test_turns_of_a_sequential_loop_do_not_overlap(tmp_path) -> None:
    a = random(128 * TURNS, 1024)
    affine = _cycles(*_made(tmp_path, _loop("nl.affine_range"), a)[:2])
    sequential = _cycles(*_made(tmp_path, _loop("nl.sequential_range"), a)[:2])
    free = _cycles(*_made(tmp_path, _loop("nl.sequential_range"), a, kernel_buffers="0")[:2])
    # A load of 512 KiB takes 1.9 us beside 1.3 us of start, an exp 0.9 us: one after the other, or not.
    assert sequential > 1.4 * affine
    assert free < affine * 1.1


def test_turns_of_a_sequential_loop_wait_for_each_other_only_if_told_to(tmp_path) -> None:
    body = (
        "s = nl.exp(nl.load(a[128 * i:128 * i + 128]))\n"
        "        nl.store(out[i], nl.square(nl.add(s, nl.multiply(s, s))))"
    )
    text, given = _loop("nl.sequential_range", body), {"a": random(128 * TURNS, 1024)}
    for preset in ("trn1", "trn2"):
        cycles = [
            _cycles(*loaded(tmp_path, text, given, preset=preset, **settings))
            for settings in ({}, {"kernel_turns_wait": "1"})
        ]
        assert cycles[0] < 0.95 * cycles[1]


def test_results_of_scalar_that_one_addition_reads_lie_in_psum(tmp_path) -> None:
    body = (
        "t = nl.load(a[128 * i:128 * i + 128, 0:512])\n"
        "        nl.store(out[i, 0:128, 0:512], nl.add(t, nisa.activation(op=nl.exp, data=t)))"
    )
    a = random(128 * TURNS, 1024)
    spec, program = loaded(tmp_path, _loop("nl.affine_range", body), {"a": a}, preset="trn1")
    assert {space for space, _ in _places(program, Opcode.ACTIVATION)} == {Space.PSUM}
    (out,) = outputs_of(spec, program)
    part = a.reshape(TURNS, 128, 1024)[:, :, :512]
    assert np.allclose(out[:, :, :512], part + np.exp(part), rtol=1e-5)


@pytest.mark.parametrize(
    "rest",
    [
        "e = nisa.activation(op=nl.exp, data=t); nl.store(out[i, 0:128, 0:512], nl.add(t, e)); "
        "nl.store(out[i, 0:128, 512:1024], e)",  # a second reader
        "nl.store(out[i, 0:128, 0:512], nl.exp(t))",  # read by a store
    ],
)
def test_other_results_of_scalar_stay_in_sbuf(tmp_path, rest) -> None:
    body = f"t = nl.load(a[128 * i:128 * i + 128, 0:512]); {rest}"
    _, program = loaded(
        tmp_path, _loop("nl.affine_range", body), {"a": random(128 * TURNS, 1024)}, preset="trn1"
    )
    assert all(space == Space.SBUF for space, _ in _places(program, Opcode.ACTIVATION))


KEPT = """
    kept = nl.ndarray((BLOCKS, nl.par_dim(128), 1024), dtype=a.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(BLOCKS):
        kept[k] = nl.load(a[128 * k:128 * k + 128])
    for i in nl.affine_range(3):
        for k in nl.affine_range(BLOCKS):
            columns = 512 * (i % 2) + nl.arange(512)[None, :]
            nl.store(out[i, k], nisa.activation(op=nl.exp, data=kept[k, nl.arange(128)[:, None], columns]))
    return out
"""


@pytest.mark.parametrize(("blocks", "uses"), [(20, 1), (44, 3)])
def test_what_does_not_fit_is_loaded_at_each_use(tmp_path, blocks, uses) -> None:
    text = f"{FIRST}\nBLOCKS = {blocks}\n@nki.jit\ndef kernel(a):\n"
    text += f"    out = nl.ndarray((3, {blocks}, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)\n{KEPT[1:]}"
    a = random(128 * blocks, 1024)
    _, program, out = _made(tmp_path, text, a)
    part = a.reshape(blocks, 128, 1024)
    assert np.allclose(out, np.exp(np.stack([part[..., :512], part[..., 512:], part[..., :512]])), rtol=1e-5)
    read = sum(
        source.num_bytes
        for transfer in program.payload.tables.transfers
        for descriptor in transfer.descriptors
        for source in descriptor.sources
        if source.variable >= 0
    )
    assert read == (a.nbytes if uses == 1 else 3 * a.nbytes // 2)
    assert any("is loaded right before" in note.text for note in program.notes) == (uses > 1)
    assert not any(note.code == "spilled" for note in program.notes)


CHAIN = """
{head}
@nki.jit
def kernel(a):
    out = nl.ndarray(({turns}, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in {over}({turns}):
        t = nl.load(a[128 * i:128 * i + 128, 0:512])
        {scope}
            r = nl.add(nl.multiply(t, t), t)
            s = nisa.activation(op=nl.exp, data=r)
            q = nisa.activation(op=nl.square, data=s)
            nl.store(out[i], nl.add(nl.multiply(q, t), q))
    return out
"""


def _chain(tmp_path, over: str = "nl.affine_range", scope: str = "if True:", **settings: str) -> int:
    """Cycles of turns in which Vector waits for Scalar; values are compared."""
    head = f"{FIRST}import neuronxcc.nki.compiler as ncc\n"
    text = CHAIN.format(head=head, over=over, scope=scope, turns=TURNS)
    a = random(128 * TURNS, 512) / 4
    spec, program, out = _made(tmp_path, text, a, **settings)
    t = a.reshape(out.shape)
    q = np.square(np.exp(t * t + t))
    assert np.allclose(out, q * t + q, rtol=1e-4)
    return _cycles(spec, program)


def test_engines_begin_with_the_next_independent_turn_while_they_wait(tmp_path) -> None:
    kept = _chain(tmp_path, kernel_reorder="0")
    assert _chain(tmp_path) < 0.92 * kept
    assert _chain(tmp_path, scope="with ncc.no_reorder():") == kept
    sequential = _chain(tmp_path, "nl.sequential_range", kernel_reorder="0")
    assert _chain(tmp_path, "nl.sequential_range") == sequential


def test_engines_take_what_is_ready_of_an_unrolled_loop(tmp_path) -> None:
    kept = _chain(tmp_path, "nl.static_range", kernel_reorder="0")
    assert _chain(tmp_path, "nl.static_range") < 0.92 * kept
    assert _chain(tmp_path, "nl.static_range", kernel_lookahead="1") == kept
    assert _chain(tmp_path, "nl.static_range", scope="with ncc.no_reorder():") == kept


def test_a_row_repeated_over_partitions_is_a_product_like_others(tmp_path) -> None:
    body = (
        "t = nl.load(a[128 * i:128 * i + 1, 0:512])\n"
        "        nl.store(out[i, 0:128, 0:512], t.broadcast_to((128, 512)))"
    )
    spec, program = loaded(tmp_path, _loop("nl.affine_range", body), {"a": random(128 * TURNS, 1024)})
    instructions = program.payload.tables.instructions
    products = instructions[instructions["opcode"] == Opcode.NC_MATMUL]
    assert len(products) == TURNS
    assert not products["flags"].any()
    assert outputs_of(spec, program)[0].any()


def test_a_reordered_kernel_keeps_the_order_of_what_depends_on_each_other(tmp_path) -> None:
    body = (
        "columns = nl.arange(512)[None, :]\n"
        "        t = nl.load(a[128 * i:128 * i + 128])\n"
        "        total[...] = nl.add(total, t)\n"
        "        s = nisa.activation(op=nl.exp, data=total)\n"
        "        total[...] = nl.multiply(total, 0.5)\n"
        "        nl.store(out[i], nl.add(s, total))"
    )
    before = "total = nl.zeros((128, 1024), dtype=a.dtype, buffer=nl.sbuf)"
    a = random(128 * TURNS, 1024)
    _, _, out = _made(tmp_path, _loop("nl.affine_range", body, before=before), a)
    total = np.zeros((128, 1024), np.float32)
    for turn, part in enumerate(a.reshape(TURNS, 128, 1024)):
        s = np.exp(total + part)
        total = (total + part) * np.float32(0.5)
        assert np.allclose(out[turn], s + total, rtol=1e-4, atol=1e-5)


def test_nothing_is_overwritten_before_a_reader_that_waits_for_its_load(tmp_path) -> None:
    """The product is ready at once, the sum in front of it only when its tile has come."""
    body = (
        "t = nl.load(a[128 * i:128 * i + 128])\n"
        "        nl.store(out[i], nl.add(total, t))\n"
        "        total[...] = nl.multiply(total, 0.5)"
    )
    before = "total = nl.zeros((128, 1024), dtype=a.dtype, buffer=nl.sbuf); total[...] = nl.add(total, 64.0)"
    a = random(128 * TURNS, 1024)
    _, _, out = _made(tmp_path, _loop("nl.affine_range", body, before=before), a)
    for turn, part in enumerate(a.reshape(TURNS, 128, 1024)):
        assert np.allclose(out[turn], part + 64.0 / 2**turn, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("over", ["nl.affine_range", "range"])
def test_a_tile_of_the_next_turn_waits_where_it_would_push_one_of_this_turn_to_hbm(tmp_path, over) -> None:
    """Two of the loaded tiles fit into SBUF, but then no result does."""
    head, body = (
        (FIRST, "t = nl.load(a[i]); nl.store(out[i], nl.exp(t))")
        if over != "range"
        else (SECOND, GENERATION_2_BODY)
    )
    text = f"""{head}
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in {over}(3):
        {body}
    return out
"""
    a = random(3, 128, 21000) / 4
    spec, program = loaded(tmp_path, text, {"a": a}, preset="trn2")
    (got,) = outputs_of(spec, program)
    assert np.allclose(got, np.exp(a), rtol=1e-4)
    assert "spilled" not in [note.code for note in program.notes]


GENERATION_2_BODY = """t = nl.ndarray((128, 21000), dtype=a.dtype, buffer=nl.sbuf)
        s = nl.ndarray((128, 21000), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=a[i])
        nisa.activation(dst=s, op=nl.exp, data=t)
        nisa.dma_copy(dst=out[i], src=s)"""


SUMS = (
    SECOND
    + """
from contextlib import nullcontext

@nki.jit
def kernel(a, b, is_fixed=False):
    out = nl.ndarray((128, 4, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    with nl.no_reorder() if is_fixed else nullcontext():
        for n in range(4):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            nisa.memset(dst=total, value=0.0)
            for _ in range(4):
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            copied = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copied, src=total, engine=nisa.vector_engine)
            nisa.dma_copy(dst=out[:, n, :], src=copied)
    return out
"""
)


def test_engines_of_generation_2_take_what_is_ready_but_for_no_reorder(tmp_path: Path) -> None:
    a, b = random(128, 128), random(128, 512)
    cycles: dict[str, int] = {}
    given: dict[str, dict[str, str]] = {
        "free": {},
        "fixed": {"is_fixed": "True"},
        "kept": {"kernel_reorder": "0"},
        "near": {"kernel_lookahead": "1"},
    }
    for name, settings in given.items():
        spec, program = loaded(tmp_path, SUMS, {"a": a, "b": b}, preset="trn2", **settings)
        machine = NeuronMachine(spec, program)
        assert machine.advance(1 << 62, NO_STOPS, None).kind == StopKind.FINISHED
        assert not machine.hazards()
        cycles[name] = machine.cycle
        (got,) = outputs_of(spec, program)
        np.testing.assert_allclose(got, np.repeat((a.T @ b)[:, None] * 4, 4, axis=1), rtol=1e-3, atol=1e-3)
    assert cycles["fixed"] == cycles["kept"] == cycles["near"]
    assert cycles["free"] < cycles["kept"] * 0.9


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("is_on_chip", [False, True])
def test_from_v3_on_dma_engines_turn_a_tensor_at_nearly_the_rate_of_a_copy(
    tmp_path: Path, kind: str, is_on_chip: bool
) -> None:
    text = (
        SECOND
        + f"""
@nki.jit
def kernel(a, turns=True):
    out = nl.ndarray((128, 256), dtype=nl.{kind}, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 256), dtype=nl.{kind}, buffer=nl.sbuf)
    source = a[0]
    if {is_on_chip}:
        source = nl.ndarray((128, 128), dtype=nl.{kind}, buffer=nl.sbuf)
        nisa.dma_copy(dst=source, src=a[0, 0:128, :])
    for n in range(8):
        part = source if {is_on_chip} else a[n % 2]
        width = 128 if {is_on_chip} else 256
        if turns:
            nisa.dma_transpose(dst=tile[:, 0:width], src=part)
        else:
            nisa.dma_copy(dst=tile[:, 0:width], src=part.reshape((128, width)))
    if {is_on_chip}:
        nisa.dma_transpose(dst=tile[:, 128:256], src=a[1, 0:128, :])
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
    )
    a = random(2, 256, 128).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else np.float32)
    cycles: dict[str, int] = {}
    for preset, turns in (("trn2", "True"), ("trn2", "False"), ("trn1", "True")):
        spec, program = loaded(tmp_path, text, {"a": a}, preset=preset, turns=turns)
        (got,) = outputs_of(spec, program)
        if turns == "True":
            wanted = np.hstack([a[0, :128].T, a[1, :128].T]) if is_on_chip else a[1].T
            np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))
        machine = NeuronMachine(spec, program)
        machine.advance(1 << 62, NO_STOPS, None)
        cycles[preset + turns] = machine.cycle
    assert cycles["trn2True"] < cycles["trn2False"] * 2.5
    assert cycles["trn1True"] > cycles["trn2True"] * 2


def test_ones_that_repeat_a_row_may_be_marked(tmp_path) -> None:
    text = """
        from neuronxcc import nki
        import neuronxcc.nki.language as nl

        @nki.jit
        def kernel(a, b):
            out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
            row = nl.load(a)
            nl.store(out, nl.add(nl.load(b), row.broadcast_to((128, 512))))
            return out
        """
    given = {"a": random(1, 512), "b": random(128, 512)}
    found = []
    for settings in ({}, {"kernel_repeat_onezero": "1"}):
        spec, program = loaded(tmp_path, text, given, preset="trn1", **settings)
        code = program.payload.tables.instructions
        found.append(int(issue_cycles(code[code["opcode"] == Opcode.NC_MATMUL], spec).sum()))
        assert any("kernel_repeat_onezero" in note.text for note in program.notes)
        assert np.array_equal(outputs_of(spec, program)[0], given["b"] + given["a"])
    assert found == [4 * 512, 2 * 512]


@pytest.mark.parametrize(
    ("preset", "columns", "settings", "copies"),
    [
        ("trn2", 512, {}, 0),
        ("trn2", 1024, {}, 2 * TURNS),  # two banks
        ("trn2", 512, {"kernel_rows_in_psum": "0"}, TURNS),
        ("trn1", 512, {}, 0),
        ("trn1", 512, {"kernel_rows_in_psum": "0"}, TURNS),
    ],
)
def test_a_repeated_row_of_a_bank_is_read_in_psum(tmp_path, preset, columns, settings, copies) -> None:
    body = (
        f"t = nl.load(a[128 * i:128 * i + 128, 0:{columns}])\n"
        f"        row = nl.load(a[128 * i:128 * i + 1, 0:{columns}]).broadcast_to((128, {columns}))\n"
        f"        nl.store(out[i, 0:128, 0:{columns}], nl.add(t, row))"
    )
    a = random(128 * TURNS, 1024)
    spec, program = loaded(tmp_path, _loop("nl.affine_range", body), {"a": a}, preset=preset, **settings)
    (out,) = outputs_of(spec, program)
    part = a.reshape(TURNS, 128, 1024)[..., :columns]
    np.testing.assert_allclose(out[..., :columns], part + part[:, :1], rtol=1e-5, atol=1e-6)
    code = program.payload.tables.instructions
    engines = code["engine"][code["opcode"] == Opcode.TENSOR_COPY]
    assert len(engines) == copies
    assert columns == 512 or set(engines.tolist()) == {Engine.ACTIVATION}


def test_a_repeated_row_that_later_turns_read_is_copied(tmp_path) -> None:
    before = "row = nl.load(a[0:1, 0:512]).broadcast_to((128, 512))"
    body = "nl.store(out[i, 0:128, 0:512], nl.add(nl.load(a[128 * i:128 * i + 128, 0:512]), row))"
    a = random(128 * TURNS, 1024)
    text = _loop("nl.affine_range", body, before=before)
    spec, program = loaded(tmp_path, text, {"a": a}, preset="trn2")
    (out,) = outputs_of(spec, program)
    np.testing.assert_allclose(out[..., :512], (a + a[:1]).reshape(out.shape)[..., :512], rtol=1e-5)
    assert {space for space, _ in _places(program, Opcode.TENSOR_COPY)} == {Space.SBUF}


def test_sums_that_psum_does_not_hold_are_saved_where_sbuf_is_full_too(tmp_path) -> None:
    text = f"""{FIRST}
@nki.jit
def kernel(a, w, v):
    out = nl.ndarray((10, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    copies = nl.ndarray((47, 128, 1024), dtype=a.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((47, nl.par_dim(128), 1024), dtype=a.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(47):
        kept[k] = nisa.activation(op=nl.exp, data=nl.load(a[k]))
    left, right = nl.load(w), nl.load(v)
    total = nl.zeros((10, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
    for j in nl.affine_range(2):
        for m in nl.affine_range(10):
            total[m] += nisa.nc_matmul(left, right[nl.arange(128)[:, None], nl.arange(512)[None, :] + m])
    for m in nl.affine_range(10):
        nl.store(out[m], nl.copy(total[m]))
    for k in nl.affine_range(47):
        nl.store(copies[k], kept[k])
    return out, copies
"""
    a, w, v = random(47, 128, 1024), random(128, 128, seed=1), random(128, 522, seed=2)
    spec, program = loaded(tmp_path, text, {"a": a, "w": w, "v": v}, preset="trn1")
    out, copies = outputs_of(spec, program)
    wanted = np.stack([2 * w.T @ v[:, m : m + 512] for m in range(10)])
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(copies, np.exp(a), rtol=1e-5)
    assert "spilled" in [note.code for note in program.notes]
