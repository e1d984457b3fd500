"""Observes shapes and numbers that depend on values by a run of the model.

The model runs once in ONNX Runtime, in a separate process with limits on memory and time, so that a hostile
or broken model cannot exhaust memory, hang or crash npuviz.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from npuviz.base.errors import FormatError
from npuviz.base.late_module import late_module
from npuviz.base.reading import reading
from npuviz.onnx.draft import Draft, drawn_hint, open_hint, runtime_message
from npuviz.onnx.run_limit import limit_seconds, loop_names, over_limit
from npuviz.onnx.serialization import complete_model

_REAL = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16)
_INVALID = "This is an invalid model. "
"""What ONNX Runtime says of a model that no inputs make run."""
TIME_LIMIT_SECONDS = 120
MEMORY_LIMIT_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Observed:
    """An observed tensor: element type of ONNX (0: no tensor), shape, and its value if it is a single integer
    or bool."""

    kind: int
    shape: tuple[int, ...]
    number: int | None = None


def observe(
    draft: Draft, names: Sequence[str], inputs: Sequence[np.ndarray], given: Collection[str] = ()
) -> dict[str, Observed]:
    """Run the model once and return type, shape and number of the named tensors.

    inputs  arrays of the draft's inputs, in their order; given  names of those that are the user's
    Raises FormatError when the run fails.
    """
    loops = list(loop_names(draft.proto.graph))
    seconds = limit_seconds() if loops else TIME_LIMIT_SECONDS
    with tempfile.TemporaryDirectory(prefix="npuviz-") as folder:
        model = Path(folder) / "model.onnx"
        with reading(draft.path, "shapes by a run"):
            _write_model(draft, model, names)
            for number, array in enumerate(inputs):
                # Text is stored as such: nothing is unpickled.
                plain = array.astype(str) if array.dtype.kind == "O" else array
                np.save(Path(folder) / f"{number}.npy", plain)
        limits = (str(MEMORY_LIMIT_BYTES), json.dumps(_input_dtypes(draft)))
        command = [sys.executable, "-m", "npuviz.onnx.observation_run", str(model), *limits]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            if loops:
                raise FormatError(draft.path, field="shapes by a run", found=over_limit(loops)) from None
            reason = f"the run took more than {TIME_LIMIT_SECONDS} s"
            raise _unknown(draft, names, reason, given) from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        reason = done.stderr.strip().splitlines()[-1:] or [f"it ended with status {done.returncode}"]
        raise _unknown(draft, names, runtime_message(reason[0]), given)
    answer: Mapping[str, Any] = json.loads(lines[-1])
    return {name: _observed(*answer[name]) for name in names}


def _observed(dtype: str, shape: Sequence[int], number: int | None) -> Observed:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if dtype else 0
    return Observed(kind, tuple(shape), number)


def _input_dtypes(draft: Draft) -> dict[str, str]:
    kinds = {value.name: value.type.tensor_type.elem_type for value in draft.proto.graph.input}
    known = onnx.helper.get_all_tensor_dtypes()
    # Inputs that are no tensors have no element type; the run reports an error for them.
    return {
        name: onnx.helper.tensor_dtype_to_np_dtype(kind).name for name, kind in kinds.items() if kind in known
    }


def _unknown(draft: Draft, names: Sequence[str], reason: str, given: Collection[str]) -> FormatError:
    kinds = {value.name: value.type.tensor_type.elem_type for value in draft.proto.graph.input}
    drawn = [name for name in kinds if name not in draft.weights and name not in given]
    drawn.sort(key=lambda name: kinds[name] in _REAL)  # lengths, ids and rates are what a run depends on
    hints = [open_hint(draft.assumptions), drawn_hint(drawn)]
    if _INVALID in reason:
        hints = ["export the model again, so that ONNX Runtime loads it"]
    return FormatError(
        draft.path,
        field=f"tensor {names[0]}",
        expected="a shape that can be inferred or observed",
        found=f"no shape for {len(names)} tensors, and ONNX Runtime cannot run the model ({reason})",
        hint="; ".join(filter(None, hints)) or "store the shapes in the model (value_info)",
    )


def _write_model(draft: Draft, path: Path, names: Sequence[str]) -> None:
    with late_module("sympy"):
        import onnx_ir as ir

    model = complete_model(draft)
    outputs = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    with (path.parent / "weights").open("wb") as stream:
        for tensor in model.graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            data = ir.Tensor(np.ascontiguousarray(draft.weights[tensor.name])).tobytes()
            del tensor.external_data[:]
            for key, value in (("location", "weights"), ("offset", stream.tell()), ("length", len(data))):
                tensor.external_data.add(key=key, value=str(value))
            stream.write(data)
    path.write_bytes(model.SerializeToString())
