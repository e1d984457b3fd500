"""Port maps of older SDKs against the same distribution by reshaping."""

import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.host.port_maps import (
    convert_input_tensor,
    format_output_tensor,
    prepare_output_tensor,
)

TILES = "{ A[j=0:5][i=0:7] -> [PE[i//4, j//2] -> \\\n  index[i%4, j%2]] }".replace("\\", "")


def test_tiles_of_a_matrix_with_columns_next_to_each_other():
    matrix = np.arange(48, dtype=np.float32).reshape(6, 8)
    px, py, width, height, count, words = convert_input_tensor(TILES, matrix)
    assert (px, py, width, height, count) == (0, 0, 2, 3, 8)
    expected = matrix.reshape(3, 2, 2, 4).transpose(0, 2, 3, 1)
    assert words.reshape(3, 2, 4, 2).tolist() == expected.tolist()
    assert format_output_tensor(TILES, np.float32, words).tolist() == matrix.tolist()


def test_one_element_of_one_pe():
    text = "{ norm[i=0:0][j=0] -> [PE[1, 0] -> index[i]] }"
    *place, room = prepare_output_tensor(text, np.float32)
    assert place == [1, 0, 1, 1, 1]
    assert (room.dtype, room.size) == (np.float32, 1)


def test_16_bit_elements_take_words():
    words = convert_input_tensor("{ a[i=0:3] -> [PE[i, 0] -> index[0]] }", np.arange(4, dtype=np.int16))[-1]
    assert (words.dtype, words.tolist()) == (np.uint32, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("A -> PE", "expected"),
        ("{ A[i=0:3] -> [PE[i] -> index[i]] }", "two coordinates"),
        ("{ A[i=3:0] -> [PE[i, 0] -> index[i]] }", "empty range"),
        ("{ A[i=0:3] -> [PE[i, k] -> index[i]] }", "not supported"),
        ("{ A[i=0:3] -> [PE[i//0, 0] -> index[i]] }", "division by zero"),
        ("{ A[i=0:3] -> [PE[i, 0)] -> index[i]] }", "list of expressions"),
        ("{ A[i=0:4] -> [PE[i, 0] -> index[0]] }", "describes 5 elements, found 4"),
    ],
)
def test_wrong_maps(text, reason):
    with pytest.raises(UsageError, match=reason):
        convert_input_tensor(text, np.zeros(4, np.float32))
