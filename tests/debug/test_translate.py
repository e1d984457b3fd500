import numpy as np
import pytest

from npuviz.debug import translate
from npuviz.sim.probe import Probe


def test_numbers_by_type() -> None:
    assert translate.numbers(b"\x00\x00\x80\x3f\x00\x00\x00\xc0\x07", "float32").tolist() == [1.0, -2.0]
    assert translate.numbers(b"\x80\x3f", "bfloat16").astype(float).tolist() == [1.0]
    assert translate.numbers(b"\xff", "int8").tolist() == [-1]
    assert translate.numbers(b"", "int64").size == 0
    with pytest.raises(ValueError, match="unknown element type"):
        translate.numbers(b"", "float13")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (np.int8(-3), "-3"),
        (2.0, "2"),
        (0.1, "0.1"),
        (1 / 3, "0.333333"),
        (1e9, "1e+09"),
        (float("nan"), "nan"),
        (np.float32("inf"), "inf"),
        (True, "1"),
        (np.bool_(False), "0"),
    ],
)
def test_format_number(value: object, text: str) -> None:
    assert translate.format_number(value) == text


def test_format_value() -> None:
    assert translate.format_value(np.arange(3)) == "[0 1 2]"
    assert translate.format_value(np.arange(30), 2) == "[0 1 ... (30 elements)]"
    assert translate.format_value(4) == "4"


def test_parse_value() -> None:
    assert translate.parse_value("0x10", Probe("p", "")) == 16
    assert translate.parse_value("1.5", Probe("p", "", dtype="float32")) == 1.5
    array = translate.parse_value("1, 2,3 4", Probe("p", "", (2, 2), "int16"))
    assert (array.dtype, array.tolist()) == (np.int16, [[1, 2], [3, 4]])
    for text, probe, reason in (
        ("1 2", Probe("p", ""), "expected 1 numbers, found 2"),
        ("1.5", Probe("p", ""), "expected an integer"),
        ("300", Probe("p", "", dtype="uint8"), "does not fit uint8"),
        ("x", Probe("p", "", dtype="float32"), "expected a number"),
    ):
        with pytest.raises(ValueError, match=reason):
            translate.parse_value(text, probe)


def test_status_role() -> None:
    assert translate.status_role("busy") == "compute"
    assert translate.status_role("busy", "move-in") == "move-in"
    assert translate.status_role("something new") == "control"
