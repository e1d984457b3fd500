from pathlib import Path

import numpy as np
import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.workbench.arguments import (
    parse_exports,
    parse_inputs,
    parse_record,
    parse_settings,
    parse_size,
    read_array,
)


def test_settings_keep_the_later_pair_and_everything_after_the_first_equals_sign() -> None:
    assert parse_settings(["a=1", "b=x=y", "a=2"]) == {"a": "2", "b": "x=y"}
    for bad in ("a", "=1", " =1"):
        with pytest.raises(UsageError, match="KEY=VALUE"):
            parse_settings([bad])


def test_inputs_are_arrays_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(6, dtype=np.float32).reshape(2, 3))
    found = parse_inputs([f"in=put={path}"])
    assert list(found) == ["in=put"]
    assert found["in=put"].shape == (2, 3)
    with pytest.raises(UsageError, match="NAME=FILE"):
        parse_inputs(["x.npy"])


def test_damaged_arrays_are_refused(tmp_path: Path) -> None:
    good = tmp_path / "good.npy"
    np.save(good, np.arange(1000, dtype=np.float64))
    data = good.read_bytes()
    bad = tmp_path / "bad.npy"
    for cut in (0, 5, 20, len(data) - 1):
        bad.write_bytes(data[:cut])
        with pytest.raises(FormatError):
            read_array(bad)
    bad.write_bytes(data.replace(b"(1000,)", b"(10000000000000,)".ljust(7))[: len(data)])
    with pytest.raises(FormatError):
        read_array(bad)
    np.save(bad, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError):
        read_array(bad)
    with pytest.raises(UsageError):
        read_array(tmp_path / "missing.npy")


def test_exports_records_and_sizes() -> None:
    assert parse_exports(["csv:a:b"]) == (("csv", Path("a:b")),)
    assert parse_record(None) == (None, True)
    assert parse_record("none") == (None, False)
    assert parse_record("dir") == (Path("dir"), True)
    assert parse_size("1280x800") == (1280, 800)
    for bad in ("csv", ":x", "csv:"):
        with pytest.raises(UsageError):
            parse_exports([bad])
    for bad in ("1280", "x", "0x800", "99999x800", "-1x5"):
        with pytest.raises(UsageError):
            parse_size(bad)


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f4', 'shape': (2,\n", b"(" * 3000, b"{'descr': " + b" " * 3000]
)
def test_headers_that_are_no_python_are_refused_in_one_short_line(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(FormatError) as caught:
        read_array(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 140
