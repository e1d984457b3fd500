"""Kernels of tests: a text, arrays, and what the machine makes of them."""

import textwrap
from pathlib import Path

import numpy as np

from npuviz.base.progress import NoProgress
from npuviz.program.program import Program
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.load.loader import load
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.spec import NeuronSpec

FIRST = """
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
"""
SECOND = """
import nki
import nki.isa as nisa
import nki.language as nl
"""


def loaded(
    folder: Path, text: str, inputs: dict[str, np.ndarray], **settings: str
) -> tuple[NeuronSpec, Program]:
    """The program of a kernel file of this text; `preset` among the settings chooses the machine."""
    preset = settings.pop("preset", "")
    path = folder / "kernel.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return load(LoadRequest(path, preset=preset, inputs=inputs, settings=settings), NoProgress())


def outputs_of(spec: NeuronSpec, program: Program) -> list[np.ndarray]:
    """Run to the end and read what came out."""
    machine = NeuronMachine(spec, program)
    assert machine.advance(1 << 62, NO_STOPS, None).kind == StopKind.FINISHED
    values = machine.values()
    assert values is not None
    assert not machine.hazards()
    found = [values.tensor(tensor) for tensor in program.graph.outputs]
    return [np.asarray(each) for each in found if each is not None]


def ran(folder: Path, text: str, inputs: dict[str, np.ndarray], **settings: str) -> np.ndarray:
    """The only output of a kernel."""
    (found,) = outputs_of(*loaded(folder, text, inputs, **settings))
    return found


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal numbers in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
