"""Runs ONNX models on a simulated machine as a backend does: arrays in, arrays out."""

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from npuviz.base.errors import NpuvizError, TargetError, UnknownTarget
from npuviz.base.progress import NoProgress
from npuviz.onnx.parameters import specialise, weight_inputs
from npuviz.onnx.passes.narrow_floats import NOTE
from npuviz.onnx.passes.optimization import KEEP_NODES
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.machine import HOST_OPERATOR, ChecksMemory, HasHazards, Machine
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest, Target
from npuviz.workbench.choosing import targets

TARGET_VARIABLE = "NPUVIZ_ONNX_TARGET"
"""Environment variable that names the target of the backend."""
PRESET_VARIABLE = "NPUVIZ_ONNX_PRESET"
MAX_CYCLES = 1 << 40
ON_HOST = "Host"
"""Name of the processor outside of the chip in `Program.placement`."""


class ExecutionFault(TargetError):
    """The simulated machine did not end the program: a fault or a deadlock."""


@dataclass(frozen=True)
class ExecutionOptions:
    """Which machine runs the models.

    target    id, "" for the one of the environment, else the first that takes ONNX models
    preset    of the target, "" for its default;  settings  as `--set`
    """

    target: str = ""
    preset: str = ""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Execution:
    """A finished run.

    outputs     in the order of the model's outputs
    parameters  inputs that were compiled into the program
    nodes       operators that ran, after function bodies were written out
    host_nodes  operators of those that ran on the host -> reason
    cycles      of the whole run
    is_narrowed whether float64 was computed in a narrower type
    held        inputs that the machine's number type rounds: name -> rounded values
    check       compares every tensor with ONNX Runtime by the machine's own tolerances; raises NpuvizError
    """

    outputs: tuple[np.ndarray, ...]
    parameters: tuple[str, ...]
    nodes: tuple[str, ...]
    host_nodes: Mapping[str, str]
    cycles: int
    is_narrowed: bool
    held: Mapping[str, np.ndarray]
    check: Callable[[], CheckResult]


def choose_onnx_target(wanted: str = "") -> Target:
    """Return the target for ONNX models: the wanted one, that of the environment, or the first that takes
    them.

    Raises UnknownTarget.
    """
    known = targets()
    name = wanted or os.environ.get(TARGET_VARIABLE, "")
    if name:
        if name not in known:
            raise UnknownTarget(f"unknown target {name!r}; known: {', '.join(known) or 'none'}")
        return known[name]
    for target in known.values():
        if ".onnx" in target.file_kinds:
            return target
    raise UnknownTarget("no installed target takes ONNX models")


def execute(
    model: onnx.ModelProto, inputs: Sequence[object], options: ExecutionOptions | None = None
) -> Execution:
    """Compile a model for these inputs, run it to the end and read its outputs.

    inputs  arrays or TensorProto, one for each input of the graph that is no initialiser, in order
    If operators run on the host, inputs that networks have as weights are compiled in where that leaves fewer
    operators there.
    Raises NpuvizError: TargetError for values that no machine can hold, ExecutionFault for a run that stops
    early.
    """
    chosen = options or ExecutionOptions()
    machine, parameters = compiled_machine(model, inputs, chosen)
    weights = weight_inputs(model, _named_inputs(model, inputs)) if _on_host(machine.program) else []
    if weights:
        other, known = compiled_machine(model, inputs, chosen, weights)
        if len(_on_host(other.program)) < len(_on_host(machine.program)):
            machine, parameters = other, known
    program = machine.program
    graph = program.graph
    by_name = {tensor.name: tensor.id for tensor in graph.tensors}
    for value in model.graph.output:
        if value.name in by_name and graph.tensors[by_name[value.name]].dtype in ("string", "opaque"):
            raise TargetError(
                f"output {value.name} is text, a sequence or an optional, which no machine holds"
            )
    stop = machine.advance(MAX_CYCLES, NO_STOPS, None)
    if stop.kind != StopKind.FINISHED:
        raise ExecutionFault(f"stopped at cycle {stop.cycle}: {stop.kind} {stop.unit} {stop.detail}".rstrip())
    _check_hazards(machine)
    outputs: list[np.ndarray] = []
    for value in model.graph.output:
        array = machine.tensor(by_name[value.name]) if value.name in by_name else None
        if array is None:
            raise ExecutionFault(f"the machine holds no values of the output {value.name}")
        outputs.append(as_declared(np.asarray(array), value.type.tensor_type.elem_type))
    reasons = {note.node: note.reason.limit for note in program.notes if note.reason is not None}
    host = {graph.nodes[node].op_type: reasons.get(node, "") for node in _on_host(program)}
    nodes = tuple(node.op_type for node in graph.nodes)
    return Execution(
        tuple(outputs), tuple(parameters), nodes, host, machine.cycle,
        any(note.code == NOTE for note in program.notes),
        _held_coarser(machine, _named_inputs(model, inputs)),
        lambda: choose_onnx_target(chosen.target).check(machine, NoProgress()),
    )  # fmt: skip


def _held_coarser(machine: Machine, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    graph = machine.program.graph
    found: dict[str, np.ndarray] = {}
    for index in graph.inputs:
        name = graph.tensors[index].name
        values = machine.tensor(index) if name in given and is_float(given[name]) else None
        if values is None or values.size != given[name].size:
            continue
        own = np.asarray(values).reshape(given[name].shape).astype(given[name].dtype)
        if not np.array_equal(own, given[name], equal_nan=True):
            found[name] = own
    return found


def as_declared(array: np.ndarray, code: int) -> np.ndarray:
    """Convert floats that a machine stores in another type to the element type (code of ONNX) of the model.

    To a type of 8 bits or fewer only if that is exact, since the machine itself must do the rounding.
    """
    if code == onnx.TensorProto.UNDEFINED:
        return array
    declared = onnx.helper.tensor_dtype_to_np_dtype(code)
    if array.dtype == declared or not (is_float(array) and is_float(np.empty(0, declared))):
        return array
    with np.errstate(over="ignore"):
        made = array.astype(declared)
    wide = made.astype(np.float64), array.astype(np.float64)
    return made if declared.itemsize > 1 or np.array_equal(*wide, equal_nan=True) else array


def is_float(values: np.ndarray) -> bool:
    """Return whether elements are floats, those of ml_dtypes included."""
    return values.dtype.kind == "f" or "float" in values.dtype.name


def _on_host(program: Program) -> list[int]:
    """Return the nodes that the host runs."""
    return [node for node, place in program.placement.items() if place == ON_HOST]


def compiled_machine(
    model: onnx.ModelProto, inputs: Sequence[object], options: ExecutionOptions, weights: Collection[str] = ()
) -> tuple[Machine, list[str]]:
    """Build a machine at cycle 0 with a model compiled for these inputs, and return the names of inputs
    compiled in.

    weights  inputs to compile in, in addition to those that determine sizes
    Raises NpuvizError.
    """
    arrays = _named_inputs(model, inputs)
    made, parameters = specialise(model, arrays, weights)
    if len(made.graph.node) == 1:
        made.metadata_props.add(key=KEEP_NODES[0], value=KEEP_NODES[1])
    target = choose_onnx_target(options.target)
    preset = options.preset or os.environ.get(PRESET_VARIABLE, "")
    given = {name: array for name, array in arrays.items() if name not in parameters}
    with tempfile.TemporaryDirectory(prefix="npuviz-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(made.SerializeToString())
        request = LoadRequest(path, preset, None, options.settings, given)
        spec, program = target.load(request, NoProgress())
        return target.build(spec, program), [*parameters]


def as_array(values: object) -> np.ndarray:
    """Convert an input to an array; onnx's test runner gives some types as TensorProto.

    Raises NpuvizError for a TensorProto with inconsistent content.
    """
    if not isinstance(values, onnx.TensorProto):
        return np.asarray(values)
    try:
        return onnx.numpy_helper.to_array(values)
    except (ValueError, TypeError) as error:
        raise NpuvizError(f"input {values.name or 'without a name'}: {error}") from error


def _check_hazards(machine: Machine) -> None:
    """Raise TargetError or ExecutionFault for hazards of level `error`, even if the values happen to be
    right."""
    found = list(machine.hazards()) if isinstance(machine, HasHazards) else []
    found += machine.memory_hazards().hazards if isinstance(machine, ChecksMemory) else ()
    for hazard in found:
        if hazard.kind == HOST_OPERATOR:
            raise TargetError(hazard.text)
        if hazard.level == "error":
            raise ExecutionFault(f"cycle {hazard.cycle}, {hazard.unit}: {hazard.text}")


def _named_inputs(model: onnx.ModelProto, inputs: Sequence[object]) -> dict[str, np.ndarray]:
    initialised = {tensor.name for tensor in model.graph.initializer}
    names = [value for value in model.graph.input if value.name not in initialised]
    if len(inputs) > len(names):
        raise NpuvizError(f"expected at most {len(names)} inputs, found {len(inputs)}")
    arrays: dict[str, np.ndarray] = {}
    for value, array in zip(names, inputs, strict=False):
        if not value.type.HasField("tensor_type"):
            kind = (value.type.WhichOneof("value") or "nothing").removesuffix("_type")
            raise TargetError(f"input {value.name} is of kind {kind}, which no machine holds")
        arrays[value.name] = as_array(array)
        if arrays[value.name].dtype.kind in "OSU":
            raise TargetError(f"input {value.name} is text, which no machine holds")
    return arrays
