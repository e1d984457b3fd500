"""Fixed shapes for every tensor of an ONNX model.

Symbolic dimensions are bound first; static inference (onnx, with data propagation) then finds the
rest. What it leaves open is observed by running the model once in ONNX Runtime.
"""

from collections.abc import Iterable, Mapping

import onnx
from onnx import TensorProto, TypeProto

from npuviz.base.errors import FormatError, UsageError
from npuviz.onnx.draft import MAX_TENSOR_ELEMENTS, Draft, foreign_errors, names_read
from npuviz.onnx.observed_shapes import observe

# (element type, shape); element type 0 stands for sequences, maps and optionals.
TypeAndShape = tuple[int, tuple[int, ...]]


def bind_dimensions(draft: Draft, dimensions: Mapping[str, int]) -> None:
    """Give every open dimension of the inputs a number, in place.

    Named dimensions take their name's value, unnamed ones that of `input[axis]`; what is not given
    becomes 1 and is noted among the assumptions. Raises UsageError for a name the model has not.
    """
    graph = draft.proto.graph
    fixed: dict[str, int] = {}
    known: set[str] = set()
    for value in graph.input:
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
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            _bind(draft, f"{value.name}[{axis}]", dim, dimensions, fixed, known)
    _substitute(graph, fixed)
    unknown = sorted(set(dimensions) - known)
    if unknown:
        names = ", ".join(sorted(known)) or "none"
        raise UsageError(f"{draft.path}: no dimension is called {unknown[0]!r}; open dimensions: {names}")


def _bind(
    draft: Draft,
    place: str,
    dim: "onnx.TensorShapeProto.Dimension",
    dimensions: Mapping[str, int],
    fixed: dict[str, int],
    known: set[str],
) -> None:
    # Some exporters write -1 for an open dimension.
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return
    name = dim.dim_param or place
    known.add(name)
    if name not in fixed:
        if name in dimensions:
            fixed[name] = dimensions[name]
            if not 1 <= fixed[name] <= MAX_TENSOR_ELEMENTS:
                size = str(fixed[name])
                found = size if len(size) <= 24 else f"a number of {len(size)} digits"
                raise UsageError(
                    f"{draft.path}: dimension {name} must be 1 to {MAX_TENSOR_ELEMENTS}, not {found}"
                )
        else:
            fixed[name] = 1
            draft.assumptions.append(
                f"dimension {name} is open in the model: 1 assumed, set it with --set {name}=N"
            )
    dim.dim_value = fixed[name]


def _substitute(graph: onnx.GraphProto, fixed: Mapping[str, int]) -> None:
    """Replace bound names in stored shapes and drop the other names, so that inference decides."""
    for value in (*graph.value_info, *graph.output):
        if value.type.HasField("tensor_type"):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in fixed:
                    dim.dim_value = fixed[dim.dim_param]
                elif not dim.HasField("dim_value") or dim.dim_value < 0:
                    dim.Clear()


def infer_shapes(draft: Draft) -> dict[str, TypeAndShape]:
    """Element type and shape of every tensor of the main graph, by name.

    A node output that nothing reads may be missing. Raises FormatError where neither inference nor a
    run can tell, and where a tensor is absurdly big.
    """
    with foreign_errors(draft.path, "shape inference"):
        inferred = onnx.shape_inference.infer_shapes(draft.proto, data_prop=True)
    graph = inferred.graph
    found: dict[str, TypeAndShape] = {}
    for value in (*graph.value_info, *graph.output, *graph.input):
        type_and_shape = _fixed(value.type)
        if type_and_shape is not None:
            found[value.name] = type_and_shape
    for name, array in draft.weights.items():
        found[name] = (onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    produced = [name for node in graph.node for name in node.output if name]
    _check_sizes(draft, found, (*produced, *(value.name for value in graph.input)))
    read = names_read(graph)
    unknown = [name for name in produced if name not in found and name in read]
    if unknown:
        observed = observe(draft, unknown)
        draft.assumptions.append(
            f"the shapes of {len(unknown)} tensors (first: {unknown[0]}) depend on values: "
            "those of one run assumed"
        )
        found.update(observed)
        _check_sizes(draft, found, unknown)
    return found


def _fixed(kind: TypeProto) -> TypeAndShape | None:
    case = kind.WhichOneof("value")
    if case is None:
        return None
    if case != "tensor_type":
        return (0, ())
    tensor = kind.tensor_type
    if tensor.elem_type == TensorProto.UNDEFINED or not tensor.HasField("shape"):
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
        count = 1
        for dim in found[name][1]:
            count *= dim
        if count > MAX_TENSOR_ELEMENTS:
            raise FormatError(
                draft.path,
                field=f"tensor {name}",
                expected=f"at most {MAX_TENSOR_ELEMENTS} elements",
                found=f"{count} (shape {'x'.join(map(str, found[name][1]))})",
            )
