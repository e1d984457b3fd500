"""Says what inputs hold that nobody gave and that are not drawn: masks, and lengths of a language model."""

import re
from collections.abc import Iterator, Mapping

Shapes = Mapping[str, tuple[int, ...]]

_MASKED_OUT = "key_padding_mask"
"""Ref: PyTorch, MultiheadAttention: what is true in a mask of this name is left out."""
_TOKENS = ("input_ids", "inputs_embeds", "decoder_input_ids", "query")
"""Names of inputs with the new tokens along axis 1. Ref: transformers; ONNX Runtime, GroupQueryAttention."""
_LENGTHS = {
    "seqlens_k": (1, 1, -1),
    "total_sequence_length": (1, 1, 0),
    "past_sequence_length": (1, 0, 0),
    "current_sequence_length": (0, 1, 0),
}
"""Name of an input -> how often it counts earlier and new tokens, and what is added.

Ref: ONNX Runtime, GroupQueryAttention: seqlens_k is the number of all tokens less one.
"""


def usual_values(shapes: Shapes) -> dict[str, int]:
    """Return name -> what all elements of an input are if nobody gives it, for those that are not drawn.

    Masks let everything through: what random masks leave, an attention over no position even, nobody wants to
    run. Numbers of tokens are those of the shapes: a cache of attention is used as far as it reaches.
    shapes  of all inputs by name
    """
    found = {name: value for name in shapes if (value := _mask(name)) is not None}
    new = next((shapes[name][1] for name in _TOKENS if len(shapes.get(name, ())) > 1), None)
    if new is not None:
        before = next((s[2] for name, s in shapes.items() if name.startswith("past") and len(s) == 4), 0)
        found |= {
            name: old * before + fresh * new + more
            for name, (old, fresh, more) in _LENGTHS.items()
            if name in shapes
        }
    return found


def usual_texts(shapes: Shapes, given: Mapping[str, object]) -> Iterator[str]:
    """Yield for each such input that nobody gave a sentence that says what it holds."""
    for name, value in usual_values(shapes).items():
        if name in given:
            continue
        if name in _LENGTHS:
            says = f"is {value}, as the shapes of tokens and cache have it"
        else:
            says = f"lets everything through ({value} everywhere)"
        yield f"input {name} {says}, since nobody gave it: --input {name}=FILE.npy"


def _mask(name: str) -> int | None:
    words = [word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)]
    if not words or not words[-1].endswith(("mask", "masks")):
        return None
    return 0 if name.lower().endswith(_MASKED_OUT) else 1
