"""The process that `observation` starts: runs a model once in ONNX Runtime and prints types and shapes of
outputs.

It imports nothing that the run does not need, since importing onnx takes as long as importing ONNX Runtime.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from npuviz.onnx.runtime import onnxruntime


def main(path: str, limit: str, dtypes: str) -> None:
    """Print the result of `observed` as JSON, with at most `limit` bytes of memory, or less where the process
    that started it has less."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    least = int(limit) if most == resource.RLIM_INFINITY else min(int(limit), most)
    resource.setrlimit(resource.RLIMIT_AS, (least, least))
    print(json.dumps(observed(path, dtypes)))


def observed(path: str, dtypes: str) -> dict[str, Any]:
    """Run a model. Returns {output: [name of its dtype ("" if it is no array), shape, number or None]}.

    dtypes  {input: name of its dtype} as JSON; the arrays of inputs lie beside the model as 0.npy, 1.npy, ...
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    types = json.loads(dtypes)
    feeds: dict[str, Any] = {}
    for number, value in enumerate(session.get_inputs()):
        array = np.load(Path(path).parent / f"{number}.npy", allow_pickle=False)
        name = types[value.name]
        # numpy loads types that it does not know as plain bytes.
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        feeds[value.name] = array.astype(object) if array.dtype.kind == "U" else array.view(dtype)
    answer: dict[str, Any] = {}
    for value, result in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        if isinstance(result, np.ndarray):
            is_number = result.size == 1 and result.dtype.kind in "biu"
            number = int(result.reshape(-1)[0]) if is_number else None
            answer[value.name] = (result.dtype.name, result.shape, number)
        else:
            answer[value.name] = ("", (), None)
    return answer


if __name__ == "__main__":
    main(*sys.argv[1:])
