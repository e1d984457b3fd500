"""Real CNN topologies, random inputs, all tensors against ONNX Runtime.

Their weights are constants, so activations explode or vanish; errors are relative to each tensor's
largest magnitude.
"""

from pathlib import Path

import onnx
import pytest

from npuviz.targets.systolic.check import check
from npuviz.targets.systolic.spec import make_spec
from tests.sweeps import quick
from tests.targets.systolic.true_cases import compile_model

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@quick("squeezenet")
@pytest.mark.parametrize("name", ["resnet50", "shufflenet", "squeezenet"])
def test_light_model_agrees_with_onnx_runtime(name: str) -> None:
    case = compile_model(LIGHT / f"light_{name}.onnx", make_spec()[0], optimize=True)
    assert "Host" not in case.compiled.placement.values()
    result = check(case.engine(), case.graph)
    assert result.num_tensors > 60
    assert result.num_failed == 0, result
    assert result.max_rel_err < 0.1
