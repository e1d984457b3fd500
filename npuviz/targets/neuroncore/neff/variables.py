"""Make variables and queue sets from a NEFF, and a graph of inputs and outputs if the file has no record."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.neff import model as nm
from npuviz.formats.neff.constants import constant_data
from npuviz.formats.neff.graph import GraphTensor, graph_tensors
from npuviz.formats.neff.model import Neff
from npuviz.program.dtypes import DTYPES, dtype_name, numpy_dtype
from npuviz.program.graph import Graph
from npuviz.program.tensor import Tensor
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, Engine
from npuviz.targets.neuroncore.neff.descriptors import Names
from npuviz.targets.neuroncore.neff.record import MAX_ELEMENTS, npy_layout, read_array, read_npy
from npuviz.targets.neuroncore.tables import SBUF, QueueSet, Variable, VariableKind

ALIGNMENT = 64
_KINDS: Mapping[str, VariableKind] = {"input": "input", "output": "output", "file": "constant"}

ENGINE_KEYS = {key: Engine(ENGINE_NAMES.index(name)) for name, key in nm.ENGINE_KEYS.items()}
OWNERS: Mapping[str, int] = {**ENGINE_KEYS, "activation": Engine.ACTIVATION}
"""`owner` of a queue set -> engine."""


def recorded_variables(neff: Neff, records: Sequence[Mapping[str, Any]]) -> tuple[Variable, ...]:
    """Make the variables of npuviz's record, with data from the subgraphs. Raises KeyError, ValueError ..."""
    return tuple(_recorded(neff, index, record) for index, record in enumerate(records))


def _recorded(neff: Neff, index: int, record: Mapping[str, Any]) -> Variable:
    dtype, shape = str(record["dtype"]), tuple(int(size) for size in record["shape"])
    size, address, kind = int(record["size"]), int(record["address"]), record["kind"]
    if kind not in ("input", "output", "constant", "scratch"):
        raise ValueError(f"variable {index} of kind {kind!r}")
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS or not 0 <= address < 1 << 48:
        raise ValueError(f"variable {index} of shape {shape} at {address}")
    if size != prod(shape) * numpy_dtype(dtype).itemsize:
        raise ValueError(f"variable {index} has {size} bytes for {shape} of {dtype}")
    data = read_array(record["data"], neff.members) if "data" in record else None
    if data is None:
        data = _file_data(neff, str(record["key"]), index, dtype, shape)
    if data is not None and (data.shape != shape or data.dtype != numpy_dtype(dtype)):
        raise ValueError(f"variable {index} has data {data.shape} of {data.dtype}")
    return Variable(
        index, str(record["name"]), kind, address, size, dtype, shape, data, int(record["tensor"])
    )


def _file_data(neff: Neff, key: str, index: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray | None:
    for subgraph in neff.subgraphs:
        found = subgraph.variables.get(key)
        if found is None or found.var_id != index + 1:
            continue
        if found.size != prod(shape) * numpy_dtype(dtype).itemsize:
            raise ValueError(f"variable {index} has {found.size} bytes in def.json")
        if found.type == "file":
            return read_npy(subgraph.files[found.file_name or ""], numpy_dtype(dtype), shape)
        return None
    raise ValueError(f"variable {index}, {key[:60]!r}, is in no def.json")


# --- files without a record --------------------------------------------------------------------


def plain_variables(neff: Neff) -> tuple[Variable, ...]:
    """Make the HBM variables of def.json by var_id, at consecutive addresses.

    Inputs, outputs and shared variables of one name are one in all subgraphs; others are named
    `sgNN/name` from the second subgraph on. Tensor ids are those of `plain_graph`.
    """
    tensors = {each.name: index for index, each in enumerate(_tensors(neff))}
    known = {each.name: each for each in _tensors(neff)}
    found: list[Variable] = []
    names: set[str] = set()
    end = 0
    for subgraph in neff.subgraphs:
        for each in sorted(subgraph.variables.values(), key=lambda variable: variable.var_id):
            is_shared = each.type in ("input", "output")
            if each.type in ("state-buffer", "dge-table") or (is_shared and each.name in names):
                continue
            name = f"{subgraph.name}/{each.name}" if each.name in names else each.name
            names.add(name)
            variable = _plain(subgraph, each, name, known.get(name), len(found), end)
            tensor = tensors.get(name, -1) if is_shared else -1
            found.append(replace(variable, tensor=tensor))
            end += -(-max(1, variable.size_bytes) // ALIGNMENT) * ALIGNMENT
    return tuple(found)


def _plain(
    subgraph: nm.Subgraph, variable: nm.Variable, name: str, known: GraphTensor | None, index: int, end: int
) -> Variable:
    size = variable.size or 0
    kind = _KINDS.get(variable.type, "scratch")
    data = None
    if variable.type == "file":
        data = constant_data(subgraph, variable)
        if len(data) < size:
            raise FormatError(
                f"subgraph {subgraph.name}",
                field=f"variable {name[:100]}",
                expected=f"{size} bytes of data",
                found=str(len(data)),
            )
        data = data[:size]
    dtype, shape = "uint8", (size,)
    if known is not None:
        dtype, shape = known.dtype, known.shape
    elif data is not None:
        dtype, shape = _stored_type(subgraph.files[variable.file_name or ""], size)
    if data is not None:
        data = data.view(numpy_dtype(dtype)).reshape(shape)
    return Variable(index, name, kind, end, size, dtype, shape, data)


def _stored_type(content: nm.Payload, size: int) -> tuple[str, tuple[int, ...]]:
    """Return type and shape of a .npy file; bytes if it does not tell."""
    try:
        shape, word, _ = npy_layout(content)
        dtype = np.dtype(word)
    except (ValueError, TypeError):
        return "uint8", (size,)
    name = _dtype_of(dtype.name)
    is_whole = bool(name) and prod(shape) * dtype.itemsize == size
    return (name, shape) if is_whole else ("uint8", (size,))


def plain_graph(neff: Neff) -> Graph:
    """Make a graph without nodes, from the inputs and outputs that the file names."""
    tensors = tuple(
        Tensor(index, each.name, each.shape, each.dtype, "input" if _is_input(neff, each.name) else "output")
        for index, each in enumerate(_tensors(neff))
    )
    inputs = tuple(each.id for each in tensors if each.kind == "input")
    outputs = tuple(each.id for each in tensors if each.kind == "output")
    return Graph(Path(neff.name).stem, (), tensors, inputs, outputs)


def plain_outputs(variables: Sequence[Variable]) -> dict[int, int]:
    """Return {output tensor: variable}."""
    return {each.tensor: each.id for each in variables if each.kind == "output" and each.tensor >= 0}


def _is_input(neff: Neff, name: str) -> bool:
    return any(name in each.variables and each.variables[name].type == "input" for each in neff.subgraphs)


def _tensors(neff: Neff) -> list[GraphTensor]:
    """Return the inputs, then the outputs, of def.json; type and shape from neff.json if they fit the
    size.
    """
    inputs, outputs = graph_tensors(neff.graph)
    declared = {each.name: each for each in (*inputs, *outputs)}
    found: dict[str, GraphTensor] = {}
    for kind in ("input", "output"):
        for subgraph in neff.subgraphs:
            for each in subgraph.variables.values():
                if each.type == kind:
                    found.setdefault(each.name, _typed(each, declared.get(each.name)))
    return list(found.values())


def _typed(variable: nm.Variable, declared: GraphTensor | None) -> GraphTensor:
    size = variable.size or 0
    if declared is not None:
        dtype = _dtype_of(declared.dtype)
        if dtype and prod(declared.shape) * numpy_dtype(dtype).itemsize == size:
            return GraphTensor(variable.name, dtype, declared.shape)
    return GraphTensor(variable.name, "uint8", (size,))


_NUMPY_TYPE = re.compile(r"[<>=|]?[A-Za-z]+\d*")


def _dtype_of(text: str) -> str:
    """Return npuviz's name (npuviz.program.dtypes) of numpy's type name, "" for an unknown one."""
    if text in DTYPES:
        return text
    # NumPy also accepts lists of fields, repetitions and sizes.
    if not _NUMPY_TYPE.fullmatch(text):
        return ""
    try:
        name = dtype_name(np.dtype(text))
    except (TypeError, ValueError):
        return ""
    return name if name in DTYPES else ""


# --- queue sets and names ----------------------------------------------------------------------


def queue_sets_of(neff: Neff, order: Sequence[tuple[int, str]] | None = None) -> tuple[QueueSet, ...]:
    """Make the queue sets of all subgraphs, by core and name or in the given order, without unknown names."""
    declared = {
        (core, name): each
        for core, subgraph in enumerate(neff.subgraphs)
        for name, each in subgraph.queue_sets.items()
    }
    chosen = sorted(declared) if order is None else [key for key in order if key in declared]
    found: list[QueueSet] = []
    for index, key in enumerate(chosen):
        each = declared[key]
        single = -1 if each.semaphore is None else each.semaphore
        semaphore = each.semaphore_set[0] if each.semaphore_set else single
        owner = OWNERS.get(each.owner.lower(), Engine.SP)
        found.append(QueueSet(index, each.name, key[0], owner, each.num_queues, semaphore))
    return tuple(found)


def names_of(
    neff: Neff,
    core: int,
    variables: Sequence[Variable],
    queue_sets: Sequence[QueueSet],
    is_recorded: bool = False,
) -> Names:
    """Return the meaning of the names in a subgraph's descriptors. Raises FormatError.

    is_recorded  the variables are those of npuviz's record, found by var_id instead of name
    """
    subgraph = neff.subgraphs[core]
    by_name = {each.name: each.id for each in variables}
    found: dict[str, int] = {}
    for name, each in subgraph.variables.items():
        if each.type == "state-buffer":
            found[name] = SBUF
        elif is_recorded:
            found[name] = each.var_id - 1
            if not 0 <= found[name] < len(variables):
                raise FormatError(
                    neff.name,
                    field=f"var.{name[:100]}",
                    expected="a variable of npuviz's record",
                    found="another",
                )
        else:
            own = f"{subgraph.name}/{name}"
            key = own if own in by_name else name
            if key in by_name:
                found[name] = by_name[key]
    queues: dict[str, int] = {}
    for each in queue_sets:
        if each.core == core:
            queues[each.name] = each.id
            queues.update(dict.fromkeys(subgraph.queue_sets[each.name].queue_instances, each.id))
    return Names(found, queues)
