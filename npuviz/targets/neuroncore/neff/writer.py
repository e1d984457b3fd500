"""Write compiled programs as NEFF: programs, static descriptors, constants, and npuviz's own record."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import DoesNotFit
from npuviz.base.units import format_bytes
from npuviz.formats.neff import model as nm
from npuviz.formats.neff.file import make_neff, write_neff
from npuviz.formats.neff.graph import GraphTensor
from npuviz.formats.neff.json_members import object_bytes
from npuviz.formats.neff.model import OWN_FOLDER, Neff, Payload
from npuviz.program.graph import Graph
from npuviz.program.program import Note
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.activation_tables import TABLE_SETS
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.isa import (
    ENGINE_NAMES,
    NUM_ENGINES,
    NUM_PARTITIONS,
    SLOT_BYTES,
    Engine,
    Opcode,
)
from npuviz.targets.neuroncore.neff.debug_records import MAX_INSTRUCTIONS, MODEL_MEMBER, DebugNames
from npuviz.targets.neuroncore.neff.decoding import decode
from npuviz.targets.neuroncore.neff.descriptors import STATE_BUFFER, access_dtypes, engine_entries
from npuviz.targets.neuroncore.neff.encoding import encode
from npuviz.targets.neuroncore.neff.record import (
    HOST,
    PROGRAM,
    RECORD_VERSION,
    array_record,
    graph_record,
    npy_bytes,
)
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import QueueSet, Tables, Transfer, Variable

RUNTIME_SEMAPHORES = 3
"""Ref: runtime_semaphore_count of a real NEFF."""
TARGETS = {"inf1": "inf1", "trn1": "trn1", "trn2": "cayman", "trn3": "trn3"}
"""`target` of kelf-0.json: cayman is measured on a real NEFF, the vendor's other names are not public."""
VARIABLE_TYPES = {"input": "input", "output": "output", "constant": "file", "scratch": "tmp-buf"}


def write_compiled(
    request: LoadRequest, spec: NeuronSpec, notes: tuple[Note, ...], compiled: Compiled, out: Path
) -> str:
    """Write a compiled program as a NEFF file; return a sentence about it. Raises NpuvizError, OSError."""
    neff = compiled_neff(compiled, spec, request.path.stem, notes)
    write_neff(neff, out)
    tables = compiled.tables
    slots = sum(len(file.program) for each in neff.subgraphs for file in each.engines.values()) // SLOT_BYTES
    return (
        f"{out}: {format_bytes(out.stat().st_size)}, "
        f"{len(tables.instructions)} instructions in {slots} slots, "
        f"{len(tables.transfers)} transfers, {len(tables.variables)} variables for {spec.arch}"
    )


def compiled_neff(compiled: Compiled, spec: NeuronSpec, name: str, notes: Sequence[Note] = ()) -> Neff:
    """Make the NEFF of a compiled program in memory."""
    names = _unique_names(compiled.tables.variables)
    members: dict[str, Payload] = {}
    record = _record(compiled, spec, notes, names, members)
    debug = None
    if len(compiled.tables.instructions) <= MAX_INSTRUCTIONS:
        debug = DebugNames(compiled.tables, spec, compiled.graph)
        members[MODEL_MEMBER] = debug.model()
    subgraphs = [_subgraph(compiled, spec, core, names, debug) for core in range(compiled.tables.num_cores)]
    first, end = compiled.tables.sequencers[-1].tolist()
    if end > first:
        members[HOST] = encode(compiled.tables.instructions[first:end], {})
    members[PROGRAM] = object_bytes(record)
    return make_neff(
        subgraphs,
        members,
        name=name,
        target=TARGETS[spec.arch],
        lnc_size=compiled.tables.num_cores,
        inputs=_graph_tensors(compiled.graph, compiled.graph.inputs),
        outputs=_graph_tensors(compiled.graph, compiled.graph.outputs),
    )


def _graph_tensors(graph: Graph, tensors: Sequence[int]) -> list[GraphTensor]:
    return [GraphTensor(each.name, each.dtype, each.shape) for each in (graph.tensors[i] for i in tensors)]


def _unique_names(variables: Sequence[Variable]) -> list[str]:
    """Return a different name for each variable, as def.json needs."""
    used = {STATE_BUFFER}
    names: list[str] = []
    for each in variables:
        name = each.name or f"variable{each.id}"
        while name in used:
            name = f"{each.name}#{each.id}" if name == each.name else f"{name}'"
        used.add(name)
        names.append(name)
    return names


# --- the record --------------------------------------------------------------------------------


def _record(
    compiled: Compiled,
    spec: NeuronSpec,
    notes: Sequence[Note],
    names: Sequence[str],
    members: dict[str, Payload],
) -> dict[str, Any]:
    tables, graph = compiled.tables, compiled.graph
    homes = {
        each.tensor: each.id
        for each in tables.variables
        if each.data is not None and graph.constants.get(each.tensor) is each.data
    }
    for column in ("nodes", "tiles", "allocations"):
        members[f"{OWN_FOLDER}{column}.npy"] = npy_bytes(getattr(tables, column))
    return {
        "version": RECORD_VERSION,
        "spec": asdict(spec),
        "graph": graph_record(graph, homes, members),
        "variables": [_variable_record(each, names, members) for each in tables.variables],
        "queue_sets": [[each.core, each.name, each.owner] for each in tables.queue_sets],
        "transfers": [[each.core, each.id] for each in tables.transfers],
        "dtypes": access_dtypes(tables.transfers, spec),
        "pieces": [
            [each.tensor, each.instruction, each.operand, each.base, each.partition_step, *each.steps]
            for each in tables.pieces
        ],
        "outputs": [[tensor, variable] for tensor, variable in tables.outputs.items()],
        "semaphore_uses": [[*key, use] for key, use in tables.semaphore_uses.items()],
        "placement": [[node, group] for node, group in compiled.placement.items()],
        "places": [
            [each.tensor, each.memory, each.address, each.size_bytes]
            for each in compiled.memory_map.allocations
        ],
        "notes": [_note_row(each) for each in (*notes, *compiled.notes)],
    }


def _variable_record(variable: Variable, names: Sequence[str], members: dict[str, Payload]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": variable.name,
        "key": names[variable.id],
        "kind": variable.kind,
        "address": variable.address,
        "dtype": variable.dtype,
        "shape": variable.shape,
        "size": variable.size_bytes,
        "tensor": variable.tensor,
    }
    data = variable.data
    if data is not None and (data.dtype.hasobject or (data.size > 1 and not any(data.strides))):
        # Other arrays are in the variable's .npy file.
        record["data"] = array_record(data, "", members)
    return record


# --- a subgraph --------------------------------------------------------------------------------


def _subgraph(
    compiled: Compiled, spec: NeuronSpec, core: int, names: Sequence[str], debug: DebugNames | None
) -> nm.Subgraph:
    tables = compiled.tables
    queues = sorted((each for each in tables.queue_sets if each.core == core), key=lambda each: each.name)
    numbers = {each.id: number for number, each in enumerate(queues)}
    used = _used_variables(tables, core)
    files: dict[str, Payload] = {}
    variables = {STATE_BUFFER: nm.Variable(STATE_BUFFER, "state-buffer", 0)}
    for each in tables.variables:
        if each.id in used:
            variables[names[each.id]] = _variable(each, names[each.id], files)
    entries = engine_entries(tables, core, names, spec)
    engines: dict[str, nm.EngineFile] = {}
    for engine in range(NUM_ENGINES):
        first, end = tables.sequencers[core * NUM_ENGINES + engine].tolist()
        name = ENGINE_NAMES[engine]
        engines[name] = nm.EngineFile(
            name,
            _program(tables, first, end, numbers),
            tuple(entries[engine]),
            _activation_extra(tables, first, end) if engine == Engine.ACTIVATION else {},
        )
        if debug is not None:
            engines[name] = _with_debug(engines[name], debug, Engine(engine), first, end, files)
    return nm.Subgraph(
        f"sg{core:02d}",
        {each.name: _queue_set(tables, each) for each in queues},
        variables,
        engines,
        files,
        _tensor_map(compiled.graph, tables, names, used),
        _definition(spec, tables.num_cores),
    )


def _with_debug(
    file: nm.EngineFile, debug: DebugNames, engine: Engine, first: int, end: int, files: dict[str, Payload]
) -> nm.EngineFile:
    """Return the engine with debug records of its instructions and slots, which are added to `files`."""
    backend, assembly = f"debug_info_backend_{file.name}.dbg", f"debug_info_asm_{file.name}.dbg"
    offsets = decode(file.program, file.name, engine).offsets
    files[backend] = debug.instructions(engine, first, end)
    files[assembly] = debug.slots(engine, first, offsets, file.slot_count, backend)
    return replace(file, backend_debug=(backend,), assembly_debug=(assembly,))


def _used_variables(tables: Tables, core: int) -> set[int]:
    """Return the variables that a core's transfers touch; core 0 gets those that no transfer touches too."""
    used = [set[int](), set[int]()]
    for transfer in tables.transfers:
        for descriptor in transfer.descriptors:
            used[transfer.core].update(each.variable for each in (descriptor.to, *descriptor.sources))
    if core == 0:
        used[0].update(each.id for each in tables.variables if each.id not in used[1])
    return used[core]


def _variable(variable: Variable, name: str, files: dict[str, Payload]) -> nm.Variable:
    file_name = None
    kind = VARIABLE_TYPES[variable.kind]
    if variable.data is not None and not variable.data.dtype.hasobject:
        kind, file_name = "file", f"constant{variable.id}.npy"
        files[file_name] = npy_bytes(variable.data)
    elif kind == "file":
        kind = "tmp-buf"
    return nm.Variable(
        name, kind, variable.id + 1, variable.size_bytes, alignment=64, file_name=file_name, extra={"ops": []}
    )


def _program(tables: Tables, first: int, end: int, numbers: Mapping[int, int]) -> bytes:
    code = tables.instructions[first:end]
    transfers: dict[int, Transfer] = {}
    for index in np.flatnonzero(code["opcode"] == Opcode.DMA_COPY).tolist():
        transfer = tables.transfers[int(tables.transfer_of[first + index])]
        transfers[index] = replace(transfer, queue=numbers[transfer.queue])
    try:
        return encode(code, transfers)
    except ValueError as error:
        raise DoesNotFit(f"the program cannot be written as slots: {error}") from None


def _activation_extra(tables: Tables, first: int, end: int) -> dict[str, Any]:
    code = tables.instructions[first:end]
    loaded = np.unique(code["id"][code["opcode"] == Opcode.TABLE_LOAD]).tolist()
    return {"activation_function_sets": [TABLE_SETS[each] for each in loaded]}


def _queue_set(tables: Tables, queue: QueueSet) -> nm.QueueSet:
    is_dynamic = any(each.queue == queue.id and each.trigger != "static" for each in tables.transfers)
    is_single = queue.num_queues == 1
    has_semaphore = queue.semaphore >= 0
    return nm.QueueSet(
        queue.name,
        "dynamic" if is_dynamic else "data",
        queue.num_queues,
        nm.ENGINE_KEYS.get(ENGINE_NAMES[queue.owner], ""),
        semaphore_set=(queue.semaphore,) * queue.num_queues if has_semaphore and not is_single else (),
        semaphore=queue.semaphore if has_semaphore and is_single else None,
    )


def _definition(spec: NeuronSpec, num_cores: int) -> dict[str, Any]:
    reserved = {
        "type": "evtaccel",
        "base_partition": 0,
        "partitions": NUM_PARTITIONS,
        "offset": spec.sbuf_usable_bytes,
        "size": spec.sbuf_reserved_bytes,
    }
    return {
        "neff_features": ["neff_feature_vnc"] if num_cores > 1 else [],
        "runtime_semaphore_count": RUNTIME_SEMAPHORES,
        "runtime_statebuffer_reservation": [reserved],
    }


def _tensor_map(graph: Graph, tables: Tables, names: Sequence[str], used: set[int]) -> dict[str, Any]:
    """Return the tensor map that other tools read: types and shapes, and the files of constants."""
    found: dict[str, Any] = {}
    for each in tables.variables:
        if each.id not in used or each.kind == "scratch":
            continue
        found[names[each.id]] = {
            "dtype": each.dtype,
            "kind": each.kind,
            "is_const": each.kind == "constant",
            "layer_name": graph.tensors[each.tensor].name if each.tensor >= 0 else each.name,
            "sim_shape": list(each.shape),
            "tf_shape": list(each.shape),
            **({"tf_file": f"constant{each.id}.npy"} if each.kind == "constant" else {}),
        }
    return found


def _note_row(note: Note) -> list[object]:
    """Return a note as a row of the record: severity, code, text, node, and the parts of a Host reason."""
    reason = note.reason
    return [
        note.severity, note.code, note.text, note.node,
        *((reason.limit, reason.found, reason.change) if reason else ()),
    ]  # fmt: skip
