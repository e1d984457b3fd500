"""Parse def.json and the engine files of a subgraph from members, and write them (reference 4.4-4.7)."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from npuviz.base.errors import FormatError
from npuviz.formats.neff.descriptors import entry_objects, parse_entries
from npuviz.formats.neff.json_members import Fields, object_bytes, parse_object, told
from npuviz.formats.neff.model import ENGINE_KEYS, EngineFile, Payload, QueueSet, Subgraph, Variable

_IDENTITY = {"name": "definition", "version": "0.6"}
_TENSOR_MAP = "tensor_map.json"
_QUEUE_SET_OPTIONS = ("owner", "pinned", "queue_instances", "semaphore_set", "semaphore", "dynamic_dma")
_VARIABLE_FIELDS = frozenset(each.name for each in fields(Variable)) - {"name", "table", "extra"}


def parse_subgraph(members: Mapping[str, Payload], definition_path: str, name: str, file: str) -> Subgraph:
    """Parse the subgraph that a def.json describes.

    Raises FormatError when a named file is missing or a value has a wrong type.
    """
    folder = definition_path.rpartition("/")[0]
    prefix = f"{folder}/" if folder else ""
    content = parse_object(_member(members, definition_path, file, "kelf-0.json"), file, definition_path)
    fields = Fields(content, file, definition_path)
    parts = {definition_path}
    engines: dict[str, EngineFile] = {}
    for engine, key in ENGINE_KEYS.items():
        if not fields.has(key) and not fields.has(f"{key}_instr"):
            continue
        engines[engine] = _parse_engine(members, fields, engine, key, prefix, parts)
    queue_sets = {
        key: _parse_queue_set(key, value, file, f"{definition_path}, dma_queue.{key}")
        for key, value in fields.mapping("dma_queue").items()
    }
    variables = {
        key: _parse_variable(key, value, file, f"{definition_path}, var.{key}")
        for key, value in fields.mapping("var").items()
    }
    dma_debug = fields.texts("dma_dbg")
    _check_definition(Fields(content, file, definition_path))
    tensor_map: dict[str, Any] = {}
    if prefix + _TENSOR_MAP in members:
        tensor_map = _parse_tensor_map(members[prefix + _TENSOR_MAP], file, prefix + _TENSOR_MAP)
    return Subgraph(
        name,
        queue_sets,
        variables,
        engines,
        files={
            path[len(prefix) :]: data
            for path, data in members.items()
            if path.startswith(prefix) and path not in parts
        },
        tensor_map=tensor_map,
        definition=fields.rest(),
        folder=folder,
        dma_debug=dma_debug,
    )


def _check_definition(fields: Fields) -> None:
    """Check the types of the keys that stay in `definition`."""
    for key in ("name", "version"):
        fields.text(key, "")
    fields.texts("neff_features")
    for key in ("runtime_event_count", "runtime_semaphore_count", "#rank_world_size"):
        fields.integer(key, 0)
    for key in ("cc_streams", "debug_info", "fp8_conversion_config"):
        fields.mapping(key)
    for index, value in enumerate(fields.objects("runtime_statebuffer_reservation")):
        each = Fields(value, fields.file, f"{fields.where}, runtime_statebuffer_reservation[{index}]")
        each.text("type", "")
        for key in ("base_partition", "partitions", "offset", "size"):
            each.integer(key, 0)


def _parse_tensor_map(content: Payload, file: str, member: str) -> dict[str, Any]:
    found = parse_object(content, file, member)
    for name, value in found.items():
        each = Fields(value, file, f"{member}, {name}")
        for key in ("dtype", "kind", "layer_name", "sim_format", "tf_format", "tf_file"):
            each.text(key, "")
        for key in ("sim_shape", "tf_shape"):
            each.integers(key)
        each.flag("is_const")
    return found


def _member(members: Mapping[str, Payload], path: str, file: str, named_by: str) -> Payload:
    content = members.get(path)
    if content is None:
        raise FormatError(
            file, field=named_by, expected=f"its member {path[:200]!r}", found="none in the archive"
        )
    return content


def _parse_engine(
    members: Mapping[str, Payload], fields: Fields, engine: str, key: str, prefix: str, parts: set[str]
) -> EngineFile:
    file = fields.file
    json_name = fields.text(key)
    path = prefix + json_name
    content = Fields(
        parse_object(_member(members, path, file, f"{fields.where}.{key}"), file, path), file, path
    )
    # Either file may name the program; both name the same one in the one real NEFF known.
    program_name = content.text("instr", fields.text(f"{key}_instr", ""))
    if fields.has(f"{key}_instr") and fields.text(f"{key}_instr") != program_name:
        fields.fail(f"{key}_instr", f"{program_name!r}, which {path} names as program")
    if not program_name:
        fields.fail(f"{key}_instr", "the name of the program's file")
    program_path = prefix + program_name
    program = _member(members, program_path, file, f"{fields.where}.{key}_instr")
    parts.update((path, program_path))
    dma = content.objects("dma")
    content.raw("name")
    _check_engine(Fields(content.rest(), file, path))
    return EngineFile(
        engine,
        program,
        parse_entries(dma, file, path),
        extra=content.rest(),
        json_name=json_name,
        program_name=program_name,
        backend_debug=fields.texts(f"{key}_dbg"),
        assembly_debug=fields.texts(f"{key}_asm_dbg"),
    )


def _check_engine(content: Fields) -> None:
    """Check the types of the keys that stay in an engine's `extra`."""
    content.texts("activation_function_sets")
    content.text("act_info", "")
    content.integer("act_semaphore", 0)
    for index, table in enumerate(content.objects("dve_tables")):
        names = Fields(table, content.file, f"{content.where}, dve_tables[{index}]")
        for name in table:
            if name.endswith("_table"):
                names.text(name)


def _parse_queue_set(name: str, value: Any, file: str, where: str) -> QueueSet:
    fields = Fields(value, file, where)
    dynamic = fields.mapping("dynamic_dma") if fields.has("dynamic_dma") else None
    if dynamic is not None:
        sizes = Fields(dynamic, file, f"{where}.dynamic_dma")
        for key in ("SB_scratch_partition_offset", "SB_scratch_partition_size"):
            sizes.integer(key, 0)
    return QueueSet(
        name,
        type=fields.text("type"),
        num_queues=fields.integer("num_queues", 1),
        owner=fields.text("owner", ""),
        pinned=fields.flag("pinned"),
        queue_instances=fields.texts("queue_instances"),
        semaphore_set=fields.integers("semaphore_set"),
        semaphore=fields.optional_integer("semaphore"),
        fabric_path=fields.text("fabric_path", "main"),
        dynamic_dma=dynamic,
        extra=fields.rest(),
    )


def _parse_variable(name: str, value: Any, file: str, where: str) -> Variable:
    fields = Fields(value, file, where)
    return Variable(
        name,
        type=fields.text("type"),
        var_id=fields.integer("var_id"),
        size=fields.optional_integer("size"),
        alignment=fields.integer("alignment", 0),
        fabric_path=fields.text("fabric_path", "main"),
        file_name=fields.optional_text("file_name"),
        backing_variable_off=fields.optional_integer("backing_variable_off"),
        referenced_var_id=fields.optional_integer("referenced_var_id"),
        table=fields.integers("list") if fields.has("list") else None,
        extra=fields.rest(),
    )


# --- writing -----------------------------------------------------------------------------------


def complete_subgraph(subgraph: Subgraph) -> Subgraph:
    """Return the subgraph with the file names and identity that it has once written."""
    engines: dict[str, EngineFile] = {}
    for name, engine in subgraph.engines.items():
        json_name, program_name = _file_names(name, engine)
        engines[name] = replace(engine, json_name=json_name, program_name=program_name)
    return replace(
        subgraph,
        folder=subgraph.folder or subgraph.name,
        engines=engines,
        definition={**_IDENTITY, **subgraph.definition},
    )


def subgraph_members(subgraph: Subgraph) -> dict[str, Payload]:
    """Return the members of a subgraph by their path in the archive; programs and files are not copied."""
    folder = subgraph.folder or subgraph.name
    found: dict[str, Payload] = {
        f"{folder}/def.json": object_bytes(_definition_object(subgraph), indented=True)
    }
    for name, engine in subgraph.engines.items():
        json_name, program_name = _file_names(name, engine)
        content = {
            **engine.extra,
            "name": json_name,
            "instr": program_name,
            "dma": entry_objects(engine.descriptors),
        }
        found[f"{folder}/{json_name}"] = object_bytes(content)
        found[f"{folder}/{program_name}"] = engine.program
    if subgraph.tensor_map and _TENSOR_MAP not in subgraph.files:
        found[f"{folder}/{_TENSOR_MAP}"] = object_bytes(subgraph.tensor_map, indented=True)
    for name, content in subgraph.files.items():
        found[f"{folder}/{name}"] = content
    return found


def _file_names(name: str, engine: EngineFile) -> tuple[str, str]:
    return engine.json_name or f"{name}.json", engine.program_name or f"{name}.bin"


def _definition_object(subgraph: Subgraph) -> dict[str, Any]:
    found: dict[str, Any] = {**_IDENTITY, **subgraph.definition}
    for name, engine in subgraph.engines.items():
        key = ENGINE_KEYS[name]
        found[key], found[f"{key}_instr"] = _file_names(name, engine)
        if engine.backend_debug:
            found[f"{key}_dbg"] = engine.backend_debug
        if engine.assembly_debug:
            found[f"{key}_asm_dbg"] = engine.assembly_debug
    if subgraph.dma_debug:
        found["dma_dbg"] = subgraph.dma_debug
    found["dma_queue"] = {name: _queue_set_object(each) for name, each in subgraph.queue_sets.items()}
    found["var"] = {name: _variable_object(each) for name, each in subgraph.variables.items()}
    return found


def _queue_set_object(queue_set: QueueSet) -> dict[str, Any]:
    return {
        **queue_set.extra,
        "type": queue_set.type,
        "num_queues": queue_set.num_queues,
        "fabric_path": queue_set.fabric_path,
        **told(queue_set, _QUEUE_SET_OPTIONS),
    }


def _variable_object(variable: Variable) -> dict[str, Any]:
    return {
        **variable.extra,
        **told(variable, _VARIABLE_FIELDS),
        **({} if variable.table is None else {"list": variable.table}),
    }
