"""RNN, GRU and LSTM as one layer: a direction is one tile, whose weights stay in the scratchpad."""

from collections.abc import Sequence

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.model_form import GATES, Recurrence
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.recurrent_writer import RecurrentProblem, write_recurrent
from npuviz.targets.systolic.compiler.tiling.recurrent import steps_at_once

_USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_OF_RNN = {"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid"}
_PEEPHOLES = 7


def _layer_of(lowering: Lowering, node: Node) -> tuple[Recurrence, int]:
    """Return the sizes of a recurrent node and its number of directions. Raises CannotLower if its tensors
    do not fit each other.
    """
    kind = node.op_type
    source, weights, again = (tuple(lowering.tensor(index).shape) for index in node.inputs[:3])
    if not len(source) == len(again) == 3:
        raise CannotLower("weights that do not fit the input", f"{weights} and {again} for {source}")
    (steps, batch, features), (directions, _, hidden) = source, again
    gates = GATES[kind] * hidden
    state = directions, batch, hidden
    wanted = {
        1: (directions, gates, features),
        2: (directions, gates, hidden),
        3: (directions, 2 * gates),
        5: state,
    }
    if kind == "LSTM":
        wanted |= {6: state, _PEEPHOLES: (directions, 3 * hidden)}
    for position, sizes in wanted.items():
        tensor = lowering.input(node, position)
        if tensor >= 0 and (found := tuple(lowering.tensor(tensor).shape)) != sizes:
            raise CannotLower("weights that do not fit the input", f"{found} where {sizes} are expected")
    return Recurrence(kind, steps, batch, features, hidden), directions


def lower_recurrent(lowering: Lowering, node: Node) -> None:
    """Steps of one length with the usual functions, from given states or 0, with peepholes or without."""
    attributes, kind = attributes_of(node), node.op_type
    if attributes.given.get("clip") or attributes.given.get("input_forget"):
        raise CannotLower("a clip, or forget gates coupled with the input's")
    if int(attributes.given.get("layout", 0)):
        raise CannotLower("the batch as the outermost axis", change="layout 0")
    if lowering.input(node, 4) >= 0:
        raise CannotLower("lengths of sequences that are known at run time only")
    source, weights, again = node.inputs[:3]
    bias = lowering.input(node, 3)
    states = [lowering.input(node, position) for position in ((5, 6) if kind == "LSTM" else (5,))]
    peepholes = lowering.input(node, _PEEPHOLES) if kind == "LSTM" else -1
    read = [index for index in (source, weights, again, bias, *states, peepholes) if index >= 0]
    outputs = [index for index in node.outputs if index >= 0]
    lowering.require_floats(node, (*read, *outputs))
    layer, directions = _layer_of(lowering, node)
    item = max(lowering.storage(index).item_bytes for index in read)
    together = steps_at_once(lowering.resources, layer, item)
    if not together:
        raise CannotLower(
            "a direction's weights, inputs and hidden values do not fit the halves of a core",
            f"{lowering.tensor(weights).num_elements + lowering.tensor(again).num_elements:,} weights, "
            f"{layer.steps} steps",
        )
    _require_rows(lowering, read, outputs)
    direction = attributes.text("direction", "forward")
    write_recurrent(
        lowering,
        node,
        RecurrentProblem(
            layer=layer,
            backward=(False, True)[:directions] if direction != "reverse" else (True,),
            functions=_functions(attributes.given.get("activations"), kind, directions),
            is_reset_late=bool(attributes.given.get("linear_before_reset", 0)),
            source=source,
            weights=weights,
            again=again,
            bias=bias,
            states=tuple(states),
            peepholes=peepholes,
            together=together,
        ),
    )


def _require_rows(lowering: Lowering, read: Sequence[int], outputs: Sequence[int]) -> None:
    """Raise CannotLower unless inputs lie row by row, and the hidden values of a result side by side."""
    for index in read:
        if not lowering.storage(index).is_row_major:
            raise CannotLower("an input does not lie row by row in DRAM")
    for index in outputs:
        storage = lowering.storage(index)
        if storage.shape[-1] > 1 and storage.strides()[-1] != storage.item_bytes:
            raise CannotLower("the hidden values of a step do not lie side by side in DRAM")


def _functions(given: Sequence[bytes | str] | None, kind: str, directions: int) -> tuple[str, ...]:
    """The function of an RNN in each direction; those of the others are the usual ones."""
    names = [each.decode() if isinstance(each, bytes) else each for each in given or ()]
    chosen = [name.lower() for name in names] or [name.lower() for name in _USUAL[kind]] * directions
    if kind == "RNN" and len(chosen) == directions and all(name in _OF_RNN for name in chosen):
        return tuple(_OF_RNN[name] for name in chosen)
    if chosen != [name.lower() for name in _USUAL[kind]] * directions:
        raise CannotLower(f"the functions {', '.join(names)}", change=f"{', '.join(_USUAL[kind])}")
    return ("Tanh",) * directions


LOWERINGS = dict.fromkeys(GATES, lower_recurrent)
