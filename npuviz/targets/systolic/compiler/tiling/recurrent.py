"""Whether a recurrent layer fits a core as a whole, and for how many steps it makes gates at once."""

from npuviz.onnx.model_form import GATES, Recurrence
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, Resources, ceil_div, round_up

MOST_INSTRUCTIONS = 1 << 17
"""Of a direction: the values of a tile are made in one go, and each is a call of numpy."""
STEP_INSTRUCTIONS = 36
"""Of a step beside its products: an LSTM with peepholes has most."""


def steps_at_once(resources: Resources, layer: Recurrence, item: int) -> int:
    """For how many steps the products with the inputs fit the accumulator at a time; 0 if the layer does not
    fit. item  bytes of an element of inputs and weights

    Weights, inputs and the first state lie in the half of the scratchpad; in that of the accumulator the
    hidden values of all steps, cells, biases, and one row of gates for each step at a time.
    """

    def room(elements: int, size: int = ACC_BYTES) -> int:
        return round_up(elements * size, resources.request_bytes)

    gates, hidden = GATES[layer.kind] * layer.hidden, layer.hidden
    state = layer.batch * hidden
    weights = room(gates * layer.inputs, item) + room(gates * hidden, item)
    vectors = 2 * room(gates, item) + 3 * room(hidden, item) + 2 * room(state, item)
    if weights + vectors + room(layer.steps * layer.batch * layer.inputs, item) > resources.spad_half:
        return 0
    blocks = ceil_div(gates, resources.column_block) * ceil_div(hidden, resources.depth_step(hidden))
    if layer.steps * (2 * blocks + STEP_INSTRUCTIONS) > MOST_INSTRUCTIONS:
        return 0
    left = resources.acc_half - (layer.steps + 4) * room(state) - 2 * room(gates)
    each = room(layer.batch * gates)
    return max(0, min(layer.steps, left // each - 1))
