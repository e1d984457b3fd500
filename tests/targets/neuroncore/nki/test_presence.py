"""Conditions that ask whether a tile is there."""

import numpy as np
import pytest

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import SECOND, loaded, ran, random

_OPTIONAL = """
class Given:
    index = None

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    given = Given()
    given.index = tile
    CONDITION
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


@pytest.mark.parametrize(
    "condition",
    [
        "if given and given.index:\n        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)",
        "nisa.tensor_scalar(tile, tile, nl.multiply, 2.0 if tile else 1.0)",
        "if not tile:\n        raise ValueError\n    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)",
    ],
)
def test_a_named_tile_as_a_condition_asks_whether_it_is_there(tmp_path, condition) -> None:
    x = random(4, 8)
    _, program = loaded(tmp_path, SECOND + _OPTIONAL.replace("CONDITION", condition), {"x": x})
    assert any("is true because it is there" in each.text for each in program.notes)
    assert np.array_equal(ran(tmp_path, SECOND + _OPTIONAL.replace("CONDITION", condition), {"x": x}), 2 * x)


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        ("if nl.add(tile, 1.0):\n        pass", "err_ambiguous_tensor_truth_value"),
        ("if tile[0:2]:\n        pass", "err_ambiguous_tensor_truth_value"),
        ("one = tile[0:1, 0:1]\n    if one:\n        pass", "err_dynamic_control_flow_not_supported"),
        ("while tile:\n        pass", "err_while_loop_requires_unconditional_entry"),
    ],
)
def test_values_of_tiles_are_no_conditions(tmp_path, condition, name) -> None:
    with pytest.raises(KernelError, match=name):
        loaded(tmp_path, SECOND + _OPTIONAL.replace("CONDITION", condition), {"x": random(4, 8)})
