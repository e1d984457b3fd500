"""Reads tensors of a model file: stored in it, as external data, or sparse."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from npuviz.base.errors import FormatError
from npuviz.base.late_module import late_module
from npuviz.base.names import echo, resolved
from npuviz.base.reading import reading
from npuviz.formats.binary import file_size

MAX_TENSOR_ELEMENTS = 1 << 34
"""A larger tensor is a sign of a damaged file."""


def tensor_array(path: Path, tensor: TensorProto) -> np.ndarray:
    """Return the values of a stored tensor, read-only; external data is mapped from disk. Raises
    FormatError."""
    where = f"tensor {tensor.name}"
    if min(tensor.dims, default=0) < 0:
        found = str(min(tensor.dims))
        raise FormatError(path, field=where, expected="dimensions of at least 0", found=found)
    count = math.prod(tensor.dims)
    if count > MAX_TENSOR_ELEMENTS:
        raise FormatError(path, field=where, expected="a tensor of sane size", found=f"{count} elements")
    if tensor.data_type not in TensorProto.DataType.values() or tensor.data_type == TensorProto.UNDEFINED:
        raise FormatError(
            path, field=where, expected="a known element type", found=f"type {tensor.data_type}"
        )
    with reading(path, where):
        if tensor.data_location == TensorProto.EXTERNAL:
            array = _external_array(path, tensor)
        else:
            array = onnx.numpy_helper.to_array(tensor)
    array = array.view()
    array.flags.writeable = False
    return array


def _external_array(path: Path, tensor: TensorProto) -> np.ndarray:
    entries: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    where = f"tensor {tensor.name}"
    location = entries.get("location", "")
    if not location:
        raise FormatError(path, field=where, expected="the location of its external data", found="none")
    folder = path.parent.resolve()
    file = resolved(folder / location)
    # A cache of downloads has links: the model and its data are together where they are stored, too.
    folders = (folder, path.resolve().parent)
    if file is None or not any(file.is_relative_to(each) for each in folders):
        found = echo(repr(location))
        raise FormatError(path, field=where, expected="external data beside the model", found=found)
    if not file.exists():
        raise FormatError(
            path, field=where, expected=f"the external data file {echo(location)}", found="no such file",
            hint="copy it beside the model",
        )  # fmt: skip
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries["length"]) if "length" in entries else None
    except ValueError:
        raise FormatError(path, field=where, expected="numbers as offset and length") from None
    # onnx-ir takes half a second to import: only for models that need it.
    with late_module("sympy"):
        import onnx_ir as ir

    # Without a base_dir, onnx-ir takes files with several hard links, as deduplicating tools make them.
    stored = ir.ExternalTensor(
        file, offset, length, ir.DataType(tensor.data_type),
        shape=ir.Shape(list(tensor.dims)), name=tensor.name,
    )  # fmt: skip
    end = offset + (stored.nbytes if length is None else length)
    available = file_size(file)
    if offset < 0 or (length is not None and length != stored.nbytes) or end > available:
        raise FormatError(
            path,
            field=where,
            expected=f"{stored.nbytes} bytes at {offset} of {echo(location)}",
            found=f"{available} bytes in the file" if end > available else f"a length of {length}",
        )
    return stored.numpy()


def densify(path: Path, sparse: onnx.SparseTensorProto, where: str) -> np.ndarray:
    """Return a sparse tensor as a dense array, read-only. Raises FormatError that names it as `where`."""
    shape = tuple(sparse.dims)
    count = math.prod(max(dim, 0) for dim in shape)
    # Written out in full, so bounded by what a weight may sensibly take.
    if min(shape, default=0) < 0 or count > 1 << 28:
        raise FormatError(path, field=where, expected="a tensor of sane size", found=f"shape {shape}")
    values = tensor_array(path, sparse.values)
    indices = tensor_array(path, sparse.indices)
    try:
        dense = np.zeros(count, values.dtype)
        if indices.ndim == 2:
            indices = np.ravel_multi_index(tuple(indices.T), shape)
        dense[indices] = values
    except (IndexError, TypeError, ValueError, MemoryError) as error:  # of numpy
        raise FormatError(path, field=where, found=str(error)) from error
    dense = dense.reshape(shape)
    dense.flags.writeable = False
    return dense
