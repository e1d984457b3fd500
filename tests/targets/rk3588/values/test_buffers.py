"""Bytes of buffers and the values that they hold."""

import numpy as np
import pytest

from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.values.buffers import decoded, encoded
from npuviz.targets.rk3588.values.memory import ValueFault


def test_text_has_no_bytes() -> None:
    text = Buffer("x", 0x1000, 64, "row-major", shape=(3,), dtype="string")
    with pytest.raises(ValueFault, match="x is text"):
        encoded(text, np.array(["a", "b", "c"], object))
    with pytest.raises(ValueFault, match="x is text"):
        decoded(text, np.zeros(64, np.uint8))
