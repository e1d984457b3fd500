"""Write and read npuviz's record in a NEFF: the graph, and what belongs to each node, below `npuviz/`.

`program.json` is plain JSON; long columns are .npy members. Reading raises FormatError for any bytes
that make no sense.
"""

import base64
import io
import math
import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, TypeVar

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.neff.constants import npy_data_offset
from npuviz.formats.neff.json_members import parse_object
from npuviz.formats.neff.model import OWN_FOLDER, Payload
from npuviz.program.dtypes import DTYPES, dtype_name, numpy_dtype
from npuviz.program.graph import Flow, Graph, Node
from npuviz.program.tensor import Tensor

PROGRAM = f"{OWN_FOLDER}program.json"
MODEL = f"{OWN_FOLDER}model.onnx"
HOST = f"{OWN_FOLDER}Host.bin"
CONSTANTS = f"{OWN_FOLDER}constants/"
RECORD_VERSION = 1
MAX_ELEMENTS = 1 << 40

T = TypeVar("T")


def guarded(what: Callable[[], T], file: str, member: str) -> T:
    """Return the result of `what`, which reads a member of the record; failures become a FormatError."""
    try:
        return what()
    except FormatError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, EOFError) as error:
        found = " ".join(str(error).split())[:120] or type(error).__name__
        raise FormatError(
            file, field=member, expected="what npuviz writes there", found=f"{type(error).__name__}: {found}"
        ) from None


# --- arrays ------------------------------------------------------------------------------------


def npy_bytes(array: np.ndarray) -> bytes:
    """Return an array as a .npy file; types that numpy does not know are written as unsigned integers."""
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(storable(array)), allow_pickle=False)
    return stream.getvalue()


def storable(array: np.ndarray) -> np.ndarray:
    """Return the array, viewed as unsigned integers if .npy does not have its type."""
    if array.dtype.names or array.dtype.kind in "biufc":
        return array
    return np.ascontiguousarray(array).view(np.dtype(f"u{array.dtype.itemsize}"))


_SHAPE = re.compile(rb"'shape': ?\(([0-9, ]{0,400})\)")
_DESCR = re.compile(rb"'descr': ?'([<>|=]?[a-zA-Z][0-9]{1,3})'")
_FORTRAN = b"'fortran_order': True"


def npy_layout(content: Payload) -> tuple[tuple[int, ...], str, int]:
    """Return (shape, numpy's word for the type or "", offset of the data) of a .npy file. Raises ValueError.

    numpy's own reader is not used: it evaluates headers as Python, with Python's warnings and errors.
    """
    try:
        start = npy_data_offset(content, "array")
    except FormatError as error:
        raise ValueError(f"expected {error.expected}, found {error.found}") from None
    header = bytes(content[:start])
    shape, descr = _SHAPE.search(header), _DESCR.search(header)
    if shape is None:
        raise ValueError("a .npy header without a shape")
    sizes = tuple(int(each) for each in shape[1].split(b",") if each.strip())
    if prod(sizes) > MAX_ELEMENTS:
        raise ValueError(f"an array of shape {sizes}")
    if _FORTRAN in header and len(sizes) > 1:
        raise ValueError("an array in column order")
    return sizes, descr[1].decode() if descr else "", start


def read_npy(content: Payload, dtype: np.dtype, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return the array of a .npy file as `dtype`, read-only, copied only to align it. Raises ValueError."""
    found, _, start = npy_layout(content)
    data = np.frombuffer(content, np.uint8)[start:]
    if len(data) != prod(found) * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes for {prod(found)} elements of {dtype.itemsize}")
    array = data.view(dtype) if data.ctypes.data % max(1, dtype.alignment) == 0 else data.copy().view(dtype)
    array = array.reshape(found if shape is None else shape)
    array.flags.writeable = False
    return array


# --- values of attributes ----------------------------------------------------------------------


def packed(value: Any) -> Any:
    """Return a node attribute as JSON that keeps its type."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"objects": [packed(each) for each in value.reshape(-1).tolist()], "shape": value.shape}
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": data, "dtype": dtype_name(value.dtype), "shape": value.shape}
    if isinstance(value, np.generic):
        return {"scalar": packed(np.asarray(value))}
    if isinstance(value, list):
        return [packed(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [packed(each) for each in value]}
    if isinstance(value, Mapping):
        return {"mapping": [[packed(key), packed(each)] for key, each in value.items()]}
    raise FormatError(
        PROGRAM, field="attribute", expected="a value JSON can tell", found=type(value).__name__
    )


def unpacked(value: Any) -> Any:
    """Return the node attribute again, the inverse of `packed`."""
    if isinstance(value, list):
        return [unpacked(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    if "array" in value:
        data = np.frombuffer(base64.b64decode(value["array"]), numpy_dtype(value["dtype"]))
        return data.reshape(value["shape"])
    if "objects" in value:
        array = np.empty(len(value["objects"]), object)
        array[:] = [unpacked(each) for each in value["objects"]]
        return array.reshape(value["shape"])
    if "scalar" in value:
        return unpacked(value["scalar"])[()]
    if "tuple" in value:
        return tuple(unpacked(each) for each in value["tuple"])
    return {unpacked(key): unpacked(each) for key, each in value["mapping"]}


# --- the graph ---------------------------------------------------------------------------------


def graph_record(graph: Graph, homes: Mapping[int, int], members: dict[str, Payload]) -> dict[str, Any]:
    """Return the graph as JSON; arrays that do not fit are added to `members`.

    homes  constant tensor -> variable whose data is the same
    """
    constants: dict[str, Any] = {}
    for tensor, array in graph.constants.items():
        if tensor in homes:
            constants[str(tensor)] = {"variable": homes[tensor]}
        else:
            constants[str(tensor)] = array_record(array, f"{CONSTANTS}{tensor}.npy", members)
    if graph.source:
        members[MODEL] = graph.source
    return {
        "name": graph.name,
        "nodes": [
            [
                node.name,
                node.op_type,
                node.domain,
                node.inputs,
                node.outputs,
                [[key, packed(value)] for key, value in node.attributes.items()],
            ]
            for node in graph.nodes
        ],
        "tensors": [[each.name, each.shape, each.dtype, each.kind, each.producer] for each in graph.tensors],
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "constants": constants,
        "opsets": dict(graph.opsets),
        "assumptions": graph.assumptions,
        "flows": [[each.source, each.sink, each.tensor, each.text] for each in graph.flows],
    }


def array_record(array: np.ndarray, member: str, members: dict[str, Payload]) -> dict[str, Any]:
    """Return JSON to make an array from: one repeated value, Python objects, or a new member's name."""
    if array.dtype.hasobject:
        return packed(array)
    if array.size > 1 and not any(array.strides):
        return {"repeated": packed(array.reshape(-1)[:1].copy()), "shape": array.shape}
    members[member] = npy_bytes(array)
    return {"member": member, "dtype": dtype_name(array.dtype), "shape": array.shape}


def read_array(record: Mapping[str, Any], members: Mapping[str, Payload]) -> np.ndarray:
    """Make the array of an `array_record`. Raises KeyError, TypeError or ValueError for a wrong record."""
    if "objects" in record:
        return unpacked(record)
    shape = tuple(int(size) for size in record["shape"])
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"an array of shape {shape}")
    if "repeated" in record:
        return np.broadcast_to(unpacked(record["repeated"]).reshape(()), shape)
    return read_npy(members[record["member"]], numpy_dtype(record["dtype"]), shape)


def read_graph(
    record: Mapping[str, Any], members: Mapping[str, Payload], data: Mapping[int, np.ndarray | None]
) -> Graph:
    """Make the graph of a `graph_record`; `data`: constant data of the variables by index."""
    tensors = tuple(
        Tensor(index, str(name), tuple(int(each) for each in shape), str(dtype), kind, int(producer))
        for index, (name, shape, dtype, kind, producer) in enumerate(record["tensors"])
    )
    for tensor in tensors:
        if tensor.dtype not in DTYPES or tensor.kind not in ("input", "weight", "activation", "output"):
            raise ValueError(f"tensor {tensor.name!r} of type {tensor.dtype!r} and kind {tensor.kind!r}")
    nodes = tuple(
        Node(
            index,
            str(name),
            str(op_type),
            str(domain),
            _ids(inputs, len(tensors)),
            _ids(outputs, len(tensors)),
            {str(key): unpacked(value) for key, value in attributes},
        )
        for index, (name, op_type, domain, inputs, outputs, attributes) in enumerate(record["nodes"])
    )
    constants: dict[int, np.ndarray] = {}
    for key, each in record["constants"].items():
        (tensor,) = _ids([int(key)], len(tensors))
        array = data[int(each["variable"])] if "variable" in each else read_array(each, members)
        if array is None or array.shape != tensors[tensor].shape:
            raise ValueError(f"constant {tensors[tensor].name!r} has no data of its shape")
        constants[tensor] = array
    ends = _ids(record["inputs"], len(tensors)), _ids(record["outputs"], len(tensors))
    return Graph(
        str(record["name"]),
        nodes,
        tensors,
        *ends,
        constants,
        {str(key): int(value) for key, value in record["opsets"].items()},
        bytes(members.get(MODEL, b"")),
        tuple(str(each) for each in record["assumptions"]),
        # Files of earlier versions have none.
        flows=tuple(_flow(row, len(nodes), ends) for row in record.get("flows", ())),
    )


def _flow(row: Any, num_nodes: int, ends: tuple[tuple[int, ...], tuple[int, ...]]) -> Flow:
    """Make an arrow; ends: tensors that enter and leave the graph. Raises ValueError if it leads nowhere."""
    source, sink, tensor, text = row
    found = Flow(int(source), int(sink), int(tensor), str(text))
    if found.source < 0:
        is_right = found.tensor in ends[0] and 0 <= found.sink < num_nodes
    elif found.sink < 0:
        is_right = found.tensor in ends[1] and found.source < num_nodes
    else:
        is_right = found.source < found.sink < num_nodes
    if not is_right:
        raise ValueError(f"a flow from operator {found.source} to {found.sink} of {num_nodes}")
    return found


def _ids(values: Any, count: int) -> tuple[int, ...]:
    found = tuple(int(each) for each in values)
    if found and not -1 <= min(found) <= max(found) < count:
        raise ValueError(f"tensor {max(found, key=abs)} of {count}")
    return found


def parse_program(members: Mapping[str, Payload], file: str) -> dict[str, Any]:
    """Parse program.json. Raises FormatError for another version."""
    record = parse_object(members[PROGRAM], file, PROGRAM)
    if record.get("version") != RECORD_VERSION:
        raise FormatError(
            file,
            field=f"{PROGRAM}.version",
            expected=str(RECORD_VERSION),
            found=str(record.get("version"))[:40],
            hint="compile the model again with this version of npuviz",
        )
    return record
