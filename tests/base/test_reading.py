import json
import struct
import tokenize
import zlib
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from npuviz.base.errors import Cancelled, FormatError, UsageError
from npuviz.base.reading import LONGEST_REASON, reading


def _tokens():
    list(tokenize.generate_tokens(iter(["((("]).__next__))


@pytest.mark.parametrize(
    "work",
    [
        lambda: zlib.decompress(b"no stream"),
        lambda: json.loads("{"),
        lambda: struct.unpack("I", b""),
        _tokens,
        lambda: pa.array([1 << 40], pa.int32()),
        lambda: np.array([1 << 70], np.int64),
        lambda: "\ud800".encode(),
    ],
)
def test_what_a_library_raises_on_bad_data_is_one_line_with_file_and_member(work):
    with (
        pytest.raises(FormatError, match=r"^x\.npz, member 3: found .+; copy it again$") as caught,
        reading("x.npz", "member 3", "copy it again"),
    ):
        work()
    assert "\n" not in str(caught.value)


def _nested(depth):
    return _nested(depth + 1)


def test_data_that_are_too_deep_are_said_to_be():
    with pytest.raises(FormatError, match="nested too deeply"), reading("x"):
        _nested(0)


@pytest.mark.parametrize(
    ("fault", "work"),
    [
        (KeyError, lambda: {}["name"]),
        (IndexError, lambda: [][1]),
        (TypeError, lambda: len(cast("str", 5))),
        (AttributeError, lambda: cast("Path", None).name),
        (ValueError, lambda: np.zeros(3).reshape(2)),
        (ZeroDivisionError, lambda: 1 // 0),
        (FileNotFoundError, Path("/nothing/there").read_bytes),
        (UsageError, lambda: (_ for _ in ()).throw(UsageError("a"))),
        (Cancelled, lambda: (_ for _ in ()).throw(Cancelled("a"))),
    ],
)
def test_faults_of_our_own_stay_what_they_are(fault, work):
    with pytest.raises(fault), reading("x"):
        work()


def test_reasons_are_short_and_printable():
    with pytest.raises(FormatError) as caught, reading("x"):
        json.loads("\x1b[31m" + "a" * 5000)
    with pytest.raises(FormatError) as long, reading("x"):
        raise pa.ArrowInvalid("a\x1b" * 5000)
    for error in (caught, long):
        assert len(error.value.found) <= LONGEST_REASON
        assert error.value.found.isprintable()
