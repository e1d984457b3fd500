import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.host.sdk_utils import calculate_cycles, input_array_to_u32, memcpy_view
from npuviz.targets.wavelet.host.transfers import (
    MemcpyOrder,
    argument_word,
    put_words,
    words_of,
)

ROW, COLUMN = MemcpyOrder.ROW_MAJOR, MemcpyOrder.COL_MAJOR


def test_orders_of_a_host_array():
    flat = np.arange(2 * 3 * 4, dtype=np.int32)
    row = words_of(flat, (2, 3, 4), ROW, "x")
    assert row[1, 0, 2] == 1 * 12 + 2
    column = words_of(flat, (2, 3, 4), COLUMN, "x")
    # [element][column][row], row fastest
    assert column[1, 2, 3] == 3 * 6 + 2 * 2 + 1


@pytest.mark.parametrize("order", [ROW, COLUMN])
def test_words_come_back(order):
    flat = np.random.default_rng(1).random(24).astype(np.float32)
    back = np.zeros_like(flat)
    put_words(words_of(flat, (2, 3, 4), order, "x"), back, order, "x")
    np.testing.assert_array_equal(back, flat)


def test_not_a_numbers_keep_their_bits():
    words = np.array([0x7FA00001, 0xFFFFFFFF], np.uint32).reshape(1, 1, 2)
    back = np.zeros(2, np.float32)
    put_words(words, back, ROW, "x")
    np.testing.assert_array_equal(back.view(np.uint32), words.ravel())


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros(5, np.float32), "expected 6 elements"),
        (np.zeros(6, np.float64), "32-bit elements"),
        (np.zeros(6, np.int16), "32-bit elements"),
        ([1, 2], "numpy array"),
    ],
)
def test_other_arrays_are_refused(array, text):
    with pytest.raises(UsageError, match=text):
        words_of(array, (1, 2, 3), ROW, "copy to A")


def test_a_source_may_go_on_behind_what_is_sent_a_destination_not():
    given = np.arange(8, dtype=np.float32)
    for order in (ROW, COLUMN):
        np.testing.assert_array_equal(
            words_of(given, (1, 2, 3), order, "x"), words_of(given[:6], (1, 2, 3), order, "x")
        )
    with pytest.raises(UsageError, match="expected 6 elements"):
        put_words(np.zeros((1, 2, 3), np.uint32), given, ROW, "x")


@pytest.mark.parametrize(
    ("value", "kind", "word"),
    [
        (1.0, "f32", 0x3F800000),
        (1, "f32", 0x3F800000),
        (np.float16(6.0), "f16", 0x4600),
        (6.0, "bf16", 0x40C0),
        (-1, "i16", 0xFFFF),
        (np.int16(64), "i16", 64),
        (np.uint32(7), "u32", 7),
    ],
)
def test_words_of_arguments(value, kind, word):
    assert argument_word(value, kind, "x") == word


@pytest.mark.parametrize(("value", "kind"), [(70000, "u16"), (1.5, "i16"), (-1, "u32"), ("a", "f32")])
def test_arguments_that_do_not_fit(value, kind):
    with pytest.raises(UsageError, match="launch"):
        argument_word(value, kind, "launch")


def test_views_of_low_halves():
    words = np.array([0x00050001, 0x00060002], np.uint32)
    np.testing.assert_array_equal(memcpy_view(words, np.dtype(np.int16)), [1, 2])
    memcpy_view(words, np.int16)[:] = 9
    np.testing.assert_array_equal(words, [0x00050009, 0x00060009])


def test_extension_of_16_bit_elements():
    data = np.array([-1, 2, 3], np.int16)
    np.testing.assert_array_equal(input_array_to_u32(data, None, 3), [0xFFFF, 2, 3])
    np.testing.assert_array_equal(input_array_to_u32(data, 1, 3), [0xFFFF, 0x10002, 0x20003])


def test_cycles_between_stamps():
    start, end = 0x1_0002_0003, 0x1_0002_0103
    words = [start & 0xFFFF, start >> 16 & 0xFFFF, start >> 32]
    words += [end & 0xFFFF, end >> 16 & 0xFFFF, end >> 32]
    packed = np.array(words, np.uint16).view(np.float32)
    assert calculate_cycles(packed) == 0x100
