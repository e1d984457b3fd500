"""Values of the chip that a kernel's Python needs while it is recorded: its bounds, conditions, offsets.

The steps so far that the value depends on run on the machine, as a program of their own.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
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
from npuviz.targets.neuroncore.nki.record.tensors import HBM, PSUM, Storage, Tensor
from npuviz.targets.neuroncore.spec import NeuronSpec

NOTE = (
    "values of the chip that decide loops, branches and offsets are found by running the kernel up to there: "
    "the program is the one for these inputs, without the cost of reading registers and of branches (assumed)"
)


MAX_KEPT_BYTES = 1 << 24
"""Bytes of a storage whose values are kept for later observations. # Assumed: a third of SBUF."""


@dataclass
class Observer:
    """Reads tensors of a kernel that is being recorded.

    stores  its inputs;  inputs  arrays of those that are given, others are drawn from `seed`
    seen    tensor -> what was seen last;  known  id of a step -> what storages held after it
    """

    spec: NeuronSpec
    stores: Sequence[Storage]
    inputs: Mapping[str, np.ndarray]
    seed: int
    seen: dict[object, "_Seen"] = field(default_factory=dict[object, "_Seen"])
    known: dict[int, "_Known"] = field(default_factory=dict[int, "_Known"])

    def __call__(self, recording: Recording, tensor: Tensor) -> np.ndarray:
        """The values that a tensor has now, the same array as before if nothing wrote what they depend on.

        Raises KernelError where it has none yet.
        """
        recording.note(NOTE)
        self._forget(recording.taken_over)
        key = (tensor.storage.id, *tensor.key)
        last = self.seen.get(key)
        if last is None or last.is_changed(recording.steps):
            needed = _needed(recording.steps, tensor, self.known)
            values = self._observed(recording, tensor, needed, is_first=last is None)
            last = self.seen[key] = _Seen(values, frozenset(needed.wanted), len(recording.steps))
        recording.observed_step = recording.steps[-1] if recording.steps else None
        return last.values

    def _forget(self, storages: set[int]) -> None:
        """Drop what is known of storages that an earlier step writes now."""
        if not storages:
            return
        self.seen = {key: each for key, each in self.seen.items() if not storages & each.wanted}
        for known in self.known.values():
            for number in storages & known.values.keys():
                del known.values[number]
        storages.clear()

    def _observed(
        self, recording: Recording, tensor: Tensor, needed: "_Needed", is_first: bool
    ) -> np.ndarray:
        """The values of a tensor, from the first step or from what is known.

        From the second time on, what they depend on is kept: the next time costs what has happened since.
        """
        kept = [] if is_first else needed.kept()
        if kept or needed.is_cut:
            try:
                values, *held = self._run(recording, tensor, needed, kept)
                step = recording.steps[-1]
                found = dict(zip([each.id for each in kept], held, strict=True))
                self.known = {id(step): _Known(step, found)}
            except KernelError:  # what is kept needs room
                self.known.clear()
                needed = _needed(recording.steps, tensor, self.known)
            else:
                return values
        return self._run(recording, tensor, needed, ())[0]

    def _run(
        self, recording: Recording, tensor: Tensor, needed: "_Needed", kept: Sequence[Storage]
    ) -> list[np.ndarray]:
        """The values that a tensor and whole storages have after some steps."""
        part = Recording(recording.actions, recording.version)
        part.storages, part.places = list(recording.storages), recording.places
        with recording_active(part), _uncounted(kept):
            for each in needed.parts:
                if isinstance(each, Step):
                    part.steps.append(replace(each, moment=-1))
                else:
                    part.move(_whole(part, each[0]), part.constant(each[1], "known"))
            wanted = [tensor, *(_whole(part, each) for each in kept)]
            probes = [part.new(each.shape, each.dtype, HBM, f"observed.{n}") for n, each in enumerate(wanted)]
            for probe, each in zip(probes, wanted, strict=True):
                part.move(probe, each)
        # What the compiler changes costs time here, and no values.
        spec = replace(self.spec, kernel_buffers=0)
        lowered = lower(part, self.stores, probes, spec, NoProgress())
        request = LoadRequest(Path("kernel.neff"), inputs=dict(self.inputs), seed=self.seed)
        machine = NeuronMachine(self.spec, make_program(request, self.spec, (), lowered.compiled))
        stop = machine.advance(1 << 62, NO_STOPS, None)
        values = machine.values()
        if stop.kind != StopKind.FINISHED or values is None:
            raise KernelError(f"{tensor!r} has no value: the chip stopped: {stop}")
        homes = {each.name: each.id for each in lowered.compiled.tables.variables}
        return [np.array(values.variable(homes[each.name])).reshape(each.shape) for each in probes]


@dataclass
class _Known:
    """What storages, by id, held after a step."""

    step: Step
    values: dict[int, np.ndarray]


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


@dataclass
class _Needed:
    """What gives a tensor its values.

    parts   steps in order, and whole storages with what they hold from there on
    wanted  ids of the storages that it depends on;  is_cut  whether known values stand for the first steps
    """

    parts: list[Step | tuple[Storage, np.ndarray]]
    wanted: set[int]
    is_cut: bool

    def kept(self) -> list[Storage]:
        """The storages whose values are worth keeping: all that steps have written, but PSUM.

        A sum may be under way there.
        """
        found: dict[int, Storage] = {}
        for part in self.parts:
            written = (part.target, *part.more) if isinstance(part, Step) else ()
            storages = [each.storage for each in written if each is not None]
            for each in storages or ([part[0]] if not isinstance(part, Step) else []):
                if each.space != PSUM and prod(each.shape) * each.dtype.itemsize <= MAX_KEPT_BYTES:
                    found[each.id] = each
        return list(found.values())


def _needed(steps: Sequence[Step], tensor: Tensor, known: Mapping[int, _Known]) -> _Needed:
    """The steps that write what the tensor depends on, back to where that is known."""
    wanted: dict[int, Storage] = {tensor.storage.id: tensor.storage}
    unknown = dict(wanted)
    found: list[Step | tuple[Storage, np.ndarray]] = []
    is_cut = False
    for step in reversed(steps):
        if not any(each.is_written for each in unknown.values()):
            break
        held = known.get(id(step))
        if held is not None:
            for number in unknown.keys() & held.values.keys():
                found.append((unknown.pop(number), held.values[number]))
                is_cut = True
        written = {each.storage.id for each in (step.target, *step.more) if each is not None}
        if written & unknown.keys():
            found.append(step)
            touched = {each.id: each for each in storages_of(step)}
            unknown |= touched
            wanted |= touched
    return _Needed(found[::-1], set(wanted), is_cut)


def _whole(recording: Recording, storage: Storage) -> Tensor:
    """All of a storage."""
    return Tensor(recording, storage, storage.dtype, storage.shape)


@contextmanager
def _uncounted(storages: Iterable[Storage]) -> Generator[None]:
    """Leave what the kernel knows of storages as it is: what is read inside is none of its reads."""
    before = [(each, each.reads) for each in storages]
    try:
        yield
    finally:
        for each, reads in before:
            each.reads = reads
