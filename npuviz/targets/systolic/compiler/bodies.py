"""Replaces operators without a lowering by the function bodies that the ONNX standard defines for them."""

from collections.abc import Collection
from functools import partial

from npuviz.onnx.passes.expansion import can_expand
from npuviz.onnx.passes.missing import expand_missing
from npuviz.program.graph import Graph, Node
from npuviz.targets.systolic.compiler.operators.families import LOWERINGS
from npuviz.targets.systolic.compiler.operators.repeating import RESIZES, repeats_whole
from npuviz.targets.systolic.values.storage import FLOATS

DOMAINS = frozenset(("", "ai.onnx", "com.microsoft"))
"""Operator domains whose operators `families.LOWERINGS` names."""
_LOOPS = ("Loop", "Range", "Scan", "SequenceMap")
"""Operators that are not replaced: one iteration of their bodies is too small for the cores."""


def has_lowering(node: Node) -> bool:
    """Return whether the cores have operators of this kind, with the results that are asked for."""
    if node.op_type == "LayerNormalization" and any(index >= 0 for index in node.outputs[1:]):
        return False
    return node.op_type in LOWERINGS and node.domain in DOMAINS


def _stays(whole: Collection[str], mixed: Collection[str], node: Node) -> bool:
    """Return whether a node is not replaced: it is one of `whole`, or the cores have it and it is none of
    `mixed`."""
    return node.name in whole or (node.name not in mixed and has_lowering(node))


def is_mixed_resize(graph: Graph, node: Node) -> bool:
    """Return whether a node resizes floating-point numbers otherwise than by repeating positions, as loads
    and stores can."""
    if node.op_type not in RESIZES or node.domain not in DOMAINS:
        return False
    source, result = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    return source.dtype in FLOATS and not repeats_whole(node, source.shape, result.shape)


def with_bodies(graph: Graph, kept: Collection[int]) -> Graph:
    """Replace operators that the cores do not have by their function bodies, where the cores have operators
    of the body.

    kept  ids of nodes that the Host is to run
    """
    wanted = {
        node.name
        for node in graph.nodes
        if node.id not in kept
        and node.op_type not in _LOOPS
        and not (has_lowering(node) and not is_mixed_resize(graph, node))
        and can_expand(graph, node)
    }
    while wanted:
        whole = frozenset(node.name for node in graph.nodes) - wanted
        mixed = frozenset(node.name for node in graph.nodes if node.op_type in RESIZES) - whole
        expanded = expand_missing(graph, partial(_stays, whole, mixed))
        names = [node.name for node in expanded.nodes if has_lowering(node)]
        left = [node.name for node in expanded.nodes]
        useful = {name for name in wanted if any(each.startswith(f"{name}/") for each in names)}
        useful |= {name for name in wanted if not any(f"{each}/".startswith(f"{name}/") for each in left)}
        if useful == wanted:
            return expanded
        wanted = useful
    return graph
