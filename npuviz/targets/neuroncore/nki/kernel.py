"""Kernels: functions under nki.jit, recorded for given inputs, run on the machine."""

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np

from npuviz.base.errors import HazardWarning, KernelWarning
from npuviz.base.kernels.seldom import seldom_collected
from npuviz.base.progress import NoProgress, Progress
from npuviz.program.program import Note
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore import strides
from npuviz.targets.neuroncore.nki.calls.actions import ACTIONS
from npuviz.targets.neuroncore.nki.calls.annotations import Annotation
from npuviz.targets.neuroncore.nki.calls.instances import Instances, NeedsInstances
from npuviz.targets.neuroncore.nki.calls.keywords import keywords_known
from npuviz.targets.neuroncore.nki.calls.ordering import apply_schedule
from npuviz.targets.neuroncore.nki.frameworks import array_of, like_arguments, write_back
from npuviz.targets.neuroncore.nki.lowering import Lowered, lower
from npuviz.targets.neuroncore.nki.observing import Observer
from npuviz.targets.neuroncore.nki.record.element_types import carrier, dtype_of, held
from npuviz.targets.neuroncore.nki.record.errors import REFUSED, KernelError, OutOfBounds
from npuviz.targets.neuroncore.nki.record.loops import TRACED_ONCE, range_of_kernel
from npuviz.targets.neuroncore.nki.record.machine_in_use import compiled_for, spec_in_use
from npuviz.targets.neuroncore.nki.record.output_writes import note_double_writes
from npuviz.targets.neuroncore.nki.record.recording import Recording, is_recording, recording_active
from npuviz.targets.neuroncore.nki.record.syntax import as_traced
from npuviz.targets.neuroncore.nki.record.tensors import HBM, Storage, Tensor
from npuviz.targets.neuroncore.nki.rules.psum_begins import UNDEFINED
from npuviz.targets.neuroncore.nki.saving import Files, saving
from npuviz.targets.neuroncore.nki.user_python import located
from npuviz.targets.neuroncore.spec import NeuronSpec


@dataclass(frozen=True)
class Traced:
    """A recorded kernel.

    inputs   arrays by name, in the order of the parameters
    stores   storages of the inputs;  outputs  what it returned
    is_tuple  whether it returned several
    """

    recording: Recording
    inputs: Mapping[str, np.ndarray]
    stores: tuple[Storage, ...]
    outputs: tuple[Tensor, ...]
    is_tuple: bool

    @property
    def changed(self) -> tuple[str, ...]:
        """Inputs that the kernel writes."""
        return tuple(each.name for each in self.stores if each.is_written)


class Kernel:
    """A function of nki.jit. Called inside another kernel it is part of that; else it runs on the machine.

    is_as_written  whether it asks the compiler to take nothing out of its loops
    schedule  pairs of names: an instruction, and one or several for which it waits
    files  what a run writes beside its results; asked at each run, and may raise OSError or ValueError
    """

    is_as_written = False
    schedule: tuple[Any, ...] = ()
    files: Callable[[], Files] = staticmethod(Files)

    def __init__(
        self,
        function: Callable[..., Any],
        version: int,
        grid: tuple[int, ...] = (),
        mode: str = "auto",
        platform: str = "",
    ) -> None:
        given = function.func if isinstance(function, functools.partial) else function
        _check_kind(given)
        functools.update_wrapper(self, given)
        made = as_traced(given, range_of_kernel) if version == 1 else given
        self.function = _with_arguments(made, function) if isinstance(function, functools.partial) else made
        self.version = version
        self.grid = grid
        self.mode = mode
        self.platform = platform

    def __getitem__(self, grid: Any) -> "Kernel":
        """The kernel on a grid of instances."""
        sizes = tuple(int(size) for size in (grid if isinstance(grid, tuple | list) else (grid,)))
        made = copy.copy(self)
        made.grid = sizes
        return made

    def with_schedule(self, schedule: Iterable[Any]) -> "Kernel":
        """The kernel with instructions that wait for others: (name, name) or (name, [names]) each."""
        made = copy.copy(self)
        made.schedule = tuple(schedule)
        return made

    def __get__(self, owner: Any, _: Any = None) -> "Kernel":
        """The kernel as a method of an object, which is its first argument."""
        if owner is None:
            return self
        made = copy.copy(self)
        made.function = MethodType(self.function, owner)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, or be part of the kernel that runs."""
        if is_recording():
            if self.grid:
                raise KernelError(
                    f"the kernel {self.function.__name__} on a grid {list(self.grid)} "
                    "inside another kernel: call it without a grid",
                    "err_nested_kernel_with_spmd_grid",
                )
            return self.function(*args, **kwargs)
        return run_kernel(self, args, kwargs)

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The function's parameters."""
        return inspect.signature(self.function).parameters

    def trace(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], drawn: Collection[str] = (), seed: int = 0
    ) -> Traced:
        """Record the kernel for arrays. Raises KernelError, with the line of the user's text.

        drawn  inputs of which only shape and type count: their values come from `seed`
        """
        try:
            return self._traced(args, kwargs, drawn, seed, self.version > 1)
        except NeedsInstances:
            return self._traced(args, kwargs, drawn, seed, True)

    def _traced(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        drawn: Collection[str],
        seed: int,
        can_wait: bool,
    ) -> Traced:
        """`trace`; can_wait  whether instances wait for each other."""
        recording = Recording(ACTIONS, self.version, grid=self.grid, is_as_written=self.is_as_written)
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        inputs: dict[str, np.ndarray] = {}
        stores: list[Storage] = []
        for name, value in bound.arguments.items():
            bound.arguments[name] = _converted(recording, name, value, inputs, stores)
        given = {name: values for name, values in inputs.items() if name not in drawn}
        recording.observer = Observer(spec_in_use(), stores, given, seed)
        programs = list(product(*(range(size) for size in self.grid)))
        with recording_active(recording), keywords_known() if self.version > 1 else nullcontext():
            try:
                result = self._recorded(
                    recording, programs, can_wait, lambda: self.function(*bound.args, **bound.kwargs)
                )
                apply_schedule(recording, self.schedule)
            except KernelError as error:
                raise located(error) from error
        values = result if isinstance(result, tuple | list) else () if result is None else (result,)
        outputs: list[Tensor] = []
        for value in values:
            if isinstance(value, Tensor) and value.is_on_chip and self.version == 1:
                value = _stored(recording, value)
            if not isinstance(value, Tensor) or value.is_on_chip:
                found = value if isinstance(value, Tensor | float | int | str) else type(value).__name__
                raise self._without_output(f"the kernel returns {found!r}; outputs lie in nl.shared_hbm")
            if not value.storage.is_written and value.storage.kind == "scratch":
                error = KernelError(
                    f"{value!r} is returned and nothing was stored to it", "err_tensor_output_not_written_to"
                )
                raise error.at(recording.where(value.storage.place))
            outputs.append(value)
            _take_shape(recording, value)
        if not outputs and not any(each.is_written for each in stores):
            raise self._without_output(
                f"the kernel {self.function.__name__} returns no tensor and writes none of its arguments"
            )
        if self.version == 1:
            self._note_parameters(recording, stores, outputs)
            written = {each.id: each for each in (*stores, *(out.storage for out in outputs))}
            note_double_writes(recording, written.values())
        return Traced(recording, inputs, tuple(stores), tuple(outputs), isinstance(result, tuple | list))

    def _without_output(self, text: str) -> KernelError:
        """The error at the line where the kernel begins."""
        code = inspect.unwrap(self.function).__code__
        error = KernelError(text, "err_tensor_output_not_written_to")
        return error.at(f"{Path(code.co_filename).name}:{code.co_firstlineno}")

    def _recorded(
        self,
        recording: Recording,
        programs: Sequence[tuple[int, ...]],
        can_wait: bool,
        work: Callable[[], Any],
    ) -> Any:
        """What the last instance returns."""
        if can_wait and len(programs) > 1:
            return Instances(recording, programs).run(work)
        result: Any = None
        for program in programs:
            recording.program = program
            result = work()
        return result

    def _note_parameters(
        self, recording: Recording, stores: Sequence[Storage], outputs: Sequence[Tensor]
    ) -> None:
        """Say which parameters a kernel of generation 1 writes although the documentation forbids it."""
        returned = {each.storage.id for each in outputs}
        for storage in stores:
            if not storage.is_written:
                continue
            parameter = self.parameters.get(storage.name)
            is_mutable = parameter is not None and "mutable" in str(parameter.annotation)
            if is_mutable and storage.id not in returned:
                recording.note(
                    f"err_mutable_parameter_not_returned: the kernel writes {storage.name} and does not "
                    "return it; newer compilers refuse that"
                )
            elif not is_mutable:
                recording.note(
                    f"err_cannot_update_immutable_parameter: the kernel writes its parameter {storage.name}, "
                    "which is no nt.mutable_tensor; newer compilers refuse that"
                )


def _with_arguments(function: Callable[..., Any], given: functools.partial[Any]) -> Callable[..., Any]:
    """A function of the arguments that functools.partial leaves open."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*given.args, *args, **{**given.keywords, **kwargs})

    setattr(call, "__signature__", inspect.signature(given))  # noqa: B010 - no attribute of functions
    return call


def _check_kind(function: Any) -> None:
    """Raise KernelError unless a call of this runs a body at once: async functions and generators do not."""
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise KernelError(f"nki.jit of {function!r}: a kernel is a function")
    kinds = {
        "an async function": inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function),
        "a generator (it has a yield)": inspect.isgeneratorfunction(function),
    }
    for kind, is_it in kinds.items():
        if is_it:
            error = KernelError(f"nki.jit of {function.__name__}: a kernel is a plain function, not {kind}")
            raise error.at(f"{Path(function.__code__.co_filename).name}:{function.__code__.co_firstlineno}")


def _take_shape(recording: Recording, output: Tensor) -> None:
    """Give a whole tensor that is returned reshaped that shape, unless rows of it are picked by index."""
    storage = output.storage
    is_whole = output.size == prod(storage.shape) and output.dtype == storage.dtype and not output.offset
    is_picked = any(
        each is not None and each.row_index is not None and each.storage is storage
        for step in recording.steps
        for each in (step.target, *step.sources)
    )
    if is_whole and not is_picked and output.steps == strides.dense_steps(output.shape):
        storage.shape = output.shape


def _stored(recording: Recording, tile: Tensor) -> Tensor:
    """A tile that the kernel returns, in HBM."""
    recording.note("a tile on the chip that the kernel returns is stored to HBM (assumed)")
    with recording_active(recording):
        made = recording.new(tile.shape, tile.dtype, HBM, f"{tile.name}.returned")
        recording.move(made, tile)
    return made


def _converted(
    recording: Recording, name: str, value: Any, inputs: dict[str, np.ndarray], stores: list[Storage]
) -> Any:
    """An argument as the kernel sees it: arrays become tensors in HBM."""
    if isinstance(value, tuple):
        parts = [_converted(recording, f"{name}{n}", part, inputs, stores) for n, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list) and _has_arrays(value):
        return [_converted(recording, f"{name}{n}", part, inputs, stores) for n, part in enumerate(value)]
    array = value.zeros() if isinstance(value, Annotation) else array_of(value)
    if array is None:
        return value
    kind = dtype_of(array.dtype)
    if kind != array.dtype:
        recording.note(f"input {name}: {array.dtype} is taken as {kind}")
    with recording_active(recording):
        made = recording.new(array.shape, kind, HBM, name)
    made.storage.kind = "input"
    values = np.ascontiguousarray(held(array))
    inputs[name] = values.astype(carrier(kind), copy=False).reshape(array.shape)
    stores.append(made.storage)
    return made


def _has_arrays(value: Any) -> bool:
    """Whether lists and tuples, one inside of the other, lead to an array."""
    if isinstance(value, list | tuple):
        return any(_has_arrays(part) for part in value)
    return array_of(value) is not None


def lower_traced(traced: Traced, spec: NeuronSpec, progress: Progress) -> Lowered:
    """The program of a recorded kernel."""
    changed = [
        Tensor(traced.recording, each, each.dtype, each.shape) for each in traced.stores if each.is_written
    ]
    given = {each.storage.id for each in traced.outputs}
    outputs = [*traced.outputs, *(each for each in changed if each.storage.id not in given)]
    return lower(traced.recording, traced.stores, outputs, spec, progress)


def trace_on(
    kernel: Kernel,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    spec: NeuronSpec,
    drawn: tuple[Collection[str], int] = ((), 0),
) -> Traced:
    """Record a kernel for a machine; `drawn`: see `Kernel.trace`."""
    with compiled_for(spec):
        return kernel.trace(args, kwargs, *drawn)


@dataclass
class Run:
    """A finished run: what came out, and how long it took.

    types  the element types of what instructions read and wrote
    """

    outputs: tuple[np.ndarray, ...]
    changed: Mapping[str, np.ndarray]
    cycles: int
    nanoseconds: float
    hazards: tuple[str, ...]
    types: frozenset[str]


MAX_WARNINGS = 10
"""Hazards of a run that a script is told of."""
LAST: list[Run] = []
"""The last run of this process, for who measures it."""


@seldom_collected()
def run_kernel(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Record, lower and run a kernel; results are arrays or tensors, as the arguments are.

    Arguments that it writes change in place.
    """
    spec = spec_in_use(kernel.platform)
    traced = trace_on(kernel, args, kwargs, spec)
    lowered = lower_traced(traced, spec, NoProgress())
    for text in traced.recording.notes:
        if text.startswith((TRACED_ONCE, REFUSED, UNDEFINED)):
            warnings.warn(text, KernelWarning, stacklevel=3)
    done = execute(traced, lowered, spec, (), (kernel.files(), kernel.function.__name__))
    LAST[:] = [done]
    for text in done.hazards[:MAX_WARNINGS]:
        warnings.warn(f"hazard: {text}", HazardWarning, stacklevel=3)
    bound = inspect.signature(kernel.function).bind(*args, **kwargs).arguments
    for name, values in done.changed.items():
        write_back(bound.get(name), values)
    if not traced.outputs:
        return None
    outputs = tuple(like_arguments(values, (*args, *kwargs.values())) for values in done.outputs)
    return outputs if traced.is_tuple else outputs[0]


def _viewed(values: np.ndarray, output: Tensor) -> np.ndarray:
    """The part of a variable's values that an output names."""
    flat = np.ascontiguousarray(values).reshape(-1).view(carrier(output.dtype))
    steps = tuple(step * flat.itemsize for step in output.steps)
    return np.array(np.lib.stride_tricks.as_strided(flat[output.offset :], output.shape, steps))


def execute(
    traced: Traced,
    lowered: Lowered,
    spec: NeuronSpec,
    notes: tuple[Note, ...],
    saved: tuple[Files, str] = (Files(), "kernel"),
) -> Run:
    """Run a lowered kernel to its end; `saved`: what is written of it, and under which name.

    Raises KernelError if the chip stops before it, or could not execute an instruction; IndexError for an
    access out of bounds.
    """
    from npuviz.sim.recording import run_recorded
    from npuviz.sim.stop import NO_STOPS, StopKind
    from npuviz.targets.neuroncore.load.programs import make_program
    from npuviz.targets.neuroncore.machine.machine import NeuronMachine
    from npuviz.targets.neuroncore.nki.reference import types_used

    request = LoadRequest(Path(f"{saved[1]}.neff"), inputs=dict(traced.inputs))
    program = make_program(request, spec, notes, lowered.compiled)
    machine = NeuronMachine(spec, program)
    with saving(*saved, lowered, spec, machine) as trace:
        stop = run_recorded(machine, trace) if trace else machine.advance(1 << 62, NO_STOPS, None)
    if stop.kind != StopKind.FINISHED:
        raise KernelError(f"the chip stopped: {stop}")
    values = machine.values()
    assert values is not None
    hazards = machine.hazards()
    for hazard in hazards:
        if hazard.kind == "out-of-bounds":
            raise OutOfBounds(hazard.text.rpartition(": ")[2])
        if hazard.kind == "fault":
            raise KernelError(f"the chip misbehaved: {hazard.text}")
    tables = lowered.compiled.tables
    names = {variable.name: variable.id for variable in tables.variables}
    outputs = tuple(
        _viewed(np.array(values.variable(names[each.storage.name])), each) for each in traced.outputs
    )
    changed = {name: np.array(values.variable(names[name])) for name in traced.changed}
    return Run(
        outputs,
        changed,
        machine.cycle,
        machine.cycle / spec.pe_hz * 1e9,
        tuple(f"{_line_of(lowered, each.instruction)}{each.text}" for each in hazards),
        frozenset(types_used(tables.instructions)),
    )


def _line_of(lowered: Lowered, instruction: int) -> str:
    """File and line that an instruction comes from, for the beginning of a sentence."""
    nodes = lowered.compiled.tables.nodes
    node = int(nodes[instruction]) if 0 <= instruction < len(nodes) else -1
    return f"{lowered.compiled.graph.nodes[node].name}: " if node >= 0 else ""
