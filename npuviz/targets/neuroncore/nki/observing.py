"""Values of the chip that a kernel's Python needs while it is recorded: its bounds, conditions, offsets.

The steps so far that the value depends on run on the machine, as a program of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.load.programs import make_program
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.nki.lowering import lower
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.recording import Recording, recording_active
from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import HBM, Storage, Tensor
from npuviz.targets.neuroncore.spec import NeuronSpec

NOTE = (
    "values of the chip that decide loops, branches and offsets are found by running the kernel up to there: "
    "the program is the one for these inputs, without the cost of reading registers and of branches (assumed)"
)


@dataclass(frozen=True)
class Observer:
    """Reads tensors of a kernel that is being recorded.

    stores  its inputs;  inputs  arrays of those that are given, others are drawn from `seed`
    seen    tensor -> what was seen last
    """

    spec: NeuronSpec
    stores: Sequence[Storage]
    inputs: Mapping[str, np.ndarray]
    seed: int
    seen: dict[object, "_Seen"] = field(default_factory=dict[object, "_Seen"])

    def __call__(self, recording: Recording, tensor: Tensor) -> np.ndarray:
        """The values that a tensor has now, the same array as before if nothing wrote what they depend on.

        Raises KernelError where it has none yet.
        """
        recording.note(NOTE)
        key = (tensor.storage.id, *tensor.key)
        last = self.seen.get(key)
        if last is None or last.is_changed(recording.steps):
            steps, wanted = _needed(recording.steps, tensor)
            values = self._run(recording, tensor, steps)
            last = self.seen[key] = _Seen(values, frozenset(wanted), len(recording.steps))
        return last.values

    def _run(self, recording: Recording, tensor: Tensor, steps: list[Step]) -> np.ndarray:
        """The values that a tensor has after some steps."""
        part = Recording(recording.actions, recording.version)
        part.steps = list(steps)
        part.storages, part.places = list(recording.storages), recording.places
        part.moments = list(recording.moments)
        with recording_active(part):
            probe = part.new(tensor.shape, tensor.dtype, HBM, "observed")
            part.move(probe, tensor)
        spec = replace(
            self.spec, kernel_buffers=0
        )  # what the compiler changes costs time here, and no values
        lowered = lower(part, self.stores, (probe,), spec, NoProgress())
        request = LoadRequest(Path("kernel.neff"), inputs=dict(self.inputs), seed=self.seed)
        machine = NeuronMachine(self.spec, make_program(request, self.spec, (), lowered.compiled))
        stop = machine.advance(1 << 62, NO_STOPS, None)
        values = machine.values()
        if stop.kind != StopKind.FINISHED or values is None:
            raise KernelError(f"{tensor!r} has no value: the chip stopped: {stop}")
        (home,) = (each.id for each in lowered.compiled.tables.variables if each.name == probe.name)
        return np.array(values.variable(home)).reshape(tensor.shape)


@dataclass
class _Seen:
    """What a tensor held after the first `count` steps, and the storages that this depends on."""

    values: np.ndarray
    wanted: frozenset[int]
    count: int

    def is_changed(self, steps: Sequence[Step]) -> bool:
        """Whether a step since then has written what the values depend on."""
        for step in steps[self.count :]:
            if any(each is not None and each.storage.id in self.wanted for each in (step.target, *step.more)):
                return True
        self.count = len(steps)
        return False


def _needed(steps: Sequence[Step], tensor: Tensor) -> tuple[list[Step], set[int]]:
    """The steps that write what the tensor depends on, in order, and the storages that it depends on."""
    wanted = {tensor.storage.id}
    found: list[Step] = []
    for step in reversed(steps):
        written = {each.storage.id for each in (step.target, *step.more) if each is not None}
        if written & wanted:
            found.append(step)
            wanted |= {each.id for each in storages_of(step)}
    return found[::-1], wanted
