"""Determines fixed shapes for every tensor of an ONNX model.

Symbolic dimensions are bound first; static inference (onnx, with data propagation) then finds the
rest. What it leaves open is observed by running the model once in ONNX Runtime.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, TypeProto

from npuviz.base.errors import FormatError, UsageError
from npuviz.base.names import echo
from npuviz.base.reading import reading
from npuviz.onnx.draft import OF_A_RUN, Draft, assumed_one, read_draft
from npuviz.onnx.inputs import Given, User, draw, index_limits
from npuviz.onnx.negative_sizes import refuse_negative_sizes
from npuviz.onnx.node_order import names_read
from npuviz.onnx.observation import observe
from npuviz.onnx.parameters import subgraphs
from npuviz.onnx.runtime_operators import unknown_operator
from npuviz.onnx.stored_tensors import MAX_TENSOR_ELEMENTS
from npuviz.program.dtypes import dtype_name
from npuviz.program.tensor import Tensor

# (element type, shape); element type 0 stands for sequences, maps and optionals.
TypeAndShape = tuple[int, tuple[int, ...]]
ENDS_WITHOUT = {"GRU": ("step", "example"), "LSTM": ("example",), "DynamicQuantizeLSTM": ("example",)}
"""Operators for which ONNX Runtime 1.31 aborts the process ("terminate called") instead of raising an error,
if an axis of the input is empty -> the axes that must not be. OneHot does so for an empty depth."""
MAX_DRAWN_ELEMENTS = 1 << 26
"""Most random elements of all inputs together for a run that only observes shapes; drawing them takes a
second."""


def bind_dimensions(
    draft: Draft, dimensions: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]] | None = None
) -> None:
    """Set every open dimension of the inputs, in place.

    dimensions  by name or by place, `input[axis]`; the place takes precedence
    shapes      of given inputs; a dimension without any value becomes 1, which is noted in the assumptions
    Raises UsageError for a name that the model does not have.
    """
    graph = draft.proto.graph
    open_dimensions = _open_dimensions(draft, shapes or {})
    names = {each.name for each in open_dimensions}
    places = {each.place for each in open_dimensions}
    unknown = sorted(set(dimensions) - names - places)
    if unknown:
        shown = ", ".join(sorted(names)) or "none"
        raise UsageError(f"{draft.path}: no dimension is called {unknown[0]!r}; open dimensions: {shown}")
    for name in dimensions:
        _refuse_size(draft, name, dimensions[name])
    values: dict[str, set[int]] = {name: set() for name in names}
    # By name, then by the place of any that has the name, then by what is given.
    known = {each.name: each.given for each in open_dimensions if each.given is not None}
    known |= {each.name: dimensions[each.place] for each in open_dimensions if each.place in dimensions}
    known |= {name: dimensions[name] for name in names if name in dimensions}
    for each in open_dimensions:
        each.dim.dim_value = dimensions.get(each.place, known.get(each.name, 1))
        values[each.name].add(each.dim.dim_value)
    for name in sorted(names - known.keys()):
        draft.assumptions.append(assumed_one(name))
    fixed = {name: min(sizes) for name, sizes in values.items() if len(sizes) == 1}
    _substitute(graph, fixed, names - known.keys())


def open_dimensions(path: Path) -> tuple[str, ...]:
    """Return the names of the open dimensions of a model file, () if there are none.

    One without a name is named by its place, `input[axis]`. Raises FormatError.
    """
    return tuple(dict.fromkeys(each.name for each in _open_dimensions(read_draft(path), {})))


@dataclass(frozen=True, slots=True)
class _Open:
    """An open dimension: its name, its place, and its size in a given array, if any."""

    name: str
    place: str
    dim: "onnx.TensorShapeProto.Dimension"
    given: int | None


def _open_dimensions(draft: Draft, shapes: Mapping[str, tuple[int, ...]]) -> list[_Open]:
    found: list[_Open] = []
    for value in draft.proto.graph.input:
        if value.name in draft.weights:
            continue
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value") or "nothing"
            raise FormatError(
                draft.path, field=f"input {value.name}", expected="a tensor", found=kind.removesuffix("_type")
            )
        if not value.type.tensor_type.HasField("shape"):
            raise FormatError(
                draft.path, field=f"input {value.name}", expected="a shape", found="none",
                hint="export the model with the rank of its inputs",
            )  # fmt: skip
        if value.type.tensor_type.elem_type not in _ELEMENT_TYPES:
            where, found_type = f"input {echo(value.name)!r}", f"type {value.type.tensor_type.elem_type}"
            raise FormatError(draft.path, field=where, expected="a known element type", found=found_type)
        dims = value.type.tensor_type.shape.dim
        given = shapes.get(value.name, ())
        for axis, dim in enumerate(dims):
            # Some exporters write -1 for an open dimension, and ? for one without a name.
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            place = f"{value.name}[{axis}]"
            name = dim.dim_param if dim.dim_param not in ("", "?") else place
            found.append(_Open(name, place, dim, given[axis] if len(given) == len(dims) else None))
    return found


def _refuse_size(draft: Draft, name: str, size: int) -> None:
    if 0 <= size <= MAX_TENSOR_ELEMENTS:
        return
    digits = str(size)
    found = digits if len(digits) <= 24 else f"a number of {len(digits)} digits"
    raise UsageError(f"{draft.path}: dimension {name} must be 0 to {MAX_TENSOR_ELEMENTS}, not {found}")


def _substitute(graph: onnx.GraphProto, fixed: Mapping[str, int], assumed: Collection[str]) -> None:
    """Replace bound names in stored shapes and drop the other names, so that inference decides.

    Names of an output's dimensions are chosen at export and often wrong: they count only if inference does
    not know the operator that makes the output. Of such an operator, a size that was only assumed does not
    count either: a total of several lengths that are all assumed 1 is not 1. A run shows it.
    """
    outputs = {value.name for value in graph.output}
    inferable = {name for node in graph.node if node.domain in ("", "ai.onnx") for name in node.output}
    foreign = {name for node in graph.node for name in node.output if name not in inferable}
    inferable &= outputs
    for value in (*graph.value_info, *graph.output):
        if value.type.HasField("tensor_type"):
            for dim in value.type.tensor_type.shape.dim:
                is_guess = value.name in foreign and dim.dim_param in assumed
                if dim.dim_param in fixed and value.name not in inferable and not is_guess:
                    dim.dim_value = fixed[dim.dim_param]
                elif not dim.HasField("dim_value") or dim.dim_value < 0:
                    dim.Clear()


def infer_shapes(draft: Draft, given: Given | None = None) -> dict[str, TypeAndShape]:
    """Return the element type and shape of every tensor of the main graph, by name.

    given  inputs of the run that observes shapes that depend on values
    A node output that nothing reads may be missing. Raises FormatError if neither inference nor a run can
    determine
    a shape, and for a tensor of more than MAX_TENSOR_ELEMENTS.
    """
    found = fixed_shapes(draft)
    graph = draft.proto.graph
    produced = [name for node in graph.node for name in node.output if name]
    _check_sizes(draft, found, (*produced, *(value.name for value in graph.input)))
    _refuse_empty(draft, found)
    read = names_read(graph)
    unknown = [name for name in produced if name not in found and name in read]
    if unknown:
        node, operator = unknown_operator(draft.proto)
        if node:
            raise FormatError(
                draft.path,
                field=f"node {node}",
                expected="an operator of the standard, of ONNX Runtime or of a function in the file",
                found=operator,
                hint="export the model with operators of the standard",
            )
        refuse_negative_sizes(draft)
        own = given or Given()
        observed = observe(draft, unknown, run_inputs(draft, found, own), own.inputs.keys())
        draft.assumptions.append(
            f"the shapes of {len(unknown)} tensors (first: {unknown[0]}) depend on values: those{OF_A_RUN}"
        )
        found.update({name: (each.kind, each.shape) for name, each in observed.items()})
        _check_sizes(draft, found, unknown)
    return found


def _refuse_empty(draft: Draft, found: Mapping[str, TypeAndShape]) -> None:
    for node in draft.proto.graph.node:
        if node.op_type == "OneHot" and 0 in found.get(node.input[1], (0, ()))[1]:
            raise FormatError(
                draft.path,
                field=f"node {echo(node.name or node.output[0])}",
                expected="OneHot with a depth",
                found=f"{echo(node.input[1])} of {'x'.join(map(str, found[node.input[1]][1]))}",
            )
        needed = ENDS_WITHOUT.get(node.op_type, ())
        shape = found.get(node.input[0] if needed else "", (0, ()))[1]
        # Of the shapes (steps, examples, features); ONNX Runtime refuses the other layout by itself.
        missing = [each for each, size in zip(("step", "example"), shape, strict=False) if size == 0]
        if set(missing) & set(needed):
            raise FormatError(
                draft.path,
                field=f"node {echo(node.name or node.output[0])}",
                expected=f"{node.op_type} with at least one {' and one '.join(needed)}",
                found=f"{echo(node.input[0])} of {'x'.join(map(str, shape))}",
                hint="set the dimension that is 0, as in --set NAME=1, or leave the operator out",
            )


def store_observed(draft: Draft, shapes: Mapping[str, TypeAndShape]) -> bool:
    """Store the shapes of tensors that inference leaves open in the model, so that operators that only read
    shapes become constant. Returns whether there were any.

    shapes  result of `infer_shapes`
    """
    assumed = list(draft.assumptions)
    known = fixed_shapes(draft)
    draft.assumptions[:] = assumed
    graph = draft.proto.graph
    stored = {value.name: value for value in (*graph.value_info, *graph.output)}
    is_new = False
    for name in [name for node in graph.node for name in node.output if name in shapes and name not in known]:
        kind, shape = shapes[name]
        if kind:
            made = onnx.helper.make_tensor_value_info(name, kind, shape)
            (stored[name] if name in stored else graph.value_info.add()).CopyFrom(made)
            is_new = True
    return is_new


def fixed_shapes(draft: Draft) -> dict[str, TypeAndShape]:
    """Return the element type and shape of the tensors whose shape can be inferred without a run. Raises
    FormatError."""
    with reading(draft.path, "shape inference"):
        graph = _inferred(draft).graph
    found: dict[str, TypeAndShape] = {}
    for value in (*graph.value_info, *graph.output, *graph.input):
        type_and_shape = _fixed(value.type)
        if type_and_shape is not None:
            found[value.name] = type_and_shape
    for name, array in draft.weights.items():
        found[name] = (onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    return found


def _inferred(draft: Draft) -> onnx.ModelProto:
    """Infer the shapes of a model; stored shapes count unless they contradict the operators."""
    try:
        return onnx.shape_inference.infer_shapes(draft.proto, data_prop=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        pass
    bare = onnx.ModelProto()
    bare.CopyFrom(draft.proto)
    del bare.graph.value_info[:]
    for value in bare.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    found = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
    by_operators = {value.name: value.type for value in (*found.value_info, *found.output)}
    stored = (*draft.proto.graph.value_info, *draft.proto.graph.output)
    wrong = {value.name for value in stored if _contradicts(value.type, by_operators.get(value.name))}
    if not wrong:
        return onnx.shape_inference.infer_shapes(draft.proto, data_prop=True)
    draft.assumptions.append(
        f"the stored shapes of {len(wrong)} tensors (first: {echo(min(wrong))}) contradict the operators "
        "before them: those of the operators count"
    )
    bare.graph.value_info.extend(value for value in draft.proto.graph.value_info if value.name not in wrong)
    for value, kept in zip(bare.graph.output, draft.proto.graph.output, strict=True):
        if value.name not in wrong:
            value.CopyFrom(kept)
    return onnx.shape_inference.infer_shapes(bare, data_prop=True)


def _contradicts(stored: TypeProto, by_operator: TypeProto | None) -> bool:
    """Return whether no tensor can have both shapes."""
    if by_operator is None or not all(
        kind.HasField("tensor_type") and kind.tensor_type.HasField("shape") for kind in (stored, by_operator)
    ):
        return False
    dims = stored.tensor_type.shape.dim, by_operator.tensor_type.shape.dim
    return len(dims[0]) != len(dims[1]) or any(
        one.HasField("dim_value") and other.HasField("dim_value") and one.dim_value != other.dim_value
        for one, other in zip(*dims, strict=True)
    )


def run_inputs(draft: Draft, shapes: Mapping[str, TypeAndShape], given: Given) -> list[np.ndarray]:
    """Return the input arrays of a run, in order. Raises FormatError if too many elements would have to be
    drawn."""
    graph = draft.proto.graph
    tensors: list[Tensor] = []
    for value in graph.input:
        if value.name not in draft.weights:
            kind, shape = shapes[value.name]
            tensors.append(Tensor(len(tensors), value.name, shape, element_name(kind), "input"))
    drawn = sum(tensor.num_elements for tensor in tensors if tensor.name not in given.inputs)
    if drawn > MAX_DRAWN_ELEMENTS:
        raise FormatError(
            draft.path,
            field="shapes by a run",
            expected=f"inputs of at most {MAX_DRAWN_ELEMENTS} elements, which are drawn for it",
            found=f"{drawn}",
            hint="give them with --input, or store the shapes in the model (value_info)",
        )
    users = list(_users(graph))
    limits = index_limits(users, {name: shape for name, (_, shape) in shapes.items()}, draft.weights)
    return list(draw(tensors, limits, given).values())


def _users(graph: onnx.GraphProto) -> Iterator[User]:
    """Yield the operators of a graph and its subgraphs, which read outer tensors by name."""
    for node in graph.node:
        yield User(node.op_type, tuple(node.input), tuple(node.output), _axis(node))
        for inner in subgraphs(node):
            yield from _users(inner)


def _axis(node: onnx.NodeProto) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)


_ELEMENT_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}


def element_name(kind: int) -> str:
    """Return npuviz's name of an element type of ONNX; 0 stands for sequences, maps and optionals."""
    if kind == 0:
        return "opaque"
    if kind == TensorProto.STRING:
        return "string"
    return dtype_name(onnx.helper.tensor_dtype_to_np_dtype(kind))


def _fixed(kind: TypeProto) -> TypeAndShape | None:
    case = kind.WhichOneof("value")
    if case is None:
        return None
    if case != "tensor_type":
        return (0, ())
    tensor = kind.tensor_type
    if tensor.elem_type not in _ELEMENT_TYPES or not tensor.HasField("shape"):
        return None
    shape: list[int] = []
    for dim in tensor.shape.dim:
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            return None
        shape.append(dim.dim_value)
    return (tensor.elem_type, tuple(shape))


def _check_sizes(draft: Draft, found: Mapping[str, TypeAndShape], names: Iterable[str]) -> None:
    for name in names:
        if name not in found:
            continue
        count = math.prod(found[name][1])
        if count > MAX_TENSOR_ELEMENTS:
            raise FormatError(
                draft.path,
                field=f"tensor {name}",
                expected=f"at most {MAX_TENSOR_ELEMENTS} elements",
                found=f"{count} (shape {'x'.join(map(str, found[name][1]))})",
            )
