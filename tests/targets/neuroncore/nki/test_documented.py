"""Every documented function of NKI is there, takes its parameters and runs; what does not is listed here."""

import pytest

from benchmarks.nki_documented import Function, documented, problem
from tests.sweeps import quick

NOT_SIMULATED = {"builtin_custom_op": "runs compiled C on GpSimd"}


@quick("nki*")
@pytest.mark.parametrize("module", sorted({each.module for each in documented()}))
def test_documented_functions_run(tmp_path, module) -> None:
    found = {each.name: problem(each, tmp_path) for each in documented() if each.module == module}
    for name, said in found.items():
        wanted = NOT_SIMULATED.get(name, "") if module.startswith("neuronxcc") else ""
        assert wanted in said if wanted else not said, f"{name}: {said}"


def test_what_does_not_run_is_told(tmp_path) -> None:
    assert "is not in the public documentation" in problem(Function("nki.isa", "nothing", ()), tmp_path)
    assert problem(Function("nki.isa", "max8", ("dst", "other")), tmp_path) == "does not take other"
