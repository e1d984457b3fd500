"""Tables of measured layer times."""

from pathlib import Path

import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.layer_times import beside, read_layer_times


def test_names_and_times(tmp_path: Path) -> None:
    table = tmp_path / "net.layers.csv"
    table.write_text("# measured on a board\nid,op,name,time_us\n1,Conv,conv1,12.5\n2,Conv,conv2,8\n")
    assert read_layer_times(table) == {"conv1": 12.5, "conv2": 8.0}
    assert beside(tmp_path / "net.onnx") == table
    assert beside(tmp_path / "other.onnx") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,us\na,1\n", "time_us"),
        ("", "columns"),
        ("name,time_us\na,fast\n", "row 1"),
        ("name,time_us\na,1\nb,-3\n", "row 2"),
        ("name,time_us\na,nan\n", "microseconds"),
        ("name,time_us\na\n", "row 1"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    table = tmp_path / "bad.csv"
    table.write_text(text)
    with pytest.raises(FormatError, match=said) as caught:
        read_layer_times(table)
    assert "\n" not in str(caught.value)
