"""Copies images, which lie with their channels innermost, for operators that need rows: products of matrices,
sums of tensors that lie in different orders, and the like."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from npuviz.onnx.copied_tensors import with_copies
from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Graph, Node
from npuviz.targets.systolic.compiler.axis_order import CONVOLUTIONS, POOLINGS
from npuviz.targets.systolic.compiler.bodies import has_lowering
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.families import LOWERINGS
from npuviz.targets.systolic.compiler.placement import nodes_in_fp32, place_tensors
from npuviz.targets.systolic.compiler.tiling.resources import resources_of
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.values.storage import Storage


def with_row_copies(graph: Graph, spec: SystolicSpec, on_host: Collection[int]) -> Graph:
    """Return the graph with copies that lie row by row for the nodes which the cores can run only so; the
    graph itself if there are none.

    on_host  ids of the nodes that the Host would run
    """
    if not graph.source or not on_host:
        return graph
    kept = nodes_in_fp32(graph, spec)
    storages, _ = place_tensors(graph, spec, 0, kept)
    apart: list[int] = []
    copied: set[int] = set()
    for number in sorted(set(on_host) - kept):
        node = graph.nodes[number]
        images = {index for index in (*node.inputs, *node.outputs) if _is_image(storages, index)}
        if images and _may_read_rows(node) and _can_lower(graph, spec, storages, node, images):
            apart.append(number)
            copied |= images
    return with_copies(graph, apart, copied) if apart else graph


def _is_image(storages: Sequence[Storage], index: int) -> bool:
    return index >= 0 and not storages[index].is_row_major


def _may_read_rows(node: Node) -> bool:
    return (
        has_lowering(node)
        and node.op_type not in CONVOLUTIONS | POOLINGS
        and not node.attributes.get("captured_inputs")
    )


def _can_lower(
    graph: Graph, spec: SystolicSpec, storages: Sequence[Storage], node: Node, images: Collection[int]
) -> bool:
    """Return whether the cores can run a node whose images lie row by row."""
    rows = [
        replace(each, order=tuple(range(len(each.shape)))) if each.tensor in images else each
        for each in storages
    ]
    builder = ProgramBuilder()
    builder.begin_launch()
    try:
        LOWERINGS[node.op_type](Lowering(graph, rows, resources_of(spec), builder, False), node)
    except CannotLower:
        return False
    return True
