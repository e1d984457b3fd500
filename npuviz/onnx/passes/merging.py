"""Merges several serialised models to one, for reference execution of models that run together."""

from collections.abc import Sequence

import onnx
from onnx import compose


def merge_sources(named: Sequence[tuple[str, bytes]]) -> bytes:
    """Merge serialised models to one ModelProto, in which every name has its model's prefix.

    Returns b"" if a model has no source, or their operator sets differ.
    named  (prefix, serialised model)
    """
    if not all(source for _, source in named):
        return b""
    models = [compose.add_prefix(onnx.ModelProto.FromString(source), prefix) for prefix, source in named]
    sets = [{(each.domain, each.version) for each in model.opset_import} for model in models]
    if any(each != sets[0] for each in sets):
        return b""
    merged = models[0]
    for model in models[1:]:
        for field in ("node", "input", "output", "initializer", "sparse_initializer", "value_info"):
            getattr(merged.graph, field).extend(getattr(model.graph, field))
        merged.ir_version = max(merged.ir_version, model.ir_version)
    return merged.SerializeToString()
