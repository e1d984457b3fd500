"""Runs the passes of onnx-ir and onnxscript that simplify a model.

Only passes that are correct for every opset are used: the general rewrite rules of onnxscript write operators
in their newest form.
"""

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as passes
from onnxscript import optimizer
from onnxscript.rewriter import RewritePass, RewriteRule
from onnxscript.rewriter.rules.common import (
    fuse_batchnorm_into_conv_rule,
    fuse_batchnorm_into_conv_transpose_rule,
    fuse_batchnorm_into_gemm_rule,
)

from npuviz.base.reading import reading
from npuviz.onnx.draft import Draft, first_line, is_kept

# Folding runs operators in Python: bounded, so that a damaged shape cannot take time or memory.
FOLD_ELEMENTS = 1 << 16
# Arrays above this are tested for being one repeated value.
COMPACT_BYTES = 1 << 14

# Its warnings about unknown types repeat what shape inference reports properly.
for _library in ("onnx_ir", "onnxscript"):
    logging.getLogger(_library).setLevel(logging.ERROR)

_RULES = [
    fuse_batchnorm_into_conv_rule,
    fuse_batchnorm_into_conv_transpose_rule,
    fuse_batchnorm_into_gemm_rule,
]
# The library folds these into Split, Squeeze and Unsqueeze of opset 13, whatever the model's opset.
_FOLDED_IN_NEW_FORM = frozenset({"SplitToSequence", "ConcatFromSequence"})
_NEW_FORM_OPSET = 13
# Ref: ONNX operators, Dropout versions 7 and 10: without a training input it passes its data on.
# The library's own rule knows the newer form only.
_DROPOUT_ALWAYS_IDENTITY = range(7, 12)
_DROPOUT_RULE = RewriteRule(
    lambda op, x: op.Dropout(x, _allow_other_attributes=True),
    lambda op, x: op.Identity(x),
)


def run_passes(draft: Draft) -> Draft:
    """Return the draft with functions inlined, constants folded, identities removed and batch normalisation
    fused."""
    try:
        model = _optimised(draft, may_fold=True)
    except Exception as error:
        # Folding meets operators it cannot evaluate; the model is right without it, only longer.
        draft.assumptions.append(f"constants are not folded: the library gave up ({first_line(error)})")
        with reading(draft.path, "optimisation"):
            model = _optimised(draft, may_fold=False)
    with reading(draft.path, "optimisation"):
        return _take_apart(draft, model)


def _optimised(draft: Draft, may_fold: bool) -> ir.Model:
    model = ir.from_proto(draft.proto)
    _attach_weights(model, draft.weights)
    stored = [(_reads(node), node.name) for node in model.graph]
    _run_passes(model, may_fold)
    _name_fused_nodes(model.graph, stored)
    return model


def _name_fused_nodes(graph: ir.Graph, stored: Sequence[tuple[tuple[str, ...], str | None]]) -> None:
    """Name each fused node after the first of its parts, whose inputs it reads, so that users recognize it.

    stored  inputs and name of each node before the passes. Each name is used once
    """
    known = {name for _, name in stored}
    free: dict[tuple[str, ...], list[str]] = {}
    kept = {node.name for node in graph}
    for reads, name in stored:
        if name and name not in kept:
            free.setdefault(reads, []).append(name)
    for node in graph:
        names = free.get(_reads(node), [])
        if names and node.name not in known:
            node.name = names.pop(0)


def _reads(node: ir.Node) -> tuple[str, ...]:
    return (node.op_type, *(value.name or "" for value in node.inputs[:2] if value is not None))


def _attach_weights(model: ir.Model, weights: Mapping[str, np.ndarray]) -> None:
    """Make every weight an initialiser instead of an input, so that passes may fold it."""
    graph = model.graph
    by_name = {value.name: value for value in graph.inputs if value.name in weights}
    plain = [value for value in graph.inputs if value.name not in weights]
    graph.inputs.clear()
    graph.inputs.extend(plain)
    for name, array in weights.items():
        value = by_name.get(name) or graph.initializers.get(name)
        if value is None:
            continue
        if value.const_value is None or name not in graph.initializers:
            value.const_value = ir.Tensor(array, name=name, shape=ir.Shape(array.shape))
            graph.register_initializer(value)


def _run_passes(model: ir.Model, may_fold: bool) -> None:
    opset = model.opset_imports.get("", 0)
    rules = [*_RULES, _DROPOUT_RULE] if opset in _DROPOUT_ALWAYS_IDENTITY else _RULES
    passes.InlinePass()(model)
    ops = {node.op_type for node in model.graph.all_nodes()}
    may_fold = may_fold and (opset >= _NEW_FORM_OPSET or not ops & _FOLDED_IN_NEW_FORM)
    passes.RemoveUnusedNodesPass()(model)
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    for _ in range(2):
        if may_fold:
            # Folding may compute infinities (the log of 0), as a run would.
            with np.errstate(all="ignore"):
                optimizer.fold_constants_ir(
                    model,
                    onnx_shape_inference=True,
                    input_size_limit=FOLD_ELEMENTS,
                    output_size_limit=FOLD_ELEMENTS,
                    should_fold=_may_fold,
                )
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        RewritePass(rules)(model)
        _IdentityElimination()(model)
        passes.RemoveUnusedNodesPass()(model)
    passes.LiftSubgraphInitializersToMainGraphPass()(model)
    passes.RemoveUnusedFunctionsPass()(model)


class _IdentityElimination(passes.IdentityEliminationPass):
    """The library's pass, except that an Identity from an outer value to an output of a branch stays: a value
    can be the output of one graph only."""

    def _try_eliminate_identity_node(self, node: ir.Node) -> bool:
        value = node.inputs[0] if len(node.inputs) == 1 else None
        if value is not None and len(node.outputs) == 1 and node.outputs[0].is_graph_output():
            producer = value.producer()
            if producer is None or producer.graph is not node.graph or value.is_graph_output():
                return False
        return super()._try_eliminate_identity_node(node)


def _may_fold(node: ir.Node) -> bool | None:
    """Return False for a node whose result is large or of unknown size, else None: the library decides."""
    for output in node.outputs:
        shape = output.shape
        if shape is None:
            return False
        dims = [dim for dim in shape if isinstance(dim, int)]
        if len(dims) < len(shape) or math.prod(dims) > FOLD_ELEMENTS:
            return False
    return None


def _take_apart(draft: Draft, model: ir.Model) -> Draft:
    graph = model.graph
    arrays: dict[str, np.ndarray] = {}
    for name in list(graph.initializers):
        value = graph.initializers[name]
        if value.const_value is None or not (value.uses() or value.is_graph_output()):
            del graph.initializers[name]
            continue
        array = _compact(_as_objects(value.const_value.numpy()))
        arrays[name] = array
        value.shape = ir.Shape(array.shape)
        value.dtype = value.const_value.dtype
        if array.dtype.hasobject:
            # Folded texts are numpy arrays, which the library does not serialise.
            texts = [text.encode() if isinstance(text, str) else bytes(text) for text in array.reshape(-1)]
            value.const_value = ir.StringTensor(texts, name=name, shape=ir.Shape(array.shape))
        if not is_kept(array):
            del graph.initializers[name]
            graph.inputs.append(value)
    # Weights in the order of the file, then folded constants.
    weights = {name: arrays.pop(name) for name in draft.weights if name in arrays}
    weights.update(arrays)
    return Draft(draft.path, ir.to_proto(model), weights, draft.assumptions, draft.lists)


def _as_objects(array: np.ndarray) -> np.ndarray:
    """Convert text to an object array of str, as the onnx library reads it; return numbers unchanged."""
    if array.dtype.kind not in "SUO":
        return array
    texts = [item.decode() if isinstance(item, bytes) else str(item) for item in array.reshape(-1).tolist()]
    return np.array(texts, np.object_).reshape(array.shape)


def _compact(array: np.ndarray) -> np.ndarray:
    """Return the values read-only; if all are equal, as one value with strides of 0."""
    if array.nbytes > COMPACT_BYTES and any(array.strides) and array.dtype != np.object_:
        first = array.reshape(-1)[:1]
        # Differences show early in real weights; the whole array is read only when they do not.
        if np.array_equal(array.reshape(-1)[:64], np.broadcast_to(first, 64)) and bool(
            (array == first).all()
        ):
            array = np.broadcast_to(first[0], array.shape)
    array = array.view()
    array.flags.writeable = False
    return array
