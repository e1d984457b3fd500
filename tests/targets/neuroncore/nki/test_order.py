# Among which instructions of generation 1 engines choose.

import numpy as np
import pytest

from npuviz.program.program import Program
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.neuroncore.isa import DST, Opcode
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.spec import NeuronSpec
from tests.targets.neuroncore.nki.running import FIRST, loaded, outputs_of, random

TURNS, DEPTH, PARTS = 6, 2, 4
NESTED = f"""{FIRST}
@nki.jit
def kernel(a, w):
    out = nl.ndarray(({TURNS}, 128, {512 * PARTS}), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p, i_k, i_f = nl.arange(128)[:, None], nl.arange(128)[None, :], nl.arange(512)[None, :]
    right = nl.ndarray(({DEPTH}, nl.par_dim(128), {512 * PARTS}), dtype=a.dtype)
    for k in nl.affine_range({DEPTH}):
        right[k] = nl.load(w[k])
    for i in nl.affine_range({TURNS}):
        x = nl.load(a[i])
        left = nl.ndarray(({DEPTH}, nl.par_dim(128), 128), dtype=a.dtype)
        for k in nl.affine_range({DEPTH}):
            left[k, i_p, i_k] = nisa.nc_transpose(x[i_p, 128 * k + i_k], engine=nisa.vector_engine)
        for j in nl.affine_range({PARTS}):
            total = nl.zeros((nl.par_dim(128), 512), dtype=a.dtype, buffer=nl.psum)
            for k in nl.affine_range({DEPTH}):
                total += nisa.nc_matmul(left[k, i_p, i_k], right[k, i_p, 512 * j + i_f])
            nl.store(out[i, i_p, 512 * j + i_f], nisa.tensor_copy(total, engine=nisa.vector_engine))
    return out
"""
A, W = random(TURNS, 128, 128 * DEPTH), random(DEPTH, 128, 512 * PARTS)


def _program(tmp_path, **settings: str) -> tuple[NeuronSpec, Program]:
    return loaded(tmp_path, NESTED, {"a": A, "w": W}, **{"preset": "trn2", **settings})


def _cycles(spec: NeuronSpec, program: Program) -> int:
    machine = NeuronMachine(spec, program)
    machine.advance(1 << 62, NO_STOPS, None)
    return machine.cycle


def test_from_trn2_on_engines_begin_with_the_next_turn_of_an_outer_loop(tmp_path) -> None:
    by_turns, freely = (_cycles(*_program(tmp_path, kernel_turns=count)) for count in ("2", "0"))
    # Vector transposes for a turn while PE multiplies for the one before, or when it has all but ended.
    assert freely < 0.9 * by_turns
    assert _cycles(*_program(tmp_path)) == freely
    for preset in ("trn1", "inf2"):
        known = {_cycles(*_program(tmp_path, preset=preset, **each)) for each in ({}, {"kernel_turns": "2"})}
        assert len(known) == 1


def test_what_a_turn_makes_takes_the_place_of_what_some_turns_before_made(tmp_path) -> None:
    for settings, places in (({}, 3), ({"kernel_buffers": "2"}, 2)):
        _, program = _program(tmp_path, **settings)
        code = program.payload.tables.instructions
        made = code[code["opcode"] == Opcode.TENSOR_COPY]["operands"][:, DST]
        assert len(set(made["address"].tolist())) == places


@pytest.mark.parametrize("count", ["0", "1", "2"])
def test_values_do_not_depend_on_the_order(tmp_path, count) -> None:
    spec, program = _program(tmp_path, kernel_turns=count)
    (out,) = outputs_of(spec, program)
    wanted = A.reshape(-1, 128 * DEPTH) @ W.reshape(128 * DEPTH, -1)
    assert np.allclose(out.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)
