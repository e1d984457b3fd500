import errno

import pytest

from npuviz.base.errors import (
    ConditionError,
    DoesNotFit,
    ExportError,
    FormatError,
    NpuvizError,
    SimulationError,
    SourceError,
    TargetError,
    UnknownTarget,
    UnsupportedOperator,
    UsageError,
)
from npuviz.workbench.advice import failure_of

ORDINARY: list[Exception] = [
    FormatError("a.onnx", offset=12, expected="protobuf", found="text"),
    UnknownTarget("no machine takes a.txt"),
    UnsupportedOperator("Einsum has no lowering"),
    DoesNotFit("conv1 needs 2 MiB"),
    TargetError("bad"),
    SourceError("pe.csl", 4, 2, "expected ;"),
    ConditionError("cycl 3", (0, 4), "unknown"),
    ExportError("no clocks"),
    UsageError("no such option"),
    OSError(errno.ENOENT, "No such file", "a.onnx"),
    PermissionError(errno.EACCES, "Permission denied", "/x"),
    MemoryError(),
]


@pytest.mark.parametrize("error", ORDINARY, ids=lambda error: type(error).__name__)
def test_what_the_user_can_mend_has_advice_and_no_traceback(error: Exception) -> None:
    try:
        raise error
    except (NpuvizError, OSError, MemoryError) as raised:
        found = failure_of(raised)
    assert "\n" not in found.text
    assert found.details.endswith(".")
    assert "Traceback" not in found.details
    assert not found.is_fault


@pytest.mark.parametrize(
    "error", [SimulationError("two commands"), KeyError("counters"), ZeroDivisionError()]
)
def test_faults_of_npuviz_have_a_traceback_and_a_report(error: Exception) -> None:
    try:
        raise error
    except (SimulationError, KeyError, ZeroDivisionError) as raised:
        found = failure_of(raised)
    assert found.text.startswith("internal error")
    assert "Traceback" in found.details
    assert "test_advice.py" in found.report
    assert found.report.startswith("npuviz ")


def test_a_message_of_several_lines_becomes_one() -> None:
    assert failure_of(UsageError("one\n  two")).text == "one two"
