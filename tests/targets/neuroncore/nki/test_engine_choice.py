"""Which engine runs what Scalar and Vector both may run, and tiles of several banks of PSUM."""

import numpy as np

from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from tests.targets.neuroncore.nki.running import FIRST, loaded, outputs_of, ran, random

SOFTMAX = (
    FIRST
    + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((TURNS, 128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    right = nl.load(b)
    for i in nl.affine_range(TURNS):
        left = nl.load(a[i])
        score = nl.ndarray((nl.par_dim(128), 1024), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(8):
            columns = 128 * j + nl.arange(128)[None, :]
            rows = nl.arange(128)[:, None]
            score[rows, columns] = nl.copy(nisa.nc_matmul(left, right[nl.arange(64)[:, None], columns]))
        least = nisa.tensor_reduce(nl.max, score, axis=[1], negate=True)
        power = nisa.activation(nl.exp, score, bias=least)
        share = nisa.reciprocal(nisa.tensor_reduce(nl.add, power, axis=[1]))
        nl.store(out[i], nisa.tensor_scalar(power, nl.multiply, share))
    return out
"""
).replace("TURNS", "12")


def test_what_scalar_and_vector_may_run_goes_to_the_one_that_ends_it_first(tmp_path) -> None:
    given = {"a": random(12, 64, 128), "b": random(64, 1024, seed=1)}
    power = np.exp(np.swapaxes(given["a"], 1, 2) @ given["b"])
    cycles: list[int] = []
    for plans in ("0", "1"):
        spec, program = loaded(tmp_path, SOFTMAX, given, preset="trn2", kernel_plan_engines=plans)
        (made,) = outputs_of(spec, program)
        assert np.allclose(made, power / power.sum(-1, keepdims=True), atol=1e-4)
        machine = NeuronMachine(spec, program)
        assert machine.advance(1 << 62, NO_STOPS, None).kind == StopKind.FINISHED
        cycles.append(machine.cycle)
    assert cycles[1] < 0.9 * cycles[0], cycles


def test_a_tile_in_psum_has_several_banks(tmp_path) -> None:
    text = SOFTMAX.replace("buffer=nl.sbuf", "buffer=nl.psum").replace(
        "nl.copy(nisa.nc_matmul", "(nisa.nc_matmul"
    )
    given = {"a": random(12, 64, 128), "b": random(64, 1024, seed=1)}
    power = np.exp(np.swapaxes(given["a"], 1, 2) @ given["b"])
    made = ran(tmp_path, text, given, preset="trn2")
    assert np.allclose(made, power / power.sum(-1, keepdims=True), atol=1e-4)
