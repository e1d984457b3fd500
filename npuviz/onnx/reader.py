"""Reads ONNX models: any valid file becomes an operator graph with fixed shapes and known weights.

`draft` splits the file, `shape_inference` fixes the shapes, `passes.optimization` folds and fuses, and
`graph` builds the graph.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from npuviz.base.progress import NoProgress, Progress
from npuviz.base.reading import reading
from npuviz.onnx.control_flow import decide
from npuviz.onnx.draft import Draft, read_draft
from npuviz.onnx.graph import make_graph
from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import AS_IT_IS, ModelForm
from npuviz.onnx.negative_sizes import refuse_deadly_sizes
from npuviz.onnx.passes.axis_moves import settle_transposes
from npuviz.onnx.passes.convolution_parts import Limits, settle_convolutions
from npuviz.onnx.passes.dynamic_products import write_as_floats, write_float_lstms
from npuviz.onnx.passes.empty_parts import leave_out_empty
from npuviz.onnx.passes.lengths import settle_lengths
from npuviz.onnx.passes.optimization import keeps_nodes, uniform_weights
from npuviz.onnx.passes.optimization import optimize as optimize_draft
from npuviz.onnx.passes.packed_parts import slice_packed_parts
from npuviz.onnx.passes.quantised_products import settle_products
from npuviz.onnx.passes.turned_steps import turn_recurrent
from npuviz.onnx.passes.view_moves import settle_views
from npuviz.onnx.passes.wrapped_indices import settle_indices
from npuviz.onnx.semantics.accuracy_levels import count_rounded
from npuviz.onnx.semantics.usual_inputs import usual_texts
from npuviz.onnx.shape_inference import bind_dimensions, infer_shapes, store_observed
from npuviz.program.graph import Graph

MAX_DEPTH = 4
"""Most levels of nested branches that are replaced by those of a run."""


def read_model(
    path: Path,
    dimensions: Mapping[str, int] | None = None,
    *,
    given: Given | None = None,
    optimize: bool = True,
    form: ModelForm = AS_IT_IS,
    progress: Progress | None = None,
) -> Graph:
    """Read an ONNX file.

    dimensions  values of symbolic dimensions, by name or by place, `input[axis]`. By default those of the
                arrays in `given`, else 1, which is noted in `Graph.assumptions`
    given       inputs of the run: shapes that depend on values are those of this run, and so are, with
                `optimize`, branches and loops that depend on values
    optimize    inline functions, fold constants, drop identities and fuse batch normalisation;
                without it the nodes, their names and the order of the initialisers are the file's
    form        form of the model that the machine wants, with `optimize`

    Weights stored as one repeated value take no memory and external data is mapped from its file.
    Raises FormatError for a file that is not a valid model, UsageError for a dimension that it does not have.
    """
    progress = progress or NoProgress()
    progress.report(0.0, f"reading {path.name}")
    draft = read_draft(path)
    progress.report(0.3, "fixing dimensions")
    given = given or Given()
    bind_dimensions(draft, dimensions or {}, {name: array.shape for name, array in given.inputs.items()})
    refuse_deadly_sizes(draft)
    _tell_of_usual_inputs(draft, given)
    if optimize:
        _tell_of_levels(draft)
        _write_out(draft, given, form, is_late=False)
        progress.report(0.4, "folding constants")
        draft = optimize_draft(draft, float_weights=form.float_weights)
    may_change = optimize and not keeps_nodes(draft)
    if may_change:
        draft = _settle_values(draft, given, form)
    progress.report(0.7, "inferring shapes")
    shapes = infer_shapes(draft, given)
    if may_change and store_observed(draft, shapes):
        draft = optimize_draft(draft, float_weights=form.float_weights)
        shapes = infer_shapes(draft, given)
    for settle in (_settle_moves, settle_views, partial(_settle_parts, form)) if may_change else ():
        if settle(draft, shapes):
            draft = optimize_draft(draft, float_weights=form.float_weights)
            shapes = infer_shapes(draft, given)
    progress.report(0.9, "building the graph")
    with reading(path, "graph"):
        known = {} if optimize else uniform_weights(draft.proto, draft.weights)
        graph = make_graph(draft, shapes, known)
    progress.report(1.0, "model read")
    return graph


def _tell_of_usual_inputs(draft: Draft, given: Given) -> None:
    """Note which inputs that nobody gave are not drawn at random."""
    shapes = {
        value.name: tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
        for value in draft.proto.graph.input
        if value.name not in draft.weights
    }
    draft.assumptions += usual_texts(shapes, given.inputs)


def _tell_of_levels(draft: Draft) -> None:
    count = count_rounded(draft.proto.graph)
    if count:
        draft.assumptions.append(
            f"{count} products of weights with few bits read floats, which their accuracy_level lets ONNX "
            f"Runtime round to 8 bits: checks compare with products of floats"
        )


def _settle_values(draft: Draft, given: Given, form: ModelForm) -> Draft:
    """Replace control flow, sequence lengths and operators as the inputs of the run and the machine demand.

    After each change constants are folded. Returns the new draft.
    """
    fold = partial(optimize_draft, float_weights=form.float_weights)
    for _ in range(MAX_DEPTH):
        if not decide(draft, given):
            break
        draft = fold(draft)
    changes: tuple[Callable[[Draft], bool], ...] = (
        leave_out_empty,
        lambda draft: settle_lengths(draft, given),
        lambda draft: _write_out(draft, given, form, is_late=True),
        lambda draft: form.float_products and write_as_floats(draft),
        lambda draft: write_float_lstms(draft, form.float_recurrence),
    )
    for change in changes:
        if change(draft):
            draft = fold(draft)
    return draft


Shapes = Mapping[str, tuple[int, tuple[int, ...]]]


def _settle_moves(draft: Draft, shapes: Shapes) -> bool:
    """Remove moves that the operators around them do not need. Returns whether any was removed."""
    found = [
        rule(draft, shapes)
        for rule in (slice_packed_parts, settle_indices, turn_recurrent, settle_transposes)
    ]
    return any(found)


def _settle_parts(form: ModelForm, draft: Draft, shapes: Shapes) -> bool:
    """Fold operators next to convolutions into them, and conversions around products of 8-bit integers if
    the machine wants that. Returns whether there were any."""
    limits = Limits(form.most_padding, form.most_stride)
    found = [settle_convolutions(draft, limits, shapes), form.integer_products and settle_products(draft)]
    return any(found)


def _write_out(draft: Draft, given: Given, form: ModelForm, *, is_late: bool) -> bool:
    """Rewrite operators that the machine does not run with plainer ones, for the sizes of the run.

    is_late  rewrite those whose constants had to be folded before
    Returns whether there were any.
    """
    from npuviz.onnx.passes.contrib.expand import (
        but_late,
        expand_contrib,
        has_contrib,
        only_late,
        only_recurrent,
    )

    whole = (only_late if is_late else but_late)(form.whole or only_recurrent)
    if not has_contrib(draft, whole):
        return False
    assumed = list(draft.assumptions)
    shapes = infer_shapes(draft, given)
    draft.assumptions[:] = assumed
    expand_contrib(draft, shapes, whole, form)
    return True
