"""Instructions that wait for others because the kernel asks for it: depends_on and with_schedule."""

import numpy as np
import pytest

from npuviz.sim.stop import NO_STOPS
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import SECOND, loaded, outputs_of, random

WIDTH = 4096
_BOTH = f"""
def both(x):
    first = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    second = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    wide = tile.expand_dim(1).broadcast(1, {WIDTH})
    a = nl.ndarray((128, {WIDTH}, 1), dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray((128, {WIDTH}, 1), dtype=x.dtype, buffer=nl.sbuf)
    scalar = nisa.activation(dst=a, op=nl.exp, data=wide, name="scalar")
    vector = nisa.tensor_scalar(dst=b, data=wide, op0=nl.add, operand0=1.0, engine=nisa.engine.vector,
                                name="vector")
    ASKED
    nisa.dma_copy(dst=first, src=a[:, {WIDTH - 1}, :])
    nisa.dma_copy(dst=second, src=b[:, {WIDTH - 1}, :])
    return first, second
"""
_ASKED = SECOND + _BOTH + "@nki.jit\ndef kernel(x):\n    return both(x)\n"
_PLANNED = (
    SECOND
    + _BOTH.replace("ASKED", "pass")
    + "@nki.jit\ndef plain(x):\n    return both(x)\n\nkernel = plain.with_schedule(PLAN)\n"
)
X = random(128, 1)


def _cycles(folder, text: str, **settings: str) -> int:
    spec, program = loaded(folder, text, {"x": X}, preset="trn2", kernel="kernel", **settings)
    first, second = outputs_of(spec, program)
    assert np.allclose(first, np.exp(X), rtol=1e-5)
    assert np.allclose(second, X + 1, rtol=1e-6)
    machine = NeuronMachine(spec, program)
    machine.advance(1 << 62, NO_STOPS, None)
    return machine.cycle


@pytest.mark.parametrize("reorder", ["1", "0"])
@pytest.mark.parametrize(
    ("asked", "plan"),
    [
        ("vector.depends_on(scalar)", "[('vector', 'scalar')]"),
        ("scalar.depends_on(vector)", "[('scalar', ['vector'])]"),
    ],
)
def test_an_instruction_waits_for_those_it_depends_on(tmp_path, asked, plan, reorder) -> None:
    free = _cycles(tmp_path, _ASKED.replace("ASKED", "pass"), kernel_reorder=reorder)
    waiting = _cycles(tmp_path, _ASKED.replace("ASKED", asked), kernel_reorder=reorder)
    # Each of the two takes at least a cycle an element, on engines that otherwise work at once.
    assert waiting > free + WIDTH
    assert _cycles(tmp_path, _PLANNED.replace("PLAN", plan), kernel_reorder=reorder) == waiting


def test_depends_on_returns_the_instruction(tmp_path) -> None:
    once, twice = "vector.depends_on(scalar)", "vector.depends_on(scalar).depends_on(scalar, scalar)"
    assert len({_cycles(tmp_path, _ASKED.replace("ASKED", each)) for each in (once, twice)}) == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("vector.depends_on(scalar); scalar.depends_on(vector)", r"kernel.py:\d+: .* waits for it"),
        ("vector.depends_on('scalar')", r"kernel.py:\d+: depends_on takes what functions of nki.isa return"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(tmp_path, asked, words) -> None:
    with pytest.raises(KernelError, match=words):
        loaded(tmp_path, _ASKED.replace("ASKED", asked), {"x": X}, kernel="kernel")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("[('scalar', 'none')]", "no instruction has name='none'; there are scalar, vector"),
        ("[('scalar', 'vector', 'x')]", "takes pairs"),
        ("[('scalar', 'vector'), ('vector', 'scalar')]", "waits for it"),
    ],
)
def test_wrong_schedules_are_refused(tmp_path, plan, words) -> None:
    with pytest.raises(KernelError, match=words):
        loaded(tmp_path, _PLANNED.replace("PLAN", plan), {"x": X}, kernel="kernel")
