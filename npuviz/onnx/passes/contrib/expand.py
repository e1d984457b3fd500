"""Rewrites the operators of a model for which this package has a plainer form."""

from collections.abc import Callable, Collection, Mapping

from onnx import GraphProto, NodeProto

from npuviz.base.reading import reading
from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.model_form import AS_IT_IS, ModelForm
from npuviz.onnx.node_order import replace_nodes
from npuviz.onnx.passes.contrib.attention import write_group_query_attention, write_multi_head_attention
from npuviz.onnx.passes.contrib.einsum import WRITERS as EINSUM
from npuviz.onnx.passes.contrib.embedding import WRITERS as EMBEDDING
from npuviz.onnx.passes.contrib.fused import WRITERS as FUSED
from npuviz.onnx.passes.contrib.fused_attention import WRITERS as FUSED_ATTENTION
from npuviz.onnx.passes.contrib.gelu import WRITERS as GELU
from npuviz.onnx.passes.contrib.normalization import write_skip, write_skip_simplified
from npuviz.onnx.passes.contrib.quantised import WRITERS as QUANTISED
from npuviz.onnx.passes.contrib.recurrent import DYNAMIC
from npuviz.onnx.passes.contrib.recurrent import WRITERS as RECURRENT
from npuviz.onnx.passes.contrib.rotary import write_rotary
from npuviz.onnx.passes.contrib.scaler import WRITERS as SCALER
from npuviz.onnx.passes.contrib.selection import WRITERS as SELECTION
from npuviz.onnx.passes.contrib.sub_pixels import WRITERS as SUB_PIXELS
from npuviz.onnx.passes.contrib.tabular import WRITERS as TABULAR
from npuviz.onnx.passes.contrib.volumes import WRITERS as VOLUMES
from npuviz.onnx.passes.contrib.volumes import spans_volume
from npuviz.onnx.passes.contrib.weights import write_matmul_nbits
from npuviz.onnx.passes.contrib.writer import CannotWrite, TypeAndShape, Writer, opset_of, standard
from npuviz.onnx.runtime_operators import learn_operators

WRITERS: Mapping[str, Callable[[Writer, NodeProto], None]] = {
    "GroupQueryAttention": write_group_query_attention,
    "MatMulNBits": write_matmul_nbits,
    "MultiHeadAttention": write_multi_head_attention,
    "RotaryEmbedding": write_rotary,
    "SkipLayerNormalization": write_skip,
    "SkipSimplifiedLayerNormalization": write_skip_simplified,
    **EINSUM,
    **EMBEDDING,
    **FUSED,
    **FUSED_ATTENTION,
    **GELU,
    **QUANTISED,
    **RECURRENT,
    **DYNAMIC,
    **SCALER,
    **SELECTION,
    **SUB_PIXELS,
    **TABULAR,
    **VOLUMES,
}
_LATE = (*SELECTION, *SUB_PIXELS, *VOLUMES)
"""Operators that are rewritten only after constants are folded."""
_STANDARD = frozenset(
    ("Attention", "RotaryEmbedding", "QLinearConv", "QLinearMatMul", *EINSUM, *RECURRENT, *_LATE)
)
CACHE_ROWS = ("npuviz.cache", "rows")
"""Key and value of a model's metadata: GroupQueryAttention returns the new rows of the cache only. The caller
then writes these rows to its cache, instead of a copy of the whole cache."""
OLDEST_OPSET = 9
"""The first operator set with Where, which many of the plainer forms have."""
_OF_ANY_OPSET = frozenset(("ConvTranspose", *VOLUMES))
"""Operators whose plainer forms all operator sets have that are read."""


Whole = Callable[[NodeProto], bool]
"""Predicate: whether the machine runs a node as it is."""


def only_recurrent(node: NodeProto) -> bool:
    """Return True for nodes that stay as they are by default: recurrent operators, those on 8-bit tensors,
    Einsum, those that add to picked rows, convolutions, pools, pads, and the standard's Attention, which has
    a body; all others are rewritten."""
    kept = (RECURRENT, QUANTISED, EINSUM, SELECTION, SUB_PIXELS, VOLUMES)
    return any(node.op_type in writers for writers in kept) or is_standard_attention(node)


def is_standard_attention(node: NodeProto) -> bool:
    """Return whether a node is the standard's Attention; only its masks of truth values are rewritten."""
    return node.op_type == "Attention" and standard(node)


def only_recurrent_or_standard(node: NodeProto) -> bool:
    """Return True for the nodes of `only_recurrent`, except operators on 8-bit tensors that the standard does
    not have."""
    return only_recurrent(node) and (node.op_type not in QUANTISED or _is_standard_product(node))


def _is_standard_product(node: NodeProto) -> bool:
    """Return whether an operator on 8-bit tensors is the standard's, not com.microsoft's of that name."""
    return node.op_type in _STANDARD and standard(node)


def but_late(whole: Whole) -> Whole:
    """Return the predicate for the pass before folding: `whole`, and everything that is rewritten after
    it."""
    return lambda node: node.op_type in _LATE or whole(node)


def only_late(whole: Whole) -> Whole:
    """Return the predicate for the pass after folding: only late operators are rewritten, and recurrent ones,
    whose weights may have become constants by folding; both unless `whole` keeps them."""
    return lambda node: (node.op_type not in _LATE and node.op_type not in RECURRENT) or whole(node)


def in_plain_form(names: Collection[str], *, adds_rows: bool = False) -> Whole:
    """Return a predicate that keeps nodes of the given types with one result (MultiHeadAttention only without
    bias, padding mask and cache, Attention only that of the standard without a mask of truth values), and all
    operators on 8-bit tensors of the standard. Recurrent operators are left to `whole_recurrence`.

    adds_rows  whether operators that add to rows which a run picks are rewritten
    """

    def is_plain(node: NodeProto) -> bool:
        if node.op_type in QUANTISED:
            return _is_standard_product(node)
        if node.op_type in SELECTION:
            return not adds_rows
        if node.op_type in RECURRENT:
            return False
        if node.op_type in VOLUMES:
            return not spans_volume(node)
        if node.op_type == "Pad":
            return len(node.input) > 2 and bool(node.input[2])
        given = {number for number, name in enumerate(node.input) if name}
        if node.op_type in FUSED_ATTENTION:
            return standard(node) and 3 not in given
        is_bare = node.op_type != "MultiHeadAttention" or given <= {0, 1, 2, 5}
        return node.op_type in names and is_bare and len([name for name in node.output if name]) == 1

    return is_plain


def has_contrib(draft: Draft, whole: Whole = only_recurrent) -> bool:
    """Return whether the model has operators that `expand_contrib` may rewrite."""
    whole = _for_version(draft, whole)
    return any(
        _is_wanted(node, whole)
        for node in draft.proto.graph.node
        # These have windows over three dimensions only where others have, too.
        if not node.op_type.startswith("Global")
    )


def expand_contrib(
    draft: Draft,
    shapes: Mapping[str, TypeAndShape],
    whole: Whole = only_recurrent,
    form: ModelForm = AS_IT_IS,
) -> list[str]:
    """Rewrite operators with plainer ones, in place. Returns the names of nodes that could not be rewritten.

    shapes  of the model's tensors;  whole  instead of that of the form
    Results of a node keep their names; intermediate tensors are named after the node.
    """
    whole = _for_version(draft, whole)
    made: list[NodeProto] = []
    left: list[str] = []
    makers = {name: node for node in draft.proto.graph.node for name in node.output}
    writer = Writer(shapes, draft.weights, opset_of(draft.proto), makers)
    metadata = [(item.key, item.value) for item in draft.proto.metadata_props]
    writer.only_new_rows = CACHE_ROWS in metadata
    writer.form = form
    with reading(draft.path, "operators of ONNX Runtime"):
        for index, node in enumerate(draft.proto.graph.node):
            name = node.name or f"{node.op_type}_{index}"
            if not _is_wanted(node, whole):
                made.append(node)
                continue
            writer.begin(node, name)
            try:
                WRITERS[node.op_type](writer, node)
            except CannotWrite:
                writer.abandon()
                made.append(node)
                left.append(name)
            else:
                made += writer.nodes
                if writer.only_new_rows and node.op_type == "GroupQueryAttention":
                    _open_shapes(draft.proto.graph, node.output[1:])
        replace_nodes(draft.proto.graph, made)
        read = {name for node in made for name in node.input}
        for name, array in writer.weights.items():
            if name in read:
                draft.weights[name] = array
                declare_weight(draft.proto.graph, name, array)
        learn_operators(draft.proto)
    return left


def _for_version(draft: Draft, whole: Whole) -> Whole:
    """Return the predicate that also keeps what cannot be written in the operators of the model's version."""
    if opset_of(draft.proto) >= OLDEST_OPSET:
        return whole
    return lambda node: node.op_type not in _OF_ANY_OPSET or whole(node)


def _is_wanted(node: NodeProto, whole: Whole) -> bool:
    if node.op_type not in WRITERS or (standard(node) and node.op_type not in _STANDARD):
        return False
    return not whole(node)


def _open_shapes(graph: GraphProto, names: Collection[str]) -> None:
    """Clear the sizes of graph outputs, so that shape inference determines them."""
    for value in graph.output:
        if value.name in names:
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
