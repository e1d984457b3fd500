"""What kernels say about the order of their instructions: no_reorder, depends_on and with_schedule.

# Ref: aws-neuron-sdk 81ce03ae, nki/guides/how-to-scheduling-apis.rst; nki/api/nki/isa/__init__.py,
NkiInstruction: the consumer waits for a semaphore each time it runs.
"""

import functools
import inspect
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.recording import Recording, current, is_recording
from npuviz.targets.neuroncore.nki.record.steps import Step

MAX_NAMES = 8
"""Names of instructions that a message lists."""


@contextmanager
def no_reorder() -> Generator[None]:
    """Instructions of the body keep the kernel's order."""
    steps = current().steps
    first = len(steps)
    yield
    for step in steps[first:]:
        step.is_fixed = True


class NkiInstruction:
    """An instruction of the kernel, as functions of nki.isa return it."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps

    def depends_on(self, *producers: object) -> "NkiInstruction":
        """Let it wait for the end of each of the producers. Returns itself. Raises KernelError."""
        for each in producers:
            if not isinstance(each, NkiInstruction):
                raise KernelError(f"depends_on takes what functions of nki.isa return, found {each!r}")
            order(self._steps, each._steps)  # noqa: SLF001 - of its own class
        return self


def order(later: Iterable[Step], earlier: tuple[Step, ...]) -> None:
    """Let steps wait for others."""
    for each in earlier:
        each.key = id(each)
    for step in later:
        step.after = (*step.after, *(each.key for each in earlier))


def return_instructions(names: dict[str, Any]) -> None:
    """Make the functions with a parameter `name` among these return the instruction that they record."""
    for key, value in list(names.items()):
        if isinstance(value, FunctionType) and "name" in inspect.signature(value).parameters:
            names[key] = _returning(value)


def _returning(function: Callable[..., Any]) -> Callable[..., Any]:
    position = list(inspect.signature(function).parameters).index("name")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> NkiInstruction:
        first = len(current().steps) if is_recording() else 0
        function(*args, **kwargs)
        recording = current()
        steps = tuple(recording.steps[first:])
        name = kwargs.get("name", args[position] if len(args) > position else None)
        if name is not None:
            recording.named.setdefault((recording.program, str(name)), []).append(steps)
        return NkiInstruction(steps)

    return call


def apply_schedule(recording: Recording, schedule: Iterable[Any]) -> None:
    """Let named instructions wait for others, in each instance: pairs of a name, and a name or a list of
    names. Raises KernelError.
    """
    programs = dict.fromkeys(program for program, _ in recording.named) or {recording.program: None}
    for pair in schedule:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise KernelError(f"with_schedule takes pairs (consumer, producers) of names, found {pair!r}")
        consumer, producers = pair
        for program in programs:
            for producer in [producers] if isinstance(producers, str) else producers:
                order(_named(recording, program, consumer), _named(recording, program, producer))


def _named(recording: Recording, program: tuple[int, ...], name: object) -> tuple[Step, ...]:
    """The steps of the one instruction of this name."""
    found = recording.named.get((program, str(name)), [])
    if len(found) == 1:
        return found[0]
    if found:
        raise KernelError(f"with_schedule: {len(found)} instructions have name={name!r}")
    known = [each for of, each in recording.named if of == program]
    shown = ", ".join(known[:MAX_NAMES]) + (" ..." if len(known) > MAX_NAMES else "")
    raise KernelError(f"with_schedule: no instruction has name={name!r}; there are {shown or 'no names'}")
